//! The contract between a tool and the runtime: the trait [`Tool`], and the values that a call takes and returns.
//!
//! A tool is a value that several sessions may call at the same time. It describes itself (name, schema) and what a call may do
//! (effect, access), and carries the call out ([`Tool::run`]). A tool that panics, or runs over its limit, costs its call an
//! error result, and a result that is too large is cut; the session continues. The exception is a tool that says that it answers
//! at once ([`Tool::answers_at_once`]) and still blocks: neither limit nor stop reaches its call.
//!
//! **Cancellation.** [`ToolContext::cancelled`] resolves when the call must stop. A tool that tidies up has two seconds; then its
//! future is dropped, and the OS processes that it started through its context are killed. A tool must not block a thread of the
//! runtime: code that blocks must run through [`blocking`].
//!
//! A change must keep that this room knows no actor and no runtime. [`Effect`], [`Access`], [`CallFacts`], [`Question`],
//! [`QuestionAnswer`], [`Todo`], [`ToolResult`] and [`Changes`] are on tapes, so a change must read what older versions wrote.

mod access;
mod arguments;
mod changes;
mod context;
mod facts;
#[cfg(all(unix, feature = "tools"))]
pub(crate) mod files;
#[cfg(all(unix, feature = "tools"))]
mod mode;
mod outputs;
pub(crate) mod partial_json;
mod question;
pub(crate) mod search;
mod threads;
pub(crate) mod todo;
mod toolbox;
pub mod truncate;
mod typed;
#[cfg(unix)]
pub(crate) mod workspace;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{model::BoxFuture, words::pointers::pointers};

pub(crate) use access::one_line;
pub use access::{Access, ReadPath, ShellPart, UnknownWords};
#[cfg(all(unix, feature = "tools"))]
pub(crate) use arguments::schema_of;
#[cfg(all(unix, feature = "tools"))]
pub(crate) use arguments::{ArgumentRepair, parse_arguments_with_repairs};
pub use arguments::{BadArguments, parse_arguments};
pub use changes::ChangeLog;
pub(crate) use context::{Filters, SessionRef};
pub use context::{Held, May, OutputFilter, Progress, ToolContext, blocking};
pub(crate) use facts::arguments;
pub use facts::{CallFacts, Unusable};
#[cfg(all(unix, feature = "tools"))]
pub use files::{Files, KeepLimits};
#[cfg(all(unix, feature = "tools"))]
pub(crate) use mode::{Entered, Mode, Modes};
pub(crate) use outputs::{CallOutputs, NamedOutput, OutputStore, SpillPlace, is_told, named_outputs, told_folder};
pub use partial_json::{NotJson, PARTIAL_JSON_BYTES_MAX, Parsed, PartialJson};
pub(crate) use question::Asks;
pub use question::{QUESTION_DETAILS_BYTES_MAX, QUESTION_TITLE_BYTES_MAX, Question, QuestionAnswer};
pub use search::TOOL_SEARCH;
pub(crate) use threads::Threads;
pub use todo::{Todo, TodoPriority, TodoStatus};
pub use toolbox::Toolbox;
pub use typed::{
    IntoToolResult, Json, NoArguments, STREAM_BYTES_MAX, TextSink, TypedTool, typed, typed_blocking, typed_streaming,
};
#[cfg(unix)]
pub use workspace::{
    Dir, DirEntries, DirEntry, FileInfo, FileKind, Version, Workspace, WorkspaceError, WorkspacePath, WriteOptions,
    Written,
};

pub use crate::{
    words::message::{Changes, FileChange, FileImage, FileState, ToolResult},
    words::sandbox::{Network, SandboxTerms},
};

/// What may be done about a call whose outcome is unknown because the runtime died while the call ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Effect {
    /// The call changes nothing: it runs again.
    Read,
    /// A second run with the same [`ToolContext::key`] has no further effect: the call runs again with that key.
    Idempotent,
    /// The call never runs again. The model learns that the outcome is unknown and must be checked.
    #[default]
    Once,
}

/// How long a call may take if its tool names no limit.
pub const CALL_LIMIT: Duration = Duration::from_secs(600);

/// Something that a model can call.
///
/// [`typed`] makes a tool from a closure, which is enough for most. A type of one's own is for tools that hold values, have facts
/// that depend on their arguments, or read arguments in another way:
///
/// ```
/// use serde_json::{Value, json};
/// use tamtam::{
///     model::BoxFuture,
///     tool::{Access, BadArguments, Effect, Tool, ToolContext, ToolResult, parse_arguments},
/// };
///
/// /// Orders things from the warehouse at this address.
/// struct Order {
///     warehouse: String,
/// }
///
/// #[derive(serde::Deserialize)]
/// struct Arguments {
///     item: String,
///     count: u32,
/// }
///
/// impl Tool for Order {
///     fn name(&self) -> &str {
///         "order"
///     }
///
///     fn description(&self) -> &str {
///         "Orders things from the warehouse."
///     }
///
///     fn schema(&self) -> Value {
///         let properties = json!({ "item": { "type": "string" }, "count": { "type": "integer", "minimum": 1 } });
///         json!({ "type": "object", "properties": properties, "required": ["item", "count"] })
///     }
///
///     // The warehouse takes each key once, so after a crash the call may be made again.
///     fn effect(&self) -> Effect {
///         Effect::Idempotent
///     }
///
///     fn access(&self, arguments: &Value) -> Vec<Access> {
///         vec![Access::new("order", arguments["item"].as_str().unwrap_or("*"))]
///     }
///
///     fn check(&self, arguments: &Value) -> Result<(), String> {
///         parse_arguments::<Arguments>(arguments.clone()).map(drop).map_err(|error| error.to_string())
///     }
///
///     fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
///         Box::pin(async move {
///             let Arguments { item, count } = match parse_arguments(arguments) {
///                 Ok(arguments) => arguments,
///                 Err(error @ BadArguments { .. }) => return ToolResult::error(error.to_string()),
///             };
///             context.progress.title(format!("ordering {count} {item} from {}", self.warehouse));
///             tokio::select! {
///                 () = async { /* the request to the warehouse, with `context.key` */ } => {
///                     ToolResult::ok(format!("ordered {count} {item}")).with_details(json!({ "key": context.key }))
///                 }
///                 () = context.cancelled() => ToolResult::error("the order was not placed"),
///             }
///         })
///     }
/// }
/// # let _ = Order { warehouse: String::new() };
/// ```
pub trait Tool: Send + Sync + 'static {
    /// The name that the model calls it by: 1 to 64 of `a-z A-Z 0-9 _ -`.
    fn name(&self) -> &str;

    /// Other names that models use for the tool: accepted in calls, never offered.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// What the tool does and when to use it, for the model.
    fn description(&self) -> &str;

    /// JSON schema of its arguments: an object.
    fn schema(&self) -> Value;

    /// What may be done about a call that was cut off by a crash. [`Effect::Once`] by default.
    fn effect(&self) -> Effect {
        Effect::Once
    }

    /// Whether a call of the tool may run at the same time as other calls. A call that may not is a barrier: later calls wait.
    fn parallel(&self) -> bool {
        false
    }

    /// Whether [`run`](Tool::run) and the questions about a call answer at once: the tool waits for nothing and blocks on nothing.
    ///
    /// With `true`, the runtime saves a task and a thread for each call. A tool that still waits only costs a little more; one
    /// that blocks delays the limit and the stop of its own call. `false` by default.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Whether a model is told of the tool only once it was found, for tools of which a host has many: the descriptions of all of them
    /// would fill each request. A call of such a tool is judged and carried out as any other.
    ///
    /// A tool of the host's finds them: what a good result of a tool called [`TOOL_SEARCH`] has in its details as `found`, a list of at
    /// most 32 names, is offered from the next request of that session on, behind the other tools and in the order in which they were
    /// found, 256 at most. The rules, the agent and a message take tools out of these as of all others. The result is on the tape, so a
    /// replay and a new incarnation know what was found. `false` by default.
    fn deferred(&self) -> bool {
        false
    }

    /// How long one call may take. A call that takes longer is stopped and answered with an error.
    fn limit(&self, _arguments: &Value) -> Duration {
        CALL_LIMIT
    }

    /// How much of a result a model gets. The tool keeps its results within these limits in its own way. The runtime cuts a
    /// result that is still larger (with a little room for notices), keeps the whole in a file next to the tape, and says where;
    /// if the whole cannot be kept, the result says that.
    fn output(&self) -> truncate::CutLimits {
        truncate::CutLimits::default()
    }

    /// What a call with these arguments wants to do. A pure function: it looks at no disk.
    ///
    /// Every access must be allowed, by the rules or by a person, before the call runs. By default the one access is the tool's
    /// name and `*`. A panic here is an error of this call, and the call does not run.
    fn access(&self, _arguments: &Value) -> Vec<Access> {
        vec![Access::new(self.name(), "*")]
    }

    /// The permissions that decide whether the model sees the tool: the usual one first, then others by which the rules may let
    /// some calls through although they deny the first. The tool is not offered if the rules deny the first for every pattern and
    /// neither allow nor ask about any of the others. By default the tool's name; a tool without any is always offered.
    ///
    /// A tool whose [`Tool::access`] names another permission than its name must name that here: else the rules may hide the tool
    /// although its calls are allowed.
    fn permissions(&self) -> Vec<String> {
        vec![self.name().to_owned()]
    }

    /// The values of one argument that the rules judge one by one, as patterns of the tool's first permission, such as the name
    /// of a task's agent. A session's model sees only those that its rules do not deny. None by default.
    fn choices(&self) -> Vec<String> {
        Vec::new()
    }

    /// Description and schema for a session whose rules deny these of the [choices](Tool::choices).
    fn told_without(&self, _denied: &[&str]) -> (String, Value) {
        (self.description().to_owned(), self.schema())
    }

    /// Whether calls of the tool with these arguments are meant to be repeated, such as a question whether something is done. Such a
    /// call is never taken for a loop, and ends a run of equal calls. A pure function.
    fn pollable(&self, _arguments: &Value) -> bool {
        false
    }

    /// What the runtime compares to find out whether calls repeat each other: calls of the tool with equal keys do the same. By default
    /// the arguments, with the fields of each object in order. A pure function.
    fn loop_key(&self, arguments: &Value) -> String {
        facts::canonical(arguments)
    }

    /// Whether the tool can use these arguments, judged by the arguments alone. An error is the call's result, in words for the
    /// model: no permission is asked for, and the call does not run. A pure function. Accepts all by default; then the tool
    /// reports errors when it runs.
    ///
    /// # Errors
    /// What is wrong, and how it should be.
    fn check(&self, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    /// Whether a call with these arguments can succeed as things are now: it looks, and changes nothing. An error is the call's
    /// result, in words for the model: no permission is asked for, and the call does not run.
    ///
    /// The runtime asks this of a call that a person would be asked about, if the rules allow to read each path that the call wants,
    /// and if no call before it in the same answer may change the outcome. The tool must look at nothing else. The answer may be out of date when the call runs, so
    /// [`run`](Tool::run) must find the same fault. It may block; it is abandoned after some seconds. By default nothing is
    /// checked.
    ///
    /// # Errors
    /// What is wrong, and how it should be.
    fn foresee(&self, _arguments: &Value, _context: &ToolContext) -> Result<(), String> {
        Ok(())
    }

    /// The locks and contents of files that the tool shares with other tools that change files; a restore takes the same locks.
    /// `None` for a tool that changes no files, or none on this machine.
    #[cfg(all(unix, feature = "tools"))]
    fn files(&self) -> Option<&Files> {
        None
    }

    /// What the programs of the tool's calls are confined to; `None` if they are not, or where it starts none. A session that is
    /// created keeps it on its tape ([`Settings::sandbox`](crate::session::Settings::sandbox)).
    fn sandbox(&self) -> Option<SandboxTerms> {
        None
    }

    /// Carries out one call. A failure is a result too: see [`ToolResult::error`].
    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult>;
}

pointers!(Tool {
    fn name(&self) -> &str;
    fn aliases(&self) -> &[&str];
    fn description(&self) -> &str;
    fn schema(&self) -> Value;
    fn effect(&self) -> Effect;
    fn parallel(&self) -> bool;
    fn answers_at_once(&self) -> bool;
    fn deferred(&self) -> bool;
    fn limit(&self, arguments: &Value) -> Duration;
    fn output(&self) -> truncate::CutLimits;
    fn access(&self, arguments: &Value) -> Vec<Access>;
    fn permissions(&self) -> Vec<String>;
    fn choices(&self) -> Vec<String>;
    fn told_without(&self, denied: &[&str]) -> (String, Value);
    fn pollable(&self, arguments: &Value) -> bool;
    fn loop_key(&self, arguments: &Value) -> String;
    fn check(&self, arguments: &Value) -> Result<(), String>;
    fn foresee(&self, arguments: &Value, context: &ToolContext) -> Result<(), String>;
    #[cfg(all(unix, feature = "tools"))]
    fn files(&self) -> Option<&Files>;
    fn sandbox(&self) -> Option<SandboxTerms>;
    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult>;
});
