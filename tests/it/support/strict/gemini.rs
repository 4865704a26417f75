//! Gemini's own API.

use serde_json::Value;

use super::{Checked, ensure, fields, inline, list, text, wrong};

/// The files that it takes; GIF is not among them.
const FILES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "application/pdf"];

pub(super) fn contents(body: &Value) -> Checked {
    let known = ["contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings"];
    fields(body, &known)?;
    let known = [
        "temperature",
        "topP",
        "topK",
        "maxOutputTokens",
        "thinkingConfig",
        "stopSequences",
        "seed",
        "responseMimeType",
        "responseJsonSchema",
    ];
    body.get("generationConfig").map_or(Ok(()), |config| fields(config, &known).map(drop))?;
    let config = &body["generationConfig"];
    if config.get("responseJsonSchema").is_some() {
        ensure(config["responseMimeType"] == "application/json", "a schema of what is no JSON", config)?;
        ensure(body.get("tools").is_none(), "a schema beside tools", config)?;
    }
    if let Some(thinking) = body["generationConfig"].get("thinkingConfig") {
        fields(thinking, &["thinkingLevel", "thinkingBudget", "includeThoughts"])?;
        let (level, budget) = (thinking["thinkingLevel"].as_str(), thinking["thinkingBudget"].as_u64());
        ensure(level.is_some() != budget.is_some(), "a level and a budget, or neither", thinking)?;
        let is_level = |level| ["minimal", "low", "medium", "high"].contains(&level);
        ensure(level.is_none_or(is_level), "an unknown level", thinking)?;
        ensure(budget.is_none_or(|budget| budget <= 24_576), "a budget above 24576", thinking)?;
    }
    if let Some(system) = body.get("systemInstruction") {
        fields(system, &["parts", "role"])?;
        list(&system["parts"], "parts")?;
    }
    for tools in body["tools"].as_array().into_iter().flatten() {
        fields(tools, &["functionDeclarations"])?;
        for function in list(&tools["functionDeclarations"], "functions")? {
            fields(function, &["name", "description", "parameters"])?;
            ensure(is_name(text(&function["name"], "a name")?), "a name that is not taken", function)?;
            if let Some(schema) = function.get("parameters") {
                let properties = schema["properties"].as_object();
                ensure(properties.is_some_and(|all| !all.is_empty()), "properties should be non-empty", schema)?;
                check_schema(schema)?;
            }
        }
    }
    let contents = list(&body["contents"], "contents")?;
    ensure(contents[0]["role"] == "user", "the first content is not the user's", &contents[0])?;
    // The calls of the content before.
    let mut asked: Vec<&Value> = Vec::new();
    for content in contents {
        fields(content, &["role", "parts"])?;
        let is_model = content["role"] == "model";
        ensure(is_model || content["role"] == "user", "an unknown role", content)?;
        let parts = list(&content["parts"], "parts")?;
        let of = |kind: &'static str| parts.iter().filter_map(move |part| part.get(kind));
        let results: Vec<&Value> = of("functionResponse").collect();
        let is_even = results.len() == asked.len();
        ensure(is_even, "the number of function responses is not that of the calls of the turn before", content)?;
        for (result, call) in results.iter().zip(std::mem::take(&mut asked)) {
            ensure(result["id"] == call["id"] && result["name"] == call["name"], "a result of another call", result)?;
        }
        for part in parts {
            check_part(part, is_model)?;
        }
        asked = of("functionCall").collect();
        let first = parts.iter().find(|part| part.get("functionCall").is_some());
        ensure(first.is_none_or(|call| call["thoughtSignature"].is_string()), "a call that is not signed", content)?;
    }
    ensure(asked.is_empty(), "no result of the last call", &contents[0])
}

fn is_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c))
}

fn check_part(part: &Value, is_model: bool) -> Checked {
    let kinds = ["text", "inlineData", "fileData", "functionCall", "functionResponse"];
    let known = fields(part, &[&kinds[..], &["thought", "thoughtSignature"]].concat())?;
    ensure(kinds.iter().filter(|kind| known.contains_key(**kind)).count() == 1, "not one kind of data", part)?;
    if let Some(signature) = known.get("thoughtSignature") {
        ensure(is_model, "signed by the user", part)?;
        let is_ours = signature == "signed by gemini" || signature == "skip_thought_signature_validator";
        ensure(is_ours, "a signature that is not ours", part)?;
    }
    if let Some(said) = known.get("text") {
        let is_empty = text(said, "text")?.is_empty() && !known.contains_key("thoughtSignature");
        return ensure(!is_empty, "an empty part", part);
    }
    if let Some(file) = known.get("inlineData") {
        fields(file, &["mimeType", "data"])?;
        return inline(text(&file["mimeType"], "a kind")?, text(&file["data"], "data")?, &FILES, part);
    }
    if let Some(call) = known.get("functionCall") {
        fields(call, &["id", "name", "args"])?;
        ensure(is_name(text(&call["name"], "a name")?) && call["args"].is_object(), "a call that is not taken", part)?;
        return ensure(is_model, "a call of the user", part);
    }
    if let Some(result) = known.get("functionResponse") {
        fields(result, &["id", "name", "response"])?;
        ensure(is_name(text(&result["name"], "a name")?), "a name that is not taken", part)?;
        return ensure(result["response"].is_object() && !is_model, "a result that is not taken", part);
    }
    fields(&part["fileData"], &["mimeType", "fileUri"]).map(drop)
}

/// The subset of JSON schema that it takes.
fn check_schema(schema: &Value) -> Checked {
    let known = ["type", "format", "description", "nullable", "enum", "properties", "required", "items", "anyOf"];
    let bounds = ["minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern"];
    let known = fields(schema, &[&known[..], &bounds].concat())?;
    if let Some(values) = known.get("enum") {
        let are_texts = list(values, "enum")?.iter().all(Value::is_string);
        ensure(schema["type"] == "string" && are_texts, "enum is only for texts", schema)?;
    }
    ensure(schema["type"] != "array" || known.contains_key("items"), "a list without items", schema)?;
    ensure(!schema["type"].is_array(), "several types", schema)?;
    for name in schema["required"].as_array().into_iter().flatten() {
        let is_there = schema["properties"].get(text(name, "a name")?).is_some();
        ensure(is_there, "a required property that is not defined", schema)?;
    }
    let inner = schema["properties"].as_object().into_iter().flat_map(|all| all.values());
    let inner = inner.chain(schema["anyOf"].as_array().into_iter().flatten()).chain(known.get("items"));
    for schema in inner {
        check_schema(schema).or_else(|why| wrong(why, schema))?;
    }
    Ok(())
}
