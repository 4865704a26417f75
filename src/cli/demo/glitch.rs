//! A tool with the worst of bugs: it brings down the actor of its session, once.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};
use tamtam::{
    Runtime,
    model::BoxFuture,
    runtime::Operator,
    tool::{Effect, Tool, ToolContext, ToolResult},
};

/// What the actor says when it crashes.
const WORDS: &str = "the glitch of the demo";

/// The tool. A panic of a tool is one bad result and nothing more, so it takes the operator's drill to bring a session down.
#[derive(Clone, Default)]
pub(super) struct Glitch(std::sync::Arc<Inner>);

#[derive(Default)]
struct Inner {
    operator: OnceLock<Operator>,
    happened: AtomicBool,
}

impl Glitch {
    /// Gives it the lever.
    pub(super) fn arm(&self, runtime: &Runtime) {
        // It is armed once; a second lever would be the same.
        drop(self.0.operator.set(runtime.operate()));
    }
}

impl Tool for Glitch {
    fn name(&self) -> &str {
        "glitch"
    }

    fn description(&self) -> &str {
        "Does nothing. The first time it brings its session down."
    }

    fn schema(&self) -> Value {
        json!({"type": "object", "properties": {}})
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if let Some(operator) = self.0.operator.get()
                && !self.0.happened.swap(true, Ordering::Relaxed)
            {
                return match operator.crash(context.session.as_str(), WORDS) {
                    Ok(()) => {
                        context.cancelled().await;
                        ToolResult::ok("cut off")
                    }
                    Err(error) => ToolResult::error(error.to_string()),
                };
            }
            ToolResult::ok("nothing was done")
        })
    }
}
