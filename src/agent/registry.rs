//! The agents that there are: an immutable snapshot, made once and read by all.
//!
//! A runtime holds one [`Agents`] ([`Builder::agents`](crate::runtime::Builder::agents)). To change it, a host makes another one and
//! swaps the two. A session has what its agent set on its tape, so a swap changes nothing in a session: it counts for the next
//! choice of an agent.

use std::{collections::BTreeMap, sync::Arc};

use crate::agent::{Agent, AgentMode, BadAgent};

/// The agents of a runtime. A clone is the same snapshot, and costs a counter.
///
/// ```
/// use tamtam::runtime::{Agent, Agents};
///
/// let agents = Agents::built_in().with(Agent::new("docs", "Writes documentation."))?;
/// let names = |agents: Vec<&str>| agents.join(" ");
/// assert_eq!(names(agents.list().map(|agent| agent.name.as_str()).collect()), "build docs explore general plan");
/// assert_eq!(names(agents.subagents().map(|agent| agent.name.as_str()).collect()), "docs explore general");
/// assert_eq!(agents.default_agent().name, "build");
/// # Ok::<(), tamtam::runtime::BadAgent>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Agents {
    by_name: Arc<BTreeMap<String, Arc<Agent>>>,
    /// Always in `by_name`.
    default: Arc<Agent>,
}

impl Default for Agents {
    fn default() -> Agents {
        Agents::built_in()
    }
}

impl Agents {
    /// The agents that the runtime brings along, and no others.
    #[must_use]
    pub fn built_in() -> Agents {
        let by_name = Agent::built_in().into_iter().map(|agent| (agent.name.clone(), Arc::new(agent))).collect();
        Agents { by_name: Arc::new(by_name), default: Arc::new(Agent::build()) }
    }

    /// These and one more, which takes the place of one with the same name. `self` stays as it is.
    ///
    /// # Errors
    /// [`BadAgent`] where the agent cannot be used.
    pub fn with(&self, agent: Agent) -> Result<Agents, BadAgent> {
        agent.check()?;
        let agent = Arc::new(agent);
        let mut by_name = (*self.by_name).clone();
        by_name.insert(agent.name.clone(), agent.clone());
        let default = if agent.name == self.default.name { agent } else { self.default.clone() };
        Ok(Agents { by_name: Arc::new(by_name), default })
    }

    /// The agent of this name, also a hidden one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Agent>> {
        self.by_name.get(name)
    }

    /// The agents that a person may see: all but the [hidden](Agent::hidden) ones. The default one comes first, the others by name.
    pub fn list(&self) -> impl Iterator<Item = &Arc<Agent>> {
        let others = self.by_name.values().filter(|agent| agent.name != self.default.name);
        std::iter::once(&self.default).chain(others).filter(|agent| !agent.hidden)
    }

    /// Those of the list that a session may work as.
    pub fn primaries(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.list().filter(|agent| agent.mode != AgentMode::Subagent)
    }

    /// Those of the list that a task may be given to.
    pub fn subagents(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.list().filter(|agent| agent.mode != AgentMode::Primary)
    }

    /// The agent of a session where nobody named one.
    #[must_use]
    pub fn default_agent(&self) -> &Arc<Agent> {
        &self.default
    }

    /// The agent of this name that a session may work as.
    ///
    /// # Errors
    /// [`BadAgent::Unknown`] lists those that there are.
    ///
    /// ```
    /// use tamtam::runtime::Agents;
    /// let agents = Agents::built_in();
    /// assert_eq!(agents.primary("plan")?.name, "plan");
    /// assert_eq!(agents.primary("plam").unwrap_err().to_string(), "there is no agent \"plam\": choose build or plan");
    /// # Ok::<(), tamtam::runtime::BadAgent>(())
    /// ```
    pub fn primary(&self, name: &str) -> Result<&Arc<Agent>, BadAgent> {
        named(self.primaries(), name)
    }

    /// The agent of this name that a task may be given to.
    ///
    /// # Errors
    /// [`BadAgent::Unknown`] lists those that there are.
    pub fn subagent(&self, name: &str) -> Result<&Arc<Agent>, BadAgent> {
        named(self.subagents(), name)
    }
}

fn named<'a>(mut agents: impl Iterator<Item = &'a Arc<Agent>>, name: &str) -> Result<&'a Arc<Agent>, BadAgent> {
    let mut known = Vec::new();
    agents
        .find(|agent| {
            known.push(agent.name.as_str());
            agent.name == name
        })
        .ok_or_else(|| BadAgent::Unknown { given: name.to_owned(), known: known.join(" or ") })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn names<'a>(agents: impl Iterator<Item = &'a Arc<Agent>>) -> String {
        agents.map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// M-03, C-29: hidden is a mark of its own, and not a third mode.
    #[test]
    fn each_built_in_agent_has_its_mode() {
        let agents = Agents::built_in();
        for (name, mode, hidden) in [
            ("build", AgentMode::Primary, false),
            ("plan", AgentMode::Primary, false),
            ("general", AgentMode::Subagent, false),
            ("explore", AgentMode::Subagent, false),
            ("compaction", AgentMode::Primary, true),
            ("title", AgentMode::Primary, true),
            ("summary", AgentMode::Primary, true),
        ] {
            let agent = agents.get(name).unwrap();
            agent.check().unwrap();
            assert_eq!((agent.mode, agent.hidden), (mode, hidden), "{name}");
        }
        assert_eq!(agents.by_name.len(), 7);
    }

    /// M-07: who may be chosen, and for what.
    #[test]
    fn a_name_is_found_where_it_may_be_chosen() {
        let agents = Agents::built_in().with(Agent::new("all", "Does both.")).unwrap();
        assert_eq!(names(agents.list()), "build all explore general plan");
        for (name, primary, subagent) in [
            ("build", true, false),
            ("plan", true, false),
            ("all", true, true),
            ("general", false, true),
            ("explore", false, true),
            ("title", false, false),
            ("compaction", false, false),
            ("nobody", false, false),
            ("", false, false),
        ] {
            assert_eq!((agents.primary(name).is_ok(), agents.subagent(name).is_ok()), (primary, subagent), "{name}");
        }
        let refused = agents.subagent("build").unwrap_err().to_string();
        assert_eq!(refused, "there is no agent \"build\": choose all or explore or general");
    }

    /// M-06: a snapshot stays as it is, whatever is made from it.
    #[test]
    fn one_more_agent_leaves_the_snapshot_alone() {
        let before = Agents::built_in();
        let mut build = Agent::build();
        build.description = "Another one.".to_owned();
        let after = before.with(build).unwrap();
        assert_eq!(after.default_agent().description, "Another one.");
        assert_eq!((before, after.get("plan").is_some()), (Agents::built_in(), true));
        assert!(after.with(Agent::new("Bad name", "x")).is_err());
    }
}
