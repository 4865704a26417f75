//! A tool in whose calls the actor of the session crashes, by the drill that operators have.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tamtam::{
    Runtime,
    model::BoxFuture,
    runtime::Operator,
    tool::{Effect, Tool, ToolContext, ToolResult},
};

/// What it crashes with.
pub(crate) const WORDS: &str = "the bomb goes off";

/// Harmless until it is armed. It may run again after a crash, so it goes off in each incarnation, or as often as it was told to.
#[derive(Clone)]
pub(crate) struct Bomb {
    operator: Arc<OnceLock<Operator>>,
    left: Arc<AtomicUsize>,
}

impl Default for Bomb {
    fn default() -> Bomb {
        Bomb { operator: Arc::default(), left: Arc::new(AtomicUsize::new(usize::MAX)) }
    }
}

impl Bomb {
    pub(crate) fn arm(&self, runtime: &Runtime) {
        assert!(self.operator.set(runtime.operate()).is_ok(), "armed once");
    }

    /// From now on it goes off so many times, and then no more.
    pub(crate) fn goes_off(&self, times: usize) {
        self.left.store(times, Ordering::SeqCst);
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
            let one_less = |left: usize| left.checked_sub(1);
            if let Some(operator) = self.operator.get()
                && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
            {
                operator.crash(context.session.as_str(), WORDS).unwrap();
                context.cancelled().await;
            }
            ToolResult::ok("nothing happened")
        })
    }
}
