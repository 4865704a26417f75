//! Real tools that a scenario can hold just before they begin: that is how "while it runs" is made certain without a clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tamtam::{
    model::BoxFuture,
    session::ErrorReason,
    tool::{Access, Effect, Tool, ToolContext, ToolResult, Toolbox},
};
use tokio::sync::watch;

/// The places where calls are held, one for each tool; and the tools whose calls are meant to be repeated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds {
    held: Arc<Mutex<BTreeMap<String, watch::Sender<Hold>>>>,
    polls: Arc<Mutex<BTreeSet<String>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Hold {
    arrived: usize,
    is_open: bool,
}

impl Holds {
    /// From now on calls of that tool wait.
    pub(crate) fn hold(&self, tool: &str) {
        self.held.lock().unwrap().insert(tool.to_owned(), watch::Sender::new(Hold::default()));
    }

    /// From now on calls of that tool count as polling.
    pub(crate) fn may_repeat(&self, tool: &str) {
        self.polls.lock().unwrap().insert(tool.to_owned());
    }

    /// Lets all calls of that tool go, now and later.
    pub(crate) fn release(&self, tool: &str) {
        self.of(tool).expect("the tool is not held").send_modify(|hold| hold.is_open = true);
    }

    /// Resolves when a call of that tool waits, or has waited.
    pub(crate) async fn arrived(&self, tool: &str) {
        let mut hold = self.of(tool).expect("the tool is not held").subscribe();
        hold.wait_for(|hold| hold.arrived > 0).await.unwrap();
    }

    async fn pass(&self, tool: &str) {
        let Some(hold) = self.of(tool) else { return };
        hold.send_modify(|hold| hold.arrived += 1);
        hold.subscribe().wait_for(|hold| hold.is_open).await.unwrap();
    }

    fn of(&self, tool: &str) -> Option<watch::Sender<Hold>> {
        self.held.lock().unwrap().get(tool).cloned()
    }

    /// The same tools, each of which can be held.
    pub(crate) fn over(&self, tools: &Toolbox) -> Toolbox {
        let names: Vec<_> = tools.names().map(str::to_owned).collect();
        let held = names.iter().map(|name| Held { tool: tools.find(name).unwrap().clone(), holds: self.clone() });
        Toolbox::new(held.map(|held| Arc::new(held) as Arc<dyn Tool>))
    }
}

struct Held {
    tool: Arc<dyn Tool>,
    holds: Holds,
}

impl Tool for Held {
    fn name(&self) -> &str {
        self.tool.name()
    }

    fn aliases(&self) -> &[&str] {
        self.tool.aliases()
    }

    fn description(&self) -> &str {
        self.tool.description()
    }

    fn schema(&self) -> Value {
        self.tool.schema()
    }

    fn effect(&self) -> Effect {
        self.tool.effect()
    }

    fn parallel(&self) -> bool {
        self.tool.parallel()
    }

    fn limit(&self, arguments: &Value) -> Duration {
        self.tool.limit(arguments)
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        self.tool.access(arguments)
    }

    fn permissions(&self) -> Vec<String> {
        self.tool.permissions()
    }

    fn pollable(&self, arguments: &Value) -> bool {
        self.holds.polls.lock().unwrap().contains(self.name()) || self.tool.pollable(arguments)
    }

    fn loop_key(&self, arguments: &Value) -> String {
        self.tool.loop_key(arguments)
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            tokio::select! {
                () = self.holds.pass(self.name()) => self.tool.run(arguments, context).await,
                () = context.cancelled() => ToolResult::failed(ErrorReason::Aborted, "Stopped while it was held."),
            }
        })
    }
}
