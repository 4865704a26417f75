//! Asks tools about calls before the rules judge these calls: what a call wants to access, whether it may run beside others, and
//! what may be done about it after a crash.
//!
//! The code of a tool may hang. So the question about a call runs on a thread of its own, with a time limit, and a tool that
//! hangs or panics costs its own call only; a hanging tool keeps its thread. The exception is a tool that says that it answers at
//! once: it is asked in the task of the caller, without a limit. Shell commands are read into their parts where the question
//! runs.
//!
//! A call that a person would be asked about may be one that cannot succeed, such as an edit of a text that is not in the file.
//! [`foresee`] has the tools look at the files before, as far as the rules allow it to read them, and nobody is asked then.
//!
//! Two callers ask: the worker of a model's answer, and the start of an incarnation, about the calls that are not over. A change
//! must call no tool in the core, nor where a session's actor handles its inputs: a tool that hangs there would hold up every
//! stop.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::join_all;

use crate::{
    kernel::Settings,
    permission::{Action, Globs, judged_by_parts, seen_from, with_parts},
    tool::{Access, CallFacts, Effect, May, ToolContext, Toolbox, Unusable, arguments},
    words::ids::SessionId,
};

/// How long a tool may take to say what a call wants. A tool only looks at the arguments for this.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks what each call wants, all at once, and each on a thread of its own unless its tool answers at once. A call is the name of
/// its tool and its arguments; the answers come in the same order. A call whose tool panics or does not answer in time cannot
/// run.
pub(crate) async fn ask(toolbox: &Toolbox, calls: impl IntoIterator<Item = (String, Arc<str>)>) -> Vec<CallFacts> {
    join_all(calls.into_iter().map(|(name, input)| ask_one(toolbox, name, input))).await
}

async fn ask_one(toolbox: &Toolbox, name: String, input: Arc<str>) -> CallFacts {
    if toolbox.answers_at_once(&name) {
        return judged_by_parts(toolbox.facts(&name, &input));
    }
    let (toolbox, asked) = (toolbox.clone(), (name.clone(), input.clone()));
    let said = tokio::task::spawn_blocking(move || judged_by_parts(toolbox.facts(&asked.0, &asked.1)));
    match tokio::time::timeout(LIMIT, said).await {
        Ok(Ok(facts)) => facts,
        Ok(Err(_)) => CallFacts::unknown(&name, &input, "crashed over these arguments"),
        Err(_) => CallFacts::unknown(&name, &input, "did not say in time what this call wants"),
    }
}

/// The calls of one answer, in order: the name of the tool, and the arguments.
pub(crate) type Calls = Vec<(String, Arc<str>)>;

/// Has the tools look whether those calls can succeed that a person would be asked about: a call that cannot becomes one that cannot
/// run. Takes as long as one question at most.
///
/// A tool looks only where the rules, as they were when the request began, allow to read all that the call wants: what a file says
/// is not told to a model that may not read it. It does not look behind a call whose outcome may depend on one before it.
pub(crate) async fn foresee(
    (toolbox, globs): (&Toolbox, &Globs),
    session: &SessionId,
    settings: &Arc<Settings>,
    calls: &Calls,
    facts: &mut [CallFacts],
) {
    let until = tokio::time::Instant::now() + LIMIT;
    let mut changed: Vec<String> = Vec::new();
    for ((_, input), facts) in calls.iter().zip(facts) {
        if facts.unusable.is_some() || facts.effect == Effect::Read {
            continue;
        }
        let wants = seen_from(&settings.workspace, &settings.read_roots, facts.access.clone());
        let action = settings.judge(&wants, globs).action;
        if action == Action::Deny {
            continue;
        }
        let is_path = |access: &&Access| matches!(access.permission.as_str(), "edit" | "external_directory");
        let reads: Vec<_> = wants.iter().filter(is_path).map(as_read).collect();
        let is_readable = reads.is_empty() || settings.judge(&reads, globs).action == Action::Allow;
        let is_free = !wants.iter().any(|access| changed.contains(&access.pattern));
        if action == Action::Ask && is_readable && is_free {
            let (Some(tool), Ok(arguments)) = (toolbox.find(&facts.tool).cloned(), arguments(input)) else { continue };
            let folder = PathBuf::from(&settings.workspace);
            let context = ToolContext {
                session: session.clone(),
                may: may(settings.clone(), reads.clone()),
                spill: None,
                ..ToolContext::detached(folder.clone(), folder)
            };
            let looked = tokio::task::spawn_blocking(move || tool.foresee(&arguments, &context));
            match tokio::time::timeout_at(until, looked).await {
                Ok(Ok(Err(why))) => {
                    facts.unusable = Some(Unusable::BadArguments(why));
                    continue;
                }
                // A tool that crashes over it may do so before a person as well.
                Ok(_) => {}
                Err(_) => return,
            }
        }
        // Whatever else the call does, it may do to any file.
        if reads.is_empty() || reads.len() < wants.len() {
            return;
        }
        changed.extend(wants.into_iter().map(|access| access.pattern));
    }
}

/// The access to the same path that only reads it.
fn as_read(access: &Access) -> Access {
    match access.permission.as_str() {
        "edit" => Access::new("read", &access.pattern),
        _ => access.clone(),
    }
}

/// Decides whether a call may touch something that it did not name: not if the rules are stricter about it than about what it
/// named.
pub(super) fn may(settings: Arc<Settings>, accesses: Vec<Access>) -> May {
    // Globs are compiled for this call, because the worker does not share the runtime's table. Few calls come across anything, so
    // what they named is judged once more only then.
    let (globs, named) = (Globs::default(), OnceLock::new());
    May::new(move |access| {
        let named = *named.get_or_init(|| settings.judge(&accesses, &globs).action);
        let wanted = with_parts(vec![access.clone()]);
        let seen = seen_from(&settings.workspace, &settings.read_roots, wanted);
        settings.judge(&seen, &globs).action <= named
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::sync::{Mutex, mpsc};

    use serde_json::Value;

    use super::*;
    use crate::{
        model::BoxFuture,
        tool::{Access, Tool, ToolContext, ToolResult, Unusable},
    };

    /// A tool that panics over arguments, or hangs over them until it is let go.
    struct Odd(Mutex<mpsc::Receiver<()>>);

    impl Tool for Odd {
        fn name(&self) -> &str {
            "odd"
        }

        fn description(&self) -> &str {
            "is odd"
        }

        fn schema(&self) -> Value {
            serde_json::json!({"type": "object"})
        }

        fn access(&self, arguments: &Value) -> Vec<Access> {
            match arguments["do"].as_str() {
                Some("panic") => std::panic::panic_any("odd"),
                Some("hang") => drop(self.0.lock().unwrap().recv()),
                _ => {}
            }
            vec![Access::new("odd", "*")]
        }

        fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
            Box::pin(async { ToolResult::ok("") })
        }
    }

    /// A tool that panics or hangs over the arguments of one call costs that call only; the others are known.
    #[tokio::test(start_paused = true)]
    async fn a_tool_that_hangs_over_its_arguments_costs_its_call_alone() {
        let (let_go, hangs) = mpsc::channel();
        let toolbox = Toolbox::default().with(Odd(Mutex::new(hangs)));
        let call = |what: &str| ("odd".to_owned(), Arc::from(format!("{{\"do\":\"{what}\"}}")));
        let mut asked =
            Box::pin(ask(&toolbox, [call("hang"), call("panic"), call("work"), ("gong".to_owned(), "{}".into())]));
        assert!(futures_util::poll!(&mut asked).is_pending());
        tokio::time::advance(LIMIT).await;
        let known = asked.await;
        let_go.send(()).unwrap();
        let crashed = |facts: &CallFacts, why: &str| matches!(&facts.unusable, Some(Unusable::Crashed(text)) if text.contains(why));
        assert!(crashed(&known[0], "did not say in time"), "{known:?}");
        // A panic may be seen before the limit or behind it: the clock of this test does not wait for a thread.
        assert!(crashed(&known[1], "the call was not run"), "{known:?}");
        assert_eq!(known.iter().map(|facts| facts.tool.as_str()).collect::<Vec<_>>(), ["odd", "odd", "odd", "gong"]);
    }
}
