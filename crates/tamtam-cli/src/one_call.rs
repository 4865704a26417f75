//! `tamtam tool` and `tamtam permit`: one call outside of any session. `tool` runs the call, `permit` judges it.
//!
//! Neither writes a tape. `tool` applies no rules and asks nobody: the person who types the command is the one whom a session would
//! ask. `permit` runs nothing.
//!
//! A change must keep this: every way out of a call that has begun closes the call's processes, so that none is left; and `permit`,
//! with which people try out their rules, decides as a session would that has the same rules and somebody to ask.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};
use tamtam::{
    ModelRef, SessionId,
    permission::{Action, Globs, Judgement, RuleVerdict, seen_from, with_parts},
    session::Settings,
    tool::{Access, Tool, ToolContext, Toolbox, Workspace},
    tools::process::Processes,
};

use super::{
    arguments::{PermitArguments, ToolArguments, TurnArguments},
    config::Config,
    environment::Environment,
    failure::{Exit, Failure},
    note, print, rules,
};

/// Runs one tool within its time limit, and prints its result.
pub(super) async fn tool(given: ToolArguments, environment: &Environment) -> Result<Exit, Failure> {
    let (tool, arguments) = call(&given.name, &given.json, &environment.tools_in(given.sandbox.sandbox(environment)))?;
    let workspace = environment.workspace(given.workspace.as_deref())?;
    // Large outputs stay there, because the result names them. Nobody can guess the name and take it before us.
    let spill: PathBuf = std::env::temp_dir().join(format!("tamtam-tool-{}", SessionId::new()));
    let mut context = ToolContext::detached(workspace, spill);
    context.processes = Processes::new(Environment::watch(), None);
    let limit = tool.limit(&arguments);
    let ended = tokio::select! {
        result = tool.run(arguments, &context) => Ok(result),
        () = tokio::time::sleep(limit) => {
            Err(Failure::failed(format!("{} took longer than {} s and was stopped", given.name, limit.as_secs())))
        }
        _ = tokio::signal::ctrl_c() => Err(Failure::quiet(Exit::Aborted)),
    };
    if ended.is_err() {
        context.cancel();
    }
    let swept = context.processes.close().await;
    if !swept.left.is_empty() {
        note(&format!("warning: processes of the call could not be ended and run on: {:?}", swept.left));
    }
    let result = ended?;
    let is_error = result.is_error();
    let shown = json!({"content": result.content, "details": result.details, "is_error": is_error});
    print(&format!("{shown}\n"))?;
    Ok(if is_error { Exit::Failed } else { Exit::Done })
}

/// Judges one call as a session in that workspace would, and prints the decision.
pub(super) fn permit(given: &PermitArguments, environment: &Environment) -> Result<Exit, Failure> {
    let (tool, arguments) = call(&given.tool, &given.json, &environment.tools())?;
    let root = environment.workspace(given.workspace.as_deref())?;
    let config = Config::load(environment, &root, given.config.as_deref())?;
    config.notes.iter().for_each(|why| note(&format!("warning: {why}")));
    let mut turn = TurnArguments::default();
    turn.setup.permission.clone_from(&given.permission);
    let rights = rules::rights(&config.over(&turn, None).0.setup.permission, &config, rules::Audience::Someone)?;
    let model = ModelRef::new("", "");
    let mut settings = Settings::new(root.to_string_lossy(), model);
    (settings.host, settings.rules, settings.granted) = (rights.host, rights.session, config.granted_rules());
    let globs = Globs::default();
    let accesses = seen_from(&root.to_string_lossy(), &[], with_parts(tool.access(&arguments)));
    // The strictest judgement wins, as in a session.
    let verdict = settings.decide(&accesses, &globs);
    let workspace = Workspace::open(&root).map_err(|error| Failure::usage(error.to_string()))?;
    let linked: Vec<_> = accesses.iter().filter_map(|access| end_of_links(&workspace, access)).collect();
    let at_ends = settings.decide(&linked, &globs);
    // A session asks nobody about the target of a link: it denies the call if the rules are stricter about the target than about
    // the name.
    let is_stopped = !linked.is_empty() && at_ends.judgement.action > verdict.judgement.action;
    if !is_stopped && verdict.judgement.action == Action::Ask && settings.grants(&accesses, &globs) {
        let why = format!("a person allowed it for this project: `tamtam trust {} --list` lists it", root.display());
        return print(&format!("{}\n", json!({"decision": "allow", "rule": null, "layer": "granted", "why": why})));
    }
    let confined = verdict.confined;
    let why = if is_stopped { why(&at_ends, &linked, true) } else { why(&verdict, &accesses, false) };
    // A person would be asked about each of them, where one rule more would not be enough.
    let asks: Vec<_> = verdict.asked.iter().filter_map(|at| accesses.get(*at)).map(Access::to_string).collect();
    let Judgement { action, rule, layer, .. } = if is_stopped { at_ends.judgement } else { verdict.judgement };
    let decision = if is_stopped { Action::Deny } else { action };
    let mut said = json!({"decision": decision, "rule": rule, "layer": layer, "why": why});
    if confined && decision == Action::Allow {
        // Nobody is asked, and the kernel confines it to what the rules allow.
        said["confined"] = true.into();
    }
    if decision == Action::Ask {
        said["asks"] = json!(asks);
    }
    print(&format!("{said}\n"))
}

/// The access to the real path, if the path goes through links that stay inside the workspace. The tool refuses a link that leads
/// out.
fn end_of_links(workspace: &Workspace, access: &Access) -> Option<Access> {
    // What a command does behind its redirects is not looked at again when it runs.
    let is_path = matches!(access.permission.as_str(), "read" | "edit") && access.part.is_none();
    let mut place = workspace.resolve(".").ok().filter(|_| is_path)?;
    for component in Path::new(&access.pattern).components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => place = place.child(name)?,
            _ => return None,
        }
    }
    let real = workspace.real(&place).ok()?;
    let real = if real.as_os_str().is_empty() { Path::new(".") } else { &real };
    (real != Path::new(&access.pattern)).then(|| Access::new(&access.permission, real.to_string_lossy()))
}

fn why(verdict: &RuleVerdict, accesses: &[Access], is_linked: bool) -> String {
    let Some(access) = verdict.decided.and_then(|at| accesses.get(at)) else {
        return "no rule can match this call, so a person is asked".to_owned();
    };
    if access.part.is_some() {
        return verdict.why(accesses);
    }
    let verb = if is_linked { "goes through a link, which the rules treat more strictly, and needs" } else { "needs" };
    let wants = format!("the call {verb} {access}");
    match &verdict.judgement.rule {
        Some(rule) => format!("{wants}; the rule that stands is \"{rule}\" of {}", verdict.judgement.layer),
        None => format!("{wants}; no rule matches, so a person is asked"),
    }
}

/// The tool called `name`, and its arguments, which it takes.
fn call(name: &str, arguments: &str, toolbox: &Toolbox) -> Result<(std::sync::Arc<dyn Tool>, Value), Failure> {
    let tool = toolbox.find(name).cloned().ok_or_else(|| Failure::usage(toolbox.unknown_tool(name)))?;
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "bad arguments for {name}: {why}: give a JSON object such as '{{\"path\":\"README.md\"}}'"
        ))
    };
    let value: Value = serde_json::from_str(arguments).map_err(|error| refused(&format!("not JSON: {error}")))?;
    if !value.is_object() {
        return Err(refused(&"not an object"));
    }
    tool.check(&value).map_err(|why| Failure::usage(format!("bad arguments for {name}: {why}")))?;
    Ok((tool, value))
}
