//! Deleting a session: at once, or, while forks go on from it, out of sight until the last of them is gone.
//!
//! ```text
//! sessions/p/forks/f     f goes on from p                        made before f begins
//! hidden/p               p was deleted, and waits for its forks  made under p's claim
//! deleted/p.<n>          p is being removed                      p's folder, moved here in one go
//! ```
//!
//! A crash in between leaves one of these three, and the next store that is opened to write goes on from there. A mark says
//! that a fork *may* be there; whether it is, its own folder says. So marks are made early, removed late, and never believed
//! blindly.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Claiming, Store,
    notes::{Forgotten, Note, Patience, Which},
    stay::Stay,
    summary,
};
#[cfg(feature = "sqlite")]
use crate::tape::index::forget::forget_deleted;
use crate::{
    ids::{Seq, SessionId},
    tape::{
        TapeError,
        disk::lock,
        layout::{Layout, ids_in, make_folder, names_in, open_or_make, remove_file},
        lineage::{origin, origin_in},
        owner::{Claim, is_alive},
    },
};

/// What became of a session that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, its large outputs included.
    Gone,
    /// Forks go on from it: it is not there for anybody but them, and goes with the last one.
    Hidden,
}

impl Store {
    /// Deletes a session. What it goes on from, where that was deleted before and this was its last fork, goes too.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::Unfinished`] while a turn of it is open; [`TapeError::Claimed`] while somebody has
    /// it open; [`TapeError::ReadingOnly`]; [`TapeError::Io`]. After a crash or an error half-way the session is there as
    /// before, or is gone and what is left of it goes when the store is opened the next time.
    pub fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError> {
        self.delete_and_forget(session, &|| Ok(true))
    }

    /// Deletes a session whose last entry is still that one, that is neither parked nor pinned, and that no fork goes on from.
    /// Says whether it did.
    ///
    /// # Errors
    ///
    /// As [`Store::delete`].
    pub(crate) fn delete_unused(&self, session: &SessionId, last: Seq) -> Result<bool, TapeError> {
        let layout = self.layout();
        let is_unused = || {
            let marked = [layout.parked(), layout.pinned()].iter().any(|marks| marks.join(session.as_str()).exists());
            let used = summary::summary(layout, session.clone(), &[])?.seq != last;
            Ok(!marked && !used && !has_forks(layout, session, &layout.session(session))?)
        };
        let mut traces = Traces::default();
        let deleted = self.delete_where(session, &is_unused, &mut traces);
        // The look at the index is one for many: see `forget_swept`.
        traces.note.into_iter().for_each(Note::leave);
        Ok(deleted? == Some(Deleted::Gone))
    }

    /// Takes what was deleted by [`Store::delete_unused`] out of the index: many at once cost little more than one. Told to stop,
    /// it leaves the rest to the next sweep, or to the next store that is opened to write.
    pub(crate) fn forget_swept(&self, stop: &dyn Fn() -> bool) {
        let note = self.owner().and_then(|owner| Note::take(self.layout(), &owner));
        if let Some(note) = note {
            let patience = Patience { rows: ROWS_MAX, merge: MERGE_AFTER_SWEEP, stop };
            match forget_in_index(self.layout(), Which::AllGone, &patience).is_some() {
                true => note.done(),
                false => note.leave(),
            }
        }
    }

    /// What was deleted is to be read nowhere: it leaves the index as well.
    fn delete_and_forget(
        &self,
        session: &SessionId,
        holds: &dyn Fn() -> Result<bool, TapeError>,
    ) -> Result<Deleted, TapeError> {
        let mut traces = Traces::default();
        let deleted = self.delete_where(session, holds, &mut traces);
        let Traces { mut gone, note } = traces;
        if matches!(deleted, Ok(Some(Deleted::Hidden))) {
            gone.push(session.clone());
        }
        let patience = Patience { rows: ROWS_MAX, merge: MERGE_AFTER_DELETION, stop: &|| false };
        let forgotten = gone.is_empty() || forget_in_index(self.layout(), Which::These(&gone), &patience).is_some();
        if let Some(note) = note {
            // What an error left is gone for good when the next store is opened.
            match forgotten && deleted.is_ok() {
                true => note.done(),
                false => note.leave(),
            }
        }
        Ok(deleted?.unwrap_or(Deleted::Hidden))
    }

    fn owner(&self) -> Option<String> {
        lock(&self.inner.writer.owner).as_ref().map(|owner| owner.identity.owner.clone())
    }

    /// Deletes a session, only if that is still its last entry.
    ///
    /// # Errors
    ///
    /// As [`Store::delete`]; [`TapeError::GoneOn`].
    pub fn delete_unless_gone_on(&self, session: &SessionId, last: Seq) -> Result<Deleted, TapeError> {
        let has_not_gone_on = || match summary::summary(self.layout(), session.clone(), &[])?.seq {
            now if now == last => Ok(true),
            now => Err(TapeError::GoneOn { session: session.clone(), expected: last, last: now }),
        };
        self.delete_and_forget(session, &has_not_gone_on)
    }

    /// Deletes a session where that holds once nobody else can use it any more; `None` where it does not.
    fn delete_where(
        &self,
        session: &SessionId,
        holds: &dyn Fn() -> Result<bool, TapeError>,
        traces: &mut Traces,
    ) -> Result<Option<Deleted>, TapeError> {
        self.inner.must_write()?;
        self.must_exist(session)?;
        let layout = self.layout();
        let claim = self.claim(session)?;
        let mut claiming = Claiming::new(self, session, claim);
        // Only now nobody else can begin a turn.
        self.must_exist(session)?;
        if layout.open().join(session.as_str()).exists() {
            return Err(TapeError::Unfinished { session: session.clone() });
        }
        // Nor keep it from going, without being told that it has.
        let decided = Stay::decide(layout, session)?;
        if !holds()? {
            return Ok(None);
        }
        fault!(self.faults(), "tape.delete.claimed", session.as_str());
        self.unpark(session)?;
        self.unpin(session)?;
        if has_forks(layout, session, &layout.session(session))? {
            // One that came meanwhile may be why it is to stay.
            if !holds()? {
                return Ok(None);
            }
            traces.note = self.owner().and_then(|owner| Note::make(layout, &owner));
            let mark = layout.hidden_mark(session);
            make_folder(&layout.hidden())?;
            open_or_make(&mark).map_err(TapeError::io("make", mark))?;
            fault!(self.faults(), "tape.delete.hidden", session.as_str());
            return Ok(Some(Deleted::Hidden));
        }
        traces.note = self.owner().and_then(|owner| Note::make(layout, &owner));
        let moved = move_away(layout, session)?;
        drop(decided);
        // The claim went with the folder, also where the rest of it fails. By its name it may be another's by now, who made a
        // session of this id anew.
        claiming.claim = None;
        let gone = remove(layout, session, moved, &mut traces.gone)?;
        Ok(Some(if gone { Deleted::Gone } else { Deleted::Hidden }))
    }

    /// The sessions that go on from this one, or may be about to.
    pub(crate) fn forks_of(&self, session: &SessionId) -> Result<Vec<SessionId>, TapeError> {
        forks_in(self.layout(), session, &self.layout().session(session)).collect()
    }
}

/// What a deletion leaves to be done elsewhere.
#[derive(Default)]
struct Traces {
    /// The sessions that are gone, also those that only waited for this one.
    gone: Vec<SessionId>,
    /// Made right before the first of them went.
    note: Option<Note>,
}

/// Goes on where deletions were cut off. Looks at two folders, which are empty or missing as a rule. Says what failed; the next
/// one is done all the same.
pub(super) fn finish_deletions(layout: &Layout, owner: &str) -> Vec<TapeError> {
    let mut failed = Vec::new();
    let mut finished = 0;
    let cut_off = names_in(&layout.deleted()).unwrap_or_else(|error| {
        failed.push(error);
        Vec::new()
    });
    for name in cut_off {
        if let Some(session) = name.rsplit_once('.').and_then(|(session, _)| session.parse().ok()) {
            match finish(layout, &session, &layout.deleted().join(&name)) {
                Ok(_) => finished += 1,
                Err(error) => failed.push(error),
            }
        }
    }
    let hidden = ids_in(&layout.hidden()).unwrap_or_else(|error| {
        failed.push(error);
        Vec::new()
    });
    for session in hidden {
        let finish = || match layout.session(&session).is_dir() {
            false => remove_file(&layout.hidden_mark(&session)).map(|()| 0),
            true if has_forks(layout, &session, &layout.session(&session))? => Ok(0),
            true => move_away(layout, &session)
                .and_then(|moved| remove(layout, &session, moved, &mut Vec::new()))
                .map(|_| 1),
        };
        match finish() {
            Ok(gone) => finished += gone,
            Err(error) => failed.push(error),
        }
    }
    let note = Note::take(layout, owner).or_else(|| if finished > 0 { Note::make(layout, owner) } else { None });
    if let Some(note) = note {
        // Nobody has any session before this is over. What is left goes on at the next start.
        let patience = Patience { rows: AT_OPENING, merge: AT_OPENING, stop: &|| false };
        match forget_in_index(layout, Which::AllGone, &patience) {
            Some(Forgotten::Words) => note.done(),
            Some(Forgotten::Rows) | None => note.leave(),
        }
    }
    failed
}

/// How long rows may be taken out of the index: behind what was deleted, and while a store is opened.
const ROWS_MAX: Duration = Duration::from_secs(10);
const AT_OPENING: Duration = Duration::from_millis(100);
/// How long words may be taken out of the search table: behind one deletion, and behind many.
const MERGE_AFTER_DELETION: Duration = Duration::from_millis(500);
const MERGE_AFTER_SWEEP: Duration = Duration::from_secs(10);

/// Says how far it came, where all rows are out. What cannot be done now is done by the next store that is opened to write.
#[cfg(feature = "sqlite")]
fn forget_in_index(layout: &Layout, which: Which<'_>, patience: &Patience<'_>) -> Option<Forgotten> {
    forget_deleted(layout, which, patience).unwrap_or_else(|error| {
        tracing::warn!(%error, "what was deleted is still in the index");
        None
    })
}

/// Without a database in it, this library leaves the index to others.
#[cfg(not(feature = "sqlite"))]
fn forget_in_index(_: &Layout, _: Which<'_>, _: &Patience<'_>) -> Option<Forgotten> {
    None
}

/// Removes a session that was moved away, and then what it goes on from, where that was only waiting for it. Says whether it is
/// gone: a fork may have come meanwhile, and then it is hidden.
fn remove(
    layout: &Layout,
    session: &SessionId,
    moved: Option<PathBuf>,
    all_gone: &mut Vec<SessionId>,
) -> Result<bool, TapeError> {
    let mut gone = None;
    let mut next = Some((session.clone(), moved));
    while let Some((session, moved)) = next {
        let removed = moved.map_or(Ok(Removed::Gone(None)), |to| finish(layout, &session, &to))?;
        gone.get_or_insert(matches!(removed, Removed::Gone(_)));
        all_gone.extend(Some(session).filter(|_| matches!(removed, Removed::Gone(_))));
        next = match removed {
            Removed::Gone(Some(parent))
                if layout.hidden_mark(&parent).exists() && !has_forks(layout, &parent, &layout.session(&parent))? =>
            {
                let moved = move_away(layout, &parent)?;
                Some((parent, moved))
            }
            _ => None,
        };
    }
    Ok(gone.unwrap_or(true))
}

/// Takes a session's folder out of sight; `None` where another one did.
fn move_away(layout: &Layout, session: &SessionId) -> Result<Option<PathBuf>, TapeError> {
    make_folder(&layout.deleted())?;
    let from = layout.session(session);
    let to = layout.deleted().join(format!("{session}.{}", uuid::Uuid::now_v7().simple()));
    match fs::rename(&from, &to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        moved => moved.map_err(TapeError::io("remove", &from))?,
    }
    fault!(layout.faults, "tape.delete.moved", session.as_str());
    Ok(Some(to))
}

enum Removed {
    /// For good. It went on from this one.
    Gone(Option<SessionId>),
    /// A fork had come meanwhile.
    BroughtBack,
}

/// Removes what was moved away already. From here on no fork of it can be made; one that was made meanwhile brings it back.
fn finish(layout: &Layout, session: &SessionId, moved: &Path) -> Result<Removed, TapeError> {
    let home = layout.session(session);
    if !home.exists() && has_forks(layout, session, moved)? {
        make_folder(&layout.hidden())?;
        let mark = layout.hidden_mark(session);
        open_or_make(&mark).map_err(TapeError::io("make", mark))?;
        // Nobody has it: whoever did gave it up for the deletion.
        remove_file(&moved.join("claim"))?;
        fs::rename(moved, &home).map_err(TapeError::io("bring back", &home))?;
        return Ok(Removed::BroughtBack);
    }
    let parent = origin_in(&moved.join("anchors"))?.map(|forked| forked.parent);
    // Not the marks of another session that was made under this name since.
    if !home.exists() {
        remove_file(&layout.hidden_mark(session))?;
        if let Some(parent) = &parent {
            remove_file(&layout.fork_mark(parent, session))?;
        }
    }
    fault!(layout.faults, "tape.delete.unmarked", session.as_str());
    match fs::remove_dir_all(moved) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TapeError::io("remove", moved)(error)),
        _ => Ok(Removed::Gone(parent)),
    }
}

/// Whether a fork goes on from this session, or is being made.
fn has_forks(layout: &Layout, session: &SessionId, home: &Path) -> Result<bool, TapeError> {
    forks_in(layout, session, home).next().transpose().map(|fork| fork.is_some())
}

/// The forks that the marks in a session's folder name, and that agree. A fork goes on from an entry of this session's own: of what
/// is from before, it would be a fork of another one. So sessions never go on from each other in a circle, whatever files say,
/// and each can be removed.
fn forks_in<'l>(
    layout: &'l Layout,
    session: &'l SessionId,
    home: &Path,
) -> impl Iterator<Item = Result<SessionId, TapeError>> + use<'l> {
    let looked = ids_in(&home.join("forks")).and_then(|marks| {
        let own = if marks.is_empty() { None } else { origin_in(&home.join("anchors"))? };
        Ok((marks, own.map_or(Seq::ZERO, |forked| forked.seq)))
    });
    let ((marks, before), failed) = match looked {
        Ok(looked) => (looked, None),
        Err(error) => ((Vec::new(), Seq::ZERO), Some(Err(error))),
    };
    let agrees = move |fork: &SessionId| {
        let folders = layout.anchor_names(fork)?;
        match folders.is_empty() {
            // Whoever makes it has claimed it, and lives: of one who was killed before its first line, nothing is to come.
            true => Ok(Claim::owner_of(layout, fork)?.is_some_and(|owner| is_alive(layout, &owner))),
            false => {
                let forked = origin(layout, fork, &folders)?;
                Ok(forked.is_some_and(|forked| forked.parent == *session && forked.seq > before))
            }
        }
    };
    let forks = marks.into_iter().filter_map(move |fork| match agrees(&fork) {
        Ok(true) => Some(Ok(fork)),
        Ok(false) => None,
        Err(error) => Some(Err(error)),
    });
    failed.into_iter().chain(forks)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::{cell::Cell, sync::Arc, time::Duration};

    use super::*;
    use crate::{
        ids::Millis,
        tape::tests::support::{entry, id, own_folder, small},
    };

    /// A store with the session `p`, of one entry.
    fn with_one(folder: &Path) -> Store {
        let store = Store::open(folder, small()).unwrap();
        let mut tape = store.create(&id("p"), Arc::new(|_| {})).unwrap();
        // Now or later: it is on the disk once the store has settled.
        let _ = tape.append(&[entry(1)]);
        drop(tape);
        assert!(store.settle(Duration::from_secs(60)));
        store
    }

    /// Finding: a pin in the moment of the removal went with the session, and whoever pinned it was told that it stays. Here the
    /// removal has looked, and so whoever pins waits, and hears that it is gone. The pin of one who comes first is seen.
    #[test]
    fn a_pin_and_a_removal_at_one_moment_agree() {
        let folder = own_folder();
        let (one, two) = (with_one(folder.path()), Store::open(folder.path(), small()).unwrap());
        let pinned = std::sync::OnceLock::new();
        std::thread::scope(|scope| {
            let (begun, begins) = std::sync::mpsc::channel();
            let removal_looks = || {
                let (two, begun, pinned) = (&two, begun.clone(), &pinned);
                scope.spawn(move || {
                    begun.send(()).unwrap();
                    pinned.set(two.pin(&id("p"))).unwrap();
                });
                begins.recv().unwrap();
                // Time enough for a pin that does not wait.
                for _ in 0..100 {
                    if pinned.get().is_none() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                Ok(true)
            };
            let gone = one.delete_where(&id("p"), &removal_looks, &mut Traces::default()).unwrap();
            assert_eq!(gone, Some(Deleted::Gone));
        });
        assert!(matches!(pinned.get(), Some(Err(TapeError::Missing { .. }))), "{pinned:?}");
        assert_eq!((one.pinned_sessions().unwrap(), one.exists(&id("p"))), (vec![], false));

        let one = with_one(folder.path());
        one.pin(&id("p")).unwrap();
        assert!(!two.delete_unused(&id("p"), Seq(1)).unwrap());
        assert_eq!(one.pinned_sessions().unwrap(), [id("p")]);
    }

    /// Whichever comes first: of a session that is pinned and swept at once, the pin holds, or is refused and nothing is left of it.
    #[test]
    fn of_a_pin_and_a_sweep_at_once_one_has_its_way() {
        let folder = own_folder();
        let (one, two) = (with_one(folder.path()), Store::open(folder.path(), small()).unwrap());
        for round in 0..50 {
            let all = std::sync::Barrier::new(2);
            let (pinned, gone) = std::thread::scope(|scope| {
                let pin = scope.spawn(|| {
                    all.wait();
                    two.pin(&id("p"))
                });
                all.wait();
                (0..round % 7).for_each(|_| std::thread::yield_now());
                let gone = one.delete_unused(&id("p"), Seq(1)).unwrap();
                (pin.join().unwrap(), gone)
            });
            assert_eq!(pinned.is_err(), gone, "round {round}: {pinned:?}");
            assert_eq!(one.pinned_sessions().unwrap().is_empty(), gone, "round {round}");
            assert_eq!(one.exists(&id("p")), !gone, "round {round}");
            if !gone {
                one.delete(&id("p")).unwrap();
            }
            drop(with_one(folder.path()));
        }
    }

    /// Files may say that two sessions go on from each other. Each is removed all the same.
    #[test]
    fn sessions_that_name_each_other_as_what_they_go_on_from_can_be_removed() {
        let folder = own_folder();
        let store = with_one(folder.path());
        for (parent, fork) in [("p", "f"), ("f", "g")] {
            store.fork(&id(parent), None, &id(fork), Millis(2_000_000_000_000)).unwrap();
        }
        // What goes on from f takes the place of what f goes on from.
        let sessions = folder.path().join("sessions");
        fs::rename(sessions.join("p/forks"), sessions.join("g/forks")).unwrap();
        fs::rename(sessions.join("f/forks/g"), sessions.join("f/forks/p")).unwrap();
        fs::rename(sessions.join("p"), folder.path().join("away")).unwrap();
        fs::rename(sessions.join("g"), sessions.join("p")).unwrap();
        let origin = |name| store.forked_from(&id(name)).unwrap().unwrap().parent;
        assert_eq!((origin("p"), origin("f")), (id("f"), id("p")));
        assert_eq!((store.forks_of(&id("p")).unwrap(), store.forks_of(&id("f")).unwrap()), (vec![], vec![id("p")]));
        assert_eq!(store.delete(&id("p")).unwrap(), Deleted::Gone);
        assert_eq!(store.delete(&id("f")).unwrap(), Deleted::Gone);
        assert!(store.list().unwrap().is_empty());
    }

    /// A fork that is made in the moment of a removal keeps what it goes on from, where that was to go only without forks: it is
    /// not hidden either.
    #[test]
    fn a_session_that_is_forked_in_the_moment_of_its_removal_stays() {
        let folder = own_folder();
        let store = with_one(folder.path());
        store.mark_closed(&id("p")).unwrap();
        let asked = Cell::new(0);
        let is_unused = || {
            asked.set(asked.get() + 1);
            if asked.get() == 1 {
                store.fork(&id("p"), None, &id("f"), Millis(2_000_000_000_000))?;
            }
            Ok(asked.get() == 1)
        };
        assert_eq!(store.delete_where(&id("p"), &is_unused, &mut Traces::default()).unwrap(), None);
        assert_eq!(asked.get(), 2, "it is looked at once more");
        assert!(store.exists(&id("p")) && store.exists(&id("f")));
    }
}
