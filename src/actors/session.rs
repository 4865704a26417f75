//! A session's actor: the shell round the core. Small and boring: it takes what is in its slot, asks the core, has the
//! entries written, and then does as it is directed. It never awaits a model, a tool, a hook, a person or a slow disk.
//!
//! **Tape first.** Start directives, replies and events wait until the tape has the entries of their decision. Stop
//! directives never wait. While the disk is slow, decisions queue up behind their appends (`Pending`); when an append fails,
//! the state goes back to what the tape has, hosts are told, and what workers reported is held and decided again later.

mod build;
mod children;
#[cfg(feature = "fault-injection")]
mod held_back;
mod present;
mod questions;
mod shrunk;
mod storage;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use build::{claim, fold, fold_of};
pub(crate) use shrunk::kept;

use build::NotLoaded;
use children::Children;

use std::{
    collections::{BTreeMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    actors::{
        facts,
        host::{Clock, Host},
        observers::Tell,
        shell::{Behaviour, Context, ExitError, Init},
        slot::{Question, Reply, Slept, Slot, Wake, Work},
        summary::SummaryWorker,
        worker::{CallWorker, RequestWorker},
    },
    error::{PassivateError, SendError},
    event::events_of,
    ids::{Millis, Seq},
    session::{BeginAnchor, Decision, Directive, Entry, Env, Input, Record, ReplyTo, State, decide},
    supervisor::{ActorCard, ExitReason},
    tape::{Appended, TapeError},
    tool::CallFacts,
};
#[cfg(feature = "fault-injection")]
use held_back::Tape;

#[cfg(not(feature = "fault-injection"))]
use crate::actors::tapes::OpenTape as Tape;

/// How much of its slot an actor takes in one go before it lets others have their turn.
const WORK_PER_WAKE: usize = 64;

/// How long a life waits for a tape that cannot be read just now. Longer than the time within which crashes of a session are
/// counted, so that no such start is counted together with another one: it would be parked for what its disk does.
pub(crate) const LOAD_WAIT: Duration = Duration::from_secs(65);

/// The first wait before it looks again; each further one is twice as long.
const LOAD_AGAIN_MIN: Duration = Duration::from_millis(50);

/// No such wait is longer. From the first one that is so long on, about three seconds after the crash, whoever waits for the session
/// is told why it does not come up.
const LOAD_AGAIN_MAX: Duration = Duration::from_secs(2);

/// The behaviour of a session's actor. Rebuilds itself from the tape at each life.
pub(crate) struct SessionActor {
    host: Arc<Host>,
    slot: Arc<Slot>,
    live: Option<Live>,
}

impl SessionActor {
    pub(crate) fn new(host: Arc<Host>, slot: Arc<Slot>) -> SessionActor {
        SessionActor { host, slot, live: None }
    }
}

impl SessionActor {
    /// Puts the tape and the state into the slot. A tape that cannot be read just now is waited for, so that what is open goes on by
    /// itself; hosts wait for it a few seconds only.
    async fn load(&self, card: &ActorCard) -> Result<(), ExitError> {
        let (until, mut wait, mut looks) = (Instant::now() + LOAD_WAIT, LOAD_AGAIN_MIN, 0_u32);
        loop {
            let (host, slot) = (self.host.clone(), self.slot.clone());
            // Reading the tape may wait for a disk, so it does so on a thread for that.
            let error = match tokio::task::spawn_blocking(move || build::load(&host, &slot)).await? {
                Err(NotLoaded::NotNow(error)) if Instant::now() < until => error,
                loaded => return Ok(loaded?),
            };
            looks += 1;
            if looks.is_power_of_two() {
                tracing::warn!(session = %self.slot.id, %error, looks, "its tape cannot be read just now; it is looked at again");
            }
            card.doing(format!("its tape cannot be read just now: {error}"));
            if wait >= LOAD_AGAIN_MAX {
                self.slot.cannot_be_read(error);
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LOAD_AGAIN_MAX);
        }
    }

    /// What the tools say by now of the calls that are not over.
    async fn facts(&self, state: &State) -> BTreeMap<u32, CallFacts> {
        let (places, calls): (Vec<_>, Vec<_>) =
            state.calls_to_ask().into_iter().map(|(index, name, input)| (index, (name, input))).unzip();
        places.into_iter().zip(facts::ask(&self.host.toolbox, calls).await).collect()
    }

    /// What an earlier life had put on the tape and told nobody of: it died before the disk answered, or right behind that.
    async fn untold(&self, state: &State) -> Option<(State, Vec<Entry>)> {
        let told = Seq(self.slot.told().load(Ordering::Relaxed));
        if told == Seq::ZERO || told >= state.seq {
            return None;
        }
        let (host, id) = (self.host.clone(), self.slot.id.clone());
        let read = tokio::task::spawn_blocking(move || build::since(&host, &id, told)).await;
        match read {
            Ok(Ok(untold)) => Some(untold),
            Ok(Err(error)) => {
                tracing::warn!(session = %self.slot.id, ?error, "what happened before a crash could not be told");
                None
            }
            Err(_) => None,
        }
    }
}

impl Behaviour for SessionActor {
    type Msg = Wake;

    const TELLS_ITS_WORK: bool = true;
    const MAY_WAIT: bool = false;

    async fn init(&mut self, cx: &mut Context<Wake>) -> Result<Init, ExitError> {
        self.load(cx.card()).await?;
        let Some((tape, state)) = self.slot.prepared() else {
            return Err(ExitError::Failed("its tape went to another start".to_owned()));
        };
        let untold = self.untold(&state).await;
        let calls = self.facts(&state).await;
        #[cfg(feature = "fault-injection")]
        let tape = Tape::new(tape, self.host.hold_back_appends);
        fault!(self.host.store.faults(), "session.init", self.slot.id.as_str());
        let (life, left) = self.slot.begin_life(cx.mailbox(), cx.card(), state.seq);
        fault!(self.host.store.faults(), "session.begun", self.slot.id.as_str());
        let mut live = Live::new(self.host.clone(), self.slot.clone(), cx.card().clone(), life, tape, state);
        live.tell(untold);
        live.recover(left, calls);
        if let Some(why) = live.given_up() {
            return Err(ExitError::As(why));
        }
        fault!(self.host.store.faults(), "session.recovered", self.slot.id.as_str());
        self.live = Some(live);
        Ok(Init::Run)
    }

    async fn handle(&mut self, _: Wake, cx: &mut Context<Wake>) -> Result<(), ExitError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let then = live.work();
        if let Some(why) = live.given_up() {
            return Err(ExitError::As(why));
        }
        if then == Then::Sleep {
            // Gives the tape back; the next message finds the session passive.
            self.live = None;
            cx.exit();
        }
        Ok(())
    }

    async fn terminate(&mut self, _: &ExitReason, _: &mut Context<Wake>) {
        self.live = None;
    }

    fn describe(_: &Wake) -> &'static str {
        "wake"
    }
}

/// What follows a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    Sleep,
}

/// A decision whose entries are on their way to the disk.
struct Pending {
    upto: Seq,
    signal: Input,
    before: State,
    entries: Vec<Entry>,
    directives: Vec<Directive>,
    /// What decisions without entries of their own directed meanwhile.
    behind: Vec<Directive>,
    /// Reports that found nothing open meanwhile. Where this fails, what they are about is open again.
    moot: Vec<Input>,
}

/// One life of a session.
struct Live {
    host: Arc<Host>,
    slot: Arc<Slot>,
    card: Arc<ActorCard>,
    life: u32,
    /// The host's, and never before what the tape had when this life began.
    clock: Clock,
    tape: Tape,
    state: State,
    pending: VecDeque<Pending>,
    /// What could not be recorded, to be decided again when the disk takes it.
    held: VecDeque<Input>,
    /// What was held behind the one that is being decided again just now.
    untried: VecDeque<Input>,
    /// How many settlements of a failed run are still to come, and say nothing new.
    stale_settlements: usize,
    storage_retry: Option<Millis>,
    /// Why this life cannot go on.
    given_up: Option<String>,
    /// Why the disk refused last.
    refused: Option<TapeError>,
    /// Through which entry those who listen and wait have been told.
    told: Arc<AtomicU64>,
    requests: BTreeMap<Seq, RequestWorker>,
    calls: BTreeMap<Seq, CallWorker>,
    compactions: BTreeMap<Seq, SummaryWorker>,
    children: Children,
    /// The moment it is set for; dropping the guard ends its task.
    timer: Option<(Millis, DropGuard)>,
    idle_waiters: Vec<Reply<()>>,
    draws: u64,
}

impl Live {
    fn new(host: Arc<Host>, slot: Arc<Slot>, card: Arc<ActorCard>, life: u32, tape: Tape, state: State) -> Live {
        let told = slot.told();
        let clock = host.clock.not_before(state.time);
        Live {
            host,
            slot,
            card,
            life,
            clock,
            tape,
            state,
            pending: VecDeque::new(),
            held: VecDeque::new(),
            untried: VecDeque::new(),
            stale_settlements: 0,
            storage_retry: None,
            given_up: None,
            refused: None,
            told,
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            compactions: BTreeMap::new(),
            children: Children::default(),
            timer: None,
            idle_waiters: Vec::new(),
            draws: 0,
        }
    }

    /// Tells those who listen and wait of what an earlier life had put on the tape, and did not come to tell.
    fn tell(&mut self, untold: Option<(State, Vec<Entry>)>) {
        if let Some((before, entries)) = untold {
            self.publish(before, &entries);
        }
        // Whoever waits for a turn that is over waits for nothing, whatever could be read.
        self.state.ended.iter().for_each(|end| self.slot.turn_ended(end));
        self.told.store(self.state.seq.0, Ordering::Relaxed);
    }

    /// Takes up what an earlier life left: reports that arrived, then whatever is still open.
    fn recover(&mut self, left: Vec<Input>, calls: BTreeMap<u32, CallFacts>) {
        for report in left {
            self.record_only(report);
        }
        self.on(Input::Recover { calls });
        // An earlier life may have died between its mark and its turn, or between a turn's end and its mark.
        self.unmark_if_finished();
        self.after_work();
    }

    /// Takes what is in the slot.
    fn work(&mut self) -> Then {
        for _ in 0..WORK_PER_WAKE {
            if self.given_up.is_some() {
                // What is still there is for the next life.
                return Then::GoOn;
            }
            let work = self.slot.take();
            if let Some(work) = &work {
                let (what, number) = present::in_hand(work);
                self.card.take_up(what, number, || present::in_full(work));
            }
            match work {
                Some(Work::Input(signal) | Work::Report(signal)) => {
                    fault!(self.host.store.faults(), "session.took", self.slot.id.as_str());
                    self.on(signal);
                }
                Some(Work::Settled(result)) => self.settled(result),
                Some(Work::Question(Question::Sleep(slept))) => {
                    if self.fall_asleep(slept) {
                        return Then::Sleep;
                    }
                }
                Some(Work::Question(question)) => self.answer(question),
                None => {
                    self.after_work();
                    return Then::GoOn;
                }
            }
        }
        self.after_work();
        // More may be there; others go first.
        self.slot.wake_again();
        Then::GoOn
    }

    /// Marks the session as asleep, where nothing keeps it awake.
    fn fall_asleep(&mut self, slept: Slept) -> bool {
        // What is due is done first, and those who wait for it are told.
        self.after_work();
        let why = match () {
            () if !self.may_sleep() => "a turn, an ask, a message or a task is open",
            // The timer is the one task that ends with this life.
            () if self.slot.tasks().len() > usize::from(self.timer.is_some()) => PassivateError::PASSING,
            () => return self.slot.fall_asleep(slept),
        };
        slept.tell(Err(PassivateError::Busy { why }));
        false
    }

    /// Whether nothing is open, nothing waits and nothing is on its way to the disk.
    fn may_sleep(&self) -> bool {
        self.state.may_sleep()
            && self.pending.is_empty()
            && self.held.is_empty()
            && self.stale_settlements == 0
            && self.requests.is_empty()
            && self.calls.is_empty()
            && self.compactions.is_empty()
            && self.children.are_quiet()
            && self.idle_waiters.is_empty()
    }

    fn now(&self) -> Millis {
        self.clock.now()
    }

    fn after_work(&mut self) {
        fault!(self.host.store.faults(), "session.worked", self.slot.id.as_str());
        let now = self.now();
        if self.due().is_some_and(|due| due <= now) {
            self.on(Input::Timer);
        }
        if self.storage_retry.is_some_and(|at| at <= now) {
            self.try_held_again();
        }
        self.arm_timer();
        self.show_on_card();
        self.tell_of_downs();
        if self.is_idle() {
            for waiter in self.idle_waiters.drain(..) {
                // A host that stopped waiting does not want to know.
                let _ = waiter.send(Ok(()));
            }
        }
        self.slot.set_idle(self.may_sleep());
    }

    fn is_idle(&self) -> bool {
        self.state.is_idle() && self.pending.is_empty() && self.held.is_empty() && self.slot.depth() == 0
    }

    fn show_on_card(&self) {
        self.card.present(present::presented(&self.state, !self.held.is_empty()));
    }

    /// When the core wants to hear that time has passed; not while the disk refuses, for nothing could come of it.
    fn due(&self) -> Option<Millis> {
        if self.held.is_empty() { self.state.due() } else { None }
    }

    /// Keeps one timer, for the next moment that matters.
    fn arm_timer(&mut self) {
        let due = [self.due(), self.storage_retry].into_iter().flatten().min();
        if self.timer.as_ref().map(|(at, _)| *at) == due {
            return;
        }
        self.timer = None;
        let Some(due) = due else { return };
        let token = CancellationToken::new();
        self.timer = Some((due, token.clone().drop_guard()));
        let (slot, at) = (self.slot.clone(), self.clock.instant(due));
        self.slot.tasks().spawn(async move {
            tokio::select! {
                () = tokio::time::sleep_until(at) => slot.wake(),
                () = token.cancelled() => {}
            }
        });
    }

    fn decide(&mut self, signal: &Input) -> Decision {
        self.draws = self.draws.wrapping_add(1);
        let env = Env {
            globs: &self.host.globs,
            host_rules: self.host.rules.as_ref(),
            tools_tokens: self.host.tools_tokens,
            windows: &*self.host,
            toolbox_hash: &self.host.toolbox_hash,
            asks_are_heard: self.slot.is_heard(),
            jitter: build::draw(&self.slot.id, self.life, self.draws),
        };
        decide(&self.state, std::slice::from_ref(signal), &env, self.now())
    }

    /// Decides, records, and then does.
    fn on(&mut self, signal: Input) {
        if !self.held.is_empty() {
            if !storage::is_told(&signal) {
                return self.hold(signal);
            }
            // What was held came before; where it still cannot be recorded, neither is this.
            self.try_held_again();
            if !self.held.is_empty() {
                return self.refuse(&signal);
            }
        }
        self.forget_worker(&signal);
        let Decision { entries, directives, after } = self.decide(&signal);
        let (stops, rest): (Vec<_>, Vec<_>) = directives.into_iter().partition(Directive::is_stop);
        fault!(self.host.store.faults(), "session.decided", self.slot.id.as_str());
        stops.into_iter().for_each(|stop| self.carry_out(stop));
        if entries.is_empty() && self.pending.is_empty() {
            return rest.into_iter().for_each(|directive| self.carry_out(directive));
        }
        for directive in &rest {
            if let Directive::Reply(to, reply) = directive {
                self.slot.decided(*to, Some((after.seq, reply.clone().map_err(SendError::from))));
            }
        }
        if entries.is_empty() {
            if let Some(last) = self.pending.back_mut() {
                // A receipt for something that is still on its way waits with it.
                last.behind.extend(rest);
                last.moot.extend(signal.reported().is_some().then_some(signal));
            }
            return;
        }
        let marked = self.mark_turn(&after);
        let before = std::mem::replace(&mut self.state, after);
        let appended = match marked {
            Ok(()) => catch_unwind(AssertUnwindSafe(|| self.append(&entries))),
            Err(error) => Ok(Appended::Now(Err(error))),
        };
        let appended = appended.unwrap_or_else(|panic| {
            // The next life asks the tape whether it has this; a report that it does not have would be lost with this frame.
            self.put_by(signal.clone());
            resume_unwind(panic)
        });
        fault!(self.host.store.faults(), "session.appended", self.slot.id.as_str());
        match appended {
            Appended::Now(Ok(_)) => {
                // A tape is written in order, so what was on its way is there too. That it is may be told only later, and it
                // comes first all the same.
                self.release_upto(before.seq);
                self.release(before, &entries, rest);
            }
            Appended::Now(Err(error)) => {
                self.state = before;
                self.failed(signal, error);
            }
            Appended::Later => {
                let (upto, behind, moot) = (self.state.seq, Vec::new(), Vec::new());
                self.pending.push_back(Pending { upto, signal, before, entries, directives: rest, behind, moot });
            }
        }
    }

    fn append(&mut self, entries: &[Entry]) -> Appended {
        if let [entry @ Entry { record: Record::State(state), .. }] = entries {
            let name = state.anchor.as_ref().map_or("anchor", |mark| mark.name.as_str());
            return match entry.to_tape() {
                Ok(line) => self.tape.begin_anchor(name, &line),
                Err(error) => Appended::Now(Err(build::unwritable(&self.slot.id, &error))),
            };
        }
        let lines: Result<Vec<_>, _> = entries.iter().map(Entry::to_tape).collect();
        match lines {
            Ok(lines) => self.tape.append(&lines),
            Err(error) => Appended::Now(Err(build::unwritable(&self.slot.id, &error))),
        }
    }

    /// Where the open turns of a store are listed. One too few would lose a turn; one too many wakes the session once more.
    fn mark_turn(&self, after: &State) -> Result<(), TapeError> {
        match !self.state.is_unfinished() && after.is_unfinished() {
            true => self.host.store.mark_open(&self.slot.id),
            false => Ok(()),
        }
    }

    /// The entries are on the tape: now the world may know, and now things may start.
    fn release(&mut self, before: State, entries: &[Entry], directives: Vec<Directive>) {
        self.publish(before, entries);
        fault!(self.host.store.faults(), "session.published", self.slot.id.as_str());
        directives.into_iter().for_each(|directive| self.carry_out(directive));
    }

    fn publish(&mut self, before: State, entries: &[Entry]) {
        let heard = self.slot.is_heard() || self.host.observers.watch();
        let mut state = before;
        let anchored = entries.iter().rposition(|entry| matches!(entry.record, Record::State(_)));
        for (at, entry) in entries.iter().enumerate() {
            if heard {
                for event in events_of(&state, entry) {
                    let event = Arc::new(event);
                    let tell = || Some(Tell { slot: Arc::downgrade(&self.slot), life: self.life });
                    self.host.observers.show(&event, tell);
                    self.slot.show(event);
                }
            }
            let compactions = state.context.compactions;
            state.apply(entry);
            if state.context.compactions > compactions && anchored.is_none_or(|anchor| anchor < at) {
                // From here on the session opens without what was summed up.
                self.report(BeginAnchor.to(ReplyTo::NOBODY));
            }
            match &entry.record {
                Record::TurnFinished { .. } => {
                    if let Some(end) = state.ended.back() {
                        self.slot.turn_ended(end);
                    }
                    self.unmark(&state);
                }
                Record::TaskFinished { .. } | Record::TaskLeft {} => self.unmark(&state),
                Record::Settings(_) | Record::Adopted { .. } | Record::Narrowed { .. } => self.narrow_children(),
                Record::Withdrawn { id } => self.slot.withdrawn(id),
                _ => {}
            }
            self.told.store(entry.seq.0, Ordering::Relaxed);
        }
    }

    /// Nothing of the session is open any more, neither on the tape nor in what is on its way there.
    fn unmark(&self, on_tape: &State) {
        if !on_tape.is_unfinished() && !self.state.is_unfinished() {
            drop(self.host.store.mark_closed(&self.slot.id));
        }
    }

    /// Takes away a mark that an append did not follow.
    fn unmark_if_finished(&self) {
        if self.pending.is_empty() {
            self.unmark(&self.state);
        }
    }
}

impl Drop for Live {
    /// What workers reported can be said by nobody else: what the tape may not have is left to the next life. Where it has it after
    /// all, nothing is open that it could be about.
    fn drop(&mut self) {
        let reports = self.held.iter().chain(&self.untried).filter(|held| held.reported().is_some()).count();
        if reports > 0 && self.slot.is_ending() {
            tracing::warn!(session = %self.slot.id, reports, "what workers reported was not recorded, and goes with the session");
        }
        let on_its_way = self.pending.drain(..).flat_map(|pending| std::iter::once(pending.signal).chain(pending.moot));
        for signal in on_its_way.chain(self.held.drain(..)).chain(self.untried.drain(..)) {
            let report = signal;
            if report.reported().is_some() {
                self.slot.report(self.life, report);
            }
        }
    }
}
