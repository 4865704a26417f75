//! `tamtam run` on a terminal, as a person sees it and types: the process has a real one, made by Python's `pty`.

use serde_json::{Value, json};

use super::lab::{Lab, has};

const CTRL_C: &str = "\u{3}";

/// CLI-RUN-001, CLI-RENDER-001: the first words are there while the rest is a minute away. Ctrl-C ends the turn: 130.
#[test]
fn text_is_shown_as_it_streams_and_ctrl_c_ends_it() {
    let lab = Lab::new();
    let model = lab.script(json!([{"text": ["The first words ", "and the last."], "chunk_delay_ms": 60_000}]));
    let mut run = lab.on_terminal(&["run", "--session", "s", "--model", &model, "go"]);
    run.until_text("The first words");
    run.type_keys(CTRL_C);
    run.until_text("aborting; press Ctrl-C again to leave");
    let ended = run.end();
    assert_eq!(ended.code, 130, "{}", ended.stdout);
    assert!(ended.stdout.contains("error: aborted: interrupted by the user"), "{}", ended.stdout);
    // What was shown is kept.
    let answers: Vec<Value> = lab.tape("s").into_iter().filter(|entry| entry["kind"] == "answer").collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0]["data"]["answer"]["parts"][0]["text"], "The first words ");
}

/// A line that is typed while a call runs steers: the call finishes, the next one is skipped, and the model is told.
#[test]
fn a_typed_line_steers() {
    let lab = Lab::new();
    let model = lab.script(json!([
        {"calls": [
            {"name": "bash", "input": {"command": "until [ -e go ]; do sleep 0.05; done; echo went"}},
            {"name": "write", "input": {"path": "two.txt", "content": "2"}},
        ]},
        {"expect": ["result bash: went", "user: use tabs"], "text": "With tabs."},
    ]));
    let mut run = lab.on_terminal(&["run", "--permission", "auto", "--model", &model, "go"]);
    run.until_text("until [ -e go ]");
    run.type_keys("use tabs\n");
    run.until_text("steering: use tabs");
    std::fs::write(lab.work("go"), "").unwrap();
    run.until_text("write skipped");
    run.until_text("With tabs.");
    assert_eq!(run.end().code, 0);
    assert!(!lab.work("two.txt").exists());
}

/// B-22: A question is answered by a key: once, always for this session, no. Another word allows nothing and is no message.
#[test]
fn a_question_is_answered_by_a_key() {
    let lab = Lab::new();
    let append = json!({"name": "bash", "input": {"command": "echo again >> again.txt"}});
    let model = lab.script(json!([
        {"calls": [{"name": "write", "input": {"path": "a.txt", "content": "a"}}]},
        {"calls": [append]},
        {"calls": [append, {"name": "bash", "input": {"command": "touch never.txt"}}]},
        "never said",
    ]));
    let mut run = lab.on_terminal(&["run", "--session", "s", "--model", &model, "go"]);
    run.until_text("? run write?");
    run.until_text("tell the model why");
    run.type_keys("of course\n");
    run.until_text("? y: once");
    assert!(!lab.work("a.txt").exists());
    run.type_keys("y\n");
    run.until_text("? allowed once");
    run.until_text("? run bash?");
    run.type_keys("a\n");
    run.until_text("? always allowed");
    // The same command is not asked about again; another one is.
    run.until_text("command: touch never.txt");
    run.type_keys("n\n");
    run.until_text("? rejected");
    let ended = run.end();
    assert_eq!(ended.code, 3, "{}", ended.stdout);
    assert!(has(&lab.work("a.txt"), "a") && !lab.work("never.txt").exists());
    assert_eq!(std::fs::read_to_string(lab.work("again.txt")).unwrap(), "again\nagain\n");
    let asks = lab.tape("s").iter().filter(|entry| entry["kind"] == "ask").count();
    assert_eq!(asks, 3);
}

/// Must show 4 of Permission on a terminal, where no line is a message while a question is open: a no with words steers (the model is
/// told them, and the turn goes on), and Ctrl-C aborts, which withdraws the question.
#[test]
fn an_open_question_is_steered_by_a_no_with_words_and_aborted_by_ctrl_c() {
    let lab = Lab::new();
    let write = |path: &str| json!({"calls": [{"name": "write", "input": {"path": path, "content": "x"}}]});
    let model = lab.script(json!([
        write("a.txt"),
        {"expect": ["use b.txt"], "calls": [{"name": "write", "input": {"path": "b.txt", "content": "x"}}]},
        "never said",
    ]));
    let mut run = lab.on_terminal(&["run", "--session", "s", "--permission", "ask", "--model", &model, "go"]);
    run.until_text("tell the model why");
    run.type_keys("use b.txt instead\n");
    run.until_text("? y: once");
    run.type_keys("n use b.txt instead\n");
    run.until_text("? rejected");
    run.until_text("path: b.txt");
    run.until_text("tell the model why");
    run.type_keys(CTRL_C);
    run.until_text("aborting; press Ctrl-C again to leave");
    let ended = run.end();
    assert_eq!(ended.code, 130, "{}", ended.stdout);
    assert!(!lab.work("a.txt").exists() && !lab.work("b.txt").exists());
    let tape = lab.tape("s");
    let kinds = |kind: &str| tape.iter().filter(|entry| entry["kind"] == kind).count();
    assert_eq!(
        (kinds("ask"), kinds("granted"), kinds("accepted")),
        (2, 1, 1),
        "one answer, and no line became a message"
    );
}

/// A question for more of a budget is answered by an amount, in the unit that is shown; a word that is none raises nothing.
#[test]
fn a_question_for_more_is_answered_by_an_amount() {
    let lab = Lab::new();
    let file = lab.path("s.json");
    let reply = json!({"text": "Hello there.", "usage": {"input": 90, "output": 10}});
    std::fs::write(&file, json!({"limits": {"output": 2_000}, "replies": [reply]}).to_string()).unwrap();
    let model = format!("scripted:{}", file.display());
    let run = ["run", "--session", "s", "--model", model.as_str(), "--budget-tokens", "500", "hello"];
    let mut run = lab.on_terminal(&run);
    run.until_text("5000 tokens more");
    run.type_keys("some more\n");
    run.until_text("? y: the same amount again");
    run.type_keys("9000\n");
    run.until_text("? raised");
    run.until_text("Hello there.");
    assert_eq!(run.end().code, 0);
    let tape = lab.tape("s");
    let granted = tape.iter().find(|entry| entry["kind"] == "granted").unwrap();
    assert_eq!(granted["data"]["grant"], json!({"raise": {"tokens": 9_000}}));
}

/// The second Ctrl-C leaves at once, though a command that does not want to end holds up the abort. Nothing is left of it.
#[test]
fn a_second_ctrl_c_leaves_what_resume_goes_on_with() {
    let command = "trap '' TERM; echo up; sleep 44.5 & wait; wait";
    let lab = Lab::new();
    let model = lab.script(json!([{"calls": [{"name": "bash", "input": {"command": command}}]}, "After."]));
    // The abort waits two seconds for the command. On a machine that is as slow as that, the second key comes too late.
    let left = (0..10).any(|_| {
        let mut run = lab.on_terminal(&["run", "--permission", "auto", "--model", &model, "go"]);
        run.until_text("sleep 44.5");
        run.type_keys(CTRL_C);
        run.until_text("aborting; press Ctrl-C again to leave");
        run.type_keys(CTRL_C);
        let ended = run.end();
        assert_eq!((ended.code, lab.processes("sleep 44.5")), (130, 0), "{}", ended.stdout);
        ended.stdout.contains("error: left the session; `tamtam resume ")
    });
    assert!(left, "the second Ctrl-C came to nothing ten times");
}
