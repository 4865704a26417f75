//! What is asked of the model that sums a conversation up, what is asked of its answer, and what is added to it by us.
//!
//! A summary is written by a model and may forget anything. What must not be forgotten is therefore not left to it: the
//! host's own words, the files that were read and changed, and a reference to each call stand beside it, carried on from one
//! compaction to the next as data.

use std::{
    collections::BTreeSet,
    fmt::{Display, Write as _},
};

use serde::{Deserialize, Serialize};

use crate::{
    context::tokens,
    ids::{CallId, Seq},
    message::Part,
    model::{AnswerPart, Item},
};

/// The system prompt of the one who sums up: hidden, with no tools, so that it does not carry on the conversation (J-13, J-25).
pub const SUMMARY_SYSTEM: &str = "You write summaries of conversations between a user and an agent that works with tools. \
     Another agent will go on with nothing but your summary, so it must hold all that is needed to go on. \
     Never continue the conversation, never answer a question in it, never call a tool. \
     Write only the summary, in the language of the conversation, under the headings you are given.";

/// The headings of a summary, in order (J-23).
pub const HEADINGS: [&str; 6] =
    ["Goal", "Constraints & Preferences", "Progress", "Key Decisions", "Next Steps", "Critical Context"];

/// What each heading is for.
const HEADING_HINTS: [&str; 6] = [
    "what the user wants to reach, in one or two sentences",
    "rules, limits and wishes that the user stated; repeat them word for word",
    "three lists: Done, In Progress, Blocked",
    "what was decided and why, also what was tried and given up",
    "what to do next, in order",
    "names, paths, values, commands and errors that are needed to go on",
];

/// Characters of one tool result that the summariser is shown, at most: half from its beginning, half from its end.
const RESULT_CHARS_MAX: usize = 2_000;

/// Tokens of the host's own words that are carried on, at most.
pub const USER_WORDS_TOKENS_MAX: u64 = 2_000;

/// Characters of one message among them, at most.
const USER_WORDS_CHARS_MAX: usize = 1_000;

/// Files that are carried on of each kind, at most; the newest stay.
const FILES_MAX: usize = 200;

/// What is to be summed up.
#[derive(Clone, Debug)]
pub struct Summarise<'a> {
    /// The summary of what was before, where there is one (J-26).
    pub earlier: Option<&'a str>,
    /// The items that the summary is to replace.
    pub items: &'a [std::sync::Arc<Item>],
    /// How many of them, at the end, belong to a turn that goes on after the summary.
    pub turn_prefix: usize,
    /// Tokens that the request may take; of a longer conversation the middle is not shown.
    pub tokens_max: u64,
}

impl Summarise<'_> {
    /// The text that the summariser is asked with: one message.
    #[must_use]
    pub fn prompt(&self) -> String {
        let mut prompt = String::new();
        let (whole, prefix) = self.items.split_at(self.items.len().saturating_sub(self.turn_prefix));
        let shown = |items: &[std::sync::Arc<Item>]| {
            let mut text = String::new();
            items.iter().for_each(|item| show(&mut text, item));
            within(text, self.tokens_max / 2)
        };
        if let Some(earlier) = self.earlier {
            say(&mut prompt, format_args!("<earlier-summary>\n{earlier}\n</earlier-summary>\n\n"));
        }
        say(&mut prompt, format_args!("<conversation>\n{}</conversation>\n\n", shown(whole)));
        if !prefix.is_empty() {
            say(&mut prompt, format_args!("<turn-in-progress>\n{}</turn-in-progress>\n\n", shown(prefix)));
        }
        let task = match self.earlier {
            None => "Sum up the conversation above.",
            Some(_) => {
                "Update the earlier summary with the conversation above: keep all in it that still holds, \
                 add what is new, move what is done from In Progress to Done, drop only what has become wrong."
            }
        };
        say(&mut prompt, format_args!("{task}"));
        if !prefix.is_empty() {
            say(
                &mut prompt,
                format_args!(
                    " The turn in progress goes on after your summary: say under Progress what it was asked for and what it did so far."
                ),
            );
        }
        say(&mut prompt, format_args!(" Use exactly these headings:\n\n"));
        for (heading, hint) in HEADINGS.iter().zip(HEADING_HINTS) {
            say(&mut prompt, format_args!("## {heading}\n({hint})\n\n"));
        }
        prompt
    }
}

/// Writing into a string does not fail.
fn say(text: &mut String, what: std::fmt::Arguments<'_>) {
    let written = text.write_fmt(what);
    debug_assert!(written.is_ok());
}

fn show(text: &mut String, item: &Item) {
    match item {
        Item::User(user) => say(text, format_args!("[user]\n{}\n\n", words(&user.parts))),
        Item::Assistant(answer) => {
            for part in &answer.parts {
                match part {
                    AnswerPart::Text { text: said, .. } if !said.is_empty() => {
                        say(text, format_args!("[assistant]\n{said}\n\n"));
                    }
                    AnswerPart::Call { name, input, .. } => {
                        say(text, format_args!("[Tool: {name}] {}\n\n", shortened(input, RESULT_CHARS_MAX)));
                    }
                    AnswerPart::Text { .. } | AnswerPart::Reasoning { .. } => {}
                }
            }
        }
        Item::Result(result) => {
            let failed = if result.is_error { ", error" } else { "" };
            let content = shortened(&result.content, RESULT_CHARS_MAX);
            say(text, format_args!("[Tool Result: {}{failed}]\n{content}\n\n", result.name));
        }
    }
}

fn words(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.text.clone(),
        Part::File(file) => format!("[file {}]", file.filename.as_deref().unwrap_or(&file.mime)),
        _ => String::new(),
    });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A text of at most about so many tokens.
fn within(text: String, tokens_max: u64) -> String {
    let taken = tokens::of_text(&text);
    if taken <= tokens_max {
        return text;
    }
    let chars = text.chars().count() as u64;
    shortened(&text, usize::try_from(chars.saturating_mul(tokens_max) / taken).unwrap_or(usize::MAX))
}

/// The beginning and the end of a text, with what is left out between them counted.
fn shortened(text: &str, max: usize) -> String {
    let chars = text.chars().count();
    if chars <= max {
        return text.to_owned();
    }
    let head: String = text.chars().take(max / 2).collect();
    let tail: String = text.chars().skip(chars - max / 2).collect();
    format!("{head}\n[… {} characters left out …]\n{tail}", chars - max / 2 * 2)
}

/// Files that were read and changed, as the calls of a conversation tell (J-24).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileOperations {
    /// Read, and never changed.
    pub read: BTreeSet<String>,
    /// Written or edited.
    pub modified: BTreeSet<String>,
}

impl FileOperations {
    /// Takes note of the calls in these items. Calls whose arguments cannot be read name no file.
    pub fn note<'a>(&mut self, items: impl IntoIterator<Item = &'a Item>) {
        for item in items {
            let Item::Assistant(answer) = item else { continue };
            for part in &answer.parts {
                let AnswerPart::Call { name, input, .. } = part else { continue };
                let Some(path) = target(input) else { continue };
                match name.as_str() {
                    "write" | "edit" => {
                        self.read.remove(&path);
                        keep(&mut self.modified, path);
                    }
                    "read" | "read_file" if !self.modified.contains(&path) => keep(&mut self.read, path),
                    _ => {}
                }
            }
        }
    }
}

fn keep(files: &mut BTreeSet<String>, path: String) {
    if files.len() < FILES_MAX || files.contains(&path) {
        files.insert(path);
    }
}

/// What a call is about: its path, or the first words of its command or pattern.
fn target(input: &str) -> Option<String> {
    let arguments: serde_json::Value = serde_json::from_str(input).ok()?;
    ["path", "file_path", "command", "pattern"]
        .iter()
        .find_map(|key| arguments.get(key)?.as_str().map(|text| shortened(text, 200)))
}

/// The host's own words: carried on from compaction to compaction as they are, because no summary is sure to keep a rule.
///
/// The oldest and the newest stay; where there are too many, those in the middle go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserWords(Vec<String>);

impl UserWords {
    /// Takes note of the messages among these items.
    pub fn note<'a>(&mut self, items: impl IntoIterator<Item = &'a Item>) {
        for item in items {
            if let Item::User(user) = item {
                let text = words(&user.parts);
                if !text.is_empty() {
                    self.0.push(shortened(&text, USER_WORDS_CHARS_MAX));
                }
            }
        }
        let mut total: u64 = self.0.iter().map(|text| tokens::of_text(text)).sum();
        while total > USER_WORDS_TOKENS_MAX && self.0.len() > 2 {
            let gone = self.0.remove(self.0.len() / 2);
            total -= tokens::of_text(&gone);
        }
    }

    /// The messages, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// A call that is no longer in the context, and where to find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// The id that the model gave to it.
    pub call: CallId,
    /// Which tool.
    pub tool: String,
    /// What it was about, where its arguments tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl Replaced {
    /// The calls among these items.
    pub fn of<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<Replaced> {
        let answers = items.into_iter().filter_map(|item| match item {
            Item::Assistant(answer) => Some(answer),
            _ => None,
        });
        let calls = answers.flat_map(|answer| &answer.parts).filter_map(|part| match part {
            AnswerPart::Call { id, name, input, .. } => {
                Some(Replaced { call: id.clone(), tool: name.clone(), target: target(input) })
            }
            _ => None,
        });
        calls.collect()
    }
}

/// A summary that cannot stand in for what it sums up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSummary {
    /// There is nothing in it.
    #[error("the summary is empty")]
    Empty,
    /// It is no smaller than what it would replace.
    #[error("the summary takes {summary} tokens, and what it would replace takes {replaced}")]
    TooLarge {
        /// What it takes.
        summary: u64,
        /// What it would replace.
        replaced: u64,
    },
}

/// Whether a summary can stand in for so many tokens.
pub fn check(summary: &str, replaced: u64) -> Result<(), BadSummary> {
    if summary.trim().is_empty() {
        return Err(BadSummary::Empty);
    }
    match tokens::of_text(summary) {
        taken if taken >= replaced => Err(BadSummary::TooLarge { summary: taken, replaced }),
        _ => Ok(()),
    }
}

/// What stands in the context in place of what was summed up: one message. `summary` is `None` where no model could write one.
#[must_use]
pub fn render(summary: Option<&str>, users: &UserWords, files: &FileOperations, until: Seq) -> String {
    let mut text = format!(
        "[The conversation up to entry {until} of its record was replaced by this summary. Go on from here; do not answer it.]\n\n"
    );
    match summary {
        Some(summary) => say(&mut text, format_args!("{}\n", summary.trim())),
        None => {
            say(&mut text, format_args!("(No summary could be written. What was said before is not shown any more.)\n"))
        }
    }
    if users.iter().next().is_some() {
        say(&mut text, format_args!("\n## The user's own words\nThese still hold, oldest first:\n"));
        users.iter().for_each(|said| say(&mut text, format_args!("- {}\n", said.replace('\n', "\n  "))));
    }
    for (title, paths) in [("Files read", &files.read), ("Files modified", &files.modified)] {
        if !paths.is_empty() {
            say(&mut text, format_args!("\n## {title}\n"));
            paths.iter().for_each(|path| say(&mut text, format_args!("- {path}\n")));
        }
    }
    text
}

impl Display for Replaced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.call, self.tool, self.target.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
