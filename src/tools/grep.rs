//! The `grep` tool: lines that match a regular expression, in one file or in a tree.
//!
//! The search runs in this process; a pattern is only ever a pattern. Its time grows with what is searched and not with the
//! pattern, and its memory is bounded whatever the files hold.

mod long_lines;
mod output;

use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
};

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{
    tool::{
        ToolResult,
        truncate::{BYTES_MAX, format_bytes},
        workspace::{FileKind, WorkspacePath},
    },
    tools::{
        arguments::{flag, number},
        call::{Call, failure},
        file_tool::{FileWork, Touch},
        pattern::Pattern,
        text::{self, Kind, Stoppable},
        walk::{Missed, PROGRESS_EVERY, Rules, Step, walk},
    },
};

use long_lines::LongLines;
use output::{Full, Mode, Output};

/// How many matches are shown where nothing is asked.
const LIMIT: usize = 100;

/// How many matches can be asked for.
const LIMIT_MAX: usize = 1_000;

/// How many lines around a match can be asked for.
const CONTEXT_LINES_MAX: usize = 100;

/// How large a compiled pattern may be, in bytes. A pattern beyond it is refused.
const PATTERN_SIZE_MAX: usize = 10 * 1024 * 1024;

/// Searches files.
pub(super) struct Grep;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    /// Regular expression, matched against each line.
    #[serde(alias = "regex", alias = "query")]
    pattern: String,
    /// File or folder to search, relative to the workspace; the whole workspace by default.
    #[serde(default, alias = "file_path", alias = "directory", alias = "dir")]
    #[schemars(with = "String")]
    path: Option<String>,
    /// Glob of the files to search, such as `*.rs` or `src/**/*.ts`.
    #[serde(default, alias = "include")]
    #[schemars(with = "String")]
    glob: Option<String>,
    /// Whether upper and lower case are the same.
    #[serde(default, alias = "ignoreCase", alias = "case_insensitive", alias = "-i", deserialize_with = "flag")]
    ignore_case: bool,
    /// Take the pattern as plain text.
    #[serde(default, alias = "literal", alias = "-F", deserialize_with = "flag")]
    fixed_strings: bool,
    /// Lines to show before each match.
    #[serde(default, alias = "-B", deserialize_with = "number")]
    #[schemars(with = "usize")]
    before: Option<usize>,
    /// Lines to show after each match.
    #[serde(default, alias = "-A", deserialize_with = "number")]
    #[schemars(with = "usize")]
    after: Option<usize>,
    /// Lines to show before and after each match.
    #[serde(default, alias = "-C", deserialize_with = "number")]
    #[schemars(with = "usize")]
    context: Option<usize>,
    /// What to show: the lines (the default), the files that have any, or how many lines each file has.
    #[serde(default, alias = "mode")]
    output_mode: Mode,
    /// How many matches to show, or files in the other modes: 100 by default, at most 1000.
    #[serde(default, alias = "head_limit", alias = "max_results", deserialize_with = "number")]
    #[schemars(with = "usize")]
    limit: Option<usize>,
    /// Also search what .gitignore files exclude, and .git, node_modules, _build, deps and target.
    #[serde(default, deserialize_with = "flag")]
    include_ignored: bool,
}

impl FileWork for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "\
        Searches files of the workspace for a regular expression, line by line. Shows `file:line: text`, or `file-line- text` \
        for lines around a match. Binary files are skipped, and so is what find leaves out: .gitignore is obeyed. At most 100 \
        matches are shown unless limit says otherwise, and lines are cut at 500 characters.";
    const TOUCH: Touch = Touch::Looks;
    const PATH_NAMES: &'static [&'static str] = &["path", "file_path", "directory", "dir"];

    type Arguments = Arguments;

    fn work(arguments: &Arguments, call: &Call) -> Result<ToolResult, ToolResult> {
        grep(arguments, call)
    }
}

fn grep(arguments: &Arguments, call: &Call) -> Result<ToolResult, ToolResult> {
    let matcher = matcher(arguments)?;
    let glob = arguments.glob.as_deref().map(Pattern::new).transpose().map_err(ToolResult::error)?;
    let limit = arguments.limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
    let around = |lines: Option<usize>| lines.or(arguments.context).unwrap_or(0).min(CONTEXT_LINES_MAX);
    let (before, after) = match arguments.output_mode {
        Mode::Content => (around(arguments.before), around(arguments.after)),
        Mode::FilesWithMatches | Mode::Count => (0, 0),
    };
    let mut searcher = SearcherBuilder::new();
    let searcher = searcher
        .line_terminator(LineTerminator::crlf())
        .before_context(before)
        .after_context(after)
        // What a file holds has been looked at by then, and its text decoded.
        .binary_detection(BinaryDetection::none())
        .bom_sniffing(false);
    let output = Output::new(arguments.output_mode, limit, before + after > 0);
    let mut search = Search {
        call,
        matcher,
        searcher: searcher.build(),
        output,
        looked_at: 0,
        withheld: 0,
        unreadable: 0,
        binary: 0,
    };
    let start = call.resolve_existing(arguments.path.as_deref().unwrap_or("."))?;
    let missed = match call.workspace.info(&start).map_err(failure)?.kind {
        FileKind::Directory => search.tree(&start, glob.as_ref(), arguments.include_ignored)?,
        _ => {
            let (file, _) = call.workspace.open_read(&start).map_err(failure)?;
            search.file(file, &call.path_of(&start));
            Missed::default()
        }
    };
    call.go_on()?;
    Ok(answer(search, missed, limit, &arguments.pattern))
}

fn matcher(arguments: &Arguments) -> Result<RegexMatcher, ToolResult> {
    if arguments.pattern.is_empty() {
        return Err(ToolResult::error("pattern cannot be empty"));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .crlf(true)
        .case_insensitive(arguments.ignore_case)
        .fixed_strings(arguments.fixed_strings)
        .size_limit(PATTERN_SIZE_MAX)
        .dfa_size_limit(PATTERN_SIZE_MAX);
    builder.build(&arguments.pattern).map_err(|error| {
        let plain = "To search for the text as it is, set fixed_strings to true.";
        ToolResult::error(format!("Invalid regular expression: {error}\nEach line is searched on its own. {plain}"))
    })
}

/// A search that is going on.
struct Search<'a> {
    call: &'a Call<'a>,
    matcher: RegexMatcher,
    searcher: Searcher,
    output: Output,
    /// Files that were looked at.
    looked_at: usize,
    /// Files about which the rules are stricter than about the call.
    withheld: usize,
    /// Files that could not be read.
    unreadable: usize,
    /// Files that were skipped because they hold no text.
    binary: usize,
}

impl Search<'_> {
    fn tree(&mut self, start: &WorkspacePath, glob: Option<&Pattern>, all: bool) -> Result<Missed, ToolResult> {
        let call = self.call;
        let base = call.path_of(start);
        let rules = Rules {
            obey_ignore: !all,
            asked_for: &|folder: &OsStr| glob.is_some_and(|glob| glob.names(folder)),
            left_out: &|_, _| false,
        };
        let missed = walk(&call.workspace, start, &rules, &|| call.context.is_cancelled(), |entry| {
            if entry.kind != FileKind::File || !glob.is_none_or(|glob| glob.matches(entry.path, false)) {
                return Step::On;
            }
            let path = if base.as_os_str() == "." { PathBuf::from(entry.path) } else { base.join(entry.path) };
            if !call.may_touch(&path) {
                self.withheld += 1;
                return Step::On;
            }
            match entry.dir.open_read(entry.name) {
                Ok((file, _)) => self.file(file, &path),
                Err(_) => self.unreadable += 1,
            }
            if self.output.full.is_some() { Step::Stop } else { Step::On }
        });
        missed.map_err(failure)
    }

    fn file(&mut self, file: File, path: &Path) {
        self.looked_at += 1;
        if self.looked_at.is_multiple_of(PROGRESS_EVERY) {
            let so_far = json!({ "files": self.looked_at, "matches": self.output.total });
            self.call.context.progress.metadata(so_far);
        }
        let Ok(opened) = text::look(file) else {
            self.unreadable += 1;
            return;
        };
        if matches!(opened.kind, Kind::Binary | Kind::Image(_)) {
            self.binary += 1;
            return;
        }
        let mut sink = self.output.file(path);
        let searched = match opened.whole() {
            // Most files are small, and need no second buffer.
            Some(text) => self.searcher.search_slice(&self.matcher, text, &mut sink),
            None => {
                let reader = LongLines::new(Stoppable::new(opened.text(), self.call.context));
                self.searcher.search_reader(&self.matcher, reader, &mut sink)
            }
        };
        if searched.is_err() {
            self.unreadable += 1;
        }
        sink.close();
    }
}

fn answer(search: Search, missed: Missed, limit: usize, pattern: &str) -> ToolResult {
    let output = search.output;
    let mut notices = Vec::new();
    let narrower = "refine pattern, or narrow path or glob";
    let counted = output.counted();
    match output.full {
        Some(Full::Matches) if limit < LIMIT_MAX => {
            let more = (limit * 2).min(LIMIT_MAX);
            notices.push(format!("{limit} {counted} limit reached. Use limit={more} for more, or {narrower}"));
        }
        Some(Full::Matches) => notices.push(format!("{limit} {counted} limit reached. To see others {narrower}")),
        Some(Full::Bytes) => {
            let limit = format_bytes(BYTES_MAX);
            notices.push(format!("{limit} limit reached after {} {counted}. To see others {narrower}", output.total));
        }
        None => {}
    }
    if output.lines_cut {
        notices.push("Some lines truncated to 500 chars. Use read tool to see full lines".to_owned());
    }
    if search.withheld > 0 {
        notices.push(format!("{} files left out by the permission rules", search.withheld));
    }
    if search.unreadable > 0 {
        notices.push(format!("Unable to read {} files", search.unreadable));
    }
    if output.total == 0 && search.binary > 0 {
        notices.push(format!("{} binary files skipped", search.binary));
    }
    let mut parts = Vec::new();
    match output.text.trim_end_matches('\n') {
        "" => parts.push("No matches found".to_owned()),
        text => parts.push(text.to_owned()),
    }
    if !notices.is_empty() {
        parts.push(format!("[{}]", notices.join(". ")));
    }
    parts.extend(missed.notice());
    ToolResult::ok(parts.join("\n"))
        .with_details(json!({
            "matches": output.found,
            "total": output.total,
            "truncated": output.full.is_some(),
            "match_limit_reached": output.full == Some(Full::Matches),
            "lines_truncated": output.lines_cut,
        }))
        .with_title(format!("Searched for {pattern}"))
}

#[cfg(test)]
mod tests;
