//! Reads a conversation without its actor: its state, its entries, its messages oldest or newest first, the events behind an entry, and
//! the cost of its model requests.
//!
//! The tape is read on a thread and never by the session's actor: a sleeping session stays asleep, and a working one is not held up.
//! All entries and all messages read the whole tape; a page reads from the newest anchor back until it is full, events from the
//! anchor before them, and a bill what came since the last one. A message of a running turn is shown as far as the tape has it.
//!
//! A change must keep two things. A page, and the events behind an entry, are what they would be over the whole tape. A
//! [`MessageCursor`] (the place where a page ends) stays valid while messages are added and taken back, because a host asks for the
//! next page with it.

use std::{collections::BTreeMap, sync::Arc, vec::IntoIter};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    actor::bring_up::why_not_there,
    error::OpenError,
    event::EventStream,
    kernel::{Bill, Entry, State, Transcript},
    ops::taped,
    session::{Session, past::PastReading},
    tape::{self, Mark, TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{Seq, SessionId},
    words::message::Message,
};

/// Messages of one page, at most.
pub const MESSAGES_MAX: usize = 1_000;

/// A place in a conversation, in front of a message. It stays valid while messages are added, and while they are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MessageCursor {
    /// The entry that brought the message after this place.
    pub entry: Seq,
    /// How many messages of the same entry come before this place.
    pub nth: u32,
}

/// One page of a conversation's messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MessagePage {
    /// The messages with their parts, newest first.
    pub messages: Vec<Message>,
    /// Where the next page begins; `None` if there is nothing older.
    pub next: Option<MessageCursor>,
}

/// A conversation, newest message first, as it was when [`MessageStream::next`] first read it. From then on it holds the messages
/// in memory until they are returned or the stream is dropped.
#[derive(Debug)]
pub struct MessageStream {
    session: Session,
    read: Option<IntoIter<Message>>,
}

impl Session {
    /// The conversation as messages, oldest first, read from the tape. [`Session::newest_first`] and [`Session::messages_before`]
    /// read it from its end.
    ///
    /// # Errors
    /// If the tape cannot be read.
    pub async fn messages(&self) -> Result<Vec<Message>, OpenError> {
        Ok(Transcript::of(&self.entries().await?))
    }

    /// What each model request of this session used and cost, oldest first, read from the tape: the first time the whole tape, and
    /// then what came since. What children used is on their own tapes. The bill of a fork begins with the fork: what was used before
    /// is on the parent's bill. The sum alone is in the state ([`State::spent`](crate::session::State)), and costs nothing.
    ///
    /// # Errors
    /// If the tape cannot be read.
    pub async fn bill(&self) -> Result<Bill, OpenError> {
        let id = self.slot.id.clone();
        let read = self.shared.blocking(move |shared| shared.remembered.bill(&*shared.store, &id)).await;
        match read {
            Err(error) => Err(why_not_there(&self.shared, &self.slot, error).await),
            read => read,
        }
    }

    /// All entries of the tape, oldest first.
    ///
    /// # Errors
    /// If the tape cannot be read.
    pub async fn entries(&self) -> Result<Vec<Entry>, OpenError> {
        let id = self.slot.id.clone();
        let read = self.shared.blocking(move |shared| taped::entries(&id, &shared.store.read(&id, Seq::ZERO)?)).await;
        match read {
            Err(error) => Err(why_not_there(&self.shared, &self.slot, error).await),
            read => read,
        }
    }

    /// The durable events after that entry, then all events as they come. No durable event is missing between the two; a reader that is
    /// too slow afterwards gets [`Next::Lagged`](crate::session::Next::Lagged). The tape is read a page at a time, as the reader comes
    /// to it, so a long one costs no memory. Pieces of text that come while the past is read are not shown. If the tape cannot be
    /// read on, the stream ends; the events so far are whole, and the same call after the last of them goes on.
    ///
    /// # Errors
    /// If the tape cannot be read.
    pub async fn events_after(&self, after: Seq) -> Result<EventStream, OpenError> {
        // Listen first, so that nothing is missed while the tape is read.
        let live = self.slot.listen();
        let id = self.slot.id.clone();
        let shared = self.shared.clone();
        let read = self.shared.blocking(move |_| {
            let reading = PastReading::behind(&*shared.store, &id, after)?;
            reading.map(|reading| reading.page(&shared)).transpose()
        });
        match read.await {
            Err(error) => Err(why_not_there(&self.shared, &self.slot, error).await),
            Ok(Some(first)) => Ok(live.behind(first)),
            Ok(None) => Ok(live),
        }
    }

    /// The state as it is on the tape, without waking the session: what is published while it is awake, in this runtime; else what its
    /// tape says, which costs a reading from its newest anchor on. It may be an entry behind what another process is writing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::Scripted};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// let runtime = Runtime::builder().in_memory().model(Arc::new(Scripted::new([]))).start().await?;
    /// let session = runtime.create(SessionOptions::new(".").title("Order 7")).await?;
    /// runtime.passivate(session.id()).await?;
    /// assert_eq!(session.peek().await?.settings.title.as_deref(), Some("Order 7"));
    /// assert!(!session.is_awake());
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If it is not awake, and the store has no such session or its tape cannot be read.
    pub async fn peek(&self) -> Result<State, OpenError> {
        if let Some(state) = self.slot.shown() {
            return Ok(Arc::unwrap_or_clone(state));
        }
        let id = self.slot.id.clone();
        self.shared.blocking(move |shared| taped::newest(&*shared.store, &id)).await
    }

    /// The last entry of its tape, without waking the session: of what is published while it is awake, in this runtime; else as the
    /// store says, which reads none of the tape, so it may be asked again and again. It may be an entry behind what another process is
    /// writing.
    ///
    /// # Errors
    /// As [`Session::peek`], but for a tape that is damaged.
    pub async fn last_entry(&self) -> Result<Seq, OpenError> {
        if let Some(state) = self.slot.shown() {
            return Ok(state.seq);
        }
        let id = self.slot.id.clone();
        let read = self.shared.blocking(move |shared| {
            let is_hidden = !shared.store.marks(Mark::Hidden, Some(&id))?.is_empty();
            match shared.store.summary(&id)?.seq {
                // Whoever made it died before its first entry.
                seq if is_hidden || seq == Seq::ZERO => Err(TapeError::Missing { session: id }.into()),
                seq => Ok(seq),
            }
        });
        match read.await {
            Err(error) => Err(why_not_there(&self.shared, &self.slot, error).await),
            read => read,
        }
    }

    /// Whether the session is awake in this runtime, and shows its state. Asks nobody.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.slot.is_shown()
    }

    /// The newest messages before a place, or before the end: newest first, at most `limit` of them (1 to [`MESSAGES_MAX`]). Each
    /// page reads the tape again, from its end back to the page: older pages do not show messages that came meanwhile, nor messages
    /// that were taken back meanwhile.
    ///
    /// # Errors
    /// If the tape cannot be read.
    pub async fn messages_before(&self, before: Option<MessageCursor>, limit: usize) -> Result<MessagePage, OpenError> {
        let (id, limit) = (self.slot.id.clone(), limit.clamp(1, MESSAGES_MAX));
        let read = self.shared.blocking(move |shared| read_page(&*shared.store, &id, before, limit)).await;
        match read {
            Err(error) => Err(why_not_there(&self.shared, &self.slot, error).await),
            read => read,
        }
    }

    /// All messages with their parts, newest first, one by one. The tape is read when the first message is asked for.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
    /// let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// session.prompt("Say hello.").await?.wait().await?;
    /// let mut messages = session.newest_first();
    /// assert_eq!(messages.next().await?.unwrap().text(), "Hello.");
    /// assert_eq!(messages.next().await?.unwrap().text(), "Say hello.");
    /// assert_eq!(messages.next().await?, None);
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn newest_first(&self) -> MessageStream {
        MessageStream { session: self.clone(), read: None }
    }
}

impl MessageStream {
    /// The next older message; `None` after the oldest. Cancel-safe: a message that was not returned is returned by the next
    /// call.
    ///
    /// # Errors
    /// If the tape cannot be read; the next call tries again.
    pub async fn next(&mut self) -> Result<Option<Message>, OpenError> {
        if self.read.is_none() {
            let messages = self.session.messages().await?;
            self.read = Some(messages.into_iter());
        }
        Ok(self.read.as_mut().and_then(DoubleEndedIterator::next_back))
    }
}

/// Reads a page from the end of a tape: from the newest anchor on, then from older ones, until it is full and a message is left for
/// the next page. Blocks on the disk.
fn read_page(
    store: &dyn TapeStore,
    session: &SessionId,
    before: Option<MessageCursor>,
    limit: usize,
) -> Result<MessagePage, OpenError> {
    let last = store.summary(session)?.seq;
    let (mut entries, mut first, mut anchors) = (Vec::new(), last.next(), 1);
    loop {
        let through = if entries.is_empty() { Seq(u64::MAX) } else { Seq(first.0 - 1) };
        for _ in 0..anchors {
            let anchor = store.anchor_before(session, Seq(first.0.saturating_sub(1)))?;
            first = anchor.map_or(Seq(1), |anchor| anchor.first);
        }
        // Twice as many anchors each time: a page far back must not cost one reading for each.
        anchors *= 2;
        let mut lines = store.read_through(session, first, through)?;
        lines.iter_mut().for_each(leave_out_history);
        let mut older = taped::entries(session, &lines)?;
        older.append(&mut entries);
        entries = older;
        let is_all = first <= Seq(1);
        let (messages, made) = if is_all { Transcript::numbered(&entries) } else { Transcript::tail(&entries) };
        let mut older: Vec<_> = messages.into_iter().zip(cursors(&made)).collect();
        older.retain(|(_, at)| before.is_none_or(|before| *at < before));
        if older.len() <= limit && !is_all {
            continue;
        }
        let mut page = older.split_off(older.len().saturating_sub(limit));
        let next = page.first().map(|(_, at)| *at).filter(|_| !older.is_empty());
        page.reverse();
        return Ok(MessagePage { messages: page.into_iter().map(|(message, _)| message).collect(), next });
    }
}

/// Takes the conversation out of the state at an anchor. A transcript does not look at it, and it is by far the most of a state.
fn leave_out_history(line: &mut tape::TapeEntry) {
    // What cannot be read here is an error where the line is decoded.
    if let Some(data) = Some(&line.data).filter(|_| line.kind == "state").and_then(|data| without_history(data.get())) {
        line.data = data;
    }
}

fn without_history(state: &str) -> Option<Box<RawValue>> {
    let nothing = RawValue::from_string("[]".to_owned()).ok()?;
    let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_str(state).ok()?;
    *fields.get_mut("history")? = &nothing;
    serde_json::value::to_raw_value(&fields).ok()
}

/// The place in front of each message.
fn cursors(made: &[Seq]) -> Vec<MessageCursor> {
    let mut cursors: Vec<MessageCursor> = Vec::with_capacity(made.len());
    for entry in made {
        let nth = cursors.last().filter(|last| last.entry == *entry).map_or(0, |last| last.nth.saturating_add(1));
        cursors.push(MessageCursor { entry: *entry, nth });
    }
    cursors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several messages that came with one entry have a place each.
    #[test]
    fn each_message_has_a_place_of_its_own() {
        let places = cursors(&[3, 3, 5, 9, 9, 9].map(Seq));
        let shown: Vec<_> = places.iter().map(|at| (at.entry.0, at.nth)).collect();
        assert_eq!(shown, [(3, 0), (3, 1), (5, 0), (9, 0), (9, 1), (9, 2)]);
        assert!(places.is_sorted());
    }
}
