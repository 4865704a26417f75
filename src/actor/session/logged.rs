//! What a session tells the log: a failed turn, a model request that failed, and a tool that panicked, once each.
//!
//! The lines are made of recorded entries, so what a tape was told is logged once, however often its session starts again. They have
//! ids, names and kinds. A change must keep out every text that a model, a tool, a provider or a person wrote: a log is read by
//! others than the conversation.

use crate::{
    kernel::{CallVerdict, Entry, Open, Outcome, Record, State},
    words::ids::{Seq, SessionId},
};

/// Logs the failures among entries that were just recorded. `before` is the state before them.
pub(super) fn log_failures(session: &SessionId, before: &State, entries: &[Entry]) {
    for entry in entries {
        let Entry { seq, turn, step, ticket, .. } = entry;
        let (turn, ticket) = (turn.map(|turn| turn.0), ticket.map(|ticket| ticket.0));
        match &entry.record {
            Record::RequestFailed { error, .. } => {
                let open = entry.ticket.and_then(|ticket| before.open.get(&ticket));
                let model = open.and_then(|open| if let Open::Request(open) = open { Some(&open.model) } else { None });
                let (model, kind) = (model.map(tracing::field::display), error.kind);
                tracing::warn!(%session, %seq, turn, step, ticket, model, reason = ?kind, status = error.status, "a model request failed");
            }
            Record::Result { result, judged }
                if *judged == CallVerdict::Crashed || result.details["crashed"] == true =>
            {
                let tool = entry.ticket.and_then(|ticket| tool(ticket, before, entries));
                tracing::warn!(%session, %seq, turn, step, ticket, tool, reason = "panic", "a tool panicked");
            }
            Record::TurnFinished { outcome } => {
                if let Some(reason) = failure(outcome) {
                    tracing::warn!(%session, %seq, turn, step, reason, "a turn failed");
                }
            }
            _ => {}
        }
    }
}

/// The tool of a call, which these entries may have opened.
fn tool<'s>(ticket: Seq, before: &'s State, entries: &'s [Entry]) -> Option<&'s str> {
    let opened = entries.iter().find(|entry| entry.seq == ticket);
    match (opened.map(|entry| &entry.record), before.open.get(&ticket)) {
        (Some(Record::Call(call)), _) => Some(&call.facts.tool),
        (_, Some(Open::Call(call))) => Some(&call.facts.tool),
        _ => None,
    }
}

/// The word for an outcome that is a failure. What a person or a limit ended did not fail.
fn failure(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Failed { .. } => Some("failed"),
        Outcome::Refused => Some("refused"),
        Outcome::DoomLoop { .. } => Some("doom_loop"),
        Outcome::RecoveryLimit { .. } => Some("recovery_limit"),
        Outcome::Done
        | Outcome::Aborted { .. }
        | Outcome::Rejected { .. }
        | Outcome::StepLimit { .. }
        | Outcome::Budget { .. }
        | Outcome::CutShort => None,
    }
}
