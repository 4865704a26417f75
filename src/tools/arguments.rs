//! The arguments of a tool as models send them, and the schema that models are shown.
//!
//! Models leave the arguments out, or send them as one string of JSON, or write `10.0` for ten. What is meant is clear then,
//! so it is taken; so are numbers in strings, of which [`parse_arguments_with_repairs`] tells.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::tool::{Repair, ToolResult, parse_arguments_with_repairs};

/// Reads a tool's arguments into its own type, and says what had to be repaired; the error is the result for the model.
pub(super) fn parse<T: DeserializeOwned>(arguments: &Value) -> Result<(T, Vec<Repair>), ToolResult> {
    let arguments = meant(arguments).into_owned();
    // A list would be taken as the fields in their order, which nobody who judged the call has looked at.
    if arguments.is_array() {
        return Err(ToolResult::error("bad arguments: invalid type: sequence, expected an object"));
    }
    parse_arguments_with_repairs(arguments).map_err(|error| ToolResult::error(error.to_string()))
}

/// The arguments as they were meant: nothing is an empty map, and a string may hold the map. Whoever judges a call must look
/// at these, because it is these that are carried out.
pub(super) fn meant(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Null => Cow::Owned(Value::Object(serde_json::Map::new())),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Cow::Owned(Value::Object(fields)),
            _ => Cow::Borrowed(arguments),
        },
        _ => Cow::Borrowed(arguments),
    }
}

/// The JSON schema of a tool's arguments, without what no model needs: the dialect, the type's name and words, formats,
/// empty defaults.
pub(super) fn schema<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|key, _| !["$schema", "title", "description"].contains(&key.as_str()));
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            property.remove("format");
            property.retain(|key, value| key != "default" || !value.is_null());
            // A field that may be left out is not offered as one that may be null.
            if let Some(kind) = property.get("type").and_then(|kinds| kinds.get(0)).cloned() {
                property.insert("type".to_owned(), kind);
            }
        }
    }
    schema
}

/// A field of which `null` says as little as nothing; for `#[serde(default, deserialize_with)]`.
pub(super) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
