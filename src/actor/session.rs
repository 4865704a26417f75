//! A session's actor: the shell round the core. It takes inputs out of its mailbox, asks the core for a decision, has the
//! entries written, and then does as the state says. Its handler never awaits a model, a tool, a hook, a person or a slow disk.
//!
//! **The tape is the state.** The actor holds no state of the conversation that is not on the tape, except the one decision that
//! is being written ([`Writing`]). Until the tape has it, its inputs stay in the mailbox and the state is what it was; events,
//! answers and starts of work come after. A stop never waits for the tape. After a crash, a panic of a tape engine or a slow
//! disk, the inputs are still there; the mailbox (`kernel/mailbox.rs`) decides what becomes of them when the disk refuses an
//! append, or when a second incarnation dies over them. The workers and the timer of an incarnation end with it, and the next one
//! starts them from the state.
//!
//! A change must not start work, answer a command or publish before the append is recorded, must not let a stop wait for it, and
//! must not make a second append while one is in flight. [`Behaviour::MAY_WAIT`] is `false`: a handler that waits panics in debug
//! builds.

mod build;
#[cfg(feature = "fault-injection")]
mod held_back;
mod load;
mod logged;
mod present;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use load::LOAD_WAIT;

use build::Folders;
use work::Worker;

use std::{collections::BTreeMap, sync::Arc};

use tokio_util::task::AbortOnDropHandle;

use crate::{
    actor::{
        observers::Tell,
        shared::Shared,
        slot::{Slot, Wake, Work},
        tape_store::Chore,
    },
    error::PassivateError,
    event::{Event, EventKind, Ring, events_of},
    kernel::{Decision, Entry, Env, Input, Record, State, decide, decide_and_watch},
    supervisor::{
        ExitReason, NodeState,
        shell::{Behaviour, Context, ExitError, Init},
    },
    tape::{Appended, Store, TapeError, TapeStoreExt as _},
    words::clock::Clock,
    words::ids::{Millis, Seq},
};
#[cfg(feature = "fault-injection")]
use held_back::Tape;

#[cfg(not(feature = "fault-injection"))]
use crate::tape::OpenTape as Tape;

/// The most pieces of work that an actor takes before it yields to other actors.
const WORK_PER_WAKE: usize = 64;

/// The behaviour of a session's actor. Each incarnation rebuilds its state from the tape.
pub(crate) struct SessionActor {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    live: Option<Live>,
}

impl SessionActor {
    pub(crate) fn new(shared: Arc<Shared>, slot: Arc<Slot>) -> SessionActor {
        SessionActor { shared, slot, live: None }
    }
}

impl Behaviour for SessionActor {
    type Msg = Wake;

    const TELLS_ITS_WORK: bool = true;
    const MAY_WAIT: bool = false;

    async fn init(&mut self, cx: &mut Context<Wake>) -> Result<Init, ExitError> {
        self.load(cx.node()).await?;
        let Some((tape, state)) = self.slot.prepared() else {
            return Err(ExitError(ExitReason::Error("its tape went to another start".to_owned())));
        };
        let unpublished = self.unpublished(&state).await;
        let calls = self.facts(&state).await;
        #[cfg(feature = "fault-injection")]
        let tape = Tape::new(tape, self.shared.hold_back_appends);
        fault!(self.shared.store.faults(), "session.init", self.slot.id.as_str());
        let state = Arc::new(state);
        let incarnation = self.slot.begin_incarnation(cx.mailbox(), cx.node(), Input::Recover { calls }, &state);
        if self.shared.slots.unpark(&self.slot.id) {
            // The parking was noted after the session had been unparked: correct the record.
            let (shared, id) = (self.shared.clone(), self.slot.id.clone());
            self.shared.tasks.spawn_on(async move { drop(shared.write_parked(&id).await) }, &self.shared.tokio);
        }
        fault!(self.shared.store.faults(), "session.begun", self.slot.id.as_str());
        let mut live = Live::new(self.shared.clone(), self.slot.clone(), cx.node().clone(), incarnation, tape, state);
        live.tell(unpublished);
        // Only the recovery: the rest is done in `handle`, so that a crash over it is no failed start.
        live.recover()?;
        fault!(self.shared.store.faults(), "session.recovered", self.slot.id.as_str());
        self.live = Some(live);
        Ok(Init::Run)
    }

    async fn handle(&mut self, _: Wake, cx: &mut Context<Wake>) -> Result<(), ExitError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        if live.work()? == Then::Sleep {
            // Dropping `live` gives the tape back; the next message finds the session passive.
            self.live = None;
            cx.exit();
        }
        Ok(())
    }

    async fn terminate(&mut self, reason: &ExitReason, _: &mut Context<Wake>) {
        if let Some(mut live) = self.live.take()
            && !reason.is_abnormal()
        {
            live.note_stop();
        }
    }

    fn describe(_: &Wake) -> &'static str {
        "wake"
    }
}

/// What the actor does after a round of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    Sleep,
}

/// The one decision that is being written.
struct Writing {
    entries: Vec<Entry>,
    after: Arc<State>,
    events: Vec<Arc<Event>>,
}

/// One incarnation of a session.
struct Live {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    node: Arc<NodeState>,
    incarnation: u32,
    /// The runtime's clock, moved so that it never reads earlier than the last entry of the tape that this incarnation began
    /// with.
    clock: Clock,
    tape: Tape,
    /// The state after the last recorded entry, as it is published in the slot.
    state: Arc<State>,
    /// The decision in flight: the tape has answered "later", and answers through the slot.
    writing: Option<Writing>,
    /// The workers of open tickets, by ticket; at most one each.
    workers: BTreeMap<Seq, Worker>,
    /// The moment that the one timer is set for, and its task.
    timer: Option<(Millis, AbortOnDropHandle<()>)>,
    /// The session's folders, for its calls.
    folders: Folders,
}

impl Live {
    fn new(
        shared: Arc<Shared>,
        slot: Arc<Slot>,
        node: Arc<NodeState>,
        incarnation: u32,
        tape: Tape,
        state: Arc<State>,
    ) -> Live {
        let clock = shared.clock.not_before(state.time);
        let (workers, folders) = (BTreeMap::new(), Folders::of(&shared.store, &slot.id));
        Live { shared, slot, node, incarnation, clock, tape, state, writing: None, workers, timer: None, folders }
    }

    /// Publishes the entries that an earlier incarnation had put on the tape and did not publish.
    fn tell(&mut self, unpublished: Option<(State, Vec<Entry>)>) {
        if let Some((mut before, entries)) = unpublished {
            let mut events = Vec::new();
            for entry in &entries {
                events.extend(events_of(&before, entry).map(Arc::new));
                before.apply(entry);
            }
            self.tell_of(&entries, events, self.slot.publish(self.state.clone(), self.state.seq));
        }
        drop(self.slot.publish(self.state.clone(), self.state.seq));
    }

    /// The first piece of work of an incarnation: its recovery. Nobody who waits is answered yet.
    fn recover(&mut self) -> Result<(), ExitError> {
        if let Some(work) = self.slot.take(&self.state, self.now()) {
            self.carry_out(work)?;
        }
        self.after_work();
        self.slot.wake_again();
        Ok(())
    }

    /// Takes work out of the slot until nothing is left, at most [`WORK_PER_WAKE`] pieces. Those who wait look before each piece.
    fn work(&mut self) -> Result<Then, ExitError> {
        for _ in 0..WORK_PER_WAKE {
            let (work, waiting) = self.slot.round(&self.state, self.now());
            self.slot.look(waiting);
            let Some(work) = work else {
                self.after_work();
                return Ok(Then::GoOn);
            };
            if self.carry_out(work)? == Then::Sleep {
                return Ok(Then::Sleep);
            }
        }
        self.after_work();
        // More work may wait; other actors go first.
        self.slot.wake_again();
        Ok(Then::GoOn)
    }

    fn carry_out(&mut self, work: Work) -> Result<Then, ExitError> {
        let (what, number) = work.about();
        self.node.take_up(what, number, || present::in_full(&work));
        match work {
            Work::Decide(inputs) => {
                fault!(self.shared.store.faults(), "session.took", self.slot.id.as_str());
                self.record(&inputs)?;
            }
            Work::Stop(input) => {
                let Decision { stops, after, .. } = self.decide(std::slice::from_ref(&*input)).0;
                stops.into_iter().for_each(|who| self.stop(who, &after));
            }
            Work::Settled(result) => {
                fault!(self.shared.store.faults(), "session.settled", self.slot.id.as_str());
                if let Some(writing) = self.writing.take() {
                    self.settled(writing, result.map(drop))?;
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

    /// Decides about these inputs, and hands the entries to the tape.
    fn record(&mut self, inputs: &[Input]) -> Result<(), ExitError> {
        inputs.iter().filter_map(Input::reported).for_each(|ticket| self.forget_worker(ticket));
        let (decision, events) = self.decide(inputs);
        let Decision { entries, stops, replies, after } = decision;
        fault!(self.shared.store.faults(), "session.decided", self.slot.id.as_str());
        stops.into_iter().for_each(|who| self.stop(who, &after));
        self.slot.handed_over(after.seq, replies);
        let writing = Writing { entries, after: Arc::new(after), events };
        if writing.entries.is_empty() {
            return self.settled(writing, Ok(()));
        }
        match self.write(&writing) {
            Appended::Now(result) => {
                fault!(self.shared.store.faults(), "session.appended", self.slot.id.as_str());
                if inputs.len() > 1 && matches!(inputs.last(), Some(Input::Recover { .. } | Input::Hold)) {
                    fault!(self.shared.store.faults(), "session.late_report", self.slot.id.as_str());
                }
                self.settled(writing, result.map(drop))
            }
            Appended::Later => {
                fault!(self.shared.store.faults(), "session.appended", self.slot.id.as_str());
                self.writing = Some(writing);
                Ok(())
            }
        }
    }

    fn decide(&self, inputs: &[Input]) -> (Decision, Vec<Arc<Event>>) {
        let audience = self.slot.audience();
        let env = Env {
            globs: &self.shared.globs,
            host_rules: self.shared.rules.as_ref(),
            tools_tokens: self.shared.tools_tokens,
            windows: &self.shared.models,
            toolbox_hash: &self.shared.toolbox_hash,
            permissions: self.shared.toolbox.permissions(),
            asks_are_heard: audience.answers_asks,
            jitter: self.draw(),
        };
        let now = self.now();
        // Hooks are the observers.
        if !audience.hears_events && self.shared.hooks.is_empty() {
            return (decide(&self.state, inputs, &env, now), Vec::new());
        }
        let mut events = Vec::new();
        let watch = |before: &State, entry: &Entry| events.extend(events_of(before, entry).map(Arc::new));
        let decision = decide_and_watch(&self.state, inputs, &env, now, watch);
        (decision, events)
    }

    /// A number from 0 up to 1 that differs between sessions, incarnations and places on the tape. For jitter, not for secrets.
    fn draw(&self) -> f64 {
        let hash = blake3::hash(format!("{}/{}/{}", self.slot.id, self.incarnation, self.state.seq).as_bytes());
        let [a, b, c, d, ..] = *hash.as_bytes();
        f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
    }

    fn write(&mut self, writing: &Writing) -> Appended {
        // Marks the session in the store's list of open turns. A missing mark would lose a turn; a mark too many wakes the session
        // once more.
        let begins = !self.state.is_unfinished() && writing.after.is_unfinished();
        if begins && let Err(error) = self.shared.store.mark_open(&self.slot.id) {
            return Appended::Now(Err(error));
        }
        let unwritable = |error| Appended::Now(Err(build::unwritable(&self.slot.id, error)));
        if let [entry @ Entry { record: Record::State(state), .. }] = &writing.entries[..] {
            let name = state.anchor.as_ref().map_or("anchor", |mark| mark.name.as_str());
            return match entry.to_tape() {
                Ok(line) => self.tape.begin_anchor(name, &line),
                Err(error) => unwritable(error),
            };
        }
        match writing.entries.iter().map(Entry::to_tape).collect::<Result<Vec<_>, _>>() {
            Ok(lines) => self.tape.append(&lines),
            Err(error) => unwritable(error),
        }
    }

    /// Notes on the tape that this incarnation ends in order, if a turn is open. The tape's answer is not waited for. While an append
    /// is in flight there is no note, and the next recovery counts as one from a crash.
    fn note_stop(&mut self) {
        if self.writing.is_some() {
            return;
        }
        let Decision { entries, after, .. } = self.decide(&[Input::Stop]).0;
        if !entries.is_empty() {
            drop(self.write(&Writing { entries, after: Arc::new(after), events: Vec::new() }));
        }
    }

    /// Takes the tape's answer: the decision becomes the state and is published, or it never took effect.
    fn settled(&mut self, writing: Writing, result: Result<(), TapeError>) -> Result<(), ExitError> {
        let Writing { entries, after, events } = writing;
        let Err(error) = result else {
            let before = std::mem::replace(&mut self.state, after);
            let ring = self.slot.publish(self.state.clone(), self.state.seq);
            self.tell_of(&entries, events, ring);
            logged::log_failures(&self.slot.id, &before, &entries);
            fault!(self.shared.store.faults(), "session.published", self.slot.id.as_str());
            if self.slot.recorded() {
                // The disk's reserve is to be remade. That may wait for the disk, so the tape store does it.
                self.shared.orders.chore(Chore::Reserve);
            }
            let anchored = entries.iter().any(|entry| matches!(entry.record, Record::State(_)));
            let compacted = self.state.context.compactions > before.context.compactions;
            if (compacted || self.state.wants_anchor(&before)) && !anchored {
                // With a new anchor the session opens without reading what came before.
                self.slot.want_anchor();
            }
            self.unmark();
            self.begin_what_is_due();
            return Ok(());
        };
        self.unmark();
        let told = self.slot.refused(&error, self.now());
        if !matches!(error, TapeError::TooLarge { .. } | TapeError::AnchorExists { .. }) || told == 0 {
            tracing::warn!(session = %self.slot.id, %error, "failed to write the tape");
            self.post(self.state.seq).show(0, EventKind::StorageFailed { error: error.to_string() });
        }
        if error.is_full() {
            // The reserve is released so that open tickets can still be closed on the tape.
            let released = self.shared.store.files().is_some_and(Store::release_reserve);
            tracing::warn!(session = %self.slot.id, released, "the disk is full");
        }
        match error {
            // The state here no longer agrees with the tape: the next incarnation reads the tape again.
            TapeError::Changed { .. } | TapeError::Gap { .. } | TapeError::Damaged(_) => {
                Err(ExitError(ExitReason::Error(format!("its tape cannot be written any more: {error}"))))
            }
            _ => {
                // A refused stop that was given up no longer holds back the start of work.
                self.begin_what_is_due();
                Ok(())
            }
        }
    }

    /// Tells listeners and observers of recorded entries, and sends children new rules. The state is published before: a listener that
    /// hears of an entry may read it at once. Senders of commands are answered after it (`Slot::recorded`).
    fn tell_of(&mut self, entries: &[Entry], events: Vec<Arc<Event>>, ring: Option<Arc<Ring>>) {
        for event in &events {
            let tell = || Some(Tell { slot: Arc::downgrade(&self.slot), incarnation: self.incarnation });
            self.shared.observers.show(event, tell);
        }
        if let Some(ring) = ring {
            ring.push(events);
        }
        let narrows = |entry: &Entry| {
            matches!(
                entry.record,
                Record::Settings(_) | Record::AgentSwitched { .. } | Record::Adopted { .. } | Record::Narrowed { .. }
            )
        };
        if entries.iter().any(narrows) {
            self.narrow_children();
        }
    }

    /// Removes the session's mark from the list of open turns, if nothing is open.
    fn unmark(&self) {
        if !self.state.is_unfinished() {
            drop(self.shared.store.mark_closed(&self.slot.id));
        }
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
    fn may_sleep(&self) -> bool {
        self.state.may_sleep() && self.writing.is_none() && self.workers.is_empty() && !self.slot.is_waited_for()
    }

    fn now(&self) -> Millis {
        self.clock.now()
    }

    fn after_work(&mut self) {
        fault!(self.shared.store.faults(), "session.worked", self.slot.id.as_str());
        self.arm_timer();
        let presented = present::presented(&self.state, self.slot.is_refused());
        self.node.present(presented, |payload| payload.put(present::figures(&self.state)));
        self.slot.set_idle(self.may_sleep());
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
}
