//! How a server differs from the original of its API, in the words of a flag (`--quirk NAME=VALUE`) and of a file (`[quirks]`).
//!
//! Each word is a field of [`tamtam::model::Quirks`]. The settings that have an argument of their own (`first_timeout`, `images`,
//! `reasoning_back`) are not repeated here. A change that adds a field adds a row in [`ALL`] and an arm in [`Quirk::put`].

use std::str::FromStr;

use tamtam::model::{AnswerField, Api, MaxTokensField, Quirks, SchemaDialect, ThinkingField};

/// The names, and what each takes.
const ALL: [(&str, &str); 8] = [
    ("max_tokens", "max_tokens or max_completion_tokens"),
    ("stream_options", "true or false"),
    ("schema", "plain or gemini"),
    ("thinking", "effort, record, switch or budget"),
    ("answer", "schema, schema_alone, json or words"),
    ("cache_marks", "true or false"),
    ("websocket", "true or false"),
    ("image_bytes_max", "a number of bytes"),
];

/// One difference, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quirk {
    name: &'static str,
    value: String,
}

impl Quirk {
    /// The difference of that name; the error says what may be written.
    pub(super) fn new(name: &str, value: &str) -> Result<Quirk, String> {
        let Some((name, takes)) = ALL.iter().find(|(known, _)| *known == name) else {
            let names: Vec<_> = ALL.iter().map(|(name, _)| *name).collect();
            return Err(format!("unknown quirk {name:?}: use one of {}", names.join(", ")));
        };
        let quirk = Quirk { name, value: value.trim().to_owned() };
        let fits = quirk.put(&mut Quirks::default());
        fits.map(|()| quirk).ok_or_else(|| format!("{value:?} is not {takes}"))
    }

    /// Puts it into a record; `None` if the value does not fit.
    fn put(&self, quirks: &mut Quirks) -> Option<()> {
        let value = &*self.value;
        match self.name {
            "max_tokens" => {
                quirks.max_tokens = match value {
                    "max_tokens" => MaxTokensField::MaxTokens,
                    "max_completion_tokens" => MaxTokensField::MaxCompletionTokens,
                    _ => return None,
                }
            }
            "stream_options" => quirks.stream_options = value.parse().ok()?,
            "schema" => {
                quirks.schema = match value {
                    "plain" => SchemaDialect::Plain,
                    "gemini" => SchemaDialect::Gemini,
                    _ => return None,
                }
            }
            "thinking" => {
                quirks.thinking = match value {
                    "effort" => ThinkingField::Effort,
                    "record" => ThinkingField::Record,
                    "switch" => ThinkingField::Switch,
                    "budget" => ThinkingField::Budget,
                    _ => return None,
                }
            }
            "answer" => {
                quirks.answer = match value {
                    "schema" => AnswerField::Schema,
                    "schema_alone" => AnswerField::SchemaAlone,
                    "json" => AnswerField::Json,
                    "words" => AnswerField::Words,
                    _ => return None,
                }
            }
            "cache_marks" => quirks.auto_cache = value.parse().ok()?,
            "websocket" => quirks.websocket = value.parse().ok()?,
            _ => quirks.image_bytes_max = value.replace('_', "").parse().ok()?,
        }
        Some(())
    }
}

impl FromStr for Quirk {
    type Err = String;

    fn from_str(text: &str) -> Result<Quirk, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
        Quirk::new(name.trim(), value)
    }
}

/// Puts all of them into the record of a provider.
pub(super) fn put(given: &[Quirk], quirks: &mut Quirks) {
    for quirk in given {
        // It was checked when it was made.
        let _ = quirk.put(quirks);
    }
}

/// Adds one that was not given, from a file; returns whether it did.
pub(super) fn fill(name: &str, text: &str, given: &mut Vec<Quirk>) -> Result<bool, String> {
    let quirk = Quirk::new(name, text)?;
    let is_free = !given.iter().any(|known| known.name == quirk.name);
    given.extend(is_free.then_some(quirk));
    Ok(is_free)
}

/// The value of one, where it is given.
pub(super) fn get(name: &str, given: &[Quirk]) -> Option<String> {
    // The last of several flags of a name holds.
    given.iter().rev().find(|quirk| quirk.name == name).map(|quirk| quirk.value.clone())
}

/// The words for the APIs.
const APIS: [(&str, Api); 4] = [
    ("chat", Api::OpenAiChat),
    ("responses", Api::OpenAiResponses),
    ("messages", Api::AnthropicMessages),
    ("gemini", Api::GeminiGenerateContent),
];

/// An API by its word.
pub(super) fn api(text: &str) -> Result<Api, String> {
    let found = APIS.iter().find(|(word, _)| *word == text).map(|(_, api)| *api);
    found.ok_or_else(|| format!("{text:?} is none of chat, responses, messages and gemini"))
}

/// The word for it.
pub(super) fn api_in_words(api: Api) -> &'static str {
    APIS.iter().find(|(_, of)| *of == api).map_or("chat", |(word, _)| word)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Each word sets its field and no other, and what does not fit is refused with what does.
    #[test]
    fn each_quirk_is_a_field_and_a_wrong_value_is_refused() {
        let none = Quirks::default();
        let of = |text: &str| {
            let mut quirks = Quirks::default();
            put(&[text.parse().unwrap()], &mut quirks);
            quirks
        };
        let max = of("max_tokens=max_completion_tokens").max_tokens;
        assert_eq!((max, none.max_tokens), (MaxTokensField::MaxCompletionTokens, MaxTokensField::MaxTokens));
        assert_eq!((of("stream_options=false").stream_options, none.stream_options), (false, true));
        assert_eq!((of("schema=gemini").schema, none.schema), (SchemaDialect::Gemini, SchemaDialect::Plain));
        assert_eq!((of("thinking=switch").thinking, none.thinking), (ThinkingField::Switch, ThinkingField::Effort));
        assert_eq!((of("answer=json").answer, none.answer), (AnswerField::Json, AnswerField::SchemaAlone));
        assert_eq!((of("cache_marks = true").auto_cache, none.auto_cache), (true, false));
        assert_eq!((of("websocket=true").websocket, none.websocket), (true, false));
        assert_eq!(of("image_bytes_max=5_000_000").image_bytes_max, 5_000_000);
        for (text, why) in [
            ("schema", "write NAME=VALUE"),
            ("schema=json", "\"json\" is not plain or gemini"),
            ("thinking=much", "\"much\" is not effort, record, switch or budget"),
            ("stream_options=yes", "\"yes\" is not true or false"),
            ("image_bytes_max=-1", "\"-1\" is not a number of bytes"),
            (
                "size=1",
                "unknown quirk \"size\": use one of max_tokens, stream_options, schema, thinking, answer, cache_marks, websocket, image_bytes_max",
            ),
        ] {
            assert_eq!(text.parse::<Quirk>().unwrap_err(), why);
        }
    }

    /// A flag wins over a file, and the last of several flags.
    #[test]
    fn what_is_given_is_not_replaced() {
        let mut given = vec!["schema=plain".parse().unwrap(), "schema=gemini".parse().unwrap()];
        assert!(!fill("schema", "plain", &mut given).unwrap());
        assert!(fill("cache_marks", "true", &mut given).unwrap());
        assert_eq!(["schema", "cache_marks"].map(|name| get(name, &given).unwrap()), ["gemini", "true"]);
        let mut quirks = Quirks::default();
        put(&given, &mut quirks);
        assert_eq!((quirks.schema, quirks.auto_cache), (SchemaDialect::Gemini, true));
    }
}
