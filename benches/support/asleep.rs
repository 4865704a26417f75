//! The figures of sessions that sleep, wake and crash.
#![allow(unreachable_pub, reason = "a part of one bench")]

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, OnceLock},
    time::Instant,
};

use serde_json::{Value, json};
use tamtam::{
    ModelRef, SessionId,
    model::{AnswerPart, BoxFuture, Deltas, Item, Model, ModelAnswer, ModelError, Request},
    runtime::Operator,
    session::Finish,
    tool::{Effect, Tool, ToolContext, ToolResult},
};

use crate::parts::{Calls, Nothing, distribution, micros, options, resident, runtime, scaled};

/// (h) A message to a session that sleeps, until its actor answers from the state.
pub async fn wake() {
    for (steps, what) in [(1, "short"), (200, "long")] {
        let folder = tempfile::tempdir().unwrap();
        let runtime = runtime(folder.path(), Arc::new(Calls::new(steps)), Nothing).await;
        let mut sessions = Vec::new();
        for _ in 0..scaled(20) {
            let session = runtime.create(options(folder.path())).await.unwrap();
            session.prompt("go").await.unwrap().wait().await.unwrap();
            sessions.push(session);
        }
        let entries = sessions[0].state().await.unwrap().seq;
        let (mut wakes, mut sleeps) = (Vec::new(), Vec::new());
        for _ in 0..scaled(50) {
            for session in &sessions {
                let start = Instant::now();
                runtime.passivate(session.id()).await.unwrap();
                sleeps.push(start.elapsed());
                let start = Instant::now();
                session.state().await.unwrap();
                wakes.push(start.elapsed());
            }
        }
        distribution(&format!("h: wake of a passive session, {what} tape ({entries} entries)"), wakes);
        distribution(&format!("h: putting it to sleep, {what} tape"), sleeps);
        drop(runtime.shutdown().await);
    }
}

/// (i) Memory of sessions that sleep and are held, and of 10,000 awake alongside 100,000 asleep.
pub async fn passive() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path(), Arc::new(Calls::new(1)), Nothing).await;
    let create = async || {
        let session = runtime.create(options(folder.path())).await.unwrap();
        session.prompt("go").await.unwrap().wait().await.unwrap();
        session
    };
    drop(create().await);
    let start = resident();
    let mut awake = Vec::new();
    for _ in 0..scaled(10_000) {
        awake.push(create().await);
    }
    let before = resident();
    println!("i: 10,000 awake: {} MB", before.saturating_sub(start) / 1_000_000);
    // What an awake one held is free for the next, so these cost what they keep asleep.
    let mut asleep = Vec::new();
    for _ in 0..scaled(10_000) {
        let session = create().await;
        // The turn reports its end before its worker does.
        while runtime.passivate(session.id()).await.is_err() {
            tokio::task::yield_now().await;
        }
        asleep.push(session);
    }
    let after_first = resident();
    for _ in 0..scaled(90_000) {
        asleep.push(runtime.session(&SessionId::new()));
    }
    let after = resident();
    println!(
        "i: passive and held: {} bytes each over 10,000 that were awake, {} over 90,000 handles by id (16 of them the handle)",
        after_first.saturating_sub(before) / scaled(10_000),
        after.saturating_sub(after_first) / scaled(90_000)
    );
    println!("i: 10,000 awake and 100,000 asleep: {} MB in all", after / 1_000_000);
    asleep.truncate(scaled(10_000));
    drop(runtime.shutdown().await);
}

/// A model that asks for one call under its own name, and then ends.
struct OneBomb(ModelRef);

impl Model for OneBomb {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        let called = request.history.iter().any(|item| matches!(item.as_ref(), Item::Result(_)));
        let part = match called {
            true => AnswerPart::Text { text: "done".into(), extra: None },
            false => AnswerPart::Call {
                id: "call_1".into(),
                name: "bomb".into(),
                input: json!({ "of": request.key }).to_string(),
                extra: None,
            },
        };
        let finish = if called { Finish::Stop } else { Finish::ToolCalls };
        Box::pin(async move { Ok(ModelAnswer::new(vec![part], finish)) })
    }
}

/// A tool that crashes its session's actor at its first call, if armed.
#[derive(Clone, Default)]
struct Bomb {
    operator: Arc<OnceLock<Operator>>,
    gone_off: Arc<Mutex<BTreeSet<String>>>,
}

impl Tool for Bomb {
    fn name(&self) -> &str {
        "bomb"
    }

    fn description(&self) -> &str {
        "Goes off once for each session."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let first = self.gone_off.lock().unwrap().insert(arguments["of"].to_string());
            if let Some(operator) = self.operator.get().filter(|_| first) {
                operator.crash(context.session.as_str(), "the bomb goes off").unwrap();
                context.cancelled().await;
            }
            ToolResult::ok("ok")
        })
    }
}

/// (j) 1,000 sessions whose actors all crash in mid-turn, until the turns of all are done; and the same without the crashes.
pub async fn crash() {
    std::panic::set_hook(Box::new(|_| {}));
    for armed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let bomb = Bomb::default();
        let runtime = runtime(folder.path(), Arc::new(OneBomb("bench/bomb".parse().unwrap())), bomb.clone()).await;
        if armed {
            assert!(bomb.operator.set(runtime.operate()).is_ok());
        }
        let mut sessions = Vec::new();
        for _ in 0..scaled(1_000) {
            sessions.push(runtime.create(options(folder.path())).await.unwrap());
        }
        let start = Instant::now();
        let mut receipts = Vec::new();
        for session in &sessions {
            receipts.push(session.prompt("go").await.unwrap());
        }
        for receipt in receipts {
            assert_eq!(receipt.wait().await.unwrap().text, "done");
        }
        let took = micros(start.elapsed());
        let tree = runtime.tree();
        let restarts: u64 = tree.find("sessions").unwrap().children.iter().map(|node| node.restarts).sum();
        println!("j: {} turns with one call each, done after {took}; {restarts} crashes", sessions.len());
        drop(runtime.shutdown().await);
    }
    drop(std::panic::take_hook());
}
