//! [`Planning`]: hints that help a model to plan, to note what it finds, and not to fail in the same way again and again.
//!
//! | point | what is added |
//! |---|---|
//! | a message | how large it looks (`planning/complexity.rs`); and where a host named a file for findings ([`Planning::findings`]) and no call has come since the last message (so also at the first one), that there may be findings in it |
//! | every second read in a row | a reminder to note what was found |
//! | every third failure of a class | that the approach must change (`planning/strikes.rs`) |
//!
//! The counts are in memory, in the order in which calls return; a message resets them, even one that is then refused, and so
//! does a restart. Whether a plan is carried out at the end of a turn is checked by [`PlanCheck`](crate::session::PlanCheck),
//! which needs the state of the session.
//!
//! A change must keep this: the hook only adds text. It refuses no call, does not guard ([`Hook::guards`]), and touches no file:
//! the model keeps its findings with its own tools, under its own rights.

mod complexity;
mod strikes;

use std::borrow::Cow;

use crate::{
    hook::{
        Hook, HookCall, HookContext, Input,
        counts::{Counts, with_hint},
    },
    model::BoxFuture,
    tool::{Effect, ToolResult},
    words::ids::SessionId,
    words::message::{Message, Part},
};
use complexity::complexity;
use strikes::Strikes;

/// So many reads in a row are followed by a reminder.
const READS: u32 = 2;

/// A hook with hints for planning. Off by default.
///
/// ```
/// use tamtam::hook::Planning;
///
/// let runtime = tamtam::Runtime::builder().hook(Planning::new().findings("notes/findings.md"));
/// # drop(runtime);
/// ```
#[derive(Debug, Default)]
pub struct Planning {
    findings: Option<String>,
    sessions: Counts<Row>,
}

/// What a session has done since the newest message.
#[derive(Debug, Default)]
struct Row {
    reads: u32,
    strikes: Strikes,
}

impl Planning {
    /// All hints. The hints ask for findings in the model's to-do list.
    #[must_use]
    pub fn new() -> Planning {
        Planning::default()
    }

    /// The hints ask for findings in this file, relative to the workspace.
    #[must_use]
    pub fn findings(mut self, file: impl Into<String>) -> Planning {
        self.findings = Some(file.into());
        self
    }

    /// Counts a call, and returns the hints that are due.
    fn count(&self, call: &HookCall, result: &ToolResult) -> Vec<String> {
        // A call that only looks at the to-do list finds nothing new.
        let is_read = call.effect == Effect::Read && call.access.iter().all(|access| access.permission != "todo");
        let (reads, strike) = self.sessions.of(&call.session, |row| {
            row.reads = if is_read { row.reads.saturating_add(1) } else { 0 };
            (row.reads, row.strikes.count(&call.tool, result))
        });
        let reminds = reads > 0 && reads.is_multiple_of(READS);
        reminds.then(|| self.reminder()).into_iter().chain(strike).collect()
    }

    fn reminder(&self) -> String {
        let place = match &self.findings {
            Some(file) => Cow::from(format!("in {file}")),
            None => "in your to-do list".into(),
        };
        format!("[Hint of the runtime: note {place} what these reads showed, if it matters, before you go on.]")
    }

    /// The hints for a message.
    fn begin(&self, session: &SessionId, text: &str) -> Vec<String> {
        // A new row is made by the first call.
        let is_known = self.sessions.begin(session);
        let before = self.findings.as_ref().filter(|_| !is_known);
        let before =
            before.map(|file| format!("[Hint of the runtime: findings of before, if there are any, are in {file}.]"));
        complexity(text).map(|size| size.hint().to_owned()).into_iter().chain(before).collect()
    }
}

impl Hook for Planning {
    fn name(&self) -> &str {
        "planning"
    }

    fn guards(&self) -> bool {
        false
    }

    fn sees_events(&self) -> bool {
        false
    }

    fn on_input<'a>(&'a self, context: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        let hints = self.begin(&context.id, &message.text());
        message.parts.extend(hints.into_iter().map(Part::text));
        Box::pin(async move { Input::Pass(Box::new(message)) })
    }

    fn on_result<'a>(&'a self, call: &'a HookCall, mut result: ToolResult) -> BoxFuture<'a, ToolResult> {
        for hint in self.count(call, &result) {
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

    fn call(session: &str, tool: &str, effect: Effect) -> HookCall {
        let permission = if tool.starts_with("todo") { "todo" } else { tool };
        HookCall {
            session: session.parse().unwrap(),
            call: "c".into(),
            tool: tool.into(),
            arguments: Value::Null,
            effect,
            access: vec![Access::new(permission, "a")],
            session_ref: Default::default(),
        }
    }

    /// I-11, C-38, V-07: every second read in a row; another call ends the row, and so does a message.
    #[tokio::test]
    async fn every_second_read_is_followed_by_a_reminder() {
        let hook = Planning::new().findings("notes.md");
        let mut reminded = Vec::new();
        for (n, what) in "rrrrwrrwrmrr".chars().enumerate() {
            let call = match what {
                'r' => call("s", "read", Effect::Read),
                'w' => call("s", "write", Effect::Once),
                _ => {
                    let context = HookContext::detached("s".parse().unwrap());
                    hook.on_input(&context, Message::user("go")).await;
                    continue;
                }
            };
            let seen = hook.on_result(&call, ToolResult::ok("text")).await.content;
            assert!(seen.starts_with("text") && (seen == "text" || seen.contains("in notes.md")), "{seen}");
            if seen != "text" {
                reminded.push(n);
            }
        }
        assert_eq!(reminded, [1, 3, 6, 11]);
        for tool in ["todo_read", "todo_read"] {
            assert_eq!(hook.on_result(&call("t", tool, Effect::Read), ToolResult::ok("")).await.content, "");
        }
    }

    /// V-04, P-09, V-06: a message's size follows its own words, and the first message names the place for findings.
    #[tokio::test]
    async fn a_message_is_told_its_size() {
        let hook = Planning::new().findings("notes.md");
        let context = HookContext::detached("s".parse().unwrap());
        let said = async |text: &str| match hook.on_input(&context, Message::user(text)).await {
            Input::Pass(message) => message.parts.len(),
            Input::Handled => 0,
        };
        assert_eq!(said("Refactor the parser").await, 3);
        hook.on_result(&call("s", "bash", Effect::Once), ToolResult::ok("")).await;
        assert_eq!(said("Fix the bug").await, 2);
        hook.on_result(&call("s", "bash", Effect::Once), ToolResult::ok("")).await;
        assert_eq!(said("Hello").await, 1);
    }

    /// A message forgets the strikes, and each session has its own.
    #[tokio::test]
    async fn strikes_are_counted_for_each_session_since_its_message() {
        let hook = Planning::new();
        let fail = async |session: &str| {
            let failed = ToolResult::error("The text was not found.");
            hook.on_result(&call(session, "edit", Effect::Once), failed).await.content.contains("failed 3 times")
        };
        assert!(!fail("s").await && !fail("s").await && !fail("t").await);
        assert!(fail("s").await);
        hook.on_input(&HookContext::detached("t".parse().unwrap()), Message::user("go")).await;
        assert!(!fail("t").await && !fail("t").await && fail("t").await);
    }

    #[tokio::test]
    async fn the_table_of_sessions_is_bounded() {
        let hook = Planning::new();
        for n in 0..SESSIONS_MAX + 10 {
            hook.on_result(&call(&format!("s{n}"), "read", Effect::Read), ToolResult::ok("")).await;
        }
        assert!(hook.sessions.len() <= SESSIONS_MAX);
    }
}
