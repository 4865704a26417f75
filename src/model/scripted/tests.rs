//! The scripted model, by what a session would see of it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::{
    model::{Delta, History, UserItem},
    words::usage::Usage,
};

fn said(text: &str) -> Item {
    Item::User(UserItem { id: "m".into(), parts: vec![Part::text(text)], fragment: Default::default() })
}

fn answered() -> Item {
    Item::Assistant(ModelAnswer::new(vec![], Finish::Stop))
}

fn request(key: &str, items: Vec<Item>) -> Request {
    let mut request = Request::new(items.into_iter().collect::<History>());
    request.key = key.into();
    request
}

fn after(answers: usize) -> Request {
    request("", (0..answers).map(|_| answered()).collect())
}

async fn ask(script: &Scripted, request: &Request) -> Result<ModelAnswer, ModelError> {
    script.stream(request, &mut |_: Delta| {}).await
}

async fn text(script: &Scripted, request: &Request) -> String {
    ask(script, request).await.map_or_else(|error| format!("error: {error}"), |answer| answer.text())
}

#[tokio::test]
async fn replies_come_in_order_and_then_the_script_is_exhausted() {
    let script = Scripted::new(["one".into(), "two".into()]);
    assert_eq!(text(&script, &after(0)).await, "one");
    assert_eq!(text(&script, &after(0)).await, "two");
    assert_eq!(text(&script, &after(0)).await, "error: script exhausted after 2 replies");
    assert_eq!(script.requests().len(), 3);
}

#[tokio::test]
async fn an_answer_has_its_parts_its_finish_and_its_usage() {
    let usage = Usage { input: 3, ..Usage::default() };
    let reply = Reply::empty()
        .with_reasoning("hm")
        .with_text("a")
        .with_text("b")
        .with_call("read", json!({"path": "x"}))
        .with_raw_call("mine", "bash", "{cut")
        .with_usage(usage);
    let script = Scripted::new([reply, Reply::text("x").with_finish(Finish::Length)]);
    let mut deltas = Vec::new();
    let answer = script.stream(&after(0), &mut |delta| deltas.push(delta)).await.unwrap();
    assert_eq!((answer.finish, answer.usage, answer.text().as_str()), (Finish::ToolCalls, usage, "ab"));
    let AnswerPart::Call { id, input, .. } = &answer.parts[2] else { panic!("{answer:?}") };
    assert_eq!((id.as_str(), input.as_str()), ("call_0", "{\"path\":\"x\"}"));
    assert!(matches!(&answer.parts[3], AnswerPart::Call { id, input, .. } if id.as_str() == "mine" && input == "{cut"));
    assert_eq!(deltas.iter().filter(|delta| matches!(delta, Delta::Text(_))).count(), 2);
    assert_eq!(ask(&script, &after(0)).await.unwrap().finish, Finish::Length);
}

/// Crash recovery: the same request gets the same answer, after anything in between.
#[tokio::test]
async fn a_key_seen_before_gets_the_reply_it_got_before() {
    let script = Scripted::new(["one".into(), "two".into()]);
    assert_eq!(text(&script, &request("a", vec![])).await, "one");
    assert_eq!(text(&script, &request("b", vec![])).await, "two");
    assert_eq!(text(&script, &request("a", vec![])).await, "one");
}

/// Across restarts: a new process finds its place by the answers in the history.
#[tokio::test]
async fn by_answers_the_history_chooses_the_reply() {
    let error = || Reply::error(ModelError::new(ErrorKind::Server, "down"));
    let script =
        || Scripted::from_list(["zero".into(), error(), error(), "one".into(), "two".into()], ScriptBy::Answers);
    let first = script();
    assert_eq!(text(&first, &after(0)).await, "zero");
    assert_eq!(text(&first, &after(1)).await, "error: down");
    assert_eq!(text(&first, &after(1)).await, "error: down");
    assert_eq!(text(&first, &after(1)).await, "one");
    assert_eq!(text(&first, &after(1)).await, "one");
    let restarted = script();
    assert_eq!(text(&restarted, &after(2)).await, "two");
    assert_eq!(text(&restarted, &after(3)).await, "error: script exhausted after 5 replies");
    assert_eq!(text(&restarted, &after(0)).await, "zero");
}

#[tokio::test]
async fn conditions_and_expectations_look_at_the_request() {
    let replies =
        ["zero".into(), Reply::text("sum").when("Summarise"), Reply::text("child").when("task").when_answers(1)];
    let script = Scripted::from_list(replies, ScriptBy::Answers);
    assert_eq!(text(&script, &request("", vec![said("Summarise it")])).await, "sum");
    assert_eq!(text(&script, &request("", vec![said("a task")])).await, "zero");
    assert_eq!(text(&script, &request("", vec![said("a task"), answered()])).await, "child");
    let script = Scripted::new([Reply::text("x").expecting("user: hello")]);
    let expected = "error: the script expects \"user: hello\" in the request, and it is not there";
    assert_eq!(text(&script, &request("k", vec![said("goodbye")])).await, expected);
    assert_eq!(text(&script, &request("k", vec![said("hello")])).await, "x");
}

#[tokio::test]
async fn a_function_may_choose_the_reply() {
    let script = Scripted::from_fn(|request| Reply::text(format!("{} items", request.history.len())));
    assert_eq!(text(&script, &after(3)).await, "3 items");
}

#[tokio::test(start_paused = true)]
async fn waits_are_on_the_virtual_clock() {
    let script = Scripted::new([Reply::text("a").waiting(Duration::from_secs(3600)).with_text("b")]);
    let began = tokio::time::Instant::now();
    assert_eq!(text(&script, &after(0)).await, "ab");
    assert_eq!(began.elapsed().as_secs(), 3600);
}

#[tokio::test]
async fn a_barrier_holds_the_reply_until_it_is_released() {
    let script =
        Scripted::new([Reply::text("a").at_barrier("gate").with_text("b"), Reply::text("c").at_barrier("gate")]);
    let gate = script.barrier("gate");
    let (own, first) = (script.clone(), after(0));
    let running = tokio::spawn(async move { text(&own, &first).await });
    gate.reached().await;
    assert_eq!((running.is_finished(), script.streaming()), (false, 1));
    gate.release();
    assert_eq!(running.await.unwrap(), "ab");
    assert_eq!((text(&script, &after(0)).await.as_str(), script.streaming()), ("c", 0));
}

#[tokio::test]
async fn hangs_panics_and_cut_streams_are_played() {
    let replies = [Reply::text("half").hanging(), Reply::empty().panicking("boom"), Reply::text("half").truncated()];
    let script = Scripted::new(replies);
    let mut deltas = Vec::new();
    let asked = after(0);
    let mut push = |delta| deltas.push(delta);
    {
        let hanging = script.stream(&asked, &mut push);
        assert!(futures_util::FutureExt::now_or_never(hanging).is_none());
    }
    assert_eq!((deltas, script.streaming()), (vec![Delta::Text("half".into())], 0));
    let own = script.clone();
    let panicked = tokio::spawn(async move { ask(&own, &after(0)).await.map(|_| ()) }).await.unwrap_err();
    assert_eq!(panicked.into_panic().downcast_ref::<String>().unwrap(), "boom");
    assert_eq!(ask(&script, &after(0)).await.unwrap_err().kind, ErrorKind::Truncated);
    assert_eq!(script.streaming(), 0);
}

/// The example in the documentation is played, and plays as it says.
#[tokio::test(start_paused = true)]
async fn the_example_of_the_formats_page_works() {
    let page = include_str!("../../../docs/FORMATS.md");
    let section = page.split("## Scripted model file").nth(1).unwrap();
    let example = section.split("```json").nth(1).unwrap().split("```").next().unwrap();
    let script = Scripted::from_json(example).unwrap();
    let answer = ask(&script, &after(0)).await.unwrap();
    assert_eq!((answer.text().as_str(), answer.usage.input), ("I read the file.", 120));
    let limited = ask(&script, &after(1)).await.unwrap_err();
    assert_eq!((limited.kind, limited.status, limited.retry_after_ms), (ErrorKind::RateLimited, Some(429), Some(250)));
    assert!(text(&script, &after(1)).await.contains("expects \"result read\""));
    assert_eq!(
        text(&script, &request("", vec![said("Summarise the conversation now")])).await,
        "They talked about gongs."
    );
    assert_eq!(text(&script, &after(2)).await, "Goodbye.");
}

#[test]
fn every_field_of_a_file_is_read_and_an_unknown_one_is_named() {
    let all = json!({
        "model": "scripted/demo", "by": "order", "limits": {"context": 10, "output": 5, "images": false},
        "replies": [
            {"barrier": "b", "delay_ms": 1, "reasoning": "r", "text": ["a", "b"], "chunk_delay_ms": 2,
             "calls": [{"name": "t", "id": "i", "input_text": "{"}], "finish": "length", "expect": ["x"]},
            {"beats": [{"text": "a"}, {"reasoning": "r"}, {"call": {"name": "t"}}, {"delay_ms": 1}, {"barrier": "b"}]},
            {"hang": true}, {"panic": "p"}, {"truncated": true}, {"when": ["x"], "answers": 2, "text": "t"},
        ],
    });
    let script = Scripted::from_json(&all.to_string()).unwrap();
    assert_eq!((script.id().to_string().as_str(), script.limits().context), ("scripted/demo", 10));
    let Choice::List { replies, by } = &script.shared.choice else { panic!("not a list") };
    assert_eq!((replies.len(), replies[0].beats.len(), replies[1].beats.len(), *by), (6, 7, 5, ScriptBy::Order));
    let bad = |text: &str| Scripted::from_json(text).err().unwrap().to_string();
    assert!(bad("{").starts_with("bad script: the file: EOF"), "{}", bad("{"));
    let typo = bad(r#"{"replies": ["a", {"txt": "x"}]}"#);
    assert!(typo.starts_with("bad script: replies[1].txt: unknown field `txt`"), "{typo}");
    let kind = bad(r#"{"replies": [{"error": {"kind": "no"}}]}"#);
    assert!(kind.starts_with("bad script: replies[0].error.kind: unknown variant"), "{kind}");
}

/// A key that came again is remembered from its newest request on.
#[tokio::test]
async fn a_key_that_is_asked_again_keeps_its_reply() {
    let replies = (0..3).map(|n| Reply::text(n.to_string()));
    let script = Scripted::new(replies);
    assert_eq!(text(&script, &request("k", vec![])).await, "0");
    assert_eq!(text(&script, &request("other", vec![])).await, "1");
    assert_eq!(text(&script, &request("k", vec![])).await, "0");
    for _ in 0..REQUESTS_MAX - 1 {
        text(&script, &request("other", vec![])).await;
    }
    assert_eq!(text(&script, &request("k", vec![])).await, "0");
}
