//! A damaged session, as its user gets it back: `tape verify` names the line, `tape fork` continues before it.

use std::path::PathBuf;

use serde_json::json;

use super::lab::Lab;
use crate::support::taped::LeftOut;

/// The file of a session's newest anchor.
fn newest(lab: &Lab, session: &str) -> PathBuf {
    let anchors = lab.path("home/.local/share/tamtam/sessions").join(session).join("anchors");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(anchors).unwrap().map(|item| item.unwrap().path()).collect();
    folders.sort();
    folders.pop().unwrap().join("entries.jsonl")
}

/// Promise 6, BDD-TAPE-013: with two turns and a bad line in the second one, wherever it is: the line is named, the session is not
/// gone on with, what is offered works without an entry being named, and what comes of it talks, goes out and comes in.
#[test]
fn a_damaged_session_is_forked_before_its_bad_line_and_talks_on() {
    let lab = Lab::new();
    lab.may_leave_out(LeftOut::Damaged);
    let model = lab.script(
        json!(["one", "two", {"when": ["user: again"], "expect": ["user: first", "assistant: one"], "text": "three"}]),
    );
    for prompt in ["first", "second"] {
        assert_eq!(lab.run(&["run", "--session", "s", "--model", &model, prompt]).code, 0);
    }
    let entries = lab.tape("s");
    let first_turn = entries.iter().position(|entry| entry["kind"] == "turn_finished").unwrap() + 1;
    let file = newest(&lab, "s");
    let whole = std::fs::read_to_string(&file).unwrap();
    // A line that says how many more belong to its append does not end one.
    let ends_append: Vec<bool> = whole.lines().map(|line| !line.contains("\"more\":")).collect();
    assert!(ends_append[first_turn..].contains(&false), "some are decided together");
    for line in first_turn + 1..entries.len() {
        let mut lines: Vec<String> = whole.lines().map(str::to_owned).collect();
        lines[line - 1] = lines[line - 1].replacen("\"kind\":\"", "\"kind\":\"x", 1);
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        let verified = lab.run(&["tape", "verify", "s"]);
        assert_eq!(verified.code, 1);
        assert!(verified.stdout.contains(&format!("entries.jsonl line {line}: ")), "{}", verified.stdout);
        let refused = lab.run(&["run", "--session", "s", "--model", &model, "more"]);
        assert_eq!(refused.code, 1);
        assert!(refused.error().contains("`tamtam tape fork "), "{}", refused.stderr);
        let beyond = lab.run(&["tape", "fork", "s", "--at", &entries.len().to_string(), "--as", "beyond"]);
        assert_eq!((beyond.code, beyond.stdout.as_str()), (1, ""), "line {line}: {}", beyond.stderr);
        assert!(beyond.error().contains(&format!("line {line}: ")), "{}", beyond.stderr);
        assert_eq!(lab.run(&["tape", "show", "beyond"]).code, 2, "nothing was made");

        let name = format!("r{line}");
        let forked = lab.run(&["tape", "fork", "s", "--as", &name]);
        assert_eq!((forked.code, forked.stdout.trim()), (0, name.as_str()), "line {line}: {}", forked.stderr);
        assert!(forked.stderr.contains(&format!("line {line}: ")), "line {line}: {}", forked.stderr);
        let begins = lab.tape(&name);
        let good = begins.len() - 1;
        let last_end = ends_append[..line - 1].iter().rposition(|ends| *ends).unwrap();
        assert_eq!(good, last_end + 1, "line {line}: with the last whole append before it");
        assert_eq!(begins[..good], entries[..good], "line {line}");
        let verified = lab.run(&["tape", "verify", &name]);
        assert_eq!(verified.code, 0, "{}", verified.stdout);
        // The turn that the bad line was in is as one that was cut off: it is finished first.
        let resumed = lab.run(&["resume", &name, "--model", &lab.script(json!(["two again", "two again"]))]);
        assert_eq!(resumed.code, 0, "line {line}: {}", resumed.stderr);
        let model = lab.script(json!([{"when": ["user: again"], "text": "three"}]));
        let said = lab.run(&["run", "--session", &name, "--model", &model, "again"]);
        assert_eq!((said.code, said.stdout.trim()), (0, "three"), "line {line}: {}", said.stderr);

        let out = lab.path(&format!("{name}.tape"));
        let exported = lab.run(&["tape", "export", &name, "--to", out.to_str().unwrap()]);
        assert_eq!(exported.code, 0, "line {line}: {}", exported.stderr);
        let came = format!("{name}-back");
        let imported = lab.run(&["tape", "import", out.to_str().unwrap(), "--as", &came]);
        assert_eq!(imported.code, 0, "{}", imported.stderr);
        let said = lab.run(&["run", "--session", &came, "--model", &model, "again"]);
        assert_eq!((said.code, said.stdout.trim()), (0, "three"), "line {line}: {}", said.stderr);
        assert_eq!(lab.run(&["tape", "verify", &came]).code, 0);
    }
}
