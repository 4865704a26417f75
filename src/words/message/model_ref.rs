//! The name of a model: its provider, and its name there.
//!
//! A name does not say whether the model exists or can be reached. The text form `provider/model` is read from settings and
//! command lines and written in events; `provider:model` is read too. The JSON form has two fields. A change must keep all three.

use serde::{Deserialize, Serialize};

/// A model by its provider and its name there, written `provider/model`.
///
/// ```
/// use tamtam::ModelRef;
/// let model: ModelRef = "openai/gpt-4o".parse().unwrap();
/// assert_eq!((model.provider.as_str(), model.model.as_str()), ("openai", "gpt-4o"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ModelRef {
    /// The provider whose API reaches the model.
    pub provider: String,
    /// The model's name at the provider; may itself contain slashes.
    pub model: String,
}

impl ModelRef {
    /// Whether this is the model's text form.
    pub(crate) fn is_written(&self, text: &str) -> bool {
        let name = text.strip_prefix(&self.provider).and_then(|rest| rest.strip_prefix('/'));
        name == Some(self.model.as_str())
    }

    /// The model of that name at that provider.
    #[must_use]
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> ModelRef {
        ModelRef { provider: provider.into(), model: model.into() }
    }
}

impl std::fmt::Display for ModelRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// A text that names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad model {given:?}: write PROVIDER/MODEL, such as openai/gpt-4o or anthropic/claude-sonnet-4")]
#[non_exhaustive]
pub struct BadModelRef {
    /// What was given.
    pub given: String,
}

impl std::str::FromStr for ModelRef {
    type Err = BadModelRef;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        match given.split_once('/').or_else(|| given.split_once(':')) {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(ModelRef { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => Err(BadModelRef { given: given.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// MODEL-014, SESSION-BACKEND-003: a name without a provider is not a model, so no session can have it; the error shows the
    /// name.
    #[test]
    fn a_name_without_a_provider_is_no_model() {
        for given in [":empty-provider", "/empty-provider", "invalid-no-colon", "openai/", "openai:", ""] {
            let error = given.parse::<ModelRef>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("bad model {given:?}: write PROVIDER/MODEL")), "{error}");
        }
    }
}
