//! Hooks that are programs, in the form of Claude Code's settings: trusted, told, obeyed, bounded.

use serde_json::{Value, json};

use super::lab::{Ended, Lab};

fn settings(event: &str, matcher: &str, command: &str) -> String {
    json!({ "hooks": { event: [{ "matcher": matcher, "hooks": [{ "type": "command", "command": command }] }] } })
        .to_string()
}

/// A workspace that is trusted with these hooks.
fn trusted(event: &str, matcher: &str, command: &str) -> Lab {
    let lab = Lab::new();
    lab.put("work/.claude/settings.json", &settings(event, matcher, command));
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    lab
}

fn run(lab: &Lab, replies: Value) -> Ended {
    let model = lab.script(replies);
    lab.run(&["run", "--permission", "auto", "--json", "--model", &model, "go"])
}

fn write(path: &str) -> Value {
    json!({ "calls": [{ "name": "write", "input": { "path": path, "content": "new" } }] })
}

/// S13, S22, C01: a hook of a workspace runs once its file is trusted, byte for byte; a changed file runs nothing.
#[test]
fn a_hook_of_a_workspace_runs_once_its_file_is_trusted() {
    let lab = Lab::new();
    lab.put("work/.claude/settings.json", &settings("PreToolUse", "Write", "echo x >> ran; exit 2"));
    let before = run(&lab, json!([write("a.txt"), "Done."]));
    assert!(before.stderr.contains(".claude/settings.json is ignored: it is not trusted"), "{}", before.stderr);
    assert!(!lab.work("ran").exists() && lab.work("a.txt").exists());
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    let blocked = run(&lab, json!([write("b.txt"), "Done."]));
    assert!(blocked.stdout.contains("Blocked by hook: it gave no reason"), "{}", blocked.stdout);
    assert!(lab.work("ran").exists() && !lab.work("b.txt").exists());
    lab.put("work/.claude/settings.json", &settings("PreToolUse", "Write", "echo y >> ran; exit 2"));
    let changed = run(&lab, json!([write("c.txt"), "Done."]));
    assert!(changed.stderr.contains("has changed since you trusted"), "{}", changed.stderr);
    assert_eq!(std::fs::read_to_string(lab.work("ran")).unwrap(), "x\n");
}

/// AA-02, R-01, R-10: a program is told of a call as Claude Code tells it, and lets it run, blocks it, or rewrites it; what the rules
/// deny stays denied, and a program that fails, hangs or floods blocks it.
#[test]
fn a_program_gates_a_call() {
    let told = r#"cat > told.json; echo '{"hookSpecificOutput": {"permissionDecision": "allow"}}'"#;
    let lab = trusted("PreToolUse", "Write|Bash", told);
    run(&lab, json!([write("a.txt"), "Done."]));
    let told: Value = serde_json::from_str(&std::fs::read_to_string(lab.work("told.json")).unwrap()).unwrap();
    assert_eq!((&told["hook_event_name"], &told["tool_name"]), (&json!("PreToolUse"), &json!("Write")));
    let file = std::fs::canonicalize(lab.work("a.txt")).unwrap();
    assert_eq!(told["tool_input"], json!({ "file_path": file, "content": "new" }));
    assert!(told["cwd"] == json!(file.parent().unwrap()) && told["session_id"].is_string(), "{told}");

    let rewrite = |to: &str| {
        let input = json!({ "file_path": to, "content": "other" });
        json!({ "hookSpecificOutput": { "permissionDecision": "allow", "updatedInput": input } }).to_string()
    };
    for (command, left, expected) in [
        ("echo no way >&2; exit 2".to_owned(), "", "Blocked by hook: no way"),
        (r#"echo '{"decision": "block", "reason": "not today"}'"#.to_owned(), "", "Blocked by hook: not today"),
        ("exit 7".to_owned(), "", "failed with exit code 7: it wrote nothing to stderr; mend it"),
        ("kill -9 $$".to_owned(), "", "was ended by a signal"),
        ("yes".to_owned(), "", "wrote more than 65536 bytes"),
        ("echo '{'".to_owned(), "", "wrote bad JSON"),
        (r#"echo '{"decision": "perhaps"}'"#.to_owned(), "", "gave the decision \\\"perhaps\\\""),
        (format!("echo '{}'", rewrite("b.txt")), "other", "b.txt"),
        (format!("echo '{}'", rewrite("/etc/x")), "", "Permission denied"),
        (r#"echo '{"continue": false, "stopReason": "enough"}'"#.to_owned(), "", "enough"),
        ("true".to_owned(), "new", "b.txt"),
    ] {
        let lab = trusted("PreToolUse", ".*", &command);
        let ended = run(&lab, json!([write("b.txt"), "Done."]));
        assert!(ended.stdout.contains(expected), "{command}: {}", ended.stdout);
        assert_eq!(std::fs::read_to_string(lab.work("b.txt")).unwrap_or_default(), left, "{command}");
        assert_eq!(lab.processes_that(|line| line.contains("yes")), 0);
    }
}

/// P10: a program that is too slow blocks its call, and nothing of what it started is left.
#[test]
fn a_program_that_hangs_blocks_the_call_and_is_gone() {
    let lab = Lab::new();
    let hook = json!({ "type": "command", "command": "sleep 4711 & sleep 4711", "timeout": 0.2 });
    lab.put("work/.tamtam/hooks.json", &json!({ "hooks": { "PreToolUse": [{ "hooks": [hook] }] } }).to_string());
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    let ended = run(&lab, json!([write("b.txt"), "Done."]));
    assert!(ended.stdout.contains("did not end within 0.2 s"), "{}", ended.stdout);
    assert!(!lab.work("b.txt").exists());
    assert_eq!(lab.processes_that(|line| line.contains("sleep 4711")), 0);
}

/// R-02, R-03, R-12: what programs say to a message, after a call, at the beginning and at the end reaches the model.
#[test]
fn programs_speak_at_the_other_points() {
    for (event, command, replies, expected) in [
        ("UserPromptSubmit", "echo It is Tuesday.", json!([{"expect": ["It is Tuesday."], "text": "ok"}]), "ok"),
        ("SessionStart", "echo Be brief.", json!([{"expect": ["Be brief."], "text": "ok"}]), "ok"),
        (
            "PostToolUse",
            "echo run the linter >&2; exit 2",
            json!([write("a.txt"), {"expect": ["[Hook: run the linter]"], "text": "ok"}]),
            "ok",
        ),
        (
            "Stop",
            "echo run the tests >&2; exit 2",
            json!(["Done.", {"expect": ["run the tests"], "text": "Tested."}]),
            "Tested.",
        ),
    ] {
        let lab = trusted(event, "", command);
        let model = lab.script(replies);
        let ended = lab.run(&["run", "--permission", "auto", "--model", &model, "go"]);
        assert!(ended.code == 0 && ended.stdout.contains(expected), "{event}: {} {}", ended.stdout, ended.stderr);
    }
    let lab = trusted("UserPromptSubmit", "", "echo not in this house >&2; exit 2");
    let model = lab.script(json!(["ok"]));
    let refused = lab.run(&["run", "--permission", "auto", "--model", &model, "go"]);
    assert!(refused.code != 0 && refused.stderr.contains("not in this house"), "{} {}", refused.code, refused.stderr);
}

/// What is configured is listed with its file; what cannot be used is named with its place, and fails a check.
#[test]
fn hooks_are_listed_and_checked() {
    let lab = Lab::new();
    assert!(lab.run(&["hooks", "list"]).stdout.starts_with("no hooks: "));
    lab.put("home/.config/tamtam/hooks.json", &settings("Stop", "", "make check"));
    lab.put("work/.tamtam/hooks.json", &settings("PreToolUse", "Bash", "./gate"));
    lab.put("work/.claude/settings.local.json", &settings("WorktreeCreate", "", "x"));
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    let listed = lab.run(&["hooks", "list"]);
    let lines: Vec<_> = listed.stdout.lines().collect();
    assert!(
        lines.len() == 3 && lines[0].starts_with("Stop *  make check  (60 s; ") && lines[0].contains("hooks.json"),
        "{lines:?}"
    );
    assert_eq!(lines[1], "PreToolUse Bash  ./gate  (60 s; .tamtam/hooks.json)");
    assert!(
        lines[2].starts_with("not used: .claude/settings.local.json: hooks.WorktreeCreate: there is no such point"),
        "{lines:?}"
    );
    let checked = lab.run(&["hooks", "check", "--json"]);
    assert_eq!((checked.code, checked.lines().len(), listed.code), (1, 2, 0));
}

/// V-04, P-09: the hints that ship are switched on by a file, and off by an argument.
#[test]
fn the_hints_are_switched_on_by_a_file() {
    let lab = Lab::new();
    let told = |arguments: &[&str]| {
        let model = lab.script(json!([{"text": "ok"}]));
        let arguments = [&["run", "--json", "--model", &model], arguments, &["create snake game"]].concat();
        lab.run(&arguments).stdout.contains("this looks SIMPLE (85 % sure)")
    };
    assert!(!told(&[]));
    lab.put("home/.config/tamtam/config.toml", "planning = true\nread_loop = true\n");
    assert!(told(&[]) && !told(&["--planning=false"]));
    lab.put("home/.config/tamtam/config.toml", "planning = 3\n");
    let bad = lab.run(&["run", "--model", &lab.script(json!([])), "go"]);
    assert!(
        bad.code == 2 && bad.error().contains("planning") && bad.error().contains("true or false"),
        "{}",
        bad.stderr
    );
}

/// P-04: files of a list in the configuration join the system prompt, in their order; one that is not there is named; a project
/// cannot name any.
#[test]
fn instructions_join_the_system_prompt() {
    let lab = Lab::new();
    lab.put("home/.config/tamtam/house.md", "Write tests first.\n");
    lab.put("home/more.md", "Use tabs.\n");
    lab.put("home/.config/tamtam/config.toml", "instructions = [\"house.md\", \"~/more.md\", \"gone.md\"]\n");
    let model = lab.script(json!(["ok"]));
    let ended = lab.run(&["run", "--session", "s", "--model", &model, "go"]);
    assert!(ended.code == 0 && ended.stderr.contains("gone.md: it is not there"), "{}", ended.stderr);
    let tape = lab.tape("s");
    let system = tape[0]["data"]["settings"]["system"].as_str().unwrap();
    let at = |text: &str| system.find(text).unwrap_or_else(|| panic!("{system}"));
    assert!(at("Write tests first.") < at("Use tabs."));
    lab.put("work/.tamtam/config.toml", "instructions = [\"house.md\"]\n");
    let refused = lab.run(&["trust", "--yes", "."]);
    assert!(refused.code == 2 && refused.error().contains("a project cannot set this"), "{}", refused.stderr);
}

/// N-03, N-08: `/review` is a task of its own; a command with `subtask` is one of its agent, also of one for sessions, and its model.
#[test]
fn a_command_with_subtask_has_its_agent_and_its_model() {
    let lab = Lab::new();
    let model = lab.script(json!(["Nothing is wrong."]));
    let command = "---\ndescription: looks\nsubtask: true\nagent: build\nmodel: scripted/other\n---\nLook.\n";
    lab.put("home/.config/tamtam/commands/look.md", command);
    for (name, line, agent, by) in [("a", "/review src", "general", "scripted"), ("b", "/look", "build", "other")] {
        let ended = lab.run(&["run", "--session", name, "--model", &model, line]);
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "Nothing is wrong.\n"), "{}", ended.stderr);
        let order = lab.tape(name).into_iter().find(|entry| entry["kind"] == "task_started").unwrap();
        let settings = &order["data"]["order"]["settings"];
        assert_eq!(settings["agent"], agent, "{settings}");
        assert!(settings["model"].to_string().contains(by), "{}", settings["model"]);
    }
}

/// A hook of the user's own starts in the user's folder: `./check.sh` of a repository that nobody trusts is not the user's.
#[test]
fn a_hook_of_the_user_starts_in_the_users_folder() {
    let lab = Lab::new();
    let says_where = "pwd > \"$CLAUDE_PROJECT_DIR/where\"; ./check.sh 2>/dev/null; exit 0";
    lab.put("home/.config/tamtam/hooks.json", &settings("PreToolUse", "Write", says_where));
    lab.put("work/check.sh", "#!/bin/sh\ntouch \"$CLAUDE_PROJECT_DIR/stranger\"\n");
    run(&lab, json!([write("a.txt"), "Done."]));
    let place = std::fs::read_to_string(lab.work("where")).unwrap();
    assert!(place.trim_end().ends_with("home/.config/tamtam"), "{place}");
    assert!(!lab.work("stranger").exists());
}

/// A gate over `file_path` sees the file under each name that the tool takes it by.
#[test]
fn a_gate_sees_the_file_by_each_of_its_names() {
    let no_env = r#"grep -q '"file_path":"/[^"]*/secret.txt"' && exit 2; exit 0"#;
    let lab = trusted("PreToolUse", "Write", no_env);
    for name in ["path", "file", "filePath", "file_path"] {
        let call = json!({ "calls": [{ "name": "write", "input": { name: "secret.txt", "content": "new" } }] });
        let ended = run(&lab, json!([call, "Done."]));
        assert!(
            ended.stdout.contains("Blocked by hook") && !lab.work("secret.txt").exists(),
            "{name}: {}",
            ended.stdout
        );
    }
}

/// What an agent denies stays denied when a session goes on under a wider profile.
#[test]
fn a_profile_does_not_undo_what_the_agent_denies() {
    let lab = Lab::new();
    let reviewer = "---\ndescription: Reads\npermission:\n  edit: deny\n---\nYou read.\n";
    lab.put("home/.config/tamtam/agents/reviewer.md", reviewer);
    let first = lab.script(json!(["Read."]));
    assert_eq!(lab.run(&["run", "--session", "s", "--agent", "reviewer", "--model", &first, "go"]).code, 0);
    let model = lab.script(json!(["Read.", write("a.txt"), "Done."]));
    let ended = lab.run(&["resume", "s", "--permission", "auto", "--json", "--model", &model, "write it"]);
    assert!(!lab.work("a.txt").exists(), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("\"call_finished\"") || ended.stdout.contains("denied"), "{}", ended.stdout);
}
