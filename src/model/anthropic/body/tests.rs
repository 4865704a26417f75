//! Bodies as the API would check them.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::model::Item;
use crate::{
    model::{
        Api, History, Params, ToolSpec,
        samples::{self, PNG, answer, call, result, text, user},
        wire::rendering,
    },
    words::message::Span,
};

fn thought(provider: &str, value: Value) -> AnswerPart {
    samples::thought(&endpoint(), provider, "hm", value)
}

fn failed(call: &str, content: &str) -> ToolResultItem {
    ToolResultItem { is_error: true, ..result(call, content) }
}

fn endpoint() -> Endpoint {
    Endpoint::new(Api::AnthropicMessages, "anthropic", "http://h", "m")
}

fn render(request: &Request) -> Value {
    serde_json::from_slice(&body(&endpoint(), &rendering(&endpoint()), request)).unwrap()
}

fn messages(items: Vec<Item>) -> Value {
    render(&Request::new(items.into_iter().collect()))["messages"].take()
}

#[test]
fn the_whole_body_has_its_fixed_order() {
    let mut request = Request::new([user("hi")].into_iter().collect());
    request.system = "be brief".into();
    request.tools = [ToolSpec::new("t", "d", json!({"type": "object"}))].into();
    request.params =
        Params { temperature: Some(0.5), options: json!({"thinking": {"type": "adaptive"}}), ..Params::default() };
    let mut endpoint = endpoint();
    endpoint.quirks.auto_cache = true;
    let expected = concat!(
        r#"{"model":"m","stream":true,"max_tokens":8192,"temperature":0.5,"#,
        r#""thinking":{"type":"adaptive"},"tools":[{"description":"d","input_schema":{"properties":{},"type":"object"},"name":"t","cache_control":{"type":"ephemeral"}}],"#,
        r#""system":[{"text":"be brief","type":"text","cache_control":{"type":"ephemeral"}}],"#,
        r#""messages":[{"role":"user","content":[{"text":"hi","type":"text","cache_control":{"type":"ephemeral"}}]}]}"#,
    );
    assert_eq!(body(&endpoint, &rendering(&endpoint), &request), expected.as_bytes());
}

/// B-21: results first, then the user's text, in one message; a call's arguments as an object.
#[test]
fn results_and_the_text_after_them_share_a_message() {
    let mut with_image = result("a", "see");
    with_image.attachments = vec![FilePart::inline("image/png", Some("x.png".into()), PNG)];
    let items = vec![
        user("one"),
        user("more"),
        answer(vec![text(" "), call("a", "{\"p\": 1}"), call("b.1", "[")]),
        Item::Result(with_image),
        Item::Result(failed("b.1", "")),
        user("steer"),
    ];
    let b_id = plain_id(&"b.1".into()).into_owned();
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "more"}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "read", "input": {"p": 1}},
            {"type": "tool_use", "id": b_id, "name": "read", "input": {"invalid_arguments": "["}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": FilePart::inline("", None, PNG).base64()}},
            ]},
            {"type": "tool_result", "tool_use_id": b_id, "content": "(no output)", "is_error": true},
            {"type": "text", "text": "steer"},
        ]},
    ]);
    assert_eq!(messages(items), expected);
}

/// C-p8: thoughts go back signed, to the one who signed them.
#[test]
fn thinking_goes_back_signed_and_only_to_its_own_provider() {
    let items = vec![
        user("q"),
        answer(vec![
            thought("anthropic", json!({"signature": "SIG"})),
            thought("anthropic", json!({"redacted": "SEALED"})),
            thought("minimax", json!({"signature": "THEIRS"})),
            AnswerPart::Reasoning { text: "unsigned".into(), time: Span::default(), extra: None },
            text("a"),
        ]),
        user("q"),
    ];
    let expected = json!([
        {"type": "thinking", "thinking": "hm", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "SEALED"},
        {"type": "text", "text": "a"},
    ]);
    assert_eq!(messages(items)[1]["content"], expected);
}

/// A server that signs nothing and wants its thoughts back gets them beside calls, and no other server does.
#[test]
fn an_unsigned_thought_goes_back_with_its_calls_where_the_server_wants_it() {
    let of = |back, provider: &str, parts: Vec<AnswerPart>| {
        let mut endpoint = endpoint();
        endpoint.quirks.reasoning = back;
        let thought = thought(provider, Value::Null);
        let items = [user("q"), answer([vec![thought], parts].concat()), Item::Result(result("a", "r"))];
        let request = Request::new(items.into_iter().collect());
        let body: Value = serde_json::from_slice(&body(&endpoint, &rendering(&endpoint), &request)).unwrap();
        body["messages"][1]["content"][0]["type"].clone()
    };
    let called = || vec![call("a", "{}")];
    assert_eq!(of(ReasoningBack::WithCalls, "anthropic", called()), "thinking");
    assert_eq!(of(ReasoningBack::Never, "anthropic", called()), "tool_use");
    assert_eq!(of(ReasoningBack::WithCalls, "another", called()), "tool_use");
    assert_eq!(of(ReasoningBack::WithCalls, "anthropic", vec![text("only said")]), "text");
}

/// Promise 12: over consecutive requests there are at most four marks; the last but one is where the request before ended, after
/// any number of calls; and without the marks each request is the beginning of the next.
#[test]
fn the_marks_stand_where_the_request_before_ended() {
    let mut endpoint = endpoint();
    endpoint.quirks.auto_cache = true;
    let name = rendering(&endpoint);
    let mark = std::str::from_utf8(MARK).unwrap();
    let mut history = History::default();
    let mut before: Option<String> = None;
    for step in 0..30 {
        match step % 3 {
            0 => history.push(user(&format!("go {step}"))),
            _ => {
                let ids: Vec<_> = (0..24).map(|n| format!("c{step}-{n}")).collect();
                history.push(answer(ids.iter().map(|id| call(id, "{}")).collect()));
                ids.iter().for_each(|id| history.push(Item::Result(result(id, "done"))));
                if step % 2 == 0 {
                    history.push(user("steer"));
                }
            }
        }
        let mut request = Request::new(history.clone());
        request.system = "be brief".into();
        request.tools = [ToolSpec::new("t", "d", json!({"type": "object"}))].into();
        request.reminder = (step % 5 == 4).then(|| "the last step".into());
        let sent = String::from_utf8(body(&endpoint, &name, &request).to_vec()).unwrap();
        let parsed: Value = serde_json::from_str(&sent).unwrap();
        assert!(matches!(sent.matches(mark).count(), 3 | 4), "{sent}");
        assert!(parsed["tools"][0]["cache_control"].is_object() && parsed["system"][0]["cache_control"].is_object());
        // What goes up to the last mark is what the next request finds kept at its last mark but one, or before it.
        let plain = sent.replace(mark, "");
        let last = sent.rfind(mark).unwrap();
        let kept = sent[..last].replace(mark, "");
        if let Some(before) = before {
            assert!(plain.starts_with(&before), "{before}\n{plain}");
            if step % 3 != 0 {
                let earlier = sent[..last].rfind(mark).unwrap();
                assert_eq!(sent[..earlier].replace(mark, ""), before, "step {step}");
            }
        }
        if step % 3 == 2 {
            history.push(answer(vec![text("done")]));
        }
        before = Some(kept);
    }
}

/// Promise 12
#[test]
fn a_body_up_to_its_last_block_is_the_beginning_of_the_next() {
    let steps: Vec<Vec<Item>> = vec![
        vec![user("one")],
        vec![
            answer(vec![thought("anthropic", json!({"signature": "S"})), call("a", "{}")]),
            Item::Result(result("a", "r")),
        ],
        vec![user("steering")],
        vec![answer(vec![text("ok")]), user("two")],
    ];
    let endpoint = endpoint();
    let mut history = History::default();
    let mut before = Vec::new();
    for step in steps {
        step.into_iter().for_each(|item| history.push(item));
        let mut request = Request::new(history.clone());
        request.tools = [ToolSpec::new("read", "d", json!({}))].into();
        let now = body(&endpoint, &rendering(&endpoint), &request);
        assert!(now.starts_with(&before), "{}", String::from_utf8_lossy(&now));
        before = now.strip_suffix(b"]}]}").unwrap().to_vec();
        request.reminder = Some("remember".into());
        assert!(body(&endpoint, &rendering(&endpoint), &request).starts_with(&before));
    }
}

/// V11
#[test]
fn whatever_the_history_holds_the_messages_begin_with_the_user_and_take_turns() {
    let cases = [
        vec![],
        vec![answer(vec![text("earlier")]), user("q")],
        vec![answer(vec![]), user("q")],
        vec![answer(vec![call("a", "{}")])],
        vec![Item::Result(result("z", "late"))],
        vec![user(" ")],
    ];
    for items in cases {
        let messages = messages(items);
        let messages = messages.as_array().unwrap();
        for (i, message) in messages.iter().enumerate() {
            assert_eq!(message["role"], ["user", "assistant"][i % 2], "{messages:?}");
            assert!(!message["content"].as_array().unwrap().is_empty(), "{messages:?}");
        }
        assert_eq!(messages.last().unwrap()["role"], "user", "{messages:?}");
    }
}

/// The last step of a turn offers no tools, but the API insists on them where the history has calls.
#[test]
fn without_tools_the_called_ones_are_named_and_forbidden() {
    let items = vec![user("q"), answer(vec![call("a", "{}"), call("b", "{}")]), Item::Result(result("a", "r"))];
    let body = render(&Request::new(items.into_iter().collect()));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert_eq!(body["tools"][0]["name"], "read");
    let plain = render(&Request::new([user("q")].into_iter().collect()));
    assert_eq!((&plain["tool_choice"], &plain["tools"]), (&Value::Null, &Value::Null));
}

/// A model with a number of tokens thinks behind its calls where it thought before them; the API refuses a change in mid-turn.
#[test]
fn a_change_of_level_waits_for_the_end_of_the_calls() {
    let endpoint = Endpoint { model: "claude-sonnet-4-5".into(), ..endpoint() };
    let signed = || thought("anthropic", json!({"signature": "S"}));
    let budget = |level, items: Vec<Item>| {
        let mut request = Request::new(items.into_iter().collect());
        request.params.thinking = level;
        let body: Value = serde_json::from_slice(&body(&endpoint, &rendering(&endpoint), &request)).unwrap();
        body["thinking"]["budget_tokens"].clone()
    };
    let called = |parts: Vec<AnswerPart>| {
        let answered = answer([parts, vec![call("a", "{}")]].concat());
        vec![user("q"), answered, Item::Result(result("a", "r"))]
    };
    let high = Some(Thinking::High);
    assert_eq!(budget(high, called(vec![])), Value::Null, "no thought before the calls");
    assert_eq!(budget(high, called(vec![thought("minimax", json!({"signature": "S"}))])), Value::Null);
    assert_eq!(budget(high, called(vec![signed()])), 4_096);
    for level in [None, Some(Thinking::Off)] {
        assert_eq!(budget(level, called(vec![signed()])), 1_024, "{level:?} behind a signed thought");
    }
    assert_eq!(budget(high, vec![user("q"), answer(vec![text("done")]), user("more")]), 4_096);
    let ended = || vec![user("q"), answer(vec![signed(), text("done")]), user("more")];
    assert_eq!(budget(Some(Thinking::Off), ended()), Value::Null);
}

#[test]
fn max_tokens_stays_within_what_the_model_takes() {
    let mut request = Request::new([user("q")].into_iter().collect());
    for (asked, sent) in [(None, 8192), (Some(100), 100), (Some(1 << 40), 8192), (Some(0), 1)] {
        request.params.max_output = asked;
        assert_eq!(render(&request)["max_tokens"], sent);
    }
}
