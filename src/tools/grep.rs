//! The `grep` tool: finds the lines that match a regular expression, in one file or in a tree.
//!
//! The search runs in this process, so a pattern is never an option or a command. No pattern makes the time exponential, and
//! memory is bounded, for any files: a change must keep both, because patterns and files come from anywhere. Beneath a folder, a
//! file about which the permission rules are stricter than about the call is skipped and counted. Links are not followed. The
//! search stops with the call. The doc comments of the arguments are sent to the model as their descriptions.

mod long_lines;
mod output;

use std::{ffi::OsStr, fs::File, path::Path};

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
        workspace::{Dir, FileKind},
    },
    tools::{
        arguments::or_default,
        call::{Call, failure},
        file_tool::{FileWork, Touch},
        pattern::Pattern,
        text::{self, Kind, Stoppable},
        walk::{Missed, PROGRESS_EVERY, Rules, Step, walk},
    },
};

use long_lines::LongLines;
use output::{Full, Mode, Output};

/// How many matches are shown by default.
const LIMIT: usize = 100;

/// How many matches can be asked for.
const LIMIT_MAX: usize = 1_000;

/// How many lines around a match can be asked for.
const CONTEXT_LINES_MAX: usize = 100;

/// How large a compiled pattern may be, in bytes. A larger pattern is refused.
const PATTERN_SIZE_MAX: usize = 10 * 1024 * 1024;

/// Searches files.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Grep {
    /// Regular expression, matched against each line.
    #[serde(alias = "regex", alias = "query")]
    pattern: String,
    /// File or folder to search, relative to the workspace; the whole workspace by default.
    #[serde(alias = "file_path", alias = "directory", alias = "dir")]
    path: Option<String>,
    /// Glob of the files to search, such as `*.rs` or `src/**/*.ts`.
    #[serde(alias = "include")]
    glob: Option<String>,
    /// Whether upper and lower case are the same.
    #[serde(default, alias = "ignoreCase", alias = "case_insensitive", alias = "-i", deserialize_with = "or_default")]
    ignore_case: bool,
    /// Take the pattern as plain text.
    #[serde(default, alias = "literal", alias = "-F", deserialize_with = "or_default")]
    fixed_strings: bool,
    /// Lines to show before each match.
    #[serde(alias = "-B")]
    before: Option<usize>,
    /// Lines to show after each match.
    #[serde(alias = "-A")]
    after: Option<usize>,
    /// Lines to show before and after each match.
    #[serde(alias = "-C")]
    context: Option<usize>,
    /// What to show: the lines (the default), the files that have any, or how many lines each file has.
    #[serde(default, alias = "mode")]
    output_mode: Mode,
    /// How many matches to show, or files in the other modes: 100 by default, at most 1000.
    #[serde(alias = "head_limit", alias = "max_results")]
    limit: Option<usize>,
    /// Also search what .gitignore files exclude, and .git, node_modules, _build, deps and target.
    #[serde(default, deserialize_with = "or_default")]
    include_ignored: bool,
}

impl FileWork for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "\
        Searches files of the workspace for a regular expression, line by line. Shows `file:line: text`, or `file-line- text` \
        for lines around a match. Binary files are skipped, and so is what find leaves out: .gitignore is obeyed. At most 100 \
        matches are shown unless limit says otherwise, and lines are cut at 500 characters.";
    const TOUCH: Touch = Touch::Reads;
    const PATH_NAMES: &'static [&'static str] = &["path", "file_path", "directory", "dir"];

    fn check(&self) -> Result<(), ToolResult> {
        matcher(self)?;
        self.glob.as_deref().map(Pattern::new).transpose().map(drop).map_err(ToolResult::error)
    }

    fn work(&self, call: &Call) -> Result<ToolResult, ToolResult> {
        let matcher = matcher(self)?;
        let glob = self.glob.as_deref().map(Pattern::new).transpose().map_err(ToolResult::error)?;
        let limit = self.limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
        let around = |lines: Option<usize>| lines.or(self.context).unwrap_or(0).min(CONTEXT_LINES_MAX);
        let (before, after) = match self.output_mode {
            Mode::Content => (around(self.before), around(self.after)),
            Mode::FilesWithMatches | Mode::Count => (0, 0),
        };
        let mut searcher = SearcherBuilder::new();
        let searcher = searcher
            .line_terminator(LineTerminator::crlf())
            .before_context(before)
            .after_context(after)
            // By then the file is known to hold text, and the text is decoded.
            .binary_detection(BinaryDetection::none())
            .bom_sniffing(false);
        let output = Output::new(self.output_mode, limit, before + after > 0);
        let mut search = Search {
            call,
            matcher,
            searcher: searcher.build(),
            output,
            visited: 0,
            withheld: 0,
            unreadable: 0,
            binary: 0,
        };
        let given = self.path.as_deref().unwrap_or(".");
        let missed = match call.open_folder(given)? {
            Some(folder) => search.tree(folder, glob.as_ref(), self.include_ignored)?,
            None => {
                let opened = call.open_existing(given)?;
                search.file(opened.file, &call.path_of(&opened.path));
                Missed::default()
            }
        };
        call.go_on()?;
        Ok(answer(search, missed, limit, &self.pattern))
    }
}

fn matcher(arguments: &Grep) -> Result<RegexMatcher, ToolResult> {
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

/// A running search.
struct Search<'a> {
    call: &'a Call<'a>,
    matcher: RegexMatcher,
    searcher: Searcher,
    output: Output,
    /// Files that were opened.
    visited: usize,
    /// Files about which the rules are stricter than about the call.
    withheld: usize,
    /// Files that could not be opened, or not read to their end.
    unreadable: usize,
    /// Files that were skipped because they hold no text.
    binary: usize,
}

impl Search<'_> {
    fn tree(&mut self, start: Dir, glob: Option<&Pattern>, all: bool) -> Result<Missed, ToolResult> {
        let call = self.call;
        let rules = Rules {
            obey_ignore: !all,
            asked_for: &|folder: &OsStr| glob.is_some_and(|glob| glob.names(folder)),
            left_out: &|_, _| false,
        };
        let from = start.path().clone();
        let missed = walk(&call.workspace, start, &rules, &|| call.context.is_cancelled(), |entry| {
            if entry.kind != FileKind::File || !glob.is_none_or(|glob| glob.matches(entry.path, false)) {
                return Step::On;
            }
            let path = call.below(&from, entry.path);
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
        self.visited += 1;
        if self.visited.is_multiple_of(PROGRESS_EVERY) {
            let so_far = json!({ "files": self.visited, "matches": self.output.total });
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
                let reader = LongLines::new(Stoppable { from: opened.text(), context: self.call.context });
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
    let narrower = "refine pattern, or narrow path or glob";
    let counted = output.counted();
    let Search { withheld, unreadable, binary, .. } = search;
    let full = output.full.map(|full| match (full, (limit * 2).min(LIMIT_MAX)) {
        (Full::Matches, more) if more > limit => {
            format!("{limit} {counted} limit reached. Use limit={more} for more, or {narrower}")
        }
        (Full::Matches, _) => format!("{limit} {counted} limit reached. To see others {narrower}"),
        (Full::Bytes, _) => {
            let (limit, total) = (format_bytes(BYTES_MAX), output.total);
            format!("{limit} limit reached after {total} {counted}. To see others {narrower}")
        }
    });
    let cut = "Some lines truncated to 500 chars. Use read tool to see full lines";
    let notices: Vec<String> = [
        full,
        output.lines_cut.then(|| cut.to_owned()),
        (withheld > 0).then(|| format!("{withheld} files left out by the permission rules")),
        (unreadable > 0).then(|| format!("Unable to read {unreadable} files")),
        (output.total == 0 && binary > 0).then(|| format!("{binary} binary files skipped")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let found = output.text.trim_end_matches('\n');
    let mut parts = vec![if found.is_empty() { "No matches found".to_owned() } else { found.to_owned() }];
    if !notices.is_empty() {
        parts.push(format!("[{}]", notices.join(". ")));
    }
    parts.extend(missed.ignored_notice().filter(|_| output.total == 0));
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
