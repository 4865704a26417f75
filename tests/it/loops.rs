//! The guard against loops in a whole runtime: a model that repeats its calls is stopped if no one can be asked; else a
//! person decides. C-09, H-21, I-01 to I-06, V16.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tamtam::{
    Answer, EventKind, EventStream, Outcome, Runtime, Seq, Session, SessionOptions,
    model::{Reply, Scripted, transcript},
    permission::Profile,
    session::{CallVerdict, DownReason, Grant, Link, Next, Record, Scope},
    tool::{self, Access, TypedTool},
};

use crate::support::taped;

/// How long anything may take that a test waits for. Only what hangs does.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A tool that counts its runs.
fn counts(name: &str, runs: &Arc<AtomicUsize>) -> TypedTool<Nothing> {
    let runs = runs.clone();
    tool::typed(name, "Counts its runs.", move |_: Nothing, _| {
        let runs = runs.clone();
        async move { Ok::<_, String>(format!("run {}", runs.fetch_add(1, Ordering::SeqCst) + 1)) }
    })
}

struct Lab {
    folder: taped::Folder,
    model: Arc<Scripted>,
    runtime: Runtime,
    runs: Arc<AtomicUsize>,
}

/// A runtime with the tools `look` and `poll`; calls of the second are meant to be repeated.
async fn lab(replies: impl IntoIterator<Item = Reply>) -> Lab {
    let (folder, runs) = (taped::folder(), Arc::default());
    let model = Arc::new(Scripted::new(replies));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let builder = builder.tool(counts("look", &runs)).tool(counts("poll", &runs).pollable());
    Lab { runtime: builder.start().await.unwrap(), folder, model, runs }
}

fn options(folder: &Path) -> SessionOptions {
    SessionOptions::new(folder).profile(Profile::Auto)
}

fn look() -> Reply {
    Reply::call("look", json!({}))
}

/// A model that makes the same call for ever.
fn again() -> [Reply; 1] {
    [look().when("user: ")]
}

impl Lab {
    async fn session(&self) -> Session {
        self.runtime.create(options(self.folder.path())).await.unwrap()
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it comes")
}

async fn say(session: &Session, text: &str) -> Answer {
    soon(async { session.prompt(text).await.unwrap().wait().await.unwrap() }).await
}

/// The next ask, and what it is about.
async fn asked(events: &mut EventStream) -> (Seq, Vec<Access>) {
    soon(async {
        loop {
            if let Next::Event(event) = events.next().await.expect("the session lives")
                && let EventKind::Ask { ask, access, .. } = &event.kind
            {
                return (*ask, access.clone());
            }
        }
    })
    .await
}

fn ended_by_a_loop() -> Outcome {
    Outcome::DoomLoop { tool: "look".into() }
}

/// V16, I-01, I-07, C-09: nobody is there. The third equal call is answered by an error, the fourth ends the turn; the session works on.
#[tokio::test]
async fn a_loop_ends_the_turn_where_nobody_listens() {
    let lab = lab(again()).await;
    let session = lab.session().await;
    for turn in 1..=2 {
        let answer = say(&session, "go").await;
        assert_eq!((answer.outcome, answer.steps), (ended_by_a_loop(), 4));
        assert_eq!((lab.runs(), lab.model.requests().len()), (2 * turn, 4 * turn), "a message begins anew");
    }
    let told = transcript(lab.model.requests().last().unwrap());
    assert!(told.contains("Not run: this is the same call of look for the third time in a row"), "{told}");
    let entries = session.entries().await.unwrap();
    let refused =
        |entry: &&tamtam::session::Entry| matches!(entry.record, Record::Result { judged: CallVerdict::Repeats, .. });
    assert_eq!(entries.iter().filter(refused).count(), 4);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// V16: the same in a child, whose parent hears why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_of_a_child_ends_the_child() {
    let lab = lab([look().when("user: work"), Reply::text("thank you")]).await;
    let parent = lab.session().await;
    let child = parent.spawn_child(options(lab.folder.path()), "work", Link::DETACHED).await.unwrap();
    let down = soon(child.down()).await.unwrap().reason.clone();
    assert_eq!(down, DownReason::Failed { error: "called look again and again".into() });
    assert_eq!(lab.runs(), 2);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// H-21: where somebody listens, one ask names the call and the permission `doom_loop`; a yes for the turn lets all of them run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_decides_about_a_loop() {
    let replies = || (0..6).map(|_| look());
    let lab = lab(replies().chain([Reply::text("done")]).chain(replies())).await;
    let session = lab.session().await;
    let mut events = session.events();
    let receipt = session.prompt("go").await.unwrap();
    let (ask, access) = asked(&mut events).await;
    assert_eq!((access, lab.runs()), (vec![Access::new("look", "*"), Access::new("doom_loop", "look")], 2));
    session.answer(ask, Grant::Always(Scope::Turn)).await.unwrap();
    assert_eq!((soon(receipt.wait()).await.unwrap().outcome, lab.runs()), (Outcome::Done, 6));

    // A loop is refused once.
    let receipt = session.prompt("go on").await.unwrap();
    let (ask, _) = asked(&mut events).await;
    session.answer(ask, Grant::Reject(Some("twice is enough".into()))).await.unwrap();
    assert_eq!((soon(receipt.wait()).await.unwrap().outcome, lab.runs()), (ended_by_a_loop(), 8));
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// ASK-30: calls that poll are no loop, however often they are made.
#[tokio::test]
async fn a_tool_that_polls_is_exempt() {
    let lab = lab((0..12).map(|_| Reply::call("poll", json!({}))).chain([Reply::text("done")])).await;
    let answer = say(&lab.session().await, "go").await;
    assert_eq!((answer.outcome, lab.runs()), (Outcome::Done, 12));
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// I-06, promise 4: a restart of the session in the middle of a row forgets nothing, and a reset by the handle forgets all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_the_row_and_a_reset_ends_it() {
    for reset in [false, true] {
        let lab = lab([look(), look(), look().at_barrier("gate"), look(), Reply::text("done")]).await;
        let session = lab.session().await;
        let receipt = session.prompt("go").await.unwrap();
        soon(lab.model.barrier("gate").reached()).await;
        soon(lab.runtime.operate().restart(session.id().as_str())).await.unwrap();
        if reset {
            session.reset_loops().await.unwrap();
        }
        lab.model.barrier("gate").release();
        let outcome = soon(receipt.wait()).await.unwrap().outcome;
        let expected = if reset { (Outcome::Done, 4) } else { (ended_by_a_loop(), 2) };
        assert_eq!((outcome, lab.runs()), expected, "reset: {reset}");
        assert!(lab.runtime.shutdown().await.is_empty());
    }
}
