//! The ring: the events of one session on their way to its listeners. It is bounded, and counts the events that a slow listener
//! missed.
//!
//! A ring holds at most [`RING_EVENTS_MAX`] events and [`RING_BYTES_MAX`] bytes; a single larger event is held alone. Without a
//! listener it holds none; with one, an event is dropped when this one reads it. Every listener gets the events in the order of
//! their `push`. A listener that is too slow hears how many events it missed, and continues with the oldest that is left; the
//! durable ones among the missed can be read again from the tape. The ring outlives the session's actor, and a passive session
//! keeps it for as long as it has a listener.
//!
//! A change must not let a slow listener slow the session: `push` does not wait for listeners, and no code may wait while it holds
//! the ring's lock.

use std::{
    collections::VecDeque,
    future::Future as _,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use futures_util::Stream;
use tokio::{
    sync::{Notify, futures::OwnedNotified},
    task::JoinHandle,
};

use crate::{event::Event, lock::Lock};

/// The most events that a ring holds.
pub(crate) const RING_EVENTS_MAX: usize = 4_096;

/// The most bytes that the events of a ring take together. The newest event is held however large it is.
pub(crate) const RING_BYTES_MAX: usize = 32 << 20;

/// The events of one session.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    buffer: Lock<Buffer>,
    news: Arc<Notify>,
    /// All streams.
    listeners: AtomicUsize,
    /// Those whose reader may answer questions.
    people: AtomicUsize,
}

#[derive(Debug, Default)]
struct Buffer {
    /// The number of events that were dropped at the front since the ring was made: the position of the first event held.
    first: u64,
    /// The events held, oldest first, each with its size in bytes.
    events: VecDeque<(usize, Arc<Event>)>,
    /// The sum of those sizes.
    bytes: usize,
    /// Whether no further event will come.
    closed: bool,
}

impl Buffer {
    fn drop_first(&mut self) {
        if let Some((bytes, _)) = self.events.pop_front() {
            self.bytes -= bytes;
            self.first += 1;
        }
    }
}

impl Ring {
    /// Whether there is a listener.
    pub(crate) fn is_heard(&self) -> bool {
        self.listeners.load(Ordering::Acquire) > 0
    }

    /// Whether a listener could answer a question; the runtime's own streams do not count.
    pub(crate) fn is_heard_by_people(&self) -> bool {
        self.people.load(Ordering::Acquire) > 0
    }

    /// Adds events, if there is a listener. The listeners are woken once for all of them.
    pub(crate) fn push(&self, events: impl IntoIterator<Item = Arc<Event>>) {
        if !self.is_heard() {
            return;
        }
        let mut buffer = self.buffer.lock();
        for event in events {
            let bytes = event.bytes();
            buffer.bytes += bytes;
            buffer.events.push_back((bytes, event));
            while buffer.events.len() > RING_EVENTS_MAX || (buffer.bytes > RING_BYTES_MAX && buffer.events.len() > 1) {
                buffer.drop_first();
            }
        }
        drop(buffer);
        self.news.notify_waiters();
    }

    /// Closes the ring: no event follows, and streams end once they have read the events held.
    pub(crate) fn close(&self) {
        self.buffer.lock().closed = true;
        self.news.notify_waiters();
    }

    /// A stream of the events from now on.
    pub(crate) fn listen(self: &Arc<Self>) -> EventStream {
        self.people.fetch_add(1, Ordering::AcqRel);
        self.stream(false)
    }

    fn stream(self: &Arc<Self>, follows: bool) -> EventStream {
        self.listeners.fetch_add(1, Ordering::AcqRel);
        let buffer = self.buffer.lock();
        let next = buffer.first + buffer.events.len() as u64;
        drop(buffer);
        let (replay, replayed) = (VecDeque::new(), crate::words::ids::Seq::ZERO);
        EventStream {
            ring: self.clone(),
            next,
            replay,
            replayed,
            news: None,
            is_missing: None,
            ended: false,
            follows,
            _keeps: None,
        }
    }

    /// As [`Ring::listen`], for the runtime itself: this listener cannot answer questions.
    pub(crate) fn follow(self: &Arc<Self>) -> EventStream {
        self.stream(true)
    }
}

/// The next item of a stream of events.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Next {
    /// An event.
    Event(Arc<Event>),
    /// The listener was too slow: this many events are missing here.
    Lagged(u64),
}

/// The events of a session, as they happen: a [`Stream`], and [`EventStream::next`] for those who do without. Dropping it ends the
/// listening, and nothing else.
#[derive(Debug)]
pub struct EventStream {
    ring: Arc<Ring>,
    next: u64,
    replay: VecDeque<Arc<Event>>,
    replayed: crate::words::ids::Seq,
    /// Resolves at the next push; created before the ring is read.
    news: Option<Pin<Box<OwnedNotified>>>,
    /// Looks up whether the session exists: if it does not, no event ever comes.
    is_missing: Option<JoinHandle<bool>>,
    /// Whether it said that the session does not exist.
    ended: bool,
    /// Whether its reader cannot answer questions: a stream of the runtime itself, or one that only watches.
    follows: bool,
    /// Keeps the owner of the ring alive while the session sleeps and the stream listens.
    _keeps: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

impl EventStream {
    /// Keeps a value alive for as long as the stream exists.
    pub(crate) fn keeping(mut self, kept: Arc<dyn std::any::Any + Send + Sync>) -> EventStream {
        self._keeps = Some(kept);
        self
    }

    /// Ends the stream, after the events that have come by then, once the look-up finds no such session.
    pub(crate) fn unless_missing(mut self, is_missing: JoinHandle<bool>) -> EventStream {
        self.is_missing = Some(is_missing);
        self
    }

    /// Puts past events, read from the tape, before the live ones. Live durable events that are among them are left out.
    pub(crate) fn with_replay(mut self, events: Vec<Event>) -> EventStream {
        self.replayed = events.last().map_or(crate::words::ids::Seq::ZERO, |event| event.id.seq);
        self.replay = events.into_iter().map(Arc::new).collect();
        self
    }

    /// From now on this listener does not count as one that could answer a question. If no other listener could, an ask is denied
    /// at once, as without listeners; an open ask stays open.
    pub fn look_on(&mut self) {
        if !std::mem::replace(&mut self.follows, true) {
            self.ring.people.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Waits for the next event. `None` when no event is left and none can come: the runtime was shut down, or the store has no
    /// such session.
    ///
    /// Cancel-safe: an event that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Next> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// The next event without waiting: `None` if there is none yet, `Some(None)` at the end.
    #[allow(clippy::option_option, reason = "the three answers are: not yet, the end, an event")]
    fn try_next(&mut self) -> Option<Option<Next>> {
        if let Some(event) = self.replay.pop_front() {
            return Some(Some(Next::Event(event)));
        }
        if self.ended {
            return Some(None);
        }
        let mut buffer = self.ring.buffer.lock();
        if self.next < buffer.first {
            let missed = buffer.first - self.next;
            self.next = buffer.first;
            return Some(Some(Next::Lagged(missed)));
        }
        loop {
            let at = usize::try_from(self.next - buffer.first).unwrap_or(usize::MAX);
            let Some((_, event)) = buffer.events.get(at) else {
                return buffer.closed.then_some(None);
            };
            let event = event.clone();
            self.next += 1;
            // A listener that comes at this moment waits for the lock, and begins after all events that are held.
            while self.ring.listeners.load(Ordering::Acquire) == 1 && buffer.first < self.next {
                buffer.drop_first();
            }
            let was_replayed = event.id.is_durable() && event.id.seq <= self.replayed;
            if !was_replayed {
                return Some(Some(Next::Event(event)));
            }
        }
    }
}

impl Stream for EventStream {
    type Item = Next;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Next>> {
        let this = &mut *self;
        loop {
            if let Some(next) = this.try_next() {
                return Poll::Ready(next);
            }
            if let Some(look) = &mut this.is_missing
                && let Poll::Ready(is_missing) = Pin::new(look).poll(cx)
            {
                this.is_missing = None;
                this.ended |= is_missing.unwrap_or(false);
                continue;
            }
            match &mut this.news {
                // Listen before looking once more, so that nothing slips in between.
                None => this.news.insert(Box::pin(this.ring.news.clone().notified_owned())).as_mut().enable(),
                Some(news) => {
                    ready!(news.as_mut().poll(cx));
                    this.news = None;
                    false
                }
            };
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        if !self.follows {
            self.ring.people.fetch_sub(1, Ordering::AcqRel);
        }
        if self.ring.listeners.fetch_sub(1, Ordering::AcqRel) == 1 {
            // No listener is left to read the events.
            let mut buffer = self.ring.buffer.lock();
            if !self.ring.is_heard() {
                buffer.first += buffer.events.len() as u64;
                (buffer.events, buffer.bytes) = (VecDeque::new(), 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::event::{EVENT_VERSION, EventId, EventKind};

    fn event(seq: u64, bytes: usize) -> Arc<Event> {
        Arc::new(Event {
            v: EVENT_VERSION,
            id: EventId { seq: crate::words::ids::Seq(seq), incarnation: 1, sub: 0 },
            session: "s".parse().unwrap(),
            time: crate::words::ids::Millis(0),
            cause: None,
            turn: None,
            step: None,
            kind: EventKind::TextDelta { text: "x".repeat(bytes) },
        })
    }

    /// Promise 11: a listener that reads nothing holds a bounded number of bytes and learns how much it missed; a single larger
    /// event is still held.
    #[tokio::test]
    async fn a_ring_is_bounded_in_bytes_too() {
        let ring = Arc::<Ring>::default();
        let mut listens = ring.listen();
        ring.push((1..=4).map(|seq| event(seq, RING_BYTES_MAX / 3)));
        assert!(ring.buffer.lock().bytes <= RING_BYTES_MAX);
        assert_eq!(listens.next().await, Some(Next::Lagged(2)));
        ring.push([event(5, 2 * RING_BYTES_MAX)]);
        assert_eq!(listens.next().await, Some(Next::Lagged(2)));
        let Some(Next::Event(held)) = listens.next().await else { panic!("the newest is held") };
        assert_eq!(held.id.seq, crate::words::ids::Seq(5));
        drop(listens);
        assert_eq!(ring.buffer.lock().bytes, 0);
    }

    /// What the only listener has read is dropped. Of two, the slower one misses nothing of what the quicker one has read.
    #[tokio::test]
    async fn a_ring_drops_what_its_only_listener_has_read() {
        let ring = Arc::<Ring>::default();
        let held = || ring.buffer.lock().events.len();
        let read = |next: Option<Next>| match next {
            Some(Next::Event(event)) => event.id.seq.0,
            other => panic!("{other:?}"),
        };
        let mut quick = ring.listen();
        ring.push((1..=3).map(|seq| event(seq, 1)));
        assert_eq!((read(quick.next().await), held()), (1, 2));
        let mut slow = ring.listen();
        ring.push((4..=5).map(|seq| event(seq, 1)));
        for seq in 2..=5 {
            assert_eq!(read(quick.next().await), seq);
        }
        assert_eq!(held(), 4, "the other one has read none of them");
        assert_eq!(read(slow.next().await), 4);
        drop(quick);
        assert_eq!((read(slow.next().await), held()), (5, 0));
        assert_eq!(ring.buffer.lock().bytes, 0);
        let mut late = ring.listen();
        ring.push([event(6, 1)]);
        assert_eq!((read(slow.next().await), read(late.next().await)), (6, 6));
    }
}
