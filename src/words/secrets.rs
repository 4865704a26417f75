//! Secrets in texts: finds keys by their shapes and by their values, and replaces each by a mark.
//!
//! There is one table of shapes (`secrets/table.rs`) and one scanner (`secrets/scan.rs`). The hook `Redact` uses them for what tools
//! give and people send, `model/redact.rs` for what a provider's server says, and the tools that write files for the marks, which
//! must not get into a file. Pure functions of values.

mod fields;
mod forms;
mod scan;
mod shapes;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use fields::pass_texts;
pub(crate) use scan::{Scanner, Wanted};

use std::sync::Arc;

/// What a mark begins with.
const MARK: &str = "[redacted: ";

/// The mark that replaces a key of this kind.
fn mark(kind: &str) -> String {
    format!("{MARK}{kind}]")
}

/// A text without keys, and the keys that were taken out.
pub(crate) fn redacted(wanted: &Arc<Wanted>, text: &[u8]) -> (Vec<u8>, Vec<String>) {
    let (mut scanner, mut out) = (Scanner::new(wanted.clone()), Vec::with_capacity(text.len()));
    scanner.push(text, &mut out);
    scanner.finish(&mut out);
    let taken = scanner.taken().map(str::to_owned).collect();
    (out, taken)
}

/// A text of the same length, with each byte of a key as a `*`.
#[cfg(any(test, feature = "_wire"))]
pub(crate) fn blanked(wanted: &Arc<Wanted>, text: &[u8]) -> Vec<u8> {
    let (mut scanner, mut out) = (Scanner::new(wanted.clone()).with_blanks(), Vec::with_capacity(text.len()));
    scanner.push(text, &mut out);
    scanner.finish(&mut out);
    out
}

/// The mark that `new` has more often than `old`, if there is one.
#[cfg(any(test, all(unix, feature = "tools")))]
pub(crate) fn new_mark(old: &str, new: &str) -> Option<String> {
    let marks = |text: &str| {
        let mut marks = std::collections::BTreeMap::<String, usize>::new();
        for (at, _) in text.match_indices(MARK) {
            let kind = text[at + MARK.len()..].split(']').next().unwrap_or_default();
            if table::ROWS.iter().any(|row| row.0 == kind) || shapes::OTHER_KINDS.contains(&kind) {
                *marks.entry(mark(kind)).or_default() += 1;
            }
        }
        marks
    };
    let before = marks(old);
    marks(new)
        .into_iter()
        .find(|(mark, times)| before.get(mark).is_none_or(|before| before < times))
        .map(|(mark, _)| mark)
}

/// Whether a word begins and continues like a key, even one with a part left out, as servers show it.
#[cfg(any(test, feature = "_wire"))]
pub(crate) fn begins_like_a_key(word: &str) -> bool {
    let goes_on = |prefix: &str| {
        word.strip_prefix(prefix).is_some_and(|rest| {
            let is_odd = rest.bytes().any(|byte| byte.is_ascii_digit() || byte == b'*') || rest.contains("..");
            rest.len() >= WORD_REST_MIN && is_odd
        })
    };
    table::prefixes().any(goes_on)
}

/// The fewest characters of a key after its prefix. Fewer make a word, not a key.
#[cfg(any(test, feature = "_wire"))]
const WORD_REST_MIN: usize = 6;

/// The names that a key follows.
#[cfg(any(test, feature = "_wire"))]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    table::names()
}
