//! A tool with a bug in the worst place: it brings down the actor of its session, once.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tamtam::{
    model::BoxFuture,
    tool::{Access, Tool, ToolContext, ToolResult},
};

/// What it says when it crashes.
pub(super) const WORDS: &str = "the glitch of the demo";

/// The tool. What a call wants to do is asked for inside the session's actor, so a panic there is the actor's end, where one
/// in [`Tool::run`] would be one bad result.
#[derive(Default)]
pub(super) struct Glitch {
    happened: AtomicBool,
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

    fn access(&self, _: &Value) -> Vec<Access> {
        if !self.happened.swap(true, Ordering::Relaxed) {
            // As a panic, without the report on stderr that nobody is to be alarmed by.
            std::panic::resume_unwind(Box::new(WORDS));
        }
        vec![Access::new(self.name(), "*")]
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("nothing was done") })
    }
}
