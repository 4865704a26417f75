//! The agents of a runtime, and how a host swaps them.

use crate::{
    agent::Agents,
    runtime::{Builder, Runtime},
    session::Session,
};

impl Builder {
    /// The agents that sessions and tasks may be given; [`Agents::built_in`] by default.
    #[must_use]
    pub fn agents(mut self, agents: Agents) -> Builder {
        self.agents = agents;
        self
    }
}

impl Runtime {
    /// The agents that sessions and tasks may be given, as they are now.
    #[must_use]
    pub fn agents(&self) -> Agents {
        self.inner.shared.agents.lock().clone()
    }

    /// Swaps the agents. A session keeps what its agent set until an agent is chosen again: that stands on its tape. Who has asked
    /// for the agents before keeps that snapshot.
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
}

impl Session {
    /// The agents of the session's runtime, as they are now: what [`Session::switch_agent`] and a task may choose from.
    #[must_use]
    pub fn agents(&self) -> Agents {
        self.shared.agents.lock().clone()
    }
}
