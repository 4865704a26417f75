//! Hooks as observers: each hook that sees events is shown those of all sessions, and no hook can hold up a session.
//!
//! Each hook has its own queue and thread, because its callback is host code that may block. It is shown one event at a time, in
//! the order in which they were queued. A slow hook falls behind. When its queue is full ([`OBSERVED_EVENTS_MAX`] events, or
//! [`OBSERVED_BYTES_MAX`]), new events are dropped and counted, and the hook hears the number before the next event. A hook that
//! panics at an event is shown the next one; the panic is logged, and at a recorded event the session's listeners hear of it.
//!
//! A hook that says that it sees no events has neither. A thread that has shown everything waits [`COLLECT`] before it asks to be
//! woken, so a steady stream of events wakes a hook once for many of them and not once for each.
//!
//! The thread starts with the first event; if it cannot be started, the hook sees no events. When the runtime ends, each thread
//! shows what is left, within one time limit. A hook that is not done by then is named to the caller and sees nothing more; its
//! thread stops when its callback returns. An observer never keeps a session awake, nor the process alive.
//!
//! A change must keep this: `show` is called by sessions and workers, so it must never wait, and no callback may run under the
//! lock of a queue.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, MutexGuard, Weak,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::{Duration, Instant},
};

use crate::{
    event::{Event, EventId, EventKind, Ring},
    hook::{Hook, Hooks},
    lock::{Lock, unspoiled},
    words::panic_text,
};

/// Events that may wait for one hook.
pub(crate) const OBSERVED_EVENTS_MAX: usize = 4_096;

/// The most bytes that the waiting events of one hook may take. A larger event is taken if nothing else waits.
pub(crate) const OBSERVED_BYTES_MAX: usize = 32 << 20;

/// How long a thread that has shown everything collects events before it asks to be woken for the next one. It stops collecting
/// when the queue is half full.
const COLLECT: Duration = Duration::from_millis(5);

/// Where a failure of a hook at an event is reported: to those who listened to the session when the event was recorded, as an event
/// of this incarnation.
pub(crate) struct Tell {
    pub(crate) ring: Weak<Ring>,
    pub(crate) incarnation: u32,
}

/// The hooks of a runtime as observers, in the order in which they were added.
pub(crate) struct Observers(Vec<Observer>);

struct Observer {
    hook: Arc<dyn Hook>,
    name: Arc<str>,
    queue: Arc<Queue>,
    tokio: tokio::runtime::Handle,
}

#[derive(Default)]
struct Queue {
    waiting: Lock<Waiting>,
    /// Notified when the thread must look: events were queued, or the queue was closed.
    moved: Condvar,
    /// How often a session or worker took the lock to queue events.
    #[cfg(test)]
    locked: std::sync::atomic::AtomicUsize,
    /// How often the thread was woken for events.
    #[cfg(test)]
    woken: std::sync::atomic::AtomicUsize,
}

/// What the thread of a hook does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Watching {
    /// It shows events, and looks again before it does anything else.
    #[default]
    Busy,
    /// It waits for [`COLLECT`], and then looks again.
    Collecting,
    /// It waits to be woken.
    Idle,
}

#[derive(Default)]
struct Waiting {
    /// Events and, between them, marks for missed events; never two marks side by side.
    line: VecDeque<News>,
    bytes: usize,
    /// `None` before the first event; then a channel that closes when the thread is gone, however it ended.
    thread: Option<Receiver<()>>,
    watching: Watching,
    /// No further event is taken.
    closed: bool,
}

impl Waiting {
    /// Whether the thread must be woken for what was queued. Says so once until it waits again.
    fn wakes(&mut self) -> bool {
        let half_full = self.line.len() >= OBSERVED_EVENTS_MAX / 2 || self.bytes >= OBSERVED_BYTES_MAX / 2;
        let wakes = match self.watching {
            Watching::Busy => false,
            Watching::Collecting => half_full,
            Watching::Idle => true,
        };
        if wakes {
            self.watching = Watching::Busy;
        }
        wakes
    }

    /// Queues an event. Returns whether it was the first of a run of missed events.
    fn queue(&mut self, event: &Arc<Event>, bytes: usize, tell: Option<Tell>) -> bool {
        let fits = self.line.len() < OBSERVED_EVENTS_MAX
            && (self.line.is_empty() || self.bytes.saturating_add(bytes) <= OBSERVED_BYTES_MAX);
        if fits {
            self.line.push_back(News::Event { event: event.clone(), bytes, tell });
            self.bytes += bytes;
            return false;
        }
        if let Some(News::Missed(missed)) = self.line.back_mut() {
            *missed += 1;
            return false;
        }
        self.line.push_back(News::Missed(1));
        true
    }
}

enum News {
    Event { event: Arc<Event>, bytes: usize, tell: Option<Tell> },
    Missed(u64),
}

impl Observers {
    /// Call it inside the tokio runtime that the tree will run on: callbacks may use that runtime.
    pub(crate) fn new(hooks: &Hooks) -> Observers {
        let tokio = tokio::runtime::Handle::current();
        let observer = |(hook, name): (&Arc<dyn Hook>, &Arc<str>)| {
            let (hook, name) = (hook.clone(), name.clone());
            Observer { hook, name, queue: Arc::default(), tokio: tokio.clone() }
        };
        Observers(hooks.iter().filter(|(hook, _)| hook.sees_events()).map(observer).collect())
    }

    /// Whether there is any observer.
    pub(crate) fn watch(&self) -> bool {
        !self.0.is_empty()
    }

    /// Queues events for every observer, in one piece. Never waits.
    pub(crate) fn show(&self, events: &[Arc<Event>], tell: impl Fn() -> Option<Tell>) {
        if !self.watch() || events.is_empty() {
            return;
        }
        let sizes: Vec<_> = events.iter().map(|event| event.bytes()).collect();
        for observer in &self.0 {
            observer.show(events, &sizes, &tell);
        }
    }

    /// Lets every observer see its waiting events, and ends the threads. Blocks, for all of them together at most `limit`.
    /// Returns the names of the hooks that did not finish in time.
    pub(crate) fn close(&self, limit: Duration) -> Vec<String> {
        let until = Instant::now() + limit;
        self.0.iter().for_each(|observer| observer.queue.close());
        let late = self.0.iter().filter(|observer| !observer.queue.is_gone_by(until));
        late.map(|observer| observer.name.to_string()).collect()
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        self.0.iter().for_each(|observer| observer.queue.close());
    }
}

impl Observer {
    fn show(&self, events: &[Arc<Event>], sizes: &[usize], tell: impl Fn() -> Option<Tell>) {
        #[cfg(test)]
        self.queue.locked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut waiting = self.queue.waiting();
        if waiting.closed {
            return;
        }
        let mut misses = false;
        for (event, bytes) in events.iter().zip(sizes) {
            misses |= waiting.queue(event, *bytes, tell());
        }
        if waiting.thread.is_none() {
            match self.begin() {
                Ok(thread) => waiting.thread = Some(thread),
                Err(error) => {
                    tracing::error!(hook = %self.name, %error, "no thread for a hook: it sees no events");
                    waiting.closed = true;
                    waiting.line.clear();
                    waiting.bytes = 0;
                }
            }
        }
        let wakes = waiting.wakes();
        drop(waiting);
        if wakes {
            #[cfg(test)]
            self.queue.woken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.queue.moved.notify_all();
        }
        if misses {
            tracing::warn!(hook = %self.name, "hook is slower in on_event than events come: it misses some");
        }
    }

    fn begin(&self) -> std::io::Result<Receiver<()>> {
        let (hook, name) = (self.hook.clone(), self.name.clone());
        let (queue, tokio) = (self.queue.clone(), self.tokio.clone());
        let (alive, gone) = channel();
        std::thread::Builder::new().name(format!("observer {name}")).spawn(move || {
            let _alive = alive;
            // Callbacks may start tasks, as if they ran where events are made.
            let _inside = tokio.enter();
            watch(&*hook, &name, &queue);
            drop(hook);
        })?;
        Ok(gone)
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Every change under this lock is whole before anything can panic.
        self.waiting.lock()
    }

    /// The next thing to show; `None` when the queue is closed and empty. If nothing waits, it first collects for [`COLLECT`], and then
    /// sleeps until it is woken.
    fn next(&self) -> Option<News> {
        let mut waiting = self.waiting();
        let waits = |watching| move |waiting: &mut Waiting| waiting.watching == watching && !waiting.closed;
        if waiting.line.is_empty() && !waiting.closed {
            waiting.watching = Watching::Collecting;
            waiting = unspoiled(self.moved.wait_timeout_while(waiting, COLLECT, waits(Watching::Collecting))).0;
        }
        if waiting.line.is_empty() && !waiting.closed {
            waiting.watching = Watching::Idle;
            waiting = unspoiled(self.moved.wait_while(waiting, waits(Watching::Idle)));
        }
        waiting.watching = Watching::Busy;
        let news = waiting.line.pop_front();
        if let Some(News::Event { bytes, .. }) = &news {
            waiting.bytes -= bytes;
        }
        news
    }

    fn close(&self) {
        self.waiting().closed = true;
        self.moved.notify_all();
    }

    /// Waits until then for the end of the thread. Drops the waiting events of a hook that is late.
    fn is_gone_by(&self, until: Instant) -> bool {
        let Some(thread) = self.waiting().thread.take() else { return true };
        let late =
            thread.recv_timeout(until.saturating_duration_since(Instant::now())) == Err(RecvTimeoutError::Timeout);
        let mut waiting = self.waiting();
        waiting.thread = Some(thread);
        let rest = if late { std::mem::take(&mut waiting.line) } else { VecDeque::new() };
        drop(waiting);
        drop(rest);
        !late
    }
}

fn watch(hook: &dyn Hook, name: &str, queue: &Queue) {
    while let Some(news) = queue.next() {
        match news {
            News::Event { event, tell, .. } => {
                let shown = catch_unwind(AssertUnwindSafe(|| hook.on_event(&event)));
                if let Err(panic) = shown {
                    failed(name, "on_event", &*panic, &event, tell);
                } else if event.kind.is_error()
                    && let Err(panic) = catch_unwind(AssertUnwindSafe(|| hook.on_error(&event)))
                {
                    failed(name, "on_error", &*panic, &event, tell);
                }
            }
            News::Missed(missed) => {
                if catch_unwind(AssertUnwindSafe(|| hook.on_missed(missed))).is_err() {
                    tracing::warn!(hook = name, "hook panicked in on_missed");
                }
            }
        }
    }
}

/// Reports a failed hook to the listeners of the session. Not to the hooks, which would fail again.
fn failed(hook: &str, callback: &'static str, panic: &(dyn std::any::Any + Send), event: &Event, tell: Option<Tell>) {
    tracing::warn!(hook, callback, "hook panicked");
    let Some((ring, incarnation)) = tell.and_then(|tell| Some((tell.ring.upgrade()?, tell.incarnation))) else {
        return;
    };
    let error = format!("panicked: {}", panic_text(panic));
    let kind = EventKind::HookError { hook: hook.to_owned(), callback: callback.into(), error };
    let id = EventId { incarnation, ..event.id };
    ring.push([Arc::new(Event { id, kind, ..event.clone() })]);
}

#[cfg(test)]
mod tests;
