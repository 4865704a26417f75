//! The writing end of one tape: where it stands, whether an append is on its way, and the file it goes to.
//!
//! A [`Log`] is shared by the tape's handle and the store's I/O thread. Its file is touched by one of them at a time:
//! by the I/O thread while something is on its way, by the handle while nothing is.

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
    queue::{Append, Mark},
};
use crate::{
    lock::Lock,
    words::ids::{Seq, SessionId},
};

/// Told of every append that was answered [`Later`](crate::tape::Appended::Later).
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
    /// Behind the last entry that is on the tape.
    pub(super) end: Chain,
    /// The folders of the tape's anchors, oldest first.
    pub(super) anchors: Vec<String>,
    /// An append was answered `Later` and is not told yet. No other is taken meanwhile.
    pub(super) is_on_its_way: bool,
    /// The mark that the store's thread is to put, until it is put. The last word counts.
    pub(super) mark: Option<Mark>,
    /// Why the mark of an open turn could not be put, until an append was told: it would begin a turn that nobody finds again.
    pub(super) mark_failed: Option<TapeError>,
}

impl State {
    /// Whether the thread has nothing to do for the tape.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_on_its_way && self.mark.is_none()
    }

    /// Notes that an append is on the tape.
    pub(super) fn take(&mut self, append: &Append) {
        self.end = append.after.clone();
        self.anchors.extend(append.begin.clone());
    }
}

/// Makes the first anchor of a session where there is none.
pub(super) fn make_first_anchor(layout: &Layout, session: &SessionId, anchor: &str) -> Result<PathBuf, TapeError> {
    make_folder(&layout.anchors(session).join(anchor))?;
    let path = layout.entries(session, anchor);
    super::layout::open_or_make(&path).map_err(TapeError::io("make", &path))?;
    Ok(path)
}
