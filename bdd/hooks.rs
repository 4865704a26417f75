//! The hooks that hosts of the scenarios have written.

use std::sync::{Arc, Mutex};

use tamtam::{
    Event, Message, Part,
    hook::{Hook, HookCall, HookContext, Input, Operation, Outgoing, Stopping, TurnStart, TurnStop, Verdict},
    model::{BoxFuture, Item},
    tool::ToolResult,
};

/// The messages that a hook was asked about.
pub(crate) type Asked = Arc<Mutex<Vec<String>>>;

/// A hook of a scenario.
#[derive(Clone, Debug)]
pub(crate) enum HostHook {
    /// A gate that lets everything pass.
    AllowAll,
    /// A gate that blocks one tool.
    Block(String),
    /// A gate that panics.
    Crash,
    /// A result pipe that hides what looks like a key.
    RedactKeys,
    /// A result pipe that adds a text at the end.
    Append(String),
    /// An input pipe that puts a text before each message.
    Prefix(String),
    /// An input pipe that deals with every message itself.
    Handle,
    /// A gate that has a person asked about one tool, for a reason.
    Ask(String, String),
    /// A gate that has each call of a tool work on another path.
    Redirect(String, String),
    /// A gate of operations that refuses to have the conversation summed up.
    CancelCompaction,
    /// A pipe that puts a text behind the conversation of each request.
    Remind(String),
    /// A pipe that leaves the messages with a text out of each request.
    Forget(String),
    /// A pipe that adds to the system prompt of each turn, and says something where it begins.
    OpenTurn(String, String),
    /// A gate that sends each turn on, once.
    SendOn(String),
    /// A pipe over requests that never answers.
    Hang,
    /// An observer of errors.
    WatchErrors(Asked),
    /// An input pipe that passes every message on as it was, and notes what it was asked about.
    PassOn(Asked),
}

impl Hook for HostHook {
    fn name(&self) -> &str {
        match self {
            HostHook::AllowAll => "allow-all",
            HostHook::Block(_) => "block",
            HostHook::Crash => "crash",
            HostHook::RedactKeys => "redact-keys",
            HostHook::Append(_) => "append",
            HostHook::Prefix(_) => "prefix",
            HostHook::Handle => "handle",
            HostHook::PassOn(_) => "pass-on",
            HostHook::Ask(..) => "ask",
            HostHook::Redirect(..) => "redirect",
            HostHook::CancelCompaction => "cancel-compaction",
            HostHook::Remind(_) => "remind",
            HostHook::Forget(_) => "forget",
            HostHook::OpenTurn(..) => "open-turn",
            HostHook::SendOn(_) => "send-on",
            HostHook::Hang => "hang",
            HostHook::WatchErrors(_) => "watch-errors",
        }
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        let input = match self {
            HostHook::Handle => Input::Handled,
            HostHook::PassOn(asked) => {
                asked.lock().unwrap().push(message.text());
                Input::Pass(Box::new(message))
            }
            HostHook::Prefix(prefix) => {
                message.parts.insert(0, Part::text(prefix.as_str()));
                Input::Pass(Box::new(message))
            }
            _ => Input::Pass(Box::new(message)),
        };
        Box::pin(async move { input })
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            match self {
                HostHook::Block(tool) if *tool == call.tool => Verdict::Block(format!("{tool} is not allowed here")),
                HostHook::Ask(tool, reason) if *tool == call.tool => Verdict::Ask(reason.clone()),
                HostHook::Redirect(tool, path) if *tool == call.tool => {
                    let mut arguments = call.arguments.clone();
                    arguments["path"] = path.as_str().into();
                    Verdict::Rewrite(arguments)
                }
                HostHook::Crash => panic!("the gate of the host crashes"),
                _ => Verdict::Pass,
            }
        })
    }

    fn before_operation<'a>(&'a self, _: &'a HookContext, operation: Operation) -> BoxFuture<'a, Verdict> {
        let refuses = matches!((self, operation), (HostHook::CancelCompaction, Operation::Compaction));
        let verdict = if refuses { Verdict::Block("the case is open".to_owned()) } else { Verdict::Pass };
        Box::pin(async { verdict })
    }

    fn sees_turns(&self) -> bool {
        matches!(self, HostHook::OpenTurn(..))
    }

    fn sees_requests(&self) -> bool {
        matches!(self, HostHook::Remind(_) | HostHook::Forget(_) | HostHook::Hang)
    }

    fn on_turn<'a>(&'a self, _: &'a HookContext, mut turn: TurnStart) -> BoxFuture<'a, TurnStart> {
        if let HostHook::OpenTurn(system, said) = self {
            turn.system.push(system.clone());
            turn.messages.push(said.clone());
        }
        Box::pin(async { turn })
    }

    fn on_context<'a>(&'a self, _: &'a HookContext, mut request: Outgoing) -> BoxFuture<'a, Outgoing> {
        Box::pin(async move {
            match self {
                HostHook::Remind(text) => request.reminders.push(text.clone()),
                HostHook::Forget(text) => {
                    let says = |item: &Item| matches!(item, Item::User(user) if user.text().contains(text.as_str()));
                    let kept = request.history.iter().filter(|item| !says(item));
                    request.history = kept.map(|item| (**item).clone()).collect();
                }
                HostHook::Hang => std::future::pending().await,
                _ => {}
            }
            request
        })
    }

    fn on_stop<'a>(&'a self, _: &'a HookContext, _: &'a TurnStop) -> BoxFuture<'a, Stopping> {
        let stopping = match self {
            HostHook::SendOn(words) => Stopping::GoOn(words.clone()),
            _ => Stopping::End,
        };
        Box::pin(async { stopping })
    }

    fn on_error(&self, event: &Event) {
        if let HostHook::WatchErrors(seen) = self {
            let event = serde_json::to_value(&event.kind).unwrap();
            seen.lock().unwrap().push(event["event"].as_str().unwrap().to_owned());
        }
    }

    fn on_result<'a>(&'a self, _: &'a HookCall, mut result: ToolResult) -> BoxFuture<'a, ToolResult> {
        match self {
            HostHook::Append(text) => result.content.push_str(text),
            HostHook::RedactKeys => {
                result.content = redacted(&result.content);
                // What hosts are told beside the text is on the tape too.
                result.details = serde_json::from_str(&redacted(&result.details.to_string())).unwrap();
            }
            _ => {}
        }
        Box::pin(async move { result })
    }
}

/// Replaces each word of 30 or more letters, digits, dashes and underscores.
fn redacted(text: &str) -> String {
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let words = text.split_inclusive(|c: char| !is_of_key(c)).map(|word| {
        let key = word.trim_end_matches(|c| !is_of_key(c));
        if key.len() >= 30 { word.replacen(key, "[REDACTED]", 1) } else { word.to_owned() }
    });
    words.collect()
}
