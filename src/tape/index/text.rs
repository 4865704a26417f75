//! The searchable text of an entry: the strings under a few known keys of its data, at most 64 KiB. A pure function of JSON.
//!
//! This layer does not know the kinds of entries. So the keys are a guess of what is speech. The text decides what a search finds
//! and shows; nothing else may depend on it. A change of the keys or of the bound changes the content of the index and needs a new
//! `schema::VERSION`: old rows would keep the old texts, and a check of the index would call them wrong.

use serde_json::Value;

/// The keys of speech. Strings under other keys are taken for ids, numbers and names.
const KEYS: &[&str] = &[
    "text",
    "content",
    "message",
    "summary",
    "title",
    "reason",
    "error",
    "input",
    "output",
    "arguments",
    "args",
    "prompt",
];

/// The most bytes of one entry that are searchable.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The strings under the keys of speech, alone or in lists, joined by line breaks. They are in the order of the parsed JSON.
pub(super) fn text_of(data: &str) -> String {
    let mut text = String::new();
    if let Ok(value) = serde_json::from_str(data) {
        collect(&value, false, &mut text);
    }
    text
}

fn collect(value: &Value, said: bool, text: &mut String) {
    match value {
        Value::String(words) if said && text.len() < TEXT_BYTES_MAX => {
            if !text.is_empty() {
                text.push('\n');
            }
            let room = TEXT_BYTES_MAX - text.len().min(TEXT_BYTES_MAX);
            text.push_str(&words[..words.floor_char_boundary(room.min(words.len()))]);
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, said, text)),
        Value::Object(fields) => {
            for (key, value) in fields {
                collect(value, KEYS.contains(&key.as_str()), text);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_is_said_is_searchable_and_what_is_named_is_not() {
        let data = r#"{"id":"m1","parts":[{"type":"text","text":"one"},{"type":"text","text":"错误"}],
            "content":["two",{"text":"three","mime":"x/y"}],"n":7}"#;
        let mut words: Vec<String> = text_of(data).lines().map(str::to_owned).collect();
        words.sort();
        assert_eq!(words, ["one", "three", "two", "错误"]);
        assert_eq!(text_of("7"), "");
        assert_eq!(text_of("not json"), "");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let data = serde_json::json!({ "text": ["错".repeat(TEXT_BYTES_MAX), "x".repeat(TEXT_BYTES_MAX)] });
        assert!((TEXT_BYTES_MAX - 4..=TEXT_BYTES_MAX + 1).contains(&text_of(&data.to_string()).len()));
    }
}
