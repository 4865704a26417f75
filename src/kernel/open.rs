//! The open table: everything that is open in a session, by ticket. A ticket is named by the seq of the entry that opened it.
//!
//! Only [`State::apply`](crate::kernel::State::apply) puts tickets in and takes them out (in `apply.rs`, the files below it,
//! `back.rs`, `branch.rs` and `question.rs`). The types are part of the state and so of every anchor on a tape: do not rename or
//! retype a field or a variant, and give each new field a serde default.
//!
//! A request must be made again byte for byte after a crash. So [`OpenRequest`] keeps prompt, parameters and tool names as they
//! were; settings that change later must not reach it. The descriptions of the tools are those of the present host.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        CallGate, Charge, FellBack, OpenBranch, OpenBudgetAsk, OpenCompaction, OpenTask, OpenTaskAsk, Prefix, Prepared,
        Reserve,
    },
    model::{Params, Price},
    permission::{Offer, offers},
    tool::{Access, CallFacts, Question, QuestionAnswer},
    words::{
        ids::{CallId, Millis, Seq},
        message::ModelRef,
    },
};

/// Something open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "open", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Open {
    /// A model request.
    Request(OpenRequest),
    /// A call.
    Call(OpenCall),
    /// A question to a person, about a call that has not started, or of a call that runs.
    Ask(OpenAsk),
    /// A question to a person, for more of a budget.
    BudgetAsk(OpenBudgetAsk),
    /// A wait before a retry.
    Wait(OpenWait),
    /// A summary of the older conversation that is being written. It belongs to the session, not to the turn.
    Compaction(OpenCompaction),
    /// A summary of a branch that is being written. The host's side has it written; the session starts no worker for it.
    Branch(OpenBranch),
    /// A task of a child. It belongs to the session, and outlives the turn.
    Task(OpenTask),
    /// A child's question to a person. It belongs to the task.
    TaskAsk(OpenTaskAsk),
}

impl Open {
    /// What counts as used for the ticket's model request if its worker is lost and never reports: all that was reserved.
    pub(super) fn lost(&self) -> Option<Charge> {
        let (reserved, price) = match self {
            Open::Request(open) => (open.reserved, open.price),
            Open::Compaction(open) => (open.reserved, open.price),
            Open::Branch(open) => (open.reserved, open.price),
            _ => return None,
        };
        Some(reserved.lost(price.as_ref()))
    }
}

/// An open model request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenRequest {
    /// The model that answers.
    pub model: ModelRef,
    /// 1 for the first try.
    pub attempt: u32,
    /// The model in whose place it is asked, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<FellBack>,
    /// Whether a budget has it asked in the place of a model that it does not allow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) instead: bool,
    /// Whether it is the last that the turn may make.
    pub last: bool,
    /// Whether it was told to stop.
    pub closing: bool,
    /// Our estimate of its tokens.
    pub(crate) estimated: u64,
    /// The price of the model's tokens; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The tokens that are reserved for the request.
    pub(crate) reserved: Reserve,
    /// Hash of all that determines the bytes of the request.
    pub(crate) hash: String,
    /// The system prompt as it was when the request was made: settings that change meanwhile are for the next one.
    pub(crate) system: Arc<str>,
    /// Sampling and limits, as they were when the request was made.
    pub(crate) params: Params,
    /// The tools that the agent had when the request was made; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<BTreeSet<String>>,
    /// The tools that it does not offer because the rules denied them in full.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) masked: BTreeSet<String>,
    /// Why the answer before did not fit its schema, where this request asks for it once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) misfit: Option<Arc<str>>,
    /// What it begins with, for the question whether it came from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<Arc<Prefix>>,
    /// What hooks made of it; `None` as long as none has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prepared: Option<Arc<Prepared>>,
}

/// An open call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenCall {
    /// The id that the model gave to it.
    pub id: CallId,
    /// The facts that its tool told of the call: which tool, what access it wants, its effect.
    #[serde(flatten)]
    pub facts: CallFacts,
    /// Its arguments, as received.
    pub input: Arc<str>,
    /// How far the call is.
    pub state: CallState,
    /// Whether a person said that the call may run. If so, nobody is asked again before it runs again.
    pub granted: bool,
    /// If the call ends the third round of a cycle of calls, or a later one: how many calls the cycle has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cycle: Option<u32>,
    /// Whether an earlier answer repeated the same, and its call was refused for it: then the turn ends if this one is refused too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) told: bool,
    /// How often the call was started so far.
    pub attempts: u32,
    /// The most bytes that the result may have; `None` where no budget limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Whether it was started confined by the kernel to what the rules allow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confined: bool,
    /// The answers to the questions that the call asked while it ran, oldest first; at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) answers: Vec<CallAnswer>,
    /// What hooks said of it, where one held it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gate: Option<Arc<CallGate>>,
}

impl OpenCall {
    /// The facts of the call if its tool now tells `told`. A call that has begun keeps the stricter effect: the one that it began
    /// with, or the present one.
    pub(super) fn facts_now(&self, told: &CallFacts) -> CallFacts {
        let effect = if self.attempts > 0 { told.effect.max(self.facts.effect) } else { told.effect };
        CallFacts { effect, ..told.clone() }
    }
}

/// How far an open call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallState {
    /// Waits to be judged and started.
    Pending,
    /// A person is asked; the ask's ticket.
    Asking(Seq),
    /// Allowed by a person, and waits to be started.
    Allowed,
    /// Running.
    Running,
    /// Told to stop, not down yet.
    Closing,
}

/// An open question to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenAsk {
    /// The call it is about.
    pub call: Seq,
    /// What is asked about: all that the call wants, and of a shell command the parts that need an answer.
    pub access: Vec<Access>,
    /// When the ask expires and the call is denied.
    pub expires: Millis,
    /// The question that the running call asks ([`ToolContext::ask`](crate::tool::ToolContext::ask)); `None` where the ask is about
    /// the call itself, which has not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Arc<Question>>,
}

impl OpenAsk {
    /// What a person may allow for more than this call, from narrow to wide.
    #[must_use]
    pub fn offers(&self) -> Vec<Offer> {
        offers(&self.access)
    }
}

/// An open wait before a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenWait {
    /// 1 for the first retry.
    pub attempt: u32,
    /// The earliest moment of the retry.
    pub until: Millis,
    /// Whether the server asked for the wait. If so, no message cuts it short.
    pub server: bool,
}

/// The answer to a question of an open call. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallAnswer {
    /// The ticket that the question had.
    pub(crate) ask: Seq,
    /// Names the question: a hash of its texts and accesses.
    pub(crate) question: String,
    /// The answer.
    pub(crate) answer: QuestionAnswer,
}
