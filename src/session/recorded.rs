//! What an entry says of the input that wrote it: the field `in` of its line.
//!
//! The first entry that an input wrote has it, and the entries behind it, up to the next one that has it, followed from the same
//! input. It says the kind of input, the id of a command, what was read of [`Env`](crate::session::Env), and of the input's own
//! values those alone that none of its entries holds: the message that was sent stands in its `accepted`, and is read back from
//! there. So a replay decodes each input and never guesses.
//!
//! An input that wrote nothing has changed nothing, and is not recorded. One that wrote nothing by itself, while something
//! followed from the state at its occasion (the host has other rules by now), is recorded as [`Input::Look`].

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    ids::{CommandId, Seq},
    session::{Command, Entry, EnvSeen, Input, NoSummary, Record, ReplyTo, Report, spent},
    tool::CallFacts,
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
