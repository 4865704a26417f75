//! Hooks that are programs: which files name them ([`Configured`]), how a runtime gets them ([`Configured::onto`]), and `tamtam
//! hooks`, which lists them.
//!
//! The form is that of Claude Code's settings, and files for it are read as they are:
//!
//! ```json
//! {"hooks": {"PreToolUse": [{"matcher": "Bash|Write", "hooks": [{"type": "command", "command": "./check.sh", "timeout": 30}]}]}}
//! ```
//!
//! The user's own are in `hooks.json` in the configuration folder. Those of a workspace are programs that a stranger may have named:
//! a change must run none of them before the user has trusted these files as they are. What cannot be used is a line of
//! [`Configured::not_used`], and never passed over in silence: it may be the gate that denies.

mod program;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{Runtime, runtime::Builder, tools::Sandbox, tools::process::Processes};

use super::{
    arguments::{HooksArguments, HooksCommand},
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    named_file, print,
    trust::{HOOKS, Project, Trust},
};
use program::{Event, Matcher, ProgramHook, Shared};

/// The name of the user's file, in the user's configuration folder.
const NAME: &str = "hooks.json";
/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The most hooks of all files.
const HOOKS_MAX: usize = 100;
/// How long a program may run where its file does not say.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest that a file may say.
const TIMEOUT_MAX: Duration = Duration::from_secs(590);

/// One hook of a file.
#[derive(Clone, Debug)]
struct Configuration {
    event: Event,
    matcher: Matcher,
    command: String,
    timeout: Duration,
    from: String,
    folder: PathBuf,
    /// The folder that it starts in, where that is not the workspace of the session.
    home: Option<PathBuf>,
}

/// The hooks that there are.
#[derive(Debug, Default)]
pub(super) struct Configured {
    hooks: Vec<Configuration>,
    /// What is not used, a line for each.
    pub(super) not_used: Vec<String>,
}

/// The hooks that were given to a runtime, until it is there.
pub(super) struct Placed(Arc<OnceLock<Processes>>);

impl Configured {
    /// Those of the user's own file, which start in its folder. `workspace` is the one that they are told of outside of a session.
    pub(super) fn of_user(workspace: &Path, environment: &Environment) -> Configured {
        let mut found = Configured::default();
        let Some(path) = environment.config_folder().map(|folder| folder.join(NAME)) else { return found };
        if path.exists() {
            let from = path.display().to_string();
            let home = path.parent().map(Path::to_owned);
            match named_file::text(&path, FILE_BYTES_MAX) {
                // In a folder of the user's, because the workspace may be a stranger's: its `./check.sh` is not the user's.
                Ok(text) => found.add(&text, &from, workspace, home),
                Err(why) => found.not_used.push(format!("not used: {from}: {why}")),
            }
        }
        found
    }

    /// Those of the user, then those of the workspace if its files are unchanged since the user trusted them.
    pub(super) fn load(workspace: &Path, environment: &Environment) -> Result<Configured, Failure> {
        let mut found = Configured::of_user(workspace, environment);
        match Trust::of(environment).look(workspace, &HOOKS)? {
            Project::Nothing => {}
            Project::Trusted { files, .. } => {
                files.iter().for_each(|(name, text)| found.add(text, name, workspace, None));
            }
            Project::Untrusted(why) => found.not_used.push(format!("not used: {why}")),
        }
        Ok(found)
    }

    /// Adds those of one file.
    fn add(&mut self, text: &str, from: &str, folder: &Path, home: Option<PathBuf>) {
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            // The words of the error name line and column.
            Err(error) => return self.not_used.push(format!("not used: {from}: not JSON: {error}")),
        };
        // Other programs keep other settings in the same file.
        let Some(events) = value.get("hooks") else { return };
        let mut wrong = |place: &str, why: &str| self.not_used.push(format!("not used: {from}: hooks{place}: {why}"));
        let Some(events) = events.as_object() else { return wrong("", "write an object of events") };
        let mut found = Vec::new();
        for (name, groups) in events {
            let Some(event) = Event::named(name) else {
                let names = Event::ALL.map(Event::name).join(", ");
                wrong(&format!(".{name}"), &format!("there is no such point: those there are are {names}"));
                continue;
            };
            let Some(groups) = groups.as_array() else {
                wrong(&format!(".{name}"), "write a list of groups, each with `matcher` and `hooks`");
                continue;
            };
            for (at, group) in groups.iter().enumerate() {
                let place = format!(".{name}[{at}]");
                let matcher = match Matcher::parse(group.get("matcher").and_then(Value::as_str).unwrap_or_default()) {
                    Ok(matcher) => matcher,
                    Err(why) => {
                        wrong(&format!("{place}.matcher"), &why);
                        continue;
                    }
                };
                let Some(hooks) = group.get("hooks").and_then(Value::as_array) else {
                    wrong(&place, "write `hooks`: a list of {\"type\": \"command\", \"command\": …}");
                    continue;
                };
                for (n, hook) in hooks.iter().enumerate() {
                    match one(hook) {
                        Ok((command, timeout)) => found.push(Configuration {
                            event,
                            matcher: matcher.clone(),
                            command,
                            timeout,
                            from: from.to_owned(),
                            folder: folder.to_owned(),
                            home: home.clone(),
                        }),
                        Err(why) => wrong(&format!("{place}.hooks[{n}]"), &why),
                    }
                }
            }
        }
        let room = HOOKS_MAX.saturating_sub(self.hooks.len());
        if found.len() > room {
            wrong(
                "",
                &format!("there are more than {HOOKS_MAX} hooks, so the last {} are left out", found.len() - room),
            );
        }
        self.hooks.extend(found.into_iter().take(room));
    }

    /// Gives the hooks to a runtime. They run once [`Placed::begin`] was called.
    pub(super) fn onto(&self, builder: Builder, sandbox: &Sandbox, environment: &Environment) -> (Builder, Placed) {
        let processes = Arc::<OnceLock<Processes>>::default();
        let shared = Arc::new(Shared::new(processes.clone(), sandbox, environment));
        let hooks = self.hooks.iter().map(|hook| ProgramHook::new(hook, shared.clone()));
        (hooks.fold(builder, Builder::hook), Placed(processes))
    }
}

impl Placed {
    /// The programs are those of this runtime from here on: they end with it.
    pub(super) fn begin(self, runtime: &Runtime) {
        // Set once, for the value is used up.
        drop(self.0.set(runtime.processes()));
    }
}

/// The command of one hook, and how long it may take.
fn one(hook: &Value) -> Result<(String, Duration), String> {
    match hook.get("type").and_then(Value::as_str) {
        Some("command") => {}
        Some(other) => return Err(format!("its type is {other:?}: only hooks of the type \"command\" are run")),
        None => return Err("it has no type: write \"type\": \"command\"".to_owned()),
    }
    let command = hook.get("command").and_then(Value::as_str).filter(|command| !command.trim().is_empty());
    let command = command.ok_or("it has no command")?;
    let timeout = match hook.get("timeout") {
        None => TIMEOUT,
        Some(seconds) => {
            let seconds = seconds.as_f64().filter(|seconds| *seconds > 0.0 && *seconds <= TIMEOUT_MAX.as_secs_f64());
            let wrong = || format!("its timeout is not a number of seconds up to {}", TIMEOUT_MAX.as_secs());
            Duration::from_secs_f64(seconds.ok_or_else(wrong)?)
        }
    };
    Ok((command.to_owned(), timeout))
}

/// Carries out `hooks`.
pub(super) fn hooks(command: &HooksCommand, environment: &Environment) -> Result<Exit, Failure> {
    match command {
        HooksCommand::List(given) => list(given, false, environment),
        HooksCommand::Check(given) => list(given, true, environment),
    }
}

/// Lists the hooks; a check ends with 1 where one is not used.
fn list(given: &HooksArguments, checks: bool, environment: &Environment) -> Result<Exit, Failure> {
    let workspace = environment.workspace(given.workspace.as_deref())?;
    let found = Configured::load(&workspace, environment)?;
    let mut text = String::new();
    for Configuration { event, matcher, command, timeout, from, .. } in &found.hooks {
        let (event, matcher, seconds) = (event.name(), matcher.to_string(), timeout.as_secs_f64());
        let _ = match given.json {
            true => {
                let line =
                    json!({ "event": event, "matcher": matcher, "command": command, "timeout": seconds, "from": from });
                writeln!(text, "{line}")
            }
            false => {
                let (matcher, command) = (escape::line(&matcher), escape::line(command));
                writeln!(text, "{event} {matcher}  {command}  ({seconds} s; {})", escape::line(from))
            }
        };
    }
    if given.json {
        found.not_used.iter().for_each(|why| super::note(why));
    } else {
        found.not_used.iter().for_each(|why| text.push_str(&format!("{}\n", escape::line(why))));
        if text.is_empty() {
            text =
                "no hooks: name one in hooks.json of your configuration folder, or in .tamtam/hooks.json\n".to_owned();
        }
    }
    let exit = print(&text)?;
    Ok(if checks && !found.not_used.is_empty() { Exit::Failed } else { exit })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        let mut found = Configured::default();
        found.add(text, "settings.json", Path::new("/w"), None);
        let hooks = found.hooks.iter().map(|hook| format!("{} {} {}", hook.event.name(), hook.matcher, hook.command));
        (hooks.collect(), found.not_used)
    }

    /// Files as people publish them, good and broken: used, or refused with the place.
    #[test]
    fn files_of_hooks_are_read_or_refused_with_the_place() {
        let good = r#"{"permissions": {"allow": []}, "hooks": {
            "PreToolUse": [{"matcher": "Bash|mcp__github__.*", "hooks": [{"type": "command", "command": "a"}]},
                           {"hooks": [{"type": "command", "command": "b", "timeout": 5}]}],
            "Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "c"}]}]}}"#;
        assert_eq!(
            read(good),
            (vec!["PreToolUse Bash|mcp__github__* a".into(), "PreToolUse * b".into(), "Stop * c".into()], vec![])
        );
        assert_eq!(read("{}"), (vec![], vec![]));
        for (text, place) in [
            ("{\"hooks\": {", "settings.json: not JSON: EOF while parsing an object at line 1 column 11"),
            (r#"{"hooks": []}"#, "settings.json: hooks: write an object of events"),
            (r#"{"hooks": {"PreTool": []}}"#, "hooks.PreTool: there is no such point: those there are are PreToolUse,"),
            (r#"{"hooks": {"Stop": {}}}"#, "hooks.Stop: write a list of groups"),
            (r#"{"hooks": {"Stop": [{}]}}"#, "hooks.Stop[0]: write `hooks`"),
            (r#"{"hooks": {"PreToolUse": [{"matcher": "^Ba(sh|t)$", "hooks": []}]}}"#, "hooks.PreToolUse[0].matcher: "),
            (
                r#"{"hooks": {"Stop": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]}}"#,
                "hooks.Stop[0].hooks[0]: its type is \"prompt\"",
            ),
            (r#"{"hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}}"#, "hooks.Stop[0].hooks[0]: it has no type"),
            (
                r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": " "}]}]}}"#,
                "hooks[0]: it has no command",
            ),
            (
                r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": 0}]}]}}"#,
                "its timeout is not",
            ),
            (
                r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": 1e9}]}]}}"#,
                "its timeout is not",
            ),
        ] {
            let (hooks, not_used) = read(text);
            assert!(hooks.is_empty() && not_used.len() == 1 && not_used[0].contains(place), "{text}: {not_used:?}");
        }
    }
}
