//! [`TapeStoreExt`]: the operations of a store that are the same over every engine (whole tapes, forks, deletion, lists, and marks
//! by their names), made of the methods of [`TapeStore`].
//!
//! A change must add no method that engines must implement, and must not depend on one engine, because hosts bring their own. Each
//! method that reads entries must refuse a hidden session: one that was deleted and is kept for its forks
//! ([`whole::must_be_shown`]). Every method may block, with two exceptions: [`TapeStoreExt::mark_open`] and
//! [`TapeStoreExt::mark_closed`] of a session that is open through this value, and the three paths at the end, which only make
//! names.

use std::{
    io::{BufRead, Write},
    path::PathBuf,
};

use super::{
    Anchor, Deleted, Exported, Forked, ImportOptions, Imported, LoadedTape, Mark, Notify, ReadTo, SessionSummary,
    Spills, TapeEntry, TapeError, TapeStore, TapeWriter, export, fork, import, marks::Parked, remove, whole,
};
use crate::{
    tool::told_folder,
    words::ids::{Millis, Seq, SessionId},
};

/// The operations that hosts call on a store of tapes, over any engine. Every [`TapeStore`] has them.
///
/// The methods may block (over files: on the disk), unless they say otherwise. Each can fail with any error of the engine, besides
/// the errors named at the method. Methods that read, fork or delete a session fail with [`TapeError::Missing`] if the session
/// does not exist, or was deleted and is kept for its forks.
#[allow(clippy::missing_errors_doc, reason = "said once, above")]
pub trait TapeStoreExt: TapeStore {
    /// Makes a session with an empty tape, and claims it. `notify` is called for the appends that are answered `Later`.
    /// [`TapeError::Exists`].
    fn create(&self, session: &SessionId, notify: Notify) -> Result<Box<dyn TapeWriter>, TapeError> {
        self.begin(session, None, notify)
    }

    /// Claims a session and reads its tape from the newest anchor on, also if that anchor is on the tape of a session that it
    /// continues from. Cuts off a torn tail and sets it aside. Waits until a writer of this value that was just dropped is
    /// written out. [`TapeError::Claimed`]. A damaged tape is not an error, see [`LoadedTape::read_only`].
    fn load(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        whole::load(self, session, notify)
    }

    /// The entries after `after`, of all anchors. May run alongside a writer; its last append is read whole or not at all.
    /// [`TapeError::Damaged`] if an entry is bad.
    fn read(&self, session: &SessionId, after: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::range(self, session, after.next(), whole::END)
    }

    /// The entries `from` to `through`, both included, that the tape has, of all anchors; otherwise as [`TapeStoreExt::read`]. Over
    /// files, it costs what these entries cost, however long the tape is.
    fn read_through(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::range(self, session, from, through)
    }

    /// The newest anchor at or before the entry `seq`; in a fork it may be one of the parent. `None` if there is none.
    fn anchor_before(&self, session: &SessionId, seq: Seq) -> Result<Option<Anchor>, TapeError> {
        whole::must_be_shown(self, session)?;
        Ok(whole::anchor_at(self, session, seq)?.map(|(anchor, _)| anchor))
    }

    /// The tape as it was at the entry `seq`: what loading the session would have read then. [`TapeError::NoEntry`] where the tape
    /// does not reach `seq`, and for 0; [`TapeError::Damaged`].
    fn read_to(&self, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::read_to(self, session, seq)
    }

    /// The anchors of a tape, oldest first; of a fork, also those from before it was forked. An anchor whose first entry is not on
    /// the tape yet is left out, so a session without an entry has none.
    fn anchors(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::anchors(self, session)
    }

    /// The entries from the first of the anchor `from` to the last of the anchor `to`, both anchors included: of one anchor
    /// where both are the same, none where `to` is the older one.
    ///
    /// An anchor is named as it was made or with its number: `phase-1` or `002_phase-1`; the newest, if a fork has given the
    /// name again. [`TapeError::NoAnchor`]; [`TapeError::Damaged`].
    fn between_anchors(&self, session: &SessionId, from: &str, to: &str) -> Result<Vec<TapeEntry>, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::between_anchors(self, session, from, to)
    }

    /// Whether there is a session of this name. A deleted session does not exist, not even while it has forks; its name stays
    /// taken until the last of them is gone. A session that cannot be read exists.
    fn exists(&self, session: &SessionId) -> bool {
        let summary = whole::must_be_shown(self, session).and_then(|()| self.summary(session));
        !matches!(summary, Err(TapeError::Missing { .. }))
    }

    /// The names of all sessions, sorted.
    fn sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        shown(self, || self.names(), |session| session)
    }

    /// All sessions by their names, with the age and the size of their tapes. A session that cannot be read is listed as one
    /// without an entry.
    fn list(&self) -> Result<Vec<SessionSummary>, TapeError> {
        shown(self, || self.summaries(), |summary| &summary.id)
    }

    /// Makes the session `session`, which continues from the entry `at` of `parent`. Without `at` it continues from the parent's
    /// last sound append, which rescues a damaged session. The fork is not open afterwards; [`TapeStoreExt::load`] opens it.
    ///
    /// With `at`, the cost does not depend on the parent's length: nothing is copied. The parent may be written meanwhile, by any
    /// writer. From then on, deleting the parent only hides it, until the fork is gone. The fork begins with the entry `at` + 1,
    /// of the kind `forked`, which names its origin. If `at` is from before `parent` itself was forked, the origin is the session
    /// that `parent` continues from.
    ///
    /// [`TapeError::NoEntry`]; [`TapeError::InsideAppend`]; [`TapeError::TooDeep`]; [`TapeError::Exists`];
    /// [`TapeError::Damaged`] if the entry does not fit the one before it, or nothing is sound. No session was made then.
    /// [`TapeError::Busy`] if the first append was not taken, or not acknowledged within 30 s: then the fork may still appear.
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

    /// The origin of a fork; `None` if the session is not a fork.
    fn forked_from(&self, session: &SessionId) -> Result<Option<Forked>, TapeError> {
        whole::must_be_shown(self, session)?;
        Ok(self.summary(session)?.from)
    }

    /// The sessions that continue from this one, including those being made.
    fn forks_of(&self, session: &SessionId) -> Result<Vec<SessionId>, TapeError> {
        fork::forks_of(self, session)
    }

    /// Whether the tape of `session` has the entry `seq` of `other`: `session` is `other`, or continues from it at or after
    /// `seq`.
    fn has_entry_of(&self, session: &SessionId, other: &SessionId, seq: Seq) -> Result<bool, TapeError> {
        whole::must_be_shown(self, session)?;
        whole::has_entry_of(self, session, other, seq)
    }

    /// Deletes a session and its marks; hides it while forks depend on it. If it was the last fork of a hidden session, that
    /// session goes too. [`TapeError::Unfinished`] while a turn of it is open; [`TapeError::Claimed`] while it is open. After a
    /// crash half-way, the session is unchanged, hidden, or gone.
    fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError> {
        remove::delete(self, session, None, &[Mark::Open])
    }

    /// Deletes a session as [`TapeStoreExt::delete`] does, also in the middle of a turn: for a session that will not be
    /// continued, such as a parked one.
    fn delete_given_up(&self, session: &SessionId) -> Result<Deleted, TapeError> {
        remove::delete(self, session, None, &[])
    }

    /// Deletes a session, only if `last` is still its last entry; else [`TapeError::GoneOn`].
    fn delete_unless_gone_on(&self, session: &SessionId, last: Seq) -> Result<Deleted, TapeError> {
        remove::delete(self, session, Some(last), &[Mark::Open])
    }

    /// Deletes a session only if `last` is still its last entry, it is neither parked nor protected, and no fork continues from
    /// it. Returns whether it did. [`TapeError::Unfinished`] while a turn of it is open.
    fn delete_unused(&self, session: &SessionId, last: Seq) -> Result<bool, TapeError> {
        remove::delete_unused(self, session, last)
    }

    /// Writes a session as one file, which [`import`](TapeStoreExt::import) takes, also over another engine: the lines of a session
    /// that is not a fork are the same bytes over each that keeps lines. The file of a fork also has the entries from the sessions that
    /// it continues from. Holds the lines of one session in memory, twice while it seals them.
    ///
    /// [`TapeError::Damaged`]: nothing is exported of a tape with a bad line; [`TapeError::Newer`]; [`TapeError::TooDeep`];
    /// [`TapeError::Changed`]; [`TapeError::Io`], also of `to`. Discard what was written: imports refuse a part of a file, but the
    /// file may be whole if the session was deleted during the export.
    fn export(&self, session: &SessionId, spills: Spills, to: &mut dyn Write) -> Result<Exported, TapeError> {
        export::export(self, session, spills, to)
    }

    /// Brings in a session that [`export`](TapeStoreExt::export) wrote, over any engine. Holds one append of it in memory.
    ///
    /// [`TapeError::Exists`]; [`TapeError::Import`] if the file is not an export or is damaged, or has large outputs and the engine
    /// has no [`folder`](TapeStore::folder) for them; [`TapeError::Newer`]; [`TapeError::ReadingOnly`]; [`TapeError::Io`]. After an
    /// error, and after a kill, nothing of the session exists, unless the last step failed (the sync of the folder of all sessions,
    /// or the answer to a commit): then the whole session may exist.
    fn import(&self, from: &mut dyn BufRead, options: &ImportOptions) -> Result<Imported, TapeError> {
        import::import(self, from, options)
    }

    /// Notes that a turn of this session is open, so that the next start finds it with one look. Does not wait for a slow disk
    /// while the session is open through this value.
    fn mark_open(&self, session: &SessionId) -> Result<(), TapeError> {
        self.mark(session, Mark::Open, "")
    }

    /// Notes that no turn of this session is open. Call it only when the end of the turn is on the tape. Like `mark_open`, it does
    /// not wait for a slow disk while the session is open through this value.
    fn mark_closed(&self, session: &SessionId) -> Result<(), TapeError> {
        self.unmark(session, Mark::Open, "")
    }

    /// The sessions with an open turn, sorted.
    fn open_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.marks(Mark::Open, None).map(names)
    }

    /// Notes that a session is kept stopped, and why. Replaces an earlier note.
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

    /// Keeps a session from being swept, however long it is not used; deleting the session ends that. At the moment of a sweep,
    /// either the sweep leaves the session, or this fails because it is gone.
    fn protect(&self, session: &SessionId) -> Result<(), TapeError> {
        whole::must_be_shown(self, session)?;
        self.mark(session, Mark::Protected, "")
    }

    /// Lets a session be swept again. Does nothing for a session that was not protected.
    fn unprotect(&self, session: &SessionId) -> Result<(), TapeError> {
        self.unmark(session, Mark::Protected, "")
    }

    /// The sessions that are never swept, sorted.
    fn protected_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.marks(Mark::Protected, None).map(names)
    }

    /// The sessions that are open, through this value or elsewhere, sorted; with those for which that is unknown.
    fn claimed_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.marks(Mark::Claimed, None).map(names)
    }

    /// The folder by which tools know a session's large outputs; `None` if the store has no place for them. In the folder next to
    /// the tape it may be missing: the first output that is written makes it, with mode 0700. In a store that keeps outputs
    /// itself ([`TapeStore::output_copies`]) it is on no disk, and the same on every node.
    fn spill_path(&self, session: &SessionId) -> Option<PathBuf> {
        let beside = self.folder(Some(session)).map(|folder| folder.join("spill"));
        beside.or_else(|| self.output_copies().map(|_| told_folder(session)))
    }

    /// The folder for the contents that files had before calls of this session changed them; `None` as for `spill_path`. It may be
    /// missing: the first content that is kept makes it, with mode 0700.
    fn files_path(&self, session: &SessionId) -> Option<PathBuf> {
        self.folder(Some(session)).map(|folder| folder.join("files"))
    }

    /// The folder that tells the next runtime whose OS processes may have been left running; `None` as for `spill_path`.
    fn processes_path(&self) -> Option<PathBuf> {
        self.folder(None).map(|folder| folder.join("processes"))
    }
}

impl<S: TapeStore + ?Sized> TapeStoreExt for S {}

/// What is read, without the sessions that were deleted when it began, or are when it ends: one that is hidden meanwhile, and one
/// that was hidden and is erased meanwhile with its mark.
fn shown<S: TapeStore + ?Sized, T>(
    store: &S,
    read: impl FnOnce() -> Result<Vec<T>, TapeError>,
    id: impl Fn(&T) -> &SessionId,
) -> Result<Vec<T>, TapeError> {
    let hidden = || store.marks(Mark::Hidden, None).map(names);
    let (before, mut all, behind) = (hidden()?, read()?, hidden()?);
    all.retain(|one| [&before, &behind].iter().all(|hidden| hidden.binary_search(id(one)).is_err()));
    Ok(all)
}

fn names(marks: Vec<(SessionId, String)>) -> Vec<SessionId> {
    marks.into_iter().map(|(session, _)| session).collect()
}
