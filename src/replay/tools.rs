//! The tools of a replay: what the tape says of them, and nothing that could run.
//!
//! A `call` says which tool it means, what its effect is and whether it runs beside others. What it wanted stands on the tape
//! where somebody was asked about it; of the others it is known only whether they ran, or what was made of them and with which
//! words: `judged` beside a `result` says so, and of older tapes `older.rs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    ids::Seq,
    model::{Answer, AnswerPart, BoxFuture, Item},
    replay::older,
    session::{CallOpened, Entry, Judged, Record, State, Verdict},
    tool::{Effect, Tool, ToolContext, ToolResult, Toolbox},
};

/// A tool by what a tape says of it.
struct Recorded {
    name: String,
    effect: Effect,
    parallel: bool,
}

impl Tool for Recorded {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        ""
    }

    fn schema(&self) -> Value {
        Value::Null
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn parallel(&self) -> bool {
        self.parallel
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::error("a replay runs no tool") })
    }
}

/// The tools that the decision with these entries saw.
pub(super) fn toolbox(state: &State, entries: &[Entry]) -> Toolbox {
    let mut tools: BTreeMap<String, Arc<dyn Tool>> = BTreeMap::new();
    let mut add = |key: &str, name: &str, effect, parallel| {
        let tool = Recorded { name: name.to_owned(), effect, parallel };
        tools.insert(key.to_owned(), Arc::new(tool));
    };
    let mut gone = BTreeSet::new();
    // The first entry may be a report of the tool itself, which can say what it likes.
    for entry in entries.iter().skip(1) {
        let Record::Result { result, judged: None } = &entry.record else { continue };
        if let Some((name, listed)) = older::not_found(result) {
            gone.insert(name);
            listed.for_each(|name| add(name, name, Effect::Once, false));
        }
    }
    for (_, call) in state.calls().filter(|(_, call)| !gone.contains(call.tool.as_str())) {
        add(&call.tool, &call.tool, call.effect, call.parallel);
    }
    for entry in entries {
        let Record::Call(call) = &entry.record else { continue };
        if gone.contains(call.tool.as_str()) {
            continue;
        }
        add(&call.tool, &call.tool, call.effect, call.parallel);
        // The model may have called it by another name.
        let written = written_name(state, entries, call).map(str::to_lowercase);
        if let Some(written) = written.filter(|written| *written != call.tool.to_lowercase()) {
            add(&written, &call.tool, call.effect, call.parallel);
        }
    }
    Toolbox::by_other_names(tools)
}

/// The name by which the model called a tool.
fn written_name<'e>(state: &'e State, entries: &'e [Entry], call: &CallOpened) -> Option<&'e str> {
    let here = entries.iter().find_map(|entry| match &entry.record {
        Record::Answer { answer, .. } if entry.seq == call.answer => Some(&**answer),
        _ => None,
    });
    let before = || match state.history.last().map(|item| &**item) {
        Some(Item::Assistant(answer)) => Some(answer),
        _ => None,
    };
    let answer: &Answer = here.or_else(before)?;
    let calls = answer.parts.iter().filter_map(|part| match part {
        AnswerPart::Call { name, .. } => Some(name.as_str()),
        _ => None,
    });
    calls.into_iter().nth(usize::try_from(call.index).ok()?)
}

/// What was made of a call that has that result; of an older tape what its words say.
pub(super) fn judged_of(result: &ToolResult, judged: Option<Judged>) -> Option<Judged> {
    judged.or_else(|| older::judged(result))
}

/// Whether that was made of a call by what only its tool, or the toolbox, could say: a replay has neither. A call that was lost
/// may be one that the tape would run again, and the tool that there was would not.
fn is_judgement(judged: Judged) -> bool {
    matches!(judged, Judged::NoTool | Judged::Crashed | Judged::Denied | Judged::Unheard | Judged::Lost)
}

/// What became of each call that the decision with these entries judged. One of which they say nothing was not judged, or it
/// might run, and a limit of the budget let it wait.
pub(super) fn verdicts(state: &State, entries: &[Entry]) -> BTreeMap<Seq, Verdict> {
    let opened = entries.iter().filter(|entry| matches!(entry.record, Record::Call(_))).map(|entry| entry.seq);
    let silent: Vec<Seq> = state.calls().map(|(ticket, _)| ticket).chain(opened).collect();
    let judged = entries.iter().filter_map(|entry| match (&entry.record, entry.ticket) {
        (Record::Ask { call, access, .. }, _) => Some((*call, Verdict::Wants(access.clone()))),
        (Record::CallStarted { .. }, Some(call)) => Some((call, Verdict::Ran)),
        (Record::Result { result, judged }, Some(call)) => {
            let judged = judged_of(result, *judged).filter(|judged| is_judgement(*judged))?;
            Some((call, Verdict::Answered(judged, result.content.clone())))
        }
        _ => None,
    });
    let mut verdicts = BTreeMap::new();
    // What was decided first is what the rules said; a later entry of the same decision follows from something else.
    for (call, verdict) in judged {
        verdicts.entry(call).or_insert(verdict);
    }
    for call in silent {
        verdicts.entry(call).or_insert(Verdict::Ran);
    }
    verdicts
}
