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
    tamtam::ops::replay::check(&file).unwrap();
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
    assert!(parted.stdout.contains("the tapes differ from entry"), "{}", parted.stdout);
    for (arguments, code) in [(&["replay", "nope"][..], 2), (&["replay"], 2), (&["replay", "--test", "nope"], 2)] {
        let ended = lab.run(arguments);
        assert_eq!(ended.code, code, "{arguments:?}");
        assert!(!ended.error().is_empty());
    }
}

/// Design §9: a replay is forked behind one of its decisions, by the number that `--step` shows, and the fork goes on from there.
#[test]
fn a_replay_is_forked_behind_a_decision() {
    let lab = recorded();
    let steps = lab.run(&["replay", "s", "--step"]).stdout;
    // The number of the decision that an entry of the first kind stands in, and the entries through its last.
    let (mut number, mut last, mut wanted) = (0_u64, 0_u64, None);
    for line in steps.lines() {
        let mut words = line.split_whitespace();
        let first: u64 = words.next().unwrap().parse().unwrap_or_default();
        match line.starts_with("      ") {
            false if wanted.is_some() => break,
            false => number = first,
            true => {
                last = first;
                if words.next() == Some("result") {
                    wanted = Some(number);
                }
            }
        }
    }
    let number = wanted.unwrap().to_string();
    let tapes = lab.run(&["sessions", "--json"]).lines().len();
    let forked = lab.run(&["replay", "s", "--fork-at", &number, "--as", "f"]);
    assert_eq!((forked.code, forked.stdout.as_str()), (0, "f\n"), "{}", forked.stderr);
    let fork = lab.tape("f");
    assert_eq!(fork[usize::try_from(last).unwrap()]["kind"], "forked", "it has all through the decision, and no more");
    assert_eq!(fork[..usize::try_from(last).unwrap()], lab.tape("s")[..usize::try_from(last).unwrap()]);
    // Each decision up to it is shown, and then the id alone.
    let shown = lab.run(&["replay", "s", "--step", "--fork-at", &number]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    let made = shown.stdout.lines().last().unwrap();
    let before = shown.stdout.strip_suffix(&format!("{made}\n")).unwrap();
    assert!(steps.starts_with(before) && before.contains(&format!(" {last}  ")), "{before}");
    assert_eq!(lab.run(&["replay", made]).code, 0);
    let model = lab.script(json!([{"expect": ["user: write", "user: and now"], "text": "On."}, "On.", "On."]));
    let on = lab.run(&["run", "--session", made, "--model", &model, "and now"]);
    assert_eq!((on.code, on.stdout.trim()), (0, "On."), "{}", on.stderr);
    assert_eq!(lab.run(&["tape", "verify"]).code, 0);
    assert_eq!(lab.run(&["sessions", "--json"]).lines().len(), tapes + 2);
}

/// Where a fork cannot be made none is, and it is said why: a number that is none, an id that is taken, a decision that comes out
/// otherwise before it.
#[test]
fn a_replay_that_cannot_be_forked_says_why() {
    let lab = recorded();
    let all = lab.run(&["replay", "s", "--step"]).stdout.lines().filter(|line| !line.starts_with("      ")).count() - 1;
    let tapes = lab.run(&["sessions", "--json"]).lines().len();
    let (beyond, newest) = ((all + 1).to_string(), all.to_string());
    let range = format!("1 to {all}");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["s", "--fork-at", &beyond], 2, &range),
        (&["s", "--fork-at", "0"], 2, "--fork-at"),
        (&["s", "--fork-at", &newest, "--as", "t"], 2, "choose another id"),
        (&["s", "--as", "f"], 2, "--fork-at"),
        (&["s", "--fork-at", "1", "--prompt", "x"], 2, "cannot be used with"),
        (&["s", "--fork-at", "1", "--against", "t"], 2, "cannot be used with"),
    ];
    for (arguments, code, said) in cases {
        let ended = lab.run(&[&["replay"], arguments].concat());
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        assert!(ended.error().contains(said), "{arguments:?}: {}", ended.stderr);
    }
    assert_eq!(lab.run(&["sessions", "--json"]).lines().len(), tapes, "no session was made");
}

/// On a terminal Enter goes on, `f` makes a fork there and then, `q` ends; another word is none of these.
#[test]
fn a_replay_is_gone_through_by_hand_and_forked_there() {
    let lab = recorded();
    let mut replay = lab.on_terminal(&["replay", "s", "--step"]);
    replay.until_text("Enter: next decision; f: fork");
    replay.until_text("   1  the beginning");
    replay.type_keys("fork\n");
    replay.until_text("Enter, f or q");
    replay.type_keys("\n");
    replay.until_text("   2  ");
    replay.type_keys("f\n");
    let ended = replay.end();
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    let fork = ended.stdout.trim().lines().last().unwrap().to_owned();
    assert_eq!(lab.tape(&fork).last().unwrap()["kind"], "forked");
    let mut replay = lab.on_terminal(&["replay", "s", "--step", "--fork-at", "2"]);
    replay.until_text("   1  the beginning");
    replay.type_keys("q\n");
    assert_eq!(replay.end().code, 0);
    assert_eq!(lab.run(&["sessions", "--json"]).lines().len(), 3, "who ends it makes no fork");
}

/// A difference is an exit of 1 also where nobody reads what it says.
#[test]
fn a_difference_that_nobody_reads_is_an_exit_all_the_same() {
    let lab = recorded();
    std::fs::write(lab.path("prompt.txt"), "You are a drum.").unwrap();
    let prompt = lab.path("prompt.txt").display().to_string();
    for step in [&[][..], &["--step"]] {
        let arguments = [&["replay", "s", "--prompt", &prompt], step].concat();
        let mut child = lab.command(&arguments).stdout(std::process::Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(1), "{step:?}");
    }
}
