//! What a provider has of the steering messages that went into one answer: a value, changed by its events.
//!
//! One message at a time waits for its word, because a refusal may name none. After a refusal no further one is sent, so what a
//! successor begins with is the beginning of what was sent. A change must keep that a message counts as committed only where the
//! provider has said that it has it, and has begun a successor after that.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    model::{Steered, UserItem},
    words::ids::MessageId,
};

/// The most bytes of a provider's words that are kept.
const WHY_BYTES_MAX: usize = 300;

/// The messages that went into one answer.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    sent: Vec<One>,
    /// The event of an error that was taken for the refusal of a message, although it names none; or that something came that fits
    /// no message. Nothing else may be asked on such a connection.
    pub(super) doubt: Option<String>,
}

#[derive(Debug)]
struct One {
    item: Arc<UserItem>,
    /// The provider's own name for it.
    steer: Option<String>,
    fate: Fate,
}

#[derive(Debug, PartialEq)]
enum Fate {
    Unanswered,
    Accepted,
    Committed,
    Returned(String),
}

/// What an event said of a message.
#[derive(Debug, PartialEq)]
pub(super) enum Told {
    /// The provider has it.
    Accepted(MessageId),
    /// It came back, or waits for something that we do otherwise.
    Other,
}

impl Ahead {
    /// Whether another message may be sent.
    pub(super) fn may_send(&self) -> bool {
        !self.sent.iter().any(|one| matches!(one.fate, Fate::Unanswered | Fate::Returned(_)))
    }

    /// Whether a message is still with the provider, or may be.
    pub(super) fn is_open(&self) -> bool {
        self.sent.iter().any(|one| matches!(one.fate, Fate::Unanswered | Fate::Accepted))
    }

    /// Whether no message was sent.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    pub(super) fn send(&mut self, item: Arc<UserItem>) {
        self.sent.push(One { item, steer: None, fate: Fate::Unanswered });
    }

    /// Takes an event of that type. `None` if it is about no message.
    pub(super) fn event(&mut self, kind: &str, event: &Value) -> Option<Told> {
        let steer = event["steer"]["id"].as_str();
        match kind {
            "response.steer.accepted" => {
                let Some(one) = self.unanswered() else {
                    self.doubt.get_or_insert_with(String::new);
                    return Some(Told::Other);
                };
                (one.steer, one.fate) = (steer.map(str::to_owned), Fate::Accepted);
                Some(Told::Accepted(one.item.id.clone()))
            }
            "response.steer.failed" => {
                self.failed(steer, &event["error"]);
                Some(Told::Other)
            }
            "response.steer.pending" => Some(Told::Other),
            // A server that knows no steering has no other word for it.
            "error" if self.unanswered().is_some() => {
                self.doubt = Some(event.to_string());
                self.failed(None, &event["error"]);
                Some(Told::Other)
            }
            _ => None,
        }
    }

    fn unanswered(&mut self) -> Option<&mut One> {
        self.sent.iter_mut().find(|one| one.fate == Fate::Unanswered)
    }

    fn failed(&mut self, steer: Option<&str>, error: &Value) {
        let named = steer.and_then(|steer| self.sent.iter().position(|one| one.steer.as_deref() == Some(steer)));
        let at = named.or_else(|| self.sent.iter().position(|one| one.fate == Fate::Unanswered));
        let Some(one) = at.and_then(|at| self.sent.get_mut(at)) else { return };
        let said = error["message"].as_str().or(error["code"].as_str()).unwrap_or("the provider sent it back");
        let end = said.floor_char_boundary(WHY_BYTES_MAX);
        one.fate = Fate::Returned(said[..end].to_owned());
    }

    /// A successor has begun: it has read what was accepted. Gives the messages that it has read; `None` where one is among them of
    /// which the provider has not said what it did with it.
    pub(super) fn successor(&mut self) -> Option<Vec<Arc<UserItem>>> {
        if self.unanswered().is_some() {
            return None;
        }
        let accepted = self.sent.iter_mut().filter(|one| one.fate == Fate::Accepted);
        let read = accepted.map(|one| {
            one.fate = Fate::Committed;
            one.item.clone()
        });
        Some(read.collect())
    }

    /// The end of all messages. What is not committed comes back, for this reason where the provider gave none.
    pub(super) fn end(self, why: &str) -> Vec<Steered> {
        let end = |one: One| match one.fate {
            Fate::Committed => Steered::committed(one.item.id.clone()),
            Fate::Returned(said) => Steered::returned(one.item.id.clone(), said),
            Fate::Unanswered | Fate::Accepted => Steered::returned(one.item.id.clone(), why),
        };
        self.sent.into_iter().map(end).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::words::message::Part;

    fn sent(ids: &[&str]) -> Ahead {
        let mut ahead = Ahead::default();
        for id in ids {
            assert!(ahead.may_send(), "{id}");
            ahead.send(Arc::new(UserItem::new((*id).into(), vec![Part::text("x")])));
            let accepted = json!({"steer": {"id": format!("st_{id}")}});
            assert_eq!(ahead.event("response.steer.accepted", &accepted), Some(Told::Accepted((*id).into())));
        }
        ahead
    }

    fn ids(read: Option<Vec<Arc<UserItem>>>) -> Option<Vec<String>> {
        read.map(|read| read.iter().map(|item| item.id.to_string()).collect())
    }

    #[test]
    fn what_was_accepted_is_committed_by_the_successor_and_by_nothing_else() {
        let mut ahead = sent(&["one", "two"]);
        assert!(ahead.is_open());
        assert_eq!(ids(ahead.successor()), Some(vec!["one".to_owned(), "two".to_owned()]));
        assert!(!ahead.is_open());
        assert_eq!(ahead.end(""), [Steered::committed("one".into()), Steered::committed("two".into())]);
        assert_eq!(sent(&["one"]).end("why"), [Steered::returned("one".into(), "why")]);
    }

    #[test]
    fn a_message_without_a_word_makes_a_successor_unusable() {
        let mut ahead = sent(&["one"]);
        ahead.send(Arc::new(UserItem::new("two".into(), vec![])));
        assert!(!ahead.may_send(), "one at a time");
        assert_eq!(ahead.successor(), None);
        let back = |id: &str| Steered::returned(id.into(), "lost");
        assert_eq!(ahead.end("lost"), [back("one"), back("two")]);
    }

    #[test]
    fn a_refusal_is_of_the_message_that_it_names_or_of_the_one_without_a_word() {
        let mut ahead = sent(&["one", "two"]);
        let failed = json!({"steer": {"id": "st_one"}, "error": {"code": "late", "message": "too late"}});
        assert_eq!(ahead.event("response.steer.failed", &failed), Some(Told::Other));
        assert!(!ahead.may_send(), "what comes behind a refused one would overtake it");
        assert_eq!(ids(ahead.successor()), Some(vec!["two".to_owned()]));
        assert_eq!(ahead.end(""), [Steered::returned("one".into(), "too late"), Steered::committed("two".into())]);

        for (kind, error) in [("response.steer.failed", json!({"code": "no"})), ("error", json!({"message": "no"}))] {
            let mut ahead = sent(&["one"]);
            ahead.send(Arc::new(UserItem::new("two".into(), vec![])));
            assert_eq!(ahead.event(kind, &json!({ "error": error })), Some(Told::Other));
            assert_eq!(ahead.doubt.is_some(), kind == "error", "it may have been about the answer");
            assert!(ahead.is_open(), "the first is still there");
            assert_eq!(ahead.end("w"), [Steered::returned("one".into(), "w"), Steered::returned("two".into(), "no")]);
        }
        assert_eq!(Ahead::default().event("error", &json!({})), None, "an error of the answer itself");
        let mut late = Ahead::default();
        late.event("response.steer.accepted", &json!({"steer": {"id": "st"}}));
        assert!(late.doubt.is_some(), "the provider has something that we do not know of");
        assert_eq!(sent(&["one"]).event("response.output_text.delta", &json!({})), None);
    }

    #[test]
    fn long_words_are_cut() {
        let mut ahead = Ahead::default();
        ahead.send(Arc::new(UserItem::new("one".into(), vec![])));
        ahead.event("response.steer.failed", &json!({"error": {"message": "ä".repeat(1000)}}));
        let [Steered { returned: Some(why), .. }] = &ahead.end("")[..] else { unreachable!("one message") };
        assert_eq!(why.len(), WHY_BYTES_MAX);
    }
}
