//! Asks tools about calls before the rules judge these calls: what a call wants to access, whether it may run beside others, and
//! what may be done about it after a crash.
//!
//! The code of a tool may hang. So the question about a call runs on a thread of its own, with a time limit, and a tool that
//! hangs or panics costs its own call only; a hanging tool keeps its thread. The exception is a tool that says that it answers at
//! once: it is asked in the task of the caller, without a limit. Shell commands are read into their parts where the question
//! runs.
//!
//! Two callers ask: the worker of a model's answer, and the start of an incarnation, about the calls that are not over. A change
//! must call no tool in the core, nor where a session's actor handles its inputs: a tool that hangs there would hold up every
//! stop.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use crate::{
    permission::judged_by_parts,
    tool::{CallFacts, Toolbox},
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::sync::{Mutex, mpsc};

    use serde_json::Value;

    use super::*;
    use crate::tool::{Access, BoxFuture, Tool, ToolContext, ToolResult, Unusable};

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

    /// A tool that panics or hangs over the arguments of one call costs that call, and the others are known all the same.
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
