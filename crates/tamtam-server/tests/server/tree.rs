//! The stream of the tree folds to the tree.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::lab::{Lab, Stream};

/// Puts what changed and takes what is gone, as a client does.
struct Folded {
    nodes: BTreeMap<u64, Value>,
}

impl Folded {
    async fn next(&mut self, events: &mut Stream) -> String {
        let frame = events.next().await.unwrap();
        if frame.event == "snapshot" {
            self.nodes.clear();
        }
        for node in frame.data["changed"].as_array().or(frame.data["nodes"].as_array()).unwrap() {
            self.nodes.insert(node["key"].as_u64().unwrap(), node.clone());
        }
        for key in frame.data["gone"].as_array().into_iter().flatten() {
            assert!(self.nodes.remove(&key.as_u64().unwrap()).is_some(), "what goes was there");
        }
        frame.event
    }
}

/// Moments are worked out from durations, so they may differ by a few milliseconds.
fn without_moments(nodes: impl IntoIterator<Item = Value>) -> BTreeMap<u64, Value> {
    nodes
        .into_iter()
        .map(|mut node| {
            let fields = node.as_object_mut().unwrap();
            for moment in ["doing_since", "busy_since", "busy_with", "last_exit_at", "reading", "handled", "queue_peak"]
            {
                fields.remove(moment);
            }
            assert!(!fields.contains_key("children") && !fields.contains_key("age_ms"), "{fields:?}");
            (node["key"].as_u64().unwrap(), node)
        })
        .collect()
}

/// Kills, parks, restarts, ends: what the stream told folds to the tree that is asked for at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_differences_fold_to_the_tree_under_a_storm() {
    let lab = Lab::new().await;
    let mut events = lab.events("/v1/tree/events", "").await;
    let mut folded = Folded { nodes: BTreeMap::new() };
    assert_eq!(folded.next(&mut events).await, "snapshot");
    let mut random = 11_u64;
    for n in 0..120 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let id = format!("s{}", (random >> 33) % 30);
        let lever = ["restart", "stop", "park", "unpark", "passivate"][(random >> 40) as usize % 5];
        match n % 3 {
            0 => drop(lab.ask("POST", "/v1/sessions", json!({ "id": id, "prompt": { "text": "read it" } })).await),
            1 => drop(lab.ask("POST", &format!("/v1/actors/{id}/{lever}"), Value::Null).await),
            _ => drop(lab.runtime.operate().crash(&id, "a drill")),
        }
    }
    // A last sign: the stream has told everything before it.
    lab.session("last").await;
    while !folded.nodes.values().any(|node| node["id"] == "last") {
        folded.next(&mut events).await;
    }
    for n in 0.. {
        let asked = lab.get("/v1/tree?flat=1").await["nodes"].as_array().unwrap().clone();
        if without_moments(folded.nodes.values().cloned()) == without_moments(asked.clone()) {
            break;
        }
        assert!(n < 200, "they stay different: {:#?}", asked);
        tokio::select! {
            _ = folded.next(&mut events) => {}
            () = tokio::time::sleep(std::time::Duration::from_millis(25)) => {}
        }
    }
    for node in folded.nodes.values() {
        assert!(node["parent"].is_null() || folded.nodes.contains_key(&node["parent"].as_u64().unwrap()), "{node}");
    }
    lab.end().await;
}

/// A quiet tree sends nothing, whatever the clock says.
#[tokio::test]
async fn a_quiet_tree_sends_nothing() {
    let lab = Lab::with(|mut options| {
        options.beat = std::time::Duration::from_millis(150);
        options
    })
    .await;
    lab.session("s").await;
    // A call that waits: its node says since when, and that is worked out from a duration at each sample.
    lab.post("/v1/sessions/s/messages", json!({ "text": "gate" })).await;
    lab.gate.entered.notified().await;
    let mut events = lab.events("/v1/tree/events", "").await;
    events.next().await.unwrap();
    // A beat comes only where nothing else came for so long: several samples were taken meanwhile.
    events.beat().await;
    lab.end().await;
}
