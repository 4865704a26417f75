//! Finds where two entries differ, and says so that a person finds the place: entry, file, line, field, and both values.
//!
//! Pure functions of values. Of each value at most 160 bytes are shown, from shortly before the first character that differs, and
//! never a part of a character. A change must keep the order in which fields are compared (`HEADS`, `TELLING`, the rest), because
//! only the first difference is shown, and it must explain most.

use std::{fmt, path::PathBuf};

use serde_json::{Value, json};

use crate::{
    kernel,
    tape::{Append, TapeEntry},
    words::ids::Seq,
};

/// The most bytes of one side of a difference that are shown.
const SHOWN_BYTES_MAX: usize = 160;
/// How much is shown before the first character that differs, in bytes.
const BEFORE_BYTES: usize = 40;

/// The fields of an entry besides its data.
const HEADS: [&str; 6] = ["seq", "ticket", "turn", "step", "cause", "time"];
/// Fields of the data that explain a difference best, above all of a request. They are compared before the other fields.
const TELLING: [&str; 4] = ["model", "system", "tools", "items"];

/// The first place where a decision that was made again differs from the tape.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The entry.
    pub seq: Seq,
    /// The file that contains it.
    #[serde(serialize_with = "crate::words::path_text")]
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The kind of the recorded entry; of the new entry if the tape has none.
    pub kind: String,
    /// The field, such as `ticket` or `data.system`. Empty if a whole entry is missing or one too many.
    pub path: String,
    /// The recorded value, cut short; `None` if the tape has none.
    pub recorded: Option<String>,
    /// The newly decided value, cut short; `None` if there is none.
    pub replayed: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { seq, file, line, kind, path, recorded, replayed } = self;
        let at = if path.is_empty() { "" } else { ", field " };
        writeln!(f, "entry {seq} ({kind}){at}{path}, {} line {line}:", file.display())?;
        writeln!(f, "  recorded  {}", recorded.as_deref().unwrap_or("nothing"))?;
        write!(f, "  replayed  {}", replayed.as_deref().unwrap_or("nothing"))?;
        self.hint().map_or(Ok(()), |hint| write!(f, "\n  {hint}"))
    }
}

impl Difference {
    /// What a difference in this field means, where the value itself is a hash or a number that explains nothing.
    fn hint(&self) -> Option<&'static str> {
        let of_request = match self.path.as_str() {
            "data.system" => "the system prompt is another one",
            "data.tools" => "the tools that are offered are others: names, descriptions or schemas",
            "data.items" => "the conversation has more or fewer items",
            "data.hash" => "the words of the conversation, or the parameters of the request, are others",
            "data.estimated" | "data.used" => "the conversation or the tools take more or less room",
            "data.usable" => "the model's window is another one",
            _ => return None,
        };
        (self.kind == "request").then_some(of_request)
    }
}

/// The first difference between the entries of an append and the newly decided ones. Recorded inputs are compared last, and only
/// with `with_inputs`.
pub(super) fn first(append: &Append, decided: &[kernel::Entry], with_inputs: bool) -> Option<Difference> {
    let recorded = &append.entries;
    // An entry that cannot be written would not be on the tape, so it counts as missing.
    let decided: Vec<_> = decided.iter().map_while(|entry| entry.to_tape().ok()).collect();
    let is_same = |(a, b): (&TapeEntry, &TapeEntry)| if with_inputs { a == b } else { a.is_like(b) };
    if recorded.len() == decided.len() && recorded.iter().zip(&decided).all(is_same) {
        return None;
    }
    (0..recorded.len().max(decided.len())).find_map(|n| {
        let (was, is) = (recorded.get(n), decided.get(n));
        let (path, recorded, replayed) = of_two(was, is, |was, is| {
            let (was, mut is) = (whole(was, with_inputs), whole(is, with_inputs));
            keep_name(&was, &mut is);
            [was, is]
        })?;
        // If the tape has nothing, the line after the last of the append is the place.
        let (file, line, entry) = (append.file.clone(), append.line + n, was.or(is)?);
        Some(Difference { seq: entry.seq, file, line, kind: entry.kind.clone(), path, recorded, replayed })
    })
}

/// Ignores the session's name in the key of a call. An imported session has another id, but keeps the keys of before, because the
/// called services know them.
fn keep_name(was: &Value, is: &mut Value) {
    let (Some(key), Some(new)) = (was["data"]["key"].as_str(), is["data"]["key"].as_str()) else { return };
    let ticket = |key: &str| key.rsplit_once('/').map(|(_, ticket)| ticket.to_owned());
    if ticket(key) == ticket(new) {
        is["data"]["key"] = key.into();
    }
}

/// An entry as one value.
pub(super) fn whole(entry: &TapeEntry, with_input: bool) -> Value {
    let input = entry.input.as_ref().filter(|_| with_input).map(|input| value(input.get()));
    let fields = [
        ("seq", json!(entry.seq)),
        ("time", json!(entry.time)),
        ("cause", json!(entry.cause)),
        ("turn", json!(entry.turn)),
        ("step", json!(entry.step)),
        ("ticket", json!(entry.ticket)),
        ("in", json!(input)),
        ("data", value(entry.data.get())),
    ];
    fields.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

/// A JSON text as a value.
pub(super) fn value(text: &str) -> Value {
    // The content of a tape was valid JSON, and within the depth limit, when it was checked.
    serde_json::from_str(text).unwrap_or_default()
}

/// A place, and the value of either side there; `None` if a side has no value.
pub(super) type Differing<T> = (String, Option<T>, Option<T>);

/// The first place where two entries differ, with both values cut short. Shows whole entries where their kinds differ or one is
/// missing.
pub(super) fn of_two(
    a: Option<&TapeEntry>,
    b: Option<&TapeEntry>,
    values: impl FnOnce(&TapeEntry, &TapeEntry) -> [Value; 2],
) -> Option<Differing<String>> {
    let (path, a, b) = match (a, b) {
        (Some(a), Some(b)) if a.kind == b.kind => {
            let [a, b] = values(a, b);
            let heads = HEADS.iter().map(|key| ((*key).to_owned(), a.get(key), b.get(key)));
            let told = TELLING.iter().map(|key| (format!("data.{key}"), a["data"].get(key), b["data"].get(key)));
            let first = heads.chain(told).find(|(_, a, b)| a != b);
            let (path, a, b) = first.or_else(|| of_values("", Some(&a), Some(&b)))?;
            (path.trim_start_matches('.').to_owned(), a.map(Value::to_string), b.map(Value::to_string))
        }
        (a, b) => {
            let text = |entry: &TapeEntry| format!("{} {}", entry.kind, entry.data.get());
            (String::new(), a.map(text), b.map(text))
        }
    };
    let (a, b) = both_short(a, b);
    Some((path, a, b))
}

/// The first place where two values differ.
fn of_values<'v>(path: &str, a: Option<&'v Value>, b: Option<&'v Value>) -> Option<Differing<&'v Value>> {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            keys.find_map(|key| of_values(&format!("{path}.{key}"), a.get(key), b.get(key)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            (0..a.len().max(b.len())).find_map(|n| of_values(&format!("{path}[{n}]"), a.get(n), b.get(n)))
        }
        _ => (a != b).then(|| (path.to_owned(), a, b)),
    }
}

/// Two texts that differ, cut to where they do.
fn both_short(a: Option<String>, b: Option<String>) -> (Option<String>, Option<String>) {
    let both = a.as_ref().zip(b.as_ref());
    let same = both.map_or(0, |(a, b)| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count());
    let from = same.saturating_sub(BEFORE_BYTES);
    let cut = |text: String| {
        let rest = &text[text.ceil_char_boundary(from)..];
        let shown = &rest[..rest.floor_char_boundary(SHOWN_BYTES_MAX)];
        let dots = |cut_off: bool| if cut_off { "…" } else { "" };
        format!("{}{shown}{}", dots(from > 0), dots(shown.len() < rest.len()))
    };
    (a.map(cut), b.map(cut))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    /// The first place is named, down to a field of an item.
    #[test]
    fn a_difference_is_found_down_to_its_field() {
        let a = json!({"x": 1, "list": [{"a": 1}, {"b": [1, 2]}], "y": "s"});
        let place = |b: &Value| of_values("data", Some(&a), Some(b)).map(|(path, ..)| path);
        assert_eq!(place(&a), None);
        for (b, at) in [
            (json!({"x": 1, "list": [{"a": 1}, {"b": [1, 3]}], "y": "t"}), "data.list[1].b[1]"),
            (json!({"x": 1, "list": [{"a": 1}], "y": "s"}), "data.list[1]"),
            (json!({"x": 1, "list": [{"a": 1}, {"b": [1, 2]}], "y": "s", "z": 1}), "data.z"),
            (json!({"list": [{"a": 1}, {"b": [1, 2]}], "y": "s"}), "data.x"),
        ] {
            assert_eq!(place(&b).unwrap(), at);
        }
    }

    /// Of long texts the part is shown where they differ.
    #[test]
    fn long_texts_are_cut_to_where_they_differ() {
        let (a, b) = (format!("{}é a {}", "x".repeat(500), "y".repeat(500)), format!("{}é b", "x".repeat(500)));
        let (a, b) = both_short(Some(a), Some(b));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(a.starts_with("…xx") && a.contains("é a y") && a.len() < 200, "{a}");
        assert!(b.ends_with("é b"), "{b}");
        assert_eq!(both_short(Some("a".into()), None), (Some("a".into()), None));
    }
}
