//! What a signal means. The door of the core.

use std::collections::BTreeMap;

use crate::{
    context::{Window, of_text},
    ids::{Millis, Seq},
    message::ModelRef,
    model::Price,
    permission::{Globs, Ruleset},
    session::{
        Directive, Entry, Held, Judged, Record, Refusal, Reply, ReplyTo, Settings, Signal, State, advance, back, batch,
        branch, child, compact, end, handoff, inbox, merge, pin, recover, retry, spending, tasks, undo,
    },
    tape::Cause,
    tool::{Access, Toolbox},
};

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

/// What follows from a signal.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What goes on the tape, in one append.
    pub entries: Vec<Entry>,
    /// What to do once it is there.
    pub directives: Vec<Directive>,
    /// The state with the entries applied.
    pub after: State,
}

/// Decides what follows from a signal. Pure: the same values always give the same decision.
#[must_use]
pub fn decide(state: &State, signal: &Signal, env: &Env<'_>, now: Millis) -> Decision {
    let mut draft = Draft::new(state, env, now);
    if let Signal::Left(report) = signal {
        take(&mut draft, report);
        return draft.finish();
    }
    if matches!(signal, Signal::Anchor | Signal::Handoff { .. }) {
        // A state that begins an anchor stands alone in its append.
        take(&mut draft, signal);
        return draft.finish();
    }
    draft.look_at_host();
    take(&mut draft, signal);
    advance::advance(&mut draft);
    draft.finish()
}

/// What a signal says by itself, without what follows from it.
fn take(draft: &mut Draft<'_>, signal: &Signal) {
    match signal {
        Signal::Left(report) => take(draft, report),
        Signal::Send { message, delivery, expect_turn, reply } => {
            draft.cause = Some(Cause::Message(message.id.clone()));
            let answer = inbox::send(draft, message, *delivery, *expect_turn);
            draft.reply(*reply, answer);
        }
        Signal::Edit { message, reply } => {
            let answer = inbox::edit(draft, message);
            draft.reply(*reply, answer);
        }
        Signal::Withdraw { id, reply } => {
            let answer = inbox::withdraw(draft, id);
            draft.reply(*reply, answer);
        }
        Signal::Answer { ask, grant, reply } => {
            draft.cause = Some(Cause::Entry(*ask));
            let answer = batch::answer_ask(draft, *ask, grant);
            draft.reply(*reply, answer);
        }
        Signal::Abort { reason, reply } => {
            advance::abort(draft, reason);
            draft.done(*reply);
        }
        Signal::GoOn { reply } => {
            let waited = draft.state.waits;
            // Said while a turn is being ended, it means that the end is to hold nothing.
            let ending = draft.state.turn.as_ref().is_some_and(|turn| turn.ending.is_some() && !turn.released);
            if draft.state.held || waited || ending {
                draft.write(None, Record::Released {});
            }
            if waited {
                recover::start_again(draft);
            }
            draft.done(*reply);
        }
        Signal::Pause { reply } => {
            if !draft.state.paused {
                draft.write(None, Record::Paused {});
            }
            draft.done(*reply);
        }
        Signal::Resume { reply } => {
            if draft.state.paused {
                draft.write(None, Record::Resumed {});
            }
            draft.done(*reply);
        }
        Signal::Written { reply } => draft.done(*reply),
        Signal::Configure { before, settings, reply } => {
            let answer = configure(draft, before.as_deref(), settings);
            draft.reply(*reply, answer);
        }
        Signal::Compact { reply } => {
            let answer = compact::asked(draft);
            draft.reply(*reply, answer);
        }
        Signal::Restored { files, reply } => {
            draft.write(None, Record::Restored(files.clone()));
            draft.done(*reply);
        }
        Signal::UndoCompaction { undone, reply } => {
            let answer = undo::undo(draft, undone);
            draft.reply(*reply, answer);
        }
        Signal::SumUpBranch { request, reply } => {
            let answer = branch::open(draft, request);
            draft.reply(*reply, answer);
        }
        Signal::BranchFailed { ticket, why, lost, reply } => {
            branch::failed(draft, *ticket, why, *lost);
            draft.done(*reply);
        }
        Signal::LeaveBranch { branch, reply } => {
            let answer = branch::take(draft, branch);
            draft.reply(*reply, answer);
        }
        Signal::Pin { message, reply } => {
            let answer = pin::pin(draft, message);
            draft.reply(*reply, answer);
        }
        Signal::Unpin { message, reply } => {
            let answer = pin::unpin(draft, message);
            draft.reply(*reply, answer);
        }
        Signal::RollBack { back, files, summary, reply } => {
            let answer = back::roll_back(draft, back, files.as_ref(), summary.as_ref());
            draft.reply(*reply, answer);
        }
        Signal::Merge { merged, reply } => {
            let answer = merge::merge(draft, merged);
            draft.reply(*reply, answer);
        }
        Signal::Anchor => handoff::after_compaction(draft),
        Signal::Handoff { name, summary, reply } => {
            let answer = handoff::hand_off(draft, name, summary.as_ref());
            draft.reply(*reply, answer);
        }
        Signal::Summarised { ticket, result, lost } => compact::summarised(draft, *ticket, result, *lost),
        Signal::Spawn { child, order, link, reply } => {
            let answer = tasks::spawn(draft, child, order, *link);
            draft.reply(*reply, answer);
        }
        Signal::Adopt { child, link, reply } => {
            let answer = tasks::adopt(draft, child, *link);
            draft.reply(*reply, answer);
        }
        Signal::End { reason, reply } => {
            end::end(draft, reason);
            draft.done(*reply);
        }
        Signal::StopTask { parent, ticket, why, reply } => {
            child::stop(draft, parent, *ticket, why);
            draft.done(*reply);
        }
        Signal::Orphan { parent, ticket, why, reply } => {
            child::orphan(draft, parent, *ticket, why);
            draft.done(*reply);
        }
        Signal::Adopted { tie, above, reply } => {
            let answer = child::adopted(draft, tie, above);
            draft.reply(*reply, answer);
        }
        Signal::TaskDown { ticket, down } => tasks::down(draft, *ticket, down),
        Signal::TaskLeft { ticket } => tasks::left(draft, *ticket),
        Signal::Recover => recover::recover(draft),
        Signal::Answered { ticket, answer } => retry::answered(draft, *ticket, answer),
        Signal::Failed { ticket, error } => retry::failed(draft, *ticket, error),
        Signal::CutOff { ticket, partial } => retry::cut_off(draft, *ticket, partial),
        Signal::Returned { ticket, result } => batch::returned(draft, *ticket, result),
        Signal::Tick => {
            batch::expire_asks(draft);
            spending::expire(draft);
            spending::check_time(draft);
            retry::end_wait_when_due(draft);
        }
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
    entries: Vec<Entry>,
    directives: Vec<Directive>,
}

impl<'a> Draft<'a> {
    fn new(state: &State, env: &'a Env<'a>, now: Millis) -> Draft<'a> {
        // Time never runs backwards within a session, whatever the machine's clock does.
        let now = now.max(state.time);
        Draft { state: state.clone(), env, now, cause: None, entries: Vec::new(), directives: Vec::new() }
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
        let reply: Reply = reply;
        self.directives.push(Directive::Reply(to, reply));
    }

    fn done(&mut self, to: ReplyTo) {
        let seq = self.state.seq;
        self.reply(to, Ok(Held::Done(seq)));
    }

    fn finish(self) -> Decision {
        Decision { entries: self.entries, directives: self.directives, after: self.state }
    }
}
