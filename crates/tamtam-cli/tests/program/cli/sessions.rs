//! Sessions over several processes: listed, continued, survived, verified.

use serde_json::{Value, json};

use super::lab::Lab;
use crate::support::taped::LeftOut;

fn texts(lab: &Lab, session: &str) -> Vec<String> {
    let said = |entry: &Value| match entry["kind"].as_str()? {
        "accepted" => Some(entry["data"]["message"]["parts"][0]["text"].as_str()?.to_owned()),
        "answer" => Some(entry["data"]["answer"]["parts"][0]["text"].as_str()?.to_owned()),
        _ => None,
    };
    lab.tape(session).iter().filter_map(said).collect()
}

/// CLI-SESSION-001, 002, 005, 008: as many as there are, whatever state they are in.
#[test]
fn the_sessions_of_the_store_are_listed() {
    let lab = Lab::new();
    let none = lab.run(&["sessions"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    let model = lab.script(json!(["Hello."]));
    for id in ["test-session-001", "test-session-002"] {
        assert_eq!(lab.run(&["run", "--session", id, "--model", &model, "hi"]).code, 0);
    }
    let listed = |lab: &Lab| -> Vec<Value> {
        let all = lab.run(&["sessions", "--json"]).lines();
        all.into_iter().filter(|session| session["seq"] != 0).map(|session| session["session"].clone()).collect()
    };
    assert_eq!(listed(&lab), ["test-session-002", "test-session-001"], "the one that was used last is the first");
    lab.may_leave_out(LeftOut::NeverBegun);
    std::fs::create_dir(lab.path("home/.local/share/tamtam/sessions/broken")).unwrap();
    assert_eq!(listed(&lab), ["test-session-002", "test-session-001"]);
    assert!(lab.run(&["sessions"]).stdout.contains("test-session-001"));
}

/// CLI-SESSION-003, 007, 009, 010, 011: a session is gone on with by another process each time, and remembers all of it.
/// CLI-SESSION-006: it is listed once, with what is newest in it.
#[test]
fn a_session_is_gone_on_with_under_its_id() {
    let lab = Lab::new();
    let model = lab.script(json!(["one", {"expect": ["user: first", "assistant: one"], "text": "two"}, "three"]));
    for prompt in ["first", "second", "third"] {
        let ended = lab.run(&["run", "--session", "s", "--model", &model, prompt]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    assert_eq!(texts(&lab, "s"), ["first", "one", "second", "two", "third", "three"]);
    let listed = lab.run(&["sessions", "--json"]).lines();
    let newest = lab.tape("s").last().unwrap()["seq"].clone();
    assert_eq!(listed.iter().map(|one| (&one["session"], &one["seq"])).collect::<Vec<_>>(), [(&json!("s"), &newest)]);
}

/// CLI-SESSION-004
#[test]
fn an_unknown_session_is_said_to_be_missing() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello."]));
    for arguments in
        [&["resume", "nope", "--model", &model][..], &["tape", "show", "nope"], &["tape", "verify", "nope"]]
    {
        let ended = lab.run(arguments);
        assert_eq!(ended.code, 2, "{arguments:?}");
        assert!(ended.error().contains("there is no session nope"), "{}", ended.stderr);
    }
}

/// A turn that was cut off by `kill -9` is finished by `resume`, with every message once.
#[test]
fn a_killed_session_is_resumed_to_its_end() {
    let lab = Lab::new();
    let model = lab.script(json!([
        {"calls": [{"name": "ls", "input": {"path": "."}}]},
        {"delay_ms": 1500, "text": "Finished."},
        {"text": "And after."},
    ]));
    let mut run = lab.start(&["run", "--json", "--session", "s", "--model", &model, "begin"]);
    run.until(|line| line["event"] == "step_started" && line["step"] == 2);
    run.say(r#"{"send":"then this"}"#);
    run.until(|line| line["reply"]["command"] == "send");
    let shown = lab.run(&["sessions"]).stdout;
    assert!(shown.contains("  model  ") && shown.contains("    model: scripted/script, now"), "{shown}");
    run.signal("-KILL");
    assert_eq!(run.end().code, -1);
    // No process is in its turn any more.
    assert!(lab.run(&["sessions"]).stdout.contains("interrupted"));
    // Another session is none of its business.
    let other = lab.script(json!(["Hello."]));
    assert_eq!(lab.run(&["run", "--model", &other, "hi"]).code, 0);
    assert!(lab.run(&["sessions"]).stdout.contains("interrupted"));
    let model = lab.script(json!([
        {"calls": [{"name": "ls", "input": {"path": "."}}]}, "Finished.", "And after.",
    ]));
    let resumed = lab.run(&["resume", "s", "--json", "--model", &model]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!(resumed.lines()[1]["event"], "session_recovered");
    assert_eq!(texts(&lab, "s"), ["begin", "then this", "Finished.", "And after."]);
    // There is nothing more to go on with.
    let again = lab.run(&["resume", "s", "--json", "--model", &model]);
    assert_eq!((again.code, &again.lines()[1]["result"]["outcome"]), (0, &json!("idle")));
}

/// Seen on the release binary: on a session that was interrupted twice, `run --session` kept its prompt and ended with 1, so that each
/// try left one more. A prompt lets the interrupted turn go on, and is read behind it.
#[test]
fn a_prompt_lets_a_twice_interrupted_session_go_on() {
    let lab = Lab::new();
    let slow = lab.script(json!([{"delay_ms": 60_000, "text": "never"}]));
    // The first run dies in its request, the second in the repetition of that request, when its own prompt waits.
    for (prompt, dies_at) in [("begin", "step_started"), ("again", "queued")] {
        let mut run = lab.start(&["run", "--json", "--session", "s", "--model", &slow, prompt]);
        run.until_event(dies_at);
        run.signal("-KILL");
        assert_eq!(run.end().code, -1);
    }
    let model = lab.script(json!(["First.", "Second.", "Third."]));
    let third = lab.run(&["run", "--session", "s", "--model", &model, "third"]);
    assert_eq!((third.code, third.stdout.trim().lines().last()), (0, Some("Third.")), "{}", third.stderr);
    assert_eq!(texts(&lab, "s"), ["begin", "again", "third", "First.", "Second.", "Third."]);
    let again = lab.run(&["resume", "s", "--json", "--model", &model]);
    assert_eq!(again.lines()[1]["result"]["outcome"], "idle", "nothing was left behind");
}

/// Whoever damages a tape is found out, with file and line; the session is not gone on with.
#[test]
fn a_damaged_tape_is_named_with_file_and_line() {
    let lab = Lab::new();
    let model = lab.script(json!(["one", "two"]));
    assert_eq!(lab.run(&["run", "--session", "s", "--model", &model, "hi"]).code, 0);
    assert_eq!(lab.run(&["tape", "verify"]).code, 0);
    let anchors = lab.path("home/.local/share/tamtam/sessions/s/anchors");
    let file = std::fs::read_dir(anchors).unwrap().next().unwrap().unwrap().path().join("entries.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lab.may_leave_out(LeftOut::Damaged);
    lines[2] = lines[2].replacen("delivered", "delivereD", 1);
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let ended = lab.run(&["tape", "verify", "s"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stdout.contains("entries.jsonl line 3"), "{}", ended.stdout);
    let refused = lab.run(&["run", "--session", "s", "--model", &model, "more"]);
    assert_eq!((refused.code, refused.error().contains("tape verify")), (1, true));
}

/// A path that could not be looked at was said to have no store, and so no damage.
#[test]
fn a_store_that_cannot_be_looked_at_is_not_taken_for_none() {
    let lab = Lab::new();
    std::fs::write(lab.work("file"), "").unwrap();
    for command in [
        &["tape", "verify"][..],
        &["tape", "rebuild"],
        &["tape", "search", "x"],
        &["tape", "sweep", "--keep", "1", "--yes"],
        &["sessions"],
    ] {
        let ended = lab.run(&[command, &["--store", "file/store"]].concat());
        assert!(ended.code == 2 && ended.error().contains("--store"), "{command:?}: {}", ended.stderr);
    }
    std::fs::create_dir(lab.work("empty")).unwrap();
    assert_eq!(lab.run(&["tape", "protect", "s", "--store", "empty"]).code, 2);
    assert_eq!(std::fs::read_dir(lab.work("empty")).unwrap().count(), 0, "no store was made");
}

/// Promise 6: the index decides nothing; it is made anew from the tapes, whatever it holds.
#[test]
fn the_index_is_rebuilt_from_the_tapes() {
    let lab = Lab::new();
    assert_eq!(lab.run(&["tape", "rebuild"]).stdout, "0 entries indexed: there are no tapes\n");
    let model = lab.script(json!(["one"]));
    assert_eq!(lab.run(&["run", "--session", "s", "--model", &model, "hi"]).code, 0);
    let entries = lab.tape("s").len();
    let rebuilt = format!("{entries} entries indexed; the index was right before\n");
    assert_eq!(lab.run(&["tape", "rebuild"]).stdout, rebuilt);
    std::fs::write(lab.path("home/.local/share/tamtam/index.db"), "no database").unwrap();
    assert_eq!(lab.run(&["tape", "rebuild"]).stdout, rebuilt);
    assert_eq!(lab.tape("s").len(), entries);
}

/// A fork from the command line: it is listed, shown and gone on with like any other; a place that is none is said.
#[test]
fn a_session_is_forked_and_gone_on_with() {
    let lab = Lab::new();
    let model = lab.script(json!(["one", {"expect": ["user: first", "assistant: one"], "text": "two"}, "three"]));
    assert_eq!(lab.run(&["run", "--session", "s", "--model", &model, "first"]).code, 0);
    let forked = lab.run(&["tape", "fork", "s", "--as", "f"]);
    assert_eq!((forked.code, forked.stdout.as_str()), (0, "f\n"), "{}", forked.stderr);
    assert_eq!(lab.run(&["run", "--session", "f", "--model", &model, "second"]).code, 0);
    assert_eq!(texts(&lab, "f"), ["first", "one", "second", "two"]);
    assert_eq!(texts(&lab, "s"), ["first", "one"]);
    assert_eq!(lab.run(&["tape", "verify"]).code, 0);
    let last = lab.tape("s").last().unwrap()["seq"].as_u64().unwrap();
    let at = |seq: u64| lab.run(&["tape", "fork", "s", "--at", &seq.to_string()]);
    let beyond = at(last + 1);
    assert_eq!(beyond.code, 2);
    assert!(beyond.error().contains(&format!("session s has no entry {}: its last is {last}", last + 1)));
    // Inside an append nothing was said yet, so it is a fork of what was before.
    let inside = at(2);
    assert_eq!(inside.code, 0, "{}", inside.stderr);
    assert_eq!(texts(&lab, inside.stdout.trim()), Vec::<String>::new());
    assert_eq!(lab.run(&["tape", "verify"]).code, 0);
    assert_eq!(lab.run(&["tape", "fork", "s", "--as", "f"]).code, 2);
    assert_eq!(lab.run(&["tape", "fork", "none"]).code, 2);
    let made = at(last);
    assert_eq!((made.code, made.stdout.lines().count()), (0, 1));
    assert_eq!(lab.run(&["sessions", "--json"]).lines().len(), 4);
}

/// Z-04: the list for people and for programs, page by page, and filtered.
#[test]
fn z_04_sessions_are_listed_by_title_with_their_cost() {
    let lab = Lab::new();
    let model = lab.script_with(json!({
        "replies": [{"text": "one", "usage": {"input": 1000, "output": 100}}, {"text": "two"}],
        "prices": {"scripted/script": {"input": 2, "output": 10}},
    }));
    for (id, text) in [("a", "Mend the build"), ("b", "Write a\u{1b}[31m poem")] {
        assert_eq!(lab.run(&["run", "--session", id, "--model", &model, text]).code, 0);
    }
    assert_eq!(lab.run(&["tape", "fork", "a", "--as", "f"]).code, 0);
    let shown = lab.run(&["sessions"]);
    let titles: Vec<&str> = shown.stdout.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let expected = ["Mend the build [fork of a]", "Write a[31m poem", "Mend the build [1 fork]"];
    assert_eq!(titles, expected, "{}", shown.stdout);
    assert!(shown.stdout.lines().nth(3).unwrap().contains("$0.003000"), "{}", shown.stdout);
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 80), "{}", shown.stdout);
    let json = lab.run(&["sessions", "--json"]).lines();
    let of = |id: &str| json.iter().find(|line| line["session"] == id).unwrap();
    assert_eq!((&of("b")["cost"], &of("b")["usage"]["input"]), (&json!(3000), &json!(1000)));
    assert_eq!((&of("b")["status"], &of("b")["open"]), (&json!("passive"), &json!(false)));
    assert_eq!(of("f")["parent"]["fork_of"]["session"], "a");
    assert_eq!((&of("a")["forks"], &of("a")["model"]), (&json!(1), &json!("scripted/script")));
    let first = lab.run(&["sessions", "--json", "--limit", "2"]).lines();
    let next = first[2]["next"].as_str().unwrap();
    let second = lab.run(&["sessions", "--json", "--limit", "2", "--after", next]).lines();
    let ids: Vec<&Value> = first[..2].iter().chain(&second).map(|line| &line["session"]).collect();
    assert_eq!(ids, ["f", "b", "a"]);
    assert_eq!(lab.run(&["sessions", "--text", "POEM", "--json"]).lines().len(), 1);
    assert_eq!(lab.run(&["sessions", "--state", "live"]).stdout, "");
    assert_eq!(lab.run(&["sessions", "--state", "gone"]).code, 2);
    assert_eq!(lab.run(&["sessions", "--after", "x"]).code, 2);
}

/// Sessions are swept by number, age and size; what would go is said first, and a protected one stays.
#[test]
fn sessions_are_swept_and_a_pinned_one_stays() {
    let lab = Lab::new();
    assert_eq!(lab.run(&["tape", "sweep"]).code, 2);
    assert_eq!(lab.run(&["tape", "sweep", "--keep", "1", "--yes"]).stdout, "removed 0 sessions, 0B\n");
    let model = lab.script(json!(["one"]));
    for id in ["a", "b", "c"] {
        assert_eq!(lab.run(&["run", "--session", id, "--model", &model, "hi"]).code, 0);
    }
    assert_eq!(lab.run(&["tape", "fork", "b", "--as", "f"]).code, 0);
    assert_eq!(lab.run(&["tape", "protect", "a"]).code, 0);
    assert_eq!(lab.run(&["tape", "protect", "none"]).code, 2);
    let ids = || -> Vec<String> {
        let mut ids: Vec<_> =
            lab.run(&["sessions", "--json"]).lines().iter().map(|l| l["session"].to_string()).collect();
        ids.sort();
        ids
    };
    let dry = lab.run(&["tape", "sweep", "--keep", "1", "--dry-run"]);
    assert!(dry.stdout.contains("would remove c ") && dry.stdout.contains("not among the newest 1"), "{}", dry.stdout);
    assert!(dry.stdout.contains("kept a: it is protected\n"), "{}", dry.stdout);
    assert!(dry.stdout.contains("kept b: session f is a fork of it\n"), "{}", dry.stdout);
    assert_eq!(ids().len(), 4);
    for unasked in [&["tape", "sweep", "--keep", "1"][..], &["tape", "sweep", "--keep", "1", "--json"]] {
        let refused = lab.run(unasked);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "nobody is there who could say yes");
        assert!(refused.error().contains("--dry-run") && refused.error().contains("--yes"), "{}", refused.stderr);
    }
    assert_eq!(lab.run(&["tape", "sweep", "--keep", "1", "--yes", "--dry-run"]).code, 2);
    assert_eq!(ids().len(), 4);
    assert_eq!(lab.run(&["tape", "sweep", "--older-than", "1d", "--yes"]).stdout, "removed 0 sessions, 0B\n");
    let dry = lab.run(&["tape", "sweep", "--keep", "1", "--json", "--dry-run"]).lines();
    assert_eq!((&dry[0]["session"], &dry[0]["removed"]), (&json!("c"), &json!(false)));
    let swept = lab.run(&["tape", "sweep", "--keep", "1", "--json", "--yes"]).lines();
    assert_eq!((&swept[0]["session"], &swept[0]["removed"]), (&json!("c"), &json!(true)));
    assert_eq!(ids(), [r#""a""#, r#""b""#, r#""f""#]);
    assert_eq!(lab.run(&["tape", "protect", "a", "--off"]).code, 0);
    assert_eq!(lab.run(&["tape", "sweep", "--max-bytes", "0", "--yes"]).code, 0);
    assert_eq!(ids(), Vec::<String>::new());
    assert_eq!(lab.run(&["tape", "verify"]).stdout, "0 tapes checked, no damage\n");
}

/// On a terminal a sweep shows what would go and asks; anything but a yes keeps all of it, and a yes removes what was shown.
#[test]
fn a_sweep_on_a_terminal_asks_first() {
    let lab = Lab::new();
    let model = lab.script(json!(["one"]));
    for id in ["a", "b"] {
        assert_eq!(lab.run(&["run", "--session", id, "--model", &model, "hi"]).code, 0);
    }
    for no in ["\n", "no\n", "yess\n", "\u{4}"] {
        let mut sweep = lab.on_terminal(&["tape", "sweep", "--keep", "1"]);
        sweep.until_text("would remove a ");
        sweep.until_text("remove them for good? [y/N] ");
        sweep.type_keys(no);
        sweep.until_text("nothing was removed");
        assert_eq!(sweep.end().code, 0);
        assert_eq!(lab.run(&["sessions", "--json"]).lines().len(), 2);
    }
    let mut sweep = lab.on_terminal(&["tape", "sweep", "--keep", "1"]);
    sweep.until_text("[y/N] ");
    // Made meanwhile, it is not among those that were shown.
    assert_eq!(lab.run(&["run", "--session", "c", "--model", &model, "hi"]).code, 0);
    sweep.type_keys("y\n");
    sweep.until_text("removed 1 session, ");
    assert_eq!(sweep.end().code, 0);
    let left: Vec<_> = lab.run(&["sessions", "--json"]).lines().iter().map(|line| line["session"].clone()).collect();
    assert_eq!(left, ["c", "b"]);
    // Where nothing would go nobody is asked.
    let mut sweep = lab.on_terminal(&["tape", "sweep", "--keep", "9"]);
    sweep.until_text("would remove 0 sessions");
    assert_eq!(sweep.end().code, 0);
}

/// A session is called what `--title` says, from its beginning or from a later prompt on; a title does nothing on a terminal.
#[test]
fn a_session_has_the_title_that_it_was_given() {
    let lab = Lab::new();
    let model = lab.script(json!(["one", "two", "three"]));
    let title = |lab: &Lab| lab.run(&["sessions", "--json"]).lines()[0]["title"].clone();
    let run = |title: &[&str]| {
        let ended = lab.run(&[&["run", "--session", "s", "--model", &model], title, &["hello there"]].concat());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    };
    run(&["--title", "The\u{1b}[2J  first"]);
    assert_eq!(title(&lab), "The[2J first");
    run(&[]);
    assert_eq!(title(&lab), "The[2J first", "it stays");
    run(&["--title", "The second"]);
    assert_eq!(title(&lab), "The second");
    assert_eq!(lab.run(&["replay", "s"]).code, 0);
}

/// A fork that is brought in under the name of what it went on from belongs to nobody there, and is listed as any other.
#[test]
fn a_fork_under_its_parents_name_is_in_the_list() {
    let (lab, other) = (Lab::new(), Lab::new());
    let model = lab.script(json!(["one", "two"]));
    assert_eq!(lab.run(&["run", "--session", "a", "--model", &model, "first"]).code, 0);
    assert_eq!(lab.run(&["tape", "fork", "a", "--as", "f"]).code, 0);
    assert_eq!(lab.run(&["run", "--session", "f", "--model", &model, "second"]).code, 0);
    let file = lab.path("f.jsonl").display().to_string();
    assert_eq!(lab.run(&["tape", "export", "f", "--to", &file]).code, 0);
    let imported = other.run(&["tape", "import", &file, "--as", "a"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let listed = other.run(&["sessions", "--json"]).lines();
    let found: Vec<_> = listed.iter().map(|one| (&one["session"], &one["parent"], &one["forks"])).collect();
    assert_eq!(found, [(&json!("a"), &Value::Null, &json!(0))]);
    assert_eq!(other.run(&["replay", "a"]).code, 0);

    // Where somebody else has that name, it is not that one's fork.
    let third = Lab::new();
    let model = third.script(json!(["three"]));
    assert_eq!(third.run(&["run", "--session", "a", "--model", &model, "another"]).code, 0);
    assert_eq!(third.run(&["tape", "import", &file, "--as-it-was"]).code, 0);
    let listed = third.run(&["sessions", "--json"]).lines();
    let mut found: Vec<_> = listed.iter().map(|one| (one["session"].as_str(), &one["parent"], &one["forks"])).collect();
    found.sort_by_key(|(session, ..)| *session);
    assert_eq!(found, [(Some("a"), &Value::Null, &json!(0)), (Some("f"), &Value::Null, &json!(0))]);
}

/// A label is set by `run`, and lists and searches find its sessions alone. A wrong one is a usage error that names it.
#[test]
fn labels_are_set_and_filter_lists_and_searches() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello.", "Hello."]));
    let run = |arguments: &[&str]| lab.run(&[&["run", "--model", &model], arguments, &["hi"]].concat());
    for (session, label) in [("a", "tenant=acme"), ("b", "tenant=other")] {
        assert_eq!(run(&["--session", session, "--label", label, "--label", "note=x=y z"]).code, 0);
    }
    // A session that is there keeps its other labels, and all of them where none is given.
    assert_eq!(run(&["--session", "a", "--label", "user=ann", "--label", "note=n"]).code, 0);
    let found = |arguments: &[&str]| -> Vec<Value> {
        let ended = lab.run(arguments);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let mut found: Vec<_> = ended.lines().iter().map(|line| line["session"].clone()).collect();
        found.dedup();
        found
    };
    let list = lab.run(&["sessions", "--json", "--label", "tenant=acme"]).lines();
    assert_eq!((list.len(), &list[0]["session"]), (1, &json!("a")));
    assert_eq!(list[0]["labels"], json!({"tenant": "acme", "user": "ann", "note": "n"}));
    assert_eq!(found(&["sessions", "--json", "--label", "note=x=y z"]), ["b"]);
    assert!(found(&["sessions", "--json", "--label", "tenant=other", "--label", "user=ann"]).is_empty());
    assert_eq!(found(&["tape", "search", "--json", "--label", "tenant=acme", "hi"]), ["a"]);
    assert_eq!(found(&["tape", "search", "--json", "--label", "tenant=other", "hi"]), ["b"]);
    for (label, said) in [
        ("tenant", "a label is KEY=VALUE"),
        ("Tenant=x", "bad label key \"Tenant\": use 1 to 64 of a-z 0-9 . _ -"),
        ("user=a\tb", "the value of the label user has a control character: leave it out"),
    ] {
        for command in [&["run", "hi"][..], &["sessions"], &["tape", "search", "hi"]] {
            let refused = lab.run(&[command, &["--label", label]].concat());
            assert_eq!(refused.code, 2, "{}", refused.stderr);
            assert!(refused.error().contains(said), "{}", refused.stderr);
        }
    }
    let twice = run(&["--session", "c", "--label", "user=ann", "--label", "user=bob"]);
    assert_eq!((twice.code, twice.error().contains("the label user is given twice")), (2, true), "{}", twice.stderr);
    assert!(found(&["sessions", "--json", "--text", "c"]).is_empty());
}
