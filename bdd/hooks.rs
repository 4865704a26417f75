//! The hooks that hosts of the scenarios have written.

use std::sync::{Arc, Mutex};

use tamtam::{
    Message, Part,
    hook::{Hook, HookCall, HookContext, Input, Verdict},
    model::BoxFuture,
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
                HostHook::Crash => panic!("the gate of the host crashes"),
                _ => Verdict::Pass,
            }
        })
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
