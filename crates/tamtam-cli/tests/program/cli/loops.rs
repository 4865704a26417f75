//! A model that repeats its calls, at the binary: stopped if no one can be asked, asked about over lines of JSON, reset
//! by one.

use serde_json::{Value, json};

use super::lab::{Lab, Live};

/// Leaves a line in `count`.
const CALL: &str = "echo x >> count";

fn call(command: &str) -> Value {
    json!({"calls": [{"name": "bash", "input": {"command": command}}]})
}

fn counted(lab: &Lab) -> usize {
    std::fs::read_to_string(lab.work("count")).map_or(0, |lines| lines.lines().count())
}

fn run(lab: &Lab, model: &str, permission: &str) -> Live {
    lab.start(&["run", "--json", "--session", "s", "--permission", permission, "--model", model, "go"])
}

/// V16, I-07: the run ends with 3, and says what happened and what to do. The tape replays.
#[test]
fn a_loop_is_stopped_where_nobody_is_there() {
    for permission in ["auto", "headless"] {
        let lab = Lab::new();
        let command = if permission == "auto" { CALL } else { "pwd" };
        let mut endless = call(command);
        endless["when"] = json!(["user:"]);
        let model = lab.script(json!([endless]));
        let ended = lab.run(&["run", "--session", "s", "--permission", permission, "--model", &model, "go"]);
        assert_eq!(ended.code, 3, "{permission}: {}", ended.stderr);
        assert_eq!(
            ended.error(),
            "error: stopped: the agent kept repeating the same call of bash: tell it what to do instead, or allow `doom_loop` in the rules"
        );
        assert_eq!(counted(&lab), if permission == "auto" { 2 } else { 0 });
        assert_eq!(lab.run(&["replay", "s"]).code, 0);
    }
}

/// H-21, Q-03: the ask says that it is about a loop; a yes for the turn lets the calls run, and once is for one of them.
#[test]
fn an_ask_about_a_loop_is_answered_over_json() {
    let lab = Lab::new();
    let model = lab.script(json!([call(CALL), call(CALL), call(CALL), call(CALL), call(CALL), "Done."]));
    let mut live = run(&lab, &model, "auto");
    for (answer, before) in [(json!({"grant": "once"}), 2), (json!({"grant": "always", "scope": "turn"}), 3)] {
        let ask = live.until_event("ask");
        assert_eq!(counted(&lab), before);
        assert!(ask["access"].to_string().contains(r#""permission":"doom_loop""#), "{ask}");
        let mut line = json!({"answer": answer});
        line["answer"]["ask"] = ask["ask"].clone();
        live.say(&line.to_string());
    }
    let ended = live.end();
    assert_eq!((ended.code, counted(&lab)), (0, 5), "{}", ended.stderr);
    assert_eq!(ended.lines().last().unwrap()["result"]["outcome"], "done");
}

/// I-06: a line resets the guard. Before the third equal call it begins anew, and nobody is asked.
#[test]
fn a_line_resets_the_guard() {
    let lab = Lab::new();
    // The second call waits until the test lets it go.
    let script = "echo x >> count; while [ $(wc -l < count) -eq 2 ] && [ ! -e go ]; do sleep 0.01; done";
    std::fs::write(lab.work("wait.sh"), script).unwrap();
    let command = "sh wait.sh";
    let model = lab.script(json!([call(command), call(command), call(command), call(command), "Done."]));
    let mut live = run(&lab, &model, "auto");
    live.until_event("call_finished");
    live.until_event("call_started");
    live.say(r#"{"reset":"loops"}"#);
    let reply = live.until(|line| !line["reply"].is_null());
    assert_eq!(reply["reply"], json!({"command": "reset", "re": 1}));
    std::fs::write(lab.work("go"), "").unwrap();
    let ended = live.end();
    assert_eq!((ended.code, counted(&lab)), (0, 4), "{}", ended.stderr);
    assert!(ended.lines().iter().all(|line| line["event"] != "ask"), "{}", ended.stdout);
}
