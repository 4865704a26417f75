//! Child sessions in a whole runtime: spawned, watched, stopped, orphaned and adopted, over crashes of parent, child and process.

mod asks;
mod bring_up;
mod budget;
mod cuts;
mod queue;

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
    EventKind, Outcome, Runtime, SendError, Session, SessionOptions,
    model::{BoxFuture, Reply, Scripted},
    permission::{Action, Profile, Rule, Ruleset},
    runtime::Child,
    session::{DownReason, Entry, Link, Next, Record, Refusal, SpawnError},
    tool::{Access, Effect, Tool, ToolContext, ToolResult},
};

use crate::support::{bomb::Bomb, taped};

/// A tool that waits until it is stopped, or crashes whoever asks what it wants.
struct Stub {
    name: &'static str,
    began: Arc<AtomicUsize>,
}

impl Tool for Stub {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Does what the test wants."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Once
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new(self.name, "*")]
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.began.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if self.name == "slow" {
                context.cancelled().await;
            }
            ToolResult::ok("ran")
        })
    }
}

struct Lab {
    folder: taped::Folder,
    model: Arc<Scripted>,
    runtime: Runtime,
    parent: Session,
    slow: Arc<AtomicUsize>,
}

async fn start(folder: &Path, model: &Arc<Scripted>, slow: &Arc<AtomicUsize>) -> Runtime {
    let builder = Runtime::builder().store(folder.join("store")).model(model.clone());
    let tool = |name| Stub { name, began: if name == "slow" { slow.clone() } else { Arc::default() } };
    let bomb = Bomb::default();
    let runtime = builder.tool(tool("slow")).tool(tool("quick")).tool(bomb.clone()).start().await.unwrap();
    bomb.arm(&runtime);
    runtime
}

fn options(folder: &Path) -> SessionOptions {
    SessionOptions::new(folder).profile(Profile::Auto)
}

async fn lab(replies: impl IntoIterator<Item = Reply>) -> Lab {
    let folder = taped::folder();
    let (model, slow) = (Arc::new(Scripted::new(replies)), Arc::default());
    let runtime = start(folder.path(), &model, &slow).await;
    let parent = runtime.create(options(folder.path())).await.unwrap();
    Lab { folder, model, runtime, parent, slow }
}

impl Lab {
    async fn spawn(&self, prompt: &str, link: Link) -> Child {
        self.parent.spawn_child(options(self.folder.path()), prompt, link).await.unwrap()
    }

    async fn another(&self) -> Session {
        self.runtime.create(options(self.folder.path())).await.unwrap()
    }

    /// Waits until the slow tool runs.
    async fn slow_runs(&self, times: usize) {
        until(async || self.slow.load(Ordering::SeqCst) >= times).await;
    }
}

/// Looks until it is so; 20 s at most.
async fn until(is_so: impl AsyncFn() -> bool) {
    let look = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), look).await.expect("it comes to be so");
}

async fn down(child: &Child) -> DownReason {
    let down = tokio::time::timeout(Duration::from_secs(60), child.down()).await.expect("the DOWN comes");
    down.unwrap().reason.clone()
}

/// How often each kind of entry about tasks is on a tape.
async fn count(session: &Session, is: impl Fn(&Record) -> bool) -> usize {
    let entries: Vec<Entry> = session.entries().await.unwrap();
    entries.iter().filter(|entry| is(&entry.record)).count()
}

fn is_down(record: &Record) -> bool {
    matches!(record, Record::TaskFinished { .. })
}

/// A-02, O-02, O-03, Z-06. The whole way: on the parent's tape first, shown under its parent, one DOWN, the parent woken by it, and all of it seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_works_beside_its_parent_and_wakes_it_when_it_is_down() {
    let found = Reply::text("found it").at_barrier("child").when("user: look it up");
    let lab = lab([Reply::text("while it works"), Reply::text("thank you"), found]).await;
    let mut events = lab.parent.events();
    let child = lab.spawn("look it up", Link::default()).await;
    lab.model.barrier("child").reached().await;
    // The parent talks on meanwhile.
    assert_eq!(lab.parent.prompt("hello").await.unwrap().wait().await.unwrap().text, "while it works");
    // Its parent says where it is shown, as soon as it knows that the child is up.
    until(async || {
        let tree = lab.runtime.tree();
        tree.find(lab.parent.id().as_str()).is_some_and(|node| node.find(child.session().id().as_str()).is_some())
    })
    .await;
    assert!(!lab.parent.state().await.unwrap().may_sleep());

    lab.model.barrier("child").release();
    assert_eq!(down(&child).await, DownReason::Done);
    lab.parent.wait().await.unwrap();
    let state = lab.parent.state().await.unwrap();
    assert_eq!((&*state.ended.back().unwrap().text, state.may_sleep()), ("thank you", true));
    let told = tamtam::model::transcript(lab.model.requests().last().unwrap());
    assert!(told.contains("is over: done.") && told.contains("found it"), "{told}");
    assert_eq!(count(&lab.parent, is_down).await, 1);
    let origin = child.session().state().await.unwrap().origin.unwrap();
    assert_eq!((&origin.parent, origin.ticket, origin.depth), (lab.parent.id(), child.ticket(), 1));

    assert!(lab.runtime.shutdown().await.is_empty());
    let mut seen = Vec::new();
    while let Some(next) = events.next().await {
        let Next::Event(event) = next else { continue };
        match &event.kind {
            EventKind::TaskStarted { ticket, adopted: false, .. } => seen.push(("started", *ticket)),
            EventKind::TaskFinished { ticket, down, message: Some(_), .. } => {
                assert_eq!(&*down.text, "found it");
                seen.push(("finished", *ticket));
            }
            _ => {}
        }
    }
    assert_eq!(seen, [("started", child.ticket()), ("finished", child.ticket())]);
}

/// A crash of the parent is no end: its child works on. A crash of the child is none either. One DOWN all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_outlives_the_crashes_of_its_parent_and_its_own() {
    let found = || Reply::text("found it").at_barrier("child").when("user: look it up");
    let lab = lab([Reply::text("thank you"), found()]).await;
    let child = lab.spawn("look it up", Link::default()).await;
    lab.model.barrier("child").reached().await;
    let incarnation = |lab: &Lab| lab.runtime.tree().find(child.session().id().as_str()).unwrap().incarnation;
    let before = incarnation(&lab);
    let is_under = || {
        let tree = lab.runtime.tree();
        tree.find(lab.parent.id().as_str()).is_some_and(|node| node.find(child.session().id().as_str()).is_some())
    };
    // Its parent says where it is shown when it knows that the child is up; the child may ask its model before that.
    until(async || is_under()).await;
    lab.runtime.operate().restart(lab.parent.id().as_str()).await.unwrap();
    assert_eq!(incarnation(&lab), before);
    lab.runtime.operate().restart(child.session().id().as_str()).await.unwrap();
    assert!(is_under(), "{}", lab.runtime.tree());
    lab.model.barrier("child").release();
    assert_eq!(down(&child).await, DownReason::Done);
    lab.parent.wait().await.unwrap();
    lab.runtime.operate().restart(lab.parent.id().as_str()).await.unwrap();
    lab.parent.wait().await.unwrap();
    assert_eq!(count(&lab.parent, is_down).await, 1);
    assert_eq!(lab.parent.state().await.unwrap().turns, 1);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// A child that an operator stops, and that a host wakes at once, has its watch again: its parent hears of its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_was_stopped_and_opened_at_once_still_reports_its_end() {
    let found = || Reply::text("found it").at_barrier("child").when("user: look it up");
    let lab = lab([Reply::text("thank you"), found(), found()]).await;
    let child = lab.spawn("look it up", Link::default()).await;
    lab.model.barrier("child").reached().await;
    let id = child.session().id().clone();
    lab.runtime.operate().stop(id.as_str()).await.unwrap();
    // The watch looks every half second whether the child is down, and never sees it so.
    let opened = lab.runtime.open(&id).await.unwrap();
    lab.model.barrier("child").release();
    opened.wait().await.unwrap();
    assert_eq!(down(&child).await, DownReason::Done);
    lab.parent.wait().await.unwrap();
    assert_eq!(count(&lab.parent, is_down).await, 1);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// An abort of the parent stops what its linked children run, and nobody is woken by that; a detached one works on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_of_the_parent_stops_linked_children() {
    let call = |text: &str| Reply::call("slow", json!({})).when(text).when_answers(0);
    let lab = lab([Reply::hang(), call("user: linked work"), call("user: detached work")]).await;
    let linked = lab.spawn("linked work", Link::LINKED).await;
    let detached = lab.spawn("detached work", Link::DETACHED).await;
    lab.slow_runs(2).await;
    let prompt = lab.parent.prompt("go").await.unwrap();
    lab.parent.abort("enough").await.unwrap();
    assert!(matches!(down(&linked).await, DownReason::Aborted { .. }));
    assert!(matches!(prompt.wait().await.unwrap().outcome, Outcome::Aborted { .. }));
    lab.parent.wait().await.unwrap();
    let state = linked.session().state().await.unwrap();
    assert!(state.open.is_empty() && state.turn.is_none());
    assert!(detached.session().state().await.unwrap().turn.is_some());
    assert_eq!(lab.parent.state().await.unwrap().turns, 1, "nobody is woken by what they stopped");
    detached.session().abort("enough too").await.unwrap();
    assert!(matches!(down(&detached).await, DownReason::Aborted { .. }));
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// Invariant 32: the end of a parent ends its linked child and orphans the other, which works on, says where it came from, is
/// adopted, and is an orphan again when its second parent ends; whoever adopts it last gets the DOWN.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_parent_ends_its_linked_child_and_orphans_the_other() {
    let found = Reply::text("found it").at_barrier("child").when("user: look it up");
    let call = Reply::call("slow", json!({})).when("user: linked work").when_answers(0);
    let lab = lab([Reply::text("thank you"), found, call]).await;
    let linked = lab.spawn("linked work", Link::LINKED).await;
    let monitored = lab.spawn("look it up", Link::MONITORED).await;
    lab.slow_runs(1).await;
    lab.model.barrier("child").reached().await;
    let second = lab.another().await;
    let refused = second.adopt(monitored.session().id(), Link::MONITORED).await;
    assert!(matches!(refused, Err(SpawnError::Parent(SendError::Refused(Refusal::NotAnOrphan { .. })))), "{refused:?}");

    lab.parent.end("over").await.unwrap();
    assert!(matches!(down(&linked).await, DownReason::Ended { .. }));
    lab.parent.wait().await.unwrap();
    assert!(matches!(linked.session().prompt("hello?").await, Err(SendError::Refused(Refusal::Ended))));
    assert!(matches!(lab.parent.prompt("hello?").await, Err(SendError::Refused(Refusal::Ended))));
    assert!(matches!(monitored.down().await, Err(SendError::Refused(Refusal::Ended))), "no DOWN comes here");
    let origin = async || monitored.session().state().await.unwrap().origin.unwrap();
    assert!(origin().await.orphaned.as_ref().is_some_and(|why| why.contains("over")));

    let adopted = second.adopt(monitored.session().id(), Link::MONITORED).await.unwrap();
    assert_eq!((&origin().await.parent, origin().await.ticket), (second.id(), adopted.ticket()));
    second.end("over too").await.unwrap();
    second.wait().await.unwrap();
    assert!(origin().await.orphaned.is_some());
    let third = lab.another().await;
    let adopted = third.adopt(monitored.session().id(), Link::LINKED).await.unwrap();
    lab.model.barrier("child").release();
    assert_eq!(down(&adopted).await, DownReason::Done);
    third.wait().await.unwrap();
    assert_eq!(&*third.state().await.unwrap().ended.back().unwrap().text, "thank you");
    assert_eq!(&origin().await.parent, third.id());
    let downs = [count(&lab.parent, is_down).await, count(&second, is_down).await, count(&third, is_down).await];
    assert_eq!(downs, [1, 0, 1]);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// Seen with a host: an orphan was adopted by its own child. Both waited for each other, and neither stood under the runtime. The
/// same over more than one child, and where two orphans adopt each other at the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_is_not_adopted_by_a_session_below_it() {
    let lab = lab((0..8).map(|_| Reply::hang().when("user: work"))).await;
    let deep = || {
        let mut options = options(lab.folder.path());
        options.task_depth_max = Some(5);
        options
    };
    let top = lab.runtime.create(deep()).await.unwrap();
    let orphan = top.spawn_child(deep(), "work", Link::MONITORED).await.unwrap().session().clone();
    let child = orphan.spawn_child(deep(), "work", Link::MONITORED).await.unwrap().session().clone();
    let grandchild = child.spawn_child(deep(), "work", Link::MONITORED).await.unwrap().session().clone();
    let is_orphan = async |session: &Session| session.state().await.unwrap().origin.unwrap().orphaned.is_some();
    top.end("over").await.unwrap();
    until(async || is_orphan(&orphan).await).await;

    for below in [&child, &grandchild] {
        let refused = below.adopt(orphan.id(), Link::MONITORED).await.map(drop).unwrap_err();
        let above = SendError::Refused(Refusal::StandsAbove { session: orphan.id().clone() });
        assert_eq!(refused.to_string(), above.to_string());
        assert!(is_orphan(&orphan).await && refused.kind() == tamtam::runtime::Kind::Invalid);
    }
    let tree = lab.runtime.tree().to_string();
    let stands = [&orphan, &child, &grandchild].iter().all(|session| tree.contains(session.id().as_str()));
    assert!(stands, "all of them stand under the runtime: {tree}");
    // A session beside them may adopt it.
    let beside = lab.runtime.create(deep()).await.unwrap();
    beside.adopt(orphan.id(), Link::MONITORED).await.unwrap();

    // Two orphans adopt each other: whoever comes first stands above.
    for _ in 0..10 {
        let (first, second) = (lab.runtime.create(deep()).await.unwrap(), lab.runtime.create(deep()).await.unwrap());
        let one = first.spawn_child(deep(), "work", Link::MONITORED).await.unwrap().session().clone();
        let other = second.spawn_child(deep(), "work", Link::MONITORED).await.unwrap().session().clone();
        first.end("over").await.unwrap();
        second.end("over").await.unwrap();
        until(async || is_orphan(&one).await && is_orphan(&other).await).await;
        let both = tokio::join!(one.adopt(other.id(), Link::MONITORED), other.adopt(one.id(), Link::MONITORED));
        assert_eq!(usize::from(both.0.is_ok()) + usize::from(both.1.is_ok()), 1, "{both:?}");
        assert_eq!(usize::from(is_orphan(&one).await) + usize::from(is_orphan(&other).await), 1);
    }
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// Invariant 32: a parent that ends while it adopts leaves an orphan, which somebody else can adopt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_that_ends_while_it_adopts_leaves_an_orphan() {
    let lab = lab([Reply::hang().when("user: look it up")]).await;
    let child = lab.spawn("look it up", Link::MONITORED).await;
    lab.parent.end("over").await.unwrap();
    let is_orphan = async || child.session().state().await.unwrap().origin.unwrap().orphaned.is_some();
    until(is_orphan).await;
    for round in 0..40 {
        let adopter = lab.another().await;
        let ends = async {
            tokio::time::sleep(Duration::from_micros(round * 50)).await;
            adopter.end("over too").await.unwrap();
        };
        let (adopted, ()) = tokio::join!(adopter.adopt(child.session().id(), Link::MONITORED), ends);
        assert!(!matches!(&adopted, Err(error) if error.to_string().contains("orphan")), "{adopted:?}");
        adopter.wait().await.unwrap();
        until(is_orphan).await;
    }
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// O-10. A child that crashes again and again is parked, and its parent is told so; the parent itself notices nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_child_is_down() {
    let lab = lab([Reply::call("bomb", json!({})).when("user: touch it")]).await;
    let child = lab.spawn("touch it", Link::DETACHED).await;
    // Cut off twice, it waits: that is its DOWN already. Told to go on, it would be parked.
    assert!(matches!(down(&child).await, DownReason::Failed { .. }));
    child.session().go_on().await.unwrap();
    until(async || matches!(child.session().state().await, Err(SendError::Parked))).await;
    assert_eq!(count(&lab.parent, is_down).await, 1);
    assert_eq!(lab.runtime.tree().find(lab.parent.id().as_str()).unwrap().restarts, 0);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// C-08, promise 8: depth, width, workspace and a taken id are typed errors, and nothing is left of the attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_parent_may_not_do_is_a_typed_error() {
    let lab = lab([Reply::hang().when("user: work")]).await;
    let (inside, outside) = (lab.folder.path().join("inside"), taped::folder());
    std::fs::create_dir(&inside).unwrap();
    let elsewhere = lab.parent.spawn_child(options(outside.path()), "work", Link::LINKED).await;
    assert!(matches!(elsewhere, Err(SpawnError::OutsideWorkspace { .. })), "{elsewhere:?}");
    let taken = options(&inside).id(lab.another().await.id().clone());
    let taken = lab.parent.spawn_child(taken, "work", Link::LINKED).await;
    assert!(matches!(taken, Err(SpawnError::Open(_))), "{taken:?}");
    assert_eq!(count(&lab.parent, |record| matches!(record, Record::TaskStarted { .. })).await, 0);

    let child = lab.parent.spawn_child(options(&inside), "work", Link::LINKED).await.unwrap();
    let deep = child.session().spawn_child(options(&inside), "work", Link::LINKED).await;
    let too_deep = Refusal::TooDeep { depth: 2, max: 1 };
    assert!(matches!(deep, Err(SpawnError::Parent(SendError::Refused(refusal))) if refusal == too_deep));
    for _ in 1..8 {
        lab.spawn("work", Link::LINKED).await;
    }
    let wide = lab.parent.spawn_child(options(&inside), "work", Link::LINKED).await;
    let too_many = Refusal::TooManyTasks { open: 8, max: 8 };
    assert!(matches!(wide, Err(SpawnError::Parent(SendError::Refused(refusal))) if refusal == too_many));
    lab.parent.end("over").await.unwrap();
    lab.parent.wait().await.unwrap();
    assert_eq!(count(&lab.parent, is_down).await, 8);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// H-20, promise 8, P13: a child whose own rules allow what its parent's deny or ask for does not get it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_may_not_do_what_its_parent_may_not() {
    let two = Reply::call("slow", json!({})).with_call("quick", json!({}));
    let lab = lab([two.when("user: try").when_answers(0), Reply::text("refused").when("user: try")]).await;
    let mut narrow = options(lab.folder.path());
    let rules = vec![Rule::new("slow", "*", Action::Deny), Rule::new("quick", "*", Action::Ask)];
    narrow.rules = Some(Ruleset::new("narrow", rules));
    let parent = lab.runtime.create(narrow).await.unwrap();
    let mut wide = options(lab.folder.path());
    wide.rules = Some(Ruleset::new("wide", [Rule::new("*", "*", Action::Allow)]));
    let child = parent.spawn_child(wide, "try", Link::DETACHED).await.unwrap();
    assert_eq!(down(&child).await, DownReason::Done);
    let said = tamtam::model::transcript(lab.model.requests().last().unwrap());
    assert!(said.contains("Permission denied: slow * by narrow"), "{said}");
    assert!(said.contains("nobody listens who could answer"), "{said}");
    assert_eq!(lab.slow.load(Ordering::SeqCst), 0);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// Promise 8: a child has the tools of its options that its parent has too, is told of no others and runs none; without
/// options it has its parent's. Its title is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_has_no_tools_that_its_parent_lacks() {
    let calls = Reply::call("slow", json!({})).with_call("quick", json!({}));
    let lab = lab([calls.when("user: narrow").when_answers(0), Reply::text("ok").when("user: ")]).await;
    let named = |tools: &[&str]| {
        let mut options = options(lab.folder.path());
        options.tools = Some(tools.iter().map(|tool| (*tool).to_owned()).collect());
        options
    };
    let mut of_parent = named(&["quick"]);
    of_parent.title = Some("Parent".into());
    let parent = lab.runtime.create(of_parent).await.unwrap();
    for (options, prompt) in [(named(&["slow", "qui*"]), "narrow"), (options(lab.folder.path()), "same")] {
        let child = parent.spawn_child(options, prompt, Link::DETACHED).await.unwrap();
        assert_eq!(down(&child).await, DownReason::Done);
        let asked = lab.model.requests();
        let of_child = asked
            .iter()
            .rfind(|request| tamtam::model::transcript(request).contains(&format!("user: {prompt}")))
            .unwrap();
        let told: Vec<_> = of_child.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(told, ["quick"], "{prompt}");
        assert_eq!(child.session().state().await.unwrap().settings.title, None);
    }
    let said: Vec<_> = lab.model.requests().iter().map(tamtam::model::transcript).collect();
    assert!(said.iter().any(|said| said.contains("slow is not among those of this agent")), "{said:?}");
    assert_eq!(lab.slow.load(Ordering::SeqCst), 0);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// O-11: several children of one session work side by side, each on its own, and each one's end comes back on its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_work_side_by_side() {
    let slow = (0..3).map(|n| Reply::call("slow", json!({})).when(format!("user: task {n}")).when_answers(0));
    let lab = lab(slow).await;
    let spawn = |n: usize| lab.parent.spawn_child(options(lab.folder.path()), format!("task {n}"), Link::DETACHED);
    let children = [spawn(0).await.unwrap(), spawn(1).await.unwrap(), spawn(2).await.unwrap()];
    // Each of the three is in its call while the two others are.
    until(async || lab.slow.load(Ordering::SeqCst) == 3).await;
    let state = lab.parent.state().await.unwrap();
    assert_eq!(state.tasks().count(), 3);
    children[1].session().abort("enough").await.unwrap();
    assert!(matches!(down(&children[1]).await, DownReason::Aborted { .. }));
    assert_eq!(lab.parent.state().await.unwrap().tasks().count(), 2, "the others work on");
    for child in [&children[0], &children[2]] {
        child.session().abort("enough").await.unwrap();
        assert!(matches!(down(child).await, DownReason::Aborted { .. }));
    }
    assert_eq!(count(&lab.parent, is_down).await, 3);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// Promise 8: what a parent may no longer do, a child that works already may not do either; also over a crash of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_narrowed_with_its_parent() {
    let call = Reply::call("slow", json!({})).at_barrier("child").when("user: work").when_answers(0);
    let lab = lab([call, Reply::text("refused").when("user: work")]).await;
    let child = lab.spawn("work", Link::DETACHED).await;
    lab.model.barrier("child").reached().await;
    let deny = Ruleset::new("narrow", [Rule::new("slow", "*", Action::Deny)]);
    lab.parent.configure(|settings| settings.rules.push(deny.clone())).await.unwrap();
    let is_narrowed = |record: &Record| matches!(record, Record::Narrowed { .. });
    until(async || count(child.session(), is_narrowed).await == 1).await;
    lab.runtime.operate().restart(lab.parent.id().as_str()).await.unwrap();
    lab.runtime.operate().restart(child.session().id().as_str()).await.unwrap();
    lab.model.barrier("child").release();
    assert_eq!(down(&child).await, DownReason::Done);
    assert_eq!((lab.slow.load(Ordering::SeqCst), count(child.session(), is_narrowed).await), (0, 1));
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// A drain waits for the child, and for the turn that its DOWN begins in the parent; meanwhile nothing new is spawned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_includes_children_and_whom_they_wake() {
    let found = Reply::text("found it").at_barrier("child").when("user: look it up");
    let early = Reply::text("worked").when("user: work");
    let lab = lab([Reply::text("thank you").waiting(Duration::from_millis(50)), found, early]).await;
    lab.spawn("look it up", Link::default()).await;
    lab.model.barrier("child").reached().await;
    let draining = tokio::spawn({
        let runtime = lab.runtime.clone();
        async move { runtime.drain(Duration::from_secs(20)).await }
    });
    // Until the drain has begun, a child would be made, and would take its part in what follows.
    until(async || lab.runtime.create(options(lab.folder.path())).await.is_err()).await;
    let spawned = lab.parent.spawn_child(options(lab.folder.path()), "work", Link::LINKED).await;
    assert!(matches!(spawned, Err(SpawnError::Parent(SendError::Draining))), "{spawned:?}");
    lab.model.barrier("child").release();
    assert_eq!(draining.await.unwrap(), vec![]);
    let state = lab.parent.state().await.unwrap();
    assert_eq!(state.ended.back().map(|end| end.text.to_string()), Some("thank you".to_owned()));
    assert!(lab.runtime.shutdown().await.is_empty());
}
