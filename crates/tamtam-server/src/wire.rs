//! The JSON that clients send, read into the library's values.
//!
//! What comes in is strict: an unknown field is refused, because a misspelt `delivery` must not become a queued message. A change
//! must keep every name here: clients in other languages have them.

use std::collections::BTreeMap;

use serde::Deserialize;
use tamtam::{
    Delivery, Message, MessageId, Part, Steering,
    model::MicroUsd,
    session::{Budget, Grant, Limits, OnBreach, Scope},
};

use crate::problem::{Answered, Problem};

/// A message that a client sends.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NewMessage {
    /// Its id, by which it is taken once; a new one if none is given.
    pub id: Option<String>,
    /// Its text; or `parts`.
    pub text: Option<String>,
    /// Its parts: texts, files and mentioned agents.
    pub parts: Option<Vec<Part>>,
    /// The agent that answers it.
    pub agent: Option<String>,
    /// The model that answers it, as `provider/model`.
    pub model: Option<String>,
    /// Tools that are switched on or off for its turn.
    pub tools: BTreeMap<String, bool>,
    /// `queue`, `steer` or `reject`.
    pub delivery: Option<String>,
    /// With `steer`: `skip_remaining`, `finish_batch` or `abort_running`.
    pub steering: Option<String>,
    /// The turn that must be running.
    pub expect_turn: Option<u64>,
    /// Whether it waits for a place where the queue is full.
    pub when_room: bool,
}

impl NewMessage {
    /// The message itself.
    pub(crate) fn message(&self) -> Answered<Message> {
        let mut message = match (&self.text, &self.parts) {
            (Some(text), None) => Message::user(text.clone()),
            (None, Some(parts)) => {
                if !parts.iter().all(|part| matches!(part, Part::Text(_) | Part::File(_) | Part::Agent(_))) {
                    return Err(Problem::invalid("a client's message has parts of the types text, file and agent"));
                }
                let mut message = Message::user("");
                message.parts = parts.clone();
                message
            }
            _ => return Err(Problem::invalid("a message has either `text` or `parts`")),
        };
        match self.id.as_deref() {
            Some("") => {
                return Err(Problem::invalid("the id of a message is empty: leave it out, or give it 1 to 256 bytes"));
            }
            Some(id) => message = message.with_id(MessageId::from(id)),
            None => {}
        }
        message.agent.clone_from(&self.agent);
        message.model = self.model.as_deref().map(str::parse).transpose()?;
        message.tools.clone_from(&self.tools);
        Ok(message)
    }

    /// What becomes of it where the session is busy.
    pub(crate) fn delivery(&self) -> Answered<Delivery> {
        delivery(self.delivery.as_deref(), self.steering.as_deref())
    }
}

/// Reads `delivery` and `steering`.
pub(crate) fn delivery(delivery: Option<&str>, steering: Option<&str>) -> Answered<Delivery> {
    let steering = match steering {
        _ if steering.is_some() && delivery != Some("steer") => {
            return Err(Problem::invalid("`steering` needs the delivery `steer`"));
        }
        None | Some("skip_remaining") => Steering::SkipRemaining,
        Some("finish_batch") => Steering::FinishBatch,
        Some("abort_running") => Steering::AbortRunning,
        Some(_) => return Err(Problem::invalid("`steering` is skip_remaining, finish_batch or abort_running")),
    };
    match delivery {
        None | Some("queue") => Ok(Delivery::Queue),
        Some("steer") => Ok(Delivery::Steer(steering)),
        Some("reject") => Ok(Delivery::Reject),
        Some(_) => Err(Problem::invalid("`delivery` is queue, steer or reject")),
    }
}

/// Limits as clients write them: money in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NewLimits {
    /// Tokens of all kinds.
    pub tokens: Option<u64>,
    /// Money.
    pub micro_usd: Option<u64>,
    /// The time that turns run.
    pub time_ms: Option<u64>,
    /// Tool calls.
    pub calls: Option<u64>,
    /// Tasks.
    pub tasks: Option<u64>,
    /// Bytes of results.
    pub bytes: Option<u64>,
}

impl NewLimits {
    /// The library's value.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let NewLimits { tokens, micro_usd, time_ms, calls, tasks, bytes } = *self;
        let mut limits = Limits::default();
        (limits.tokens, limits.usd) = (tokens, micro_usd.map(|amount| MicroUsd(amount).to_pico()));
        (limits.time_ms, limits.calls, limits.tasks, limits.bytes) = (time_ms, calls, tasks, bytes);
        limits
    }
}

/// A budget, or a change of one: what is left out stays as it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NewBudget {
    /// What the session may use in all.
    pub session: Option<NewLimits>,
    /// What each turn may use.
    pub turn: Option<NewLimits>,
    /// What happens where a limit is reached.
    pub on_breach: Option<OnBreach>,
}

impl NewBudget {
    /// Changes a budget to this one.
    pub fn apply(&self, budget: &mut Budget) {
        if let Some(session) = &self.session {
            budget.session = session.limits();
        }
        if let Some(turn) = &self.turn {
            budget.turn = turn.limits();
        }
        if let Some(on_breach) = &self.on_breach {
            budget.on_breach = on_breach.clone();
        }
    }
}

/// A person's answer to an ask.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AnswerJson {
    grant: String,
    scope: Option<Scope>,
    offer: Option<u32>,
    message: Option<String>,
    by: Option<NewLimits>,
    pub(crate) who: Option<String>,
    pub(crate) digest: Option<String>,
}

impl AnswerJson {
    pub(crate) fn grant(&self) -> Answered<Grant> {
        let AnswerJson { grant, scope, offer, message, by, .. } = self;
        let needs = |field, what| Err(Problem::invalid(format!("`{field}` needs the grant `{what}`")));
        match grant.as_str() {
            what if what != "always" && (scope.is_some() || offer.is_some()) => needs("scope` and `offer", "always"),
            what if what != "reject" && message.is_some() => needs("message", "reject"),
            what if what != "raise" && by.is_some() => needs("by", "raise"),
            "once" => Ok(Grant::Once),
            "always" => {
                let scope = scope.unwrap_or_default();
                Ok(offer.map_or(Grant::Always(scope), |offer| Grant::Offered { scope, offer }))
            }
            "reject" => Ok(Grant::Reject(message.clone())),
            "unheard" => Ok(Grant::Unheard),
            "raise" => match by {
                Some(by) => Ok(Grant::Raise(by.limits())),
                None => Err(Problem::invalid("the grant `raise` needs `by`: how much each limit is raised by")),
            },
            _ => Err(Problem::invalid("`grant` is once, always, reject, raise or unheard")),
        }
    }

    /// Whether it lets the session use more than its budget: that is an operator's.
    pub(crate) fn is_of_more(&self) -> bool {
        matches!(self.grant.as_str(), "once" | "always" | "raise")
    }
}
