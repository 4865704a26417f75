//! The tools of a replay: what the tape says of them, and nothing that could run.
//!
//! A `call` says which tool it means, what its effect is and whether it runs beside others; a refusal says which tools there
//! were. What a call wanted stands on the tape where somebody was asked about it; of the others it is known only whether they
//! ran, or with which words they were denied.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    ids::Seq,
    message::ErrorReason,
    model::{Answer, AnswerPart, BoxFuture, Item},
    session::{CallOpened, Entry, Record, State, Verdict},
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
        let Record::Result { result } = &entry.record else { continue };
        if let Some((name, listed)) = not_found(&result.content) {
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

/// The tool that was not found, and those there were, out of [`Toolbox::unknown_tool`]'s words.
fn not_found(text: &str) -> Option<(&str, impl Iterator<Item = &str>)> {
    let (name, listed) = text.strip_prefix("tool not found: ")?.split_once(". Available tools: ")?;
    Some((name, listed.split(", ").filter(|name| !name.is_empty())))
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

/// Whether these words answer a call that was judged and not run: it was denied, or its tool crashed when it was asked.
fn is_judgement(text: &str) -> bool {
    let crashed = text.starts_with("The tool ") && text.contains(" crashed over these arguments; the call was not run");
    crashed || text.starts_with("Permission denied: ")
}

/// What became of each call that the decision with these entries judged.
pub(super) fn verdicts(entries: &[Entry]) -> BTreeMap<Seq, Verdict> {
    let judged = entries.iter().filter_map(|entry| match (&entry.record, entry.ticket) {
        (Record::Ask { call, access, .. }, _) => Some((*call, Verdict::Wants(access.clone()))),
        (Record::CallStarted { .. }, Some(call)) => Some((call, Verdict::Ran)),
        (Record::Result { result }, Some(call)) if is_judgement(&result.content) => {
            let reason = result.error.unwrap_or(ErrorReason::Failed);
            Some((call, Verdict::Answered(reason, result.content.clone())))
        }
        _ => None,
    });
    let mut verdicts = BTreeMap::new();
    // What was decided first is what the rules said; a later entry of the same decision follows from something else.
    for (call, verdict) in judged {
        verdicts.entry(call).or_insert(verdict);
    }
    verdicts
}
