//! What the entries about calls and their asks do to the state: a call is opened, granted, and over.
//!
//! A change must keep that the results of an answer enter the history together, in the order of its calls.

use std::sync::Arc;

use crate::{
    kernel::{
        AskAnswer, CallOpened, CallState, CallVerdict, Grant, Open, OpenCall, Spent, State,
        state::BatchItem,
        turn::{question, repeats},
    },
    model::{Item, ToolResultItem},
    tool::{ToolResult, search, todo},
    words::{ids::Seq, message::ErrorReason},
};

impl State {
    pub(super) fn open_call(&mut self, ticket: Seq, call: &CallOpened) {
        let input = self.history.last().and_then(|item| match item.as_ref() {
            Item::Assistant(answer) => answer.calls().nth(call.index as usize).map(|(_, input)| input.into()),
            _ => None,
        });
        let (mut cycle, mut told) = (None, false);
        self.in_turn(|turn| {
            cycle = turn.take_call(&call.facts);
            told = turn.loop_refused;
        });
        let opened = OpenCall {
            id: call.id.clone(),
            facts: call.facts.clone(),
            input: input.unwrap_or_default(),
            state: CallState::Pending,
            granted: false,
            cycle,
            told,
            attempts: 0,
            bytes: None,
            confined: false,
            answers: Vec::new(),
            gate: None,
        };
        self.put_open(ticket, Open::Call(opened));
        self.in_turn(|turn| turn.batch.push(BatchItem { ticket, result: None }));
    }

    /// Takes back what people allowed of calls that are not over: the session works in another folder from here on, so the same paths
    /// are other files.
    pub(super) fn forget_approvals(&mut self) {
        let approved =
            |open: &Open| matches!(open, Open::Call(call) if call.granted || call.state == CallState::Allowed);
        self.open.change(usize::MAX, approved, |open| {
            if let Open::Call(call) = open {
                call.granted = false;
                if call.state == CallState::Allowed {
                    call.state = CallState::Pending;
                }
            }
        });
    }

    pub(in crate::kernel) fn in_call(&mut self, ticket: Seq, change: impl FnOnce(&mut OpenCall)) {
        if let Some(Open::Call(call)) = self.open.get_mut(&ticket) {
            change(call);
        }
    }

    pub(super) fn grant(&mut self, ticket: Seq, answer: &AskAnswer) {
        let grant = &answer.grant;
        let ask = match self.open.remove(&ticket) {
            Some(Open::Ask(ask)) => ask,
            Some(Open::BudgetAsk(ask)) => return self.grant_more(&ask.breach, grant),
            _ => return,
        };
        self.stand(answer);
        if ask.question.is_some() {
            return self.note_answer(ticket, &ask, question::answer_of(grant));
        }
        self.in_call(ask.call, |call| match grant {
            Grant::Once | Grant::Always(_) | Grant::Offered { .. } => {
                (call.state, call.granted) = (CallState::Allowed, true)
            }
            // The result of the call follows in the same decision.
            Grant::Reject(_) | Grant::Raise(_) | Grant::Unheard => call.state = CallState::Pending,
        });
    }

    pub(super) fn take_result(&mut self, ticket: Seq, result: &Arc<ToolResult>, judged: CallVerdict) {
        let Some(Open::Call(call)) = self.open.remove(&ticket) else { return };
        self.close_questions(ticket);
        if let Some(todos) = todo::of_result(&call.facts.tool, result) {
            Arc::make_mut(&mut self.context).todos = todos.into();
        }
        if let Some(found) = search::of_result(&call.facts.tool, result, &self.context.found) {
            Arc::make_mut(&mut self.context).found = found.into();
        }
        if call.attempts > 0 {
            // Where the runtime's own words about a call are longer than the bytes reserved for it, the excess is not counted.
            let bytes = result.bytes().min(call.bytes.unwrap_or(u64::MAX));
            self.count(Spent { bytes, ..Spent::default() });
        }
        // An answer that recovery gives by itself is no progress. For a call that ran before, only the call's own result is
        // progress.
        let is_ours = call.attempts > 0 && judged != CallVerdict::Allowed;
        if result.error != Some(ErrorReason::Unknown) && !is_ours {
            self.recoveries = 0;
        }
        let repeats = call.cycle.is_some();
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
            turn.loop_refused |= repeats && repeats::is_refusal(judged);
            if let Some(slot) = turn.batch.iter_mut().find(|slot| slot.ticket == ticket) {
                slot.result = Some(Arc::new(item));
            }
        });
        // Results are recorded as they come and rendered in call order: the batch enters the history when all its results are
        // there.
        let whole = self.turn.as_ref().is_some_and(|turn| turn.batch.iter().all(|slot| slot.result.is_some()));
        if whole && self.calls().next().is_none() {
            let mut batch = Vec::new();
            self.in_turn(|turn| batch = std::mem::take(&mut turn.batch));
            for result in batch.into_iter().filter_map(|slot| slot.result) {
                self.push(Item::Result(Arc::unwrap_or_clone(result)));
            }
        }
    }
}
