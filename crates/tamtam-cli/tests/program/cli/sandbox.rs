//! `--sandbox` and `tamtam doctor`: what the operator asks for, and what is shown as enforced.
//! A system without a sandbox shows the other half: nothing runs if one is required.

use serde_json::{Value, json};
use tamtam::tools::process::SandboxLevel;

use super::lab::Lab;

/// The operator asks what holds, and is told by the doctor; keys are named and not shown.
#[test]
fn the_doctor_says_what_this_system_has() {
    let lab = Lab::new();
    let mut command = lab.command(&["doctor"]);
    command.env("OPENAI_API_KEY", "sk-value-of-a-key");
    let ended = super::lab::Live::start(command).end();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let line = |name: &str| ended.stdout.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("store").ends_with("is made with the first session"), "{}", ended.stdout);
    assert!(line("keys").ends_with("OPENAI_API_KEY") && !ended.stdout.contains("sk-value"), "{}", ended.stdout);
    assert!(line("terminal").contains("none: approvals are not possible"), "{}", ended.stdout);
    assert!(line("sandbox").contains(&SandboxLevel::probe().to_string()), "{}", ended.stdout);
    // Nothing was made.
    assert_eq!(std::fs::read_dir(lab.path("home")).unwrap().count(), 0);
    let file = lab.path("file");
    std::fs::write(&file, "").unwrap();
    let refused = lab.run(&["doctor", "--store", file.join("store").to_str().unwrap()]);
    assert_eq!((refused.code, refused.stdout.contains("choose one with --store")), (1, true), "{}", refused.stdout);
}

fn bash(command: &str) -> String {
    json!({ "command": command }).to_string()
}

/// A call under `--sandbox required` writes its workspace and nothing else; further paths are named on the command line.
#[test]
fn a_command_of_the_binary_is_confined_where_it_is_asked_for() {
    let lab = Lab::new();
    let level = SandboxLevel::probe();
    println!("this system holds: {level}");
    let write = bash("echo in > f; echo out > ../home/f; cat f ../home/f");
    let free = lab.run(&["tool", "bash", &write]);
    assert_eq!((free.code, &free.lines()[0]["content"]), (0, &json!("in\nout")));
    std::fs::remove_file(lab.path("home/f")).unwrap();
    let held = lab.run(&["tool", "--sandbox", "required", "bash", &write]);
    let result = &held.lines()[0];
    let said = result["content"].as_str().unwrap();
    assert!(!lab.path("home/f").exists(), "{said}");
    if !level.holds() {
        assert!(held.code == 1 && said.contains(level.missing.as_deref().unwrap()), "{said}");
        return;
    }
    assert!(said.contains("home/f: Permission denied") && said.contains("in\n"), "{said}");
    assert_eq!(result["details"]["sandbox"]["held"], true);
    let more = lab.run(&["tool", "--sandbox", "preferred", "--sandbox-write", "../home", "bash", &write]);
    assert_eq!(more.lines()[0]["content"], "in\nout");
}

/// While a confined call runs, its line in the tree says what is held of it, and its events do.
#[test]
fn the_tree_says_what_is_held_of_a_running_call() {
    let lab = Lab::new();
    let call = json!({"name": "bash", "input": {"command": "touch started; while [ ! -e go ]; do sleep 0.05; done"}});
    let model = lab.script(json!([{"calls": [call]}, {"text": "done"}]));
    let mut run =
        lab.start(&["run", "--json", "--permission", "auto", "--sandbox", "preferred", "--model", &model, "go"]);
    let shown = run.until(|line| line["event"] == "call_progress" && line["title"].is_string());
    let title = shown["title"].as_str().unwrap();
    assert!(title.starts_with("sandbox: "), "{title}");
    run.say(r#"{"tree":true}"#);
    let tree = run.until(|line| line["reply"]["command"] == "tree")["reply"]["tree"].clone();
    let nodes: &Vec<Value> = tree.as_array().unwrap();
    assert!(nodes.iter().any(|node| node.to_string().contains(title)), "{tree}");
    std::fs::write(lab.work("go"), "").unwrap();
    run.close_stdin();
    let ended = run.end();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(title.contains("files, network"), SandboxLevel::probe().holds(), "{title}");
}

/// A path without a mode is a mistake that is said, and not a sandbox that is not there.
#[test]
fn a_path_for_no_sandbox_is_refused() {
    let refused = Lab::new().run(&["tool", "--sandbox-read", "/srv", "bash", &bash("true")]);
    assert_eq!((refused.code, refused.error().contains("--sandbox <MODE>")), (2, true), "{}", refused.stderr);
}

/// F19: a session that began with `--sandbox required` was resumed without it, and ran unconfined.
#[test]
fn a_resumed_session_keeps_its_sandbox() {
    let lab = Lab::new();
    let write = json!({"name": "bash", "input": {"command": "sh out.sh"}});
    lab.put("work/out.sh", "echo out > ../home/f\n");
    let turn = [json!({"calls": [write]}), json!("Done.")];
    let model = lab.script(json!(vec![turn; 5].concat()));
    let auto = ["run", "--session", "s", "--permission", "auto", "--model", &model, "go"];
    let run = |more: &[&str]| lab.run(&[&auto[..], more].concat());
    let escaped = || std::fs::remove_file(lab.path("home/f")).is_ok();
    assert!(run(&["--sandbox", "required"]).code == 0 && !escaped());
    let resumed = run(&[]);
    assert!(resumed.code == 0 && !escaped(), "the tape has it: {}", resumed.stderr);
    assert!(resumed.stderr.contains("sandbox of the session: required, network off\n"), "{}", resumed.stderr);
    for weaker in [&["--sandbox", "off"][..], &["--sandbox", "required", "--sandbox-network", "ip"]] {
        let refused = run(weaker);
        assert!(refused.code == 2 && refused.error().contains("is weaker"), "{}", refused.stderr);
    }
    let loosened = run(&["--sandbox", "off", "--sandbox-loosen"]);
    assert!(loosened.code == 0 && escaped(), "{}", loosened.stderr);
    assert!(run(&[]).code == 0 && escaped(), "and the tape has that");
}

/// The user's file has a sandbox for each new session; a project's file may only make it stricter.
#[test]
fn the_sandbox_is_a_setting_of_files() {
    let lab = Lab::new();
    let shown = || {
        let shown = lab.run(&["config", "show", "--json"]).lines().remove(0)["settings"].clone();
        let of = |name: &str| shown.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        ["sandbox.mode", "sandbox.network", "sandbox.read"]
            .map(|name| format!("{} {}", text(&of(name)["value"]), text(&of(name)["layer"])))
    };
    assert_eq!(shown(), ["- default", "- default", "- default"]);
    let user = "home/.config/tamtam/config.toml";
    lab.put(user, "[sandbox]\nmode = 'preferred'\nnetwork = 'ip'\nread = ['/srv']\n");
    assert_eq!(shown(), ["preferred user", "ip user", "/srv user"]);
    lab.put("work/.tamtam/config.toml", "[sandbox]\nmode = 'required'\nnetwork = 'all'\n");
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    assert_eq!(shown(), ["required project", "ip user", "/srv user"]);
    lab.put("work/.tamtam/config.toml", "[sandbox]\nwrite = ['/']\n");
    let refused = lab.run(&["trust", "--yes", "."]);
    assert!(refused.error().contains("line 2: sandbox.write: a project cannot set this"), "{}", refused.stderr);
    std::fs::remove_file(lab.path("work/.tamtam/config.toml")).unwrap();
    for (text, why) in [
        ("sandbox = 'required'", "unknown setting `sandbox`"),
        ("[sandbox]\nmode = 'on'", "line 2: sandbox.mode: \"on\" is none of them: write off, preferred or required"),
        ("[sandbox]\nread = '/srv'", "line 2: sandbox.read: write a list of paths"),
    ] {
        lab.put(user, text);
        let wrong = lab.run(&["config", "show"]);
        assert!(wrong.code == 2 && wrong.error().contains(why), "{text}: {}", wrong.stderr);
    }
    lab.put(user, "[sandbox]\nmode = 'required'\n");
    let write = json!({"name": "bash", "input": {"command": "sh out.sh"}});
    lab.put("work/out.sh", "echo out > ../home/f\n");
    let model = lab.script(json!([{"calls": [write]}, "Done.", {"calls": [write]}, "Done."]));
    let run = |more: &[&str]| lab.run(&[&["run", "--permission", "auto", "--model", &model, "go"], more].concat());
    assert!(run(&[]).code == 0 && !lab.path("home/f").exists());
    assert!(run(&["--sandbox", "off"]).code == 0 && lab.path("home/f").exists(), "an argument wins");
}

/// A command has the three streams and no file that the program opened. The program starts with the three alone: what whoever starts
/// it left open for it would go through.
#[test]
fn a_command_inherits_no_file_of_the_program() {
    const ALONE: &str = "import os, sys; os.closerange(3, 65536); os.execv(sys.argv[1], sys.argv[1:])";
    let lab = Lab::new();
    for sandbox in ["off", "preferred"] {
        let files = bash("for n in {0..99}; do [ ! -L /proc/self/fd/$n ] || echo $n $(readlink /proc/$$/fd/$n); done");
        let alone = lab.by_python(ALONE, &["tool", "--sandbox", sandbox, "bash", &files]);
        let ended = super::lab::Live::start(alone).end();
        let said = ended.lines()[0]["content"].as_str().unwrap().to_owned();
        let numbers: Vec<_> = said.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(numbers, ["0", "1", "2"], "{said}");
    }
}
