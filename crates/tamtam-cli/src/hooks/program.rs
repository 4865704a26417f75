//! A hook that is a program ([`ProgramHook`]): it is told of a point as JSON on its standard input, and answers with its exit code,
//! and with JSON on its standard output where it says more. Names and forms are those of Claude Code, so that programs for it work
//! as they are; tools are named as it names them, and paths are whole.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | as the JSON says; without any, go on. For `UserPromptSubmit` and `SessionStart` other text is context |
//! | 2 | no: the call or the message is blocked, the turn goes on; standard error says why |
//! | any other, a signal, too slow, too much output | the hook failed: a gate (`PreToolUse`, `PreCompact`) blocks, any other is passed over with a note |
//!
//! A change must keep two rules. A program runs as a child of the runtime, bounded in time and output, in the session's sandbox where
//! there is one, without the user's secrets in its environment; nothing of it is left when its callback is over, however it ended.
//! And what it says is never more than a hook may: `allow` does not allow what the rules ask about.

use std::{
    ffi::OsString,
    fmt,
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tamtam::{
    Message, Part, Session,
    hook::{Hook, HookCall, HookContext, Input, Operation, Stopping, TurnStart, TurnStop, Verdict},
    model::BoxFuture,
    tool::ToolResult,
    tools::{
        Sandbox, SandboxMode,
        process::{
            Confinement, Folder, ProcessEvent, ProcessInput, Processes, SandboxLevel, Spec, Stream, Streams, scrub,
        },
    },
};
use tokio::io::AsyncWriteExt as _;

use super::Configuration;
use crate::{environment::Environment, escape, note};

/// The most bytes that a program may write to one of its streams.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// How long it takes, beside the program's own time, to start it and to take it down.
const AROUND: Duration = Duration::from_secs(5);

/// A point that a program may be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    PreToolUse,
    PostToolUse,
    UserPromptSubmit,
    Stop,
    SubagentStop,
    PreCompact,
    SessionStart,
}

impl Event {
    pub(super) const ALL: [Event; 7] = [
        Event::PreToolUse,
        Event::PostToolUse,
        Event::UserPromptSubmit,
        Event::Stop,
        Event::SubagentStop,
        Event::PreCompact,
        Event::SessionStart,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Event::PreToolUse => "PreToolUse",
            Event::PostToolUse => "PostToolUse",
            Event::UserPromptSubmit => "UserPromptSubmit",
            Event::Stop => "Stop",
            Event::SubagentStop => "SubagentStop",
            Event::PreCompact => "PreCompact",
            Event::SessionStart => "SessionStart",
        }
    }

    pub(super) fn named(name: &str) -> Option<Event> {
        Event::ALL.into_iter().find(|event| event.name() == name)
    }
}

/// Which tools a hook is about: names, with `*` for any text, and `|` between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matcher(Vec<String>);

impl Matcher {
    /// Reads the form of Claude Code, which is a regular expression: as far as it is a list of names with `.*` in them.
    pub(super) fn parse(text: &str) -> Result<Matcher, String> {
        let text = if text.trim().is_empty() { "*" } else { text.trim() };
        let names: Vec<_> = text.split('|').map(|name| name.trim().replace(".*", "*")).collect();
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '*');
        match names.iter().all(|name| !name.is_empty() && name.chars().all(is_plain)) {
            true => Ok(Matcher(names)),
            false => Err(format!("{text:?} is more than names, `.*` in them and `|` between them: write it so")),
        }
    }

    fn is_about(&self, tool: &str) -> bool {
        let theirs = their_name(tool);
        self.0.iter().any(|pattern| fits(pattern, tool) || fits(pattern, &theirs))
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("|"))
    }
}

/// Whether a text is one of a pattern with `*` for any text.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, rest)) => {
            let Some(text) = text.strip_prefix(before) else { return false };
            (0..=text.len()).any(|at| text.is_char_boundary(at) && fits(rest, &text[at..]))
        }
    }
}

/// The name that Claude Code has for a tool of ours.
fn their_name(tool: &str) -> String {
    let known = [
        ("bash", "Bash"),
        ("read", "Read"),
        ("write", "Write"),
        ("edit", "Edit"),
        ("grep", "Grep"),
        ("find", "Glob"),
        ("ls", "LS"),
        ("task", "Task"),
        ("todo_write", "TodoWrite"),
        ("todo_read", "TodoRead"),
        ("skill", "Skill"),
    ];
    if let Some((_, theirs)) = known.iter().find(|(ours, _)| *ours == tool) {
        return (*theirs).to_owned();
    }
    match tool.strip_prefix("mcp_").and_then(|rest| rest.split_once('_')) {
        Some((server, tool)) => format!("mcp__{server}__{tool}"),
        None => tool.to_owned(),
    }
}

/// The names under which the file tools take their file; the first that is there counts, and none of the others is left.
const PATH_NAMES: [&str; 4] = ["file", "filePath", "file_path", "path"];

/// The arguments of a call as Claude Code has them: the file of a file tool is `file_path`, whole.
fn their_input(tool: &str, arguments: &Value, workspace: &Path) -> Value {
    let mut arguments = arguments.clone();
    if let (true, Some(object)) = (matches!(tool, "read" | "write" | "edit"), arguments.as_object_mut())
        && let Some(path) = PATH_NAMES.iter().fold(None, |found, name| object.remove(*name).or(found))
    {
        let path = path.as_str().map_or(path.clone(), |path| json!(workspace.join(path)));
        object.insert("file_path".to_owned(), path);
    }
    arguments
}

/// What all programs of a runtime have in common.
pub(super) struct Shared {
    processes: Arc<OnceLock<Processes>>,
    environment: Vec<(OsString, OsString)>,
    sandbox: Option<Sandbox>,
}

impl Shared {
    pub(super) fn new(processes: Arc<OnceLock<Processes>>, sandbox: &Sandbox, environment: &Environment) -> Shared {
        let variables = environment.all().into_iter().map(|(name, value)| (name.into(), value.into()));
        let is_off = sandbox.mode == SandboxMode::Off;
        Shared { processes, environment: scrub(variables), sandbox: (!is_off).then(|| sandbox.clone()) }
    }

    /// What a program may reach; an error where that must be held, and cannot.
    fn confinement(&self, workspace: &Path, home: &Path) -> Result<Option<Confinement>, String> {
        let Some(sandbox) = &self.sandbox else { return Ok(None) };
        let level = SandboxLevel::probe();
        if !level.holds() {
            return match sandbox.mode {
                SandboxMode::Required => Err(format!("the sandbox is required, and {level}")),
                _ => Ok(None),
            };
        }
        let mut confinement = Confinement::default();
        confinement.read.clone_from(&sandbox.read);
        confinement.write.clone_from(&sandbox.write);
        confinement.read.extend([workspace.to_owned(), home.to_owned()]);
        confinement.write.push(workspace.to_owned());
        confinement.network = sandbox.network;
        Ok(Some(confinement))
    }
}

/// What a program answered.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    /// Why not.
    block: Option<String>,
    /// Why a person must be asked.
    ask: Option<String>,
    /// The arguments in place of the call's.
    input: Option<Value>,
    /// Text for the model.
    context: Option<String>,
    /// Why the whole turn is to end.
    end: Option<String>,
    /// A line for the user.
    message: Option<String>,
}

/// A hook of a configuration file.
pub(super) struct ProgramHook {
    name: String,
    of: Configuration,
    shared: Arc<Shared>,
}

impl ProgramHook {
    pub(super) fn new(of: &Configuration, shared: Arc<Shared>) -> ProgramHook {
        let command: String = escape::line(&of.command).chars().take(60).collect();
        ProgramHook { name: format!("{} {command}", of.event.name()), of: of.clone(), shared }
    }

    /// Tells the program of the point. The error says what went wrong, for a person.
    async fn tell(&self, session: Option<&Session>, id: &str, told: Value) -> Result<Answer, String> {
        let state = match session {
            Some(session) => session.state().await.ok(),
            None => None,
        };
        let workspace = state.map_or_else(|| self.of.folder.clone(), |state| PathBuf::from(&state.settings.workspace));
        let mut input = Map::new();
        input.insert("session_id".to_owned(), json!(id));
        input.insert("hook_event_name".to_owned(), json!(self.of.event.name()));
        input.insert("cwd".to_owned(), json!(workspace));
        input.extend(told.as_object().cloned().unwrap_or_default());
        let ran = tokio::time::timeout(self.of.timeout, self.run(&workspace, Value::Object(input).to_string()));
        match ran.await {
            Ok(ran) => ran.and_then(|(code, output, words)| self.understood(code, &output, &words)),
            Err(_) => Err(format!("did not end within {} s", self.of.timeout.as_secs_f64())),
        }
        .inspect(|answer| answer.message.iter().for_each(|message| note(&format!("hook {}: {message}", self.name))))
        .map_err(|why| format!("the hook `{}` of {} {why}", escape::line(&self.of.command), self.of.from))
    }

    /// Runs the program. Gives its exit code and what it wrote. A drop kills it with all that it started.
    async fn run(&self, workspace: &Path, input: String) -> Result<(i32, String, String), String> {
        let failed = |error: std::io::Error| format!("could not be started: {error}");
        let processes = self.shared.processes.get().ok_or("was asked before the runtime had begun")?;
        let home = self.of.home.as_deref().unwrap_or(workspace);
        let handle = File::open(home).map_err(failed)?;
        let mut environment = self.shared.environment.clone();
        for name in ["CLAUDE_PROJECT_DIR", "TAMTAM_PROJECT_DIR"] {
            environment.push((name.into(), workspace.into()));
        }
        let mut spec = Spec::new("/bin/sh", Folder::new(handle.into(), home), processes.tag())
            .arguments(["-c", &self.of.command])
            .environment(environment)
            .streams(Streams::Apart)
            .input(ProcessInput::Pipe);
        spec.confinement = self.shared.confinement(workspace, home)?;
        let mut process = processes.start(spec).await.map_err(failed)?;
        let pipe = process.take_input();
        let feed = async {
            if let Some(mut pipe) = pipe {
                // A program that reads nothing of it closes the pipe.
                drop(pipe.write_all(input.as_bytes()).await);
            }
            std::future::pending::<()>().await;
        };
        let (mut output, mut words, mut code) = (Vec::new(), Vec::new(), None);
        let read = async {
            loop {
                match process.next().await {
                    ProcessEvent::Output(stream, bytes) => {
                        let kept = if stream == Stream::Stderr { &mut words } else { &mut output };
                        kept.extend(bytes);
                        if kept.len() > OUTPUT_BYTES_MAX {
                            return Err(format!("wrote more than {OUTPUT_BYTES_MAX} bytes"));
                        }
                    }
                    // What it wrote last may still be in the pipe; what it left running may hold the pipe open for ever.
                    ProcessEvent::Ended(status) => {
                        code = Some(status.code().ok_or_else(|| format!("was ended by a signal ({status})"))?);
                        let rest = tokio::time::timeout(Duration::from_millis(500), async {
                            while let ProcessEvent::Output(stream, bytes) = process.next().await {
                                let kept = if stream == Stream::Stderr { &mut words } else { &mut output };
                                kept.extend(bytes);
                            }
                        });
                        drop(rest.await);
                        return Ok(());
                    }
                    _ => return Ok(()),
                }
            }
        };
        let read = tokio::select! {
            read = read => read,
            () = feed => Ok(()),
        };
        process.end().await;
        read?;
        let text = |mut bytes: Vec<u8>| {
            bytes.truncate(OUTPUT_BYTES_MAX);
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        Ok((code.ok_or("ended without an exit code")?, text(output), text(words)))
    }

    /// What an exit code and the output say.
    fn understood(&self, code: i32, output: &str, words: &str) -> Result<Answer, String> {
        let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        match code {
            0 if output.starts_with('{') => {
                let said: Value = serde_json::from_str(output).map_err(|error| format!("wrote bad JSON: {error}"))?;
                self.said(&said)
            }
            0 if matches!(self.of.event, Event::UserPromptSubmit | Event::SessionStart) && !output.is_empty() => {
                Ok(Answer { context: Some(output.to_owned()), ..Answer::default() })
            }
            0 => Ok(Answer::default()),
            2 => Ok(Answer { block: Some(or(words, "it gave no reason")), ..Answer::default() }),
            code => Err(format!("failed with exit code {code}: {}", or(words, "it wrote nothing to stderr"))),
        }
    }

    /// What its JSON says.
    fn said(&self, said: &Value) -> Result<Answer, String> {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let special = &said["hookSpecificOutput"];
        let reason = || text(special, "permissionDecisionReason").or_else(|| text(said, "reason"));
        let reason = || reason().unwrap_or_else(|| "it gave no reason".to_owned());
        let mut answer = Answer {
            context: text(special, "additionalContext").filter(|context| !context.trim().is_empty()),
            input: special.get("updatedInput").filter(|input| !input.is_null()).cloned(),
            message: text(said, "systemMessage"),
            ..Answer::default()
        };
        let decision = text(special, "permissionDecision").or_else(|| text(said, "decision"));
        match decision.as_deref() {
            // `allow` is the rules' to say.
            None | Some("allow" | "approve") => {}
            Some("deny" | "block") => answer.block = Some(reason()),
            Some("ask") => answer.ask = Some(reason()),
            Some(other) => return Err(format!("gave the decision {other:?}: write allow, deny, ask or block")),
        }
        if said["continue"] == json!(false) {
            let why = text(said, "stopReason").unwrap_or_else(reason);
            (answer.end, answer.block) = (Some(why.clone()), Some(answer.block.unwrap_or(why)));
        }
        Ok(answer)
    }

    /// Ends the turn of a session where the program says so. Nothing waits for it: the hook runs within that turn.
    fn end_turn(&self, session: Option<Session>, answer: &Answer) {
        if let (Some(session), Some(why)) = (session, &answer.end) {
            let why = format!("hook {}: {why}", self.name);
            tokio::spawn(async move { drop(session.abort(why).await) });
        }
    }

    /// The same for a point that does not guard: a failure is a note, and no answer.
    async fn hear(&self, session: Option<&Session>, id: &str, told: Value) -> Answer {
        self.tell(session, id, told).await.unwrap_or_else(|why| {
            note(&format!("{why}; it was passed over"));
            Answer::default()
        })
    }

    fn is(&self, event: Event) -> bool {
        self.of.event == event
    }

    fn input_of(&self, call: &HookCall, workspace: &Path) -> Value {
        json!({
            "tool_name": their_name(&call.tool), "tool_input": their_input(&call.tool, &call.arguments, workspace),
            "tool_use_id": call.call.to_string(),
        })
    }

    async fn gate(&self, call: &HookCall) -> Verdict {
        let session = call.session();
        let workspace = self.workspace(session.as_ref()).await;
        let told = self.input_of(call, &workspace);
        let was = told["tool_input"].clone();
        let answer = match self.tell(session.as_ref(), call.session.as_str(), told).await {
            Ok(answer) => answer,
            Err(why) => return Verdict::Block(format!("{why}; mend it, or take it out of its file")),
        };
        self.end_turn(session, &answer);
        match answer {
            Answer { block: Some(reason), .. } => Verdict::Block(reason),
            Answer { ask: Some(_), input: Some(input), .. } if input != was => Verdict::Block(
                "it wants a person to be asked about other arguments, and can only do one of the two".to_owned(),
            ),
            Answer { ask: Some(reason), .. } => Verdict::Ask(reason),
            Answer { input: Some(input), .. } if input != was => Verdict::Rewrite(input),
            _ => Verdict::Pass,
        }
    }

    async fn workspace(&self, session: Option<&Session>) -> PathBuf {
        match session {
            Some(session) => session.state().await.map(|state| PathBuf::from(&state.settings.workspace)).ok(),
            None => None,
        }
        .unwrap_or_else(|| self.of.folder.clone())
    }
}

impl Hook for ProgramHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn limit(&self) -> Duration {
        self.of.timeout + AROUND
    }

    fn guards(&self) -> bool {
        false
    }

    fn sees_events(&self) -> bool {
        false
    }

    fn sees_turns(&self) -> bool {
        self.is(Event::SessionStart)
    }

    fn on_input<'a>(&'a self, context: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move {
            if !self.is(Event::UserPromptSubmit) {
                return Input::Pass(Box::new(message));
            }
            let session = context.session();
            let answer = self.hear(session.as_ref(), context.id.as_str(), json!({ "prompt": message.text() })).await;
            if let Some(reason) = answer.block {
                note(&format!("the hook `{}` blocked the message: {reason}", escape::line(&self.of.command)));
                return Input::Handled;
            }
            message.parts.extend(answer.context.map(Part::text));
            Input::Pass(Box::new(message))
        })
    }

    fn on_turn<'a>(&'a self, context: &'a HookContext, mut turn: TurnStart) -> BoxFuture<'a, TurnStart> {
        Box::pin(async move {
            let session = context.session();
            let turns = match &session {
                Some(session) => session.state().await.map_or(1, |state| state.turns),
                None => 1,
            };
            if turns == 0 {
                let told = json!({ "source": "startup" });
                let answer = self.hear(session.as_ref(), context.id.as_str(), told).await;
                turn.messages.extend(answer.context);
            }
            turn
        })
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            match self.is(Event::PreToolUse) && self.of.matcher.is_about(&call.tool) {
                true => self.gate(call).await,
                false => Verdict::Pass,
            }
        })
    }

    fn before_operation<'a>(&'a self, context: &'a HookContext, operation: Operation) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            if !self.is(Event::PreCompact) || operation != Operation::Compaction {
                return Verdict::Pass;
            }
            let told = json!({ "trigger": "manual", "custom_instructions": "" });
            match self.tell(context.session().as_ref(), context.id.as_str(), told).await {
                Ok(Answer { block: Some(reason), .. }) | Err(reason) => Verdict::Block(reason),
                Ok(_) => Verdict::Pass,
            }
        })
    }

    fn on_result<'a>(&'a self, call: &'a HookCall, mut result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if !self.is(Event::PostToolUse) || !self.of.matcher.is_about(&call.tool) {
                return result;
            }
            let session = call.session();
            let workspace = self.workspace(session.as_ref()).await;
            let mut told = self.input_of(call, &workspace);
            told["tool_response"] = json!({
                "content": result.content, "is_error": result.is_error(), "details": result.details,
            });
            let answer = self.hear(session.as_ref(), call.session.as_str(), told).await;
            self.end_turn(session, &answer);
            for text in [answer.block, answer.context].into_iter().flatten() {
                let gap = if result.content.is_empty() { "" } else { "\n\n" };
                result.content = format!("{}{gap}[Hook: {text}]", result.content);
            }
            result
        })
    }

    fn on_stop<'a>(&'a self, context: &'a HookContext, turn: &'a TurnStop) -> BoxFuture<'a, Stopping> {
        Box::pin(async move {
            let session = context.session();
            let is_child = match &session {
                Some(session) => session.state().await.is_ok_and(|state| state.origin.is_some()),
                None => false,
            };
            if !self.is(if is_child { Event::SubagentStop } else { Event::Stop }) {
                return Stopping::End;
            }
            let told = json!({ "stop_hook_active": turn.was_sent_on, "last_assistant_message": turn.text });
            match self.hear(session.as_ref(), context.id.as_str(), told).await {
                Answer { end: Some(_), .. } => Stopping::End,
                Answer { block: Some(reason), .. } => Stopping::GoOn(reason),
                _ => Stopping::End,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_matcher_knows_both_names_of_a_tool() {
        for (pattern, tool, fits) in [
            ("Bash", "bash", true),
            ("bash", "bash", true),
            ("Edit|Write", "write", true),
            ("Edit|Write", "read", false),
            ("mcp__github__.*", "mcp_github_create_issue", true),
            ("mcp__.*", "bash", false),
            ("Note.*", "note", false),
            ("", "anything", true),
        ] {
            assert_eq!(Matcher::parse(pattern).unwrap().is_about(tool), fits, "{pattern} {tool}");
        }
        for pattern in ["Bash(git*)", "^Bash$", "a||b", "[Bb]ash"] {
            assert!(Matcher::parse(pattern).unwrap_err().contains("write it so"), "{pattern}");
        }
    }
}
