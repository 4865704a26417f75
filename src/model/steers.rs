//! Steering messages for an answer that is being made: how a model takes them ([`Steers`]), and what became of each ([`Steered`]).
//!
//! A model that ignores them loses nothing: the session delivers each message with its next request. A change must keep that a
//! message is named by its id alone, so that what a model says of one twice counts once.

use std::{collections::VecDeque, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::UserItem;
use crate::{lock::Lock, words::ids::MessageId};

/// The steering messages that a request may take while its answer is being made; none by default.
///
/// For a model whose provider takes messages in mid-answer. The session offers each message once, in order, as it will stand in the
/// next request's history. A clone is the same line: a message goes to whoever takes it first. A message that no one takes, or that
/// does not come back in [`ModelAnswer::steered`](super::ModelAnswer::steered), is delivered with the next request like any other.
#[derive(Clone, Default)]
pub struct Steers(Option<Arc<Line>>);

/// Called with a message that the provider has taken.
type Sent = Box<dyn Fn(&MessageId) + Send + Sync>;

struct Line {
    /// The messages that wait to be taken, and the ids of all that were offered.
    offered: Lock<(VecDeque<Arc<UserItem>>, Vec<MessageId>)>,
    changed: Notify,
    sent: Sent,
}

impl Steers {
    /// A line without messages, which says through `sent` what the provider has taken.
    pub(crate) fn new(sent: impl Fn(&MessageId) + Send + Sync + 'static) -> Steers {
        Steers(Some(Arc::new(Line { offered: Lock::default(), changed: Notify::new(), sent: Box::new(sent) })))
    }

    /// Offers the messages that were not offered before.
    pub(crate) fn offer<'a>(&self, messages: impl Iterator<Item = (&'a MessageId, Arc<UserItem>)>) {
        let Some(line) = &self.0 else { return };
        let mut offered = line.offered.lock();
        let (waiting, known) = &mut *offered;
        let before = waiting.len();
        for (id, message) in messages {
            if !known.contains(id) {
                known.push(id.clone());
                waiting.push_back(message);
            }
        }
        let has_more = waiting.len() > before;
        drop(offered);
        if has_more {
            line.changed.notify_one();
        }
    }

    /// The next message. Waits for one; for ever where none can come. Dropping the future takes none.
    pub async fn next(&self) -> Arc<UserItem> {
        let Some(line) = &self.0 else { return std::future::pending().await };
        loop {
            let next = line.offered.lock().0.pop_front();
            match next {
                Some(message) => return message,
                None => line.changed.notified().await,
            }
        }
    }

    /// Says that the provider has taken the message. The session notes it on its tape, and goes on having the message until the
    /// answer says what became of it.
    pub fn sent(&self, message: &MessageId) {
        if let Some(line) = &self.0 {
            (line.sent)(message);
        }
    }
}

impl fmt::Debug for Steers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offered = self.0.as_ref().map(|line| line.offered.lock().1.len());
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
    use crate::words::message::Part;

    fn message(id: &str) -> (MessageId, Arc<UserItem>) {
        (id.into(), Arc::new(UserItem::new(id.into(), vec![Part::text(id)])))
    }

    #[test]
    fn each_message_is_offered_once_and_in_order() {
        let said = Arc::<Lock<Vec<MessageId>>>::default();
        let heard = said.clone();
        let steers = Steers::new(move |id| heard.lock().push(id.clone()));
        let all = [message("one"), message("two"), message("three")];
        let offer = |upto: usize| steers.offer(all[..upto].iter().map(|(id, message)| (id, message.clone())));
        assert!(steers.next().now_or_never().is_none());
        offer(2);
        offer(2);
        assert_eq!(steers.next().now_or_never().map(|item| item.id.clone()), Some("one".into()));
        offer(3);
        let rest = [steers.next().now_or_never(), steers.clone().next().now_or_never(), steers.next().now_or_never()];
        let rest: Vec<_> = rest.into_iter().map(|item| item.map(|item| item.id.clone())).collect();
        assert_eq!(rest, [Some("two".into()), Some("three".into()), None]);
        steers.sent(&"one".into());
        assert_eq!(*said.lock(), ["one".into()]);
        Steers::default().offer(all.iter().map(|(id, message)| (id, message.clone())));
        assert!(Steers::default().next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_message_that_is_offered_later_wakes_the_one_who_waits() {
        let steers = Steers::new(|_| ());
        let waiting = tokio::spawn({
            let steers = steers.clone();
            async move { steers.next().await.id.clone() }
        });
        tokio::task::yield_now().await;
        let (id, item) = message("late");
        steers.offer([(&id, item)].into_iter());
        assert_eq!(waiting.await.ok(), Some("late".into()));
    }
}
