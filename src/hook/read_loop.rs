//! [`ReadLoop`]: a hook for a model that makes one read after another. A hint tells it to begin the work, or, where something was
//! written, to end it.
//!
//! The hook counts the reads in a row of each session: in memory, in the order in which they return. After a restart nothing was
//! read and nothing was written, so that the next hint comes later, or after a write earlier. A change must keep this: the hook
//! adds a line to a result and changes nothing else. It refuses no call, and does not guard ([`Hook::guards`]).
//!
//! Rejected: to count in the core. A hint decides nothing, so no replay depends on the count.

use crate::{
    hook::{
        Hook, HookCall, HookContext, Input,
        counts::{Counts, with_hint},
    },
    model::BoxFuture,
    tool::{Effect, ToolResult},
    words::message::Message,
};

/// A hook that adds a hint to every fifth read in a row while nothing was written, and to every tenth after something was.
///
/// A read is a call of a tool with the effect [`Effect::Read`]; a write is a call that names an access `edit`. Any other call ends
/// the row, and a message to the session resets it: nothing read, and nothing written. Off by default.
///
/// ```
/// use tamtam::hook::ReadLoop;
///
/// let runtime = tamtam::Runtime::builder().hook(ReadLoop::new());
/// let patient = ReadLoop::new().before_write(12).after_write(20);
/// # drop((runtime, patient));
/// ```
#[derive(Debug)]
pub struct ReadLoop {
    before_write: u32,
    after_write: u32,
    sessions: Counts<Row>,
}

/// What a session has called since the newest message.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    reads: u32,
    wrote: bool,
}

impl Default for ReadLoop {
    fn default() -> ReadLoop {
        ReadLoop { before_write: 5, after_write: 10, sessions: Counts::default() }
    }
}

impl ReadLoop {
    /// Hints at 5 reads in a row before the first write, and at 10 after it.
    #[must_use]
    pub fn new() -> ReadLoop {
        ReadLoop::default()
    }

    /// Hints at so many reads in a row while nothing was written; never for 0.
    #[must_use]
    pub fn before_write(mut self, reads: u32) -> ReadLoop {
        self.before_write = reads;
        self
    }

    /// Hints at so many reads in a row after something was written; never for 0.
    #[must_use]
    pub fn after_write(mut self, reads: u32) -> ReadLoop {
        self.after_write = reads;
        self
    }

    /// Counts a call, and returns the hint that is due.
    fn count(&self, call: &HookCall, succeeded: bool) -> Option<String> {
        let Row { reads, wrote } = self.sessions.of(&call.session, |row| {
            row.wrote |= succeeded && call.access.iter().any(|access| access.permission == "edit");
            row.reads = if call.effect == Effect::Read { row.reads.saturating_add(1) } else { 0 };
            *row
        });
        let limit = if wrote { self.after_write } else { self.before_write };
        (limit > 0 && reads > 0 && reads.is_multiple_of(limit)).then(|| hint(reads, wrote))
    }
}

fn hint(reads: u32, wrote: bool) -> String {
    match wrote {
        false => format!(
            "[Hint of the runtime: {reads} reads in a row, and nothing was written. If you know enough, begin the work now; \
             else say what is missing.]"
        ),
        true => format!(
            "[Hint of the runtime: {reads} reads in a row since the work was written. If it is done, stop checking and say so.]"
        ),
    }
}

impl Hook for ReadLoop {
    fn name(&self) -> &str {
        "read loop"
    }

    fn guards(&self) -> bool {
        false
    }

    fn sees_events(&self) -> bool {
        false
    }

    fn on_input<'a>(&'a self, context: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        self.sessions.begin(&context.id);
        Box::pin(async move { Input::Pass(Box::new(message)) })
    }

    fn on_result<'a>(&'a self, call: &'a HookCall, mut result: ToolResult) -> BoxFuture<'a, ToolResult> {
        if let Some(hint) = self.count(call, !result.is_error()) {
            result = with_hint(result, &hint);
        }
        Box::pin(async move { result })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::Value;

    use super::*;
    use crate::{hook::counts::SESSIONS_MAX, tool::Access};

    fn call(session: &str, what: char) -> HookCall {
        let (tool, effect, access) = match what {
            'r' => ("read", Effect::Read, Access::new("read", "a")),
            'w' => ("write", Effect::Once, Access::new("edit", "a")),
            _ => ("bash", Effect::Once, Access::new("bash", "make")),
        };
        HookCall {
            session: session.parse().unwrap(),
            call: "c".into(),
            tool: tool.into(),
            arguments: Value::Null,
            effect,
            access: vec![access],
            session_ref: Default::default(),
        }
    }

    /// The places of the calls, from 1, whose results got a hint. `W` is a write that fails, `m` a message.
    async fn hinted(hook: &ReadLoop, calls: &str) -> Vec<usize> {
        let mut hinted = Vec::new();
        for (n, what) in calls.chars().filter(|what| *what != ' ').enumerate() {
            if what == 'm' {
                let context = HookContext::detached("s".parse().unwrap());
                hook.on_input(&context, Message::user("go")).await;
                continue;
            }
            let result = if what == 'W' { ToolResult::error("no") } else { ToolResult::ok("text") };
            let seen = hook.on_result(&call("s", what.to_ascii_lowercase()), result.clone()).await;
            assert!(seen.content.starts_with(&result.content) && seen.is_error() == result.is_error());
            if seen.content != result.content {
                hinted.push(n + 1);
            }
        }
        hinted
    }

    /// I-08, I-09, I-10, C-34: five reads in a row before a write, ten after one; other calls end the row, messages reset it.
    #[tokio::test]
    async fn reads_in_a_row_get_a_hint() {
        for (calls, expected) in [
            ("rrrr", [].as_slice()),
            ("rrrrr", &[5]),
            ("rrrrrrrrrr", &[5, 10]),
            ("rrrr b rrrr b", &[]),
            ("rrrr b rrrrr", &[10]),
            ("w rrrrrrrrr", &[]),
            ("w rrrrrrrrrr", &[11]),
            ("rrrr w rrrrr rrrrr", &[15]),
            ("W rrrrr", &[6]),
            ("w m rrrrr", &[7]),
            ("rrrr m rrrr", &[]),
        ] {
            assert_eq!(hinted(&ReadLoop::new(), calls).await, expected, "{calls}");
        }
        assert_eq!(hinted(&ReadLoop::new().before_write(2).after_write(0), "rr w rrrrrrrrrrrr").await, [2]);
        let hook = ReadLoop::new().before_write(2);
        let one = hook.on_result(&call("s", 'r'), ToolResult::ok("")).await;
        let other = hook.on_result(&call("t", 'r'), ToolResult::ok("")).await;
        assert_eq!((one.content.as_str(), other.content.as_str()), ("", ""), "each session has a row of its own");
    }

    #[tokio::test]
    async fn the_table_of_sessions_is_bounded() {
        let hook = ReadLoop::new();
        for n in 0..SESSIONS_MAX + 10 {
            hook.on_result(&call(&format!("s{n}"), 'r'), ToolResult::ok("")).await;
        }
        assert!(hook.sessions.len() <= SESSIONS_MAX);
        // The other sessions keep their counts: this one has written, so its fifth read gets no hint.
        let hook = ReadLoop::new();
        hook.on_result(&call("z", 'w'), ToolResult::ok("")).await;
        for n in 0..SESSIONS_MAX {
            hook.on_result(&call(&format!("s{n}"), 'r'), ToolResult::ok("")).await;
        }
        for _ in 0..5 {
            let seen = hook.on_result(&call("z", 'r'), ToolResult::ok("")).await;
            assert_eq!(seen.content, "");
        }
    }
}
