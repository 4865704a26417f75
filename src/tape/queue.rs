//! What waits for the disk, and the thread that works it off.
//!
//! The queue is a value that outlives its thread: a job stays at its head until it is done and was told.
//! A job that was being worked on when the thread panicked is done again, at the same place in the file, so nothing is
//! lost or doubled. The thread is started when it is first needed, and lives until the queue is closed: a panic ends no more than
//! the work at hand.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    TapeError,
    handle::Log,
    layout::{Layout, open_or_make, remove_file},
    line::Chain,
    write::Writer,
};
use crate::{
    lock::{Lock, unspoiled},
    words::ids::SessionId,
};

/// How often a job is tried when the thread panics over it.
const TRIES_MAX: u32 = 2;

/// Something that the thread does for a tape.
pub(super) struct Job {
    pub(super) log: Arc<Log>,
    pub(super) what: What,
    /// The last thing that working on it sets.
    pub(super) is_done: AtomicBool,
    tries: AtomicU32,
}

/// What a [`Job`] is.
pub(super) enum What {
    Append(Append),
    /// Put the mark that is wanted by then: see [`State::mark`](super::handle::State).
    Mark,
    /// The handle is gone: give the session back.
    Release,
}

/// One append on its way to the tape's file.
pub(super) struct Append {
    /// Its lines.
    pub(super) bytes: Vec<u8>,
    /// They are the first of this new anchor.
    pub(super) begin: Option<String>,
    /// Where the tape stands then.
    pub(super) after: Chain,
}

/// Whether a turn of a session is open, as a name in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Open,
    Closed,
}

impl Mark {
    pub(super) fn put(self, layout: &Layout, session: &SessionId) -> Result<(), TapeError> {
        let path = layout.open().join(session.as_str());
        match self {
            Mark::Open => open_or_make(&path).map(drop).map_err(TapeError::io("make", path)),
            Mark::Closed => remove_file(&path),
        }
    }
}

impl Job {
    pub(super) fn new(log: &Arc<Log>, what: What) -> Job {
        Job { log: Arc::clone(log), what, is_done: AtomicBool::new(false), tries: AtomicU32::new(0) }
    }

    fn bytes(&self) -> usize {
        if let What::Append(append) = &self.what { append.bytes.len() } else { 0 }
    }

    /// Whether the thread panicked over it before.
    pub(super) fn is_retried(&self) -> bool {
        self.tries.load(Ordering::SeqCst) > 0
    }

    fn is_done(&self) -> bool {
        self.is_done.load(Ordering::SeqCst)
    }
}

/// The queue to the disk.
pub(super) struct Queue {
    writer: Arc<Writer>,
    inner: Lock<Inner>,
    /// There is work, or the end.
    wake: Condvar,
    /// Something was done.
    moved: Condvar,
    /// Takes no further appends. Looked at without the lock by what is done in place.
    pub(super) stopped: AtomicBool,
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Arc<Job>>,
    bytes: usize,
    /// Takes nothing; ends when it is empty.
    closed: bool,
    ended: bool,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Queue {
    pub(super) fn new(writer: Arc<Writer>) -> Queue {
        let (wake, moved, stopped) = (Condvar::new(), Condvar::new(), AtomicBool::new(false));
        Queue { writer, inner: Lock::default(), wake, moved, stopped }
    }

    /// Takes a job, or says why not. Of [`What::Release`] and [`What::Mark`] there is one per tape at most: they are always taken.
    pub(super) fn push(self: &Arc<Self>, job: Job) -> Result<(), TapeError> {
        let options = &self.writer.options;
        let mut inner = self.inner.lock();
        let is_append = matches!(job.what, What::Append(_));
        if inner.closed || (is_append && self.stopped.load(Ordering::SeqCst)) {
            return Err(TapeError::Closed);
        }
        let too_many = inner.jobs.len() >= options.queue_appends_max.max(1);
        let too_large = !inner.jobs.is_empty() && inner.bytes + job.bytes() > options.queue_bytes_max;
        if is_append && (too_many || too_large) {
            return Err(TapeError::Busy { waiting: inner.jobs.len() });
        }
        if inner.thread.is_none() {
            let queue = Arc::clone(self);
            let thread = std::thread::Builder::new()
                .name("tamtam-tape".into())
                .spawn(move || queue.run())
                .map_err(TapeError::io("start", "the tape's I/O thread"))?;
            inner.thread = Some(thread);
        }
        inner.bytes += job.bytes();
        inner.jobs.push_back(Arc::new(job));
        self.wake.notify_one();
        Ok(())
    }

    /// Takes no further appends. What waits is still written.
    pub(super) fn stop_appends(&self) {
        // Under the lock: what is taken has been taken by then.
        let _inner = self.inner.lock();
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Takes no further appends; the thread ends when it has done what waits. Ends at once where there is no thread.
    pub(super) fn close(&self) {
        let mut inner = self.inner.lock();
        self.stopped.store(true, Ordering::SeqCst);
        let first = !std::mem::replace(&mut inner.closed, true);
        if first && inner.thread.is_none() {
            inner.ended = true;
            drop(inner);
            self.writer.end();
        }
        self.wake.notify_all();
        self.moved.notify_all();
    }

    /// Waits until nothing waits for the disk; says whether it came to that.
    pub(super) fn wait_until_empty(&self, limit: Duration) -> bool {
        self.wait(limit, |inner| inner.jobs.is_empty())
    }

    /// Waits until the thread has ended after [`Queue::close`]; says how many jobs were left if it did not.
    pub(super) fn wait_until_ended(&self, limit: Duration) -> Result<(), usize> {
        if !self.wait(limit, |inner| inner.ended) {
            return Err(self.inner.lock().jobs.len());
        }
        let thread = self.inner.lock().thread.take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
        Ok(())
    }

    fn wait(&self, limit: Duration, until: impl Fn(&Inner) -> bool) -> bool {
        let started = Instant::now();
        let mut inner = self.inner.lock();
        while !until(&inner) {
            let Some(left) = limit.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) else { return false };
            inner = unspoiled(self.moved.wait_timeout(inner, left)).0;
        }
        true
    }

    fn run(&self) {
        while let Some(jobs) = self.next() {
            if catch_unwind(AssertUnwindSafe(|| self.writer.work(&jobs))).is_err() {
                for job in jobs.iter().filter(|job| !job.is_done()) {
                    if job.tries.fetch_add(1, Ordering::SeqCst) + 1 >= TRIES_MAX {
                        if let What::Mark = job.what {
                            job.log.state.lock().mark = None;
                        }
                        let error = std::io::Error::other("the tape's I/O thread panicked");
                        self.writer.finish(job, Err(TapeError::io("write", &*job.log.file.lock().path)(error)));
                    }
                }
            }
            self.retire();
        }
        let _ = catch_unwind(AssertUnwindSafe(|| self.writer.end()));
        self.inner.lock().ended = true;
        self.moved.notify_all();
    }

    /// What is worked on together next.
    fn next(&self) -> Option<Vec<Arc<Job>>> {
        let (jobs_max, bytes_max) = self.writer.group_max();
        let mut inner = self.inner.lock();
        while inner.jobs.is_empty() {
            if inner.closed {
                return None;
            }
            inner = unspoiled(self.wake.wait(inner));
        }
        let mut bytes = 0;
        // Whoever has the session next hears nothing of appends before: all of them are told when it is given back.
        let fits = |job: &&Arc<Job>| {
            bytes += job.bytes();
            bytes <= bytes_max && !matches!(job.what, What::Release)
        };
        let waiting = || inner.jobs.iter().filter(|job| !job.is_done());
        let group: Vec<Arc<Job>> = waiting().take(jobs_max).take_while(fits).cloned().collect();
        Some(if group.is_empty() { waiting().take(1).cloned().collect() } else { group })
    }

    /// Takes away what is done, from the head on.
    fn retire(&self) {
        let mut inner = self.inner.lock();
        let count = inner.jobs.iter().take_while(|job| job.is_done()).count();
        let done: Vec<Arc<Job>> = inner.jobs.drain(..count).collect();
        inner.bytes -= done.iter().map(|job| job.bytes()).sum::<usize>();
        // Before they are dropped: with the last one of a tape goes what is the host's.
        drop(inner);
        self.moved.notify_all();
    }
}
