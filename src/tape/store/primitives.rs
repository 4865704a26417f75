//! [`TapeStore`] over files: its methods, of which `TapeStoreExt` makes all other operations of a store. The bodies of
//! `sound_end`, `erase`, `take_in` and of the methods for marks are in the files of those names.
//!
//! A method that reads a session's tape reads that session's own files alone, except `sound_end`, which also reads the tapes that
//! a fork continues from. After a crash in `begin`, the session has no entry, and a later `begin` can make it again.
//!
//! A change must keep: `begin`, `claim` and `erase` look at the session again once they have its claim (the exclusive right to
//! write it), because another store may have made or removed it meanwhile; `erase` looks at the marks and acts under
//! [`Store::decide`], with the claim; once a folder was moved or removed, its claim is not released by name, for the name may be
//! another session's by then. Every method may block, except `folder`. But the mark of an open turn must not wait for a slow disk
//! if this store has the session open: then the I/O thread sets it.

use std::{io, path::PathBuf, time::Duration};

use super::{
    Store,
    sound::{SoundEnd, sound_end},
};
use crate::{
    tape::{
        Anchor, LoadedTape, Mark, Notify, Position, SessionSummary, TapeAccess, TapeEntry, TapeError, TapePiece,
        TapeStore, TapeWriter,
        appends::{read_ends, read_range},
        disk::LogFile,
        handle::make_first_anchor,
        layout::{FIRST_ANCHOR, Layout, anchor_name, anchor_number, make_new_folder},
        line::{Chain, Sum},
        lineage::origin,
        read::{again_if_damaged, first_seen, last_seen, newest_at},
        seek::find,
    },
    words::ids::{Seq, SessionId},
};

/// The name of a fork's first part, after its number (a part is the folder of one anchor's file). Stored format.
const FORKED: &str = "forked";

impl TapeStore for Store {
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        let layout = self.layout();
        let folder = layout.session(session);
        let exists = || TapeError::Exists { session: session.clone() };
        self.inner.must_write()?;
        match make_new_folder(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A session without an entry: its maker died before the first one, so its existence was never reported.
                if summary(layout, session.clone())?.seq > Seq::ZERO {
                    return Err(exists());
                }
            }
            made => made.map_err(TapeError::io("make", &folder))?,
        }
        fault!(self.faults(), "tape.create.folder", session.as_str());
        let mut claiming = match self.claim_session(session) {
            Ok(claiming) => claiming,
            Err(TapeError::Claimed { .. }) => return Err(exists()),
            Err(error) => {
                // Removes the folder only while it is empty: another maker may be using it.
                let _ = std::fs::remove_dir(&folder);
                return Err(error);
            }
        };
        fault!(self.faults(), "tape.create.claimed", session.as_str());
        let (anchor, chain) = match after {
            None => (FIRST_ANCHOR.to_owned(), Chain::start(session, FIRST_ANCHOR)),
            Some(position) => {
                let sum = Sum::parse(&position.sum).ok_or_else(|| TapeError::engine("a place of another engine"))?;
                let anchor = format!("{:03}_{FORKED}", position.part.number + 1);
                let chain = Chain::forked(session, &anchor, position.seq, sum);
                (anchor, chain)
            }
        };
        // Another maker may have had the claim before, made the session, and given it back.
        let is_empty = summary(layout, session.clone())?.seq == Seq::ZERO;
        let made = if is_empty { self.make_empty(session, &anchor) } else { Err(exists()) };
        match made {
            Ok(file) => {
                Ok(Box::new(self.hand_out(session, notify, chain, vec![anchor], file, claiming.keep(), None)?))
            }
            Err(error @ TapeError::Exists { .. }) => Err(error),
            Err(error) => {
                // The claim went with the folder. Releasing it by name could remove the claim of a later maker.
                if std::fs::remove_dir_all(&folder).is_ok() {
                    claiming.claim = None;
                }
                Err(error)
            }
        }
    }

    fn claim(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        self.inner.must_write()?;
        self.must_be_there(session)?;
        let claiming = self.claim_session(session)?;
        // The session may have been deleted before this store had the claim.
        self.must_be_there(session)?;
        fault!(self.faults(), "tape.load.claimed", session.as_str());
        let (opened, file) = self.open_claimed(session)?;
        let (chain, anchors, mut claim) = (opened.chain, opened.anchors, claiming.keep());
        let rebooted = self.was_rebooted(claim.before.take());
        let tape = self.hand_out(session, notify, chain, anchors, file, claim, opened.damage.clone())?;
        let (tape, entries) = (Box::new(tape), opened.entries);
        let (repair, read_only) = (opened.repair, opened.damage);
        Ok(LoadedTape { tape, entries, repair, read_only, rebooted })
    }

    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        self.must_be_there(session)?;
        read_range(self.layout(), session, from, through)
    }

    fn position(&self, session: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError> {
        self.must_be_there(session)?;
        again_if_damaged(|| position(self.layout(), session, seq))
    }

    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        self.must_be_there(session)?;
        let layout = self.layout();
        let folders = layout.anchor_names(session)?;
        folders.iter().filter_map(|folder| part(layout, session, folder).transpose()).collect()
    }

    fn names(&self) -> Result<Vec<SessionId>, TapeError> {
        self.layout().all_session_ids()
    }

    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError> {
        self.must_be_there(session)?;
        summary(self.layout(), session.clone())
    }

    fn sound_end(&self, session: &SessionId) -> Result<SoundEnd, TapeError> {
        self.must_be_there(session)?;
        sound_end(self.layout(), session)
    }

    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError> {
        self.erase_folder(session, last, unless)
    }

    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.put_mark(session, mark, about)
    }

    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.take_mark(session, mark, about)
    }

    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError> {
        self.marked(mark, of)
    }

    fn ends(&self, session: &SessionId, through: Seq) -> Result<Vec<Seq>, TapeError> {
        self.must_be_there(session)?;
        read_ends(self.layout(), session, through)
    }

    fn take_in(
        &self,
        session: &SessionId,
        pieces: &mut dyn Iterator<Item = Result<TapePiece, TapeError>>,
    ) -> Result<(), TapeError> {
        self.write_whole(session, pieces)
    }

    fn settle(&self, limit: Duration) -> bool {
        self.inner.queue.wait_until_empty(limit)
    }

    fn folder(&self, of: Option<&SessionId>) -> Option<PathBuf> {
        match of {
            Some(session) => Some(self.layout().session(session)),
            // A store for reading makes no files.
            None => (self.access() == TapeAccess::Write).then(|| self.layout().root.clone()),
        }
    }
}

impl Store {
    /// Makes the empty first file of a session that has no entry, in place of any existing files.
    fn make_empty(&self, session: &SessionId, anchor: &str) -> Result<LogFile, TapeError> {
        let anchors = self.layout().anchors(session);
        match std::fs::remove_dir_all(&anchors) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TapeError::io("remove", &anchors)(error))?,
            _ => {}
        }
        let path = make_first_anchor(self.layout(), session, anchor)?;
        self.sync_session(session, &path)?;
        Ok(LogFile::new(path, 0))
    }

    /// [`TapeError::Missing`] if the session has no folder. A hidden session has one.
    pub(in crate::tape) fn must_be_there(&self, session: &SessionId) -> Result<(), TapeError> {
        match self.layout().session(session).is_dir() {
            true => Ok(()),
            false => Err(TapeError::Missing { session: session.clone() }),
        }
    }
}

/// As [`TapeStore::position`], for code that has no store: for a missing session the answer is `None`, and damage is not checked
/// a second time.
pub(in crate::tape) fn position(layout: &Layout, session: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError> {
    let folders = layout.anchor_names(session)?;
    let Some(newest) = newest_at(layout, session, &folders, seq)? else { return Ok(None) };
    let Some(found) = find(&layout.entries(session, &folders[newest]), seq)? else { return Ok(None) };
    let (sum, part) = (found.sum.as_str().to_owned(), part(layout, session, &folders[newest])?);
    Ok(part.map(|part| Position { seq, time: found.time, more: found.more, sum, part }))
}

/// The part in a folder; `None` if its first entry is not on the tape yet, or cannot be read.
fn part(layout: &Layout, session: &SessionId, folder: &str) -> Result<Option<Anchor>, TapeError> {
    let first = first_seen(&layout.entries(session, folder))?;
    Ok(first.map(|(first, time)| Anchor {
        number: anchor_number(folder).unwrap_or_default(),
        name: anchor_name(folder).to_owned(),
        first,
        time,
    }))
}

/// Summarizes a session from the first and the last line of its files. Checks no sums.
pub(super) fn summary(layout: &Layout, id: SessionId) -> Result<SessionSummary, TapeError> {
    let folders = layout.anchor_names(&id)?;
    let from = origin(layout, &id, &folders)?;
    let anchors: Vec<PathBuf> = folders.iter().map(|anchor| layout.entries(&id, anchor)).collect();
    let first = anchors.first().map_or(Ok(None), |path| first_seen(path))?;
    let mut last = None;
    for path in anchors.iter().rev() {
        last = last_seen(path)?;
        if last.is_some() {
            break;
        }
    }
    Ok(SessionSummary {
        created: first.map(|(_, time)| time),
        last: last.as_ref().map(|last| last.time),
        seq: last.map_or(Seq::ZERO, |last| last.seq),
        bytes: anchors.iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum(),
        from,
        id,
    })
}
