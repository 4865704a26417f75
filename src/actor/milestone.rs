//! What a recorded entry means to a host's logs, traces and metrics: a [`Milestone`], made of the state before the entry and of the
//! entry, and of nothing else.
//!
//! Milestones have ids, names, kinds and figures. A change must keep out every text that a model, a tool, a provider or a person
//! wrote: logs and metrics are read by others than the conversation (decision 0051).

use crate::{
    kernel::{CallVerdict, DownReason, Entry, Open, Outcome, Record, State},
    model::{ErrorKind, ModelError},
    tool::{CallFacts, Unusable},
    words::{
        ids::{Millis, Seq, SessionId},
        message::{Finish, ModelRef},
    },
};

/// What an entry means outside of the session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Milestone<'e> {
    /// A turn began.
    TurnBegan,
    /// A turn is over. It ran since `began`, where that is known.
    TurnOver { outcome: &'e Outcome, began: Option<Millis> },
    /// A model request is made; the first try of it begins a step.
    Asked { model: &'e ModelRef, attempt: u32, used: u64 },
    /// A request was answered, or cut off.
    Answered { model: Option<&'e ModelRef>, finish: &'e Finish, interrupted: bool },
    /// A request failed.
    RequestFailed { model: Option<&'e ModelRef>, kind: ErrorKind, status: Option<u16> },
    /// A request will be made again.
    RetryWaits { attempt: u32, until: Millis },
    /// A call begins to run.
    CallBegan { tool: &'e str, attempt: u32 },
    /// A call is over, and ran if its verdict says so.
    CallOver { tool: Option<&'e str>, judged: CallVerdict, is_error: bool, panicked: bool, bytes: usize },
    /// A person is asked.
    PersonAsked,
    /// A task was given to a child.
    TaskBegan { child: &'e SessionId },
    /// A task is over.
    TaskOver { failed: bool },
    /// The older part of the conversation was summarized, or cut.
    Compacted,
    /// A compaction failed.
    CompactionFailed,
    /// The session was rebuilt from its tape in mid-turn: the nth time in a row.
    Recovered { n: u32, resumed: bool },
}

impl<'e> Milestone<'e> {
    /// The milestone of an entry; `entries` are those of the same decision, which `before` does not know.
    pub(crate) fn of(before: &'e State, entries: &'e [Entry], entry: &'e Entry) -> Option<Milestone<'e>> {
        let open = entry.ticket.and_then(|ticket| before.open.get(&ticket));
        let model = || match open {
            Some(Open::Request(open)) => Some(&open.model),
            _ => None,
        };
        Some(match &entry.record {
            Record::Delivered { .. } if entry.turn == Some(entry.seq) => Milestone::TurnBegan,
            Record::TurnFinished { outcome } => {
                let turn = before.turn.as_ref().filter(|turn| Some(turn.id) == entry.turn);
                Milestone::TurnOver { outcome, began: turn.map(|turn| turn.started) }
            }
            Record::Request(made) => Milestone::Asked { model: &made.model, attempt: made.attempt, used: made.used },
            Record::Answer { answer, interrupted, .. } => Milestone::Answered {
                model: answer.by.as_ref().or_else(model),
                finish: &answer.finish,
                interrupted: *interrupted,
            },
            Record::RequestFailed { error: ModelError { kind, status, .. }, .. } => {
                Milestone::RequestFailed { model: model(), kind: *kind, status: *status }
            }
            Record::RetryWait { attempt, until, .. } => Milestone::RetryWaits { attempt: *attempt, until: *until },
            Record::CallStarted { attempt, .. } => {
                let tool = tool(entry.ticket?, before, entries)?;
                Milestone::CallBegan { tool, attempt: *attempt }
            }
            Record::Result { result, judged } => Milestone::CallOver {
                tool: entry.ticket.and_then(|ticket| tool(ticket, before, entries)),
                judged: *judged,
                is_error: result.is_error(),
                panicked: *judged == CallVerdict::Crashed || result.details["crashed"] == true,
                bytes: result.content.len(),
            },
            Record::Ask { .. } | Record::BudgetAsk { .. } => Milestone::PersonAsked,
            Record::TaskStarted { child, .. } => Milestone::TaskBegan { child },
            Record::TaskFinished { down, .. } => Milestone::TaskOver { failed: down.reason != DownReason::Done },
            Record::Compacted(_) => Milestone::Compacted,
            Record::CompactionFailed { .. } => Milestone::CompactionFailed,
            Record::Recovered { n, resumed } => Milestone::Recovered { n: *n, resumed: *resumed },
            _ => return None,
        })
    }
}

/// The name of a tool that exists. Another one is a name that the model made up, whatever the verdict on its call.
fn known(facts: &CallFacts) -> Option<&str> {
    (!matches!(facts.unusable, Some(Unusable::NoTool(_)))).then_some(&facts.tool)
}

/// The tool of a call, which these entries may have opened.
fn tool<'e>(ticket: Seq, before: &'e State, entries: &'e [Entry]) -> Option<&'e str> {
    let opened = entries.iter().find(|entry| entry.seq == ticket);
    match (opened.map(|entry| &entry.record), before.open.get(&ticket)) {
        (Some(Record::Call(call)), _) => known(&call.facts),
        (_, Some(Open::Call(call))) => known(&call.facts),
        _ => None,
    }
}
