//! Reads the arguments of a call into a tool's own type, and makes the schema that models are shown of the type.
//!
//! Some models write numbers and flags as strings. If a field wants a number or a flag and the string holds one, the string is
//! taken as that value, and an [`ArgumentRepair`] reports it. A whole number with a point (`10.0`) is taken as that number, without a
//! report. Neither is done inside of a list or an enum. Every other value of a wrong type is an error that names the field, the
//! expected type and the given value.
//!
//! A change must not guess: a string for a field of text stays a string, and a string that is taken as another type is reported.
//! The permission rules judge the arguments as the model sent them, so a repair must never change which path or command is meant.
//! The code is pure.

use std::{cell::RefCell, fmt};

use schemars::JsonSchema;
use serde::{
    Deserializer, Serialize,
    de::{
        DeserializeOwned, IntoDeserializer, Visitor,
        value::{MapDeserializer, StringDeserializer},
    },
};
use serde_json::Value;

/// The error for arguments that a tool cannot take. It names the field and the expected type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad arguments: {field}{message}")]
#[non_exhaustive]
pub struct BadArguments {
    /// The field, followed by a colon and a space; empty if the arguments as a whole are wrong.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// An argument that had another type than its field, and was still accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ArgumentRepair {
    /// The name of the argument, as the model wrote it; of a nested one the innermost name.
    pub(crate) field: String,
    /// The text that the model gave, cut to 100 characters.
    pub(crate) given: String,
    /// The type that the text was read as: `number`, `flag`.
    pub(crate) taken_as: &'static str,
}

/// Longest text of a repaired argument that is reported, in characters.
const GIVEN_CHARS_MAX: usize = 100;

/// Reads a tool's arguments into its own type, with an error that names the field.
///
/// A string that holds a number or a flag is accepted as one if the field wants one.
///
/// ```
/// use serde_json::json;
/// #[derive(serde::Deserialize)]
/// struct Arguments { limit: u32 }
/// let arguments: Arguments = tamtam::tool::parse_arguments(json!({"limit": "42"}))?;
/// assert_eq!(arguments.limit, 42);
/// # Ok::<(), tamtam::tool::BadArguments>(())
/// ```
pub fn parse_arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, BadArguments> {
    parse_arguments_with_repairs(arguments).map(|(arguments, _)| arguments)
}

/// Reads a tool's arguments like [`parse_arguments`], and reports what had to be repaired.
pub(crate) fn parse_arguments_with_repairs<T: DeserializeOwned>(
    arguments: Value,
) -> Result<(T, Vec<ArgumentRepair>), BadArguments> {
    let repairs = RefCell::default();
    let lenient = Lenient { value: arguments, field: String::new(), repairs: &repairs };
    let parsed = serde_path_to_error::deserialize(lenient).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { String::new() } else { format!("`{path}`: ") };
        BadArguments { field, message: error.into_inner().to_string() }
    })?;
    Ok((parsed, repairs.into_inner()))
}

/// The JSON schema of a tool's arguments, without the parts that no model needs: the dialect, the name and the description of the
/// type; and of its own fields the formats and empty defaults.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|key, _| !["$schema", "title", "description"].contains(&key.as_str()));
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            property.remove("format");
            property.retain(|key, value| key != "default" || !value.is_null());
            // An optional field is offered as one to leave out, not as nullable.
            if let Some(kind) = property.get("type").and_then(|kinds| kinds.get(0)).cloned() {
                property.insert("type".to_owned(), kind);
            }
        }
    }
    schema
}

/// A deserializer of a value that takes a string as a number or a flag if the field wants one.
struct Lenient<'r> {
    value: Value,
    field: String,
    repairs: &'r RefCell<Vec<ArgumentRepair>>,
}

type Error = serde_json::Error;

impl Lenient<'_> {
    fn repaired(&self, given: &str, taken_as: &'static str) {
        let given = given.chars().take(GIVEN_CHARS_MAX).collect();
        self.repairs.borrow_mut().push(ArgumentRepair { field: self.field.clone(), given, taken_as });
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = match &self.value {
            // Only what JSON calls a number: no hexadecimal, no infinity.
            Value::String(text) => {
                let number = serde_json::from_str::<serde_json::Number>(text.trim());
                number.ok().inspect(|_| self.repaired(text, "number")).map(Value::Number)
            }
            _ => None,
        };
        let value = number.unwrap_or(self.value);
        match value.as_f64().filter(|_| value.is_f64()).and_then(whole) {
            Some(whole) => visitor.visit_i64(whole),
            None => value.deserialize_any(visitor),
        }
    }
}

/// The whole number that was written with a point (`10.0`), as far as such numbers are exact: up to 2^53.
#[allow(clippy::cast_possible_truncation, reason = "the range is checked first")]
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0).then_some(number as i64)
}

impl<'de> IntoDeserializer<'de, Error> for Lenient<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.number(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Lenient<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(fields) => {
                let repairs = self.repairs;
                let fields = fields.into_iter().map(|(field, value)| {
                    let name: StringDeserializer<Error> = field.clone().into_deserializer();
                    (name, Lenient { value, field, repairs })
                });
                visitor.visit_map(MapDeserializer::new(fields))
            }
            value => value.deserialize_any(visitor),
        }
    }

    numbers! {
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_f32 deserialize_f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::String(text) = &self.value else { return self.value.deserialize_any(visitor) };
        match text.trim().parse() {
            Ok(flag) => {
                self.repaired(text, "flag");
                visitor.visit_bool(flag)
            }
            Err(_) => self.value.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl fmt::Display for ArgumentRepair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was given as the text {:?} and taken as a {}", self.field, self.given, self.taken_as)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Arguments {
        text: String,
        count: u8,
        share: f64,
        maybe: Option<i64>,
        flag: bool,
        list: Vec<u32>,
        inner: Option<Box<Arguments>>,
    }

    fn read(value: Value) -> (Arguments, Vec<String>) {
        let (arguments, repairs) = parse_arguments_with_repairs(value).unwrap();
        (arguments, repairs.iter().map(ToString::to_string).collect())
    }

    fn refused(value: Value) -> String {
        parse_arguments::<Arguments>(value).unwrap_err().to_string()
    }

    /// Gap list 2: numeric strings are numbers. What was repaired is said, also deep inside, and text stays text.
    #[test]
    fn a_number_or_flag_in_a_string_is_taken_and_reported() {
        let (arguments, repairs) = read(
            json!({"text": "42", "count": " 7 ", "share": "0.5", "maybe": "-3", "flag": "true", "inner": {"count": "1"}}),
        );
        let inner = Some(Box::new(Arguments { count: 1, ..Arguments::default() }));
        let expected =
            Arguments { text: "42".into(), count: 7, share: 0.5, maybe: Some(-3), flag: true, list: vec![], inner };
        assert_eq!(arguments, expected);
        assert_eq!(repairs.len(), 5);
        assert!(repairs.contains(&"flag was given as the text \"true\" and taken as a flag".to_owned()), "{repairs:?}");
        assert!(repairs.contains(&"count was given as the text \" 7 \" and taken as a number".to_owned()));
        assert_eq!(read(json!({"text": "x", "count": 1, "maybe": null, "flag": false})).1, Vec::<String>::new());
    }

    /// pi #1259: the field, what was expected and what came.
    #[test]
    fn what_is_no_number_is_an_error_that_names_it() {
        assert_eq!(
            refused(json!({"count": "many"})),
            "bad arguments: `count`: invalid type: string \"many\", expected u8"
        );
        assert_eq!(
            refused(json!({"count": "300"})),
            "bad arguments: `count`: invalid value: integer `300`, expected u8"
        );
        assert_eq!(
            refused(json!({"text": 42})),
            "bad arguments: `text`: invalid type: integer `42`, expected a string"
        );
        assert_eq!(
            refused(json!({"flag": "yes"})),
            "bad arguments: `flag`: invalid type: string \"yes\", expected a boolean"
        );
        for odd in ["0x10", "inf", "NaN", "", "1 2", "１"] {
            assert!(refused(json!({"share": odd})).contains("`share`"), "{odd} was taken");
        }
        assert!(refused(json!({"inner": {"count": {}}})).contains("`inner.count`: invalid type: map"));
    }
}
