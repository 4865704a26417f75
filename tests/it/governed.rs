//! Requests to one provider with one key, over whole sessions: they wait for their turn, obey one wait together, and are seen.
//!
//! The rules themselves are proven without a clock beside the governor. Here it is shown that sessions go by them.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tamtam::{
    ModelRef, Outcome, Runtime, Session, SessionId, SessionOptions,
    model::{
        AnswerPart, BoxFuture, Deltas, ErrorKind, GovernedBy, Model, ModelAnswer, ModelError, Provider, RateLimits,
        Reply, Request, Router, Scripted, Secret,
    },
    permission::Profile,
    session::{Finish, Link},
    supervisor::Node,
};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

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
    let began = std::time::Instant::now();
    loop {
        let tree = runtime.tree();
        let models = tree.find("models").unwrap();
        assert!(began.elapsed() < Duration::from_secs(100), "no governor is as it should be:\n{tree}");
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

/// A server that takes 60 requests in any 60 s and refuses more, and that once asks for half a minute of silence.
struct Strict {
    id: ModelRef,
    by: GovernedBy,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    taken: VecDeque<Instant>,
    /// Whose request each was that was answered, and when it came.
    served: Vec<(SessionId, Instant)>,
    refused: usize,
    /// The number of requests after which it asks for silence.
    asks_after: Option<usize>,
    still_until: Option<Instant>,
    came_in_silence: usize,
}

const MINUTE: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_secs(30);

impl Strict {
    fn new(asks_after: Option<usize>) -> Arc<Strict> {
        let limits = RateLimits::default().requests_per_minute(60);
        let by = GovernedBy::new("strict", "here", None, limits);
        Arc::new(Strict { id: "strict/m".parse().unwrap(), by, log: Mutex::new(Log { asks_after, ..Log::default() }) })
    }

    /// Takes a request, or refuses it with a wait.
    fn take(&self, session: &SessionId) -> Result<(), Duration> {
        let (now, mut log) = (Instant::now(), self.log.lock().unwrap());
        if let Some(until) = log.still_until.filter(|until| *until > now) {
            log.came_in_silence += 1;
            return Err(until - now);
        }
        let answered = log.served.len();
        if log.asks_after.take_if(|after| *after <= answered).is_some() {
            log.refused += 1;
            log.still_until = Some(now + SILENCE);
            return Err(SILENCE);
        }
        while log.taken.front().is_some_and(|at| *at + MINUTE <= now) {
            log.taken.pop_front();
        }
        if log.taken.len() >= 60 {
            log.refused += 1;
            return Err(log.taken[0] + MINUTE - now);
        }
        log.taken.push_back(now);
        log.served.push((session.clone(), now));
        Ok(())
    }
}

impl Model for Strict {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn governed_by(&self) -> Option<GovernedBy> {
        Some(self.by.clone())
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async move {
            let session = request.session.as_ref().expect("a session asks");
            if let Err(wait) = self.take(session) {
                deltas.head(429, &|_| None);
                return Err(ModelError::new(ErrorKind::RateLimited, "too many").with_retry_after(Some(wait)));
            }
            deltas.head(200, &|_| None);
            tokio::time::sleep(Duration::from_secs(1)).await;
            // Background work calls a tool that there is not, so it asks again at once.
            let input = format!("{{\"n\":{}}}", request.history.len());
            Ok(match session.as_str().starts_with("flood") {
                true => {
                    let call = AnswerPart::Call { id: "c".into(), name: "none".into(), input, extra: None };
                    ModelAnswer::new(vec![call], Finish::ToolCalls)
                }
                false => {
                    let text = AnswerPart::Text { text: "done".to_owned(), extra: None };
                    ModelAnswer::new(vec![text], Finish::Stop)
                }
            })
        })
    }
}

/// P4-21: a thousand sessions of a runtime that ask as fast as they can: all get the same of it, next to none is refused, and
/// while the server wants silence, none of them asks.
#[tokio::test(start_paused = true)]
async fn a_thousand_sessions_share_a_strict_server_and_its_silence() {
    let model = Strict::new(Some(500));
    let runtime = Runtime::builder().in_memory().model(model.clone()).start().await.unwrap();
    let until = Instant::now() + 40 * MINUTE;
    let mut asking = JoinSet::new();
    for _ in 0..1_000 {
        let session = runtime.create(SessionOptions::new(".")).await.unwrap();
        asking.spawn(async move {
            while Instant::now() < until {
                assert_eq!(session.prompt("go").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
            }
            session.id().clone()
        });
    }
    let sessions = asking.join_all().await;
    let log = std::mem::take(&mut *model.log.lock().unwrap());
    let mut served: HashMap<_, f64> = sessions.into_iter().map(|id| (id, 0.0)).collect();
    log.served.iter().filter(|(_, at)| *at < until).for_each(|(id, _)| *served.get_mut(id).unwrap() += 1.0);
    let (sum, squares) = served.values().fold((0.0, 0.0), |(sum, squares), n| (sum + n, squares + n * n));
    let fairness = sum * sum / (1_000.0 * squares);
    assert!(fairness >= 0.95, "{fairness} of {sum}");
    assert!(sum >= 2_000.0, "{sum} of 2,400 that the server would take");
    assert!(log.still_until.is_some() && log.came_in_silence == 0, "{} came in the silence", log.came_in_silence);
    assert!(log.refused * 100 <= log.served.len(), "{} refused of {}", log.refused, log.served.len());
    assert!(runtime.shutdown().await.is_empty());
}

/// P4-21: tasks that ask without end keep no person waiting, and go on themselves.
#[tokio::test(start_paused = true)]
async fn tasks_that_ask_without_end_keep_no_person_waiting() {
    let model = Strict::new(None);
    let runtime = Runtime::builder().in_memory().model(model.clone()).start().await.unwrap();
    let mut options = SessionOptions::new(".").profile(Profile::Auto);
    options.task_width_max = Some(64);
    let parent = runtime.create(options).await.unwrap();
    for n in 0..40 {
        let options = SessionOptions::new(".").id(format!("flood{n}").parse().unwrap());
        parent.spawn_child(options, "work", Link::default()).await.unwrap();
    }
    tokio::time::sleep(2 * MINUTE).await;
    let mut asking = JoinSet::new();
    for n in 0..4 {
        let (session, model) = (runtime.create(SessionOptions::new(".")).await.unwrap(), model.clone());
        asking.spawn(async move {
            let before = |model: &Strict| model.log.lock().unwrap().served.len();
            let mut waited = Vec::new();
            for _ in 0..10 {
                let at = before(&model);
                assert_eq!(session.prompt("go").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
                let log = model.log.lock().unwrap();
                let since = log.served[at..].iter().take_while(|(id, _)| id != session.id());
                waited.push(since.filter(|(id, _)| id.as_str().starts_with("flood")).count());
            }
            (n, waited)
        });
    }
    for (person, waited) in asking.join_all().await {
        assert!(waited.iter().all(|tasks| *tasks <= 2), "before person {person} went tasks: {waited:?}");
    }
    let at = model.log.lock().unwrap().served.len();
    tokio::time::sleep(MINUTE).await;
    let tasks = model.log.lock().unwrap().served.len() - at;
    assert!(tasks >= 50, "{tasks} requests of tasks in a minute without persons");
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
