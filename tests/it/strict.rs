//! The rules of the servers of these tests: each has a request that breaks it and nothing else. A rule that lets everything pass would
//! make every test of the wires a weaker one.

use serde_json::{Value, json};

use crate::support::strict::check;

fn why(path: &str, body: &Value) -> String {
    check(&format!("POST {path} HTTP/1.1"), &body.to_string()).unwrap_err()
}

#[test]
fn what_the_responses_api_refuses_is_refused() {
    let call = json!({"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"});
    let result = json!({"type": "function_call_output", "call_id": "a", "output": "x"});
    let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]});
    let thought = json!({"type": "reasoning", "summary": [], "encrypted_content": "signed by responses"});
    let long = "a".repeat(65);
    let with = |items: &[&Value]| json!({"model": "m", "stream": true, "store": false, "input": items});
    assert_eq!(check("POST /responses ", &with(&[&user, &thought, &call, &result]).to_string()), Ok(()));
    let changed = |of: &Value, field: &str, value: Value| {
        let mut of = of.clone();
        of[field] = value;
        of
    };
    let stored = changed(&with(&[&user]), "store", true.into());
    let named = |of: &Value| changed(of, "call_id", json!(long));
    for (body, expected) in [
        (changed(&with(&[&user]), "max_tokens", 9.into()), "unknown field \"max_tokens\""),
        (changed(&stored, "include", json!(["reasoning.encrypted_content"])), "kept, and asked for encrypted"),
        (changed(&with(&[&user]), "max_output_tokens", 1.into()), "fewer than 16 tokens"),
        (with(&[]), "input must be a list"),
        (with(&[&user, &result]), "without its call"),
        (with(&[&call, &result, &result]), "without its call, or a second one"),
        (with(&[&call, &user]), "no output of the call a"),
        (with(&[&user, &thought]), "that nothing follows"),
        (with(&[&thought, &user]), "that nothing follows"),
        (with(&[&changed(&thought, "id", json!(long)), &call, &result]), "an id that is too long"),
        (with(&[&changed(&thought, "status", json!("completed")), &call, &result]), "unknown field \"status\""),
        (with(&[&changed(&thought, "encrypted_content", json!("other")), &call, &result]), "not ours"),
        (with(&[&named(&call), &named(&result)]), "an id that is too long"),
        (with(&[&changed(&call, "arguments", json!({})), &result]), "arguments must be a text"),
    ] {
        assert!(why("/v1/responses", &body).contains(expected), "{expected}: {}", why("/v1/responses", &body));
    }
}

#[test]
fn what_gemini_refuses_is_refused() {
    let call = json!({"functionCall": {"id": "a", "name": "read", "args": {}}, "thoughtSignature": "signed by gemini"});
    let result = json!({"functionResponse": {"id": "a", "name": "read", "response": {"output": "x"}}});
    let user = |parts: Value| json!({"role": "user", "parts": parts});
    let model = |parts: Value| json!({"role": "model", "parts": parts});
    let hi = user(json!([{"text": "hi"}]));
    let with = |contents: &[&Value]| json!({ "contents": contents });
    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    let good = with(&[&hi, &model(json!([call])), &user(json!([result]))]);
    assert_eq!(check(&format!("POST {path} "), &good.to_string()), Ok(()));
    let mut unsigned = call.clone();
    unsigned.as_object_mut().unwrap().remove("thoughtSignature");
    let mut foreign = call.clone();
    foreign["thoughtSignature"] = "of another".into();
    let tool = |schema: Value| {
        let tools = json!([{"functionDeclarations": [{"name": "t", "description": "d", "parameters": schema}]}]);
        json!({"contents": [hi], "tools": tools})
    };
    let object = |of: Value| json!({"type": "object", "properties": {"a": of}});
    for (body, expected) in [
        (json!({"model": "m", "contents": [hi]}), "unknown field \"model\""),
        (with(&[&model(json!([{"text": "x"}]))]), "the first content is not the user's"),
        (with(&[&hi, &model(json!([call])), &hi]), "the number of function responses"),
        (with(&[&hi, &model(json!([call])), &user(json!([result, result]))]), "the number of function responses"),
        (with(&[&hi, &user(json!([result]))]), "the number of function responses"),
        (with(&[&hi, &model(json!([unsigned])), &user(json!([result]))]), "not signed"),
        (with(&[&hi, &model(json!([foreign])), &user(json!([result]))]), "not ours"),
        (with(&[&user(json!([{"text": ""}]))]), "an empty part"),
        (with(&[&user(json!([{"inlineData": {"mimeType": "image/gif", "data": "x"}}]))]), "not taken"),
        (tool(json!({"type": "object", "properties": {}})), "should be non-empty"),
        (tool(object(json!({"type": "string", "const": "x"}))), "unknown field \"const\""),
        (tool(object(json!({"type": "integer", "enum": [1]}))), "only for texts"),
        (tool(object(json!({"type": "array"}))), "without items"),
        (tool(json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]})), "not defined"),
    ] {
        assert!(why(path, &body).contains(expected), "{expected}: {}", why(path, &body));
    }
    assert!(why("/models/m:streamGenerateContent", &good).contains("stream of events"));
}

#[test]
fn what_the_other_two_refuse_is_refused() {
    let of = |messages: Value| json!({"model": "m", "max_tokens": 9, "messages": messages, "tools": []});
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "read", "input": {}}]});
    let user = json!({"role": "user", "content": "hi"});
    assert!(why("/v1/messages", &of(json!([call, user]))).contains("not the user's"));
    assert!(why("/v1/messages", &of(json!([user, call, user]))).contains("no result of the call a"));
    let blank = json!({"role": "user", "content": [{"type": "text", "text": " "}]});
    assert!(why("/v1/messages", &of(json!([blank]))).contains("an empty text"));
    let of = |messages: Value| json!({"model": "m", "stream": true, "messages": messages});
    let function = json!({"name": "read", "arguments": "{}"});
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": function}]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "x"});
    assert_eq!(check("POST /chat/completions ", &of(json!([call, result])).to_string()), Ok(()));
    assert!(why("/chat/completions", &of(json!([call, user, result]))).contains("no result of the call a"));
    assert!(why("/chat/completions", &of(json!([user, result]))).contains("without its call"));
}
