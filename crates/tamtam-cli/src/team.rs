//! The agents, commands and skills of this user and of a workspace, the builder of a runtime with them ([`Team::host`]), and `tamtam
//! agents`, which lists the agents.
//!
//! Beside the built-in ones they come from the user's folders (`tamtam` and `opencode` in the configuration folder, `~/.claude`)
//! and from those of the workspace; skills also from `~/.agents` and from the trusted folders above the workspace, up to that of its
//! repository. A file that cannot be used is named by [`Team::not_used`], and the others are loaded.
//!
//! A change must not load agents or commands of a workspace that the user does not trust as it is now: a stranger may have written
//! them, and they say what a model is told and may do.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use serde_json::json;
use tamtam::{
    ModelRef, Runtime,
    model::{PRICES, PROVIDERS},
    permission::Ruleset,
    runtime::{Agent, AgentFiles, AgentFolder, Agents, BadFile, Builder, Commands, Dialect, Skills},
    tools::{self, Sandbox},
};

use super::{
    arguments::AgentsArguments,
    environment::Environment,
    failure::{Exit, Failure},
    models::key_of,
    print,
    prompt::with_surroundings,
    trust::{Project, SKILLS, TEAM, Trust},
};

/// The agents and commands that there are, and the files that could not be used.
pub(super) struct Team {
    pub(super) agents: Agents,
    pub(super) commands: Commands,
    pub(super) skills: Skills,
    pub(super) bad: Vec<BadFile>,
    /// Why those of the workspace and of the folders above it were not read, where there are some.
    untrusted: Vec<String>,
}

impl Team {
    /// Reads the agents and commands of the user, and those of the workspace only if its files are unchanged since the user trusted
    /// them.
    pub(super) fn load(workspace: &Path, environment: &Environment) -> Result<Team, Failure> {
        let mut folders = Vec::new();
        if let Some(home) = environment.get("HOME").map(Path::new) {
            folders.push(AgentFolder::new(home.join(".claude"), Dialect::ClaudeCode));
            folders.push(AgentFolder::new(home.join(".agents"), Dialect::AgentSkills));
        }
        if let Some(config) = environment.config_folder() {
            folders.push(AgentFolder::new(config.with_file_name("opencode"), Dialect::OpenCode));
            folders.push(AgentFolder::new(config, Dialect::Tamtam));
        }
        let (trust, mut untrusted) = (Trust::of(environment), Vec::new());
        for folder in above(workspace) {
            match trust.look(folder, &SKILLS)? {
                Project::Nothing => {}
                Project::Trusted { files, .. } => {
                    folders.extend(AgentFolder::skills_of_workspace(folder, judged(folder, files)));
                }
                Project::Untrusted(why) => untrusted.push(why),
            }
        }
        match trust.look(workspace, &[&TEAM[..], &SKILLS].concat())? {
            Project::Nothing => {}
            Project::Trusted { files, .. } => {
                folders.extend(AgentFolder::of_workspace(workspace, judged(workspace, files)));
            }
            Project::Untrusted(why) => untrusted.push(why),
        }
        let files = AgentFiles::read(&folders, &words_for_models(environment));
        let skills = files.skills();
        let (agents, commands, bad) = files.build().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Team { agents, commands, skills, bad, untrusted })
    }

    /// What is not used, a line for each.
    pub(super) fn not_used(&self) -> Vec<String> {
        let bad = self.bad.iter().map(|bad| format!("not used: {bad}"));
        self.untrusted.iter().map(|why| format!("not used: {why}")).chain(bad).collect()
    }

    /// The agent that the arguments name, or the default one.
    pub(super) fn agent(&self, given: Option<&str>) -> Result<&Agent, Failure> {
        let named = given.map(|name| self.agents.primary(name)).transpose();
        let named = named.map_err(|error| Failure::usage(error.to_string()))?;
        Ok(named.unwrap_or_else(|| self.agents.default_agent()))
    }

    /// The same, where the name may also be that of an agent for tasks.
    pub(super) fn any_agent(&self, given: Option<&str>) -> Result<&Agent, Failure> {
        match given.and_then(|name| self.agents.subagent(name).ok()) {
            Some(agent) => Ok(agent),
            None => self.agent(given),
        }
    }

    /// Refuses a prompt that is no command although it looks like one.
    pub(super) fn check(&self, prompt: &str) -> Result<(), Failure> {
        match self.commands.read(prompt) {
            // The command may be in a file of the workspace that is not trusted.
            Some(Err(bad)) => {
                let untrusted: String = self.untrusted.iter().map(|why| format!("; {why}")).collect();
                Err(Failure::usage(format!("{bad}{untrusted}")))
            }
            _ => Ok(()),
        }
    }

    /// The builder of a runtime with these agents and commands, with the tools of this program, and with these rules above all
    /// others. Its new sessions are told of their surroundings.
    pub(super) fn host(self, sandbox: Sandbox, rules: Option<Ruleset>, environment: &Environment) -> Builder {
        let tools = tools::with_todos(&tools::with_plan_mode(&environment.tools_in(sandbox)));
        let builder =
            Runtime::builder().agents(self.agents).commands(self.commands).tools(tools).tool(self.skills.tool());
        let builder = builder.with_tasks();
        with_surroundings(rules.into_iter().fold(builder, Builder::rules), environment)
    }
}

/// The folders above a workspace, up to that of its repository, the highest first; none outside of a repository.
fn above(workspace: &Path) -> Vec<&Path> {
    let root = workspace.ancestors().find(|folder| folder.join(".git").exists());
    let Some(root) = root else { return Vec::new() };
    let mut above: Vec<_> = workspace.ancestors().skip(1).take_while(|folder| folder.starts_with(root)).collect();
    above.reverse();
    above
}

/// Whether a file of a folder has the text that was trusted.
fn judged(folder: &Path, files: BTreeMap<String, String>) -> impl Fn(&Path, &str) -> bool + Send + Sync + 'static {
    let folder = folder.to_owned();
    move |file, text| {
        let name = file.strip_prefix(&folder).ok().and_then(Path::to_str);
        name.and_then(|name| files.get(name)).is_some_and(|judged| judged == text)
    }
}

/// What Claude Code's words for models mean where there is a key for them: the newest model of each family.
fn words_for_models(environment: &Environment) -> BTreeMap<String, ModelRef> {
    let anthropic = PROVIDERS.iter().find(|provider| provider.name == "anthropic");
    let Some(provider) = anthropic.filter(|provider| key_of(provider.key_variables, environment).is_some()) else {
        return BTreeMap::new();
    };
    let newest = |word: &str| {
        let family = format!("claude-{word}-");
        let known = PRICES.iter().find(|known| known.provider == provider.name && known.model.starts_with(&family))?;
        format!("{}/{}", known.provider, known.model).parse().ok()
    };
    ["opus", "sonnet", "haiku"].into_iter().filter_map(|word| Some((word.to_owned(), newest(word)?))).collect()
}

/// A line of `agents --json`. Written without a detour over a JSON value, which would show 0.7 as 0.699999988079071.
#[derive(serde::Serialize)]
struct AgentLine<'a> {
    #[serde(flatten)]
    agent: &'a Agent,
    origin: String,
    default: bool,
}

/// Carries out `agents`: lists them with what each is for and where it comes from.
pub(super) fn agents(given: &AgentsArguments, environment: &Environment) -> Result<Exit, Failure> {
    let workspace = environment.workspace(given.workspace.as_deref())?;
    let team = Team::load(&workspace, environment)?;
    let mut text = String::new();
    for agent in team.agents.list() {
        let origin = match (&agent.source, agent.native) {
            (Some(file), true) => format!("built in, changed by {}", file.display()),
            (Some(file), false) => file.display().to_string(),
            (None, _) => "built in".to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = match given.json {
            true => {
                let default = agent.name == team.agents.default_agent().name;
                let line = serde_json::to_string(&AgentLine { agent, origin, default });
                writeln!(text, "{}", line.unwrap_or_default())
            }
            false => {
                let about = super::escape::line(agent.description.lines().next().unwrap_or_default());
                let origin = super::escape::line(&origin);
                writeln!(text, "{:<20} {:<9} {about}\n{:<30} {origin}", agent.name, mode(agent), "")
            }
        };
    }
    if !given.json {
        team.not_used().iter().for_each(|line| text += &(super::escape::line(line) + "\n"));
        return print(&text);
    }
    for BadFile { path, line, field, why, .. } in &team.bad {
        let bad = json!({"bad_file": {"path": path, "line": line, "field": field, "why": why}});
        let _ = writeln!(text, "{bad}");
    }
    for why in &team.untrusted {
        let _ = writeln!(text, "{}", json!({"not_read": why}));
    }
    print(&text)
}

fn mode(agent: &Agent) -> String {
    json!(agent.mode).as_str().unwrap_or_default().to_owned()
}
