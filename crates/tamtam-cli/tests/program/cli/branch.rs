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
    assert!(back.stdout.contains("undone: 2 messages") && back.stdout.contains("undoes this"), "{}", back.stdout);
    let shown = lab.run(&["tape", "show", "s"]).stdout;
    let marked = |kind: &str| shown.lines().filter(|line| line.starts_with('~') && line.contains(kind)).count();
    assert_eq!((marked(" delivered "), marked(" answer "), marked(" state ")), (2, 2, 0), "{shown}");
    assert!(shown.lines().last().unwrap().contains("rollback: back at entry"), "{shown}");
    let after = lab.run(&["run", "--session", "s", "--model", &model, "again"]);
    assert_eq!((after.code, after.stdout.trim()), (0, "four"), "{}", after.stderr);
    // Nothing left the tape: what was said in between is gone to by its entry.
    let whole = seq_of(&lab, "turn_finished", 2);
    let back = lab.run(&["tape", "rollback", "s", "--to", &whole]);
    assert!(back.stdout.contains("restored: 2 messages"), "{}", back.stdout);
    let id = lab.tape("s").iter().find(|entry| entry["kind"] == "delivered").unwrap()["data"]["ids"][0].clone();
    let back = lab.run(&["tape", "rollback", "s", "--message", id.as_str().unwrap()]);
    assert!(back.stdout.contains("undone: 3 messages"), "{}", back.stdout);
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
        (&["s", "--to", &newest], 1, "already at that point"),
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

/// Z-01: a fork from a message, a turn or an entry; what it says is merged by its id alone, and undone by the command that the
/// merge names; with --delete it is gone.
#[test]
fn a_fork_from_any_message_is_made_and_merged() {
    let lab = Lab::new();
    let model = talked(&lab);
    let id =
        lab.tape("s").iter().filter(|entry| entry["kind"] == "delivered").nth(1).unwrap()["data"]["ids"][0].clone();
    let points = [
        ("--message", id.as_str().unwrap().to_owned()),
        ("--turn", seq_of(&lab, "delivered", 1)),
        ("--seq", seq_of(&lab, "turn_finished", 0)),
    ];
    for (n, (option, value)) in points.iter().enumerate() {
        let name = format!("f{n}");
        let made = lab.run(&["tape", "fork", "s", option, value, "--as", &name]);
        assert_eq!((made.code, made.stdout.trim()), (0, name.as_str()), "{}", made.stderr);
        let said = lab.run(&["run", "--session", &name, "--model", &model, "again"]);
        assert_eq!((said.code, said.stdout.trim()), (0, "four"), "{}", said.stderr);
    }
    let before = lab.tape("s").len();
    let merged = lab.run(&["tape", "merge", "f0"]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    assert!(merged.stdout.contains("fork f0 is merged into session s: 2 items"), "{}", merged.stdout);
    let undo = format!("`tamtam tape rollback s --to {before}` undoes this");
    assert!(merged.stdout.contains(&undo), "{}", merged.stdout);
    let nothing = lab.run(&["tape", "merge", "f0", "--into", "s"]);
    assert_eq!((nothing.code, lab.tape("s").len()), (0, before + 1), "{}", nothing.stderr);
    assert!(nothing.stdout.starts_with("nothing to merge"), "{}", nothing.stdout);
    let gone = lab.run(&["tape", "merge", "f1", "--delete"]);
    assert!(gone.stdout.ends_with("the fork is deleted\n"), "{}", gone.stdout);
    assert_eq!(lab.run(&["tape", "show", "f1"]).code, 2);
    assert_eq!(lab.run(&["tape", "rollback", "s", "--to", &before.to_string()]).code, 0);
    assert_eq!(lab.run(&["tape", "verify"]).code, 0);
    let found = lab.run(&["tape", "search", "again", "--session", "s"]);
    assert!(found.stdout.contains("again"), "what was merged is found where it is now: {}", found.stdout);
}

/// What cannot be forked or merged is said in one line, with what to do.
#[test]
fn a_fork_or_a_merge_that_cannot_be_says_what_to_do() {
    let lab = Lab::new();
    let model = talked(&lab);
    for name in ["f", "g"] {
        assert_eq!(lab.run(&["tape", "fork", "s", "--as", name]).code, 0);
    }
    let cases: [(&[&str], i32, &str); 8] = [
        (&["fork", "s", "--message", "nope"], 2, "`tamtam tape show s` lists its entries"),
        (&["fork", "s", "--turn", "2"], 2, "entry 2 began no turn"),
        (&["fork", "s", "--seq", "999"], 2, "has no entry 999"),
        (&["fork", "s", "--seq", "3", "--turn", "2"], 2, "cannot be used with"),
        (&["merge", "s"], 2, "`tamtam tape fork` makes a fork"),
        (&["merge", "nope"], 2, "there is no session nope"),
        (&["merge", "f", "--into", "nope"], 2, "there is no session nope"),
        (&["merge", "f", "--into", "f"], 2, "name another one with --into"),
    ];
    for (arguments, code, said) in cases {
        let ended = lab.run(&[&["tape"], arguments].concat());
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        assert!(ended.error().contains(said), "{arguments:?}: {}", ended.stderr);
    }
    let _ = model;
}

/// Z-03: the diff comes first and nothing is done; with --yes conversation and files go back together, and forth by the command
/// that is named.
#[test]
fn a_rollback_with_files_shows_the_diff_first() {
    let lab = Lab::new();
    std::fs::write(lab.work("a"), "one\n").unwrap();
    let model = lab.script(json!([
        {"calls": [{"name": "edit", "input": {"path": "a", "old_string": "one", "new_string": "two"}}]},
        "done",
    ]));
    let ended = lab.run(&["run", "--session", "s", "--permission", "auto", "--model", &model, "go"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let (turn, before) = (seq_of(&lab, "delivered", 0), lab.tape("s").len());
    let shown = lab.run(&["tape", "rollback", "s", "--turn", &turn, "--files"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.starts_with("restore   a\n\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-two\n+one\n"), "{}", shown.stdout);
    assert!(
        shown.stdout.contains("would be undone: message ")
            && shown.stdout.ends_with("1 file would change: add --yes to do it\n")
    );
    assert_eq!((lab.tape("s").len(), std::fs::read_to_string(lab.work("a")).unwrap()), (before, "two\n".to_owned()));
    let back = lab.run(&["tape", "rollback", "s", "--turn", &turn, "--files", "--yes"]);
    assert_eq!(back.code, 0, "{}", back.stderr);
    assert!(back.stdout.contains("1 file restored\n"), "{}", back.stdout);
    assert_eq!(std::fs::read_to_string(lab.work("a")).unwrap(), "one\n");
    let forth = format!("tape rollback s --to {before} --files --yes");
    assert!(back.stdout.contains(&format!("`tamtam {forth}` undoes this")), "{}", back.stdout);
    std::fs::write(lab.work("a"), "mine\n").unwrap();
    let forth: Vec<&str> = forth.split(' ').collect();
    let refused = lab.run(&forth);
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    assert!(
        refused.error().contains("a: someone else changed it since") && refused.error().contains("--over"),
        "{}",
        refused.stderr
    );
    assert_eq!(lab.run(&[&forth[..], &["--over"]].concat()).code, 0);
    assert_eq!(std::fs::read_to_string(lab.work("a")).unwrap(), "two\n");
}

/// `tape rollback --summary`: what was left is summed up by the model that sums up in the session, shown, and read by the next
/// turn; it is charged like any other.
#[test]
fn what_is_left_is_summed_up_in_front_of_the_next_turn() {
    let lab = Lab::new();
    talked(&lab);
    let turn = seq_of(&lab, "delivered", 1);
    let scripted = lab.run(&["tape", "rollback", "s", "--turn", &turn, "--summary"]);
    assert_eq!(scripted.code, 2, "{}", scripted.stdout);
    assert!(scripted.error().contains("--model scripted:FILE"), "{}", scripted.stderr);
    let model = lab.script(json!([
        {"when": ["second"], "text": "They said two\u{1b}[2J and three."},
        "one", {"expect": ["They said two"], "text": "After."}, "never",
    ]));
    let other = lab.run(&["tape", "rollback", "s", "--turn", &turn, "--summary", "--model", "openai/gpt-4.1"]);
    assert_eq!(other.code, 2, "{}", other.stdout);
    let alone = lab.run(&["tape", "rollback", "s", "--turn", &turn, "--model", &model]);
    assert_eq!((alone.code, alone.error().contains("--summary")), (2, true), "{}", alone.stderr);
    let before = lab.tape("s").len();
    let sampled = lab.run(&["tape", "rollback", "s", "--turn", &turn, "--summary", "--thinking", "low"]);
    assert_eq!((sampled.code, sampled.error().contains("leave them out")), (2, true), "{}", sampled.stderr);
    let back = lab.run(&["tape", "rollback", "s", "--turn", &turn, "--summary", "--model", &model]);
    assert_eq!(back.code, 0, "{}", back.stderr);
    assert!(
        back.stdout.contains("the next turn begins with a summary of the abandoned messages, by scripted/script"),
        "{}",
        back.stdout
    );
    assert!(back.stdout.contains("They said two\\u{1b}[2J and three.\n"), "{}", back.stdout);
    let kinds: Vec<_> = lab.tape("s")[before..].iter().map(|entry| entry["kind"].clone()).collect();
    assert_eq!(kinds, ["branch_opened", "rolled_back", "branch_summary"], "what it may take is held back first");
    let after = lab.run(&["run", "--session", "s", "--model", &model, "again"]);
    assert_eq!((after.code, after.stdout.trim()), (0, "After."), "{}", after.stderr);
    assert_eq!(lab.run(&["replay", "s"]).code, 0);
}
