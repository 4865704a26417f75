//! Opens or makes one tape: claims, reads and folds it on a thread that may wait for a disk, and puts it into its session's slot.
//!
//! No caller can cancel an opening, and every opening reports its result, also after a panic ([`Told`]). By then the caller may
//! be gone, or another incarnation of the session may be there, which takes the tape just as well. If the session is passive by
//! then, the tape is given back to its engine.
//!
//! A change must keep that a tape that is damaged, empty, or of another session is an error: an actor must never start over it.

use std::{sync::Arc, time::Duration};

use crate::{
    actor::{
        shared::Shared,
        slot::{LeftInFlight, Prepared, Slot},
        tape_store::{First, Opening},
    },
    error::OpenError,
    kernel::Entry,
    ops::taped,
    tape::TapeError,
    words::ids::SessionId,
    words::panic_text,
};

/// How long an opening waits for a tape that this runtime still holds, for example by the previous incarnation.
const CLAIM_WAIT: Duration = Duration::from_secs(10);

/// Begins an opening in a task that no caller can cancel; it waits for its turn, at most [`OPENS_MAX`](super::orders::OPENS_MAX) at
/// once.
pub(super) fn begin(shared: &Arc<Shared>, session: SessionId, opening: Opening) {
    let told = Told { shared: shared.clone(), session: session.clone(), opened: Err(OpenError::Closed) };
    let (shared, room) = (shared.clone(), shared.orders.room.clone());
    let (tasks, tokio) = (shared.tasks.clone(), shared.tokio.clone());
    let opening = async move {
        let mut told = told;
        // The semaphore is never closed.
        let Ok(turn) = room.acquire_owned().await else { return };
        let tokio = shared.tokio.clone();
        let opened = tokio.spawn_blocking(move || {
            let _turn = turn;
            open(&shared, &shared.slot(&session), opening)
        });
        told.opened = opened.await.unwrap_or_else(|lost| match lost.try_into_panic() {
            Ok(panic) => {
                let why = format!("it crashed while its tape was opened: {}", panic_text(&*panic));
                Err(OpenError::not_started(&told.session, why))
            }
            Err(_) => Err(OpenError::Closed),
        });
    };
    tasks.spawn_on(opening, &tokio);
}

/// The guard that reports the result to all waiting callers, however the opening ends.
struct Told {
    shared: Arc<Shared>,
    session: SessionId,
    opened: Result<(), OpenError>,
}

impl Drop for Told {
    fn drop(&mut self) {
        self.shared.orders.opened(&self.session, &self.opened);
    }
}

fn open(shared: &Shared, slot: &Arc<Slot>, opening: Opening) -> Result<(), OpenError> {
    let prepared = match opening {
        Opening::Load => load(shared, slot)?,
        Opening::Make(first) => make(shared, slot, first)?,
    };
    slot.prepare(prepared);
    Ok(())
}

/// Claims and reads a tape. Waits at most [`CLAIM_WAIT`] while something in this runtime still holds the tape, such as the
/// session's previous actor, which is ending.
fn load(shared: &Shared, slot: &Arc<Slot>) -> Result<Prepared, OpenError> {
    fault!(shared.store.faults(), "session.load", slot.id.as_str());
    let loaded = shared.store.load(&slot.id, &slot.notify(), CLAIM_WAIT)?;
    if let Some(damage) = loaded.read_only {
        return Err(OpenError::damaged(&slot.id, damage));
    }
    if let Some(repair) = &loaded.repair {
        tracing::warn!(session = %slot.id, repair = ?repair, "a torn tail was set aside");
    }
    if loaded.entries.is_empty() {
        // The maker died before the first entry; the session can be made again.
        return Err(OpenError::Tape(TapeError::Missing { session: slot.id.clone() }));
    }
    fault!(shared.store.faults(), "session.loaded", slot.id.as_str());
    let state = taped::state(&slot.id, &loaded.entries)?;
    // Keys, hooks and folders use this id, so it must be the right one.
    if state.session != slot.id {
        return Err(OpenError::damaged(&slot.id, format!("it says that it is session {}", state.session)));
    }
    let flight = slot.left_in_flight(&shared.store)?;
    Ok(Prepared { tape: loaded.tape, state, flight })
}

/// Makes a tape, with its first entries on it.
fn make(shared: &Shared, slot: &Arc<Slot>, first: Box<First>) -> Result<Prepared, OpenError> {
    let First { entries, state } = *first;
    let lines: Result<Vec<_>, _> = entries.iter().map(Entry::to_tape).collect();
    let lines = lines.map_err(TapeError::engine)?;
    let tape = shared.store.make(&slot.id, &lines, slot.notify())?;
    Ok(Prepared { tape, state, flight: LeftInFlight::Nowhere })
}
