//! What hooks made of a request before it was sent ([`Prepared`]), and of a call before it ran ([`Gated`]), as the tape and the state
//! have it. What follows from it is in `turn/prepare.rs`.
//!
//! All of it is a stored format: a change adds fields with serde defaults, and renames none.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    model::{History, Item, UserItem},
    tool::CallFacts,
    words::{
        ids::{MessageId, Millis, Seq},
        message::{Message, MessageTime, Part},
    },
};

/// What hooks made of a model request before it was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prepared {
    /// What was added at the start of the turn; `None` if no hook sees that, or for a later request of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<TurnAdded>,
    /// The conversation as this request shows it; `None` as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shown: Option<Vec<Shown>>,
    /// Texts behind the conversation, in this request only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reminders: Vec<String>,
    /// Hash of all that determines the bytes of the request.
    #[serde(default)]
    pub(crate) hash: String,
}

/// What hooks added at the start of a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnAdded {
    /// Text behind the system prompt, for this turn; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) system: String,
    /// Texts said into the conversation; they stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) messages: Vec<String>,
}

/// A piece of the conversation as a request shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shown {
    /// So many items of the conversation as they are, from this place on.
    Kept(usize, usize),
    /// An item in place of others, or beside them.
    New(Box<Item>),
}

/// What a hook made of a call before it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Gated {
    /// The hook that said so.
    pub hook: String,
    /// The arguments in place of the call's own; `None` if they stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Arc<str>>,
    /// What the tool says of the call with these arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) facts: Option<CallFacts>,
    /// Why a person must be asked; `None` if the rules alone say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    /// The hooks that have seen the call, in their order, this one included.
    pub(crate) passed: Vec<String>,
}

/// What hooks said of an open call so far. Part of the stored form of a state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallGate {
    /// The hooks that have seen the call, in their order.
    pub(crate) passed: Vec<String>,
    /// What a person must be asked about: each hook with its reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) asks: Vec<String>,
    /// The try of the call that began, and was held up: it is not counted again.
    pub(crate) attempt: u32,
}

impl CallGate {
    /// The permission that a call needs about which a hook asks.
    pub(in crate::kernel) const PERMISSION: &str = "hook";
}

/// The prepared request of a turn, kept for a try again. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PreparedFor {
    /// Hash of the conversation that the hooks saw.
    pub(crate) history: String,
    /// The answer.
    pub(crate) prepared: Arc<Prepared>,
}

impl Prepared {
    /// The size of what was added, in bytes, about.
    pub(crate) fn bytes(&self) -> usize {
        let said = |turn: &TurnAdded| turn.system.len() + turn.messages.iter().map(String::len).sum::<usize>();
        let turn = self.turn.as_ref().map_or(0, said);
        let items = self.shown.iter().flatten().map(|piece| match piece {
            Shown::New(item) => serde_json::to_string(item).map_or(usize::MAX, |text| text.len()),
            Shown::Kept(..) => 0,
        });
        turn + items.sum::<usize>() + self.reminders.iter().map(String::len).sum::<usize>()
    }

    /// How many texts were said at the start of the turn, how many items are new in this request, and how many reminders.
    pub(crate) fn added(&self) -> [usize; 3] {
        let messages = self.turn.as_ref().map_or(0, |turn| turn.messages.len());
        let items = self.shown.iter().flatten().filter(|piece| matches!(piece, Shown::New(_))).count();
        [messages, items, self.reminders.len()]
    }

    pub(crate) fn adds_to_system(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| !turn.system.is_empty())
    }

    /// Whether the request shows the conversation otherwise than it is.
    pub(crate) fn shows_otherwise(&self) -> bool {
        self.shown.is_some()
    }

    /// The conversation as the request shows it.
    pub(crate) fn history(&self, history: &History) -> History {
        let Some(shown) = &self.shown else { return history.clone() };
        let mut seen = History::default();
        for piece in shown {
            match piece {
                Shown::Kept(from, count) => {
                    history.iter().skip(*from).take(*count).for_each(|item| seen.push_shared(item.clone()));
                }
                Shown::New(item) => seen.push((**item).clone()),
            }
        }
        seen
    }
}

impl Prepared {
    /// The message with what was said at the start of the turn.
    pub(in crate::kernel) fn said(&self, seq: Seq, time: Millis) -> Option<Message> {
        let Some(Item::User(item)) = self.turn.as_ref().and_then(|turn| turn.item(seq)) else { return None };
        let mut message = Message::user("").with_id(item.id);
        message.parts = item.parts;
        message.time = MessageTime { created: time, completed: Some(time) };
        Some(message)
    }
}

impl TurnAdded {
    pub(in crate::kernel) fn item(&self, seq: Seq) -> Option<Item> {
        let parts: Vec<_> = self.messages.iter().map(|text| Part::text(text.as_str())).collect();
        let id = MessageId::of_hooks(seq);
        (!parts.is_empty()).then(|| Item::User(UserItem { id, parts, fragment: Default::default() }))
    }
}
