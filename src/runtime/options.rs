//! The options of a new session, and how they become its settings.
//!
//! A host sets [`SessionOptions`]; [`Defaults`] and, for a child, the parent's settings fill in what the options leave out. Except
//! for [`canonical`], which looks the workspace up on the disk, all of it is a function of values: nothing here reads a clock.
//!
//! A change must keep this: agent rules come before the session's rules, so that these cannot allow what the agent's rules deny,
//! and the host's rules are never part of the options.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use crate::{
    agent::{Agent, BadAgent},
    error::OpenError,
    kernel::{Budget, Fallback, Mode, Refusal, RestartPolicy, Settings},
    model::Params,
    permission::{Profile, Rule, Ruleset},
    prompt::{Section, assemble, system},
    tool::Toolbox,
    words::depth,
    words::ids::SessionId,
    words::labels::Labels,
    words::message::ModelRef,
    words::setters::setters,
};

/// The runtime's settings of sessions whose options are silent.
pub(super) struct Defaults {
    pub(super) model: ModelRef,
    pub(super) fallback: Vec<Fallback>,
    pub(super) task_limits: Option<(u32, usize)>,
}

impl Defaults {
    /// The settings of a new session. `said` is what the providers of the environment had to say; `None` if there are none.
    pub(super) fn of(&self, options: SessionOptions, workspace: &str, said: Option<&[Section]>) -> Settings {
        let mut settings = Settings::new(workspace, self.model.clone());
        settings.fallback.clone_from(&self.fallback);
        default_prompt(&mut settings, options.date.as_deref(), said);
        settings.rules = vec![Profile::default().ruleset()];
        if let Some((depth, width)) = self.task_limits {
            (settings.task_depth_max, settings.task_width_max) = (depth, width);
        }
        options.over(settings)
    }
}

/// Sets the default prompt: with sections if there is a provider of the environment, and else in one text.
pub(super) fn default_prompt(settings: &mut Settings, date: Option<&str>, said: Option<&[Section]>) {
    match said {
        Some(said) => assemble(settings, date, said),
        None => (settings.system, settings.sections) = (system(&settings.workspace, date).into(), Vec::new()),
    }
}

/// The options of a new session. Only the workspace is required.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Its id; a new one by default.
    pub id: Option<SessionId>,
    /// The folder that its tools work in, and leave only where the rules allow it.
    pub workspace: PathBuf,
    /// The model that answers; the runtime's default.
    pub model: Option<ModelRef>,
    /// The models that go on with a turn where that one fails, in this order. By default those of the runtime
    /// ([`Builder::fallback`](crate::runtime::Builder::fallback)) behind its model, and none behind another; a child without a model of
    /// its own has those of its parent.
    pub fallback: Vec<Fallback>,
    /// The title in lists; the first words of the first message by default.
    pub title: Option<String>,
    /// What the host says of the session, such as its tenant or its user; none by default. Lists and searches filter by labels. A
    /// child has these, and those of its parent that have other keys.
    pub labels: Labels,
    /// The agent's name, for people; `build` by default.
    pub agent: Option<String>,
    /// The prompt of its agent, instead of the default one. It is the whole system prompt, unless the runtime has providers of the
    /// environment ([`Builder::environment`](crate::runtime::Builder::environment)): their sections follow it.
    pub system: Option<String>,
    /// The date that the default system prompt names, such as `2026-11-21`; none by default, for the library asks no clock.
    pub date: Option<String>,
    /// The tools that the session offers to its model and may use, by names and patterns such as `mcp_files_*`; all of the
    /// runtime's tools by default.
    pub tools: Option<BTreeSet<String>>,
    /// Sampling and limits.
    pub params: Params,
    /// Model requests a turn may make; 50 by default, `None` for no limit.
    pub steps_max: Option<u32>,
    /// How waiting steering messages are delivered; together by default.
    pub steering_mode: Mode,
    /// How queued messages are delivered; one by one by default.
    pub queue_mode: Mode,
    /// How long an ask may stay unanswered; 10 minutes by default.
    pub ask_limit: Duration,
    /// Whether an ask stays open, until that limit, even while the session has no listener. By default such an ask is denied at
    /// once. A later listener finds the ask in [`Session::state`](crate::Session::state) and in
    /// [`Session::events_after`](crate::Session::events_after).
    pub asks_wait: bool,
    /// The rules of its agent; none by default. They come before `rules`, which may allow what the agent's rules ask about, and
    /// not what they deny.
    pub agent_rules: Option<Ruleset>,
    /// The permission rules of the session. With no rules here, none of an agent and none below: those of [`Profile::Strict`], and
    /// of a child the parent's.
    pub rules: Option<Ruleset>,
    /// Further layers of rules below `rules`, each less powerful than the one before it; none by default. Such a layer may allow
    /// what those above it ask about, and not what they deny.
    pub rules_below: Vec<Ruleset>,
    /// What people granted for longer than one session, such as for the project of the workspace; none by default, and of a child
    /// in its parent's folder what its parent has. It loosens asks and no deny ([`Settings::granted`]).
    pub granted: Vec<Rule>,
    /// What the session and its children may use together, and what happens at a breach; no limit by default. A child's limits are
    /// what its parent grants to it; if they are silent, the parent grants a share of what it has left.
    pub budget: Budget,
    /// How deep children may be below the top session; the runtime's limit, which is 1 by default.
    pub task_depth_max: Option<u32>,
    /// How many children of the session may work at the same time; the runtime's limit, which is 8 by default.
    pub task_width_max: Option<usize>,
    /// How many further tasks may wait until a child is down, in the order in which they were given; 0 by default, and a task
    /// without room is refused. At most 1,000 wait.
    pub task_queue_max: Option<usize>,
    /// How often the session is started again when it crashes: two times in 60 s by default, also for a child.
    pub restart: RestartPolicy,
    /// The tools of an agent: a name without a tool is not the host's mistake.
    pub(super) agent_tools: Option<BTreeSet<String>>,
    /// The built-in agent that the session begins with, instead of its own.
    pub(super) begins_as: Option<Agent>,
}

impl SessionOptions {
    /// The options that an agent describes, for a workspace. What the agent leaves out is as in [`SessionOptions::new`]. A session
    /// that begins as `plan` has `build` as its own agent, to which it goes back.
    ///
    /// # Errors
    /// [`BadAgent`] if the agent cannot be used.
    pub fn from_agent(agent: &Agent, workspace: impl Into<PathBuf>) -> Result<SessionOptions, BadAgent> {
        agent.check()?;
        let mut options = SessionOptions::new(workspace);
        if agent.is_mode() {
            options.begins_as = Some(agent.clone());
            return Ok(options);
        }
        options.agent = Some(agent.name.clone());
        options.system.clone_from(&agent.prompt);
        options.model.clone_from(&agent.model);
        options.fallback.clone_from(&agent.fallback);
        options.tools.clone_from(&agent.tools);
        options.agent_tools.clone_from(&agent.tools);
        options.agent_rules = agent.ruleset();
        options.params = agent.params();
        options.steps_max = agent.limits.steps_max.or(options.steps_max);
        Ok(options)
    }

    /// The defaults, for a workspace.
    #[must_use]
    pub fn new(workspace: impl Into<PathBuf>) -> SessionOptions {
        SessionOptions {
            id: None,
            workspace: workspace.into(),
            model: None,
            fallback: Vec::new(),
            title: None,
            labels: Labels::default(),
            agent: None,
            system: None,
            date: None,
            tools: None,
            params: Params::default(),
            steps_max: Some(50),
            steering_mode: Mode::All,
            queue_mode: Mode::One,
            ask_limit: Duration::from_secs(600),
            asks_wait: false,
            agent_rules: None,
            rules: None,
            rules_below: Vec::new(),
            granted: Vec::new(),
            budget: Budget::default(),
            task_depth_max: None,
            task_width_max: None,
            task_queue_max: None,
            restart: RestartPolicy::default(),
            agent_tools: None,
            begins_as: None,
        }
    }

    /// The settings that these options make of `settings`. An option that is `None` keeps what `settings` has, and so do options
    /// without any rule or grant; the title, the labels, the budget, the parameters, the step limit, the delivery modes, what holds
    /// for asks and the restart policy always come from the options.
    pub(super) fn over(self, settings: Settings) -> Settings {
        let choice = self.begins_as.as_ref().zip(self.id.as_ref());
        // It was checked when the options were made of it.
        let choice = choice.and_then(|(agent, id)| agent.for_session(id).ok());
        let rules: Vec<_> = [self.agent_rules, self.rules].into_iter().flatten().chain(self.rules_below).collect();
        let mut settings = Settings {
            title: self.title,
            labels: self.labels,
            agent: self.agent.unwrap_or(settings.agent),
            // A chain stands behind its model.
            fallback: match self.fallback.is_empty() && self.model.is_none() {
                true => settings.fallback,
                false => self.fallback,
            },
            model: self.model.unwrap_or(settings.model),
            tools: self.tools.or(settings.tools),
            rules: if rules.is_empty() { settings.rules } else { rules },
            granted: if self.granted.is_empty() { settings.granted } else { self.granted },
            budget: self.budget,
            params: self.params,
            steps_max: self.steps_max,
            steering_mode: self.steering_mode,
            queue_mode: self.queue_mode,
            asks_wait: self.asks_wait,
            ask_limit_ms: u64::try_from(self.ask_limit.as_millis()).unwrap_or(u64::MAX),
            task_depth_max: self.task_depth_max.unwrap_or(settings.task_depth_max),
            task_width_max: self.task_width_max.unwrap_or(settings.task_width_max),
            task_queue_max: self.task_queue_max.unwrap_or(settings.task_queue_max),
            restart: self.restart,
            ..settings
        };
        if let Some(system) = self.system {
            let agent = settings.agent.clone();
            settings.set_persona(&agent, &system.into());
        }
        choice.map_or(settings.clone(), |choice| settings.with_agent(&choice))
    }

    /// Refuses options of requests that are too deep to be copied, and leaves none of them.
    pub(super) fn bound(&mut self) -> Result<(), OpenError> {
        let (what, max) = ("the options of requests", depth::VALUE_DEPTH_MAX);
        depth::bound(&mut self.params.options).map_err(|_| Refusal::Nested { what, max }.into())
    }

    /// Sets the rules to those of a profile.
    #[must_use]
    pub fn profile(self, profile: Profile) -> SessionOptions {
        self.rules(profile.ruleset())
    }

    setters! {
        /// Sets the session's [id](#structfield.id).
        id: SessionId = Some(id);
        /// Sets its [model](#structfield.model).
        model: ModelRef = Some(model);
        /// Sets the [models behind it](#structfield.fallback).
        fallback: Vec<Fallback>;
        /// Sets its [title](#structfield.title).
        title: impl Into<String> = Some(title.into());
        /// Sets its [labels](#structfield.labels).
        labels: Labels;
        /// Sets the [name of its agent](#structfield.agent).
        agent: impl Into<String> = Some(agent.into());
        /// Sets the [system prompt](#structfield.system).
        system: impl Into<String> = Some(system.into());
        /// Sets the [date](#structfield.date) that its prompt names.
        date: impl Into<String> = Some(date.into());
        /// Limits it to [these tools](#structfield.tools).
        tools: impl IntoIterator<Item = impl Into<String>> = Some(tools.into_iter().map(Into::into).collect());
        /// Sets the [parameters of its requests](#structfield.params).
        params: Params;
        /// Sets the [limit of steps](#structfield.steps_max) of a turn.
        steps_max: u32 = Some(steps_max);
        /// Sets how [steering messages](#structfield.steering_mode) are taken.
        steering_mode: Mode;
        /// Sets how [queued messages](#structfield.queue_mode) are taken.
        queue_mode: Mode;
        /// Sets [how long an ask waits](#structfield.ask_limit).
        ask_limit: Duration;
        /// Sets whether [asks wait](#structfield.asks_wait) while nobody listens.
        asks_wait: bool;
        /// Sets the [rules of its agent](#structfield.agent_rules).
        agent_rules: Ruleset = Some(agent_rules);
        /// Sets its [rules](#structfield.rules).
        rules: Ruleset = Some(rules);
        /// Sets the [layers of rules below](#structfield.rules_below).
        rules_below: Vec<Ruleset>;
        /// Sets what people [granted](#structfield.granted).
        granted: Vec<Rule>;
        /// Sets its [budget](#structfield.budget).
        budget: Budget;
        /// Sets [how deep children may be](#structfield.task_depth_max).
        task_depth_max: u32 = Some(task_depth_max);
        /// Sets [how many children](#structfield.task_width_max) may work at the same time.
        task_width_max: usize = Some(task_width_max);
        /// Sets [how many tasks may wait](#structfield.task_queue_max).
        task_queue_max: usize = Some(task_queue_max);
        /// Sets [how often it is started again](#structfield.restart).
        restart: RestartPolicy;
    }
}

/// Refuses options that name tools that the runtime does not have.
pub(super) fn known_tools(toolbox: &Toolbox, options: &SessionOptions) -> Result<(), OpenError> {
    let of_agent = |tool: &&String| options.agent_tools.as_ref().is_some_and(|tools| tools.contains(*tool));
    match toolbox.unknown_among(options.tools.iter().flatten().filter(|tool| !of_agent(tool))) {
        Some((unknown, known)) => Err(OpenError::UnknownTools { unknown, known }),
        None => Ok(()),
    }
}

/// The folder by its whole path, as on the tape.
pub(super) async fn canonical(path: &std::path::Path) -> Result<String, OpenError> {
    let error = match tokio::fs::canonicalize(path).await {
        Ok(found) if found.is_dir() => return Ok(found.display().to_string()),
        Ok(_) => std::io::ErrorKind::NotADirectory.into(),
        Err(error) => error,
    };
    Err(OpenError::Workspace { path: path.display().to_string(), source: Arc::new(error) })
}
