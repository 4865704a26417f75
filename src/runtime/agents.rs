//! What a host swaps while its runtime runs: agents, commands, tools, and its own rules. An agent is a persona, tools, rules and limits
//! as data; a command is what a person types as a line that begins with `/`.
//!
//! Each set is one value that is swapped whole, so a reader has the old one or the new one. A swap affects every later look-up of
//! an agent or command: a choice of an agent, a task, a line, a written summary or title. It does not affect a session's
//! settings, which are on its tape, a line that already runs, or the list of agents in the description of the tool `task`. A
//! change must not let a swap change the settings of a session: a session must not work by other rules than its tape says.

use std::sync::Arc;

use crate::{
    agent::{Agents, Commands},
    error::StartError,
    permission::Ruleset,
    runtime::{Builder, Runtime},
    session::Session,
    tool::Toolbox,
};

impl Builder {
    /// The agents that sessions and tasks may be given; [`Agents::built_in`] by default. Agents of a second call are added to
    /// those of the first: of two with the same name the later one wins, and the default one is that of the later call.
    #[must_use]
    pub fn agents(mut self, agents: Agents) -> Builder {
        self.agents = Some(self.agents.map_or(agents.clone(), |have| have.and(&agents)));
        self
    }

    /// The commands that sessions take; [`Commands::built_in`] by default. Commands of a second call are added to those of the
    /// first, as [`Commands::with`] does it.
    #[must_use]
    pub fn commands(mut self, commands: Commands) -> Builder {
        let all = |have: Commands| have.with(commands.list().map(|command| (**command).clone()));
        self.commands = Some(self.commands.map_or(commands.clone(), all));
        self
    }
}

impl Runtime {
    /// The agents that sessions and tasks may be given, as they are now.
    #[must_use]
    pub fn agents(&self) -> Agents {
        self.inner.shared.agents.lock().clone()
    }

    /// Swaps the agents. A session keeps what its agent set until an agent is chosen again: that is on its tape. A value that
    /// [`Runtime::agents`] returned before does not change, and the description of the tool `task` names the agents of the start.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, model::Scripted, runtime::{Agent, Agents}};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// let runtime = Runtime::builder().in_memory().model(Arc::new(Scripted::new([]))).start().await?;
    /// let before = runtime.agents();
    /// runtime.set_agents(before.with(Agent::new("docs", "Writes documentation."))?);
    /// assert!(runtime.agents().get("docs").is_some() && before.get("docs").is_none());
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn set_agents(&self, agents: Agents) {
        *self.inner.shared.agents.lock() = agents;
    }

    /// The tools that the host gave, as they are now; without those of [`Builder::with_tasks`].
    #[must_use]
    pub fn tools(&self) -> Toolbox {
        self.inner.shared.tools.now().of_host.clone()
    }

    /// Swaps the tools of all sessions. A session takes them with its next model request, and one that sleeps when it wakes: its tape
    /// gets their hash and size, and a replay needs none of them. Nothing is told to a session before, so a swap costs the set itself
    /// and no session.
    ///
    /// - A set that models are told of in the same words changes no request: neither a tape nor a provider's prompt cache sees it.
    /// - A running call runs on. A call that has not started, because it waits for another one or for a person, runs the tool that was
    ///   asked what it wants; if no tool has its name any more, it gets an error result.
    /// - The tools of [`Builder::with_tasks`] stay. So do the rules, and the names or patterns that a session's options give: a new
    ///   tool is offered to the sessions that have it by these. A child that was given tools by patterns has those that there were.
    /// - Restores and running calls share the locks of the file tools: keep the file tools of the present set, or both may write a
    ///   file at once.
    ///
    /// Where several owners change the set, [`Runtime::change_tools`] loses no change.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, model::Scripted, tool::{self, NoArguments, Toolbox}};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// let tool = |name: &str| tool::typed(name, "Says hello.", |_: NoArguments, _| async { "Hello." });
    /// let runtime = Runtime::builder().in_memory().model(Arc::new(Scripted::new([]))).tool(tool("greet")).start().await?;
    /// runtime.change_tools(|now| now.with(tool("wave")))?;
    /// assert_eq!(runtime.tools().names().collect::<Vec<_>>(), ["greet", "wave"]);
    /// runtime.set_tools(Toolbox::default())?;
    /// assert_eq!(runtime.tools().names().count(), 0);
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`StartError::Tools`] if models cannot be shown these tools; then the runtime keeps those that it has.
    pub fn set_tools(&self, tools: Toolbox) -> Result<(), StartError> {
        self.change_tools(|_| tools.clone())
    }

    /// Swaps the tools as [`Runtime::set_tools`], for what `change` makes of the present ones. If another swap comes between,
    /// `change` is called again with what that one left.
    ///
    /// # Errors
    /// As [`Runtime::set_tools`].
    pub fn change_tools(&self, change: impl FnMut(&Toolbox) -> Toolbox) -> Result<(), StartError> {
        self.inner.shared.tools.change(change).map_err(StartError::Tools)
    }

    /// The rules of the host, as they are now; `None` if it has none.
    #[must_use]
    pub fn rules(&self) -> Option<Ruleset> {
        self.inner.shared.host_rules().as_deref().cloned()
    }

    /// Swaps the rules of the host ([`Builder::rules`]); `None` takes them away. Each session writes them on its tape before the next
    /// thing that it decides, and judges by them from then on; one that sleeps, when it wakes.
    ///
    /// A call that was let run runs on. A call that waits, also for a person, is judged by the new rules when its turn comes: a yes
    /// to what they deny runs nothing. Tools that they deny in full are left out of the next request.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, model::Scripted, permission::{Action, Rule, Ruleset}};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// let runtime = Runtime::builder().in_memory().model(Arc::new(Scripted::new([]))).start().await?;
    /// runtime.set_rules(Some(Ruleset::new("incident", [Rule::new("bash", "*", Action::Deny)])));
    /// assert_eq!(runtime.rules().map(|rules| rules.name).as_deref(), Some("incident"));
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn set_rules(&self, rules: Option<Ruleset>) {
        let rules = rules.map(|rules| Arc::new(rules.of_host()));
        *self.inner.shared.rules.lock() = rules;
    }

    /// Swaps the commands. A line that a session has begun to carry out is carried out by the commands that there were.
    pub fn set_commands(&self, commands: Commands) {
        *self.inner.shared.commands.lock() = commands;
    }
}

impl Session {
    /// The agents of the session's runtime, as they are now: what [`Session::switch_agent`] and a task may choose from.
    #[must_use]
    pub fn agents(&self) -> Agents {
        self.shared.agents.lock().clone()
    }
}
