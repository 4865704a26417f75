//! Going back, from the command line.

use serde_json::{Value, json};

use super::lab::Lab;

/// A session "s" with three turns.
fn talked(lab: &Lab) -> String {
    let model = lab.script(json!([
        "one", "two", "three", {"expect": ["user: first", "assistant: one", "user: again"], "when": ["user: again"], "text": "four"},
    ]));
    for prompt in ["first", "second", "third"] {
        assert_eq!(lab.run(&["run", "--session", "s", "--model", &model, prompt]).code, 0);
    }
    model
}

fn seq_of(lab: &Lab, kind: &str, nth: usize) -> String {
    let tape = lab.tape("s");
    let found: Vec<&Value> = tape.iter().filter(|entry| entry["kind"] == kind).collect();
    found[nth]["seq"].to_string()
}

/// `tape rollback` by turn, by message and by entry; `tape show` marks what was taken back; the next prompt knows nothing of it.
#[test]
fn a_conversation_is_taken_back_and_gone_on_with() {
    let lab = Lab::new();
    let model = talked(&lab);
    let turn = seq_of(&lab, "delivered", 1);
    let back = lab.run(&["tape", "rollback", "s", "--turn", &turn]);
    assert_eq!(back.code, 0, "{}", back.stderr);
    assert!(back.stdout.contains("taken back: 2 messages") && back.stdout.contains("undoes this"), "{}", back.stdout);
    let shown = lab.run(&["tape", "show", "s"]).stdout;
    let marked = |kind: &str| shown.lines().filter(|line| line.starts_with('~') && line.contains(kind)).count();
    assert_eq!((marked(" delivered "), marked(" answer "), marked(" state ")), (2, 2, 0), "{shown}");
    assert!(shown.lines().last().unwrap().contains("rollback: as it was at entry"), "{shown}");
    let after = lab.run(&["run", "--session", "s", "--model", &model, "again"]);
    assert_eq!((after.code, after.stdout.trim()), (0, "four"), "{}", after.stderr);
    // Nothing left the tape: what was said in between is gone to by its entry.
    let whole = seq_of(&lab, "turn_finished", 2);
    let back = lab.run(&["tape", "rollback", "s", "--to", &whole]);
    assert!(back.stdout.contains("there again: 2 messages"), "{}", back.stdout);
    let id = lab.tape("s").iter().find(|entry| entry["kind"] == "delivered").unwrap()["data"]["ids"][0].clone();
    let back = lab.run(&["tape", "rollback", "s", "--message", id.as_str().unwrap()]);
    assert!(back.stdout.contains("taken back: 3 messages"), "{}", back.stdout);
    assert_eq!(lab.run(&["tape", "verify", "s"]).code, 0);
}

/// What cannot be done is said in one line, with what to do.
#[test]
fn a_rollback_that_cannot_be_says_what_to_do() {
    let lab = Lab::new();
    talked(&lab);
    let newest = lab.tape("s").len().to_string();
    let cases: [(&[&str], i32, &str); 6] = [
        (&["s", "--to", "999"], 2, "`tamtam tape show s` lists its entries"),
        (&["s", "--turn", "2"], 2, "entry 2 began no turn"),
        (&["s", "--message", "nope"], 2, "has no message nope"),
        (&["s", "--to", &newest], 1, "stands there already"),
        (&["s"], 2, "required"),
        (&["nope", "--to", "1"], 2, "there is no session nope"),
    ];
    for (arguments, code, said) in cases {
        let ended = lab.run(&[&["tape", "rollback"], arguments].concat());
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        assert!(ended.error().contains(said), "{arguments:?}: {}", ended.stderr);
    }
    assert_eq!(lab.tape("s").len().to_string(), newest, "nothing was recorded");
}

/// A turn that was cut off is finished first: no made-up model goes on with it.
#[test]
fn a_session_in_mid_turn_is_not_rolled_back() {
    let lab = Lab::new();
    let model = lab.script(json!([{"delay_ms": 20_000, "text": "late"}]));
    let mut run = lab.start(&["run", "--json", "--session", "s", "--model", &model, "begin"]);
    run.until_event("step_started");
    run.signal("-KILL");
    run.end();
    let before = lab.tape("s").len();
    let refused = lab.run(&["tape", "rollback", "s", "--to", "1"]);
    assert_eq!(refused.code, 1);
    assert!(refused.error().contains("`tamtam resume s` finishes it"), "{}", refused.stderr);
    assert_eq!(lab.tape("s").len(), before);
}
