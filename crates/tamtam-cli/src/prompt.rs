//! `tamtam prompt show`: prints the system prompt and the tools that a session sends with its first message. This file also says
//! what every new session of this program is told of its surroundings.
//!
//! A session in memory sends its first message to a scripted model, and its system prompt and tools are shown. Its agent,
//! surroundings and rules come from the code that `run` calls. Of configuration files only the rules count here: the settings
//! `agent` and `permission` of a file, which `run` takes, have no effect.
//!
//! A change must keep this: what is shown comes from a session that was made, not from a second way to build a prompt, or it would
//! come to differ from what `run` sends; and no request goes to a provider.

use std::{fmt::Write as _, path::Path, sync::Arc};

use serde_json::{Value, json};
use tamtam::{
    Runtime, SessionOptions,
    model::{Reply, Scripted, ToolSpec},
    runtime::{Builder, FileTree, GitState, Layer, RuleFiles},
    session::{PromptSection, Settings, State, estimated_tokens},
};

use super::{
    arguments::{PromptShowArguments, TurnArguments},
    config::Config,
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    print, rules, run,
    team::Team,
    trust::Trust,
};

/// The same builder, with what new sessions are told of their surroundings: the repository, the files, the rules of the user and
/// of the project.
pub(super) fn with_surroundings(builder: Builder, environment: &Environment) -> Builder {
    let trust = Trust::of(environment);
    let rules = RuleFiles::trusting(move |file, text| trust.has_trusted(file, text));
    let rules = environment.config_folder().into_iter().fold(rules, RuleFiles::user_folder);
    builder.environment(GitState::new()).environment(FileTree::default()).environment(rules)
}

/// The rule files that a session is not told of, or not whole; a line for each, with the reason, and with the command that trusts
/// one which is not trusted.
pub(super) fn rules_not_used(settings: &Settings, trust: &Trust) -> Vec<String> {
    let sections = settings.sections().into_iter().filter(|(section, _)| section.layer == Layer::Rules);
    let why = |section: PromptSection| match section.note.as_deref()? {
        RuleFiles::NOT_TRUSTED => Some(trust.why_not(Path::new(&section.origin))),
        note => Some(format!("{}: {note}", section.origin)),
    };
    sections.filter_map(|(section, _)| why(section)).collect()
}

/// The day, for the system prompt: no time, so the prompt stays the same and the provider's cache can be used.
pub(super) fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// Carries out the command.
pub(super) async fn show(given: &PromptShowArguments, environment: &Environment) -> Result<Exit, Failure> {
    let workspace = environment.workspace(given.setup.workspace.as_deref())?;
    let usage = |error: tamtam::runtime::BadAgent| Failure::usage(error.to_string());
    let team = Team::load(&workspace, environment)?;
    let config = Config::load(environment, &workspace, None)?;
    let of_run = TurnArguments { setup: given.setup.clone(), ..TurnArguments::default() };
    let setup = config.over(&of_run, None).0.setup;
    let mut options = SessionOptions::from_agent(team.any_agent(setup.agent.as_deref())?, &workspace).map_err(usage)?;
    options.date = Some(today());
    let rights = rules::rights(&setup.permission, &config, run::audience(false))?;
    options.rules_below = rights.session;
    let model = Arc::new(Scripted::new([Reply::text("")]));
    let builder = team.host(setup.sandbox.sandbox(environment), rights.host, environment);
    let runtime = builder.in_memory().model(model.clone()).start().await?;
    let state = first_message(&runtime, options).await;
    drop(runtime.shutdown().await);
    let settings = &state?.settings;
    let tools = model.requests().first().map(|request| offered(&request.tools)).unwrap_or_default();
    print(&if given.json { as_json(settings, &tools) } else { as_text(settings, &tools) })
}

/// A session that has sent its first message.
async fn first_message(runtime: &Runtime, options: SessionOptions) -> Result<Arc<State>, Failure> {
    let session = runtime.create(options).await?;
    session.prompt("hello").await?.wait().await?;
    Ok(session.state().await?.into())
}

/// The tools that the model was told of, each as JSON text.
fn offered(tools: &[ToolSpec]) -> Vec<(ToolSpec, String)> {
    tools.iter().map(|spec| (spec.clone(), serde_json::to_string(spec).unwrap_or_default())).collect()
}

fn as_json(settings: &Settings, tools: &[(ToolSpec, String)]) -> String {
    let sections = settings.sections().into_iter().map(|(section, text)| {
        let PromptSection { layer, name, origin, bytes, note, .. } = section;
        json!({"layer": layer, "name": name, "origin": origin, "bytes": bytes, "tokens": estimated_tokens(text),
            "note": note, "text": text})
    });
    let sections: Vec<Value> = sections.collect();
    let tools = tools.iter().map(|(spec, text)| {
        json!({"name": spec.name, "description": spec.description, "schema": spec.schema, "bytes": text.len(),
            "tokens": estimated_tokens(text)})
    });
    let tools: Vec<Value> = tools.collect();
    let total = |field: &str| -> u64 { sections.iter().chain(&tools).filter_map(|value| value[field].as_u64()).sum() };
    let (bytes, tokens) = (total("bytes"), total("tokens"));
    let shown = json!({"agent": settings.agent, "system": &*settings.system, "sections": sections, "tools": tools, "bytes": bytes, "tokens": tokens});
    format!("{shown}\n")
}

fn as_text(settings: &Settings, tools: &[(ToolSpec, String)]) -> String {
    let mut text = String::new();
    let mut total = (0, 0);
    let mut add = |text: &mut String, head: String, said: &str| {
        let tokens = estimated_tokens(said);
        total = (total.0 + said.len(), total.1 + tokens);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "--- {} | {} bytes | about {tokens} tokens", escape::line(&head), said.len());
    };
    for (section, said) in settings.sections() {
        let layer = serde_json::to_value(section.layer).unwrap_or_default();
        let mut head = format!("{} {}", layer.as_str().unwrap_or_default(), section.name);
        if !section.origin.is_empty() {
            head += &format!(" ({})", section.origin);
        }
        head.extend(section.note.iter().map(|note| format!(" [{note}]")));
        add(&mut text, head, said);
        if !said.is_empty() {
            let _ = writeln!(text, "{}", escape::text(said));
        }
    }
    for (spec, said) in tools {
        add(&mut text, format!("tool {}", spec.name), said);
        let _ = writeln!(text, "{}\n{}", escape::text(&spec.description), escape::line(&spec.schema.to_string()));
    }
    let _ = writeln!(text, "--- in all | {} bytes | about {} tokens", total.0, total.1);
    text
}
