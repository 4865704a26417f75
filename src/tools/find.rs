//! The `find` tool: lists files and folders that match a glob, the newest first.
//!
//! The tool reads names and times, and the contents of ignore files only. It follows no link beneath the folder that it searches,
//! and stops with the call. Memory is bounded by the number of results that are shown and by the entries of the folders on the way
//! down, not by the tree. A change must keep it so, because a tree may have millions of files. The doc comments of the arguments
//! are sent to the model as their descriptions.

use std::{cmp::Reverse, collections::BinaryHeap, ffi::OsStr, path::PathBuf, time::SystemTime};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{
    tool::{
        ToolResult,
        truncate::{BYTES_MAX, CutLimits, format_bytes, head},
        workspace::{FileKind, WorkspaceError},
    },
    tools::{
        arguments::or_default,
        call::{Call, failure},
        file_tool::{FileWork, Touch},
        names,
        pattern::Pattern,
        walk::{Missed, PROGRESS_EVERY, Rules, Step, walk},
    },
};

/// How many results are shown by default.
const LIMIT: usize = 200;

/// How many results can be asked for.
const LIMIT_MAX: usize = 1_000;

/// Finds files.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Find {
    /// Glob, such as `*.rs` (a name, in any folder) or `src/**/*.rs` (a path from the searched folder).
    #[serde(alias = "glob")]
    pattern: String,
    /// Folder to search, relative to the workspace; the whole workspace by default.
    #[serde(alias = "directory", alias = "dir")]
    path: Option<String>,
    /// Glob of what to leave out.
    exclude: Option<String>,
    /// How many results to show: 200 by default, at most 1000.
    #[serde(alias = "max_results")]
    limit: Option<usize>,
    /// Also look at what .gitignore files exclude, and into .git, node_modules, _build, deps and target.
    #[serde(default, deserialize_with = "or_default")]
    include_ignored: bool,
}

impl FileWork for Find {
    const NAME: &'static str = "find";
    const ALIASES: &'static [&'static str] = &["find_files"];
    const DESCRIPTION: &'static str = "\
        Finds files and folders of the workspace by a glob pattern; the most recently changed come first. Folders end in `/`; \
        symlinks are listed and not followed. .gitignore is obeyed, and .git, node_modules, _build, deps and target are left \
        out unless the pattern or path names them or include_ignored is true.";
    const TOUCH: Touch = Touch::Reads;
    const PATH_NAMES: &'static [&'static str] = &["path", "directory", "dir"];

    fn check(&self) -> Result<(), ToolResult> {
        let globs = [Some(&self.pattern), self.exclude.as_ref()];
        globs.into_iter().flatten().try_for_each(|glob| Pattern::new(glob).map(drop)).map_err(ToolResult::error)
    }

    fn work(&self, call: &Call) -> Result<ToolResult, ToolResult> {
        let pattern = Pattern::new(&self.pattern).map_err(ToolResult::error)?;
        let exclude = self.exclude.as_deref().map(Pattern::new).transpose().map_err(ToolResult::error)?;
        let limit = self.limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
        let given = self.path.as_deref().unwrap_or(".");
        let start = call.open_folder(given)?.ok_or_else(|| not_a_folder(given))?;
        let from = start.path().clone();
        // Only the newest are kept, so memory is bounded by the limit and not by the tree.
        let mut newest: BinaryHeap<Reverse<Hit>> = BinaryHeap::with_capacity(limit + 1);
        let mut total = 0_usize;
        let rules = Rules {
            obey_ignore: !self.include_ignored,
            asked_for: &|folder: &OsStr| pattern.names(folder),
            left_out: &|path, is_directory| exclude.as_ref().is_some_and(|exclude| exclude.matches(path, is_directory)),
        };
        let (mut visited, mut withheld) = (0_usize, 0_usize);
        let missed = walk(&call.workspace, start, &rules, &|| call.context.is_cancelled(), |entry| {
            visited += 1;
            if visited.is_multiple_of(PROGRESS_EVERY) {
                call.context.progress.metadata(json!({ "entries": visited, "found": total }));
            }
            let is_directory = entry.kind == FileKind::Directory;
            if !pattern.matches(entry.path, is_directory) {
                return Step::On;
            }
            if !call.may_touch(&call.below(&from, entry.path)) {
                withheld += 1;
                return Step::On;
            }
            total += 1;
            // A file that has vanished meanwhile counts as the oldest.
            let modified = entry.dir.info(entry.name).map_or(SystemTime::UNIX_EPOCH, |info| info.modified);
            newest.push(Reverse(Hit { modified, path: Reverse(entry.path.to_owned()), is_directory }));
            if newest.len() > limit {
                newest.pop();
            }
            Step::On
        });
        let missed = missed.map_err(failure)?;
        call.go_on()?;
        let hits: Vec<Hit> = newest.into_sorted_vec().into_iter().map(|Reverse(hit)| hit).collect();
        let lines = hits.iter().map(|hit| {
            let path = call.below(&from, &hit.path.0);
            // A path that is joined with an empty one gets a slash at its end.
            names::shown(&if hit.is_directory { path.join("") } else { path })
        });
        Ok(answer(lines.collect(), (total, withheld), limit, missed, &self.pattern))
    }
}

/// A file or folder that matched. The result that is shown first is the greatest one: the newest, then by path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    modified: SystemTime,
    path: Reverse<PathBuf>,
    is_directory: bool,
}

/// The result for a path that is not a folder.
fn not_a_folder(given: &str) -> ToolResult {
    failure(WorkspaceError::NotDirectory { path: given.to_owned() })
}

/// The result: `total` files matched, and the rules leave out `withheld` more.
fn answer(
    mut files: Vec<String>,
    (total, withheld): (usize, usize),
    limit: usize,
    missed: Missed,
    pattern: &str,
) -> ToolResult {
    let cut = head(&files.join("\n"), CutLimits::bytes(BYTES_MAX));
    files.truncate(cut.output_lines);
    let (shown, truncated) = (files.len(), files.len() < total);
    let mut parts = vec![cut.content];
    if total == 0 {
        parts = vec!["No files found matching pattern".to_owned()];
    } else if truncated {
        let by = if cut.truncated { format!(" ({} limit)", format_bytes(BYTES_MAX)) } else { String::new() };
        let next = match (limit * 2).min(LIMIT_MAX) {
            more if more > limit && !cut.truncated => format!("Use limit={more} for more, or refine the pattern."),
            _ => "Refine the pattern or search a folder further down.".to_owned(),
        };
        parts.push(format!("[Showing {shown} of {total} files{by}. {next}]"));
    }
    if withheld > 0 {
        parts.push(format!("[{withheld} files left out by the permission rules]"));
    }
    parts.extend(missed.ignored_notice().filter(|_| total == 0));
    parts.extend(missed.notice());
    ToolResult::ok(parts.join("\n"))
        .with_details(json!({ "files": files, "total": total, "truncated": truncated }))
        .with_title(format!("Found {total} files for {pattern}"))
}

#[cfg(test)]
mod tests;
