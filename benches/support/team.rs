//! The figures of prompts, of agents in files, and of tasks.
#![allow(unreachable_pub, reason = "a part of one bench")]

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use serde_json::json;
use tamtam::{
    ModelRef, Runtime, SessionOptions,
    model::{BoxFuture, Deltas, Model, ModelAnswer, ModelError, Reply, Request, Scripted},
    runtime::{EnvironmentProvider as _, Place, RuleFiles, TaskOptions},
    session::{Link, TaskRequest},
};
use tokio::sync::mpsc;

use crate::parts::{Calls, Forever, distribution, options, resident, runtime, scaled};

/// A reload of the registry: 500 files of agents, each with rules and a prompt, read, judged and made into a snapshot.
#[cfg(feature = "agent-files")]
pub fn agents() {
    use tamtam::runtime::{AgentFiles, AgentFolder, Dialect};
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    let files = scaled(500_u16);
    for file in 0..files {
        let front = "---\ndescription: Does one thing\nmode: subagent\ntools: {write: false, bash: false}\ntemperature: 0.2\npermission:\n  edit: deny\n  bash:\n    \"*\": ask\n    \"git *\": allow\n---\n";
        let text = format!("{front}{}", "You do one thing, and you do it well.\n".repeat(50));
        std::fs::write(folder.path().join(format!("agents/agent-{file}.md")), text).unwrap();
    }
    let folders = [AgentFolder::new(folder.path(), Dialect::Tamtam)];
    let took: Vec<_> = (0..scaled(50_u16))
        .map(|_| {
            let begun = Instant::now();
            let (agents, _, bad) = AgentFiles::read(&folders, &std::collections::BTreeMap::new()).build().unwrap();
            assert!(bad.is_empty() && agents.subagents().count() >= usize::from(files));
            begun.elapsed()
        })
        .collect();
    distribution(&format!("reload of {files} files of agents"), took);
}

/// (p) A session with 64 KiB of project rules: finding and reading them, and making a session with them and without.
pub async fn prompt() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().canonicalize().unwrap().join("repo/deep/work");
    std::fs::create_dir_all(&work).unwrap();
    std::fs::create_dir(folder.path().join("repo/.git")).unwrap();
    for (name, line) in
        [("repo/AGENTS.md", "Use tabs, and no spaces.\n"), ("repo/deep/AGENTS.md", "Write few words.\n")]
    {
        std::fs::write(folder.path().join(name), line.repeat(32 * 1024 / line.len())).unwrap();
    }
    let rules = RuleFiles::trusting(|_, _| true);
    let place = Place::new(&work, "bench/calls".parse().unwrap());
    let mut read = Vec::new();
    for _ in 0..scaled(2_000) {
        let start = Instant::now();
        let sections = rules.sections(&place).await.unwrap();
        read.push(start.elapsed());
        assert!(sections.iter().map(|section| section.text.len()).sum::<usize>() > 60_000);
    }
    distribution("p: 64 KiB of rules, read", read);
    for has_rules in [false, true] {
        let builder = Runtime::builder().in_memory().model(Arc::new(Calls::new(1)));
        let builder = if has_rules { builder.environment(rules.clone()) } else { builder };
        let rt = builder.start().await.unwrap();
        let mut made = Vec::new();
        for _ in 0..scaled(500) {
            let start = Instant::now();
            rt.create(SessionOptions::new(&work)).await.unwrap();
            made.push(start.elapsed());
        }
        distribution(if has_rules { "p: a session with them, made" } else { "p: a session without, made" }, made);
        drop(rt.shutdown().await);
    }
}

/// A model that says when it was asked, and then answers.
struct Told(mpsc::UnboundedSender<Instant>, Calls);

impl Model for Told {
    fn id(&self) -> &ModelRef {
        self.1.id()
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        self.0.send(Instant::now()).unwrap();
        self.1.stream(request, deltas)
    }
}

/// A task whose end wakes nobody: the next request is that of the next task.
fn attached() -> TaskOptions {
    let mut options = TaskOptions::default();
    options.link = Link::ATTACHED;
    options
}

/// From the giving of a task to the first model request of its child, with the tapes on the disk.
pub async fn task() {
    let folder = tempfile::tempdir().unwrap();
    let (told, mut asked) = mpsc::unbounded_channel();
    let model = Arc::new(Told(told, Calls::new(1)));
    let runtime = runtime(folder.path(), model, Forever::default()).await;
    let parent = runtime.create(options(folder.path())).await.unwrap();
    let (mut given, mut began) = (Vec::new(), Vec::new());
    for n in 0..scaled(500) {
        let request = TaskRequest::new("general", format!("task {n}"), "go");
        let start = Instant::now();
        let child = parent.delegate(request, attached()).await.unwrap();
        given.push(start.elapsed());
        began.push(asked.recv().await.unwrap() - start);
        child.result().await.unwrap();
    }
    distribution("k: a task is given", given);
    distribution("k: from there to the first request of its child", began);
    drop(runtime.shutdown().await);
}

/// What a session holds in memory whose four tasks run, each with a call that waits; alongside as many sessions whose own call
/// waits.
pub async fn children() {
    let parents = scaled(1_000_u64);
    let mut each = Vec::new();
    for tasks in [0_u64, 4] {
        let folder = tempfile::tempdir().unwrap();
        let forever = Forever::default();
        // No answer of this model ends a turn.
        let runtime = runtime(folder.path(), Arc::new(Calls::new(u32::MAX)), forever.clone()).await;
        let before = resident();
        let mut held = Vec::new();
        for _ in 0..parents {
            let parent = runtime.create(options(folder.path())).await.unwrap();
            parent.prompt("go").await.unwrap();
            for n in 0..tasks {
                let request = TaskRequest::new("general", format!("task {n}"), "go");
                held.push(parent.delegate(request, Default::default()).await.unwrap());
            }
        }
        while u64::from(forever.began.load(Ordering::SeqCst)) < parents * (tasks + 1) {
            tokio::task::yield_now().await;
        }
        each.push(resident().saturating_sub(before) / parents);
        println!("k: {parents} sessions at work, {tasks} tasks each: {} bytes a session", each.last().unwrap());
        drop(runtime.shutdown().await);
    }
    println!("k: a task that waits in a call: {} bytes", each[1].saturating_sub(each[0]) / 4);
}

/// How long after its deadline each of five tasks is over, one below the other, where the deepest model never answers.
pub async fn deadline() {
    let mut late = Vec::new();
    for _ in 0..scaled(50) {
        let folder = tempfile::tempdir().unwrap();
        let model = Scripted::from_fn(|request| {
            let said = tamtam::model::transcript(request);
            let level = said.split("user: level ").nth(1).map_or(0, |rest| rest[..1].parse::<u32>().unwrap());
            let prompt = format!("level {}", level + 1);
            let deadline = if level == 0 { 200 } else { 60_000 };
            let task = json!({ "description": "go down", "prompt": prompt, "subagent_type": "general", "deadline_ms": deadline });
            if level == 5 { Reply::hang() } else { Reply::call("task", task) }
        });
        let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model)).with_tasks();
        let runtime = builder.start().await.unwrap();
        let mut deep = options(folder.path());
        deep.task_depth_max = Some(5);
        let mut above = runtime.create(deep).await.unwrap();
        above.prompt("go").await.unwrap();
        for _ in 1..=5 {
            let task = loop {
                match above.tasks().await.unwrap().into_iter().next() {
                    Some(task) => break task,
                    None => tokio::task::yield_now().await,
                }
            };
            above = task.started().await.unwrap().clone();
        }
        // The deepest first; those above it wait for nothing else.
        loop {
            let state = above.state().await.unwrap();
            let Some(origin) = state.origin else { break };
            if origin.end.is_none() {
                tokio::task::yield_now().await;
                continue;
            }
            late.push(state.time.since(origin.terms.deadline.unwrap()));
            above = runtime.session(&origin.parent);
        }
        drop(runtime.shutdown().await);
    }
    distribution("k: a task is over after its deadline, over five levels", late);
}
