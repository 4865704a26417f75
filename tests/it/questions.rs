//! Questions of running calls (`ToolContext::ask`) in a whole runtime: answered, refused, late, withdrawn, over a crash of the
//! session and a death of the process, and from a child.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Delivery, EventKind, EventStream, Outcome, Runtime, Seq, Session, SessionOptions, Steering,
    model::{BoxFuture, Item, Reply, Scripted},
    permission::{Action, Rule, Ruleset},
    session::{Grant, Link, Next, Record},
    tool::{Access, Effect, Question, Tool, ToolContext, ToolResult},
};

use crate::support::taped;

/// A tool that asks while it runs, and says what it heard. Notes each answer.
#[derive(Clone)]
struct Asker {
    heard: Arc<Mutex<Vec<String>>>,
    effect: Effect,
}

impl Asker {
    fn new(effect: Effect) -> Asker {
        Asker { heard: Arc::default(), effect }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

impl Tool for Asker {
    fn name(&self) -> &str {
        "asker"
    }

    fn description(&self) -> &str {
        "Asks while it runs."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new("asker", "*")]
    }

    /// Shorter than a person thinks.
    fn limit(&self, _: &Value) -> Duration {
        Duration::from_secs(60)
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let question = Question::about("Reach production?", [Access::new("net", "production")]);
            let answer = context.ask(question.with_details("3 services change.")).await;
            self.heard.lock().unwrap().push(answer.to_string());
            ToolResult::ok(format!("heard: {answer}"))
        })
    }
}

/// One call of the tool, then the end. A session whose prompt says so makes it.
fn model() -> Arc<Scripted> {
    Arc::new(Scripted::from_fn(|request| {
        let said = tamtam::model::transcript(request);
        match said.contains("ask them") && !said.contains("result asker") {
            true => Reply::call("asker", json!({})),
            false => Reply::text("done"),
        }
    }))
}

async fn start(folder: &Path, asker: &Asker) -> Runtime {
    Runtime::builder().store(folder.join("store")).model(model()).tool(asker.clone()).start().await.unwrap()
}

/// With the tape in memory: while a thread writes to a disk, virtual time would run on, past every limit.
async fn in_virtual_time(asker: &Asker) -> Runtime {
    Runtime::builder().in_memory().model(model()).tool(asker.clone()).start().await.unwrap()
}

fn options(folder: &Path) -> SessionOptions {
    let mut options = SessionOptions::new(folder);
    let lines = [Rule::new("asker", "*", Action::Allow), Rule::new("net", "*", Action::Ask)];
    options.rules = Some(Ruleset::new("test", lines.to_vec()));
    options
}

async fn asked(events: &mut EventStream) -> Seq {
    let next = async {
        loop {
            if let Next::Event(event) = events.next().await.expect("the session lives")
                && let EventKind::Ask { ask, question, access, name, .. } = &event.kind
            {
                let question = question.as_ref().expect("the call runs");
                assert_eq!(
                    (question.title.as_str(), question.details.as_str()),
                    ("Reach production?", "3 services change.")
                );
                assert_eq!((name.as_str(), &access[..]), ("asker", &[Access::new("net", "production")][..]));
                return *ask;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(3_600), next).await.expect("the question comes")
}

fn result(state: &tamtam::session::State) -> String {
    let result = state.history.iter().find_map(|item| match item.as_ref() {
        Item::Result(result) => Some(result.content.to_string()),
        _ => None,
    });
    result.unwrap_or_default()
}

async fn asks(session: &Session) -> usize {
    let entries = session.entries().await.unwrap();
    entries.iter().filter(|entry| matches!(entry.record, Record::Ask { .. })).count()
}

/// E-10: the answer of a person comes back into the call, which runs once. Who answered is on the tape.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_running_call_asks_and_has_the_answer() {
    for (grant, expected) in [
        (Grant::Once, "heard: The user agreed."),
        (Grant::Reject(Some("not today".into())), "heard: The user said no, and says: not today"),
    ] {
        let (folder, asker) = (taped::folder(), Asker::new(Effect::Once));
        let runtime = in_virtual_time(&asker).await;
        let session = runtime.create(options(folder.path())).await.unwrap();
        let mut events = session.events();
        let prompt = session.prompt("ask them").await.unwrap();
        let ask = asked(&mut events).await;
        // The person thinks for longer than the call may work.
        tokio::time::sleep(Duration::from_secs(300)).await;
        session.answer_as(ask, grant.clone(), "ada").await.unwrap();
        assert_eq!(prompt.wait().await.unwrap().outcome, Outcome::Done);
        assert_eq!((result(&session.state().await.unwrap()).as_str(), asker.heard().len()), (expected, 1));
        let entries = session.entries().await.unwrap();
        let given = entries.iter().find_map(|entry| match &entry.record {
            Record::Granted { grant, who, .. } => Some((grant.clone(), who.clone())),
            _ => None,
        });
        assert_eq!(given, Some((grant, Some("ada".to_owned()))));
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Promise 8: nobody answers in time, or nobody listens: the call is told which, and the turn goes on.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_question_without_an_answer_is_no() {
    for listens in [true, false] {
        let (folder, asker) = (taped::folder(), Asker::new(Effect::Once));
        let runtime = in_virtual_time(&asker).await;
        let session = runtime.create(options(folder.path())).await.unwrap();
        let events = listens.then(|| session.events());
        let prompt = session.prompt("ask them").await.unwrap();
        assert_eq!(prompt.wait().await.unwrap().outcome, Outcome::Done);
        let expected = if listens { "nobody answered the question in time" } else { "nobody listens" };
        assert!(asker.heard()[0].contains(expected), "{:?}", asker.heard());
        assert_eq!(asks(&session).await, usize::from(listens));
        drop(events);
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// An abort, or a message that skips the calls that ask, withdraws the question; a message that waits for the batch does not.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_question_is_withdrawn_by_an_abort_and_by_steering() {
    let steered = [(Some(Steering::SkipRemaining), true), (Some(Steering::FinishBatch), false), (None, true)];
    for (steering, withdrawn) in steered {
        let (folder, asker) = (taped::folder(), Asker::new(Effect::Once));
        let runtime = in_virtual_time(&asker).await;
        let session = runtime.create(options(folder.path())).await.unwrap();
        let mut events = session.events();
        let prompt = session.prompt("ask them").await.unwrap();
        let ask = asked(&mut events).await;
        match steering {
            Some(steering) => drop(session.send("something else", Delivery::Steer(steering)).await.unwrap()),
            None => drop(session.abort("enough").await.unwrap()),
        }
        let answered = session.answer(ask, Grant::Once).await;
        assert_eq!(answered.is_err(), withdrawn, "{steering:?} {answered:?}");
        let outcome = prompt.wait().await.unwrap().outcome;
        assert_eq!(outcome == Outcome::Done, steering.is_some(), "{outcome:?}");
        let expected = if withdrawn { "withdrawn" } else { "agreed" };
        assert!(asker.heard().iter().all(|heard| heard.contains(expected)), "{steering:?} {:?}", asker.heard());
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// C-06: a no without a word ends the turn and stops the call.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_rejected_question_ends_the_turn() {
    let (folder, asker) = (taped::folder(), Asker::new(Effect::Once));
    let runtime = in_virtual_time(&asker).await;
    let session = runtime.create(options(folder.path())).await.unwrap();
    let mut events = session.events();
    let prompt = session.prompt("ask them").await.unwrap();
    let ask = asked(&mut events).await;
    session.answer(ask, Grant::Reject(None)).await.unwrap();
    assert_eq!(prompt.wait().await.unwrap().outcome, Outcome::Rejected { tool: "asker".into() });
    assert!(runtime.shutdown().await.is_empty());
}

/// The question survives the crash of its session, and its answer the one of the process: the call runs again and is told, and
/// nobody is asked twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_survives_crashes() {
    let (folder, asker) = (taped::folder(), Asker::new(Effect::Read));
    let runtime = start(folder.path(), &asker).await;
    let session = runtime.create(options(folder.path())).await.unwrap();
    let mut events = session.events();
    let prompt = session.prompt("ask them").await.unwrap();
    let ask = asked(&mut events).await;
    runtime.operate().crash(session.id().as_str(), "on purpose").unwrap();
    session.state().await.unwrap();
    session.answer(ask, Grant::Once).await.unwrap();
    assert_eq!(prompt.wait().await.unwrap().outcome, Outcome::Done);
    assert_eq!((asker.heard(), asks(&session).await), (vec!["The user agreed.".to_owned()], 1));
    assert!(runtime.shutdown().await.is_empty());
}

/// C-33: the question of a child's call reaches the topmost session, is answered there, and the child's call has the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_child_reaches_the_root() {
    let (folder, asker) = (taped::folder(), Asker::new(Effect::Once));
    let runtime = start(folder.path(), &asker).await;
    let root = runtime.create(options(folder.path())).await.unwrap();
    let mut events = root.events();
    let child = root.spawn_child(options(folder.path()), "ask them", Link::default()).await.unwrap();
    let ask = asked(&mut events).await;
    root.answer_as(ask, Grant::Once, "ada").await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), child.down()).await.unwrap().unwrap();
    assert_eq!(asker.heard(), ["The user agreed."]);
    assert!(runtime.shutdown().await.is_empty());
}
