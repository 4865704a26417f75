//! What hooks made of a request before it was sent ([`Prepared`]), and of a call before it ran ([`Gated`]): how they are recorded,
//! and what follows from them.
//!
//! ```text
//! request opened ──no hook sees it──► sent
//!                └─a hook sees it──► hooks ─report─► `prepared` ──► sent            (the same ticket, a second worker)
//! call started ──hooks pass──► runs
//!              └─one rewrites or asks─report─► `call_gated` ──► pending ──► judged ──► started ──► the hooks behind it
//! ```
//!
//! Both are recorded before anything follows from them. So a request that was cut off by a crash is sent again byte for byte, and a
//! replay asks no hook. Whether a hook sees a request is the shell's to know, and no decision depends on it: the report alone does.
//!
//! A change must keep three rules. A request that was prepared is not prepared again, nor is its retry over the same conversation.
//! A call that a hook rewrote has none of the consent that was given to the call before: neither a person's nor the rules'. And a
//! hook is asked about a call once, so that two hooks cannot send a call back and forth.
//!
//! Rejected: to have hooks see a request in the worker that sends it, and to record what they made of it with the answer. After a
//! crash they would be asked again, and the second request could be another one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        CallState, Entry, Open, OpenRequest, Record, Resource, State,
        context::{bytes_of, of_item, of_text},
        draft::Draft,
        state::short_hash,
        turn::{batch, retry},
    },
    model::{ErrorKind, History, Item, ModelError, UserItem},
    tool::{CallFacts, ToolResult},
    words::{
        ids::{MessageId, Seq},
        message::{ErrorReason, Message, MessageTime, Part},
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
    /// The estimated tokens that the request has more than without hooks. `history` is the conversation before.
    fn more(&self, history: &History) -> u64 {
        let turn = self.turn.as_ref().map_or(0, |turn| {
            turn.item(Seq::ZERO).map_or(0, |item| of_item(&item)).saturating_add(of_text(&turn.system))
        });
        let (mut new, mut kept) = (self.reminders.iter().map(|text| of_text(text)).sum(), Vec::new());
        new = turn.saturating_add(new);
        for piece in self.shown.iter().flatten() {
            match piece {
                Shown::Kept(from, count) => kept.push(*from..from.saturating_add(*count)),
                Shown::New(item) => new = new.saturating_add(of_item(item)),
            }
        }
        let is_kept = |at: &usize| kept.iter().any(|kept| kept.contains(at));
        let out = history.iter().enumerate().filter(|(at, _)| self.shown.is_some() && !is_kept(at));
        new.saturating_sub(out.map(|(_, item)| of_item(item)).sum())
    }

    /// The size of what was added, in bytes, about.
    pub(crate) fn bytes(&self) -> usize {
        let said = |turn: &TurnAdded| turn.system.len() + turn.messages.iter().map(String::len).sum::<usize>();
        let turn = self.turn.as_ref().map_or(0, said);
        let items = self.shown.iter().flatten().map(|piece| match piece {
            Shown::New(item) => usize::try_from(bytes_of(item)).unwrap_or(usize::MAX),
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
    pub(in crate::kernel) fn said(&self, entry: &Entry) -> Option<Message> {
        let Some(Item::User(item)) = self.turn.as_ref().and_then(|turn| turn.item(entry.seq)) else { return None };
        let mut message = Message::user("").with_id(item.id);
        message.parts = item.parts;
        message.time = MessageTime { created: entry.time, completed: Some(entry.time) };
        Some(message)
    }
}

impl TurnAdded {
    fn item(&self, seq: Seq) -> Option<Item> {
        let parts: Vec<_> = self.messages.iter().map(|text| Part::text(text.as_str())).collect();
        let id = MessageId::of_hooks(seq);
        (!parts.is_empty()).then(|| Item::User(UserItem { id, parts, fragment: Default::default() }))
    }
}

/// Takes what hooks made of a request. Where it is more than a budget has left, the request fails and is not sent.
pub(in crate::kernel) fn prepared(draft: &mut Draft<'_>, ticket: Seq, prepared: &Prepared) {
    let Some(Open::Request(request)) = draft.state.open.get(&ticket) else { return };
    if request.closing {
        return retry::cut_off(draft, ticket, &[], 0);
    }
    let more = prepared.more(&draft.state.history);
    let price = request.price.and_then(|price| price.most(more, 0)).unwrap_or_default();
    let breach = |resource, needs| if needs > 0 { draft.state.breach(resource, needs) } else { None };
    if let Some(breach) = breach(Resource::Tokens, more).or_else(|| breach(Resource::Usd, price.0)) {
        let text = format!(
            "the hooks added about {more} tokens to the request, and {breach}: raise the limit, or have them add less"
        );
        return retry::failed(draft, ticket, &ModelError::new(ErrorKind::InvalidRequest, text));
    }
    let body = serde_json::to_string(&(&request.hash, &prepared.turn, &prepared.shown, &prepared.reminders));
    let hash = short_hash(body.unwrap_or_default().as_bytes());
    draft.write(Some(ticket), Record::Prepared(Arc::new(Prepared { hash, ..prepared.clone() })));
}

/// Takes what a hook made of a call: the call waits to be judged again.
pub(in crate::kernel) fn gated(draft: &mut Draft<'_>, ticket: Seq, gated: &Gated) {
    match draft.state.call(ticket).map(|call| call.state) {
        Some(CallState::Running) => {
            draft.write(Some(ticket), Record::CallGated(Arc::new(gated.clone())));
        }
        // Only hooks have seen it.
        Some(CallState::Closing) => {
            let result = ToolResult::failed(ErrorReason::Aborted, "Stopped before it ran.");
            batch::returned(draft, ticket, &result);
        }
        _ => {}
    }
}

impl State {
    /// The system prompt of the next request: that of the settings, and what hooks added to it for the turn.
    pub(crate) fn system(&self) -> Arc<str> {
        let added = self.turn.as_ref().map_or("", |turn| &*turn.system);
        with_added(&self.settings.system, added)
    }

    pub(in crate::kernel) fn take_prepared(&mut self, seq: Seq, ticket: Seq, prepared: &Arc<Prepared>) {
        let more = prepared.more(&self.history);
        if let Some(turn) = &prepared.turn {
            if let Some(item) = turn.item(seq) {
                self.push_shared(Arc::new(item));
            }
            self.in_turn(|now| (now.opened, now.system) = (true, turn.system.as_str().into()));
        }
        let history = self.history_hash.clone();
        self.in_turn(|now| now.prepared = Some(PreparedFor { history, prepared: prepared.clone() }));
        Arc::make_mut(&mut self.context).fullness.used += more;
        if let Some(Open::Request(request)) = self.open.get_mut(&ticket) {
            request.take_prepared(prepared, more);
        }
    }

    /// What hooks made of the request that is opened now, where it is a try again over the same conversation.
    pub(in crate::kernel) fn prepared_before(&self, attempt: u32) -> Option<Arc<Prepared>> {
        let before = self.turn.as_ref()?.prepared.as_ref()?;
        (attempt > 1 && before.history == self.history_hash).then(|| before.prepared.clone())
    }

    pub(in crate::kernel) fn take_gated(&mut self, ticket: Seq, gated: &Gated) {
        self.in_call(ticket, |call| {
            let mut gate = call.gate.take().map(Arc::unwrap_or_clone).unwrap_or_default();
            gate.passed.clone_from(&gated.passed);
            gate.attempt = call.attempts;
            gate.asks.extend(gated.ask.as_ref().map(|reason| format!("{}: {reason}", gated.hook)));
            call.gate = Some(Arc::new(gate));
            if let (Some(input), Some(facts)) = (&gated.input, &gated.facts) {
                (call.input, call.facts) = (input.clone(), facts.clone());
            }
            // It has not run: what was consented to is another call, or was not asked about yet.
            (call.state, call.granted, call.confined) = (CallState::Pending, false, false);
            call.attempts = call.attempts.saturating_sub(1);
        });
    }
}

impl OpenRequest {
    fn take_prepared(&mut self, prepared: &Arc<Prepared>, more: u64) {
        if let Some(turn) = &prepared.turn {
            self.system = with_added(&self.system, &turn.system);
        }
        self.estimated = self.estimated.saturating_add(more);
        self.prepared = Some(prepared.clone());
    }
}

fn with_added(system: &Arc<str>, added: &str) -> Arc<str> {
    match (system.is_empty(), added.is_empty()) {
        (_, true) => system.clone(),
        (true, false) => added.into(),
        (false, false) => format!("{system}\n\n{added}").into(),
    }
}
