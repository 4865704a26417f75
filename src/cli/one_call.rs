//! One call outside of any session: carried out by `tool`, judged by `permit`.

use std::path::PathBuf;

use serde_json::{Value, json};
use tamtam::{
    SessionId,
    permission::{Action, Globs, Judgement, judge},
    process::Processes,
    tool::{Access, Tool, ToolContext},
};

use super::{
    arguments::{PermitArguments, ToolArguments},
    failure::{Exit, Failure},
    place::Environment,
    print, rules,
};

/// Runs one tool and prints its result. Who types the command is the one who would be asked, so nobody is.
pub(super) async fn tool(given: ToolArguments, environment: &Environment) -> Result<Exit, Failure> {
    let (tool, arguments) = call(&given.name, &given.arguments, environment)?;
    let workspace = environment.workspace(given.workspace.as_deref())?;
    // Large outputs stay for whoever reads the result. Under a name that nobody can guess and take before us.
    let spill: PathBuf = std::env::temp_dir().join(format!("tamtam-tool-{}", SessionId::new()));
    let mut context = ToolContext::detached(workspace, spill);
    context.processes = Processes::new(Environment::watch(), None);
    let limit = tool.limit(&arguments);
    let running = tokio::time::timeout(limit, tool.run(arguments, &context));
    let result = tokio::select! {
        result = running => result,
        _ = tokio::signal::ctrl_c() => {
            context.cancel.cancel();
            drop(context.processes.close().await);
            return Err(Failure::quiet(Exit::Aborted));
        }
    };
    drop(context.processes.close().await);
    let result = result.map_err(|_| {
        Failure::failed(format!("{} took longer than {} s and was stopped", given.name, limit.as_secs()))
    })?;
    let is_error = result.is_error();
    let shown = json!({"content": result.content, "details": result.details, "is_error": is_error});
    print(&format!("{shown}\n"))?;
    Ok(if is_error { Exit::Failed } else { Exit::Done })
}

/// Judges one call as a session would, and prints the decision.
pub(super) fn permit(given: &PermitArguments, environment: &Environment) -> Result<Exit, Failure> {
    let (tool, arguments) = call(&given.tool, &given.arguments, environment)?;
    let ruleset = rules::ruleset(&given.permission, rules::Audience::Someone)?;
    let globs = Globs::default();
    let judged = tool.access(&arguments).into_iter().map(|access| (judge([&ruleset], &access, &globs), access));
    // The strictest stands, as in a session.
    let decided = judged.max_by_key(|(judgement, _)| judgement.action);
    let (judgement, access) = decided.map_or((None, None), |(judgement, access)| (Some(judgement), Some(access)));
    let decision = judgement.as_ref().map_or(Action::Ask, |judgement| judgement.action);
    let shown = json!({
        "decision": decision,
        "rule": judgement.as_ref().and_then(|judgement| judgement.rule.as_ref()),
        "layer": judgement.as_ref().map_or("default", |judgement| judgement.layer.as_str()),
        "why": why(judgement.as_ref(), access.as_ref()),
    });
    print(&format!("{shown}\n"))?;
    Ok(Exit::Done)
}

fn why(judgement: Option<&Judgement>, access: Option<&Access>) -> String {
    let (Some(judgement), Some(access)) = (judgement, access) else {
        return "the call names nothing that a rule could be about, so a person is asked".to_owned();
    };
    let wants = format!("the call wants {} {}", access.permission, access.pattern);
    match &judgement.rule {
        Some(rule) => format!("{wants}; the last rule that matches is \"{rule}\" of {}", judgement.layer),
        None => format!("{wants}; no rule matches, so a person is asked"),
    }
}

/// The tool of that name, and its arguments.
fn call(name: &str, arguments: &str, environment: &Environment) -> Result<(std::sync::Arc<dyn Tool>, Value), Failure> {
    let toolbox = environment.tools();
    let tool = toolbox.find(name).cloned().ok_or_else(|| Failure::usage(toolbox.unknown_tool(name)))?;
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "bad arguments for {name}: {why}: give a JSON object such as '{{\"path\":\"README.md\"}}'"
        ))
    };
    let value: Value = serde_json::from_str(arguments).map_err(|error| refused(&format!("not JSON: {error}")))?;
    if value.is_object() { Ok((tool, value)) } else { Err(refused(&"not an object")) }
}
