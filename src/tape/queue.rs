//! The jobs that wait for the disk (appends, marks, releases), and the one I/O thread of a store that does them.
//!
//! Appends of one tape are done in order, and its release (the session is given back) comes last; the mark of an open turn may be
//! done before appends that were queued before it. The thread takes jobs from the head in groups. A job stays in the queue until it
//! is done and its result was reported. If the thread panics, the jobs of the group that are not done are tried once more, appends
//! at the same place in the file, so nothing is lost or doubled; after a second panic they are reported as failed. The thread
//! starts with the first job and lives until the queue is closed: a panic ends the work at hand and nothing else.
//!
//! A change must keep: the bound on appends (beyond it, [`Busy`](TapeError::Busy) and nothing was taken); `push` never waits for
//! the disk, since async threads call it under `Log::state`; the lock `inner` is never held over the disk, a host's function or
//! another lock.

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

/// How often a job is tried in all when the thread panics over it.
const TRIES_MAX: u32 = 2;

/// One piece of work of the thread for one tape.
pub(super) struct Job {
    pub(super) log: Arc<Log>,
    pub(super) what: What,
    /// Set last, after the job was done and its result was reported.
    pub(super) is_done: AtomicBool,
    /// How often the thread panicked over the job.
    tries: AtomicU32,
}

/// What a [`Job`] does.
pub(super) enum What {
    /// Writes an append and tells its result.
    Append(Append),
    /// Puts the mark that [`State::mark`](super::handle::State) wants when the thread gets there.
    Mark,
    /// Releases the session: its handle is gone, or the store is closed.
    Release,
}

/// One append on its way to the tape's file.
pub(super) struct Append {
    /// The encoded lines.
    pub(super) bytes: Vec<u8>,
    /// The folder of the new anchor that these lines begin, if they begin one.
    pub(super) begin: Option<String>,
    /// The position of the tape once these lines are on it.
    pub(super) after: Chain,
}

/// Whether a turn of a session is open: kept as an empty file in `open/`. The state of `tape::Mark::Open`, the one mark that the
/// thread sets.
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

    /// Whether the thread panicked over this job before.
    pub(super) fn is_retried(&self) -> bool {
        self.tries.load(Ordering::SeqCst) > 0
    }

    fn is_done(&self) -> bool {
        self.is_done.load(Ordering::SeqCst)
    }
}

/// The queue to the disk of one store.
pub(super) struct Queue {
    writer: Arc<Writer>,
    inner: Lock<Inner>,
    /// Wakes the thread: there is a job, or the queue was closed.
    wake: Condvar,
    /// Wakes those who wait for the thread: jobs were done, or the thread has ended.
    moved: Condvar,
    /// The queue takes no further appends. An append that its caller writes itself, because the disk is quick, reads it without the
    /// lock.
    pub(super) stopped: AtomicBool,
}

#[derive(Default)]
struct Inner {
    /// Oldest first; done jobs leave from the head.
    jobs: VecDeque<Arc<Job>>,
    /// The bytes of all appends in `jobs`.
    bytes: usize,
    /// The queue takes no job of any kind; the thread ends when `jobs` is empty.
    closed: bool,
    /// The thread has ended, or there never was one and the queue is closed.
    ended: bool,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Queue {
    pub(super) fn new(writer: Arc<Writer>) -> Queue {
        let (wake, moved, stopped) = (Condvar::new(), Condvar::new(), AtomicBool::new(false));
        Queue { writer, inner: Lock::default(), wake, moved, stopped }
    }

    /// Takes a job, without waiting for the disk. The first job starts the thread. On an error the job was not taken:
    /// [`TapeError::Busy`], [`TapeError::Closed`], or [`TapeError::Io`] if the thread cannot be started. Only appends are counted
    /// against the bound, because each tape has at most one [`What::Release`] and one [`What::Mark`] in the queue.
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
        // Under the lock, so that every `push` is either over or sees the change.
        let _inner = self.inner.lock();
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Takes no further jobs. The thread does what waits and then ends the store ([`Writer::end`]); without a thread the caller
    /// ends it here.
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

    /// Waits until the queue is empty, at most `limit`; says whether it is.
    pub(super) fn wait_until_empty(&self, limit: Duration) -> bool {
        self.wait(limit, |inner| inner.jobs.is_empty())
    }

    /// Waits, at most `limit`, until the thread has ended after [`Queue::close`]. The error is the number of jobs left.
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

    /// The jobs to work on together next; waits for the first. `None` when the queue is closed and empty.
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
        // A release runs alone, after the jobs before it: all appends are reported before the session is released, so the next
        // holder sees nothing of them.
        let fits = |job: &&Arc<Job>| {
            bytes += job.bytes();
            bytes <= bytes_max && !matches!(job.what, What::Release)
        };
        let waiting = || inner.jobs.iter().filter(|job| !job.is_done());
        let group: Vec<Arc<Job>> = waiting().take(jobs_max).take_while(fits).cloned().collect();
        Some(if group.is_empty() { waiting().take(1).cloned().collect() } else { group })
    }

    /// Removes done jobs from the head, up to the first that is not done.
    fn retire(&self) {
        let mut inner = self.inner.lock();
        let count = inner.jobs.iter().take_while(|job| job.is_done()).count();
        let done: Vec<Arc<Job>> = inner.jobs.drain(..count).collect();
        inner.bytes -= done.iter().map(|job| job.bytes()).sum::<usize>();
        // Unlock before the jobs are dropped: the last job of a tape drops the host's `notify`, which may do anything.
        drop(inner);
        self.moved.notify_all();
    }
}
