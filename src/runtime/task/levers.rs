//! The tools by which a model steers, stops and looks at the tasks that it gave: `task_send`, `task_stop`, `task_status`.
//!
//! They reach the open tasks of the calling session and no others; a change must keep that, because a model could name any session
//! of the store. A call may run again after a crash: the id of a message follows from the key of the call, so it is sent once.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::tool::{LEVERS, stop};
use crate::{
    kernel::{Delivery, Steering},
    model::BoxFuture,
    runtime::Child,
    session::Session,
    tool::{Access, Effect, Tool, ToolContext, ToolResult, parse_arguments},
    words::ids::{MessageId, SessionId},
    words::message::Message,
};

/// All of them.
pub(super) fn all() -> [Arc<dyn Tool>; 3] {
    [Lever::Send, Lever::Stop, Lever::Status].map(|lever| Arc::new(lever) as Arc<dyn Tool>)
}

/// The reply to a model that names no task.
const WHICH: &str = "Say which task: session_id.";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lever {
    Send,
    Stop,
    Status,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    session_id: Option<SessionId>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
}

impl Tool for Lever {
    fn name(&self) -> &'static str {
        match self {
            Lever::Send => "task_send",
            Lever::Stop => "task_stop",
            Lever::Status => "task_status",
        }
    }

    fn description(&self) -> &'static str {
        match self {
            Lever::Send => "Sends a message to a task that is at work. The subagent reads it before its next step.",
            Lever::Stop => "Stops a task that is at work or waits, and gives what it has by then.",
            Lever::Status => {
                "Shows the tasks that are at work or wait, or one of them: tool, text so far, tokens, time."
            }
        }
    }

    fn schema(&self) -> Value {
        let id = json!({ "type": "string", "description": "The session_id of the task." });
        let text = |what: &str| json!({ "type": "string", "description": what });
        let (properties, required) = match self {
            Lever::Send => {
                (json!({ "session_id": id, "message": text("What it should know.") }), json!(["session_id", "message"]))
            }
            Lever::Stop => (json!({ "session_id": id, "reason": text("Why.") }), json!(["session_id"])),
            Lever::Status => (json!({ "session_id": id }), json!([])),
        };
        json!({ "type": "object", "properties": properties, "required": required })
    }

    /// A message that comes again is the same message, and a task that is stopped again stays stopped.
    fn effect(&self) -> Effect {
        if *self == Lever::Status { Effect::Read } else { Effect::Idempotent }
    }

    fn parallel(&self) -> bool {
        true
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new("task", "*")]
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        match parse_arguments::<Arguments>(arguments.clone()) {
            Ok(Arguments { session_id: None, .. }) if *self != Lever::Status => Err(WHICH.to_owned()),
            Ok(Arguments { message, .. }) if *self == Lever::Send && message.trim().is_empty() => {
                Err("Say what it should know: message.".to_owned())
            }
            parsed => parsed.map(drop).map_err(|error| error.to_string()),
        }
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let done = match (context.session(), parse_arguments::<Arguments>(arguments)) {
                (Some(session), Ok(arguments)) => self.pull(&session, arguments, context).await,
                (None, _) => Err("This call belongs to no session.".to_owned()),
                (_, Err(error)) => Err(error.to_string()),
            };
            done.unwrap_or_else(ToolResult::error)
        })
    }
}

impl Lever {
    async fn pull(self, session: &Session, arguments: Arguments, context: &ToolContext) -> Result<ToolResult, String> {
        let Some(id) = arguments.session_id else {
            return if self == Lever::Status { status_of_all(session).await } else { Err(WHICH.to_owned()) };
        };
        let task = session.task_of(&id).await.map_err(|error| error.to_string())?;
        let task = task.ok_or_else(|| {
            format!("No open task has the session_id {id}: it is over, or not a task of yours. Call task with this session_id to continue it.")
        })?;
        match self {
            Lever::Send => send(&task, &arguments.message, context).await,
            Lever::Stop if arguments.reason.is_empty() => Ok(stop(&task, "the agent that gave it stopped it").await),
            Lever::Stop => Ok(stop(&task, &arguments.reason).await),
            Lever::Status => status(&task).await,
        }
    }
}

async fn send(task: &Child, text: &str, context: &ToolContext) -> Result<ToolResult, String> {
    // The key of the call: run again after a crash, it is the same message.
    let message = Message::user(text).with_id(MessageId::from(context.key.as_str()));
    let sent = task.session().send(message, Delivery::Steer(Steering::default())).await;
    sent.map_err(|error| format!("The message was not taken: {error}"))?;
    Ok(ToolResult::ok(format!("Task {} reads the message before its next step.", task.session().id())))
}

async fn status(task: &Child) -> Result<ToolResult, String> {
    let progress = task.progress().await.map_err(|error| error.to_string())?;
    let shown = serde_json::to_string(&progress).map_err(|error| error.to_string())?;
    Ok(ToolResult::ok(shown).with_details(json!(progress)))
}

async fn status_of_all(session: &Session) -> Result<ToolResult, String> {
    let tasks = session.tasks().await.map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for task in &tasks {
        all.push(match status(task).await {
            Ok(shown) => shown.content,
            Err(error) => format!("{}: {error}", task.session().id()),
        });
    }
    let text = if all.is_empty() { "No task is open.".to_owned() } else { format!("{}\n{LEVERS}.", all.join("\n")) };
    Ok(ToolResult::ok(text))
}
