//! The `write` tool: replaces the whole content of a file, or makes the file.
//!
//! The file is written in one step where the file system allows it; the details say whether it was (`atomic`). A file that
//! differs from what the session saw last is not overwritten (`seen.rs`); a file that the session has not seen is. A change must
//! write through [`LockedFile`] alone, because a write by another way would take no lock and leave no record for a restore. The
//! doc comments of the arguments are what a model is told of them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{
    tool::{
        ToolResult,
        workspace::{WorkspaceError, WriteOptions},
    },
    tools::{
        call::{Call, failure},
        file_tool::{FileWork, Touch},
        locked::LockedFile,
    },
};

/// Writes a file.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Write {
    /// Path of the file, relative to the workspace. Directories that are missing are made.
    #[serde(alias = "file_path", alias = "filePath", alias = "file")]
    path: String,
    /// The whole new content of the file.
    #[serde(alias = "contents", alias = "text")]
    content: String,
}

impl FileWork for Write {
    const NAME: &'static str = "write";
    const ALIASES: &'static [&'static str] = &["write_file"];
    const DESCRIPTION: &'static str = "\
        Writes a text to a file of the workspace. What was in the file before is replaced; directories that are missing are \
        made. To change a part of a file use edit.";
    const TOUCH: Touch = Touch::Writes;
    const PATH_NAMES: &'static [&'static str] = &["path", "file_path", "filePath", "file"];

    fn work(&self, call: &Call) -> Result<ToolResult, ToolResult> {
        let place = call.resolve(&self.path)?;
        let locked = LockedFile::take(call, &place)?;
        let options = WriteOptions { expect: locked.overwritable()?, ..WriteOptions::default() };
        let written = locked.write(self.content.as_bytes(), &options)?.map_err(|error| match error {
            WorkspaceError::Changed { .. } => locked.stale(),
            error => failure(error),
        })?;
        let (shown, bytes) = (call.shown(&place), self.content.len());
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
}

#[cfg(test)]
mod tests;
