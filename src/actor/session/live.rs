//! One incarnation of a session ([`Live`]): what it holds, and the rounds in which it takes work out of its slot.
//!
//! A change must keep that those who wait look before each piece of work, so that none misses a turn; and that an incarnation yields to
//! other actors after [`WORK_PER_WAKE`] pieces.

use std::{collections::BTreeMap, sync::Arc};

use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    actor::{
        child::Watcher,
        compaction::SummaryHandle,
        session::{build::Folders, present, spans::Spans},
        shared::Shared,
        slot::{Slot, Work},
        toolset::Toolset,
        worker::{CallWorker, RequestWorker},
    },
    error::PassivateError,
    event::{Event, events_of},
    fault::InFlight,
    kernel::{Decision, Entry, Env, Input, State, decide, decide_and_watch},
    model::Steers,
    supervisor::{NodeState, shell::ExitError},
    tape::TapeError,
    words::clock::Clock,
    words::ids::{Millis, Seq},
};

#[cfg(feature = "fault-injection")]
use crate::actor::session::held_back::Tape;
#[cfg(not(feature = "fault-injection"))]
use crate::tape::OpenTape as Tape;

/// The most pieces of work that an actor takes before it yields to other actors.
const WORK_PER_WAKE: usize = 64;

/// What the actor does after a round of work.
#[derive(Debug)]
pub(super) enum Then {
    GoOn,
    Sleep,
    /// Its tape is another's: end here.
    Leave(TapeError),
}

/// The handle of the worker of one ticket. Dropping it ends the work; of a child only the watch, and the child goes on. A request
/// that was cut off ends without it. A request has the line on which steering messages go into its answer.
pub(super) enum Worker {
    Request(RequestWorker, Steers),
    Call(CallWorker),
    Summary { _handle: SummaryHandle },
    Child(Watcher),
}

/// The one decision that is being written.
pub(super) struct Writing {
    pub(super) entries: Arc<Vec<Entry>>,
    pub(super) after: Arc<State>,
    pub(super) events: Option<Vec<Arc<Event>>>,
    /// Of a decision that opens a request with other tools than the one before: these. They are those of the open calls still, where
    /// the tape refuses the decision.
    pub(super) tools_before: Option<Arc<Toolset>>,
    /// Once it was handed to a thread.
    pub(super) in_flight: Option<InFlight>,
}

/// The turn that requests were made for. What models keep for its next request is closed with it.
pub(super) struct TurnLife {
    pub(super) turn: Seq,
    pub(super) over: CancellationToken,
}

impl Drop for TurnLife {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

/// One incarnation of a session.
pub(super) struct Live {
    pub(super) shared: Arc<Shared>,
    pub(super) slot: Arc<Slot>,
    pub(super) node: Arc<NodeState>,
    pub(super) incarnation: u32,
    /// The runtime's clock, moved so that it never reads earlier than the last entry of the tape that this incarnation began
    /// with.
    pub(super) clock: Clock,
    pub(super) tape: Tape,
    /// The state after the last recorded entry, as it is published in the slot.
    pub(super) state: Arc<State>,
    /// The decision in flight: the tape has answered "later", and answers through the slot.
    pub(super) writing: Option<Writing>,
    /// The workers of open tickets, by ticket; at most one each.
    pub(super) workers: BTreeMap<Seq, Worker>,
    /// The moment that the one timer is set for, and its task.
    pub(super) timer: Option<(Millis, AbortOnDropHandle<()>)>,
    /// The session's folders, for its calls.
    pub(super) folders: Folders,
    /// The tools of the newest request, as the slot keeps them; before the first one those that there were when this incarnation
    /// began.
    pub(super) tools: Arc<Toolset>,
    pub(super) spans: Spans,
    /// The turn that the newest request was made for, until it is over.
    pub(super) turn: Option<TurnLife>,
    /// Why nothing may be begun, written or published any more: another owner has the tape.
    lost: Option<TapeError>,
}

impl Live {
    pub(super) fn new(
        shared: Arc<Shared>,
        slot: Arc<Slot>,
        node: Arc<NodeState>,
        incarnation: u32,
        tape: Tape,
        state: Arc<State>,
    ) -> Live {
        let clock = shared.clock.not_before(state.time);
        let spans = Spans::new(slot.clone(), shared.trace_link.clone());
        let (workers, folders) = (BTreeMap::new(), Folders::of(&shared.store, &slot.id));
        let tools = slot.kept_tools().unwrap_or_else(|| shared.tools.now());
        slot.keep_tools(tools.clone());
        Live {
            shared,
            slot,
            node,
            incarnation,
            clock,
            tape,
            state,
            writing: None,
            workers,
            timer: None,
            folders,
            tools,
            spans,
            turn: None,
            lost: None,
        }
    }

    /// The tape is another's by now: the actor leaves, with all of its workers, before it takes any other work.
    pub(super) fn lose(&mut self, why: TapeError) {
        tracing::warn!(session = %self.slot.id, error = %why, "the session goes on elsewhere");
        self.lost = Some(why);
    }

    /// Whether nothing may be begun any more.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The first piece of work of an incarnation: its recovery. Nobody who waits is answered yet.
    pub(super) fn recover(&mut self) -> Result<(), ExitError> {
        if let Some(work) = self.slot.take(&self.state, self.now()) {
            self.carry_out(work)?;
        }
        self.after_work();
        self.slot.wake_again();
        Ok(())
    }

    /// Takes work out of the slot until nothing is left, at most [`WORK_PER_WAKE`] pieces. Those who wait look before each piece.
    pub(super) fn work(&mut self) -> Result<Then, ExitError> {
        for before in 0..WORK_PER_WAKE {
            if let Some(why) = self.lost.take() {
                return Ok(Then::Leave(why));
            }
            let (work, waiting) = self.slot.round(&self.state, self.now());
            self.slot.look(waiting);
            let Some(work) = work else {
                self.after_work();
                return Ok(Then::GoOn);
            };
            // While it has a piece in hand, the node shows the session as it was before that one.
            if before > 0 {
                self.show();
            }
            if let Then::Sleep = self.carry_out(work)? {
                return Ok(Then::Sleep);
            }
        }
        self.after_work();
        // More work may wait; other actors go first.
        self.slot.wake_again();
        Ok(Then::GoOn)
    }

    pub(super) fn carry_out(&mut self, work: Work) -> Result<Then, ExitError> {
        let (what, number) = work.about();
        self.node.take_up(what, number, || present::in_full(&work));
        match work {
            Work::Decide(inputs) => {
                fault!(self.shared.store.faults(), "session.took", self.slot.id.as_str());
                self.record(&inputs)?;
            }
            Work::Stop(input) => {
                let Decision { stops, after, .. } =
                    self.decide(std::slice::from_ref(&*input), &self.shared.tools.now()).0;
                stops.into_iter().for_each(|who| self.stop(who, &after));
            }
            Work::Settled(result, lost) => {
                fault!(self.shared.store.faults(), "session.settled", self.slot.id.as_str());
                if let Some(why) = lost {
                    self.lose(why);
                }
                match (self.writing.take(), result) {
                    (Some(writing), result) => self.settled(writing, result.map(drop))?,
                    (None, Err(error)) if error.is_lost() => self.lose(error),
                    (None, _) => {}
                }
            }
            Work::Sleep => {
                if self.fall_asleep() {
                    return Ok(Then::Sleep);
                }
            }
        }
        Ok(Then::GoOn)
    }

    /// Marks the session as asleep if nothing keeps it awake. Returns whether it did.
    fn fall_asleep(&mut self) -> bool {
        // First sets the timer.
        self.after_work();
        let why = match () {
            () if !self.may_sleep() => "a turn, an ask, a message or a task is open",
            // The timer's task ends with this incarnation, so it does not count.
            () if self.slot.tasks().len() > usize::from(self.timer.is_some()) => PassivateError::PASSING,
            () => return self.slot.fall_asleep(),
        };
        self.slot.stays_awake(why);
        false
    }

    /// Whether nothing is open, no worker runs, no append is in flight, and nobody waits for an answer from the state.
    pub(super) fn may_sleep(&self) -> bool {
        self.state.may_sleep() && self.writing.is_none() && self.workers.is_empty() && !self.slot.is_waited_for()
    }

    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    pub(super) fn after_work(&mut self) {
        fault!(self.shared.store.faults(), "session.worked", self.slot.id.as_str());
        self.arm_timer();
        self.show();
        self.slot.set_idle(self.may_sleep());
    }

    /// Shows the session on its node as it is.
    fn show(&self) {
        let presented = present::presented(&self.state, self.slot.is_refused());
        self.node.present(presented, |payload| payload.put(present::figures(&self.state)));
    }

    /// Sets the one timer to the next moment that the state or the mailbox names.
    fn arm_timer(&mut self) {
        let due = self.slot.due(&self.state);
        if self.timer.as_ref().map(|(at, _)| *at) == due {
            return;
        }
        self.timer = None;
        let Some(due) = due else { return };
        let (slot, at) = (self.slot.clone(), self.clock.instant(due));
        let timer = self.slot.tasks().spawn(async move {
            tokio::time::sleep_until(at).await;
            slot.wake();
        });
        self.timer = Some((due, AbortOnDropHandle::new(timer)));
    }

    /// Decides about these inputs, with these tools for the next request. The events of the decision come along if somebody listens
    /// now.
    pub(super) fn decide(&self, inputs: &[Input], tools: &Toolset) -> (Decision, Option<Vec<Arc<Event>>>) {
        let audience = self.slot.audience();
        let rules = self.shared.host_rules();
        let env = Env {
            globs: &self.shared.globs,
            host_rules: rules.as_deref(),
            tools_tokens: tools.tokens,
            windows: &self.shared.models,
            toolbox_hash: &tools.hash,
            permissions: tools.toolbox.permissions(),
            asks_are_heard: audience.answers_asks,
            jitter: self.draw(),
        };
        let now = self.now();
        if !audience.hears_events && !self.shared.observers.watch() {
            return (decide(&self.state, inputs, &env, now), None);
        }
        let mut events = Vec::new();
        let watch = |before: &State, entry: &Entry| events.extend(events_of(before, entry).map(Arc::new));
        let decision = decide_and_watch(&self.state, inputs, &env, now, watch);
        (decision, Some(events))
    }

    /// A number from 0 up to 1 that differs between sessions, incarnations and places on the tape. For jitter, not for secrets.
    fn draw(&self) -> f64 {
        let hash = blake3::hash(format!("{}/{}/{}", self.slot.id, self.incarnation, self.state.seq).as_bytes());
        let [a, b, c, d, ..] = *hash.as_bytes();
        f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
    }
}
