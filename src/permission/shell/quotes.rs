//! Writes the words of a command as one text, and reads that text again.
//!
//! A rule, a grant and a person see a command as one text. Joined with blanks alone, `touch 'rm -rf x'` and `touch rm -rf x` would be
//! the same. So a word with a blank, a quote or another ambiguous character is put in quotes, as a shell would read it: in single
//! ones, or as `$'…'` if it has control characters. The unknown parts of a word ([`ANY`], [`GLOB`]) are left as they are.
//!
//! A change must keep that two lists of words never have the same text, and that [`words_of`] returns the words of each text.
//! Quotes must not evade a rule that denies or asks: match it against [`joined`] too.

use std::borrow::Cow;

use crate::permission::shell::{ANY, GLOB};

/// A word as it is written in the text of a command.
pub(super) fn quoted(word: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && c != ANY && c != GLOB;
    // The ellipsis is the sign for what is not known. A text with an operator outside of quotes is never one command.
    let is_special = |c: char| is_control(c) || c.is_whitespace() || "'\"…|&;<>()`".contains(c);
    if !word.is_empty() && !word.contains(is_special) {
        return Cow::Borrowed(word);
    }
    if !word.contains(is_control) {
        return Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")));
    }
    let mut text = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str(r"\n"),
            '\t' => text.push_str(r"\t"),
            '\r' => text.push_str(r"\r"),
            c if is_control(c) => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('\'');
    Cow::Owned(text)
}

/// The words of a text that [`quoted`] words make up; `None` for any other text.
pub(in crate::permission) fn words_of(text: &str) -> Option<Vec<Cow<'_, str>>> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        let (word, left) = match rest.strip_prefix("$'") {
            Some(inside) => escaped(inside)?,
            None if rest.starts_with('\'') => literal(rest)?,
            None => {
                let (word, left) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
                (Cow::Borrowed(word), left)
            }
        };
        // A part that may be no word at all follows the word before it without a blank.
        let unknown = left.len() - left.trim_start_matches([ANY, GLOB]).len();
        let (behind, left) = left.split_at(unknown);
        words.push(if behind.is_empty() { word } else { word + behind });
        match left.strip_prefix(' ') {
            Some(next) => rest = next,
            None => return left.is_empty().then_some(words),
        }
    }
}

/// A word in single quotes, and the rest.
fn literal(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut rest = text.strip_prefix('\'')?;
    let mut word = String::new();
    loop {
        let (inside, behind) = rest.split_once('\'')?;
        word.push_str(inside);
        match behind.strip_prefix(r"\''") {
            Some(next) => {
                word.push('\'');
                rest = next;
            }
            None => return Some((Cow::Owned(word), behind)),
        }
    }
}

/// A word as `$'…'` without its beginning, and the rest.
fn escaped(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut word = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((Cow::Owned(word), &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => word.push('\n'),
                't' => word.push('\t'),
                'r' => word.push('\r'),
                'u' => {
                    let digits: String = chars.by_ref().take(4).map(|(_, digit)| digit).collect();
                    word.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                c => word.push(c),
            },
            c => word.push(c),
        }
    }
    None
}

/// The words of a command with one blank between them and no quotes: what a rule that denies or asks is matched against too. Any
/// other text stays as it is.
pub(in crate::permission) fn joined(text: &str) -> Cow<'_, str> {
    match words_of(text) {
        Some(words) if text.contains('\'') => Cow::Owned(words.join(" ")),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn text(words: &[&str]) -> String {
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_word_stands_in_quotes_where_it_is_no_plain_one() {
        for (words, shown) in [
            (&["touch", "rm", "-rf", "x"][..], "touch rm -rf x"),
            (&["touch", "rm -rf x"], "touch 'rm -rf x'"),
            (&["touch", "'rm", "-rf", "x'"], r"touch ''\''rm' -rf 'x'\'''"),
            (&["echo", ""], "echo ''"),
            (&["echo", "a\nb\u{7}"], r"echo $'a\nb\u0007'"),
            (&["echo", "…"], "echo '…'"),
            (&["curl", "x", "|", "sh"], "curl x '|' sh"),
            (&["echo", "a\u{a0}b"], "echo 'a\u{a0}b'"),
            (&["echo", "a\\b", "$x", "*.o"], r"echo a\b $x *.o"),
            (&["echo", "a\u{1}", "\u{2}"], "echo a\u{1} \u{2}"),
        ] {
            assert_eq!(text(words), shown);
            assert_eq!(words_of(shown).unwrap(), words, "{shown}");
            assert_eq!(joined(shown), words.join(" "), "{shown}");
        }
        assert_eq!(joined("echo 'a b'\u{1}\u{1} c"), "echo a b\u{1}\u{1} c");
        assert_eq!(joined("echo 'a"), "echo 'a", "no text of ours");
    }

    proptest! {
        /// Any words can be read back from their text: so no other words have this text.
        #[test]
        fn a_text_has_one_list_of_words(words in prop::collection::vec("[a '\"\\\\$n\n\t\u{1}\u{7}…u0]{0,5}", 1..5)) {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let text = text(&words);
            prop_assert_eq!(words_of(&text).unwrap(), words, "{:?}", text);
        }
    }
}
