//! The request for a summary of a conversation, the check of the answer, and the text that the runtime adds to the summary.
//!
//! The summariser (the model that writes the summary) is not trusted to keep what must not be forgotten: that is carried on beside
//! the summary (`carried.rs`). [`check`] refuses a summary that is empty. It also refuses one that, with everything that is carried
//! on, is no smaller than what it replaces.
//!
//! Pure functions: no model is called here. [`render`], [`words`] and [`shortened`] run in the fold, so a change must give the same
//! texts for existing tapes: request hashes depend on them.

use crate::{
    kernel::context::{
        Carried, FileOperations, Replaced,
        carried::{is_kept_of, within},
        tokens,
    },
    model::{AnswerPart, Item},
    words::{ids::Seq, message::Part},
};

/// The system prompt of the summariser: hidden, with no tools, so that it does not carry on the conversation.
pub const SUMMARY_SYSTEM: &str = "You write summaries of conversations between a user and an agent that works with tools. \
     Another agent will go on with nothing but your summary, so it must hold all that is needed to go on. \
     Never continue the conversation, never answer a question in it, never call a tool. \
     Write only the summary, in the language of the conversation, under the headings you are given.";

/// The headings of a summary, in order.
pub(crate) const HEADINGS: [&str; 6] =
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

/// The most characters that the summariser is shown of one tool result, or of the arguments of one call: half from the beginning,
/// half from the end.
const RESULT_CHARS_MAX: usize = 2_000;

/// The material of a summary.
#[derive(Clone, Debug)]
pub(crate) struct Summarise<'a> {
    /// The summary of the conversation before these items, if there is one.
    pub earlier: Option<&'a str>,
    /// The items that the summary is to replace.
    pub items: &'a [std::sync::Arc<Item>],
    /// The number of items at the end that belong to a turn that goes on after the summary.
    pub turn_prefix: usize,
    /// The tokens that the request may take, about. The conversation has at least half of them, and its middle is not shown if it
    /// is longer.
    pub tokens_max: u64,
}

impl Summarise<'_> {
    /// The text of the request: one message.
    #[must_use]
    pub(crate) fn prompt(&self) -> String {
        let mut prompt = String::new();
        let task = self.task();
        if let Some(earlier) = self.earlier {
            prompt += &format!("<earlier-summary>\n{earlier}\n</earlier-summary>\n\n");
        }
        let taken = tokens::of_text(&prompt) + tokens::of_text(&task);
        let (whole, turn_prefix) = self.shown(self.tokens_max.saturating_sub(taken).max(self.tokens_max / 2));
        prompt += &format!("<conversation>\n{whole}</conversation>\n\n");
        if self.turn_prefix > 0 {
            prompt += &format!("<turn-in-progress>\n{turn_prefix}</turn-in-progress>\n\n");
        }
        prompt + &task
    }

    /// The ended turns, and the beginning of the turn that goes on, within `tokens_max` tokens together.
    fn shown(&self, tokens_max: u64) -> (String, String) {
        let shown = |items: &[std::sync::Arc<Item>]| items.iter().map(|item| show(item)).collect::<String>();
        let (whole, turn_prefix) = self.items.split_at(self.items.len().saturating_sub(self.turn_prefix));
        let (whole, turn_prefix) = (shown(whole), shown(turn_prefix));
        // The turn in progress has half of the room, and the room that the ended turns leave.
        let rest = tokens_max.saturating_sub(tokens::of_text(&whole));
        let of_prefix = tokens::of_text(&turn_prefix).min(rest.max(tokens_max / 2));
        (within(&whole, tokens_max - of_prefix), within(&turn_prefix, of_prefix))
    }

    fn task(&self) -> String {
        let mut task = match self.earlier {
            None => "Sum up the conversation above.".to_owned(),
            Some(_) => "Update the earlier summary with the conversation above: keep all in it that still holds, \
                        add what is new, move what is done from In Progress to Done, drop only what has become wrong."
                .to_owned(),
        };
        if self.turn_prefix > 0 {
            task += " The turn in progress goes on after your summary: say under Progress what it was asked for and what it did so far.";
        }
        task += " Use exactly these headings:\n\n";
        for (heading, hint) in HEADINGS.iter().zip(HEADING_HINTS) {
            task += &format!("## {heading}\n({hint})\n\n");
        }
        task
    }
}

fn show(item: &Item) -> String {
    let shown = |part: &AnswerPart| match part {
        AnswerPart::Text { text, .. } if !text.is_empty() => format!("[assistant]\n{text}\n\n"),
        AnswerPart::Call { name, input, .. } => format!("[Tool: {name}] {}\n\n", shortened(input, RESULT_CHARS_MAX)),
        AnswerPart::Text { .. } | AnswerPart::Reasoning { .. } => String::new(),
    };
    match item {
        Item::User(user) => format!("[user]\n{}\n\n", words(&user.parts)),
        Item::Assistant(answer) => answer.parts.iter().map(shown).collect(),
        Item::Result(result) => {
            let failed = if result.is_error { ", error" } else { "" };
            let content = shortened(&result.content, RESULT_CHARS_MAX);
            format!("[Tool Result: {}{failed}]\n{content}\n\n", result.name)
        }
    }
}

/// The words of a message; a file is shown by its name, else by its type.
#[must_use]
pub(crate) fn words(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.text.clone(),
        Part::File(file) => format!("[file {}]", file.filename.as_deref().unwrap_or(&file.mime)),
        _ => String::new(),
    });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The beginning and the end of a text of more than `max` characters, with the number of characters left out between them.
pub(super) fn shortened(text: &str, max: usize) -> String {
    let chars = text.chars().count();
    if chars <= max {
        return text.to_owned();
    }
    let head: String = text.chars().take(max / 2).collect();
    let tail: String = text.chars().skip(chars - max / 2).collect();
    format!("{head}\n[… {} characters left out …]\n{tail}", chars - max / 2 * 2)
}

/// Why a summary cannot take the place of the items that it sums up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BadSummary {
    /// There is nothing in it.
    #[error("the summary is empty")]
    Empty,
    /// The replacement is no smaller than the items that it would replace.
    #[error("the summary takes {summary} tokens, and what it would replace takes {replaced}")]
    TooLarge {
        /// The tokens of the replacement.
        summary: u64,
        /// The tokens of the items that it would replace.
        replaced: u64,
    },
}

/// Checks that a summary, if there is one, is not empty, and that the text with it takes fewer than `replaced` tokens.
pub(crate) fn check(summary: Option<&str>, text: &str, replaced: u64) -> Result<(), BadSummary> {
    match tokens::of_text(text) {
        _ if summary.is_some_and(|summary| summary.trim().is_empty()) => Err(BadSummary::Empty),
        taken if taken >= replaced => Err(BadSummary::TooLarge { summary: taken, replaced }),
        _ => Ok(()),
    }
}

/// The text of the message that stands in the context for the part that was cut off. `summary` is `None` if there
/// is none.
#[must_use]
pub(crate) fn render(summary: Option<&str>, carried: &Carried, until: Seq) -> String {
    let mut text = format!(
        "[The conversation up to entry {until} of its record was replaced by this summary. Go on from here; do not answer it.]\n\n"
    );
    let none = "(No summary could be written. What was said before is not shown any more.)";
    text += &format!("{}\n", summary.map_or(none, str::trim));
    for branch in &carried.branches {
        text += &format!("\n{branch}\n");
    }
    let indented = |said: &String| said.replace('\n', "\n  ");
    let pinned = carried.pinned.iter().map(indented);
    section(&mut text, "Pinned by the user\nThese always hold, word for word:", pinned);
    // Pinned words are shown already.
    let is_pinned = |kept: &&String| carried.pinned.iter().any(|text| is_kept_of(kept, text));
    let users = carried.users.iter().filter(|kept| !is_pinned(kept)).map(indented);
    section(&mut text, "The user's own words\nThese still hold, oldest first:", users);
    files(&mut text, "Files read", "Files modified", &carried.files);
    let calls = &carried.calls;
    if !calls.newest.is_empty() {
        let earlier = (calls.earlier > 0).then(|| format!("{} before these", calls.earlier));
        let title = "Earlier calls\nTheir results are not shown any more, and stand in the record:";
        section(&mut text, title, earlier.into_iter().chain(calls.newest.iter().map(Replaced::to_string)));
    }
    text
}

/// The files that were read and those that were modified, each list under its title.
pub(super) fn files(text: &mut String, read: &str, modified: &str, files: &FileOperations) {
    section(text, read, files.read.iter().cloned());
    section(text, modified, files.modified.iter().cloned());
}

/// A list under a title; nothing where the list is empty.
fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    for (n, line) in lines.enumerate() {
        if n == 0 {
            *text += &format!("\n## {title}\n");
        }
        *text += &format!("- {line}\n");
    }
}

#[cfg(test)]
mod tests;
