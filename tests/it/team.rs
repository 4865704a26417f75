//! Agents that delegate: the tool `task` and its levers in a whole runtime, with envelopes, deadlines, keys and crashes.

mod commands;
mod crashes;
mod killed;
mod privacy;
mod rights;
mod roles;
mod terms;
mod writers;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Delivery, EventKind, EventStream, Outcome, Runtime, Session, SessionOptions, Steering,
    model::{BoxFuture, Reply, Scripted},
    permission::{Action, Rule, Ruleset},
    session::{Entry, Grant, Link, Next, Record, TaskRequest, TaskResult, TaskStatus},
    tool::{Access, Effect, Tool, ToolContext, ToolResult},
};

use crate::support::taped;

/// A tool that a person must allow.
struct Careful(Arc<AtomicUsize>);

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

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { ToolResult::ok("carefully done") })
    }
}

struct Lab {
    folder: taped::Folder,
    model: Arc<Scripted>,
    runtime: Runtime,
    parent: Session,
    careful: Arc<AtomicUsize>,
}

async fn start(folder: &Path, model: &Arc<Scripted>, careful: &Arc<AtomicUsize>) -> Runtime {
    let builder = Runtime::builder().store(folder.join("store")).model(model.clone()).with_tasks();
    builder.tool(Careful(careful.clone())).start().await.unwrap()
}

fn options(folder: &Path) -> SessionOptions {
    let mut options = SessionOptions::new(folder);
    options.rules =
        Some(Ruleset::new("test", [Rule::new("*", "*", Action::Allow), Rule::new("careful", "*", Action::Ask)]));
    options
}

async fn lab_with(replies: impl IntoIterator<Item = Reply>, change: impl FnOnce(&mut SessionOptions)) -> Lab {
    let (folder, careful) = (taped::folder(), Arc::default());
    let model = Arc::new(Scripted::new(replies));
    let runtime = start(folder.path(), &model, &careful).await;
    let mut options = options(folder.path());
    change(&mut options);
    let parent = runtime.create(options).await.unwrap();
    Lab { folder, model, runtime, parent, careful }
}

async fn lab(replies: impl IntoIterator<Item = Reply>) -> Lab {
    lab_with(replies, |_| {}).await
}

fn arguments(prompt: &str, more: Value) -> Value {
    let mut arguments =
        json!({ "description": format!("about {prompt}"), "prompt": prompt, "subagent_type": "general" });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

fn task(prompt: &str, more: Value) -> Reply {
    Reply::call("task", arguments(prompt, more))
}

/// What the child of this prompt says.
fn child(prompt: &str, reply: Reply) -> Reply {
    reply.when(format!("user: {prompt}"))
}

async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it comes soon")
}

async fn until(is_so: impl AsyncFn() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

impl Lab {
    /// Sends a prompt, and gives the outcome and text of its turn.
    async fn ask(&self, prompt: &str) -> (Outcome, String) {
        let answer = soon(self.parent.prompt(prompt).await.unwrap().wait()).await.unwrap();
        (answer.outcome, answer.text)
    }

    async fn entries(&self, session: &Session) -> Vec<Entry> {
        session.entries().await.unwrap()
    }

    /// The results of the parent's calls, in the order in which they came.
    async fn results(&self) -> Vec<Arc<ToolResult>> {
        let entries = self.entries(&self.parent).await;
        let results = entries.into_iter().filter_map(|entry| match entry.record {
            Record::Result { result, .. } => Some(result),
            _ => None,
        });
        results.collect()
    }

    /// The sessions of all tasks that were given, in their order.
    async fn children(&self) -> Vec<Session> {
        let entries = self.entries(&self.parent).await;
        let children = entries.into_iter().filter_map(|entry| match entry.record {
            Record::TaskStarted { child, .. } => Some(self.runtime.session(&child)),
            _ => None,
        });
        children.collect()
    }

    /// The end: no process, task or lock is left.
    async fn end(self) {
        assert!(self.runtime.shutdown().await.is_empty());
    }
}

fn envelope(result: &ToolResult) -> TaskResult {
    serde_json::from_value(result.details["task"].clone()).unwrap_or_else(|error| panic!("{error}: {result:?}"))
}

/// The last request of the parent, as a text.
fn told(lab: &Lab) -> String {
    tamtam::model::transcript(lab.model.requests().last().unwrap())
}

/// M-12, M-14, O-13, O-19, E-13, O-01 to O-05, O-11: two tasks of one answer run side by side, each in a session of its own; their
/// results come in the order of the calls, as texts for the model and as envelopes for programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tasks_of_one_answer_run_side_by_side() {
    let both = Reply::call("task", arguments("find a", json!({}))).with_call("task", arguments("find b", json!({})));
    let [a, b] =
        ["a", "b"].map(|name| child(&format!("find {name}"), Reply::text(format!("found {name}")).at_barrier(name)));
    let lab = lab([both, Reply::text("both found"), a, b]).await;
    let receipt = lab.parent.prompt("go").await.unwrap();
    for name in ["a", "b"] {
        soon(lab.model.barrier(name).reached()).await;
    }
    // The second one first: the results are in the order of the calls all the same.
    lab.model.barrier("b").release();
    until(async || lab.parent.tasks().await.unwrap().len() == 1).await;
    lab.model.barrier("a").release();
    assert_eq!(soon(receipt.wait()).await.unwrap().text, "both found");
    let told = told(&lab);
    let [a, b] = ["found a", "found b"].map(|found| told.find(found).unwrap());
    assert!(a < b, "{told}");
    let children: Vec<_> = lab.children().await.iter().map(|child| child.id().clone()).collect();
    for result in lab.results().await {
        let envelope = envelope(&result);
        // Calls that run side by side give their tasks in any order.
        let id = &envelope.provenance.session_id;
        assert!(envelope.status == TaskStatus::Completed && children.contains(id), "{envelope:?}");
        assert_eq!((&*envelope.provenance.agent, envelope.metrics.steps), ("general", 1));
        let origin = lab.runtime.session(id).state().await.unwrap().origin.unwrap();
        assert_eq!((envelope.task_id.as_str(), &origin.parent), (origin.prompt.as_str(), lab.parent.id()));
    }
    lab.end().await;
}

/// O-25: a task in the background lets the parent go on, and its end is a message that wakes the parent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_in_the_background_tells_of_its_end() {
    let found = child("look it up", Reply::text("found it").at_barrier("child"));
    let replies =
        [task("look it up", json!({ "background": true })), Reply::text("meanwhile"), Reply::text("thank you"), found];
    let lab = lab(replies).await;
    assert_eq!(lab.ask("go").await, (Outcome::Done, "meanwhile".to_owned()));
    soon(lab.model.barrier("child").reached()).await;
    let [open] = &lab.parent.tasks().await.unwrap()[..] else { panic!("one is open") };
    let progress = open.progress().await.unwrap();
    assert_eq!((progress.status, progress.metrics.steps, progress.stalled), (TaskStatus::Running, 1, false));
    lab.model.barrier("child").release();
    until(async || lab.parent.state().await.unwrap().turns == 2).await;
    soon(lab.parent.wait()).await.unwrap();
    assert_eq!(&*lab.parent.state().await.unwrap().ended.back().unwrap().text, "thank you");
    assert!(told(&lab).contains("is over: done.\n\nfound it"), "{}", told(&lab));
    lab.end().await;
}

/// CROSS-ERR-005: a result that comes while the parent's model answers is kept until the answer is whole, and told behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_comes_during_an_answer_is_told_behind_it() {
    let found = child("look it up", Reply::text("found it").at_barrier("child"));
    let answer = Reply::text("mean").at_barrier("parent").with_text("while");
    let replies = [task("look it up", json!({ "background": true })), answer, Reply::text("thank you"), found];
    let lab = lab(replies).await;
    let first = lab.parent.prompt("go").await.unwrap();
    soon(lab.model.barrier("parent").reached()).await;
    soon(lab.model.barrier("child").reached()).await;
    lab.model.barrier("child").release();
    let waits = |state: tamtam::session::State| state.steering.len() + state.queue.len();
    until(async || waits(lab.parent.state().await.unwrap()) == 1).await;
    assert_eq!(lab.model.requests().len(), 3, "the parent's model goes on with its answer");
    lab.model.barrier("parent").release();
    assert_eq!(soon(first.wait()).await.unwrap().text, "thank you");
    let told = told(&lab);
    let place = |words: &str| told.find(words).unwrap_or_else(|| panic!("{words}: {told}"));
    assert!(place("meanwhile") < place("found it"), "{told}");
    lab.end().await;
}

/// X-03, O-19, O-04, O-12: the call that waits shows how far the task is: the tool that runs, what is over, tokens and age.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_shows_how_far_its_task_is() {
    let works = child("look", Reply::call("task_status", json!({})).when_answers(0));
    let ends = child("look", Reply::text("done").at_barrier("end").when_answers(1));
    let lab =
        lab_with([task("look", json!({})), Reply::text("ok"), works, ends], |options| options.task_depth_max = Some(2))
            .await;
    let mut events = lab.parent.events();
    let receipt = lab.parent.prompt("go").await.unwrap();
    let mut shown = Value::Null;
    let found = async {
        while let Some(Next::Event(event)) = events.next().await {
            let EventKind::CallProgress { metadata, .. } = &event.kind else { continue };
            shown = metadata.clone();
            if shown["events"][0]["tool"] == "task_status" && shown["metrics"]["steps"] == 2 {
                return;
            }
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), found).await;
    assert!(found.is_ok(), "the newest that is shown: {shown}; asked: {:?}", lab.model.requests().len());
    assert_eq!((&shown["status"], &shown["stalled"]), (&json!("running"), &json!(false)));
    lab.model.barrier("end").release();
    soon(receipt.wait()).await.unwrap();
    let envelope = envelope(&lab.results().await[0]);
    assert_eq!((&*envelope.tool_calls[0].tool, envelope.tool_calls[0].calls), ("task_status", 1));
    lab.end().await;
}

/// O-23, O-11: each of several tasks is steered, stopped with what it has, or left alone by itself, by handle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_task_is_steered_and_another_one_stopped() {
    let both = Reply::call("task", arguments("find a", json!({}))).with_call("task", arguments("find b", json!({})));
    let steered = Reply::text("found a and c").when("user: also c");
    let works = child("find a", Reply::call("nothing", json!({})).at_barrier("a").when_answers(0));
    let half = child("find b", Reply::text("half of b").hanging());
    let lab = lab([both, Reply::text("thank you"), steered, works, half]).await;
    let receipt = lab.parent.prompt("go").await.unwrap();
    soon(lab.model.barrier("a").reached()).await;
    until(async || lab.parent.tasks().await.unwrap().len() == 2).await;
    let tasks = lab.parent.tasks().await.unwrap();
    let mut of = std::collections::BTreeMap::new();
    for task in tasks {
        // The parent's tape has a task before the child's is made.
        soon(task.started()).await.unwrap();
        let prompt = task.session().state().await.unwrap().settings.title.clone();
        of.insert(prompt, task);
    }
    let (a, b) = (&of[&Some("about find a".to_owned())], &of[&Some("about find b".to_owned())]);
    a.session().steer("also c").await.unwrap();
    lab.model.barrier("a").release();
    // What the progress shows is what the stop keeps, also of an answer that is still being made.
    until(async || b.progress().await.is_ok_and(|progress| progress.partial_output == "half of b")).await;
    b.stop("that is enough").await.unwrap();
    assert_eq!(soon(receipt.wait()).await.unwrap().text, "thank you");
    let told = told(&lab);
    assert!(told.contains("found a and c"), "{told}");
    assert!(told.contains("The task is over: aborted: that is enough."), "{told}");
    assert!(told.contains("What the subagent had by then:\n\nhalf of b"), "{told}");
    lab.end().await;
}

/// Steering the parent leaves its children alone; a message that aborts what runs stops the task that a call waits for, which keeps
/// what it has, and not one in the background.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steering_the_parent_kills_no_child() {
    for (steering, stopped) in [(Steering::SkipRemaining, false), (Steering::AbortRunning, true)] {
        let both = Reply::call("task", arguments("behind", json!({ "background": true })))
            .with_call("task", arguments("front", json!({})));
        let behind = child("behind", Reply::text("behind is done").at_barrier("behind"));
        let front = child("front", Reply::text("front is done").at_barrier("front"));
        let lab = lab([both, Reply::text("steered"), Reply::text("end"), behind, front]).await;
        let receipt = lab.parent.prompt("go").await.unwrap();
        for name in ["front", "behind"] {
            soon(lab.model.barrier(name).reached()).await;
        }
        until(async || lab.results().await.len() == 1).await;
        lab.parent.send("something else", Delivery::Steer(steering)).await.unwrap();
        if !stopped {
            lab.model.barrier("front").release();
        }
        assert_eq!(soon(receipt.wait()).await.unwrap().text, "steered");
        let [first, second] = &lab.results().await[..] else { panic!("each call has one result") };
        assert!(first.content.contains("works in the background"));
        let envelope = envelope(second);
        assert_eq!(envelope.status, if stopped { TaskStatus::Cancelled } else { TaskStatus::Completed }, "{second:?}");
        assert_eq!(lab.parent.tasks().await.unwrap().len(), 1, "the one in the background works on");
        lab.model.barrier("behind").release();
        until(async || lab.parent.state().await.unwrap().turns == 2).await;
        soon(lab.parent.wait()).await.unwrap();
        assert!(told(&lab).contains("behind is done"));
        lab.end().await;
    }
}

/// The model steers, looks at and stops a task that it gave, by its session_id; of what is no task of its own it is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_has_levers_of_its_own() {
    let id = |said: &str| {
        let from = said.rfind("Task ").map_or(0, |at| at + 5);
        said[from..].split(' ').next().unwrap_or_default().to_owned()
    };
    let model = Arc::new(Scripted::from_fn(move |request| {
        let said = tamtam::model::transcript(request);
        let answers = said.matches("\ncall ").count();
        match (said.contains("user: long work"), answers) {
            (true, 0) => Reply::call("careful", json!({})).at_barrier("work"),
            (true, _) => Reply::text("half of it").hanging(),
            (false, 0) => task("long work", json!({ "background": true })),
            (false, 1) => Reply::call("task_send", json!({ "session_id": id(&said), "message": "hurry" })),
            (false, 2) => Reply::call("task_status", json!({})),
            (false, 3) => Reply::call("task_stop", json!({ "session_id": "nobody", "reason": "?" })),
            (false, 4) => {
                let at = said.find("Task ").unwrap() + 5;
                let child = said[at..].split(' ').next().unwrap();
                Reply::call("task_stop", json!({ "session_id": child, "reason": "late" })).at_barrier("stop")
            }
            (false, _) => Reply::text("end"),
        }
    }));
    let (folder, careful) = (taped::folder(), Arc::default());
    let runtime = start(folder.path(), &model, &careful).await;
    let mut options = options(folder.path());
    options.rules = Some(Ruleset::new("test", [Rule::new("*", "*", Action::Allow)]));
    let parent = runtime.create(options).await.unwrap();
    let lab = Lab { folder, model, runtime, parent, careful };
    let receipt = lab.parent.prompt("go").await.unwrap();
    soon(lab.model.barrier("stop").reached()).await;
    lab.model.barrier("work").release();
    let child = lab.children().await[0].clone();
    until(async || tamtam::model::transcript(&lab.model.requests().last().unwrap().clone()).contains("user: hurry"))
        .await;
    until(async || child.state().await.unwrap().turn.as_ref().is_some_and(|turn| turn.step == 2)).await;
    until(async || lab.model.streaming() == 2).await;
    lab.model.barrier("stop").release();
    assert_eq!(soon(receipt.wait()).await.unwrap().text, "end");
    let results = lab.results().await;
    assert!(results[1].content.contains("reads the message"), "{:?}", results[1]);
    assert!(results[2].content.contains("\"running\""), "{:?}", results[2]);
    assert!(results[3].is_error() && results[3].content.contains("No open task"), "{:?}", results[3]);
    assert!(results[4].content.contains("aborted: late"), "{:?}", results[4]);
    soon(lab.parent.wait()).await.unwrap();
    assert_eq!(lab.parent.state().await.unwrap().turns, 1, "whoever stops a task is not woken by its end");
    let _ = lab.folder.path();
    lab.end().await;
}

/// C-08, C-33: a child's question is asked at the root, where it is answered; and where nobody listens at the root it is denied, although
/// the call that waits for the task follows the child's events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_childs_question_goes_to_the_root_and_the_call_that_follows_is_nobody() {
    for heard in [true, false] {
        let asks = child("do it", Reply::call("careful", json!({})).when_answers(0));
        let says = child("do it", Reply::text("I tried").when_answers(1));
        let lab = lab([task("do it", json!({})), Reply::text("end"), asks, says]).await;
        let mut events = heard.then(|| lab.parent.events());
        let receipt = lab.parent.prompt("go").await.unwrap();
        if let Some(events) = &mut events {
            let ask = soon(next_ask(events)).await;
            lab.parent.answer(ask, Grant::Once).await.unwrap();
        }
        assert_eq!(soon(receipt.wait()).await.unwrap().text, "end");
        assert_eq!(lab.careful.load(Ordering::SeqCst), usize::from(heard));
        let calls = &envelope(&lab.results().await[0]).tool_calls;
        assert_eq!((&*calls[0].tool, calls[0].calls, calls[0].failed), ("careful", 1, u32::from(!heard)));
        drop(events);
        lab.end().await;
    }
}

async fn next_ask(events: &mut EventStream) -> tamtam::Seq {
    loop {
        if let Next::Event(event) = events.next().await.expect("the session lives")
            && let EventKind::Ask { ask, .. } = &event.kind
        {
            return *ask;
        }
    }
}
