//! The texts of a JSON value, passed through a filter as one text: so a secret is found whose lines are in several fields, and
//! one whose name is the name of its field.
//!
//! The walk keeps its own stack, so a deep value costs no stack of the thread.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Separates the name of a field from its text, and two fields.
const BEHIND_NAME: char = '\u{1f}';
const BETWEEN: &str = "\n\u{1e}\n";

/// Replaces each text of a value by what `pass` makes of it; and each name of a field, if the name alone does not pass. If the
/// filter removes a border between two fields, each passes alone.
pub(crate) fn pass_texts(value: &mut Value, pass: impl Fn(&str) -> String) {
    rename(value, &pass);
    let (mut joined, mut named_by, mut texts) = (String::new(), Vec::new(), Vec::new());
    let mut open: Vec<(String, &mut Value)> = vec![(String::new(), value)];
    while let Some((name, value)) = open.pop() {
        match value {
            Value::String(text) => {
                named_by.push(name);
                texts.push(text);
            }
            Value::Array(items) => open.extend(items.iter_mut().rev().map(|item| (name.clone(), item))),
            Value::Object(fields) => open.extend(fields.iter_mut().rev().map(|(name, value)| (name.clone(), value))),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    for (name, text) in named_by.iter().zip(&texts) {
        joined.extend([name.as_str(), BEHIND_NAME.encode_utf8(&mut [0; 4]), text.as_str(), BETWEEN]);
    }
    let passed = pass(&joined);
    if passed == joined {
        return;
    }
    let mut whole: Vec<_> = passed.split(BETWEEN).map(|field| field.split_once(BEHIND_NAME)).collect();
    // A border follows the last field too.
    let is_whole = whole.pop() == Some(None) && whole.len() == texts.len() && whole.iter().all(Option::is_some);
    let is_ours = joined.matches(BEHIND_NAME).count() == texts.len() && joined.matches('\u{1e}').count() == texts.len();
    if is_whole && is_ours {
        whole.into_iter().flatten().zip(texts).for_each(|((_, passed), text)| passed.clone_into(text));
    } else {
        texts.into_iter().for_each(|text| *text = pass(text));
    }
}

/// Renames the fields whose names do not pass.
fn rename(value: &mut Value, pass: &impl Fn(&str) -> String) {
    let (mut open, mut known) = (vec![value], BTreeMap::<String, String>::new());
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                let mut passed = |name: &String| known.entry(name.clone()).or_insert_with(|| pass(name)).clone();
                if fields.keys().any(|name| passed(name) != *name) {
                    let taken = std::mem::take(fields);
                    *fields = taken.into_iter().map(|(name, value)| (passed(&name), value)).collect::<Map<_, _>>();
                }
                open.extend(fields.iter_mut().map(|(_, value)| value));
            }
            _ => {}
        }
    }
}
