//! The ring: the events of one session on their way to its listeners. It is bounded, and counts the events that a slow listener
//! missed.
//!
//! A ring holds at most [`RING_EVENTS_MAX`] events and [`RING_BYTES_MAX`] bytes; a single larger event is held alone. An event is
//! dropped when every listener of the moment of its `push` has read it or is gone: listeners that keep up cost nothing, and
//! without a listener the ring holds no event. Every listener gets the events in the order of their `push`. A listener that is
//! too slow hears how many events it missed, and continues with the oldest that is left; the durable ones among the missed can be
//! read again from the tape. The ring outlives the session's actor, and a passive session keeps it for as long as it has a
//! listener.
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

use crate::{
    event::{Event, Past, PastPage, past::Reading},
    lock::Lock,
    words::ids::Seq,
};

/// The most events that a ring holds.
pub(crate) const RING_EVENTS_MAX: usize = 4_096;

/// The most bytes that the events of a ring take together. The newest event is held however large it is.
pub(crate) const RING_BYTES_MAX: usize = 32 << 20;

/// The events of one session.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    buffer: Lock<Buffer>,
    news: Arc<Notify>,
    /// All streams. Changed under the lock of the buffer.
    listeners: AtomicUsize,
    /// Those whose reader may answer questions.
    people: AtomicUsize,
}

#[derive(Debug, Default)]
struct Buffer {
    /// The number of events that were dropped at the front since the ring was made: the position of the first event held.
    first: u64,
    /// The events held, oldest first.
    events: VecDeque<Unread>,
    /// The sum of those sizes.
    bytes: usize,
    /// Whether no further event will come.
    closed: bool,
}

/// One event that not all of its listeners have read.
#[derive(Debug)]
struct Unread {
    event: Arc<Event>,
    bytes: usize,
    /// How many listeners have not read it. Never fewer than of the event before it: a listener reads in order, and one that joins
    /// begins behind all events.
    by: usize,
}

impl Buffer {
    fn drop_first(&mut self) {
        if let Some(Unread { bytes, .. }) = self.events.pop_front() {
            self.bytes -= bytes;
            self.first += 1;
        }
    }

    fn drop_read(&mut self) {
        while self.events.front().is_some_and(|first| first.by == 0) {
            self.drop_first();
        }
    }

    /// Takes out the event at this position for one of its listeners; `None` if it has not come yet. The position is not before the
    /// first.
    fn read(&mut self, position: u64) -> Option<Arc<Event>> {
        let unread = self.events.get_mut(self.index(position))?;
        unread.by -= 1;
        let event = unread.event.clone();
        self.drop_read();
        Some(event)
    }

    /// A listener is gone that would have read from this position on.
    fn leave(&mut self, position: u64) {
        let index = self.index(position.max(self.first)).min(self.events.len());
        self.events.range_mut(index..).for_each(|unread| unread.by -= 1);
        self.drop_read();
    }

    fn index(&self, position: u64) -> usize {
        usize::try_from(position - self.first).unwrap_or(usize::MAX)
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
        let by = self.listeners.load(Ordering::Acquire);
        for event in events.into_iter().take_while(|_| by > 0) {
            let bytes = event.bytes();
            buffer.bytes += bytes;
            buffer.events.push_back(Unread { event, bytes, by });
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
        let buffer = self.buffer.lock();
        self.listeners.fetch_add(1, Ordering::AcqRel);
        let next = buffer.first + buffer.events.len() as u64;
        drop(buffer);
        EventStream {
            ring: self.clone(),
            next,
            replay: VecDeque::new(),
            replayed: Seq::ZERO,
            past: None,
            reading: None,
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
pub struct EventStream {
    ring: Arc<Ring>,
    next: u64,
    /// Past events that were read from the tape, and the last entry that was.
    replay: VecDeque<Arc<Event>>,
    replayed: Seq,
    /// The part of the past behind these.
    past: Option<Past>,
    reading: Option<Reading>,
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

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream")
            .field("next", &self.next)
            .field("replayed", &self.replayed)
            .finish_non_exhaustive()
    }
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

    /// Puts past events before the live ones, which the stream has from now on. Live durable events that are among them are left
    /// out.
    pub(crate) fn behind(mut self, first: PastPage) -> EventStream {
        self.turn_to(first);
        self
    }

    fn turn_to(&mut self, PastPage { events, through, rest }: PastPage) {
        (self.replay, self.replayed, self.past) = (events.into(), through, rest);
    }

    /// Begins to read the next page of the past, if there is one. What is live until then is on the tape and will be on the page, but
    /// for what is provisional; so the stream lags behind no live event while its reader is in the past.
    fn read_on(&mut self) {
        let Some(past) = self.past.take() else { return };
        let mut buffer = self.ring.buffer.lock();
        buffer.leave(self.next);
        self.next = buffer.first + buffer.events.len() as u64;
        drop(buffer);
        self.reading = Some(past());
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
            let Some(event) = buffer.read(self.next) else { return buffer.closed.then_some(None) };
            self.next += 1;
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
            if this.replay.is_empty() {
                this.read_on();
            }
            if let Some(reading) = &mut this.reading {
                let page = ready!(Pin::new(reading).poll(cx));
                this.reading = None;
                match page {
                    Ok(Some(page)) => this.turn_to(page),
                    Ok(None) | Err(_) => this.ended = true,
                }
                continue;
            }
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
        let mut buffer = self.ring.buffer.lock();
        self.ring.listeners.fetch_sub(1, Ordering::AcqRel);
        buffer.leave(self.next);
        if buffer.events.is_empty() {
            buffer.events = VecDeque::new();
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
            id: EventId { seq: Seq(seq), incarnation: 1, sub: 0 },
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
        assert_eq!(held.id.seq, Seq(5));
        drop(listens);
        assert_eq!(ring.buffer.lock().bytes, 0);
    }

    /// What every listener has read is dropped, and what a listener read before another one came. The slower one misses nothing of
    /// what the quicker one has read.
    #[tokio::test]
    async fn a_ring_drops_what_every_listener_has_read() {
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
        assert_eq!(held(), 2, "the other one has read neither of the two that came after it");
        assert_eq!(read(slow.next().await), 4);
        drop(quick);
        assert_eq!((read(slow.next().await), held()), (5, 0));
        assert_eq!(ring.buffer.lock().bytes, 0);
        let mut late = ring.listen();
        ring.push([event(6, 1)]);
        assert_eq!((read(slow.next().await), read(late.next().await)), (6, 6));
        assert_eq!(held(), 0);
    }

    /// Listeners that keep up hold nothing, however many they are. One that leaves, also one that had fallen behind the bound,
    /// takes with it what only it had not read.
    #[tokio::test]
    async fn a_ring_holds_only_what_a_listener_has_still_to_read() {
        let ring = Arc::<Ring>::default();
        let held = || {
            let buffer = ring.buffer.lock();
            (buffer.events.len(), buffer.bytes == 0)
        };
        let mut keep_up: Vec<_> = (0..10).map(|_| ring.listen()).collect();
        let max = RING_EVENTS_MAX as u64;
        for seq in 1..=2 * max {
            ring.push([event(seq, 1)]);
            for listener in &mut keep_up {
                assert!(matches!(listener.next().await, Some(Next::Event(event)) if event.id.seq.0 == seq));
            }
            assert_eq!(held(), (0, true));
        }
        let (behind, reads_nothing) = (ring.listen(), ring.listen());
        ring.push((1..=max + 5).map(|seq| event(seq, 1)));
        assert_eq!(keep_up[0].next().await, Some(Next::Lagged(5)));
        drop(behind);
        keep_up.truncate(1);
        assert_eq!(held(), (RING_EVENTS_MAX, false));
        drop(reads_nothing);
        assert_eq!(held(), (RING_EVENTS_MAX, false), "one has read none of them");
        assert!(matches!(keep_up[0].next().await, Some(Next::Event(event)) if event.id.seq.0 == 6));
        assert_eq!(held(), (RING_EVENTS_MAX - 1, false));
        keep_up.clear();
        assert_eq!(held(), (0, true));
    }
}
