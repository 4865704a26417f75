//! Requests to one provider with one key, over whole sessions: they wait for their turn, obey one wait together, and are seen.
//!
//! The rules themselves are proven without a clock beside the governor. Here it is shown that sessions go by them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tamtam::{
    ModelRef, Outcome, Runtime, Session, SessionOptions,
    model::{
        AnswerPart, BoxFuture, Deltas, GovernedBy, Model, ModelAnswer, ModelError, Provider, RateLimits, Reply,
        Request, Router, Scripted, Secret,
    },
    session::Finish,
    supervisor::Node,
};
use tokio::sync::Semaphore;

use crate::support::{
    fault_server::{Act, FaultServer},
    streams::answer,
    taped,
};

/// A model that answers when the test lets it, and counts the requests at once.
struct Held {
    id: ModelRef,
    by: GovernedBy,
    at_once: AtomicUsize,
    at_once_most: AtomicUsize,
    may: Semaphore,
}

impl Held {
    fn new(limits: RateLimits) -> Arc<Held> {
        Arc::new(Held {
            id: "held/m".parse().unwrap(),
            by: GovernedBy::new("held", "here", Some(&Secret::new("sk-CANARY")), limits),
            at_once: AtomicUsize::new(0),
            at_once_most: AtomicUsize::new(0),
            may: Semaphore::new(0),
        })
    }
}

impl Model for Held {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn governed_by(&self) -> Option<GovernedBy> {
        Some(self.by.clone())
    }

    fn stream<'a>(&'a self, _: &'a Request, _: &'a mut dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async {
            let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.at_once_most.fetch_max(now, Ordering::SeqCst);
            self.may.acquire().await.unwrap().forget();
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            let text = AnswerPart::Text { text: "done".to_owned(), extra: None };
            Ok(ModelAnswer::new(vec![text], Finish::Stop))
        })
    }
}

/// A number of a node's payload, once it has it.
fn field(node: &Node, name: &str) -> Option<u64> {
    node.payload.fields().get(name)?.as_u64()
}

/// The governor's node, as soon as it is as the test wants it.
async fn governor(runtime: &Runtime, is_so: impl Fn(&Node) -> bool) -> Node {
    loop {
        let tree = runtime.tree();
        let models = tree.find("models").unwrap();
        if let Some(node) = models.children.iter().find(|node| is_so(node)) {
            return node.clone();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn sessions<const N: usize>(runtime: &Runtime, folder: &std::path::Path) -> [Session; N] {
    let mut sessions = Vec::new();
    for _ in 0..N {
        sessions.push(runtime.create(SessionOptions::new(folder)).await.unwrap());
    }
    sessions.try_into().unwrap()
}

/// Sessions with one key take turns; who waits is seen, and an abort gives up its place at once. Nothing shows the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_one_key_wait_for_their_turn() {
    let folder = taped::folder();
    let model = Held::new(RateLimits::default().requests(1));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model.clone()).start().await.unwrap();
    let [a, b, c] = sessions::<3>(&runtime, folder.path()).await;
    let first = a.prompt("go").await.unwrap();
    governor(&runtime, |node| field(node, "in_flight") == Some(1)).await;
    let second = b.prompt("go").await.unwrap();
    governor(&runtime, |node| node.queue == 1).await;
    let third = c.prompt("go").await.unwrap();
    let node = governor(&runtime, |node| node.queue == 2).await;
    assert!(node.id.starts_with("held-") && node.kind == "governor", "{node:?}");
    assert_eq!(node.payload.facts(), ["in flight 1", "waiting 2", "at once 1"]);
    let tree = runtime.tree();
    let all = tree.find("runtime").unwrap().iter();
    let waiting: Vec<_> = all.filter(|node| node.kind == "request").filter_map(|n| n.doing.clone()).collect();
    let line = |before| format!("waiting for {}: {before} before it", node.id);
    assert_eq!(waiting, ["model held/m".to_owned(), line(0), line(1)]);
    assert!(!format!("{tree:?}").contains("CANARY"));

    b.abort("not needed").await.unwrap();
    assert_eq!(second.wait().await.unwrap().outcome, Outcome::Aborted { reason: "not needed".into() });
    governor(&runtime, |node| node.queue == 1).await;
    model.may.add_permits(2);
    for receipt in [first, third] {
        assert_eq!(receipt.wait().await.unwrap().text, "done");
    }
    governor(&runtime, |node| field(node, "in_flight") == Some(0) && node.queue == 0).await;
    assert_eq!(model.at_once_most.load(Ordering::SeqCst), 1);
    assert!(runtime.shutdown().await.is_empty());
}

/// The wait that one session was told stills all others with that key, and none with another one; an operator's restart of the
/// governor ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_wait_of_a_provider_stills_all_sessions_of_its_key() {
    let folder = taped::folder();
    let api = tamtam::model::Api::OpenAiChat;
    let server = FaultServer::answering(move |_, before| match before.len() {
        0 => vec![Act::Send(b"HTTP/1.1 429 x\r\nretry-after: 50\r\ncontent-length: 2\r\n\r\nno".to_vec())],
        _ => answer(api, "said", &[]),
    })
    .await;
    let of = |name: &str| Provider::custom(name, api, server.url()).with_key(Secret::new("k"));
    let router = Router::new(Default::default()).with(of("one")).with(of("two"));
    let builder =
        Runtime::builder().store(folder.path().join("store")).models(Arc::new(router), "one/m".parse().unwrap());
    let runtime = builder.start().await.unwrap();
    let [a, b, c] = sessions::<3>(&runtime, folder.path()).await;
    c.configure(|settings| settings.model = "two/m".parse().unwrap()).await.unwrap();
    let _refused = a.prompt("go").await.unwrap();
    let is_still = |node: &Node| field(node, "still_ms").is_some_and(|ms| ms > 0);
    let node = governor(&runtime, is_still).await;
    let stilled = b.prompt("go").await.unwrap();
    governor(&runtime, |node| node.queue == 1).await;
    assert_eq!(c.prompt("go").await.unwrap().wait().await.unwrap().text, "said");
    assert_eq!(server.seen().len(), 2, "the stilled session has asked nobody");
    runtime.operate().restart(&node.id).await.unwrap();
    assert_eq!(stilled.wait().await.unwrap().text, "said");
    assert_eq!(server.seen().len(), 3);
    assert!(runtime.shutdown().await.is_empty());
}

/// A model that says no governor, such as a scripted one, has none.
#[tokio::test]
async fn a_model_that_names_no_governor_has_none() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("done")]));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let [session] = sessions::<1>(&runtime, folder.path()).await;
    assert_eq!(session.prompt("go").await.unwrap().wait().await.unwrap().text, "done");
    assert!(runtime.tree().find("models").unwrap().children.is_empty());
    assert!(runtime.shutdown().await.is_empty());
}
