//! The `edit` tool: replaces a text in a file, or applies a diff to it.
//!
//! Only the bytes of the matched text, or of the lines that the diff changes, become others. A text that is nowhere as it was given
//! is looked for again with blanks and typographic signs folded (`edit/matching.rs`). Calls of one toolbox that edit one file wait
//! for each other.
//!
//! There are two kinds of change by others. A file that someone changed after the session had read it is refused, because the
//! model does not know its present content. A file that changes between the read and the write of this very call is read again,
//! and the edit is tried again, five times in all at most.
//!
//! A call that is refused must leave the file as it is, whether over an ambiguous text, a diff that does not fit, or an encoding
//! that lacks a character: a change must make the whole new content in memory first. It must write through [`LockedFile`] alone,
//! so that the old content is kept for a restore. The doc comments of the arguments are sent to the model as their descriptions.

pub(super) mod diff;
mod matching;
mod nearest;
mod patch;
mod view;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{
    tool::{
        ToolResult,
        workspace::{FileInfo, WorkspaceError, WorkspacePath, WriteOptions},
    },
    tools::{
        arguments::or_default,
        call::{Call, failure},
        charset::Charset,
        file_tool::{FileWork, Touch},
        locked::LockedFile,
        text::{self, Kind},
    },
};

/// Largest file that is edited, in bytes.
const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// How many times an edit is tried when the file changes between its read and its write.
const TRIES_MAX: usize = 5;

/// How many places of an ambiguous text the error names.
const PLACES_SHOWN_MAX: usize = 20;

/// Edits a file.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Edit {
    /// Path of the file, relative to the workspace.
    #[serde(alias = "file_path", alias = "filePath", alias = "file")]
    path: String,
    /// The text to replace, exactly as it stands in the file, without line numbers. It must stand there once.
    #[serde(alias = "oldText", alias = "old_text", alias = "oldString")]
    old_string: Option<String>,
    /// The text to put in its place.
    #[serde(alias = "newText", alias = "new_text", alias = "newString")]
    new_string: Option<String>,
    /// Replace every occurrence, however many there are.
    #[serde(default, alias = "replaceAll", deserialize_with = "or_default")]
    replace_all: bool,
    /// `replace` (the default) takes old_string and new_string; `diff` takes diff.
    #[serde(default)]
    #[schemars(with = "Mode")]
    mode: Option<Mode>,
    /// With mode `diff`: a unified diff of this one file. Its context and removed lines must be as in the file.
    #[serde(alias = "patch")]
    diff: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Replace,
    Diff,
}

impl FileWork for Edit {
    const NAME: &'static str = "edit";
    const ALIASES: &'static [&'static str] = &["edit_file"];
    const DESCRIPTION: &'static str = "\
        Replaces a text in a file of the workspace. old_string must be exactly as in the file, with all blanks and line \
        breaks, and must stand there once unless replace_all is true: give enough lines around it. Line endings and encoding \
        of the file are kept. With mode `diff` it applies a unified diff instead.";
    const TOUCH: Touch = Touch::Writes;
    const PATH_NAMES: &'static [&'static str] = &["path", "file_path", "filePath", "file"];

    fn check(&self) -> Result<(), ToolResult> {
        match change(self)? {
            Change::Replace { old, new, .. } => can_be_replaced(old, new),
            Change::Patch(diff) => patch::check(diff).map_err(|error| ToolResult::error(error.to_string())),
        }
    }

    fn foresee(&self, call: &Call) -> Result<(), ToolResult> {
        let place = call.resolve(&self.path)?;
        let (before, _, charset) = read(call, &place)?;
        let edited = apply_in(charset, &before, &change(self)?)?;
        call.refuse_marks(&place, edited.content.as_ref().unwrap_or(&edited.changed.content))
    }

    fn work(&self, call: &Call) -> Result<ToolResult, ToolResult> {
        let change = change(self)?;
        let place = call.resolve(&self.path)?;
        for _ in 0..TRIES_MAX {
            let locked = LockedFile::take(call, &place)?;
            let (before, info, charset) = read(call, &place)?;
            let edited = apply_in(charset, &before, &change)?;
            let options = WriteOptions { expect: Some(info.version), create_parents: false, ..WriteOptions::default() };
            let content = edited.content.as_ref().unwrap_or(&edited.changed.content);
            match locked.write(content, &options)? {
                Ok(_) => return Ok(answer(&edited, charset, &change, &call.shown(&place))),
                Err(WorkspaceError::Changed { .. }) => {}
                Err(error) => return Err(failure(error)),
            }
        }
        let text = "the file is being changed by someone else all the time; nothing was edited. Read it again before the next try";
        Err(ToolResult::error(format!("{}: {text}", call.shown(&place))))
    }
}

/// What to do with the content of the file.
enum Change<'a> {
    Replace { old: &'a str, new: &'a str, all: bool },
    Patch(&'a str),
}

/// A content after the change, and how much was changed.
struct Changed {
    content: Vec<u8>,
    /// How many places were replaced; in mode `diff` how many lines were added and removed.
    replacements: usize,
    /// Whether the text was found only after folding.
    fuzzy: bool,
}

fn change(arguments: &Edit) -> Result<Change<'_>, ToolResult> {
    let missing = |field: &str, mode: &str| {
        ToolResult::error(format!("bad arguments: missing field `{field}`, which mode `{mode}` needs"))
    };
    // A diff without an old text is clearly meant as mode `diff`.
    let patch = arguments.diff.as_deref().filter(|_| arguments.old_string.is_none());
    match (arguments.mode, patch) {
        (Some(Mode::Diff), _) | (None, Some(_)) => {
            Ok(Change::Patch(arguments.diff.as_deref().ok_or_else(|| missing("diff", "diff"))?))
        }
        _ => {
            let old = arguments.old_string.as_deref().ok_or_else(|| missing("old_string", "replace"))?;
            let new = arguments.new_string.as_deref().ok_or_else(|| missing("new_string", "replace"))?;
            Ok(Change::Replace { old, new, all: arguments.replace_all })
        }
    }
}

/// The content of the file, and its encoding; an error if it cannot be edited, or the session has not seen it as it is.
fn read(call: &Call, place: &WorkspacePath) -> Result<(Vec<u8>, FileInfo, Option<Charset>), ToolResult> {
    let (before, info) = call.workspace.read(place, FILE_BYTES_MAX).map_err(read_failure)?;
    let charset = encoding(&before, call, place)?;
    call.refuse_stale(place, &before, &info)?;
    Ok((before, info, charset))
}

fn read_failure(error: WorkspaceError) -> ToolResult {
    match error {
        WorkspaceError::NotFound { path } => {
            failure(WorkspaceError::NotFound { path: format!("File not found: {path}") })
        }
        WorkspaceError::TooLarge { bytes, .. } => {
            // Tenths of a MiB, so that a file one byte over the limit does not seem to be within it.
            let tenths = (bytes * 10).div_ceil(1024 * 1024);
            let (whole, tenth) = (tenths / 10, tenths % 10);
            ToolResult::error(format!("File too large ({whole}.{tenth} MB). Maximum is 10 MB."))
        }
        error => failure(error),
    }
}

/// The encoding of a content that can be edited; `None` for UTF-8, and for text that is edited as if it were UTF-8. The error is
/// the result for a file that is not text.
fn encoding(content: &[u8], call: &Call, place: &WorkspacePath) -> Result<Option<Charset>, ToolResult> {
    let what = match text::kind(content) {
        Kind::Utf8 { .. } => return Ok(None),
        Kind::Encoded(guess) => return Ok(Some(guess.charset)),
        Kind::Binary => "it is not text".to_owned(),
        Kind::Image(mime) => format!("it is {mime}"),
    };
    Err(ToolResult::error(format!("{}: Binary file, cannot be edited: {what}", call.shown(place))))
}

/// An edit that was made in memory and is not written yet.
struct Edited<'b> {
    /// The old content, as UTF-8.
    before: Cow<'b, [u8]>,
    /// The new content, as UTF-8.
    changed: Changed,
    /// The new content in the encoding of the file; `None` if that is UTF-8.
    content: Option<Vec<u8>>,
}

/// Applies a change to the content of a file, in the file's own encoding.
fn apply_in<'b>(charset: Option<Charset>, before: &'b [u8], change: &Change) -> Result<Edited<'b>, ToolResult> {
    let Some(charset) = charset else {
        let changed = apply(before, change)?;
        return Ok(Edited { before: Cow::Borrowed(before), changed, content: None });
    };
    let name = charset.name();
    let Some(text) = charset.decode(before) else {
        return Err(ToolResult::error(format!(
            "Binary file, cannot be edited: it is encoded in {name} and damaged, so other bytes might change. Convert it first."
        )));
    };
    let changed = apply(text.as_bytes(), change)?;
    let content = charset.encode(&String::from_utf8_lossy(&changed.content)).map_err(|stranger| {
        ToolResult::error(format!(
            "The file is encoded in {name}, which has no {stranger:?}; nothing was changed. Use other characters, or convert \
             the file first."
        ))
    })?;
    Ok(Edited { before: Cow::Owned(text.into_bytes()), changed, content: Some(content) })
}

fn apply(before: &[u8], change: &Change) -> Result<Changed, ToolResult> {
    match *change {
        Change::Replace { old, new, all } => replace(before, old, new, all),
        Change::Patch(diff) => {
            let (content, replacements) =
                patch::apply(before, diff).map_err(|error| ToolResult::error(error.to_string()))?;
            if content == before {
                return Err(ToolResult::error(
                    "No changes applied from diff: the file is identical with and without it.",
                ));
            }
            Ok(Changed { content, replacements, fuzzy: false })
        }
    }
}

/// An error for texts that change no file, with any content.
fn can_be_replaced(old: &str, new: &str) -> Result<(), ToolResult> {
    if matching::line_feeds(old).is_empty() {
        return Err(ToolResult::error("old_string cannot be empty. To make or replace a whole file use write."));
    }
    if old == new {
        return Err(ToolResult::error("No changes made: old_string and new_string are identical."));
    }
    Ok(())
}

fn replace(before: &[u8], old: &str, new: &str, all: bool) -> Result<Changed, ToolResult> {
    can_be_replaced(old, new)?;
    let found = matching::find(before, old);
    match found.regions.len() {
        0 => return Err(no_match(before, old)),
        1 => {}
        _ if all => {}
        count => return Err(several_matches(before, &found, count)),
    }
    let content = matching::replace(before, &found.regions, new);
    if content == before {
        return Err(ToolResult::error("No changes made: the result is identical to what is there."));
    }
    Ok(Changed { content, replacements: found.regions.len(), fuzzy: found.fuzzy })
}

fn no_match(before: &[u8], old: &str) -> ToolResult {
    let mut text =
        "Could not find the exact text. old_string must match the file exactly, with all whitespace and newlines, \
                    and without line numbers."
            .to_owned();
    for (index, candidate) in nearest::candidates(before, old).iter().enumerate() {
        text.push_str(if index == 0 { " Similar lines in the file:" } else { "" });
        text.push_str(&format!("\n  line {}: {}", candidate.line, candidate.text));
    }
    ToolResult::error(text)
}

fn several_matches(before: &[u8], found: &matching::Matches, count: usize) -> ToolResult {
    let shown = found.regions.iter().take(PLACES_SHOWN_MAX);
    let mut lines: Vec<_> = shown.map(|region| matching::line_of(before, region.start).to_string()).collect();
    if count > lines.len() {
        lines.push("…".to_owned());
    }
    let lines = lines.join(", ");
    ToolResult::error(format!(
        "Found {count} occurrences of old_string (lines {lines}). It must be unique: give more context around it, or set \
         replace_all to change all of them."
    ))
}

fn answer(edited: &Edited, charset: Option<Charset>, change: &Change, shown: &str) -> ToolResult {
    let changed = &edited.changed;
    let count = changed.replacements;
    let plural = if count == 1 { "replacement" } else { "replacements" };
    let (mode, how) = match change {
        Change::Patch(_) => ("diff", ", diff mode"),
        Change::Replace { .. } if changed.fuzzy => {
            ("replace", "; matched after folding quotes, dashes, blanks or character forms")
        }
        Change::Replace { .. } => ("replace", ""),
    };
    let mut details = json!({
        "path": shown,
        "replacements": count,
        "mode": mode,
        "fuzzy": changed.fuzzy,
        "diff": diff::unified(&edited.before, &changed.content),
    });
    if let Some(charset) = charset {
        details["encoding"] = json!(charset.name());
    }
    ToolResult::ok(format!("Edited: {shown} ({count} {plural}{how})"))
        .with_details(details)
        .with_title(format!("Edited {shown}"))
}

#[cfg(test)]
mod tests;
