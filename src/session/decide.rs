//! What an input means. The door of the core.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    context::{Window, of_text},
    ids::{Millis, Seq},
    message::ModelRef,
    model::Price,
    permission::{Globs, Ruleset},
    session::{
        Directive, Entry, Held, Input, Judged, Record, Refusal, ReplyTo, Report, Settings, State, advance, batch,
        command::Decide, compact, recover, retry, spending, tasks,
    },
    tape::Cause,
    tool::{Access, Toolbox},
};

/// A host changes the settings; they hold from the next step on.
#[derive(Clone, Debug, PartialEq)]
pub struct Configure {
    /// What they were changed from; nothing where it does not matter.
    pub before: Option<Arc<Settings>>,
    /// The new settings, whole.
    pub settings: Box<Settings>,
}

impl Decide for Configure {
    fn name(&self) -> &'static str {
        "configure"
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        configure(draft, self.before.as_deref(), &self.settings)
    }

    fn in_words(&self) -> String {
        "the settings were changed".to_owned()
    }
}

/// What a decision may look at beside the state: values that the shell hands in.
#[derive(Clone, Copy, Debug)]
pub struct Env<'a> {
    /// The tools that exist.
    pub toolbox: &'a Toolbox,
    /// The globs of rules, compiled once.
    pub globs: &'a Globs,
    /// The rules of the host. Where the tape has others, the decision says so first, and goes by these.
    pub host_rules: Option<&'a Ruleset>,
    /// Hash of the tools as models are told of them.
    pub toolbox_hash: &'a str,
    /// What the tools take in a request, in estimated tokens.
    pub tools_tokens: u64,
    /// The windows of models.
    pub windows: &'a dyn Windows,
    /// Whether anybody listens who could answer an ask.
    pub asks_are_heard: bool,
    /// A number from 0 up to 1, anew for each decision, for jitter.
    pub jitter: f64,
    /// What was decided about calls before, by their tickets, where a decision is made again without their tools: in a
    /// replay. Nothing in a session that lives: there every call is judged by what its tool says that it wants.
    pub verdicts: Option<&'a BTreeMap<Seq, Verdict>>,
}

/// What was decided about a call before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ran. What it wanted was not written down, so it is not judged again.
    Ran,
    /// Somebody was asked about this, and the rules are asked again.
    Wants(Vec<Access>),
    /// It was answered without being run, with these words.
    Answered(Judged, String),
}

/// What tools take in a request, in estimated tokens.
#[must_use]
pub fn tools_tokens(toolbox: &Toolbox) -> u64 {
    of_text(&String::from_utf8_lossy(&toolbox.told()))
}

/// Knows how much models take, and what they cost. Pure: the same name always gives the same window, for one runtime.
pub trait Windows: std::fmt::Debug {
    /// The window of a model.
    fn window(&self, model: &ModelRef) -> Window;

    /// What the model's tokens cost; `None` where that is not known.
    fn price(&self, model: &ModelRef) -> Option<Price> {
        let _ = model;
        None
    }
}

/// Every model takes the same.
impl Windows for Window {
    fn window(&self, _: &ModelRef) -> Window {
        *self
    }
}

/// What follows from what happened.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What goes on the tape, in one append.
    pub entries: Vec<Entry>,
    /// What to do once it is there.
    pub directives: Vec<Directive>,
    /// The state with the entries applied.
    pub after: State,
}

/// Decides what follows from what happened, in that order. Pure: the same values always give the same decision.
///
/// What follows from the state (the next request, the next call) is decided after each input, but not after a report that
/// comes before a recovery or before the end of the turn: those decide about all that is open.
#[must_use]
pub fn decide(state: &State, inputs: &[Input], env: &Env<'_>, now: Millis) -> Decision {
    decide_and_watch(state, inputs, env, now, |_, _| {})
}

/// The same, and shows each entry as it is written, with the state before it: an entry is applied once, and whoever makes events
/// of it need not apply it again.
#[must_use]
pub fn decide_and_watch<'a>(
    state: &State,
    inputs: &[Input],
    env: &'a Env<'a>,
    now: Millis,
    mut watch: impl FnMut(&State, &Entry) + 'a,
) -> Decision {
    let mut draft = Draft::new(state, env, now, &mut watch);
    for (at, input) in inputs.iter().enumerate() {
        draft.cause = None;
        let is_recorded_only =
            matches!(input, Input::Report { .. }) && inputs[at + 1..].iter().any(Input::settles_what_is_open);
        let stands_alone = matches!(input, Input::Command { command, .. } if command.stands_alone());
        let goes_on = !is_recorded_only && !stands_alone;
        if goes_on {
            draft.look_at_host();
        }
        take(&mut draft, input);
        if goes_on {
            advance::advance(&mut draft);
        }
    }
    draft.finish()
}

/// What an input says by itself, without what follows from it.
fn take(draft: &mut Draft<'_>, input: &Input) {
    match input {
        Input::Command { reply, command } => {
            let answer = command.decide(draft);
            draft.reply(*reply, answer);
        }
        Input::Report { ticket, report } => report_of(draft, *ticket, report),
        Input::Timer => {
            batch::expire_asks(draft);
            spending::expire(draft);
            spending::check_time(draft);
            retry::end_wait_when_due(draft);
        }
        Input::Recover => recover::recover(draft),
    }
}

/// What a worker says of its ticket.
fn report_of(draft: &mut Draft<'_>, ticket: Seq, report: &Report) {
    match report {
        Report::Answered { answer } => retry::answered(draft, ticket, answer),
        Report::Failed { error } => retry::failed(draft, ticket, error),
        Report::CutOff { partial } => retry::cut_off(draft, ticket, partial),
        Report::Returned { result } => batch::returned(draft, ticket, result),
        Report::Summarised { result, lost } => compact::summarised(draft, ticket, result, *lost),
        Report::TaskDown { down } => tasks::down(draft, ticket, down),
        Report::TaskLeft => tasks::left(draft, ticket),
    }
}

/// A host sets the session to something else; or has changed what it is not set to any more.
fn configure(draft: &mut Draft<'_>, before: Option<&Settings>, settings: &Settings) -> Result<Held, Refusal> {
    let (mut settings, now) = (Box::new(settings.clone()), &draft.state.settings);
    // What the host and the ancestors do not allow stays out of reach.
    settings.above.clone_from(&now.above);
    settings.host.clone_from(&now.host);
    if **now == *settings {
        return Ok(Held::Done(draft.state.seq));
    }
    if before.is_some_and(|before| *before != **now) {
        return Err(Refusal::Reconfigured);
    }
    Ok(Held::Done(draft.write(None, Record::Settings(settings))))
}

/// A decision in the making: each entry is applied as soon as it is written, so that what follows sees it.
pub(super) struct Draft<'a> {
    pub(super) state: State,
    pub(super) env: &'a Env<'a>,
    pub(super) now: Millis,
    pub(super) cause: Option<Cause>,
    watch: &'a mut dyn FnMut(&State, &Entry),
    entries: Vec<Entry>,
    directives: Vec<Directive>,
}

impl<'a> Draft<'a> {
    fn new(state: &State, env: &'a Env<'a>, now: Millis, watch: &'a mut dyn FnMut(&State, &Entry)) -> Draft<'a> {
        // Time never runs backwards within a session, whatever the machine's clock does.
        let now = now.max(state.time);
        Draft { state: state.clone(), env, now, cause: None, watch, entries: Vec::new(), directives: Vec::new() }
    }

    /// Writes an entry about a ticket, or one that opens a ticket of its own.
    pub(super) fn write(&mut self, ticket: Option<Seq>, record: Record) -> Seq {
        let seq = self.state.seq.next();
        let begins_turn = matches!(record, Record::Delivered { .. }) && self.state.turn.is_none();
        let turn = self.state.turn.as_ref().map(|turn| turn.id).or(begins_turn.then_some(seq));
        let first_try = matches!(&record, Record::Request(request) if request.attempt == 1);
        let step = self.state.turn.as_ref().map(|turn| turn.step.saturating_add(u32::from(first_try)));
        let step = step.filter(|step| *step > 0);
        let entry = Entry { seq, time: self.now, cause: self.cause.clone(), turn, step, ticket, record };
        (self.watch)(&self.state, &entry);
        self.state.apply(&entry);
        self.entries.push(entry);
        seq
    }

    /// The rules of the host are those that it has now. They are on the tape before anything is decided by them.
    fn look_at_host(&mut self) {
        let rules = self.env.host_rules;
        if self.state.settings.host.as_ref() != rules {
            self.write(None, Record::HostRules { rules: rules.cloned() });
        }
    }

    /// Whether this decision opened that ticket: then nothing of it has begun.
    pub(super) fn opened_now(&self, ticket: Seq) -> bool {
        self.entries.iter().any(|entry| entry.seq == ticket)
    }

    pub(super) fn direct(&mut self, directive: Directive) {
        self.directives.push(directive);
    }

    fn reply(&mut self, to: ReplyTo, reply: Result<Held, Refusal>) {
        if to != ReplyTo::NOBODY {
            self.directives.push(Directive::Reply(to, reply));
        }
    }

    fn finish(self) -> Decision {
        Decision { entries: self.entries, directives: self.directives, after: self.state }
    }
}
