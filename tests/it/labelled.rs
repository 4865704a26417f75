//! All sessions of a label at once: list, bill, asks, drain and delete are complete, touch nobody else's files, and cost what is theirs.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tamtam::{
    Delivery, ModelRef, OpenError, Outcome, Runtime, SendError, Session, SessionId, SessionOptions,
    model::{ErrorKind, Model, ModelError, Models, Reply, Request, Scripted},
    permission::Profile,
    session::{BadLabel, ForkOptions, Grant, Labels, Open, TaskRequest},
    tape::{Behind, Deleted},
};

use crate::support::taped;

fn tenant(name: &str) -> Labels {
    Labels::new([("tenant", name)]).unwrap()
}

fn ids(page: &tamtam::ops::SessionPage) -> BTreeSet<String> {
    page.sessions.iter().map(|listed| listed.session.to_string()).collect()
}

/// A model that calls a careful tool where it is told so, hangs where it is told so, and else says `done`.
fn model() -> Arc<Scripted> {
    Arc::new(Scripted::from_fn(|request| {
        let said = tamtam::model::transcript(request);
        let last = said.rsplit("user: ").next().unwrap_or_default();
        match last {
            last if last.starts_with("hang") => Reply::hang(),
            last if last.starts_with("careful") && !last.contains("tool:") && !last.contains("result") => {
                Reply::call("write", json!({ "path": "a.txt", "content": "a" }))
            }
            _ => Reply::text("done").with_usage(tamtam::model::Usage::new(10, 1)),
        }
    }))
}

async fn start(store: &Path) -> Runtime {
    Runtime::builder().store(store).model(model()).tools(tamtam::tools::full()).start().await.unwrap()
}

async fn create(runtime: &Runtime, folder: &Path, id: &str, of: &str) -> Session {
    let mut options = SessionOptions::new(folder).id(id.parse().unwrap()).labels(tenant(of));
    options.rules = Some(Profile::Strict.ruleset());
    options.asks_wait = true;
    runtime.create(options).await.unwrap()
}

async fn say(session: &Session, text: &str) {
    assert_eq!(session.prompt(text).await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
}

/// Point 4 of the issue Face, and M6 of the host's trial: of 6,000 sessions 1,923 were listed, and nothing said so. Here the files of all
/// other tenants are away while one is listed, added up, drained and deleted: nobody looks for them.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_of_a_hundred_costs_what_is_its_own() {
    const SESSIONS: usize = 10_000;
    const TENANTS: usize = 100;
    let folder = taped::folder();
    let (store, away) = (folder.path().join("store"), folder.path().join("away"));
    let runtime = start(&store).await;
    let made = stream::iter(0..SESSIONS).for_each_concurrent(16, |n| {
        let (runtime, folder) = (&runtime, folder.path());
        async move {
            let of = format!("t{}", n % TENANTS);
            let session = create(runtime, folder, &format!("{of}.{n}"), &of).await;
            // Every tenth session of two tenants says something.
            if n % TENANTS < 2 && n % 1_000 < 2 {
                say(&session, "hello").await;
            }
            drop(session);
            if n % 500 == 0 {
                runtime.shed(0);
            }
        }
    });
    made.await;
    let acme = runtime.labelled(tenant("t1")).unwrap();
    let whole = acme.sessions().await.unwrap();
    let expected: BTreeSet<_> = (0..SESSIONS).filter(|n| n % TENANTS == 1).map(|n| format!("t1.{n}")).collect();
    assert_eq!((ids(&whole), whole.next.clone(), whole.behind), (expected.clone(), None, Behind::No));
    for n in 0..SESSIONS {
        let id: SessionId = format!("t{}.{n}", n % TENANTS).parse().unwrap();
        while runtime.passivate(&id).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
    let before = runtime.labelled(tenant("t0")).unwrap().bill().await.unwrap();

    // The tapes of everybody else are away; only the names of their folders are left, which a deletion lists once.
    std::fs::create_dir(&away).unwrap();
    let sessions = store.join("sessions");
    let others: Vec<_> = (0..SESSIONS).filter(|n| n % TENANTS != 1).map(|n| format!("t{}.{n}", n % TENANTS)).collect();
    for name in &others {
        std::fs::rename(sessions.join(name).join("anchors"), away.join(name)).unwrap();
    }
    let page = acme.sessions().await.unwrap();
    assert_eq!((ids(&page), page.behind, page.indexed), (expected.clone(), Behind::No, true));
    let cost = page.cost;
    assert_eq!((cost.rows, cost.tapes, cost.bytes), (100, 0, 0), "{cost:?}");
    assert!(cost.folders <= 100, "{cost:?}");
    let bill = acme.bill().await.unwrap();
    assert_eq!((bill.sessions, bill.spent.requests, bill.spent.usage.output), (100, 10, 10));
    assert_eq!(acme.drain(Duration::from_secs(60)).await.unwrap(), []);
    let deletion = acme.delete().await.unwrap();
    assert!(deletion.kept.is_empty(), "{:?}", deletion.kept);
    assert_eq!((deletion.deleted.len(), deletion.behind), (100, Behind::No));
    for (_, deleted) in &deletion.deleted {
        assert_eq!((deleted.session, deleted.left.as_deref()), (Deleted::Gone, None));
    }
    let left = std::fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.collect::<BTreeSet<_>>(), others.iter().cloned().collect());

    for name in &others {
        std::fs::rename(away.join(name), sessions.join(name).join("anchors")).unwrap();
    }
    assert_eq!(acme.sessions().await.unwrap().sessions, []);
    let other = runtime.labelled(tenant("t0")).unwrap();
    assert_eq!(other.bill().await.unwrap(), before);
    assert_eq!((before.sessions, before.spent.requests), (100, 10));
    say(&runtime.session(&"t0.0".parse().unwrap()), "hello again").await;
    assert!(runtime.shutdown().await.is_empty());
}

/// Without an index the answers are the same: they are read from the tapes. Children and forks count once, and go before the sessions
/// that they come from; what is at work is kept with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_and_forks_count_once_and_go_first() {
    for in_memory in [false, true] {
        let folder = taped::folder();
        let builder = Runtime::builder().model(model()).tools(tamtam::tools::full());
        let builder = match in_memory {
            true => builder.in_memory(),
            false => builder.store(folder.path().join("store")),
        };
        let runtime = builder.start().await.unwrap();
        assert_eq!(runtime.labelled(Labels::default()).unwrap_err(), BadLabel::None);
        let (acme, globex) = (tenant("acme"), tenant("globex"));
        let session = create(&runtime, folder.path(), "a", "acme").await;
        let other = create(&runtime, folder.path(), "b", "globex").await;
        say(&session, "hello").await;
        say(&other, "hello").await;
        let fork = session.fork(ForkOptions::default()).await.unwrap();
        say(&fork, "and in the fork").await;
        let child = session.delegate(TaskRequest::new("general", "look", "look"), Default::default()).await.unwrap();
        child.result().await.unwrap();
        session.wait().await.unwrap();
        let tenant = runtime.labelled(acme).unwrap();
        let bill = tenant.bill().await.unwrap();
        let requests = async |session: &Session| session.state().await.unwrap().spent.requests;
        let own = requests(&session).await + requests(child.session()).await + 1;
        assert_eq!((bill.sessions, bill.spent.requests, bill.behind), (3, own, Behind::No), "in memory: {in_memory}");

        let hangs = create(&runtime, folder.path(), "c", "acme").await;
        hangs.prompt("hang").await.unwrap();
        let deletion = tenant.delete().await.unwrap();
        let gone: BTreeSet<_> = deletion.deleted.iter().map(|(id, _)| id.clone()).collect();
        assert_eq!(gone, BTreeSet::from([session.id().clone(), fork.id().clone(), child.session().id().clone()]));
        assert!(deletion.deleted.iter().all(|(_, deleted)| deleted.session == Deleted::Gone), "{deletion:?}");
        let [(kept, why)] = &deletion.kept[..] else { panic!("{:?}", deletion.kept) };
        assert_eq!((kept, why.kind()), (hangs.id(), tamtam::runtime::Kind::Busy));
        hangs.abort("enough").await.unwrap();
        hangs.wait().await.unwrap();
        assert!(tenant.delete().await.unwrap().kept.is_empty());
        assert_eq!(runtime.labelled(globex).unwrap().sessions().await.unwrap().sessions.len(), 1);
        say(&other, "still there").await;
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// A drain of one tenant lets the others go on: its sessions take no message, awake or asleep, none is made for it, and what runs ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_of_one_tenant_lets_the_others_go_on() {
    let folder = taped::folder();
    let runtime = start(&folder.path().join("store")).await;
    let asleep = create(&runtime, folder.path(), "asleep", "acme").await;
    say(&asleep, "hello").await;
    let asleep_id = asleep.id().clone();
    drop(asleep);
    while runtime.passivate(&asleep_id).await.is_err() {
        tokio::task::yield_now().await;
    }
    let hangs = create(&runtime, folder.path(), "hangs", "acme").await;
    hangs.prompt("hang").await.unwrap();
    let other = create(&runtime, folder.path(), "other", "globex").await;
    let acme = runtime.labelled(tenant("acme")).unwrap();
    let left = acme.drain(Duration::from_millis(200)).await.unwrap();
    assert_eq!(left, [hangs.id().clone()], "its turn goes on");
    for id in [&asleep_id, hangs.id()] {
        let refused = runtime.session(id).send("more", Delivery::Queue).await;
        assert!(matches!(refused, Err(SendError::Draining)), "{refused:?}");
    }
    let options =
        SessionOptions::new(folder.path()).labels(Labels::new([("tenant", "acme"), ("user", "ann")]).unwrap());
    assert!(matches!(runtime.create(options).await, Err(OpenError::Drained)));
    say(&other, "hello").await;
    say(&create(&runtime, folder.path(), "new", "globex").await, "hello").await;
    hangs.abort("enough").await.unwrap();
    assert_eq!(acme.drain(Duration::from_secs(60)).await.unwrap(), []);
    assert!(!runtime.awake().contains(&asleep_id), "nobody is woken");
    assert!(runtime.shutdown().await.is_empty());
    // The next runtime takes them again.
    let runtime = start(&folder.path().join("store")).await;
    say(&runtime.session(&asleep_id), "hello").await;
    assert!(runtime.shutdown().await.is_empty());
}

/// Open asks of one tenant, each once, also where a parent shows its child's; and they can be answered from the list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_open_asks_of_a_tenant_are_listed_once() {
    let folder = taped::folder();
    let runtime = start(&folder.path().join("store")).await;
    let session = create(&runtime, folder.path(), "a", "acme").await;
    let other = create(&runtime, folder.path(), "b", "globex").await;
    let idle = create(&runtime, folder.path(), "idle", "acme").await;
    let acme = runtime.labelled(tenant("acme")).unwrap();
    assert_eq!(acme.asks().await.asks, []);
    other.prompt("careful").await.unwrap();
    session.prompt("careful").await.unwrap();
    let child = session.delegate(TaskRequest::new("general", "careful", "careful"), Default::default()).await.unwrap();
    let asks = loop {
        let asks = acme.asks().await;
        let is_shown = session.state().await.unwrap().task_asks().next().is_some();
        if asks.asks.len() >= 2 && is_shown {
            break asks;
        }
        tokio::task::yield_now().await;
    };
    let of: BTreeSet<_> = asks.asks.iter().map(|ask| ask.session.clone()).collect();
    assert_eq!((asks.asks.len(), asks.unknown.len()), (2, 0), "{asks:?}");
    assert_eq!(of, BTreeSet::from([session.id().clone(), child.session().id().clone()]));
    assert!(asks.asks.iter().all(|ask| matches!(*ask.open, Open::Ask(_)) && ask.labels == tenant("acme")));
    for ask in &asks.asks {
        runtime.session(&ask.session).answer(ask.ask, Grant::Once).await.unwrap();
    }
    child.down().await.unwrap();
    session.wait().await.unwrap();
    assert_eq!(acme.asks().await.asks, []);
    assert_eq!(runtime.labelled(tenant("globex")).unwrap().asks().await.asks.len(), 1);
    // The tree has the labels too.
    let node = |id: &str| serde_json::to_value(runtime.tree().find(id).unwrap()).unwrap();
    assert_eq!(
        (&node("a")["labels"], &node("b")["labels"]),
        (&json!({ "tenant": "acme" }), &json!({ "tenant": "globex" }))
    );
    assert!(!runtime.tree().to_string().contains("globex"));
    drop(idle);
    other.abort("enough").await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
}

/// Models of tenants: each has a script of its own, and who is no tenant has none.
struct Tenants([(&'static str, Arc<Scripted>); 2]);

impl Models for Tenants {
    fn find(&self, name: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        Err(ModelError::new(ErrorKind::NotFound, format!("{name} is there for tenants alone")))
    }

    fn find_for(&self, name: &ModelRef, request: &Request) -> Result<Arc<dyn Model>, ModelError> {
        let of = request.labels.get("tenant");
        match self.0.iter().find(|(tenant, _)| Some(*tenant) == of) {
            Some((_, script)) => script.find(name),
            None => self.find(name),
        }
    }
}

/// Point 5 of "Where the docs failed me" in the host's trial: a model was told nothing of its session, so there was no key and no quota
/// for a tenant. Requests for summaries have it too; a new label holds from the next request on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_sees_the_session_and_the_labels_of_a_request() {
    let folder = taped::folder();
    let script = || Arc::new(Scripted::from_fn(|_| Reply::text("done")));
    let (acme, globex) = (script(), script());
    let models = Tenants([("acme", acme.clone()), ("globex", globex.clone())]);
    let builder = Runtime::builder().store(folder.path().join("store")).tools(tamtam::tools::full());
    let runtime = builder.models(Arc::new(models), "own/model".parse().unwrap()).start().await.unwrap();
    let session = create(&runtime, folder.path(), "a", "acme").await;
    for _ in 0..3 {
        say(&session, &"a long message ".repeat(8_000)).await;
    }
    session.compact().await.unwrap();
    session.wait().await.unwrap();
    let summed_up = async {
        while acme.requests().len() < 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), summed_up).await.expect("the summary is asked for as acme");
    session.set_labels(tenant("globex")).await.unwrap();
    say(&session, "and now?").await;
    for (of, script, count) in [("acme", &acme, 4), ("globex", &globex, 1)] {
        let asked: Vec<_> = script.requests().iter().map(|one| (one.session.clone(), one.labels.clone())).collect();
        assert_eq!(asked, vec![(Some(session.id().clone()), tenant(of)); count]);
    }
    session.set_labels(Labels::default()).await.unwrap();
    let answer = session.prompt("without").await.unwrap().wait().await.unwrap();
    let Outcome::Failed { error } = answer.outcome else { panic!("{answer:?}") };
    assert!(error.contains("for tenants alone"), "{error}");
    assert!(runtime.shutdown().await.is_empty());
}
