//! Restores the files of a session that no runtime has open.
//!
//! A session that a runtime has open is refused, because it is claimed. A session with an unfinished turn is refused (`Busy`).
//! The restore starts no turn. If the entry cannot be recorded, the files are already changed; the error `NotRecorded` lists
//! them.
//!
//! A change must hold the claim from before the plan is made until the entry is recorded. Otherwise a runtime could open the
//! session meanwhile, and its calls would change the files that the plan is about.

use std::sync::Arc;

use crate::{
    error::SendError,
    kernel::Record,
    ops::{
        restore::{Restore, RestoreError, Restored, carry_out, prepare},
        taped::Claimed,
    },
    tape::Store,
    tool::Toolbox,
    words::ids::{Millis, Seq, SessionId},
};

/// Puts the files that calls changed after the entry `since` back without a runtime, as
/// [`Session::restore`](crate::Session::restore) does with one. The session does not continue. It is claimed meanwhile, so a
/// session that a runtime has open is refused. Blocks on the disk.
///
/// # Errors
/// See [`RestoreError`].
pub fn offline(
    store: &Store,
    session: &SessionId,
    since: Seq,
    tools: &Toolbox,
    how: Restore,
) -> Result<Restored, RestoreError> {
    let files = tools.files().ok_or(RestoreError::NoFiles)?;
    let claimed = Claimed::of(store, session)?;
    if let Some(turn) = &claimed.state.turn {
        return Err(RestoreError::Busy { turn: turn.id });
    }
    let (plan, bench) = prepare(store, session, since, files)?;
    #[cfg(feature = "fault-injection")]
    let bench = bench.with_faults(store.faults());
    let files = Arc::new(carry_out(plan, &bench, how)?);
    match claimed.record(Millis::now(), "restored", Record::Restored(files.clone())) {
        Ok(entry) => Ok(Restored { entry, files }),
        Err(error) => Err(RestoreError::NotRecorded { files, source: SendError::Storage(error) }),
    }
}
