//! The values of the host that a decision may read beside the state.
//!
//! A decision is handed all of [`Env`], and reads little of it. Each value that it read is on the tape: the state holds what the
//! tape says last ([`EnvSeen`]), and where a decision reads something else, its first entry says so. So a replay hands each decision
//! what it read, and the tape says nothing twice.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::context::{Window, of_text},
    model::Price,
    permission::{Globs, Ruleset},
    tool::Toolbox,
    words::message::ModelRef,
};

/// What a decision may look at beside the state: values that the shell hands in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env<'a> {
    /// The globs of rules, compiled once.
    pub globs: &'a Globs,
    /// The rules of the host. Where the tape has others, the decision says so first, and goes by these.
    pub host_rules: Option<&'a Ruleset>,
    /// Hash of the tools as models are told of them.
    pub toolbox_hash: &'a str,
    /// What the tools take in a request, in estimated tokens.
    pub tools_tokens: u64,
    /// The windows of models.
    pub windows: &'a dyn Windows,
    /// Whether anybody listens who could answer an ask.
    pub asks_are_heard: bool,
    /// A number from 0 up to 1, anew for each decision, for jitter.
    pub jitter: f64,
}

/// What tools take in a request, in estimated tokens.
#[must_use]
pub(crate) fn tools_tokens(toolbox: &Toolbox) -> u64 {
    of_text(&String::from_utf8_lossy(&toolbox.told()))
}

/// Knows how much models take, and what they cost. Pure: the same name always gives the same window, for one runtime.
pub(crate) trait Windows: std::fmt::Debug {
    /// The window of a model.
    fn window(&self, model: &ModelRef) -> Window;

    /// What the model's tokens cost; `None` where that is not known.
    fn price(&self, model: &ModelRef) -> Option<Price> {
        let _ = model;
        None
    }
}

/// Every model takes the same.
impl Windows for Window {
    fn window(&self, _: &ModelRef) -> Window {
        *self
    }
}

/// Values of `Env` that were read: those of one decision, or the newest of a tape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvSeen {
    /// Models, by `provider/name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelSeen>,
    /// The tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsSeen>,
    /// Whether anybody listened who could answer an ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<bool>,
    /// What was drawn for jitter, in millionths. No later decision goes by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<u32>,
}

/// A model as a decision saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSeen {
    /// Its window, as the host knows it.
    pub window: Window,
    /// What its tokens cost, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// The tools as a decision saw them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsSeen {
    /// Hash of what models are told of them.
    pub hash: String,
    /// What they take in a request, in estimated tokens.
    pub tokens: u64,
}

impl EnvSeen {
    /// Puts what was read later over this.
    pub(crate) fn learn(&mut self, later: &EnvSeen) {
        self.models.extend(later.models.iter().map(|(model, seen)| (model.clone(), *seen)));
        if later.tools.is_some() {
            self.tools.clone_from(&later.tools);
        }
        self.heard = later.heard.or(self.heard);
    }
}

/// [`Env`] under the eyes of a decision: notes what is read of it, where the tape does not say so.
pub(super) struct Reader<'a> {
    env: &'a Env<'a>,
    read: RefCell<EnvSeen>,
    jitter: Cell<Option<u32>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(env: &'a Env<'a>) -> Reader<'a> {
        Reader { env, read: RefCell::default(), jitter: Cell::new(None) }
    }

    /// What was read since this was asked last, and the tape did not say.
    pub(super) fn take(&self) -> EnvSeen {
        EnvSeen { jitter: self.jitter.take(), ..self.read.take() }
    }

    pub(super) fn globs(&self) -> &'a Globs {
        self.env.globs
    }

    pub(super) fn host_rules(&self) -> Option<&'a Ruleset> {
        self.env.host_rules
    }

    pub(super) fn model(&self, known: &EnvSeen, model: &ModelRef) -> ModelSeen {
        let seen = ModelSeen { window: self.env.windows.window(model), price: self.env.windows.price(model) };
        let name = model.to_string();
        if known.models.get(&name) != Some(&seen) {
            self.read.borrow_mut().models.insert(name, seen);
        }
        seen
    }

    fn tools(&self, known: &EnvSeen) {
        let is_known = |seen: &ToolsSeen| seen.hash == self.env.toolbox_hash && seen.tokens == self.env.tools_tokens;
        let mut read = self.read.borrow_mut();
        if read.tools.is_none() && !known.tools.as_ref().is_some_and(is_known) {
            let (hash, tokens) = (self.env.toolbox_hash.to_owned(), self.env.tools_tokens);
            read.tools = Some(ToolsSeen { hash, tokens });
        }
    }

    pub(super) fn toolbox_hash(&self, known: &EnvSeen) -> &'a str {
        self.tools(known);
        self.env.toolbox_hash
    }

    pub(super) fn tools_tokens(&self, known: &EnvSeen) -> u64 {
        self.tools(known);
        self.env.tools_tokens
    }

    pub(super) fn asks_are_heard(&self, known: &EnvSeen) -> bool {
        let heard = self.env.asks_are_heard;
        if known.heard != Some(heard) {
            self.read.borrow_mut().heard = Some(heard);
        }
        heard
    }

    /// The number for jitter, as it is written: in whole millionths.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and a million")]
    pub(super) fn jitter(&self) -> f64 {
        let drawn = (self.env.jitter.clamp(0.0, 1.0) * MILLION) as u32;
        self.jitter.set(Some(drawn));
        f64::from(drawn) / MILLION
    }
}

const MILLION: f64 = 1_000_000.0;

/// The jitter that was drawn, as [`Env`] takes it: what is written of it again is the same.
pub(crate) fn jitter_of(millionths: u32) -> f64 {
    (f64::from(millionths) + 0.5) / MILLION
}
