//! What a command may bring of strings and values that others chose: names have a length, reasons are cut, and JSON has a depth
//! ([`VALUE_DEPTH_MAX`]).
//!
//! A name is written to the tape each time that something is said about it, and in the state that is kept in memory; so its bound is
//! small, and nothing is cut off from it, because two names could become one. A reason belongs to a stop as a rule, and a stop is
//! never refused.
//!
//! [`Command::bounded`] runs once for each command, on its way into the mailbox (`actor/slot.rs`), and in front of that where a
//! value is copied or compared earlier. The core does not ask again: what is on a tape was accepted.

use std::sync::Arc;

use crate::{
    kernel::{
        AgentChoice, AgentParts, AnswerAsk, Command, Configure, EditMessage, Grant, Refusal, SendMessage, Settings,
        Spawn, SwitchAgent, TaskOrder, fallback_fault, kept,
    },
    words::{
        depth::{self, VALUE_DEPTH_MAX},
        ids::NAME_BYTES_MAX,
        message::{Message, ModelRef, Part, ToolState},
    },
};

/// The longest title of a session, in bytes.
pub const TITLE_BYTES_MAX: usize = 1_024;

/// Refuses a name that is empty, or longer than [`NAME_BYTES_MAX`]. `what` says whose it is.
pub(crate) fn name(what: &'static str, name: &str) -> Result<(), Refusal> {
    length(what, name, 1, NAME_BYTES_MAX)
}

fn length(what: &'static str, text: &str, least: usize, max: usize) -> Result<(), Refusal> {
    let bytes = text.len();
    if (least..=max).contains(&bytes) { Ok(()) } else { Err(Refusal::Length { what, bytes, least, max }) }
}

fn value(what: &'static str, value: &mut serde_json::Value) -> Result<(), Refusal> {
    depth::bound(value).map_err(|_| nested(what))
}

fn nested(what: &'static str) -> Refusal {
    Refusal::Nested { what, max: VALUE_DEPTH_MAX }
}

fn model(model: &ModelRef) -> Result<(), Refusal> {
    name("the provider of a model", &model.provider)?;
    name("the name of a model", &model.model)
}

/// Checks a message that a host sends. Of values that are too deep nothing is left in it.
pub(crate) fn message(message: &mut Message) -> Result<(), Refusal> {
    // All of them, also behind the first that is refused: what is left is dropped, and dropping is a walk.
    let mut parts = Ok(());
    for part in &mut message.parts {
        parts = parts.and(bound_part(part));
    }
    parts?;
    name("the id of a message", message.id.as_str())?;
    message.agent.as_deref().map_or(Ok(()), |agent| name("the agent of a message", agent))?;
    message.model.as_ref().map_or(Ok(()), model)
}

fn bound_part(part: &mut Part) -> Result<(), Refusal> {
    let (metadata, extra) = match part {
        Part::Text(text) => (None, text.extra.as_mut()),
        Part::Reasoning(thought) => (None, thought.extra.as_mut()),
        Part::Tool(tool) => {
            let metadata = match &mut tool.state {
                ToolState::Running { metadata, .. } | ToolState::Completed { metadata, .. } => Some(metadata),
                _ => None,
            };
            (metadata, tool.extra.as_mut())
        }
        _ => (None, None),
    };
    let metadata = metadata.map_or(Ok(()), |metadata| value("the details of a part", metadata));
    let extra = extra.map_or(Ok(()), |extra| value("the data of a provider", &mut extra.value));
    metadata.and(extra)
}

/// Checks the settings of a session.
pub(crate) fn settings(settings: &mut Settings) -> Result<(), Refusal> {
    value("the options of requests", &mut settings.params.options)?;
    settings.params.fault().map_or(Ok(()), |(what, problem)| Err(Refusal::Params { what, problem }))?;
    let fault = fallback_fault(&settings.fallback);
    fault.map_or(Ok(()), |problem| Err(Refusal::Params { what: "fallback", problem }))?;
    settings.fallback.iter().try_for_each(|fallback| model(&fallback.model))?;
    name("the name of an agent", &settings.agent)?;
    model(&settings.model)?;
    settings.title.as_deref().map_or(Ok(()), |title| length("the title", title, 0, TITLE_BYTES_MAX))
}

fn choice(choice: &mut AgentChoice) -> Result<(), Refusal> {
    let AgentChoice::Other(parts) = choice else { return Ok(()) };
    let what = "the options of an agent";
    if !depth::is_within(&parts.options, VALUE_DEPTH_MAX) {
        // Where somebody else has it too, it is not dropped here.
        return Arc::get_mut(parts).map_or(Err(nested(what)), |parts| value(what, &mut parts.options));
    }
    let AgentParts { agent, model: of_agent, .. } = &**parts;
    name("the name of an agent", agent)?;
    of_agent.as_ref().map_or(Ok(()), model)
}

impl Command {
    /// Cuts the reasons of the command, and refuses it where a name is too long or a value too deep.
    pub(crate) fn bounded(mut self) -> Result<Command, Refusal> {
        let bound = match &mut self {
            Command::SendMessage(SendMessage { message: sent, agent, .. }) => {
                let sent = message(sent);
                agent.as_mut().map_or(Ok(()), choice).and(sent)
            }
            Command::EditMessage(EditMessage { message: edited }) => message(edited),
            Command::AnswerAsk(AnswerAsk { grant: Grant::Reject(Some(why)), .. }) => {
                *why = kept(std::mem::take(why));
                Ok(())
            }
            Command::Configure(Configure { settings: new, .. }) => settings(new),
            Command::SwitchAgent(SwitchAgent { choice: agent }) => choice(agent),
            Command::Spawn(Spawn { order, .. }) => {
                let TaskOrder { settings: of_child, prompt, terms, .. } = &mut **order;
                let both = message(prompt).and(settings(of_child));
                both.and(terms.trace.as_deref().map_or(Ok(()), |trace| name("the trace_id of a task", trace)))
            }
            Command::Abort(abort) => {
                abort.reason = kept(std::mem::take(&mut abort.reason));
                Ok(())
            }
            Command::End(end) => {
                end.reason = kept(std::mem::take(&mut end.reason));
                Ok(())
            }
            _ => Ok(()),
        };
        bound.map(|()| self)
    }
}
