//! The arguments of a tool as models send them, and the schema that models are shown.
//!
//! Models leave the arguments out, or send them as one string of JSON, or write `10.0` for ten. What is meant is clear then,
//! so it is taken; so are numbers in strings, of which [`parse_arguments_with_repairs`] tells.

use std::{borrow::Cow, fmt};

use schemars::JsonSchema;
use serde::{Deserializer, de::DeserializeOwned, de::Error, de::Visitor};
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

/// The JSON schema of a tool's arguments, without what no model needs: the dialect, the type's name, formats, empty defaults.
pub(super) fn schema<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("$schema");
        fields.remove("title");
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            property.remove("format");
            property.retain(|key, value| key != "default" || !value.is_null());
        }
    }
    schema
}

/// A whole number; for `#[serde(deserialize_with)]`. `null` is as good as nothing.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    deserializer.deserialize_u64(NumberVisitor)
}

/// True or false; for `#[serde(deserialize_with)]`. `null` is false.
pub(super) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    deserializer.deserialize_bool(FlagVisitor)
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, 0 or more")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        // A number past the range of this machine is past the end of every file too.
        Ok(Some(usize::try_from(number).unwrap_or(usize::MAX)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(serde::de::Unexpected::Signed(number), &self)),
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        // 2^53: up to here every whole number is exact.
        if number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number) {
            return self.visit_u64(number as u64);
        }
        Err(E::invalid_value(serde::de::Unexpected::Float(number), &self))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

struct FlagVisitor;

impl Visitor<'_> for FlagVisitor {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<bool, E> {
        Ok(flag)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema)]
    struct Arguments {
        /// Where it is.
        #[serde(alias = "file_path")]
        path: String,
        /// How many.
        #[serde(default, deserialize_with = "number")]
        #[schemars(with = "usize")]
        limit: Option<usize>,
        #[serde(default, deserialize_with = "flag")]
        all: bool,
    }

    fn read(arguments: Value) -> Result<Arguments, String> {
        parse(&arguments).map(|(arguments, _)| arguments).map_err(|result| result.content)
    }

    /// Gap list 2: numeric strings are numbers; pi af813f90: no arguments are an empty map.
    #[test]
    fn what_is_clearly_meant_is_taken() {
        let arguments = read(json!({"file_path": "a", "limit": " 42", "all": "true"})).unwrap();
        assert_eq!((arguments.path.as_str(), arguments.limit, arguments.all), ("a", Some(42), true));
        assert_eq!(read(json!({"path": "a", "limit": 10.0})).unwrap().limit, Some(10));
        assert_eq!(read(json!({"path": "a", "limit": null})).unwrap().limit, None);
        assert_eq!(read(json!("{\"path\":\"a\"}")).unwrap().path, "a");
        assert!(read(Value::Null).unwrap_err().contains("missing field `path`"));
    }

    /// pi #1259
    #[test]
    fn an_error_names_the_field_what_was_expected_and_what_came() {
        assert_eq!(
            read(json!({"path": 42})).unwrap_err(),
            "bad arguments: `path`: invalid type: integer `42`, expected a string"
        );
        let negative = read(json!({"path": "a", "limit": -1})).unwrap_err();
        assert_eq!(negative, "bad arguments: `limit`: invalid value: integer `-1`, expected a whole number, 0 or more");
        for wrong in [json!("x"), json!([1]), json!({"a": 1}), json!(1.5), json!(true)] {
            assert!(read(json!({"path": "a", "limit": wrong})).unwrap_err().starts_with("bad arguments: `limit`: "));
        }
        assert!(read(json!([1])).unwrap_err().starts_with("bad arguments: "));
        assert!(
            read(json!(["secret"])).unwrap_err().contains("expected an object"),
            "judged by its names, not its order"
        );
    }

    #[test]
    fn the_schema_is_an_object_with_plain_types() {
        let schema = schema::<Arguments>();
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["required"], json!(["path"]));
        assert_eq!(schema["properties"]["limit"], json!({"type": "integer", "minimum": 0, "description": "How many."}));
        assert!(schema.get("$schema").is_none() && schema.get("title").is_none());
    }
}
