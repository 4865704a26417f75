//! How large items are in bytes, and what replaces the files that a request is made without.
//!
//! A provider counts a conversation in tokens, but a gateway before it counts bytes, and an image of four megabytes takes as many
//! tokens as a small one. The sizes here are near to what an item takes in the body of a request: texts as they are, images and
//! PDF files as base64.
//!
//! Pure functions of items. A change must keep the line that stands for a file to the letter, because the fold writes it into the
//! history of existing tapes; and a text file counts as words, which a summary can shorten, and is never left out here.

use crate::{
    model::{AnswerPart, History, Item, ToolResultItem, UserItem},
    words::message::{FilePart, Part},
};

/// The bytes of an item beside its words: role, ids, punctuation.
const ITEM_BYTES: u64 = 60;

/// The bytes of an item in the body of a request.
#[must_use]
pub(crate) fn bytes_of(item: &Item) -> u64 {
    let words: usize = match item {
        Item::User(user) => {
            user.parts.iter().map(|part| if let Part::Text(text) = part { text.text.len() } else { 0 }).sum()
        }
        Item::Assistant(answer) => answer.parts.iter().map(bytes_of_answer_part).sum(),
        Item::Result(result) => result.content.len(),
    };
    let files: u64 = item.files().map(bytes_of_file).sum();
    ITEM_BYTES.saturating_add(words as u64).saturating_add(files)
}

fn bytes_of_answer_part(part: &AnswerPart) -> usize {
    match part {
        AnswerPart::Text { text, .. } | AnswerPart::Reasoning { text, .. } => text.len(),
        AnswerPart::Call { name, input, .. } => name.len() + input.len(),
    }
}

/// The bytes of a file; of one that no model is shown, those of the line that names it.
fn bytes_of_file(file: &FilePart) -> u64 {
    let is_text = file.mime.starts_with("text/") || file.mime.starts_with("application/json");
    match file.base64() {
        Some(data) if is_text => (data.len() as u64).saturating_mul(3) / 4,
        Some(data) if file.is_shown() => data.len() as u64,
        Some(_) => ITEM_BYTES,
        None => file.url.len() as u64,
    }
}

/// The positions of the oldest items with files that a model is shown, as many as are needed to save more than `bytes`; all of them
/// where they have less.
#[must_use]
pub(crate) fn with_files(history: &History, bytes: u64) -> Vec<usize> {
    let mut saved = 0_u64;
    let sizes = history
        .iter()
        .enumerate()
        .map(|(at, item)| (at, item.files().filter(|file| file.is_shown()).map(bytes_of_file).sum::<u64>()));
    let found = sizes.filter(|(_, size)| *size > 0).take_while(|(_, size)| {
        let is_needed = saved <= bytes;
        saved = saved.saturating_add(*size);
        is_needed
    });
    found.map(|(at, _)| at).collect()
}

/// The item with a line of text in the place of each file that a model is shown.
#[must_use]
pub(crate) fn without_files(item: &Item) -> Item {
    match item {
        Item::User(user) => {
            let part = |part: &Part| match part {
                Part::File(file) if file.is_shown() => Part::text(line(file)),
                part => part.clone(),
            };
            Item::User(UserItem {
                parts: user.parts.iter().map(part).collect(),
                fragment: Default::default(),
                ..user.clone()
            })
        }
        Item::Result(result) => {
            let (gone, stay): (Vec<_>, Vec<_>) = result.attachments.iter().cloned().partition(FilePart::is_shown);
            let lines = gone.iter().map(|file| format!("\n{}", line(file)));
            let content = std::iter::once(result.content.clone()).chain(lines).collect::<String>();
            let (content, fragment) = (content.trim_start_matches('\n').to_owned(), Default::default());
            Item::Result(ToolResultItem { content, attachments: stay, fragment, ..result.clone() })
        }
        Item::Assistant(_) => item.clone(),
    }
}

fn line(file: &FilePart) -> String {
    let name = file.filename.as_deref().unwrap_or("unnamed");
    format!("[file {name:?} ({}) left out: the provider refused it, or there was no room for it]", file.mime)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn user(parts: Vec<Part>) -> Item {
        Item::User(UserItem { id: "m".into(), parts, fragment: Default::default() })
    }

    #[test]
    fn the_oldest_files_go_first_and_no_more_than_are_needed() {
        let image = |size: usize| user(vec![Part::text("see"), Part::file("image/png", None, &vec![7; size])]);
        let history: History = [image(300), user(vec![Part::text("x")]), image(600), image(30)].into_iter().collect();
        for (bytes, expected) in [(0, &[0][..]), (399, &[0]), (400, &[0, 2]), (1_199, &[0, 2]), (9_999, &[0, 2, 3])] {
            assert_eq!(with_files(&history, bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn a_line_stands_for_a_file_and_words_stay() {
        let text = Part::file("text/plain", Some("a.txt".into()), b"words");
        let item = user(vec![Part::text("see"), Part::file("image/png", Some("s.png".into()), b"x"), text.clone()]);
        let told = "[file \"s.png\" (image/png) left out: the provider refused it, or there was no room for it]";
        let Item::User(left) = without_files(&item) else { panic!() };
        assert_eq!(left.parts, [Part::text("see"), Part::text(told), text]);
        assert_eq!(bytes_of(&item), ITEM_BYTES + 3 + 4 + 6);
    }
}
