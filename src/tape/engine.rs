//! What a runtime needs of whatever keeps its tapes, so that something else than files can: a database, a test's memory.
//!
//! The narrowest door that is enough: tapes are made, claimed, appended to, read at any place, forked, deleted and checked.
//! Plain and synchronous, as the files are: an append is answered at once or told later, and never waits for a slow disk;
//! everything else may, and is called on threads that may wait. One dynamic call an append, and nothing is boxed for it.
//!
//! [`Store`] is the one over files; [`MemoryStore`](super::MemoryStore) keeps all in memory. `tests/engines.rs` holds both to
//! the same claims; an engine of a host's own must meet them too.

use std::{fmt, time::Duration};

use super::{
    Anchor, Appended, Damage, Deleted, Entry, Finding, Forked, Notify, ReadTo, Repair, Store, Tape, TapeError,
};
use crate::ids::{Millis, Seq, SessionId};

/// Keeps tapes. Each method promises, and fails, as the one of the same name of [`Store`] does.
#[allow(clippy::missing_errors_doc, reason = "said once, above")]
pub trait TapeStore: Send + Sync + fmt::Debug {
    /// Makes a session with an empty tape, and claims it.
    fn create(&self, session: &SessionId, notify: Notify) -> Result<Box<dyn TapeWriter>, TapeError>;

    /// Claims a session and reads its tape from the newest anchor on.
    fn load(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError>;

    /// The entries after `after`, of all anchors. Beside a writer, whose last append is there whole or not at all.
    fn read(&self, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError>;

    /// The tape as it was at the entry `seq`.
    fn read_to(&self, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError>;

    /// The anchors of a tape, oldest first.
    fn anchors(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError>;

    /// The entries from the first of one anchor to the last of another.
    fn between_anchors(&self, session: &SessionId, from: &str, to: &str) -> Result<Vec<Entry>, TapeError>;

    /// Whether there is a session of this name.
    fn exists(&self, session: &SessionId) -> bool;

    /// The names of all sessions, sorted.
    fn sessions(&self) -> Result<Vec<SessionId>, TapeError>;

    /// Makes a session that goes on from an entry of another one.
    fn fork(&self, parent: &SessionId, at: Option<Seq>, session: &SessionId, time: Millis)
    -> Result<Forked, TapeError>;

    /// Deletes a session; hides it while forks go on from it.
    fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError>;

    /// What is wrong with a session's tape.
    fn verify(&self, session: &SessionId) -> Result<Vec<Finding>, TapeError>;

    /// Notes that a turn of this session is open.
    fn mark_open(&self, session: &SessionId) -> Result<(), TapeError>;

    /// Notes that no turn of this session is open.
    fn mark_closed(&self, session: &SessionId) -> Result<(), TapeError>;

    /// The sessions with an open turn, sorted.
    fn open_sessions(&self) -> Result<Vec<SessionId>, TapeError>;

    /// Closes it for all: writes what waits, and gives every session back.
    fn close(&self, limit: Duration) -> Result<(), TapeError>;
}

/// Appends to one tape. Dropping it gives the session back. Each method is as the one of [`Tape`].
pub trait TapeWriter: Send + fmt::Debug {
    /// The last entry that is on the tape.
    fn last(&self) -> Seq;

    /// How many appends were answered [`Appended::Later`] and not yet told.
    fn outstanding(&self) -> usize;

    /// Appends entries, all or none.
    fn append(&mut self, entries: &[Entry]) -> Appended;

    /// Appends one entry as the first of a new anchor.
    fn begin_anchor(&mut self, name: &str, first: &Entry) -> Appended;
}

/// A tape that was loaded.
#[derive(Debug)]
pub struct LoadedTape {
    /// To append to it.
    pub tape: Box<dyn TapeWriter>,
    /// What it says, from its newest anchor on.
    pub entries: Vec<Entry>,
    /// A torn tail was cut off.
    pub repair: Option<Repair>,
    /// It is damaged: `entries` end before that, and nothing can be appended.
    pub read_only: Option<Damage>,
    /// Acknowledged entries may be lost, because the machine was started anew.
    pub rebooted: bool,
}

impl TapeWriter for Tape {
    fn last(&self) -> Seq {
        Tape::last(self)
    }

    fn outstanding(&self) -> usize {
        Tape::outstanding(self)
    }

    fn append(&mut self, entries: &[Entry]) -> Appended {
        Tape::append(self, entries)
    }

    fn begin_anchor(&mut self, name: &str, first: &Entry) -> Appended {
        Tape::begin_anchor(self, name, first)
    }
}

impl TapeStore for Store {
    fn create(&self, session: &SessionId, notify: Notify) -> Result<Box<dyn TapeWriter>, TapeError> {
        Ok(Box::new(Store::create(self, session, notify)?))
    }

    fn load(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        let loaded = Store::load(self, session, notify)?;
        Ok(LoadedTape {
            tape: Box::new(loaded.tape),
            entries: loaded.entries,
            repair: loaded.repair,
            read_only: loaded.read_only,
            rebooted: loaded.rebooted,
        })
    }

    fn read(&self, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError> {
        Store::read(self, session, after)
    }

    fn read_to(&self, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError> {
        Store::read_to(self, session, seq)
    }

    fn anchors(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        Store::anchors(self, session)
    }

    fn between_anchors(&self, session: &SessionId, from: &str, to: &str) -> Result<Vec<Entry>, TapeError> {
        Store::between_anchors(self, session, from, to)
    }

    fn exists(&self, session: &SessionId) -> bool {
        Store::exists(self, session)
    }

    fn sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.layout().session_ids()
    }

    fn fork(
        &self,
        parent: &SessionId,
        at: Option<Seq>,
        session: &SessionId,
        time: Millis,
    ) -> Result<Forked, TapeError> {
        Store::fork(self, parent, at, session, time)
    }

    fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError> {
        Store::delete(self, session)
    }

    fn verify(&self, session: &SessionId) -> Result<Vec<Finding>, TapeError> {
        Store::verify(self, session)
    }

    fn mark_open(&self, session: &SessionId) -> Result<(), TapeError> {
        Store::mark_open(self, session)
    }

    fn mark_closed(&self, session: &SessionId) -> Result<(), TapeError> {
        Store::mark_closed(self, session)
    }

    fn open_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        Store::open_sessions(self)
    }

    fn close(&self, limit: Duration) -> Result<(), TapeError> {
        Store::close(self, limit)
    }
}
