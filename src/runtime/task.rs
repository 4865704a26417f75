//! Tasks with an envelope (the JSON form of a task): passes a [`TaskRequest`] to a child, shows how far it is, and makes the
//! [`TaskResult`] of its DOWN; and the tools by which a model does so.
//!
//! There is one road to a child: [`Session::delegate`] makes settings and a prompt of the request (`order.rs`) and then does what
//! [`Session::spawn_child`] does. So width, depth, grants, narrowing, restarts and the one DOWN are those of every child
//! (decision 0035).
//!
//! A change must keep this: the ids of a new child and of the task's prompt follow from the sender and the idempotency key, so a
//! request that comes again with its key, also after a crash, is the same task. Progress and result are read from tapes and states;
//! nothing here is remembered between calls.

mod levers;
mod order;
mod progress;
mod refs;
mod result;
mod tool;

use std::sync::Arc;

use crate::{
    error::{SendError, SpawnError},
    event::EventStream,
    kernel::{Link, Open, RestartPolicy},
    model::Params,
    runtime::{Builder, Child},
    session::Session,
    task::{TaskProgress, TaskRequest, TaskResult},
    tool::{May, Tool},
    words::{ids::SessionId, message::ModelRef},
};

/// The names of the tools for tasks.
const TOOLS: [&str; 4] = ["task", "task_send", "task_stop", "task_status"];

/// How a task is given, besides its request.
///
/// ```
/// use tamtam::runtime::TaskOptions;
///
/// let options = TaskOptions::default().child("acme.research-7".parse()?);
/// assert_eq!(options.child.unwrap().as_str(), "acme.research-7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TaskOptions {
    /// The id of the child; by default it follows from the sender and the key. A request that gives no key has the child's id as its
    /// key: the same id again is the same task. A key together with an id stands for a task of that child only.
    pub child: Option<SessionId>,
    /// How the child is tied to the sender.
    pub link: Link,
    /// How often the child is started again when it crashes.
    pub restart: RestartPolicy,
    /// The model that answers the child; by default that of the agent, else the sender's. A continued session
    /// ([`TaskRequest::resume_token`]) keeps its own.
    pub model: Option<ModelRef>,
    /// What is asked of the child's model, such as the shape of its answer; what is left out is that of the agent. A continued session
    /// keeps its own.
    pub params: Params,
    /// Whether the task is a command of a person, who may give it to any agent.
    pub(super) is_command: bool,
}

impl TaskOptions {
    crate::words::setters::setters! {
        /// Sets the child's [id](#structfield.child).
        child: SessionId = Some(child);
        /// Sets [how it is tied](#structfield.link) to the sender.
        link: Link;
        /// Sets [how often](#structfield.restart) it is started again.
        restart: RestartPolicy;
        /// Sets its [model](#structfield.model).
        model: ModelRef = Some(model);
        /// Sets [what is asked of its model](#structfield.params).
        params: Params;
    }
}

impl Session {
    /// Gives a task to a child that works as the agent of the request. Returns when this session's tape has the task, and the child
    /// is up or waits for room. [`Child::result`] waits for the end.
    ///
    /// The child has the agent's rules in front of this session's, and no right that this session lacks; of the tools those of the
    /// agent, without the ones for tasks (unless [`Settings::task_depth_max`](crate::session::Settings::task_depth_max) lets it
    /// have children), for to-do lists and for plans; the agent's model, or this session's. A request with a
    /// [`resume_token`](TaskRequest::resume_token) continues the session of a task that is over, with all that it knows.
    ///
    /// A request with the key of an earlier one is that task: nothing is done twice. If it asks for something else, it is refused.
    /// Dropping the future takes nothing back.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}, session::{TaskRequest, TaskStatus}};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new([Reply::text("In src/parser.rs.")]));
    /// let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// let request = TaskRequest::new("explore", "Find the parser", "Which file parses the rules?");
    /// let child = session.delegate(request, Default::default()).await?;
    /// let result = child.result().await?;
    /// assert_eq!((result.status, &*result.output.answer), (TaskStatus::Completed, "In src/parser.rs."));
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`SpawnError::Request`] if the request names an agent, a file or a session that cannot be taken;
    /// [`Refusal::OtherTask`](crate::session::Refusal::OtherTask) if its key, or the child that is named, has another task; others as
    /// [`Session::spawn_child`].
    pub async fn delegate(&self, request: TaskRequest, options: TaskOptions) -> Result<Child, SpawnError> {
        Ok(self.give_task(request, options, May::anything()).await?.0)
    }

    /// As [`Session::delegate`], with the child's events from its beginning; `may` judges the files that the request names.
    async fn give_task(
        &self,
        request: TaskRequest,
        options: TaskOptions,
        may: May,
    ) -> Result<(Child, EventStream), SpawnError> {
        let link = options.link;
        let made = order::of_request(self, request, options, may).await?;
        let events = self.shared.slot(&made.child).follow();
        let child = match made.what {
            order::What::Before(ticket) => Child::new(self, made.child, ticket),
            order::What::New(order) => self.give(made.child, *order, link).await?,
        };
        Ok((child, events))
    }

    /// The open tasks of the session, in the order in which they were given; those that wait for room are among them.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`].
    pub async fn tasks(&self) -> Result<Vec<Child>, SendError> {
        let state = self.state().await?;
        let open = state.open.iter().filter_map(|(ticket, open)| match open {
            Open::Task(task) => Some(Child::new(self, task.child.clone(), *ticket)),
            _ => None,
        });
        Ok(open.collect())
    }

    /// The open task of this child.
    async fn task_of(&self, child: &SessionId) -> Result<Option<Child>, SendError> {
        Ok(self.tasks().await?.into_iter().find(|task| task.session().id() == child))
    }
}

impl Child {
    /// Waits for the DOWN, and makes the result of it: the answer, the calls and the changes of files that the child's tape has for
    /// this task, and what it used. A task that ended in another way than well is a result too; see [`TaskResult::status`].
    ///
    /// Dropping the future changes nothing about the task.
    ///
    /// # Errors
    /// As [`Child::down`]; also if the parent's tape cannot be read.
    pub async fn result(&self) -> Result<TaskResult, SendError> {
        result::of(self).await
    }

    /// How far the task is. Of a task that is over, the status is not known here: [`Child::result`] has it.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`] if parent or child cannot answer.
    pub async fn progress(&self) -> Result<TaskProgress, SendError> {
        progress::of(self).await
    }
}

impl Builder {
    /// Lets the models of sessions give tasks: adds the tools `task`, `task_send`, `task_stop` and `task_status`, if an agent may
    /// be given a task. Off by default. The permission is `task`; its pattern is the name of the agent, and `*` for the other
    /// three tools.
    ///
    /// The description of `task` names the agents of the start, to each session those that its rules do not deny; which agent may be chosen is looked up at each call.
    #[must_use]
    pub fn with_tasks(mut self) -> Builder {
        self.with_tasks = true;
        self
    }
}

/// The tools for tasks, for these agents.
pub(super) fn tools(agents: &crate::agent::Agents) -> Vec<Arc<dyn Tool>> {
    if agents.subagents().next().is_none() {
        return Vec::new();
    }
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(tool::TaskTool::new(agents))];
    tools.extend(levers::all());
    tools
}
