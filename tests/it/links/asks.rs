//! Questions of children: asked, answered and recorded at the topmost session, over crashes and kills, each answered once.

mod killed;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::PathBuf,
};

use tamtam::{
    EventStream, Seq, SessionId,
    session::{AskClosedWhy, Grant, Granted, Scope},
};

use super::*;

/// A tool that a person must allow. Each run adds the session that made the call to a file, which no crash takes back.
#[derive(Clone)]
struct Careful {
    file: PathBuf,
    /// What else a run does.
    then: fn(),
}

impl Careful {
    fn new(folder: &Path) -> Careful {
        Careful { file: folder.join("runs"), then: || {} }
    }

    fn runs(&self) -> BTreeMap<SessionId, u32> {
        let mut runs = BTreeMap::new();
        for session in fs::read_to_string(&self.file).unwrap_or_default().lines() {
            *runs.entry(session.parse().unwrap()).or_default() += 1;
        }
        runs
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
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.file).unwrap();
        // One write a line: it is whole, whoever writes beside it.
        file.write_all(format!("{}\n", context.session).as_bytes()).unwrap();
        (self.then)();
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
    tokio::time::timeout(Duration::from_secs(60), next).await.expect("the question comes")
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
        let folder = taped::folder();
        let careful = Careful::new(folder.path());
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
    let folder = taped::folder();
    let careful = Careful::new(folder.path());
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
        let folder = taped::folder();
        let careful = Careful::new(folder.path());
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

/// The actors of root and child crash while the question is open, and again while its answer is on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_survives_crashes_on_either_side() {
    let folder = taped::folder();
    let careful = Careful::new(folder.path());
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

/// P14: of a thousand answers at once the first counts, and each other one is told so; so is one that comes late, one for a question
/// that was withdrawn, and one for a question of another session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_answers_at_once_the_first_counts() {
    const ANSWERS: usize = 1_000;
    let folder = taped::folder();
    let careful = Careful::new(folder.path());
    let runtime = runtime(folder.path(), &careful).await;
    let session = runtime.create(asking(folder.path())).await.unwrap();
    let mut events = session.events();
    let turn = session.prompt("carefully").await.unwrap();
    let (ask, _) = question(&mut events).await;
    let other = runtime.create(asking(folder.path())).await.unwrap();
    let refused = |told: Result<(), SendError>| matches!(told, Err(SendError::Refused(Refusal::AskClosed { .. })));
    assert!(refused(other.answer(ask, Grant::Once).await), "another session has no such question");
    let mut answers = tokio::task::JoinSet::new();
    for n in 0..ANSWERS {
        let session = session.clone();
        let grant = if n % 2 == 0 { Grant::Once } else { Grant::Reject(Some("no".into())) };
        answers.spawn(async move {
            loop {
                // The mailbox is bounded: who finds it full tries again.
                match session.answer_as(ask, grant.clone(), format!("{n}")).await {
                    Err(SendError::Refused(Refusal::InboxFull { .. })) => tokio::task::yield_now().await,
                    told => return (grant, format!("{n}"), told),
                }
            }
        });
    }
    let (counted, others): (Vec<_>, Vec<_>) = answers.join_all().await.into_iter().partition(|(.., told)| told.is_ok());
    let [(grant, who, _)] = &counted[..] else { panic!("{} answers counted", counted.len()) };
    assert!(others.len() == ANSWERS - 1 && others.into_iter().all(|(.., told)| refused(told)));
    assert_eq!(granted(&session).await, [(grant.clone(), Some(who.clone()))]);
    assert_eq!(turn.wait().await.unwrap().outcome, Outcome::Done);
    assert_eq!(careful.runs().values().sum::<u32>(), u32::from(*grant == Grant::Once));
    assert!(refused(session.answer(ask, Grant::Once).await), "too late");

    let mut events = other.events();
    let turn = other.prompt("carefully").await.unwrap();
    let (ask, _) = question(&mut events).await;
    other.abort("enough").await.unwrap();
    assert!(refused(other.answer(ask, Grant::Once).await), "it was withdrawn");
    assert!(matches!(turn.wait().await.unwrap().outcome, Outcome::Aborted { .. }));
    assert!(!careful.runs().contains_key(other.id()));
    assert!(runtime.shutdown().await.is_empty());
}

/// Must show 3 of Permission: many children ask at once; each is answered or denied by its limit, none is lost or answered twice.
/// `TAMTAM_ASKS` sets how many: 1,000 in full (docs/OPERATIONS.md).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_children_ask_at_once() {
    let count: usize = std::env::var("TAMTAM_ASKS").ok().and_then(|asks| asks.parse().ok()).unwrap_or(200);
    let folder = taped::folder();
    let careful = Careful::new(folder.path());
    let runtime = runtime(folder.path(), &careful).await;
    let root = runtime.create(asking(folder.path())).await.unwrap();
    let mut events = root.events();
    // The host waits for each task from its beginning: a parent remembers the newest 32 DOWNs, and others are read from its tape.
    let (mut children, mut downs) = (Vec::new(), tokio::task::JoinSet::new());
    for n in 0..count {
        let mut options = asking(folder.path());
        // Every fourth is answered by nobody.
        options.ask_limit = if n % 4 == 3 { Duration::from_millis(300) } else { Duration::from_secs(600) };
        let child = root.spawn_child(options, "carefully", Link::MONITORED).await.unwrap();
        downs.spawn({
            let child = child.clone();
            async move { child.down().await.unwrap().reason.clone() }
        });
        children.push(child);
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
    let downs = tokio::time::timeout(Duration::from_secs(60), downs.join_all()).await.expect("the DOWNs come");
    assert!(downs.iter().all(|reason| *reason == DownReason::Done), "{downs:?}");
    for (n, child) in children.iter().enumerate() {
        let said = child.session().state().await.unwrap().ended.back().unwrap().text.clone();
        assert_eq!(&*said, if n % 4 < 2 { "it was allowed" } else { "it was not allowed" }, "{n}");
    }
    assert_eq!(careful.runs().len(), children.iter().enumerate().filter(|(n, _)| n % 4 < 2).count());
    assert!(careful.runs().values().all(|runs| *runs == 1));
    until(async || root.state().await.unwrap().task_asks().count() == 0).await;
    assert!(runtime.shutdown().await.is_empty());
}
