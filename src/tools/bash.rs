//! The `bash` tool: runs one command in a new shell.
//!
//! The command runs in the workspace, or a folder in it, with nothing on its standard input. The model gets the end of the output
//! and a line on how the command ended. By default both streams are one, in the order of the writes. The details have the ending,
//! the sizes and the files as fields, for people and programs. An output beyond [`CutLimits`] also goes to a spill file (a file
//! with the whole output), and the text says where it is, or why there is none.
//!
//! A non-zero exit, a signal and a timeout are results, not errors: the model can act on them. Errors are bad arguments, a
//! command that could not be started, and an abort.
//!
//! **Ending.** The call ends when the command ends. Processes that the command left running may write for another [`DRAIN`]; then
//! the whole tree is killed. After a timeout or an abort the group is first asked to end (SIGTERM) and has [`BashOptions::grace`]
//! to do so. Dropping the future kills the tree on the spot.
//!
//! A change must not make a timeout or an abort wait for a disk without a bound: each wait for the spill file has the grace or
//! 1 s, the second look at the workspace its own limit and 1 s, and the removal of the sandbox's temporary files 1 s. It must not
//! pass on a private variable of the host that the host did not allow by name. Unless [`BashOptions::sandbox`] confines it, a
//! command reaches all that the host's user may reach.

mod arguments;
mod capture;
mod held;
mod kept;
mod look;
mod options;
mod refused;
mod report;
mod sandbox;
mod screen;

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    fmt,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    model::BoxFuture,
    process::{Folder, Process, ProcessEvent, ProcessInput, Spec, Tag, scrub},
    tool::{
        Access, Changes, Files, Question, QuestionAnswer, Tool, ToolContext, ToolResult,
        truncate::CutLimits,
        workspace::{Workspace, WorkspaceError},
    },
    words::{message::ErrorReason, sandbox::SandboxTerms},
};

use arguments::Arguments;
use capture::Capture;
use refused::Refused;
use report::{Ending, Run};
use sandbox::{Guard, Shut};

pub use look::LookLimits;
pub use options::BashOptions;
pub use sandbox::{Sandbox, SandboxMode};

/// How long a command may take by default, in seconds.
pub(crate) const TIMEOUT_SECONDS: u64 = 120;
/// The longest time that a command may be given, in seconds.
pub(crate) const TIMEOUT_SECONDS_MAX: u64 = 3_600;
/// How long the processes that a command left running may keep writing.
pub(crate) const DRAIN: Duration = Duration::from_millis(250);
/// How long the end of a call reads output that was written before all writers were dead.
const REST: Duration = Duration::from_secs(1);
/// The longest command, in bytes: as much as Linux takes as one argument.
pub(crate) const COMMAND_BYTES_MAX: usize = 128 * 1024 - 1;

/// How often a running command shows the end of its output.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Variables that keep programs from asking a person who is not there.
const QUIET: &[(&str, &str)] =
    &[("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", "true"), ("GIT_PAGER", "cat"), ("PAGER", "cat")];

/// Variables that a command has where the host handed in no others: enough to run programs, and to have text in UTF-8. No home is
/// made up.
const USUAL: &[(&str, &str)] =
    &[("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("LANG", "C.UTF-8")];

/// The script that runs before the command: the shell takes on the tag and the limits that were asked for, then becomes the shell
/// of the command, which sees nothing of this script.
const PRELUDE: &str = r#"
[ -n "$1" ] && ulimit -S -f "$1" 2>/dev/null
[ -n "$2" ] && { ulimit -u "$2" || exit 126; }
[ -n "$3" ] && { ulimit -v "$3" || exit 126; }
exec "$0" -c -- "$4" bash
"#;

/// The description of the tool for the model.
const DESCRIPTION: &str = "Runs a command with bash in the workspace and gives back what it wrote (stdout and stderr together) and \
    how it ended. Nothing can be typed into it. Long output keeps its end; the text then names a file with all of it. Background \
    processes are killed when the command ends.";

/// The `bash` tool.
#[derive(Clone)]
pub struct Bash {
    options: BashOptions,
    /// The contents of files that the tools of the toolbox share.
    files: Files,
    /// The whole environment of a command, but for its tag and the `TMPDIR` of the sandbox.
    environment: Vec<(OsString, OsString)>,
    shell: PathBuf,
    /// The folder that `~` in `cwd` means.
    home: Option<PathBuf>,
    sandbox: Guard,
    description: String,
}

impl Bash {
    /// A tool with these options. The environment, and the system's support for a sandbox, are read once, here.
    #[must_use]
    pub fn new(options: BashOptions) -> Bash {
        let given = options.environment.iter().cloned();
        let mut environment = match &options.allow {
            None => scrub(given),
            Some(allow) => given.filter(|(name, _)| allow.iter().any(|allowed| name == allowed.as_str())).collect(),
        };
        let value = |name: &str| options.environment.iter().find(|(is, _)| is == name).map(|(_, value)| value.clone());
        // A call inside a call keeps the outer tag, so that the outer call finds the processes of the inner one too.
        let outer = value(crate::process::CALL_VARIABLE).map(|tag| (crate::process::CALL_VARIABLE.into(), tag));
        environment.extend(outer);
        for (name, usual) in USUAL {
            if !environment.iter().any(|(is, _)| is == name) {
                environment.push((name.into(), usual.into()));
            }
        }
        environment.extend(QUIET.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
        let home = value("HOME").map(PathBuf::from);
        let shell = options.shell.clone().unwrap_or_else(|| find_shell(value("PATH").as_deref()));
        let sandbox = Guard::new(&options.sandbox, home.as_deref(), &shell, value("TMPDIR"));
        let description = format!("{DESCRIPTION}{}", sandbox.hint());
        Bash { options, files: Files::default(), environment, shell, home, sandbox, description }
    }

    /// The same tool, which shares the contents of files with the tools that write them.
    #[must_use]
    pub fn sharing(mut self, files: Files) -> Bash {
        self.files = files;
        self
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> ToolResult {
        if context.is_cancelled() {
            return not_started();
        }
        // From here on the call reports its changes: none so far.
        context.changes.begin();
        let arguments = match Arguments::of(&arguments) {
            Ok(arguments) => arguments,
            Err(error) => return error,
        };
        // A disk that does not answer must not delay a call's stop.
        let folder = tokio::select! {
            biased;
            folder = self.folder(&arguments, context) => folder,
            () = context.cancelled() => return not_started(),
        };
        let folder = match folder {
            Ok(folder) => folder,
            Err(error) => return ToolResult::error(format!("cannot run in that folder: {error}")),
        };
        // `setsid` starts the shell, and would report a missing one in its own words.
        if !self.shell.is_file() {
            return ToolResult::error(format!(
                "{}: No such file or directory (ENOENT): there is no such shell",
                self.shell.display()
            ));
        }
        if let Some(refused) = kept::refusal(&self.options.sandbox, context) {
            return refused;
        }
        let Some(held) = context.held.clone() else { return self.as_asked(folder, None, &arguments, context).await };
        // A command that can change no file is not looked after.
        let before = match held.writes.is_empty() {
            true => None,
            false => Some(look::before(self.options.look, &self.files, context).await),
        };
        let ran = match self.sandbox.enter(context, true).await {
            Ok(room) => Ok(self.run_in(folder, room, &arguments, context, true).await),
            Err(Shut::Never(result)) => return result,
            Err(Shut::Unheld(why)) => Err(why),
        };
        let (mut result, refused) = match ran {
            Ok(result) => {
                let refused = refused::of(&result);
                (result, refused)
            }
            Err(why) => (ToolResult::error(String::new()), Some(Refused::unheld(why))),
        };
        let answer = match refused.as_ref().filter(|refused| refused.asks()) {
            Some(refused) => {
                let access = [Access::command(&arguments.command, &arguments.cwd, false)];
                let question = Question::about(refused.title(), access).with_details(refused.details());
                Some(context.ask(question).await)
            }
            None => None,
        };
        if answer.as_ref().is_some_and(QuestionAnswer::is_granted) {
            return match self.folder(&arguments, context).await {
                Ok(folder) => self.as_asked(folder, before, &arguments, context).await,
                Err(error) => ToolResult::error(format!("cannot run in that folder: {error}")),
            };
        }
        if let Some(before) = before {
            look::after(before, &self.files, context).await;
        }
        if let Some(refused) = refused {
            let answer = answer.map_or_else(|| "It went on without that.".to_owned(), |answer| answer.to_string());
            result.content.push_str(&refused.note(&answer));
        }
        result
    }

    /// Runs a command that a person or a rule allowed. `before` is the look at the workspace before a first run of it, if there was one.
    async fn as_asked(
        &self,
        folder: Folder,
        before: Option<Result<look::Look, String>>,
        arguments: &Arguments,
        context: &ToolContext,
    ) -> ToolResult {
        let before = match before {
            Some(before) => before,
            None => look::before(self.options.look, &self.files, context).await,
        };
        let result = match self.sandbox.enter(context, false).await {
            Ok(room) => self.run_in(folder, room, arguments, context, false).await,
            Err(Shut::Never(result)) => result,
            Err(Shut::Unheld(why)) => ToolResult::error(format!("the command was not run: {why}")),
        };
        look::after(before, &self.files, context).await;
        result
    }

    /// Runs the command in a folder, confined to `room` (what the sandbox lets this call reach) if there is one.
    async fn run_in(
        &self,
        folder: Folder,
        room: Option<sandbox::Room>,
        arguments: &Arguments,
        context: &ToolContext,
        unasked: bool,
    ) -> ToolResult {
        let tag = context.processes.tag();
        // The last one of a name counts.
        let own = room.iter().flat_map(sandbox::Room::variables);
        let environment = self.environment.iter().cloned().chain(own).collect();
        let spec = Spec {
            program: self.prelude_shell().to_owned(),
            arguments: self.shell_arguments(&arguments.command, &tag),
            environment,
            folder,
            tag,
            streams: self.options.streams,
            input: ProcessInput::Empty,
            confinement: room.as_ref().map(|room| room.confinement.clone()),
        };
        let started = Instant::now();
        let process = tokio::select! {
            biased;
            process = context.processes.start(spec) => process,
            () = context.cancelled() => {
                context.changes.put(Changes::default());
                return not_started();
            }
        };
        let result = match process {
            Ok(process) => self.watch(process, arguments, started, context, unasked).await,
            Err(error) => ToolResult::error(format!("failed to start {}: {error}", self.shell.display())),
        };
        if let Some(room) = room {
            room.leave().await;
        }
        result
    }

    /// The folder that the command starts in, opened beneath the workspace.
    async fn folder(&self, arguments: &Arguments, context: &ToolContext) -> Result<Folder, WorkspaceError> {
        let (cwd, context, home) = (arguments.cwd.clone(), context.clone(), self.home.clone());
        let open = move || open_folder(&cwd, home, &context);
        let lost = |lost| WorkspaceError::Io { path: ".".to_owned(), source: std::io::Error::other(lost) };
        tokio::task::spawn_blocking(open).await.map_err(lost).flatten()
    }

    /// The shell of the prelude. It is the system's small one, which starts in half the time of a bash, unless the prelude sets
    /// limits that only a bash knows by these letters.
    fn prelude_shell(&self) -> &Path {
        let small = Path::new("/bin/sh");
        let has_limits = self.options.processes_max.is_some() || self.options.memory_bytes_max.is_some();
        if has_limits || !small.is_file() { &self.shell } else { small }
    }

    fn shell_arguments(&self, command: &str, tag: &Tag) -> Vec<OsString> {
        let limit = |limit: Option<u64>| limit.map(|limit| limit.to_string()).unwrap_or_default();
        let command = match &self.options.prefix {
            Some(prefix) => format!("{prefix}\n{command}"),
            None => command.to_owned(),
        };
        let words = [
            "-c".to_owned(),
            PRELUDE.to_owned(),
            self.shell.display().to_string(),
            limit(tag.file_size_limit()),
            limit(self.options.processes_max),
            limit(self.options.memory_bytes_max.map(|bytes| bytes / 1024)),
            command,
        ];
        words.into_iter().map(OsString::from).collect()
    }

    async fn watch(
        &self,
        mut process: Process,
        arguments: &Arguments,
        started: Instant,
        context: &ToolContext,
        unasked: bool,
    ) -> ToolResult {
        let mut capture = Capture::new(&self.options, context);
        let seconds = arguments.timeout();
        let stop = async {
            match tokio::time::timeout(Duration::from_secs(seconds), context.cancelled()).await {
                Ok(()) => Ending::Aborted,
                Err(_) => Ending::TimedOut { seconds },
            }
        };
        tokio::pin!(stop);
        let mut progress = tokio::time::interval(PROGRESS_EVERY);
        progress.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let ending = loop {
            tokio::select! {
                biased;
                ending = &mut stop => break ending,
                _ = progress.tick() => capture.show(&context.progress),
                event = process.next() => match event {
                    // Keeping the output may wait for a disk; a timeout and an abort do not wait for that.
                    ProcessEvent::Output(stream, bytes) => tokio::select! {
                        biased;
                        () = capture.take(stream, &bytes) => {}
                        ending = &mut stop => break ending,
                    },
                    ProcessEvent::Ended(status) => break Ending::of(status),
                    // Comes only after the end.
                    ProcessEvent::Closed => {}
                },
            }
        };
        if process.status().is_none() {
            process.ask_to_end().await;
            capture.drain(&mut process, self.options.grace).await;
        } else {
            capture.drain(&mut process, DRAIN).await;
        }
        let swept = process.end().await;
        // All writers are dead, so this ends at once. It also takes the exit status of the shell.
        capture.drain(&mut process, REST).await;
        let captured = capture.finish().await;
        let streams = self.options.streams;
        let sandbox = self.sandbox.details(unasked);
        let run = Run { arguments, ending, swept: &swept, took: started.elapsed(), streams, sandbox };
        report::result(&run, &captured)
    }
}

impl Tool for Bash {
    fn name(&self) -> &str {
        "bash"
    }

    fn aliases(&self) -> &[&str] {
        &["shell", "run_command"]
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": { "type": "string", "description": "The command; several lines are fine" },
                "timeout": {
                    "type": "integer", "minimum": 1, "maximum": TIMEOUT_SECONDS_MAX, "default": TIMEOUT_SECONDS,
                    "description": "Seconds after which the command is stopped"
                },
                "cwd": { "type": "string", "description": "The folder to run in, inside the workspace (default: the workspace)" }
            },
            "required": ["command"]
        })
    }

    fn limit(&self, arguments: &Value) -> Duration {
        // The command's own time, then what ending its tree may take.
        let seconds = Arguments::of(arguments).map_or(TIMEOUT_SECONDS, |arguments| arguments.timeout());
        let runs = if self.sandbox.runs_the_unasked() { 2 } else { 1 };
        Duration::from_secs((seconds + 10) * runs)
    }

    fn output(&self) -> CutLimits {
        self.options.limits
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        match Arguments::of(arguments) {
            Ok(Arguments { command, cwd, .. }) => {
                vec![Access::command(command, cwd, self.sandbox.runs_the_unasked())]
            }
            Err(_) => vec![Access::new("bash", "*")],
        }
    }

    fn permissions(&self) -> Vec<String> {
        // Commands that run confined, and such as cannot be read, may be allowed where all others are denied.
        let confined = self.sandbox.runs_the_unasked().then_some("confined_bash");
        ["bash", "unclear_bash"].into_iter().chain(confined).map(str::to_owned).collect()
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        Arguments::of(arguments).map(drop).map_err(|error| error.content)
    }

    fn foresee(&self, arguments: &Value, context: &ToolContext) -> Result<(), String> {
        let Ok(arguments) = Arguments::of(arguments) else { return Ok(()) };
        if arguments.cwd.is_empty() {
            return Ok(());
        }
        let opened = open_folder(&arguments.cwd, self.home.clone(), context);
        opened.map(drop).map_err(|error| format!("cannot run in that folder: {error}"))
    }

    fn files(&self) -> Option<&Files> {
        Some(&self.files)
    }

    fn sandbox(&self) -> Option<SandboxTerms> {
        self.options.sandbox.terms()
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.call(arguments, context))
    }
}

impl fmt::Debug for Bash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bash").field("options", &self.options).field("shell", &self.shell).finish_non_exhaustive()
    }
}

/// Opens a folder beneath the workspace; empty for the workspace itself. Waits for the disk.
fn open_folder(cwd: &str, home: Option<PathBuf>, context: &ToolContext) -> Result<Folder, WorkspaceError> {
    let mut workspace = Workspace::open(&context.workspace)?;
    if let Some(home) = home {
        workspace = workspace.with_home(home);
    }
    let path = workspace.resolve_existing(if cwd.is_empty() { "." } else { cwd })?;
    let folder = workspace.open_dir(&path)?;
    let clone = folder.as_fd().try_clone_to_owned();
    let handle = clone.map_err(|source| WorkspaceError::Io { path: path.to_string(), source })?;
    Ok(Folder { handle, path: workspace.absolute(&path) })
}

fn not_started() -> ToolResult {
    ToolResult::failed(ErrorReason::Aborted, "Operation aborted: the command was not started")
}

/// `bash` in the folders of a `PATH`, else where it usually is.
fn find_shell(path: Option<&std::ffi::OsStr>) -> PathBuf {
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    let found =
        folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join("bash")).find(|file| file.is_file());
    found.unwrap_or_else(|| Path::new("/bin/bash").to_owned())
}
