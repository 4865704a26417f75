//! The event stream: complete and without doubles over every break, bounded for a slow client, and ended with a word.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::lab::{Frame, Lab};

/// The durable events of a tape from its beginning, by a client that never breaks off.
async fn all(lab: &Lab, session: &str, last: &str) -> Vec<Frame> {
    let mut events = lab.events(&format!("/v1/sessions/{session}/events?after=0"), "").await;
    let mut seen = Vec::new();
    while let Some(frame) = events.next().await {
        let is_last = frame.id == last;
        seen.push(frame);
        if is_last {
            break;
        }
    }
    seen
}

/// The client breaks off after every event, with each way to come again, and over a restart of the server: it sees each
/// durable event once and in order. Ids are those of the events.
#[tokio::test]
async fn a_client_that_breaks_off_anywhere_misses_and_doubles_nothing() {
    let lab = Lab::new().await;
    lab.session("s").await;
    for words in ["one", "read it", "two"] {
        lab.say("s", words).await;
    }
    let mut events = lab.events("/v1/sessions/s/events?after=0&deltas=0", "").await;
    let (mut finished, mut wanted) = (0, Vec::new());
    while finished < 3 {
        let frame = events.next().await.unwrap();
        assert_eq!(frame.id, frame.data["id"].as_str().unwrap(), "what replays is durable, and has its id");
        finished += usize::from(frame.data["event"] == "turn_finished");
        wanted.push(frame);
    }
    let has_siblings = wanted.windows(2).any(|two| {
        two[0].data["id"].as_str().unwrap().split('.').next() == two[1].data["id"].as_str().unwrap().split('.').next()
    });
    assert!(has_siblings, "an entry with several events is among them, or the test shows little");
    drop(events);
    let mut got: Vec<Frame> = Vec::new();
    while got.len() < wanted.len() {
        let last = got.last().map(|frame| frame.id.clone()).unwrap_or_else(|| "0".into());
        // Both ways; the header is newer than an address that repeats itself.
        let mut events = match got.len() % 2 {
            0 => lab.events(&format!("/v1/sessions/s/events?after={last}"), "").await,
            _ => lab.events("/v1/sessions/s/events?after=1", &format!("last-event-id: {last}\r\n")).await,
        };
        for _ in 0..1 + got.len() % 3 {
            got.extend(if got.len() < wanted.len() { events.next().await } else { None });
        }
    }
    assert_eq!(got, wanted);
    let folder = lab.end().await;
    let lab = Lab::over(folder, |options| options).await;
    let middle = &wanted[wanted.len() / 2];
    let mut events = lab.events(&format!("/v1/sessions/s/events?after={}", middle.id), "").await;
    for wanted in &wanted[wanted.len() / 2 + 1..] {
        assert_eq!(events.next().await.as_ref(), Some(wanted));
    }
    lab.end().await;
}

/// Clients that come and go at random while turns run, and the server restarts: each sees each durable event once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_reconnects_in_live_turns_miss_and_double_nothing() {
    let mut lab = Lab::new().await;
    lab.session("s").await;
    let (mut got, mut last): (Vec<Frame>, String) = (Vec::new(), "0".into());
    // A fixed row of numbers: the same breaks each time.
    let mut random = 7_u64;
    for round in 0..100 {
        if round == 50 {
            lab = Lab::over(lab.end().await, |options| options).await;
        }
        let mut events = lab.events(&format!("/v1/sessions/s/events?after={last}"), "").await;
        lab.post("/v1/sessions/s/messages", json!({ "text": if round % 3 == 0 { "read it" } else { "hello" } })).await;
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        for _ in 0..random >> 61 {
            let frame = events.next().await.unwrap();
            if !frame.id.is_empty() {
                last.clone_from(&frame.id);
                got.push(frame);
            }
        }
    }
    lab.runtime.session(&"s".parse().unwrap()).wait().await.unwrap();
    let mut events = lab.events(&format!("/v1/sessions/s/events?after={last}"), "").await;
    let state = lab.runtime.session(&"s".parse().unwrap()).state().await.unwrap();
    while got.last().is_none_or(|frame| {
        frame.data["event"] != "turn_finished" || frame.id.split('.').next() != Some(&state.seq.to_string())
    }) {
        let frame = events.next().await.unwrap();
        if !frame.id.is_empty() {
            got.push(frame);
        }
    }
    let wanted = all(&lab, "s", &got.last().unwrap().id).await;
    assert_eq!(got.len(), wanted.len());
    assert_eq!(got, wanted);
    lab.end().await;
}

/// Deltas come, have no id line, and can be left out.
#[tokio::test]
async fn deltas_have_no_id_line_and_can_be_left_out() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut with = lab.events("/v1/sessions/s/events", "").await;
    let mut without = lab.events("/v1/sessions/s/events?deltas=0", "").await;
    lab.post("/v1/sessions/s/messages", json!({ "text": "hello" })).await;
    let (mut kinds, mut rest) = (Vec::new(), Vec::new());
    for (events, kinds) in [(&mut with, &mut kinds), (&mut without, &mut rest)] {
        while let Some(frame) = events.next().await {
            let kind = frame.data["event"].as_str().unwrap().to_owned();
            assert_eq!(frame.id.is_empty(), kind == "text_delta", "{frame:?}");
            kinds.push(kind.clone());
            if kind == "turn_finished" {
                break;
            }
        }
    }
    assert!(kinds.contains(&"text_delta".into()), "{kinds:?}");
    kinds.retain(|kind| kind != "text_delta");
    assert_eq!(kinds, rest);
    lab.end().await;
}

/// Turns of three and a half megabytes of events: more than the ring of 32 MiB and the sockets hold together.
const TURNS: usize = 14;

/// A client that reads nothing for a while is told once how much it missed, and is cut. It comes again and misses nothing durable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_is_told_once_that_it_lagged_and_is_cut() {
    let lab = Lab::with(|mut options| {
        options.stall_time_max = Duration::from_secs(600);
        options
    })
    .await;
    lab.session("s").await;
    let mut slow = lab.events("/v1/sessions/s/events?after=0", "").await;
    let mut brisk = lab.events("/v1/sessions/s/events?deltas=0", "").await;
    let mut turns = 0;
    while turns < TURNS {
        lab.post("/v1/sessions/s/messages", json!({ "text": format!("{turns} {}", "x".repeat(900_000)) })).await;
        brisk.until("turn_finished").await;
        turns += 1;
    }
    let mut last = Frame::default();
    while let Some(frame) = slow.next().await {
        last = frame;
    }
    assert_eq!(last.event, "lagged");
    assert!(last.data["missed"].as_u64().unwrap() > 0, "{last:?}");
    let mut again = lab.events(&format!("/v1/sessions/s/events?after={}", slow.last), "").await;
    let mut finished = slow.count("turn_finished");
    while finished < turns {
        again.until("turn_finished").await;
        finished += 1;
    }
    lab.end().await;
}

/// A client that looks on is nobody to ask: where no other listens, a call that needs an answer is denied at once.
#[tokio::test]
async fn a_client_that_looks_on_is_not_asked() {
    let lab = Lab::new().await;
    lab.post("/v1/sessions", json!({ "id": "s", "asks_wait": false })).await;
    let mut looks_on = lab.events("/v1/sessions/s/events?looks_on=1", "").await;
    lab.post("/v1/sessions/s/messages", json!({ "text": "note it" })).await;
    assert_eq!(looks_on.until("call_finished").await["error"], "denied");
    looks_on.until("turn_finished").await;
    let mut person = lab.events("/v1/sessions/s/events", "").await;
    lab.post("/v1/sessions/s/messages", json!({ "text": "note it" })).await;
    let ask = person.until("ask").await["ask"].clone();
    lab.post(&format!("/v1/sessions/s/asks/{ask}"), json!({ "grant": "reject", "message": "no" })).await;
    person.until("turn_finished").await;
    lab.end().await;
}

/// A server that goes down finishes the turn, shows its end, and says when to come back. New messages are refused meanwhile.
#[tokio::test]
async fn a_server_that_goes_down_says_when_to_come_back() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    let mut tree = lab.events("/v1/tree/events", "").await;
    lab.post("/v1/sessions/s/messages", json!({ "text": "gate" })).await;
    lab.gate.entered.notified().await;
    let gate = lab.gate.clone();
    let (served, _folder) = lab.stop();
    gate.open();
    events.until("turn_finished").await;
    assert_eq!(events.until("draining").await, json!({ "retry_ms": 5000 }));
    assert_eq!(events.next().await, None);
    tree.until("draining").await;
    assert_eq!(tree.next().await, None);
    assert!(served.await.unwrap().is_empty());
}

/// The stream of a session that is deleted ends with a word, and is not opened again.
#[tokio::test]
async fn the_stream_of_a_deleted_session_ends() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events?after=0", "").await;
    lab.ask("DELETE", "/v1/sessions/s", Value::Null).await.ok();
    events.until("ended").await;
    assert_eq!(events.next().await, None);
    for path in ["/v1/sessions/s/events", "/v1/sessions/s/events?after=0"] {
        let refused = lab.try_events(path, "").await.err().unwrap();
        assert_eq!(refused.refused(), (404, "not_found".into()));
    }
    lab.end().await;
}

/// A client that reads nothing for too long is cut although nothing tells the server that it is gone: its place is free again.
#[tokio::test]
async fn a_client_that_stalls_is_cut() {
    let lab = Lab::with(|mut options| {
        (options.subscribers_max, options.stall_time_max) = (1, Duration::from_millis(50));
        options
    })
    .await;
    lab.session("s").await;
    let stalled = lab.events("/v1/sessions/s/events", "").await;
    let mut others = None;
    while others.is_none() {
        lab.post("/v1/sessions/s/messages", json!({ "text": "x".repeat(900_000) })).await;
        lab.runtime.session(&"s".parse().unwrap()).wait().await.unwrap();
        others = lab.try_events("/v1/sessions/s/events", "").await.ok();
    }
    drop(stalled);
    lab.end().await;
}

/// A host that serves the router by itself and ends its runtime: every stream ends, so that its server can.
#[tokio::test]
async fn streams_end_with_the_runtime() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    let mut tree = lab.events("/v1/tree/events", "").await;
    assert!(lab.runtime.shutdown().await.is_empty());
    for stream in [&mut events, &mut tree] {
        stream.until("ended").await;
        assert_eq!(stream.next().await, None);
    }
    lab.end().await;
}

/// One stream too many is refused, and has its place once another one ends. A quiet stream beats.
#[tokio::test]
async fn streams_have_a_bound_and_beat() {
    let lab = Lab::with(|mut options| {
        (options.subscribers_max, options.beat) = (1, Duration::from_millis(10));
        options
    })
    .await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    events.beat().await;
    let refused = lab.try_events("/v1/tree/events", "").await.err().unwrap();
    assert_eq!(refused.refused(), (503, "too_many".into()));
    assert!(refused.head.contains("retry-after"));
    drop(events);
    while lab.try_events("/v1/tree/events", "").await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lab.end().await;
}

/// A client that takes its connection away in mid-stream hurts nobody.
#[tokio::test]
async fn a_client_that_goes_away_is_forgotten() {
    let lab = Lab::with(|mut options| {
        options.beat = Duration::from_millis(5);
        options
    })
    .await;
    lab.session("s").await;
    for _ in 0..20 {
        drop(lab.events("/v1/sessions/s/events", "").await);
    }
    let mut half = tokio::net::TcpStream::connect(lab.at).await.unwrap();
    half.write_all(b"GET /v1/sessions/s/ev").await.unwrap();
    drop(half);
    lab.say("s", "hello").await;
    lab.end().await;
}

/// U-01, U-02, U-09, C-22: in the turn view each step is a message of its own, which begins with `turn_start`; all that belongs to it
/// has its id, and comes in the order of the view. A client that comes again gets each durable frame once.
#[tokio::test]
async fn the_turn_view_is_the_same_stream_under_the_names_of_a_front_end() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events?view=turns", "").await;
    lab.post("/v1/sessions/s/messages", json!({ "text": "read it" })).await;
    let mut live = Vec::new();
    loop {
        let frame = events.next().await.unwrap();
        let is_last = frame.data["type"] == "agent_complete";
        live.push(frame);
        if is_last {
            break;
        }
    }
    let shown = |frames: &[Frame]| -> Vec<(String, Value)> {
        frames
            .iter()
            .map(|frame| (frame.data["type"].as_str().unwrap().to_owned(), frame.data["turnId"].clone()))
            .collect()
    };
    let (one, two) = (live[0].data["turnId"].clone(), live[live.len() - 2].data["turnId"].clone());
    assert_ne!(one, two);
    let wanted = [
        ("turn_start", &one),
        ("stream_tool_call_start", &one),
        ("message.part.updated", &one),
        ("tool_call_end", &one),
        ("turn_end", &one),
        ("turn_start", &two),
        ("stream_chunk", &two),
        ("message.part.updated", &two),
        ("turn_end", &two),
        ("agent_complete", &Value::Null),
    ];
    assert_eq!(shown(&live), wanted.map(|(kind, id)| (kind.to_owned(), id.clone())));
    let durable: Vec<Frame> = live.into_iter().filter(|frame| !frame.id.is_empty()).collect();
    let mut got: Vec<Frame> = Vec::new();
    while got.len() < durable.len() {
        let last = got.last().map(|frame| frame.id.clone()).unwrap_or_else(|| "0".into());
        let mut events = lab.events("/v1/sessions/s/events?view=turns", &format!("last-event-id: {last}\r\n")).await;
        for _ in 0..1 + got.len() % 3 {
            got.extend(if got.len() < durable.len() { events.next().await } else { None });
        }
    }
    assert_eq!(got, durable);
    assert_eq!(lab.ask("GET", "/v1/sessions/s/events?view=odd", Value::Null).await.refused(), (422, "invalid".into()));
    lab.end().await;
}
