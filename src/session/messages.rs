//! Reads a conversation from its tape: its entries, its messages oldest or newest first, and the cost of its model requests.
//!
//! Each reading (all entries, all messages, one page, the bill) reads the whole tape, on a thread and never by the session's actor:
//! a sleeping session stays asleep, and a working one is not held up. A message of a running turn is given as far as the tape has
//! it.
//!
//! A change must keep a [`MessageCursor`] (the place where a page ends) valid while messages are added and taken back, because a
//! host asks for the next page with it.

use std::vec::IntoIter;

use serde::{Deserialize, Serialize};

use crate::{
    actor::bring_up::why_not_there,
    error::OpenError,
    kernel::{Bill, Entry, Transcript},
    ops::taped,
    session::Session,
    tape::TapeStoreExt as _,
    words::ids::Seq,
    words::message::Message,
};

/// Messages of one page, at most.
pub const MESSAGES_MAX: usize = 1_000;

/// A place in a conversation, in front of a message. It stays valid while messages are added, and while they are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessageCursor {
    /// The entry that brought the message after this place.
    pub entry: Seq,
    /// How many messages of the same entry come before this place.
    pub nth: u32,
}

/// One page of a conversation's messages.
#[derive(Clone, Debug, PartialEq)]
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

    /// What each model request of this session used and cost, oldest first, read from the tape. What children used is on their own
    /// tapes. The bill of a fork begins with the fork: what was used before is on the parent's bill.
    ///
    /// # Errors
    /// If the tape cannot be read.
    pub async fn bill(&self) -> Result<Bill, OpenError> {
        Ok(Bill::of(&self.entries().await?))
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

    /// The newest messages before a place, or before the end: newest first, at most `limit` of them (1 to [`MESSAGES_MAX`]). Each
    /// page reads the tape again: older pages show neither messages that came meanwhile nor messages taken back meanwhile.
    ///
    /// # Errors
    /// If the tape cannot be read.
    pub async fn messages_before(&self, before: Option<MessageCursor>, limit: usize) -> Result<MessagePage, OpenError> {
        let limit = limit.clamp(1, MESSAGES_MAX);
        let (messages, made) = Transcript::numbered(&self.entries().await?);
        let mut older: Vec<_> = messages.into_iter().zip(cursors(&made)).collect();
        older.retain(|(_, at)| before.is_none_or(|before| *at < before));
        let mut page = older.split_off(older.len().saturating_sub(limit));
        let next = page.first().map(|(_, at)| *at).filter(|_| !older.is_empty());
        page.reverse();
        Ok(MessagePage { messages: page.into_iter().map(|(message, _)| message).collect(), next })
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
