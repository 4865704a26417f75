//! Reads the arguments of a tool as models send them.
//!
//! Models write `10.0` for ten, and numbers and flags in strings. The meaning is clear then, and the arguments are taken;
//! [`parse_arguments_with_repairs`] reports what it had to repair. Text around the object of the arguments was removed before
//! (`model/arguments.rs`), so here arguments are an object or an error. The file tools and bash read their arguments here. The
//! code is pure.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::tool::{ArgumentRepair, ToolResult, parse_arguments_with_repairs};

/// Reads a tool's arguments into its own type, and reports what had to be repaired. The error is the result for the model.
pub(super) fn parse<T: DeserializeOwned>(arguments: &Value) -> Result<(T, Vec<ArgumentRepair>), ToolResult> {
    // Serde would take a list as the fields in their order, but the call was judged by the names of fields.
    if arguments.is_array() {
        return Err(ToolResult::error("bad arguments: invalid type: sequence, expected an object"));
    }
    parse_arguments_with_repairs(arguments.clone()).map_err(|error| ToolResult::error(error.to_string()))
}

/// Reads a field that is the default for `null` too; for `#[serde(default, deserialize_with)]`.
pub(super) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
