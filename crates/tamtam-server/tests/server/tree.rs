//! The stream of the tree folds to the tree.

use std::{collections::BTreeMap, time::Duration};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tamtam::SessionOptions;
use tokio::time::timeout;

use crate::{
    lab::{LONG, Lab, Stream, rules},
    rng::Rng,
};

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

/// How many sessions the storm has, and how many times it strikes.
const SESSIONS: usize = 1_000;
const STRIKES: usize = 2_000;

/// What the storm does to a session, by weight. Messages wake it.
const WAYS: [(usize, &str); 8] = [
    (30, "message"),
    (20, "crash"),
    (10, "restart"),
    (10, "stop"),
    (10, "park"),
    (10, "unpark"),
    (15, "passivate"),
    (10, "delete"),
];

async fn strike(lab: &Lab, (session, way): (usize, &str)) {
    let id = format!("s{session}");
    match way {
        "message" => drop(lab.ask("POST", &format!("/v1/sessions/{id}/messages"), json!({ "text": "read it" })).await),
        "crash" => drop(lab.runtime.operate().crash(&id, "a drill")),
        "delete" => drop(lab.ask("DELETE", &format!("/v1/sessions/{id}"), Value::Null).await),
        lever => drop(lab.ask("POST", &format!("/v1/actors/{id}/{lever}"), Value::Null).await),
    }
}

/// Must show 8 of the server: 1,000 sessions, of which some crash, are parked, restarted, stopped, put to sleep and deleted at random:
/// what the stream told folds to the tree that is asked for at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_differences_fold_to_the_tree_under_a_storm() {
    let lab = Lab::with(|mut options| {
        options.tree_interval = Duration::from_millis(100);
        options
    })
    .await;
    let mut events = lab.events("/v1/tree/events", "").await;
    let mut folded = Folded { nodes: BTreeMap::new() };
    assert_eq!(folded.next(&mut events).await, "snapshot");
    let storm = async {
        let make = async |n: usize| {
            let options = SessionOptions::new(lab.folder.path()).id(format!("s{n}").parse().unwrap()).rules(rules());
            drop(lab.runtime.create(options).await.unwrap());
        };
        stream::iter(0..SESSIONS).for_each_concurrent(16, make).await;
        let mut chance = Rng::new(47);
        let strikes: Vec<_> = (0..STRIKES).map(|_| (chance.below(SESSIONS), chance.weighted(&WAYS))).collect();
        stream::iter(strikes).for_each_concurrent(32, |what| strike(&lab, what)).await;
        // A last sign: the stream has told everything before it.
        lab.session("last").await;
    };
    let folding = async {
        while !folded.nodes.values().any(|node| node["id"] == "last") {
            folded.next(&mut events).await;
        }
    };
    tokio::join!(storm, folding);
    let shown = |nodes: &BTreeMap<u64, Value>| nodes.values().filter(|node| node["kind"] == "session").count();
    assert!(
        shown(&folded.nodes) > SESSIONS / 4,
        "most of the storm is over before it is seen: {}",
        shown(&folded.nodes)
    );
    let asked = async || lab.get("/v1/tree?flat=1").await["nodes"].as_array().unwrap().clone();
    timeout(LONG, async {
        while without_moments(folded.nodes.values().cloned()) != without_moments(asked().await) {
            // The last of the storm is still on its way; a quiet tree would send nothing.
            drop(timeout(Duration::from_millis(100), folded.next(&mut events)).await);
        }
    })
    .await
    .expect("the differences fold to the tree");
    for node in folded.nodes.values() {
        assert!(node["parent"].is_null() || folded.nodes.contains_key(&node["parent"].as_u64().unwrap()), "{node}");
    }
    lab.end().await;
}

/// A quiet tree sends nothing, whatever the clock says.
#[tokio::test]
async fn a_quiet_tree_sends_nothing() {
    let lab = Lab::with(|mut options| {
        options.beat = Duration::from_millis(150);
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
