//! Tasks behind their parent's width: they wait, begin in order, and end once, through crashes of parent and process.

use std::collections::BTreeMap;

use tamtam::{
    OpenError, SessionId,
    runtime::SessionFigures,
    session::{RestartPolicy, State},
};

use tokio::sync::Semaphore;

use super::*;

/// A tool that knows how many run at the same time, and of which only so many come to their end as it lets go.
#[derive(Clone)]
struct Gauge {
    runs: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Tool for Gauge {
    fn name(&self) -> &str {
        "gauge"
    }

    fn description(&self) -> &str {
        "Counts itself."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            self.most.fetch_max(self.runs.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            self.gate.acquire().await.unwrap().forget();
            self.runs.fetch_sub(1, Ordering::SeqCst);
            ToolResult::ok("counted")
        })
    }
}

async fn start_with(folder: &Path, model: &Arc<Scripted>, tool: impl Tool + 'static) -> Runtime {
    Runtime::builder().store(folder.join("store")).model(model.clone()).tool(tool).start().await.unwrap()
}

/// A parent of that width, whose further tasks may wait.
fn wide(folder: &Path, width: usize, queue: usize) -> SessionOptions {
    let mut options = options(folder);
    (options.task_width_max, options.task_queue_max) = (Some(width), Some(queue));
    options
}

/// What the tape says of each task: the order in which they began, how many worked at the same time, and how often each ended.
fn story(entries: &[Entry]) -> (Vec<SessionId>, usize, BTreeMap<SessionId, usize>) {
    let (mut begun, mut most, mut downs) = (Vec::new(), 0, BTreeMap::new());
    let mut state = State::fold(&entries[..1]).unwrap();
    for entry in &entries[1..] {
        if let (Record::TaskFinished { .. }, Some(ticket)) = (&entry.record, entry.ticket) {
            let task = state.tasks().find(|(open, _)| *open == ticket).expect("it is open").1;
            *downs.entry(task.child.clone()).or_default() += 1;
        }
        state.apply(entry);
        let works: Vec<_> =
            state.tasks().filter(|(_, task)| !task.queued).map(|(_, task)| task.child.clone()).collect();
        most = most.max(works.len());
        begun.extend(works.into_iter().filter(|child| !begun.contains(child)).collect::<Vec<_>>());
    }
    (begun, most, downs)
}

fn child_id(n: usize) -> SessionId {
    format!("child-{n:03}").parse().unwrap()
}

/// A fan-out of 200 over a width of 8, and the process dies in the middle of it: they begin in order, never more than 8 work, each
/// has one DOWN, and each was given its task once.
#[test]
fn a_fan_out_of_200_over_a_width_of_8_survives_a_crash() {
    const TASKS: usize = 200;
    let folder = taped::folder();
    let model = || {
        Arc::new(Scripted::from_fn(|request| match tamtam::model::transcript(request).contains("counted") {
            true => Reply::text("done"),
            false => Reply::call("gauge", json!({})),
        }))
    };
    let gauge = Gauge { runs: Arc::default(), most: Arc::default(), gate: Arc::new(Semaphore::new(0)) };
    let tokio = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let first = tokio();
    let (runtime, id) = first.block_on(async {
        let runtime = start_with(folder.path(), &model(), gauge.clone()).await;
        let parent = runtime.create(wide(folder.path(), 8, 192)).await.unwrap();
        for n in 0..TASKS {
            let options = options(folder.path()).id(child_id(n));
            parent.spawn_child(options, format!("task {n}"), Link::ATTACHED).await.unwrap();
        }
        assert_eq!(parent.state().await.unwrap().tasks_queued(), TASKS - 8);
        gauge.gate.add_permits(60);
        until(async || parent.state().await.unwrap().tasks().count() == TASKS - 60).await;
        until(async || gauge.runs.load(Ordering::SeqCst) == 8).await;
        (runtime, parent.id().clone())
    });
    drop(first);
    drop(runtime);

    assert_eq!(gauge.most.load(Ordering::SeqCst), 8);
    gauge.runs.store(0, Ordering::SeqCst);
    gauge.gate.add_permits(2 * TASKS);
    tokio().block_on(async {
        let runtime = start_with(folder.path(), &model(), gauge.clone()).await;
        let parent = runtime.open(&id).await.unwrap();
        until(async || !parent.state().await.unwrap().is_unfinished()).await;
        let (begun, most, downs) = story(&parent.entries().await.unwrap());
        assert_eq!(begun, (0..TASKS).map(child_id).collect::<Vec<_>>());
        assert_eq!((most, downs), (8, (0..TASKS).map(|n| (child_id(n), 1)).collect()));
        assert_eq!(gauge.most.load(Ordering::SeqCst), 8);
        for n in 0..TASKS {
            let entries = runtime.session(&child_id(n)).entries().await.unwrap();
            let given = entries.iter().filter(|entry| matches!(entry.record, Record::Accepted { .. })).count();
            let turns = entries.iter().filter(|entry| matches!(entry.record, Record::TurnFinished { .. })).count();
            assert_eq!((given, turns), (1, 1), "child {n}");
        }
        assert_eq!(parent.state().await.unwrap().turns, 0);
        assert!(runtime.shutdown().await.is_empty());
    });
}

/// Who gives a task does not wait for room: the handle says that it waits, its session says so in words, the tree counts it, and
/// `started` comes when the child is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_waits_says_so_until_its_child_is_there() {
    let busy = Reply::text("done").at_barrier("first").when("user: one");
    let lab = lab([busy, Reply::text("found it").when("user: two")]).await;
    let parent = lab.runtime.create(wide(lab.folder.path(), 1, 1)).await.unwrap();
    let spawn = |prompt: &'static str| parent.spawn_child(options(lab.folder.path()), prompt, Link::DETACHED);
    let one = spawn("one").await.unwrap();
    lab.model.barrier("first").reached().await;
    let two = spawn("two").await.unwrap();
    assert_eq!((one.is_queued().await.unwrap(), two.is_queued().await.unwrap()), (false, true));
    let refused = spawn("three").await;
    let full = Refusal::TooManyTasks { open: 2, max: 2 };
    assert!(matches!(refused, Err(SpawnError::Parent(SendError::Refused(refusal))) if refusal == full));

    let told = two.session().prompt("are you there?").await.unwrap_err();
    let is_queued = |error: &OpenError| matches!(error, OpenError::Queued { session } if session == two.session().id());
    assert!(matches!(&told, SendError::Unavailable(error) if is_queued(error)), "{told:?}");
    assert!(told.to_string().contains("its task waits for room"), "{told}");
    assert!(is_queued(&two.session().entries().await.unwrap_err()));
    let mut started = Box::pin(two.started());
    assert!(futures_util::poll!(&mut started).is_pending());
    let tree = lab.runtime.tree();
    let node = tree.find(parent.id().as_str()).unwrap();
    assert_eq!(SessionFigures::of(node).unwrap().tasks_queued, 1);
    assert!(node.doing.as_ref().is_some_and(|doing| doing.contains("1 of them not begun")), "{:?}", node.doing);

    lab.model.barrier("first").release();
    let child = tokio::time::timeout(Duration::from_secs(60), started).await.expect("it is made").unwrap();
    assert_eq!(child.state().await.unwrap().origin.unwrap().ticket, two.ticket());
    assert_eq!((down(&two).await, two.is_queued().await.unwrap()), (DownReason::Done, false));
    // The tree follows the answer.
    let none_queued = async {
        let queued =
            || SessionFigures::of(lab.runtime.tree().find(parent.id().as_str())?).map(|figures| figures.tasks_queued);
        while queued() != Some(0) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), none_queued).await.expect("the tree shows it");
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// An abort of the parent ends what waits: its DOWN says that it never began, who waits for its start is told, and nobody makes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_aborted_while_it_waits_never_has_a_child() {
    let lab = lab([Reply::call("slow", json!({})).when("user: one").when_answers(0)]).await;
    let parent = lab.runtime.create(wide(lab.folder.path(), 1, 9)).await.unwrap();
    let spawn = |prompt: &'static str| parent.spawn_child(options(lab.folder.path()), prompt, Link::LINKED);
    let (one, two) = (spawn("one").await.unwrap(), spawn("two").await.unwrap());
    lab.slow_runs(1).await;
    let mut started = Box::pin(two.started());
    assert!(futures_util::poll!(&mut started).is_pending());
    parent.abort("enough").await.unwrap();
    assert_eq!(down(&two).await, DownReason::Aborted { why: "stopped before it began".into() });
    let never = tokio::time::timeout(Duration::from_secs(60), started).await.expect("it is told").map(drop);
    assert!(matches!(never, Err(SpawnError::Open(OpenError::NotStarted { .. }))), "{never:?}");
    assert!(matches!(down(&one).await, DownReason::Aborted { .. }));
    parent.wait().await.unwrap();
    assert_eq!((count(&parent, is_down).await, parent.state().await.unwrap().turns), (2, 0));
    assert!(lab.runtime.open(two.session().id()).await.is_err());
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// A drain works off what waits, and a DOWN that the parent does not remember any more is read from its tape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_works_off_what_waits() {
    const TASKS: usize = 40;
    let first = Reply::text("done").at_barrier("first").when("user: task 0.");
    let lab = lab(std::iter::once(first).chain((1..TASKS).map(|_| Reply::text("done").when("user: task")))).await;
    let parent = lab.runtime.create(wide(lab.folder.path(), 1, TASKS)).await.unwrap();
    let mut children = Vec::new();
    for n in 0..TASKS {
        let options = options(lab.folder.path());
        children.push(parent.spawn_child(options, format!("task {n}."), Link::ATTACHED).await.unwrap());
    }
    lab.model.barrier("first").reached().await;
    let draining = tokio::spawn({
        let runtime = lab.runtime.clone();
        async move { runtime.drain(Duration::from_secs(60)).await }
    });
    until(async || lab.runtime.create(options(lab.folder.path())).await.is_err()).await;
    lab.model.barrier("first").release();
    assert_eq!(draining.await.unwrap(), vec![]);
    assert_eq!(count(&parent, is_down).await, TASKS);
    for child in &children {
        assert_eq!(down(child).await, DownReason::Done);
    }
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// Promise 8: what a parent may no longer do when the child is made, the child may not do from its first entry on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_made_under_the_rules_that_its_parent_has_by_then() {
    let busy = Reply::text("done").at_barrier("first").when("user: one");
    let call = Reply::call("slow", json!({})).when("user: two").when_answers(0);
    let lab = lab([busy, call, Reply::text("refused").when("user: two")]).await;
    let parent = lab.runtime.create(wide(lab.folder.path(), 1, 1)).await.unwrap();
    let spawn = |prompt: &'static str| parent.spawn_child(options(lab.folder.path()), prompt, Link::DETACHED);
    let (_one, two) = (spawn("one").await.unwrap(), spawn("two").await.unwrap());
    let deny = Ruleset::new("narrow", [Rule::new("slow", "*", Action::Deny)]);
    parent.configure(|settings| settings.rules.push(deny.clone())).await.unwrap();
    lab.model.barrier("first").release();
    assert_eq!(down(&two).await, DownReason::Done);
    assert_eq!(lab.slow.load(Ordering::SeqCst), 0);
    let entries = two.session().entries().await.unwrap();
    let Record::State(first) = &entries[0].record else { panic!("a tape begins with a state") };
    assert!(serde_json::to_string(&first.settings.above).unwrap().contains("narrow"));
    assert_eq!(count(two.session(), |record| matches!(record, Record::Narrowed { .. })).await, 0);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// `Link::ATTACHED`: ended with its parent and stopped with its parent's turn, and nothing of it in the parent's conversation; its
/// DOWN is recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attached_child_ends_with_its_parent_and_says_nothing() {
    let call = |text: &str| Reply::call("slow", json!({})).when(text).when_answers(0);
    let lab = lab([Reply::text("found it").when("user: one"), call("user: two"), call("user: three")]).await;
    let one = lab.spawn("one", Link::ATTACHED).await;
    assert_eq!(down(&one).await, DownReason::Done);
    let two = lab.spawn("two", Link::ATTACHED).await;
    lab.slow_runs(1).await;
    lab.parent.abort("enough").await.unwrap();
    assert!(matches!(down(&two).await, DownReason::Aborted { .. }));
    let three = lab.spawn("three", Link::ATTACHED).await;
    lab.slow_runs(2).await;
    lab.parent.end("over").await.unwrap();
    assert!(matches!(down(&three).await, DownReason::Ended { .. }));
    lab.parent.wait().await.unwrap();
    assert!(three.session().state().await.unwrap().closed.is_some());
    let state = lab.parent.state().await.unwrap();
    assert_eq!((state.turns, state.history.len(), count(&lab.parent, is_down).await), (0, 0, 3));
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// How a child of that policy ends whose actor crashes so many times.
async fn ends(restart: RestartPolicy, crashes: usize) -> (DownReason, bool) {
    let folder = taped::folder();
    let replies = [Reply::call("bomb", json!({})).when_answers(0).at_barrier("spawned"), Reply::text("done")];
    let (model, bomb) = (Arc::new(Scripted::new(replies)), Bomb::default());
    bomb.goes_off(crashes);
    let runtime = start_with(folder.path(), &model, bomb.clone()).await;
    bomb.arm(&runtime);
    let parent = runtime.create(options(folder.path())).await.unwrap();
    let mut options = options(folder.path());
    options.restart = restart;
    let child = parent.spawn_child(options, "work", Link::DETACHED).await.unwrap();
    // Not before: a child that is parked by then is no child to hand out.
    model.barrier("spawned").release();
    let reason = down(&child).await;
    let parked = matches!(child.session().state().await, Err(SendError::Parked));
    assert_eq!(count(&parent, is_down).await, 1);
    assert!(runtime.shutdown().await.is_empty());
    (reason, parked)
}

/// A restart policy for each child: as any session, once, never; the crash that is too many parks the child, and its DOWN says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_started_again_as_often_as_its_policy_says() {
    for (restart, survives) in [(RestartPolicy::Session, 1), (RestartPolicy::Once, 1), (RestartPolicy::Never, 0)] {
        assert_eq!(ends(restart, survives).await, (DownReason::Done, false), "{restart:?}");
    }
    assert_eq!(ends(RestartPolicy::Once, 2).await, (DownReason::Parked, true));
    assert_eq!(ends(RestartPolicy::Never, 1).await, (DownReason::Parked, true));
}

/// The policy is on the tape: it holds in the next process too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_policy_holds_after_a_restart_of_the_process() {
    let folder = taped::folder();
    let replies = || [Reply::call("bomb", json!({})).at_barrier("child").when("user: work")];
    let (model, quiet) = (Arc::new(Scripted::new(replies())), Bomb::default());
    let runtime = start_with(folder.path(), &model, quiet).await;
    let parent = runtime.create(options(folder.path())).await.unwrap();
    let mut options = options(folder.path());
    options.restart = RestartPolicy::Never;
    let child = parent.spawn_child(options, "work", Link::DETACHED).await.unwrap();
    model.barrier("child").reached().await;
    let (id, parent) = (child.session().id().clone(), parent.id().clone());
    assert!(runtime.shutdown().await.is_empty());

    let (model, bomb) = (Arc::new(Scripted::new(replies())), Bomb::default());
    let runtime = start_with(folder.path(), &model, bomb.clone()).await;
    bomb.arm(&runtime);
    model.barrier("child").release();
    let (parent, child) = (runtime.session(&parent), runtime.session(&id));
    until(async || parent.state().await.unwrap().tasks_ended.back().is_some_and(|end| end.down.is_some())).await;
    assert_eq!(count(&parent, is_down).await, 1);
    let ended = parent.state().await.unwrap().tasks_ended.back().unwrap().down.clone().unwrap();
    assert_eq!(ended.reason, DownReason::Parked);
    assert!(matches!(child.state().await, Err(SendError::Parked)));
    assert!(runtime.shutdown().await.is_empty());
}
