//! Renders the schema of a tool's arguments in a provider's dialect.
//!
//! The result always is an object schema with `type` and `properties`; it is left out for a tool without arguments in a dialect
//! that has no object without properties. A keyword that the dialect lacks is dropped or replaced by one that it has. So the
//! provider's schema only approximates the tool's own: it may allow more, and it allows less if the tool has several types for one
//! value, because only the first is kept. The tool must check its arguments itself. A change must keep the bounds on depth and on
//! what references bring in: a schema may contain itself, and in several places.

use serde_json::{Map, Value, json};

use super::SchemaDialect;

/// The deepest nesting. Deeper schemas become "anything": in practice only a schema that contains itself gets there.
const DEPTH_MAX: usize = 32;

/// The most bytes of text that a schema may have of those that it refers to, each time that it does. A reference that comes after
/// them becomes "anything".
const REFERRED_MAX: usize = 256 * 1_024;

/// The schema in the provider's dialect; `None` if the dialect has none for a tool without arguments.
pub(crate) fn in_dialect(schema: &Value, dialect: SchemaDialect) -> Option<Value> {
    let mut schema = match dialect {
        SchemaDialect::Plain => schema.clone(),
        SchemaDialect::Gemini => Gemini { root: schema, left: REFERRED_MAX }.render(schema, 0),
    };
    if !schema.is_object() {
        schema = json!({});
    }
    let object = schema.as_object_mut()?;
    object.remove("$schema");
    // OpenAI refuses an object without properties; a tool without arguments has none to give.
    object.insert("type".into(), "object".into());
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    // Gemini refuses an object whose properties are empty.
    let is_left_out = dialect == SchemaDialect::Gemini && properties.as_object().is_none_or(Map::is_empty);
    (!is_left_out).then_some(schema)
}

/// The formats that Gemini knows.
const GEMINI_FORMATS: &[&str] = &["int32", "int64", "float", "double", "enum", "date-time"];

/// Renders one schema for Gemini.
struct Gemini<'a> {
    root: &'a Value,
    /// How many more bytes it may have of what it refers to.
    left: usize,
}

impl Gemini<'_> {
    fn render(&mut self, schema: &Value, depth: usize) -> Value {
        if depth > DEPTH_MAX {
            return json!({});
        }
        let Some(object) = schema.as_object() else {
            // `true` as a schema: anything.
            return json!({});
        };
        if let Some(target) =
            object.get("$ref").and_then(Value::as_str).and_then(|path| self.root.pointer(path.strip_prefix('#')?))
        {
            if self.left == 0 {
                return json!({});
            }
            self.left = self.left.saturating_sub(target.to_string().len());
            return self.render(target, depth + 1);
        }
        let mut out = Map::new();
        for (key, value) in object {
            match (key.as_str(), value) {
                ("properties", Value::Object(properties)) if properties.is_empty() => {}
                ("properties", Value::Object(properties)) => {
                    let properties = properties.iter().map(|(name, of)| (name.clone(), self.render(of, depth + 1)));
                    out.insert(key.clone(), Value::Object(properties.collect()));
                }
                ("items", of) => {
                    out.insert(key.clone(), self.render(of, depth + 1));
                }
                ("anyOf" | "oneOf", Value::Array(choices)) => {
                    let choices = choices.iter().map(|of| self.render(of, depth + 1));
                    out.insert("anyOf".into(), choices.collect());
                }
                ("type", Value::Array(types)) => {
                    let one = types.iter().find(|of| *of != "null").cloned().unwrap_or_else(|| "string".into());
                    out.insert(key.clone(), one);
                    if types.iter().any(|of| of == "null") {
                        out.insert("nullable".into(), true.into());
                    }
                }
                ("const", one) => drop(out.insert("enum".into(), json!([one]))),
                ("format", Value::String(format)) if !GEMINI_FORMATS.contains(&format.as_str()) => {}
                // The other keywords that Gemini knows.
                ("type" | "format" | "description" | "nullable" | "enum" | "required" | "pattern", _)
                | ("minItems" | "maxItems" | "minimum" | "maximum" | "minLength" | "maxLength", _) => {
                    out.insert(key.clone(), value.clone());
                }
                _ => {}
            }
        }
        complete(&mut out);
        Value::Object(out)
    }
}

/// Puts right what Gemini refuses although it knows each of the words: a choice that is not among texts, a list of unnamed things,
/// and a needed property that is not there.
fn complete(schema: &mut Map<String, Value>) {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        match choices.iter().all(Value::is_string) && schema.get("type").is_none_or(|of| of == "string") {
            true => drop(schema.insert("type".into(), "string".into())),
            false => drop(schema.remove("enum")),
        }
    }
    if schema.get("type").is_some_and(|of| of == "array") {
        schema.entry("items").or_insert_with(|| json!({"type": "string"}));
    }
    let properties = schema.get("properties").cloned().unwrap_or_default();
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str().is_some_and(|name| properties.get(name).is_some()));
    }
    if schema.get("required").is_some_and(|required| required.as_array().is_none_or(Vec::is_empty)) {
        schema.remove("required");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn plain_schemas_keep_everything_but_their_dialect() {
        let schema = json!({"$schema": "x", "type": "object", "additionalProperties": false});
        let expected = json!({"type": "object", "additionalProperties": false, "properties": {}});
        assert_eq!(in_dialect(&schema, SchemaDialect::Plain), Some(expected));
        let empty = json!({"type": "object", "properties": {}});
        assert_eq!(in_dialect(&json!(true), SchemaDialect::Plain), Some(empty));
    }

    /// E-03
    #[test]
    fn gemini_gets_no_references_and_one_type_each() {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "a": {"type": ["integer", "null"], "format": "uint", "minimum": 0, "default": 0},
                "b": {"$ref": "#/$defs/B"},
                "c": {"type": "array", "items": {"const": "x", "title": "t"}},
            },
            "required": ["a"],
            "$defs": {"B": {"oneOf": [{"type": "string"}, {"type": "null"}]}},
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer", "nullable": true, "minimum": 0},
                "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "c": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
            },
            "required": ["a"],
        });
        assert_eq!(in_dialect(&schema, SchemaDialect::Gemini), Some(expected));
    }

    /// Each word is one that Gemini knows, and together they would be refused.
    #[test]
    fn gemini_gets_choices_among_texts_lists_of_something_and_only_properties_that_are_there() {
        let of = |schema: Value| {
            let whole = json!({"type": "object", "properties": {"a": schema}, "required": ["a", "gone"]});
            let rendered = in_dialect(&whole, SchemaDialect::Gemini).unwrap();
            assert_eq!(rendered["required"], json!(["a"]));
            rendered["properties"]["a"].clone()
        };
        for (schema, expected) in [
            (json!({"type": "integer", "enum": [1, 2]}), json!({"type": "integer"})),
            (json!({"const": 7}), json!({})),
            (json!({"enum": ["x", "y"]}), json!({"type": "string", "enum": ["x", "y"]})),
            (json!({"type": ["string", "null"], "enum": ["x", null]}), json!({"type": "string", "nullable": true})),
            (json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}})),
            (json!({"type": "object", "required": ["b"]}), json!({"type": "object"})),
        ] {
            assert_eq!(of(schema.clone()), expected, "{schema}");
        }
    }

    /// Gemini refuses the schema of an object without properties, at any depth.
    #[test]
    fn gemini_gets_no_schema_for_a_tool_without_arguments() {
        for schema in [json!({"type": "object"}), json!({"type": "object", "properties": {}}), json!(true)] {
            assert_eq!(in_dialect(&schema, SchemaDialect::Gemini), None, "{schema}");
        }
        let free = json!({"type": "object", "properties": {"any": {"type": "object", "properties": {}}}});
        let expected = json!({"type": "object", "properties": {"any": {"type": "object"}}});
        assert_eq!(in_dialect(&free, SchemaDialect::Gemini), Some(expected));
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert!(in_dialect(&schema, SchemaDialect::Gemini).is_some());
        let fields: Map<_, _> = (0..16).map(|n| (n.to_string(), json!({"$ref": "#"}))).collect();
        let wide = json!({"type": "object", "properties": fields});
        let rendered = in_dialect(&wide, SchemaDialect::Gemini).map_or(String::new(), |schema| schema.to_string());
        assert!(rendered.len() < 2 * REFERRED_MAX, "{} bytes", rendered.len());
    }

    /// A toolbox takes schemas of so many levels, and no more. A worker of tokio has four times this stack.
    #[test]
    fn a_schema_as_deep_as_it_may_be_is_rendered_on_a_small_stack() {
        let levels = crate::words::depth::VALUE_DEPTH_MAX - 2;
        let inner = (0..levels).fold(json!(true), |inner, _| json!({"items": inner}));
        let deep = json!({"properties": {"a": inner}});
        let rendered = move || {
            let all = [SchemaDialect::Plain, SchemaDialect::Gemini].map(|dialect| in_dialect(&deep, dialect));
            all.map(|schema| schema.unwrap().to_string().matches("items").count())
        };
        let small = std::thread::Builder::new().stack_size(512 * 1024).spawn(rendered).unwrap();
        assert_eq!(small.join().unwrap(), [levels, DEPTH_MAX]);
    }
}
