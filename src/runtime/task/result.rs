//! The result of a task: from its DOWN on the parent's tape, and from the entries of the child's.
//!
//! Status and answer are those of the DOWN, which comes once, so the result says the same whenever it is asked for. Calls, changed
//! files and attachments are those of the child's tape since the prompt of this task; they are missing if that tape cannot be
//! read, which is not an error. A change must keep the lists bounded, because a parent's model and tape get them.

use std::collections::BTreeMap;

use super::progress::millis;
use crate::{
    error::SendError,
    kernel::{Down, DownReason, Entry, Record, TaskOrder},
    runtime::Child,
    task::{
        ContextRef, ContextRefKind, TASK_VERSION, TaskError, TaskMetrics, TaskOutput, TaskProvenance, TaskResult,
        TaskStatus, TaskToolCalls,
    },
    tool::{Access, CallFacts, ToolResult},
    words::ids::{MessageId, Seq},
    words::message::{FileChange, FilePart},
};

/// The most files of calls, and the most changed files, that a result names.
const ATTACHMENTS_MAX: usize = 16;
const CHANGES_MAX: usize = 500;
/// The most sources that a result names.
const SOURCES_MAX: usize = 64;

pub(super) async fn of(child: &Child) -> Result<TaskResult, SendError> {
    let down = child.down().await?;
    let about = child.on_tape().await?;
    let order = about.iter().find_map(|entry| match &entry.record {
        Record::TaskStarted { order, .. } => order.clone(),
        _ => None,
    });
    let took =
        about.last().zip(about.first()).map_or_else(Default::default, |(last, first)| last.time.since(first.time));
    // A child that was never made, or is damaged, has nothing to tell besides its DOWN.
    let entries = child.session().entries().await.unwrap_or_default();
    let prompt = order.as_ref().map(|order| order.prompt.id.clone());
    let work = Work::of(&entries, prompt.as_ref());
    Ok(made(child, &down, order.as_deref(), work, millis(took)))
}

fn made(child: &Child, down: &Down, order: Option<&TaskOrder>, work: Work, latency_ms: u64) -> TaskResult {
    let (status, error) = ended(&down.reason);
    let trace = order.and_then(|order| order.terms.trace.as_deref());
    let cost_micro_usd = down.spent.and_then(|spent| spent.cost.shown().cost);
    let tokens = down.spent.map_or(down.usage, |spent| spent.usage);
    TaskResult {
        v: TASK_VERSION,
        trace_id: trace.unwrap_or_default().to_owned(),
        task_id: order.map(|order| order.prompt.id.to_string()).unwrap_or_default(),
        status,
        output: TaskOutput { answer: down.text.to_string(), citations: cited(&down.text, &work.sources) },
        tool_calls: work.calls.into_values().collect(),
        attachments: work.attachments,
        patch: work.patch.into_values().take(CHANGES_MAX).collect(),
        errors: error.into_iter().collect(),
        provenance: TaskProvenance {
            session_id: child.session().id().clone(),
            agent: order.map(|order| order.settings.agent.clone()).unwrap_or_default(),
            model: order.map(|order| order.settings.model.to_string()).unwrap_or_default(),
            sources: work.sources,
        },
        metrics: TaskMetrics { tokens, cost_micro_usd, latency_ms, steps: down.steps },
    }
}

/// The status of a task that ended so, and what went wrong. A task that was stopped, whose budget is spent, whose child is
/// parked, or that cannot be found, does not end better on a second try.
fn ended(reason: &DownReason) -> (TaskStatus, Option<TaskError>) {
    let (status, code, retryable) = match reason {
        DownReason::Done => return (TaskStatus::Completed, None),
        DownReason::Failed { .. } => (TaskStatus::Error, "failed", true),
        DownReason::Budget { .. } => (TaskStatus::Error, "budget", false),
        DownReason::Aborted { .. } => (TaskStatus::Cancelled, "aborted", false),
        DownReason::Ended { .. } => (TaskStatus::Cancelled, "ended", false),
        DownReason::TimedOut { .. } => (TaskStatus::TimedOut, "timed_out", true),
        DownReason::Parked => (TaskStatus::Error, "parked", false),
        DownReason::Lost { .. } => (TaskStatus::Error, "lost", false),
    };
    (status, Some(TaskError::new(code, reason.to_string(), retryable)))
}

/// What the child did for the task.
#[derive(Default)]
struct Work {
    calls: BTreeMap<String, TaskToolCalls>,
    attachments: Vec<FilePart>,
    patch: BTreeMap<String, FileChange>,
    sources: Vec<ContextRef>,
    /// What each good call has read. Calls of one answer end in any order.
    reads: BTreeMap<Seq, ContextRef>,
}

impl Work {
    /// From the entry on that has the prompt of the task: a child may have done another task before.
    fn of(entries: &[Entry], prompt: Option<&MessageId>) -> Work {
        let is_prompt =
            |entry: &Entry| matches!(&entry.record, Record::Accepted { message, .. } if Some(&message.id) == prompt);
        let from = entries.iter().rposition(is_prompt).unwrap_or(0);
        let (mut work, mut open) = (Work::default(), BTreeMap::<Seq, &CallFacts>::new());
        for entry in &entries[from..] {
            match &entry.record {
                Record::Call(call) => drop(open.insert(entry.seq, &call.facts)),
                // A hook gave it other arguments.
                Record::CallGated(gated) => {
                    if let (Some(facts), Some(known)) = (&gated.facts, entry.ticket.and_then(|at| open.get_mut(&at))) {
                        *known = facts;
                    }
                }
                Record::Result { result, .. } => {
                    let ticket = entry.ticket.unwrap_or(Seq::ZERO);
                    let facts = open.remove(&ticket);
                    if let Some(facts) = facts.filter(|_| !result.is_error()) {
                        work.read(ticket, facts, result);
                    }
                    let tool = facts.map(|facts| facts.tool.clone()).unwrap_or_default();
                    let calls = work.calls.entry(tool.clone()).or_insert_with(|| TaskToolCalls::new(tool));
                    calls.calls += 1;
                    calls.failed += u32::from(result.is_error());
                    work.attachments.extend(result.attachments.iter().cloned());
                    result.changes.iter().flat_map(|changes| &changes.files).for_each(|change| work.changed(change));
                }
                _ => {}
            }
        }
        let more = work.attachments.len().saturating_sub(ATTACHMENTS_MAX);
        work.attachments.drain(..more);
        for source in std::mem::take(&mut work.reads).into_values() {
            if !work.sources.contains(&source) {
                work.sources.push(source);
            }
        }
        let more = work.sources.len().saturating_sub(SOURCES_MAX);
        work.sources.drain(..more);
        work
    }

    /// Notes what a good call has read.
    fn read(&mut self, call: Seq, facts: &CallFacts, result: &ToolResult) {
        let is_file = |access: &&Access| access.permission == "read";
        let source = match facts.tool.as_str() {
            "read" => facts.access.iter().find(is_file).map(|one| ContextRef::new(ContextRefKind::File, &*one.pattern)),
            // Of a redirect that was not followed nothing was read.
            "web_fetch" if result.details["redirect"].is_null() => {
                result.details["url"].as_str().map(|url| ContextRef::new(ContextRefKind::Doc, url))
            }
            _ => None,
        };
        self.reads.extend(source.map(|source| (call, source)));
    }

    fn changed(&mut self, change: &FileChange) {
        match self.patch.get_mut(&change.path) {
            Some(known) => known.after = change.after.clone(),
            None => drop(self.patch.insert(change.path.clone(), change.clone())),
        }
    }
}

/// The sources that an answer names.
fn cited(answer: &str, sources: &[ContextRef]) -> Vec<ContextRef> {
    sources.iter().filter(|source| names(answer, &source.id)).cloned().collect()
}

/// Whether a text has this name, and not a longer one around it.
fn names(text: &str, name: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/');
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let before = before.strip_suffix("./").unwrap_or(before);
        let mut rest = after.chars();
        let is_whole = match rest.next() {
            // The end of a sentence, or a longer name.
            Some('.') => !rest.next().is_some_and(goes_on),
            next => !next.is_some_and(goes_on),
        };
        is_whole && !before.ends_with(|c| goes_on(c) || c == '.')
    })
}

impl TaskResult {
    /// What the child did, in one line for a model.
    pub(super) fn summary(&self) -> String {
        let mut said = vec![format!("{} steps", self.metrics.steps)];
        said.extend(self.tool_calls.iter().map(|calls| match calls.failed {
            0 => format!("{} {}", calls.tool, calls.calls),
            failed => format!("{} {} ({failed} failed)", calls.tool, calls.calls),
        }));
        if !self.patch.is_empty() {
            let files: Vec<_> = self.patch.iter().take(20).map(|change| change.path.as_str()).collect();
            said.push(format!("changed: {}", files.join(", ")));
        }
        format!("[{}; session_id {}]", said.join("; "), self.provenance.session_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O-15: two reads of one answer end in any order, and are named in the order of the calls.
    #[test]
    fn sources_come_in_the_order_of_the_calls() {
        use crate::{
            kernel::{CallOpened, CallVerdict},
            tool::Effect,
            words::ids::Millis,
        };
        let entry = |seq, ticket: Option<u64>, record| Entry {
            seq: Seq(seq),
            time: Millis(0),
            cause: None,
            turn: None,
            step: None,
            ticket: ticket.map(Seq),
            input: None,
            record,
        };
        let call = |seq, file: &str| {
            let facts = CallFacts {
                tool: "read".into(),
                effect: Effect::Read,
                parallel: true,
                access: vec![Access::new("read", file)],
                loop_key: None,
                unusable: None,
            };
            entry(seq, None, Record::Call(CallOpened { answer: Seq(1), index: 0, id: "c".into(), facts }))
        };
        let result = |seq, call| {
            let result = ToolResult::ok("text").into();
            entry(seq, Some(call), Record::Result { result, judged: CallVerdict::Allowed })
        };
        let calls = [call(2, "b.md"), call(3, "a.md"), call(4, "c.md"), call(5, "b.md")];
        let results = [result(6, 5), result(7, 4), result(8, 3), result(9, 2)];
        let entries: Vec<_> = calls.into_iter().chain(results).collect();
        let sources: Vec<_> = Work::of(&entries, None).sources.into_iter().map(|source| source.id).collect();
        assert_eq!(sources, ["b.md", "a.md", "c.md"]);
    }

    /// O-15: an answer cites what it names, and not what only begins or ends like it.
    #[test]
    fn an_answer_cites_the_sources_that_it_names() {
        let source = |name: &str| ContextRef::new(ContextRefKind::File, name);
        let sources = ["src/lib.rs", "lib.rs", "docs/a.md", "https://h/x"].map(source);
        let said = "See `src/lib.rs:12` and ./docs/a.md. Also (https://h/x).";
        assert_eq!(cited(said, &sources), [source("src/lib.rs"), source("docs/a.md"), source("https://h/x")]);
        for other in ["src/lib.rs.bak", "my-src/lib.rs", "src/lib.rs/x", "xsrc/lib.rs", "../src/lib.rs"] {
            assert!(!names(other, "src/lib.rs"), "{other}");
        }
        assert!(names("It is src/lib.rs.", "src/lib.rs") && names("src/lib.rs", "src/lib.rs"));
        assert_eq!(cited("nothing", &sources), []);
    }
}
