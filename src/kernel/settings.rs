//! The settings of a session: values such as its model, tools, rules and limits, which its decisions follow until they are changed.
//! They are kept on its tape.
//!
//! [`Settings`] is a stored format, in entries of kind `settings` and in every anchor: do not rename or retype a field, and give
//! each new field a serde default. Nothing here reads a file or an environment variable.
//!
//! A change must keep two bounds of a session's rights. First, no change of settings may reach `host` (the rules of the host) and
//! `above` (those of the ancestors); `turn/switch.rs` puts them back. Second, [`Settings::judge`] must stay the strictest decision
//! of all chains of rules: the session's own and those of its ancestors, each below the host's rules.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{AgentParts, Budget, Fallback, turn::toolset},
    model::Params,
    permission::{
        Action, Chain, Globs, Judgement, Profile, Rule, RuleVerdict, Ruleset, decide, denies_all, restricts_reads,
    },
    tool::Access,
    words::{is_default, labels::Labels, message::ModelRef, sandbox::SandboxTerms},
};

/// How waiting messages are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// One at a time.
    One,
    /// All that wait, together.
    All,
}

/// How often a session that crashes is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RestartPolicy {
    /// As the runtime's sessions are: two restarts in 60 s; the third crash parks it.
    #[default]
    Session,
    /// Once, each time it is awake; the second crash parks it, however much later.
    Once,
    /// Not at all: the first crash parks it.
    Never,
}

/// How a session keeps its context within its model's window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CompactionSettings {
    /// Whether the session prunes and compacts by itself when the context is too full; on by default.
    pub auto: bool,
    /// The model that writes summaries; the session's own by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Tokens of the window that are kept free. By default the larger of 16,384 and the model's output, at most half of the
    /// window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve: Option<u64>,
    /// Tokens at the end of the conversation that a compaction leaves as they are. By default 20,000, or half of what a request
    /// may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<u64>,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        CompactionSettings { auto: true, model: None, reserve: None, keep: None }
    }
}

/// The settings of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// The folder that the session's tools work in.
    pub workspace: String,
    /// Folders outside the workspace that the tools may read: the session's own large outputs, and those of its fork parent and of
    /// merged forks.
    pub read_roots: Vec<String>,
    /// The model that answers.
    pub model: ModelRef,
    /// The models that go on with a turn where this one fails, in this order; see [`Fallback`]. None by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<Fallback>,
    /// The title of the session in lists; `None` for the first words of its first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the host says of the session, such as its tenant or its user. Lists and searches filter by labels; nothing else reads
    /// them.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The agent's name, for people.
    pub agent: String,
    /// The agent in force, where it is not the session's own. Only [`Session::switch_agent`](crate::Session::switch_agent) and the
    /// tools of plan mode change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched: Option<Arc<Switched>>,
    /// The system prompt, whole. It should not change within a session, so that provider caches hit.
    pub system: Arc<str>,
    /// The sections that the system prompt was assembled from, by their sizes; see [`Settings::sections`]. Empty for a prompt that
    /// was given whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sections: Vec<PromptSection>,
    /// The tools that the model is told of and may use, by names and patterns such as `mcp_files_*`; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<String>>,
    /// Sampling and limits.
    pub params: Params,
    /// Model requests a turn may make, retries not counted; `None` for no limit. 50 by default.
    pub steps_max: Option<u32>,
    /// How waiting steering messages are delivered; together by default.
    pub steering_mode: Mode,
    /// How queued messages are delivered; one by one by default.
    pub queue_mode: Mode,
    /// Calls that may run at the same time; 8 by default.
    pub parallel_max: usize,
    /// How long an ask may stay unanswered, in milliseconds; 10 minutes by default.
    pub ask_limit_ms: u64,
    /// Whether an ask stays open, until its limit, also while nobody listens who could answer it. By default it is denied at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asks_wait: bool,
    /// Retries of one request, at most; 3 by default.
    pub retries_max: u32,
    /// The session's own rules of permission, from the most to the least powerful layer.
    pub rules: Vec<Ruleset>,
    /// What people granted for longer than this session, such as for its project. It loosens asks as the session's own standing
    /// grants do, and no deny. The host keeps these rules, and gives them to each session that they are for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<Rule>,
    /// The rules of the host that has the session now, above all others. Only the core writes them, from `Env`; no change of
    /// settings reaches them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Ruleset>,
    /// What the session's commands are confined to: that of the toolbox that it was created with, and of a child at least its
    /// parent's. `None` where there was no sandbox. A tool with a weaker one refuses the session's calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Arc<SandboxTerms>>,
    /// How the context is kept within the model's window.
    pub compaction: CompactionSettings,
    /// The limits of the session and of each turn, and what happens at a breach. No limit by default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// The rules and tools of a child's ancestors, one chain for each. The child may do nothing that one of the chains does not
    /// allow, whatever its own rules say. Set when the child is made or adopted; no change of settings reaches them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<Chain>,
    /// The most levels of children below the topmost session. 1 by default: a child has no children of its own.
    pub task_depth_max: u32,
    /// How many children may work at the same time; 8 by default. A lower number stops no child that works already.
    pub task_width_max: usize,
    /// How many further tasks may wait until a child is down; 0 by default: a task for which there is no room is refused. At most
    /// 1,000 wait, whatever this says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub task_queue_max: usize,
    /// How often the session is started again when it crashes. A change counts from its next activation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart: RestartPolicy,
    /// Whether a turn that was cut off by a crash goes on by itself; on by default.
    pub auto_resume: bool,
}

impl Settings {
    /// Replaces the rules by those that a person chose. The rules of the agent in force stay in front: what an agent denies is not
    /// undone by a profile.
    pub fn choose_rules(&mut self, rules: impl IntoIterator<Item = Ruleset>) {
        let of_agent = self.rules.iter().take_while(|layer| layer.is_of_agent()).cloned();
        self.rules = of_agent.chain(rules).collect();
    }

    /// The defaults for a workspace and a model.
    #[must_use]
    pub fn new(workspace: impl Into<String>, model: ModelRef) -> Settings {
        Settings {
            workspace: workspace.into(),
            read_roots: Vec::new(),
            model,
            title: None,
            fallback: Vec::new(),
            labels: Labels::default(),
            agent: "build".to_owned(),
            switched: None,
            system: "".into(),
            sections: Vec::new(),
            tools: None,
            params: Params::default(),
            steps_max: Some(50),
            steering_mode: Mode::All,
            queue_mode: Mode::One,
            parallel_max: 8,
            ask_limit_ms: 600_000,
            asks_wait: false,
            retries_max: 3,
            rules: vec![Profile::default().ruleset()],
            granted: Vec::new(),
            host: None,
            sandbox: None,
            compaction: CompactionSettings::default(),
            budget: Budget::default(),
            above: Vec::new(),
            task_depth_max: 1,
            task_width_max: 8,
            task_queue_max: 0,
            restart: RestartPolicy::Session,
            auto_resume: true,
        }
    }

    /// The strictest decision about all that a call wants, by the session's rules and by each ancestor's, each below the host's
    /// rules.
    #[must_use]
    pub fn judge(&self, accesses: &[Access], globs: &Globs) -> Judgement {
        self.decide(accesses, globs).judgement
    }

    /// The same decision, with the access that it follows from.
    #[must_use]
    pub fn decide(&self, accesses: &[Access], globs: &Globs) -> RuleVerdict {
        let here = (self.workspace.as_str(), &self.read_roots[..]);
        let above = self.above.iter().map(|chain| chain.decide(self.host.as_ref(), here, accesses, globs));
        let own = decide(&self.host.iter().chain(self.layers()).collect::<Vec<_>>(), accesses, globs);
        // Of two equally strict decisions the session's own is named.
        above.rev().fold(own, |below, above| above.and(below))
    }

    /// Whether a rule in force denies reading some path, or asks about it.
    pub(crate) fn restricts_reads(&self, globs: &Globs) -> bool {
        let restricts = |layers: Vec<&Ruleset>| restricts_reads(&layers, globs);
        let host = || self.host.iter();
        restricts(host().chain(self.layers()).collect())
            || self.above.iter().any(|chain| restricts(host().chain(chain.layers()).collect()))
    }

    /// Whether a list of agents names this one to the session: not where its rules about `task` deny this agent and let others be. Rules
    /// that deny every task say nothing about agents.
    #[must_use]
    pub(crate) fn names_agent(&self, agent: &str, globs: &Globs) -> bool {
        let permission = ["task".to_owned()];
        self.masks(&permission) || !self.denies("task", agent, globs)
    }

    /// Whether the rules deny one access.
    pub(super) fn denies(&self, permission: &str, pattern: &str, globs: &Globs) -> bool {
        self.judge(&[Access::new(permission, pattern)], globs).action == Action::Deny
    }

    /// The chains of rules that no child may go beyond: one for each ancestor, and one for the session itself. The host's rules are
    /// not in them, because they stand above each session anyway.
    #[must_use]
    pub fn above_children(&self) -> Vec<Chain> {
        let own = Chain::new(&self.workspace, self.layers().cloned().collect()).with_tools(self.tools.clone());
        let own = (!self.above.contains(&own)).then_some(own);
        self.above.iter().cloned().chain(own).collect()
    }

    /// The tools that the model is told of and may use: the session's own, as far as each of its ancestors has them. `None` for
    /// all.
    #[must_use]
    pub(crate) fn allowed_tools(&self) -> Option<BTreeSet<String>> {
        let bounds = self.above.iter().filter_map(Chain::tools);
        bounds.fold(self.tools.clone(), |own, bound| Some(toolset::both(own.as_ref(), bound)))
    }

    /// Whether the session has this tool. The model is told of it unless the rules mask it or a message switched it off.
    #[must_use]
    pub fn has_tool(&self, name: &str) -> bool {
        toolset::has(self.allowed_tools().as_ref(), name)
    }

    /// Whether the rules deny every call of a tool with these permissions ([`Tool::permissions`](crate::tool::Tool::permissions)):
    /// those of the host, of the session, of its agent, or of an ancestor. Then the model is not told of the tool.
    pub(super) fn masks(&self, permissions: &[String]) -> bool {
        let above = self.above.iter().flat_map(Chain::layers);
        self.host.iter().chain(self.layers()).chain(above).any(|layer| denies_all(layer, permissions))
    }

    /// How long an ask may stay unanswered.
    #[must_use]
    pub fn ask_limit(&self) -> Duration {
        Duration::from_millis(self.ask_limit_ms)
    }
}

/// Whose a section of the system prompt is. The order is that of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Layer {
    /// For a family of models.
    Provider,
    /// The agent's own prompt.
    Agent,
    /// What the session finds around it: the folder, the date, the files.
    Environment,
    /// Instructions from files of the project and of the user.
    Rules,
    /// What the agent in force adds to the session's own prompt.
    Addition,
}

/// One section of a system prompt, by its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptSection {
    /// Whose it is.
    pub layer: Layer,
    /// Its name, such as `git` or `AGENTS.md`.
    pub name: String,
    /// Who gave it: a file, or the name of a provider. Empty for the runtime.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// The bytes of its text; 0 for a section that was left out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bytes: usize,
    /// Why it was cut or left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl PromptSection {
    pub(crate) fn new(layer: Layer, name: impl Into<String>) -> PromptSection {
        PromptSection { layer, name: name.into(), origin: String::new(), bytes: 0, note: None }
    }
}

/// The agent in force, where it is not the session's own, and what its parts took the place of. Stored format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Switched {
    /// The agent in force.
    pub to: AgentParts,
    /// What the session has under its own agent. Its rules are not among it, because they stay in force.
    #[serde(flatten)]
    pub own: AgentParts,
    /// The sections of the session's own system prompt, by their sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sections: Vec<PromptSection>,
}
