//! [`NoteFinding`]: a tool with which a model notes what it found, and the file in which the runtime keeps that ([`Findings`]).
//!
//! The file belongs to the runtime: it is one line a finding, the oldest leave where it would grow over [`FILE_BYTES_MAX`], and the
//! model says only the words of a line. So the tool needs no permission to edit, but that of the to-do list. A change must keep that
//! the file is opened beneath the workspace, and that nothing of a model names it.

use std::{path::Path, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    lock::Lock,
    model::BoxFuture,
    tool::{Access, Effect, Tool, ToolContext, ToolResult, Workspace, WriteOptions, blocking, parse_arguments},
};

/// The longest finding, in characters.
const FINDING_CHARS_MAX: usize = 1_000;
/// The most bytes of the file.
const FILE_BYTES_MAX: usize = 64 * 1024;
/// The most bytes of it that a model is told at the start of a turn: the newest.
const TOLD_BYTES_MAX: usize = 4 * 1024;

/// Notes a finding in the file of [`Planning::findings`](crate::hook::Planning::findings). Made by
/// [`Planning::tool`](crate::hook::Planning::tool).
///
/// The file keeps the newest 64 KiB, one line a finding. The call needs the permission `todo`, which every profile lets a model have
/// that may read; a finding is at most 1,000 characters.
#[derive(Clone, Debug)]
pub struct NoteFinding {
    file: Arc<str>,
    /// Two calls do not write at once.
    writes: Arc<Lock<()>>,
}

#[derive(Deserialize)]
struct Noted {
    finding: String,
}

/// The finding as a line; an error for the model where it is none.
fn line(arguments: Value) -> Result<String, String> {
    let Noted { finding } = parse_arguments(arguments).map_err(|error| error.to_string())?;
    let finding = finding.split_whitespace().collect::<Vec<_>>().join(" ");
    match finding.chars().count() {
        0 => Err("The finding is empty: say in a sentence what you found, and where.".to_owned()),
        1..=FINDING_CHARS_MAX => Ok(format!("- {finding}\n")),
        chars => {
            Err(format!("The finding has {chars} characters, and {FINDING_CHARS_MAX} are the most: say it shorter."))
        }
    }
}

impl NoteFinding {
    pub(super) fn new(file: impl Into<Arc<str>>) -> NoteFinding {
        NoteFinding { file: file.into(), writes: Arc::default() }
    }

    /// Adds a line at the end of the file. Blocks.
    fn add(&self, workspace: &Path, line: &str) -> Result<usize, String> {
        let failed = |error: crate::tool::WorkspaceError| format!("The finding was not noted: {error}.");
        let _one = self.writes.lock();
        let workspace = Workspace::open(workspace).map_err(failed)?;
        let path = workspace.resolve_for_write(&self.file).map_err(failed)?;
        let mut text = kept(&workspace, &self.file).unwrap_or_default();
        text.push_str(line);
        let text = newest(&text, FILE_BYTES_MAX);
        workspace.write(&path, text.as_bytes(), &WriteOptions::default()).map_err(failed)?;
        Ok(text.lines().count())
    }
}

/// The content of the file; `None` where there is none that can be read.
fn kept(workspace: &Workspace, file: &str) -> Option<String> {
    let path = workspace.resolve(file).ok()?;
    let (bytes, _) = workspace.read(&path, 4 * FILE_BYTES_MAX as u64).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last lines of a text that have room in so many bytes.
fn newest(text: &str, bytes_max: usize) -> &str {
    let Some(from) = text.len().checked_sub(bytes_max).filter(|from| *from > 0) else { return text };
    let from = text.ceil_char_boundary(from);
    text[from..].find('\n').map_or("", |end| &text[from + end + 1..])
}

/// The newest findings of a session's folder. Blocks.
pub(super) fn of_before(workspace: &Path, file: &str) -> Option<String> {
    let workspace = Workspace::open(workspace).ok()?;
    let text = kept(&workspace, file)?;
    let text = newest(text.trim(), TOLD_BYTES_MAX).to_owned();
    Some(text).filter(|text| !text.is_empty())
}

impl Tool for NoteFinding {
    fn name(&self) -> &'static str {
        "note_finding"
    }

    fn description(&self) -> &'static str {
        "Notes in one sentence what you found and where, so that it is known in later turns and after a restart. Note what took \
         effort to find out, and not what a look at a file shows."
    }

    fn schema(&self) -> Value {
        let finding =
            json!({ "type": "string", "description": "What was found, and where: at most 1,000 characters." });
        json!({ "type": "object", "properties": { "finding": finding }, "required": ["finding"] })
    }

    /// Twice the same line does no harm.
    fn effect(&self) -> Effect {
        Effect::Idempotent
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new("todo", "*")]
    }

    fn permissions(&self) -> Vec<String> {
        vec!["todo".to_owned()]
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        line(arguments.clone()).map(drop)
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        let tool = self.clone();
        Box::pin(blocking(context, move |context| {
            let noted = line(arguments).and_then(|line| tool.add(&context.workspace, &line));
            match noted {
                Ok(1) => ToolResult::ok(format!("Noted in {}: the first finding.", tool.file)),
                Ok(count) => ToolResult::ok(format!("Noted in {}: {count} findings by now.", tool.file)),
                Err(error) => ToolResult::error(error),
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// V-07: the file keeps the newest lines, whole.
    #[test]
    fn the_file_keeps_the_newest_findings() {
        let folder = tempfile::tempdir().unwrap();
        let tool = NoteFinding::new("notes/found.md");
        let long = "x".repeat(900);
        for n in 0..100 {
            let line = line(json!({ "finding": format!("{n}\n  {long}") })).unwrap();
            tool.add(folder.path(), &line).unwrap();
        }
        let text = std::fs::read_to_string(folder.path().join("notes/found.md")).unwrap();
        assert!(text.len() <= FILE_BYTES_MAX && text.lines().all(|line| line.starts_with("- ")), "{}", text.len());
        assert!(text.lines().last().unwrap().starts_with("- 99 x"));
        let told = of_before(folder.path(), "notes/found.md").unwrap();
        assert!(told.len() <= TOLD_BYTES_MAX && told.starts_with("- 9") && text.trim_end().ends_with(&told));
        assert_eq!(of_before(folder.path(), "none.md"), None);
        assert!(line(json!({ "finding": " \n" })).unwrap_err().contains("empty"));
        assert!(line(json!({ "finding": "x".repeat(1_001) })).unwrap_err().contains("1000 are the most"));
    }
}
