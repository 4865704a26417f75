//! What the benches share: a model in memory, a tool that does nothing, a runtime round them, and figures.
#![allow(dead_code, unreachable_pub, reason = "shared by the benches, each of which uses a part of it")]

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tamtam::{
    ModelRef, Runtime, Session, SessionOptions,
    model::{AnswerPart, BoxFuture, Deltas, Item, Model, ModelAnswer, ModelError, Request, ToolResultItem},
    permission::Profile,
    runtime::Passivation,
    session::Finish,
    tool::{Effect, Tool, ToolContext, ToolResult},
};

/// A model in memory: so many steps a turn, each but the last with one call.
pub struct Calls {
    name: ModelRef,
    steps: u32,
    made: AtomicU32,
    /// When each request arrived.
    pub asked: Arc<Mutex<Vec<Instant>>>,
    /// How long it thinks before it answers.
    pub think: Duration,
}

impl Calls {
    pub fn new(steps: u32) -> Calls {
        let name = "bench/calls".parse().unwrap();
        Calls { name, steps, made: AtomicU32::new(0), asked: Arc::default(), think: Duration::ZERO }
    }
}

impl Model for Calls {
    fn id(&self) -> &ModelRef {
        &self.name
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        // A long history is summarized now and then; that request is not a step, and offers no tool.
        let is_summary = request.tools.is_empty() && !request.key.is_empty();
        Box::pin(async move {
            if is_summary {
                return Ok(ModelAnswer::new(
                    vec![AnswerPart::Text { text: "so far".into(), extra: None }],
                    Finish::Stop,
                ));
            }
            self.asked.lock().unwrap().push(Instant::now());
            if !self.think.is_zero() {
                tokio::time::sleep(self.think).await;
            }
            let made = self.made.fetch_add(1, Ordering::Relaxed) + 1;
            if made.is_multiple_of(self.steps) {
                return Ok(ModelAnswer::new(vec![AnswerPart::Text { text: "done".into(), extra: None }], Finish::Stop));
            }
            // Equal calls in a row would be a loop.
            let input = format!("{{\"n\":{made}}}");
            let call = AnswerPart::Call { id: "call_1".into(), name: "nothing".into(), input, extra: None };
            Ok(ModelAnswer::new(vec![call], Finish::ToolCalls))
        })
    }
}

/// A model in memory that asks for one call and, once it sees the result, ends. Each session on its own.
pub struct OneCall(pub ModelRef);

impl Model for OneCall {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        let just_called = request.history.iter().rev().take(3).any(|item| match item.as_ref() {
            Item::Assistant(answer) => answer.parts.iter().any(|part| matches!(part, AnswerPart::Call { .. })),
            _ => false,
        });
        let answer = if just_called {
            ModelAnswer::new(vec![AnswerPart::Text { text: "done".into(), extra: None }], Finish::Stop)
        } else {
            let call =
                AnswerPart::Call { id: "call_1".into(), name: "nothing".into(), input: "{}".into(), extra: None };
            ModelAnswer::new(vec![call], Finish::ToolCalls)
        };
        Box::pin(async move { Ok(answer) })
    }
}

/// A tool that does nothing.
pub struct Nothing;

impl Tool for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn description(&self) -> &str {
        "Does nothing."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("ok") })
    }
}

/// A tool that runs until it is stopped, and records when.
#[derive(Clone, Default)]
pub struct Forever {
    /// How many calls run or ran.
    pub began: Arc<AtomicU32>,
    /// When each was stopped.
    pub told: Arc<Mutex<Vec<Instant>>>,
}

impl Tool for Forever {
    fn name(&self) -> &str {
        "nothing"
    }

    fn description(&self) -> &str {
        "Runs until it is told to stop."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            self.began.fetch_add(1, Ordering::SeqCst);
            context.cancelled().await;
            self.told.lock().unwrap().push(Instant::now());
            ToolResult::ok("stopped")
        })
    }
}

/// A result as the floor makes it.
pub fn result() -> ToolResultItem {
    serde_json::from_value(json!({ "call": "call_1", "name": "nothing", "content": "ok" })).unwrap()
}

pub fn options(folder: &Path) -> SessionOptions {
    let mut options = SessionOptions::new(folder).profile(Profile::Auto);
    options.steps_max = None;
    options
}

/// A runtime with that model and that tool.
pub async fn runtime(folder: &Path, model: Arc<dyn Model>, tool: impl Tool) -> Runtime {
    // No session is put to sleep during a measurement.
    let mut passivation = Passivation::default();
    passivation.awake_max = usize::MAX;
    let builder = Runtime::builder().store(folder.join("store")).model(model).tool(tool);
    builder.passivation(passivation).start().await.unwrap()
}

/// A runtime with one session of the model in memory.
pub async fn session(folder: &Path, steps: u32) -> (Runtime, Session) {
    let runtime = runtime(folder, Arc::new(Calls::new(steps)), Nothing).await;
    let session = runtime.create(options(folder)).await.unwrap();
    (runtime, session)
}

/// A number of rounds or things: a fiftieth of it, two at least, where the bench is run with `--short`.
pub fn scaled<N: From<u8> + std::ops::Div<Output = N> + Ord>(number: N) -> N {
    match std::env::args().any(|arg| arg == "--short") {
        true => (number / N::from(50)).max(N::from(2)),
        false => number,
    }
}

/// The value that so many hundredths of all values do not exceed.
pub fn percentile(values: &mut [Duration], hundredths: f64) -> Duration {
    values.sort_unstable();
    let at = ((values.len() as f64) * hundredths / 100.0).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}

pub fn micros(duration: Duration) -> String {
    format!("{:.1} µs", duration.as_secs_f64() * 1e6)
}

pub fn distribution(name: &str, mut values: Vec<Duration>) {
    let [p50, p99, max] = [50.0, 99.0, 100.0].map(|at| micros(percentile(&mut values, at)));
    println!("{name:58} p50 {p50:>12}   p99 {p99:>12}   max {max:>12}   n {}", values.len());
}

/// What this process holds in memory, in bytes.
pub fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
