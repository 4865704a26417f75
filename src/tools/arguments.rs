//! Reads the arguments of a tool as models send them.
//!
//! Models leave the arguments out, or send them as one string of JSON, or write `10.0` for ten. The meaning is clear then, and the
//! arguments are taken. Numbers and flags in strings are taken too, and [`parse_arguments_with_repairs`] reports them. The file
//! tools and bash read their arguments here.
//!
//! The permission rules judge a call by its accesses, and [`parse`] reads the arguments that the call is carried out with. Both
//! begin with [`meant`], and a change must keep that: otherwise a call could do something other than what was allowed. The code is
//! pure.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::tool::{Repair, ToolResult, parse_arguments_with_repairs};

/// Reads a tool's arguments into its own type, and reports what had to be repaired. The error is the result for the model.
pub(super) fn parse<T: DeserializeOwned>(arguments: &Value) -> Result<(T, Vec<Repair>), ToolResult> {
    let arguments = meant(arguments).into_owned();
    // Serde would take a list as the fields in their order, but the call was judged by the names of fields.
    if arguments.is_array() {
        return Err(ToolResult::error("bad arguments: invalid type: sequence, expected an object"));
    }
    parse_arguments_with_repairs(arguments).map_err(|error| ToolResult::error(error.to_string()))
}

/// The arguments as they were meant: `null` is an empty map, and a string may hold the map. A call must be judged by these
/// arguments, because it is carried out with them.
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

/// Reads a field that is the default for `null` too; for `#[serde(default, deserialize_with)]`.
pub(super) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
