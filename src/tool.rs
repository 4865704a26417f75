//! A tool, as the runtime sees one.
//!
//! A tool is a value that any session may call at the same time. It says what it is (name, schema), what it may do (effect,
//! access) and does it ([`Tool::run`]). It never panics the session: a crash, a hang or a flood costs one error result.
//!
//! **Cancellation.** [`ToolContext::cancelled`] resolves when the call must stop; a tool that tidies up has two seconds, then
//! its future is dropped and every process of the call is killed. A tool that blocks its thread must run through [`blocking`].

mod arguments;
mod changes;
mod context;
mod facts;
#[cfg(all(unix, feature = "tools"))]
pub(crate) mod files;
pub(crate) mod partial_json;
mod result;
mod toolbox;
pub mod truncate;
#[cfg(unix)]
pub(crate) mod workspace;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use arguments::{BadArguments, Repair, parse_arguments, parse_arguments_with_repairs};
pub use changes::{ChangeLog, Changes, FileChange, FileImage, FileState};
pub use context::{May, Progress, ToolContext, blocking};
pub(crate) use facts::arguments;
pub use facts::{CallFacts, Unusable};
#[cfg(all(unix, feature = "tools"))]
pub use files::{Files, KeepLimits};
pub use partial_json::{NotJson, PARTIAL_JSON_BYTES_MAX, Parsed, PartialJson};
pub use result::ToolResult;
pub use toolbox::Toolbox;
#[cfg(unix)]
pub use workspace::{
    Dir, DirEntries, DirEntry, FileInfo, FileKind, Version, Workspace, WorkspaceError, WorkspacePath, WriteOptions,
    Written,
};

pub use crate::model::BoxFuture;

/// What may be done about a call whose outcome is not known because the runtime died while it ran (promise 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It changes nothing: it may run again.
    Read,
    /// Running it again with the same [`ToolContext::key`] has no further effect: it runs again with that key.
    Idempotent,
    /// It never runs again; the model is told that the outcome is unknown, and to check.
    #[default]
    Once,
}

/// How long a call may take where its tool names no limit of its own.
pub const CALL_LIMIT: Duration = Duration::from_secs(600);

/// What one call wants to do, for the permission rules to judge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The permission that is needed: `read`, `edit`, `bash`, `external_directory`, or the tool's name.
    pub permission: String,
    /// What it is needed for: a path relative to the workspace, a command, or `*`.
    pub pattern: String,
}

impl Access {
    /// An access.
    #[must_use]
    pub fn new(permission: impl Into<String>, pattern: impl Into<String>) -> Access {
        Access { permission: permission.into(), pattern: pattern.into() }
    }
}

/// Something that a model can call.
pub trait Tool: Send + Sync + 'static {
    /// The name that the model calls it by: 1 to 64 of `a-z A-Z 0-9 _ -`.
    fn name(&self) -> &str;

    /// Other names that models use for it; accepted on input, never offered.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// What it does and when to use it, for the model.
    fn description(&self) -> &str;

    /// JSON schema of its arguments: an object.
    fn schema(&self) -> Value;

    /// What may be done about a call that was cut off by a crash. [`Effect::Once`] where nothing is said.
    fn effect(&self) -> Effect {
        Effect::Once
    }

    /// Whether calls of it may run at the same time as others. A tool that may not is a barrier: calls after it wait.
    fn parallel(&self) -> bool {
        false
    }

    /// How long one call may take. After that it is stopped and answered with an error.
    fn limit(&self, _arguments: &Value) -> Duration {
        CALL_LIMIT
    }

    /// How much of a result a model is given. The tool keeps within it in its own way; what is more all the same is cut by the
    /// runtime, which keeps the whole in a file beside the tape and says where.
    fn output(&self) -> truncate::Limits {
        truncate::Limits::default()
    }

    /// What this call wants to do. A pure function of its arguments: it looks at no disk.
    ///
    /// Every access must be allowed before the call runs. Without an override: the tool's name and `*`. A panic here is this
    /// call's error, and the call does not run.
    fn access(&self, _arguments: &Value) -> Vec<Access> {
        vec![Access::new(self.name(), "*")]
    }

    /// What it shares with others that change files; whoever puts files back waits for it. `None` for a tool that changes
    /// none, or none here.
    #[cfg(all(unix, feature = "tools"))]
    fn files(&self) -> Option<&Files> {
        None
    }

    /// Carries out one call. What goes wrong is a result too: see [`ToolResult::error`].
    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult>;
}
