//! Tools that do nothing: the core only looks at what they say about themselves.

use std::sync::Arc;

use serde_json::{Value, json};
use tamtam::{
    kernel::{Input, Report, State},
    model::BoxFuture,
    tool::{Access, Effect, Tool, ToolContext, ToolResult, Toolbox},
};

/// A tool by what it says about itself.
pub(crate) struct Fake {
    name: &'static str,
    effect: Effect,
    parallel: bool,
}

impl Tool for Fake {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "does nothing"
    }

    fn schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn parallel(&self) -> bool {
        self.parallel
    }

    /// `{"at": "x"}` wants its permission for `x`, anything else for `*`; the tool `free` says that it wants nothing.
    fn access(&self, arguments: &Value) -> Vec<Access> {
        match self.name {
            "free" => Vec::new(),
            name => vec![Access::new(name, arguments["at"].as_str().unwrap_or("*"))],
        }
    }

    fn pollable(&self, _: &Value) -> bool {
        self.name == "poll"
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("") })
    }
}

/// One more tool of that kind.
pub(crate) fn fake(name: &'static str, effect: Effect, parallel: bool) -> Fake {
    Fake { name, effect, parallel }
}

/// The input as a shell says it: with what these tools say of the calls that it is about.
pub(crate) fn told(toolbox: &Toolbox, state: &State, input: &Input) -> Input {
    match input {
        Input::Report { ticket, report: Report::Answered { answer, calls } } if calls.is_empty() => {
            let calls = answer.calls().map(|(name, input)| toolbox.facts(name, input)).collect();
            Report::Answered { answer: answer.clone(), calls }.of(*ticket)
        }
        Input::Recover { calls } if calls.is_empty() => {
            let asked = state.calls_to_ask().into_iter();
            Input::Recover { calls: asked.map(|(index, name, input)| (index, toolbox.facts(&name, &input))).collect() }
        }
        other => other.clone(),
    }
}

/// The tools of all core tests.
///
/// | name | effect | parallel |
/// |---|---|---|
/// | read, grep, poll (may be repeated) | Read | yes |
/// | look | Read | no |
/// | put | Idempotent | yes |
/// | note | Once | yes |
/// | bash, write, free | Once | no |
pub(crate) fn toolbox() -> Toolbox {
    let tools = [
        ("read", Effect::Read, true),
        ("grep", Effect::Read, true),
        ("poll", Effect::Read, true),
        ("look", Effect::Read, false),
        ("put", Effect::Idempotent, true),
        ("note", Effect::Once, true),
        ("bash", Effect::Once, false),
        ("write", Effect::Once, false),
        ("free", Effect::Once, false),
    ];
    Toolbox::new(tools.map(|(name, effect, parallel)| -> Arc<dyn Tool> { Arc::new(Fake { name, effect, parallel }) }))
}
