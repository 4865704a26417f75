//! Tools whose calls are carried out somewhere else: in a container, on another machine.
//! The whole call is passed on, not each file operation: see `docs/decisions/0006-whole-calls-go-elsewhere.md`. The host says how
//! (`docker exec box tamtam tool NAME JSON`, `ssh`, its own server) by a [`RemoteExecutor`]. What a model and the permission
//! rules see of a tool stays on this side: name, schema, the check of the arguments, accesses, effect, limits.
//!
//! A call of a tool that does more than read reports, before it begins, the changes that it may make, as changes that cannot be
//! put back from here. A change must keep that, so that a call which is cut off has reported them too, and must not open or lock
//! a file on this side: the paths are names for the other side.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    model::BoxFuture,
    tool::{Access, Changes, Effect, FileChange, FileState, Tool, ToolContext, ToolResult, Toolbox},
};

/// A place other than this process where calls are carried out.
///
/// The paths of the context are those of this side. The workspace is the session's name for it; the implementor knows the
/// matching folder on the other side. A failure on the way is an error result like any other.
///
/// **Cancellation.** [`ToolContext::cancelled`] resolves when the call must stop. Answer "aborted" only for a call that is known
/// not to change anything any more; the future is dropped two seconds later.
pub trait RemoteExecutor: Send + Sync + 'static {
    /// Carries out one call of the tool of that name.
    fn carry_out<'a>(&'a self, tool: &'a str, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult>;
}

/// The same tools, each call of which is carried out elsewhere.
///
/// ```
/// use std::sync::Arc;
/// use serde_json::Value;
/// use tamtam::{model::BoxFuture, tool::{ToolContext, ToolResult}, tools::{self, RemoteExecutor}};
///
/// /// Works in another folder, as a container would.
/// struct Moved(tools::Setup);
///
/// impl RemoteExecutor for Moved {
///     fn carry_out<'a>(&'a self, tool: &'a str, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
///         Box::pin(async move {
///             let tools = self.0.full();
///             let Some(tool) = tools.find(tool) else { return ToolResult::error(tools.unknown_tool(tool)) };
///             let there = ToolContext::detached("/srv/box".into(), "/srv/spill".into());
///             tool.run(arguments, &there).await
///         })
///     }
/// }
///
/// let tools = tools::remote(&tools::full(), Arc::new(Moved(tools::Setup::new())));
/// assert!(tools.find("read").is_some());
/// ```
#[must_use]
pub fn remote(tools: &Toolbox, place: Arc<dyn RemoteExecutor>) -> Toolbox {
    let names: Vec<String> = tools.names().map(str::to_owned).collect();
    let moved = names.iter().filter_map(|name| tools.find(name)).map(|tool| {
        let moved: Arc<dyn Tool> = Arc::new(Moved { tool: tool.clone(), place: place.clone() });
        moved
    });
    Toolbox::new(moved)
}

/// The changes that a call elsewhere may make. None of them can be put back from here.
fn changed_elsewhere(tool: &str, access: &[Access]) -> Changes {
    let mut changes = Changes::default();
    let edits = access.iter().filter(|access| access.permission == "edit");
    let unknown = || FileState::Unknown(format!("changed elsewhere by {tool}"));
    changes.files =
        edits.map(|edit| FileChange { path: edit.pattern.clone(), before: unknown(), after: unknown() }).collect();
    if changes.files.is_empty() {
        changes.unlisted = Some(format!("{tool} ran elsewhere, and what it changed there is not known here"));
    }
    changes
}

/// A tool that is carried out elsewhere.
struct Moved {
    tool: Arc<dyn Tool>,
    place: Arc<dyn RemoteExecutor>,
}

impl Tool for Moved {
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

    fn limit(&self, arguments: &Value) -> std::time::Duration {
        self.tool.limit(arguments)
    }

    fn output(&self) -> crate::tool::truncate::CutLimits {
        self.tool.output()
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        self.tool.access(arguments)
    }

    fn permissions(&self) -> Vec<String> {
        self.tool.permissions()
    }

    fn pollable(&self, arguments: &Value) -> bool {
        self.tool.pollable(arguments)
    }

    fn loop_key(&self, arguments: &Value) -> String {
        self.tool.loop_key(arguments)
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        self.tool.check(arguments)
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let access = self.tool.access(&arguments);
            let name = self.tool.name();
            // Reported before the call begins, so that a call that is cut off has reported it too.
            if self.tool.effect() != Effect::Read {
                context.changes.put(changed_elsewhere(name, &access));
            }
            self.place.carry_out(name, arguments, context).await
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use serde_json::json;

    use super::*;

    struct Nowhere;

    impl RemoteExecutor for Nowhere {
        fn carry_out<'a>(&'a self, tool: &'a str, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
            Box::pin(async move { ToolResult::error(format!("{tool} cannot be reached")) })
        }
    }

    /// What a model and the rules see of a tool is the same wherever it works.
    #[tokio::test]
    async fn a_moved_tool_is_the_same_to_all_but_the_files() {
        let here = crate::tools::full();
        let there = remote(&here, Arc::new(Nowhere));
        assert_eq!(there.specs(), here.specs());
        let arguments = json!({"path": "/etc/hosts", "pattern": "x", "command": "ls", "timeout": 7});
        for name in here.names() {
            let (near, far) = (here.find(name).unwrap(), there.find(name).unwrap());
            assert_eq!(far.access(&arguments), near.access(&arguments), "{name}");
            assert_eq!(far.permissions(), near.permissions(), "{name}");
            let bad = json!({"path": 7, "command": 7, "pattern": 7});
            assert_eq!((far.check(&arguments), far.check(&bad)), (near.check(&arguments), near.check(&bad)), "{name}");
            assert!(near.check(&bad).is_err(), "{name}");
            assert_eq!(far.loop_key(&arguments), near.loop_key(&arguments), "{name}");
            assert_eq!((far.effect(), far.parallel()), (near.effect(), near.parallel()), "{name}");
            assert_eq!((far.limit(&arguments), far.aliases()), (near.limit(&arguments), near.aliases()), "{name}");
        }
        let context = ToolContext::detached("/nowhere".into(), "/nowhere".into());
        let result = there.find("read_file").unwrap().run(json!({}), &context).await;
        assert_eq!(result.content, "read cannot be reached");
    }
}
