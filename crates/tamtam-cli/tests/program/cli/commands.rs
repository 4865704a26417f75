//! What each command prints, and how it ends.

use serde_json::json;

use super::lab::{Lab, has};
use crate::support::taped::LeftOut;

/// CLI-RUN-001: the text is on stdout and nothing else is; the session's id is told on stderr.
#[test]
fn a_prompt_is_answered_on_stdout() {
    let lab = Lab::new();
    let model = lab.script(json!([{"text": ["Hello, ", "world."]}]));
    let ended = lab.run(&["run", "--model", &model, "say", "hello"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Hello, world.\n"), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("session "), "{}", ended.stderr);
}

/// CLI-RUN-003: a tool runs, and its result reaches the model.
#[test]
fn a_tool_is_run_and_its_result_reaches_the_model() {
    let lab = Lab::new();
    std::fs::write(lab.work("data.txt"), "run mode data").unwrap();
    let model = lab.script(json!([
        {"calls": [{"name": "read", "input": {"path": "data.txt"}}]},
        {"expect": ["run mode data"], "text": "It says: run mode data"},
    ]));
    let ended = lab.run(&["run", "--model", &model, "read it"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "It says: run mode data\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("→ read"), "{}", ended.stderr);
}

/// Without a terminal the profile is `headless`: what would be asked is denied, the model goes on, and that is done.
#[test]
fn without_a_terminal_what_would_be_asked_is_denied() {
    let lab = Lab::new();
    let model = lab.script(json!([
        {"calls": [{"name": "write", "input": {"path": "a.txt", "content": "a"}}]},
        {"expect": ["Permission denied"], "text": "Then not."},
    ]));
    assert_eq!(lab.run(&["run", "--model", &model, "write it"]).code, 0);
    assert!(!lab.work("a.txt").exists());
    // Also under a profile that asks, where nobody could answer.
    let model = lab.script(json!([
        {"calls": [{"name": "write", "input": {"path": "a.txt", "content": "a"}}]},
        {"expect": ["nobody listens who could answer"], "text": "Then not."},
    ]));
    assert_eq!(lab.run(&["run", "--model", &model, "--permission", "ask", "write it"]).stdout, "Then not.\n");
}

/// A rules file stands behind the profile and loosens it.
#[test]
fn rules_of_a_file_win_over_the_profile() {
    let lab = Lab::new();
    let rules = lab.path("rules");
    std::fs::write(&rules, "{\"permission\":\"edit\",\"pattern\":\"a.txt\",\"action\":\"allow\"}\n").unwrap();
    let rules = rules.to_str().unwrap();
    let model = lab.script(json!([
        {"calls": [
            {"name": "write", "input": {"path": "a.txt", "content": "a"}},
            {"name": "write", "input": {"path": "b.txt", "content": "b"}},
        ]},
        "Done.",
    ]));
    assert_eq!(lab.run(&["run", "--model", &model, "--rules", rules, "write"]).code, 0);
    assert!(lab.work("a.txt").exists() && !lab.work("b.txt").exists());
    let judged = |path: &str| {
        let call = json!({"path": path, "content": ""}).to_string();
        lab.run(&["permit", "write", &call, "--permission", "headless", "--rules", rules]).lines()[0].clone()
    };
    assert_eq!((&judged("a.txt")["decision"], &judged("b.txt")["decision"]), (&json!("allow"), &json!("deny")));
    assert!(judged("a.txt")["why"].as_str().unwrap().contains("allow edit a.txt"));
}

/// H-17: the answer names the command that a rule was asked about.
#[test]
fn permit_names_decision_rule_layer_and_why_and_runs_nothing() {
    let lab = Lab::new();
    let ended = lab.run(&["permit", "bash", "{\"command\":\"touch x\"}", "--permission", "strict"]);
    let judged = &ended.lines()[0];
    assert_eq!(ended.code, 0);
    assert_eq!((&judged["decision"], &judged["layer"]), (&json!("ask"), &json!("profile strict")));
    assert_eq!(judged["rule"]["permission"], "bash");
    assert!(judged["why"].as_str().unwrap().contains("touch x"), "{judged}");
    assert!(!lab.work("x").exists());
}

/// H-17: the path is the one that a session would judge, however it is spelled, and a link is what it leads to.
#[test]
fn permit_judges_the_path_that_a_session_would() {
    let lab = Lab::new();
    let rules = lab.work("rules");
    let denied = json!({"permission": "read", "pattern": "secret/**", "action": "deny"});
    std::fs::write(&rules, format!("{denied}\n")).unwrap();
    std::fs::create_dir(lab.work("secret")).unwrap();
    std::fs::write(lab.work("secret/key"), "").unwrap();
    std::os::unix::fs::symlink("secret/key", lab.work("link")).unwrap();
    std::os::unix::fs::symlink("secret/none", lab.work("dangling")).unwrap();
    let judged = |path: &str| {
        let call = json!({ "path": path }).to_string();
        let rules = rules.to_str().unwrap();
        lab.run(&["permit", "read", &call, "--permission", "auto", "--rules", rules]).lines()[0].clone()
    };
    let work = lab.work("").canonicalize().unwrap();
    let inside = work.join("plain").to_str().unwrap().to_owned();
    for (path, expected) in [
        ("plain", "allow"),
        (&inside, "allow"),
        (&inside.replace("plain", "secret/key"), "deny"),
        ("/etc/hostname", "ask"),
        ("secret/key", "deny"),
        ("link", "deny"),
        ("dangling", "deny"),
    ] {
        assert_eq!(judged(path)["decision"], expected, "{path}");
    }
    assert!(judged("link")["why"].as_str().unwrap().contains("goes through a link"), "{}", judged("link"));
}

#[test]
fn one_tool_runs_and_prints_its_result() {
    let lab = Lab::new();
    let done = lab.run(&["tool", "write", "{\"path\":\"a.txt\",\"content\":\"one\\n\"}"]);
    assert_eq!((done.code, &done.lines()[0]["is_error"]), (0, &json!(false)), "{}", done.stderr);
    assert!(has(&lab.work("a.txt"), "one"));
    let read = lab.run(&["tool", "read", "{\"path\":\"a.txt\"}"]);
    assert!(read.lines()[0]["content"].as_str().unwrap().contains("one"));
    let missing = lab.run(&["tool", "read", "{\"path\":\"none\"}"]);
    assert_eq!((missing.code, &missing.lines()[0]["is_error"]), (1, &json!(true)));
}

/// A model that wants more steps than it may make is stopped: 3.
#[test]
fn the_step_limit_ends_with_3() {
    let lab = Lab::new();
    let call = json!({"calls": [{"name": "ls", "input": {"path": "."}}]});
    let model = lab.script(json!([call, {"text": "I would go on."}]));
    let ended = lab.run(&["run", "--model", &model, "--max-steps", "1", "go"]);
    let twice = lab.script(json!([call, call, call]));
    let stopped = lab.run(&["run", "--model", &twice, "--max-steps", "2", "go"]);
    assert_eq!((ended.code, stopped.code), (3, 3), "{}{}", ended.stderr, stopped.stderr);
    assert!(stopped.error().contains("--max-steps"), "{}", stopped.stderr);
}

/// A reader who has gone ends the command without a word about pipes.
#[test]
fn a_broken_pipe_ends_quietly() {
    let lab = Lab::new();
    let model = lab.script(json!([{"text": ["a", "b", "c", "d", "e", "f"], "chunk_delay_ms": 100}]));
    let mut run = lab.start(&["run", "--json", "--model", &model, "go"]);
    run.until_event("text_delta");
    run.close_stdout();
    let ended = run.end();
    assert_eq!((ended.code, ended.stderr.as_str()), (1, ""));
}

/// Commands whose reader had gone stopped half-way, or said with their exit code that all was well.
#[test]
fn a_command_without_a_reader_does_its_work_and_ends_as_with_one() {
    let lab = Lab::new();
    lab.may_leave_out(LeftOut::Damaged);
    let unread = |arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = lab.command(arguments).stdout(writer).output().unwrap();
        (ended.status.code().unwrap(), String::from_utf8(ended.stderr).unwrap())
    };
    let write = json!({"name": "write", "input": {"path": "a", "content": "a"}});
    let model = lab.script(json!([{"calls": [write]}, "Done."]));
    assert_eq!(lab.run(&["run", "--session", "s", "--permission", "auto", "--model", &model, "go"]).code, 0);
    let quiet = |exit: i32| (exit, String::new());
    assert_eq!(unread(&["tape", "restore", "s", "--yes"]), quiet(0));
    assert!(!lab.work("a").exists());
    assert_eq!(unread(&["tool", "read", r#"{"path":"a"}"#]), quiet(1));
    assert_eq!(unread(&["doctor", "--store", lab.work("file").to_str().unwrap()]), quiet(0));
    std::fs::write(lab.work("file"), "").unwrap();
    assert_eq!(unread(&["doctor", "--store", lab.work("file").to_str().unwrap()]), quiet(1));
    std::fs::write(lab.work("AGENTS.md"), "Be kind.").unwrap();
    assert_eq!(unread(&["trust", "--yes", "."]), quiet(0));
    assert!(lab.run(&["trust", "--list"]).stdout.contains("  trusted, "));
    let tape = lab.path("home/.local/share/tamtam/sessions/s/anchors");
    let anchor = std::fs::read_dir(tape).unwrap().next().unwrap().unwrap().path().join("entries.jsonl");
    let damaged = std::fs::read_to_string(&anchor).unwrap().replacen("\"kind\":\"", "\"kind\":\"x", 1);
    std::fs::write(&anchor, damaged).unwrap();
    assert_eq!(unread(&["tape", "verify", "s"]), quiet(1));
}

/// Files go with the prompt.
#[test]
fn files_go_with_the_prompt() {
    let lab = Lab::new();
    std::fs::write(lab.work("notes.txt"), "gongs").unwrap();
    let model = lab.script(json!([{"expect": ["file text/plain notes.txt"], "text": "Read."}]));
    assert_eq!(lab.run(&["run", "--model", &model, "--file", "notes.txt", "look"]).stdout, "Read.\n");
    let missing = lab.run(&["run", "--model", &model, "--file", "none.txt", "look"]);
    assert_eq!((missing.code, missing.error().contains("none.txt")), (2, true));
}

/// A program tells the lines of `--json` apart by their first keys: no key is shared by events, replies, the result and a failure.
#[test]
fn the_kinds_of_lines_share_no_key() {
    let lab = Lab::new();
    let model = lab.script(json!([{"calls": [{"name": "bash", "input": {"command": "sleep 60"}}]}, "Done."]));
    let mut run = lab.start(&["run", "--json", "--permission", "auto", "--model", &model, "go"]);
    run.until_event("call_started");
    [r#"{"send":"wait","delivery":"queue"}"#, "bad", r#"{"queue":true}"#, r#"{"abort":"enough"}"#]
        .iter()
        .for_each(|line| run.say(line));
    let mut lines = run.end().lines();
    let failed = lab.run(&["run", "--json", "--model", "no/such", "go"]);
    lines.extend(failed.lines());
    let kinds = ["event", "reply", "result", "failure"].map(|kind| {
        let of_kind = lines.iter().filter(|line| !line[kind].is_null());
        of_kind.flat_map(|line| line.as_object().unwrap().keys().cloned()).collect::<std::collections::BTreeSet<_>>()
    });
    assert!(kinds.iter().all(|keys| !keys.is_empty()), "{kinds:?}");
    for (n, keys) in kinds.iter().enumerate() {
        for others in &kinds[n + 1..] {
            assert!(keys.is_disjoint(others), "{keys:?} and {others:?}");
        }
    }
}

/// Help is wrapped to the width that the terminal names: words are never cut, and no line is longer but where a word is.
#[test]
fn help_fits_a_narrow_terminal() {
    let lab = Lab::new();
    for arguments in [&["--help"][..], &["run", "--help"], &["sessions", "--help"], &["tape", "sweep", "--help"]] {
        let help = lab.command(arguments).env("COLUMNS", "60").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let long = |line: &&str| line.chars().count() > 60 && line.trim().contains(' ');
        let long: Vec<_> = help.lines().filter(long).collect();
        assert!(help.lines().count() > 10 && long.is_empty(), "{arguments:?}: {long:#?}");
    }
}
