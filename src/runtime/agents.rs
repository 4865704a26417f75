//! The agents and commands of a runtime, and how a host swaps them. An agent is a persona, tools, rules and limits as data; a
//! command is what a person types as a line that begins with `/`.
//!
//! Each set is one value that is swapped whole, so a reader has the old one or the new one. A swap affects every later look-up of
//! an agent or command: a choice of an agent, a task, a line, a written summary or title. It does not affect a session's
//! settings, which are on its tape, a line that already runs, or the list of agents in the description of the tool `task`. A
//! change must not let a swap change the settings of a session: a session must not work by other rules than its tape says.

use crate::{
    agent::{Agents, Commands},
    runtime::{Builder, Runtime},
    session::Session,
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
