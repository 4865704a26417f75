//! What each entry does to the state. The only mutator: live and in recovery the same code runs.
//!
//! It never decides and never fails. An entry that speaks of a ticket that is not open changes nothing but the position: the
//! tape is the truth, and what it leaves out did not happen.

use std::{borrow::Borrow, sync::Arc};

use crate::{
    context::{Fullness, of_item},
    ids::{MessageId, Seq},
    model::{Answer, AnswerPart, ErrorKind, Item, UserItem},
    session::{
        CallState, Charge, Delivery, Disposition, Entry, Mode, Open, OpenAsk, OpenBudgetAsk, OpenRequest, OpenTask,
        OpenWait, Outcome, Record, RequestOpened, Seen, Spent, State, Told, Turn, TurnEnd, Waiting,
        spent::in_vain,
        state::{Next, SEEN_MAX, TURNS_REMEMBERED},
    },
    usage::Usage,
};

mod calls;
mod compaction;
mod fork;
mod spending;
mod tasks;

impl State {
    /// The state that these entries make. They begin with a state, as a tape and every anchor do; `None` where they do not.
    #[must_use]
    pub fn fold(entries: impl IntoIterator<Item = impl Borrow<Entry>>) -> Option<State> {
        let mut entries = entries.into_iter();
        let first = entries.next()?;
        let Record::State(state) = &first.borrow().record else { return None };
        let mut state = (**state).clone();
        state.apply(first.borrow());
        Some(state.after(entries))
    }

    /// The state with these entries behind it.
    #[must_use]
    pub fn after(mut self, entries: impl IntoIterator<Item = impl Borrow<Entry>>) -> State {
        entries.into_iter().for_each(|entry| self.apply(entry.borrow()));
        self
    }

    /// Puts one entry into the state.
    pub fn apply(&mut self, entry: &Entry) {
        if let Record::State(state) = &entry.record {
            *self = (**state).clone();
        }
        let before = std::mem::replace(&mut self.time, entry.time);
        self.seq = entry.seq;
        let ticket = entry.ticket.unwrap_or(entry.seq);
        match &entry.record {
            Record::State(_) => {}
            Record::Settings(settings) => self.settings = Arc::new((**settings).clone()),
            Record::Accepted { message, delivery } => {
                let waiting = Waiting { seq: entry.seq, message: message.clone(), delivery: *delivery };
                self.accept(waiting);
            }
            Record::Edited { message } => {
                let all = self.queue.iter_mut().chain(self.steering.iter_mut());
                all.filter(|waiting| waiting.message.id == message.id)
                    .for_each(|waiting| waiting.message = message.clone());
            }
            Record::Withdrawn { id } => {
                self.queue.retain(|waiting| waiting.message.id != *id);
                self.steering.retain(|waiting| waiting.message.id != *id);
                if self.is_task(std::slice::from_ref(id)) {
                    self.task_withdrawn();
                }
            }
            Record::Delivered { ids } => self.deliver(entry, ids),
            Record::Request(request) => self.open_request(entry, request),
            Record::Answer { answer, interrupted, estimated } => {
                self.take_answer(entry.seq, ticket, answer, *interrupted, estimated.as_ref());
            }
            Record::RequestFailed { error, estimated } => {
                if let Some(Open::Request(request)) = self.open.remove(&ticket) {
                    self.charge(Charge::of(request.price.as_ref(), &Usage::default(), estimated.as_ref()));
                }
                if error.kind == ErrorKind::ContextOverflow {
                    self.in_turn(|turn| {
                        turn.overflowed = true;
                        turn.overflowed_before = true;
                    });
                }
                self.put_compacted_in_place();
            }
            Record::Pruned { results } => self.prune_results(results),
            Record::Compaction(compaction) => {
                self.open.insert(entry.seq, Open::Compaction(compaction.clone()));
            }
            Record::Compacted(compacted) => {
                if let Some(Open::Compaction(open)) = self.open.remove(&ticket) {
                    self.spend_all(in_vain(compacted.lost, open.reserved, open.price));
                    self.spend(compacted.charge(open.price.as_ref()));
                }
                self.take_compacted(ticket, compacted);
            }
            Record::CompactionFailed { usage, estimated, lost, .. } => {
                if let Some(Open::Compaction(open)) = self.open.remove(&ticket) {
                    self.spend_all(in_vain(*lost, open.reserved, open.price));
                    self.spend(Charge::of(open.price.as_ref(), usage, estimated.as_ref()));
                }
                self.usage += *usage;
                let context = Arc::make_mut(&mut self.context);
                context.failures = context.failures.saturating_add(1);
            }
            Record::CompactionUndone(undone) => self.put_back(undone),
            Record::BranchOpened(open) => {
                self.open.insert(entry.seq, Open::Branch(open.clone()));
            }
            Record::BranchFailed { usage, estimated, lost, .. } => {
                self.give_up_branch(ticket, usage, estimated.as_ref(), *lost);
            }
            Record::BranchSummary(branch) => self.take_branch(entry.seq, branch),
            Record::RetryWait { attempt, until, server } => {
                let wait = OpenWait { attempt: *attempt, until: *until, server: *server };
                self.open.insert(entry.seq, Open::Wait(wait));
                self.in_turn(|turn| turn.retries = *attempt);
            }
            Record::Call(call) => self.open_call(entry.seq, call),
            Record::CallFacts { facts, .. } => {
                if let Some(Open::Call(call)) = self.open.get_mut(&ticket) {
                    call.facts = call.facts_now(facts);
                }
            }
            Record::Ask { call, access, expires } => {
                self.open
                    .insert(entry.seq, Open::Ask(OpenAsk { call: *call, access: access.clone(), expires: *expires }));
                self.set_call(*call, CallState::Asking(entry.seq));
            }
            Record::Granted { grant } => self.grant(ticket, grant),
            Record::AskClosed { why } => self.close_ask(ticket, *why),
            Record::CallStarted { attempt, bytes, .. } => {
                if let Some(Open::Call(call)) = self.open.get_mut(&ticket) {
                    call.state = CallState::Running;
                    call.attempts = *attempt;
                    call.bytes = *bytes;
                    self.count(Spent { calls: 1, ..Spent::default() });
                }
            }
            Record::BudgetAsk { breach, expires, .. } => {
                self.open.insert(entry.seq, Open::BudgetAsk(OpenBudgetAsk { breach: *breach, expires: *expires }));
            }
            Record::Closing {} => match self.open.get_mut(&ticket) {
                Some(Open::Request(request)) => request.closing = true,
                Some(Open::Call(call)) => call.state = CallState::Closing,
                _ => self.tell_task(ticket),
            },
            Record::Result { result, judged } => self.take_result(ticket, result, *judged),
            Record::Ending { outcome, .. } => {
                self.in_turn(|turn| turn.ending = Some(outcome.clone()));
                self.open.retain(|_, open| !matches!(open, Open::Wait(_)));
            }
            Record::Recovered { n, resumed } => {
                self.lose_what_was_under_way();
                // No process had it from the last entry on.
                self.stop_clock(before);
                self.recoveries = *n;
                self.waits = !resumed;
                if self.waits {
                    self.task_turn_waits();
                }
            }
            Record::TurnFinished { outcome, .. } => self.finish_turn(outcome),
            Record::Forked(forked) => {
                // What came between the point and the fork is the parent's.
                self.stop_clock(before);
                self.fork(forked);
            }
            Record::Imported(imported) => {
                self.stop_clock(before);
                self.bring_in(entry.seq, imported);
            }
            Record::Released {} => self.release(),
            Record::TaskStarted { child, link, depth, grant, order } => {
                let (child, order) = (child.clone(), order.clone());
                let task = OpenTask { child, link: *link, depth: *depth, grant: *grant, order, told: Told::Run };
                self.count(Spent { tasks: 1, ..Spent::default() });
                self.open.insert(entry.seq, Open::Task(task));
            }
            Record::TaskFinished { down, notice } => self.close_task(entry.seq, ticket, Some(down), notice.as_ref()),
            Record::TaskLeft {} => self.close_task(entry.seq, ticket, None, None),
            Record::Orphaned { why } => self.orphan(why),
            Record::Adopted { tie, above } => self.adopt(tie, above),
            Record::Narrowed { above } => self.narrow(above),
            Record::HostRules { rules } => Arc::make_mut(&mut self.settings).host.clone_from(rules),
            Record::Pinned { message } => self.pin(message),
            Record::Unpinned { message } => self.unpin(message),
            Record::Merged(merged) => self.merge(merged),
            Record::RolledBack(back) => self.roll_back(back),
            Record::Ended { why } => self.closed = Some(why.as_str().into()),
            Record::Restored(_) => {}
            Record::Paused {} => self.paused = true,
            Record::Resumed {} => self.paused = false,
        }
        self.set_clock(entry.time);
        if let Some(input) = &entry.input {
            self.take_note(input, entry.seq);
        }
    }

    fn in_turn(&mut self, change: impl FnOnce(&mut Turn)) {
        if let Some(turn) = &mut self.turn {
            change(Arc::make_mut(turn));
        }
    }

    fn push(&mut self, item: Item) {
        self.push_shared(Arc::new(item));
    }

    pub(super) fn push_shared(&mut self, item: Arc<Item>) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.history_hash.as_bytes());
        #[cfg(test)]
        super::tests::hashed();
        // Writing into a hasher cannot fail, and every item can be written.
        if serde_json::to_writer(&mut hasher, &*item).is_ok() {
            self.history_hash = hasher.finalize().to_hex()[..32].to_owned();
        }
        let context = Arc::make_mut(&mut self.context);
        context.estimated = context.estimated.saturating_add(of_item(&item));
        self.history.push_shared(item);
    }

    fn release(&mut self) {
        self.held = false;
        self.waits = false;
        self.in_turn(|turn| turn.released = turn.ending.is_some());
    }

    fn accept(&mut self, waiting: Waiting) {
        // Whoever sends lets held messages, and an interrupted turn, go on.
        self.release();
        let disposition = self.disposition(waiting.delivery);
        self.remember(waiting.message.id.clone(), Seen { seq: waiting.seq, disposition, turn: None });
        match waiting.delivery {
            Delivery::Steer(_) if self.turn.is_some() => self.steering.push_back(waiting),
            // Steering an idle session starts a turn, as any other message does.
            _ => self.queue.push_back(waiting),
        }
    }

    fn remember(&mut self, id: MessageId, seen: Seen) {
        self.seen.insert(id, seen);
        if self.seen.len() > SEEN_MAX {
            // A message that still waits is never forgotten: sent again, it would be taken twice.
            let (queue, steering) = (&self.queue, &self.steering);
            self.seen.forget_oldest(|id| !queue.iter().chain(steering).any(|waiting| waiting.message.id == *id));
        }
    }

    /// What becomes of a message of that delivery, taken now.
    pub(super) fn disposition(&self, delivery: Delivery) -> Disposition {
        match (delivery, &self.turn) {
            (Delivery::Steer(_), Some(_)) => Disposition::Steering,
            (_, None) if self.queue.is_empty() && !self.paused => Disposition::Started,
            (_, None) if self.settings.queue_mode == Mode::All && !self.paused => Disposition::Started,
            _ => Disposition::Queued { before: self.queue.len() },
        }
    }

    fn deliver(&mut self, entry: &Entry, ids: &[MessageId]) {
        let begins = self.turn.is_none();
        if begins {
            self.turn = Some(Arc::new(Turn {
                id: entry.seq,
                started: entry.time,
                messages: Vec::new(),
                step: 0,
                retries: 0,
                overflowed: false,
                overflowed_before: false,
                model: None,
                tools: Default::default(),
                answer: None,
                batch: Vec::new(),
                next: Next::Step,
                ending: None,
                released: false,
                text: "".into(),
                usage: Default::default(),
                spent: Default::default(),
                limits: self.settings.budget.turn,
                answered: None,
            }));
        }
        let turn_id = self.turn.as_ref().map(|turn| turn.id);
        for id in ids {
            let from_steering = self.steering.iter().position(|waiting| waiting.message.id == *id);
            let from_queue = self.queue.iter().position(|waiting| waiting.message.id == *id);
            let taken = from_steering
                .and_then(|at| self.steering.remove(at))
                .or_else(|| from_queue.and_then(|at| self.queue.remove(at)));
            let Some(waiting) = taken else { continue };
            self.seen.delivered(id, turn_id);
            self.in_turn(|turn| {
                turn.messages.push(id.clone());
                turn.next = Next::Step;
                if waiting.message.model.is_some() {
                    turn.model.clone_from(&waiting.message.model);
                }
                turn.tools.extend(waiting.message.tools.clone());
            });
            let parts = waiting.message.parts.clone();
            self.push(Item::User(UserItem { id: id.clone(), parts, fragment: Default::default() }));
            if waiting.message.pinned {
                self.pin(id);
            }
        }
        if begins {
            // Steering that came too late for the turn before steers this one, before any that comes now.
            while self.queue.front().is_some_and(|waiting| matches!(waiting.delivery, Delivery::Steer(_))) {
                self.steering.extend(self.queue.pop_front());
            }
        }
    }

    fn open_request(&mut self, entry: &Entry, request: &RequestOpened) {
        // A wait ends where its request begins.
        self.open.retain(|_, open| !matches!(open, Open::Wait(_)));
        let opened = OpenRequest {
            model: request.model.clone(),
            attempt: request.attempt,
            last: request.last,
            closing: false,
            estimated: request.estimated,
            price: request.price,
            reserved: request.reserved,
            hash: request.hash.clone(),
            system: self.settings.system.clone(),
            params: request.params(&self.settings.params),
            tools: self.settings.allowed_tools(),
        };
        Arc::make_mut(&mut self.context).fullness = Fullness { used: request.used, usable: request.usable };
        self.open.insert(entry.seq, Open::Request(opened));
        let first_try = request.attempt == 1;
        self.in_turn(|turn| {
            turn.step = turn.step.saturating_add(u32::from(first_try));
            turn.batch.clear();
        });
    }

    fn take_answer(
        &mut self,
        seq: Seq,
        ticket: Seq,
        answer: &Arc<Answer>,
        interrupted: bool,
        estimate: Option<&Usage>,
    ) {
        let Some(Open::Request(OpenRequest { last, estimated, price, .. })) = self.open.remove(&ticket) else { return };
        let charge = Charge::of(price.as_ref(), &answer.usage, estimate);
        self.charge(charge);
        if !interrupted {
            self.recoveries = 0;
        }
        self.usage += answer.usage;
        let text = answer.text();
        let steps = self.turn.as_ref().map_or(0, |turn| turn.step);
        // Whether the model was still at work, and not only spoken to: then the limit is what ends the turn.
        let said = self.history.iter().rev().find(|item| !matches!(item.as_ref(), Item::User(_)));
        let at_work = said.is_some_and(|item| matches!(item.as_ref(), Item::Result(_)));
        let next = match interrupted {
            true => Next::Step,
            false => super::advance::after_answer(answer, last.then_some(steps), at_work),
        };
        self.in_turn(|turn| {
            turn.retries = 0;
            turn.overflowed = false;
            turn.overflowed_before = false;
            turn.answer = Some(seq);
            turn.usage += answer.usage;
            turn.answered = Some((answer.finish, charge.unwrap_or_default()));
            turn.next = next;
            if !text.is_empty() {
                turn.text = text.into();
            }
        });
        // An answer with nothing in it would be refused by providers when it is sent back.
        if answer.parts.iter().any(|part| !matches!(part, AnswerPart::Text { text, .. } if text.is_empty())) {
            self.push(Item::Assistant((**answer).clone()));
        }
        if !interrupted {
            let said = self.history.last().map_or(0, |item| of_item(item));
            Arc::make_mut(&mut self.context).meter.learn(estimated.saturating_add(said), &answer.usage);
        }
        self.put_compacted_in_place();
    }

    fn finish_turn(&mut self, outcome: &Outcome) {
        self.stop_clock(self.time);
        let Some(turn) = self.turn.take() else { return };
        // Of the turn only waits can still be open, and a wait without a turn is nothing. Tasks and summaries are the session's.
        self.open.retain(|_, open| matches!(open, Open::Task(_) | Open::Compaction(_) | Open::Branch(_)));
        self.task_turn_ended(&turn, outcome);
        // Steering that came too late for this turn goes first into the next.
        while let Some(waiting) = self.steering.pop_back() {
            self.queue.push_front(waiting);
        }
        use Outcome::{Aborted, Budget, Failed, Rejected};
        let holds = matches!(outcome, Aborted { .. } | Budget { .. } | Failed { .. } | Rejected { .. });
        self.held = holds && !turn.released && !self.queue.is_empty();
        Arc::make_mut(&mut self.grants).retain(|granted| granted.turn.is_none());
        self.turns = self.turns.saturating_add(1);
        self.recoveries = 0;
        self.waits = false;
        self.remember_end(&turn, outcome.clone());
    }

    /// Who waits for the messages of a turn hears what became of it; of the oldest turns that is forgotten.
    fn remember_end(&mut self, turn: &Turn, outcome: Outcome) {
        self.ended.push_back(Arc::new(TurnEnd {
            turn: turn.id,
            outcome,
            text: turn.text.clone(),
            messages: turn.messages.clone(),
            steps: turn.step,
            usage: turn.usage,
            spent: turn.spent,
        }));
        if self.ended.len() > TURNS_REMEMBERED {
            self.ended.pop_front();
        }
    }
}
