//! [`decide`]: where inputs enter the core. It turns a state and inputs into entries, stops, replies and the state after them. The
//! shell (`actor/session.rs`) calls it for each append, and replay calls it again.
//!
//! The same arguments always give the same decision. The state that goes in is not changed: a decision works on a draft (a copy),
//! and a draft that is dropped has had no effect. A state remembers the newest 64 commands that have an id and were done with an
//! entry; such a command is answered again and not done again. Sent messages are known by their own ids (`inbox.rs`).
//!
//! Nothing here may wait, read a clock (`now` is an argument), draw a random number (`Env::jitter` is one) or call a tool. A change
//! must keep two more rules. First, the core reads `Env` (what a decision may read beside the state) only through `Reader`. It
//! notes each value that has an influence and that the tape does not have yet, and replay depends on these notes; the rules of the
//! host get an entry of their own instead. Second, entries are written only by [`Draft::write`], so that each is applied before the
//! next one is decided.

use crate::{
    kernel::{
        CarriedOut, Entry, Env, Input, Recorded, Reply, ReplyTo, Report, State, Stop,
        budget::spending,
        children::{child, tasks},
        context::compact,
        draft::Draft,
        recorded,
        turn::{advance, batch, prepare, recover, retry},
    },
    words::ids::{Millis, Seq},
};

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
        if !acted {
            // What follows now follows from the state, and is recorded so: a message that was known before has caused none of it.
            draft.cause = None;
        }
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
            Report::Prepared { prepared } => prepare::prepared(draft, *ticket, prepared),
            Report::Gated { gated } => prepare::gated(draft, *ticket, gated),
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
            advance::end_wait_when_due(draft);
        }
        Input::Recover { calls } => recover::recover(draft, calls),
        Input::Stop => recover::stopped(draft),
        Input::Look | Input::Hold => {}
    }
    None
}

impl Draft<'_> {
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

    fn finish(self) -> Decision {
        Decision { entries: self.entries, stops: self.stops, replies: self.replies, after: self.state }
    }
}
