//! The first append of a new tape. The maker of a session or of a fork waits for it here, so that a session reported as made has
//! its first entry.
//!
//! [`FirstAppend::settle`] returns when the engine has acknowledged the append or refused it, and after 30 s at the latest. After
//! that nothing is certain: the append may still be written. A change must keep: the first result goes to `settle`; every later
//! one, and one after `settle` returned, goes to the session's own `notify`, so that none is lost. `settle` blocks its thread, so
//! it must not be called on an async thread.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use super::{Appended, Notify, TapeError};
use crate::words::ids::Seq;

/// How long an engine may take for the first append of a tape.
const FIRST_APPEND_LIMIT: Duration = Duration::from_secs(30);

type Told = Result<Seq, TapeError>;

/// The first append of a new tape: the maker of a session waits until the append is acknowledged, at most 30 s.
///
/// Use it on a thread that may block. Later appends are made by the session's actor, which never waits.
pub(crate) struct FirstAppend {
    teller: SyncSender<Told>,
    told: Receiver<Told>,
}

impl FirstAppend {
    pub(crate) fn new() -> FirstAppend {
        let (teller, told) = sync_channel(1);
        FirstAppend { teller, told }
    }

    /// The `notify` to give to the engine: it passes the first result to [`FirstAppend::settle`], and to `others` every
    /// later one and those that come when `settle` has returned.
    pub(crate) fn notify(&self, others: Notify) -> Notify {
        let teller = self.teller.clone();
        Arc::new(move |result| match teller.try_send(result) {
            Ok(()) => {}
            Err(TrySendError::Full(result) | TrySendError::Disconnected(result)) => others(result),
        })
    }

    /// Waits until the first append is acknowledged or has failed. [`TapeError::Busy`] after the limit: it may still be written.
    pub(crate) fn settle(self, appended: Appended) -> Result<(), TapeError> {
        let told = match appended {
            Appended::Now(told) => told,
            Appended::Later => {
                self.told.recv_timeout(FIRST_APPEND_LIMIT).map_err(|_| TapeError::Busy { waiting: 1 })?
            }
        };
        told.map(drop)
    }
}
