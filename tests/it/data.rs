//! What a host shows is data: one run's values, as the JSON that a service would send.

use std::sync::Arc;

use serde_json::{Value, json};
use tamtam::{
    Answer, Event, EventKind, Runtime, SessionOptions,
    model::{MicroUsd, Price, Reply, Scripted, Usage},
    ops::{ListedSession, SessionQuery},
    session::{ForkOptions, Point},
};

use crate::support::taped;

/// Keys are snake_case at every level, and no time, path or random id is left.
fn plain(mut value: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| {
                assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
                if matches!(name.as_str(), "created" | "last" | "workspace" | "bytes" | "time_ms") && !value.is_null() {
                    *value = json!(format!("<{name}>"));
                }
                walk(value);
            }),
            Value::Array(values) => values.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut value);
    value
}

#[tokio::test]
async fn what_a_host_shows_is_json_with_money_in_millionths() {
    let folder = taped::folder();
    let usage = Usage::new(100, 20);
    let model = Arc::new(Scripted::from_fn(move |_| Reply::text("Done.").with_usage(usage)));
    let price = Price::new(MicroUsd(2_500_000), MicroUsd(10_000_000));
    let prices = [(tamtam::model::Model::id(&*model).clone(), price)];
    let runtime =
        Runtime::builder().store(folder.path().join("store")).model(model).prices(prices).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).id("one".parse().unwrap())).await.unwrap();

    let mut shown = std::collections::BTreeMap::new();
    let receipt = session.prompt("hello").await.unwrap();
    shown.insert("receipt", json!({ "seq": receipt.seq, "disposition": receipt.disposition }));
    assert_eq!(json!(receipt)["message"], json!(receipt.message));
    let answer = receipt.wait().await.unwrap();
    shown.insert("answer", json!(answer));
    // A client has the same answer, to the millionth of a dollar.
    let read: Answer = serde_json::from_value(json!(answer)).unwrap();
    assert_eq!((json!(read), read.spent.cost.shown()), (json!(answer), answer.spent.cost.shown()));

    session.wait().await.unwrap();
    shown.insert("aborted", json!(session.abort("enough").await.unwrap()));
    let page = runtime.sessions(SessionQuery::default()).await.unwrap();
    shown.insert("listed", json!(page.sessions));
    let read: Vec<ListedSession> = serde_json::from_value(json!(page.sessions)).unwrap();
    assert_eq!(json!(read), json!(page.sessions));
    let messages = session.messages().await.unwrap();
    assert_eq!(messages.len(), 2);

    let fork = session.fork(ForkOptions::default()).await.unwrap();
    fork.prompt("more").await.unwrap().wait().await.unwrap();
    let merge = session.merge(fork.id()).await.unwrap();
    shown.insert("merge", json!({ "items": merge.items, "spent": json!(merge)["spent"] }));
    let deletion = runtime.delete(session.id()).await.unwrap();
    shown.insert("deletion", json!(deletion));
    shown.insert("leftover", json!(runtime.shutdown().await));
    insta::assert_json_snapshot!(plain(json!(shown)));
    for (point, text) in [
        (Point::At(tamtam::Seq(5)), r#"{"at":5}"#),
        (Point::BeforeMessage("m".into()), r#"{"before_message":"m"}"#),
        (Point::BeforeTurn(tamtam::Seq(7)), r#"{"before_turn":7}"#),
    ] {
        assert_eq!(
            (serde_json::to_string(&point).unwrap(), serde_json::from_str::<Point>(text).unwrap()),
            (text.into(), point)
        );
    }
}

/// A client written in Rust reads what the program prints.
#[test]
fn an_event_of_the_documentation_is_read() {
    let line = r#"{"v":1,"id":"17.0.2","session":"one","time":5,"turn":9,"event":"turn_finished","outcome":"budget","breach":{"resource":"usd","extent":"session","max":50,"used":40,"held":0,"needs":20},"text":"","messages":["m"],"usage":{"input":1,"output":2,"reasoning":0,"cache_read":0,"cache_write":0},"cost":40}"#;
    let event: Event = serde_json::from_str(line).unwrap();
    let EventKind::TurnFinished { outcome: tamtam::Outcome::Budget { breach, .. }, .. } = &event.kind else {
        panic!("{event:?}")
    };
    assert_eq!((breach.max, breach.used), (50_000_000, 40_000_000), "a value holds picodollars");
    assert_eq!(serde_json::from_str::<Value>(line).unwrap(), json!(event));
}
