//! The workers of a session: this file starts one for each open ticket that is due, stops them when the core says so, and removes
//! them when they have reported.
//!
//! A change must keep three rules. A ticket has at most one worker. A start waits for the record of its ticket, and for the
//! record of a stop or of the recovery; a stop never waits for the tape. (For the stop of a task the child's watcher is started
//! at once if there is none, because it carries the stop.) A worker that was told to stop stays in `workers` until it has
//! reported or its ticket is closed: otherwise the state would settle the ticket as gone while the worker still runs.

use std::{collections::BTreeMap, sync::Arc};

use tokio_util::sync::CancellationToken;

use crate::{
    actor::{
        child::{KnownAsk, Watcher},
        compaction::{Order, SummaryHandle, Tries},
        governors::Standing,
        session::{
            build,
            live::{Live, TurnLife, Worker},
        },
        trace_link::Traced,
        worker::{CallWorker, Key, RequestJob, RequestWorker},
        worker_context::WorkerContext,
    },
    kernel::{Due, Open, OpenTaskAsk, Report, State, Stop, StopLevel, compaction_prompt},
    model::{Steers, governor::Rank},
    words::ids::Seq,
};

impl Live {
    /// Drops the workers of closed tickets, sends each child its current stop level and what is known of its questions, and
    /// starts a worker for every due ticket that has none. Starts nothing while a stop or the recovery is not yet recorded.
    pub(super) fn begin_what_is_due(&mut self) {
        if self.is_lost() {
            return;
        }
        let open = &self.state.open;
        self.workers.retain(|ticket, _| open.contains_key(ticket));
        self.spans.keep(open);
        self.turn.take_if(|life| self.state.turn.as_ref().is_none_or(|turn| turn.id != life.turn));
        let mut asks = self.known_asks();
        for (ticket, task) in self.state.tasks() {
            if let Some(Worker::Child(watcher)) = self.workers.get(&ticket) {
                watcher.tell(task.stop_level, why_told(&self.state, ticket));
                watcher.know(asks.remove(&ticket).unwrap_or_default());
            }
        }
        self.offer_steering();
        if !self.slot.may_begin() {
            return;
        }
        let due = self.state.due_work(|ticket| self.workers.contains_key(&ticket) || self.slot.has_report(ticket));
        for due in due {
            fault!(self.shared.store.faults(), "session.carry_out", self.slot.id.as_str());
            match due {
                Due::Request(ticket) => self.start_request(ticket),
                Due::Call(ticket) => self.start_call(ticket),
                Due::Summary(ticket) => self.start_compaction(ticket),
                Due::Task(ticket) => self.watch_over(ticket, None),
                Due::Gone(ticket) => {
                    let report = match self.state.open.get(&ticket) {
                        Some(Open::Call(_)) => Report::Returned { result: build::never_ran() },
                        _ => Report::CutOff { partial: Vec::new(), thrown_away: 0 },
                    };
                    self.post(ticket).report(report);
                }
            }
        }
    }

    /// Stops the work that the core names, without waiting for the tape. A request or call without a worker needs nothing here: the
    /// state settles it (see [`Due::Gone`]). `after` is the state that says why.
    pub(super) fn stop(&mut self, who: Stop, after: &State) {
        match who {
            Stop::Request(ticket) | Stop::Call(ticket) => match self.workers.get_mut(&ticket) {
                // The worker stays in `workers` until it has reported: otherwise a running worker would be reported as gone.
                Some(Worker::Request(worker, _)) => worker.cut(),
                Some(Worker::Call(worker)) => worker.stop(),
                _ => {}
            },
            Stop::Task(ticket) => match self.workers.get(&ticket) {
                Some(Worker::Child(watcher)) => watcher.tell(StopLevel::Stop, why_told(after, ticket)),
                // No watcher runs yet; or the task was decided just now, and then there is nothing to stop.
                _ => self.watch_over(ticket, Some((StopLevel::Stop, why_told(after, ticket)))),
            },
        }
    }

    pub(super) fn post(&self, ticket: Seq) -> WorkerContext {
        let turn = self.state.turn.as_ref();
        WorkerContext {
            shared: self.shared.clone(),
            slot: self.slot.clone(),
            incarnation: self.incarnation,
            ticket,
            turn: turn.map(|turn| turn.id),
            step: turn.map(|turn| turn.step),
            traced: Traced::default(),
        }
    }

    /// The same, in the span of the ticket.
    fn post_in_span(&mut self, ticket: Seq) -> WorkerContext {
        let traced = self.spans.of(ticket, &self.state);
        WorkerContext { traced, ..self.post(ticket) }
    }

    fn start_request(&mut self, ticket: Seq) {
        let mut post = self.post_in_span(ticket);
        let turn = self.turn_life();
        let Some(Open::Request(open)) = self.state.open.get(&ticket) else { return };
        let (model, tools) = (open.model.clone(), self.tools.clone());
        let mut steers = Steers::default();
        let job = match build::preparing(&self.shared.hooks, &self.state, open) {
            Some(preparing) => RequestJob::Prepare(Box::new(preparing)),
            None => {
                let mut request = Box::new(build::request(&tools, &self.state, ticket, open));
                request.trace.clone_from(&post.traced.context);
                request.steers = post.steers();
                request.turn = turn;
                steers = request.steers.clone();
                let standing = Standing { rank: self.rank(), tokens: self.state.context.meter.used(open.estimated) };
                let settings = self.state.settings.clone();
                let renewed_for = self.state.turn.as_ref().and_then(|turn| turn.renewed_for.as_ref());
                let key = if renewed_for == Some(&model) { Key::Renewed } else { Key::Renewable };
                RequestJob::Send { model: model.clone(), request, standing, settings, tools, key }
            }
        };
        let doing = format!(
            "model {model}{}",
            if open.attempt > 1 { format!(", try {}", open.attempt) } else { String::new() }
        );
        let node = self.shared.registry.worker(&self.node, &format!("request {ticket}"), "request", doing);
        post.traced.node = Arc::downgrade(node.node());
        let Some(worker) = RequestWorker::start(post, job, node) else { return };
        self.workers.insert(ticket, Worker::Request(worker, steers));
        self.offer_steering();
        fault!(self.shared.store.faults(), "session.request_started", self.slot.id.as_str());
    }

    /// The token that is cancelled when the running turn is over.
    fn turn_life(&mut self) -> Option<CancellationToken> {
        let turn = self.state.turn.as_ref()?.id;
        let new = || TurnLife { turn, over: CancellationToken::new() };
        Some(self.turn.get_or_insert_with(new).over.clone())
    }

    /// Offers the running request the steering messages that may go into its answer.
    fn offer_steering(&self) {
        let worker = self.state.request().and_then(|(ticket, _)| self.workers.get(&ticket));
        if let Some(Worker::Request(_, steers)) = worker {
            steers.offer(self.state.to_send_ahead().map(|waiting| &waiting.message));
        }
    }

    /// Whose work its requests are.
    fn rank(&self) -> Rank {
        if self.state.origin.is_some() { Rank::Background } else { Rank::Person }
    }

    fn start_compaction(&mut self, ticket: Seq) {
        let Some(asked) = compaction_prompt(&self.state, ticket) else { return };
        let (post, tries) = (self.post(ticket), Arc::new(Tries::default()));
        let id = &self.slot.id;
        let order = Order {
            asked,
            key: format!("{id}/{ticket}"),
            of: (id.clone(), self.state.settings.labels.clone()),
            rank: self.rank(),
            id: format!("compaction {ticket}.{} of {id}", self.incarnation),
            under: Some(self.node.clone()),
            tries: tries.clone(),
            tasks: self.slot.tasks(),
        };
        let handle = SummaryHandle::begin(&self.shared, order, move |written| {
            let lost = tries.in_vain(written.is_ok());
            let result = written.map(|(text, usage)| (Arc::from(text), usage)).map_err(|why| why.as_str().into());
            post.report(Report::Summarised { result, lost });
        });
        self.workers.insert(ticket, Worker::Summary { _handle: handle });
    }

    fn start_call(&mut self, ticket: Seq) {
        let post = self.post_in_span(ticket);
        let Some(Open::Call(open)) = self.state.open.get(&ticket) else { return };
        match build::call(&post, &self.state, open, &self.folders, &self.tools) {
            Ok((call, tool, context)) => {
                let id = format!("{} {ticket}", open.facts.tool);
                let node = self.shared.registry.worker(
                    &self.node,
                    &id,
                    "call",
                    build::call_title(open, self.shared.tree_shows_arguments),
                );
                let Some(worker) = CallWorker::start(post, call, (tool, self.tools.clone()), context, node) else {
                    return;
                };
                self.workers.insert(ticket, Worker::Call(worker));
                fault!(self.shared.store.faults(), "session.call_started", self.slot.id.as_str());
            }
            Err(result) => post.report(Report::Returned { result }),
        }
    }

    /// Starts the watcher of a task's child. The watcher sends the child this stop level and why, or those in the state.
    fn watch_over(&mut self, ticket: Seq, told: Option<(StopLevel, Arc<str>)>) {
        let post = self.post_in_span(ticket);
        let Some(Open::Task(task)) = self.state.open.get(&ticket) else { return };
        let above = std::sync::Arc::new(self.state.settings.above_children());
        let (stop_level, why) = told.unwrap_or_else(|| (task.stop_level, why_told(&self.state, ticket)));
        let watcher = Watcher::start(post, task, stop_level, above, why);
        watcher.know(self.known_asks().remove(&ticket).unwrap_or_default());
        self.workers.insert(ticket, Worker::Child(watcher));
    }

    /// The questions of children that this session has, by the ticket of the task, and the answers that people gave.
    fn known_asks(&self) -> BTreeMap<Seq, Vec<KnownAsk>> {
        let mut asks = BTreeMap::<Seq, Vec<KnownAsk>>::new();
        for (ask, OpenTaskAsk { task, asked, answer }) in self.state.task_asks() {
            asks.entry(*task).or_default().push(KnownAsk { ask, below: asked.ask, answer: answer.clone() });
        }
        asks
    }

    /// After a change of settings or rules, sends every child the rules of this session, because no child may do more than its
    /// parent.
    pub(super) fn narrow_children(&self) {
        let above = std::sync::Arc::new(self.state.settings.above_children());
        for worker in self.workers.values() {
            if let Worker::Child(watcher) = worker {
                watcher.narrow(&above);
            }
        }
    }

    /// Removes the worker of a ticket once its report has been taken.
    pub(super) fn forget_worker(&mut self, ticket: Seq) {
        self.workers.remove(&ticket);
    }
}

/// Why the child of a task is told to stop: for a reason of its own, or because its parent has ended. Empty for a child that stops
/// with its parent's turn.
fn why_told(state: &State, ticket: Seq) -> Arc<str> {
    let own = match state.open.get(&ticket) {
        Some(Open::Task(task)) => task.why.clone(),
        _ => None,
    };
    own.or_else(|| state.closed.clone()).unwrap_or_default()
}
