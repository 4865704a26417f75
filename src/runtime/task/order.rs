//! Makes the order of a child from a request: ids, agent, settings, prompt and deadline.
//!
//! The ids of the child and of its prompt are hashes of the parent's id and the request's key; a host may name the child instead, and
//! where it gives no key, the name is the key. A request may name the session of
//! an earlier task to continue: then the child is that session, with its agent, tools and rules as they are (only the budget is
//! that of the request), and a request for others is refused.
//!
//! A change must not make these ids in another way: a request that comes again after a crash, or from a newer version, would be a
//! second task. Nor may it give a child a right that its parent lacks: the child has a tool of the agent and of the request only if
//! the parent has that tool, and the rules of the agent and of the request allow nothing that the parent's do not. The core narrows
//! the rights once more (`narrow` in `kernel/children/tasks.rs`).

use std::{collections::BTreeSet, time::Duration};

use super::{TOOLS, TaskOptions, refs};
use crate::{
    actor::{bring_up::is_not_made, shared::Shared},
    agent::Agent,
    error::{OpenError, SendError, SpawnError},
    hook::HookContext,
    kernel::{Budget, Limits, Record, Refusal, Settings, State, TaskOrder, Terms, bounds, toolset},
    permission::Ruleset,
    runtime::{children::of_child, options::SessionOptions},
    session::Session,
    task::{TaskConstraints, TaskRequest},
    tool::{May, SessionRef},
    words::{
        ids::{MessageId, Seq, SessionId, new_uuid},
        message::{Message, Part},
        usage::MicroUsd,
    },
};

/// The tools that the child of a request never has: it has no to-do list, and does not plan. (It has the tools for tasks only if
/// it may have children.)
const NEVER: [&str; 4] = ["todo_read", "todo_write", "plan_enter", "plan_exit"];

/// What a request comes to.
pub(super) struct Made {
    pub(super) child: SessionId,
    pub(super) what: What,
}

/// The task of a request.
pub(super) enum What {
    /// A new one.
    New(Box<TaskOrder>),
    /// The request was taken before, with this ticket.
    Before(Seq),
}

/// Makes the order. Looks at the disk, for the files that the request names. A request that was taken before is that task, even
/// if what it names is gone by now.
pub(super) async fn of_request(
    parent: &Session,
    mut request: TaskRequest,
    options: TaskOptions,
    may: May,
) -> Result<Made, SpawnError> {
    let state = parent.state().await?;
    let of_child = |child: &SessionId| format!("child {child}");
    let new_key = || options.child.as_ref().map_or_else(|| new_uuid().to_string(), of_child);
    let key = request.idempotency_key.get_or_insert_with(new_key).clone();
    bounds::name("the idempotency_key of a task", &key).map_err(SendError::from)?;
    let of_key = |what: &str| id(&format!("{}\n{what}\n{key}", parent.id()));
    let task = MessageId::from(of_key("task").as_str());
    let child = match (request.resume_token.clone(), options.child.clone()) {
        (Some(goes_on), Some(named)) if goes_on != named => {
            return Err(refused(format!("{goes_on} is to continue, and a child {named} to be made: name one of them")));
        }
        (Some(child), _) | (None, Some(child)) => child,
        (None, None) => of_key("child"),
    };
    fill_in(&mut request, &state, &task, &child);
    let before = before(parent, &state, &child, &task).await?;
    if let Some(before) = before.as_ref().filter(|before| before.prompt == task) {
        if !asked_the_same(parent, &child, &request, &task).await? {
            return Err(SendError::from(Refusal::OtherTask { first: before.ticket }).into());
        }
        return Ok(Made { child, what: What::Before(before.ticket) });
    }
    let terms = terms(parent, &request);
    let prompt = prompt(parent, &request, task, &state.settings, may).await?;
    // The message is the child's: the input hooks see it like a message sent to the child.
    let prompt = Session { shared: parent.shared.clone(), slot: parent.shared.slot(&child) }.passed(prompt).await?;
    let (settings, again) = match (&request.resume_token, &before) {
        (Some(_), None) => return Err(refused(format!("{child} has no task of this session"))),
        (Some(_), Some(before)) if !before.was_given && !before.is_over => {
            return Err(refused(format!(
                "{child} is still at work: send it a message, or wait until its task is over"
            )));
        }
        (None, Some(before)) if !before.was_given => {
            return Err(SendError::from(Refusal::OtherTask { first: before.ticket }).into());
        }
        (None, Some(_)) | (Some(_), Some(Before { was_given: true, .. })) => {
            return Err(refused(format!("the task with this key is over, and {child} continued with another one")));
        }
        (Some(_), Some(before)) => (with_budget(gone_on_with(&before.settings, &request)?, &request), true),
        (None, None) => (settings(parent, &state, &request, options, &child)?, false),
    };
    let order = TaskOrder { terms, again, ..TaskOrder::new(settings, prompt) };
    Ok(Made { child, what: What::New(Box::new(order)) })
}

fn refused(why: String) -> SpawnError {
    SpawnError::Request { why }
}

/// An id that follows from these words: of the form of a UUID, and the same for the same words.
fn id(words: &str) -> SessionId {
    let hash = blake3::hash(words.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    let id = uuid::Builder::from_random_bytes(bytes).into_uuid().to_string();
    // A UUID is an id of a session.
    id.parse().unwrap_or_else(|_| SessionId::new())
}

fn fill_in(request: &mut TaskRequest, state: &State, task: &MessageId, child: &SessionId) {
    let origin = state.origin.as_ref();
    if request.trace_id.is_empty() {
        let own = || state.turn.as_ref()?.messages.first().map(|message| message.to_string());
        let above = origin.and_then(|origin| origin.terms.trace.as_deref().map(str::to_owned));
        request.trace_id = above.or_else(own).unwrap_or_else(|| task.to_string());
    }
    request.task_id = task.to_string();
    request.parent_task_id = origin.map(|origin| origin.prompt.to_string());
    (request.sender, request.recipient) = (Some(state.session.clone()), Some(child.clone()));
}

/// What the store has of a child of this session.
struct Before {
    prompt: MessageId,
    ticket: Seq,
    is_over: bool,
    /// Whether the child remembers the task that is asked about.
    was_given: bool,
    settings: Settings,
}

/// The settings of a continued child: its own. The error says what they lack of the request.
fn gone_on_with(child: &Settings, request: &TaskRequest) -> Result<Settings, SpawnError> {
    if request.agent != child.agent {
        return Err(refused(format!("the session to continue works as {}: name this agent", child.agent)));
    }
    if request.capabilities.is_some() || !request.auth_scope.is_empty() {
        let why = "the session to continue keeps its tools and rules: leave out capabilities and auth_scope, or begin a new one";
        return Err(refused(why.to_owned()));
    }
    Ok(child.clone())
}

/// The child of this id, if it exists and its parent is this session. Wakes it. A session of another parent is refused.
async fn before(
    parent: &Session,
    state: &State,
    child: &SessionId,
    task: &MessageId,
) -> Result<Option<Before>, SpawnError> {
    let session = Session { shared: parent.shared.clone(), slot: parent.shared.slot(child) };
    let there = match session.state().await {
        Err(SendError::Unavailable(error)) if is_yet_to_come(parent, child, &error).await => return Ok(None),
        there => there?,
    };
    let Some(origin) = there.origin.as_ref().filter(|origin| origin.parent == state.session) else {
        return Err(refused(format!("{child} has no task of this session")));
    };
    let (prompt, ticket, is_over) = (origin.prompt.clone(), origin.ticket, origin.end.is_some());
    let was_given = there.seen.get(task).is_some();
    Ok(Some(Before { prompt, ticket, is_over, was_given, settings: there.settings.as_ref().clone() }))
}

/// Whether the task that the child got under this id asks for what the request asks for: the same words and files, as the child's
/// tape has them. The input hooks see the request again only where it differs, because they may have changed the first one.
async fn asked_the_same(
    parent: &Session,
    child: &SessionId,
    request: &TaskRequest,
    task: &MessageId,
) -> Result<bool, SpawnError> {
    let child = Session { shared: parent.shared.clone(), slot: parent.shared.slot(child) };
    let accepted = child.entries().await?.into_iter().find_map(|entry| match entry.record {
        Record::Accepted { message, .. } if message.id == *task => Some(message),
        _ => None,
    });
    let (Some(accepted), asked) = (accepted, asked(request, task.clone())) else { return Ok(true) };
    // Behind these stand the files that the request names, as they were, and what hooks added.
    let is_it = |asked: &Message| accepted.parts.starts_with(&asked.parts);
    if is_it(&asked) {
        return Ok(true);
    }
    let own = asked.parts.len();
    let mut passed = child.passed(asked).await?;
    passed.parts.truncate(own);
    Ok(is_it(&passed))
}

/// What the request asks for itself: the question and the attached files.
fn asked(request: &TaskRequest, id: MessageId) -> Message {
    let attached = request.attachments.iter().cloned().map(Part::File);
    attached.fold(Message::user(request.input.query.clone()).with_id(id), Message::with_part)
}

/// Whether the child is not made yet: its task is new, waits for room, or the process died before the child had an entry.
async fn is_yet_to_come(parent: &Session, child: &SessionId, error: &OpenError) -> bool {
    matches!(error, OpenError::Queued { .. }) || is_not_made(&parent.shared, child, error).await
}

fn terms(parent: &Session, request: &TaskRequest) -> Terms {
    let now = parent.shared.clock.now();
    let deadline = request.deadline_ms.map(|ms| now.plus(Duration::from_millis(ms)));
    Terms { deadline, trace: Some(request.trace_id.as_str().into()) }
}

/// The first message of the child.
async fn prompt(
    parent: &Session,
    request: &TaskRequest,
    id: MessageId,
    settings: &Settings,
    may: May,
) -> Result<Message, SpawnError> {
    let workspace = settings.workspace.clone();
    let context = HookContext { id: parent.id().clone(), session_ref: SessionRef::new(parent.slot.clone()) };
    let resolve = parent.shared.resolve.as_deref().map(|resolve| (resolve, &context));
    let named = refs::found(resolve, &request.context_refs).await.map_err(refused)?;
    // What files say passes the filters of output, as it would if a tool had read it.
    let read = move |shared: &Shared| {
        let filters = shared.hooks.filters();
        Ok::<_, OpenError>(refs::told(&workspace, &named, &may).map(|text| filters.text(text)))
    };
    let told = parent.shared.blocking(read).await?.map_err(refused)?;
    // At the end, because its mark holds up to there.
    let told = Some(told).filter(|told| !told.is_empty()).map(Part::text);
    Ok(told.into_iter().fold(asked(request, id), Message::with_part))
}

/// The settings of a new child; the core narrows them once more.
fn settings(
    parent: &Session,
    state: &State,
    request: &TaskRequest,
    options: TaskOptions,
    child: &SessionId,
) -> Result<Settings, SpawnError> {
    let above = &state.settings;
    let agents = parent.agents();
    let names = |agent: &str| above.names_agent(agent, &parent.shared.globs);
    // A person may give a command to any agent; a model chooses among the subagents.
    let of_command = agents.get(&request.agent).filter(|agent| options.is_command && !agent.hidden);
    let agent = match of_command {
        Some(agent) => agent,
        None => agents.subagent_among(&request.agent, names).map_err(|error| refused(error.to_string()))?,
    };
    let mut made = SessionOptions::from_agent(agent, &above.workspace).map_err(|error| refused(error.to_string()))?;
    let agent_rules = made.agent_rules.take();
    made.id = Some(child.clone());
    made.title = Some(request.intent.clone()).filter(|intent| !intent.is_empty());
    made.labels = made.labels.or(&above.labels).map_err(OpenError::Labels)?;
    made.tools = Some(tools(parent, state, request, agent));
    made.restart = options.restart;
    if options.model.is_some() && options.model != made.model {
        // A chain stands behind its model.
        made.fallback.clear();
    }
    made.model = options.model.or(made.model);
    made.params = options.params.over(made.params);
    (made.asks_wait, made.ask_limit) = (above.asks_wait, above.ask_limit());
    let mut settings = of_child(above, made, above.workspace.clone(), &parent.shared.tools.now().toolbox, None);
    // Before the parent's own rules: what these deny is denied, and what they ask about the parent's rules may answer.
    let scope = (!request.auth_scope.is_empty()).then(|| Ruleset::new("task", request.auth_scope.clone()));
    settings.rules.splice(0..0, scope.into_iter().chain(agent_rules));
    Ok(with_budget(settings, request))
}

/// The names of the tools that the child may have: those of the agent and of the request that the parent has too.
fn tools(parent: &Session, state: &State, request: &TaskRequest, agent: &Agent) -> BTreeSet<String> {
    let may_have_children = state.settings.task_depth_max > state.depth().saturating_add(1);
    let is_taken = |name: &str| NEVER.contains(&name) || (TOOLS.contains(&name) && !may_have_children);
    let has = |name: &&str| {
        let own = toolset::has(agent.tools.as_ref(), name) && toolset::has(request.capabilities.as_ref(), name);
        own && state.settings.has_tool(name) && !is_taken(name)
    };
    parent.shared.tools.now().toolbox.names().filter(has).map(str::to_owned).collect()
}

fn with_budget(mut settings: Settings, request: &TaskRequest) -> Settings {
    let TaskConstraints { time_budget_ms, tokens, cost_micro_usd } = request.input.constraints;
    let usd = cost_micro_usd.map(MicroUsd::to_pico);
    let session = Limits { tokens, usd, time_ms: time_budget_ms, ..Limits::default() };
    settings.budget = Budget { session, ..Budget::default() };
    settings
}
