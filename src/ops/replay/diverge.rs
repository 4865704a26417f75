//! Finds where two tapes first differ, and what each has there.
//!
//! Two runs that decided the same have no difference here: the fields that differ between any two runs are not compared. These are
//! times and durations, the hashes of requests and histories, the sessions' own names, and UUIDs, of which only the pattern counts:
//! the same UUID must come at the same places. The recorded inputs are not compared either, because their outcomes are. A change
//! must not leave out more: a field that is not compared hides a difference in decisions.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde_json::Value;

use super::difference::{of_two, value, whole};
use crate::{
    tape::{Append, TapeEntry},
    words::ids::Seq,
};

/// The first place where two tapes differ.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Divergence {
    /// The seq of the entry, on both tapes.
    pub seq: Seq,
    /// File and line of the entry on the first tape; `None` if that tape has ended.
    #[serde(serialize_with = "line_text")]
    pub a_at: Option<(PathBuf, usize)>,
    /// File and line of the entry on the second tape; `None` if that tape has ended.
    #[serde(serialize_with = "line_text")]
    pub b_at: Option<(PathBuf, usize)>,
    /// The field; empty if a whole entry is missing.
    pub path: String,
    /// The value on the first tape, cut short.
    pub a: Option<String>,
    /// The value on the second tape, cut short.
    pub b: Option<String>,
}

/// `null`, or the file and the line.
fn line_text<S: serde::Serializer>(at: &Option<(PathBuf, usize)>, serializer: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&at.as_ref().map(|(file, line)| (file.display().to_string(), line)), serializer)
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.path.is_empty() { "" } else { ", field " };
        write!(f, "the tapes differ from entry {}{at}{}", self.seq, self.path)?;
        for (name, at, what) in [("first ", &self.a_at, &self.a), ("second", &self.b_at, &self.b)] {
            let what = what.as_deref().unwrap_or("nothing");
            match at {
                Some((file, line)) => write!(f, "\n  {name}  {what}\n          {} line {line}", file.display())?,
                None => write!(f, "\n  {name}  {what} (the tape has ended)")?,
            }
        }
        Ok(())
    }
}

/// The first divergence of two tapes: where they differ in what was said and decided.
///
/// Entries are compared in order. Values that differ between any two runs are not compared: times and durations, UUIDs (but the
/// same UUID must come at the same places), the sessions' own names, and hashes over these. Recorded inputs are not compared
/// either.
#[must_use]
pub fn diverge(a: &[Append], b: &[Append]) -> Option<Divergence> {
    let (mut names_a, mut names_b) = (Names::default(), Names::default());
    let (mut a, mut b) = (placed(a), placed(b));
    loop {
        let ((a_at, left), (b_at, right)) = (a.next().unzip(), b.next().unzip());
        let seq = left.or(right)?.seq;
        if let Some((path, a, b)) = of_two(left, right, |a, b| [names_a.plain(a), names_b.plain(b)]) {
            let place = |(file, line): (&PathBuf, usize)| (file.clone(), line);
            return Some(Divergence { seq, a_at: a_at.map(place), b_at: b_at.map(place), path, a, b });
        }
    }
}

fn placed(appends: &[Append]) -> impl Iterator<Item = ((&PathBuf, usize), &TapeEntry)> {
    appends.iter().flat_map(|append| (append.line..).map(|line| (&append.file, line)).zip(&append.entries))
}

/// Numbers the UUIDs of one tape in the order in which they come, so that two tapes can be compared by these numbers.
#[derive(Default)]
struct Names {
    /// The session's own name, from the newest state. A name that is a UUID is numbered like all others.
    session: String,
    seen: BTreeMap<String, usize>,
}

impl Names {
    /// An entry without the values that differ between any two runs.
    fn plain(&mut self, entry: &TapeEntry) -> Value {
        let whole = whole(entry, false);
        if let Some(session) = whole["data"]["session"].as_str().filter(|_| entry.kind == "state") {
            self.session = self.without_names(session);
        }
        let mut plain = value(&self.without_names(&whole.to_string()));
        forget("", &mut plain);
        plain
    }

    /// A text with stand-ins for the UUIDs and for the session's own name. The name occurs alone, in the key of a request, or in
    /// a path of the store.
    fn without_names(&mut self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = uuid_in(rest) {
            let known = self.seen.len() + 1;
            let number = *self.seen.entry(rest[at..at + UUID].to_owned()).or_insert(known);
            plain.push_str(&rest[..at]);
            plain.push_str(&format!("id-{number}"));
            rest = &rest[at + UUID..];
        }
        plain.push_str(rest);
        let pieces = plain.split_inclusive(['"', '/']).map(|piece| match piece.strip_prefix(&self.session) {
            Some(end @ ("\"" | "/")) if !self.session.is_empty() => format!("SESSION{end}"),
            _ => piece.to_owned(),
        });
        pieces.collect()
    }
}

/// Empties the fields that hold a time, a duration, or a hash over names.
fn forget(key: &str, value: &mut Value) {
    match value {
        Value::Number(_) if is_time(key) => *value = Value::Null,
        Value::String(_) if matches!(key, "hash" | "history_hash") => *value = Value::Null,
        // Folders next to the tape, by whose names nothing is decided: an import has others.
        Value::Array(items) if key == "read_roots" => items.clear(),
        Value::Array(items) => items.iter_mut().for_each(|item| forget(key, item)),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| forget(key, value)),
        _ => {}
    }
}

/// The length of a UUID as text.
const UUID: usize = 36;

/// Where the first UUID in a text begins.
fn uuid_in(text: &str) -> Option<usize> {
    let is_uuid = |at: &usize| text.get(*at..at + UUID).is_some_and(|piece| uuid::Uuid::try_parse(piece).is_ok());
    (0..text.len()).find(is_uuid)
}

/// Whether a number under this key is a time or a duration.
fn is_time(key: &str) -> bool {
    matches!(key, "duration_ms" | "time" | "created" | "completed" | "start" | "end" | "until" | "expires" | "started")
}
