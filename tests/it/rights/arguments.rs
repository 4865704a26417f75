//! A call with bad arguments is answered by its argument error, whatever the rules say.

use super::*;

/// A tool that computes what it wants from its arguments, and relies on them.
struct Careful;

impl Tool for Careful {
    fn name(&self) -> &str {
        "careful"
    }

    fn description(&self) -> &str {
        "Works on a path."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        arguments["path"].as_str().map(drop).ok_or_else(|| "bad arguments: missing field `path`".to_owned())
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        vec![Access::new("careful", arguments["path"].as_str().unwrap())]
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("ran") })
    }
}

/// Under rules that ask, deny and allow: nobody is asked, nothing runs, and the model is told what is wrong with the arguments. A call
/// with good arguments is judged.
#[tokio::test]
async fn bad_arguments_are_answered_before_the_rules_are_asked() {
    for action in [Action::Ask, Action::Deny, Action::Allow] {
        let folder = taped::folder();
        let calls =
            [Reply::call("careful", json!({})), Reply::call("careful", json!({"path": 7})), Reply::text("I see.")];
        let model = Arc::new(Scripted::new(calls.to_vec()));
        let runtime = builder(folder.path(), &model).tool(Careful).start().await.unwrap();
        let mut options = options(folder.path(), rules("r", &[("careful", "*", action)]));
        options.asks_wait = true;
        let session = runtime.create(options).await.unwrap();
        say(&session, "go").await;
        let said = shown(&model);
        assert_eq!(said.matches("bad arguments: missing field `path`").count(), 2, "{action:?}: {said}");
        assert!(!said.contains("ran") && !said.contains("crashed"), "{action:?}: {said}");
        assert!(kinds(folder.path(), &session, "ask").is_empty(), "{action:?}");
        assert!(runtime.shutdown().await.is_empty());
    }
}
