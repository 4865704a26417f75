//! The shape of a final answer: a JSON schema that a host gives ([`AnswerSchema`]), how it is said to a provider, and the check of an
//! answer against it.
//!
//! A provider that takes a schema is given it; any other model is told it in words. Either way the answer is checked here, by the
//! words of JSON Schema in `KEYWORDS`; a schema with another word is refused when it is made, so that nothing is promised that is not
//! checked. Rejected: a crate that checks all of JSON Schema, which brings regular expressions and the resolution of addresses.
//!
//! A change must keep that a check is a function of the schema and the text alone, because a replay makes it again; and that it is
//! bounded in time and in stack, whatever both hold.

mod check;

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::check::{check, clipped, referred, shown, types};
use crate::words::depth::{self, VALUE_DEPTH_MAX};

/// The largest schema, in bytes of JSON.
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// The largest answer that is checked, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// The words of a schema that are checked, and those that say nothing of a value.
const KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "$ref",
    "$defs",
    "definitions",
    // These say nothing of a value.
    "$schema",
    "$id",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "format",
    "deprecated",
];

/// A JSON schema for the final answer of each turn. Cloning is cheap.
///
/// A turn whose model ends with text that is not JSON of this schema asks once more, with the reason; if the second answer does not
/// fit either, or the turn has no step left to ask in, the turn ends as [`BadAnswer`](crate::Outcome::BadAnswer). JSON in one code
/// fence is taken.
///
/// ```
/// use serde_json::json;
/// use tamtam::model::AnswerSchema;
///
/// let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
/// let schema = AnswerSchema::new(schema)?;
/// assert_eq!(schema.read("{\"n\": 1}"), Ok(json!({"n": 1})));
/// assert_eq!(schema.read("{\"n\": \"one\"}").unwrap_err(), "at /n: \"one\" is no integer");
/// # Ok::<(), tamtam::model::BadAnswerSchema>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct AnswerSchema(Arc<Value>);

/// A value cannot be the schema of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a schema for an answer: {why}")]
#[non_exhaustive]
pub struct BadAnswerSchema {
    /// What is wrong with it, and where.
    pub why: String,
}

impl TryFrom<Value> for AnswerSchema {
    type Error = BadAnswerSchema;

    fn try_from(schema: Value) -> Result<AnswerSchema, BadAnswerSchema> {
        AnswerSchema::new(schema)
    }
}

impl AnswerSchema {
    /// The schema, if every word of it can be checked.
    ///
    /// # Errors
    /// [`BadAnswerSchema`] for a schema that describes no object, has a word that is not checked, refers to what it does not hold, is
    /// larger than 64 KiB, or is nested deeper than [`VALUE_DEPTH_MAX`](crate::session::VALUE_DEPTH_MAX).
    pub fn new(mut schema: Value) -> Result<AnswerSchema, BadAnswerSchema> {
        let bad = |why: String| Err(BadAnswerSchema { why });
        if let Err(deep) = depth::bound(&mut schema) {
            return bad(format!("it is {deep}"));
        }
        let bytes = schema.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            return bad(format!("it has {bytes} bytes, and may have {SCHEMA_BYTES_MAX}"));
        }
        if schema["type"] != "object" {
            return bad("its \"type\" must be \"object\"".to_owned());
        }
        let mut walk = Walk::default();
        if let Err(why) = walk.known(&schema, "") {
            return bad(why);
        }
        // A place that was not walked, such as one in a `default`, would be taken for a schema unread.
        let is_stray = |reference: &&&Value| {
            referred(&schema, reference).is_none_or(|to| !walk.schemas.contains(&(&raw const *to)))
        };
        let stray = walk.references.iter().find(is_stray).map(|reference| shown(reference));
        match stray {
            Some(stray) => bad(format!(
                "\"$ref\" must be a place in the schema that holds a schema, such as \"#/$defs/name\"; {stray} is none"
            )),
            None => Ok(AnswerSchema(Arc::new(schema))),
        }
    }

    /// The schema as JSON.
    #[must_use]
    pub fn as_json(&self) -> &Value {
        &self.0
    }

    /// The value of an answer.
    ///
    /// # Errors
    /// Why the text is not JSON of this schema, with the place as a JSON pointer, for the model to mend: 1 KiB at most, with long names
    /// and values cut.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let value = parsed(text)?;
        check(&self.0, &value)?;
        Ok(value)
    }

    /// Whether a provider's strict form takes it: every object names all that it needs and takes nothing else, only the plain words
    /// are used, and each schema says the type of its values, or refers to one that does.
    #[cfg(any(feature = "openai", feature = "anthropic"))]
    pub(super) fn is_strict(&self) -> bool {
        !self.0.as_object().is_some_and(|root| root.contains_key("anyOf")) && is_strict(&self.0)
    }

    /// Whether no schema refers to one that it stands in, and every choice of values is plain. For a schema that is strict.
    #[cfg(feature = "anthropic")]
    pub(super) fn is_finite(&self) -> bool {
        is_finite(&self.0, &self.0, 0, &mut HashSet::new())
    }

    /// What a model is told that is not given the schema in another way.
    #[cfg(feature = "_wire")]
    fn in_words(&self) -> String {
        format!(
            "Your final answer must be JSON alone, with no word and no code fence around it. It must fit this JSON schema: {}",
            self.0
        )
    }
}

/// The reminder of a request, with the schema in words unless the provider is given it.
#[cfg(feature = "_wire")]
pub(super) fn reminder(request: &super::Request, is_given: bool) -> Option<String> {
    let schema = request.params.answer_schema.as_ref().filter(|_| !is_given).map(AnswerSchema::in_words);
    let both: Vec<String> = request.reminder.as_deref().map(str::to_owned).into_iter().chain(schema).collect();
    (!both.is_empty()).then(|| both.join("\n\n"))
}

/// An answer as JSON.
pub(crate) fn json_of(text: &str) -> Option<Value> {
    parsed(text).ok()
}

fn parsed(text: &str) -> Result<Value, String> {
    let text = unfenced(text);
    if text.len() > ANSWER_BYTES_MAX {
        return Err(format!("it has {} bytes, and may have {ANSWER_BYTES_MAX}", text.len()));
    }
    if !depth::text_is_within(text.as_bytes(), VALUE_DEPTH_MAX) {
        return Err(format!("it is {}", depth::TooDeep));
    }
    serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))
}

/// The text in a code fence, where the whole text is one.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    // Behind the first fence its language may stand.
    let inner = inner.and_then(|inner| inner.split_once('\n')).filter(|(language, _)| !language.contains('{'));
    inner.map_or(text, |(_, inner)| inner.trim())
}

/// A walk over a schema.
#[derive(Default)]
struct Walk<'s> {
    /// The schemas in it, by their places in memory.
    schemas: HashSet<*const Value>,
    references: Vec<&'s Value>,
}

impl<'s> Walk<'s> {
    /// Whether every word of a schema is known and of the right kind. Its depth is bounded.
    fn known(&mut self, schema: &'s Value, at: &str) -> Result<(), String> {
        self.schemas.insert(&raw const *schema);
        let fields = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(fields) => fields,
            _ => return Err(format!("at {at:?}: a schema is an object, true or false")),
        };
        let mut inner: Vec<(&str, Cow<'s, str>, &'s Value)> = Vec::new();
        for (word, value) in fields {
            let wrong = |wants: &str| Err(format!("at {at:?}: {word:?} must be {wants}"));
            match word.as_str() {
                word if !KEYWORDS.contains(&word) => {
                    return Err(format!(
                        "at {at:?}: {:?} is not checked here: leave it out, or say it in a description",
                        clipped(word)
                    ));
                }
                "properties" | "$defs" | "definitions" => match value.as_object() {
                    Some(schemas) => inner.extend(schemas.iter().map(|(name, of)| (word.as_str(), clipped(name), of))),
                    None => return wrong("an object"),
                },
                "anyOf" | "oneOf" | "allOf" => match value.as_array().filter(|schemas| !schemas.is_empty()) {
                    Some(schemas) => inner
                        .extend(schemas.iter().enumerate().map(|(n, of)| (word.as_str(), n.to_string().into(), of))),
                    None => return wrong("a list of schemas"),
                },
                "items" | "additionalProperties" => inner.push((word.as_str(), Cow::default(), value)),
                "enum" if !value.is_array() => return wrong("a list"),
                "required" if !value.as_array().is_some_and(|names| names.iter().all(Value::is_string)) => {
                    return wrong("a list of names");
                }
                "type" if !types(value).all(|name| TYPES.contains(&name)) || types(value).next().is_none() => {
                    return wrong("one of object, array, string, number, integer, boolean and null, or a list of them");
                }
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" if !value.is_number() => {
                    return wrong("a number");
                }
                "minLength" | "maxLength" | "minItems" | "maxItems" if !value.is_u64() => return wrong("a count"),
                "$ref" => self.references.push(value),
                _ => {}
            }
        }
        inner.into_iter().try_for_each(|(word, name, schema)| {
            let slash = if name.is_empty() { "" } else { "/" };
            self.known(schema, &format!("{at}/{word}{slash}{name}"))
        })
    }
}

const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

#[cfg(any(feature = "openai", feature = "anthropic"))]
fn is_strict(schema: &Value) -> bool {
    const PLAIN: [&str; 11] = [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "$ref",
        "$defs",
        "description",
    ];
    let Some(fields) = schema.as_object() else { return false };
    // Beside a reference no other word is taken.
    if fields.contains_key("$ref") {
        return fields.len() == 1;
    }
    let has = |word: &str| fields.contains_key(word);
    let is_of = |kind: &str| has("type") && types(&schema["type"]).any(|name| name == kind);
    let names =
        |name: &String| schema["required"].as_array().is_some_and(|names| names.iter().any(|known| known == name));
    fields.keys().all(|word| PLAIN.contains(&word.as_str()))
        && (has("type") || has("anyOf"))
        && (!is_of("array") || has("items"))
        && (!(is_of("object") || has("properties"))
            || schema["additionalProperties"] == false
                && schema["properties"].as_object().is_some_and(|properties| properties.keys().all(names)))
        && within(fields).all(is_strict)
}

/// The schemas in one that is strict.
#[cfg(any(feature = "openai", feature = "anthropic"))]
fn within(fields: &serde_json::Map<String, Value>) -> impl Iterator<Item = &Value> {
    let named = |word: &str| fields.get(word).and_then(Value::as_object).into_iter().flat_map(serde_json::Map::values);
    let choices = fields.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    named("properties").chain(named("$defs")).chain(fields.get("items")).chain(choices)
}

/// See [`AnswerSchema::is_finite`]. A reference that goes round ends at the bound; `seen` has the schemas that are known to end.
#[cfg(feature = "anthropic")]
fn is_finite<'s>(root: &'s Value, schema: &'s Value, depth: usize, seen: &mut HashSet<*const Value>) -> bool {
    let Some(fields) = schema.as_object().filter(|_| depth < check::WITHIN_MAX) else { return false };
    if seen.contains(&(&raw const *schema)) {
        return true;
    }
    let mut values = fields.get("enum").and_then(Value::as_array).into_iter().flatten().chain(fields.get("const"));
    let target = fields.get("$ref").and_then(|reference| referred(root, reference));
    let ends = values.all(|value| !value.is_object() && !value.is_array())
        && within(fields).chain(target).all(|inner| is_finite(root, inner, depth + 1, seen));
    if ends {
        seen.insert(&raw const *schema);
    }
    ends
}

#[cfg(test)]
mod tests;
