//! Making a fork: a new session that goes on from an entry of another one, by reference. Nothing is copied.

use std::{io, path::PathBuf};

use super::{
    Claiming, Durability, Store,
    sound::{End, Last, end_of},
    summary,
};
use crate::{
    ids::{Millis, Seq, SessionId},
    tape::{
        TapeError,
        disk::LogFile,
        import::narrowed,
        layout::{Layout, anchor_number, make_folder, make_new_folder, open_or_make, remove_file, sync_folder},
        line::{Chain, encode_lines},
        lineage::{FORK_DEPTH_MAX, FORKS_OF_FORKS_MAX, Forked, origin},
        read::{again_if_damaged, last_seen, newest_at},
        seek::{Found, find},
    },
};

/// What the first file of a fork is called, behind its number.
const FOLDER_NAME: &str = "forked";

/// The entry that a fork goes on from.
struct Point {
    /// The session whose file it is in: the one that was asked for, or one that it goes on from itself.
    owner: SessionId,
    found: Found,
    /// The number of the anchor that it is in.
    number: u64,
    depth: u32,
}

impl Store {
    /// Makes the session `session`, which goes on from the entry `at` of `parent`, or from the last one that is on its tape and sound
    /// ([`Store::sound_end`]): so a damaged session is rescued.
    /// It is not open then; [`Store::load`] opens it like any other.
    ///
    /// Costs the same however long the parent is: one line is written, and the parent is not read but for the search for that
    /// entry; where none is named, what opening the parent would read is. So what is bad before an entry that is named is found
    /// by whoever opens the fork. The parent may be written meanwhile, by anybody. From then on deleting it only hides it, until the fork is gone.
    /// The fork begins with the entry `at` + 1, of the kind `forked`, and says where it comes from: where `at` is from before
    /// `parent` itself was forked, that is the session which `parent` goes on from.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::NoEntry`]; [`TapeError::InsideAppend`]; [`TapeError::TooDeep`];
    /// [`TapeError::Exists`]; [`TapeError::Damaged`] where the entry does not fit the one before it, or nothing is sound;
    /// [`TapeError::ReadingOnly`]; [`TapeError::Io`]. No session was made then.
    pub fn fork(
        &self,
        parent: &SessionId,
        at: Option<Seq>,
        session: &SessionId,
        time: Millis,
    ) -> Result<Forked, TapeError> {
        self.inner.must_write()?;
        self.must_exist(parent)?;
        let layout = self.layout();
        let point = again_if_damaged(|| fork_point(layout, parent, at))?;
        if point.depth > FORK_DEPTH_MAX {
            return Err(TapeError::TooDeep { session: parent.clone(), max: FORK_DEPTH_MAX });
        }
        let folder = layout.session(session);
        let exists = || TapeError::Exists { session: session.clone() };
        match make_new_folder(&folder) {
            // Somebody died between making a session and its first entry: nobody was told that it exists.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if summary::summary(layout, session.clone(), &[])?.seq > Seq::ZERO {
                    return Err(exists());
                }
            }
            made => made.map_err(TapeError::io("make", &folder))?,
        }
        fault!(self.faults(), "tape.fork.folder", session.as_str());
        let claim = self.claim(session).map_err(|error| match error {
            TapeError::Claimed { .. } => exists(),
            other => other,
        })?;
        let mut claiming = Claiming::new(self, session, claim);
        if !layout.anchor_names(session)?.is_empty() {
            return Err(exists());
        }
        let forked = Forked {
            session: session.clone(),
            parent: point.owner.clone(),
            seq: point.found.seq,
            sum: point.found.sum.as_str().to_owned(),
            depth: point.depth,
            spill: Some(self.spill_path(session).display().to_string()),
        };
        match self.begin_fork(session, &point, &forked, time) {
            Ok(()) => Ok(forked),
            Err(error) => {
                // The claim goes with the folder; the mark without its session means nothing, and is in nobody's way.
                if std::fs::remove_dir_all(&folder).is_ok() {
                    claiming.claim = None;
                    let _ = remove_file(&layout.fork_mark(&point.owner, session));
                }
                Err(error)
            }
        }
    }

    /// Where a session goes on from, where it is a fork; `None` where it is none. Reads one line.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::Io`].
    pub fn forked_from(&self, session: &SessionId) -> Result<Option<Forked>, TapeError> {
        self.must_exist(session)?;
        origin(self.layout(), session, &self.layout().anchor_names(session)?)
    }

    /// Whether the tape of `session` has that very entry of `other`: it is that session, or goes on from it behind that entry.
    /// Reads one line of each tape in between.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::Io`].
    pub fn has_entry_of(&self, session: &SessionId, other: &SessionId, seq: Seq) -> Result<bool, TapeError> {
        self.must_exist(session)?;
        let layout = self.layout();
        let (mut session, mut through) = (session.clone(), None::<Seq>);
        for _ in 0..FORKS_OF_FORKS_MAX {
            if session == *other {
                return Ok(through.is_none_or(|through| seq <= through));
            }
            let Some(forked) = origin(layout, &session, &layout.anchor_names(&session)?)? else { return Ok(false) };
            through = Some(through.map_or(forked.seq, |through| through.min(forked.seq)));
            session = forked.parent;
        }
        Ok(false)
    }

    /// First the mark in the parent's folder, then the line: a fork that is there keeps its parent.
    fn begin_fork(&self, session: &SessionId, point: &Point, forked: &Forked, time: Millis) -> Result<(), TapeError> {
        let layout = self.layout();
        let sync = self.inner.writer.options.durability == Durability::Power;
        mark(layout, &point.owner, session)?;
        if sync {
            sync_folder(&layout.forks(&point.owner))?;
            sync_folder(&layout.session(&point.owner))?;
        }
        fault!(self.faults(), "tape.fork.marked", session.as_str());
        let entry = forked.entry(time.max(point.found.time));
        let anchor = format!("{:03}_{FOLDER_NAME}", point.number + 1);
        let mut chain = Chain::forked(session, &anchor, point.found.seq, point.found.sum);
        let narrowed = narrowed::of_fork(layout, &point.owner, (session, &entry), forked.spill.as_deref())?;
        let entries: Vec<_> = [entry].into_iter().chain(narrowed).collect();
        let bytes = encode_lines(&mut chain, &entries)?;
        make_folder(&layout.anchors(session))?;
        let mut file = LogFile::new(PathBuf::new(), 0);
        let folder = layout.anchors(session).join(&anchor);
        file.begin(&*self.inner.writer.disk, &folder, &bytes, chain.seq, sync)?;
        if sync {
            sync_folder(&layout.session(session))?;
            sync_folder(&layout.sessions())?;
        }
        fault!(self.faults(), "tape.fork.begun", session.as_str());
        Ok(())
    }
}

/// Notes in the parent's folder that it has this fork. The parent must be there: its folder is not made.
fn mark(layout: &Layout, parent: &SessionId, fork: &SessionId) -> Result<(), TapeError> {
    let marks = layout.forks(parent);
    match make_new_folder(&marks) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(TapeError::Missing { session: parent.clone() });
        }
        made => made.map_err(TapeError::io("make", &marks))?,
    }
    let mark = layout.fork_mark(parent, fork);
    open_or_make(&mark).map(drop).map_err(TapeError::io("make", mark))
}

/// Finds the entry that a fork is to go on from.
fn fork_point(layout: &Layout, session: &SessionId, at: Option<Seq>) -> Result<Point, TapeError> {
    let no_entry = |last| TapeError::NoEntry { session: session.clone(), seq: at.unwrap_or_default(), last };
    let Some(at) = at else {
        let End { last, damage } = end_of(layout, session)?;
        let nothing = || damage.map_or_else(|| no_entry(Seq::ZERO), TapeError::Damaged);
        let Last { owner, anchor, seq, .. } = last.ok_or_else(nothing)?;
        return point_in(layout, session, owner, anchor, seq);
    };
    let mut owner = session.clone();
    for _ in 0..=FORK_DEPTH_MAX {
        let folders = layout.anchor_names(&owner)?;
        match newest_at(layout, &owner, &folders, at)? {
            Some(anchor) => return point_in(layout, session, owner, anchor, at),
            // From before the session was forked itself.
            None => owner = origin(layout, &owner, &folders)?.ok_or_else(|| no_entry(Seq::ZERO))?.parent,
        }
    }
    Err(TapeError::TooDeep { session: session.clone(), max: FORK_DEPTH_MAX })
}

/// The entry `seq` in that anchor of a tape. `session` is the one that was asked for.
fn point_in(
    layout: &Layout,
    session: &SessionId,
    owner: SessionId,
    anchor: usize,
    seq: Seq,
) -> Result<Point, TapeError> {
    let folders = layout.anchor_names(&owner)?;
    let no_entry = |last| TapeError::NoEntry { session: session.clone(), seq, last };
    let folder = folders.get(anchor).ok_or_else(|| no_entry(Seq::ZERO))?;
    let path = layout.entries(&owner, folder);
    let Some(found) = find(&path, seq)? else {
        return Err(no_entry(last_seen(&path, |_| true)?.map_or(Seq::ZERO, |last| last.seq)));
    };
    if found.more > 0 {
        return Err(TapeError::InsideAppend {
            session: session.clone(),
            seq,
            before: append_before(&path, found)?,
            end: Seq(seq.0.saturating_add(found.more)),
        });
    }
    let forked = if anchor == 0 { origin(layout, &owner, &folders)? } else { None };
    let depth = forked.map_or(0, |forked| forked.depth).saturating_add(1);
    Ok(Point { owner, found, number: anchor_number(folder).unwrap_or(1), depth })
}

/// The last entry of the append before the one that this entry is in the middle of.
fn append_before(path: &std::path::Path, inside: Found) -> Result<Seq, TapeError> {
    let mut seq = inside.seq;
    while seq > Seq(1) {
        seq = Seq(seq.0 - 1);
        // An append begins with its file at the latest.
        if find(path, seq)?.is_none_or(|found| found.more == 0) {
            return Ok(seq);
        }
    }
    Ok(Seq::ZERO)
}
