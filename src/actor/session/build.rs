//! Builds the request of a model and the parts of a tool call from the state of a session, for the workers that carry them out.
//! Functions of values: nothing here waits or changes anything.
//!
//! A change must keep this. The same ticket gives the same request and the same key, also after a crash: settings that were
//! changed meanwhile must not get into a request. Only the tools and their descriptions are those that the slot keeps; where it
//! keeps none, those of the present host. A call runs as it was judged, with the tool that was asked what the call wants; it is
//! not asked again. Where the host has taken the tool away meanwhile, the call gets an error result. Beyond the accesses that were judged, a call may reach
//! only what the rules treat no more strictly than these.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    actor::{
        call_context::CallContext, facts::may, outputs::StoreOutputs, tapes::Tapes, toolset::Toolset,
        worker_context::WorkerContext,
    },
    hook::{HookCall, Hooks, Preparing},
    kernel::{LAST_STEP_REMINDER, LAST_STEP_SHAPED, OpenCall, OpenRequest, Settings, State, toolset},
    model::{Item, Request, ToolSpec},
    permission::{Globs, seen_from},
    tape::{TapeError, TapeStoreExt as _},
    tool::{Access, Held, Tool, ToolResult, arguments, named_outputs},
    words::ids::{Seq, SessionId},
    words::message::ErrorReason,
};

/// What the model is told whose answer does not fit its schema; the reason follows.
const MISFIT_REMINDER: &str =
    "Your answer is not what was asked for. Answer again, with JSON alone. What is wrong with it:";

/// The model request of a ticket. The same ticket gives the same request, also after a crash and after a change of the session's
/// settings; the tools and their descriptions are those of `tools`.
pub(super) fn request(tools: &Toolset, state: &State, ticket: Seq, open: &OpenRequest) -> Request {
    let prepared = open.prepared.as_deref();
    let mut request = Request::new(prepared.map_or_else(|| state.history.clone(), |made| made.history(&state.history)));
    request.system = open.system.clone();
    request.params = open.params.clone();
    request.key = format!("{}/{ticket}", state.session);
    request.session = Some(state.session.clone());
    request.labels.clone_from(&state.settings.labels);
    let last =
        open.last.then_some(if open.params.answer_schema.is_some() { LAST_STEP_SHAPED } else { LAST_STEP_REMINDER });
    let misfit = open.misfit.as_deref().map(|why| format!("{MISFIT_REMINDER} {why}"));
    let of_hooks = prepared.iter().flat_map(|made| &made.reminders).map(String::as_str);
    let reminders: Vec<&str> = of_hooks.chain(last).chain(misfit.as_deref()).collect();
    request.reminder = (!reminders.is_empty()).then(|| reminders.join("\n\n").into());
    if open.last {
        return request;
    }
    let left_out = |name: &str| {
        !toolset::has(open.tools.as_ref(), name)
            || open.masked.contains(name)
            || state.turn.as_ref().is_some_and(|turn| toolset::is_off(&turn.tools, name))
    };
    let specs = tools.toolbox.specs();
    let denied = |name: &str| denied_choices(&open.masked, name);
    let is_as_ever = |spec: &ToolSpec| !spec.deferred && !left_out(&spec.name) && denied(&spec.name).is_empty();
    request.tools = match specs.iter().all(is_as_ever) {
        true => specs,
        false => {
            // What was found comes last, so that the tools before it stay as they were.
            let of_name = |name: &String| specs.iter().find(|spec| spec.deferred && spec.name == *name);
            let found = state.context.found.iter().filter_map(of_name);
            let kept = specs.iter().filter(|spec| !spec.deferred).chain(found).filter(|spec| !left_out(&spec.name));
            kept.map(|spec| tools.toolbox.spec_without(spec, &denied(&spec.name))).collect()
        }
    };
    request
}

/// What hooks are to make of an open request before it is sent; `None` where they have, or where none sees it.
pub(super) fn preparing(hooks: &Hooks, state: &State, open: &OpenRequest) -> Option<Preparing> {
    let turn = state.turn.as_ref().filter(|_| open.prepared.is_none())?;
    let is_start = !turn.opened;
    hooks.see_requests(is_start).then(|| {
        let said = state.history.iter().filter_map(|item| match item.as_ref() {
            Item::User(user) if turn.messages.contains(&user.id) => Some(user.text()),
            _ => None,
        });
        let start = is_start.then(|| (said.collect::<Vec<_>>().join("\n\n"), PathBuf::from(&state.settings.workspace)));
        Preparing::new(state.history.clone(), turn.step, state.todos(), start)
    })
}

/// The choices of a tool that a request does not offer.
fn denied_choices<'m>(masked: &'m BTreeSet<String>, tool: &str) -> Vec<&'m str> {
    let choices = masked.iter().filter_map(|masked| masked.split_once(toolset::CHOICE));
    choices.filter(|(of, _)| *of == tool).map(|(_, choice)| choice).collect()
}

/// The paths of a session's folders, put together once for all calls of an incarnation. Either folder may be missing on the disk.
/// A path is `None` in a runtime that keeps its tapes without a folder.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    /// Large outputs.
    spill: Option<Arc<PathBuf>>,
    /// The store that keeps large outputs itself.
    outputs: Option<Arc<StoreOutputs>>,
    /// The contents that files had before calls changed them.
    files: Option<Arc<PathBuf>>,
}

impl Folders {
    pub(super) fn of(store: &Tapes, session: &SessionId) -> Folders {
        let spill = store.folder(Some(session)).map(|folder| folder.join("spill"));
        let files = store.files_path(session);
        Folders { spill: spill.map(Arc::new), outputs: store.outputs(), files: files.map(Arc::new) }
    }
}

/// The parts that a call needs to run with one of these tools, or the result that says why it cannot run.
pub(super) fn call(
    post: &WorkerContext,
    state: &State,
    open: &OpenCall,
    folders: &Folders,
    tools: &Toolset,
) -> Result<(HookCall, Arc<dyn Tool>, CallContext), ToolResult> {
    let (shared, ticket, name) = (&post.shared, post.ticket, &open.facts.tool);
    let now = shared.tools.now();
    // The tool that was judged, and not another one that has its name by now.
    let tool = tools.toolbox.find(name).filter(|_| now.toolbox.find(name).is_some()).cloned();
    let tool = tool.ok_or_else(|| ToolResult::error(now.toolbox.unknown_tool(name)))?;
    let arguments = arguments(&open.input).map_err(ToolResult::error)?;
    let settings = &state.settings;
    // The call may reach the accesses that were judged: the tool is not asked again.
    let accesses = seen_from(&settings.workspace, &settings.read_roots, open.facts.access.clone());
    let external = external(&accesses);
    let held = open.confined.then(|| Arc::new(held(settings, &accesses, &shared.globs)));
    let may = may(state.settings.clone(), accesses.clone());
    let named = |outputs| (outputs as _, named_outputs(&accesses, &state.session, &settings.read_roots));
    let context = CallContext {
        key: format!("{}/{ticket}", state.session),
        attempt: open.attempts,
        passed: open.gate.as_ref().map(|gate| gate.passed.clone()).unwrap_or_default(),
        workspace: Arc::new(PathBuf::from(&state.settings.workspace)),
        // The first call that spills creates the folder.
        spill: folders.spill.clone(),
        outputs: folders.outputs.clone().map(named),
        files: folders.files.clone(),
        external,
        held,
        may,
        #[cfg(all(unix, feature = "tools"))]
        sandbox: settings.sandbox.clone(),
        #[cfg(all(unix, feature = "tools"))]
        plan_file: settings.plan_file().map(str::to_owned),
        #[cfg(all(unix, feature = "tools"))]
        todos: state.context.todos.clone(),
    };
    let call = HookCall {
        session: state.session.clone(),
        call: open.id.clone(),
        tool: name.clone(),
        arguments,
        effect: open.facts.effect,
        access: accesses,
        session_ref: post.session_ref(),
    };
    Ok((call, tool, context))
}

/// The absolute paths outside of the workspace that a call named. The call runs, so all accesses that it named were allowed.
fn external(accesses: &[Access]) -> Arc<[PathBuf]> {
    let outside = accesses.iter().filter(|access| access.permission == "external_directory");
    let outside = outside.map(|access| &access.pattern);
    let read = accesses.iter().flat_map(Access::reads).filter(|read| read.outside).map(|read| &read.path);
    outside.chain(read).map(PathBuf::from).filter(|path| path.is_absolute()).collect()
}

/// What a call may reach that runs confined to what the rules allow.
fn held(settings: &Settings, accesses: &[Access], globs: &Globs) -> Held {
    let written = accesses.iter().filter(|access| access.is_write() && access.permission == "edit");
    let workspace = Path::new(&settings.workspace);
    let commands = || accesses.iter().filter(|access| access.permission == "bash");
    Held {
        writes: written.map(|access| workspace.join(&access.pattern)).collect(),
        keeps_reads: settings.restricts_reads(globs),
        history: commands().all(Access::keeps_to_files),
    }
}

/// The result of a call that was told to stop and has no worker.
pub(super) fn never_ran() -> ToolResult {
    ToolResult::failed(ErrorReason::Aborted, "Stopped. Whether it had begun is unknown.")
}

/// A short description of a call, for the tree: the name of its tool, and the beginning of its arguments where the host asks for
/// them.
pub(super) fn call_title(call: &OpenCall, with_arguments: bool) -> String {
    if !with_arguments {
        return call.facts.tool.clone();
    }
    let input: String = call.input.chars().map(|c| if c.is_control() { ' ' } else { c }).take(80).collect();
    format!("{} {input}", call.facts.tool)
}

/// The error of an entry that cannot be written as JSON. The core makes no such record, so this reports a bug.
pub(super) fn unwritable(session: &SessionId, error: serde_json::Error) -> TapeError {
    tracing::error!(%session, %error, "an entry cannot be written as JSON");
    TapeError::engine(error)
}
