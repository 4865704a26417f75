//! Labels: what a host says of a session, such as its tenant or its user, as keys and values. Lists and searches filter by them.
//!
//! A value of [`Labels`] is always within its bounds, so no code behind it checks them again. Labels are part of the stored
//! format of settings: the bounds may grow and must not shrink, because a stored label beyond them would be left out. A change
//! must give no label a meaning: the keys and values are the host's alone.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize};

/// The most labels of a session.
const LABELS_MAX: usize = 16;

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 64;

/// The longest value, in bytes.
const VALUE_BYTES_MAX: usize = 256;

/// How much of a bad key is shown, in characters.
const SHOWN_CHARS_MAX: usize = 80;

/// What a host says of a session, such as its tenant or its user: at most 16 labels. A key has 1 to 64 of `a-z 0-9 . _ -`; a value
/// has at most 256 bytes and no control character.
///
/// Cheap to clone: clones share them until one is changed. In JSON they are an object of texts. What is beyond the bounds there is left out, so that no label keeps a tape from being read.
///
/// ```
/// use tamtam::session::{BadLabel, Labels};
///
/// let labels = Labels::new([("tenant", "acme"), ("user", "ann")])?;
/// assert_eq!(labels.get("user"), Some("ann"));
/// assert_eq!(Labels::new([("Tenant", "acme")]), Err(BadLabel::Key { key: "Tenant".into() }));
/// # Ok::<(), BadLabel>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Labels(Arc<BTreeMap<String, String>>);

/// Why labels are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadLabel {
    /// The key is empty or too long, or has a character that no key may have.
    #[error("bad label key {key:?}: use 1 to {KEY_BYTES_MAX} of a-z 0-9 . _ -")]
    Key {
        /// The first 80 characters of the key.
        key: String,
    },
    /// The value is too long.
    #[error("the value of the label {key} has {bytes} bytes: the limit is {VALUE_BYTES_MAX}")]
    TooLong {
        /// The key of the label.
        key: String,
        /// How many bytes its value has.
        bytes: usize,
    },
    /// The value has a control character, such as a line break.
    #[error("the value of the label {key} has a control character: leave it out")]
    Control {
        /// The key of the label.
        key: String,
    },
    /// Two labels have the same key.
    #[error("the label {key} is given twice")]
    Twice {
        /// The key of both.
        key: String,
    },
    /// No label is given, where one is needed to tell some sessions from all.
    #[error("no label is given: that would be all sessions")]
    None,
    /// There are too many labels.
    #[error("there is no room for the label {key}: the limit is {LABELS_MAX} labels")]
    TooMany {
        /// The key of the first label that is too many.
        key: String,
    },
}

impl Labels {
    /// The labels of these keys and values.
    ///
    /// # Errors
    /// See [`BadLabel`]: the first label that is refused, and why.
    pub fn new<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Result<Labels, BadLabel> {
        let mut labels = Labels::default();
        for (key, value) in pairs {
            let key = key.into();
            if labels.0.contains_key(&key) {
                return Err(BadLabel::Twice { key });
            }
            labels.set(key, value)?;
        }
        Ok(labels)
    }

    /// Sets a label, replacing one with the same key.
    ///
    /// # Errors
    /// See [`BadLabel`]. The labels are then as they were.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) -> Result<(), BadLabel> {
        let (key, value) = (key.into(), value.into());
        check(&key, &value)?;
        if self.0.len() == LABELS_MAX && !self.0.contains_key(&key) {
            return Err(BadLabel::TooMany { key });
        }
        Arc::make_mut(&mut self.0).insert(key, value);
        Ok(())
    }

    /// These labels, and those of `others` whose keys these do not have.
    ///
    /// # Errors
    /// [`BadLabel::TooMany`].
    pub fn or(mut self, others: &Labels) -> Result<Labels, BadLabel> {
        for (key, value) in others.iter().filter(|(key, _)| self.get(key).is_none()).collect::<Vec<_>>() {
            self.set(key, value)?;
        }
        Ok(self)
    }

    /// The value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of the wanted labels are among these.
    pub(crate) fn have(&self, wanted: &Labels) -> bool {
        wanted.iter().all(|(key, value)| self.get(key) == Some(value))
    }
}

fn check(key: &str, value: &str) -> Result<(), BadLabel> {
    let is_of_a_key = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(is_of_a_key) {
        return Err(BadLabel::Key { key: key.chars().take(SHOWN_CHARS_MAX).collect() });
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(BadLabel::TooLong { key: key.to_owned(), bytes: value.len() });
    }
    if value.chars().any(char::is_control) {
        return Err(BadLabel::Control { key: key.to_owned() });
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Labels, D::Error> {
        let mut labels = Labels::default();
        for (key, value) in BTreeMap::<String, String>::deserialize(from)? {
            // A refused label is left out.
            let _ = labels.set(key, value);
        }
        Ok(labels)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn said(key: &str, value: &str) -> Option<String> {
        Labels::new([(key, value)]).err().map(|error| error.to_string())
    }

    fn numbered(count: usize) -> Result<Labels, BadLabel> {
        Labels::new((0..count).map(|n| (format!("k{n:02}"), "")))
    }

    #[test]
    fn keys_and_values_have_bounds() {
        let longest = ("k".repeat(64), "ü".repeat(128));
        for (key, value) in [("tenant", "Acme & Söhne"), ("a-z_0.9", ""), (&longest.0, &longest.1)] {
            assert_eq!(said(key, value), None, "{key}");
        }
        for key in ["", "Tenant", "a b", "ü", "a=b", "a\n", &"k".repeat(65)] {
            assert_eq!(said(key, "x"), Some(format!("bad label key {key:?}: use 1 to 64 of a-z 0-9 . _ -")));
        }
        let long = "the value of the label k has 258 bytes: the limit is 256";
        assert_eq!(said("k", &"ü".repeat(129)).as_deref(), Some(long));
        for value in ["a\nb", "\u{1b}[31m", "\0", "\u{85}"] {
            assert_eq!(said("k", value).unwrap(), "the value of the label k has a control character: leave it out");
        }
    }

    #[test]
    fn the_seventeenth_label_and_a_key_that_is_there_twice_are_named() {
        let mut labels = numbered(16).unwrap();
        assert_eq!(numbered(17), Err(BadLabel::TooMany { key: "k16".into() }));
        assert_eq!(labels.set("k16", "x"), Err(BadLabel::TooMany { key: "k16".into() }));
        labels.set("k15", "x").unwrap();
        assert_eq!((labels.get("k15"), labels.iter().count()), (Some("x"), 16));
        assert_eq!(Labels::new([("k", "1"), ("k", "1")]), Err(BadLabel::Twice { key: "k".into() }));
    }

    #[test]
    fn labels_over_others_keep_their_values() {
        let own = Labels::new([("user", "robot")]).unwrap();
        let both = own.clone().or(&Labels::new([("tenant", "acme"), ("user", "ann")]).unwrap()).unwrap();
        assert_eq!(both, Labels::new([("tenant", "acme"), ("user", "robot")]).unwrap());
        assert!(both.have(&own) && both.have(&Labels::default()) && !own.have(&both));
        assert_eq!(own.or(&numbered(16).unwrap()), Err(BadLabel::TooMany { key: "k15".into() }));
    }

    #[test]
    fn what_is_beyond_the_bounds_in_json_is_left_out() {
        let labels = Labels::new([("tenant", "acme")]).unwrap();
        assert_eq!(serde_json::to_string(&labels).unwrap(), r#"{"tenant":"acme"}"#);
        let read = serde_json::from_str::<Labels>(r#"{"tenant":"acme","Bad":"x","line":"a\nb"}"#).unwrap();
        assert_eq!(read, labels);
        assert!(serde_json::from_str::<Labels>("[]").is_err());
    }
}
