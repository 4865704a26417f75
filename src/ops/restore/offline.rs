//! Putting files back in a session that no runtime has open.

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

/// Puts the files of a session back, as [`Session::restore`](crate::Session::restore) does, without a runtime: nothing of the
/// session is gone on with. It is claimed meanwhile, so one that a runtime has open is refused. Blocks on the disk.
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
