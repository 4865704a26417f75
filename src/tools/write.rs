//! The `write` tool: replaces the whole content of a file, or makes the file.
//!
//! The file is written in one step where the file system allows it; the details say whether it was (`atomic`). A file that
//! differs from what the session saw last is not overwritten (`seen.rs`); a file that the session has not seen is. The old text
//! leaves its encoding, byte order mark and line ends to the new one (`form.rs`). A change must write through [`LockedFile`]
//! alone, because a write by another way would take no lock and leave no record for a restore. The doc comments of the arguments
//! are sent to the model as their descriptions.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{
    tool::{
        ToolResult,
        workspace::{FileKind, WorkspaceError, WriteOptions},
    },
    tools::{
        call::{Call, failure},
        file_tool::{FileWork, Touch},
        form,
        locked::LockedFile,
        seen::CONTENT_BYTES_MAX,
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
        made. A file that is there keeps its encoding and line endings. To change a part of a file use edit.";
    const TOUCH: Touch = Touch::Writes;
    const PATH_NAMES: &'static [&'static str] = &["path", "file_path", "filePath", "file"];

    fn foresee(&self, call: &Call) -> Result<(), ToolResult> {
        let place = call.resolve(&self.path)?;
        call.overwritable(&place)?;
        call.refuse_marks(&place, self.content.as_bytes())?;
        match call.workspace.info(&place) {
            Ok(info) if info.kind == FileKind::Directory => {
                Err(failure(WorkspaceError::IsDirectory { path: place.to_string() }))
            }
            // A missing file is made. Any other error that prevents reading it prevents writing it.
            Ok(_) | Err(WorkspaceError::NotFound { .. }) => Ok(()),
            Err(error) => Err(failure(error)),
        }
    }

    fn work(&self, call: &Call) -> Result<ToolResult, ToolResult> {
        let place = call.resolve(&self.path)?;
        let locked = LockedFile::take(call, &place)?;
        let options = WriteOptions { expect: call.overwritable(&place)?, ..WriteOptions::default() };
        let old = call.workspace.read(&place, CONTENT_BYTES_MAX).map_or_else(|_| Vec::new(), |(content, _)| content);
        let (content, form) = form::as_before(&old, &self.content);
        let written = locked.write(&content, &options)?.map_err(|error| match error {
            WorkspaceError::Changed { .. } => call.stale(&place),
            error => failure(error),
        })?;
        let (shown, bytes) = (call.shown(&place), content.len());
        let done = if written.created { "Created" } else { "Wrote" };
        let mut details = json!({
            "path": shown,
            "bytes_written": bytes,
            "created": written.created,
            "atomic": written.atomic,
        });
        let said = form.as_ref().map(|form| format!("; {form}")).unwrap_or_default();
        if let Some(form) = form {
            details["form"] = json!(form);
        }
        Ok(ToolResult::ok(format!("{done}: {shown} ({bytes} bytes{said})"))
            .with_details(details)
            .with_title(format!("{done} {shown}")))
    }
}

#[cfg(test)]
mod tests;
