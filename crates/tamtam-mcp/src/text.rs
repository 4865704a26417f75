//! Makes words of a server fit to be shown: without characters that steer a terminal or hide from a reader, and of a bounded length.
//!
//! Pure functions of texts and JSON values. They do not judge what words mean: a polite lie passes.

use serde_json::Value;

/// At the end of what was cut.
const CUT: &str = "... [truncated]";

/// The text without control characters (line feeds and tabs stay), without marks that turn the order of letters round, and without
/// characters that nobody sees, cut at a number of bytes.
pub(crate) fn clean(text: &str, bytes_max: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(bytes_max));
    for c in text.chars().filter(|c| is_shown(*c)) {
        if clean.len() + c.len_utf8() > bytes_max.saturating_sub(CUT.len()) {
            clean.push_str(CUT);
            break;
        }
        clean.push(c);
    }
    clean
}

/// The same on one line.
pub(crate) fn clean_line(text: &str, bytes_max: usize) -> String {
    clean(&text.split_whitespace().collect::<Vec<_>>().join(" "), bytes_max)
}

/// A text that is passed on as it is, cut at a number of bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end =
        (0..=bytes_max.saturating_sub(CUT.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}{CUT}", &text[..end])
}

/// Cleans every text in a JSON value, keys too; lengths stay, up to the removed characters.
pub(crate) fn clean_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = clean(text, usize::MAX),
        Value::Array(items) => items.iter_mut().for_each(clean_value),
        Value::Object(fields) => {
            if fields.keys().any(|key| !key.chars().all(is_shown)) {
                *fields =
                    std::mem::take(fields).into_iter().map(|(key, value)| (clean(&key, usize::MAX), value)).collect();
            }
            fields.values_mut().for_each(clean_value);
        }
        _ => {}
    }
}

fn is_shown(c: char) -> bool {
    let is_hidden = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    (!c.is_control() || matches!(c, '\n' | '\t')) && !is_hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description that carries orders in characters that people do not see loses them.
    #[test]
    fn what_nobody_sees_is_taken_out() {
        assert_eq!(clean("a\u{1b}[31mb\u{7}\u{202e}c\u{200b}d\u{e0041}\tz\n", 100), "a[31mbcd\tz\n");
        assert_eq!(clean_line(" a\n b\tc ", 100), "a b c");
        assert_eq!(clean("ééééééééééééééé", 25), "ééééé... [truncated]");
        assert_eq!(cut("\u{1b}ééééééééééééééé", 25), "\u{1b}éééé... [truncated]");
        let mut value = serde_json::json!({"a\u{200b}": ["x\u{0}", {"b": "\u{feff}y"}]});
        clean_value(&mut value);
        assert_eq!(value, serde_json::json!({"a": ["x", {"b": "y"}]}));
    }
}
