//! `_session/steering`: a message in mid-run, and what became of it.

use serde_json::{Value, json};

use crate::lab::{Client, Lab, said};

fn steered(session: &str, words: &str, meta: Value) -> Value {
    let mut steered = said(session, words);
    steered["_meta"] = meta;
    steered
}

async fn delivered(client: &mut Client, message: &Value) -> Value {
    client
        .update(|update| {
            let receipt = &update["_meta"]["tamtam"]["receipt"];
            receipt["message"] == *message && receipt["state"] == "delivered"
        })
        .await
}

/// The running call finishes, the next is skipped, and the message is read in the same turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_joins_the_turn_skips_what_has_not_begun_and_its_reading_is_told() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let hello = lab.stranger(crate::lab::options()).ask("initialize", json!({ "protocolVersion": 1 })).await.unwrap();
    assert_eq!(hello["_meta"]["steering"]["supported"], true);
    let session = client.new_session(&lab.work()).await;
    let prompt = client.prompt(&session, "gate").await;
    lab.gate.entered.notified().await;
    let outcome = client.ask("_session/steering", steered(&session, "be brief", json!({}))).await.unwrap();
    assert_eq!(outcome["outcome"], "injected");
    let receipt = &outcome["_meta"]["tamtam"]["receipt"];
    assert!(receipt["seq"].as_u64().unwrap() > 0, "{outcome}");
    lab.gate.open.notify_one();
    delivered(&mut client, &receipt["message"]).await;
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "You said: be brief");
    let calls: Vec<_> =
        client.updates("tool_call_update").into_iter().filter(|one| one["content"].is_array()).collect();
    let ended: Vec<_> = calls.iter().map(|one| (&one["status"], &one["_meta"]["tamtam"]["error"])).collect();
    // The second is answered at once, the first when it is over.
    assert_eq!(ended, [(&json!("failed"), &json!("skipped")), (&json!("completed"), &Value::Null)], "{calls:?}");
    assert_eq!(client.updates("user_message_chunk"), Vec::<Value>::new());
    lab.end().await;
}

/// The policy decides what becomes of the calls: let all run, or stop what runs.
#[tokio::test(flavor = "multi_thread")]
async fn the_policy_is_the_clients_choice() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    for (policy, opens, first, second) in
        [("finish_batch", true, Value::Null, Value::Null), ("abort_running", false, json!("aborted"), json!("skipped"))]
    {
        let session = client.new_session(&lab.work()).await;
        let prompt = client.prompt(&session, "gate").await;
        lab.gate.entered.notified().await;
        let meta = json!({ "tamtam": { "steering": policy } });
        let outcome = client.ask("_session/steering", steered(&session, "now", meta)).await.unwrap();
        assert_eq!(outcome["outcome"], "injected");
        if opens {
            lab.gate.open.notify_one();
        }
        client.answer(prompt).await.unwrap();
        let calls = client.updates("tool_call_update").into_iter().filter(|one| one["content"].is_array());
        let ended: Vec<_> = calls.map(|one| one["_meta"]["tamtam"]["error"].clone()).collect();
        let in_order = if opens { [first, second] } else { [second, first] };
        assert_eq!(ended, in_order, "{policy}");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_starts_a_turn_or_leaves_the_message_with_the_client() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let meta = json!({ "steering": { "idleBehavior": "promptRequired" } });
    let left = client.ask("_session/steering", steered(&session, "a", meta)).await.unwrap();
    assert_eq!(left, json!({ "outcome": "promptRequired", "reason": "noRunningTurn" }));
    let queue = client.ask("_tamtam/queue", json!({ "sessionId": session })).await.unwrap();
    assert_eq!(queue["waiting"], json!([]));
    let begun = client.ask("_session/steering", steered(&session, "b", json!({}))).await.unwrap();
    assert_eq!(begun["outcome"], "startedNewTurn");
    client.update(|update| update["content"]["text"] == "b").await;
    let bad = json!({ "steering": { "idleBehavior": "whatever" } });
    let fault = client.ask("_session/steering", steered(&session, "c", bad)).await.unwrap_err();
    assert_eq!(fault["code"], -32_602, "{fault}");
    lab.end().await;
}

/// What is refused is told as an outcome, with the kind of the refusal.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_refused_has_failed() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let meta = |id: &str| json!({ "tamtam": { "message": id } });
    let first = client.ask("_session/steering", steered(&session, "one", meta("m"))).await.unwrap();
    let again = client.ask("_session/steering", steered(&session, "one", meta("m"))).await.unwrap();
    let receipt = |outcome: &Value| outcome["_meta"]["tamtam"]["receipt"]["seq"].clone();
    assert_eq!(receipt(&first), receipt(&again), "the same id is the same message");
    let other = client.ask("_session/steering", steered(&session, "two", meta("m"))).await.unwrap();
    assert_eq!(
        (&other["outcome"], &other["_meta"]["tamtam"]["kind"]),
        (&json!("failed"), &json!("invalid")),
        "{other}"
    );
    lab.end().await;
}

/// A prompt may say what it does to a busy session; and what waits can be seen, changed and taken back.
#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_seen_changed_and_taken_back() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let running = client.prompt(&session, "gate").await;
    lab.gate.entered.notified().await;
    let reject = steered(&session, "x", json!({ "tamtam": { "delivery": "reject" } }));
    assert_eq!(client.ask("session/prompt", reject).await.unwrap_err()["data"]["kind"], "busy");
    let mut waiting = Vec::new();
    for id in ["m1", "m2"] {
        let queued = steered(&session, id, json!({ "tamtam": { "message": id } }));
        waiting.push(client.send("session/prompt", queued).await);
        client.update(|update| update["_meta"]["tamtam"]["receipt"]["state"] == "queued").await;
    }
    let edit = json!({ "sessionId": session, "message": "m1", "prompt": [{ "type": "text", "text": "changed" }] });
    client.ask("_tamtam/edit", edit).await.unwrap();
    client.ask("_tamtam/withdraw", json!({ "sessionId": session, "message": "m2" })).await.unwrap();
    let queue = client.ask("_tamtam/queue", json!({ "sessionId": session })).await.unwrap();
    let texts: Vec<_> = queue["waiting"].as_array().unwrap().iter().map(|one| one["text"].clone()).collect();
    assert_eq!(texts, ["changed"]);
    lab.gate.open.notify_one();
    client.answer(running).await.unwrap();
    client.answer(waiting[0]).await.unwrap();
    assert!(client.text("agent_message_chunk").ends_with("You said: changed"));
    assert_eq!(client.answer(waiting[1]).await.unwrap_err()["data"]["kind"], "stale");
    lab.end().await;
}
