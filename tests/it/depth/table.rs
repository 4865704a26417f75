//! Every walk over data that others wrote, on a thread with a small stack: the answers to hostile data.
//!
//! A row that overflows its stack ends the test binary with the name of the row's thread. A new walk over data gets a row.

use std::{path::Path, sync::Arc, thread};

use serde_json::{Value, json};
use tamtam::{
    Message, Outcome, Runtime, SessionOptions,
    hook::{Hook as _, HookContext, Redact},
    model::{AnswerPart, Item, Reply, Scripted},
    permission::{Action, Globs, Profile, Rule, Ruleset, decide, with_parts},
    runtime::{Agent, AgentFiles, AgentFolder, Dialect},
    session::{Labels, Record, TaskRequest, VALUE_DEPTH_MAX},
    tool::{Access, PartialJson, parse_arguments},
    tools,
};

use super::{nested, of_provider};

/// A quarter of what a worker of tokio has.
const STACK: usize = 512 * 1024;
const FAR: usize = 100_000;
/// What serde_json reads.
const READ: usize = 126;

fn lists(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

fn objects(depth: usize) -> String {
    r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth)
}

fn within(before: &str, inner: &str, after: &str) -> String {
    format!("{before}{inner}{after}")
}

fn said<T>(read: Result<T, impl std::fmt::Display>) -> String {
    read.map_or_else(
        |error| error.to_string(),
        |read| {
            drop(read);
            "read".to_owned()
        },
    )
}

fn agent_file(name: &str, dialect: Dialect, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    let files = AgentFiles::read(&[AgentFolder::new(folder.path(), dialect)], &Default::default());
    let (_, _, bad) = files.build().unwrap();
    bad.first().map_or("read".to_owned(), ToString::to_string)
}

fn edits(pattern: &str) -> String {
    let rule = Rule::new("edit", pattern, Action::Allow);
    let rules = Ruleset::new("r", vec![rule]);
    let access = [Access::new("edit", "a/b")];
    format!("{:?}", decide(&[&rules], &access, &Globs::default()).judgement.action)
}

fn shell(command: &str) -> String {
    let parts = with_parts(vec![Access::new("bash", command)]);
    let parts: Vec<_> = parts.iter().map(ToString::to_string).collect();
    parts.join("; ")
}

fn facts(input: &str) -> String {
    let facts = tools::full().facts("read", input);
    format!("{:?} {}", facts.unusable, facts.loop_key.is_some())
}

type Row = (&'static str, fn() -> String, &'static str);

const ROWS: &[Row] = &[
    (
        "rules: lists in TOML",
        || said(Ruleset::from_toml("r", &within("a = ", &lists(FAR), ""))),
        "max recursion depth met",
    ),
    (
        "rules: tables in TOML",
        || said(Ruleset::from_toml("r", &within("a = ", &"{a=".repeat(FAR), ""))),
        "max recursion depth met",
    ),
    (
        "rules: a dotted key in TOML",
        || said(Ruleset::from_toml("r", &within(&"a.".repeat(FAR), "a", " = 1"))),
        "recursion limit",
    ),
    (
        "rules: a dotted header in TOML",
        || said(Ruleset::from_toml("r", &within("[", &("a.".repeat(FAR) + "a"), "]"))),
        "recursion limit",
    ),
    ("rules: lists in JSON", || said(Ruleset::from_json("r", &lists(FAR))), "nested too deep"),
    ("rules: objects in JSON", || said(Ruleset::from_json("r", &objects(FAR))), "nested too deep"),
    (
        "an agent of a host as JSON",
        || said(Agent::from_json(&within(r#"{"name":"a","options":"#, &objects(FAR), "}"))),
        "recursion limit exceeded",
    ),
    (
        "an agent's options as JSON",
        || said(Agent::from_json(&within(r#"{"name":"a","description":"d","options":{"a":"#, &lists(READ - 4), "}}"))),
        "options is nested deeper than 96 levels",
    ),
    (
        "an agent in YAML, in one line",
        || agent_file("agents/a.md", Dialect::Tamtam, &within("---\noptions: ", &lists(FAR), "\n---\nx")),
        "recursion limit exceeded",
    ),
    (
        "an agent in YAML, line below line",
        || {
            let lines: String = (0..600).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
            agent_file("agents/a.md", Dialect::Tamtam, &within("---\n", &lines, "---\nx"))
        },
        "nested too deep",
    ),
    (
        "an agent in YAML, lists in lists",
        || agent_file("agents/a.md", Dialect::Tamtam, &within("---\noptions:\n  ", &"- ".repeat(FAR), "x\n---\nx")),
        "nested too deep",
    ),
    (
        "agents as JSON with comments",
        || agent_file("opencode.json", Dialect::OpenCode, &within(r#"{"agent":"#, &objects(30_000), "}")),
        "opencode.json",
    ),
    ("a script of a model", || said(Scripted::from_json(&objects(FAR))), "recursion limit exceeded"),
    ("labels", || said(serde_json::from_str::<Labels>(&within(r#"{"a":"#, &lists(FAR), "}"))), "expected a string"),
    (
        "a task",
        || said(serde_json::from_str::<TaskRequest>(&within(r#"{"x":"#, &lists(FAR), "}"))),
        "missing field `agent`",
    ),
    (
        "a message, as deep as it is read",
        || {
            let value = within(
                r#"{"type":"text","text":"t","extra":{"provider":"p","api":"a","value":"#,
                &lists(READ - 6),
                "}}",
            );
            said(serde_json::from_str::<Message>(&within(r#"{"id":"m","role":"user","parts":["#, &value, "]}")))
        },
        "read",
    ),
    ("arguments, far too deep", || facts(&within(r#"{"path":"#, &lists(FAR), "}")), "None true"),
    ("arguments, as deep as they are read", || facts(&within(r#"{"path":"#, &objects(READ - 1), "}")), "true"),
    ("arguments as a type", || said(parse_arguments::<Value>(nested(READ))), "read"),
    (
        "arguments that are still arriving",
        || {
            let mut json = PartialJson::new();
            json.push(&within(r#"{"path":"#, &lists(FAR), ""));
            said(json.parsed().map_err(|error| error.to_string()))
        },
        "not the beginning of a json object",
    ),
    (
        "redaction of an answer",
        || {
            let part = AnswerPart::Text { text: "x".into(), extra: Some(of_provider(VALUE_DEPTH_MAX)) };
            let context = HookContext::detached("s".parse().unwrap());
            now(Redact::new().on_answer(&context, vec![part])).len().to_string()
        },
        "1",
    ),
    ("a glob of a rule", || edits(&within(&"{a,".repeat(FAR), "b", &"}".repeat(FAR))), "Ask"),
    ("a glob of a rule, without an end", || edits(&"{".repeat(FAR)), "Ask"),
    ("a glob of a rule, with braces in braces", || edits("{a/{b,{c,d}},e}"), "Allow"),
    ("a command with commands in it", || shell(&within(&"$(".repeat(FAR), "true", &")".repeat(FAR))), "bash"),
    ("a command with subshells", || shell(&within(&"( ".repeat(4_000), "true", &" )".repeat(4_000))), "bash"),
    ("a command with groups", || shell(&within(&"{ ".repeat(3_000), "true;", &" }".repeat(3_000))), "bash"),
    (
        "a command with words in words",
        || shell(&within("echo ", &"\"$(echo ".repeat(1_000), &")\"".repeat(1_000))),
        "bash",
    ),
    ("a command with sums", || shell(&within("echo $((", &"(".repeat(6_000), "")), "bash"),
    ("a command with ifs", || shell(&"if true; then ".repeat(500)), "bash"),
    ("a command with expansions", || shell(&within("echo ", &"${a:-".repeat(1_500), &"}".repeat(1_500))), "bash"),
    ("a command with not and not", || shell(&within(&"! ".repeat(7_000), "true", "")), "bash"),
    ("a command with a pipe and a pipe", || shell(&within("true", &" | true".repeat(2_000), "")), "bash"),
    ("a command with and and and", || shell(&within("true", &" && true".repeat(1_800), "")), "bash"),
];

/// The result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(future).unwrap()
}

#[test]
fn no_walk_over_hostile_data_leaves_its_stack() {
    let mut wrong = Vec::new();
    for (walk, answer, says) in ROWS {
        let row = thread::Builder::new().name((*walk).to_owned()).stack_size(STACK).spawn(answer).unwrap();
        let answered = row.join().unwrap();
        let shown: String = answered.chars().take(200).collect();
        if !answered.contains(says) || answered.is_empty() || says.is_empty() {
            wrong.push(format!("{walk}: {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A call of a tool, and a part of what the model is told.
type Call = (&'static str, fn() -> Value, &'static str);

const CALLS: &[Call] = &[
    ("find", || json!({"pattern": within(&"{a,".repeat(1_000), "b", &"}".repeat(1_000))}), "more than 16 deep"),
    ("find", || json!({"pattern": "*.txt"}), "a.txt"),
    ("grep", || json!({"pattern": "(".repeat(FAR)}), "Invalid regular expression"),
    ("grep", || json!({"pattern": within(&"(".repeat(2_000), "a", &")".repeat(2_000))}), "Invalid regular expression"),
    ("grep", || json!({"pattern": within(&"[".repeat(2_000), "a", &"]".repeat(2_000))}), "Invalid regular expression"),
    (
        "grep",
        || json!({"pattern": "x", "glob": within(&"{a,".repeat(1_000), "b", &"}".repeat(1_000))}),
        "more than 16 deep",
    ),
    ("read", || json!({"path": nested(90)}), "expected a string"),
    (
        "edit",
        || json!({"path": "a.txt", "old_string": "x\n".repeat(8_000), "new_string": "y\nx\n".repeat(4_000)}),
        "Edited",
    ),
    (
        "write",
        || json!({"path": "a.txt", "content": (0..20_000).map(|n| format!("{}\n", n % 7)).collect::<String>()}),
        "Wrote",
    ),
];

/// The same through the tools, on workers and blocking threads with a small stack. The workspace is hostile too.
#[test]
fn no_tool_leaves_its_stack_over_what_a_model_or_a_workspace_says() {
    let small = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(2 * STACK)
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    hostile(folder.path());
    let answers = small.block_on(small.spawn(called(folder.path().to_path_buf()))).unwrap();
    let wrong = CALLS.iter().zip(answers).filter(|((_, _, says), said)| !said.contains(says) || says.is_empty());
    let wrong: Vec<_> = wrong.map(|((tool, ..), said)| format!("{tool}: {said}")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn hostile(workspace: &Path) {
    std::fs::write(workspace.join("a.txt"), "x\n".repeat(8_000)).unwrap();
    let braces = within(&"{a,".repeat(FAR), "b", &"}".repeat(FAR));
    let classes = "[".repeat(FAR);
    std::fs::create_dir(workspace.join(".git")).unwrap();
    let fewer = within(&"{a,".repeat(2_000), "b", &"}".repeat(2_000));
    for name in [".gitignore", ".ignore"] {
        let lines = [&braces, &fewer, &classes, &"{".repeat(FAR), &"**/".repeat(FAR)].map(|line| format!("{line}\n"));
        std::fs::write(workspace.join(name), lines.concat()).unwrap();
    }
}

/// What the model is told of each call, each in a session of its own.
async fn called(workspace: std::path::PathBuf) -> Vec<String> {
    let mut answers = Vec::new();
    for (tool, arguments, _) in CALLS {
        let model = Scripted::from_fn(move |request| match request.history.iter().last().map(|item| &**item) {
            Some(Item::Result(_)) => Reply::text("done"),
            _ => Reply::call(*tool, arguments()),
        });
        let runtime = Runtime::builder().in_memory().model(Arc::new(model)).tools(tools::full()).start().await.unwrap();
        let session = runtime.create(SessionOptions::new(&workspace).profile(Profile::Auto)).await.unwrap();
        assert_eq!(session.prompt("go").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
        let results = session.entries().await.unwrap().into_iter().filter_map(|entry| match entry.record {
            Record::Result { result, .. } => Some(result.content.chars().take(300).collect()),
            _ => None,
        });
        answers.extend(results.take(1));
        assert!(runtime.shutdown().await.is_empty());
    }
    answers
}
