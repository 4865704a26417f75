//! How entries about tasks change the state, on a parent's tape and on a child's.
//!
//! A task ends once on each side. On the parent's side its ticket closes once. On the child's side `Origin::end` is set once for
//! each task, and later turns of the child do not change it; only [`State::adopt`] clears it, with the child's next task.
//!
//! A change must keep that. No bound that ancestors set to a child is ever taken away: [`State::narrow`] adds chains of rules and
//! must never remove one.

use std::sync::Arc;

use crate::{
    kernel::{
        Delivery, Disposition, Down, DownReason, NextTask, Open, Outcome, Spent, State, Steering, StopLevel, TaskEnd,
        Tie, Turn, Waiting, state::TASKS_REMEMBERED,
    },
    permission::Chain,
    words::{
        ids::{MessageId, Millis, Seq},
        message::Message,
    },
};

// The queue of tasks that wait for room: a task begins only while fewer than `task_width_max` have begun. No entry says which
// tasks wait: that follows from the order of the entries. A task that has begun is never put back, also if the width is lowered.
// So for certain no child works on a task that waits.
impl State {
    /// How many open tasks have begun.
    pub(crate) fn tasks_begun(&self) -> usize {
        self.tasks().filter(|(_, task)| !task.queued).count()
    }

    /// How many open tasks wait for room.
    #[must_use]
    pub fn tasks_queued(&self) -> usize {
        self.tasks().filter(|(_, task)| task.queued).count()
    }

    /// Whether the task of this ticket waits for room.
    pub(crate) fn is_queued(&self, ticket: Seq) -> bool {
        matches!(self.open.get(&ticket), Some(Open::Task(task)) if task.queued)
    }

    /// Whether a further task has to wait: others wait already, or as many have begun as may.
    pub(crate) fn tasks_wait(&self) -> bool {
        self.tasks_queued() > 0 || self.tasks_begun() >= self.settings.task_width_max
    }

    /// Begins the tasks for which there is room now, in the order of their tickets; none while the session is paused.
    pub(super) fn begin_queued_tasks(&mut self) {
        if self.paused || self.closed.is_some() {
            return;
        }
        let room = self.settings.task_width_max.saturating_sub(self.tasks_begun());
        self.open.change(
            room,
            |open| matches!(open, Open::Task(task) if task.queued),
            |open| {
                if let Open::Task(task) = open {
                    task.queued = false;
                }
            },
        );
    }
}

impl State {
    /// Raises the stop level of an open task. If the session has ended, the child is told to end, or that it is an orphan, as its
    /// link says; otherwise it is told to stop.
    pub(super) fn tell_task(&mut self, ticket: Seq, why: Option<&Arc<str>>) {
        let ended = self.closed.is_some();
        if let Some(Open::Task(task)) = self.open.get_mut(&ticket) {
            task.stop_level = match (ended, task.link.ends_with_parent) {
                (false, _) => StopLevel::Stop,
                (true, true) => StopLevel::End,
                (true, false) => StopLevel::Leave,
            };
            task.why = why.cloned();
        }
    }

    /// Closes a task, and counts what its child used. With a notice, the model is told of its end.
    pub(super) fn close_task(
        &mut self,
        seq: Seq,
        ticket: Seq,
        down: Option<&Arc<Down>>,
        notice: Option<&Arc<Message>>,
    ) {
        let Some(Open::Task(task)) = self.open.remove(&ticket) else { return };
        let (spent, lent) = match down.map(|down| (down.spent, down.lent)) {
            Some((Some(spent), lent)) => (spent, lent),
            // Nobody gives account of the grant, or the child goes on as an orphan: all of the grant counts as used.
            _ => (Spent::unknown(), task.grant),
        };
        self.spent_by_tasks += spent;
        self.in_turn(|turn| turn.spent_by_tasks += spent);
        self.write_off(&lent);
        self.begin_queued_tasks();
        self.tasks_ended.push_back(TaskEnd { ticket, child: task.child, down: down.cloned() });
        if self.tasks_ended.len() > TASKS_REMEMBERED {
            self.tasks_ended.pop_front();
        }
        // No host sent the notice, so it does not release messages on hold or an interrupted turn.
        if let Some(message) = notice {
            let (running, before) = (self.turn.is_some(), self.queue.len());
            let (delivery, disposition) = match running {
                true => (Delivery::Steer(Steering::FinishBatch), Disposition::Steering),
                false => (Delivery::Queue, Disposition::Queued { before }),
            };
            self.enqueue(
                Waiting { seq, message: message.clone(), delivery, agent: None, ahead: None },
                disposition,
                None,
            );
        }
    }

    /// Ends the session's task, if the turn that ended was the task.
    pub(super) fn task_turn_ended(&mut self, turn: &Turn, outcome: &Outcome) {
        if self.is_task(&turn.messages) {
            let reason = match (&self.closed, outcome) {
                (Some(why), Outcome::Aborted { .. }) => DownReason::Ended { why: why.to_string() },
                _ => DownReason::of(outcome),
            };
            self.end_task(down_of(turn, reason));
        }
    }

    /// Ends the session's task as failed, if its turn waits for a go-on after a recovery: nobody would give it one.
    pub(super) fn task_turn_waits(&mut self) {
        let Some(turn) = self.turn.clone().filter(|turn| self.is_task(&turn.messages)) else { return };
        let error = "interrupted again without progress; it waits to be told to go on".to_owned();
        self.end_task(down_of(&turn, DownReason::Failed { error }));
    }

    /// Ends the session's task, because its prompt was taken back before it was read.
    pub(super) fn task_withdrawn(&mut self) {
        let reason = match &self.closed {
            Some(why) => DownReason::Ended { why: why.to_string() },
            None => DownReason::Aborted { why: "its prompt was taken back".to_owned() },
        };
        self.end_task(Down::without_a_word(reason));
    }

    /// Whether one of the messages is the prompt of the session's present task.
    pub(super) fn is_task(&self, messages: &[MessageId]) -> bool {
        self.origin.as_ref().is_some_and(|origin| messages.contains(&origin.prompt))
    }

    /// Sets the end of the task, once. Later turns of the session do not concern its parent.
    fn end_task(&mut self, mut down: Down) {
        let (spent, lent) = self.account_for_task();
        (down.spent, down.lent) = (Some(spent), lent);
        if let (DownReason::Aborted { .. }, Some(deadline)) = (&down.reason, self.deadline_passed()) {
            down.reason = DownReason::TimedOut { deadline };
        }
        if self.origin.as_ref().is_some_and(|origin| origin.end.is_none()) {
            self.close_grant();
        }
        if let Some(origin) = &mut self.origin
            && origin.end.is_none()
        {
            Arc::make_mut(origin).end = Some(Arc::new(down));
        }
    }

    /// The deadline of the session's task, where it has passed.
    fn deadline_passed(&self) -> Option<Millis> {
        self.task_deadline().filter(|deadline| *deadline <= self.time)
    }

    /// The parent has ended, and the child lives on.
    pub(super) fn orphan(&mut self, why: &str) {
        if let Some(origin) = &mut self.origin {
            Arc::make_mut(origin).orphaned = Some(why.to_owned());
        }
    }

    /// Gives the session another parent, or with `next` its next task, and adds the rules of those above it.
    pub(super) fn adopt(&mut self, tie: &Tie, above: &[Chain], next: Option<&NextTask>) {
        if let (Some(next), Some(origin)) = (next, &mut self.origin) {
            let origin = Arc::make_mut(origin);
            (origin.prompt, origin.terms, origin.end) = (next.prompt.clone(), next.terms.clone(), None);
            // What was granted for the task before is accounted for.
            self.account.grant = None;
        }
        if self.origin.as_ref().is_some_and(|origin| origin.end.is_none()) {
            self.take_grant(&tie.grant);
        }
        let Some(origin) = &mut self.origin else { return };
        let origin = Arc::make_mut(origin);
        origin.parent = tie.parent.clone();
        origin.ticket = tie.ticket;
        origin.link = tie.link;
        origin.depth = tie.depth;
        origin.orphaned = None;
        self.narrow(above);
    }

    /// Adds the rules of ancestors. None is ever removed, so what an ancestor's rules denied once stays denied.
    pub(super) fn narrow(&mut self, above: &[Chain]) {
        let settings = Arc::make_mut(&mut self.settings);
        for chain in above {
            if !settings.above.contains(chain) {
                settings.above.push(chain.clone());
            }
        }
    }
}

fn down_of(turn: &Turn, reason: DownReason) -> Down {
    Down { text: turn.text.clone(), steps: turn.step, usage: turn.spent.usage, ..Down::without_a_word(reason) }
}
