//! Messages, aborts and answers while a turn runs, over `--json` and by signals.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::lab::{Ended, Lab, has};

/// A command that runs until the test makes the file `go`.
const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.05; done; echo one";

/// An answer with four calls; the first takes a while.
fn four_calls(command: &str) -> Value {
    json!({"calls": [
        {"name": "bash", "input": {"command": command}},
        {"name": "write", "input": {"path": "two.txt", "content": "2"}},
        {"name": "write", "input": {"path": "three.txt", "content": "3"}},
        {"name": "write", "input": {"path": "four.txt", "content": "4"}},
    ]})
}

fn events<'a>(lines: &'a [Value], name: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == name).collect()
}

/// What the model was told of the calls, in the order of the calls.
fn results(ended: &Ended) -> Vec<(String, Value)> {
    let lines = ended.lines();
    let mut results: Vec<_> = events(&lines, "call_finished");
    results.sort_by_key(|result| result["ticket"].as_u64());
    results.iter().map(|result| (result["content"].as_str().unwrap().to_owned(), result["error"].clone())).collect()
}

/// Must show 4: the running call finishes, the others are skipped, and the message comes after all four results.
#[test]
fn a_steering_message_skips_the_calls_that_were_not_started() {
    let lab = Lab::new();
    let model = lab.script(json!([
        four_calls(UNTIL_GO),
        {"expect": ["result bash: one", "user: stop and read NOTES.md"], "text": "I read."},
    ]));
    let mut run = lab.start(&["run", "--json", "--session", "s", "--permission", "auto", "--model", &model, "go"]);
    let first = run.until(|_| true);
    assert_eq!(first, json!({"session": "s", "format": 1}));
    run.until_event("call_started");
    run.say(r#"{"send":"stop and read NOTES.md","delivery":"steer"}"#);
    let reply = run.until(|line| !line["reply"].is_null());
    assert_eq!((&reply["reply"]["command"], &reply["reply"]["disposition"]), (&json!("send"), &json!("steering")));
    std::fs::write(lab.work("go"), "").unwrap();
    let ended = run.end();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let results = results(&ended);
    assert_eq!(results[0], ("one".to_owned(), Value::Null));
    for (content, error) in &results[1..] {
        assert_eq!((error, content.starts_with("Skipped due to queued user message")), (&json!("skipped"), true));
    }
    assert_eq!(results.len(), 4);
    assert!(!lab.work("two.txt").exists());
    let lines = ended.lines();
    let at = |name: &str, nth: usize| {
        let found = lines.iter().enumerate().filter(|(_, line)| line["event"] == name);
        found.map(|(at, _)| at).nth(nth).unwrap()
    };
    assert!(at("call_finished", 3) < at("delivered", 0) && at("delivered", 0) < at("step_started", 1));
    let result = &lines.last().unwrap()["result"];
    assert_eq!((&result["outcome"], &result["text"], &result["steps"]), (&json!("done"), &json!("I read."), &json!(2)));
}

/// Must show 4, abort_running: the process is gone before the next request is made.
#[test]
fn an_aborting_message_ends_the_running_process_before_the_next_request() {
    let lab = Lab::new();
    let model =
        lab.script(json!([four_calls("sleep 41.5; echo late"), {"expect": ["user: stop"], "text": "Stopped."}]));
    let mut run = lab.start(&["run", "--json", "--permission", "auto", "--model", &model, "go"]);
    run.until_event("call_started");
    let until = Instant::now() + Duration::from_secs(60);
    while lab.processes("sleep 41.5") == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(lab.processes("sleep 41.5"), 1);
    run.say(r#"{"send":"stop","delivery":"steer","steering":"abort_running"}"#);
    run.until(|line| line["event"] == "step_started" && line["step"] == 2);
    assert_eq!(lab.processes("sleep 41.5"), 0);
    let ended = run.end();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(results(&ended)[0].1, "aborted");
    assert_eq!(results(&ended).iter().filter(|(_, error)| error == "skipped").count(), 3);
}

/// Bad lines are answered and change nothing; the answers come in the order of the lines; a closed stdin changes nothing.
#[test]
fn every_line_is_answered_in_order_and_a_bad_one_changes_nothing() {
    let lab = Lab::new();
    let model = lab.script(json!([four_calls(UNTIL_GO), {"text": "first"}, {"text": "second"}]));
    let mut run = lab.start(&["run", "--json", "--permission", "auto", "--model", &model, "go"]);
    run.until_event("call_started");
    for line in [
        "garbage",
        r#"{"send":"x","delivery":"never"}"#,
        r#"{"send":"later"}"#,
        r#"{"send":"not now","delivery":"reject"}"#,
        r#"{"send":"never"}"#,
        r#"{"queue":true}"#,
        r#"{"answer":{"ask":3,"grant":"once"}}"#,
        r#"{"tree":true}"#,
    ] {
        run.say(line);
    }
    let queue = run.until(|line| line["reply"]["command"] == "queue")["reply"]["queue"].clone();
    let texts: Vec<_> =
        queue.as_array().unwrap().iter().map(|waiting| &waiting["message"]["parts"][0]["text"]).collect();
    assert_eq!(texts, ["later", "never"]);
    run.say(&json!({"withdraw": queue[1]["message"]["id"]}).to_string());
    run.say(r#"{"withdraw":"no such message"}"#);
    run.until(|line| line["reply"]["error"]["kind"] == "not_waiting");
    std::fs::write(lab.work("go"), "").unwrap();
    run.close_stdin();
    let ended = run.end();
    let lines = ended.lines();
    let answers: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            let reply = line["reply"].as_object()?;
            let word = |value: &Value| value.as_str().map_or("-".to_owned(), str::to_owned);
            let (command, kind) = (word(&line["reply"]["command"]), word(&line["reply"]["error"]["kind"]));
            Some(format!("{} {command} {kind}", reply["re"]))
        })
        .collect();
    let expected = [
        "1 - bad_line",
        "2 - bad_line",
        "3 send -",
        "4 send busy",
        "5 send -",
        "6 queue -",
        "7 answer ask_closed",
        "8 tree -",
        "9 withdraw -",
        "10 withdraw not_waiting",
    ];
    assert_eq!(answers, expected);
    let tree = &lines.iter().find(|line| line["reply"]["command"] == "tree").unwrap()["reply"]["tree"];
    assert_eq!(tree[0]["id"], "runtime");
    // All four calls ran, then the queued message had a turn of its own, and the withdrawn one had none.
    assert!(has(&lab.work("four.txt"), "4"));
    let texts: Vec<_> = events(&lines, "turn_finished").iter().map(|event| event["text"].clone()).collect();
    assert_eq!((ended.code, texts), (0, vec![json!("first"), json!("second")]));
}

/// An ask goes out as an event, the answer comes in as a line.
#[test]
fn a_program_answers_an_ask() {
    let lab = Lab::new();
    let model = lab.script(json!([
        {"calls": [
            {"name": "write", "input": {"path": "a.txt", "content": "a"}},
            {"name": "write", "input": {"path": "b.txt", "content": "b"}},
        ]},
        {"expect": ["not that one"], "text": "Good."},
    ]));
    let mut run = lab.start(&["run", "--json", "--model", &model, "go"]);
    for answer in [json!({"grant": "once"}), json!({"grant": "reject", "message": "not that one"})] {
        let ask = run.until_event("ask");
        assert!(ask["input"].as_str().unwrap().contains(".txt"));
        let mut answer = answer;
        answer["ask"] = ask["ask"].clone();
        run.say(&json!({"answer": answer}).to_string());
    }
    let ended = run.end();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(lab.work("a.txt").exists() && !lab.work("b.txt").exists());
}

/// A rejection without a word ends the turn: 3.
#[test]
fn a_rejection_ends_with_3() {
    let lab = Lab::new();
    let model = lab.script(json!([{"calls": [{"name": "bash", "input": {"command": "touch x"}}]}, "never said"]));
    let mut run = lab.start(&["run", "--json", "--model", &model, "go"]);
    let ask = run.until_event("ask")["ask"].clone();
    run.say(&json!({"answer": {"ask": ask, "grant": "reject"}}).to_string());
    let ended = run.end();
    assert_eq!((ended.code, &ended.lines().last().unwrap()["result"]["outcome"]), (3, &json!("rejected")));
    assert!(ended.error().contains("bash was rejected"));
}

/// An abort by command or by Ctrl-C ends the turn and its processes: 130.
#[test]
fn an_abort_ends_with_130_and_leaves_no_process() {
    let lab = Lab::new();
    for (how, seconds) in [("command", "42.5"), ("signal", "43.5")] {
        let model = lab.script(json!([four_calls(&format!("sleep {seconds}"))]));
        let mut run = lab.start(&["run", "--json", "--permission", "auto", "--model", &model, "go"]);
        run.until_event("call_started");
        match how {
            "command" => run.say(r#"{"abort":"enough"}"#),
            _ => run.signal("-INT"),
        }
        let ended = run.end();
        assert_eq!(
            (ended.code, &ended.lines().last().unwrap()["result"]["outcome"]),
            (130, &json!("aborted")),
            "{how}"
        );
        assert_eq!(lab.processes(&format!("sleep {seconds}")), 0);
    }
}

/// Must show 4 of Permission, the row "call asking" of the table of deliveries, over JSON: what skips or aborts withdraws the question and
/// the calls of its batch; what may wait leaves it open, and it is answered.
#[test]
fn an_open_ask_is_steered_and_aborted_as_the_table_says() {
    for (line, stays, code) in [
        (json!({"send": "instead", "delivery": "steer"}), false, 0),
        (json!({"send": "instead", "delivery": "steer", "steering": "abort_running"}), false, 0),
        (json!({"send": "instead", "delivery": "steer", "steering": "finish_batch"}), true, 0),
        (json!({"send": "instead"}), true, 0),
        (json!({"abort": "enough"}), false, 130),
    ] {
        let lab = Lab::new();
        let write = |path: &str| json!({"name": "write", "input": {"path": path, "content": "x"}});
        let model = lab.script(json!([{"calls": [write("a.txt"), write("b.txt")]}, {"text": "one"}, {"text": "two"}]));
        let mut run = lab.start(&["run", "--json", "--session", "s", "--permission", "ask", "--model", &model, "go"]);
        let ask = run.until_event("ask")["ask"].clone();
        run.say(&line.to_string());
        let first = run.until(|line| !line["reply"].is_null())["reply"].clone();
        assert!(first["error"].is_null(), "{line}: {first}");
        // Of a question that was withdrawn no answer is taken.
        let answer = |ask: &Value| json!({"answer": {"ask": ask, "grant": "once"}}).to_string();
        run.say(&answer(&ask));
        if stays {
            let other = run.until_event("ask")["ask"].clone();
            run.say(&answer(&other));
        }
        let ended = run.end();
        let lines = ended.lines();
        let closed: Vec<_> = events(&lines, "ask_closed").into_iter().filter(|event| event["ask"] == ask).collect();
        let refused = lines.iter().any(|line| line["reply"]["error"]["kind"] == "ask_closed");
        assert_eq!((closed.len(), ended.code), (1, code), "{line}: {}", ended.stdout);
        // An aborted run may end before it has read the answer.
        assert!(code == 130 || refused != stays, "{line}: {}", ended.stdout);
        assert_eq!((lab.work("a.txt").exists(), lab.work("b.txt").exists()), (stays, stays), "{line}");
        let expected = if code == 130 { "aborted" } else { "skipped" };
        let stopped = results(&ended).iter().filter(|(_, error)| error == expected).count();
        assert_eq!(stopped, if stays { 0 } else { 2 }, "{line}: {}", ended.stdout);
        // A message that steers joins the turn; one that was queued has a turn of its own.
        let (joined, turns) = (events(&lines, "delivered").len(), events(&lines, "turn_finished").len());
        let steers = line["delivery"] == "steer";
        let queued = !steers && code == 0;
        assert_eq!((joined, turns), (usize::from(steers), 1 + usize::from(queued)), "{line}");
    }
}
