//! The built-in tools: read, write, edit, bash, grep, find and ls; and for hosts that want them, the tools of plan mode
//! ([`with_plan_mode`]) and of the to-do list ([`with_todos`]), and a way to carry out calls elsewhere ([`remote()`]).
//!
//! [`full`], [`minimal`] and [`readonly`] are ready-made sets of the seven. The file tools of one set share the locks that keep
//! two calls from writing one file at once, so sessions that work in one folder should be given clones of one set. A command of
//! bash takes no lock.
//!
//! Each file tool (the seven without bash) is a `FileWork` (`file_tool.rs`), so that contract, arguments and stopping are shared. A
//! file tool must open files through the workspace alone and write them through `LockedFile` (`locked.rs`) alone: a second way
//! could leave the folder, lose a write of another call, or leave no record for a restore. The doc comments of the arguments of a
//! file tool are part of the schema that a model gets: a change of them changes the tool.

mod arguments;
pub(crate) mod bash;
mod call;
mod charset;
mod edit;
mod file_tool;
mod find;
mod form;
mod grep;
mod listing;
mod locked;
mod ls;
pub(crate) mod names;
mod path;
mod pattern;
mod plan;
mod read;
mod remote;
mod seen;
mod text;
mod todo;
mod walk;
#[cfg(feature = "web-fetch")]
mod web_fetch;
mod write;

#[cfg(test)]
mod lab;

use std::{ffi::OsString, path::PathBuf, sync::Arc};

use crate::tool::{Files, KeepLimits, Tool, Toolbox};

pub use bash::{Bash, BashOptions, LookLimits, Sandbox, SandboxMode};
pub use plan::{PlanEnter, PlanExit};
pub use remote::{RemoteExecutor, remote};
pub use todo::{TodoRead, TodoWrite};
#[cfg(feature = "web-fetch")]
pub use web_fetch::WebFetch;

/// OS processes that belong to a call: started with its tag, with their output in bounded memory, and killed with it. For tools of
/// a host.
pub mod process {
    pub use crate::process::*;
}

pub(crate) use listing::{Listing, listing};

use call::Shared;
use file_tool::FileTool;

/// The names of the set [`full`].
const FULL: &[&str] = &["read", "write", "edit", "bash", "grep", "find", "ls"];
/// The names of the set [`minimal`].
const MINIMAL: &[&str] = &["read", "write", "edit", "bash"];
/// The names of the set [`readonly`].
const READONLY: &[&str] = &["read", "grep", "find", "ls"];

/// All seven: read, write, edit, bash, grep, find, ls. Its bash has nothing of the host's environment: see [`Setup::bash`].
#[must_use]
pub fn full() -> Toolbox {
    Setup::new().full()
}

/// The tools that are enough to work with: read, write, edit, bash. Its bash has nothing of the host's environment: see
/// [`Setup::bash`].
#[must_use]
pub fn minimal() -> Toolbox {
    Setup::new().minimal()
}

/// The tools that change nothing: read, grep, find, ls.
#[must_use]
pub fn readonly() -> Toolbox {
    Setup::new().readonly()
}

/// These tools and those of plan mode ([`PlanEnter`], [`PlanExit`]), for a host whose sessions may plan.
///
/// ```
/// let tools = tamtam::tools::with_plan_mode(&tamtam::tools::full());
/// assert!(tools.find("plan_exit").is_some());
/// ```
#[must_use]
pub fn with_plan_mode(tools: &Toolbox) -> Toolbox {
    tools.with(PlanEnter).with(PlanExit)
}

/// These tools and those of the to-do list ([`TodoWrite`], [`TodoRead`]). [`State::todos`](crate::session::State::todos) shows the
/// list to the host. Tasks get neither tool.
///
/// ```
/// let tools = tamtam::tools::with_todos(&tamtam::tools::full());
/// assert!(tools.find("todo_write").is_some());
/// ```
#[must_use]
pub fn with_todos(tools: &Toolbox) -> Toolbox {
    tools.with(TodoWrite).with(TodoRead)
}

/// These tools and the one that reads pages of the web ([`WebFetch`]): in no set by itself, because it reaches out of the workspace.
/// Its permission is `web_fetch`, judged by the host of the address.
#[cfg(feature = "web-fetch")]
#[must_use]
pub fn with_web_fetch(tools: &Toolbox, web_fetch: WebFetch) -> Toolbox {
    tools.with(web_fetch)
}

/// The difference between two contents of a file, as hunks without a header.
pub(crate) fn unified_diff(old: &[u8], new: &[u8]) -> String {
    edit::diff::unified(old, new).content
}

/// The host's options for the tools, and the locks and contents that several sets of tools share.
///
/// The file tools of the sets that are made from one setup (or from clones of it) never write one existing file at the same time.
/// A [`Setup::keep`] begins new locks, so call it before you clone a setup or make a set.
///
/// ```
/// use tamtam::tools::Setup;
/// let setup = Setup::new().home("/home/ada".into());
/// let (writer, reader) = (setup.full(), setup.named(["read", "ls"])?);
/// assert!(writer.find("edit_file").is_some() && reader.find("edit").is_none());
/// # Ok::<(), tamtam::tools::BadToolset>(())
/// ```
#[derive(Clone, Default)]
pub struct Setup {
    shared: Shared,
    bash: Option<BashOptions>,
}

impl Setup {
    /// A setup that knows nothing of the host.
    #[must_use]
    pub fn new() -> Setup {
        Setup::default()
    }

    /// The same setup, in which `~` means the folder `home`. Paths outside of the workspace are still refused.
    #[must_use]
    pub fn home(mut self, home: PathBuf) -> Setup {
        self.shared.home = Some(home);
        self
    }

    /// The same setup with these options for commands, the environment above all. They replace all earlier ones, including a
    /// [`Setup::sandbox`].
    #[must_use]
    pub fn bash(mut self, options: BashOptions) -> Setup {
        self.bash = Some(options);
        self
    }

    /// The same setup, whose commands are confined so. Call it after [`Setup::bash`], which replaces the sandbox too. See
    /// [`Sandbox`].
    #[must_use]
    pub fn sandbox(mut self, sandbox: Sandbox) -> Setup {
        self.bash.get_or_insert_with(|| BashOptions::new([])).sandbox = sandbox;
        self
    }

    /// The same setup with other limits for the contents of files that are kept. It shares no locks and contents with sets that
    /// were made before. See [`KeepLimits`].
    #[must_use]
    pub fn keep(mut self, limits: KeepLimits) -> Setup {
        self.shared.files = Files::new(limits);
        self
    }

    /// The same setup with this environment for commands; their other options stay as they are.
    /// Private variables (keys and what is shaped like one) are left out.
    #[must_use]
    pub fn environment(mut self, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Setup {
        let options = BashOptions::new(environment);
        match &mut self.bash {
            Some(given) => given.environment = options.environment,
            None => self.bash = Some(options),
        }
        self
    }

    /// See [`full`].
    #[must_use]
    pub fn full(&self) -> Toolbox {
        self.set(FULL)
    }

    /// See [`minimal`].
    #[must_use]
    pub fn minimal(&self) -> Toolbox {
        self.set(MINIMAL)
    }

    /// See [`readonly`].
    #[must_use]
    pub fn readonly(&self) -> Toolbox {
        self.set(READONLY)
    }

    /// The tools of these names, out of the seven of [`full`].
    pub fn named<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Toolbox, BadToolset> {
        let names: Vec<&str> = names.into_iter().collect();
        if names.is_empty() {
            return Err(BadToolset::Empty);
        }
        match names.iter().find(|name| !FULL.contains(name)) {
            Some(unknown) => Err(BadToolset::Unknown { name: (*unknown).to_owned() }),
            None => Ok(self.set(&names)),
        }
    }

    fn set(&self, names: &[&str]) -> Toolbox {
        let shared = || self.shared.clone();
        let bash = self.bash.clone().unwrap_or_else(|| BashOptions::new([]));
        let all: [Arc<dyn Tool>; 7] = [
            Arc::new(FileTool::<read::Read>::new(shared())),
            Arc::new(FileTool::<write::Write>::new(shared())),
            Arc::new(FileTool::<edit::Edit>::new(shared())),
            Arc::new(FileTool::<grep::Grep>::new(shared())),
            Arc::new(FileTool::<find::Find>::new(shared())),
            Arc::new(FileTool::<ls::Ls>::new(shared())),
            Arc::new(Bash::new(bash).sharing(self.shared.files.clone())),
        ];
        Toolbox::new(all.into_iter().filter(|tool| names.contains(&tool.name())))
    }
}

// The environment of the shell is not shown: it holds secrets.
impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("home", &self.shared.home).finish_non_exhaustive()
    }
}

/// The error for names that make no set of tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadToolset {
    /// A session without any tool is made without a toolbox.
    #[error("a set of tools cannot be empty")]
    Empty,
    /// No tool has that name.
    #[error("unknown tool {name:?}")]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
}

#[cfg(test)]
mod tests;
