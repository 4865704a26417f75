//! The figure of fairness: what a thousand steered sessions notice of two that misbehave.
#![allow(unreachable_pub, reason = "a part of one bench")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tamtam::{
    Delivery, ModelRef, Part, Runtime, Session, Steering,
    model::{AnswerPart, BoxFuture, Deltas, Item, Model, ModelAnswer, ModelError, Request},
    runtime::Passivation,
    session::Finish,
    tool::{Tool, ToolContext, ToolResult},
    tools::{Bash, BashOptions},
};

use crate::parts::{Forever, distribution, options, scaled};

/// A model that calls the tool that the newest message names, with the rest of the message as input, and ends after the result.
struct Obeys(ModelRef);

impl Model for Obeys {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        let answer = match request.history.last().map(AsRef::as_ref) {
            Some(Item::User(message)) => {
                let text = message.parts.iter().find_map(|part| match part {
                    Part::Text(text) => Some(text.text.as_ref()),
                    _ => None,
                });
                match text.and_then(|text: &str| text.split_once(' ')) {
                    Some((name, input)) => {
                        let (name, input) = (name.into(), input.into());
                        let call = AnswerPart::Call { id: "call_1".into(), name, input, extra: None };
                        ModelAnswer::new(vec![call], Finish::ToolCalls)
                    }
                    None => ModelAnswer::new(vec![AnswerPart::Text { text: "done".into(), extra: None }], Finish::Stop),
                }
            }
            _ => ModelAnswer::new(vec![AnswerPart::Text { text: "done".into(), extra: None }], Finish::Stop),
        };
        Box::pin(async move { Ok(answer) })
    }
}

/// A tool that computes until it is stopped, and lets others run every five milliseconds: a host's code at its worst manners that
/// still are manners.
#[derive(Clone, Default)]
struct Busy(Arc<AtomicU64>);

impl Tool for Busy {
    fn name(&self) -> &str {
        "busy"
    }

    fn description(&self) -> &str {
        "Computes until it is told to stop."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            while !context.is_cancelled() {
                let slice = Instant::now();
                while slice.elapsed() < Duration::from_millis(5) {
                    self.0.fetch_add(1, Ordering::Relaxed);
                }
                tokio::task::yield_now().await;
            }
            ToolResult::ok("stopped")
        })
    }
}

/// How long after one steering message the next is sent.
const BEAT: Duration = Duration::from_millis(4);

/// Steers each of those sessions once, in an even beat: how long until the message was on the tape, and until the call was stopped.
async fn steered(sessions: &[Session], calls: &Forever) -> (Vec<Duration>, Vec<Duration>) {
    let (mut accepted, mut stopped) = (Vec::new(), Vec::new());
    let mut beat = tokio::time::interval(BEAT);
    for session in sessions {
        beat.tick().await;
        let sent = Instant::now();
        session.send("stop", Delivery::Steer(Steering::AbortRunning)).await.unwrap();
        accepted.push(sent.elapsed());
        let at = loop {
            if let Some(at) = calls.told.lock().unwrap().pop() {
                break at;
            }
            tokio::task::yield_now().await;
        };
        stopped.push(at - sent);
        session.wait().await.unwrap();
    }
    (accepted, stopped)
}

/// (r) One session whose command writes 1 GiB, and one whose tool computes without end, beside a thousand that are steered.
pub async fn fair() {
    let folder = tempfile::tempdir().unwrap();
    let (calls, busy) = (Forever::default(), Busy::default());
    let mut passivation = Passivation::default();
    passivation.awake_max = usize::MAX;
    let path = std::env::var_os("PATH").unwrap();
    let runtime = Runtime::builder()
        .store(folder.path().join("store"))
        .model(Arc::new(Obeys("bench/obeys".parse().unwrap())))
        .tool(calls.clone())
        .tool(busy.clone())
        .tool(Bash::new(BashOptions::new([("PATH".into(), path)])))
        .passivation(passivation)
        .start()
        .await
        .unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let live = scaled(1_000_usize);
    let mut sessions = Vec::new();
    for _ in 0..live {
        sessions.push(runtime.create(options(&work)).await.unwrap());
    }
    let (flood, spin) = (runtime.create(options(&work)).await.unwrap(), runtime.create(options(&work)).await.unwrap());
    let bytes = scaled(1_u64 << 30);
    // In turns, so that both meet the same machine.
    let mut all: [(Vec<Duration>, Vec<Duration>); 3] = Default::default();
    for _ in 0..3 {
        for (which, all) in all.iter_mut().enumerate() {
            let before = calls.began.load(Ordering::SeqCst);
            for session in &sessions {
                session.prompt("nothing {}").await.unwrap();
            }
            while calls.began.load(Ordering::SeqCst) < before + u32::try_from(live).unwrap() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let written = Instant::now();
            let mut floods = Vec::new();
            if which == 1 {
                let command = json!({ "command": format!("head -c {bytes} /dev/zero | tr '\\0' 'a' | fold -w 99") });
                floods.push(flood.prompt(format!("bash {command}")).await.unwrap());
            }
            if which == 2 {
                spin.prompt("busy {}").await.unwrap();
                let so_far = busy.0.load(Ordering::Relaxed);
                while busy.0.load(Ordering::Relaxed) == so_far {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            let (accepted, stopped) = steered(&sessions, &calls).await;
            all.0.extend(accepted);
            all.1.extend(stopped);
            let steering = written.elapsed();
            for flood in floods {
                flood.wait().await.unwrap();
                println!("r: steered for {steering:.1?}, {bytes} bytes written in {:.1?}", written.elapsed());
            }
            if which == 2 {
                spin.abort("measured").await.unwrap();
            }
        }
    }
    for (name, (accepted, stopped)) in ["alone", "beside 1 GiB of output", "beside a busy tool"].iter().zip(all) {
        distribution(&format!("r: steering accepted, {live} live, {name}"), accepted);
        distribution(&format!("r: running call told to stop, {name}"), stopped);
    }
    drop(runtime.shutdown().await);
}
