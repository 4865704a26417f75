//! What is carried on beside a summary, from one compaction to the next, as data: a summary is written by a model and may
//! forget anything, so what must not be forgotten is not left to it.
//!
//! The host's own words, the summaries of branches, the files that were read and changed, and a reference to each call. All of
//! it has a bound, in tokens, so that the context stays small however long the conversation: of words the oldest and the newest
//! stay, of files and calls the newest. Everything stands on the tape all the same.

use std::{collections::BTreeMap, fmt::Display};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::context::{summary::shortened, summary::words, tokens},
    model::{AnswerPart, Item, UserItem},
    words::ids::{CallId, Seq},
};

/// Characters of one message among the host's own words, at most.
const USER_WORDS_CHARS_MAX: usize = 1_000;

/// Files of one kind, and calls, that are carried on, at most.
const LISTED_MAX: usize = 200;

/// What is carried on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Carried {
    /// The words of pinned messages in what was cut off, whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<String>,
    /// What the host said in what was cut off, as it was said, because no summary is sure to keep a rule. The oldest and the newest
    /// stay; where there are too many, those in the middle go.
    pub users: Vec<String>,
    /// The summaries of branches in what was cut off: never summed up again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<String>,
    /// The files that were touched in what was cut off.
    pub files: FileOperations,
    /// The calls in what was cut off.
    pub calls: ReplacedCalls,
}

impl Carried {
    /// Takes note of these items. `limit` is the bound for the host's words, in tokens; each other kind has half of it.
    /// `kind` tells whose a message is.
    pub fn note<'a>(&mut self, items: impl Iterator<Item = &'a Item> + Clone, replaced: &[Replaced], limit: u64) {
        for item in items.clone() {
            let Item::User(user) = item else { continue };
            match Speaker::of(user) {
                Speaker::Host => note_words(&mut self.users, &words(&user.parts)),
                Speaker::Branch => self.branches.push(words(&user.parts)),
                Speaker::Runtime => {}
            }
        }
        fit_words(&mut self.users, limit);
        // The newest of the branches stay.
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
    /// The runtime: what became of a task, say. It is summed up as everything else is.
    Runtime,
    /// The runtime, with the summary of a branch.
    Branch,
}

impl Speaker {
    /// Who says an item that the model reads as a user's, by its id.
    pub(crate) fn of(user: &UserItem) -> Speaker {
        match (user.id.is_of_branch(), user.id.is_of_task()) {
            (true, _) => Speaker::Branch,
            (_, true) => Speaker::Runtime,
            _ => Speaker::Host,
        }
    }
}

/// Takes note of the words of one message. The same words again are one message.
fn note_words(words: &mut Vec<String>, text: &str) {
    let text = shortened(text, USER_WORDS_CHARS_MAX);
    if !text.is_empty() && !words.contains(&text) {
        words.push(text);
    }
}

/// Whether these are the words of a longer text, as they are kept of it.
pub(super) fn is_kept_of(kept: &str, text: &str) -> bool {
    kept == shortened(text, USER_WORDS_CHARS_MAX)
}

/// Leaves out what is beyond so many tokens: those in the middle. The oldest and the newest are shortened rather than left out.
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

/// Files that were read and changed, as the calls of a conversation and their results tell (J-24). The newest come last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileOperations {
    /// Read, and never changed.
    pub read: Vec<String>,
    /// Written or edited.
    pub modified: Vec<String>,
}

impl FileOperations {
    /// Takes note of the calls in these items that did what they were to do. Calls whose arguments cannot be read name no file.
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
        // What was changed matters more than what was only read.
        drop_oldest(&mut self.modified, tokens_max, |path| tokens::of_text(path), 0);
        let left = tokens_max - self.modified.iter().map(|path| tokens::of_text(path)).sum::<u64>();
        drop_oldest(&mut self.read, left, |path| tokens::of_text(path), 0);
    }

    /// Takes over what another list has.
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

/// What a call is about: its path, or the first words of its command or pattern.
fn target(input: &str) -> Option<String> {
    let arguments: serde_json::Value = serde_json::from_str(input).ok()?;
    ["path", "file_path", "command", "pattern"]
        .iter()
        .find_map(|key| arguments.get(key)?.as_str().map(|text| shortened(text, 200)))
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
    /// The entry that opened it: its ticket, by which its result is found too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
}

impl Replaced {
    /// The calls among these items.
    pub fn of<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<Replaced> {
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
                    // Ids may repeat, from answer to answer and within one: results stand in call order.
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
pub struct ReplacedCalls {
    /// The newest, oldest first.
    pub newest: Vec<Replaced>,
    /// How many there are before them.
    pub earlier: u64,
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

/// Drops from the front what is beyond so many tokens, but keeps so many items; says how many were dropped.
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

/// A text of at most about so many tokens, by both its ends.
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
