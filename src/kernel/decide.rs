//! [`decide`]: where inputs enter the core. It turns a state and inputs into entries, stops, replies and the state after them. The
//! shell (`actor/session.rs`) calls it for each append, and replay calls it again.
//!
//! The same arguments always give the same decision. The state that goes in is not changed: a decision works on a draft (a copy),
//! and a draft that is dropped has had no effect. A state remembers the newest 64 commands that have an id and were done with an
//! entry; such a command is answered again and not done again. Sent messages are known by their own ids (`inbox.rs`).
//!
//! Nothing here may wait, read a clock (`now` is an argument), draw a random number (`Env::jitter` is one) or call a tool. A change
//! must keep two more rules. First, the core reads `Env` (what a decision may read beside the state) only through [`Reader`]. It
//! notes each value that has an influence and that the tape does not have yet, and replay depends on these notes; the rules of the
//! host get an entry of their own instead. Second, entries are written only by [`Draft::write`], so that each is applied before the
//! next one is decided.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    sync::Arc,
};

use crate::{
    kernel::{
        CarriedOut, Entry, Env, EnvSeen, Input, ModelSeen, Record, Recorded, Refusal, Reply, ReplyTo, Report, Settings,
        State, Stop,
        budget::spending,
        children::{child, tasks},
        context::compact,
        env::{MILLION, ToolsSeen},
        input::Decide,
        recorded,
        turn::{advance, batch, recover, retry},
    },
    permission::{Globs, Ruleset},
    tape::Cause,
    words::{
        ids::{Millis, Seq},
        message::ModelRef,
    },
};

/// A host changes the settings. They hold at once, except for a request that is open: it stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Configure {
    /// The settings that the change started from: other settings now refuse it. `None` to overwrite whatever is set.
    pub before: Option<Arc<Settings>>,
    /// The new settings, whole.
    pub settings: Box<Settings>,
}

impl Decide for Configure {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let (mut settings, now) = (self.settings.clone(), &draft.state.settings);
        // A change of settings cannot touch the rules of the host and of the ancestors, nor the agent that was switched to.
        settings.above.clone_from(&now.above);
        settings.host.clone_from(&now.host);
        settings.switched.clone_from(&now.switched);
        if **now == *settings {
            return Ok(CarriedOut::Done(draft.state.seq));
        }
        if self.before.as_ref().is_some_and(|before| before != now) {
            return Err(Refusal::Reconfigured);
        }
        Ok(CarriedOut::Done(draft.write(None, Record::Settings(settings))))
    }

    fn in_words(&self) -> String {
        "the settings were changed".to_owned()
    }
}

/// A decision: what follows from the inputs.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    /// The entries for the tape, in one append. Empty where nothing changed.
    pub entries: Vec<Entry>,
    /// The workers and children to stop at once, before the append.
    pub stops: Vec<Stop>,
    /// The answers to the senders of commands, to be given once the entries are on the tape.
    pub replies: Vec<(ReplyTo, Reply)>,
    /// The state with the entries applied.
    pub after: State,
}

/// Decides about the inputs, in their order. Pure: the same values always give the same decision.
///
/// After each input the core also decides what follows from the state (the next request, the next call). Exceptions are a command
/// that stands alone, `Input::Hold`, `Input::Stop`, and a report that comes before a recovery, a hold or the end of the turn: the later input
/// decides about all that is open.
#[must_use]
pub(crate) fn decide(state: &State, inputs: &[Input], env: &Env<'_>, now: Millis) -> Decision {
    decide_and_watch(state, inputs, env, now, |_, _| {})
}

/// Decides as [`decide`] does, and shows each entry to `watch` as it is written, with the state before it. So the maker of events
/// does not have to apply the entries a second time.
#[must_use]
pub(crate) fn decide_and_watch<'a>(
    state: &State,
    inputs: &[Input],
    env: &'a Env<'a>,
    now: Millis,
    mut watch: impl FnMut(&State, &Entry) + 'a,
) -> Decision {
    let mut draft = Draft::new(state, env, now, &mut watch);
    for (at, input) in inputs.iter().enumerate() {
        if let Some((reply, done)) = draft.done_before(input) {
            draft.reply(reply, Ok(CarriedOut::Done(done)));
            continue;
        }
        let settles = |(n, later): (usize, &Input)| {
            let is_new = || later.id().is_none_or(|id| !inputs[..n].iter().any(|input| input.id() == Some(id)));
            n > at && later.settles_what_is_open() && is_new() && draft.done_before(later).is_none()
        };
        let is_recorded_only = matches!(input, Input::Report { .. }) && inputs.iter().enumerate().any(settles);
        let stands_alone = matches!(input, Input::Command { command, .. } if command.stands_alone());
        let goes_on = !is_recorded_only && !stands_alone && !matches!(input, Input::Hold | Input::Stop);
        draft.cause = None;
        let from = draft.entries.len();
        if goes_on {
            draft.look_at_host();
        }
        let before = draft.entries.len();
        let done = take(&mut draft, input);
        let acted = draft.entries.len() > before;
        if goes_on {
            advance::advance(&mut draft);
        }
        draft.record(input, from, acted, is_recorded_only, done);
    }
    draft.finish()
}

/// Does what an input says by itself, without what follows from the state. Gives the entry that the sender of a command is told.
fn take(draft: &mut Draft<'_>, input: &Input) -> Option<Seq> {
    match input {
        Input::Command { reply, command, .. } => {
            let answer = command.decide(draft);
            let done = match answer {
                Ok(CarriedOut::Done(done)) => Some(done),
                _ => None,
            };
            draft.reply(*reply, answer);
            return done;
        }
        Input::Report { ticket, report } => match report {
            Report::Answered { answer, calls } => retry::answered(draft, *ticket, answer, calls),
            Report::Failed { error } => retry::failed(draft, *ticket, error),
            Report::CutOff { partial, thrown_away } => retry::cut_off(draft, *ticket, partial, *thrown_away),
            Report::Returned { result } => batch::returned(draft, *ticket, result),
            Report::Summarised { result, lost } => compact::summarised(draft, *ticket, result, *lost),
            Report::TaskDown { down } => tasks::down(draft, *ticket, down),
            Report::TaskLeft => tasks::left(draft, *ticket),
        },
        Input::Timer => {
            batch::expire_asks(draft);
            spending::expire(draft);
            spending::check_time(draft);
            tasks::expire(draft);
            child::expire(draft);
            retry::end_wait_when_due(draft);
        }
        Input::Recover { calls } => recover::recover(draft, calls),
        Input::Stop => recover::stopped(draft),
        Input::Look | Input::Hold => {}
    }
    None
}

/// A decision in the making. Each entry is applied as soon as it is written, so that the next rule sees it.
pub(crate) struct Draft<'a> {
    pub(super) state: State,
    pub(super) env: Reader<'a>,
    pub(super) now: Millis,
    pub(super) cause: Option<Cause>,
    watch: &'a mut dyn FnMut(&State, &Entry),
    entries: Vec<Entry>,
    stops: Vec<Stop>,
    replies: Vec<(ReplyTo, Reply)>,
}

impl<'a> Draft<'a> {
    fn new(state: &State, env: &'a Env<'a>, now: Millis, watch: &'a mut dyn FnMut(&State, &Entry)) -> Draft<'a> {
        // Time never runs backwards within a session, whatever the machine's clock does.
        let now = now.max(state.time);
        let env = Reader::new(env);
        let (entries, stops, replies) = (Vec::new(), Vec::new(), Vec::new());
        Draft { state: state.clone(), env, now, cause: None, watch, entries, stops, replies }
    }

    /// Writes an entry and applies it to the draft. `ticket` is the ticket that the entry is about; with `None`, the entry opens a
    /// ticket of its own or is about none. Gives the seq of the entry.
    pub(super) fn write(&mut self, ticket: Option<Seq>, record: Record) -> Seq {
        let seq = self.state.seq.next();
        let begins_turn = matches!(record, Record::Delivered { .. }) && self.state.turn.is_none();
        let turn = self.state.turn.as_ref().map(|turn| turn.id).or(begins_turn.then_some(seq));
        let first_try = matches!(&record, Record::Request(request) if request.attempt == 1);
        let step = self.state.turn.as_ref().map(|turn| turn.step.saturating_add(u32::from(first_try)));
        let step = step.filter(|step| *step > 0);
        let entry = Entry { seq, time: self.now, cause: self.cause.clone(), turn, step, ticket, input: None, record };
        (self.watch)(&self.state, &entry);
        self.state.apply(&entry);
        self.entries.push(entry);
        seq
    }

    /// Writes the rules of the host where the tape has others: they are on the tape before anything is decided by them.
    fn look_at_host(&mut self) {
        let rules = self.env.host_rules();
        if self.state.settings.host.as_ref() != rules {
            self.write(None, Record::HostRules { rules: rules.cloned() });
        }
    }

    /// The window and the price of a model, as the host has them now. The read is noted for the tape.
    pub(super) fn model(&self, model: &ModelRef) -> ModelSeen {
        self.env.model(&self.state.env, model)
    }

    /// If a command with this id was done before: whom to answer, and the entry that its sender was told.
    fn done_before(&self, input: &Input) -> Option<(ReplyTo, Seq)> {
        let (Some(id), Input::Command { reply, .. }) = (input.id(), input) else { return None };
        Some((*reply, self.state.done_under(id)?))
    }

    /// Puts a description of the input, and the values of `Env` that were read, on the first entry that the input wrote. An input
    /// that wrote no entry changed nothing and is not recorded.
    fn record(&mut self, input: &Input, from: usize, acted: bool, is_recorded_only: bool, done: Option<Seq>) {
        let env = self.env.take();
        let Some((entry, _)) = self.entries[from..].split_first() else { return };
        let seq = entry.seq;
        let id = input.id().filter(|_| acted).cloned().zip(done);
        let mut recorded = Recorded::of(input, recorded::own(&self.entries[from..]), acted);
        (recorded.env, recorded.is_recorded_only) = (env, is_recorded_only);
        if let Some((id, done)) = id {
            (recorded.id, recorded.done) = (Some(id), Some(done).filter(|done| *done != seq));
        }
        self.state.take_note(&recorded, seq);
        self.entries[from].input = Some(recorded);
    }

    /// Whether this decision wrote the entry that opened the ticket. If so, no work on the ticket has begun.
    pub(super) fn opened_now(&self, ticket: Seq) -> bool {
        self.entries.iter().any(|entry| entry.seq == ticket)
    }

    pub(super) fn stop(&mut self, who: Stop) {
        self.stops.push(who);
    }

    fn reply(&mut self, to: ReplyTo, reply: Reply) {
        if to != ReplyTo::NOBODY {
            self.replies.push((to, reply));
        }
    }

    fn finish(self) -> Decision {
        Decision { entries: self.entries, stops: self.stops, replies: self.replies, after: self.state }
    }
}

/// The reader of [`Env`] for the rules of the core. It notes each value that is read and that the tape does not have yet. Two are
/// not noted: the compiled globs, which have no influence, and the host's rules, which get an entry (`look_at_host`).
pub(super) struct Reader<'a> {
    env: &'a Env<'a>,
    read: RefCell<EnvSeen>,
    jitter: Cell<Option<u32>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(env: &'a Env<'a>) -> Reader<'a> {
        Reader { env, read: RefCell::default(), jitter: Cell::new(None) }
    }

    /// The values that were read since the last `take` and that the tape does not have yet.
    pub(super) fn take(&self) -> EnvSeen {
        EnvSeen { jitter: self.jitter.take(), ..self.read.take() }
    }

    /// The compiled globs of permission rules. Not noted: they have no influence on a decision.
    pub(super) fn globs(&self) -> &'a Globs {
        self.env.globs
    }

    /// The rules of the host. Not noted: where they differ from the tape's, an entry says so.
    pub(super) fn host_rules(&self) -> Option<&'a Ruleset> {
        self.env.host_rules
    }

    pub(super) fn model(&self, known: &EnvSeen, model: &ModelRef) -> ModelSeen {
        let seen = self.env.windows.seen(model);
        // There are one or two, so they are looked through without making the text of the name.
        let known = known.models.iter().find(|(name, _)| model.is_written(name));
        if known.map(|(_, seen)| *seen) != Some(seen) {
            self.read.borrow_mut().models.insert(model.to_string(), seen);
        }
        seen
    }

    fn tools(&self, known: &EnvSeen) {
        let is_known = |seen: &ToolsSeen| seen.hash == self.env.toolbox_hash && seen.tokens == self.env.tools_tokens;
        let mut read = self.read.borrow_mut();
        if read.tools.is_none() && !known.tools.as_ref().is_some_and(is_known) {
            let (hash, tokens) = (self.env.toolbox_hash.to_owned(), self.env.tools_tokens);
            read.tools = Some(ToolsSeen { hash, tokens });
        }
    }

    pub(super) fn toolbox_hash(&self, known: &EnvSeen) -> &'a str {
        self.tools(known);
        self.env.toolbox_hash
    }

    /// The tools that are masked: not offered, because the rules deny them in full. Noted are the permissions of each masked tool,
    /// and of each tool whose permissions the tape has already, where they differ from the tape's.
    pub(super) fn masked(&self, known: &EnvSeen, is_masked: impl Fn(&str, &[String]) -> bool) -> BTreeSet<String> {
        let tools = self.env.permissions;
        let masked = tools.iter().filter(|(tool, needed)| is_masked(tool, needed));
        let masked: BTreeSet<String> = masked.map(|(tool, _)| tool.clone()).collect();
        let mut read = self.read.borrow_mut();
        for tool in masked.iter().chain(known.permissions.keys()) {
            let now = tools.get(tool).cloned().unwrap_or_default();
            if known.permissions.get(tool) != Some(&now) {
                read.permissions.insert(tool.clone(), now);
            }
        }
        masked
    }

    pub(super) fn tools_tokens(&self, known: &EnvSeen) -> u64 {
        self.tools(known);
        self.env.tools_tokens
    }

    pub(super) fn asks_are_heard(&self, known: &EnvSeen) -> bool {
        let heard = self.env.asks_are_heard;
        if known.heard != Some(heard) {
            self.read.borrow_mut().heard = Some(heard);
        }
        heard
    }

    /// The jitter, rounded down to whole millionths, as the tape writes it. It is noted whenever it is read.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and a million")]
    pub(super) fn jitter(&self) -> f64 {
        let drawn = (self.env.jitter.clamp(0.0, 1.0) * MILLION) as u32;
        self.jitter.set(Some(drawn));
        f64::from(drawn) / MILLION
    }
}
