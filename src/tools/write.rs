//! The `write` tool: puts a text in a file, whole, in one step.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    model::BoxFuture,
    tool::{
        Access, Effect, Tool, ToolContext, ToolResult,
        workspace::{WorkspaceError, WorkspacePath, WriteOptions},
    },
    tools::{
        arguments::{parse, schema},
        locks::{FileKey, FileLock},
        place::{self, Call, Shared, aborted, failure},
    },
};

/// Writes a file.
pub(super) struct Write(pub(super) Shared);

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Path of the file, relative to the workspace. Directories that are missing are made.
    #[serde(alias = "file_path", alias = "filePath", alias = "file")]
    path: String,
    /// The whole new content of the file.
    #[serde(alias = "contents", alias = "text")]
    content: String,
}

impl Tool for Write {
    fn name(&self) -> &'static str {
        "write"
    }

    fn aliases(&self) -> &[&str] {
        &["write_file"]
    }

    fn description(&self) -> &'static str {
        "Writes a text to a file of the workspace. What was in the file before is replaced; directories that are missing are \
         made. To change a part of a file use edit."
    }

    fn schema(&self) -> Value {
        schema::<Arguments>()
    }

    fn effect(&self) -> Effect {
        Effect::Once
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        place::access("edit", arguments, &["path", "file_path", "filePath", "file"])
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        place::run(&self.0, arguments, context, write)
    }
}

fn write(arguments: &Value, call: &Call) -> Result<ToolResult, ToolResult> {
    let arguments: Arguments = parse(arguments)?;
    let place = call.resolve(&arguments.path)?;
    let _lock = lock(call, &place)?;
    let written = call.workspace.write(&place, arguments.content.as_bytes(), &WriteOptions::default());
    let written = written.map_err(failure)?;
    let (shown, bytes) = (call.shown(&place), arguments.content.len());
    let done = if written.created { "Created" } else { "Wrote" };
    let details = json!({
        "path": shown,
        "bytes_written": bytes,
        "created": written.created,
        "atomic": written.atomic,
    });
    Ok(ToolResult::ok(format!("{done}: {shown} ({bytes} bytes)"))
        .with_details(details)
        .with_title(format!("{done} {shown}")))
}

/// Holds the file that a path leads to, or the path itself where nothing is there yet.
pub(super) fn lock(call: &Call, place: &WorkspacePath) -> Result<FileLock, ToolResult> {
    loop {
        let key = key(call, place)?;
        let lock = call.locks.lock(key.clone(), call.context).ok_or_else(aborted)?;
        // Whoever held it before may have put another file in its place.
        if self::key(call, place)? == key {
            return Ok(lock);
        }
    }
}

fn key(call: &Call, place: &WorkspacePath) -> Result<FileKey, ToolResult> {
    match call.workspace.info(place) {
        Ok(info) => {
            let (device, inode) = info.version.identity();
            Ok(FileKey::Existing(device, inode))
        }
        Err(WorkspaceError::NotFound { .. }) => Ok(FileKey::New(call.workspace.absolute(place))),
        Err(error) => Err(failure(error)),
    }
}

#[cfg(test)]
mod tests;
