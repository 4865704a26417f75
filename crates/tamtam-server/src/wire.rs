//! The JSON that clients send, read into the library's values.
//!
//! What comes in is strict: an unknown field is refused, because a misspelt `delivery` must not become a queued message. A change
//! must keep every name here: clients in other languages have them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;
use tamtam::{
    Delivery, Message, MessageId, Part, Steering,
    model::{AnswerSchema, MicroUsd, Params},
    session::{Budget, Grant, Limits, OnBreach, Scope},
};

use crate::problem::{Answered, Problem};

/// Reads an object where an object is meant: its fields could be read from a list too, as those of a body could.
pub(crate) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    let Some(value) = Option::<Value>::deserialize(from)? else { return Ok(None) };
    read(value).map(Some).map_err(D::Error::custom)
}

/// As [`object`], for a list of objects.
fn objects<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    let Some(values) = Option::<Vec<Value>>::deserialize(from)? else { return Ok(None) };
    values.into_iter().map(read).collect::<Result<_, _>>().map(Some).map_err(D::Error::custom)
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    if value.is_array() {
        return Err(serde_json::Error::custom("a list is in the place of an object"));
    }
    serde_json::from_value(value)
}

/// A message that a client sends.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NewMessage {
    /// Its id, by which it is taken once; a new one if none is given.
    pub id: Option<String>,
    /// Its text; or `parts`.
    pub text: Option<String>,
    /// Its parts: texts, files and mentioned agents.
    #[serde(deserialize_with = "objects")]
    pub parts: Option<Vec<Part>>,
    /// The agent that answers it.
    pub agent: Option<String>,
    /// The model that answers it, as `provider/model`.
    pub model: Option<String>,
    /// Tools that are switched on or off for its turn.
    pub tools: BTreeMap<String, bool>,
    /// What becomes of it where the session is busy; by default it waits for a turn of its own.
    pub delivery: Option<NewDelivery>,
    /// With `steer`: what becomes of the calls of the running step.
    pub steering: Option<Steering>,
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
        if let Some(id) = &self.id {
            message = message.with_id(message_id(id)?);
        }
        message.agent.clone_from(&self.agent);
        message.model = self.model.as_deref().map(str::parse).transpose()?;
        message.tools.clone_from(&self.tools);
        Ok(message)
    }

    /// What becomes of it where the session is busy.
    pub(crate) fn delivery(&self) -> Answered<Delivery> {
        delivery(self.delivery, self.steering)
    }
}

/// The longest id of a message, in bytes.
const MESSAGE_ID_MAX: usize = 256;

/// Reads the id of a message.
pub(crate) fn message_id(id: &str) -> Answered<MessageId> {
    match id {
        "" => Err(Problem::invalid("the id of a message is empty: leave it out, or give it 1 to 256 bytes")),
        id if id.len() > MESSAGE_ID_MAX => {
            Err(Problem::invalid(format!("the id of a message has {} bytes: give it 1 to 256 bytes", id.len())))
        }
        id if id.contains('\0') => {
            Err(Problem::invalid("the id of a message has the character NUL: give it others, or leave it out"))
        }
        id => Ok(MessageId::from(id)),
    }
}

/// What becomes of a message where the session is busy, as clients write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NewDelivery {
    /// It gets a turn of its own, after the running one.
    Queue,
    /// It joins the running turn.
    Steer,
    /// It is refused.
    Reject,
}

/// Reads `delivery` and `steering` together.
pub(crate) fn delivery(delivery: Option<NewDelivery>, steering: Option<Steering>) -> Answered<Delivery> {
    match (delivery, steering) {
        (Some(NewDelivery::Steer), steering) => Ok(Delivery::Steer(steering.unwrap_or(Steering::SkipRemaining))),
        (_, Some(_)) => Err(Problem::invalid("`steering` needs the delivery `steer`")),
        (None | Some(NewDelivery::Queue), None) => Ok(Delivery::Queue),
        (Some(NewDelivery::Reject), None) => Ok(Delivery::Reject),
    }
}

/// Limits as clients write them: money in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
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

/// What is asked of a session's model; what is left out is the host's choice, or that of the agent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NewParams {
    /// How much the model thinks: off, minimal, low, medium, high or xhigh.
    pub thinking: Option<String>,
    /// Sampling temperature, from 0 to 2.
    pub temperature: Option<f32>,
    /// Nucleus sampling, from 0 to 1.
    pub top_p: Option<f32>,
    /// The most tokens of an answer, 1 or more.
    pub max_output: Option<u64>,
    /// A JSON schema that the final answer of each turn must fit.
    pub answer_schema: Option<Value>,
}

impl NewParams {
    /// Changes parameters to these. The session that is made with them checks their bounds.
    pub(crate) fn apply(&self, params: &mut Params) -> Answered<()> {
        let thinking = self.thinking.as_deref().map(str::parse).transpose().map_err(Problem::invalid)?;
        let schema = self.answer_schema.clone().map(AnswerSchema::new).transpose().map_err(Problem::invalid)?;
        params.thinking = thinking.or(params.thinking);
        params.answer_schema = schema.or(params.answer_schema.take());
        params.temperature = self.temperature.or(params.temperature);
        params.top_p = self.top_p.or(params.top_p);
        params.max_output = self.max_output.or(params.max_output);
        Ok(())
    }
}

/// A budget, or a change of one: what is left out stays as it is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NewBudget {
    /// What the session may use in all.
    #[serde(deserialize_with = "object")]
    pub session: Option<NewLimits>,
    /// What each turn may use.
    #[serde(deserialize_with = "object")]
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

/// What a person answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum GrantName {
    /// This once.
    Once,
    /// For longer: `scope` says how long, and `offer` what.
    Always,
    /// No; `message` is for the model.
    Reject,
    /// More of the budget: `by` how much.
    Raise,
    /// Nobody was there to be asked.
    Unheard,
}

/// A person's answer to an ask.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewAnswer")]
pub(crate) struct AnswerJson {
    grant: GrantName,
    /// How long `always` reaches; for the session by default.
    #[serde(default)]
    scope: Option<Scope>,
    /// The number of the offer that is taken.
    #[serde(default)]
    offer: Option<u32>,
    /// What the model is told of a rejection.
    #[serde(default)]
    message: Option<String>,
    /// How much each limit is raised by.
    #[serde(default, deserialize_with = "object")]
    by: Option<NewLimits>,
    /// Who answers.
    #[serde(default)]
    pub(crate) who: Option<String>,
    /// The digest of what was shown.
    #[serde(default)]
    pub(crate) digest: Option<String>,
}

impl AnswerJson {
    pub(crate) fn grant(&self) -> Answered<Grant> {
        let AnswerJson { grant, scope, offer, message, by, .. } = self;
        let needs = |field, what| Err(Problem::invalid(format!("`{field}` needs the grant `{what}`")));
        match grant {
            what if *what != GrantName::Always && (scope.is_some() || offer.is_some()) => {
                needs("scope` and `offer", "always")
            }
            what if *what != GrantName::Reject && message.is_some() => needs("message", "reject"),
            what if *what != GrantName::Raise && by.is_some() => needs("by", "raise"),
            GrantName::Once => Ok(Grant::Once),
            GrantName::Always => {
                let scope = scope.unwrap_or_default();
                Ok(offer.map_or(Grant::Always(scope), |offer| Grant::Offered { scope, offer }))
            }
            GrantName::Reject => Ok(Grant::Reject(message.clone())),
            GrantName::Unheard => Ok(Grant::Unheard),
            GrantName::Raise => match by {
                Some(by) => Ok(Grant::Raise(by.limits())),
                None => Err(Problem::invalid("the grant `raise` needs `by`: how much each limit is raised by")),
            },
        }
    }

    /// Whether it lets the session use more than its budget: that is an operator's.
    pub(crate) fn is_of_more(&self) -> bool {
        matches!(self.grant, GrantName::Once | GrantName::Always | GrantName::Raise)
    }
}
