//! The sandbox of commands: what a host asks for ([`Sandbox`]), what this system can hold of it ([`Guard`]), and what one call is
//! confined to ([`Room`]).
//!
//! The system's support is probed once, when the tool is made. An unasked call ([`ToolContext::held`]) runs confined to what the
//! rules allow, in every mode; if the system cannot enforce that, the rules let no such call run, unless the host takes the risk
//! ([`Sandbox::runs_unheld`]). For every other call the mode counts: if the system cannot enforce it, [`SandboxMode::Required`]
//! refuses the call, and [`SandboxMode::Preferred`] runs it as it is and says so in its details and in the supervision tree. A
//! change must never let a call run with less than its details say. The kernel's part is in `process/sandbox.rs`.
//!
//! A confined command has its own folder for temporary files, which is made before it and removed after it.

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
    process::{Confinement, SandboxLevel},
    tool::{ToolContext, ToolResult},
    tools::bash::held::Grants,
    words::sandbox::Network,
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

/// Files of the system that hold secrets, in `/etc`: an unasked command is granted the rest of that folder. This matters for
/// users who may read them, such as root.
const SECRETS: &[&str] = &[
    "NetworkManager",
    "docker",
    "gshadow",
    "gshadow-",
    "ipsec.d",
    "ipsec.secrets",
    "krb5.keytab",
    "kubernetes",
    "letsencrypt",
    "openvpn",
    "opasswd",
    "ppp",
    "rancher",
    "security/opasswd",
    "shadow",
    "shadow-",
    "ssh",
    "ssl/private",
    "sudoers",
    "sudoers.d",
    "wireguard",
];

/// Settings of git that run no program which a repository names. What git has no setting for (filters, drivers of differences) runs
/// as confined as git does.
const GIT_SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "false"),
    ("core.askPass", "true"),
    ("core.pager", "cat"),
    ("core.editor", "true"),
    ("credential.helper", ""),
    ("gpg.program", "false"),
    ("log.showSignature", "false"),
    ("protocol.ext.allow", "never"),
];

/// How long the end of a call waits for its temporary files to be removed.
const REMOVAL: Duration = Duration::from_secs(1);

/// Whether commands are confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxMode {
    /// Commands may do all that the user may.
    #[default]
    Off,
    /// Confined where the system can hold it; elsewhere commands run as they are, and each result says so.
    Preferred,
    /// Confined, or not run: if the system cannot hold it, every call is an error that says why.
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
/// The mode is for commands that a person allowed, or a rule about `bash`. An unasked command always runs confined, to less: it
/// writes nothing but its folder for temporary files and the files of its redirects that the rules let it write, starts no
/// program of the workspace, and has no network.
///
/// A confined command, with all that it starts, may write the workspace, its own folder for temporary files (`TMPDIR`), and
/// [`write`](Sandbox::write). It may also read [`read`](Sandbox::read), the session's kept outputs, and the paths outside of the
/// workspace that were allowed to its call; [`network`](Sandbox::network) says which sockets it can make; and it gets no rights
/// by `sudo` and its like. `docs/SECURITY.md`, "The sandbox", says what holds and what does not.
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
    /// Files and folders that they may read and execute. `~` means the home in the tool's environment. By default the folders of
    /// the system and of compilers; not the home folder, `/tmp`, `/var`, `/run`, and other users' files.
    pub read: Vec<PathBuf>,
    /// Files and folders next to the workspace that they may also write; `~` as above. By default `/dev/null` and its like.
    pub write: Vec<PathBuf>,
    /// Whether an unasked command runs unconfined if the system cannot confine it, instead of asking. False by default. With
    /// true, only the names in the rules restrict such a command.
    pub runs_unheld: bool,
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
        let write = DEVICES.iter().map(PathBuf::from).collect();
        Sandbox { mode, network: Network::Off, read, write, runs_unheld: false }
    }
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::off()
    }
}

/// A folder that may be read; `/etc` without its secrets, where this user can read one.
fn without_secrets(folder: PathBuf) -> Vec<PathBuf> {
    let readable = |name: &&&str| {
        let path = folder.join(name);
        std::fs::File::open(&path).is_ok()
    };
    if folder != Path::new("/etc") || SECRETS.iter().filter(readable).count() == 0 {
        return vec![folder];
    }
    let mut granted = Vec::new();
    around(&folder, "", &mut granted);
    granted
}

/// The entries of a folder in `/etc` that are not secret and have no secret beneath them.
fn around(folder: &Path, within: &str, granted: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{within}{name}");
        if SECRETS.contains(&name.as_str()) {
            continue;
        }
        match SECRETS.iter().any(|secret| secret.starts_with(&format!("{name}/"))) {
            true => around(&entry.path(), &format!("{name}/"), granted),
            false => granted.push(entry.path()),
        }
    }
}

/// The sandbox of one tool.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    mode: SandboxMode,
    /// What the system can hold.
    pub(super) level: SandboxLevel,
    runs_unheld: bool,
    /// What every call may reach. The workspace, the kept outputs and the allowed paths come with the call.
    shared: Confinement,
    /// The same for an unasked call.
    least: Confinement,
    /// The folder in which calls get their folders for temporary files.
    temporary: PathBuf,
}

impl Guard {
    /// Looks at what the system can hold.
    pub(super) fn new(sandbox: &Sandbox, home: Option<&Path>, shell: &Path, temporary: Option<OsString>) -> Guard {
        let level = SandboxLevel::probe();
        let real = |path: &PathBuf| match (path.strip_prefix("~"), home) {
            (Ok(rest), Some(home)) => Some(home.join(rest)),
            (Ok(_), None) => None,
            (Err(_), _) => Some(path.clone()),
        };
        let read: Vec<_> = sandbox.read.iter().filter_map(real).chain([shell.to_owned()]).collect();
        let write = sandbox.write.iter().filter_map(real).collect();
        let shared = Confinement { read: read.clone(), write, network: sandbox.network, ..Confinement::default() };
        let least = Confinement {
            read: read.into_iter().flat_map(without_secrets).collect(),
            write: DEVICES.iter().map(PathBuf::from).collect(),
            runs_nothing_written: true,
            network: Network::Off,
            ..Confinement::default()
        };
        let temporary = temporary.map(PathBuf::from).filter(|path| path.is_absolute());
        let temporary = temporary.unwrap_or_else(|| "/tmp".into());
        Guard { mode: sandbox.mode, level, runs_unheld: sandbox.runs_unheld, shared, least, temporary }
    }

    /// Whether an unasked command can run: confined, or unconfined if the host takes the risk.
    pub(super) fn runs_the_unasked(&self) -> bool {
        self.level.holds() || self.runs_unheld
    }

    /// Whether calls run confined.
    pub(super) fn confines(&self) -> bool {
        self.mode != SandboxMode::Off && self.level.holds()
    }

    /// The text for the model about commands; empty without a sandbox.
    pub(super) fn hint(&self) -> &'static str {
        match self.shared.network {
            _ if !self.confines() => "",
            Network::Off => {
                " Commands are confined: they write only to the workspace and to $TMPDIR, and have no network."
            }
            _ => " Commands are confined: they write only to the workspace and to $TMPDIR.",
        }
    }

    /// What one call is confined to; `None` if it runs as it is. Unless the sandbox is off, it is shown in the tree. Makes the
    /// folder for temporary files.
    pub(super) async fn enter(&self, context: &ToolContext, unasked: bool) -> Result<Option<Room>, Shut> {
        match self.mode {
            _ if unasked && !self.runs_the_unasked() => {
                let why = self.level.missing.as_deref().unwrap_or("not known");
                return Err(Shut::Unheld(format!("this system cannot confine it: {why}")));
            }
            SandboxMode::Off if !unasked => return Ok(None),
            SandboxMode::Required if !self.level.holds() => return Err(Shut::Never(self.refusal())),
            _ => context.progress.plain_title(format!("sandbox: {}", self.held(unasked))),
        }
        if !self.level.holds() {
            return Ok(None);
        }
        let held = context.held.clone().filter(|_| unasked);
        let mut confinement = if held.is_some() { self.least.clone() } else { self.shared.clone() };
        let outputs = context.spill.iter().map(|folder| folder.to_path_buf());
        let named = outputs.chain(context.external.iter().cloned());
        match &held {
            Some(_) => confinement.look.extend(named),
            None => {
                confinement.read.extend(named);
                confinement.write.push(context.workspace.to_path_buf());
            }
        }
        let (context, temporary) = (context.clone(), self.temporary.clone());
        let made = tokio::task::spawn_blocking(move || {
            let grants = held.map(|held| Grants::of(&held, &context)).transpose().map_err(Shut::Unheld)?;
            let made = Temporary::make(&temporary).map_err(|error| {
                let folder = temporary.display();
                let why = format!("the command was not run: its folder in {folder} could not be made: {error}");
                Shut::Never(ToolResult::error(why))
            })?;
            Ok((grants, made))
        });
        let lost = |lost| Err(Shut::Never(ToolResult::error(format!("the command was not run: {lost}"))));
        let (grants, temporary) = made.await.unwrap_or_else(lost)?;
        if let Some(grants) = &grants {
            grants.add_to(&mut confinement);
        }
        confinement.write.push(temporary.0.clone());
        Ok(Some(Room { confinement, temporary, grants }))
    }

    fn refusal(&self) -> ToolResult {
        let why = self.level.missing.as_deref().unwrap_or("not known");
        ToolResult::error(format!(
            "the command was not run: it must run in a sandbox, and this system has none: {why}. The host has to change that (a \
             kernel with Landlock, the feature `sandbox`), or set the sandbox to `preferred` or `off`. The other tools work."
        ))
        .with_details(json!({ "sandbox": self.details(false) }))
    }

    /// What is held of a call, in a few words.
    fn held(&self, unasked: bool) -> String {
        let network = if unasked { Network::Off } else { self.shared.network };
        match (self.level.holds(), network) {
            (false, _) => self.level.to_string(),
            (true, Network::Off) if self.level.holds_signals() => "files, network, signals".to_owned(),
            (true, Network::Off) => "files, network; not signals".to_owned(),
            (true, network) if self.level.holds_signals() => format!("files, signals; network {}", network.name()),
            (true, network) => format!("files; network {}, not signals", network.name()),
        }
    }

    /// What the details of a result say; null where the sandbox is off.
    pub(super) fn details(&self, unasked: bool) -> Value {
        if self.mode == SandboxMode::Off && !unasked {
            return Value::Null;
        }
        let network = if unasked { Network::Off } else { self.shared.network };
        json!({
            "mode": if unasked { "unasked" } else { self.mode.name() },
            "held": self.level.holds(),
            "files": self.level.holds(),
            "network": if self.level.holds() { network } else { Network::All }.name(),
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
    /// What an unasked call was granted.
    grants: Option<Grants>,
}

/// Why a call did not run.
pub(super) enum Shut {
    /// The result of the call.
    Never(ToolResult),
    /// Why the system cannot confine an unasked call as the rules want.
    Unheld(String),
}

impl Room {
    /// The variables of a call in it: the folder for temporary files, and for an unasked call the settings that keep git from
    /// running what a folder's settings name.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        let mut variables = vec![("TMPDIR".into(), self.temporary.0.clone().into())];
        if self.grants.is_some() {
            let count = GIT_SETTINGS.len().to_string();
            variables.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
            variables.push(("GIT_CONFIG_COUNT".into(), count.into()));
            for (at, (key, value)) in GIT_SETTINGS.iter().enumerate() {
                variables.push((format!("GIT_CONFIG_KEY_{at}").into(), (*key).into()));
                variables.push((format!("GIT_CONFIG_VALUE_{at}").into(), (*value).into()));
            }
        }
        variables
    }

    /// Removes the temporary files. To be called when no process of the call is left.
    pub(super) async fn leave(mut self) {
        let (folder, grants) = (self.temporary.take(), self.grants.take());
        let removed = tokio::task::spawn_blocking(move || {
            drop(grants);
            folder.map(remove)
        });
        // A disk that does not answer delays no call; the removal continues.
        drop(tokio::time::timeout(REMOVAL, removed).await);
    }
}

/// A folder that is removed with all that is in it when this is dropped, by its own thread.
struct Temporary(PathBuf);

impl Temporary {
    fn make(within: &Path) -> io::Result<Temporary> {
        // The name cannot be guessed and taken first; an existing folder of that name is an error.
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
