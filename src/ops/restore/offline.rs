//! Putting files back in a session that no runtime has open.

use std::sync::Arc;

use crate::{
    error::SendError,
    kernel::{Entry, Record, Recorded, State},
    lock::Lock,
    ops::restore::{PlanError, Restore, RestoreError, Restored, carry_out, prepare},
    tape::{Appended, Store, TapeError, TapeStoreExt as _, TapeWriter},
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
    let (settled, settlement) = std::sync::mpsc::channel();
    let settled = Lock::new(settled);
    let notify = move |result| {
        let settled = settled.lock();
        // Nobody waits where the append was answered at once.
        drop(settled.send(result));
    };
    let mut loaded = store.load(session, Arc::new(notify)).map_err(PlanError::from)?;
    if let Some(damage) = loaded.read_only {
        return Err(PlanError::from(TapeError::Damaged(damage)).into());
    }
    let entries: Vec<Entry> =
        loaded.entries.iter().map(Entry::from_tape).collect::<Result<_, _>>().map_err(PlanError::from)?;
    let Some((state, newest)) = State::fold(&entries).zip(entries.last()) else {
        return Err(PlanError::from(TapeError::Missing { session: session.clone() }).into());
    };
    if let Some(turn) = &state.turn {
        return Err(RestoreError::Busy { turn: turn.id });
    }
    let (plan, bench) = prepare(store, session, since, files)?;
    #[cfg(feature = "fault-injection")]
    let bench = bench.with_faults(store.faults());
    if how == Restore::Whole && plan.refused().next().is_some() {
        return Err(RestoreError::Refused { plan: Box::new(plan) });
    }
    let files = Arc::new(carry_out(&plan, &bench, how));
    let entry = Entry {
        seq: newest.seq.next(),
        time: Millis::now().max(newest.time),
        cause: None,
        turn: None,
        step: None,
        ticket: None,
        input: Some(Recorded::new("restored")),
        record: Record::Restored(files.clone()),
    };
    let wait = || settlement.recv().unwrap_or(Err(TapeError::Closed)).map(drop);
    match record(&mut *loaded.tape, &entry, wait) {
        Ok(()) => Ok(Restored { entry: entry.seq, files }),
        Err(error) => Err(RestoreError::NotRecorded { files, source: SendError::Storage(error) }),
    }
}

fn record(
    tape: &mut dyn TapeWriter,
    entry: &Entry,
    wait: impl FnOnce() -> Result<(), TapeError>,
) -> Result<(), TapeError> {
    let line = entry.to_tape().map_err(|_| TapeError::Closed)?;
    match tape.append(&[line]) {
        Appended::Now(done) => done.map(drop),
        Appended::Later => wait(),
    }
}
