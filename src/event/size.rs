//! The approximate memory size of an event. The bounds of the ring and of the observers' queues are counted in it.
//!
//! A size must never be much too small: a variant with a field that can be large has a line here, and a new one needs a line too.
//! The compiler does not remind you: what has no line counts 0.

use serde_json::Value;

use crate::event::{Event, EventKind};

impl Event {
    /// The size of the event in bytes with all that it carries, about. Fields that can be large are counted; all others are covered
    /// by the size of the type.
    pub(crate) fn bytes(&self) -> usize {
        let carried = match &self.kind {
            EventKind::Queued { message, .. }
            | EventKind::QueueEdited { message }
            | EventKind::Steered { message, .. } => message.bytes(),
            EventKind::TextDelta { text }
            | EventKind::ReasoningDelta { text }
            | EventKind::CallInput { text, .. }
            | EventKind::Budget { text, .. } => text.len(),
            EventKind::PartUpdated { part } => part.bytes(),
            EventKind::CallStarted { input, .. } | EventKind::Ask { input, .. } => input.len(),
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
            EventKind::BranchSummary { summary, .. } => summary.len(),
            EventKind::TaskFinished { down, .. } => down.text.len(),
            EventKind::FilesRestored { files, .. } => files.iter().map(String::len).sum(),
            _ => 0,
        };
        size_of::<Event>() + carried
    }
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
