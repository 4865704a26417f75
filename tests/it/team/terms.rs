//! What holds for one task: its deadline, its key, its budget, its continued session; and many tasks over a small
//! width.

use std::collections::BTreeSet;

use super::*;
use tamtam::{
    SendError,
    runtime::{Passivation, TaskOptions},
    session::{FilePart, Refusal, SpawnError},
};

/// O-14, O-16, O-23, O-22: a task ends at its deadline with a typed error, whether its child hangs, waits for room, or is five
/// levels down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_ends_at_its_deadline() {
    let hangs = child("hang", Reply::text("so far").hanging());
    let lab = lab([task("hang", json!({ "deadline_ms": 150 })), Reply::text("end"), hangs]).await;
    assert_eq!(lab.ask("go").await.1, "end");
    let results = lab.results().await;
    let envelope = envelope(&results[0]);
    assert_eq!((envelope.status, &*envelope.errors[0].code), (TaskStatus::TimedOut, "timed_out"));
    assert!(envelope.errors[0].retryable && results[0].is_error(), "{:?}", results[0]);
    lab.end().await;
}

/// O-22: over five levels the deadline is one moment: each child's is at most its parent's, and all are down soon after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_holds_over_five_levels() {
    // Each level asks for more time than the one above it has.
    let model = Arc::new(Scripted::from_fn(|request| {
        let said = tamtam::model::transcript(request);
        let level = said.split("user: level ").nth(1).map_or(0, |rest| rest[..1].parse::<u32>().unwrap());
        // Long enough for five sessions to be made beside other tests.
        let ms = if level == 0 { 3_000 } else { 60_000 };
        if level == 5 { Reply::hang() } else { task(&format!("level {}", level + 1), json!({ "deadline_ms": ms })) }
    }));
    let (folder, careful) = (taped::folder(), Arc::default());
    let runtime = start(folder.path(), &model, &careful).await;
    let mut options = options(folder.path());
    options.task_depth_max = Some(5);
    let parent = runtime.create(options).await.unwrap();
    let lab = Lab { folder, model, runtime, parent, careful };
    drop(lab.parent.prompt("go").await.unwrap());
    let mut above = lab.parent.clone();
    let mut deadlines = Vec::new();
    for _ in 1..=5 {
        until(async || !above.tasks().await.unwrap().is_empty()).await;
        let task = above.tasks().await.unwrap()[0].clone();
        until(async || task.session().state().await.is_ok()).await;
        deadlines.push(task.session().state().await.unwrap().origin.unwrap().terms.deadline.unwrap());
        above = task.session().clone();
    }
    assert!(deadlines.windows(2).all(|two| two[1] <= two[0]), "{deadlines:?}");
    let deepest = above;
    until(async || deepest.state().await.unwrap().origin.unwrap().end.is_some()).await;
    let end = deepest.state().await.unwrap();
    assert!(end.time >= deadlines[4], "{:?} before {:?}", end.time, deadlines[4]);
    assert!(matches!(
        end.origin.as_ref().unwrap().end.as_ref().unwrap().reason,
        tamtam::session::DownReason::TimedOut { .. }
    ));
    lab.parent.abort("enough").await.unwrap();
    soon(lab.parent.wait()).await.unwrap();
    let _ = lab.folder.path();
    lab.end().await;
}

/// O-14, O-23: the same key twice under one parent is one execution, and both have its result; another key is another task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_twice_is_one_task() {
    let keyed = |key: &str| arguments("count", json!({ "idempotency_key": key }));
    let thrice = Reply::call("task", keyed("k")).with_call("task", keyed("k")).with_call("task", keyed("other"));
    let replies = [thrice, Reply::call("task", keyed("k")), Reply::text("end"), child("count", Reply::text("counted"))];
    let lab = lab(replies).await;
    assert_eq!(lab.ask("go").await.1, "end");
    assert_eq!(lab.children().await.len(), 2);
    let envelopes: Vec<_> = lab.results().await.iter().map(|result| envelope(result)).collect();
    assert_eq!(envelopes.len(), 4);
    let same = envelopes.iter().filter(|one| one.task_id == envelopes[3].task_id).count();
    assert_eq!(same, 3, "{envelopes:?}");
    let requests = lab.model.requests();
    let counted = requests.iter().filter(|one| tamtam::model::transcript(one).contains("user: count")).count();
    assert_eq!(counted, 2);
    lab.end().await;
}

/// O-14, and M5 of the host's trial: another query under an old key got the result of the old one. It is refused while the task runs,
/// when it is over and after a sleep; the same request is the same task, whatever its hooks made of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_query_under_an_old_key_is_refused() {
    let lab = lab([child("count", Reply::text("counted")), child("named", Reply::text("by name"))]).await;
    let keyed = |query: &str| {
        let mut request = TaskRequest::new("general", "count", query);
        request.idempotency_key = Some("k".into());
        request
    };
    let link = TaskOptions::default().link(Link::ATTACHED);
    let give = async |request: TaskRequest| lab.parent.delegate(request, link.clone()).await;
    let first = give(keyed("count")).await.unwrap();
    let refused = async |request: TaskRequest, options: &TaskOptions| {
        let error = lab.parent.delegate(request, options.clone()).await.unwrap_err();
        let SpawnError::Parent(SendError::Refused(refusal)) = error else { panic!("{error}") };
        refusal
    };
    let other = Refusal::OtherTask { first: first.ticket() };
    assert_eq!(refused(keyed("count twice"), &link).await, other, "while it runs or after");
    soon(first.result()).await.unwrap();
    assert_eq!(refused(keyed("count twice"), &link).await, other);
    until(async || lab.runtime.passivate(first.session().id()).await.is_ok()).await;
    let mut attached = keyed("count");
    attached.attachments.push(FilePart::inline("text/plain", None, b"more"));
    assert_eq!(refused(attached, &link).await, other);
    assert_eq!(give(keyed("count")).await.unwrap().ticket(), first.ticket());

    // A host that names its children: the name is the key.
    let named = link.clone().child("acme.named".parse().unwrap());
    let request = || TaskRequest::new("general", "named", "named");
    let one = lab.parent.delegate(request(), named.clone()).await.unwrap();
    assert_eq!(one.session().id().as_str(), "acme.named");
    assert_eq!(&*soon(one.result()).await.unwrap().output.answer, "by name");
    assert_eq!(lab.parent.delegate(request(), named.clone()).await.unwrap().ticket(), one.ticket());
    let other = Refusal::OtherTask { first: one.ticket() };
    assert_eq!(refused(keyed("count"), &named).await, other, "with a key of its own it is another task");
    assert_eq!(refused(TaskRequest::new("general", "n", "not that"), &named).await, other);
    let both = named.clone();
    let mut request = request();
    request.resume_token = Some(first.session().id().clone());
    let error = lab.parent.delegate(request, both).await.unwrap_err().to_string();
    assert!(error.contains("name one of them"), "{error}");
    let own = link.clone().child(lab.parent.id().clone());
    let error = lab.parent.delegate(keyed("mine"), own).await.unwrap_err().to_string();
    assert!(error.contains("has no task of this session"), "{error}");
    lab.end().await;
}

/// A child that a host names and spawns: the same prompt again is the same task, another one is refused while it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_prompt_for_a_child_at_work_is_refused() {
    let lab = lab([child("work", Reply::hang())]).await;
    let spawn = async |prompt: &str| {
        let options = SessionOptions::new(lab.folder.path()).id("acme.worker".parse().unwrap());
        lab.parent.spawn_child(options, prompt, Link::ATTACHED).await
    };
    let first = spawn("work").await.unwrap();
    assert_eq!(spawn("work").await.unwrap().ticket(), first.ticket());
    let error = spawn("other work").await.unwrap_err();
    let SpawnError::Parent(SendError::Refused(refusal)) = error else { panic!("{error}") };
    assert_eq!(refusal, Refusal::OtherTask { first: first.ticket() });
    first.stop("enough").await.unwrap();
    soon(first.down()).await.unwrap();
    lab.end().await;
}

/// O-16, O-19, C-23, O-09, O-24: the session of a task that is over goes on with what it knows, also when its actor is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_over_is_gone_on_with() {
    let second = child("and then?", Reply::text("the second answer").expecting("assistant: the first answer"));
    let first = child("first", Reply::text("the first answer"));
    let third = child("and at last?", Reply::text("the third answer").expecting("assistant: the second answer"));
    let lab = lab([third, second, first]).await;
    let request = TaskRequest::new("general", "first", "first");
    let child = lab.parent.delegate(request, TaskOptions::default()).await.unwrap();
    let one = soon(child.result()).await.unwrap();
    soon(lab.parent.wait()).await.unwrap();
    until(async || lab.runtime.passivate(child.session().id()).await.is_ok()).await;
    let mut request = TaskRequest::new("general", "more", "and then?");
    request.resume_token = Some(child.session().id().clone());
    request.idempotency_key = Some("more".into());
    let again = lab.parent.delegate(request.clone(), TaskOptions::default()).await.unwrap();
    let two = soon(again.result()).await.unwrap();
    assert_eq!((&*one.output.answer, &*two.output.answer), ("the first answer", "the second answer"));
    assert!(again.ticket() > child.ticket() && again.session().id() == child.session().id());
    assert_eq!((two.metrics.steps, two.status), (1, TaskStatus::Completed), "its own steps only");
    // The same again is the same, and a session of somebody else is refused.
    let same = lab.parent.delegate(request.clone(), TaskOptions::default()).await.unwrap();
    assert_eq!(same.ticket(), again.ticket());
    // It keeps its agent, tools and rules, and does no task a second time that it did before the last one.
    let told = async |change: &dyn Fn(&mut TaskRequest)| {
        let mut request = request.clone();
        request.idempotency_key = Some("another".into());
        change(&mut request);
        lab.parent.delegate(request, TaskOptions::default()).await.unwrap_err().to_string()
    };
    assert!(told(&|request| request.agent = "explore".into()).await.contains("works as general"));
    assert!(told(&|request| request.capabilities = Some(["read".to_owned()].into())).await.contains("keeps its tools"));
    let scope = vec![Rule::new("edit", "**", Action::Deny)];
    assert!(told(&|request| request.auth_scope.clone_from(&scope)).await.contains("keeps its tools and rules"));
    let mut third = request.clone();
    third.idempotency_key = Some("third".into());
    third.input.query = "and at last?".into();
    let last = lab.parent.delegate(third, TaskOptions::default()).await.unwrap();
    assert_eq!(&*soon(last.result()).await.unwrap().output.answer, "the third answer");
    let twice = told(&|request| request.idempotency_key = Some("more".into())).await;
    assert!(twice.contains("the task with this key is over"), "{twice}");
    request.resume_token = Some(lab.parent.id().clone());
    let refused = lab.parent.delegate(request, TaskOptions::default()).await.unwrap_err();
    assert!(refused.to_string().contains("has no task of this session"), "{refused}");
    soon(lab.parent.wait()).await.unwrap();
    lab.end().await;
}

/// O-15, O-18, O-23: a child whose model panics, and one that is over its budget, are results with a typed error; the parent goes
/// on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_fails_is_a_result() {
    let panics = child("panic", Reply::text("x").panicking("on purpose"));
    let spends = child("spend", Reply::call("nothing", json!({})));
    let lab = lab([panics, spends]).await;
    let result = async |prompt: &str, tokens: Option<u64>| {
        let mut request = TaskRequest::new("general", prompt, prompt);
        request.input.constraints.tokens = tokens;
        let options = {
            let mut options = TaskOptions::default();
            options.link = Link::ATTACHED;
            options
        };
        soon(lab.parent.delegate(request, options).await.unwrap().result()).await.unwrap()
    };
    let panicked = result("panic", None).await;
    assert_eq!((panicked.status, &*panicked.errors[0].code), (TaskStatus::Error, "failed"), "{panicked:?}");
    let broke = result("spend", Some(10)).await;
    assert!(
        broke.errors[0].message.contains("budget that the parent granted of 10 tokens has too little left"),
        "{broke:?}"
    );
    assert_eq!((&*broke.errors[0].code, broke.errors[0].retryable), ("budget", false), "the same again ends the same");
    lab.end().await;
}

/// O-14: a task whose constraints run out stops, also where questions wait for a listener: it asks nobody for more, at the child or
/// here. Its figures have what was used by estimate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_constraints_run_out_asks_nobody() {
    let spends = child("spend", Reply::call("nothing", json!({})));
    let lab = lab_with([spends], |options| options.asks_wait = true).await;
    let mut request = TaskRequest::new("general", "spend", "spend");
    request.input.constraints.tokens = Some(10_000);
    let child = lab.parent.delegate(request, TaskOptions::default()).await.unwrap();
    let result = soon(child.result()).await.unwrap();
    let error = &result.errors[0];
    assert_eq!((&*error.code, error.retryable), ("budget", false), "{result:?}");
    assert_eq!(child.session().state().await.unwrap().budget_ask(), None);
    let down = child.down().await.unwrap();
    assert_eq!(result.metrics.tokens, down.spent.unwrap().usage);
    assert!(result.metrics.tokens.total() > 0, "the scripted model gives no figures, so the estimate counts");
    lab.end().await;
}

/// O-11: 200 calls of one answer share a width of 8. Never more than 8 tasks are at work, they begin in the order in which they were
/// given, and the results stand in the order of the calls. In each wave of 8 another session has a turn, and what is over goes to sleep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_tasks_share_a_width_of_eight() {
    const TASKS: usize = 200;
    const WIDTH: usize = 8;
    const AWAKE_MAX: usize = 64;
    let begun = Arc::new(std::sync::Mutex::new(Vec::new()));
    let model = Arc::new(Scripted::from_fn({
        let begun = begun.clone();
        move |request| {
            let said = tamtam::model::transcript(request);
            if let Some(rest) = said.split("user: number ").nth(1) {
                let n: usize = rest.lines().next().unwrap().parse().unwrap();
                let mut begun = begun.lock().unwrap();
                begun.push(n);
                return Reply::text(format!("done {n}.")).at_barrier(format!("wave {}", (begun.len() - 1) / WIDTH));
            }
            match (said.contains("user: beside"), said.contains("result task")) {
                (true, _) => Reply::text("on"),
                (false, true) => Reply::text("end"),
                (false, false) => (0..TASKS).fold(Reply::empty(), |reply, n| {
                    reply.with_call("task", arguments(&format!("number {n}"), json!({})))
                }),
            }
        }
    }));
    let folder = taped::folder();
    let mut passivation = Passivation::default();
    passivation.awake_max = AWAKE_MAX;
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).with_tasks();
    let runtime = builder.passivation(passivation).start().await.unwrap();
    let beside = runtime.create(options(folder.path())).await.unwrap();
    let mut options = options(folder.path());
    options.task_queue_max = Some(TASKS);
    let parent = runtime.create(options).await.unwrap();
    // All calls wait at the same time, so that it is the width of tasks that bounds.
    parent.configure(|settings| settings.parallel_max = TASKS).await.unwrap();
    let lab = Lab { folder, model, runtime, parent, careful: Arc::default() };

    let receipt = lab.parent.prompt("start").await.unwrap();
    until(async || lab.parent.state().await.unwrap().tasks().count() == TASKS).await;
    for wave in 0..TASKS / WIDTH {
        let barrier = lab.model.barrier(&format!("wave {wave}"));
        soon(barrier.reached_times(WIDTH as u64)).await;
        let turn = soon(beside.prompt("beside").await.unwrap().wait()).await.unwrap();
        assert_eq!(turn.text, "on", "the other session goes on while all of the width is in use");
        until(async || lab.runtime.count().sessions <= AWAKE_MAX + WIDTH).await;
        let state = lab.parent.state().await.unwrap();
        let open = (state.tasks().count() - state.tasks_queued(), state.tasks_queued(), begun.lock().unwrap().len());
        assert_eq!(open, (WIDTH, TASKS - WIDTH * (wave + 1), WIDTH * (wave + 1)), "wave {wave}");
        // This turn has to go through while tasks end and others begin.
        let turn = beside.prompt("beside").await.unwrap();
        barrier.release();
        soon(turn.wait()).await.unwrap();
    }
    assert_eq!(soon(receipt.wait()).await.unwrap().text, "end");

    let told = told(&lab);
    let results = told.lines().filter_map(|line| line.strip_prefix("result task: done ")?.strip_suffix('.'));
    assert!(results.map(|n| n.parse::<usize>().unwrap()).eq(0..TASKS), "{told}");
    let given = lab.entries(&lab.parent).await.into_iter().filter_map(|entry| match entry.record {
        Record::TaskStarted { order, .. } => {
            let title = order.unwrap().settings.title.clone().unwrap();
            Some(title.strip_prefix("about number ").unwrap().parse::<usize>().unwrap())
        }
        _ => None,
    });
    let sorted = |wave: &[usize]| BTreeSet::from_iter(wave.to_vec());
    let (given, begun) = (given.collect::<Vec<_>>(), begun.lock().unwrap().clone());
    for (given, begun) in given.chunks(WIDTH).zip(begun.chunks(WIDTH)) {
        assert_eq!(sorted(given), sorted(begun), "a wave is what was given next");
    }
    assert_eq!(begun.len(), TASKS, "no task ran twice");
    let _ = lab.folder.path();
    lab.end().await;
}
