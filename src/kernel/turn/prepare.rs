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

use crate::{
    kernel::{
        CallState, Gated, Open, OpenRequest, Prepared, PreparedFor, Record, Resource, Shown, State,
        context::{cached::shown, of_item, of_text},
        draft::Draft,
        state::short_hash,
        turn::{batch, retry},
    },
    model::{ErrorKind, History, ModelError},
    tool::ToolResult,
    words::{ids::Seq, message::ErrorReason},
};

/// The estimated tokens that the request has more than without hooks. `history` is the conversation before.
fn more(prepared: &Prepared, history: &History) -> u64 {
    let turn = prepared
        .turn
        .as_ref()
        .map_or(0, |turn| turn.item(Seq::ZERO).map_or(0, |item| of_item(&item)).saturating_add(of_text(&turn.system)));
    let (mut new, mut kept) = (prepared.reminders.iter().map(|text| of_text(text)).sum(), Vec::new());
    new = turn.saturating_add(new);
    for piece in prepared.shown.iter().flatten() {
        match piece {
            Shown::Kept(from, count) => kept.push(*from..from.saturating_add(*count)),
            Shown::New(item) => new = new.saturating_add(of_item(item)),
        }
    }
    let is_kept = |at: &usize| kept.iter().any(|kept| kept.contains(at));
    let out = history.iter().enumerate().filter(|(at, _)| prepared.shown.is_some() && !is_kept(at));
    new.saturating_sub(out.map(|(_, item)| of_item(item)).sum())
}

/// Takes what hooks made of a request. Where it is more than a budget has left, the request fails and is not sent.
pub(in crate::kernel) fn prepared(draft: &mut Draft<'_>, ticket: Seq, prepared: &Prepared) {
    let Some(Open::Request(request)) = draft.state.open.get(&ticket) else { return };
    if request.closing {
        return retry::cut_off(draft, ticket, &[], 0);
    }
    let more = more(prepared, &draft.state.history);
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
        let more = more(prepared, &self.history);
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
        if let Some(prefix) = &mut self.prefix {
            let prefix = Arc::make_mut(prefix);
            (prefix.system, prefix.shown) = (short_hash(self.system.as_bytes()), shown(prepared));
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
