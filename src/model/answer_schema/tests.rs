#![allow(clippy::unwrap_used)]
use serde_json::json;

use super::{
    check::{REASON_BYTES_MAX, SHOWN_MAX, steps},
    *,
};

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
    let object: serde_json::Map<String, Value> = names.iter().map(|name| (name.clone(), json!(1))).collect();
    for (schema, value) in [
        (json!({"enum": names}), json!("none")),
        (json!({"const": names}), json!(names)),
        (json!({"required": names}), json!({})),
        (json!({"type": vec!["null"; 1_600]}), json!({})),
        (json!({"properties": {}}), object.into()),
        (json!({"maxLength": 1}), "x".repeat(100 << 10).into()),
    ] {
        let steps = steps(&schema, &value);
        assert!((100..=300).contains(&steps), "{}: {steps}", shown(&schema));
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
