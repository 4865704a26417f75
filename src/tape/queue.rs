//! The appends that wait for the disk, and the thread that works them off.
//!
//! The queue is a value that outlives its thread: a job stays at its head until it has a result and the result was told.
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
    layout::{Layout, open_or_make, remove_file},
    line::Chain,
    log::Log,
};
use crate::{
    lock::{Lock, unspoiled},
    words::ids::{Seq, SessionId},
};

/// How often a job is tried when the thread panics over it.
const TRIES_MAX: u32 = 2;

/// Something that the thread does for a tape.
pub(super) struct Job {
    pub(super) log: Arc<Log>,
    pub(super) what: What,
    /// How it went; the last thing that working on it sets.
    result: Lock<Option<Result<Seq, TapeError>>>,
    told: AtomicBool,
    tries: AtomicU32,
}

/// What a [`Job`] is.
pub(super) enum What {
    /// Write these lines.
    Append {
        bytes: Vec<u8>,
        /// They are the first of this new anchor.
        begin: Option<String>,
        /// Where the tape stands then.
        after: Chain,
        /// See [`State::run`](super::log::State).
        run: u64,
    },
    /// Note whether a turn of the session is open.
    Mark(Arc<Wanted>),
    /// The handle is gone: give the session back.
    Release,
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

/// The mark that a job is to put: another one may be wanted until it is put.
pub(super) struct Wanted(Lock<Option<Mark>>);

impl Wanted {
    pub(super) fn new(mark: Mark) -> Wanted {
        Wanted(Lock::new(Some(mark)))
    }

    /// Wants that one instead. Says whether it was not too late for that.
    pub(super) fn change(&self, mark: Mark) -> bool {
        let mut wanted = self.0.lock();
        let is_waiting = wanted.is_some();
        *wanted = is_waiting.then_some(mark);
        is_waiting
    }

    /// Puts what is wanted by then, or says which could not be put.
    pub(super) fn put(&self, layout: &Layout, session: &SessionId) -> Result<(), (Mark, TapeError)> {
        loop {
            // Not locked meanwhile: whoever wants another one waits for no disk.
            let Some(mark) = *self.0.lock() else { return Ok(()) };
            let put = mark.put(layout, session);
            let mut wanted = self.0.lock();
            if *wanted == Some(mark) {
                *wanted = None;
                return put.map_err(|error| (mark, error));
            }
        }
    }
}

impl Job {
    pub(super) fn new(log: &Arc<Log>, what: What) -> Job {
        let (result, told, tries) = (Lock::new(None), AtomicBool::new(false), AtomicU32::new(0));
        Job { log: Arc::clone(log), what, result, told, tries }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.what {
            What::Append { bytes, .. } => bytes.len(),
            What::Mark(_) | What::Release => 0,
        }
    }

    /// Whether the thread panicked over it before.
    pub(super) fn is_retried(&self) -> bool {
        self.tries.load(Ordering::SeqCst) > 0
    }

    pub(super) fn finish(&self, result: Result<Seq, TapeError>) {
        *self.result.lock() = Some(result);
    }

    pub(super) fn is_finished(&self) -> bool {
        self.result.lock().is_some()
    }

    /// Tells the caller, once. Only then the tape counts as having nothing outstanding: what it appends next in place
    /// must not be answered before what was queued earlier.
    fn tell(&self) {
        if let What::Release = self.what {
            return;
        }
        if !self.told.swap(true, Ordering::SeqCst) {
            if let What::Mark(_) = &self.what {
                self.log.state.lock().marks -= 1;
                return;
            }
            if let Some(result) = self.result.lock().clone() {
                // The host's function; what goes wrong in it stays there.
                let _ = catch_unwind(AssertUnwindSafe(|| (self.log.notify)(result)));
            }
            self.log.state.lock().outstanding -= 1;
        }
    }
}

/// What the thread does with the jobs. Split off, so that the queue need not know of files.
pub(super) trait Work: Send + Sync + 'static {
    /// Works on some jobs of the queue's head and [finishes](Job::finish) them. A [`What::Release`] comes alone.
    fn work(&self, jobs: &[Arc<Job>]);
    /// A job was tried too often: it fails with this.
    fn give_up(&self, job: &Job, error: &TapeError);
    /// The queue is empty and closed.
    fn end(&self);
    /// How many jobs, of how many bytes, are worked on together at most.
    fn group(&self) -> (usize, usize);
}

/// The queue to the disk.
pub(super) struct Queue {
    inner: Lock<Inner>,
    /// There is work, or the end.
    wake: Condvar,
    /// Something was done.
    moved: Condvar,
    appends_max: usize,
    bytes_max: usize,
    /// Takes no further appends. Looked at without the lock by what is done in place.
    pub(super) stopped: AtomicBool,
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Arc<Job>>,
    bytes: usize,
    /// Takes nothing; ends when it is empty.
    closed: bool,
    running: bool,
    ended: bool,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Queue {
    pub(super) fn new(appends_max: usize, bytes_max: usize) -> Queue {
        Queue {
            inner: Lock::default(),
            wake: Condvar::new(),
            moved: Condvar::new(),
            appends_max: appends_max.max(1),
            bytes_max: bytes_max.max(1),
            stopped: AtomicBool::new(false),
        }
    }

    /// Takes a job, or says why not. Of [`What::Release`] there is one per tape at most, of [`What::Mark`] one, and one more for
    /// each of its appends that waits: they are always taken.
    pub(super) fn push<W: Work>(self: &Arc<Self>, worker: &Arc<W>, job: Job) -> Result<(), TapeError> {
        let mut inner = self.inner.lock();
        let is_append = matches!(job.what, What::Append { .. });
        if inner.closed || (is_append && self.is_closed()) {
            return Err(TapeError::Closed);
        }
        let too_many = inner.jobs.len() >= self.appends_max;
        let too_large = !inner.jobs.is_empty() && inner.bytes + job.bytes() > self.bytes_max;
        if is_append && (too_many || too_large) {
            return Err(TapeError::Busy { waiting: inner.jobs.len() });
        }
        if !inner.running {
            let (queue, worker) = (Arc::clone(self), Arc::clone(worker));
            let thread = std::thread::Builder::new()
                .name("tamtam-tape".into())
                .spawn(move || queue.run(&*worker))
                .map_err(TapeError::io("start", "the tape's I/O thread"))?;
            inner.running = true;
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

    /// Whether it takes no further appends.
    pub(super) fn is_closed(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Takes no further appends; the thread ends when it has done what waits. Ends at once where there is no thread.
    pub(super) fn close<W: Work>(&self, worker: &W) {
        let mut inner = self.inner.lock();
        self.stopped.store(true, Ordering::SeqCst);
        let first = !std::mem::replace(&mut inner.closed, true);
        if first && !inner.running {
            inner.ended = true;
            drop(inner);
            worker.end();
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

    fn run<W: Work>(&self, worker: &W) {
        while let Some(jobs) = self.next(worker.group()) {
            let open: Vec<Arc<Job>> = jobs.iter().filter(|job| !job.is_finished()).cloned().collect();
            if catch_unwind(AssertUnwindSafe(|| worker.work(&open))).is_err() {
                for job in open.iter().filter(|job| !job.is_finished()) {
                    if job.tries.fetch_add(1, Ordering::SeqCst) + 1 >= TRIES_MAX {
                        let error = std::io::Error::other("the tape's I/O thread panicked");
                        worker.give_up(job, &TapeError::io("write", &*job.log.file.lock().path)(error));
                    }
                }
            }
            self.retire();
        }
        let _ = catch_unwind(AssertUnwindSafe(|| worker.end()));
        self.inner.lock().ended = true;
        self.moved.notify_all();
    }

    fn next(&self, (jobs_max, bytes_max): (usize, usize)) -> Option<Vec<Arc<Job>>> {
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
        let mut group: Vec<Arc<Job>> = inner.jobs.iter().take(jobs_max.max(1)).take_while(fits).cloned().collect();
        if group.is_empty() {
            group.extend(inner.jobs.front().cloned());
        }
        Some(group)
    }

    /// Tells and takes away what is finished, from the head on.
    fn retire(&self) {
        loop {
            let Some(job) = self.inner.lock().jobs.front().filter(|job| job.is_finished()).cloned() else { break };
            job.tell();
            let mut inner = self.inner.lock();
            inner.bytes -= job.bytes();
            inner.jobs.pop_front();
            drop(inner);
            self.moved.notify_all();
        }
    }
}
