//! How entries about a turn, its requests and their answers change the state.
//!
//! A turn begins with its first delivery. When it ends, none of its own tickets is left open; tasks (with their questions) and
//! summaries belong to the session and stay. A waiting message leaves the lists `queue` and `steering` only when it is delivered or
//! withdrawn; a fork and an import begin with empty lists (`fork.rs`). A message may move from one list to the other: at the
//! beginning and at the end of a turn.
//!
//! As in all of `apply.rs`, this code writes no entry and never fails. It sets only what follows from the entry and the state, such
//! as what the turn does next. A change must fold existing tapes to the same state as before.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    kernel::{
        Charge, Delivery, Entry, Open, OpenRequest, Outcome, RequestOpened, State, Turn, TurnEnd, Waiting,
        context::{Fullness, of_item},
        state::{Next, TURNS_REMEMBERED},
        turn::advance,
    },
    model::{AnswerPart, Item, ModelAnswer, UserItem},
    words::ids::{MessageId, Seq},
};

impl State {
    pub(super) fn deliver(&mut self, entry: &Entry, ids: &[MessageId]) {
        let begins = self.turn.is_none();
        if begins {
            self.turn = Some(Arc::new(Turn {
                id: entry.seq,
                started: entry.time,
                limits: self.settings.budget.turn,
                ..Turn::default()
            }));
        }
        let turn_id = self.turn.as_ref().map(|turn| turn.id);
        for id in ids {
            let place = |list: &VecDeque<Waiting>| list.iter().position(|waiting| waiting.message.id == *id);
            let taken = match place(&self.steering) {
                Some(at) => self.steering.remove(at),
                None => place(&self.queue).and_then(|at| self.queue.remove(at)),
            };
            let Some(waiting) = taken else { continue };
            self.seen.delivered(id, turn_id);
            self.in_turn(|turn| {
                if turn.messages.is_empty() {
                    turn.trace.clone_from(&waiting.message.trace);
                }
                turn.messages.push(id.clone());
                turn.next = Next::Step;
                turn.forget_calls();
                if waiting.message.model.is_some() {
                    turn.model.clone_from(&waiting.message.model);
                    turn.fallen = None;
                }
                turn.tools.extend(waiting.message.tools.clone());
                if waiting.agent.is_some() {
                    turn.agent.clone_from(&waiting.agent);
                }
            });
            let parts = waiting.message.parts.clone();
            self.push(Item::User(UserItem { id: id.clone(), parts, fragment: Default::default() }));
            if waiting.message.pinned {
                self.pin(id);
            }
        }
        if begins {
            // Steering messages that came too late for the previous turn steer this one, before any new ones.
            while self.queue.front().is_some_and(|waiting| matches!(waiting.delivery, Delivery::Steer(_))) {
                self.steering.extend(self.queue.pop_front());
            }
        }
    }

    pub(super) fn open_request(&mut self, entry: &Entry, request: &RequestOpened) {
        // What was committed and is not read by this request is read by another.
        self.move_ahead(&[]);
        // The wait before a retry ends when its request is made.
        self.open.retain(|open| !matches!(open, Open::Wait(_)));
        let prepared = self.prepared_before(request.attempt);
        let opened = OpenRequest {
            model: request.model.clone(),
            attempt: request.attempt,
            fallback: request.fallback.clone(),
            instead: request.instead.is_some(),
            last: request.last,
            closing: false,
            estimated: request.estimated,
            price: request.price,
            reserved: request.reserved,
            hash: request.hash.clone(),
            system: self.system(),
            params: request.params(&self.settings.params),
            tools: self.settings.allowed_tools(),
            masked: request.masked.clone(),
            misfit: self.turn.as_ref().and_then(|turn| turn.misfit.clone()),
            prefix: Some(self.prefix_of(request, prepared.as_deref(), entry.time).into()),
            prepared,
        };
        Arc::make_mut(&mut self.context).fullness = Fullness { used: request.used, usable: request.usable };
        self.open.insert(entry.seq, Open::Request(opened));
        let first_try = request.attempt == 1;
        self.in_turn(|turn| {
            turn.step = turn.step.saturating_add(u32::from(first_try));
            turn.batch.clear();
        });
    }

    pub(super) fn take_answer(
        &mut self,
        seq: Seq,
        ticket: Seq,
        answer: &Arc<ModelAnswer>,
        interrupted: bool,
        charge: Charge,
    ) {
        let Some(Open::Request(mut request)) = self.open.remove(&ticket) else { return };
        let miss = self.cache_miss(&request, &answer.usage).filter(|_| !interrupted);
        let prefix = request.prefix.take();
        let OpenRequest { last, estimated, params, .. } = request;
        if !interrupted {
            self.note_sent(prefix, &answer.usage);
            self.recoveries = 0;
        }
        self.move_ahead(&answer.steered);
        let mut usage = answer.usage;
        answer.dropped.iter().filter(|dropped| !dropped.estimated).for_each(|dropped| usage += dropped.usage);
        self.usage += usage;
        let text = answer.text();
        let steps = self.turn.as_ref().map_or(0, |turn| turn.step);
        // Whether the model was still working with tools: if so, the step limit is the outcome of the turn. Results before the
        // first answer of a turn belong to an earlier turn.
        let said = self.history.iter().rev().find(|item| !matches!(item.as_ref(), Item::User(_)));
        let at_work = steps > 1 && said.is_some_and(|item| matches!(item.as_ref(), Item::Result(_)));
        let next = match interrupted {
            true => Next::Step,
            false => advance::after_answer(answer, last.then_some(steps), at_work),
        };
        let asked_again = self.turn.as_ref().is_some_and(|turn| turn.misfit.is_some());
        let (next, misfit) = match &params.answer_schema {
            Some(schema) if next == Next::End(Outcome::Done) => match schema.read(&text) {
                Ok(_) => (next, None),
                Err(error) if last || asked_again => (Next::End(Outcome::BadAnswer { error }), None),
                Err(why) => (Next::Step, Some(why.into())),
            },
            _ => (next, self.turn.as_ref().and_then(|turn| turn.misfit.clone())),
        };
        self.in_turn(|turn| {
            turn.retries = 0;
            turn.tried = 0;
            turn.renewed_for = None;
            turn.prepared = None;
            turn.overflowed = false;
            turn.overflows = 0;
            turn.refused.clear();
            turn.answer = Some(seq);
            turn.usage += usage;
            turn.answered = Some((answer.finish, charge));
            turn.cache_miss = miss;
            turn.next = next;
            turn.misfit = misfit;
            if !text.is_empty() {
                turn.text = text.into();
            }
        });
        // Providers would refuse an empty answer when it is sent back.
        if answer.parts.iter().any(|part| !matches!(part, AnswerPart::Text { text, .. } if text.is_empty())) {
            self.push(Item::Assistant(ModelAnswer { steered: Vec::new(), dropped: Vec::new(), ..(**answer).clone() }));
        }
        if !interrupted {
            let said = self.history.last().map_or(0, |item| of_item(item));
            Arc::make_mut(&mut self.context).meter.learn(estimated.saturating_add(said), &answer.usage);
        }
        self.put_compacted_in_place();
    }

    pub(super) fn finish_turn(&mut self, outcome: &Outcome) {
        self.stop_clock(self.time);
        let Some(turn) = self.turn.take() else { return };
        // Only waits of the turn can still be open, and a wait without a turn means nothing. Tasks and summaries belong to the
        // session.
        let stays =
            |open: &Open| matches!(open, Open::Task(_) | Open::TaskAsk(_) | Open::Compaction(_) | Open::Branch(_));
        self.open.retain(|open| stays(open));
        self.task_turn_ended(&turn, outcome);
        self.move_ahead(&[]);
        // Steering messages that came too late for this turn go first into the next.
        while let Some(waiting) = self.steering.pop_back() {
            self.queue.push_front(waiting);
        }
        use Outcome::{Aborted, Budget, DoomLoop, Failed, RecoveryLimit, Rejected};
        let holds = matches!(
            outcome,
            Aborted { .. } | Budget { .. } | DoomLoop { .. } | Failed { .. } | RecoveryLimit { .. } | Rejected { .. }
        );
        self.on_hold = holds && !turn.released && !self.queue.is_empty();
        Arc::make_mut(&mut self.grants).retain(|granted| granted.turn.is_none());
        self.turns = self.turns.saturating_add(1);
        self.recoveries = 0;
        self.waits = false;
        self.remember_end(&turn, outcome.clone());
    }

    /// Remembers how a turn ended, for callers that wait for its messages. The oldest end is forgotten.
    pub(super) fn remember_end(&mut self, turn: &Turn, outcome: Outcome) {
        self.ended.push_back(Arc::new(TurnEnd {
            turn: turn.id,
            outcome,
            text: turn.text.clone(),
            messages: turn.messages.clone(),
            steps: turn.step,
            usage: turn.usage,
            spent: turn.spent,
            spent_by_tasks: turn.spent_by_tasks,
        }));
        if self.ended.len() > TURNS_REMEMBERED {
            self.ended.pop_front();
        }
    }
}
