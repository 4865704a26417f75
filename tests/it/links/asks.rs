//! Questions of children: asked, answered and recorded at the topmost session, over crashes and kills, each answered once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use tamtam::session::{AskClosedWhy, EventStream, Grant, Granted, Scope, Seq, SessionId};

use super::*;

/// A tool that a person must allow. Counts its runs by the session that made the call.
#[derive(Clone, Default)]
struct Careful(Arc<Mutex<BTreeMap<SessionId, u32>>>);

impl Careful {
    fn runs(&self) -> BTreeMap<SessionId, u32> {
        self.0.lock().unwrap().clone()
    }
}

impl Tool for Careful {
    fn name(&self) -> &str {
        "careful"
    }

    fn description(&self) -> &str {
        "Runs where a person allows it."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Once
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new("careful", "*")]
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        *self.0.lock().unwrap().entry(context.session.clone()).or_default() += 1;
        Box::pin(async { ToolResult::ok("carefully done") })
    }
}

/// Sessions whose prompt says so make one careful call, and answer with its result.
fn model() -> Arc<Scripted> {
    Arc::new(Scripted::from_fn(|request| {
        let said = tamtam::model::transcript(request);
        match (said.contains("carefully"), said.contains("result careful")) {
            (true, false) => Reply::call("careful", json!({})),
            (true, true) if said.contains("carefully done") => Reply::text("it was allowed"),
            (true, true) => Reply::text("it was not allowed"),
            (false, _) if said.contains("go on working") => Reply::text("later").at_barrier("work"),
            (false, _) => Reply::text("hello"),
        }
    }))
}

fn asking(folder: &Path) -> SessionOptions {
    let mut options = SessionOptions::new(folder);
    options.rules = Some(Ruleset::new("test", [Rule::new("careful", "*", Action::Ask)]));
    options.task_width_max = Some(1_000);
    options.task_depth_max = Some(5);
    options
}

async fn runtime(folder: &Path, careful: &Careful) -> Runtime {
    let builder = Runtime::builder().store(folder.join("store")).model(model()).tool(careful.clone());
    builder.start().await.unwrap()
}

/// The next question of a child: its ticket, and the sessions that it came through.
async fn question(events: &mut EventStream) -> (Seq, Vec<SessionId>) {
    let next = async {
        loop {
            if let tamtam::session::Next::Event(event) = events.next().await.expect("the session lives")
                && let EventKind::Ask { ask, from, name, .. } = &event.kind
            {
                assert_eq!(name, "careful");
                return (*ask, from.iter().map(|from| from.session.clone()).collect());
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), next).await.expect("the question comes")
}

/// How often a record is on a tape.
async fn granted(session: &Session) -> Vec<(Grant, Option<String>)> {
    let entries = session.entries().await.unwrap();
    let granted = entries.into_iter().filter_map(|entry| match entry.record {
        Record::Granted { grant, who, .. } => Some((grant, who)),
        _ => None,
    });
    granted.collect()
}

/// C-33, H-20: a child's question is shown, answered and recorded at its parent, with who answered; the child's tape has the answer,
/// and the call runs once. Nobody listens to the child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_childs_question_is_asked_and_answered_at_its_parent() {
    for (grant, allowed) in
        [(Grant::Once, true), (Grant::Always(Scope::Session), true), (Grant::Reject(Some("no".into())), false)]
    {
        let (folder, careful) = (taped::folder(), Careful::default());
        let runtime = runtime(folder.path(), &careful).await;
        let root = runtime.create(asking(folder.path())).await.unwrap();
        let mut events = root.events();
        let child = root.spawn_child(asking(folder.path()), "carefully", Link::default()).await.unwrap();
        let (ask, from) = question(&mut events).await;
        assert_eq!(from, [child.session().id().clone()]);
        assert_eq!(root.state().await.unwrap().task_asks().map(|(ask, _)| ask).collect::<Vec<_>>(), [ask]);
        root.answer_as(ask, grant.clone(), "ada").await.unwrap();
        assert_eq!(down(&child).await, DownReason::Done);
        let end = child.session().state().await.unwrap().ended.back().unwrap().text.clone();
        assert_eq!(end.contains("it was allowed"), allowed, "{end}");
        assert_eq!(careful.runs().values().sum::<u32>(), u32::from(allowed));
        let expected = [(grant.clone(), Some("ada".to_owned()))];
        assert_eq!((granted(&root).await, granted(child.session()).await), (expected.to_vec(), expected.to_vec()));
        // The grant is the child's: it stands there, and is revoked there.
        let (above, below) = (root.grants().await.unwrap(), child.session().grants().await.unwrap());
        assert_eq!(above, []);
        let stands = grant.standing().is_some();
        assert_eq!(
            below.iter().map(Granted::allows).collect::<Vec<_>>(),
            vec!["Allows every use of careful."; usize::from(stands)]
        );
        if let [grant] = &below[..] {
            assert_eq!(
                (grant.who.as_deref(), &grant.rules[..]),
                (Some("ada"), &[Rule::new("careful", "*", Action::Allow)][..])
            );
            child.session().revoke(grant.id).await.unwrap();
            assert_eq!(child.session().grants().await.unwrap(), []);
        }
        // Answered once: the second answer is told so.
        let again = root.answer(ask, Grant::Once).await;
        assert!(matches!(again, Err(SendError::Refused(Refusal::AskClosed { .. }))), "{again:?}");
        until(async || root.state().await.unwrap().task_asks().count() == 0).await;
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Where nobody listens at any level the call is denied at once; where somebody listens above, it is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_reaches_nobody_is_denied() {
    let (folder, careful) = (taped::folder(), Careful::default());
    let runtime = runtime(folder.path(), &careful).await;
    let root = runtime.create(asking(folder.path())).await.unwrap();
    let child = root.spawn_child(asking(folder.path()), "carefully", Link::default()).await.unwrap();
    assert_eq!(down(&child).await, DownReason::Done);
    assert_eq!(&*child.session().state().await.unwrap().ended.back().unwrap().text, "it was not allowed");
    assert_eq!(count(&root, |record| matches!(record, Record::TaskAsk(_))).await, 0);
    assert!(runtime.shutdown().await.is_empty());
}

/// A question that is over at the child is over at the parent too: answered there, expired, or gone with its task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_is_over_below_is_closed_above() {
    for way in ["answered", "stopped", "expired"] {
        let (folder, careful) = (taped::folder(), Careful::default());
        let runtime = runtime(folder.path(), &careful).await;
        let root = runtime.create(asking(folder.path())).await.unwrap();
        let mut events = root.events();
        let mut options = asking(folder.path());
        if way == "expired" {
            options.ask_limit = Duration::from_millis(200);
        }
        let child = root.spawn_child(options, "carefully", Link::default()).await.unwrap();
        let (ask, _) = question(&mut events).await;
        match way {
            "answered" => {
                let (below, _) =
                    child.session().state().await.unwrap().asks().next().map(|(ask, _)| (ask, ())).unwrap();
                child.session().answer(below, Grant::Once).await.unwrap();
            }
            "stopped" => drop(child.session().abort("enough").await.unwrap()),
            _ => {}
        }
        drop(down(&child).await);
        until(async || root.state().await.unwrap().task_asks().count() == 0).await;
        let entries = root.entries().await.unwrap();
        let closed = entries.iter().filter(|entry| entry.ticket == Some(ask)).map(|entry| &entry.record);
        assert_eq!(closed.cloned().collect::<Vec<_>>(), [Record::AskClosed { why: AskClosedWhy::OverBelow }], "{way}");
        assert!(matches!(root.answer(ask, Grant::Once).await, Err(SendError::Refused(Refusal::AskClosed { .. }))));
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Must show 3 of Permission: an ask of a grandchild whose process dies without a word is answered in another process, at the topmost
/// session, and the call runs once. The tapes are all that the second one has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_of_a_grandchild_survives_the_process() {
    let (folder, careful) = (taped::folder(), Careful::default());
    let first = runtime(folder.path(), &careful).await;
    let root = first.create(asking(folder.path()).id("root".parse().unwrap())).await.unwrap();
    let mut events = root.events();
    let child = root.spawn_child(asking(folder.path()), "go on working", Link::default()).await.unwrap();
    let grandchild = child.session().spawn_child(asking(folder.path()), "carefully", Link::default()).await.unwrap();
    let (ask, from) = question(&mut events).await;
    assert_eq!(from, [child.session().id().clone(), grandchild.session().id().clone()]);
    // What a `kill -9` leaves: the files as they are now.
    let copy = taped::folder();
    crate::support::copied::copy(&folder.path().join("store"), &copy.path().join("store"));
    drop(events);
    assert!(first.shutdown().await.is_empty());
    assert!(careful.runs().is_empty());

    let second = runtime(copy.path(), &careful).await;
    let root = second.open(&"root".parse().unwrap()).await.unwrap();
    let events = root.events();
    root.answer_as(ask, Grant::Once, "ada").await.unwrap();
    let id = grandchild.session().id().clone();
    until(async || careful.runs().get(&id) == Some(&1)).await;
    let there = second.open(&id).await.unwrap();
    until(async || there.state().await.unwrap().ended.len() == 1).await;
    assert_eq!(&*there.state().await.unwrap().ended[0].text, "it was allowed");
    assert_eq!(granted(&there).await, [(Grant::Once, Some("ada".to_owned()))]);
    until(async || root.state().await.unwrap().task_asks().count() == 0).await;
    assert_eq!(careful.runs(), BTreeMap::from([(id, 1)]));
    drop(events);
    assert!(second.shutdown().await.is_empty());
}

/// The actors of root and child crash while the question is open, and again while its answer is on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_survives_crashes_on_either_side() {
    let (folder, careful) = (taped::folder(), Careful::default());
    let runtime = runtime(folder.path(), &careful).await;
    let root = runtime.create(asking(folder.path())).await.unwrap();
    let mut events = root.events();
    let child = root.spawn_child(asking(folder.path()), "carefully", Link::default()).await.unwrap();
    let (ask, _) = question(&mut events).await;
    for session in [&root, child.session()] {
        runtime.operate().crash(session.id().as_str(), "a drill").unwrap();
        until(async || runtime.count().sessions == 2 && session.state().await.is_ok()).await;
    }
    root.answer(ask, Grant::Once).await.unwrap();
    runtime.operate().crash(root.id().as_str(), "a drill").unwrap();
    assert_eq!(down(&child).await, DownReason::Done);
    assert_eq!(careful.runs().values().copied().collect::<Vec<_>>(), [1]);
    assert_eq!((granted(&root).await.len(), granted(child.session()).await.len()), (1, 1));
    assert!(runtime.shutdown().await.is_empty());
}

/// Must show 3 of Permission: many children ask at once; each is answered or denied by its limit, none is lost or answered twice.
/// `TAMTAM_ASKS` sets how many: 1,000 in full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_children_ask_at_once() {
    let count: usize = std::env::var("TAMTAM_ASKS").ok().and_then(|asks| asks.parse().ok()).unwrap_or(200);
    let (folder, careful) = (taped::folder(), Careful::default());
    let runtime = runtime(folder.path(), &careful).await;
    let root = runtime.create(asking(folder.path())).await.unwrap();
    let mut events = root.events();
    let mut children = Vec::new();
    for n in 0..count {
        let mut options = asking(folder.path());
        // Every fourth is answered by nobody.
        options.ask_limit = if n % 4 == 3 { Duration::from_millis(300) } else { Duration::from_secs(600) };
        children.push(root.spawn_child(options, "carefully", Link::MONITORED).await.unwrap());
    }
    let place: BTreeMap<_, _> =
        children.iter().enumerate().map(|(n, child)| (child.session().id().clone(), n)).collect();
    let mut asked = BTreeSet::new();
    while asked.len() < count {
        let (ask, from) = question(&mut events).await;
        let n = place[&from[0]];
        assert!(asked.insert(n), "asked once");
        match n % 4 {
            0 | 1 => root.answer_as(ask, Grant::Once, "ada").await.unwrap(),
            2 => root.answer(ask, Grant::Reject(Some("no".into()))).await.unwrap(),
            _ => {}
        }
    }
    for (n, child) in children.iter().enumerate() {
        assert_eq!(down(child).await, DownReason::Done);
        let said = child.session().state().await.unwrap().ended.back().unwrap().text.clone();
        assert_eq!(&*said, if n % 4 < 2 { "it was allowed" } else { "it was not allowed" }, "{n}");
    }
    assert_eq!(careful.runs().len(), children.iter().enumerate().filter(|(n, _)| n % 4 < 2).count());
    assert!(careful.runs().values().all(|runs| *runs == 1));
    until(async || root.state().await.unwrap().task_asks().count() == 0).await;
    assert!(runtime.shutdown().await.is_empty());
}
