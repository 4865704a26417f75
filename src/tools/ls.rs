//! The `ls` tool: lists one folder, directories first.
//!
//! At most [`ENTRIES_MAX`] entries are shown, and at most as many are asked for their size. All names are read first, because the
//! order needs them. The path may lead through links inside the workspace; a link in the listing is shown as a link and not
//! followed. The work ends early when the call must stop. A change must keep each entry on its own line, for any name, so that no
//! file can forge a line of the listing. The doc comments of the arguments are sent to the model as their descriptions.

use std::{ffi::OsString, time::SystemTime};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    tool::{
        ToolResult,
        truncate::{BYTES_MAX, format_bytes},
        workspace::{Dir, DirEntry, FileKind, WorkspaceError},
    },
    tools::{
        call::{Call, failure},
        file_tool::{FileWork, Touch},
        names,
    },
};

/// How many entries are shown.
const ENTRIES_MAX: usize = 1_000;

/// Lists a folder.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Ls {
    /// Folder to list, relative to the workspace; the workspace itself by default.
    #[serde(default = "here", alias = "directory", alias = "dir", alias = "file_path")]
    path: String,
}

fn here() -> String {
    ".".to_owned()
}

impl FileWork for Ls {
    const NAME: &'static str = "ls";
    const ALIASES: &'static [&'static str] = &["list_directory"];
    const DESCRIPTION: &'static str = "\
        Lists what is in one folder of the workspace, hidden files too: size and name, directories first. A name ends in `/` \
        for a directory and in `@` for a symlink. At most 1000 entries are shown.";
    const TOUCH: Touch = Touch::Reads;
    const PATH_NAMES: &'static [&'static str] = &["path", "directory", "dir", "file_path"];

    fn work(&self, call: &Call) -> Result<ToolResult, ToolResult> {
        let no_folder = || failure(WorkspaceError::NotDirectory { path: self.path.clone() });
        let dir = call.open_folder(&self.path)?.ok_or_else(no_folder)?;
        let mut entries = Vec::new();
        for entry in dir.entries().map_err(failure)? {
            call.go_on()?;
            entries.push(entry.map_err(failure)?);
        }
        let total = entries.len();
        entries.sort_by_cached_key(order);
        // Only the entries that are shown are asked for their size.
        let mut shown = Vec::new();
        let (mut text, mut cut_by_bytes) = (String::new(), false);
        for entry in entries.iter().take(ENTRIES_MAX) {
            call.go_on()?;
            let (line, details) = describe(&dir, entry);
            if text.len() + line.len() + 1 > BYTES_MAX {
                cut_by_bytes = true;
                break;
            }
            text.push_str(&line);
            text.push('\n');
            shown.push(details);
        }
        let count = shown.len();
        let by = if cut_by_bytes { format!(" ({} limit)", format_bytes(BYTES_MAX)) } else { String::new() };
        let hint = match total {
            0 => "(empty directory)".to_owned(),
            _ if count < total => {
                format!("[Showing {count} of {total} entries{by}. Use find with a pattern to see others.]")
            }
            _ => String::new(),
        };
        text.push_str(&hint);
        let name = call.shown(dir.path());
        Ok(ToolResult::ok(text.trim_end_matches('\n'))
            .with_details(json!({ "path": name, "entries": shown, "total": total, "truncated": count < total }))
            .with_title(format!("Listed {name}")))
    }
}

/// Directories first, then by name without regard to case.
fn order(entry: &DirEntry) -> (bool, String, OsString) {
    (entry.kind != FileKind::Directory, entry.name.to_string_lossy().to_lowercase(), entry.name.clone())
}

/// One line of the listing, and the same entry as details for programs.
fn describe(dir: &Dir, entry: &DirEntry) -> (String, Value) {
    let info = dir.info(&entry.name).ok();
    let kind = info.map_or(entry.kind, |info| info.kind);
    let bytes = info.map_or(0, |info| info.bytes);
    let size = match kind {
        FileKind::File => size(bytes),
        _ => "-".to_owned(),
    };
    let suffix = match kind {
        FileKind::Symlink => "@",
        FileKind::Fifo => "|",
        FileKind::Socket => "=",
        _ => "",
    };
    let path = std::path::Path::new(&entry.name);
    let name = names::shown(path);
    // The slash of a directory is inside the quotes of a quoted name.
    let listed = if kind == FileKind::Directory { names::shown(&path.join("")) } else { name.clone() };
    let details =
        json!({ "name": name, "type": kind.to_string(), "size": bytes, "mtime": info.map(|info| time(info.modified)) });
    (format!("{size:>10} {listed}{suffix}"), details)
}

/// A size in whole units: 2000 bytes are 1K.
fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    const MIB: u64 = 1024 * 1024;
    match bytes {
        0..KIB => format!("{bytes}B"),
        KIB..MIB => format!("{}K", bytes / KIB),
        _ => format!("{}M", bytes / MIB),
    }
}

/// A time in UTC, to the second.
fn time(time: SystemTime) -> String {
    let timestamp = jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    timestamp.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests;
