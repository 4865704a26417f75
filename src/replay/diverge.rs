//! Where two tapes part: what was the same up to there led to something else.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde_json::Value;

use super::difference::{both_short, of_values, text, value};
use crate::{
    ids::Seq,
    tape::{Append, Entry},
};

/// The first place where two tapes are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The entry, on both.
    pub seq: Seq,
    /// File and line of it on the first tape; nothing where that one has ended.
    pub a_at: Option<(PathBuf, usize)>,
    /// The same of the second.
    pub b_at: Option<(PathBuf, usize)>,
    /// The field; empty where a whole entry is missing.
    pub path: String,
    /// What the first tape has there, short.
    pub a: Option<String>,
    /// What the second has.
    pub b: Option<String>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.path.is_empty() { "" } else { ", field " };
        write!(f, "the tapes part at entry {}{at}{}", self.seq, self.path)?;
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
/// Entries are compared by their seq. Not compared is what differs between any two runs: times and how long calls took, ids that are UUIDs (the same
/// one must come at the same places, though), the sessions' own names, and hashes over these.
#[must_use]
pub fn diverge(a: &[Append], b: &[Append]) -> Option<Divergence> {
    let (mut names_a, mut names_b) = (Names::of(a), Names::of(b));
    let (mut a, mut b) = (placed(a), placed(b));
    loop {
        let (left, right) = (a.next(), b.next());
        let ((a_at, left), (b_at, right)) = match (left, right) {
            (None, None) => return None,
            (Some((at, entry)), None) => {
                return Some(one_sided(entry.seq, (Some(at), Some(entry)), (None, None)));
            }
            (None, Some((at, entry))) => {
                return Some(one_sided(entry.seq, (None, None), (Some(at), Some(entry))));
            }
            (Some(left), Some(right)) => (left, right),
        };
        if left.kind != right.kind {
            return Some(one_sided(left.seq, (Some(a_at), Some(left)), (Some(b_at), Some(right))));
        }
        let (is, other) = (names_a.plain(left), names_b.plain(right));
        if let Some((path, a, b)) = of_values("", &is, &other) {
            let path = path.trim_start_matches('.').to_owned();
            let (a, b) = both_short(a.map(text), b.map(text));
            return Some(Divergence { seq: left.seq, a_at: Some(a_at), b_at: Some(b_at), path, a, b });
        }
    }
}

type At = (PathBuf, usize);

fn placed(appends: &[Append]) -> impl Iterator<Item = (At, &Entry)> {
    appends.iter().flat_map(|append| {
        append.entries.iter().enumerate().map(|(n, entry)| ((append.file.clone(), append.line + n), entry))
    })
}

fn one_sided(seq: Seq, a: (Option<At>, Option<&Entry>), b: (Option<At>, Option<&Entry>)) -> Divergence {
    let whole = |entry: &Entry| format!("{} {}", entry.kind, entry.data.get());
    let (a_text, b_text) = both_short(a.1.map(whole), b.1.map(whole));
    Divergence { seq, a_at: a.0, b_at: b.0, path: String::new(), a: a_text, b: b_text }
}

/// What stands for the ids of one tape: the first that comes is the first on every tape.
struct Names {
    session: String,
    seen: BTreeMap<String, usize>,
}

impl Names {
    fn of(appends: &[Append]) -> Names {
        let state = appends.first().and_then(|append| append.entries.first()).map(|entry| value(entry.data.get()));
        let session = state.as_ref().and_then(|state| state["session"].as_str()).unwrap_or_default();
        let mut names = Names { session: String::new(), seen: BTreeMap::new() };
        // A name that is an id has its stand-in as all others have.
        names.session = names.without_ids(session);
        names
    }

    /// An entry without what differs between any two runs.
    fn plain(&mut self, entry: &Entry) -> Value {
        let (turn, step, ticket) = (entry.turn, entry.step, entry.ticket);
        let cause = serde_json::to_value(&entry.cause).unwrap_or_default();
        let mut whole = serde_json::json!({ "turn": turn, "step": step, "ticket": ticket, "cause": cause });
        whole["data"] = value(entry.data.get());
        self.make_plain("", &mut whole);
        whole
    }

    fn make_plain(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Number(_) if is_time(key) => *value = Value::Null,
            Value::String(_) if matches!(key, "hash" | "history_hash") => *value = Value::Null,
            Value::String(text) => {
                let plain = self.without_ids(text);
                *text = plain;
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.make_plain(key, item)),
            Value::Object(fields) => {
                // A field can be named by an id: the messages that were taken are.
                let named = std::mem::take(fields).into_iter();
                *fields = named
                    .map(|(key, mut value)| {
                        self.make_plain(&key, &mut value);
                        (self.without_ids(&key), value)
                    })
                    .collect();
            }
            _ => {}
        }
    }

    fn without_ids(&mut self, text: &str) -> String {
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
        if self.session.is_empty() {
            return plain;
        }
        // The session's own name stands alone, in the key of a request, or in a path of the store.
        let pieces = plain.split('/').map(|piece| if piece == self.session { "SESSION" } else { piece });
        pieces.collect::<Vec<_>>().join("/")
    }
}

/// The length of a UUID as text.
const UUID: usize = 36;

/// Where the first UUID in a text begins.
fn uuid_in(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_uuid = |window: &[u8]| {
        window.iter().enumerate().all(|(n, byte)| match n {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    bytes.windows(UUID).position(is_uuid)
}

/// Whether a number under that key is a moment, or how long something took.
fn is_time(key: &str) -> bool {
    matches!(key, "duration_ms" | "time" | "created" | "completed" | "start" | "end" | "until" | "expires" | "started")
}

impl Divergence {
    /// Whether one of the two simply ends where the other goes on.
    #[must_use]
    pub fn is_an_end(&self) -> bool {
        self.a_at.is_none() || self.b_at.is_none()
    }
}
