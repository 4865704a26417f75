//! The chain of models of an agent as data: the models ([`Fallback`]), which of them has the turn ([`Fallen`]), and in whose place one
//! is asked ([`FellBack`]). What follows from it is in `chain.rs`.
//!
//! All types here are stored formats: do not rename or retype a field or a variant, and give each new field a serde default.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{
    model::{ErrorKind, RetryClass},
    words::message::{BadModelRef, ModelRef},
};

/// What files that hold a chain are told of it: without an example in Rust.
#[cfg(any(feature = "agent-files", feature = "schema"))]
const WHAT: &str =
    "A model that goes on with a turn where the model before it in the chain fails, once no retry is left.";

/// The most models of a chain.
const CHAIN_MAX: usize = 8;

/// A model that goes on with a turn where the model before it in the chain fails, once no retry is left.
///
/// ```
/// use tamtam::{SessionOptions, model::ErrorKind, session::Fallback};
///
/// let options = SessionOptions::new("/srv/work").model("openai/gpt-5.1".parse()?).fallback(vec![
///     Fallback::new("anthropic/claude-sonnet-5-5".parse()?),
///     Fallback::new("local/qwen3".parse()?).on([ErrorKind::Auth, ErrorKind::Network]),
/// ]);
/// assert_eq!(options.fallback.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "agent-files", feature = "schema"), derive(schemars::JsonSchema), schemars(description = WHAT))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Fallback {
    /// The model, as `provider/model`.
    #[serde(deserialize_with = "model")]
    #[cfg_attr(any(feature = "agent-files", feature = "schema"), schemars(with = "String"))]
    pub model: ModelRef,
    /// The failures that it stands in for. Left out: those that may pass, after the retries, and a wait that is too long.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub on: BTreeSet<ErrorKind>,
}

/// Why a model is asked in the place of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FellBack {
    /// The model that failed.
    pub from: ModelRef,
    /// How it failed.
    pub on: ErrorKind,
}

/// The model of the chain that has the running turn. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fallen {
    pub(crate) to: ModelRef,
    pub(crate) why: FellBack,
}

/// A model by its name, as people write it, or as tapes have it.
fn model<'de, D: Deserializer<'de>>(from: D) -> Result<ModelRef, D::Error> {
    match serde_json::Value::deserialize(from)? {
        serde_json::Value::String(name) => name.parse().map_err(de::Error::custom),
        other => serde_json::from_value(other).map_err(de::Error::custom),
    }
}

impl Fallback {
    /// A model for the failures that may pass.
    #[must_use]
    pub fn new(model: ModelRef) -> Fallback {
        Fallback { model, on: BTreeSet::new() }
    }

    /// Sets the [failures](#structfield.on) that it stands in for.
    #[must_use]
    pub fn on(mut self, failures: impl IntoIterator<Item = ErrorKind>) -> Fallback {
        self.on = failures.into_iter().collect();
        self
    }

    pub(in crate::kernel) fn stands_in_for(&self, kind: ErrorKind) -> bool {
        match self.on.is_empty() {
            true => kind.class() == RetryClass::Transient || kind == ErrorKind::RetryAfterTooLong,
            false => self.on.contains(&kind),
        }
    }
}

/// As text it is `PROVIDER/MODEL`, or `PROVIDER/MODEL on FAILURE,FAILURE`: what flags and files of settings say is read so. A model
/// whose name has white space is refused, because a forgotten comma would look the same: it is named as a field (`model`) alone.
///
/// ```
/// let fallback: tamtam::session::Fallback = "local/qwen3 on auth,network".parse()?;
/// assert_eq!(fallback.to_string(), "local/qwen3 on auth,network");
/// # Ok::<(), String>(())
/// ```
impl FromStr for Fallback {
    type Err = String;

    fn from_str(text: &str) -> Result<Fallback, String> {
        let (model, on) = text.split_once(" on ").map_or((text, None), |(model, on)| (model, Some(on)));
        let model = model.trim();
        if model.contains(char::is_whitespace) {
            return Err(format!("{text:?} is no PROVIDER/MODEL, and no PROVIDER/MODEL on FAILURE,FAILURE"));
        }
        let model = model.parse().map_err(|error: BadModelRef| error.to_string())?;
        let kind = |name: &str| {
            let name = name.trim();
            let such = "such as overloaded, rate_limited or auth";
            let unknown = |_| format!("{name:?} is no failure of a model, {such}: {text:?}");
            serde_json::from_value::<ErrorKind>(name.into()).map_err(unknown)
        };
        let on = on.map_or_else(|| Ok(BTreeSet::new()), |on| on.split(',').map(kind).collect())?;
        Ok(Fallback { model, on })
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.model)?;
        for (at, kind) in self.on.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { " on " } else { "," }, kind.name())?;
        }
        Ok(())
    }
}

/// What is wrong with a chain.
pub(crate) fn fault(chain: &[Fallback]) -> Option<String> {
    // A smaller request answers these, and no other model has to.
    let is_smaller = |kind: &ErrorKind| kind.class() == RetryClass::ContextOverflow || *kind == ErrorKind::FileRefused;
    let twice = |at: usize| chain[..at].iter().any(|before| before.model == chain[at].model);
    if chain.len() > CHAIN_MAX {
        Some(format!("has {} models, and may have {CHAIN_MAX}", chain.len()))
    } else if let Some(at) = (0..chain.len()).find(|at| twice(*at)) {
        Some(format!("names {} twice", chain[at].model))
    } else if chain.iter().flat_map(|fallback| &fallback.on).any(is_smaller) {
        Some("names context_overflow, request_too_large or file_refused: then the request is made smaller".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_chain_is_read_as_people_write_it_and_checked() {
        let read = |text: &str| serde_json::from_str::<Vec<Fallback>>(text);
        let chain = read(r#"[{"model":"a/b"},{"model":"c/d:7b","on":["auth","overloaded"]}]"#).unwrap();
        assert_eq!(read(&serde_json::to_string(&chain).unwrap()).unwrap(), chain, "as a tape has it");
        let stands_in = |kind| [0, 1].map(|at: usize| chain[at].stands_in_for(kind));
        assert_eq!(stands_in(ErrorKind::Overloaded), [true, true]);
        assert_eq!(stands_in(ErrorKind::RetryAfterTooLong), [true, false]);
        assert_eq!(stands_in(ErrorKind::Auth), [false, true]);
        for text in [r#"[{"model":"x"}]"#, r#"[{"model":"a/b","on":["busy"]}]"#, r#"[{"model":"a/b","no":[]}]"#] {
            assert!(read(text).is_err(), "{text}");
        }
        for text in ["a/b", "c/d:7b on overloaded,auth", "c/d on auth"] {
            let read: Fallback = text.parse().unwrap();
            assert_eq!(read.to_string().parse(), Ok(read));
        }
        let spaced: Fallback = " c/d:7b on  auth , overloaded".parse().unwrap();
        assert_eq!(spaced, chain[1]);
        for text in ["", "x", "a/b on", "a/b on ", "a/b on busy", "a/b on auth,"] {
            assert!(text.parse::<Fallback>().is_err(), "{text:?}");
        }
        assert!(
            "a/b on busy".parse::<Fallback>().is_err_and(
                |why| why.starts_with("\"busy\" is no failure of a model") && why.ends_with("\"a/b on busy\"")
            )
        );
        let said = |text: &str| fault(&read(text).unwrap()).unwrap_or_default();
        assert_eq!(fault(&chain), None);
        assert_eq!(said(r#"[{"model":"a/b"},{"model":"a/b","on":["auth"]}]"#), "names a/b twice");
        assert!(said(r#"[{"model":"a/b","on":["context_overflow"]}]"#).ends_with("the request is made smaller"));
        let long: Vec<_> = (0..9).map(|n| Fallback::new(ModelRef::new("a", n.to_string()))).collect();
        assert_eq!(fault(&long).unwrap(), "has 9 models, and may have 8");
    }
}
