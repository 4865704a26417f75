//! Makes text of models, tools and files safe for a terminal. Pure functions of a text.
//!
//! Such text may hold sequences that move the cursor, recolour, or hide part of a question that a person answers with yes. So
//! control characters, characters that change the direction of text, and invisible ones become `\u{…}`; [`is_hidden`] lists them.
//! A line break, a tab and a carriage return become `\n`, `\t` and `\r`, where the function does not keep them.
//!
//! A question of permission must use [`text()`] or [`line()`], never [`prose()`], [`prose_line()`] or [`short()`]: these keep the
//! joiners that scripts and emoji need, which are invisible.

use std::fmt::Write as _;

/// Whether a terminal would obey the character, or show nothing for it.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether the character joins or keeps apart its neighbours, or chooses the form of the one before it: words of some scripts, and
/// most emoji, are not readable without it.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && !keep(c) {
            // Writing to a String cannot fail.
            let _ = match c {
                '\n' => write!(out, "\\n"),
                '\t' => write!(out, "\\t"),
                '\r' => write!(out, "\\r"),
                c => write!(out, "\\u{{{:x}}}", c as u32),
            };
        } else {
            out.push(c);
        }
    }
    out
}

/// Escapes a text of several lines: line breaks and tabs stay.
pub(super) fn text(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes streamed text of the model. The joiners that scripts and emoji need stay, so no decision may rest on this text.
pub(super) fn prose(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t') || is_joiner(c))
}

/// Escapes a text that must stay on one line, and keeps its joiners: a title, a note, a result. No decision may rest on it.
pub(super) fn prose_line(text: &str) -> String {
    escape(text, is_joiner)
}

/// Escapes a text that must stay on one line.
pub(super) fn line(text: &str) -> String {
    escape(text, |_| false)
}

/// The beginning of a text as one line, escaped as by [`prose_line`], with one space for each run of white space, and of at most
/// `characters_max` characters (3 or more); `...` marks a text that was cut.
pub(super) fn short(text: &str, characters_max: usize) -> String {
    let mut out = String::new();
    for (n, word) in text.split_whitespace().enumerate() {
        if n > 0 {
            out.push(' ');
        }
        out.push_str(&prose_line(word));
        // By now the text is known to be too long; the rest may be megabytes.
        if out.len() > characters_max * 4 {
            break;
        }
    }
    if out.chars().count() <= characters_max {
        return out;
    }
    let kept: String = out.chars().take(characters_max.saturating_sub(3)).collect();
    format!("{kept}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reliability P: what a person is asked about is what will be done.
    #[test]
    fn what_a_terminal_would_obey_or_hide_is_shown() {
        let cases = [
            ("plain, ünïcode, 你好", "plain, ünïcode, 你好"),
            ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
            ("rm\u{202e}x", "rm\\u{202e}x"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("bell\u{7}", "bell\\u{7}"),
            ("tag\u{e0041}", "tag\\u{e0041}"),
            ("a\u{fff0}\u{1bca0}\u{1d173}b", "a\\u{fff0}\\u{1bca0}\\u{1d173}b"),
        ];
        for (given, expected) in cases {
            assert_eq!(text(given), expected);
            assert_eq!(line(given), expected);
        }
        assert_eq!(text("a\n\tb\r"), "a\n\tb\\r");
        assert_eq!(line("a\nb"), "a\\nb");
        assert_eq!(prose("👩\u{200d}💻\u{1b}"), "👩\u{200d}💻\\u{1b}");
    }

    /// Titles, notes and results are shown as they were written; what a terminal obeys is escaped there too.
    #[test]
    fn joiners_and_emoji_are_shown_as_they_are_but_not_in_a_question() {
        for shown in ["می\u{200c}خواهم", "क्\u{200d}ष", "👩\u{200d}💻", "❤\u{fe0f}"] {
            assert_eq!((prose_line(shown).as_str(), short(shown, 50).as_str()), (shown, shown));
            assert_eq!(prose(shown), shown);
            assert!(line(shown).contains("\\u{") && text(shown).contains("\\u{"), "a question shows what is hidden");
        }
        for obeyed in ["rm\u{202e}x", "\u{2066}x", "zero\u{200b}width", "a\x1b[2Jb", "bell\u{7}", "tag\u{e0041}"] {
            assert!(prose_line(obeyed) == line(obeyed) && short(obeyed, 50) == line(obeyed), "{obeyed:?}");
        }
        assert_eq!(prose_line("a\nb"), "a\\nb");
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        assert_eq!(short("one\n two\t three", 50), "one two three");
        assert_eq!(short("abcdefghij", 8), "abcde...");
        assert_eq!(short(&"界".repeat(300), 250).chars().count(), 250);
    }
}
