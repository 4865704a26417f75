//! [`LeftUndone`]: a clean-up that failed when the store was opened, told to an operator with what to do about it.
//!
//! The tape store's node in the tree shows the first of them and how many more there are; the host reads all of them with
//! [`Runtime::left_undone`](crate::Runtime::left_undone). A failed clean-up is tried again at the next start; one that is about a
//! session, also when that session is opened.
//!
//! This file only shows them. A change must keep that it repairs nothing and reads no disk: it is called from the tape store's
//! actor, which never waits.

use std::fmt;

use serde::Serialize;

use crate::{
    actor::shared::Shared,
    supervisor::node_state::{NodeState, Presented},
    tape::TapeError,
};

/// The phase of the tape store's node while a clean-up is left undone.
pub(crate) const UNDONE: &str = "undone";

/// Something that a dead runtime left behind, and that could not be cleaned up when the store was opened. Sessions that it is not
/// about are not affected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeftUndone {
    /// What could not be done, and why.
    pub what: String,
    /// What to do about it.
    pub next: &'static str,
}

impl LeftUndone {
    fn of(error: &TapeError) -> LeftUndone {
        let next = match error {
            error if error.is_full() => {
                "make room on the disk, then start the runtime again: it is tried then, and when a session that it is about is opened"
            }
            TapeError::Io { .. } => {
                "look at that path for what is in the way (rights, something else of that name, a broken disk), then start the \
                 runtime again: it is tried then, and when a session that it is about is opened"
            }
            TapeError::Newer { .. } => "start the version that wrote it, or a later one, on this store",
            _ => {
                "`tamtam tape verify` names what is bad; it is tried again at the next start, and when a session that it is about is \
                 opened"
            }
        };
        LeftUndone { what: error.to_string(), next }
    }
}

impl fmt::Display for LeftUndone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.next)
    }
}

/// All clean-ups that failed when this runtime opened its store.
pub(crate) fn left_undone(shared: &Shared) -> impl Iterator<Item = LeftUndone> + '_ {
    shared.store.undone().map(LeftUndone::of)
}

/// Shows on the tape store's node what was left undone. If nothing was, shows the node as idle.
pub(crate) fn show_undone(shared: &Shared, node: &NodeState) {
    let mut undone = left_undone(shared);
    let Some(LeftUndone { what, .. }) = undone.next() else { return node.idle() };
    let doing = match undone.count() {
        0 => format!("left undone at the start: {what}"),
        more => format!("left undone at the start, and {more} more: {what}"),
    };
    node.present(Presented { phase: UNDONE, doing: Some(doing), ..Presented::default() }, |_| {});
}
