//! What each entry does to the state ([`State::apply`]; the larger parts are in `apply/`). A running session and recovery change a
//! state by this code alone, so both arrive at the same state.
//!
//! [`State::apply`] writes no entry and never fails. An entry about a ticket that is not open closes no ticket and charges no
//! budget. A summary that comes so is still used, and its tokens count in `State::usage`.
//!
//! A change must not read anything but the state and the entry (no clock, no settings of the host, no randomness), and must fold
//! the entries of existing tapes to the same state as before: replay compares, and a session is opened from old entries. A new
//! kind of entry belongs here, in `record.rs`, in `event/of_entry.rs` and in `docs/FORMATS.md`.

use std::{
    borrow::Borrow,
    io::{BufWriter, Write as _},
    sync::Arc,
};

use crate::{
    kernel::{
        AskAnswer, CallState, Delivery, Disposition, Entry, Mode, Open, OpenAsk, OpenBudgetAsk, OpenTask, OpenTaskAsk,
        OpenWait, Record, Seen, Spent, State, StopLevel, Turn, Waiting,
        budget::bill,
        context::{bytes_of, of_item},
        state::SEEN_MAX,
        turn::{question, seen},
    },
    model::Item,
    words::ids::{MessageId, Millis, Seq},
};

mod calls;
mod compaction;
mod fork;
mod spending;
mod tasks;
mod turns;

impl State {
    /// The state that these entries fold to. The first entry must be a [`Record::State`], as in every anchor and in every tape that
    /// is no fork; otherwise the answer is `None`.
    #[must_use]
    pub fn fold(entries: impl IntoIterator<Item = impl Borrow<Entry>>) -> Option<State> {
        let mut entries = entries.into_iter();
        let first = entries.next()?;
        let Record::State(state) = &first.borrow().record else { return None };
        let mut state = (**state).clone();
        state.apply(first.borrow());
        Some(state.after(entries))
    }

    /// Applies further entries, and gives the state after them.
    #[must_use]
    pub fn after(mut self, entries: impl IntoIterator<Item = impl Borrow<Entry>>) -> State {
        entries.into_iter().for_each(|entry| self.apply(entry.borrow()));
        self
    }

    /// Applies one entry to the state.
    pub fn apply(&mut self, entry: &Entry) {
        if let Record::State(state) = &entry.record {
            *self = (**state).clone();
        }
        let before = std::mem::replace(&mut self.time, entry.time);
        self.seq = entry.seq;
        let ticket = entry.ticket.unwrap_or(entry.seq);
        let charged = bill::charged(entry, self);
        self.charge(&charged);
        match &entry.record {
            Record::State(_) | Record::Restored(_) => {}
            Record::Settings(settings) => {
                if settings.workspace != self.settings.workspace {
                    self.forget_approvals();
                }
                let before = std::mem::replace(&mut self.settings, Arc::new((**settings).clone()));
                self.end_fallback_of(&before);
                self.begin_queued_tasks();
            }
            Record::Accepted { message, delivery, agent, added } => {
                let words = seen::words(message, *added);
                let (message, agent) = (message.clone(), agent.clone());
                let waiting = Waiting { seq: entry.seq, message, delivery: *delivery, agent, ahead: None };
                self.accept(waiting, words);
            }
            Record::Edited { message } => {
                let all = self.queue.iter_mut().chain(self.steering.iter_mut());
                all.filter(|waiting| waiting.message.id == message.id)
                    .for_each(|waiting| (waiting.message, waiting.ahead) = (message.clone(), None));
            }
            Record::Withdrawn { id } => {
                self.queue.retain(|waiting| waiting.message.id != *id);
                self.steering.retain(|waiting| waiting.message.id != *id);
                if self.is_task(std::slice::from_ref(id)) {
                    self.task_withdrawn();
                }
            }
            Record::Sent { id } => self.send_ahead(id),
            Record::Delivered { ids } => self.deliver(entry, ids),
            Record::Request(request) => self.open_request(entry, request),
            Record::Prepared(prepared) => self.take_prepared(entry.seq, ticket, prepared),
            Record::CallGated(gated) => self.take_gated(ticket, gated),
            Record::Answer { answer, interrupted, .. } => {
                let charge = charged.last().map(|line| line.charge);
                self.take_answer(entry.seq, ticket, answer, *interrupted, charge.unwrap_or_default());
            }
            Record::RequestFailed { error, learned, fallback, .. } => {
                self.move_ahead(&[]);
                if let Some(Open::Request(request)) = self.open.remove(&ticket) {
                    if error.key_renewed {
                        self.in_turn(|turn| {
                            turn.renewed_for = Some(request.model.clone());
                            turn.tried = request.attempt;
                        });
                    }
                    if let Some(to) = fallback {
                        self.fall_back(&request, error.kind, to);
                    }
                    if let Some(learned) = learned {
                        self.take_refusal(request, *learned);
                    }
                }
                self.put_compacted_in_place();
            }
            Record::AgentChosen { choice, for_turn } => self.choose_agent(choice, *for_turn),
            Record::AgentSwitched { .. } => self.switch_agent(),
            Record::Pruned { results, files } => self.prune(results, files),
            Record::Compaction(open) => self.put_open(entry.seq, Open::Compaction(open.clone())),
            Record::Compacted(compacted) => {
                self.close_summary(ticket, &compacted.usage);
                self.take_compacted(ticket, compacted);
            }
            Record::CompactionFailed { usage, .. } => {
                self.close_summary(ticket, usage);
                let context = Arc::make_mut(&mut self.context);
                context.failures = context.failures.saturating_add(1);
            }
            Record::CompactionUndone(undone) => self.put_back(undone),
            Record::BranchOpened(open) => self.put_open(entry.seq, Open::Branch(open.clone())),
            Record::BranchFailed { usage, .. } => self.close_summary(ticket, usage),
            Record::BranchSummary(branch) => self.take_branch(entry.seq, branch),
            Record::RetryWait { attempt, until, server } => {
                let wait = OpenWait { attempt: *attempt, until: *until, server: *server };
                self.put_open(entry.seq, Open::Wait(wait));
                self.in_turn(|turn| turn.retries = *attempt);
            }
            Record::Call(call) => self.open_call(entry.seq, call),
            Record::CallFacts { facts, .. } => self.in_call(ticket, |call| {
                let now = call.facts_now(facts);
                // A person allowed what was shown, and nothing else.
                if now.access != call.facts.access {
                    call.granted = false;
                    if call.state == CallState::Allowed {
                        call.state = CallState::Pending;
                    }
                }
                call.facts = now;
            }),
            Record::Ask { call, access, expires, question } => {
                let (access, question) = (access.clone(), question.clone());
                if question.is_none() {
                    self.in_call(*call, |call| call.state = CallState::Asking(entry.seq));
                }
                let ask = OpenAsk { call: *call, access, expires: *expires, question };
                self.put_open(entry.seq, Open::Ask(ask));
            }
            Record::TaskAsk(asked) => {
                let open = OpenTaskAsk { task: ticket, asked: asked.clone(), answer: None };
                self.put_open(entry.seq, Open::TaskAsk(open));
            }
            Record::Granted { grant, who, rules } => {
                let answer = AskAnswer { grant: grant.clone(), who: who.clone(), rules: rules.clone() };
                if !self.answer_task_ask(ticket, &answer) {
                    self.grant(ticket, &answer);
                }
            }
            Record::Revoked { grant } => self.revoke(*grant),
            Record::AskClosed { why } => match self.open.remove(&ticket) {
                Some(Open::Ask(ask)) if ask.question.is_some() => {
                    self.note_answer(ticket, &ask, question::closed_with(*why));
                }
                Some(Open::Ask(ask)) => self.in_call(ask.call, |call| call.state = CallState::Pending),
                _ => {}
            },
            Record::CallStarted { attempt, bytes, confined, .. } => {
                if let Some(Open::Call(call)) = self.open.get_mut(&ticket) {
                    call.state = CallState::Running;
                    call.attempts = *attempt;
                    call.bytes = *bytes;
                    call.confined = *confined;
                    // What began and was held up by a hook was counted then.
                    let is_counted = call.gate.as_ref().is_some_and(|gate| gate.attempt == *attempt);
                    self.count(Spent { calls: u64::from(!is_counted), ..Spent::default() });
                }
            }
            Record::BudgetAsk { breach, expires } => {
                self.put_open(entry.seq, Open::BudgetAsk(OpenBudgetAsk { breach: *breach, expires: *expires }));
            }
            Record::Closing { why } => match self.open.get_mut(&ticket) {
                Some(Open::Request(request)) => request.closing = true,
                Some(Open::Call(call)) => {
                    call.state = CallState::Closing;
                    self.close_questions(ticket);
                }
                _ => self.tell_task(ticket, why.as_ref()),
            },
            Record::Result { result, judged } => self.take_result(ticket, result, *judged),
            Record::Ending { outcome, .. } => {
                self.in_turn(|turn| turn.ending = Some(outcome.clone()));
                self.open.retain(|open| !matches!(open, Open::Wait(_)));
            }
            Record::Recovered { n, resumed } => {
                self.move_ahead(&[]);
                // The host that had a branch summed up is gone too. If it still brings a summary, it finds the ticket closed.
                self.open.retain(|open| !matches!(open, Open::Branch(_)));
                // From the last entry on no process ran the turn, so its clock stops there.
                self.stop_clock(before);
                self.recoveries = *n;
                let crashes = u32::from(!std::mem::take(&mut self.stopped));
                self.in_turn(|turn| turn.recoveries = turn.recoveries.saturating_add(crashes));
                self.waits = !resumed;
                if self.waits {
                    self.task_turn_waits();
                }
            }
            Record::Stopped {} => self.stopped = true,
            Record::TurnFinished { outcome, .. } => self.finish_turn(outcome),
            Record::Forked(forked) => {
                // The time between the point of the fork and the making of the fork belongs to the parent.
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
                let (queued, stop_level) = (self.tasks_wait(), StopLevel::Run);
                let (link, depth, grant) = (*link, *depth, *grant);
                let task = OpenTask { child, link, depth, grant, order, stop_level, why: None, queued };
                self.count(Spent { tasks: 1, ..Spent::default() });
                self.put_open(entry.seq, Open::Task(task));
            }
            Record::TaskFinished { down, notice } => self.close_task(entry.seq, ticket, Some(down), notice.as_ref()),
            Record::TaskLeft {} => self.close_task(entry.seq, ticket, None, None),
            Record::Orphaned { why } => self.orphan(why),
            Record::Adopted { tie, above, next } => self.adopt(tie, above, next.as_ref()),
            Record::Narrowed { above } => self.narrow(above),
            Record::HostRules { rules } => Arc::make_mut(&mut self.settings).host.clone_from(rules),
            Record::Pinned { message } => self.pin(message),
            Record::Unpinned { message } => self.unpin(message),
            Record::Merged(merged) => self.merge(merged),
            Record::RolledBack(back) => self.roll_back(back),
            Record::Ended { why } => self.closed = Some(why.as_str().into()),
            Record::Paused {} => self.paused = true,
            Record::LoopsReset {} => self.reset_loops(),
            Record::Resumed {} => {
                self.paused = false;
                self.begin_queued_tasks();
            }
        }
        self.set_clock(entry.time);
        if let Some(input) = &entry.input {
            self.take_note(input, entry.seq);
        }
    }

    fn put_open(&mut self, ticket: Seq, open: Open) {
        self.open.insert(ticket, open);
    }

    pub(super) fn in_turn(&mut self, change: impl FnOnce(&mut Turn)) {
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
        // JSON is written in small pieces, each of which would cost the hasher as much as a large one.
        let mut pieces = BufWriter::with_capacity(1024, &mut hasher);
        // Writing into a hasher cannot fail, and every item can be written.
        let is_written = serde_json::to_writer(&mut pieces, &*item).is_ok() && pieces.flush().is_ok();
        drop(pieces);
        if is_written {
            self.history_hash = hasher.finalize().to_hex()[..32].to_owned();
        }
        let context = Arc::make_mut(&mut self.context);
        context.estimated = context.estimated.saturating_add(of_item(&item));
        context.bytes = context.bytes.saturating_add(bytes_of(&item));
        self.history.push_shared(item);
    }

    fn release(&mut self) {
        self.on_hold = false;
        self.waits = false;
        self.in_turn(|turn| {
            turn.released = turn.ending.is_some();
            turn.recoveries = 0;
        });
    }

    fn accept(&mut self, waiting: Waiting, words: u64) {
        // A new message releases messages on hold and an interrupted turn.
        self.release();
        let disposition = self.disposition(waiting.delivery);
        self.enqueue(waiting, disposition, Some(words));
    }

    /// Puts a message among those that wait; `words` is what its sender said ([`seen::words`]), `None` of the runtime's own.
    fn enqueue(&mut self, waiting: Waiting, disposition: Disposition, words: Option<u64>) {
        self.remember(waiting.message.id.clone(), Seen { seq: waiting.seq, disposition, turn: None, words });
        match waiting.delivery {
            Delivery::Steer(_) if self.turn.is_some() => self.steering.push_back(waiting),
            // Steering an idle session starts a turn: it comes before what is queued, behind steering that waits already.
            Delivery::Steer(_) => self.queue.insert(self.late_steering(), waiting),
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

    /// How many steering messages stand at the head of the queue: they came too late for their turn, or while none ran.
    pub(super) fn late_steering(&self) -> usize {
        self.queue.iter().take_while(|waiting| matches!(waiting.delivery, Delivery::Steer(_))).count()
    }

    /// What becomes of a message with this delivery, if it is accepted now.
    pub(super) fn disposition(&self, delivery: Delivery) -> Disposition {
        let (before, mode) = match delivery {
            Delivery::Steer(_) if self.turn.is_some() => return Disposition::Steering,
            Delivery::Steer(_) => (self.late_steering(), self.settings.steering_mode),
            Delivery::Queue | Delivery::Reject => (self.queue.len(), self.settings.queue_mode),
        };
        let is_next = self.turn.is_none() && !self.paused && (before == 0 || mode == Mode::All);
        if is_next { Disposition::Started } else { Disposition::Queued { before } }
    }

    /// Starts or stops the clock of the running turn. Time counts while a turn runs that is neither paused, nor waiting for a
    /// go-on, nor waiting for the answer to a budget ask.
    pub(super) fn set_clock(&mut self, now: Millis) {
        let asks = self.budget_ask().is_some();
        let counts = self.turn.is_some() && !self.paused && !self.waits && !asks;
        match (self.account.since, counts) {
            (None, true) => self.account.since = Some(now),
            (Some(_), false) => self.stop_clock(now),
            _ => {}
        }
    }

    /// Counts the time up to `now`, and stops the clock.
    pub(super) fn stop_clock(&mut self, now: Millis) {
        let Some(since) = self.account.since.take() else { return };
        self.count(Spent { time_ms: now.0.saturating_sub(since.0), ..Spent::default() });
    }
}
