//! Sends: each is answered, and none is taken twice.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::lab::Lab;

/// 300 sends at the moment when a turn ends: each is answered, and sent again with its id none is doubled. Another message under an
/// id that was used is not this test's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_sends_at_the_end_of_a_turn_are_each_answered_once() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    lab.post("/v1/sessions/s/messages", json!({ "id": "first", "text": "gate" })).await;
    events.until("call_started").await;
    lab.gate.entered.notified().await;
    let send = |n: usize| {
        let lab = &lab;
        async move {
            let delivery =
                if n.is_multiple_of(2) { json!({ "delivery": "steer" }) } else { json!({ "when_room": true }) };
            let mut message = json!({ "id": format!("m{n}"), "text": format!("words {n}") });
            message.as_object_mut().unwrap().extend(delivery.as_object().unwrap().clone());
            lab.ask("POST", "/v1/sessions/s/messages", message).await
        }
    };
    let opener = async { lab.gate.open() };
    let (first, ()) = tokio::join!(join_all((0..300).map(send)), opener);
    // Steering has 64 places: one that finds none is told so, and comes again.
    let mut receipts: Vec<Value> = vec![Value::Null; 300];
    for (n, mut answer) in first.into_iter().enumerate() {
        while answer.status == 503 {
            assert_eq!(answer.refused().1, "retry");
            answer = send(n).await;
        }
        assert_eq!(answer.status, 202, "{answer:?}");
        receipts[n] = answer.json();
    }
    let again = join_all((0..300).map(send)).await;
    for (n, (first, again)) in receipts.iter().zip(&again).enumerate() {
        assert_eq!(again.status, 202, "{n}: {again:?}");
        assert_eq!((&first["message"], &first["seq"]), (&again.json()["message"], &again.json()["seq"]), "{n}");
    }
    let seqs: BTreeSet<u64> = receipts.iter().map(|receipt| receipt["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs.len(), 300);
    let session = lab.runtime.session(&"s".parse().unwrap());
    session.wait().await.unwrap();
    let mut said: Vec<String> = Vec::new();
    for message in session.messages().await.unwrap() {
        if message.text().starts_with("words ") {
            said.push(message.text());
        }
    }
    let distinct: BTreeSet<&String> = said.iter().collect();
    assert_eq!((said.len(), distinct.len()), (300, 300), "each message is in the conversation once");
    lab.end().await;
}

/// The receipt survives the server: sent again after a restart, the message has the receipt that it had.
#[tokio::test]
async fn a_message_sent_again_after_a_restart_has_the_same_receipt() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    let message = json!({ "id": "m", "text": "hello" });
    let first = lab.post("/v1/sessions/s/messages", message.clone()).await;
    events.until("turn_finished").await;
    let lab = Lab::over(lab.end().await, |options| options).await;
    let again = lab.post("/v1/sessions/s/messages", message).await;
    assert_eq!((&again["message"], &again["seq"]), (&first["message"], &first["seq"]));
    assert_eq!(lab.get("/v1/sessions/s/messages").await["messages"].as_array().unwrap().len(), 2);
    lab.end().await;
}
