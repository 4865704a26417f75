//! What hooks see of a request before it is made: the start of its turn ([`TurnStart`]), and the conversation as it tells it
//! ([`Outgoing`]); and what is recorded of their answers ([`Preparing`]).
//!
//! Hooks are handed the values and hand them back changed. Recorded is only the difference: the items that a request shows as they
//! are, by their places, and the new ones. A change must keep that an answer is refused that would part a call from its result, or
//! whose new parts are over [`ADDED_BYTES_MAX`]: the provider would refuse the one, and the tape must not grow by the other with
//! each request.

use std::{path::PathBuf, sync::Arc};

use crate::{
    kernel::{Prepared, Shown, TurnAdded},
    model::{AnswerPart, History, Item, UserItem},
    tool::Todo,
    words::ids::MessageId,
    words::message::Part,
};

/// The most bytes that all hooks together may add to one request.
const ADDED_BYTES_MAX: usize = 256 * 1024;

/// The start of a turn, as [`Hook::on_turn`](crate::hook::Hook::on_turn) sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnStart {
    /// The text of the messages that began the turn. A change to it is for the hooks behind this one only.
    pub prompt: String,
    /// The to-do list of the session. A change to it changes nothing.
    pub todos: Arc<[Todo]>,
    /// The folder of the session.
    pub workspace: PathBuf,
    /// Texts behind the system prompt, in each request of this turn and of no other. A text that differs from turn to turn costs
    /// the provider's cache of the conversation.
    pub system: Vec<String>,
    /// Texts said into the conversation in a user's place, behind the messages that began the turn. They stay there.
    pub messages: Vec<String>,
}

/// A request before it is made, as [`Hook::on_context`](crate::hook::Hook::on_context) sees it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Outgoing {
    /// The step of the turn, from 1.
    pub step: u32,
    /// The to-do list of the session. A change to it changes nothing.
    pub todos: Arc<[Todo]>,
    /// The conversation as the request tells it. What a hook leaves out or puts in is for this request only.
    pub history: History,
    /// Texts behind the conversation, in this request only.
    pub reminders: Vec<String>,
}

/// What is made of one request, hook by hook.
pub(crate) struct Preparing {
    /// The conversation as it is.
    history: History,
    turn: Option<TurnStart>,
    shown: Outgoing,
}

impl Preparing {
    /// `start` is the text of the messages that began the turn and the session's folder, where this is its first request.
    pub(crate) fn new(history: History, step: u32, todos: &[Todo], start: Option<(String, PathBuf)>) -> Preparing {
        let todos: Arc<[Todo]> = todos.into();
        let turn = start.map(|(prompt, workspace)| TurnStart {
            prompt,
            workspace,
            todos: todos.clone(),
            ..TurnStart::default()
        });
        let shown = Outgoing { step, todos, history: history.clone(), reminders: Vec::new() };
        Preparing { history, turn, shown }
    }

    pub(super) fn turn(&self) -> Option<&TurnStart> {
        self.turn.as_ref()
    }

    pub(super) fn outgoing(&self) -> &Outgoing {
        &self.shown
    }

    /// Takes what a hook made of the start of the turn.
    pub(super) fn take_turn(&mut self, turn: TurnStart) -> Result<(), String> {
        bounded(turn.system.iter().chain(&turn.messages).map(String::len).sum())?;
        self.turn = Some(turn);
        Ok(())
    }

    /// The start of the turn is over: what was said there stands in the conversation that the requests tell.
    pub(super) fn said(&mut self) {
        let messages = self.turn.iter().flat_map(|turn| &turn.messages).filter(|text| !text.trim().is_empty());
        let parts: Vec<_> = messages.map(|text| Part::text(text.as_str())).collect();
        if !parts.is_empty() {
            self.history.push(Item::User(UserItem::new(MessageId::from("hooks"), parts)));
            self.shown.history = self.history.clone();
        }
    }

    /// Takes what a hook made of the request.
    pub(super) fn take_outgoing(&mut self, outgoing: Outgoing) -> Result<(), String> {
        pairs(&outgoing.history)?;
        let shown = Outgoing { step: self.shown.step, ..outgoing };
        let before = std::mem::replace(&mut self.shown, shown);
        bounded(self.prepared().bytes()).inspect_err(|_| self.shown = before)
    }

    /// What is recorded of it.
    pub(crate) fn prepared(&self) -> Prepared {
        let full = |text: &&String| !text.trim().is_empty();
        let turn = self.turn.as_ref().map(|turn| TurnAdded {
            system: turn.system.iter().filter(full).cloned().collect::<Vec<_>>().join("\n\n"),
            messages: turn.messages.iter().filter(full).cloned().collect(),
        });
        let reminders = self.shown.reminders.iter().filter(full).cloned().collect();
        Prepared { turn, shown: difference(&self.history, &self.shown.history), reminders, ..Prepared::default() }
    }
}

fn bounded(bytes: usize) -> Result<(), String> {
    match bytes > ADDED_BYTES_MAX {
        true => Err(format!("added {bytes} bytes to a request: {ADDED_BYTES_MAX} are the most")),
        false => Ok(()),
    }
}

/// The items of `new`, by their places in `old` where they stand there. `None` where both are the same.
fn difference(old: &History, new: &History) -> Option<Vec<Shown>> {
    if old == new {
        return None;
    }
    let old: Vec<_> = old.iter().collect();
    let (mut pieces, mut next) = (Vec::new(), 0);
    for item in new.iter() {
        let is_same = |at: &usize| old.get(*at).is_some_and(|old| Arc::ptr_eq(old, item) || *old == item);
        // Most often the next one; else one of those behind it, where some were left out; else one before, of a hook that sorts.
        let place = Some(next).filter(is_same).or_else(|| (next..old.len()).chain(0..next).find(is_same));
        match (place, pieces.last_mut()) {
            (Some(at), Some(Shown::Kept(from, count))) if *from + *count == at => *count += 1,
            (Some(at), _) => pieces.push(Shown::Kept(at, 1)),
            (None, _) => pieces.push(Shown::New(Box::new((**item).clone()))),
        }
        next = place.map_or(next, |at| at + 1);
    }
    Some(pieces)
}

/// Whether each result stands behind the answer that asked for it, and each call has one.
fn pairs(history: &History) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for item in history.iter() {
        match item.as_ref() {
            Item::Result(result) => match open.iter().position(|id| *id == result.call.as_str()) {
                Some(at) => drop(open.remove(at)),
                None => return Err(format!("parted the result of {} from its call", result.call)),
            },
            _ if !open.is_empty() => break,
            Item::Assistant(answer) => open.extend(answer.parts.iter().filter_map(|part| match part {
                AnswerPart::Call { id, .. } => Some(id.as_str()),
                _ => None,
            })),
            Item::User(_) => {}
        }
    }
    match open.first() {
        Some(call) => Err(format!("parted the call {call} from its result")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelAnswer;
    use crate::words::message::Finish;

    fn user(text: &str) -> Item {
        Item::User(UserItem::new(text.into(), vec![Part::text(text)]))
    }

    fn call(id: &str) -> Item {
        let call = AnswerPart::Call { id: id.into(), name: "read".into(), input: "{}".into(), extra: None };
        Item::Assistant(ModelAnswer::new(vec![call], Finish::ToolCalls))
    }

    fn result(id: &str) -> Item {
        let result = serde_json::json!({ "call": id, "name": "read", "content": "text" });
        Item::Result(serde_json::from_value(result).expect("a stored result"))
    }

    /// What is recorded of a changed conversation gives that conversation again.
    #[test]
    fn a_difference_gives_the_conversation_that_it_was_made_of() {
        let old: History = ["a", "b", "c", "d"].map(user).into_iter().collect();
        for (names, pieces) in [
            (vec!["a", "b", "c", "d"], None),
            (vec!["a", "d"], Some(2)),
            (vec!["x", "a", "b", "c", "d"], Some(2)),
            (vec!["a", "x", "c", "d", "y"], Some(4)),
            (vec!["d", "a", "b"], Some(2)),
            (vec![], Some(0)),
        ] {
            let new: History = names.iter().map(|name| user(name)).collect();
            let shown = difference(&old, &new);
            assert_eq!(shown.as_ref().map(Vec::len), pieces, "{names:?}");
            let prepared = Prepared { shown, ..Prepared::default() };
            assert_eq!(prepared.history(&old), new, "{names:?}");
        }
    }

    #[test]
    fn a_call_is_not_parted_from_its_result() {
        for (items, is_fine) in [
            (vec![user("a"), call("1"), result("1"), user("b")], true),
            (vec![user("a"), user("b")], true),
            (vec![user("a"), call("1"), user("b")], false),
            (vec![user("a"), call("1")], false),
            (vec![user("a"), result("1")], false),
            (vec![call("1"), result("1"), result("1")], false),
        ] {
            assert_eq!(pairs(&items.iter().cloned().collect()).is_ok(), is_fine, "{items:?}");
        }
    }
}
