//! Tools that say that they answer at once.

use std::time::Duration;

use super::*;
use crate::{
    Outcome,
    kernel::Record,
    model::BoxFuture,
    tool::{Tool, ToolContext, ToolResult},
    words::message::ErrorReason,
};

/// A tool that says that it answers at once, and does what its arguments say.
struct Says;

impl Tool for Says {
    fn name(&self) -> &str {
        "says"
    }

    fn description(&self) -> &str {
        "Says that it answers at once."
    }

    fn schema(&self) -> serde_json::Value {
        serde_json::json!({ "type": "object" })
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn limit(&self, _: &serde_json::Value) -> Duration {
        Duration::from_millis(20)
    }

    fn run<'a>(&'a self, arguments: serde_json::Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match arguments["do"].as_str() {
                Some("panic") => std::panic::panic_any("odd"),
                Some("wait") => std::future::pending().await,
                _ => ToolResult::ok("at once"),
            }
        })
    }
}

/// Promise 3 holds for them too: one that still waits meets its limit, and one that panics costs its call.
#[tokio::test]
async fn a_tool_that_says_it_answers_at_once_and_does_not_is_held_to_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let call = |what: &str| Reply::call("says", serde_json::json!({ "do": what }));
    let model = Arc::new(Scripted::new([call("nothing"), call("wait"), call("panic"), Reply::text("done")]));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).tool(Says);
    let runtime = runtime.start().await.unwrap();
    let session = create(&runtime, folder.path()).await;
    let answer = timeout(SOON, session.prompt("go").await.unwrap().wait()).await.expect("it ends").unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    let results: Vec<_> = session.entries().await.unwrap();
    let results = results.iter().filter_map(|entry| match &entry.record {
        Record::Result { result, .. } => Some((result.error, result.content.clone())),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    assert_eq!(results[0], (None, "at once".to_owned()));
    assert_eq!(results[1].0, Some(ErrorReason::Timeout));
    assert!(results[2].1.starts_with("The tool crashed: odd."), "{results:?}");
    assert!(runtime.shutdown().await.is_empty());
}
