//! Whether an adoption would close a circle: an orphan must not be adopted by a session below it, at any depth. The two would
//! wait for each other, and neither would be under the runtime any more.
//!
//! The tapes decide: the origin of a session names the parent above it, and its open tasks name the children below it. An
//! adoption is an open task before the child knows of it, so both ways are checked: up from the adopting session, and down from
//! the orphan. A change must keep that one adoption of a runtime ends, or is dropped with its task on the tape, before the next one
//! looks (`Shared::adopting`).

use std::collections::BTreeSet;

use crate::{
    error::OpenError,
    kernel::State,
    ops::taped,
    tape::{TapeError, TapeStore, TapeStoreExt as _},
    words::ids::SessionId,
};

/// How many sessions are checked, in each direction. Beyond that a circle cannot be ruled out.
const LOOKS_MAX: usize = 10_000;

/// Whether the orphan is above the session that would adopt it. Reads tapes, and blocks on the disk.
pub(super) fn stands_above(store: &dyn TapeStore, orphan: &SessionId, adopter: &SessionId) -> Result<bool, OpenError> {
    let parent = |state: &State| {
        let origin = state.origin.as_ref().filter(|origin| origin.orphaned.is_none());
        origin.map(|origin| origin.parent.clone()).into_iter().collect()
    };
    let children = |state: &State| state.tasks().map(|(_, task)| task.child.clone()).collect();
    Ok(is_reached(store, adopter, orphan, parent)? || is_reached(store, orphan, adopter, children)?)
}

/// Whether one session leads to another one by these steps.
fn is_reached(
    store: &dyn TapeStore,
    from: &SessionId,
    wanted: &SessionId,
    steps: impl Fn(&State) -> Vec<SessionId>,
) -> Result<bool, OpenError> {
    let (mut seen, mut to_look_at) = (BTreeSet::new(), vec![from.clone()]);
    while let Some(session) = to_look_at.pop() {
        if session == *wanted || seen.len() >= LOOKS_MAX {
            return Ok(true);
        }
        // A tape that was deleted, or is not made yet, leads nowhere.
        let lines = match store.summary(&session).and_then(|summary| store.read_to(&session, summary.seq)) {
            Err(TapeError::Missing { .. } | TapeError::NoEntry { .. }) => continue,
            read => read?.entries,
        };
        let further = if lines.is_empty() { Vec::new() } else { steps(&taped::state(&session, &lines)?) };
        seen.insert(session);
        to_look_at.extend(further.into_iter().filter(|session| !seen.contains(session)));
    }
    Ok(false)
}
