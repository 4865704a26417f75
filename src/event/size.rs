//! The approximate memory size of an event. The bounds of the ring and of the observers' queues are counted in it.
//!
//! A change must keep sizes from being much too small, or a slow listener would fill the memory. So a field that can be large has a
//! line here, and a new one needs a line too. The compiler does not remind you: what has no line counts as 0 beyond the size of the
//! type, as names, titles and lists of ids do.

use serde_json::Value;

use crate::{
    event::{BranchEvent, Event, EventKind},
    kernel::Grant,
    permission::Rule,
    words::message::{Part, ToolState},
};

impl Event {
    /// About how many bytes the event takes: the size of the type, and the fields that can be large.
    pub(crate) fn bytes(&self) -> usize {
        let carried = match &self.kind {
            EventKind::Queued { message, .. }
            | EventKind::QueueEdited { message }
            | EventKind::Steered { message, .. } => message.bytes(),
            EventKind::TextDelta { text }
            | EventKind::ReasoningDelta { text }
            | EventKind::CallInput { text, .. }
            | EventKind::Budget { text, .. } => text.len(),
            EventKind::PartUpdated { part: Part::Tool(call) } => of_call(&call.state),
            EventKind::PartUpdated { part } => part.bytes(),
            EventKind::CallStarted { input, .. } => input.len(),
            EventKind::Ask { input, access, offers, question, .. } => {
                let offered = offers.iter().map(|offer| offer.allows.len() + of_rules(&offer.rules));
                let asked = question.as_ref().map_or(0, |question| question.bytes());
                let wanted = access.iter().map(|access| access.pattern.len());
                input.len() + asked + wanted.sum::<usize>() + offered.sum::<usize>()
            }
            EventKind::AskClosed { grant, rules, .. } => {
                let said = match grant {
                    Some(Grant::Reject(Some(text))) => text.len(),
                    _ => 0,
                };
                said + of_rules(rules)
            }
            EventKind::CallProgress { metadata, .. } => of_value(metadata),
            EventKind::CallFinished { content, details, attachments, .. } => {
                content.len() + of_value(details) + attachments.iter().map(|file| file.url.len()).sum::<usize>()
            }
            EventKind::RequestFailed { error, .. }
            | EventKind::HookError { error, .. }
            | EventKind::StorageFailed { error } => error.len(),
            EventKind::TurnFinished { text, .. } => text.len(),
            EventKind::StepFinished { calls, .. } => calls.iter().map(|name| size_of::<String>() + name.len()).sum(),
            EventKind::CompactionFinished { summary, .. } => summary.as_ref().map_or(0, |summary| summary.len()),
            EventKind::Branch(BranchEvent::BranchSummary { summary, .. }) => summary.len(),
            EventKind::TaskFinished { down, .. } => down.text.len(),
            EventKind::Branch(BranchEvent::FilesRestored { files, refused, .. }) => {
                let refused = refused.iter().map(|file| file.path.len() + file.why.len());
                files.iter().map(String::len).chain(refused).sum()
            }
            _ => 0,
        };
        size_of::<Event>() + carried
    }
}

/// The arguments of a call. A part of an answer shows a call that is pending, so it has no result yet.
fn of_call(state: &ToolState) -> usize {
    match state {
        ToolState::Pending { input }
        | ToolState::Running { input, .. }
        | ToolState::Completed { input, .. }
        | ToolState::Error { input, .. } => input.len(),
    }
}

fn of_rules(rules: &[Rule]) -> usize {
    rules.iter().map(|rule| size_of::<Rule>() + rule.permission.len() + rule.pattern.len()).sum()
}

fn of_value(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(of_value).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + of_value(value)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{event::EVENT_VERSION, event::EventId, words::ids::Millis, words::ids::Seq};

    /// A model may write a whole file as the arguments of one call. Counted as nothing, such calls would fill the memory that the
    /// bound of the ring is to protect.
    #[test]
    fn the_arguments_of_a_call_count() {
        let part = serde_json::json!({
            "type": "tool", "callID": "c", "tool": "write", "state": {"status": "pending", "input": "x".repeat(1_000)},
        });
        let event = Event {
            v: EVENT_VERSION,
            id: EventId { seq: Seq(1), incarnation: 0, sub: 0 },
            session: "s".parse().unwrap(),
            time: Millis(0),
            cause: None,
            turn: None,
            step: None,
            kind: EventKind::PartUpdated { part: serde_json::from_value(part).unwrap() },
        };
        assert_eq!(event.bytes(), size_of::<Event>() + 1_000);
    }
}
