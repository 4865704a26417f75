//! The shape of a final answer: a JSON schema that a host gives ([`AnswerSchema`]), how it is said to a provider, and the check of an
//! answer against it.
//!
//! A provider that takes a schema is given it; any other model is told it in words. Either way the answer is checked here, by the
//! words of JSON Schema in `KEYWORDS`; a schema with another word is refused when it is made, so that nothing is promised that is not
//! checked. Rejected: a crate that checks all of JSON Schema, which brings regular expressions and the resolution of addresses.
//!
//! A change must keep that a check is a function of the schema and the text alone, because a replay makes it again; and that it is
//! bounded in time and in stack, whatever both hold.

use std::{borrow::Cow, collections::HashSet, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::words::depth::{self, VALUE_DEPTH_MAX};

/// The largest schema, in bytes of JSON.
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// The largest answer that is checked, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The steps of one check, at most. Holding a schema against a value is one, and further ones are taken for long lists and texts.
const STEPS_MAX: usize = 500_000;
/// How many schemas may stand within each other in one check, references followed.
const WITHIN_MAX: usize = 256;
/// How many characters of a value or a name are shown in a reason.
const SHOWN_MAX: usize = 60;
/// How many missing names are listed in a reason.
const MISSING_MAX: usize = 10;
/// The longest reason, in bytes.
const REASON_BYTES_MAX: usize = 1 << 10;

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
        let mut check = Check { root: &self.0, steps: STEPS_MAX };
        let mut reason = match check.fits(&self.0, &value, 0) {
            Ok(()) => return Ok(value),
            Err(Misfit::TooLarge) => return Err("it is too large to be checked against its schema".to_owned()),
            Err(Misfit::At { place, why }) if place.is_empty() => why,
            Err(Misfit::At { place, why }) => {
                let place: String = place.iter().rev().flat_map(|name| ["/", name]).collect();
                format!("at {place}: {why}")
            }
        };
        if reason.len() > REASON_BYTES_MAX {
            reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX - "…".len()));
            reason.push('…');
        }
        Err(reason)
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
fn within(fields: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let named = |word: &str| fields.get(word).and_then(Value::as_object).into_iter().flat_map(Map::values);
    let choices = fields.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    named("properties").chain(named("$defs")).chain(fields.get("items")).chain(choices)
}

/// See [`AnswerSchema::is_finite`]. A reference that goes round ends at the bound; `seen` has the schemas that are known to end.
#[cfg(feature = "anthropic")]
fn is_finite<'s>(root: &'s Value, schema: &'s Value, depth: usize, seen: &mut HashSet<*const Value>) -> bool {
    let Some(fields) = schema.as_object().filter(|_| depth < WITHIN_MAX) else { return false };
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

/// Why a value does not fit.
enum Misfit {
    /// What is wrong, and where: the names from the inside out.
    At { place: Vec<String>, why: String },
    /// Nothing is known of the value: the check has come to its bound, and ends.
    TooLarge,
}

fn misfit<T>(why: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit::At { place: Vec::new(), why: why.into() })
}

/// The beginning of a value, for a reason. It costs no more for a large one.
fn shown(value: &Value) -> String {
    let mut start = Start(String::new(), SHOWN_MAX);
    // An error is the end of the room.
    match fmt::write(&mut start, format_args!("{value}")) {
        Ok(()) => start.0,
        Err(fmt::Error) => start.0 + "…",
    }
}

/// Takes the first characters that are written, and refuses the rest.
struct Start(String, usize);

impl fmt::Write for Start {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.chars();
        self.0.extend(rest.by_ref().take(self.1));
        self.1 = SHOWN_MAX - self.0.chars().count();
        if rest.next().is_some() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// The beginning of a name, for a reason.
fn clipped(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(SHOWN_MAX) {
        Some((cut, _)) => format!("{}…", &name[..cut]).into(),
        None => name.into(),
    }
}

/// How much a comparison with this value of a schema may cost.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len() / 64,
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.iter().map(|(name, of)| 1 + name.len() / 64 + size(of)).sum::<usize>(),
        _ => 1,
    }
}

/// One check, and what is left of its bound.
struct Check<'s> {
    root: &'s Value,
    steps: usize,
}

impl<'s> Check<'s> {
    /// Takes steps for work of this size. Comparing a few short values costs no more than the step before it.
    fn take(&mut self, size: usize) -> Result<(), Misfit> {
        self.steps = self.steps.checked_sub(size / 16).ok_or(Misfit::TooLarge)?;
        Ok(())
    }

    fn fits(&mut self, schema: &'s Value, value: &Value, within: usize) -> Result<(), Misfit> {
        self.steps = self.steps.checked_sub(1).filter(|_| within < WITHIN_MAX).ok_or(Misfit::TooLarge)?;
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(false) => return misfit(format!("{} is not allowed here", shown(value))),
            _ => return Ok(()),
        };
        let within = within + 1;
        for word in ["$ref", "type", "enum", "const", "required"] {
            self.take(fields.get(word).map_or(0, size))?;
        }
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
            let mut fits = 0;
            for schema in choices {
                match self.fits(schema, value, within) {
                    Ok(()) => fits += 1,
                    Err(Misfit::At { .. }) => {}
                    // A choice that could not be checked may fit.
                    Err(Misfit::TooLarge) => return Err(Misfit::TooLarge),
                }
            }
            if fits == 0 || fits > most {
                return misfit(format!("{} fits {fits} of the {} choices of {word}", shown(value), choices.len()));
            }
        }
        match value {
            Value::Number(number) => numbers(fields, number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) if fields.contains_key("minLength") || fields.contains_key("maxLength") => {
                self.take(text.len() / 64)?;
                counts(fields, ["minLength", "maxLength"], text.chars().count(), "characters")
            }
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
            let listed: Vec<_> = missing.iter().take(MISSING_MAX).map(|name| clipped(name)).collect();
            let more = match missing.len().checked_sub(MISSING_MAX) {
                None | Some(0) => String::new(),
                Some(more) => format!(" and {more} more"),
            };
            return misfit(format!("the required {}{more} is missing", listed.join(", ")));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        if properties.is_none() && others.is_none() {
            return Ok(());
        }
        self.take(value.keys().map(|name| 1 + name.len() / 64).sum())?;
        for (name, inner) in value {
            let of = properties.and_then(|properties| properties.get(name));
            match of.or(others) {
                Some(Value::Bool(false)) if of.is_none() => {
                    return misfit(format!("it has no field {:?} to fill", clipped(name)));
                }
                Some(schema) => self.fits(schema, inner, within).map_err(|fault| under(name, fault))?,
                None => {}
            }
        }
        Ok(())
    }
}

/// The misfit of a value, as one of the value that has it under this name.
fn under(name: &str, fault: Misfit) -> Misfit {
    match fault {
        Misfit::At { mut place, why } => {
            place.push(clipped(name).replace('~', "~0").replace('/', "~1"));
            Misfit::At { place, why }
        }
        Misfit::TooLarge => Misfit::TooLarge,
    }
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
            (of(json!({"$ref": "#/properties"})), "\"#/properties\" is none"),
            (
                of(json!({"default": {"pattern": "x"}, "$ref": "#/properties/a/default"})),
                "\"#/properties/a/default\" is none",
            ),
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

    /// A choice at which the check ends is not one that does not fit: it would make another one the only one.
    #[test]
    fn a_bound_within_a_choice_ends_the_check() {
        let schema = AnswerSchema::new(json!({"type": "object", "oneOf": [{}, {"$ref": "#"}]})).unwrap();
        assert_eq!(schema.read("{}").unwrap_err(), "it is too large to be checked against its schema");
    }

    /// What a step costs beyond the first comparisons is taken from the bound too.
    #[test]
    fn long_lists_and_texts_take_steps() {
        let names: Vec<String> = (0..1_600).map(|n| format!("n{n}")).collect();
        let object: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(1))).collect();
        for (schema, value) in [
            (json!({"enum": names}), json!("none")),
            (json!({"const": names}), json!(names)),
            (json!({"required": names}), json!({})),
            (json!({"type": vec!["null"; 1_600]}), json!({})),
            (json!({"properties": {}}), object.into()),
            (json!({"maxLength": 1}), "x".repeat(100 << 10).into()),
        ] {
            let mut check = Check { root: &Value::Null, steps: STEPS_MAX };
            let _fits_or_not = check.fits(&schema, &value, 0);
            assert!(
                (100..=300).contains(&(STEPS_MAX - check.steps)),
                "{}: {}",
                shown(&schema),
                STEPS_MAX - check.steps
            );
        }
    }

    #[test]
    fn a_reason_is_short_whatever_the_names() {
        let long = |n: usize| format!("{n}{}", "€/".repeat(300));
        let names: Vec<String> = (10..22).map(long).collect();
        let schema = json!({
            "type": "object",
            "properties": {"a": {"$ref": "#"}, long(0): {"$ref": "#"}, "b": {"required": names}},
            "additionalProperties": false,
        });
        let schema = AnswerSchema::new(schema).unwrap();
        let said = |value: Value| schema.read(&value.to_string()).unwrap_err();
        let start: String = long(1).chars().take(SHOWN_MAX).collect();
        assert_eq!(said(json!({long(1): 1})), format!("it has no field \"{start}…\" to fill"));
        let missing = said(json!({"b": {}}));
        assert!(missing.starts_with("at /b: the required 10€/") && missing.ends_with('…'), "{missing}");
        let deep = said((0..90).fold(json!(1), |inner, _| json!({long(0): inner})));
        assert_eq!(
            [&missing, &deep].map(|said| (REASON_BYTES_MAX - 3..=REASON_BYTES_MAX).contains(&said.len())),
            [true; 2]
        );
        let few = json!({"type": "object", "required": (0..12).map(|n| n.to_string()).collect::<Vec<_>>()});
        let why = AnswerSchema::new(few).unwrap().read("{}").unwrap_err();
        assert_eq!(why, "the required 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more is missing");
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
        let with = |property: Value, defs: Value| {
            let mut other = object.clone();
            other["properties"]["a"] = property;
            other["$defs"] = defs;
            other
        };
        let text = json!({"d": {"type": "string"}});
        let list = json!({"type": ["array", "null"], "items": {"$ref": "#/$defs/d"}});
        for (property, is_strict) in [
            (json!({"anyOf": [list, {"type": "null"}], "description": "text"}), true),
            (json!({"$ref": "#/$defs/d", "description": "text"}), false),
            (json!({}), false),
            (json!({"enum": ["a"]}), false),
            (json!({"type": ["array", "null"]}), false),
        ] {
            assert_eq!(strict(with(property.clone(), text.clone())), is_strict, "{property}");
        }
        let mut choices = object.clone();
        choices["anyOf"] = json!([object]);
        assert!(!strict(choices));
        #[cfg(feature = "anthropic")]
        for (property, defs, is_finite) in [
            (json!({"$ref": "#/$defs/d"}), text, true),
            (json!({"$ref": "#"}), json!({}), false),
            (json!({"type": "string"}), json!({"d": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/d"}]}}), false),
            (json!({"type": "array", "items": {"type": "string"}, "enum": [[]]}), json!({}), false),
        ] {
            let schema = AnswerSchema::new(with(property.clone(), defs)).unwrap();
            assert_eq!((schema.is_strict(), schema.is_finite()), (true, is_finite), "{property}");
        }
    }
}
