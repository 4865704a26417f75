//! What the request bodies of the wires share: their beginning, the host's options, the turns of the speakers, and which extras of an
//! answer go back to which provider.
//!
//! An extra is a value that a provider gave with a part of an answer and wants back as it was. The functions read and change
//! nothing but their arguments. The fields are in a fixed order, so that equal requests have equal bytes and providers' caches
//! hit. (The options come in the order of their map: by name, unless a crate of the host turns on `preserve_order` of
//! `serde_json`.)
//!
//! A change must keep the order of the fields; that options never replace the fields of `OWN_FIELDS`, which decide what is sent,
//! nor a `tool_choice` of the library; and that an extra goes only to the provider and API that it came from.

use bytes::Bytes;
use serde_json::Value;

use super::{Endpoint, Params, pieces::write_json};
use crate::words::message::Extra;

/// Fields that the library sets alone: options cannot replace them.
const OWN_FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "tools",
    "system",
    "input",
    "instructions",
    "contents",
    "systemInstruction",
    // Put together with the host's by the one wire that has it.
    "generationConfig",
];

/// Fields with several settings of which the library sets some: options are put over them one by one.
const MERGED: &[&str] = &["text", "output_config", "reasoning"];

/// The beginning of a body: the model, `stream`, and the plain fields in a fixed order. First the given fields, then the sampling
/// parameters, then the options by name. An option replaces a field of the same name, except `OWN_FIELDS` and a `tool_choice` that is
/// among the given fields; of a field of `MERGED` it replaces the settings that it names.
#[cfg(any(feature = "openai", feature = "anthropic"))]
pub(crate) fn begin(model: &str, params: &Params, mut fields: Vec<(String, Value)>) -> Vec<u8> {
    fields.extend(sampling(params, ["temperature", "top_p"]));
    let mut out = Vec::with_capacity(4096);
    out.extend_from_slice(b"{\"model\":");
    write_json(&mut out, model);
    out.extend_from_slice(b",\"stream\":true");
    for (name, value) in with_options(fields, &params.options) {
        out.push(b',');
        write_json(&mut out, &name);
        out.push(b':');
        write_json(&mut out, &value);
    }
    out
}

/// The sampling parameters that are set, under these names.
pub(crate) fn sampling(params: &Params, names: [&str; 2]) -> impl Iterator<Item = (String, Value)> {
    let values = [params.temperature, params.top_p];
    names.map(str::to_owned).into_iter().zip(values).filter_map(|(name, value)| Some((name, short_float(value?))))
}

/// The turns of a conversation, for the APIs that want one of each speaker at a time: the speaker and the fragments.
#[cfg(any(feature = "anthropic", feature = "gemini"))]
pub(crate) type Turns = Vec<(&'static str, Vec<Bytes>)>;

/// Adds fragments to the turn of that speaker, or begins one.
#[cfg(any(feature = "anthropic", feature = "gemini"))]
pub(crate) fn add(turns: &mut Turns, speaker: &'static str, fragments: Bytes) {
    match turns.last_mut() {
        _ if fragments.is_empty() => {}
        Some((newest, before)) if *newest == speaker => before.push(fragments),
        _ => turns.push((speaker, vec![fragments])),
    }
}

/// Writes all turns, as records of a role and of what `name` names: its fragments.
#[cfg(any(feature = "anthropic", feature = "gemini"))]
pub(crate) fn put_turns(out: &mut Vec<u8>, turns: &Turns, name: &str, role: impl Fn(&'static str) -> &'static str) {
    let bytes = |(speaker, fragments): &(&str, Vec<Bytes>)| speaker.len() + name.len() + 32 + room(fragments);
    out.reserve(turns.iter().map(bytes).sum());
    for (n, (speaker, fragments)) in turns.iter().enumerate() {
        let head = [if n == 0 { "" } else { "," }, "{\"role\":\"", role(speaker), "\",\"", name, "\":["];
        head.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
        put(out, fragments);
        out.extend_from_slice(b"]}");
    }
}

/// Writes fragments with commas between them, into room that is made once: a request of a long session is one copy of its bytes.
pub(crate) fn put(out: &mut Vec<u8>, fragments: &[Bytes]) {
    out.reserve(room(fragments));
    for (n, fragment) in fragments.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(fragment);
    }
}

/// The bytes of fragments with a comma each.
fn room(fragments: &[Bytes]) -> usize {
    fragments.iter().map(|fragment| fragment.len() + 1).sum()
}

/// A value as JSON, for a fragment.
#[cfg(any(feature = "openai", feature = "gemini"))]
pub(crate) fn to_json(value: &impl serde::Serialize) -> Bytes {
    let mut out = Vec::new();
    write_json(&mut out, value);
    out.into()
}

/// An `f32` in its shortest form: 0.7 as 0.7, and not as 0.699999988079071.
fn short_float(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// The fields with the host's options put over them.
pub(crate) fn with_options(mut fields: Vec<(String, Value)>, options: &Value) -> Vec<(String, Value)> {
    for (name, value) in options.as_object().into_iter().flatten() {
        match fields.iter_mut().find(|(field, _)| field == name) {
            _ if OWN_FIELDS.contains(&name.as_str()) => {}
            // If the library sets it, a call would be refused.
            Some((field, _)) if field == "tool_choice" => {}
            Some((field, place)) => match (place, value) {
                (Value::Object(own), Value::Object(over)) if MERGED.contains(&field.as_str()) => {
                    own.extend(over.clone())
                }
                (place, value) => *place = value.clone(),
            },
            None => fields.push((name.clone(), value.clone())),
        }
    }
    fields
}

/// Whether the options leave a field of the library's as it is, or what it has `within` it.
pub(crate) fn is_kept(options: &Value, field: &str, within: Option<&str>) -> bool {
    match (options.get(field), within) {
        (None, _) => true,
        (Some(Value::Object(over)), Some(within)) => !over.contains_key(within),
        _ => false,
    }
}

impl Endpoint {
    /// Wraps a value that this provider wants back.
    pub(crate) fn extra(&self, value: Value) -> Extra {
        Extra { provider: self.provider.clone(), api: self.api.name().to_owned(), value }
    }

    /// The value of an extra, where it came from this provider and this API.
    pub(crate) fn own<'a>(&self, extra: &'a Option<Extra>) -> Option<&'a Value> {
        let extra = extra.as_ref().filter(|extra| extra.provider == self.provider && extra.api == self.api.name())?;
        Some(&extra.value)
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::Api;

    #[test]
    fn an_extra_goes_back_to_the_same_provider_and_api_only() {
        let extra = Some(Extra { provider: "p".into(), api: "openai-chat".into(), value: json!(7) });
        let own = |api, provider: &str| Endpoint::new(api, provider, "http://h", "m").own(&extra).cloned();
        assert_eq!(own(Api::OpenAiChat, "p"), Some(json!(7)));
        assert_eq!(own(Api::OpenAiChat, "q"), None);
        assert_eq!(own(Api::AnthropicMessages, "p"), None);
    }

    #[test]
    fn options_replace_fields_but_for_those_that_are_ours() {
        let fields = vec![("max_tokens".to_owned(), json!(1))];
        let options = json!({"max_tokens": 2, "model": "other", "seed": 3});
        let expected = [("max_tokens".to_owned(), json!(2)), ("seed".to_owned(), json!(3))];
        assert_eq!(with_options(fields, &options), expected);
        // A record of several settings keeps those that the options do not name.
        let text = vec![("text".to_owned(), json!({"format": 1}))];
        let both = [("text".to_owned(), json!({"format": 1, "verbosity": "low"}))];
        assert_eq!(with_options(text.clone(), &json!({"text": {"verbosity": "low"}})), both);
        assert_eq!(with_options(text, &json!({"text": {"format": 2}})), [("text".to_owned(), json!({"format": 2}))]);
        // A choice of tools by the library wins over the host's.
        let none = ("tool_choice".to_owned(), json!({"type": "none"}));
        let auto = json!({"tool_choice": {"type": "auto"}});
        assert_eq!(with_options(vec![none.clone()], &auto), [none]);
        assert_eq!(with_options(vec![], &auto), [("tool_choice".to_owned(), json!({"type": "auto"}))]);
    }
}
