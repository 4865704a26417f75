//! A decision in the making ([`Draft`]), and what a command answers about itself ([`Decide`]).
//!
//! A draft is a copy of the state. Each entry is applied to it as soon as it is written, so that the next rule sees it. The rules
//! of the core take a draft, and read the host's values through it (`env.rs`).
//!
//! A change must keep this: an entry is written by [`Draft::write`] alone, so that the state of a draft is at any time the fold of
//! what is on the tape and of what was written.

use crate::{
    kernel::{CarriedOut, Entry, Env, ModelSeen, Record, Refusal, Reply, ReplyTo, State, Stop, env::Reader},
    tape::Cause,
    words::{
        ids::{Millis, Seq},
        message::ModelRef,
    },
};

/// A decision in the making. Each entry is applied as soon as it is written, so that the next rule sees it.
pub(crate) struct Draft<'a> {
    pub(super) state: State,
    pub(super) env: Reader<'a>,
    pub(super) now: Millis,
    pub(super) cause: Option<Cause>,
    pub(super) watch: &'a mut dyn FnMut(&State, &Entry),
    pub(super) entries: Vec<Entry>,
    pub(super) stops: Vec<Stop>,
    pub(super) replies: Vec<(ReplyTo, Reply)>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        state: &State,
        env: &'a Env<'a>,
        now: Millis,
        watch: &'a mut dyn FnMut(&State, &Entry),
    ) -> Draft<'a> {
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
    pub(super) fn look_at_host(&mut self) {
        let rules = self.env.host_rules();
        if self.state.settings.host.as_ref() != rules {
            self.write(None, Record::HostRules { rules: rules.cloned() });
        }
    }

    /// The window and the price of a model, as the host has them now. The read is noted for the tape.
    pub(super) fn model(&self, model: &ModelRef) -> ModelSeen {
        self.env.model(&self.state.env, model)
    }

    /// Whether this decision wrote the entry that opened the ticket. If so, no work on the ticket has begun.
    pub(super) fn opened_now(&self, ticket: Seq) -> bool {
        self.entries.iter().any(|entry| entry.seq == ticket)
    }

    /// Whether a question to a person may be asked: somebody listens, or the host has set that questions wait for a listener.
    pub(super) fn reaches_someone(&self) -> bool {
        self.state.settings.asks_wait || self.env.asks_are_heard(&self.state.env)
    }

    /// Stops a worker or a child at once, before the append.
    pub(super) fn stop(&mut self, who: Stop) {
        self.stops.push(who);
    }

    pub(super) fn reply(&mut self, to: ReplyTo, reply: Reply) {
        if to != ReplyTo::NOBODY {
            self.replies.push((to, reply));
        }
    }
}

/// A command: what it leads to, and what else is to be known of it. [`Command`](crate::kernel::Command) derefs to it, so each command answers for itself.
pub(crate) trait Decide {
    /// Writes the entries that the command leads to, and returns the answer to its sender. A refusal must leave the state as it
    /// was, except that a refused summary of a branch closes its ticket.
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal>;

    /// What the command did, in words for a person who reads a replay.
    fn in_words(&self) -> String;

    /// The ticket or the entry that the command is about.
    fn about(&self) -> Option<Seq> {
        None
    }

    /// The words that the command carries, for a full trace of a session.
    fn said(&self) -> Option<String> {
        None
    }

    /// Whether the command begins work of its own. Such a command is refused while the runtime drains.
    fn begins_work(&self) -> bool {
        false
    }

    /// Whether the command adds work. Such a command is refused where the mailbox is full.
    fn adds_work(&self) -> bool {
        self.begins_work()
    }

    /// Whether the command ends the running turn, in whatever state the turn is.
    fn ends_the_turn(&self) -> bool {
        false
    }

    /// Of a command that ends a turn, whether the workers of the turn that this state shows are its to stop. The error is the answer,
    /// where the state shows already that the command comes too late.
    fn is_for(&self, _: Option<&State>) -> Result<bool, Refusal> {
        Ok(true)
    }

    /// Whether the command stops running work. The workers are stopped at once, so the command stays and is tried again where the
    /// disk refuses its record.
    fn stops(&self) -> bool {
        self.ends_the_turn()
    }

    /// The size of what it brings, in bytes, about.
    fn bytes(&self) -> usize {
        0
    }

    /// Whether the command stands alone in its append, and nothing more follows from it: it begins an anchor.
    fn stands_alone(&self) -> bool {
        false
    }
}
