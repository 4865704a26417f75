//! The data that is carried on beside a summary, from one compaction to the next. A model writes the summary and may forget
//! anything, so what must not be forgotten is kept here.
//!
//! Carried on are the host's own words, pinned words, the summaries of branches, the files that were read and changed, and
//! references to the newest calls with the number of the earlier ones. All of it has a bound, in tokens, so that the context stays
//! small however long the conversation is. Of the host's words the oldest and the newest stay; of branches, files and calls the
//! newest. Long words are shortened. Pinned words stay whole; their bound is checked when they are pinned (`pin.rs`). The tape
//! still has everything.
//!
//! The fold computes [`Carried`], and it is a stored format. So a change must fold existing tapes to the same values as before: do
//! not change a bound, a text or an order here, do not rename or retype a field, and give each new field a serde default.

use std::{collections::BTreeMap, fmt::Display};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::context::{
        summary::{shortened, words},
        tokens,
    },
    model::{AnswerPart, Item, UserItem},
    words::ids::{CallId, Seq},
};

/// The most characters of one message among the host's own words.
const USER_WORDS_CHARS_MAX: usize = 1_000;

/// The most files of one kind, and the most calls, that are carried on.
const LISTED_MAX: usize = 200;

/// The data that is carried on from the part of a conversation that was cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Carried {
    /// The words of pinned messages in the part that was cut off, whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pinned: Vec<String>,
    /// The host's own words in that part, because no summary is sure to keep a rule; long ones are shortened. If they are too many,
    /// those in the middle go, and the oldest and the newest stay.
    pub(crate) users: Vec<String>,
    /// The summaries of branches in that part: they are never summed up again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) branches: Vec<String>,
    /// The files that were touched in that part.
    pub(crate) files: FileOperations,
    /// The calls in that part.
    pub(crate) calls: ReplacedCalls,
}

impl Carried {
    /// Adds items that are cut off, and their calls. `limit` is the bound in tokens for the host's words, and for the branches;
    /// files and calls have half of it each.
    pub(crate) fn note<'a>(
        &mut self,
        items: impl Iterator<Item = &'a Item> + Clone,
        replaced: &[Replaced],
        limit: u64,
    ) {
        for item in items.clone() {
            let Item::User(user) = item else { continue };
            match Speaker::of(user) {
                Speaker::Host => note_words(&mut self.users, &words(&user.parts)),
                Speaker::Branch => self.branches.push(words(&user.parts)),
                Speaker::Runtime => {}
            }
        }
        fit_words(&mut self.users, limit);
        // The newest branches stay.
        drop_oldest(&mut self.branches, limit, |text| tokens::of_text(text), 1);
        self.branches.iter_mut().for_each(|text| *text = within(text, limit));
        self.files.note(items);
        self.files.fit(limit / 2);
        self.calls.note(replaced);
        self.calls.fit(limit / 2);
    }
}

/// Who speaks in a message that the model reads as a user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The host, for a person or a program.
    Host,
    /// The runtime, with the news of a task for instance, or a hook at the start of a turn. Its words are summed up as everything else is.
    Runtime,
    /// The runtime, with the summary of a branch.
    Branch,
}

impl Speaker {
    /// The speaker of an item that the model reads as a user's, by its id.
    pub(crate) fn of(user: &UserItem) -> Speaker {
        match (user.id.is_of_branch(), user.id.is_of_task() || user.id.is_of_hooks()) {
            (true, _) => Speaker::Branch,
            (_, true) => Speaker::Runtime,
            _ => Speaker::Host,
        }
    }
}

/// Adds the words of one message, unless the same words are there already.
fn note_words(words: &mut Vec<String>, text: &str) {
    let text = shortened(text, USER_WORDS_CHARS_MAX);
    if !text.is_empty() && !words.contains(&text) {
        words.push(text);
    }
}

/// Whether `kept` is the shortened form of `text`.
pub(super) fn is_kept_of(kept: &str, text: &str) -> bool {
    kept == shortened(text, USER_WORDS_CHARS_MAX)
}

/// Fits the words into `tokens_max` tokens. The words in the middle are left out first; the oldest and the newest are shortened
/// instead.
fn fit_words(words: &mut Vec<String>, tokens_max: u64) {
    let mut total: u64 = words.iter().map(|text| tokens::of_text(text)).sum();
    while total > tokens_max && words.len() > 2 {
        let gone = words.remove(words.len() / 2);
        total -= tokens::of_text(&gone);
    }
    if total > tokens_max {
        let each = tokens_max / words.len().max(1) as u64;
        words.iter_mut().for_each(|text| *text = within(text, each));
    }
}

/// The files that were read and changed, by the calls of a conversation and their results. The newest come last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FileOperations {
    /// Read, and never changed.
    pub read: Vec<String>,
    /// Written or edited.
    pub modified: Vec<String>,
}

impl FileOperations {
    /// Adds the files of the successful calls in these items. A call whose arguments cannot be read names no file.
    pub fn note<'a>(&mut self, items: impl IntoIterator<Item = &'a Item>) {
        let mut asked = BTreeMap::new();
        for item in items {
            match item {
                Item::Assistant(answer) => {
                    asked.clear();
                    asked.extend(answer.parts.iter().filter_map(|part| match part {
                        AnswerPart::Call { id, name, input, .. } => Some((id, (name.as_str(), target(input)?))),
                        _ => None,
                    }));
                }
                Item::Result(result) if !result.is_error => {
                    if let Some((name, path)) = asked.remove(&result.call) {
                        self.touched(name, path);
                    }
                }
                Item::Result(_) | Item::User(_) => {}
            }
        }
    }

    fn touched(&mut self, tool: &str, path: String) {
        match tool {
            "write" | "edit" | "write_file" | "edit_file" => {
                self.read.retain(|read| *read != path);
                newest(&mut self.modified, path);
            }
            "read" | "read_file" if !self.modified.contains(&path) => newest(&mut self.read, path),
            _ => {}
        }
    }

    fn fit(&mut self, tokens_max: u64) {
        // Changed files matter more than files that were only read.
        drop_oldest(&mut self.modified, tokens_max, |path| tokens::of_text(path), 0);
        let left = tokens_max - self.modified.iter().map(|path| tokens::of_text(path)).sum::<u64>();
        drop_oldest(&mut self.read, left, |path| tokens::of_text(path), 0);
    }

    /// Adds the files of another list.
    pub fn extend(&mut self, other: &FileOperations) {
        other.read.iter().for_each(|path| self.touched("read", path.clone()));
        other.modified.iter().for_each(|path| self.touched("edit", path.clone()));
    }
}

/// Puts a path at the end of a list, once.
fn newest(files: &mut Vec<String>, path: String) {
    files.retain(|known| *known != path);
    files.push(path);
    if files.len() > LISTED_MAX {
        files.remove(0);
    }
}

/// The target of a call: its path, or its command or pattern, shortened.
fn target(input: &str) -> Option<String> {
    let arguments: serde_json::Value = serde_json::from_str(input).ok()?;
    ["path", "file_path", "command", "pattern"]
        .iter()
        .find_map(|key| arguments.get(key)?.as_str().map(|text| shortened(text, 200)))
}

/// A call that is no longer in the context, and where to find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replaced {
    /// The id that the model gave to the call.
    pub(crate) call: CallId,
    /// The name of the tool.
    pub(crate) tool: String,
    /// The path, command or pattern of the call; `None` if its arguments name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    /// The call's ticket, by which its result is found on the tape; `None` if it has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<Seq>,
}

impl Replaced {
    /// The calls among these items.
    pub(crate) fn of<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<Replaced> {
        let mut replaced: Vec<Replaced> = Vec::new();
        let mut of_answer = 0;
        for item in items {
            match item {
                Item::Assistant(answer) => {
                    of_answer = replaced.len();
                    replaced.extend(answer.parts.iter().filter_map(|part| match part {
                        AnswerPart::Call { id, name, input, .. } => {
                            Some(Replaced { call: id.clone(), tool: name.clone(), target: target(input), seq: None })
                        }
                        _ => None,
                    }));
                }
                Item::Result(result) => {
                    // Ids may repeat, between answers and within one answer: results stand in call order.
                    let call =
                        replaced[of_answer..].iter_mut().find(|one| one.call == result.call && one.seq.is_none());
                    if let (Some(call), true) = (call, result.seq > Seq::ZERO) {
                        call.seq = Some(result.seq);
                    }
                }
                Item::User(_) => {}
            }
        }
        replaced
    }
}

impl Display for Replaced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(seq) = self.seq {
            write!(f, "entry {seq}, ")?;
        }
        write!(f, "call {}: {}", self.call, self.tool)?;
        match &self.target {
            Some(target) => write!(f, " {}", shortened(&target.replace('\n', " "), 80)),
            None => Ok(()),
        }
    }
}

/// The calls that are no longer in the context, of all compactions: the newest by name, the others by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReplacedCalls {
    /// The newest calls, oldest first.
    pub(crate) newest: Vec<Replaced>,
    /// The number of calls before them.
    pub(crate) earlier: u64,
}

impl ReplacedCalls {
    fn note(&mut self, replaced: &[Replaced]) {
        self.newest.extend_from_slice(replaced);
        let over = self.newest.len().saturating_sub(LISTED_MAX);
        self.newest.drain(..over);
        self.earlier = self.earlier.saturating_add(over as u64);
    }

    fn fit(&mut self, tokens_max: u64) {
        let of = |call: &Replaced| tokens::of_text(&call.to_string()) + 2;
        let dropped = drop_oldest(&mut self.newest, tokens_max, of, 0);
        self.earlier = self.earlier.saturating_add(dropped);
    }
}

/// Drops items from the front until the list fits `tokens_max`, but keeps `at_least` items. Gives the number of items dropped.
fn drop_oldest<T>(list: &mut Vec<T>, tokens_max: u64, tokens: impl Fn(&T) -> u64, at_least: usize) -> u64 {
    let mut total: u64 = list.iter().map(&tokens).sum();
    let mut gone = 0;
    while total > tokens_max && list.len() - gone > at_least {
        total -= tokens(&list[gone]);
        gone += 1;
    }
    list.drain(..gone);
    gone as u64
}

/// The text, shortened to about `tokens_max` tokens: its beginning and its end.
pub(super) fn within(text: &str, tokens_max: u64) -> String {
    let taken = tokens::of_text(text);
    if taken <= tokens_max {
        return text.to_owned();
    }
    let chars = text.chars().count() as u64;
    shortened(text, usize::try_from(chars.saturating_mul(tokens_max) / taken).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests;
