//! What is said before a session begins: prompts, folders, agents and files, and what a program gets if nothing begins.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::lab::{Lab, Live};

/// A run whose stdin is a pipe with this text.
fn piped(lab: &Lab, text: &str, arguments: &[&str]) -> super::lab::Ended {
    let lines = lab.path("stdin");
    std::fs::write(&lines, text).unwrap();
    let mut cat = Command::new("cat").arg(&lines).stdout(Stdio::piped()).spawn().unwrap();
    let mut command = lab.command(arguments);
    command.stdin(cat.stdout.take().unwrap());
    // All of it is in the pipe before the command looks.
    assert!(cat.wait().unwrap().success());
    Live::start(command).end()
}

fn prompts(lab: &Lab, session: &str) -> Vec<Value> {
    let accepted = lab.tape(session).into_iter().filter(|entry| entry["kind"] == "accepted");
    accepted.map(|entry| entry["data"]["message"]["parts"][0]["text"].clone()).collect()
}

/// Seen on the release binary: `run -` sent a dash, and a piped text was passed over without a word.
#[test]
fn a_piped_text_is_the_prompt_or_is_refused() {
    let lab = Lab::new();
    let model = lab.script_with(json!({"replies": [{"when": ["user:"], "text": "Hello."}]}));
    let read = piped(&lab, "explain\nthis\n", &["run", "--session", "s", "--model", &model, "-"]);
    assert_eq!((read.code, read.stdout.trim()), (0, "Hello."), "{}", read.stderr);
    assert_eq!(prompts(&lab, "s"), ["explain\nthis"]);
    let refused = piped(&lab, "unread", &["run", "--session", "t", "--model", &model, "hi"]);
    assert_eq!(
        (refused.code, refused.error().contains("use - to read the prompt from stdin")),
        (2, true),
        "{}",
        refused.stderr
    );
    let commands = piped(&lab, "unread", &["run", "--json", "--session", "t", "--model", &model, "-"]);
    assert_eq!((commands.code, commands.error().contains("stdin is for commands")), (2, true), "{}", commands.stderr);
    let binary = lab.path("binary");
    std::fs::write(&binary, [0xff, 0xfe, 0]).unwrap();
    let mut command = lab.command(&["run", "--session", "t", "--model", &model, "-"]);
    command.stdin(std::fs::File::open(&binary).unwrap());
    let refused = Live::start(command).end();
    assert_eq!((refused.code, refused.error().contains("not UTF-8")), (2, true), "{}", refused.stderr);
    assert_eq!(lab.run(&["tape", "show", "t"]).code, 2, "no session was made");
}

/// An empty prompt makes no session, and neither does an agent that does not exist.
#[test]
fn what_cannot_begin_makes_no_session_and_a_program_reads_why() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello."]));
    let cases: &[(&[&str], i32, &str, &str)] = &[
        (&["run", "--json", "--model", &model, " \t "], 2, "usage", "the prompt is empty"),
        (&["run", "--json", "--model", &model, "--agent", "foo", "x"], 2, "usage", "choose build or plan"),
        (&["run", "--json", "--model", &model, "--rules", "none", "x"], 2, "usage", "rules file none"),
        (&["run", "--json", "--model", "nobody/x", "x"], 2, "usage", "unknown provider"),
        (&["run", "--json", "--bogus", "x"], 2, "usage", "--bogus"),
        (&["resume", "--json", "nope", "--model", &model], 2, "not_found", "there is no session nope"),
    ];
    for (arguments, code, kind, said) in cases {
        let ended = lab.run(arguments);
        let lines = ended.lines();
        assert_eq!((ended.code, lines.len()), (*code, 1), "{arguments:?}: {}", ended.stderr);
        let failure = &lines[0]["failure"];
        assert_eq!(failure["kind"], *kind, "{arguments:?}");
        assert!(failure["message"].as_str().unwrap().contains(said), "{arguments:?}: {failure}");
        assert!(ended.error().contains(said), "a person reads it too: {}", ended.stderr);
    }
    assert_eq!(lab.run(&["sessions"]).stdout, "");
}

/// A session that another process has open is a failure of the kind `busy`.
#[test]
fn a_claimed_session_is_told_by_its_kind() {
    let lab = Lab::new();
    let slow = lab.script(json!([{"delay_ms": 60_000, "text": "never"}]));
    let mut run = lab.start(&["run", "--json", "--session", "s", "--model", &slow, "hi"]);
    run.until_event("step_started");
    let second = lab.run(&["run", "--json", "--session", "s", "--model", &slow, "me too"]);
    assert_eq!((second.code, &second.lines()[0]["failure"]["kind"]), (1, &json!("busy")), "{}", second.stderr);
    run.signal("-TERM");
    assert_eq!(run.end().code, 130);
}

/// Seen on the release binary: `resume` named an option that it lacked, and `run --session` refused it.
#[test]
fn a_session_whose_folder_was_moved_goes_on_in_the_new_one() {
    let lab = Lab::new();
    let model = lab.script_with(json!({"replies": [
        {"when": ["user: and this"], "text": "Hello."},
        {"when": ["result ls"], "text": "Listed."},
        {"when": ["user: list"], "calls": [{"name": "ls", "input": {}}]},
        {"when": ["user:"], "text": "Hello."},
    ]}));
    let (old, new) = (lab.work("old"), lab.work("new"));
    std::fs::create_dir(&old).unwrap();
    std::fs::write(old.join("a-file"), "").unwrap();
    let run = |arguments: &[&str]| {
        lab.run(&[&["run", "--session", "s", "--permission", "auto", "--model", &model], arguments].concat())
    };
    assert_eq!(run(&["--workspace", "old", "hi"]).code, 0);
    let elsewhere = run(&["--workspace", ".", "hi"]);
    assert_eq!(
        (elsewhere.code, elsewhere.error().contains("leave --workspace out")),
        (2, true),
        "{}",
        elsewhere.stderr
    );
    std::fs::rename(&old, &new).unwrap();
    for refused in [run(&["hi"]), lab.run(&["resume", "s", "--model", &model])] {
        assert_eq!((refused.code, refused.error().contains("name its new place with --workspace")), (2, true));
    }
    let moved = run(&["--workspace", "new", "list it"]);
    assert_eq!((moved.code, moved.stdout.trim()), (0, "Listed."), "{}", moved.stderr);
    let listed = lab.tape("s").into_iter().rfind(|entry| entry["kind"] == "result").unwrap();
    assert!(listed["data"].to_string().contains("a-file"), "{listed}");
    // It stays there.
    assert_eq!(lab.run(&["resume", "s", "--model", &model, "and", "this"]).stdout.trim(), "Hello.");
    assert_eq!(prompts(&lab, "s"), ["hi", "list it", "and this"]);
}

/// A file that the model cannot be sent is told to the person and to a program, and the rest goes.
#[test]
fn a_file_that_is_left_out_is_told() {
    let lab = Lab::new();
    let model = lab.script_with(json!({"replies": [{"when": ["user:"], "text": "Hello."}]}));
    std::fs::write(lab.work("archive.zip"), [0, 1, 2]).unwrap();
    let said = "archive.zip is left out";
    let text = lab.run(&["run", "--model", &model, "--file", "archive.zip", "hi"]);
    assert_eq!((text.code, text.stderr.contains(said)), (0, true), "{}", text.stderr);
    let json = lab.run(&["run", "--json", "--model", &model, "--file", "archive.zip", "hi"]);
    let warning = json.lines().into_iter().find(|line| line["warning"].is_object()).unwrap();
    assert_eq!(warning["warning"]["kind"], "file_left_out");
    assert!(warning["warning"]["message"].as_str().unwrap().contains(said), "{warning}");
    let whole = lab.run(&["run", "--model", &model, "hi"]);
    assert!(!whole.stderr.contains("left out"), "{}", whole.stderr);
}

/// The reason of an unknown cost is said, with what to do about it.
#[test]
fn an_unknown_cost_says_why() {
    let lab = Lab::new();
    let model = lab.script_with(json!({"replies": [{"when": ["user:"], "text": "Hello."}]}));
    let unknown = lab.run(&["run", "--model", &model, "hi"]);
    assert!(
        unknown.stderr.contains("no price of scripted/script is known: give it with --price"),
        "{}",
        unknown.stderr
    );
    let known = lab.run(&["run", "--model", &model, "--price", "1/2", "hi"]);
    assert!(!known.stderr.contains("no price"), "{}", known.stderr);
}

/// `--durability power` is what the store's owner says of itself while it runs; `process` is the default.
#[test]
fn the_durability_is_the_persons_choice() {
    let lab = Lab::new();
    let slow = lab.script(json!([{"delay_ms": 60_000, "text": "never"}]));
    for (arguments, durability) in [(&[][..], "process"), (&["--durability", "power"], "power")] {
        let mut run = lab.start(&[&["run", "--json", "--model", &slow], arguments, &["hi"]].concat());
        run.until_event("step_started");
        let owners = std::fs::read_dir(lab.path("home/.local/share/tamtam/owners")).unwrap();
        let said: String = owners.filter_map(|owner| std::fs::read_to_string(owner.unwrap().path()).ok()).collect();
        assert!(said.contains(&format!("\"durability\":\"{durability}\"")), "{said}");
        run.signal("-TERM");
        assert_eq!(run.end().code, 130);
    }
}
