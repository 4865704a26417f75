//! The first append of a new tape: whoever makes a session is told only when it is on the disk, whatever the durability.
//!
//! Blocks a thread that may wait for a disk. Later appends are the actor's, which never waits.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use crate::{
    actors::{slot::Slot, tapes::OpenTape},
    ids::Seq,
    tape::{Appended, Entry, Notify, TapeError},
};

/// How long the disk may take.
const LIMIT: Duration = Duration::from_secs(30);

type Told = Result<Seq, TapeError>;

/// See the module.
pub(crate) struct FirstAppend {
    teller: Arc<Mutex<Option<SyncSender<Told>>>>,
    told: Receiver<Told>,
}

impl FirstAppend {
    pub(crate) fn new() -> FirstAppend {
        let (teller, told) = sync_channel(1);
        FirstAppend { teller: Arc::new(Mutex::new(Some(teller))), told }
    }

    /// Who is told of the tape's appends: of the first one this, of all others the slot.
    pub(crate) fn notify(&self, slot: &Arc<Slot>) -> Notify {
        let (teller, slot) = (self.teller.clone(), Arc::downgrade(slot));
        Arc::new(move |result| match (take(&teller), slot.upgrade()) {
            // It fits, and whoever has given up does not want to know.
            (Some(teller), _) => drop(teller.try_send(result)),
            (None, Some(slot)) => slot.settled(result),
            (None, None) => {}
        })
    }

    /// Appends, and waits until that is settled.
    pub(crate) fn append(self, tape: &mut OpenTape, entries: &[Entry]) -> Result<(), TapeError> {
        match tape.append(entries) {
            Appended::Now(result) => {
                drop(take(&self.teller));
                result.map(drop)
            }
            Appended::Later => self.told.recv_timeout(LIMIT).map_err(|_| TapeError::Busy { waiting: 1 })?.map(drop),
        }
    }
}

fn take(teller: &Mutex<Option<SyncSender<Told>>>) -> Option<SyncSender<Told>> {
    teller.lock().unwrap_or_else(PoisonError::into_inner).take()
}
