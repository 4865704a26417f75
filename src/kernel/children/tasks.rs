//! A parent's side of its tasks: which tasks it takes on, when it stops or leaves its children, and the effect of their DOWN (the
//! report of how a task ended). When a queued task begins is decided in `apply/tasks.rs`.
//!
//! Width, depth and budget are checked here, for new children and for adopted ones. A new child's rights are those of its parent or
//! fewer: the parent's rules go with the child as a chain of their own, and the strictest decision of all chains counts.
//!
//! A change must keep that every new child passes [`narrow`]; an adopted one gets the chains from its parent's watcher. A task's
//! DOWN is recorded once. A stop may reach a child before the tape has it; an end, or leaving a child alone, must wait for the
//! tape, because the parent has not ended until its tape says so.

use std::sync::Arc;

use crate::{
    kernel::{
        CarriedOut, Down, DownReason, Link, Open, OpenTask, Outcome, Record, Refusal, Resource, Settings, Spent, State,
        Stop, StopLevel, TaskOrder,
        budget::spending,
        children::task_ask,
        draft::{Decide, Draft},
        turn::toolset,
    },
    words::{
        ids::{MessageId, Millis, Seq, SessionId},
        message::{Message, MessageTime, Role},
    },
};

/// A host, or a tool, gives a task to a new child.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spawn {
    /// The id of the child. A second spawn with the same id is the same task while that task is open or remembered; with
    /// [`TaskOrder::again`], only while it is open.
    pub child: SessionId,
    /// What the child is made from. The settings are narrowed to what this session may do.
    pub order: Box<TaskOrder>,
    /// How the child is tied to this session.
    pub link: Link,
}

impl State {
    /// How many tasks may wait for room.
    pub(in crate::kernel) fn task_queue(&self) -> usize {
        self.settings.task_queue_max.min(TASKS_QUEUED_MAX)
    }
}

impl Decide for Spawn {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let Spawn { child, order, link } = self;
        let known = if order.again { open(draft, child) } else { known(draft, child) };
        if let Some(ticket) = known {
            // The rest of the prompt may be files that were read meanwhile, or what hooks added. An ended task has no prompt here.
            let asked = draft.state.tasks().find(|(open, _)| *open == ticket).and_then(|(_, task)| task.order.as_ref());
            let is_it = asked.is_none_or(|asked| asked.prompt.parts.first() == order.prompt.parts.first());
            return if is_it { Ok(CarriedOut::Done(ticket)) } else { Err(Refusal::OtherTask { first: ticket }) };
        }
        let mut order = (**order).clone();
        order.terms.deadline = order.terms.deadline.into_iter().chain(draft.state.task_deadline()).min();
        narrow(&mut order.settings, &draft.state.settings);
        begin(draft, child, Some(Arc::new(order)), *link)
    }

    fn in_words(&self) -> String {
        format!("child {} was spawned", self.child)
    }

    fn begins_work(&self) -> bool {
        true
    }
}

/// One task is to stop, and the child keeps what it has. The parent's model is not told of the DOWN: the caller that stops the task
/// knows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StopChild {
    /// The task's ticket.
    pub ticket: Seq,
    /// Why.
    pub why: Arc<str>,
}

impl Decide for StopChild {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if matches!(draft.state.open.get(&self.ticket), Some(Open::Task(task)) if task.stop_level == StopLevel::Run) {
            tell_one(draft, self.ticket, StopLevel::Stop, Some(&self.why));
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        format!("task {} was stopped", self.ticket)
    }

    fn about(&self) -> Option<Seq> {
        Some(self.ticket)
    }

    fn stops(&self) -> bool {
        true
    }
}

/// A host lets the session take over an orphan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Adopt {
    /// The orphan.
    pub child: SessionId,
    /// How the child is tied to this session from then on.
    pub link: Link,
}

impl Decide for Adopt {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let Adopt { child, link } = self;
        match known(draft, child) {
            Some(ticket) if draft.state.open.contains_key(&ticket) => Ok(CarriedOut::Done(ticket)),
            _ if *child == draft.state.session => Err(Refusal::NotAnOrphan { session: child.clone() }),
            _ => begin(draft, child, None, *link),
        }
    }

    fn in_words(&self) -> String {
        format!("session {} was adopted", self.child)
    }

    fn begins_work(&self) -> bool {
        true
    }
}

/// The most tasks that wait for room, whatever the settings say: all of them are in the state, which each decision copies.
const TASKS_QUEUED_MAX: usize = 1_000;

/// The most bytes of a child's text that its parent's model is shown.
const NOTICE_TEXT_BYTES_MAX: usize = 51_200;

/// The ticket of an open task with this child.
fn open(draft: &Draft<'_>, child: &SessionId) -> Option<Seq> {
    draft.state.tasks().find(|(_, task)| task.child == *child).map(|(ticket, _)| ticket)
}

/// The ticket of a task with this child, open or remembered.
fn known(draft: &Draft<'_>, child: &SessionId) -> Option<Seq> {
    open(draft, child)
        .or_else(|| draft.state.tasks_ended.iter().rev().find(|end| end.child == *child).map(|end| end.ticket))
}

fn begin(
    draft: &mut Draft<'_>,
    child: &SessionId,
    order: Option<Arc<TaskOrder>>,
    link: Link,
) -> Result<CarriedOut, Refusal> {
    let state = &draft.state;
    if state.closed.is_some() {
        return Err(Refusal::Ended);
    }
    let depth = state.depth().saturating_add(1);
    let (depth_max, width_max) = (state.settings.task_depth_max, state.settings.task_width_max);
    if depth > depth_max {
        return Err(Refusal::TooDeep { depth, max: depth_max });
    }
    let (begun, queued) = (state.tasks_begun(), state.tasks_queued());
    // An orphan works already, so it cannot wait; behind a width of 0 nothing would ever begin.
    let queue_max = if order.is_some() && width_max > 0 { state.task_queue() } else { 0 };
    if state.tasks_wait() && queued >= queue_max {
        return Err(Refusal::TooManyTasks { open: begun + queued, max: width_max.saturating_add(queue_max) });
    }
    if let Some(breach) = state.breach(Resource::Tasks, 1) {
        return Err(Refusal::OverBudget { breach });
    }
    // An orphan keeps its settings and names no amount.
    let asked = order.as_ref().map(|order| order.settings.budget.session).unwrap_or_default();
    let may_have_children = order.as_ref().is_none_or(|order| order.settings.task_depth_max > depth);
    let request = order.as_ref().map(|order| spending::first_request(draft, order)).unwrap_or_default();
    let grant =
        state.grant_for(&asked, &request, may_have_children).map_err(|breach| Refusal::OverBudget { breach })?;
    let ticket = draft.write(None, Record::TaskStarted { child: child.clone(), link, depth, grant, order });
    Ok(CarriedOut::Done(ticket))
}

/// Narrows the settings of a child: it may do nothing that its parent may not do, and its turns take no more steps than those of
/// its parent may.
pub(in crate::kernel) fn narrow(child: &mut Settings, parent: &Settings) {
    child.above = parent.above_children();
    child.host.clone_from(&parent.host);
    if parent.sandbox.as_ref().is_some_and(|terms| !terms.are_kept_by(child.sandbox.as_deref())) {
        child.sandbox.clone_from(&parent.sandbox);
    }
    if let Some(may) = &parent.tools {
        child.tools = Some(toolset::both(child.tools.as_ref(), may));
    }
    child.steps_max = [child.steps_max, parent.steps_max].into_iter().flatten().min();
    child.task_depth_max = child.task_depth_max.min(parent.task_depth_max);
    child.task_width_max = child.task_width_max.min(parent.task_width_max);
    child.task_queue_max = child.task_queue_max.min(parent.task_queue_max);
}

/// Takes the DOWN of a child. It is recorded once: a second report finds the ticket closed.
pub(in crate::kernel) fn down(draft: &mut Draft<'_>, ticket: Seq, down: &Down) {
    let Some(Open::Task(task)) = draft.state.open.get(&ticket) else { return };
    // A parent that stopped the child itself is not woken by its DOWN.
    let wakes = task.link.wakes_parent && task.stop_level == StopLevel::Run && draft.state.closed.is_none();
    let notice = wakes.then(|| Arc::new(notice(draft, ticket, task, down)));
    draft.write(Some(ticket), Record::TaskFinished { down: Arc::new(down.clone()), notice });
    task_ask::close_of(draft, ticket);
}

/// The message that tells the parent's model of a DOWN.
fn notice(draft: &Draft<'_>, ticket: Seq, task: &OpenTask, down: &Down) -> Message {
    let mut text = format!("Task {} is over: {}.", task.child, down.reason);
    if !down.text.is_empty() {
        let cut = down.text.floor_char_boundary(NOTICE_TEXT_BYTES_MAX);
        text.push_str("\n\n");
        text.push_str(&down.text[..cut]);
        if cut < down.text.len() {
            text.push_str("\n... [truncated]");
        }
    }
    let mut message = Message::user(text).with_id(MessageId::of_task(ticket));
    message.role = Role::User;
    message.time = MessageTime { created: draft.now, completed: Some(draft.now) };
    message
}

/// Takes the report that a child knows that it is an orphan, and closes its task.
pub(in crate::kernel) fn left(draft: &mut Draft<'_>, ticket: Seq) {
    if matches!(draft.state.open.get(&ticket), Some(Open::Task(task)) if task.stop_level == StopLevel::Leave) {
        draft.write(Some(ticket), Record::TaskLeft {});
        task_ask::close_of(draft, ticket);
    }
}

/// Stops all linked children that still run, because the turn is aborted; also those that work while no turn runs.
pub(in crate::kernel) fn stop_linked(draft: &mut Draft<'_>) {
    tell(draft, |task| task.link.ends_with_parent && task.stop_level == StopLevel::Run);
}

/// Tells the children that the session has ended: linked children end, the others become orphans.
pub(in crate::kernel) fn part(draft: &mut Draft<'_>) {
    tell(draft, |task| task.stop_level < StopLevel::End);
}

/// Writes for each of these tasks that its child is to stop, or to end if the session has ended. A task that waits for room has no
/// child, so it is over at once.
fn tell(draft: &mut Draft<'_>, who: impl Fn(&OpenTask) -> bool) {
    let stop_level = if draft.state.closed.is_some() { StopLevel::End } else { StopLevel::Stop };
    let tasks: Vec<_> = draft.state.tasks().filter(|(_, task)| who(task)).map(|(ticket, _)| ticket).collect();
    tasks.into_iter().for_each(|ticket| tell_one(draft, ticket, stop_level, None));
}

fn tell_one(draft: &mut Draft<'_>, ticket: Seq, stop_level: StopLevel, why: Option<&Arc<str>>) {
    if draft.state.is_queued(ticket) {
        draft.write(Some(ticket), Record::TaskFinished { down: Arc::new(never_made(stop_level)), notice: None });
        return;
    }
    draft.write(Some(ticket), Record::Closing { why: why.cloned() });
    stop_if_told(draft, ticket);
}

/// Ends the tasks that wait for room and whose deadline has passed. The child of a task that has begun sees to its deadline itself.
pub(in crate::kernel) fn expire(draft: &mut Draft<'_>) {
    let late = draft.state.tasks().filter_map(|(ticket, task)| {
        let deadline = task.waits_until().filter(|deadline| *deadline <= draft.now)?;
        Some((ticket, DownReason::TimedOut { deadline }))
    });
    for (ticket, reason) in late.collect::<Vec<_>>() {
        down(draft, ticket, &Down { spent: Some(Spent::default()), ..Down::without_a_word(reason) });
    }
}

impl OpenTask {
    /// The deadline of a task that waits for room.
    pub(in crate::kernel) fn waits_until(&self) -> Option<Millis> {
        self.order.as_ref().filter(|_| self.queued)?.terms.deadline
    }
}

/// Stops a child at once if it was told to stop. A child is ended, or left alone as an orphan, only after the tape has the parent's
/// end; that work follows from the state (`due.rs`).
pub(in crate::kernel) fn stop_if_told(draft: &mut Draft<'_>, ticket: Seq) {
    if matches!(draft.state.open.get(&ticket), Some(Open::Task(task)) if task.stop_level == StopLevel::Stop) {
        draft.stop(Stop::Task(ticket));
    }
}

/// Stops the linked children if the running turn is being aborted.
pub(in crate::kernel) fn stop_with_turn(draft: &mut Draft<'_>) {
    let ending = draft.state.turn.as_ref().and_then(|turn| turn.ending.as_ref());
    if matches!(ending, Some(Outcome::Aborted { .. })) {
        stop_linked(draft);
    }
}

/// The DOWN of a task that has no child: it was stopped before its child was made, or, at [`StopLevel::Run`], the child is not
/// there.
pub(crate) fn never_made(stop_level: StopLevel) -> Down {
    let why = "stopped before it began".to_owned();
    let mut down = Down::without_a_word(match stop_level {
        StopLevel::Run => DownReason::Lost { error: "the child is not there".to_owned() },
        StopLevel::Stop | StopLevel::Leave => DownReason::Aborted { why },
        StopLevel::End => DownReason::Ended { why },
    });
    down.spent = Some(Spent::default());
    down
}
