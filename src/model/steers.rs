//! Steering messages for an answer that is being made: how a model takes them ([`Steers`]), and what became of each ([`Steered`]).
//!
//! A model that ignores them loses nothing: the session delivers each message with its next request. A change must keep that a
//! message is named by its id alone, so that what a model says of one twice counts once.

use std::{collections::VecDeque, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::UserItem;
use crate::{
    lock::Lock,
    words::{ids::MessageId, message::Message},
};

/// The steering messages that a request may take while its answer is being made; none by default.
///
/// For a model whose provider takes messages in mid-answer. The session offers each message once, in order, as it will stand in the
/// next request's history. A clone is the same line: a message goes to whoever takes it first. A message that no one takes, or that
/// does not come back in [`ModelAnswer::steered`](super::ModelAnswer::steered), is delivered with the next request like any other.
#[derive(Clone, Default)]
pub struct Steers(Option<Arc<Line>>);

/// Called with a message that the provider has taken.
type Sent = Box<dyn Fn(&Arc<Message>) + Send + Sync>;

struct Line {
    offered: Lock<Offered>,
    changed: Notify,
    sent: Sent,
}

#[derive(Default)]
struct Offered {
    waiting: VecDeque<Arc<Message>>,
    /// What was taken, and whether the provider was said to have it.
    taken: Vec<(Arc<Message>, bool)>,
}

impl Steers {
    /// A line without messages, which says through `sent` what the provider has taken.
    pub(crate) fn new(sent: impl Fn(&Arc<Message>) + Send + Sync + 'static) -> Steers {
        Steers(Some(Arc::new(Line { offered: Lock::default(), changed: Notify::new(), sent: Box::new(sent) })))
    }

    /// Offers these messages, but for those that were taken, and nothing else: one that was taken back or edited is offered no more as
    /// it was.
    pub(crate) fn offer<'a>(&self, messages: impl Iterator<Item = &'a Arc<Message>>) {
        let Some(line) = &self.0 else { return };
        let mut offered = line.offered.lock();
        let Offered { waiting, taken } = &mut *offered;
        waiting.clear();
        waiting.extend(messages.filter(|message| !taken.iter().any(|(known, _)| known.id == message.id)).cloned());
        let has_some = !waiting.is_empty();
        drop(offered);
        if has_some {
            line.changed.notify_one();
        }
    }

    /// The next message, as it will stand in the history. Waits for one; for ever where none can come. Dropping the future takes none.
    pub async fn next(&self) -> Arc<UserItem> {
        let Some(line) = &self.0 else { return std::future::pending().await };
        loop {
            match line.take() {
                Some(message) => return Arc::new(UserItem::new(message.id.clone(), message.parts.clone())),
                None => line.changed.notified().await,
            }
        }
    }

    /// Says that the provider has a message that [`Steers::next`] gave. The session notes it on its tape, and goes on having the
    /// message until the answer says what became of it. Said again, or of another message, it does nothing.
    pub fn sent(&self, message: &MessageId) {
        let Some(line) = &self.0 else { return };
        let mut offered = line.offered.lock();
        let said = offered.taken.iter_mut().find(|(known, said)| known.id == *message && !said);
        let message = said.map(|(known, said)| {
            *said = true;
            known.clone()
        });
        drop(offered);
        if let Some(message) = message {
            (line.sent)(&message);
        }
    }
}

impl Line {
    fn take(&self) -> Option<Arc<Message>> {
        let mut offered = self.offered.lock();
        let message = offered.waiting.pop_front()?;
        offered.taken.push((message.clone(), false));
        let has_more = !offered.waiting.is_empty();
        drop(offered);
        if has_more {
            self.changed.notify_one();
        }
        Some(message)
    }
}

impl fmt::Debug for Steers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offered = self.0.as_ref().map(|line| line.offered.lock().waiting.len());
        f.debug_struct("Steers").field("offered", &offered).finish()
    }
}

/// What became of a steering message that was sent into an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Steered {
    /// The message.
    pub message: MessageId,
    /// Why it came back; `None` where the provider has begun a further answer with it. One that came back is delivered with the next
    /// request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<String>,
}

impl Steered {
    /// The provider has begun a further answer with the message: a request with the same conversation, the answer and the message
    /// will be answered by that.
    #[must_use]
    pub fn committed(message: MessageId) -> Steered {
        Steered { message, returned: None }
    }

    /// The message came back, and why.
    #[must_use]
    pub fn returned(message: MessageId, why: impl Into<String>) -> Steered {
        Steered { message, returned: Some(why.into()) }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn message(id: &str) -> Arc<Message> {
        Arc::new(Message::user(id).with_id(id.into()))
    }

    fn next(steers: &Steers) -> Option<String> {
        steers.next().now_or_never().map(|item| item.text())
    }

    #[test]
    fn each_message_is_taken_once_and_in_order() {
        let said = Arc::<Lock<Vec<MessageId>>>::default();
        let heard = said.clone();
        let steers = Steers::new(move |message| heard.lock().push(message.id.clone()));
        let all = [message("one"), message("two"), message("three")];
        assert_eq!(next(&steers), None);
        steers.offer(all[..2].iter());
        steers.offer(all[..2].iter());
        assert_eq!(next(&steers).as_deref(), Some("one"));
        steers.offer(all.iter());
        let rest = [next(&steers), next(&steers.clone()), next(&steers)];
        assert_eq!(rest, [Some("two".to_owned()), Some("three".to_owned()), None]);
        for id in ["one", "one", "never offered"] {
            steers.sent(&id.into());
        }
        assert_eq!(*said.lock(), ["one".into()], "once, and nothing that was not taken");
        Steers::default().offer(all.iter());
        assert_eq!(next(&Steers::default()), None);
    }

    /// It may wait long: for the governor, or for the beginning of the answer.
    #[test]
    fn what_was_taken_back_or_edited_is_not_taken_as_it_was() {
        let steers = Steers::new(|_| ());
        let edited = Arc::new(Message::user("other words").with_id("two".into()));
        steers.offer([message("one"), message("two")].iter());
        steers.offer([edited].iter());
        assert_eq!([next(&steers), next(&steers)], [Some("other words".to_owned()), None]);
        steers.offer([message("three")].iter());
        steers.offer([].iter());
        assert_eq!(next(&steers), None, "the session was paused");
    }

    #[tokio::test]
    async fn a_message_that_is_offered_later_wakes_each_who_waits() {
        let steers = Steers::new(|_| ());
        let waiting = [(); 2].map(|()| {
            let steers = steers.clone();
            tokio::spawn(async move { steers.next().await.text() })
        });
        tokio::task::yield_now().await;
        steers.offer([message("one"), message("two")].iter());
        let mut came = Vec::new();
        for waiting in waiting {
            came.extend(waiting.await);
        }
        came.sort();
        assert_eq!(came, ["one", "two"]);
    }
}
