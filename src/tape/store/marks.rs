//! Marks of sessions (a store's notes about a session next to its tape) as small files, known without reading a tape: the tape may
//! be the reason why a session crashes. `docs/TAPE.md`, "Layout", shows the files. A mark goes with its session's folder, except
//! `open`, `parked` and `protected`. `hidden/<id>` only says where to look: `sessions/<id>/hidden` counts.
//!
//! The file is the mark: a file that a crash emptied still counts. An emptied `imported` counts as an unreadable mark, and making a
//! fork of its session fails. The names are a stored format.
//!
//! In `Power` durability, a mark that was set survives a power cut: its folder is synced before the call returns. The exception
//! is `Open`, which is synced with the commit log (`commit.rs`). In both durabilities, a removed mark may be back after a power
//! cut.
//!
//! A change must keep: erasing a session (`erase.rs`) and setting `Protected`, `Hidden` or `Fork` hold the lock of the folder
//! `sessions/` ([`Store::decide`]) from the check to the act, and no thread takes that lock while it has `owners/` locked. Removing
//! a mark locks no folder. If this store has the session open, setting or removing `Open` does not make the caller wait for a disk
//! that is known to be slow: the I/O thread does it then, before the appends queued after it. All other marks may block the caller.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Weak,
};

use super::{Durability, Store, erase::note};
use crate::{
    tape::{
        Mark, TapeError,
        layout::{ids_in, make_folder, open_or_make, read_text, remove_file},
        owner::{Claim, is_alive},
        queue::{Job, Mark as TurnMark, What},
    },
    words::ids::SessionId,
};

type Marked = Vec<(SessionId, String)>;

impl Store {
    pub(super) fn put_mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.inner.must_write()?;
        let layout = self.layout();
        match mark {
            Mark::Open => {
                fault!(self.faults(), "tape.mark_open", session.as_str());
                self.mark_turn(session, TurnMark::Open)
            }
            Mark::Parked => self.put_parked(session, about),
            Mark::Protected => {
                let _decided = self.decide(session)?;
                make_folder(&layout.protected())?;
                touch(layout.protected().join(session.as_str()))?;
                self.keep_names([layout.protected(), layout.root.clone()])
            }
            Mark::Hidden => {
                let _claiming = self.claim_session(session)?;
                let _decided = self.decide(session)?;
                note(layout, session);
                make_folder(&layout.hidden())?;
                touch(layout.hidden().join(session.as_str()))?;
                touch(layout.hidden_mark(session))?;
                self.keep_names([layout.hidden(), layout.session(session), layout.root.clone()])?;
                note(layout, session);
                fault!(self.faults(), "tape.delete.hidden", session.as_str());
                Ok(())
            }
            Mark::Fork => {
                let _decided = self.decide(session)?;
                let fork = fork_of(about)?;
                make_folder(&layout.forks(session))?;
                touch(layout.fork_mark(session, &fork))?;
                self.keep_names([layout.forks(session), layout.session(session)])?;
                fault!(self.faults(), "tape.fork.marked", fork.as_str());
                Ok(())
            }
            Mark::Imported | Mark::Claimed => Err(not_by_hand()),
        }
    }

    pub(super) fn take_mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.inner.must_write()?;
        let layout = self.layout();
        match mark {
            Mark::Open => {
                fault!(self.faults(), "tape.mark_closed", session.as_str());
                self.mark_turn(session, TurnMark::Closed)
            }
            Mark::Parked => remove_file(&layout.parked().join(session.as_str())),
            Mark::Protected => remove_file(&layout.protected().join(session.as_str())),
            Mark::Hidden => {
                remove_file(&layout.hidden_mark(session))?;
                remove_file(&layout.hidden().join(session.as_str()))
            }
            Mark::Fork => remove_file(&layout.fork_mark(session, &fork_of(about)?)),
            Mark::Imported | Mark::Claimed => Err(not_by_hand()),
        }
    }

    pub(super) fn marked(&self, mark: Mark, of: Option<&SessionId>) -> Result<Marked, TapeError> {
        let layout = self.layout();
        let folder = match mark {
            Mark::Open => layout.open(),
            Mark::Parked => layout.parked(),
            Mark::Protected => layout.protected(),
            Mark::Hidden => layout.hidden(),
            Mark::Fork | Mark::Imported | Mark::Claimed => layout.sessions(),
        };
        let sessions = of.map_or_else(|| ids_in(&folder), |session| Ok(vec![session.clone()]))?;
        let mut marked = Marked::new();
        for session in sessions {
            match mark {
                Mark::Open | Mark::Protected | Mark::Parked => {
                    let path = folder.join(session.as_str());
                    if of.is_none() || path.exists() {
                        let said = if mark == Mark::Parked { read_line(&path) } else { String::new() };
                        marked.push((session, said));
                    }
                }
                Mark::Hidden if layout.hidden_mark(&session).exists() => marked.push((session, String::new())),
                Mark::Hidden => {}
                Mark::Fork => {
                    let forks = ids_in(&layout.forks(&session))?.into_iter();
                    marked.extend(forks.map(|fork| (session.clone(), fork.to_string())));
                }
                Mark::Imported => match read_text(&layout.imported(&session)) {
                    Ok(said) => marked.push((session, said)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    // An unreadable mark must not be passed over: a fork would get the powers that the import took away.
                    Err(error) => return Err(TapeError::io("read", layout.imported(&session))(error)),
                },
                Mark::Claimed if self.is_claimed(&session) => marked.push((session, String::new())),
                Mark::Claimed => {}
            }
        }
        Ok(marked)
    }

    /// Whether a live owner has claimed the session. A claim that cannot be read counts as a live owner's.
    fn is_claimed(&self, session: &SessionId) -> bool {
        match Claim::owner_of(self.layout(), session) {
            Ok(None) => false,
            Err(_) => true,
            Ok(Some(owner)) => {
                let ours = self.inner.writer.owner.lock().as_ref().is_some_and(|ours| ours.identity.owner == owner);
                ours || is_alive(self.layout(), &owner).unwrap_or(true)
            }
        }
    }

    /// Sets or removes the mark of an open turn. If this store has the session open and may not touch the disk in place, the I/O
    /// thread does it, before the appends that are queued from here on.
    fn mark_turn(&self, session: &SessionId, mark: TurnMark) -> Result<(), TapeError> {
        let writer = &self.inner.writer;
        let log = writer.live.lock().get(session).and_then(Weak::upgrade);
        let Some(log) = log else { return mark.put(&writer.layout, session) };
        let mut state = log.state.lock();
        // This request replaces the earlier one, and its failure.
        state.mark_failed = None;
        if state.is_idle()
            && let Some(_began) = writer.files.in_place()
        {
            return mark.put(&writer.layout, session);
        }
        // A mark that is queued already takes the newest request, so a session that is refused again and again queues no more.
        if state.mark.is_none() {
            self.inner.queue.push(Job::new(&log, What::Mark))?;
        }
        state.mark = Some(mark);
        Ok(())
    }

    /// Writes the mark of a parked session: one line with that text, synced.
    fn put_parked(&self, session: &SessionId, text: &str) -> Result<(), TapeError> {
        let folder = self.layout().parked();
        make_folder(&folder)?;
        let path = folder.join(session.as_str());
        // The file counts as the mark: text that a crash cuts off loses only the reason.
        let written = open_or_make(&path).and_then(|mut file| {
            file.set_len(0)?;
            file.write_all(format!("{text}\n").as_bytes())?;
            file.sync_all()
        });
        written.map_err(TapeError::io("write", path))?;
        self.keep_names([folder, self.layout().root.clone()])
    }

    /// In `Power` durability, returns when the names in these folders survive a power cut.
    fn keep_names<const N: usize>(&self, folders: [PathBuf; N]) -> Result<(), TapeError> {
        let writer = &self.inner.writer;
        match writer.options.durability {
            Durability::Process => Ok(()),
            Durability::Power => folders.iter().try_for_each(|folder| writer.disk.sync_folder(folder)),
        }
    }
}

fn not_by_hand() -> TapeError {
    TapeError::engine("this mark cannot be set")
}

fn fork_of(about: &str) -> Result<SessionId, TapeError> {
    about.parse().map_err(|_| TapeError::engine("a mark of a fork names a session"))
}

fn touch(path: PathBuf) -> Result<(), TapeError> {
    open_or_make(&path).map(drop).map_err(TapeError::io("make", path))
}

/// The line in a file of one line; empty if the file cannot be read.
fn read_line(path: &Path) -> String {
    let line = read_text(path).unwrap_or_default();
    line.strip_suffix('\n').map(str::to_owned).unwrap_or(line)
}
