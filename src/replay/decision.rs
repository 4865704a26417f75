//! One decision of a tape: its entries, the inputs that it was made for, and what it looked at, as its entries say.

use super::{Given, ReplayError};
use crate::{
    context::{RESERVE_MIN, Window},
    ids::Millis,
    message::ModelRef,
    model::Price,
    permission::{Globs, Ruleset},
    session::{
        Decision, Entry, Env, EnvSeen, Input, Record, Report, State, Windows, about_the_recorded, decide, jitter_of,
        read_back, tools_tokens,
    },
    tape::Append,
};

/// The window of a model of which the tape says nothing.
const UNKNOWN: Window = Window { context: 128_000, reserve: RESERVE_MIN, output: 0 };

/// One append of a tape, read.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) append: Append,
    pub(super) entries: Vec<Entry>,
    /// What it was decided for, in order. Empty where no decision wrote it.
    inputs: Vec<Input>,
}

impl Recorded {
    /// Reads an append. `first` is the one that a tape begins with, which follows from nothing.
    pub(super) fn read(append: Append, first: bool) -> Result<Recorded, ReplayError> {
        let entries = append.entries.iter().map(Entry::from_tape).collect::<Result<Vec<_>, _>>()?;
        let mut recorded = Recorded { append, entries, inputs: Vec::new() };
        if !first && recorded.beside_the_core().is_none() {
            recorded.inputs = recorded.decode()?;
        }
        Ok(recorded)
    }

    fn decode(&self) -> Result<Vec<Input>, ReplayError> {
        let mut inputs = Vec::new();
        let mut rest = &self.entries[..];
        while let Some(entry) = rest.first() {
            let line = self.append.line + (self.entries.len() - rest.len());
            let unreadable = |why: String| {
                let (seq, file) = (entry.seq, self.append.file.clone());
                ReplayError::NoInput { seq, file, line, why }
            };
            let Some(said) = &entry.input else {
                return Err(unreadable("it does not say which input it followed from".to_owned()));
            };
            let length = 1 + rest[1..].iter().take_while(|entry| entry.input.is_none()).count();
            let (wrote, others) = rest.split_at(length);
            let input = read_back(said, wrote);
            inputs.push(input.ok_or_else(|| unreadable(format!("no input of the kind {:?} writes this", said.is)))?);
            inputs.extend(said.held.then_some(Input::Hold));
            rest = others;
        }
        Ok(inputs)
    }

    /// What the tape wrote and no decision, in a few words.
    pub(super) fn beside_the_core(&self) -> Option<String> {
        match &self.entries.first()?.record {
            Record::Forked(forked) => Some(format!("forked from session {} after entry {}", forked.parent, forked.seq)),
            Record::Imported(imported) => {
                Some(format!("brought in from a file of session {} after entry {}", imported.from, imported.last))
            }
            _ => None,
        }
    }

    /// What it was decided for, in a few words.
    pub(super) fn in_words(&self) -> String {
        let words: Vec<_> = self.inputs.iter().map(about_the_recorded).collect();
        words.join("; ")
    }

    /// Whether a replay can begin with it.
    pub(super) fn begins(&self) -> bool {
        matches!(self.entries.first(), Some(Entry { record: Record::State(_), .. }))
    }

    /// Decides again.
    pub(super) fn again(&self, state: &State, given: &Given, globs: &Globs) -> Decision {
        let mut seen = state.env.clone();
        for said in self.entries.iter().filter_map(|entry| entry.input.as_ref()) {
            seen.learn(&said.env);
            seen.jitter = said.env.jitter.or(seen.jitter);
        }
        let tools = given.toolbox.as_ref().map(|toolbox| (toolbox.hash(), tools_tokens(toolbox)));
        let told = || seen.tools.clone().map(|tools| (tools.hash, tools.tokens));
        let (hash, tools_tokens) = tools.or_else(told).unwrap_or_default();
        let env = Env {
            globs,
            host_rules: self.host_rules(state),
            toolbox_hash: &hash,
            tools_tokens,
            windows: &SeenThen { seen: &seen, given: given.window },
            asks_are_heard: seen.heard.unwrap_or(true),
            jitter: seen.jitter.map_or(0.5, jitter_of),
        };
        let now = self.entries.first().map_or(Millis(0), |entry| entry.time);
        let inputs: Vec<_> = self.inputs.iter().map(|input| asked_anew(input, state, given)).collect();
        decide(state, &inputs, &env, now)
    }

    /// The rules that the host had: those that the decision said, else those that the tape has.
    fn host_rules<'s>(&'s self, state: &'s State) -> Option<&'s Ruleset> {
        let said = self.entries.iter().rev().find_map(|entry| match &entry.record {
            Record::HostRules { rules } => Some(rules.as_ref()),
            _ => None,
        });
        said.unwrap_or(state.settings.host.as_ref())
    }
}

/// The same input, with what the given tools say of its calls.
fn asked_anew(input: &Input, state: &State, given: &Given) -> Input {
    let Some(toolbox) = &given.toolbox else { return input.clone() };
    match input {
        Input::Report { ticket, report: Report::Answered { answer, .. } } => {
            let calls = answer.calls().map(|(name, input)| toolbox.facts(name, input)).collect();
            Report::Answered { answer: answer.clone(), calls }.of(*ticket)
        }
        Input::Recover { .. } => {
            let asked = state.calls_to_ask().into_iter();
            Input::Recover { calls: asked.map(|(index, name, input)| (index, toolbox.facts(&name, &input))).collect() }
        }
        other => other.clone(),
    }
}

/// Models as a decision saw them.
#[derive(Debug)]
struct SeenThen<'a> {
    seen: &'a EnvSeen,
    given: Option<Window>,
}

impl Windows for SeenThen<'_> {
    fn window(&self, model: &ModelRef) -> Window {
        let seen = || self.seen.models.get(&model.to_string()).map(|seen| seen.window);
        self.given.or_else(seen).unwrap_or(UNKNOWN)
    }

    fn price(&self, model: &ModelRef) -> Option<Price> {
        self.seen.models.get(&model.to_string())?.price
    }
}
