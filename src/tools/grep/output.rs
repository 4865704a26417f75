//! Collects the output of one search of the `grep` tool, within the limits of a model's result.
//!
//! The text never has more than `BYTES_MAX` bytes, and shows at most as many matches (or files, see [`Mode`]) as the call asked
//! for. Text beyond a limit is not added: it sets [`Output::full`], which ends the search. So memory is bounded, for any files.
//! The matches of one file stay together.
//!
//! A change must keep that a line around a match is never shown without its match: alone it would pass for a match. The names and
//! doc comments of [`Mode`] are part of the schema that a model gets.

use std::{cell::OnceCell, collections::VecDeque, io, path::Path};

use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkMatch};
use serde::Serialize;

use crate::{
    tool::truncate::{self, BYTES_MAX, LINE_CHARS_MAX},
    tools::names,
};

/// What is shown of each match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// The lines.
    #[default]
    Content,
    /// The files that have any.
    FilesWithMatches,
    /// How many lines of each file.
    Count,
}

/// A line that matched, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    file: String,
    line_number: u64,
    line: String,
}

/// A line as it is shown.
struct Shown {
    /// With its file and number.
    text: String,
    /// Alone.
    line: String,
    is_cut: bool,
}

/// Which limit ended the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// There are more matches (or files) than were asked for.
    Matches,
    /// The output has as many bytes as it may have.
    Bytes,
}

/// The output of one search as it grows.
pub(super) struct Output {
    mode: Mode,
    limit: usize,
    /// Whether lines around a match are shown, so that groups must be separated.
    with_context: bool,
    pub(super) text: String,
    pub(super) found: Vec<Found>,
    /// How many matches, or files in the other modes, are in the text.
    pub(super) total: usize,
    pub(super) full: Option<Full>,
    pub(super) lines_cut: bool,
}

impl Output {
    pub(super) fn new(mode: Mode, limit: usize, with_context: bool) -> Output {
        Output {
            mode,
            limit,
            with_context,
            text: String::new(),
            found: Vec::new(),
            total: 0,
            full: None,
            lines_cut: false,
        }
    }

    /// Takes in the matches of one file.
    pub(super) fn file<'a>(&'a mut self, path: &'a Path) -> FileSink<'a> {
        let begins_group = self.with_context && !self.text.is_empty();
        FileSink { output: self, path, numbered: OnceCell::new(), matches: 0, waiting: VecDeque::new(), begins_group }
    }

    /// The word for the things that are counted against the limit.
    pub(super) fn counted(&self) -> &'static str {
        if self.mode == Mode::Content { "matches" } else { "files" }
    }

    /// Adds a line, or several lines as one piece, if there is room for them.
    fn push(&mut self, line: &str) -> bool {
        if self.text.len() + line.len() + 1 > BYTES_MAX {
            self.full = Some(Full::Bytes);
            return false;
        }
        self.text.push_str(line);
        self.text.push('\n');
        true
    }

    /// Whether one more match (or file) may be added.
    fn has_room(&mut self) -> bool {
        if self.total == self.limit {
            self.full = Some(Full::Matches);
        }
        self.full.is_none()
    }
}

/// Takes in the matches of one file.
pub(super) struct FileSink<'a> {
    output: &'a mut Output,
    path: &'a Path,
    /// The file's name before a line number. Most files have no match, and no need of it.
    numbered: OnceCell<String>,
    matches: u64,
    /// Lines that wait for the match after them: at most as many as were asked for.
    waiting: VecDeque<Shown>,
    /// Whether a separator is due before the next line.
    begins_group: bool,
}

impl FileSink<'_> {
    /// Adds the one line of the file in the modes that show a line for each file. Call it after the file's last line.
    pub(super) fn close(self) {
        // Matching lines were counted as they came.
        let line = match self.output.mode {
            Mode::Content => return,
            _ if self.matches == 0 => return,
            Mode::FilesWithMatches => names::shown(self.path),
            Mode::Count => format!("{}:{}", names::shown(self.path), self.matches),
        };
        if self.output.has_room() && self.output.push(&line) {
            self.output.total += 1;
        }
    }

    fn line(&self, separator: char, number: u64, bytes: &[u8]) -> Shown {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        // A NUL is shown as `read` shows it.
        let text = String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).replace('\0', "\u{2400}");
        let line = truncate::line(&text, LINE_CHARS_MAX);
        let name = self.numbered.get_or_init(|| names::shown_before_number(self.path));
        let text = format!("{name}{separator}{number}{separator} {}", line.content);
        Shown { text, line: line.content, is_cut: line.truncated }
    }

    /// Shows a line, and before it the lines that wait. The first of those are dropped if there is not room for all.
    fn show(&mut self, last: &Shown) -> bool {
        let group = if std::mem::take(&mut self.begins_group) { "--\n" } else { "" };
        let mut needed: usize = group.len() + last.text.len() + 1;
        needed += self.waiting.iter().map(|line| line.text.len() + 1).sum::<usize>();
        while self.output.text.len() + needed > BYTES_MAX {
            let Some(line) = self.waiting.pop_front() else { break };
            needed -= line.text.len() + 1;
        }
        // All lines are added as one piece, so that no waiting line is shown without its match.
        let mut piece = group.to_owned();
        let mut is_cut = last.is_cut;
        for line in self.waiting.drain(..) {
            is_cut |= line.is_cut;
            piece.push_str(&line.text);
            piece.push('\n');
        }
        piece.push_str(&last.text);
        let is_shown = self.output.push(&piece);
        self.output.lines_cut |= is_shown && is_cut;
        is_shown
    }
}

impl Sink for &mut FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        match self.output.mode {
            Mode::FilesWithMatches => return Ok(false),
            Mode::Count => return Ok(true),
            Mode::Content => {}
        }
        if !self.output.has_room() {
            return Ok(false);
        }
        let number = found.line_number().unwrap_or(0);
        let shown = self.line(':', number, found.bytes());
        if !self.show(&shown) {
            return Ok(false);
        }
        self.output.total += 1;
        self.output.found.push(Found { file: names::shown(self.path), line_number: number, line: shown.line });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.output.mode != Mode::Content {
            return Ok(true);
        }
        // Lines before a match that will not be shown are of no use.
        if self.output.total == self.output.limit && *context.kind() == SinkContextKind::Before {
            self.output.full = Some(Full::Matches);
            return Ok(false);
        }
        let shown = self.line('-', context.line_number().unwrap_or(0), context.bytes());
        if *context.kind() == SinkContextKind::Before {
            self.waiting.push_back(shown);
            return Ok(true);
        }
        Ok(self.show(&shown))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.begins_group = true;
        Ok(true)
    }
}
