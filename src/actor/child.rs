//! A parent's watch over one child. The watcher brings the child up, carries the parent's orders, rules and answers to it and the
//! child's questions to the parent, and reports its DOWN.
//!
//! A watcher is a task that ends with its parent's incarnation, if not before. The next incarnation starts a new watcher, which
//! finds the child in any state between not made and down. So whatever must not be lost is on a tape, and the child goes on when
//! its watcher is dropped. A DOWN that the parent's tape does not have is reported again by the next watcher; the tape takes it
//! once.
//!
//! A change must keep this. While the newest stop level is above `Run`, a watcher begins to make no child; a stop that comes
//! while the child is being made reaches the child afterwards. A DOWN is final: a child is reported as lost only for a reason
//! that never passes, if the task that brings it up panicked, or after [`STARTS_MAX`] failed starts. For a reason that may pass
//! the watcher looks again; only a parked child is down, though it may be unparked.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    actor::{
        bring_up::{SpawnArgs, bring_up},
        slot::{Admission, Now, Slot},
        worker_context::WorkerContext,
    },
    error::{OpenError, SendError},
    kernel::{
        AnswerAsk, AskAnswer, BeAdopted, Down, DownReason, End, OpenTask, Orphan, Refusal, Report, StopLevel, StopTask,
        TaskAsk, TaskAskOver, TaskAsked, TaskOrder, Tie, kept, never_made,
    },
    permission::Chain,
    tape::TapeError,
    words::ids::Seq,
};

/// The first wait before another look at a child that is unavailable; each further wait is twice as long.
const AGAIN_MIN: Duration = Duration::from_millis(50);
/// The longest such wait.
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// After this many failed starts in a row, with no news from the parent between them, a child is lost. That takes more than a
/// minute.
const STARTS_MAX: u32 = 12;

/// The interval between two looks at a child that an operator stopped.
const STOPPED_LOOK: Duration = Duration::from_millis(500);

/// The rules of a parent and of its ancestors, a chain for each.
type Rules = Arc<Vec<Chain>>;

/// A question of the child that the parent has on its tape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownAsk {
    /// Its ticket on the parent's tape.
    pub(crate) ask: Seq,
    /// Its ticket on the child's tape.
    pub(crate) below: Seq,
    /// The answer that a person gave.
    pub(crate) answer: Option<AskAnswer>,
}

/// The parent's newest order to the child, the rules that the child may not go beyond, and the child's questions that it knows.
#[derive(Clone)]
struct Word {
    stop_level: StopLevel,
    why: Arc<str>,
    above: Rules,
    asks: Arc<Vec<KnownAsk>>,
}

/// The handle of a running watch. Dropping it ends the watch, and changes nothing for the child.
pub(crate) struct Watcher {
    newest: watch::Sender<Word>,
    _watch: AbortOnDropHandle<()>,
}

impl Watcher {
    /// Starts to watch the child of a task. `above` are the rules that the child may not go beyond; `why` is why its parent has
    /// ended, if it has.
    pub(crate) fn start(
        post: WorkerContext,
        task: &OpenTask,
        stop_level: StopLevel,
        above: Rules,
        why: Arc<str>,
    ) -> Watcher {
        let (newest, hears) = watch::channel(Word { stop_level, why, above, asks: Arc::default() });
        let (parent, ticket) = (post.slot.id.clone(), post.ticket);
        let tie = Tie { parent, ticket, link: task.link, depth: task.depth, grant: task.grant };
        let mut order = task.order.clone();
        // A task of a call is in the trace of the call; one of a host in that of the task.
        if let (Some(order), Some(trace)) = (&mut order, &post.traced.context)
            && order.prompt.trace.is_none()
        {
            Arc::make_mut(order).prompt.trace = Some(Arc::new(trace.clone()));
        }
        let spawn = SpawnArgs { child: task.child.clone(), tie, order, asks_first: false };
        let tasks = post.slot.tasks();
        let watch = Watch { post, spawn, newest: hears, was_up: false };
        Watcher { newest, _watch: AbortOnDropHandle::new(tasks.spawn(watch.run())) }
    }

    /// Sends the child a stop level. Does nothing if the child was sent this level or a higher one before.
    pub(crate) fn tell(&self, stop_level: StopLevel, why: Arc<str>) {
        self.newest.send_if_modified(|before| {
            let more = before.stop_level < stop_level;
            if more {
                (before.stop_level, before.why) = (stop_level, why);
            }
            more
        });
    }

    /// Says which questions of the child the parent has on its tape. Answers among them are passed on.
    pub(crate) fn know(&self, asks: Vec<KnownAsk>) {
        self.newest.send_if_modified(|before| {
            let differ = *before.asks != asks;
            if differ {
                before.asks = Arc::new(asks);
            }
            differ
        });
    }

    /// Sends the child the rules of its parent after they have changed.
    pub(crate) fn narrow(&self, above: &Rules) {
        self.newest.send_modify(|before| before.above = above.clone());
    }
}

struct Watch {
    post: WorkerContext,
    spawn: SpawnArgs,
    newest: watch::Receiver<Word>,
    /// Whether the child came up in the newest look.
    was_up: bool,
}

/// The result of one look at a child.
enum Look {
    /// The watch is over, with this report.
    Over(Box<Report>),
    /// Look again: the reason may pass.
    Again,
    /// Look again, at most [`STARTS_MAX`] times in a row: the child itself did not start, and nothing outside prevents it.
    Failed(String),
    /// The runtime is shutting down, an operator stopped the child, or the watcher's handle is gone.
    Closing,
}

impl Watch {
    async fn run(mut self) {
        let (mut wait, mut starts) = (AGAIN_MIN, 0);
        loop {
            let seen = self.look().await;
            if std::mem::take(&mut self.was_up) {
                (wait, starts) = (AGAIN_MIN, 0);
            }
            match seen {
                Look::Over(report) => return self.post.report(*report),
                Look::Closing if self.post.shared.slots.admission() == Admission::Closed => {
                    return std::future::pending().await;
                }
                Look::Closing => self.until_awake_again().await,
                Look::Again => starts = 0,
                Look::Failed(error) => {
                    starts += 1;
                    if starts >= STARTS_MAX {
                        let lost = self.lost(error);
                        return self.post.report(lost);
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(AGAIN_MAX),
                // News may change the result, so the count begins again.
                _ = self.newest.changed() => (wait, starts) = (AGAIN_MIN, 0),
            }
        }
    }

    /// After an operator stopped the child: leaves it alone until it is woken, or its parent has news for it.
    async fn until_awake_again(&mut self) {
        let child = self.post.shared.slot(&self.spawn.child);
        while !child.is_awake() {
            tokio::select! {
                () = tokio::time::sleep(STOPPED_LOOK) => {}
                _ = self.newest.changed() => return,
            }
        }
    }

    fn down(&self, reason: DownReason) -> Look {
        Look::Over(Box::new(Report::TaskDown { down: Down::without_a_word(reason) }))
    }

    /// The report for a child that cannot be brought up.
    fn lost(&self, error: String) -> Report {
        match self.newest.borrow().stop_level {
            StopLevel::Leave => Report::TaskLeft,
            _ => Report::TaskDown { down: Down::without_a_word(DownReason::Lost { error }) },
        }
    }

    fn left(&self) -> Look {
        Look::Over(Box::new(Report::TaskLeft))
    }

    /// Brings the child up, and stays with it until it is down or does not answer any more.
    async fn look(&mut self) -> Look {
        let Word { stop_level, above, .. } = self.newest.borrow_and_update().clone();
        let mut spawn = self.spawn.clone();
        spawn.order = spawn.order.filter(|_| stop_level == StopLevel::Run).map(|order| under(order, &above));
        // A task of its own, so that a bring-up that has begun goes to its end even if this watch is dropped.
        let up = self.post.slot.tasks().spawn(bring_up(self.post.shared.clone(), spawn)).await;
        let error = match up {
            Ok(Ok(child)) => {
                self.was_up = true;
                return self.stay(&child).await;
            }
            Ok(Err(error)) => error,
            Err(error) => return Look::Over(Box::new(self.lost(format!("failed to start it: {error}")))),
        };
        match (error, stop_level) {
            (OpenError::Closed | OpenError::Stopped { .. }, _) => Look::Closing,
            // A parked child cannot be told that it is an orphan, so it is told later.
            (OpenError::Parked { .. }, StopLevel::Leave) => Look::Again,
            (OpenError::Parked { .. }, _) => self.down(DownReason::Parked),
            (OpenError::Tape(TapeError::Missing { .. }), StopLevel::Leave) => self.left(),
            (OpenError::Tape(TapeError::Missing { .. }), stop_level) => {
                Look::Over(Box::new(Report::TaskDown { down: never_made(stop_level) }))
            }
            // Another process has claimed the child, or too many sessions are awake. That may pass.
            (OpenError::Tape(TapeError::Claimed { .. }) | OpenError::TooMany { .. }, _) => Look::Again,
            // The child was asked for while its task still waited for room.
            (OpenError::Queued { .. }, _) => Look::Again,
            // A DOWN is final, so it is reported only for errors that never pass by themselves: a tape that is damaged or too new,
            // or an order that no tape takes.
            (error, _) if error.is_for_good() => Look::Over(Box::new(self.lost(error.to_string()))),
            (error, _) => {
                let (session, parent, text) = (&self.spawn.child, &self.spawn.tie.parent, error.to_string());
                tracing::warn!(%session, %parent, error = text, "a child did not come up; retrying");
                match error {
                    OpenError::NotStarted { .. } => Look::Failed(text),
                    _ => Look::Again,
                }
            }
        }
    }

    async fn stay(&mut self, child: &Arc<Slot>) -> Look {
        if let (Some(child), Some(parent)) = (child.node(), self.post.slot.node()) {
            child.show_under(&parent);
        }
        let (mut said, mut under) = (StopLevel::Run, None);
        let mut open: Option<Vec<Arc<TaskAsk>>> = None;
        loop {
            let Word { stop_level, why, above, asks } = self.newest.borrow_and_update().clone();
            // Sent again after each crash; the child writes only what is new to it. A child that is left must not get a parent
            // again.
            if stop_level != StopLevel::Leave && under.as_ref() != Some(&above) {
                if let Err(look) = self.take_over(child, &above).await {
                    return look;
                }
                under = Some(above);
            }
            if stop_level > said {
                said = stop_level;
                match (self.say(child, stop_level, &why).await, stop_level) {
                    (Ok(_), StopLevel::Leave) => return self.left(),
                    (Ok(_), _) => {}
                    (Err(SendError::Parked), StopLevel::Leave) => return Look::Again,
                    (Err(error), _) => return self.gone(&error),
                }
            }
            // Before the child has said which questions are open, none counts as over.
            if let Some(open) = &open
                && let Err(error) = self.carry_asks(child, open, &asks).await
            {
                return self.gone(&error);
            }
            let known = open.as_ref().map(|open| open.iter().map(|asked| asked.ask).collect());
            // The DOWN first: a child that is over may sleep, and then it takes no further question.
            tokio::select! {
                biased;
                down = ended(child, &self.spawn.tie) => return match down {
                    Ok(Some(down)) => {
                        Look::Over(Box::new(Report::TaskDown { down: (*down).clone() }))
                    }
                    Ok(None) => self.down(DownReason::Lost { error: "it is not the child of this task".to_owned() }),
                    Err(error) => self.gone(&error),
                },
                now_open = asks_of(child, known) => match now_open {
                    Ok(asked) => open = Some(asked),
                    Err(error) => return self.gone(&error),
                },
                changed = self.newest.changed() => if changed.is_err() {
                    return Look::Closing;
                },
            }
        }
    }

    /// Carries the questions of the child to the parent's tape, and the answers on the parent's tape to the child. Each is carried
    /// again after a crash: the receiver takes it once.
    async fn carry_asks(&self, child: &Arc<Slot>, open: &[Arc<TaskAsk>], known: &[KnownAsk]) -> Result<(), SendError> {
        let (parent, task) = (&self.post.slot, self.spawn.tie.ticket);
        for asked in open.iter().filter(|asked| known.iter().all(|known| known.below != asked.ask)) {
            parent.ask(TaskAsked { task, asked: asked.clone() }).await?;
        }
        for KnownAsk { ask, below, answer } in known {
            match answer {
                _ if open.iter().all(|asked| asked.ask != *below) => {
                    parent.ask(TaskAskOver { ask: *ask }).await?;
                }
                Some(AskAnswer { grant, who, rules }) => {
                    let rules = Some(rules.clone());
                    let answer = AnswerAsk { ask: *below, grant: grant.clone(), who: who.clone(), rules, digest: None };
                    match child.ask(answer).await {
                        // It is over there: the child says so next.
                        Ok(_) | Err(SendError::Refused(Refusal::AskClosed { .. })) => {}
                        Err(error) => return Err(error),
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    /// What an error of the child means for its task; or of the parent, when a question is carried to it.
    fn gone(&self, error: &SendError) -> Look {
        match error {
            SendError::Parked => self.down(DownReason::Parked),
            SendError::Closed | SendError::Stopped => Look::Closing,
            _ => Look::Again,
        }
    }

    /// Tells the child its parent, and the rules of the parent and its ancestors.
    async fn take_over(&self, child: &Arc<Slot>, above: &[Chain]) -> Result<(), Look> {
        let (tie, above) = (self.spawn.tie.clone(), above.to_vec());
        let next = self.spawn.order.as_ref().filter(|order| order.again);
        let next = next.map(|order| Box::new((order.prompt.clone(), order.terms.clone())));
        match child.ask(BeAdopted { tie, above, next }).await {
            Ok(_) => Ok(()),
            Err(SendError::Refused(refusal @ Refusal::Ended)) => {
                Err(self.down(DownReason::Ended { why: refusal.to_string() }))
            }
            Err(SendError::Refused(refusal @ Refusal::NotAnOrphan { .. })) => {
                Err(self.down(DownReason::Lost { error: refusal.to_string() }))
            }
            Err(error) => Err(self.gone(&error)),
        }
    }

    async fn say(&self, child: &Arc<Slot>, stop_level: StopLevel, why: &str) -> Result<(), SendError> {
        let Tie { parent, ticket, .. } = self.spawn.tie.clone();
        let why = match stop_level {
            StopLevel::Stop if !why.is_empty() => why.to_owned(),
            StopLevel::Run | StopLevel::Stop => format!("stopped with its parent {parent}"),
            // The parent's reason may already have the greatest length, so the whole text is cut again.
            StopLevel::End | StopLevel::Leave => kept(format!("its parent {parent} has ended: {why}")),
        };
        let said = match stop_level {
            StopLevel::Run => return Ok(()),
            StopLevel::Stop => child.ask(StopTask { parent, ticket, why }).await,
            StopLevel::End => child.ask(End { reason: why }).await,
            StopLevel::Leave => child.ask(Orphan { parent, ticket, why }).await,
        };
        said.map(drop)
    }
}

/// The order with the rules that its parent has now. A task may wait for room for a long time, and its parent may do less since;
/// the child is under all of these rules from its first entry on.
fn under(mut order: Arc<TaskOrder>, above: &[Chain]) -> Arc<TaskOrder> {
    let more: Vec<_> = above.iter().filter(|chain| !order.settings.above.contains(chain)).cloned().collect();
    if !more.is_empty() {
        Arc::make_mut(&mut order).settings.above.extend(more);
    }
    order
}

/// How the child's task ended, from the child's tape; `None` if the session is not the child of this task.
async fn ended(child: &Arc<Slot>, tie: &Tie) -> Result<Option<Arc<Down>>, SendError> {
    let (parent, ticket) = (tie.parent.clone(), tie.ticket);
    let end = move |now: &Now| {
        let origin = now.state.origin.as_ref().filter(|origin| origin.parent == parent && origin.ticket == ticket);
        origin.map_or(Some(Ok(None)), |origin| Some(Ok(Some(origin.end.clone()?))))
    };
    child.until(end).await
}

/// The open questions of a child to people, in the form that its parent gets. Answers at once if `known` is `None`, else when the
/// tickets differ from it.
async fn asks_of(child: &Arc<Slot>, known: Option<Vec<Seq>>) -> Result<Vec<Arc<TaskAsk>>, SendError> {
    let others = move |now: &Now| {
        let is_known = |known: &Vec<Seq>| now.state.unanswered().eq(known.iter().copied());
        (!known.as_ref().is_some_and(is_known)).then(|| Ok(now.state.questions()))
    };
    child.until_in_its_sleep(others).await
}
