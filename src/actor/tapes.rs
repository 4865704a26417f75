//! The tapes of one runtime: the engine that keeps them, and which of them this runtime has open.
//!
//! An engine makes its promises to the holder of a tape. Two things belong to the runtime, whatever the engine. It knows which
//! tapes it has open, so an incarnation waits until the one before it has given its tape back, and never hears that its own
//! predecessor is using the session. And it takes all tapes back when it ends, also from an actor that could not be stopped,
//! without closing an engine that belongs to the host and that another runtime may be using.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Condvar, MutexGuard, Weak},
    time::{Duration, Instant},
};

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    lock::{Lock, unspoiled},
    tape::{
        Appended, Damage, Deleted, Entry, FirstAppend, LoadedTape, Notify, Repair, Store, TapeError, TapeStore,
        TapeStoreExt as _, TapeWriter, finish_deletions,
    },
    words::ids::{Seq, SessionId},
};

/// The tapes of one runtime. Clones are the same. What only reads goes to the engine as it is.
#[derive(Clone, Debug)]
pub(crate) struct Tapes {
    engine: Arc<dyn TapeStore>,
    /// The same, where it is the one over files and this runtime's own: it has an index, and a disk that is looked after.
    files: Option<Store>,
    /// What an engine of the host's could not finish when the runtime was started.
    undone: Arc<[TapeError]>,
    open: Arc<OpenTapes>,
    #[cfg(feature = "fault-injection")]
    faults: crate::fault::Faults,
}

/// A tape that this runtime has open. Dropping it gives the session back.
#[derive(Debug)]
pub(crate) struct OpenTape(Arc<Writer>);

/// Empty once the runtime has taken it back.
type Writer = Lock<Option<Lent>>;

/// What an engine lent. What stands beside the writer goes to the engine with it, and is dropped when the engine has the session
/// back: so nobody hears of that before it is so.
#[derive(Debug)]
struct Lent {
    writer: Box<dyn TapeWriter>,
    hold: Hold,
    until: DropGuard,
}

impl Lent {
    fn give_back(self) {
        let Lent { writer, hold, until } = self;
        writer.give_back(Box::new(move || drop((hold, until))));
    }
}

/// A tape that was loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) tape: OpenTape,
    pub(crate) entries: Vec<Entry>,
    pub(crate) repair: Option<Repair>,
    pub(crate) read_only: Option<Damage>,
}

/// Which sessions are held by this runtime, or are about to be.
#[derive(Debug, Default)]
struct OpenTapes {
    held: Lock<HashMap<SessionId, Held>>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    by: usize,
    writer: Weak<Writer>,
    /// Cancelled when the engine has the newest writer back; nothing before the first one.
    given_back: Option<CancellationToken>,
}

/// Somebody of this runtime has a session, or tries to get it.
#[derive(Debug)]
struct Hold {
    open: Arc<OpenTapes>,
    session: SessionId,
}

impl OpenTapes {
    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, Held>> {
        // Each change under this lock is whole before anything can panic.
        self.held.lock()
    }

    fn hold(self: &Arc<Self>, session: &SessionId) -> Hold {
        self.held().entry(session.clone()).or_default().by += 1;
        Hold { open: self.clone(), session: session.clone() }
    }

    /// Waits until nobody of this runtime has that session any more. Says no at once where nobody has it, and when it is too
    /// late.
    fn wait_for(&self, session: &SessionId, until: Instant) -> bool {
        let held = self.held();
        if !held.contains_key(session) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.given_back.wait_timeout_while(held, left, |held| held.contains_key(session));
        !unspoiled(waited).1.timed_out()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.open.held();
        if let Some(one) = held.get_mut(&self.session) {
            one.by -= 1;
            if one.by == 0 {
                held.remove(&self.session);
                self.open.given_back.notify_all();
            }
        }
    }
}

impl Tapes {
    /// The tapes in a folder that nobody else has opened this way.
    pub(crate) fn of_files(store: Store) -> Tapes {
        Tapes {
            #[cfg(feature = "fault-injection")]
            faults: store.faults().clone(),
            engine: Arc::new(store.clone()),
            files: Some(store),
            undone: Arc::default(),
            open: Arc::default(),
        }
    }

    /// The tapes of an engine that the host has. Deletions that were cut off are finished; blocks.
    pub(crate) fn of_engine(
        engine: Arc<dyn TapeStore>,
        #[cfg(feature = "fault-injection")] faults: crate::fault::Faults,
    ) -> Tapes {
        Tapes {
            undone: finish_deletions(&*engine).into(),
            engine,
            files: None,
            open: Arc::default(),
            #[cfg(feature = "fault-injection")]
            faults,
        }
    }

    /// The store of files, where they are kept in one.
    pub(crate) fn files(&self) -> Option<&Store> {
        self.files.as_ref()
    }

    /// What could not be cleaned up at the start.
    pub(crate) fn undone(&self) -> impl Iterator<Item = &TapeError> {
        self.files.iter().flat_map(|files| &files.report().undone).chain(&*self.undone)
    }

    /// What happens at the crash points.
    #[cfg(feature = "fault-injection")]
    pub(crate) fn faults(&self) -> &crate::fault::Faults {
        &self.faults
    }

    /// Makes a tape with its first entries, and returns only when they are on the disk, whatever the durability. `others` hears of all
    /// later appends, which are the actor's. Blocks a thread that may wait for a disk.
    pub(crate) fn make(&self, session: &SessionId, first: &[Entry], others: Notify) -> Result<OpenTape, TapeError> {
        let append = FirstAppend::new();
        let mut tape = self.create(session, append.notify(others))?;
        if let Err(error) = append.settle(tape.append(first)) {
            // Nobody was told that it exists. Where it cannot be removed either, a sweep does it.
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

    /// As [`TapeStoreExt::load`](crate::tape::TapeStoreExt::load). Where this runtime has the session, its end there is waited for, for at most so long: whoever has
    /// it is on the way out, for nobody loads what is awake.
    pub(crate) fn load(&self, session: &SessionId, notify: &Notify, wait: Duration) -> Result<Loaded, TapeError> {
        let until = Instant::now() + wait;
        let mut again = true;
        loop {
            // Not held while it waits, or two would wait for each other.
            let hold = self.open.hold(session);
            match self.engine.load(session, notify.clone()) {
                Err(TapeError::Claimed { .. }) if again => {
                    drop(hold);
                    // Where nobody had it any more, it may have been given back since: then one more look says so.
                    again = self.open.wait_for(session, until);
                }
                loaded => {
                    let LoadedTape { tape, entries, repair, read_only, .. } = loaded?;
                    return Ok(Loaded { tape: self.opened(hold, tape), entries, repair, read_only });
                }
            }
        }
    }

    /// The last entry of a session that nobody has open, behind every append that was on its way.
    pub(crate) fn last_once_given_back(&self, session: &SessionId) -> Result<Seq, TapeError> {
        let deaf: Notify = Arc::new(|_| {});
        let loaded = self.load(session, &deaf, Duration::ZERO)?;
        Ok(loaded.entries.last().map_or(Seq::ZERO, |entry| entry.seq))
    }

    /// What is cancelled when the engine has that session back; nothing where this runtime does not have it.
    pub(crate) fn given_back(&self, session: &SessionId) -> Option<CancellationToken> {
        let held = self.open.held();
        held.get(session).and_then(|held| held.given_back.clone())
    }

    fn opened(&self, hold: Hold, writer: Box<dyn TapeWriter>) -> OpenTape {
        let (session, given_back) = (hold.session.clone(), CancellationToken::new());
        let until = given_back.clone().drop_guard();
        let writer = Arc::new(Lock::new(Some(Lent { writer, hold, until })));
        let mut held = self.open.held();
        let held = held.entry(session).or_default();
        (held.writer, held.given_back) = (Arc::downgrade(&writer), Some(given_back));
        OpenTape(writer)
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

    /// Gives every session back and waits, at most so long, until what was appended is written. A store that is this runtime's
    /// own is closed; an engine of the host's is not.
    pub(crate) fn close(&self, limit: Duration) -> Result<(), TapeError> {
        let writers: Vec<_> = self.open.held().values().filter_map(|held| held.writer.upgrade()).collect();
        for writer in writers {
            // One that is appending just now, in an engine that should not make it wait, gives the session back when it is
            // done.
            if let Some(lent) = writer.try_lock().and_then(|mut writer| writer.take()) {
                lent.give_back();
            }
        }
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

impl OpenTape {
    fn write(&mut self, write: impl FnOnce(&mut dyn TapeWriter) -> Appended) -> Appended {
        // An engine that panicked in an append is asked again: what it has is for it to say.
        match self.0.lock().as_mut() {
            Some(lent) => write(&mut *lent.writer),
            None => Appended::Now(Err(TapeError::Closed)),
        }
    }

    /// As [`TapeWriter::append`]; closed once the runtime has ended.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Appended {
        self.write(|writer| writer.append(entries))
    }

    /// As [`TapeWriter::begin_anchor`]; closed once the runtime has ended.
    pub(crate) fn begin_anchor(&mut self, name: &str, first: &Entry) -> Appended {
        self.write(|writer| writer.begin_anchor(name, first))
    }
}

impl Drop for OpenTape {
    fn drop(&mut self) {
        let lent = self.0.lock().take();
        if let Some(lent) = lent {
            lent.give_back();
        }
    }
}
