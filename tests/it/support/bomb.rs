//! A tool in whose calls the actor of the session crashes, by the drill that operators have.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tamtam::{
    Runtime,
    model::BoxFuture,
    runtime::Operator,
    tool::{Effect, Tool, ToolContext, ToolResult},
};

/// What it crashes with.
pub(crate) const WORDS: &str = "the bomb goes off";

/// Harmless until it is armed. It may run again after a crash, so it goes off in each life.
#[derive(Clone, Default)]
pub(crate) struct Bomb(Arc<OnceLock<Operator>>);

impl Bomb {
    pub(crate) fn arm(&self, runtime: &Runtime) {
        assert!(self.0.set(runtime.operate()).is_ok(), "armed once");
    }
}

impl Tool for Bomb {
    fn name(&self) -> &str {
        "bomb"
    }

    fn description(&self) -> &str {
        "Is in the box."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if let Some(operator) = self.0.get() {
                operator.crash(context.session.as_str(), WORDS).unwrap();
                context.cancelled().await;
            }
            ToolResult::ok("nothing happened")
        })
    }
}
