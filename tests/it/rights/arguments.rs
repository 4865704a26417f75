//! A call with bad arguments gets its argument error under any rules.

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

/// Plays these answers in a session in `work` whose rules ask about all but reads, and gives what the model was told. Nobody listens
/// unless `waits`: then an ask would wait for ever.
async fn told(folder: &Path, answers: Vec<Reply>, more: &[(&str, &str, Action)], waits: bool) -> String {
    let work = folder.join("work");
    let model = Arc::new(Scripted::new(answers.into_iter().chain([Reply::text("I see.")])));
    let runtime = builder(folder, &model).tools(tamtam::tools::full()).with_tasks().start().await.unwrap();
    let mut lines = vec![("*", "*", Action::Ask), ("read", "**", Action::Allow)];
    lines.extend(more);
    let mut options = options(work, rules("r", &lines));
    options.asks_wait = waits;
    let session = runtime.create(options).await.unwrap();
    say(&session, "go").await;
    let said = shown(&model);
    assert_eq!(kinds(folder, &session, "call_started").len(), 0, "{said}");
    if waits {
        assert!(kinds(folder, &session, "ask").is_empty(), "{said}");
    }
    assert!(runtime.shutdown().await.is_empty());
    said
}

fn work(folder: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = folder.join("work").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

/// EDGES: a call that cannot succeed asks nobody, whether its arguments say so, the file, or the list of agents.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_cannot_succeed_asks_nobody() {
    let folder = taped::folder();
    work(folder.path(), &[("f", "one\n"), ("d/x", "")]);
    std::os::unix::fs::symlink("/", folder.path().join("work/out")).unwrap();
    let edit = |old: &str| json!({"path": "f", "old_string": old, "new_string": "x"});
    let cases = [
        ("edit", json!({"path": "f"}), "missing field `old_string`"),
        ("edit", json!({"path": "f", "old_string": "one"}), "missing field `new_string`"),
        ("edit", json!({"path": "f", "diff": "garbage"}), "The diff has no hunk."),
        ("edit", json!({"path": "f", "diff": "@@ -1 +1 @@\n-two\n+2\n"}), "Hunk 1 does not match the file"),
        ("edit", json!({"path": "f", "old_string": "a", "new_string": "a"}), "identical"),
        ("edit", edit("two"), "Could not find the exact text."),
        ("edit", json!({"path": "missing", "old_string": "a", "new_string": "b"}), "File not found: missing"),
        ("edit", json!({"path": "d", "old_string": "a", "new_string": "b"}), "Is a directory"),
        ("write", json!({"path": "d", "content": "x"}), "Is a directory"),
        ("write", json!({"path": "f/x", "content": "x"}), "Not a directory"),
        ("write", json!({"path": "out/x", "content": "x"}), "outside"),
        ("write", json!({"path": "x"}), "missing field `content`"),
        ("task_send", json!({"message": "x"}), "Say which task"),
        ("task_send", json!({"session_id": "s", "message": " "}), "Say what it should know"),
        ("task_stop", json!({}), "Say which task"),
        ("bash", json!({}), "command is required"),
        ("grep", json!({"pattern": "("}), "Invalid regular expression"),
        (
            "task",
            json!({"description": "a b c", "prompt": "p", "subagent_type": "nobody"}),
            "there is no agent \"nobody\"",
        ),
    ];
    let answers = cases.iter().map(|(tool, arguments, _)| Reply::call(*tool, arguments.clone())).collect();
    let said = told(folder.path(), answers, &[], true).await;
    for (tool, arguments, expected) in &cases {
        assert!(said.contains(expected), "{tool} {arguments}: {said}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("work/f")).unwrap(), "one\n");
}

/// What a file says is not told by way of a call that fails: where the rules do not allow to read it, the ask comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_may_not_be_read_is_not_looked_at_before_the_ask() {
    for action in [Action::Ask, Action::Deny] {
        let folder = taped::folder();
        work(folder.path(), &[("secret/key", "one\n")]);
        std::os::unix::fs::symlink("secret/key", folder.path().join("work/link")).unwrap();
        let edit = |path: &str| Reply::call("edit", json!({"path": path, "old_string": "two", "new_string": "x"}));
        let answers = vec![edit("secret/key"), edit("link"), edit("secret/none")];
        let said = told(folder.path(), answers, &[("read", "secret/**", action)], false).await;
        assert!(said.contains("edit secret/key must be asked for"), "{said}");
        assert!(said.contains("edit secret/none must be asked for"), "{said}");
        assert!(!said.contains("Could not find") && !said.contains("not found"), "{said}");
        assert!(said.contains("it is a link to secret/key, about which the rules are stricter"), "{said}");
    }
}

/// A call may need what a call before it in the same answer does: about both a person is asked. A file that no earlier call names is
/// looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_behind_one_that_changes_its_file_is_not_foreseen() {
    let folder = taped::folder();
    work(folder.path(), &[("f", "one\n"), ("g", "one\n")]);
    let edit = |path: &str, old: &str| ("edit", json!({"path": path, "old_string": old, "new_string": "three"}));
    let calls = [
        ("write", json!({"path": "new", "content": "one"})),
        edit("f", "one"),
        edit("f", "two"),
        edit("new", "one"),
        edit("g", "two"),
    ];
    let answer = calls.into_iter().fold(Reply::empty(), |reply, (tool, arguments)| reply.with_call(tool, arguments));
    let said = told(folder.path(), vec![answer], &[], false).await;
    assert_eq!(said.matches("must be asked for").count(), 4, "{said}");
    assert_eq!(said.matches("Could not find").count(), 1, "{said}");
    let answer = Reply::call("bash", json!({"command": "make"})).with_call("edit", edit("g", "two").1);
    let folder = taped::folder();
    work(folder.path(), &[("g", "one\n")]);
    let said = told(folder.path(), vec![answer], &[], false).await;
    assert_eq!(said.matches("must be asked for").count(), 2, "a command may do anything: {said}");
}
