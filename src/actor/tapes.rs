//! The tapes of one runtime: the engine that keeps them, and which of them this runtime has open.
//!
//! The engine (files, memory, or a host's database) guarantees what a single [`TapeWriter`] does. This module adds two guarantees,
//! for every engine:
//!
//! - [`Tapes::load`] waits, up to a limit, until this runtime has given the tape back, so that a new incarnation of a session does
//!   not fail because its predecessor is still ending. After the limit it fails with `Claimed`.
//! - [`Tapes::close`] takes every open tape back, also from an actor that could not be stopped; a tape in the middle of an append
//!   comes back when its actor drops it. It closes the store of files, and never an engine of the host, which another runtime may
//!   be using.
//!
//! A change must keep a [`Hold`] for as long as the engine has the session claimed, and never while waiting for another holder:
//! two waiters would wait for each other. Everything here that makes, reads, deletes or closes tapes may block on a disk, so no
//! actor may call it.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Condvar, MutexGuard},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use crate::{
    actor::outputs::StoreOutputs,
    kernel::Entry,
    lock::{Lock, unspoiled},
    tape::{
        Caught, Damage, Deleted, FirstAppend, Lender, LoadedTape, Notify, OpenTape, Repair, Store, TapeEntry,
        TapeError, TapeStore, TapeStoreExt as _, TapeWriter, finish_deletions,
    },
    words::ids::{Seq, SessionId},
};

/// The tapes of one runtime. Clones share everything. Calls that need no hold (reads, marks) go straight to the engine, by `Deref`.
#[derive(Clone, Debug)]
pub(crate) struct Tapes {
    engine: Arc<dyn TapeStore>,
    /// The engine again, if it is the store of files that belongs to this runtime; it has an index and looks after its disk.
    files: Option<Store>,
    /// Deletions that an engine of the host could not finish when the runtime was started.
    undone: Arc<[TapeError]>,
    open: Arc<OpenTapes>,
    /// The large outputs, if the engine keeps them itself.
    outputs: Option<Arc<StoreOutputs>>,
    #[cfg(feature = "fault-injection")]
    faults: crate::fault::Faults,
}

/// A loaded tape: the writer, its entries, and what was repaired or is damaged.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) tape: OpenTape,
    pub(crate) entries: Vec<TapeEntry>,
    pub(crate) repair: Option<Repair>,
    pub(crate) read_only: Option<Damage>,
}

/// The sessions that this runtime has claimed, or is trying to claim.
#[derive(Debug, Default)]
struct OpenTapes {
    claimed: Lock<HashMap<SessionId, Claimed>>,
    /// Notified when the last hold of a session is dropped.
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct Claimed {
    /// The number of holds.
    by: usize,
    /// The loan of the newest writer; empty before the first one.
    lender: Lender,
    /// Cancelled when the engine has the newest writer back; `None` before the first one.
    given_back: Option<CancellationToken>,
}

/// A guard: a part of this runtime has claimed a session, or is trying to. See the module for how long to keep it.
#[derive(Debug)]
struct Hold {
    open: Arc<OpenTapes>,
    session: SessionId,
}

impl OpenTapes {
    fn claimed(&self) -> MutexGuard<'_, HashMap<SessionId, Claimed>> {
        // Each change under this lock is whole before anything can panic.
        self.claimed.lock()
    }

    fn hold(self: &Arc<Self>, session: &SessionId) -> Hold {
        self.claimed().entry(session.clone()).or_default().by += 1;
        Hold { open: self.clone(), session: session.clone() }
    }

    /// Blocks until no part of this runtime holds the session, and returns `true`. Returns `false` at once if none holds it, and
    /// when `until` has passed. Never call it with a [`Hold`] of one's own.
    fn wait_for(&self, session: &SessionId, until: Instant) -> bool {
        let claimed = self.claimed();
        if !claimed.contains_key(session) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.given_back.wait_timeout_while(claimed, left, |claimed| claimed.contains_key(session));
        !unspoiled(waited).1.timed_out()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut claimed = self.open.claimed();
        if let Some(one) = claimed.get_mut(&self.session) {
            one.by -= 1;
            if one.by == 0 {
                claimed.remove(&self.session);
                self.open.given_back.notify_all();
            }
        }
    }
}

impl Tapes {
    /// The tapes of a store of files that belongs to this runtime.
    pub(crate) fn of_files(store: Store) -> Tapes {
        Tapes {
            #[cfg(feature = "fault-injection")]
            faults: store.faults().clone(),
            engine: Arc::new(Caught(Arc::new(store.clone()))),
            files: Some(store),
            undone: Arc::default(),
            open: Arc::default(),
            outputs: None,
        }
    }

    /// The tapes of an engine of the host, whose panics are answers from here on. Finishes deletions that were cut off; blocks.
    pub(crate) fn of_engine(
        engine: Arc<dyn TapeStore>,
        #[cfg(feature = "fault-injection")] faults: crate::fault::Faults,
    ) -> Tapes {
        let engine: Arc<dyn TapeStore> = Arc::new(Caught(engine));
        Tapes {
            undone: finish_deletions(&*engine).into(),
            outputs: StoreOutputs::of(&engine).map(Arc::new),
            engine,
            files: None,
            open: Arc::default(),
            #[cfg(feature = "fault-injection")]
            faults,
        }
    }

    /// The store of files, if the tapes are kept in one.
    pub(crate) fn files(&self) -> Option<&Store> {
        self.files.as_ref()
    }

    /// The large outputs, if the engine keeps them itself.
    pub(crate) fn outputs(&self) -> Option<Arc<StoreOutputs>> {
        self.outputs.clone()
    }

    /// The clean-ups that failed at the start.
    pub(crate) fn undone(&self) -> impl Iterator<Item = &TapeError> {
        self.files.iter().flat_map(|files| &files.report().undone).chain(&*self.undone)
    }

    /// The fault injection's plan for the crash points.
    #[cfg(feature = "fault-injection")]
    pub(crate) fn faults(&self) -> &crate::fault::Faults {
        &self.faults
    }

    /// Makes a tape with its first entries, and returns only when the engine has acknowledged them. Later appends, which are the
    /// actor's, are reported to `others`. Blocks on the disk.
    pub(crate) fn make(&self, session: &SessionId, first: &[TapeEntry], others: Notify) -> Result<OpenTape, TapeError> {
        let append = FirstAppend::new();
        let mut tape = self.create(session, append.notify(others))?;
        if let Err(error) = append.settle(tape.append(first)) {
            // Nobody was told that the tape exists. If it cannot be removed now, a sweep removes it.
            drop(tape);
            drop(self.delete_unless_gone_on(session, Seq::ZERO));
            return Err(error);
        }
        Ok(tape)
    }

    /// As [`TapeStoreExt::create`](crate::tape::TapeStoreExt::create).
    pub(crate) fn create(&self, session: &SessionId, notify: Notify) -> Result<OpenTape, TapeError> {
        let hold = self.open.hold(session);
        Ok(self.opened(hold, self.engine.create(session, notify)?))
    }

    /// As [`TapeStoreExt::load`](crate::tape::TapeStoreExt::load). If this runtime still holds the session, waits at most `wait`
    /// for the tape to come back. A session is loaded only while it has no tape in its slot, so the holder is an actor that is
    /// ending, a deletion, or a look at the last entry.
    pub(crate) fn load(&self, session: &SessionId, notify: &Notify, wait: Duration) -> Result<Loaded, TapeError> {
        let until = Instant::now() + wait;
        let mut again = true;
        loop {
            // Dropped before the wait below, or two loads would wait for each other.
            let hold = self.open.hold(session);
            match self.engine.load(session, notify.clone()) {
                Err(TapeError::Claimed { .. }) if again => {
                    drop(hold);
                    // If no part of this runtime holds it, it may have come back just now: look once more.
                    again = self.open.wait_for(session, until);
                }
                loaded => {
                    let LoadedTape { tape, entries, repair, read_only, .. } = loaded?;
                    return Ok(Loaded { tape: self.opened(hold, tape), entries, repair, read_only });
                }
            }
        }
    }

    /// Whether the tape of a session has these entries: not others of the same numbers, which another owner may have written.
    pub(crate) fn has(&self, session: &SessionId, entries: &[Entry]) -> Result<bool, TapeError> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(true) };
        let lines: Result<Vec<_>, _> = entries.iter().map(Entry::to_tape).collect();
        let lines = lines.map_err(TapeError::engine)?;
        Ok(self.engine.range(session, first.seq, last.seq)? == lines)
    }

    /// As [`Tapes::has`], of a session that is not open, after every append that was under way. Fails with `Claimed` if it is open.
    pub(crate) fn has_once_given_back(&self, session: &SessionId, entries: &[Entry]) -> Result<bool, TapeError> {
        let deaf: Notify = Arc::new(|_| {});
        let _claimed = self.load(session, &deaf, Duration::ZERO)?;
        self.has(session, entries)
    }

    /// The token that is cancelled when the engine has the session back; `None` if this runtime does not have it open.
    pub(crate) fn given_back(&self, session: &SessionId) -> Option<CancellationToken> {
        let claimed = self.open.claimed();
        claimed.get(session).and_then(|claimed| claimed.given_back.clone())
    }

    fn opened(&self, hold: Hold, writer: Box<dyn TapeWriter>) -> OpenTape {
        let (session, given_back) = (hold.session.clone(), CancellationToken::new());
        let until = given_back.clone().drop_guard();
        // The engine drops both guards after it has released the session, so nobody hears of the release before it has happened.
        let (tape, lender) = OpenTape::lend(writer, Box::new(move || drop((hold, until))));
        let mut claimed = self.open.claimed();
        let claimed = claimed.entry(session).or_default();
        (claimed.lender, claimed.given_back) = (lender, Some(given_back));
        tape
    }

    /// As [`TapeStoreExt::delete`](crate::tape::TapeStoreExt::delete).
    pub(crate) fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError> {
        let _hold = self.open.hold(session);
        self.engine.delete(session)
    }

    /// As [`TapeStoreExt::delete_unless_gone_on`](crate::tape::TapeStoreExt::delete_unless_gone_on).
    pub(crate) fn delete_unless_gone_on(&self, session: &SessionId, last: Seq) -> Result<Deleted, TapeError> {
        let _hold = self.open.hold(session);
        self.engine.delete_unless_gone_on(session, last)
    }

    /// As [`TapeStoreExt::delete_unused`](crate::tape::TapeStoreExt::delete_unused).
    pub(crate) fn delete_unused(&self, session: &SessionId, last: Seq) -> Result<bool, TapeError> {
        let _hold = self.open.hold(session);
        self.engine.delete_unused(session, last)
    }

    /// Takes every open tape back, and waits, at most `limit`, until all appends are written. Closes the store of files; never
    /// closes an engine of the host.
    pub(crate) fn close(&self, limit: Duration) -> Result<(), TapeError> {
        // Taken back outside of the lock, which the guards of a loan take when they are dropped.
        let lenders: Vec<_> = self.open.claimed().values().map(|claimed| claimed.lender.clone()).collect();
        lenders.iter().for_each(Lender::take_back);
        match &self.files {
            Some(files) => files.close(limit),
            None if self.engine.settle(limit) => Ok(()),
            None => Err(TapeError::Busy { waiting: 1 }),
        }
    }
}

impl Deref for Tapes {
    type Target = dyn TapeStore;

    fn deref(&self) -> &(dyn TapeStore + 'static) {
        &*self.engine
    }
}
