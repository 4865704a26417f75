//! The values of the host that a decision may read beside the state.

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
