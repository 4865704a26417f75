//! [`Secrets`]: what the headers to a server had and nobody is shown, also where the server repeats it.
//!
//! Masked is what the server said once it is read: decoded strings, so that no escape hides a value, and only strings, so that no mask
//! breaks a message. Kept are the values of headers that carry credentials: an ordinary one has words of the protocol in it.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;
use tamtam::model::Secret;

/// How many values are remembered, the newest: a host may rotate them.
const SECRETS_MAX: usize = 64;
/// A shorter word occurs in ordinary text.
const WORD_BYTES_MIN: usize = 8;
/// What the names of headers with credentials have in them.
const NAMES: &[&str] = &["auth", "cookie", "key", "token", "secret", "password", "session", "signature"];

/// Whether a header of this name carries credentials.
pub(crate) fn is_credential(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    NAMES.iter().any(|name| header.contains(name))
}

#[derive(Default)]
pub(crate) struct Secrets(Mutex<VecDeque<Secret>>);

impl Secrets {
    /// Remembers values, as the newest.
    pub(crate) fn add(&self, values: impl IntoIterator<Item = Secret>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for value in values {
            known.retain(|one| one.reveal() != value.reveal());
            known.push_back(value);
        }
        let surplus = known.len().saturating_sub(SECRETS_MAX);
        known.drain(..surplus);
    }

    /// The words to mask, the longest first: one may begin with another.
    fn words(&self) -> Vec<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words = known.iter().flat_map(|secret| secret.reveal().split_whitespace());
        let mut words: Vec<_> = words.filter(|word| word.len() >= WORD_BYTES_MIN).map(str::to_owned).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words
    }

    /// A text without them.
    pub(crate) fn text<'a>(&self, said: &'a str) -> Cow<'a, str> {
        masked(said, &self.words())
    }

    /// Takes them out of all strings of a value.
    pub(crate) fn take_out(&self, value: &mut Value) {
        let words = self.words();
        if !words.is_empty() {
            take_out(value, &words);
        }
    }
}

fn masked<'a>(said: &'a str, words: &[String]) -> Cow<'a, str> {
    words.iter().fold(Cow::Borrowed(said), |said, word| match said.contains(word.as_str()) {
        true => Cow::Owned(said.replace(word.as_str(), "[redacted]")),
        false => said,
    })
}

/// The depth of a value is bounded where it is read.
fn take_out(value: &mut Value, words: &[String]) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = masked(text, words) {
                *text = masked;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| take_out(one, words)),
        Value::Object(fields) => fields.values_mut().for_each(|one| take_out(one, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// K01: a server that repeats a credential does not bring it to the tape, however its text is escaped; nothing else changes.
    #[test]
    fn a_credential_that_comes_back_is_masked() {
        let secrets = Secrets::default();
        secrets.add(["Bearer sk-CANARY-1", "Basic sk-CANARY-1/and=more", "short"].map(Secret::new));
        assert_eq!(secrets.text("bad token sk-CANARY-1 (Bearer, short)"), "bad token [redacted] (Bearer, short)");
        let mut said: Value =
            serde_json::from_str(r#"{"a": ["sk-CANARY-1\/and=more", 1], "b": {"c": "\u0073k-CANARY-1"}}"#).unwrap();
        secrets.take_out(&mut said);
        assert_eq!(said, json!({"a": ["[redacted]", 1], "b": {"c": "[redacted]"}}));
    }

    /// A static credential outlives any number of fresh ones, because each request makes it one of the newest.
    #[test]
    fn a_credential_that_is_used_is_remembered() {
        let secrets = Secrets::default();
        for n in 0..1_000 {
            secrets.add([Secret::new("static-credential"), Secret::new(format!("fresh-credential-{n}"))]);
            assert_eq!(secrets.text("static-credential"), "[redacted]", "{n}");
        }
        assert_eq!(secrets.words().len(), SECRETS_MAX);
    }

    #[test]
    fn ordinary_headers_are_no_credentials() {
        for name in ["Authorization", "X-Api-Key", "Cookie", "x-auth", "X-GitHub-Token"] {
            assert!(is_credential(name), "{name}");
        }
        for name in ["Accept", "Content-Type", "X-MCP-Toolsets", "User-Agent", "X-Fresh"] {
            assert!(!is_credential(name), "{name}");
        }
    }
}
