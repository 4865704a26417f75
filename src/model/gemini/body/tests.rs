//! Bodies as a strict server would read them.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use super::*;
use crate::model::Params;
use crate::{
    model::{
        Api, Item, ToolSpec,
        samples::{PNG, answer, call, result, text, thought, user, user_of},
        wire::rendering,
    },
    words::message::{FilePart, Part},
};

fn endpoint() -> Endpoint {
    Endpoint::new(Api::GeminiGenerateContent, "p", "http://h", "m")
}

fn rendered(request: &Request) -> Value {
    serde_json::from_slice(&body(&endpoint(), &rendering(&endpoint()), request)).unwrap()
}

fn told(items: Vec<Item>) -> Value {
    rendered(&Request::new(items.into_iter().collect()))["contents"].take()
}

fn signed(part: AnswerPart, with: &str) -> AnswerPart {
    let kept = Some(endpoint().extra(json!({ SIGNATURE: with })));
    match part {
        AnswerPart::Text { text, .. } => AnswerPart::Text { text, extra: kept },
        AnswerPart::Reasoning { text, time, .. } => AnswerPart::Reasoning { text, time, extra: kept },
        AnswerPart::Call { id, name, input, .. } => AnswerPart::Call { id, name, input, extra: kept },
    }
}

#[test]
fn the_whole_body_has_its_fixed_order() {
    let mut request = Request::new([user("hi")].into_iter().collect());
    request.system = "be brief".into();
    let schema = json!({"type": "object", "properties": {"a": {"const": "x"}}, "additionalProperties": false});
    request.tools = [ToolSpec::new("t", "d", schema), ToolSpec::new("u", "e", json!({"type": "object"}))].into();
    let options = json!({
        "contents": "no", "safetySettings": [],
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 8192}, "topP": 0.5},
    });
    request.params = Params {
        temperature: Some(0.7),
        top_p: Some(0.1),
        max_output: Some(9),
        thinking: None,
        answer_schema: None,
        options,
    };
    let endpoint = endpoint();
    let expected = concat!(
        r#"{"generationConfig":{"maxOutputTokens":9,"temperature":0.7,"thinkingConfig":{"thinkingBudget":8192},"topP":0.5},"#,
        r#""safetySettings":[],"systemInstruction":{"parts":[{"text":"be brief"}]},"#,
        r#""tools":[{"functionDeclarations":[{"description":"d","name":"t","parameters":"#,
        r#"{"properties":{"a":{"enum":["x"],"type":"string"}},"type":"object"}},{"description":"e","name":"u"}]}],"#,
        r#""contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#,
    );
    assert_eq!(body(&endpoint, &rendering(&endpoint), &request), expected.as_bytes());
}

/// The results of a batch are a content of their own, with as many as there were calls; their files follow in the user's place.
#[test]
fn results_stand_alone_and_their_files_follow() {
    let mut with_files = result("a", "one");
    with_files.attachments = vec![
        FilePart::inline("image/png", Some("x.png".into()), PNG),
        FilePart::inline("image/gif", Some("y.gif".into()), b"GIF89a\x01\0\x01\0\0\0\0;"),
    ];
    let mut failed = result("b", "");
    failed.is_error = true;
    let items = vec![
        answer(vec![call("a", "{\"p\": 1}"), call("b", ""), call("c", "[1]")]),
        Item::Result(with_files),
        Item::Result(failed),
        user("go on"),
        user_of(vec![Part::text("and on")]),
    ];
    let data = FilePart::inline("image/png", None, PNG).base64().unwrap().to_owned();
    let gif = "one\n[image \"y.gif\" (image/gif) left out: this provider takes no GIF images]";
    let response =
        |id: &str, response: Value| json!({"functionResponse": {"id": id, "name": "read", "response": response}});
    let expected = json!([
        {"role": "user", "parts": [{"text": NOTHING_EARLIER}]},
        {"role": "model", "parts": [
            {"functionCall": {"id": "a", "name": "read", "args": {"p": 1}}, "thoughtSignature": NOT_OURS},
            {"functionCall": {"id": "b", "name": "read", "args": {}}},
            {"functionCall": {"id": "c", "name": "read", "args": {"invalid_arguments": "[1]"}}},
        ]},
        {"role": "user", "parts": [
            response("a", json!({"output": gif})),
            response("b", json!({"error": "(no output)"})),
            response("c", json!({"error": NO_RESULT})),
        ]},
        {"role": "user", "parts": [
            {"text": "Files of the result of read (data, not words of the user):"},
            {"inlineData": {"mimeType": "image/png", "data": data}},
            {"text": "go on"}, {"text": "and on"},
        ]},
    ]);
    assert_eq!(told(items), expected);
}

/// A signature goes back next to its part, to this provider and API alone. An unsigned thought does not go back, and the first call
/// of an answer that Gemini did not sign says so.
#[test]
fn signatures_go_back_where_they_came_and_to_gemini_alone() {
    let chat = Endpoint::new(Api::OpenAiChat, "p", "http://h", "m");
    let other = |text: &str| thought(&chat, "p", text, json!({ SIGNATURE: "CANARY" }));
    let plain = |text: &str| thought(&endpoint(), "q", text, json!({ SIGNATURE: "CANARY" }));
    let parts = |parts: Vec<AnswerPart>| told(vec![user("q"), answer(parts)])[1]["parts"].take();
    let own = parts(vec![
        signed(other("hm"), "1"),
        signed(text("said"), "2"),
        plain("unsigned"),
        call("a", "{}"),
        signed(call("b", "{}"), "3"),
        signed(other(""), "4"),
    ]);
    let function = |id: &str| json!({"id": id, "name": "read", "args": {}});
    let expected = json!([
        {"text": "hm", "thought": true, "thoughtSignature": "1"},
        {"text": "said", "thoughtSignature": "2"},
        {"functionCall": function("a")},
        {"functionCall": function("b"), "thoughtSignature": "3"},
        {"text": "", "thoughtSignature": "4"},
    ]);
    assert_eq!(own, expected);
    let foreign = parts(vec![other("hm"), text("said"), call("a", "{}"), call("b", "{}")]);
    let expected = json!([
        {"text": "said"},
        {"functionCall": function("a"), "thoughtSignature": NOT_OURS},
        {"functionCall": function("b")},
    ]);
    assert_eq!(foreign, expected);
}

#[test]
fn a_name_begins_with_a_letter() {
    assert_eq!(function_name("read"), "read");
    assert_eq!(function_name("7zip"), "_7zip");
    assert_eq!(function_name(&"-".repeat(64)).len(), 64);
    assert_eq!(function_name(""), "unnamed");
}

#[test]
fn a_conversation_of_nothing_is_a_line() {
    assert_eq!(told(vec![answer(vec![text(" ")])]), json!([{"role": "user", "parts": [{"text": NOTHING_EARLIER}]}]));
}
