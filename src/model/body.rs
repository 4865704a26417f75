//! What the request bodies of both wires share: their beginning, the host's options, and which parts of an answer go back to
//! which provider.

use bytes::Bytes;
use serde_json::Value;

use super::{Endpoint, Params, pieces::write_json};
use crate::words::message::Extra;

/// The beginning of a body: the model, that it streams, and the plain fields in the order given.
pub(crate) fn begin(model: &str, fields: &[(String, Value)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    out.extend_from_slice(b"{\"model\":");
    write_json(&mut out, model);
    out.extend_from_slice(b",\"stream\":true");
    for (name, value) in fields {
        out.push(b',');
        write_json(&mut out, name);
        out.push(b':');
        write_json(&mut out, value);
    }
    out
}

/// A value as JSON, for a fragment.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Bytes {
    let mut out = Vec::new();
    write_json(&mut out, value);
    out.into()
}

/// Temperature and the like, which both APIs call the same.
pub(crate) fn sampling(params: &Params) -> impl Iterator<Item = (String, Value)> + use<> {
    let named = [("temperature", params.temperature), ("top_p", params.top_p)];
    named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), short_float(value?))))
}

/// 0.7 as 0.7, and not as the nearest double of the nearest float.
fn short_float(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// The fields with the host's options put over them. The fields of `own` are ours alone: options cannot set them.
pub(crate) fn with_options(mut fields: Vec<(String, Value)>, options: &Value, own: &[&str]) -> Vec<(String, Value)> {
    for (name, value) in options.as_object().into_iter().flatten() {
        match fields.iter_mut().find(|(field, _)| field == name) {
            _ if own.contains(&name.as_str()) => {}
            Some((_, place)) => *place = value.clone(),
            None => fields.push((name.clone(), value.clone())),
        }
    }
    fields
}

/// What the provider of this endpoint wants back, where the extra is its own: same provider, same API.
pub(crate) fn own_extra<'a>(endpoint: &Endpoint, extra: &'a Option<Extra>) -> Option<&'a Value> {
    let extra = extra.as_ref()?;
    let is_own = extra.provider == endpoint.provider && extra.api == endpoint.api.name();
    is_own.then_some(&extra.value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::Api;

    #[test]
    fn an_extra_goes_back_to_the_same_provider_and_api_only() {
        let extra = Some(Extra { provider: "p".into(), api: "openai-chat".into(), value: json!(7) });
        let own = |api, provider: &str| own_extra(&Endpoint::new(api, provider, "http://h", "m"), &extra).cloned();
        assert_eq!(own(Api::OpenAiChat, "p"), Some(json!(7)));
        assert_eq!(own(Api::OpenAiChat, "q"), None);
        assert_eq!(own(Api::AnthropicMessages, "p"), None);
    }

    #[test]
    fn options_replace_fields_but_for_those_that_are_ours() {
        let fields = vec![("max_tokens".to_owned(), json!(1))];
        let options = json!({"max_tokens": 2, "model": "other", "seed": 3});
        let expected = [("max_tokens".to_owned(), json!(2)), ("seed".to_owned(), json!(3))];
        assert_eq!(with_options(fields, &options, &["model"]), expected);
    }
}
