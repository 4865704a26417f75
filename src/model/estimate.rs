//! Our estimate of how many tokens a text, an item or a request takes, for where no provider has said.
//!
//! It counts characters by kind: four of ASCII, two of other alphabets, or two thirds of a CJK one make a token. Those are
//! averages: real tokenisers differ by language and model.
//!
//! A change must keep the constants and the arithmetic: decisions depend on the estimates, so existing tapes would otherwise replay
//! to other decisions. No tokeniser and no network is used.

use super::{AnswerPart, Item, ModelAnswer, ToolResultItem, UserItem};
use crate::words::message::{FilePart, Part};

/// The tokens of an image, whatever its size.
pub(crate) const IMAGE_TOKENS: u64 = 1_200;

/// The tokens of a message beside its words: role, separators, names.
pub(crate) const ITEM_TOKENS: u64 = 4;

/// Our estimate of the tokens of a text, as limits and budgets count it before a provider has said anything. Providers count
/// otherwise.
#[must_use]
pub fn estimated_tokens(text: &str) -> u64 {
    of_text(text)
}

/// The estimate for a text, rounded up; 0 for an empty one.
#[must_use]
pub(crate) fn of_text(text: &str) -> u64 {
    if text.is_ascii() {
        return (text.len() as u64).div_ceil(4);
    }
    let quarters: u64 = text
        .chars()
        .map(|c| match c {
            '\0'..='\u{7f}' => 1,
            c if is_cjk(c) => 6,
            _ => 2,
        })
        .sum();
    quarters.div_ceil(4)
}

pub(crate) fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}'      // Hangul letters
        | '\u{2e80}'..='\u{9fff}'    // radicals, kana, CJK ideographs and their punctuation
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}'    // Hangul syllables
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}'
        | '\u{ff00}'..='\u{ffef}'    // full-width forms
        | '\u{1f300}'..='\u{1faff}'  // pictographs take as much
        | '\u{20000}'..='\u{3ffff}')
}

/// The estimate for one item of a history.
#[must_use]
pub(crate) fn of_item(item: &Item) -> u64 {
    ITEM_TOKENS
        + match item {
            Item::User(user) => of_parts(user),
            Item::Assistant(answer) => of_answer(answer),
            Item::Result(result) => of_output(result),
        }
}

/// The estimate for a message.
#[cfg(feature = "websocket")]
pub(crate) fn of_user(user: &UserItem) -> u64 {
    ITEM_TOKENS + of_parts(user)
}

fn of_parts(user: &UserItem) -> u64 {
    user.parts.iter().map(of_part).sum()
}

/// The estimate for what an answer says.
#[must_use]
pub(crate) fn of_answer(answer: &ModelAnswer) -> u64 {
    answer.parts.iter().map(of_answer_part).sum()
}

/// The estimate for the result of a call.
#[must_use]
pub(crate) fn of_output(result: &ToolResultItem) -> u64 {
    of_text(&result.content) + result.attachments.iter().map(of_file).sum::<u64>()
}

fn of_part(part: &Part) -> u64 {
    match part {
        Part::Text(text) => of_text(&text.text),
        Part::File(file) => of_file(file),
        _ => 0,
    }
}

fn of_answer_part(part: &AnswerPart) -> u64 {
    match part {
        AnswerPart::Text { text, .. } => of_text(text),
        // Most providers want thoughts back only beside calls; counting them always errs to the safe side.
        AnswerPart::Reasoning { text, .. } => of_text(text),
        AnswerPart::Call { name, input, .. } => of_text(name) + of_text(input),
    }
}

fn of_file(file: &FilePart) -> u64 {
    match (file.mime.starts_with("image/"), file.base64()) {
        (true, _) => IMAGE_TOKENS,
        // Four characters of base64 are three bytes of text.
        (false, Some(data)) => (data.len() as u64).saturating_mul(3) / 16,
        (false, None) => of_text(&file.url),
    }
}
