//! Promise 12 on the wire: what consecutive requests of a long session send, byte by byte, to servers of all kinds.
//!
//! The server does nothing but answer: two steps with calls and one with words, again and again, and a summary on
//! request. Its figures are left out, so the runtime estimates, and the same bytes come to the same decisions in every
//! run.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Outcome, Runtime, SessionOptions,
    model::{Api, Endpoint, HttpModel, HttpOptions, Reply, Scripted},
    permission::Profile,
    session::{CacheMissed, Entry, Next, Record, SUMMARY_SYSTEM},
    tools,
};

use crate::support::{
    fault_server::{FaultServer, Seen},
    streams::{APIS, Called, answer},
    taped,
};

/// Turns of three requests each.
const TURNS: usize = 42;

/// What the wire puts where the provider may keep the prefix: no part of what is compared, so it is taken out.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn is_summary(seen: &Seen) -> bool {
    seen.body.contains(&SUMMARY_SYSTEM[..40])
}

/// A server that plays the conversation, whatever it is asked.
async fn server(api: Api) -> FaultServer {
    FaultServer::answering(move |seen, before| {
        if is_summary(seen) {
            return answer(api, "## Goal\nRead on.", &[]);
        }
        let n = before.iter().filter(|seen| !is_summary(seen)).count();
        let call = |k: usize| {
            let input = json!({"path": "big.txt", "offset": n + k + 1, "limit": 120});
            Called { id: format!("call{n}x{k}"), tool: "read", input }
        };
        match n % 3 {
            0 => answer(api, "I look.", &[call(0)]),
            1 => answer(api, "", &[call(0), call(1)]),
            _ => answer(api, &format!("Answer {n}. {}", "It is so. ".repeat(1_200)), &[]),
        }
    })
    .await
}

/// What makes a request begin otherwise than the one before it, by its entry.
fn boundaries(entries: &[Entry]) -> Vec<Option<&'static str>> {
    let mut found = Vec::new();
    let mut since = None;
    for entry in entries {
        match &entry.record {
            Record::Pruned { .. } => since = Some("pruned"),
            Record::Compacted(_) => since = Some("compacted"),
            Record::Request(_) => found.push(since.take()),
            _ => {}
        }
    }
    found
}

/// The body up to where its messages end, without the marks.
fn said(api: Api, body: &str) -> String {
    let end = if matches!(api, Api::OpenAiChat | Api::OpenAiResponses) { "]}" } else { "]}]}" };
    let body = body.replace(MARK, "");
    body.strip_suffix(end).unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// How often and where the prefix is marked, against what the request before it ended with.
fn assert_marks(body: &str, before: Option<&str>) {
    let marks = body.matches(MARK).count();
    assert!((3..=4).contains(&marks), "{marks} marks");
    let parsed: Value = serde_json::from_str(body).unwrap();
    let marked = |value: &Value| value.get("cache_control").is_some();
    let tools = parsed["tools"].as_array().unwrap();
    assert_eq!(tools.iter().map(marked).collect::<Vec<_>>(), {
        let mut last = vec![false; tools.len()];
        *last.last_mut().unwrap() = true;
        last
    });
    assert_eq!(parsed["system"].as_array().unwrap().iter().map(marked).collect::<Vec<_>>(), [true]);
    let messages = parsed["messages"].as_array().unwrap();
    let blocks: Vec<&Value> = messages.iter().flat_map(|message| message["content"].as_array().unwrap()).collect();
    assert!(marked(blocks.last().unwrap()), "the end of the history is marked");
    // The first of those in the messages stands where the request before this one ended: that is what was kept of it.
    if let Some(before) = before {
        let start = body.find(r#""messages":["#).unwrap();
        let at = start + body[start..].find(MARK).unwrap();
        let up_to = format!("{}}}", &body[..at].replace(MARK, ""));
        assert_eq!(up_to, before, "the mark stands where the request before it ended");
    }
}

/// Promise 12, C-25: over 42 turns with calls each request begins, byte for byte, with the one before it, on each wire, except
/// where something was left out or summed up: those places are known from the tape, and there are no others. The marks for the
/// provider's cache are at most four and move with the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_begins_with_the_one_before_it_on_each_wire() {
    for api in APIS {
        let (folder, server) = (taped::folder(), server(api).await);
        let work = folder.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        let line = |n: usize| format!("{n} {}\n", "text and more ".repeat(10));
        std::fs::write(work.join("big.txt"), (0..400).map(line).collect::<String>()).unwrap();
        let mut endpoint = Endpoint::new(api, "p", server.url(), "m");
        endpoint.quirks.auto_cache = api == Api::AnthropicMessages;
        (endpoint.limits.context, endpoint.limits.output) = (140_000, 2_000);
        let mut options = HttpOptions::default();
        options.idle_timeout = Duration::from_secs(60);
        let model = Arc::new(HttpModel::new(endpoint, options).unwrap());
        let builder = Runtime::builder().store(folder.path().join("store")).model(model).tools(tools::full());
        let runtime = builder.start().await.unwrap();
        let session = runtime.create(SessionOptions::new(&work).profile(Profile::Auto)).await.unwrap();
        for turn in 0..TURNS {
            let answer = session.prompt(format!("turn {turn}: read on")).await.unwrap().wait().await.unwrap();
            assert_eq!((answer.outcome, answer.steps), (Outcome::Done, 3), "turn {turn}");
        }
        let entries = session.entries().await.unwrap();
        assert!(runtime.shutdown().await.is_empty());
        let bodies: Vec<String> =
            server.seen().into_iter().filter(|seen| !is_summary(seen)).map(|seen| seen.body).collect();
        let boundaries = boundaries(&entries);
        assert_eq!((bodies.len(), boundaries.len()), (3 * TURNS, 3 * TURNS), "{api:?}");
        let bare: Vec<String> = bodies.iter().map(|body| said(api, body)).collect();
        let mut broken = Vec::new();
        for at in 1..bare.len() {
            let goes_on = bare[at].starts_with(&bare[at - 1]);
            assert!(goes_on || boundaries[at].is_some(), "{api:?}: request {at} does not go on from the one before it");
            if !goes_on {
                broken.push(boundaries[at].unwrap_or_default());
            }
            if api == Api::AnthropicMessages {
                assert_marks(&bodies[at], goes_on.then_some(&*bare[at - 1]));
            }
        }
        // The other side: there were such places, of both kinds, and the cache was lost nowhere else.
        assert!(
            broken.contains(&"pruned") && broken.contains(&"compacted") && broken.len() < 20,
            "{api:?}: {broken:?}"
        );
    }
}

/// P4-21: what a provider could have read from its cache and did not is said with the step, and why.
#[tokio::test]
async fn a_step_that_came_from_no_cache_says_why() {
    let read = |tokens, cached| tamtam::model::Usage::new(tokens, 5).cache_read(cached);
    let usages = [read(9_000, 0), read(1_000, 9_000), read(11_000, 0), read(12_000, 0)];
    let replies = usages.map(|usage| Reply::text("so").with_usage(usage));
    let runtime = Runtime::builder().in_memory().model(Arc::new(Scripted::new(replies))).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(".")).await.unwrap();
    let mut events = session.events();
    let mut misses = Vec::new();
    for turn in 0..4 {
        if turn == 3 {
            session.configure(|settings| settings.system = "Be short.".into()).await.unwrap();
        }
        session.prompt("on").await.unwrap().wait().await.unwrap();
    }
    while misses.len() < 4 {
        let Some(Next::Event(event)) = events.next().await else { continue };
        if let EventKind::StepFinished { cache_miss, .. } = &event.kind {
            misses.push(cache_miss.map(|miss| (miss.tokens, miss.why)));
        }
    }
    use CacheMissed::{System, Unknown};
    assert_eq!(misses, [None, None, Some((10_000, Unknown)), Some((11_000, System))]);
    assert!(runtime.shutdown().await.is_empty());
}
