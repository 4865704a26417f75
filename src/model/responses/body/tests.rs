//! Bodies as a strict server would read them.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use super::*;
use crate::{
    model::{
        Api, History, Item, Params, ToolSpec,
        samples::{PNG, answer, call, result, text, thought, user, user_of},
        wire::rendering,
    },
    words::message::{FilePart, Part},
};

fn endpoint() -> Endpoint {
    Endpoint::new(Api::OpenAiResponses, "p", "http://h", "m")
}

fn rendered(endpoint: &Endpoint, request: &Request) -> Value {
    serde_json::from_slice(&body(endpoint, &rendering(endpoint), request)).unwrap()
}

fn input(items: Vec<Item>) -> Value {
    rendered(&endpoint(), &Request::new(items.into_iter().collect()))["input"].take()
}

#[test]
fn the_whole_body_has_its_fixed_order() {
    let mut request = Request::new([user("hi")].into_iter().collect());
    request.system = "be brief".into();
    request.tools = [ToolSpec::new("t", "d", json!({"type": "object"}))].into();
    let options = json!({"reasoning": {"effort": "high"}, "instructions": "no", "input": "no"});
    request.params = Params {
        temperature: Some(0.7),
        top_p: None,
        max_output: Some(9),
        thinking: None,
        answer_schema: None,
        options,
    };
    let endpoint = endpoint();
    let expected = concat!(
        r#"{"model":"m","stream":true,"store":false,"include":["reasoning.encrypted_content"],"max_output_tokens":16,"#,
        r#""temperature":0.7,"reasoning":{"effort":"high"},"instructions":"be brief","#,
        r#""tools":[{"description":"d","name":"t","parameters":{"properties":{},"type":"object"},"strict":false,"type":"function"}],"#,
        r#""input":[{"content":[{"text":"hi","type":"input_text"}],"role":"user","type":"message"}]}"#,
    );
    assert_eq!(body(&endpoint, &rendering(&endpoint), &request), expected.as_bytes());
}

/// Options beside the schema leave it there; where they replace it, the model is told it in words.
#[test]
fn a_schema_stays_beside_the_options_or_is_told() {
    let schema = crate::model::AnswerSchema::new(json!({"type": "object"})).unwrap();
    let sent = |text: Value| {
        let mut request = Request::new([user("hi")].into_iter().collect());
        request.params =
            Params { answer_schema: Some(schema.clone()), options: json!({ "text": text }), ..Params::default() };
        let body = rendered(&endpoint(), &request);
        (body["text"].clone(), body["input"].to_string().contains("JSON alone"))
    };
    let (text, is_told) = sent(json!({"verbosity": "low"}));
    assert_eq!((&text["verbosity"], &text["format"]["type"], is_told), (&json!("low"), &json!("json_schema"), false));
    assert_eq!(sent(json!({"format": {"type": "text"}})), (json!({"format": {"type": "text"}}), true));
}

/// A model that does not think refuses to be asked for its thoughts; what the host says of it wins.
#[test]
fn thoughts_are_asked_for_where_a_model_may_have_some() {
    let asked = |model: &str, options: Value| {
        let endpoint = Endpoint { model: model.into(), ..endpoint() };
        let mut request = Request::new([user("hi")].into_iter().collect());
        request.params.options = options;
        rendered(&endpoint, &request)["include"].clone()
    };
    let encrypted = json!(["reasoning.encrypted_content"]);
    for (model, expected) in [
        ("gpt-5.1", &encrypted),
        ("o4-mini", &encrypted),
        ("openai/gpt-4o", &Value::Null),
        ("gpt-4.1-mini", &Value::Null),
        ("never-heard-of", &encrypted),
    ] {
        assert_eq!(asked(model, Value::Null), *expected, "{model}");
    }
    assert_eq!(asked("my-deployment", json!({"include": []})), json!([]));
}

/// Calls, results and files: a result takes its files itself.
#[test]
fn calls_results_and_their_files_are_items() {
    let mut with_files = result("a", "");
    with_files.attachments = vec![
        FilePart::inline("image/png", Some("x.png".into()), PNG),
        FilePart::inline("application/pdf", Some("y.pdf".into()), b"%PDF"),
        FilePart::inline("application/zip", None, b"PK"),
    ];
    let long = "x".repeat(65);
    let items = vec![
        answer(vec![text(" "), call("a", "{\"p\": 1}"), call(&long, "")]),
        Item::Result(with_files),
        Item::Result(result(&long, "two")),
        user_of(vec![Part::text("see"), Part::text("this")]),
    ];
    let told = input(items);
    let short = told[1]["call_id"].as_str().unwrap().to_owned();
    assert!(short.len() <= 64, "{short}");
    let url = |kind, bytes: &[u8]| FilePart::inline(kind, None, bytes).url;
    let left_out = "[file \"unnamed\" (application/zip) left out: this model cannot be sent it]";
    let expected = json!([
        {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{\"p\": 1}"},
        {"type": "function_call", "call_id": short, "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": [
            {"type": "input_text", "text": NO_OUTPUT},
            {"type": "input_image", "image_url": url("image/png", PNG), "detail": "auto"},
            {"type": "input_file", "filename": "y.pdf", "file_data": url("application/pdf", b"%PDF")},
            {"type": "input_text", "text": left_out},
        ]},
        {"type": "function_call_output", "call_id": short, "output": "two"},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "see"}, {"type": "input_text", "text": "this"},
        ]},
    ]);
    assert_eq!(told, expected);
}

/// A thought goes back as it came, in its place: before what it led to. One that led to nothing, or that another API or provider
/// had, stays here.
#[test]
fn a_thought_goes_back_before_what_it_led_to_and_to_its_own_api_alone() {
    let own = |text: &str| json!({"type": "reasoning", "summary": [], "encrypted_content": text});
    let of = |provider: &str, text: &str| thought(&endpoint(), provider, "shown", own(text));
    let chat = Endpoint::new(Api::OpenAiChat, "p", "http://h", "m");
    let told = input(vec![
        answer(vec![of("p", "one"), text("said"), of("p", "two"), call("a", "{}"), of("p", "nothing follows")]),
        answer(vec![of("q", "of another provider"), thought(&chat, "p", "t", own("of another API")), text("more")]),
        answer(vec![of("p", "cut short")]),
    ]);
    let kinds: Vec<_> = told.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    let expected = ["reasoning", "message", "reasoning", "function_call", "function_call_output", "message"];
    assert_eq!(kinds, expected);
    assert_eq!((&told[0], &told[2]), (&own("one"), &own("two")));
}

#[test]
fn a_conversation_of_nothing_is_a_line() {
    let said = input(vec![answer(vec![text(" ")])]);
    assert_eq!(said[0]["content"][0]["text"], NOTHING_EARLIER);
    assert_eq!(said.as_array().unwrap().len(), 1);
    let history: History = [user("x")].into_iter().collect();
    let mut request = Request::new(history);
    request.reminder = Some(" ".into());
    assert_eq!(rendered(&endpoint(), &request)["input"].as_array().unwrap().len(), 1);
}
