//! Restores the files of a session that no runtime has open.
//!
//! The session is claimed for the time of the restore, so a session that a runtime has open is refused. No turn is gone on with. A
//! change must keep the claim from before the plan until the entry is recorded.

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

/// Puts the files of a session back without a runtime, as [`Session::restore`](crate::Session::restore) does with one. The session
/// does not go on. It is claimed meanwhile, so a session that a runtime has open is refused. Blocks on the disk.
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
