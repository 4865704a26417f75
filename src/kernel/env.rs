//! The values of the host and the shell that a decision may read beside the state, such as windows and prices of models; and what
//! an entry says of the input that wrote it ([`Recorded`]), with the values that were read.
//!
//! Replay must hand each decision what it read, so each value that had an influence is on the tape. The state holds the newest
//! values that the tape has ([`EnvSeen`]). Where a decision reads a different value, the first entry that the reading input wrote
//! says so; an unchanged value is not written again. Three values are treated otherwise: rules of the host get an entry of their
//! own, the jitter is noted each time it is read, and the compiled globs have no influence.
//!
//! A new value in [`Env`] needs a field with a serde default in [`EnvSeen`], a method of [`Reader`] that notes it, a line in
//! [`EnvSeen::learn`], and its place in `ops/replay/decision.rs`, which hands it in again; otherwise replay goes wrong.
//! Implementations of [`Windows`] must be pure and must not wait.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    kernel::context::{Window, of_text},
    model::Price,
    permission::{Globs, Ruleset},
    tool::Toolbox,
    words::{
        ids::{CommandId, Seq},
        is_default,
        message::ModelRef,
    },
};

/// The values beside the state that a decision may read. The shell hands them in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env<'a> {
    /// The compiled globs of permission rules: a cache that does not influence a decision.
    pub globs: &'a Globs,
    /// The rules of the host; `None` where it has none. If the tape has others, the decision first writes these, and goes by these.
    pub host_rules: Option<&'a Ruleset>,
    /// Hash of the tools as models are told of them.
    pub toolbox_hash: &'a str,
    /// The size of the tools in a request, in estimated tokens.
    pub tools_tokens: u64,
    /// The permissions that the tools need, by which the rules mask tools.
    pub permissions: &'a BTreeMap<String, Vec<String>>,
    /// The windows and prices of models.
    pub windows: &'a dyn Windows,
    /// Whether anybody listens who could answer an ask.
    pub asks_are_heard: bool,
    /// A random number from 0 up to 1 that the shell draws anew for each decision, for the jitter of retries.
    pub jitter: f64,
}

/// The size of the tools in a request, in estimated tokens, without those that must be found first.
#[must_use]
pub(crate) fn tools_tokens(toolbox: &Toolbox) -> u64 {
    let now = toolbox.without_deferred();
    of_text(&String::from_utf8_lossy(&now.told()))
}

/// The windows and prices of models. Pure: within one runtime the same name always gives the same answer.
pub(crate) trait Windows: std::fmt::Debug {
    /// The window of a model, and the price of its tokens.
    fn seen(&self, model: &ModelRef) -> ModelSeen;
}

/// One window for every model, without prices.
impl Windows for Window {
    fn seen(&self, _: &ModelRef) -> ModelSeen {
        ModelSeen { window: *self, price: None }
    }
}

/// Values of `Env` that were read: those read for one input, or the newest of a tape. A stored format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EnvSeen {
    /// Models, by `provider/name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) models: BTreeMap<String, ModelSeen>,
    /// The tools; `None` where they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<ToolsSeen>,
    /// The permissions of each tool that the rules masked (denied in full, so that it was not offered); an empty list for a tool
    /// that is gone since. Tools that were never masked are left out, so that a session without such rules pays nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) permissions: BTreeMap<String, Vec<String>>,
    /// Whether anybody listened who could answer an ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heard: Option<bool>,
    /// The jitter that was read, in millionths. No later decision uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jitter: Option<u32>,
}

/// A model as a decision saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelSeen {
    /// Its window, as the host knows it.
    pub(crate) window: Window,
    /// The price of the model's tokens; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price: Option<Price>,
}

/// The tools as a decision saw them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolsSeen {
    /// Hash of what models are told of them.
    pub(crate) hash: String,
    /// What they take in a request, in estimated tokens.
    pub(crate) tokens: u64,
}

/// The jitter is written in millionths of 1.
pub(super) const MILLION: f64 = 1_000_000.0;

/// A recorded jitter as [`Env`] takes it, for replay: written again, it gives the same number of millionths.
pub(crate) fn jitter_of(millionths: u32) -> f64 {
    (f64::from(millionths) + 0.5) / MILLION
}

/// What an entry says of the input that wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recorded {
    /// The kind of input.
    pub(crate) is: String,
    /// The id of a command that was done; `None` for any other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<CommandId>,
    /// The entry that the command's sender was told, if it is another entry than the one with this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) done: Option<Seq>,
    /// Only for a report: whether it was recorded without what follows from the state, because a later input of the same append
    /// decided about all that was open.
    #[serde(default, rename = "held", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_recorded_only: bool,
    /// The values of `Env` that were read and that the tape did not have before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) env: EnvSeen,
    /// The values of the input that stand in none of its entries.
    #[serde(flatten)]
    pub(crate) fields: Map<String, Value>,
}

impl EnvSeen {
    /// Takes over values that were read later. The jitter is not kept.
    pub(crate) fn learn(&mut self, later: &EnvSeen) {
        self.models.extend(later.models.iter().map(|(model, seen)| (model.clone(), *seen)));
        if later.tools.is_some() {
            self.tools.clone_from(&later.tools);
        }
        self.permissions.extend(later.permissions.clone());
        self.heard = later.heard.or(self.heard);
    }
}

impl Recorded {
    /// The description of an input of this kind whose values all stand in its entries.
    #[must_use]
    pub(crate) fn new(is: &str) -> Recorded {
        Recorded { is: is.to_owned(), ..Recorded::default() }
    }
}

/// The reader of [`Env`] for the rules of the core. It notes each value that is read and that the tape does not have yet. Two are
/// not noted: the compiled globs, which have no influence, and the host's rules, which get an entry (`look_at_host`).
pub(super) struct Reader<'a> {
    env: &'a Env<'a>,
    read: RefCell<EnvSeen>,
    jitter: Cell<Option<u32>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(env: &'a Env<'a>) -> Reader<'a> {
        Reader { env, read: RefCell::default(), jitter: Cell::new(None) }
    }

    /// The values that were read since the last `take` and that the tape does not have yet.
    pub(super) fn take(&self) -> EnvSeen {
        EnvSeen { jitter: self.jitter.take(), ..self.read.take() }
    }

    /// The compiled globs of permission rules. Not noted: they have no influence on a decision.
    pub(super) fn globs(&self) -> &'a Globs {
        self.env.globs
    }

    /// The rules of the host. Not noted: where they differ from the tape's, an entry says so.
    pub(super) fn host_rules(&self) -> Option<&'a Ruleset> {
        self.env.host_rules
    }

    pub(super) fn model(&self, known: &EnvSeen, model: &ModelRef) -> ModelSeen {
        let seen = self.env.windows.seen(model);
        // There are one or two, so they are looked through without making the text of the name.
        let known = known.models.iter().find(|(name, _)| model.is_written(name));
        if known.map(|(_, seen)| *seen) != Some(seen) {
            self.read.borrow_mut().models.insert(model.to_string(), seen);
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

    /// The tools that are masked: not offered, because the rules deny them in full. Noted are the permissions of each masked tool,
    /// and of each tool whose permissions the tape has already, where they differ from the tape's.
    pub(super) fn masked(&self, known: &EnvSeen, is_masked: impl Fn(&str, &[String]) -> bool) -> BTreeSet<String> {
        let tools = self.env.permissions;
        let masked = tools.iter().filter(|(tool, needed)| is_masked(tool, needed));
        let masked: BTreeSet<String> = masked.map(|(tool, _)| tool.clone()).collect();
        let mut read = self.read.borrow_mut();
        for tool in masked.iter().chain(known.permissions.keys()) {
            let now = tools.get(tool).cloned().unwrap_or_default();
            if known.permissions.get(tool) != Some(&now) {
                read.permissions.insert(tool.clone(), now);
            }
        }
        masked
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

    /// The jitter, rounded down to whole millionths, as the tape writes it. It is noted whenever it is read.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and a million")]
    pub(super) fn jitter(&self) -> f64 {
        let drawn = (self.env.jitter.clamp(0.0, 1.0) * MILLION) as u32;
        self.jitter.set(Some(drawn));
        f64::from(drawn) / MILLION
    }
}
