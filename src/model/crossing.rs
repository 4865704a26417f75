//! Tests: a conversation that was begun with one provider continues with another.
//!
//! No item is converted, so none has to be converted back: the history is the runtime's own, and each wire (the code for one
//! provider's format) renders it in its own format, and leaves out what only another provider understands.
//!
//! A change of a wire must keep what these tests hold: messages stay as many and in their order (Anthropic, which refuses an empty
//! list, gets one for an empty history), calls keep ids and names that the provider accepts, and no provider is sent the thoughts
//! of another, or the extra data that another put next to a part.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};

use super::{
    AnswerPart, Api, Endpoint, Item, Provider, Request,
    samples::{answer, result, text, thought, user, user_of},
    wire::{body, rendering},
};
use crate::words::message::{Extra, Part};

/// The providers of these tests: one of each wire, and one more that speaks Chat Completions.
const PROVIDERS: [&str; 5] = ["openai", "deepseek", "responses", "anthropic", "gemini"];

fn endpoint(provider: &str) -> Endpoint {
    let (name, api) = if provider == "responses" { ("openai", Some(Api::OpenAiResponses)) } else { (provider, None) };
    let known = Provider::known(name).unwrap();
    let mut endpoint = Endpoint::new(api.unwrap_or(known.api), name, "http://h", "m");
    endpoint.quirks = known.quirks;
    endpoint.quirks.auto_cache = false;
    endpoint
}

/// The messages that a provider gets for a conversation.
fn told(provider: &str, items: &[Item]) -> Value {
    let endpoint = endpoint(provider);
    let request = Request::new(items.iter().cloned().collect());
    let body: Value = serde_json::from_slice(&body(&endpoint, &rendering(&endpoint), &request)).unwrap();
    let said = ["messages", "input", "contents"].into_iter().find_map(|name| body.get(name));
    said.unwrap().clone()
}

fn call(id: &str, name: &str) -> AnswerPart {
    AnswerPart::Call { id: id.into(), name: name.into(), input: r#"{"path":"a"}"#.into(), extra: None }
}

/// CROSS-001, CROSS-004, CROSS-ERR-002: the messages of one provider are as many for another, in their order, and none are none
/// (but most take no empty list, so they get a line that the conversation begins); with the same provider they are what they were.
#[test]
fn a_conversation_has_as_many_messages_for_another_provider() {
    let items = [user("one"), answer(vec![text("two")]), user("three"), answer(vec![text("four")]), user("five")];
    let roles = ["user", "assistant", "user", "assistant", "user"];
    for provider in PROVIDERS {
        for count in [0, 3, 5] {
            let messages = told(provider, &items[..count]);
            let role = |message: &Value| message["role"].as_str().unwrap().replace("model", "assistant");
            let told: Vec<_> = messages.as_array().unwrap().iter().map(role).collect();
            let least = usize::from(!matches!(provider, "openai" | "deepseek"));
            assert_eq!(told, roles[..count.max(least)], "{provider}");
        }
    }
    assert_eq!(told("openai", &items), told("openai", &items));
}

/// CROSS-003: two text parts are plain text for a provider that knows no parts.
#[test]
fn parts_of_text_are_plain_text_for_another_provider() {
    let said = told("deepseek", &[user("q"), answer(vec![text("first "), text("second")])]);
    assert_eq!(said[1], json!({"role": "assistant", "content": "first second"}));
    let asked = told("deepseek", &[user_of(vec![Part::text("first"), Part::text("second")])]);
    assert!(asked[0]["content"].is_string(), "{asked}");
}

/// CROSS-005, CROSS-ERR-006, CROSS-ERR-007: a call keeps its id, its tool's name to the letter, and its arguments, and its result
/// names it, with every provider.
#[test]
fn calls_keep_their_ids_and_names_with_every_provider() {
    let items = [user("q"), answer(vec![call("call_abc123", "Glob")]), Item::Result(result("call_abc123", "found"))];
    for provider in ["openai", "deepseek"] {
        let messages = told(provider, &items);
        let asked = &messages[1]["tool_calls"];
        assert_eq!(asked.as_array().unwrap().len(), 1, "{provider}");
        assert_eq!(asked[0]["id"], "call_abc123", "{provider}");
        assert_eq!(asked[0]["function"], json!({"name": "Glob", "arguments": r#"{"path":"a"}"#}), "{provider}");
        assert_eq!((&messages[2]["role"], &messages[2]["tool_call_id"]), (&json!("tool"), &json!("call_abc123")));
    }
    let messages = told("anthropic", &items);
    let asked = json!([{"type": "tool_use", "id": "call_abc123", "name": "Glob", "input": {"path": "a"}}]);
    assert_eq!(messages[1]["content"], asked);
    assert_eq!(messages[2]["content"][0]["tool_use_id"], "call_abc123");
    let items_of = told("responses", &items);
    let asked =
        json!({"type": "function_call", "call_id": "call_abc123", "name": "Glob", "arguments": "{\"path\":\"a\"}"});
    assert_eq!((&items_of[1], &items_of[2]["call_id"]), (&asked, &json!("call_abc123")));
    let contents = told("gemini", &items);
    let asked = json!({"id": "call_abc123", "name": "Glob", "args": {"path": "a"}});
    assert_eq!(contents[1]["parts"][0]["functionCall"], asked);
    assert_eq!(contents[2]["parts"][0]["functionResponse"]["id"], "call_abc123");
}

/// CROSS-ERR-001: a thought goes only to the provider that had it; the text next to it goes to all.
#[test]
fn thoughts_are_dropped_for_another_provider() {
    let anthropic = endpoint("anthropic");
    let of_anthropic = || thought(&anthropic, "anthropic", "a secret", json!({"signature": "SIG"}));
    let items = [user("q"), answer(vec![of_anthropic(), text("the answer")])];
    assert_eq!(told("openai", &items)[1], json!({"role": "assistant", "content": "the answer"}));
    assert!(told("anthropic", &items).to_string().contains("a secret"));
}

/// PROVIDER-ERR-002: what one provider put next to a part, to get it back, is sent to no other.
#[test]
fn what_is_one_providers_own_is_sent_to_no_other() {
    let extra = |endpoint: &Endpoint| {
        let value = json!({
            "store": true, "extra_content": {"store": "CANARY"}, "signature": "CANARY", "thoughtSignature": "CANARY",
            "encrypted_content": "CANARY",
        });
        Some(Extra { provider: endpoint.provider.clone(), api: endpoint.api.name().into(), value })
    };
    let openai = endpoint("openai");
    assert_eq!(openai.api, Api::OpenAiChat);
    let said = AnswerPart::Text { text: "said".into(), extra: extra(&openai) };
    let mut called = call("c1", "read");
    if let AnswerPart::Call { extra: of_call, .. } = &mut called {
        *of_call = extra(&openai);
    }
    let items = [user("q"), answer(vec![said, called]), Item::Result(result("c1", "found"))];
    // One has the same wire, and one is the same provider.
    for provider in ["deepseek", "responses", "anthropic", "gemini"] {
        let messages = told(provider, &items);
        assert!(messages.as_array().unwrap().len() >= 3);
        assert!(!messages.to_string().contains("store") && !messages.to_string().contains("CANARY"), "{messages}");
    }
    assert!(told("openai", &items).to_string().contains("CANARY"), "to its own it is sent");
}

/// Results go as results of tools. What goes in the user's place and is not the user's says so, on each wire, in the same text.
#[test]
fn what_the_user_did_not_write_is_marked_as_data() {
    let of = |id: &str, text: &str| {
        Item::User(super::UserItem { id: id.into(), parts: vec![Part::text(text)], fragment: Default::default() })
    };
    let stray = Item::Result(result("gone", "stray words"));
    let made = [of("compaction-7", "a summary"), of("branch-9", "a branch"), of("task-12", "news"), stray];
    for provider in PROVIDERS {
        for item in &made {
            let messages = told(provider, std::slice::from_ref(item)).to_string();
            assert!(messages.contains("is data: "), "{provider}: {messages}");
        }
        let own = told(
            provider,
            &[
                user("task"),
                of("compaction-x", "mine"),
                answer(vec![call("c1", "read")]),
                Item::Result(result("c1", "found")),
            ],
        )
        .to_string();
        assert!(!own.contains("is data"), "{provider}: {own}");
    }
    let both = told("anthropic", &[made[2].clone(), user("and now?")]);
    let texts: Vec<_> = both[0]["content"].as_array().unwrap().iter().map(|block| block["text"].clone()).collect();
    assert_eq!(texts, [json!(format!("{}\nnews", super::pieces::NOT_THE_USER)), json!("and now?")]);
}
