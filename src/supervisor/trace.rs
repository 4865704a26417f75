//! The trace of a node (an actor, supervisor or worker in the tree): its last events, which are the messages that it began to
//! handle (for a session: the pieces of its work) and the changes of its status and phase.
//!
//! A node keeps its newest [`EVENTS_KEPT`] events, in a ring in `node_state.rs`. By default they are kinds and numbers only, so
//! that they can be shown to anyone.
//!
//! A change must keep this: content of a conversation is in the ring only while an operator traces the node in full
//! (`Operator::trace_in_full`), cut to [`DETAIL_CHARS_MAX`], and is removed when that is turned off (`node_state.rs` sees to it).
//! The content of a trace never gets into a crash report.

use std::fmt;

use serde::Serialize;

use crate::supervisor::node_state::{NodeState, Ring, millis};

/// How many events a node remembers at most.
pub(crate) const EVENTS_KEPT: usize = 32;

/// The most characters of content that an event keeps.
pub(super) const DETAIL_CHARS_MAX: usize = 200;

/// How many of the last events a crash report carries at most.
const EVENTS_REPORTED: usize = 16;

/// One of the last events of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Happened {
    /// How long ago, in milliseconds.
    pub ago_ms: u64,
    /// A message that it began to handle, or a change of its status or phase.
    pub kind: HappenedKind,
    /// The kind of message, or the new status or phase.
    pub what: &'static str,
    /// The number of what it was about, if there is one: the ticket of a report, the turn of a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The content; only while the node is traced in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HappenedKind {
    /// It began to handle a message.
    Message,
    /// Its status or phase changed.
    Change,
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == HappenedKind::Change {
            f.write_str("→ ")?;
        }
        f.write_str(self.what)?;
        if let Some(number) = self.number {
            write!(f, " {number}")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, " {detail:?}")?;
        }
        Ok(())
    }
}

impl Ring {
    /// Removes all content; the events stay.
    fn redact(&mut self) {
        self.0.iter_mut().for_each(|(_, happened)| happened.detail = None);
    }

    /// The newest `most` events, oldest first.
    fn last(&self, most: usize) -> Vec<Happened> {
        let newest = self.0.iter().skip(self.0.len().saturating_sub(most));
        newest.map(|(at, happened)| Happened { ago_ms: millis(at.elapsed()), ..happened.clone() }).collect()
    }
}

impl NodeState {
    /// The last events, oldest first, as a crash report shows them: at most 16, without content.
    pub(crate) fn recent(&self) -> Vec<Happened> {
        let mut recent = self.words().ring.last(EVENTS_REPORTED);
        recent.iter_mut().for_each(|happened| happened.detail = None);
        recent
    }

    /// All events that are kept, oldest first.
    pub(crate) fn trace(&self) -> Vec<Happened> {
        self.words().ring.last(EVENTS_KEPT)
    }

    /// Sets whether the trace keeps content. Off by default. Turning it off removes the content that was kept.
    pub(crate) fn trace_in_full(&self, on: bool) {
        let mut words = self.words();
        words.in_full = on;
        if !on {
            words.ring.redact();
        }
    }
}
