//! Tasks over crashes of the parent and of the process: each call has one result, and no task runs twice.

use super::*;
use tamtam::runtime::TaskOptions;

/// How many tasks the tape of the parent has, and how often each is over.
async fn downs(lab: &Lab) -> (usize, usize) {
    let entries = lab.entries(&lab.parent).await;
    let count = |is: fn(&Record) -> bool| entries.iter().filter(|entry| is(&entry.record)).count();
    (
        count(|record| matches!(record, Record::TaskStarted { .. })),
        count(|record| matches!(record, Record::TaskFinished { .. })),
    )
}

/// The parent crashes while calls wait for two tasks: the calls run again, find their children at work, and each has one result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_parent_runs_no_task_twice() {
    let both = Reply::call("task", arguments("find a", json!({}))).with_call("task", arguments("find b", json!({})));
    let [a, b] =
        ["a", "b"].map(|name| child(&format!("find {name}"), Reply::text(format!("found {name}")).at_barrier(name)));
    let lab = lab([both, Reply::text("end"), a, b]).await;
    drop(lab.parent.prompt("go").await.unwrap());
    for name in ["a", "b"] {
        soon(lab.model.barrier(name).reached()).await;
    }
    lab.runtime.operate().restart(lab.parent.id().as_str()).await.unwrap();
    lab.model.barrier("a").release();
    // A turn that is cut off twice without a result in between waits to be told to go on.
    until(async || lab.results().await.len() == 1).await;
    lab.runtime.operate().restart(lab.parent.id().as_str()).await.unwrap();
    lab.model.barrier("b").release();
    soon(lab.parent.wait()).await.unwrap();
    assert_eq!(&*lab.parent.state().await.unwrap().ended.back().unwrap().text, "end");
    assert_eq!(downs(&lab).await, (2, 2));
    let results = lab.results().await;
    assert_eq!(results.iter().map(|result| envelope(result).status).collect::<Vec<_>>(), [TaskStatus::Completed; 2]);
    for child in lab.children().await {
        assert_eq!(child.state().await.unwrap().turns, 1);
    }
    lab.end().await;
}

/// The parent crashes with three running tasks of every link: all work on, each has one DOWN; a linked and a monitored one wake the
/// parent, a detached one does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_tasks_of_every_link_outlive_a_crash_of_their_parent() {
    let names = ["linked", "monitored", "detached"];
    let children = names.map(|name| child(name, Reply::text(format!("{name} is done")).at_barrier("work")));
    let lab = lab(std::iter::repeat_n(Reply::text("thank you"), 4).chain(children)).await;
    let mut tasks = Vec::new();
    for (name, link) in names.into_iter().zip([Link::LINKED, Link::MONITORED, Link::DETACHED]) {
        let mut options = TaskOptions::default();
        options.link = link;
        tasks.push(lab.parent.delegate(TaskRequest::new("general", name, name), options).await.unwrap());
    }
    soon(lab.model.barrier("work").reached_times(3)).await;
    lab.runtime.operate().restart(lab.parent.id().as_str()).await.unwrap();
    lab.model.barrier("work").release();
    for (task, name) in tasks.iter().zip(names) {
        assert_eq!(soon(task.result()).await.unwrap().output.answer, format!("{name} is done"));
    }
    soon(lab.parent.wait()).await.unwrap();
    assert_eq!(downs(&lab).await, (3, 3));
    let told = told_all(&lab);
    assert!(told.contains("linked is done") && told.contains("monitored is done"), "{told}");
    assert!(!told.contains("detached is done"), "{told}");
    lab.end().await;
}

/// All that the parent's model was told.
fn told_all(lab: &Lab) -> String {
    let requests = lab.model.requests();
    let mut of_parent = requests.iter().map(tamtam::model::transcript).filter(|said| said.contains("is over"));
    of_parent.next_back().unwrap_or_default()
}

/// The process dies while calls wait: the next one goes on with the same children, and a task in the background tells of its end.
#[test]
fn the_death_of_the_process_runs_no_task_twice() {
    let folder = taped::folder();
    let tokio = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let model = || {
        Arc::new(Scripted::from_fn(|request| {
            let said = tamtam::model::transcript(request);
            match said.split("user: child ").nth(1) {
                Some(rest) => Reply::text(format!("child {} is done", &rest[..1])).at_barrier("work"),
                None if said.contains("result task") => Reply::text("end"),
                None => task("child 0", json!({ "background": true }))
                    .with_call("task", arguments("child 1", json!({})))
                    .with_call("task", arguments("child 2", json!({}))),
            }
        }))
    };
    let (first, before, careful) = (tokio(), model(), Arc::default());
    let (runtime, id) = first.block_on(async {
        let runtime = start(folder.path(), &before, &careful).await;
        let parent = runtime.create(options(folder.path())).await.unwrap();
        drop(parent.prompt("go").await.unwrap());
        soon(before.barrier("work").reached_times(3)).await;
        let id = parent.id().clone();
        (runtime, id)
    });
    // As a kill: nothing is told to stop, and nothing is written any more.
    drop(first);
    drop(runtime);
    tokio().block_on(async {
        let after = model();
        after.barrier("work").release();

        let runtime = start(folder.path(), &after, &careful).await;
        let parent = runtime.open(&id).await.unwrap();
        until(async || !parent.state().await.unwrap().is_unfinished()).await;
        soon(parent.wait()).await.unwrap();
        let lab = Lab { folder: taped::folder(), model: after, runtime, parent, careful: careful.clone() };
        assert_eq!(downs(&lab).await, (3, 3));
        assert_eq!(lab.results().await.len(), 3);
        for child in lab.children().await {
            assert_eq!(child.state().await.unwrap().turns, 1);
        }
        lab.end().await;
    });
}
