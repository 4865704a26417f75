//! Where two entries differ, said so that a person finds the place.

use std::{fmt, path::PathBuf};

use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    ids::{Seq, SessionId},
    session::Entry,
    tape::{self, Append},
};

/// The longest that one side of a difference is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 160;
/// How much is shown before the first character that differs, in bytes.
const BEFORE_BYTES: usize = 40;

/// Fields that say more of why an entry differs than those that come before them do; of a request above all.
const TELLING: [&str; 4] = ["model", "system", "tools", "items"];

/// The first place where what was decided again is not what stands on the tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The entry.
    pub seq: Seq,
    /// The file that it stands in.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The kind of entry that stands there, or the kind that should.
    pub kind: String,
    /// The field: `ticket`, or `data.system`. Empty where a whole entry is too much or missing.
    pub path: String,
    /// What stands on the tape, short; nothing where the tape has nothing there.
    pub recorded: Option<String>,
    /// What was decided, short; nothing where nothing was.
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
    /// What the field means, where its value is a hash or a number that tells nobody anything.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match (self.kind.as_str(), self.path.as_str()) {
            ("request", "data.system") => Some("the system prompt is another one"),
            ("request", "data.tools") => Some("the tools that are offered are others: names, descriptions or schemas"),
            ("request", "data.items") => Some("the conversation has more or fewer items"),
            ("request", "data.hash") => {
                Some("the words of the conversation, or the parameters of the request, are others")
            }
            ("request", "data.estimated" | "data.used") => Some("the conversation or the tools take more or less room"),
            ("request", "data.usable") => Some("the model's window is another one"),
            _ => None,
        }
    }
}

/// The first difference between the entries of an append and those that were decided; then, where that is to be compared too, the
/// first in what they say of their inputs.
pub(super) fn first(append: &Append, decided: &[Entry], with_inputs: bool) -> Option<Difference> {
    let count = append.entries.len().max(decided.len());
    let found = (0..count).find_map(|n| of_two(append, n, append.entries.get(n), decided.get(n)));
    let of_inputs = || append.entries.iter().zip(decided).enumerate().find_map(|(n, two)| of_inputs(append, n, two));
    found.or_else(|| with_inputs.then(of_inputs).flatten())
}

fn of_inputs(append: &Append, n: usize, (recorded, decided): (&tape::Entry, &Entry)) -> Option<Difference> {
    let text = |entry: &tape::Entry| entry.input.as_ref().map(|input| input.get().to_owned());
    let (was, is) = (text(recorded), text(&decided.to_tape().ok()?));
    if was == is {
        return None;
    }
    let values = [&was, &is].map(|text| text.as_deref().map(value).unwrap_or_default());
    let place = of_values("in", &values[0], &values[1]).map_or_else(|| "in".to_owned(), |(path, ..)| path);
    let (recorded_text, replayed) = both_short(was, is);
    Some(Difference {
        seq: recorded.seq,
        file: append.file.clone(),
        line: append.line + n,
        kind: recorded.kind.clone(),
        path: place,
        recorded: recorded_text,
        replayed,
    })
}

fn of_two(append: &Append, n: usize, recorded: Option<&tape::Entry>, decided: Option<&Entry>) -> Option<Difference> {
    let first = append.entries.first().map_or(Seq::ZERO, |entry| entry.seq);
    let found = |kind: &str, path: &str, recorded: Option<String>, replayed: Option<String>| Difference {
        seq: Seq(first.0 + n as u64),
        file: append.file.clone(),
        // Where the tape has nothing, the line after the last of the append is the place.
        line: append.line + n,
        kind: kind.to_owned(),
        path: path.to_owned(),
        recorded,
        replayed,
    };
    let replayed = match decided.map(Entry::to_tape).transpose() {
        Ok(replayed) => replayed,
        Err(error) => return Some(found("", "data", None, Some(error.to_string()))),
    };
    let (recorded, replayed) = match (recorded, &replayed) {
        (Some(recorded), Some(replayed)) if recorded.is_like(replayed) => return None,
        (Some(recorded), Some(replayed)) if recorded.kind == replayed.kind => (recorded, replayed),
        (recorded, replayed) => {
            let kind = recorded.or(replayed.as_ref()).map_or("", |entry| &entry.kind);
            let whole = |entry: &tape::Entry| short(&format!("{} {}", entry.kind, entry.data.get()));
            return Some(found(kind, "", recorded.map(whole), replayed.as_ref().map(whole)));
        }
    };
    for (path, was, is) in heads(recorded, replayed) {
        if was != is {
            return Some(found(&recorded.kind, path, was, is));
        }
    }
    let (was, mut is) = (value(recorded.data.get()), value(replayed.data.get()));
    if recorded.kind == "call_started" {
        keep_name(&was, &mut is);
    }
    let told = TELLING.iter().find_map(|key| of_values(&format!("data.{key}"), was.get(key)?, is.get(key)?));
    if let Some((path, was, is)) = told.or_else(|| of_values("data", &was, &is)) {
        let (was, is) = both_short(was.map(text), is.map(text));
        return Some(found(&recorded.kind, &path, was, is));
    }
    None
}

/// A call has the key under which its service knows it, and a session that came in under another id has those of before: the name
/// in it is no difference.
fn keep_name(was: &Value, is: &mut Value) {
    let parts = |value: &Value| {
        let (name, ticket) = value.get("key")?.as_str()?.rsplit_once('/')?;
        Some((name.parse::<SessionId>().ok()?, ticket.to_owned()))
    };
    if let (Some((_, before)), Some((_, now))) = (parts(was), parts(is))
        && before == now
    {
        is["key"] = was["key"].clone();
    }
}

/// The fields of a line beside its data.
fn heads(recorded: &tape::Entry, replayed: &tape::Entry) -> [(&'static str, Option<String>, Option<String>); 6] {
    let cause = |entry: &tape::Entry| entry.cause.as_ref().map(|cause| format!("{cause:?}"));
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let seq = |seq: Option<Seq>| number(seq.map(|seq| seq.0));
    [
        ("seq", seq(Some(recorded.seq)), seq(Some(replayed.seq))),
        ("ticket", seq(recorded.ticket), seq(replayed.ticket)),
        ("turn", seq(recorded.turn), seq(replayed.turn)),
        ("step", number(recorded.step.map(u64::from)), number(replayed.step.map(u64::from))),
        ("cause", cause(recorded), cause(replayed)),
        ("time", number(Some(recorded.time.0)), number(Some(replayed.time.0))),
    ]
}

/// A JSON text as a value, however deep it is.
pub(super) fn value(text: &str) -> Value {
    let mut json = serde_json::Deserializer::from_str(text);
    json.disable_recursion_limit();
    // What stands on a tape was JSON when it was checked.
    Value::deserialize(&mut json).unwrap_or_default()
}

/// A place, and the two values there; nothing where a side has none.
pub(super) type Place<'v> = (String, Option<&'v Value>, Option<&'v Value>);

/// The first place where two values differ.
pub(super) fn of_values<'v>(path: &str, a: &'v Value, b: &'v Value) -> Option<Place<'v>> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            keys.into_iter().find_map(|key| {
                let at = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => of_values(&at, a, b),
                    (a, b) => Some((at, a, b)),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) => (0..a.len().max(b.len())).find_map(|n| {
            let at = format!("{path}[{n}]");
            match (a.get(n), b.get(n)) {
                (Some(a), Some(b)) => of_values(&at, a, b),
                (a, b) => Some((at, a, b)),
            }
        }),
        _ if a == b => None,
        _ => Some((path.to_owned(), Some(a), Some(b))),
    }
}

/// A value as one reads it.
pub(super) fn text(value: &Value) -> String {
    value.to_string()
}

/// Two texts that differ, cut to where they do.
pub(super) fn both_short(a: Option<String>, b: Option<String>) -> (Option<String>, Option<String>) {
    let (Some(a), Some(b)) = (&a, &b) else {
        return (a.as_deref().map(short), b.as_deref().map(short));
    };
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(BEFORE_BYTES);
    let cut = |text: &str| match from {
        0 => short(text),
        from => format!("…{}", short(&text[text.ceil_char_boundary(from)..])),
    };
    (Some(cut(a)), Some(cut(b)))
}

fn short(text: &str) -> String {
    match text.len() <= SHOWN_BYTES_MAX {
        true => text.to_owned(),
        false => format!("{}…", &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    fn place(a: &Value, b: &Value) -> Option<String> {
        of_values("data", a, b).map(|(path, ..)| path)
    }

    /// The first place is named, down to a field of an item.
    #[test]
    fn a_difference_is_found_down_to_its_field() {
        let a = json!({"x": 1, "list": [{"a": 1}, {"b": [1, 2]}], "y": "s"});
        assert_eq!(place(&a, &a), None);
        for (b, at) in [
            (json!({"x": 1, "list": [{"a": 1}, {"b": [1, 3]}], "y": "t"}), "data.list[1].b[1]"),
            (json!({"x": 1, "list": [{"a": 1}], "y": "s"}), "data.list[1]"),
            (json!({"x": 1, "list": [{"a": 1}, {"b": [1, 2]}], "y": "s", "z": 1}), "data.z"),
            (json!({"list": [{"a": 1}, {"b": [1, 2]}], "y": "s"}), "data.x"),
        ] {
            assert_eq!(place(&a, &b).unwrap(), at);
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
