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
    run.until_text("Stopping");
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
    let mut run = lab.on_terminal(&["run", "--session", "s", "--permission", "strict", "--model", &model, "go"]);
    run.until_text("Allow write to run?");
    run.until_text("answer> ");
    run.type_keys("of course\n");
    run.until_text("? [y] once");
    assert!(!lab.work("a.txt").exists());
    run.type_keys("y\n");
    run.until_text("Allowed once");
    run.until_text("Allow bash to run?");
    run.until_text("answer> ");
    run.type_keys("1\n");
    run.until_text("Allowed for this session: ");
    // The same command is not asked about again; another one is.
    run.until_text("command: touch never.txt");
    run.until_text("answer> ");
    run.type_keys("n\n");
    run.until_text("Rejected");
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
    let mut run = lab.on_terminal(&["run", "--session", "s", "--permission", "strict", "--model", &model, "go"]);
    run.until_text("answer> ");
    run.type_keys("use b.txt instead\n");
    run.until_text("? [y] once");
    run.type_keys("n use b.txt instead\n");
    run.until_text("Rejected");
    run.until_text("path: b.txt");
    run.until_text("answer> ");
    run.type_keys(CTRL_C);
    run.until_text("Stopping");
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
    run.until_text("answer> ");
    run.type_keys("some more\n");
    run.until_text("? [y] the same amount again");
    run.type_keys("9000\n");
    run.until_text("Limit raised");
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
        run.until_text("Stopping");
        run.type_keys(CTRL_C);
        let ended = run.end();
        assert_eq!((ended.code, lab.processes("sleep 44.5")), (130, 0), "{}", ended.stdout);
        ended.stdout.contains("error: detached: continue with `tamtam resume ")
    });
    assert!(left, "the second Ctrl-C came to nothing ten times");
}

/// A call that ends as soon as the file is there.
fn until(file: &str) -> Value {
    json!({"calls": [{"name": "bash", "input": {"command": format!("until [ -e {file} ]; do sleep 0.05; done; echo went")}}]})
}

fn accepted(lab: &Lab) -> Vec<Value> {
    let entries = lab.tape("s").into_iter().filter(|entry| entry["kind"] == "accepted");
    entries.map(|entry| entry["data"]["message"]["parts"][0]["text"].clone()).collect()
}

/// A `y` that was typed while a command ran allowed the next call, an early `y` became a message for the model, and a sentence that
/// was half typed when a question came was thrown away.
#[test]
fn what_is_typed_before_a_question_answers_it_not_and_is_not_lost() {
    let lab = Lab::new();
    let rules = lab.path("rules");
    std::fs::write(&rules, "{\"permission\":\"bash\",\"pattern\":\"*\",\"action\":\"allow\"}\n").unwrap();
    let model = lab.script(json!([
        until("go"),
        {"calls": [{"name": "write", "input": {"path": "a.txt", "content": "a"}}]},
        until("on"),
        {"expect": ["user: no, use src instead"], "text": "In src."},
    ]));
    let given =
        ["run", "--session", "s", "--permission", "ask", "--rules", rules.to_str().unwrap(), "--model", &model, "go"];
    let mut run = lab.on_terminal(&given);
    run.until_text("until [ -e go ]");
    run.type_keys("y\n");
    run.until_text("! not used: y");
    run.until_text("type a space before it");
    run.type_keys("no, use src");
    run.until_text("> no, use src");
    std::fs::write(lab.work("go"), "").unwrap();
    run.until_text("Allow write to run?");
    run.until_text("! not sent: no, use src (you can send it after the answer)");
    run.until_text("answer> ");
    run.type_keys("\n");
    run.until_text("? [y] once");
    assert!(!lab.work("a.txt").exists());
    run.type_keys("y\n");
    run.until_text("Allowed once");
    run.until_text("until [ -e on ]");
    // The foot is drawn again behind each line.
    run.until_text("> no, use src");
    run.type_keys(" instead\n");
    run.until_text("steering: no, use src instead");
    std::fs::write(lab.work("on"), "").unwrap();
    run.until_text("In src.");
    assert_eq!(run.end().code, 0);
    assert_eq!(accepted(&lab), ["go", "no, use src instead"]);
}

/// A terminal that edits lines itself cuts each at 4,095 bytes, and makes a paste as many messages as it has lines.
#[test]
fn a_paste_is_one_message_and_no_line_is_cut() {
    let lab = Lab::new();
    let model = lab.script(json!([until("go"), "Read."]));
    let mut run = lab.on_terminal(&["run", "--session", "s", "--permission", "auto", "--model", &model, "go"]);
    run.until_text("until [ -e go ]");
    let lines: Vec<_> = (0..100).map(|n| format!("  {n} {}", "x".repeat(60))).collect();
    run.type_keys(&format!("\u{1b}[200~{}\r\u{1b}[201~", lines.join("\r")));
    run.type_keys("y\n");
    run.until_text("steering: 0 xxx");
    let long = "z".repeat(6_003);
    run.type_keys(&format!("{long}\n"));
    run.until_text("steering: zzz");
    std::fs::write(lab.work("go"), "").unwrap();
    run.until_text("Read.");
    assert_eq!(run.end().code, 0);
    let pasted = format!("{}\ny", lines.join("\n"));
    assert_eq!(accepted(&lab), ["go", pasted.trim_start(), &long]);
}

/// The rest of what was typed ran as commands of the shell; after Ctrl-D all of it did.
#[test]
fn what_is_typed_at_the_end_is_said_and_not_left_to_the_shell() {
    let lab = Lab::new();
    let model = lab.script(json!([until("go"), "Done."]));
    let command = format!(
        "tamtam run --session s --permission auto --model {model} go; IFS= read -rn 1 -t 0.2 left; echo \"left: <$left>\""
    );
    let mut run = lab.shell_on_terminal(&command);
    run.until_text("until [ -e go ]");
    run.type_keys("\u{4}");
    run.until_text("Ctrl-D does nothing here");
    run.type_keys("one more\n");
    run.until_text("steering: one more");
    run.type_keys("half a sen");
    run.until_text("> half a sen");
    std::fs::write(lab.work("go"), "").unwrap();
    run.until_text("Done.");
    run.until_text("! not sent: half a sen");
    run.until_text("left: <>");
    assert_eq!(run.end().code, 0);
    assert_eq!(accepted(&lab), ["go", "one more"]);
}

/// However the process ends or stops, and again after `fg`.
#[test]
fn the_terminal_is_given_back_as_it_was() {
    let before = "stty -a > before; ";
    let ends = [("", "until [ -e go ]", "go"), (CTRL_C, "until [ -e no ]", "no"), ("kill", "until [ -e no ]", "no")];
    for (how, shown, file) in ends {
        let lab = Lab::new();
        let model = lab.script(json!([until(file), "Done."]));
        let run = format!("tamtam run --session s --permission auto --model {model} go");
        let mut run = lab.shell_on_terminal(&format!("{before}bash -c 'echo $$ > pid; exec {run}'; stty -a > after"));
        run.until_text(shown);
        run.type_keys("half");
        run.until_text("> half");
        match how {
            "" => std::fs::write(lab.work("go"), "").unwrap(),
            "kill" => {
                let pid = std::fs::read_to_string(lab.work("pid")).unwrap();
                assert!(std::process::Command::new("kill").arg(pid.trim()).status().unwrap().success());
            }
            keys => run.type_keys(keys),
        }
        run.until_text("! not sent: half");
        run.end();
        let read = |name: &str| std::fs::read_to_string(lab.work(name)).unwrap();
        assert_eq!(read("before"), read("after"), "{how:?}");
    }
    // Stopped by Ctrl-Z under a shell with jobs, and brought back.
    let lab = Lab::new();
    let model = lab.script(json!([until("go"), "Done."]));
    let run = format!("tamtam run --session s --permission auto --model {model} go");
    let script = format!("set -m; {before}{run}; stty -a > stopped; echo is stopped; fg; stty -a > after");
    let mut run = lab.shell_on_terminal(&script);
    run.until_text("until [ -e go ]");
    run.type_keys("one ");
    run.until_text("> one");
    run.type_keys("\u{1a}");
    run.until_text("is stopped");
    run.until_text("> one");
    run.type_keys("more\n");
    run.until_text("steering: one more");
    std::fs::write(lab.work("go"), "").unwrap();
    run.until_text("Done.");
    run.end();
    let read = |name: &str| std::fs::read_to_string(lab.work(name)).unwrap();
    assert_eq!((read("before"), read("before")), (read("stopped"), read("after")));
}

/// A silent model was a dead screen. The line goes away when something comes, and is never in a file.
#[test]
fn a_silent_model_shows_that_it_works() {
    let lab = Lab::new();
    let model = lab.script(json!([{"text": "Late.", "delay_ms": 60_000}]));
    let mut run = lab.on_terminal(&["run", "--model", &model, "go"]);
    run.until_text("model scripted/script");
    run.until_text("waiting for scripted/script (");
    run.type_keys(CTRL_C);
    assert_eq!(run.end().code, 130);
}

/// F14: the default profile of `--json` asks, and a program that has closed stdin can never answer: each ask waited ten minutes.
#[test]
fn a_program_that_has_closed_stdin_is_not_asked() {
    let lab = Lab::new();
    let write = json!({"calls": [{"name": "write", "input": {"path": "a.txt", "content": "a"}}]});
    // Closed from the start.
    let model = lab.script(json!([write, write, "Then not."]));
    let ended = lab.run(&["run", "--json", "--session", "s", "--model", &model, "go"]);
    assert_eq!((ended.code, lab.work("a.txt").exists()), (0, false), "{}", ended.stderr);
    assert_eq!(ended.lines().last().unwrap()["result"]["text"], "Then not.");
    // Closed while a question is open.
    let mut run = lab.start(&["run", "--json", "--session", "t", "--model", &model, "go"]);
    run.until_event("ask");
    run.close_stdin();
    let closed = run.until_event("ask_closed");
    assert_eq!((&closed["why"], &closed["grant"]), (&json!("unheard"), &json!(null)), "nobody rejected it: {closed}");
    let ended = run.end();
    assert_eq!((ended.code, lab.work("a.txt").exists()), (0, false), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("Permission denied: nobody was left whom to ask."),
        "the model is not told of a user: {}",
        ended.stdout
    );
}
