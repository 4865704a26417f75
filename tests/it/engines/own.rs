//! An engine of a host's own: memory, written by a thread, so that each append is answered later. It refuses on demand, and
//! gives sessions back late on demand.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use tamtam::{
    Millis, Seq, SessionId,
    tape::{
        Anchor, Appended, Deleted, Entry, Finding, Forked, LoadedTape, MemoryStore, Notify, ReadTo, SessionSummary,
        TapeError, TapeStore, TapeWriter,
    },
};

/// A clone is the same engine.
#[derive(Clone, Debug)]
pub(super) struct Own {
    memory: MemoryStore,
    refuses: Arc<AtomicBool>,
    /// Appends that were refused.
    pub(super) refused: Arc<AtomicUsize>,
    outstanding: Arc<AtomicUsize>,
    is_late: Arc<AtomicBool>,
    /// Handles that are gone and were not given back yet.
    leaving: Arc<Mutex<Vec<Thread>>>,
}

/// The thread behind a handle, and the only way to reach it: without that it gives the session back, and ends.
type Thread = (Option<mpsc::Sender<Job>>, JoinHandle<()>);

impl Own {
    pub(super) fn new() -> Own {
        let (memory, refuses) = (MemoryStore::new(), Arc::default());
        let (outstanding, is_late, leaving) = (Arc::default(), Arc::default(), Arc::default());
        Own { memory, refuses, refused: Arc::default(), outstanding, is_late, leaving }
    }

    /// From now on the session of a handle that is gone is given back when it is waited for, and no earlier.
    pub(super) fn give_back_late(&self) {
        self.is_late.store(true, Ordering::SeqCst);
    }

    /// From now on it takes nothing, or takes all again.
    pub(super) fn refuse(&self, refuse: bool) {
        self.refuses.store(refuse, Ordering::SeqCst);
    }

    fn writer(&self, mut writer: Box<dyn TapeWriter>, notify: Notify) -> Box<dyn TapeWriter> {
        let (queue, jobs) = mpsc::channel::<Job>();
        let (last, outstanding) = (writer.last(), Arc::new(AtomicUsize::new(0)));
        let (own, told) = (self.clone(), outstanding.clone());
        let thread = std::thread::spawn(move || {
            for Job { anchor, entries } in jobs {
                let appended = match (own.refuses.load(Ordering::SeqCst), anchor) {
                    (true, _) => {
                        own.refused.fetch_add(1, Ordering::SeqCst);
                        Appended::Now(Err(TapeError::engine("the database is away")))
                    }
                    (false, Some(name)) => writer.begin_anchor(&name, &entries[0]),
                    (false, None) => writer.append(&entries),
                };
                let Appended::Now(result) = appended else { panic!("memory answers at once") };
                told.fetch_sub(1, Ordering::SeqCst);
                own.outstanding.fetch_sub(1, Ordering::SeqCst);
                notify(result);
            }
        });
        Box::new(OwnWriter { own: self.clone(), queue: Some(queue), thread: Some(thread), last, outstanding })
    }
}

struct Job {
    anchor: Option<String>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct OwnWriter {
    own: Own,
    queue: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    last: Seq,
    outstanding: Arc<AtomicUsize>,
}

impl OwnWriter {
    fn push(&mut self, anchor: Option<String>, entries: Vec<Entry>) -> Appended {
        self.outstanding.fetch_add(1, Ordering::SeqCst);
        self.own.outstanding.fetch_add(1, Ordering::SeqCst);
        self.queue.as_ref().unwrap().send(Job { anchor, entries }).unwrap();
        Appended::Later
    }
}

impl TapeWriter for OwnWriter {
    fn last(&self) -> Seq {
        self.last
    }

    fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::SeqCst)
    }

    fn append(&mut self, entries: &[Entry]) -> Appended {
        self.push(None, entries.to_vec())
    }

    fn begin_anchor(&mut self, name: &str, first: &Entry) -> Appended {
        self.push(Some(name.to_owned()), vec![first.clone()])
    }
}

impl Drop for OwnWriter {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let leaving = (self.queue.take(), thread);
        match self.own.is_late.load(Ordering::SeqCst) {
            true => self.own.leaving.lock().unwrap().push(leaving),
            false => give_back(leaving),
        }
    }
}

/// Behind the last append. The thread is not waited for by itself: it may be what lets go of the last handle.
fn give_back((queue, thread): Thread) {
    drop(queue);
    if thread.thread().id() != std::thread::current().id() {
        thread.join().unwrap();
    }
}

impl TapeStore for Own {
    fn create(&self, session: &SessionId, notify: Notify) -> Result<Box<dyn TapeWriter>, TapeError> {
        Ok(self.writer(self.memory.create(session, Arc::new(|_| {}))?, notify))
    }

    fn load(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        let loaded = self.memory.load(session, Arc::new(|_| {}))?;
        Ok(LoadedTape { tape: self.writer(loaded.tape, notify), ..loaded })
    }

    fn read(&self, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError> {
        self.memory.read(session, after)
    }

    fn read_to(&self, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError> {
        self.memory.read_to(session, seq)
    }

    fn anchors(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        self.memory.anchors(session)
    }

    fn between_anchors(&self, session: &SessionId, from: &str, to: &str) -> Result<Vec<Entry>, TapeError> {
        self.memory.between_anchors(session, from, to)
    }

    fn exists(&self, session: &SessionId) -> bool {
        self.memory.exists(session)
    }

    fn sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.memory.sessions()
    }

    fn list(&self) -> Result<Vec<SessionSummary>, TapeError> {
        self.memory.list()
    }

    fn fork(
        &self,
        parent: &SessionId,
        at: Option<Seq>,
        session: &SessionId,
        time: Millis,
    ) -> Result<Forked, TapeError> {
        self.memory.fork(parent, at, session, time)
    }

    fn forked_from(&self, session: &SessionId) -> Result<Option<Forked>, TapeError> {
        self.memory.forked_from(session)
    }

    fn forks_of(&self, session: &SessionId) -> Result<Vec<SessionId>, TapeError> {
        self.memory.forks_of(session)
    }

    fn has_entry_of(&self, session: &SessionId, other: &SessionId, seq: Seq) -> Result<bool, TapeError> {
        self.memory.has_entry_of(session, other, seq)
    }

    fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError> {
        self.memory.delete(session)
    }

    fn delete_unless_gone_on(&self, session: &SessionId, last: Seq) -> Result<Deleted, TapeError> {
        self.memory.delete_unless_gone_on(session, last)
    }

    fn delete_unused(&self, session: &SessionId, last: Seq) -> Result<bool, TapeError> {
        self.memory.delete_unused(session, last)
    }

    fn verify(&self, session: &SessionId) -> Result<Vec<Finding>, TapeError> {
        self.memory.verify(session)
    }

    fn mark_open(&self, session: &SessionId) -> Result<(), TapeError> {
        self.memory.mark_open(session)
    }

    fn mark_closed(&self, session: &SessionId) -> Result<(), TapeError> {
        self.memory.mark_closed(session)
    }

    fn open_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.memory.open_sessions()
    }

    fn held_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.memory.held_sessions()
    }

    fn park(&self, session: &SessionId, time: Millis, why: &str) -> Result<(), TapeError> {
        self.memory.park(session, time, why)
    }

    fn unpark(&self, session: &SessionId) -> Result<(), TapeError> {
        self.memory.unpark(session)
    }

    fn parked_sessions(&self) -> Result<Vec<(SessionId, String)>, TapeError> {
        self.memory.parked_sessions()
    }

    fn pin(&self, session: &SessionId) -> Result<(), TapeError> {
        self.memory.pin(session)
    }

    fn unpin(&self, session: &SessionId) -> Result<(), TapeError> {
        self.memory.unpin(session)
    }

    fn pinned_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.memory.pinned_sessions()
    }

    fn settle(&self, limit: Duration) -> bool {
        let until = std::time::Instant::now() + limit;
        while self.outstanding.load(Ordering::SeqCst) > 0 {
            if std::time::Instant::now() >= until {
                return false;
            }
            std::thread::yield_now();
        }
        let leaving = std::mem::take(&mut *self.leaving.lock().unwrap());
        leaving.into_iter().for_each(give_back);
        true
    }

    fn files_path(&self, _: &SessionId) -> Option<PathBuf> {
        None
    }
}
