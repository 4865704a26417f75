//! `tamtam tape changes` and `tamtam tape restore`: what a session changed is shown, and put back by another process.

use serde_json::json;

use super::lab::Lab;

fn story(lab: &Lab) {
    std::fs::write(lab.work("a"), "one\n").unwrap();
    let model = lab.script(json!([
        {"calls": [
            {"name": "edit", "input": {"path": "a", "old_string": "one", "new_string": "two"}},
            {"name": "write", "input": {"path": "b", "content": "new\n"}},
        ]},
        "first",
        {"calls": [{"name": "edit", "input": {"path": "a", "old_string": "two", "new_string": "three"}}]},
        "second",
    ]));
    for prompt in ["one", "two"] {
        let ended = lab.run(&["run", "--session", "s", "--permission", "auto", "--model", &model, prompt]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    assert_eq!(std::fs::read_to_string(lab.work("a")).unwrap(), "three\n");
}

/// Z-03: the diff comes first, and nothing is changed without a word; the newest turn is what is taken back where nothing is
/// named.
#[test]
fn what_a_session_changed_is_shown_and_put_back() {
    let lab = Lab::new();
    story(&lab);
    let shown = lab.run(&["tape", "restore", "s"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    let expected =
        "restore   a\n\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-three\n+two\n\n1 file would change: add --yes to do it\n";
    assert_eq!(shown.stdout, expected);
    let all = lab.run(&["tape", "changes", "s", "--since", "0"]);
    assert!(all.stdout.starts_with("restore   a\ndelete    b\n\n--- a/a\n"), "{}", all.stdout);
    assert_eq!(std::fs::read_to_string(lab.work("a")).unwrap(), "three\n");

    let done = lab.run(&["tape", "restore", "s", "--yes"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains("1 file restored: entry "), "{}", done.stdout);
    assert_eq!(std::fs::read_to_string(lab.work("a")).unwrap(), "two\n");
    assert!(lab.run(&["tape", "restore", "s"]).stdout.contains("there is nothing to restore"));
    let tape = lab.tape("s");
    assert_eq!(tape.last().unwrap()["kind"], "restored");
    // The undo is a restore to the entry before.
    let before = (tape.last().unwrap()["seq"].as_u64().unwrap() - 1).to_string();
    assert_eq!(lab.run(&["tape", "restore", "s", "--since", &before, "--yes"]).code, 0);
    assert_eq!(std::fs::read_to_string(lab.work("a")).unwrap(), "three\n");
    assert_eq!(lab.run(&["tape", "verify", "s"]).code, 0);
}

/// A file that was changed behind our back is named, and nothing is done until it is said what to do about it.
#[test]
fn a_file_that_someone_else_changed_is_refused_by_name() {
    let lab = Lab::new();
    story(&lab);
    std::fs::write(lab.work("a"), "mine\n").unwrap();
    // Without --yes, what is said to be added is what works.
    let last_line = |arguments: &[&str]| {
        let shown = lab.run(&[&["tape", "restore", "s", "--since", "0"], arguments].concat());
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        shown.stdout.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(
        last_line(&[]),
        "1 file could be restored, 1 cannot: add --yes --rest to skip that one, or --yes --over to also restore what \
         someone else changed"
    );
    assert_eq!(last_line(&["--rest"]), "1 file would change, 1 would be skipped: add --yes to do it");
    assert_eq!(last_line(&["--over"]), "2 files would change: add --yes to do it");
    let refused = lab.run(&["tape", "restore", "s", "--since", "0", "--yes"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.error().contains("a: someone else changed it since: --rest restores the others"),
        "{}",
        refused.error()
    );
    assert!(lab.work("b").exists());
    let rest = lab.run(&["tape", "restore", "s", "--since", "0", "--yes", "--rest"]);
    assert_eq!(rest.code, 1, "one was left");
    assert!(rest.stdout.contains("not changed: a: someone else changed it since"), "{}", rest.stdout);
    assert!(!lab.work("b").exists());
    // Now the only file that is left is refused.
    let none = lab.run(&["tape", "restore", "s", "--since", "0"]);
    let line = "1 file cannot be restored; --over restores what someone else changed\n";
    assert!(none.code == 0 && none.stdout.ends_with(line), "{}", none.stdout);
    assert_eq!(lab.run(&["tape", "restore", "s", "--since", "0", "--yes"]).code, 1, "it was not done");
    assert_eq!(lab.run(&["tape", "restore", "s", "--since", "0", "--yes", "--over"]).code, 0);
    assert_eq!(std::fs::read_to_string(lab.work("a")).unwrap(), "one\n");
    for wrong in [&["tape", "restore", "nope"][..], &["tape", "changes", "s", "--since", "x"]] {
        assert_eq!(lab.run(wrong).code, 2, "{wrong:?}");
    }
}

/// What a file holds does nothing on a terminal, wherever its diff is shown.
#[test]
fn a_diff_of_a_hostile_file_is_harmless() {
    let lab = Lab::new();
    std::fs::write(lab.work("a"), "one\u{1b}]0;owned\u{7}\n").unwrap();
    let model = lab.script(json!([
        {"calls": [{"name": "write", "input": {"path": "a", "content": "two\u{1b}[2J\u{202e}\n"}}]}, "done",
    ]));
    assert_eq!(lab.run(&["run", "--session", "s", "--permission", "auto", "--model", &model, "go"]).code, 0);
    let turn = lab.tape("s").iter().find(|entry| entry["kind"] == "delivered").unwrap()["seq"].to_string();
    for command in [
        &["tape", "changes", "s"][..],
        &["tape", "restore", "s"],
        &["tape", "rollback", "s", "--turn", &turn, "--files"],
    ] {
        let shown = lab.run(command);
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        assert!(shown.stdout.contains("+one\\u{1b}]0;owned\\u{7}\n"), "{}", shown.stdout);
        assert!(shown.stdout.contains("-two\\u{1b}[2J\\u{202e}\n"), "{}", shown.stdout);
        assert!(!shown.stdout.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{}", shown.stdout);
    }
}
