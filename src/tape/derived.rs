//! The operations that are made of an engine's fourteen methods and are the same over every engine: whole tapes, forks, deletion,
//! lists, and marks by their names.

use std::path::PathBuf;

use super::{
    Anchor, Deleted, Entry, Forked, LoadedTape, Mark, Notify, ReadTo, SessionSummary, TapeError, TapeStore, TapeWriter,
    fork, marks::Parked, remove, whole,
};
use crate::words::ids::{Millis, Seq, SessionId};

/// What hosts call of a store of tapes, whatever keeps it. Every [`TapeStore`] has it.
///
/// Each method blocks: on the disk, for files. Each fails with what the engine says besides what is named there;
/// [`TapeError::Missing`] where there is no such session, also where it was deleted and is kept for its forks.
#[allow(clippy::missing_errors_doc, reason = "said once, above")]
pub trait TapeStoreExt: TapeStore {
    /// Makes a session with an empty tape, and claims it. `notify` is told of the appends that are answered `Later`.
    /// [`TapeError::Exists`].
    fn create(&self, session: &SessionId, notify: Notify) -> Result<Box<dyn TapeWriter>, TapeError> {
        self.begin(session, None, notify)
    }

    /// Claims a session and reads its tape from the newest anchor on, also where that is on the tape of a session that it goes on
    /// from. A torn tail is cut off and set aside. Where this value's own writer was just dropped and is still being written out,
    /// that is waited for. [`TapeError::Claimed`]. A damaged tape is not an error, see [`LoadedTape::read_only`].
    fn load(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        whole::load(self, session, notify)
    }

    /// The entries after `after`, of all anchors. Beside a writer, whose last append is there whole or not at all.
    /// [`TapeError::Damaged`] where one of them is bad.
    fn read(&self, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::range(self, session, after.next(), whole::END)
    }

    /// The tape as it was at the entry `seq`: what loading the session would have read then. [`TapeError::NoEntry`] where the tape
    /// does not reach `seq`, and for 0; [`TapeError::Damaged`].
    fn read_to(&self, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::read_to(self, session, seq)
    }

    /// The anchors of a tape, oldest first; of a fork, those too that it has from what it goes on from. An anchor whose first
    /// entry is not on the tape yet is left out, and so is all of a session without an entry.
    fn anchors(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::anchors(self, session)
    }

    /// The entries from the first of the anchor `from` to the last of the anchor `to`, both anchors included: of one anchor
    /// where both are the same, none where `to` is the older one.
    ///
    /// An anchor is named as it was made or with its number: `phase-1` or `002_phase-1`; the newest, where a fork has given the
    /// name again. [`TapeError::NoAnchor`]; [`TapeError::Damaged`].
    fn between_anchors(&self, session: &SessionId, from: &str, to: &str) -> Result<Vec<Entry>, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::between_anchors(self, session, from, to)
    }

    /// Whether there is a session of this name. A deleted session is not there, not even while it has forks; its name stays
    /// taken until the last of them is gone. A session that cannot be read is there.
    fn exists(&self, session: &SessionId) -> bool {
        let looked = whole::must_be_shown(self, session).and_then(|()| self.summary(session));
        !matches!(looked, Err(TapeError::Missing { .. }))
    }

    /// The names of all sessions, sorted.
    fn sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        let (mut sessions, hidden) = (self.names()?, names(self.marks(Mark::Hidden, None)?));
        sessions.retain(|session| hidden.binary_search(session).is_err());
        Ok(sessions)
    }

    /// All sessions by their names, with the age and the size of their tapes. One that cannot be read is there without an entry.
    fn list(&self) -> Result<Vec<SessionSummary>, TapeError> {
        let mut all = Vec::new();
        for session in self.sessions()? {
            match self.summary(&session) {
                Ok(summary) => all.push(summary),
                // It went in between.
                Err(TapeError::Missing { .. }) => {}
                Err(_) => all.push(SessionSummary::unread(session)),
            }
        }
        Ok(all)
    }

    /// Makes the session `session`, which goes on from the entry `at` of `parent`, or from the last one that can be gone on from:
    /// so a damaged session is rescued. It is not open then; [`TapeStoreExt::load`] opens it like any other.
    ///
    /// Costs the same however long the parent is: nothing is copied. The parent may be written meanwhile, by anybody. From then
    /// on deleting it only hides it, until the fork is gone. The fork begins with the entry `at` + 1, of the kind `forked`, and
    /// says where it comes from: where `at` is from before `parent` itself was forked, that is the session which `parent` goes
    /// on from.
    ///
    /// [`TapeError::NoEntry`]; [`TapeError::InsideAppend`]; [`TapeError::TooDeep`]; [`TapeError::Exists`];
    /// [`TapeError::Damaged`] where the entry does not fit the one before it, or nothing is sound. No session was made then.
    fn fork(
        &self,
        parent: &SessionId,
        at: Option<Seq>,
        session: &SessionId,
        time: Millis,
    ) -> Result<Forked, TapeError> {
        whole::must_be_shown(self, parent)?;
        fork::fork(self, parent, at, session, time)
    }

    /// Where a session goes on from; `None` where it is no fork.
    fn forked_from(&self, session: &SessionId) -> Result<Option<Forked>, TapeError> {
        whole::must_be_shown(self, session)?;
        Ok(self.summary(session)?.from)
    }

    /// The sessions that go on from this one, or are about to.
    fn forks_of(&self, session: &SessionId) -> Result<Vec<SessionId>, TapeError> {
        fork::forks_of(self, session)
    }

    /// Whether the tape of `session` has that very entry of `other`: it is that session, or goes on from it behind that entry.
    fn has_entry_of(&self, session: &SessionId, other: &SessionId, seq: Seq) -> Result<bool, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::has_entry_of(self, session, other, seq)
    }

    /// Deletes a session and its marks; hides it while forks go on from it. What it goes on from, where that was deleted before
    /// and this was its last fork, goes too. [`TapeError::Unfinished`] while a turn of it is open; [`TapeError::Claimed`] while
    /// somebody has it open. After a crash half-way the session is there as before, or gone.
    fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError> {
        remove::delete(self, session, None)
    }

    /// Deletes a session, only if that is still its last entry; else [`TapeError::GoneOn`].
    fn delete_unless_gone_on(&self, session: &SessionId, last: Seq) -> Result<Deleted, TapeError> {
        remove::delete(self, session, Some(last))
    }

    /// Deletes a session whose last entry is still that one, that is neither parked nor protected, and that no fork goes on from.
    /// Says whether it did.
    fn delete_unused(&self, session: &SessionId, last: Seq) -> Result<bool, TapeError> {
        remove::delete_unused(self, session, last)
    }

    /// Notes that a turn of this session is open, so that the next start finds it with one look.
    fn mark_open(&self, session: &SessionId) -> Result<(), TapeError> {
        self.mark(session, Mark::Open, "")
    }

    /// Notes that no turn of this session is open: only when what ended the turn is on the tape.
    fn mark_closed(&self, session: &SessionId) -> Result<(), TapeError> {
        self.unmark(session, Mark::Open, "")
    }

    /// The sessions with an open turn, sorted.
    fn open_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.marks(Mark::Open, None).map(names)
    }

    /// Notes that a session is kept stopped, and why. One that is noted already is noted anew.
    fn park(&self, session: &SessionId, time: Millis, why: &str) -> Result<(), TapeError> {
        self.mark(session, Mark::Parked, &Parked::text(time, why)?)
    }

    /// Notes that a session may run again.
    fn unpark(&self, session: &SessionId) -> Result<(), TapeError> {
        self.unmark(session, Mark::Parked, "")
    }

    /// The sessions that are kept stopped, sorted, and why.
    fn parked_sessions(&self) -> Result<Vec<(SessionId, String)>, TapeError> {
        let parked = self.marks(Mark::Parked, None)?.into_iter();
        Ok(parked.map(|(session, text)| (session, Parked::why(&text))).collect())
    }

    /// Keeps a session from being swept, however long it is not used. Its own deletion ends that. In the moment of a sweep either
    /// the sweep leaves it, or this says that it is gone.
    fn protect(&self, session: &SessionId) -> Result<(), TapeError> {
        whole::must_be_shown(self, session)?;
        self.mark(session, Mark::Protected, "")
    }

    /// Lets a session be swept again. One that was not protected stays as it is.
    fn unprotect(&self, session: &SessionId) -> Result<(), TapeError> {
        self.unmark(session, Mark::Protected, "")
    }

    /// The sessions that are never swept, sorted.
    fn protected_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.marks(Mark::Protected, None).map(names)
    }

    /// The sessions that somebody has open, sorted: through this value, or from elsewhere; and those of which that cannot be told.
    fn held_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.marks(Mark::Held, None).map(names)
    }

    /// The folder for a session's large outputs; made with mode 0700 by whoever spills first.
    fn spill_path(&self, session: &SessionId) -> Option<PathBuf> {
        self.folder(Some(session)).map(|folder| folder.join("spill"))
    }

    /// The folder for the contents that files had before calls of this session changed them; made with mode 0700 by whoever keeps
    /// one.
    fn files_path(&self, session: &SessionId) -> Option<PathBuf> {
        self.folder(Some(session)).map(|folder| folder.join("files"))
    }

    /// The folder that tells the next runtime whose OS processes may have been left running.
    fn processes_path(&self) -> Option<PathBuf> {
        self.folder(None).map(|folder| folder.join("processes"))
    }
}

impl<S: TapeStore + ?Sized> TapeStoreExt for S {}

fn names(marks: Vec<(SessionId, String)>) -> Vec<SessionId> {
    marks.into_iter().map(|(session, _)| session).collect()
}
