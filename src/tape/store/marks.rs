//! Which sessions are in a turn, which are kept stopped, and which are never swept: one small file each, so that it is known without reading a
//! tape. The tape may be what makes a session crash.

use std::{
    io::Write as _,
    sync::{Arc, Weak},
};

use super::stay::Stay;
use crate::{
    ids::{Millis, SessionId},
    tape::{
        Store, TapeError,
        disk::lock,
        layout::{ids_in, make_folder, new_file, open_or_make, remove_file},
        marks::Parked,
        queue::{Job, Mark as TurnMark, Wanted, What},
    },
};

impl Store {
    /// Notes that a turn of this session is open, so that the next start finds it with one look.
    ///
    /// Where this store has the session open and may not touch the disk in place just now, the I/O thread does it, before what
    /// is appended from here on.
    ///
    /// # Errors
    ///
    /// [`TapeError::ReadingOnly`]; [`TapeError::Io`].
    pub fn mark_open(&self, session: &SessionId) -> Result<(), TapeError> {
        self.inner.must_write()?;
        fault!(self.faults(), "tape.mark_open", session.as_str());
        self.mark_turn(session, TurnMark::Open)
    }

    /// Notes that no turn of this session is open; as [`Store::mark_open`] does it, and only when what ended the turn is on
    /// the tape.
    ///
    /// # Errors
    ///
    /// [`TapeError::ReadingOnly`]; [`TapeError::Io`].
    pub fn mark_closed(&self, session: &SessionId) -> Result<(), TapeError> {
        self.inner.must_write()?;
        fault!(self.faults(), "tape.mark_closed", session.as_str());
        self.mark_turn(session, TurnMark::Closed)
    }

    fn mark_turn(&self, session: &SessionId, mark: TurnMark) -> Result<(), TapeError> {
        let writer = &self.inner.writer;
        let log = lock(&writer.live).get(session).and_then(Weak::upgrade);
        let Some(log) = log else { return mark.put(&writer.layout, session) };
        let mut state = lock(&log.state);
        // What was wanted before does not count any more.
        state.mark_failed = None;
        let is_its_turn = state.marks == 0 && state.outstanding == 0;
        if is_its_turn && let Some(_began) = writer.in_place() {
            return mark.put(&writer.layout, session);
        }
        // Of one that waits already, and that no append stands behind, the last word counts: a session that is refused again and
        // again queues nothing more.
        if !state.mark.as_ref().is_some_and(|wanted| wanted.change(mark)) {
            let wanted = Arc::new(Wanted::new(mark));
            self.inner.queue.push(writer, Job::new(&log, What::Mark(wanted.clone())))?;
            state.marks += 1;
            state.mark = Some(wanted);
        }
        Ok(())
    }

    /// The sessions with an open turn, by id.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`].
    pub fn open_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        ids_in(&self.layout().open())
    }

    /// Notes that a session is kept stopped, and why. One that is noted already is noted anew.
    ///
    /// # Errors
    ///
    /// [`TapeError::ReadingOnly`]; [`TapeError::Io`].
    pub fn park(&self, session: &SessionId, time: Millis, why: &str) -> Result<(), TapeError> {
        self.put_parked(session, &Parked::text(time, why)?)
    }

    /// Writes the mark of a parked session, a line with that text.
    pub(in crate::tape) fn put_parked(&self, session: &SessionId, text: &str) -> Result<(), TapeError> {
        self.inner.must_write()?;
        let folder = self.layout().parked();
        make_folder(&folder)?;
        let path = folder.join(session.as_str());
        // A name that is no session's, and nobody else's.
        let draft = folder.join(format!(".new-{session}-{}", uuid::Uuid::now_v7().simple()));
        let write = || {
            let mut file = new_file(&draft)?;
            file.write_all(format!("{text}\n").as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)
        };
        let written = write();
        if written.is_err() {
            // There is nothing in it that anybody misses.
            let _ = std::fs::remove_file(&draft);
        }
        written.map_err(TapeError::io("write", path))
    }

    /// Notes that a session may run again. One that was not parked stays as it is.
    ///
    /// # Errors
    ///
    /// [`TapeError::ReadingOnly`]; [`TapeError::Io`].
    pub fn unpark(&self, session: &SessionId) -> Result<(), TapeError> {
        self.inner.must_write()?;
        remove_file(&self.layout().parked().join(session.as_str()))
    }

    /// Keeps a session from being swept, however long it is not used. Its own deletion ends that. In the moment of a sweep either
    /// the sweep leaves it, or this says that it is gone.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::ReadingOnly`]; [`TapeError::Io`].
    pub fn pin(&self, session: &SessionId) -> Result<(), TapeError> {
        self.inner.must_write()?;
        let _decided = Stay::decide(self.layout(), session)?;
        self.must_exist(session)?;
        let folder = self.layout().pinned();
        make_folder(&folder)?;
        let mark = folder.join(session.as_str());
        open_or_make(&mark).map(drop).map_err(TapeError::io("make", mark))
    }

    /// Lets a session be swept again. One that was not pinned stays as it is.
    ///
    /// # Errors
    ///
    /// [`TapeError::ReadingOnly`]; [`TapeError::Io`].
    pub fn unpin(&self, session: &SessionId) -> Result<(), TapeError> {
        self.inner.must_write()?;
        remove_file(&self.layout().pinned().join(session.as_str()))
    }

    /// The sessions that are never swept, by id.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`].
    pub fn pinned_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        ids_in(&self.layout().pinned())
    }

    /// The sessions that are kept stopped, by id, and why.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`].
    pub fn parked_sessions(&self) -> Result<Vec<(SessionId, String)>, TapeError> {
        let parked = self.parked_texts()?.into_iter();
        Ok(parked.map(|(session, text)| (session, Parked::why(&text))).collect())
    }

    /// The sessions that are kept stopped, by id, and what is written of each; nothing where that cannot be read.
    pub(in crate::tape) fn parked_texts(&self) -> Result<Vec<(SessionId, String)>, TapeError> {
        let folder = self.layout().parked();
        let text = |id: &SessionId| {
            let line = std::fs::read_to_string(folder.join(id.as_str())).unwrap_or_default();
            line.strip_suffix('\n').map(str::to_owned).unwrap_or(line)
        };
        Ok(ids_in(&folder)?.into_iter().map(|id| (id.clone(), text(&id))).collect())
    }
}
