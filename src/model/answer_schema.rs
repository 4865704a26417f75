//! The shape of a final answer: a JSON schema that a host gives ([`AnswerSchema`]), how it is said to a provider, and the check of an
//! answer against it.
//!
//! A provider that takes a schema is given it; any other model is told it in words. Either way the answer is checked here, by the
//! words of JSON Schema in `KEYWORDS`; a schema with another word is refused when it is made, so that nothing is promised that is not
//! checked. Rejected: a crate that checks all of JSON Schema, which brings regular expressions and the resolution of addresses.
//!
//! A change must keep that a check is a function of the schema and the text alone, because a replay makes it again; and that it is
//! bounded in time and in stack, whatever both hold.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::words::depth::{self, VALUE_DEPTH_MAX};

/// The largest schema, in bytes of JSON.
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// The largest answer that is checked, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How many times a schema is held against a value in one check, at most.
const STEPS_MAX: u32 = 500_000;
/// How many schemas may stand within each other in one check, references followed.
const WITHIN_MAX: usize = 256;

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
/// fit either, the turn ends as [`BadAnswer`](crate::Outcome::BadAnswer). JSON in one code fence is taken.
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
        match known(&schema, &schema, "") {
            Ok(()) => Ok(AnswerSchema(Arc::new(schema))),
            Err(why) => bad(why),
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
    /// Why the text is not JSON of this schema, with the place as a JSON pointer, for the model to mend.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let value = parsed(text)?;
        let mut check = Check { root: &self.0, steps: STEPS_MAX };
        match check.fits(&self.0, &value, 0) {
            Ok(()) => Ok(value),
            Err(Misfit { at, why }) if at.is_empty() => Err(why),
            Err(Misfit { at, why }) => Err(format!("at {at}: {why}")),
        }
    }

    /// Whether a provider's strict form takes it: every object names all that it needs and takes nothing else, and only the plain words
    /// are used.
    #[cfg(any(feature = "openai", feature = "anthropic"))]
    pub(super) fn is_strict(&self) -> bool {
        is_strict(&self.0)
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

/// Whether every word of a schema is known and of the right kind. Its depth is bounded.
fn known(root: &Value, schema: &Value, at: &str) -> Result<(), String> {
    let fields = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err(format!("at {at:?}: a schema is an object, true or false")),
    };
    let mut inner: Vec<(String, &Value)> = Vec::new();
    for (word, value) in fields {
        let wrong = |wants: &str| Err(format!("at {at:?}: {word:?} must be {wants}"));
        match word.as_str() {
            word if !KEYWORDS.contains(&word) => {
                return Err(format!(
                    "at {at:?}: {word:?} is not checked here: leave it out, or say it in a description"
                ));
            }
            "properties" | "$defs" | "definitions" => match value.as_object() {
                Some(schemas) => inner.extend(schemas.iter().map(|(name, of)| (format!("{word}/{name}"), of))),
                None => return wrong("an object"),
            },
            "anyOf" | "oneOf" | "allOf" => match value.as_array().filter(|schemas| !schemas.is_empty()) {
                Some(schemas) => inner.extend(schemas.iter().enumerate().map(|(n, of)| (format!("{word}/{n}"), of))),
                None => return wrong("a list of schemas"),
            },
            "items" | "additionalProperties" => inner.push((word.clone(), value)),
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
            "$ref" if referred(root, value).is_none() => {
                return wrong("a place in the schema, such as \"#/$defs/name\"");
            }
            _ => {}
        }
    }
    inner.into_iter().try_for_each(|(name, schema)| known(root, schema, &format!("{at}/{name}")))
}

const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// The names of a `type`; an unknown kind of value is one that no type has.
fn types(value: &Value) -> impl Iterator<Item = &str> {
    let one = std::slice::from_ref(value);
    value.as_array().map_or(one, Vec::as_slice).iter().map(|name| name.as_str().unwrap_or("?"))
}

fn referred<'s>(root: &'s Value, reference: &Value) -> Option<&'s Value> {
    root.pointer(reference.as_str()?.strip_prefix('#')?)
}

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
    let inner = |word: &str| fields.get(word).and_then(Value::as_object).into_iter().flat_map(Map::values);
    let choices = fields.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let names =
        |name: &String| schema["required"].as_array().is_some_and(|names| names.iter().any(|known| known == name));
    let is_object = fields.contains_key("properties") || types(&schema["type"]).any(|name| name == "object");
    fields.keys().all(|word| PLAIN.contains(&word.as_str()))
        && (!is_object
            || schema["additionalProperties"] == false
                && schema["properties"].as_object().is_some_and(|properties| properties.keys().all(names)))
        && inner("properties").chain(inner("$defs")).chain(fields.get("items")).chain(choices).all(is_strict)
}

/// Why a value does not fit, and where: a JSON pointer.
struct Misfit {
    at: String,
    why: String,
}

fn misfit<T>(why: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit { at: String::new(), why: why.into() })
}

/// The beginning of a value, for a message.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// One check, and what is left of its bound.
struct Check<'s> {
    root: &'s Value,
    steps: u32,
}

impl<'s> Check<'s> {
    fn fits(&mut self, schema: &'s Value, value: &Value, within: usize) -> Result<(), Misfit> {
        let Some(steps) = self.steps.checked_sub(1).filter(|_| within < WITHIN_MAX) else {
            return misfit("it is too large to be checked against its schema");
        };
        self.steps = steps;
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(false) => return misfit(format!("{} is not allowed here", shown(value))),
            _ => return Ok(()),
        };
        let within = within + 1;
        if let Some(kinds) = fields.get("type")
            && !types(kinds).any(|kind| is(kind, value))
        {
            let kinds = types(kinds).collect::<Vec<_>>().join(" or ");
            return misfit(format!("{} is no {kinds}", shown(value)));
        }
        if fields.get("enum").and_then(Value::as_array).is_some_and(|choices| !choices.contains(value)) {
            return misfit(format!("{} is none of {}", shown(value), shown(&fields["enum"])));
        }
        if fields.get("const").is_some_and(|only| only != value) {
            return misfit(format!("{} is not {}", shown(value), shown(&fields["const"])));
        }
        if let Some(target) = fields.get("$ref").and_then(|reference| referred(self.root, reference)) {
            self.fits(target, value, within)?;
        }
        for schema in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.fits(schema, value, within)?;
        }
        for (word, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
            let Some(choices) = fields.get(word).and_then(Value::as_array) else { continue };
            let fits = choices.iter().filter(|schema| self.fits(schema, value, within).is_ok()).count();
            if fits == 0 || fits > most {
                return misfit(format!("{} fits {fits} of the {} choices of {word}", shown(value), choices.len()));
            }
        }
        match value {
            Value::Number(number) => numbers(fields, number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) => counts(fields, ["minLength", "maxLength"], text.chars().count(), "characters"),
            Value::Array(items) => {
                counts(fields, ["minItems", "maxItems"], items.len(), "items")?;
                let Some(schema) = fields.get("items") else { return Ok(()) };
                let mut all = items.iter().enumerate();
                all.try_for_each(|(n, item)| {
                    self.fits(schema, item, within).map_err(|fault| under(&n.to_string(), fault))
                })
            }
            Value::Object(inner) => self.object(fields, inner, within),
            _ => Ok(()),
        }
    }

    fn object(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &Map<String, Value>,
        within: usize,
    ) -> Result<(), Misfit> {
        let names = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<&str> = names.filter(|name| !value.contains_key(*name)).collect();
        if !missing.is_empty() {
            return misfit(format!("the required {} is missing", missing.join(", ")));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, inner) in value {
            let of = properties.and_then(|properties| properties.get(name));
            match of.or_else(|| schema.get("additionalProperties")) {
                Some(Value::Bool(false)) if of.is_none() => return misfit(format!("it has no field {name:?} to fill")),
                Some(schema) => self.fits(schema, inner, within).map_err(|fault| under(name, fault))?,
                None => {}
            }
        }
        Ok(())
    }
}

fn under(name: &str, fault: Misfit) -> Misfit {
    Misfit { at: format!("/{}{}", name.replace('~', "~0").replace('/', "~1"), fault.at), ..fault }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        // 1.0 is an integer of JSON Schema.
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    }
}

/// Whether a number keeps a bound.
type Fits = fn(f64, f64) -> bool;

fn numbers(schema: &Map<String, Value>, number: f64) -> Result<(), Misfit> {
    let bound = |word: &str| schema.get(word).and_then(Value::as_f64);
    let fails = |word: &str, fits: Fits| bound(word).filter(|bound| !fits(number, *bound));
    let all: [(&str, Fits, &str); 4] = [
        ("minimum", |number, bound| number >= bound, "at least"),
        ("maximum", |number, bound| number <= bound, "at most"),
        ("exclusiveMinimum", |number, bound| number > bound, "more than"),
        ("exclusiveMaximum", |number, bound| number < bound, "less than"),
    ];
    let failed = all.into_iter().find_map(|(word, fits, words)| Some((fails(word, fits)?, words)));
    failed.map_or(Ok(()), |(bound, words)| misfit(format!("{number} must be {words} {bound}")))
}

fn counts(schema: &Map<String, Value>, words: [&str; 2], count: usize, of: &str) -> Result<(), Misfit> {
    let [least, most] = words.map(|word| schema.get(word).and_then(Value::as_u64));
    let count = count as u64;
    match (least, most) {
        (Some(least), _) if count < least => misfit(format!("it has {count} {of}, and must have at least {least}")),
        (_, Some(most)) if count > most => misfit(format!("it has {count} {of}, and may have at most {most}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn schema() -> AnswerSchema {
        let list = json!({"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/entry"}});
        let entry = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "kind": {"enum": ["a", "b"]},
                "part": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/entry"}]},
                "share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        let whole =
            json!({"type": "object", "properties": {"list": list}, "required": ["list"], "$defs": {"entry": entry}});
        AnswerSchema::new(whole).unwrap()
    }

    /// Each rule has a value that breaks it and nothing else, and the reason names the place.
    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let entry = |entry: Value| json!({"list": [entry]});
        let good = json!({"name": "x", "kind": "b", "part": {"name": "y", "part": null}, "share": 0.5});
        assert_eq!(schema().read(&entry(good.clone()).to_string()), Ok(entry(good)));
        for (value, why) in [
            (json!([]), "[] is no object"),
            (json!({}), "the required list is missing"),
            (json!({"list": 7}), "at /list: 7 is no array"),
            (
                json!({"list": [{"name": "x"}, {"name": "x"}, {"name": "x"}]}),
                "at /list: it has 3 items, and may have at most 2",
            ),
            (entry(json!({"name": ""})), "at /list/0/name: it has 0 characters, and must have at least 1"),
            (entry(json!({"name": "x", "more": 1})), "at /list/0: it has no field \"more\" to fill"),
            (entry(json!({"name": "x", "kind": "c"})), "at /list/0/kind: \"c\" is none of [\"a\",\"b\"]"),
            (entry(json!({"name": "x", "share": 1})), "at /list/0/share: 1 must be less than 1"),
            (entry(json!({"name": "x", "part": {}})), "at /list/0/part: {} fits 0 of the 2 choices of anyOf"),
        ] {
            assert_eq!(schema().read(&value.to_string()).unwrap_err(), why);
        }
    }

    #[test]
    fn text_around_json_is_refused_and_one_fence_is_taken() {
        let empty = json!({"list": []});
        for text in ["{\"list\":[]}", " {\"list\":[]}\n", "```json\n{\"list\":[]}\n```", "```\n{\"list\":[]}\n```"] {
            assert_eq!(schema().read(text).as_ref(), Ok(&empty), "{text}");
        }
        for text in ["", "Here: {\"list\":[]}", "```json\n{\"list\":[]}\n``` done", "{\"list\":["] {
            let why = schema().read(text).unwrap_err();
            assert!(why.starts_with("it is not JSON: "), "{text}: {why}");
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert_eq!(schema().read(&deep).unwrap_err(), "it is nested deeper than 96 levels");
        let large = format!("\"{}\"", "x".repeat(ANSWER_BYTES_MAX));
        assert!(schema().read(&large).unwrap_err().contains("bytes, and may have 4194304"));
    }

    #[test]
    fn a_schema_that_cannot_be_checked_is_refused_with_its_place() {
        let of = |property: Value| json!({"type": "object", "properties": {"a": property}});
        for (schema, why) in [
            (json!({"type": "array"}), "its \"type\" must be \"object\""),
            (json!(true), "its \"type\" must be \"object\""),
            (of(json!({"pattern": "x"})), "at \"/properties/a\": \"pattern\" is not checked here"),
            (of(json!({"type": "text"})), "at \"/properties/a\": \"type\" must be one of"),
            (of(json!({"$ref": "#/$defs/none"})), "\"$ref\" must be a place in the schema"),
            (of(json!({"$ref": "https://h/s"})), "\"$ref\" must be a place in the schema"),
            (of(json!({"anyOf": []})), "\"anyOf\" must be a list of schemas"),
            (of(json!({"minLength": -1})), "\"minLength\" must be a count"),
            (of(json!({"items": [1]})), "a schema is an object, true or false"),
            (of(json!({"description": "x".repeat(SCHEMA_BYTES_MAX)})), "bytes, and may have 65536"),
            (of((0..200).fold(json!({}), |inner, _| json!({"items": inner}))), "nested deeper than 96 levels"),
        ] {
            let said = AnswerSchema::new(schema).unwrap_err().to_string();
            assert!(said.contains(why), "{why}: {said}");
        }
    }

    /// References that go round, and choices that multiply, end.
    #[test]
    fn a_check_is_bounded_whatever_the_schema() {
        let round = json!({"type": "object", "allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        let wide = json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {"anyOf": [{"items": {"$ref": "#/$defs/n"}, "type": "array"}, {"items": {"$ref": "#/$defs/n"}}]}},
        });
        let text = format!("{{\"a\": {}{}}}", "[".repeat(90), "]".repeat(90));
        let small = std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(move || [round, wide].map(|schema| AnswerSchema::new(schema).unwrap().read(&text).is_err()));
        assert_eq!(small.unwrap().join().unwrap(), [true, true]);
    }

    #[cfg(any(feature = "openai", feature = "anthropic"))]
    #[test]
    fn a_schema_is_strict_if_every_object_names_all_its_fields() {
        let strict = |schema: Value| AnswerSchema::new(schema).unwrap().is_strict();
        let object = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
        assert!(strict(object.clone()));
        for (field, value) in [("required", json!([])), ("additionalProperties", json!(true)), ("title", json!("t"))] {
            let mut other = object.clone();
            other[field] = value;
            assert!(!strict(other), "{field}");
        }
        let mut inner = object.clone();
        inner["properties"]["a"] = json!({"type": "array", "items": {"type": "object"}});
        assert!(!strict(inner));
    }
}
