//! What the hooks [`ReadLoop`](crate::hook::ReadLoop) and [`Planning`](crate::hook::Planning) count of each session since its
//! newest message; and the function with which both add a hint for the model to a result.
//!
//! The counts are in memory, so a restart resets them. A change must keep the table bounded, because a hook does not see the end
//! of a session.

use std::collections::BTreeMap;

use crate::{lock::Lock, tool::ToolResult, words::ids::SessionId};

/// The sessions that are counted. With one more, the counts of the session with the lowest id are reset, as after a restart. The
/// ids that this library makes grow with time, so that is the oldest session.
pub(super) const SESSIONS_MAX: usize = 4_096;

/// A row for each session, made when something is counted.
#[derive(Debug)]
pub(super) struct Counts<R>(Lock<BTreeMap<SessionId, R>>);

impl<R> Default for Counts<R> {
    fn default() -> Counts<R> {
        Counts(Lock::default())
    }
}

impl<R: Default> Counts<R> {
    /// Counts something of a session.
    pub(super) fn of<T>(&self, session: &SessionId, count: impl FnOnce(&mut R) -> T) -> T {
        let mut rows = self.0.lock();
        if rows.len() >= SESSIONS_MAX && !rows.contains_key(session) {
            rows.pop_first();
        }
        count(rows.entry(session.clone()).or_default())
    }

    /// Resets a session. Returns whether something was counted.
    pub(super) fn begin(&self, session: &SessionId) -> bool {
        self.0.lock().remove(session).is_some()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// The result with a hint after its text.
pub(super) fn with_hint(mut result: ToolResult, hint: &str) -> ToolResult {
    let gap = if result.content.is_empty() { "" } else { "\n\n" };
    result.content = format!("{}{gap}{hint}", result.content);
    result
}
