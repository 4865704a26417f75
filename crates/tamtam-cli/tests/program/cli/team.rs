//! Agents and commands as files of the user, at the binary: they are listed, chosen and carried out, and a bad one
//! affects no other.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::lab::Lab;

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A home with agents and commands of three programs, and a workspace with some of its own.
fn lab() -> Lab {
    let lab = Lab::new();
    let (home, work) = (lab.path("home"), lab.path("work"));
    let text = |description: &str, body: &str| format!("---\ndescription: {description}\n---\n{body}\n");
    put(&home, ".config/tamtam/agents/reader.md", &text("Reads.", "You read, and write nothing."));
    put(&home, ".config/tamtam/agents/broken.md", "---\ndescription: x\nmodle: a/b\n---\n");
    put(&home, ".config/tamtam/commands/greet.md", &text("Greets.", "Greet $1 in $2."));
    put(&home, ".config/tamtam/commands/read.md", "---\nagent: reader\n---\nRead $ARGUMENTS.");
    put(&home, ".config/tamtam/commands/far.md", "---\nsubtask: true\n---\nGo far.");
    put(&home, ".config/opencode/agent/docs.md", "---\ndescription: Writes docs.\nmode: subagent\n---\nWrite.");
    put(&home, ".claude/agents/review.md", "---\nname: review\ndescription: Reviews.\nmodel: sonnet\n---\nReview.");
    put(&work, ".tamtam/agents/stranger.md", &text("Is not trusted.", "Obey."));
    put(&work, ".claude/agents/stranger.md", "---\nname: stranger\ndescription: x\n---\nObey.");
    lab
}

/// M-06, M-09: each agent with its mode and its file; a file that is bad by its line; none of a folder that nobody trusts.
#[test]
fn agents_are_listed_with_where_they_come_from() {
    let lab = lab();
    let ended = lab.run(&["agents", "--json"]);
    let lines = ended.lines();
    let named = |name: &str| lines.iter().find(|line| line["name"] == name).unwrap_or(&Value::Null);
    for (name, mode, origin) in [
        ("build", "primary", "built in"),
        ("explore", "subagent", "built in"),
        ("reader", "all", "reader.md"),
        ("docs", "subagent", "docs.md"),
        ("review", "all", "review.md"),
    ] {
        assert_eq!(named(name)["mode"], mode, "{name}: {}", ended.stdout);
        assert!(named(name)["origin"].as_str().unwrap().ends_with(origin), "{name}");
    }
    assert_eq!((named("build")["default"].clone(), named("reader")["default"].clone()), (json!(true), json!(false)));
    assert!(named("stranger").is_null() && named("title").is_null());
    let bad: Vec<_> = lines.iter().filter(|line| !line["bad_file"].is_null()).collect();
    assert_eq!((bad.len(), &bad[0]["bad_file"]["line"], &bad[0]["bad_file"]["field"]), (1, &json!(3), &json!("modle")));
    let text = lab.run(&["agents"]);
    assert!(text.stdout.contains("reader") && text.stdout.contains("not used: ") && text.code == 0, "{}", text.stdout);
}

/// M-09, N-05: a file's agent answers as it says, and the run tells of the file that could not be used.
#[test]
fn a_run_is_by_the_agent_of_a_file() {
    let lab = lab();
    let model = lab.script(json!([{"text": "Read."}, {"text": "Built."}]));
    let ended = lab.run(&["run", "--session", "s", "--agent", "reader", "--model", &model, "go"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Read.\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("broken.md:3: modle"), "{}", ended.stderr);
    let tape = lab.tape("s");
    assert!(tape.iter().any(|entry| entry.to_string().contains("You read, and write nothing.")), "{tape:?}");
    // For tasks only, or of a folder that is not trusted: a run by it is refused, with those that there are.
    for name in ["docs", "explore", "stranger", "title"] {
        let refused = lab.run(&["run", "--agent", name, "--model", &model, "go"]);
        assert_eq!(refused.code, 2, "{name}");
        assert!(refused.error().contains("choose build or plan or reader or review"), "{}", refused.stderr);
    }
}

/// N-01, N-04, N-07, CMD-002: a prompt that begins with a slash is a command; an unknown one makes no session.
#[test]
fn a_prompt_with_a_slash_is_a_command() {
    let lab = lab();
    let model = lab.script(json!([{"expect": ["Greet Ada L. in Latin."], "text": "Salve."}]));
    let ended = lab.run(&["run", "--session", "s", "--model", &model, "/greet 'Ada L.' Latin"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Salve.\n"), "{}", ended.stderr);
    let unknown = lab.run(&["run", "--session", "t", "--model", &model, "/great Ada"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    assert!(
        unknown.error().contains("unknown command /great") && unknown.error().contains("/greet"),
        "{}",
        unknown.stderr
    );
    assert_ne!(lab.run(&["tape", "show", "t"]).code, 0, "no session was made");
    let undone = lab.run(&["run", "--session", "s", "--model", &model, "/undo"]);
    assert!(undone.code == 0 && undone.stderr.contains("Undid 1 message; /redo restores it."), "{}", undone.stderr);
}

/// N-06, O-06: a command with `subtask` is a task of its own: the conversation gets how it ended, and not its words.
#[test]
fn a_command_may_be_a_task_of_its_own() {
    let lab = lab();
    // Each session begins the script anew.
    let model = lab.script(json!(["Far away."]));
    let ended = lab.run(&["run", "--session", "s", "--model", &model, "/far"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Far away.\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains(" – finished (1 step)"), "{}", ended.stderr);
    let tape = lab.tape("s");
    let count = |kind: &str| tape.iter().filter(|entry| entry["kind"] == kind).count();
    assert_eq!((count("accepted"), count("task_started"), count("task_finished"), count("request")), (0, 1, 1, 1));
}

/// Reliability C02: agents of a workspace are read as they were trusted, and not once one of them has changed.
#[test]
fn agents_of_a_workspace_are_read_while_they_are_as_they_were_trusted() {
    let lab = lab();
    let listed = || lab.run(&["agents", "--json"]).stdout.contains("\"name\":\"stranger\"");
    assert!(!listed());
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    assert!(listed());
    put(&lab.path("work"), ".claude/agents/stranger.md", "---\nname: stranger\ndescription: x\n---\nObey!");
    assert!(!listed());
    let told = lab.run(&["agents"]);
    assert!(told.stdout.contains("not used: .claude/agents/stranger.md has changed"), "{}", told.stdout);
}

/// N-02, N-05: the same commands as lines of JSON, each with its reply.
#[test]
fn a_program_gives_commands_as_lines() {
    let lab = lab();
    let model = lab.script(json!([
        {"calls": [{"name": "bash", "input": {"command": "true"}}]},
        {"text": "Done."},
        {"expect": ["Read a.txt."], "text": "Read it."},
    ]));
    let mut live = lab.start(&["run", "--json", "--session", "s", "--permission", "strict", "--model", &model, "go"]);
    let ask = live.until_event("ask");
    for (line, expected) in [
        (json!({"command": "/agents"}), "* build"),
        (json!({"command": "/help"}), "/greet"),
        (json!({"command": "/nope"}), "not_found"),
        (json!({"command": "/agent nobody"}), "not_found"),
        (json!({"command": "/agent"}), "/agent takes NAME"),
        (json!({"command": "/model nonsense"}), "PROVIDER/MODEL"),
        (json!({"command": "/undo"}), "busy"),
        // A command with an agent of its own waits for a turn of its own.
        (json!({"command": "/read a.txt"}), "queued"),
        (json!({"command": "agents"}), "must begin with /"),
    ] {
        live.say(&line.to_string());
        let reply = live.until(|line| !line["reply"].is_null())["reply"].to_string();
        assert!(reply.contains(expected), "{line}: {reply}");
    }
    live.say(&json!({"answer": {"ask": ask["ask"], "grant": "once"}}).to_string());
    let ended = live.end();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lines = ended.lines();
    let switched = lines.iter().filter(|line| line["event"] == "agent_switched").map(|line| line["agent"].clone());
    assert_eq!(switched.collect::<Vec<_>>(), ["reader", "build"]);
}
