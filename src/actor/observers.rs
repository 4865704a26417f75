//! Hooks as observers: each hook that sees events is shown those of all sessions, and no hook can hold up a session.
//!
//! Each hook has its own queue and thread, because its callback is host code that may block. It is shown one event at a time, in
//! the order in which they were queued. A slow hook falls behind. When its queue is full ([`OBSERVED_EVENTS_MAX`] events, or
//! [`OBSERVED_BYTES_MAX`]), new events are dropped and counted, and the hook hears the number before the next event. A hook that
//! panics at an event is shown the next one; the panic is logged, and at a recorded event the session's listeners hear of it.
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
    moved: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Events and, between them, marks for missed events; never two marks side by side.
    line: VecDeque<News>,
    bytes: usize,
    /// `None` before the first event; then a channel that closes when the thread is gone, however it ended.
    thread: Option<Receiver<()>>,
    /// No further event is taken.
    closed: bool,
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

    /// Queues an event for every observer. Never waits.
    pub(crate) fn show(&self, event: &Arc<Event>, tell: impl Fn() -> Option<Tell>) {
        let bytes = if self.watch() { event.bytes() } else { 0 };
        for observer in &self.0 {
            observer.show(event, bytes, tell());
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
    fn show(&self, event: &Arc<Event>, bytes: usize, tell: Option<Tell>) {
        let mut waiting = self.queue.waiting();
        if waiting.closed {
            return;
        }
        let fits = waiting.line.len() < OBSERVED_EVENTS_MAX
            && (waiting.line.is_empty() || waiting.bytes.saturating_add(bytes) <= OBSERVED_BYTES_MAX);
        if !fits {
            let first = match waiting.line.back_mut() {
                Some(News::Missed(missed)) => {
                    *missed += 1;
                    false
                }
                _ => {
                    waiting.line.push_back(News::Missed(1));
                    true
                }
            };
            drop(waiting);
            if first {
                tracing::warn!(hook = %self.name, "hook is slower in on_event than events come: it misses some");
            }
            return;
        }
        waiting.line.push_back(News::Event { event: event.clone(), bytes, tell });
        waiting.bytes += bytes;
        if waiting.thread.is_none() {
            match self.begin() {
                Ok(thread) => waiting.thread = Some(thread),
                Err(error) => {
                    tracing::error!(hook = %self.name, %error, "no thread for a hook: it sees no events");
                    waiting.closed = true;
                }
            }
        }
        drop(waiting);
        self.queue.moved.notify_all();
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

    /// Waits for the next thing to show; `None` when the queue is closed and empty.
    fn next(&self) -> Option<News> {
        let idle = |waiting: &mut Waiting| waiting.line.is_empty() && !waiting.closed;
        let mut waiting = unspoiled(self.moved.wait_while(self.waiting(), idle));
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
    tracing::warn!(hook, "hook panicked in on_event");
    let Some((ring, incarnation)) = tell.and_then(|tell| Some((tell.ring.upgrade()?, tell.incarnation))) else {
        return;
    };
    let error = format!("panicked: {}", panic_text(panic));
    let kind = EventKind::HookError { hook: hook.to_owned(), callback, error };
    let id = EventId { incarnation, ..event.id };
    ring.push([Arc::new(Event { id, kind, ..event.clone() })]);
}

#[cfg(test)]
mod tests;
