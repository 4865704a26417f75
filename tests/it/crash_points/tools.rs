//! The tools of the story. What they do outside is counted there.

use std::time::Duration;

use serde_json::{Value, json};
use tamtam::{
    Delivery, Steering,
    model::BoxFuture,
    session::ErrorReason,
    tool::{Effect, Tool, ToolContext, ToolResult, Toolbox},
};

use super::world::World;

struct Stub {
    name: &'static str,
    effect: Effect,
    parallel: bool,
    world: World,
}

/// All of them.
pub(crate) fn toolbox(world: &World) -> Toolbox {
    let stub = |name, effect, parallel| Stub { name, effect, parallel, world: world.clone() };
    Toolbox::default()
        .with(stub("look", Effect::Read, true))
        .with(stub("token", Effect::Once, false))
        .with(stub("count", Effect::Idempotent, true))
        .with(stub("careful", Effect::Once, false))
        .with(stub("linger", Effect::Read, false))
        .with(stub("broken", Effect::Once, false))
}

impl Tool for Stub {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "A tool of the story."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn parallel(&self) -> bool {
        self.parallel
    }

    fn limit(&self, _: &Value) -> Duration {
        Duration::from_secs(60)
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let what = match &arguments["n"] {
                Value::Null => self.name.to_owned(),
                n => format!("{} {n}", self.name),
            };
            if self.effect == Effect::Once {
                self.world.ran(&what, context.ticket);
            }
            match self.name {
                "linger" => {
                    self.world.want("m3", Delivery::Steer(Steering::AbortRunning));
                    context.cancelled().await;
                    ToolResult::failed(ErrorReason::Aborted, "stopped lingering")
                }
                "broken" => std::panic::resume_unwind(Box::new("the tool is broken")),
                "look" => ToolResult::ok(format!("saw {}", arguments["at"])),
                _ => ToolResult::ok(format!("did {what}")),
            }
        })
    }
}
