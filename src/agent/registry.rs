//! The agents that there are ([`Agents`]): an immutable snapshot, made of the runtime's own agents and of what a configuration
//! says.
//!
//! A runtime holds one snapshot ([`Builder::agents`](crate::runtime::Builder::agents)). To change it, a host makes another one and
//! swaps the two. What an agent set in a session is on the session's tape, so a swap does not change it; the new snapshot counts
//! for what is looked up later, such as the next choice of an agent or the agent `compaction` of the next summary.
//!
//! Each agent that a text or a host adds or changes has been checked. The default agent is always in the snapshot, shown in
//! lists, and usable by a session. A change must keep both: a session that names no agent takes the default one as it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use crate::{
    agent::{Agent, AgentMode, AgentSpec, BadAgent, ToolChoice},
    kernel::toolset,
    permission::Rule,
    words::depth,
};

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
    /// The agent of a session that names none; always in `by_name`, shown, and not for tasks only.
    default: Arc<Agent>,
}

/// The agents, and what of the configuration is not used: the file it is from, and why.
type Built = Result<(Agents, Vec<(Option<PathBuf>, BadAgent)>), BadAgent>;

impl Default for Agents {
    fn default() -> Agents {
        Agents::built_in()
    }
}

/// What a host's configuration says about agents.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AgentsConfig {
    /// Tools that are on or off for every agent that does not say otherwise.
    pub tools: BTreeMap<String, bool>,
    /// Rules before those of every agent, which may loosen them: the last rule that matches counts.
    pub permission: Vec<Rule>,
    /// The agent of sessions that name none.
    pub default_agent: Option<String>,
    /// The settings of single agents, each with its name and its file. Of two about the same agent, the later one changes what the
    /// earlier one has made.
    pub agents: Vec<(String, AgentSpec, Option<PathBuf>)>,
}

impl Agents {
    /// The agents that the runtime brings along, and no others.
    #[must_use]
    pub fn built_in() -> Agents {
        let by_name = Agent::built_in().into_iter().map(|agent| (agent.name.clone(), Arc::new(agent))).collect();
        Agents { by_name: Arc::new(by_name), default: Arc::new(Agent::build()) }
    }

    /// The agents that the runtime brings along, with what a configuration says of them and of others, in this order: what holds
    /// for all; then what is said of each, in the order of the configuration; then those that are disabled go; then the default one
    /// is chosen. Beside the agents comes what could not be used, each with its file and the reason: it is as if that were not
    /// said.
    ///
    /// The default agent is the one that the configuration names, else the last one that calls itself the default, else `build`.
    /// If that agent is hidden or for tasks only, it is `build`, and if `build` cannot be it, the first by name that a session may
    /// work as.
    ///
    /// ```
    /// use tamtam::runtime::{Agents, AgentsConfig};
    ///
    /// let mut config = AgentsConfig::default();
    /// let spec = serde_json::from_str(r#"{"mode": "primary", "description": "Reads code.", "tools": ["read"], "maxSteps": 9}"#)?;
    /// config.agents.push(("review".to_owned(), spec, None));
    /// config.agents.push(("plan".to_owned(), serde_json::from_str(r#"{"disable": true}"#)?, None));
    /// let (agents, wrong) = Agents::build(&config)?;
    /// assert_eq!((agents.get("review").unwrap().limits.steps_max, wrong.len()), (Some(9), 0));
    /// assert!(agents.get("plan").is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BadAgent::NoPrimary`] if no agent is left that a session may work as; [`BadAgent::Unknown`] if the default one, which the
    /// configuration names or which called itself that, is not there.
    pub fn build(config: &AgentsConfig) -> Built {
        let mut by_name: BTreeMap<String, Agent> =
            Agent::built_in().map(|agent| (agent.name.clone(), config.for_all(agent))).into();
        let (mut wrong, mut disabled, mut wanted) = (Vec::new(), BTreeSet::new(), config.default_agent.clone());
        for (name, spec, source) in &config.agents {
            let base = by_name.get(name).cloned().unwrap_or_else(|| config.for_all(Agent::new(name, "")));
            let mut agent = Agent { source: source.clone().or(base.source.clone()), ..base };
            // What is too deep must not be copied either.
            let too_deep = !depth::is_within(&spec.options, depth::VALUE_DEPTH_MAX);
            if too_deep {
                let problem = format!("is {}", depth::TooDeep);
                wrong.push((source.clone(), BadAgent::Field { name: name.clone(), field: "options", problem }));
                continue;
            }
            agent.change(spec);
            match spec.disable {
                Some(true) => disabled.insert(name.clone()),
                _ => disabled.remove(name),
            };
            if disabled.contains(name) {
                continue;
            }
            if let Err(bad) = agent.check() {
                wrong.push((source.clone(), bad));
                continue;
            }
            if spec.default == Some(true) && config.default_agent.is_none() {
                wanted = Some(name.clone());
            }
            by_name.insert(name.clone(), agent);
        }
        by_name.retain(|name, _| !disabled.contains(name));
        let by_name = by_name.into_iter().map(|(name, agent)| (name, Arc::new(agent))).collect();
        let default = default_of(&by_name, wanted.as_deref())?;
        Ok((Agents { by_name: Arc::new(by_name), default }, wrong))
    }

    /// These and one more, which replaces one with the same name. `self` is unchanged.
    ///
    /// # Errors
    /// [`BadAgent`] if the agent cannot be used.
    pub fn with(&self, mut agent: Agent) -> Result<Agents, BadAgent> {
        let checked = agent.check();
        // Options that are too deep must not be dropped with the agent.
        let _ = depth::bound(&mut agent.options);
        checked?;
        let mut by_name = (*self.by_name).clone();
        by_name.insert(agent.name.clone(), Arc::new(agent));
        let default = default_of(&by_name, Some(&self.default.name))?;
        Ok(Agents { by_name: Arc::new(by_name), default })
    }

    /// Both sets; of two agents with the same name, and of the two defaults, that of `more` wins.
    pub(crate) fn and(&self, more: &Agents) -> Agents {
        let by_name = self.by_name.iter().chain(&*more.by_name).map(|(name, agent)| (name.clone(), agent.clone()));
        Agents { by_name: Arc::new(by_name.collect()), default: more.default.clone() }
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

    /// The agent of a session that names none.
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
        self.primary_among(name, |_| true)
    }

    /// As [`Agents::primary`]; the error lists only those that `is_told` says.
    pub(crate) fn primary_among(&self, name: &str, is_told: impl Fn(&str) -> bool) -> Result<&Arc<Agent>, BadAgent> {
        named(self.primaries(), name, is_told)
    }

    /// The agent of this name that a task may be given to.
    ///
    /// # Errors
    /// [`BadAgent::Unknown`] lists those that there are.
    pub fn subagent(&self, name: &str) -> Result<&Arc<Agent>, BadAgent> {
        self.subagent_among(name, |_| true)
    }

    /// As [`Agents::subagent`]; the error lists only those that `is_told` says.
    pub(crate) fn subagent_among(&self, name: &str, is_told: impl Fn(&str) -> bool) -> Result<&Arc<Agent>, BadAgent> {
        named(self.subagents(), name, is_told)
    }
}

impl AgentsConfig {
    /// The agent with what holds for all agents under what it says itself. A hidden agent stays as it is.
    fn for_all(&self, mut agent: Agent) -> Agent {
        // Writers of titles and summaries have nothing that could be switched.
        if agent.hidden {
            return agent;
        }
        if !self.tools.is_empty() {
            let tools = ToolChoice::Map(self.tools.clone()).over(None);
            agent.tools = match (agent.tools, tools) {
                (Some(own), Some(all)) => Some(toolset::both(Some(&own), &all)),
                (own, all) => own.or(all),
            };
        }
        let own = std::mem::replace(&mut agent.permission, self.permission.clone());
        agent.permission.extend(own);
        agent
    }
}

/// The default agent, as [`Agents::build`] says it (M-05).
fn default_of(by_name: &BTreeMap<String, Arc<Agent>>, wanted: Option<&str>) -> Result<Arc<Agent>, BadAgent> {
    let is_usable = |agent: &&Arc<Agent>| !agent.hidden && agent.mode != AgentMode::Subagent;
    if let Some(given) = wanted.filter(|name| !by_name.contains_key(*name)) {
        let known: Vec<_> = by_name.values().filter(is_usable).map(|agent| agent.name.as_str()).collect();
        return Err(BadAgent::Unknown { given: given.to_owned(), known: known.join(" or ") });
    }
    let named = wanted.into_iter().chain(["build"]).filter_map(|name| by_name.get(name));
    named.chain(by_name.values()).find(is_usable).cloned().ok_or(BadAgent::NoPrimary)
}

fn named<'a>(
    mut agents: impl Iterator<Item = &'a Arc<Agent>>,
    name: &str,
    is_told: impl Fn(&str) -> bool,
) -> Result<&'a Arc<Agent>, BadAgent> {
    let mut known = Vec::new();
    agents
        .find(|agent| {
            known.extend(Some(agent.name.as_str()).filter(|name| is_told(name)));
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

    /// M-03, M-10, C-29: hidden is a separate mark, and not a third mode.
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

    /// M-06: a snapshot never changes, even if another is made from it.
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

    fn build(default: Option<&str>, said: &[(&str, &str)]) -> Built {
        let spec = |text: &str| serde_json::from_str(text).unwrap();
        let agents = said.iter().map(|(name, text)| ((*name).to_owned(), spec(text), None)).collect();
        Agents::build(&AgentsConfig { default_agent: default.map(str::to_owned), agents, ..AgentsConfig::default() })
    }

    /// M-04, M-05: what is said of agents, and which of them is then the default one.
    #[test]
    fn the_default_agent_is_one_that_a_session_may_work_as() {
        let new = r#"{"description":"x"}"#;
        for (default, said, expected) in [
            (None, [].as_slice(), "build"),
            (Some("plan"), &[], "plan"),
            (Some("explore"), &[], "build"),
            (Some("title"), &[], "build"),
            (Some("mine"), &[("mine", new)], "mine"),
            (None, &[("mine", r#"{"description":"x","default":true}"#)], "mine"),
            (Some("plan"), &[("mine", r#"{"description":"x","default":true}"#)], "plan"),
            (None, &[("mine", r#"{"description":"x","default":true,"mode":"subagent"}"#)], "build"),
            (None, &[("build", r#"{"disable":true}"#)], "plan"),
            (None, &[("build", r#"{"disable":true}"#), ("a", new)], "a"),
            (None, &[("build", r#"{"disable":true}"#), ("build", r#"{"steps":3}"#)], "build"),
            (None, &[("build", r#"{"mode":"subagent"}"#)], "plan"),
            (Some("nobody"), &[], "there is no agent \"nobody\": choose build or plan"),
            (Some("mine"), &[("mine", r#"{"description":"x","disable":true}"#)], "there is no agent \"mine\""),
            (None, &[("build", r#"{"disable":true}"#), ("plan", r#"{"hidden":true}"#)], "no agent is left"),
        ] {
            let is = match build(default, said) {
                Ok((agents, wrong)) => {
                    assert!(wrong.is_empty(), "{said:?}: {wrong:?}");
                    agents.default_agent().name.clone()
                }
                Err(bad) => bad.to_string(),
            };
            assert!(is.starts_with(expected), "{default:?} {said:?}: {is}");
        }
    }

    /// C-12, M-01, M-04: a change keeps what it does not name, and adds no rights: what else the runtime's own agents have stays
    /// theirs.
    #[test]
    fn what_is_said_of_an_agent_changes_only_that() {
        let said = [
            ("plan", r#"{"model":"openai/o","permission":[{"permission":"edit","pattern":"**","action":"allow"}]}"#),
            ("plan", r#"{"maxSteps":9,"tools":{"bash":false}}"#),
            ("explore", r#"{"tools":{"bash":true}}"#),
            ("broken", r#"{"description":"x","temperature":7}"#),
            ("explore", r#"{"top_p":3}"#),
        ];
        let (agents, wrong) = build(None, &said).unwrap();
        let plan = agents.get("plan").unwrap();
        assert_eq!((plan.limits.steps_max, plan.description.clone()), (Some(9), Agent::plan().description));
        assert_eq!(plan.last_rules, Agent::plan().last_rules);
        assert_eq!((plan.permission.len(), plan.native), (1, true));
        assert_eq!(plan.tools, Some(["*".to_owned(), "!bash".to_owned()].into()));
        assert!(agents.get("explore").unwrap().tools.as_ref().unwrap().contains("bash"));
        assert_eq!(agents.get("explore").unwrap().top_p, None);
        assert!(agents.get("broken").is_none());
        let wrong: Vec<_> = wrong.iter().map(|(_, bad)| bad.to_string()).collect();
        assert_eq!(
            wrong,
            [
                "agent \"broken\": temperature is not a number from 0 to 2",
                "agent \"explore\": top_p is not a number from 0 to 1",
            ]
        );
    }

    /// E-07, M-04: an agent's own settings win over those for all; the writers of titles and summaries are left alone.
    #[test]
    fn what_holds_for_all_agents_is_under_each() {
        let deny = Rule::new("bash", "*", crate::permission::Action::Deny);
        let spec: AgentSpec = serde_json::from_str(
            r#"{"description":"x","tools":{"bash":true},"permission":[{"permission":"bash","pattern":"ls","action":"allow"}]}"#,
        ).unwrap();
        let config = AgentsConfig {
            tools: [("bash".to_owned(), false), ("web".to_owned(), true)].into(),
            permission: vec![deny.clone()],
            agents: vec![("mine".to_owned(), spec, None)],
            ..AgentsConfig::default()
        };
        let (agents, _) = Agents::build(&config).unwrap();
        let has = |name: &str, tool: &str| toolset::has(agents.get(name).unwrap().tools.as_ref(), tool);
        for (name, bash, web, read) in [
            ("build", false, true, true),
            ("mine", true, true, true),
            ("explore", false, false, true),
            ("title", false, false, false),
        ] {
            assert_eq!((has(name, "bash"), has(name, "web"), has(name, "read")), (bash, web, read), "{name}");
        }
        assert_eq!(agents.get("mine").unwrap().permission[0], deny);
        assert_eq!(agents.get("mine").unwrap().permission.len(), 2);
        assert_eq!(agents.get("title").unwrap(), &Arc::new(Agent::title()));
    }
}
