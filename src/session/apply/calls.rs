//! What the entries about calls, and about asks for them, do to the state.

use std::sync::Arc;

use crate::{
    ids::Seq,
    message::ErrorReason,
    model::{Answer, AnswerPart, Item, ToolResultItem},
    session::{
        AskClosedWhy, CallOpened, CallState, Grant, Granted, Judged, Open, OpenCall, Scope, Spent, State,
        state::BatchItem,
    },
    tool::ToolResult,
};

impl State {
    pub(super) fn open_call(&mut self, ticket: Seq, call: &CallOpened) {
        let input = self.history.last().and_then(|item| match item.as_ref() {
            Item::Assistant(answer) => call_input(answer, call.index),
            _ => None,
        });
        let opened = OpenCall {
            id: call.id.clone(),
            facts: call.facts.clone(),
            input: input.unwrap_or_default().into(),
            state: CallState::Pending,
            granted: false,
            attempts: 0,
            bytes: None,
        };
        self.open.insert(ticket, Open::Call(opened));
        self.in_turn(|turn| turn.batch.push(BatchItem { ticket, result: None }));
    }

    pub(super) fn set_call(&mut self, ticket: Seq, state: CallState) {
        if let Some(Open::Call(call)) = self.open.get_mut(&ticket) {
            call.state = state;
        }
    }

    pub(super) fn allow_call(&mut self, ticket: Seq) {
        self.set_call(ticket, CallState::Allowed);
        if let Some(Open::Call(call)) = self.open.get_mut(&ticket) {
            call.granted = true;
        }
    }

    pub(super) fn grant(&mut self, ticket: Seq, grant: &Grant) {
        let ask = match self.open.remove(&ticket) {
            Some(Open::Ask(ask)) => ask,
            Some(Open::BudgetAsk(ask)) => return self.grant_more(&ask.breach, grant),
            _ => return,
        };
        match grant {
            Grant::Once => self.allow_call(ask.call),
            Grant::Always(scope) => {
                let turn = match scope {
                    Scope::Turn => self.turn.as_ref().map(|turn| turn.id),
                    Scope::Session => None,
                };
                let granted = ask.access.iter().map(|access| Granted { access: access.clone(), turn });
                Arc::make_mut(&mut self.grants).extend(granted);
                self.allow_call(ask.call);
            }
            // The result of the call follows in the same decision.
            Grant::Reject(_) | Grant::Raise(_) => self.set_call(ask.call, CallState::Pending),
        }
    }

    pub(super) fn close_ask(&mut self, ticket: Seq, _why: AskClosedWhy) {
        if let Some(Open::Ask(ask)) = self.open.remove(&ticket) {
            self.set_call(ask.call, CallState::Pending);
        }
    }

    pub(super) fn take_result(&mut self, ticket: Seq, result: &Arc<ToolResult>, judged: Judged) {
        let Some(Open::Call(call)) = self.open.remove(&ticket) else { return };
        if call.attempts > 0 {
            // Our own words about a call, where they are longer than what was held back for it, are not the call's.
            let bytes = result.bytes().min(call.bytes.unwrap_or(u64::MAX));
            self.count(Spent { bytes, ..Spent::default() });
        }
        // What recovery itself answers is no progress: of a call that ran before, only what it brought is.
        let is_ours = call.attempts > 0 && judged != Judged::Allowed;
        if result.error != Some(ErrorReason::Unknown) && !is_ours {
            self.recoveries = 0;
        }
        let item = ToolResultItem {
            call: call.id,
            name: call.facts.tool,
            content: result.content.clone(),
            is_error: result.is_error(),
            attachments: result.attachments.clone(),
            time: self.time,
            seq: ticket,
            fragment: Default::default(),
        };
        self.in_turn(|turn| {
            if let Some(slot) = turn.batch.iter_mut().find(|slot| slot.ticket == ticket) {
                slot.result = Some(item);
            }
        });
        // Recorded as they come, rendered in call order: the batch enters the history when it is whole.
        let whole = self.turn.as_ref().is_some_and(|turn| turn.batch.iter().all(|slot| slot.result.is_some()));
        if whole && self.calls().next().is_none() {
            let mut batch = Vec::new();
            self.in_turn(|turn| batch = std::mem::take(&mut turn.batch));
            for result in batch.into_iter().filter_map(|slot| slot.result) {
                self.push(Item::Result(result));
            }
        }
    }
}

/// The arguments of the call at that position among the calls of an answer.
fn call_input(answer: &Answer, index: u32) -> Option<String> {
    let calls = answer.parts.iter().filter_map(|part| match part {
        AnswerPart::Call { input, .. } => Some(input),
        _ => None,
    });
    calls.into_iter().nth(index as usize).cloned()
}
