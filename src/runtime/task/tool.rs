//! The tool `task`: the model gives work to a subagent, and waits for its answer or continues meanwhile.
//!
//! The call is idempotent: run again after a crash, it finds its child by the key of the call (or by the key that the model gave),
//! and waits for the DOWN that comes once. A change must keep that, and that a call that gets a stop stops the task it waits for.
//! A shutdown and a crash drop the call without a stop, so the child continues.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{TaskOptions, progress};
use crate::{
    agent::Agents,
    kernel::{Link, RestartPolicy},
    model::BoxFuture,
    runtime::Child,
    session::Session,
    task::{ContextRef, TaskRequest, TaskResult, TaskStatus},
    tool::{Access, Effect, Tool, ToolContext, ToolResult, parse_arguments},
    words::ids::SessionId,
    words::message::ErrorReason,
};

/// How long a call may wait for its task: as good as for ever. Deadline, budget and step limit of the task come first.
const LIMIT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long a stopped call waits for what its task has by then. Shorter than the time after which a call is dropped.
const STOP_WAIT: Duration = Duration::from_millis(1_500);

/// What a model can do with running tasks.
pub(super) const LEVERS: &str = "task_status shows it, task_send steers it, task_stop stops it";

/// The tool, for the agents of the start.
pub(super) struct TaskTool {
    description: String,
    /// Names and descriptions.
    agents: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Arguments {
    description: String,
    prompt: String,
    subagent_type: String,
    #[serde(default)]
    session_id: Option<SessionId>,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    deadline_ms: Option<u64>,
    #[serde(default)]
    idempotency_key: Option<String>,
    #[serde(default)]
    context_refs: Vec<ContextRef>,
    #[serde(default)]
    restart: RestartPolicy,
}

impl TaskTool {
    pub(super) fn new(agents: &Agents) -> TaskTool {
        let agents: Vec<_> = agents.subagents().map(|agent| (agent.name.clone(), agent.description.clone())).collect();
        TaskTool { description: TaskTool::describe(agents.iter()), agents }
    }

    /// The description, for a session that may give tasks to these agents.
    fn describe<'a>(agents: impl Iterator<Item = &'a (String, String)>) -> String {
        let list: String = agents.map(|(name, description)| format!("\n- {name}: {description}")).collect();
        format!(
            "Gives a task to a subagent, which works in a session of its own: it sees none of this conversation, so say all that it \
             needs. The result is its last message. Several tasks in one answer run side by side. With background the call returns at \
             once, and you are told when the task is over. With the session_id of a task that is over, the subagent goes on with what \
             it knows.\n\nSubagents:{list}"
        )
    }

    /// The schema, for a session that may give tasks to these agents.
    fn schema_for(agents: &[&str]) -> Value {
        let reference = json!({
            "type": "object",
            "properties": {
                "type": { "type": "string", "enum": ["file", "symbol", "doc", "memory"] },
                "id": { "type": "string", "description": "Its name: of a file the path in the workspace." },
            },
            "required": ["type", "id"],
        });
        let mut agent = json!({ "type": "string", "description": "Which subagent." });
        // Servers refuse an enumeration of nothing.
        if !agents.is_empty() {
            agent["enum"] = json!(agents);
        }
        json!({
            "type": "object",
            "properties": {
                "description": { "type": "string", "description": "What the task is for, in 3 to 8 words." },
                "prompt": { "type": "string", "description": "The task, with all that the subagent must know." },
                "subagent_type": agent,
                "session_id": { "type": "string", "description": "Go on with the session of a task that is over; with the same subagent_type." },
                "background": { "type": "boolean", "description": "Return at once; you are told of the end." },
                "deadline_ms": { "type": "integer", "minimum": 1, "description": "The task ends by then, with what it has." },
                "idempotency_key": { "type": "string", "description": "A second task with the same key is the first one." },
                "context_refs": { "type": "array", "items": reference, "description": "Given to the subagent: of a file its beginning." },
                "restart": {
                    "type": "string", "enum": ["never", "once", "session"],
                    "description": "How often the subagent is started again when it crashes; as a session by default.",
                },
            },
            "required": ["description", "prompt", "subagent_type"],
        })
    }
}

impl Tool for TaskTool {
    fn name(&self) -> &'static str {
        "task"
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn schema(&self) -> Value {
        TaskTool::schema_for(&self.agents.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())
    }

    fn choices(&self) -> Vec<String> {
        self.agents.iter().map(|(name, _)| name.clone()).collect()
    }

    fn told_without(&self, denied: &[&str]) -> (String, Value) {
        let left: Vec<_> = self.agents.iter().filter(|(name, _)| !denied.contains(&name.as_str())).collect();
        let names: Vec<_> = left.iter().map(|(name, _)| name.as_str()).collect();
        (TaskTool::describe(left.iter().copied()), TaskTool::schema_for(&names))
    }

    fn effect(&self) -> Effect {
        Effect::Idempotent
    }

    fn parallel(&self) -> bool {
        true
    }

    fn limit(&self, _: &Value) -> Duration {
        LIMIT
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        vec![Access::new("task", arguments["subagent_type"].as_str().unwrap_or("*"))]
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        parse_arguments::<Arguments>(arguments.clone()).map(drop).map_err(|error| error.to_string())
    }

    /// A task with the key or the session of an earlier one may be that task, even if its agent is gone.
    fn foresee(&self, arguments: &Value, _: &ToolContext) -> Result<(), String> {
        match parse_arguments::<Arguments>(arguments.clone()) {
            Ok(Arguments { session_id: None, idempotency_key: None, subagent_type: agent, .. })
                if !self.agents.iter().any(|(name, _)| *name == agent) =>
            {
                // The names are in the description, without those that this session may not use.
                Err(format!("The task was not given: there is no agent {agent:?}: choose one that the tool names."))
            }
            _ => Ok(()),
        }
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let Some(session) = context.session() else {
                return ToolResult::error("A task needs a session, and this call belongs to none.");
            };
            match parse_arguments::<Arguments>(arguments) {
                Ok(arguments) => give(&session, arguments, context).await,
                Err(error) => ToolResult::error(error.to_string()),
            }
        })
    }
}

/// The request of a call. Without a key of the model's own, the key is that of the call.
fn request(arguments: &Arguments, context: &ToolContext) -> TaskRequest {
    let Arguments { description, prompt, subagent_type, .. } = arguments;
    let mut request = TaskRequest::new(subagent_type, description, prompt);
    request.resume_token.clone_from(&arguments.session_id);
    request.deadline_ms = arguments.deadline_ms;
    request.context_refs.clone_from(&arguments.context_refs);
    let key =
        arguments.idempotency_key.as_ref().map_or_else(|| format!("call {}", context.key), |key| format!("key {key}"));
    request.idempotency_key = Some(key);
    request
}

async fn give(session: &Session, arguments: Arguments, context: &ToolContext) -> ToolResult {
    let link = if arguments.background { Link::LINKED } else { Link::ATTACHED };
    let options = TaskOptions { link, restart: arguments.restart, ..TaskOptions::default() };
    let (child, events) = match session.give_task(request(&arguments, context), options, context.may.clone()).await {
        Ok(given) => given,
        Err(error) => return ToolResult::error(format!("The task was not given: {error}")),
    };
    let title = format!("{}: {}", arguments.subagent_type, arguments.description);
    context.progress.title(&title);
    if arguments.background {
        return in_background(&child).with_title(title);
    }
    let show = |progress: &_| context.progress.metadata(json!(progress));
    let result = tokio::select! {
        biased;
        result = child.result() => result,
        () = context.cancelled() => return stop(&child, "the call that waited for it was stopped").await.with_title(title),
        () = progress::follow(&child, events, show) => return ToolResult::error("The task was lost sight of."),
    };
    match result {
        Ok(result) => told(&result).with_title(title),
        Err(error) => ToolResult::error(format!("The outcome of task {} is unknown: {error}", child.session().id())),
    }
}

fn in_background(child: &Child) -> ToolResult {
    let id = child.session().id();
    let text = format!("Task {id} works in the background; you will be told when it is over. Meanwhile {LEVERS}.");
    ToolResult::ok(text).with_details(json!({ "session_id": id }))
}

/// Stops a task, and returns what it has. The answer says so if the child is not down in time.
pub(super) async fn stop(child: &Child, why: &str) -> ToolResult {
    let stopped = async {
        child.stop(why).await?;
        child.result().await
    };
    match tokio::time::timeout(STOP_WAIT, stopped).await {
        Ok(Ok(result)) => told(&result),
        Ok(Err(error)) => ToolResult::error(format!("Task {} could not be stopped: {error}", child.session().id())),
        Err(_) => {
            let text = format!("Task {} was told to stop, and is not down yet.", child.session().id());
            ToolResult::failed(ErrorReason::Aborted, text).with_details(json!({ "session_id": child.session().id() }))
        }
    }
}

/// The result of a task in words for a model. What a stopped task had is an answer too.
pub(super) fn told(result: &TaskResult) -> ToolResult {
    let (answer, summary) = (&result.output.answer, result.summary());
    let why = result.errors.first().map(|error| error.message.as_str()).unwrap_or_default();
    let text = match (result.status, answer.is_empty()) {
        (TaskStatus::Completed, false) => format!("{answer}\n\n{summary}"),
        (TaskStatus::Completed, true) => format!("The task is done; the subagent said nothing.\n\n{summary}"),
        (_, true) => format!("The task is over: {why}. The subagent had said nothing by then.\n\n{summary}"),
        (_, false) => format!("The task is over: {why}. What the subagent had by then:\n\n{answer}\n\n{summary}"),
    };
    let made = match (result.status, answer.is_empty()) {
        (TaskStatus::Completed, _) | (TaskStatus::Cancelled, false) => ToolResult::ok(text),
        (TaskStatus::Cancelled, true) => ToolResult::failed(ErrorReason::Aborted, text),
        (TaskStatus::TimedOut, _) => ToolResult::failed(ErrorReason::Timeout, text),
        _ => ToolResult::error(text),
    };
    let mut made = made.with_details(json!({ "session_id": result.provenance.session_id, "task": result }));
    made.attachments.clone_from(&result.attachments);
    made
}
