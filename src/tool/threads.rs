//! The threads that the blocking code of tools runs on. The calls of a runtime share them, and a thread serves one call after
//! another.
//!
//! A call takes a thread that is free, or a new one is started for it: no call waits for the code of another. A thread that was
//! free for [`FREE_MAX`] ends, and so do all free threads once the last [`Threads`] is dropped. Code whose call was dropped keeps
//! its thread until the code ends. After [`STUCK_AFTER`] it counts as stuck, and with [`STUCK_MAX`] stuck threads no further call
//! begins (its future returns an error): code that hangs call after call cannot take threads without end.
//!
//! Rejected: the blocking threads of tokio. There a thread that hangs takes one of a number that all other blocking work needs, and
//! the end of the host's tokio runtime waits for it.
//!
//! A change must run no code of a tool under the lock, and drop none of its values there: all calls of the runtime need the lock,
//! and a tool may hang.

use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Condvar},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::lock::{Lock, unspoiled};

/// How many threads may be stuck before a call fails.
pub(crate) const STUCK_MAX: usize = 64;

/// How long code may run after its call was dropped, before its thread counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// How long a thread waits for its next call before it ends.
const FREE_MAX: Duration = Duration::from_secs(10);

/// The threads of one runtime. A clone shares them.
#[derive(Clone, Default)]
pub(crate) struct Threads(Arc<Owner>);

/// Dropped with the last [`Threads`]. The threads themselves hold the pool alone.
#[derive(Default)]
struct Owner(Arc<Pool>);

#[derive(Default)]
struct Pool {
    state: Lock<State>,
    /// Notified when there is work for a free thread, and when the pool is closed.
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// Work that free threads are about to take. As many threads as there is work here do not count as free any more.
    work: VecDeque<Work>,
    /// How many threads wait for work that is yet to come.
    free: usize,
    /// The calls whose code has not ended, and when each was dropped, if it was.
    calls: HashMap<u64, Option<Instant>>,
    /// How many calls there were.
    count: u64,
    /// How many threads were started.
    #[cfg(test)]
    started: usize,
    is_closed: bool,
}

type Work = Box<dyn FnOnce() + Send>;

impl Threads {
    /// How many threads were started so far.
    #[cfg(test)]
    pub(crate) fn started(&self) -> usize {
        self.0.0.state.lock().started
    }

    /// How many threads wait for work.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.0.0.state.lock().free
    }

    /// Runs code that may block, and returns its value. A panic of the code continues in the task that awaits it. Dropping the
    /// future abandons the thread, which serves others when the code has ended.
    ///
    /// # Errors
    /// If no thread could be started, or too many are stuck.
    pub(crate) async fn run<T: Send + 'static>(&self, code: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (done, result) = oneshot::channel::<Result<T, Box<dyn Any + Send>>>();
        let pool = &self.0.0;
        let call = pool.new_call()?;
        let _running = Running { pool, call };
        let at_end = pool.clone();
        let begun = pool.begin(Box::new(move || {
            let caught = catch_unwind(AssertUnwindSafe(code));
            at_end.state.lock().calls.remove(&call);
            // The value of a dropped call has no receiver.
            drop(done.send(caught));
        }));
        if begun.is_err() {
            pool.state.lock().calls.remove(&call);
        }
        begun?;
        match result.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(io::Error::other("it ended without a result")),
        }
    }
}

/// A call that awaits its code. Dropped before the code has ended, it notes when.
struct Running<'a> {
    pool: &'a Pool,
    call: u64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(dropped) = self.pool.state.lock().calls.get_mut(&self.call) {
            *dropped = Some(Instant::now());
        }
    }
}

impl Pool {
    fn new_call(&self) -> io::Result<u64> {
        let mut state = self.state.lock();
        let is_stuck = |dropped: &&Option<Instant>| dropped.is_some_and(|at| at.elapsed() >= STUCK_AFTER);
        if state.calls.len() >= STUCK_MAX && state.calls.values().filter(is_stuck).count() >= STUCK_MAX {
            return Err(io::Error::other(format!("{STUCK_MAX} threads of earlier calls hang and cannot be ended")));
        }
        state.count += 1;
        let call = state.count;
        state.calls.insert(call, None);
        Ok(call)
    }

    /// Hands work to a free thread, or to a new one.
    fn begin(self: &Arc<Pool>, work: Work) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.free > 0 {
            state.free -= 1;
            state.work.push_back(work);
            drop(state);
            self.news.notify_one();
            return Ok(());
        }
        #[cfg(test)]
        {
            state.started += 1;
        }
        drop(state);
        let pool = self.clone();
        let serve = move || {
            let mut next = Some(work);
            while let Some(work) = next.take() {
                work();
                next = pool.next();
            }
        };
        std::thread::Builder::new().name("tamtam tool".to_owned()).spawn(serve).map(drop)
    }

    /// Waits for work. `None` if the thread should end.
    fn next(&self) -> Option<Work> {
        let until = Instant::now() + FREE_MAX;
        let mut state = self.state.lock();
        state.free += 1;
        loop {
            if let Some(work) = state.work.pop_front() {
                return Some(work);
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.is_closed || left.is_zero() {
                state.free -= 1;
                return None;
            }
            state = unspoiled(self.news.wait_timeout(state, left)).0;
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::{sync::mpsc, thread};

    use futures_util::poll;

    use super::*;

    /// The code of a call that hangs until it is let go.
    fn hang() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
        let (let_go, hangs) = mpsc::channel::<()>();
        (let_go, move || {
            let _ = hangs.recv();
        })
    }

    #[tokio::test]
    async fn a_thread_serves_one_call_after_another_and_none_waits_for_another() {
        let threads = Threads::default();
        let first = threads.run(|| thread::current().id()).await.unwrap();
        // The thread is free a moment after its call has the value.
        while threads.0.0.state.lock().free == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(threads.run(|| thread::current().id()).await.unwrap(), first);
        let (let_go, hangs) = hang();
        let mut hanging = Box::pin(threads.run(hangs));
        assert!(poll!(&mut hanging).is_pending());
        assert_eq!(threads.run(|| 1).await.unwrap(), 1);
        let_go.send(()).unwrap();
        hanging.await.unwrap();
    }

    /// Promise 3 for threads: what hangs costs a bounded number of them, and calls are served again once it ends.
    #[tokio::test]
    async fn a_call_fails_while_too_many_threads_are_stuck() {
        let threads = Threads::default();
        let mut held = Vec::new();
        for _ in 0..STUCK_MAX {
            let (let_go, hangs) = hang();
            held.push(let_go);
            assert!(poll!(Box::pin(threads.run(hangs))).is_pending());
        }
        assert_eq!(threads.run(|| 1).await.unwrap(), 1, "they were dropped just now, and may be about to end");
        let long_ago = Instant::now().checked_sub(STUCK_AFTER).unwrap();
        threads.0.0.state.lock().calls.values_mut().for_each(|dropped| *dropped = Some(long_ago));
        let error = threads.run(|| 1).await.unwrap_err();
        assert_eq!(error.to_string(), "64 threads of earlier calls hang and cannot be ended");
        drop(held);
        while !threads.0.0.state.lock().calls.is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(threads.run(|| 1).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_panic_goes_on_in_the_caller_and_costs_no_thread() {
        let threads = Threads::default();
        let panics = AssertUnwindSafe(threads.run(|| panic!("boom")));
        assert!(futures_util::FutureExt::catch_unwind(panics).await.is_err());
        assert!(threads.0.0.state.lock().calls.is_empty());
        assert_eq!(threads.run(|| 1).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn free_threads_end_with_the_last_handle() {
        thread_local!(static ALIVE: std::cell::RefCell<Option<mpsc::Sender<()>>> = const { std::cell::RefCell::new(None) });
        let threads = Threads::default();
        let (alive, ended) = mpsc::channel();
        threads.run(move || ALIVE.set(Some(alive))).await.unwrap();
        assert_eq!(ended.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(threads);
        assert_eq!(ended.recv(), Err(mpsc::RecvError), "the thread is gone, and with it what it held");
    }
}
