//! The sandbox of commands: what a host asks for ([`Sandbox`]), what this system can hold of it ([`Guard`]), and what one call is
//! confined to ([`Room`]).
//!
//! Unless the sandbox is off, what the system can hold is probed once, when the tool is made. Where it holds, a call runs confined.
//! Where it does not, [`SandboxMode::Required`] refuses the call, and [`SandboxMode::Preferred`] runs it as it is and says so in
//! its details and in the supervision tree. A change must never let a call run with less than its details say. The kernel's part
//! is in `process/sandbox.rs`.
//!
//! A confined command has a folder for temporary files of its own, which is made before it and removed after it.

use std::{
    ffi::OsString,
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    process::{Confinement, Network, SandboxLevel},
    tool::{ToolContext, ToolResult},
};

/// What commands of every day read of the system: programs, their configuration, and what the kernel tells.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/home/linuxbrew/.linuxbrew",
    "/var/lib/ca-certificates",
    "/run/systemd/resolve",
    "/proc",
    "/sys",
];

/// What compilers and package managers keep in the home folder and read from there. No folder that holds a key by custom: of
/// `~/.cargo` not `credentials.toml`, of `~/.config/git` not `credentials`, and not `~/.npmrc`.
const TOOLCHAINS: &[&str] = &[
    "~/.local/bin",
    "~/.local/lib",
    "~/.local/share/fnm",
    "~/.local/share/mise",
    "~/.local/share/pnpm",
    "~/.local/share/uv",
    "~/.cargo/bin",
    "~/.cargo/config.toml",
    "~/.cargo/git",
    "~/.cargo/registry",
    "~/.rustup",
    "~/.asdf",
    "~/.bun/bin",
    "~/.deno/bin",
    "~/.nvm",
    "~/.pyenv",
    "~/.rbenv",
    "~/.sdkman/candidates",
    "~/.volta",
    "~/go",
    "~/.m2/repository",
    "~/.gitconfig",
    "~/.config/git/attributes",
    "~/.config/git/config",
    "~/.config/git/ignore",
];

/// Devices that every program may write to. Not among them: terminals, disks, and `/dev/shm`, which all programs share.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// How long the end of a call waits for its temporary files to be removed.
const REMOVAL: Duration = Duration::from_secs(1);

/// Whether commands are confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxMode {
    /// Commands may do whatever the user may.
    #[default]
    Off,
    /// Confined where the system can hold it; elsewhere commands run as they are, and each result says so.
    Preferred,
    /// Confined, or not run: where the system cannot hold it, every call is an error that says why.
    Required,
}

impl SandboxMode {
    /// Its name in results and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SandboxMode::Off => "off",
            SandboxMode::Preferred => "preferred",
            SandboxMode::Required => "required",
        }
    }
}

/// What commands of `bash` may reach, held by the kernel (Linux, feature `sandbox`). Off by default.
///
/// A confined command, with all that it starts, may write the workspace, a folder for temporary files of its own (`TMPDIR`), and
/// [`write`](Sandbox::write). It may also read [`read`](Sandbox::read), the session's kept outputs, and the paths outside of the
/// workspace that were allowed to its call; [`network`](Sandbox::network) says which sockets it can make; and it gets no rights by
/// `sudo` and its like. `docs/SECURITY.md`, "The sandbox", says what holds and what does not.
///
/// ```
/// use tamtam::tools::{BashOptions, Sandbox, Setup, process::SandboxLevel};
/// let mut sandbox = Sandbox::required();
/// sandbox.read.push("/srv/datasets".into());
/// let tools = Setup::new().bash(BashOptions::new(std::env::vars_os())).sandbox(sandbox).full();
/// println!("held here: {}", SandboxLevel::probe());
/// # assert!(tools.find("bash").is_some());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sandbox {
    /// Whether commands are confined.
    pub mode: SandboxMode,
    /// Which sockets they may make; none by default.
    pub network: Network,
    /// Files and folders that they may read and execute. `~` stands for the home of the environment that the tool was given. By
    /// default the folders of the system and of compilers; not the home folder, `/tmp`, `/var`, `/run`, and other users' files.
    pub read: Vec<PathBuf>,
    /// Files and folders beside the workspace that they may also write; `~` as above. By default `/dev/null` and its like.
    pub write: Vec<PathBuf>,
}

impl Sandbox {
    /// No sandbox.
    #[must_use]
    pub fn off() -> Sandbox {
        Sandbox::new(SandboxMode::Off)
    }

    /// A sandbox where the system can hold one.
    #[must_use]
    pub fn preferred() -> Sandbox {
        Sandbox::new(SandboxMode::Preferred)
    }

    /// A sandbox, or no command.
    #[must_use]
    pub fn required() -> Sandbox {
        Sandbox::new(SandboxMode::Required)
    }

    /// The usual paths, and no network.
    #[must_use]
    pub fn new(mode: SandboxMode) -> Sandbox {
        let read = SYSTEM.iter().chain(TOOLCHAINS).map(PathBuf::from).collect();
        Sandbox { mode, network: Network::Off, read, write: DEVICES.iter().map(PathBuf::from).collect() }
    }
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::off()
    }
}

/// The sandbox of one tool.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    mode: SandboxMode,
    /// What the system can hold; not looked at where the mode is off.
    pub(super) level: SandboxLevel,
    /// What every call may reach. The workspace, the kept outputs and the allowed paths come with the call.
    shared: Confinement,
    /// The folder in which calls get their folders for temporary files.
    temporary: PathBuf,
}

impl Guard {
    /// Looks at what the system can hold, unless the mode is off.
    pub(super) fn new(sandbox: &Sandbox, home: Option<&Path>, shell: &Path, temporary: Option<OsString>) -> Guard {
        let level = match sandbox.mode {
            SandboxMode::Off => SandboxLevel::none("the sandbox is off"),
            SandboxMode::Preferred | SandboxMode::Required => SandboxLevel::probe(),
        };
        let real = |path: &PathBuf| match (path.strip_prefix("~"), home) {
            (Ok(rest), Some(home)) => Some(home.join(rest)),
            (Ok(_), None) => None,
            (Err(_), _) => Some(path.clone()),
        };
        let read = sandbox.read.iter().filter_map(real).chain([shell.to_owned()]).collect();
        let write = sandbox.write.iter().filter_map(real).collect();
        let shared = Confinement { read, write, network: sandbox.network };
        let temporary = temporary.map(PathBuf::from).filter(|path| path.is_absolute());
        Guard { mode: sandbox.mode, level, shared, temporary: temporary.unwrap_or_else(|| "/tmp".into()) }
    }

    /// Whether calls run confined.
    pub(super) fn confines(&self) -> bool {
        self.mode != SandboxMode::Off && self.level.holds()
    }

    /// What the model is told about commands; nothing where they are as ever.
    pub(super) fn hint(&self) -> &'static str {
        match self.shared.network {
            _ if !self.confines() => "",
            Network::Off => {
                " Commands are confined: they write only to the workspace and to $TMPDIR, and have no network."
            }
            _ => " Commands are confined: they write only to the workspace and to $TMPDIR.",
        }
    }

    /// What one call is confined to; `None` where it runs as it is; the error is the result of a call that may not run. Unless the
    /// sandbox is off, it is shown in the tree. Makes the folder for temporary files.
    pub(super) async fn enter(&self, context: &ToolContext) -> Result<Option<Room>, ToolResult> {
        match self.mode {
            SandboxMode::Off => return Ok(None),
            SandboxMode::Required if !self.level.holds() => return Err(self.refusal()),
            _ => context.progress.plain_title(format!("sandbox: {}", self.held())),
        }
        if !self.level.holds() {
            return Ok(None);
        }
        let mut confinement = self.shared.clone();
        confinement.read.extend(context.spill.iter().map(|folder| folder.to_path_buf()));
        confinement.read.extend(context.external.iter().cloned());
        confinement.write.push(context.workspace.to_path_buf());
        let temporary = self.temporary.clone();
        let made = tokio::task::spawn_blocking(move || Temporary::make(&temporary)).await;
        let temporary = made.unwrap_or_else(|lost| Err(io::Error::other(lost)));
        let temporary = temporary.map_err(|error| {
            let folder = self.temporary.display();
            ToolResult::error(format!("the command was not run: its folder in {folder} could not be made: {error}"))
        })?;
        confinement.write.push(temporary.0.clone());
        Ok(Some(Room { confinement, temporary }))
    }

    fn refusal(&self) -> ToolResult {
        let why = self.level.missing.as_deref().unwrap_or("not known");
        ToolResult::error(format!(
            "the command was not run: it must run in a sandbox, and this system has none: {why}. The host has to change that (a \
             kernel with Landlock, the feature `sandbox`), or set the sandbox to `preferred` or `off`. The other tools work."
        ))
        .with_details(json!({ "sandbox": self.details() }))
    }

    /// What is held of a call, in a few words.
    fn held(&self) -> String {
        match (self.level.holds(), self.shared.network) {
            (false, _) => self.level.to_string(),
            (true, Network::Off) if self.level.holds_signals() => "files, network, signals".to_owned(),
            (true, Network::Off) => "files, network; not signals".to_owned(),
            (true, network) if self.level.holds_signals() => format!("files, signals; network {}", network.name()),
            (true, network) => format!("files; network {}, not signals", network.name()),
        }
    }

    /// What the details of a result say; null where the sandbox is off.
    pub(super) fn details(&self) -> Value {
        if self.mode == SandboxMode::Off {
            return Value::Null;
        }
        json!({
            "mode": self.mode.name(),
            "held": self.level.holds(),
            "files": self.level.holds(),
            "network": if self.level.holds() { self.shared.network } else { Network::All }.name(),
            "signals": self.level.holds_signals(),
            "landlock": self.level.landlock,
            "why_not": self.level.missing,
        })
    }
}

/// What one call is confined to.
pub(super) struct Room {
    pub(super) confinement: Confinement,
    temporary: Temporary,
}

impl Room {
    /// The variable that names the folder for temporary files.
    pub(super) fn variable(&self) -> (OsString, OsString) {
        ("TMPDIR".into(), self.temporary.0.clone().into())
    }

    /// Removes the temporary files. To be called when no process of the call is left.
    pub(super) async fn leave(mut self) {
        let folder = self.temporary.take();
        let removed = tokio::task::spawn_blocking(move || folder.map(remove));
        // A disk that does not answer holds up no call; the removal goes on.
        drop(tokio::time::timeout(REMOVAL, removed).await);
    }
}

/// A folder that is removed with all that is in it when this is dropped, by a thread of its own.
struct Temporary(PathBuf);

impl Temporary {
    fn make(within: &Path) -> io::Result<Temporary> {
        // Nobody can guess the name and take it first; a folder of that name is an error.
        let folder = within.join(format!("tamtam-{}", crate::words::ids::new_uuid().simple()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Temporary(folder))
    }

    /// The folder, which is then no longer removed by the drop.
    fn take(&mut self) -> Option<PathBuf> {
        let folder = std::mem::take(&mut self.0);
        (!folder.as_os_str().is_empty()).then_some(folder)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let Some(folder) = self.take() else { return };
        let thread = std::thread::Builder::new().name("tamtam sandbox".to_owned());
        if let Err(error) = thread.spawn(move || remove(folder)) {
            tracing::warn!(%error, "no thread could be started to remove the temporary files of a command");
        }
    }
}

/// Removes a folder and all that is in it. Follows no link.
fn remove(folder: PathBuf) {
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        tracing::warn!(folder = %folder.display(), %error, "the temporary files of a command could not be removed");
    }
}
