//! The rows of the bench `growth` about work: what a turn, a call and a pause cost beside rules, labels, listeners, hooks, calls of the
//! same answer, and open tasks.
#![allow(unreachable_pub, reason = "a part of one bench")]

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tamtam::{
    Runtime, Session, SessionOptions,
    hook::Hook,
    model::{Item, Reply, Scripted},
    permission::{Action, Rule, Ruleset},
    session::{Labels, Link},
};

use crate::{
    grown::Table,
    parts::{Calls, Nothing, options, runtime},
};

/// How many steps a measured turn has.
const STEPS: u32 = 20;

/// A hook that does not listen.
struct Quiet;

impl Hook for Quiet {
    fn name(&self) -> &str {
        "quiet"
    }

    fn sees_events(&self) -> bool {
        false
    }
}

/// What one step costs, by turns of many.
async fn turns(table: &Table, row: &'static str, size: u64, session: &Session) {
    let turn = async || session.prompt("go").await.unwrap().wait().await.unwrap();
    // What is made once is made.
    turn().await;
    table.look_at_each(5, row, size, u64::from(STEPS), turn).await;
}

async fn with(table: &Table, row: &'static str, size: u64, change: impl FnOnce(SessionOptions) -> SessionOptions) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path(), Arc::new(Calls::new(STEPS)), Nothing).await;
    let session = runtime.create(change(options(folder.path()))).await.unwrap();
    turns(table, row, size, &session).await;
    drop(runtime.shutdown().await);
}

/// The table of rules, labels, listeners and hooks.
pub async fn beside(table: &Table, short: bool) {
    for size in if short { vec![10, 100] } else { vec![10, 1_000] } {
        let rules = (0..size).map(|n| Rule::new("edit", format!("folder-{n}/**"), Action::Deny));
        let rules = Ruleset::new("session", [Rule::new("*", "*", Action::Allow)].into_iter().chain(rules));
        with(table, "a step beside rules", size, |options| options.rules(rules)).await;
    }
    for size in [1, 16] {
        let labels = Labels::new((0..size).map(|n| (format!("label-{n}"), "v".repeat(200)))).unwrap();
        with(table, "a step beside labels", size, |options| options.labels(labels)).await;
    }
    for size in if short { [1, 8] } else { [1, 64] } {
        let folder = tempfile::tempdir().unwrap();
        let runtime = runtime(folder.path(), Arc::new(Calls::new(STEPS)), Nothing).await;
        let session = runtime.create(options(folder.path())).await.unwrap();
        for _ in 0..size {
            let mut events = session.events();
            tokio::spawn(async move { while events.next().await.is_some() {} });
        }
        turns(table, "a step beside listeners", size, &session).await;
        drop(runtime.shutdown().await);
    }
    for size in [1, 16] {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = Runtime::builder().store(folder.path().join("store")).tool(Nothing);
        for _ in 0..size {
            builder = builder.hook(Quiet);
        }
        let runtime = builder.model(Arc::new(Calls::new(STEPS))).start().await.unwrap();
        let session = runtime.create(options(folder.path())).await.unwrap();
        turns(table, "a step beside hooks", size, &session).await;
        drop(runtime.shutdown().await);
    }
}

/// One of many calls of an answer.
pub async fn calls(table: &Table, short: bool) {
    for size in if short { vec![16, 128] } else { vec![16, 256, 1_024] } {
        let folder = tempfile::tempdir().unwrap();
        let model = Scripted::from_fn(move |request| match request.history.iter().next_back().map(|item| &**item) {
            Some(Item::User(_)) => {
                (0..size).fold(Reply::empty(), |reply, n| reply.with_call("nothing", json!({ "n": n })))
            }
            _ => Reply::text("done"),
        });
        let runtime = runtime(folder.path(), Arc::new(model), Nothing).await;
        let session = runtime.create(options(folder.path())).await.unwrap();
        let turn = async || session.prompt("go").await.unwrap().wait().await.unwrap();
        turn().await;
        table.look_at_each(6, "a call of one answer", size, size, turn).await;
        drop(runtime.shutdown().await);
    }
}

/// A lever of a session whose tasks are open.
pub async fn tasks(table: &Table, short: bool) {
    for size in if short { vec![10, 100] } else { vec![10, 100, 900] } {
        let folder = tempfile::tempdir().unwrap();
        let mut model = Calls::new(2);
        model.think = Duration::from_secs(3_600);
        let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model)).with_tasks();
        let runtime = builder.start().await.unwrap();
        let mut wide = options(folder.path());
        wide.task_width_max = Some(usize::try_from(size).unwrap() + 1);
        let parent = runtime.create(wide).await.unwrap();
        for _ in 0..size {
            let child = SessionOptions::new(folder.path());
            parent.spawn_child(child, "go", Link::ATTACHED).await.unwrap();
        }
        let pause = async || {
            parent.pause().await.unwrap();
            parent.resume().await.unwrap();
        };
        table.look(7, "pause beside open tasks", size, pause).await;
        drop(runtime.shutdown().await);
    }
}
