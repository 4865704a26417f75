//! One decision of a tape, read back: its entries, its inputs, and everything the core looked at.
//!
//! [`Recorded::again`] passes the core exactly that, and lets it decide again. Tools of the caller (`Given`) replace what is
//! recorded of the toolbox and of calls. The caller's settings or prompt are in the state before this file is used.
//!
//! A change must keep this: if the tape says nothing, the stand-ins here (`UNKNOWN`, no tools, a jitter of 0.5, a listener who may
//! answer asks) stay as they are. Otherwise old tapes would replay differently.

use super::{Given, ReplayError};
use crate::{
    kernel::context::{RESERVE_MIN, Window},
    kernel::{
        Decision, Entry, Env, EnvSeen, Input, ModelSeen, Record, Report, State, Windows, decide, jitter_of, read_back,
    },
    permission::{Globs, judged_by_parts},
    tape::Append,
    tool::Toolbox,
    words::ids::Millis,
    words::message::ModelRef,
};

/// The window of a model that the tape does not describe.
const UNKNOWN: Window = Window { context: 128_000, reserve: RESERVE_MIN, output: 0 };

/// One append of a tape, read.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) append: Append,
    pub(super) entries: Vec<Entry>,
    /// The inputs of the decision, in order. Empty where no decision wrote the append: the first append of a tape, and appends that
    /// the tape store wrote itself.
    pub(super) inputs: Vec<Input>,
    /// The inputs, in a few words.
    pub(super) words: String,
}

impl Recorded {
    /// Reads an append. `first` marks the first append of a tape, which follows from no input.
    pub(super) fn read(append: Append, first: bool) -> Result<Recorded, ReplayError> {
        let entries = append.entries.iter().map(Entry::from_tape).collect::<Result<Vec<_>, _>>()?;
        // The tape store wrote these appends itself, and no decision did.
        let beside = match entries.first().map(|entry| &entry.record) {
            Some(Record::Forked(from)) => Some(format!("forked from session {} after entry {}", from.parent, from.seq)),
            Some(Record::Imported(imported)) => {
                Some(format!("brought in from a file of session {} after entry {}", imported.from, imported.last))
            }
            _ => first.then(String::new),
        };
        let inputs = if beside.is_some() { Vec::new() } else { inputs(&append, &entries)? };
        let words = || inputs.iter().map(Input::in_words).collect::<Vec<_>>().join("; ");
        let words = beside.unwrap_or_else(words);
        Ok(Recorded { append, entries, inputs, words })
    }

    /// The state that a replay can begin with; `None` if it cannot begin at this append.
    pub(super) fn begins(&self) -> Option<&State> {
        match &self.entries.first()?.record {
            Record::State(state) => Some(state),
            _ => None,
        }
    }

    /// Decides again, from the state before this append.
    pub(super) fn again(&self, state: &State, given: &Given, globs: &Globs) -> Decision {
        let mut seen = (*state.env).clone();
        for said in self.entries.iter().filter_map(|entry| entry.input.as_ref()) {
            seen.learn(&said.env);
            seen.jitter = said.env.jitter.or(seen.jitter);
        }
        seen.learn(&given.seen);
        // The host's rules: those that this decision recorded, else those of the state.
        let host_rules = self.entries.iter().rev().find_map(|entry| match &entry.record {
            Record::HostRules { rules } => Some(rules.as_ref()),
            _ => None,
        });
        let env = Env {
            permissions: &seen.permissions,
            globs,
            host_rules: host_rules.unwrap_or(state.settings.host.as_ref()),
            toolbox_hash: seen.tools.as_ref().map_or("", |tools| &tools.hash),
            tools_tokens: seen.tools.as_ref().map_or(0, |tools| tools.tokens),
            windows: &seen,
            asks_are_heard: seen.heard.unwrap_or(true),
            jitter: seen.jitter.map_or(0.5, jitter_of),
        };
        let now = self.entries.first().map_or(Millis(0), |entry| entry.time);
        let Some(toolbox) = &given.toolbox else { return decide(state, &self.inputs, &env, now) };
        let inputs: Vec<_> = self.inputs.iter().map(|input| asked_anew(input, state, toolbox)).collect();
        decide(state, &inputs, &env, now)
    }
}

/// The inputs that the entries of an append say they followed from.
fn inputs(append: &Append, entries: &[Entry]) -> Result<Vec<Input>, ReplayError> {
    let (mut inputs, mut line) = (Vec::new(), append.line);
    for wrote in entries.chunk_by(|_, next| next.input.is_none()) {
        let said = wrote[0].input.as_ref();
        let Some(input) = said.and_then(|said| read_back(said, wrote)) else {
            let why = match said {
                Some(said) => format!("no input of the kind {:?} writes this", said.is),
                None => "it does not say which input it followed from".to_owned(),
            };
            return Err(ReplayError::NoInput { seq: wrote[0].seq, file: append.file.clone(), line, why });
        };
        inputs.push(input);
        inputs.extend(said.filter(|said| said.is_recorded_only).map(|_| Input::Hold));
        line += wrote.len();
    }
    Ok(inputs)
}

/// The same input, with the facts that other tools state about its calls.
fn asked_anew(input: &Input, state: &State, toolbox: &Toolbox) -> Input {
    let facts = |name: &str, input: &str| judged_by_parts(toolbox.facts(name, input));
    match input {
        Input::Report { ticket, report: Report::Answered { answer, .. } } => {
            let calls = answer.calls().map(|(name, input)| facts(name, input)).collect();
            Report::Answered { answer: answer.clone(), calls }.of(*ticket)
        }
        Input::Recover { .. } => {
            let asked = state.calls_to_ask().into_iter();
            Input::Recover { calls: asked.map(|(index, name, input)| (index, facts(&name, &input))).collect() }
        }
        other => other.clone(),
    }
}

/// The models' windows and prices as the decision saw them.
impl Windows for EnvSeen {
    fn seen(&self, model: &ModelRef) -> ModelSeen {
        let unknown = ModelSeen { window: UNKNOWN, price: None };
        self.models.get(&model.to_string()).copied().unwrap_or(unknown)
    }
}
