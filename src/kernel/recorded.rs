//! How an entry is written and read, and what it says of the input that wrote it: the field `in` of its line.
//!
//! The first entry that an input wrote has it, and the entries behind it, up to the next one that has it, followed from the same
//! input. It says the kind of input, the id of a command, what was read of [`Env`](crate::kernel::Env), and of the input's own
//! values those alone that none of its entries holds: the message that was sent stands in its `accepted`, and is read back from
//! there. So a replay decodes each input and never guesses.
//!
//! An input that wrote nothing has changed nothing, and is not recorded. One that wrote nothing by itself, while something
//! followed from the state at its occasion (the host has other rules by now), is recorded as [`Input::Look`].

//!
//! A decision is handed all of [`Env`](crate::kernel::Env), and reads little of it. Each value that it read is on the tape: the
//! state holds what the tape says last ([`EnvSeen`]), and where a decision reads something else, its first entry says so. So a
//! replay hands each decision what it read, and the tape says nothing twice.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use crate::{
    kernel::context::Window,
    kernel::{BadRecord, Command, Entry, Env, Input, NoSummary, Record, ReplyTo, Report, spent},
    model::Price,
    permission::{Globs, Ruleset},
    tape,
    tool::CallFacts,
    words::ids::{CommandId, Seq},
    words::message::ModelRef,
};

/// What an entry says of the input that wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The kind of input.
    pub is: String,
    /// The id of a command that was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CommandId>,
    /// The entry that its sender was told, where it is not the one that says this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Seq>,
    /// Whether nothing followed from it at its occasion, because what came next decided about all that was open. Of a report.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// What was read of `Env`, where the tape did not say so before.
    #[serde(default, skip_serializing_if = "EnvSeen::is_nothing")]
    pub env: EnvSeen,
    /// Values of the input that stand in none of its entries.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Recorded {
    /// An input of that kind, all of which stands in what it wrote.
    #[must_use]
    pub fn new(is: &str) -> Recorded {
        Recorded { is: is.to_owned(), id: None, done: None, held: false, env: EnvSeen::default(), fields: Map::new() }
    }

    /// What is said of an input that wrote these entries, `acted` by itself and not only by what followed.
    pub(super) fn of(input: &Input, wrote: &[Entry], acted: bool) -> Recorded {
        match input {
            Input::Command { command, .. } if acted || command.ends_the_turn() => command.recorded(wrote),
            Input::Report { report, .. } if acted => Recorded::new(is_of(report, wrote)),
            Input::Command { .. } | Input::Report { .. } | Input::Look | Input::Hold => Recorded::new(LOOK),
            Input::Timer => Recorded::new(TIMER),
            Input::Recover { .. } => Recorded::new(RECOVER),
        }
    }
}

const LOOK: &str = "look";
const TIMER: &str = "timer";
const RECOVER: &str = "recover";
const ANSWERED: &str = "answered";
const FAILED: &str = "failed";
const CUT_OFF: &str = "cut_off";
const RETURNED: &str = "returned";
const SUMMARISED: &str = "summarised";
const TASK_DOWN: &str = "task_down";
const TASK_LEFT: &str = "task_left";

fn is_of(report: &Report, wrote: &[Entry]) -> &'static str {
    match report {
        Report::Answered { .. } => ANSWERED,
        // A request that was told to stop, and failed meanwhile, is one that was cut off: the error is written nowhere.
        Report::Failed { .. } if matches!(wrote, [Entry { record: Record::Answer { .. }, .. }, ..]) => CUT_OFF,
        Report::Failed { .. } => FAILED,
        Report::CutOff { .. } => CUT_OFF,
        Report::Returned { .. } => RETURNED,
        Report::Summarised { .. } => SUMMARISED,
        Report::TaskDown { .. } => TASK_DOWN,
        Report::TaskLeft => TASK_LEFT,
    }
}

/// The entries that an input wrote by itself: the rules of the host, where they are others than before, come in front of them.
pub(super) fn own(wrote: &[Entry]) -> &[Entry] {
    match wrote {
        [Entry { record: Record::HostRules { .. }, .. }, rest @ ..] => rest,
        all => all,
    }
}

/// Reads an input back from what is recorded of it and from what it wrote. `None` where what should be there is not.
pub(crate) fn read_back(recorded: &Recorded, wrote: &[Entry]) -> Option<Input> {
    let wrote = own(wrote);
    Some(match recorded.is.as_str() {
        LOOK => Input::Look,
        TIMER => Input::Timer,
        RECOVER => Input::Recover { calls: facts(wrote) },
        ANSWERED | FAILED | CUT_OFF | RETURNED | SUMMARISED | TASK_DOWN | TASK_LEFT => {
            let first = wrote.first()?;
            report(&recorded.is, first, wrote)?.of(first.ticket?)
        }
        _ => {
            let command = Command::read_back(recorded, wrote)?;
            Input::Command { reply: ReplyTo::NOBODY, command, id: recorded.id.clone() }
        }
    })
}

fn report(is: &str, first: &Entry, wrote: &[Entry]) -> Option<Report> {
    Some(match (is, &first.record) {
        (ANSWERED, Record::Answer { answer, interrupted: false, .. }) => {
            let calls = facts(wrote);
            let unknown = |name: &str| CallFacts::unknown(name, "is not on the tape");
            let told = (0..).zip(answer.calls());
            let calls = told.map(|(index, (name, _))| calls.get(&index).cloned().unwrap_or_else(|| unknown(name)));
            let calls = calls.collect();
            Report::Answered { answer: (**answer).clone(), calls }
        }
        (FAILED, Record::RequestFailed { error, .. }) => Report::Failed { error: error.clone() },
        (CUT_OFF, Record::Answer { answer, interrupted: true, estimated }) => {
            let written = estimated.map_or(0, |estimated| estimated.output);
            let thrown_away = written.saturating_sub(spent::written(answer));
            Report::CutOff { partial: answer.parts.clone(), thrown_away }
        }
        (RETURNED, Record::Result { result, .. }) => Report::Returned { result: (**result).clone() },
        (SUMMARISED, Record::Compacted(compacted)) => {
            let summary = compacted.summary.clone()?;
            Report::Summarised { result: Ok((summary, compacted.usage)), lost: compacted.lost }
        }
        (SUMMARISED, Record::CompactionFailed { error, usage, estimated, lost }) => {
            let none = NoSummary { error: error.clone(), usage: *usage, estimated: *estimated };
            Report::Summarised { result: Err(none), lost: *lost }
        }
        (TASK_DOWN, Record::TaskFinished { down, .. }) => Report::TaskDown { down: (**down).clone() },
        (TASK_LEFT, Record::TaskLeft {}) => Report::TaskLeft,
        _ => return None,
    })
}

/// What was told of calls, by their place in the answer that asked for them.
fn facts(wrote: &[Entry]) -> std::collections::BTreeMap<u32, CallFacts> {
    let told = wrote.iter().filter_map(|entry| match &entry.record {
        Record::Call(call) => Some((call.index, call.facts.clone())),
        Record::CallFacts { index, facts } => Some((*index, facts.clone())),
        _ => None,
    });
    told.collect()
}

/// A recorded input in a few words.
pub(crate) fn about_the_recorded(input: &Input) -> String {
    match input {
        Input::Command { command, .. } => command.in_words(),
        Input::Recover { .. } => "recovery after a crash".to_owned(),
        Input::Timer => "time passed".to_owned(),
        Input::Look => "the host had changed".to_owned(),
        Input::Hold => "a recovery was to come".to_owned(),
        Input::Report { ticket, report } => match report {
            Report::Answered { .. } => format!("request {ticket} was answered"),
            Report::Failed { .. } => format!("request {ticket} failed"),
            Report::CutOff { .. } => format!("request {ticket} was cut off"),
            Report::Returned { .. } => format!("call {ticket} returned"),
            Report::Summarised { result: Ok(_), .. } => format!("the summary of compaction {ticket} came"),
            Report::Summarised { result: Err(_), .. } => format!("compaction {ticket} failed"),
            Report::TaskDown { .. } => format!("the child of task {ticket} is down"),
            Report::TaskLeft => format!("the child of task {ticket} knows that it is an orphan"),
        },
    }
}

impl Entry {
    /// The entry as the tape takes it.
    ///
    /// # Errors
    /// Where the record cannot be written as JSON; no record that the core makes is such.
    pub fn to_tape(&self) -> Result<tape::Entry, serde_json::Error> {
        // The record is written as {"kind":data}; its two halves are the kind and the data of the line.
        let whole = serde_json::to_string(&self.record)?;
        let kind_end = whole[2..].find('"').map_or(whole.len(), |at| at + 2);
        let kind = whole[2..kind_end].to_owned();
        let data = RawValue::from_string(whole[kind_end + 2..whole.len() - 1].to_owned())?;
        Ok(tape::Entry {
            seq: self.seq,
            time: self.time,
            cause: self.cause.clone(),
            turn: self.turn,
            step: self.step,
            ticket: self.ticket,
            input: self.input.as_ref().map(serde_json::value::to_raw_value).transpose()?,
            kind,
            data,
        })
    }

    /// The entry that a line of the tape holds.
    ///
    /// # Errors
    /// Where the kind is unknown or its data has another shape: a newer version wrote it, or it is damaged.
    pub fn from_tape(line: &tape::Entry) -> Result<Entry, BadRecord> {
        let text = format!("{{{}:{}}}", serde_json::Value::from(line.kind.as_str()), line.data.get());
        let mut json = serde_json::Deserializer::from_str(&text);
        // A provider's or a tool's value may be as deep as JSON is read (128 levels), and stands some levels down in its entry.
        json.disable_recursion_limit();
        let record = Record::deserialize(&mut json).and_then(|record| json.end().map(|()| record));
        let bad = |source| BadRecord { seq: line.seq, kind: line.kind.clone(), source };
        let record = record.map_err(bad)?;
        let input = line.input.as_ref().map(|input| serde_json::from_str(input.get())).transpose().map_err(bad)?;
        Ok(Entry {
            seq: line.seq,
            time: line.time,
            cause: line.cause.clone(),
            turn: line.turn,
            step: line.step,
            ticket: line.ticket,
            input,
            record,
        })
    }
}

/// Values of `Env` that were read: those of one decision, or the newest of a tape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvSeen {
    /// Models, by `provider/name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelSeen>,
    /// The tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsSeen>,
    /// Whether anybody listened who could answer an ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<bool>,
    /// What was drawn for jitter, in millionths. No later decision goes by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<u32>,
}

/// A model as a decision saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSeen {
    /// Its window, as the host knows it.
    pub window: Window,
    /// What its tokens cost, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// The tools as a decision saw them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsSeen {
    /// Hash of what models are told of them.
    pub hash: String,
    /// What they take in a request, in estimated tokens.
    pub tokens: u64,
}

impl EnvSeen {
    /// Whether nothing was read that the tape did not say.
    pub(super) fn is_nothing(&self) -> bool {
        *self == EnvSeen::default()
    }

    /// Puts what was read later over this.
    pub(crate) fn learn(&mut self, later: &EnvSeen) {
        self.models.extend(later.models.iter().map(|(model, seen)| (model.clone(), *seen)));
        if later.tools.is_some() {
            self.tools.clone_from(&later.tools);
        }
        self.heard = later.heard.or(self.heard);
    }
}

/// [`Env`] under the eyes of a decision: notes what is read of it, where the tape does not say so.
pub(super) struct Reader<'a> {
    env: &'a Env<'a>,
    read: RefCell<EnvSeen>,
    jitter: Cell<Option<u32>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(env: &'a Env<'a>) -> Reader<'a> {
        Reader { env, read: RefCell::default(), jitter: Cell::new(None) }
    }

    /// What was read since this was asked last, and the tape did not say.
    pub(super) fn take(&self) -> EnvSeen {
        EnvSeen { jitter: self.jitter.take(), ..self.read.take() }
    }

    pub(super) fn globs(&self) -> &'a Globs {
        self.env.globs
    }

    pub(super) fn host_rules(&self) -> Option<&'a Ruleset> {
        self.env.host_rules
    }

    pub(super) fn model(&self, known: &EnvSeen, model: &ModelRef) -> ModelSeen {
        let seen = ModelSeen { window: self.env.windows.window(model), price: self.env.windows.price(model) };
        let name = model.to_string();
        if known.models.get(&name) != Some(&seen) {
            self.read.borrow_mut().models.insert(name, seen);
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

    /// The number for jitter, as it is written: in whole millionths.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and a million")]
    pub(super) fn jitter(&self) -> f64 {
        let drawn = (self.env.jitter.clamp(0.0, 1.0) * MILLION) as u32;
        self.jitter.set(Some(drawn));
        f64::from(drawn) / MILLION
    }
}

const MILLION: f64 = 1_000_000.0;

/// The jitter that was drawn, as [`Env`] takes it: what is written of it again is the same.
pub(crate) fn jitter_of(millionths: u32) -> f64 {
    (f64::from(millionths) + 0.5) / MILLION
}
