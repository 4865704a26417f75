//! `tamtam replay`: a session again from its tape, by another process, after everything outside of the tape is gone.

use serde_json::json;

use super::lab::Lab;

/// A session with calls, and its lab without model or workspace.
fn recorded() -> Lab {
    let lab = Lab::new();
    let model = lab.script(json!([
        {"text": "I write.", "calls": [{"name": "write", "input": {"path": "a.txt", "content": "one"}}]},
        {"calls": [{"name": "bash", "input": {"command": "cat a.txt"}}, {"name": "gong", "input": {}}]},
        "Done."
    ]));
    for id in ["s", "t"] {
        let ended = lab.run(&["run", "--session", id, "--permission", "auto", "--model", &model, "write"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        std::fs::remove_file(lab.work("a.txt")).unwrap();
    }
    std::fs::remove_file(lab.path("script.json")).unwrap();
    lab
}

/// Design §9: any tape replays with no network and no tool; step by step every entry is shown.
#[test]
fn a_tape_replays_with_nothing_but_the_tape() {
    let lab = recorded();
    let entries = lab.tape("s").len();
    let ended = lab.run(&["replay", "s"]);
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    assert!(ended.stdout.starts_with(&format!("s: {entries} entries in ")), "{}", ended.stdout);
    let steps = lab.run(&["replay", "s", "--step"]);
    assert_eq!(steps.code, 0);
    assert_eq!(steps.stdout.lines().filter(|line| line.starts_with("      ")).count(), entries, "{}", steps.stdout);
    assert!(steps.stdout.contains("call_started") && steps.stdout.contains("was answered"), "{}", steps.stdout);
    assert!(!lab.work("a.txt").exists(), "no tool ran");
    assert_eq!(lab.run(&["replay", "s", "--from-anchor"]).code, 0);
}

/// Issue 5, must show 6: a changed prompt is found at its first step, with the place and what is other.
#[test]
fn a_changed_prompt_is_found_at_its_first_request() {
    let lab = recorded();
    std::fs::write(lab.path("prompt.txt"), "You are a drum.").unwrap();
    let prompt = lab.path("prompt.txt").display().to_string();
    let ended = lab.run(&["replay", "s", "--prompt", &prompt]);
    assert_eq!(ended.code, 1);
    let first = lab.tape("s").iter().find(|entry| entry["kind"] == "request").unwrap()["seq"].clone();
    for said in [&format!("entry {first} (request), field data.system"), "entries.jsonl line", "system prompt"] {
        assert!(ended.stdout.contains(said), "{said}: {}", ended.stdout);
    }
}

/// A recorded tape turns into a test in one command, and the test needs nothing but its file.
#[test]
fn a_tape_turns_into_a_test_in_one_command() {
    let lab = recorded();
    let file = lab.path("s.replay").display().to_string();
    assert_eq!(lab.run(&["replay", "s", "--to-test", &file]).code, 0);
    let again = lab.run(&["replay", "s", "--to-test", &file]);
    assert_eq!(again.code, 2, "a file that is there is not written over");
    let elsewhere = Lab::new();
    assert_eq!(elsewhere.run(&["replay", "--test", &file]).code, 0);
    tamtam::replay::check(&file).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("Done.", "Gone.", 1)).unwrap();
    let bad = elsewhere.run(&["replay", "--test", &file]);
    assert_eq!(bad.code, 1);
    assert!(bad.error().contains("s.replay") && bad.error().contains("line"), "{}", bad.stderr);
}

/// Two tapes are compared; what cannot be replayed is said in one line.
#[test]
fn tapes_are_compared_and_what_is_missing_is_said() {
    let lab = recorded();
    let same = lab.run(&["replay", "s", "--against", "t"]);
    assert_eq!(same.code, 0, "{}", same.stdout);
    let model = lab.script(json!(["Nothing."]));
    assert_eq!(lab.run(&["run", "--session", "u", "--model", &model, "nothing"]).code, 0);
    let parted = lab.run(&["replay", "s", "--against", "u"]);
    assert_eq!(parted.code, 1);
    assert!(parted.stdout.contains("the tapes part at entry"), "{}", parted.stdout);
    for (arguments, code) in [(&["replay", "nope"][..], 2), (&["replay"], 2), (&["replay", "--test", "nope"], 2)] {
        let ended = lab.run(arguments);
        assert_eq!(ended.code, code, "{arguments:?}");
        assert!(!ended.error().is_empty());
    }
}
