//! The writing end of one tape: which entries are on it, which are on their way, and the file they go to.
//!
//! A [`Log`] is shared by the tape's handle and the store's I/O thread. Its file is touched by one of them at a time:
//! by the handle while nothing is outstanding, by the I/O thread while something is.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
};

use super::{
    TapeError,
    disk::LogFile,
    layout::{Layout, make_folder},
    line::Chain,
    owner::Claim,
    queue::Wanted,
};
use crate::{
    lock::Lock,
    words::ids::{Seq, SessionId},
};

/// Told of every append that was answered [`Later`](crate::tape::Appended::Later), in the order of the appends.
///
/// Called by the store's I/O thread: it must be short, must not block and must not wait for the store.
pub type Notify = Arc<dyn Fn(Result<Seq, TapeError>) + Send + Sync>;

/// Told once a session was given back: from then on whoever wants it can claim it. Dropped without a call it says the same.
///
/// Called on any thread; it must be short, must not block and must not wait for the store.
pub type GivenBack = Box<dyn FnOnce() + Send>;

/// The writing end of one tape.
pub(super) struct Log {
    pub(super) session: SessionId,
    pub(super) notify: Notify,
    /// Locked over the disk by what is done in place.
    pub(super) state: Lock<State>,
    /// The handle is gone, or the store was closed.
    pub(super) given_back: AtomicBool,
    pub(super) file: Lock<LogFile>,
    /// When it was last written, counted in writes of the store.
    pub(super) used: AtomicU64,
    /// Taken out when the tape is given back.
    pub(super) claim: Lock<Option<Claim>>,
    /// Told behind that.
    pub(super) then: Lock<Option<GivenBack>>,
}

/// What is known of a tape.
pub(super) struct State {
    /// Behind the last entry that was taken.
    pub(super) head: Chain,
    /// Behind the last entry that is on the tape.
    pub(super) good: Chain,
    /// Appends that were answered `Later` and not yet told.
    pub(super) outstanding: usize,
    /// Counts the failures. An append that was queued in an earlier run fails with the error that ended that run.
    pub(super) run: u64,
    /// A queued append failed and the caller has not started anew.
    pub(super) failed: bool,
    /// What ended the last run.
    pub(super) last_failure: Option<TapeError>,
    /// Why the mark of an open turn could not be made, until an append was told. One that comes only then would be taken for one
    /// that starts anew.
    pub(super) mark_failed: Option<TapeError>,
    /// Marks that wait for the store's thread, and the last of them where no append was queued behind it.
    pub(super) marks: usize,
    pub(super) mark: Option<Arc<Wanted>>,
    /// The folders of the tape's anchors, oldest first.
    pub(super) anchors: Vec<String>,
}

impl State {
    /// Notes that a queued append failed: all that was queued behind it fails as well.
    pub(super) fn fail(&mut self, error: &TapeError) {
        self.run += 1;
        self.failed = true;
        self.last_failure = Some(error.clone());
    }

    /// Notes that the mark of an open turn could not be made: what was queued behind it fails, or else what is appended next.
    pub(super) fn fail_mark(&mut self, error: &TapeError) {
        self.fail(error);
        self.mark_failed = Some(error.clone());
    }

    /// Goes on from what is on the tape.
    pub(super) fn start_anew(&mut self) {
        self.failed = false;
        self.head = self.good.clone();
        if let Some(n) = self.anchors.iter().position(|a| **a == *self.good.anchor) {
            self.anchors.truncate(n + 1);
        }
    }
}

impl Log {
    pub(super) fn new(
        session: &SessionId,
        notify: Notify,
        chain: Chain,
        anchors: Vec<String>,
        file: LogFile,
        claim: Claim,
    ) -> Log {
        let state = State {
            head: chain.clone(),
            good: chain,
            outstanding: 0,
            run: 0,
            failed: false,
            last_failure: None,
            mark_failed: None,
            marks: 0,
            mark: None,
            anchors,
        };
        Log {
            session: session.clone(),
            notify,
            state: Lock::new(state),
            given_back: AtomicBool::new(false),
            file: Lock::new(file),
            used: AtomicU64::new(0),
            claim: Lock::new(Some(claim)),
            then: Lock::new(None),
        }
    }

    /// Whether something of it is not written yet. Does not wait for what is being written.
    pub(super) fn is_on_its_way(&self) -> bool {
        !self.state.try_lock().is_some_and(|state| state.outstanding == 0 && state.marks == 0)
    }
}

/// Makes the first anchor of a session where there is none.
pub(super) fn make_first_anchor(layout: &Layout, session: &SessionId, anchor: &str) -> Result<PathBuf, TapeError> {
    make_folder(&layout.anchors(session).join(anchor))?;
    let path = layout.entries(session, anchor);
    super::layout::open_or_make(&path).map_err(TapeError::io("make", &path))?;
    Ok(path)
}
