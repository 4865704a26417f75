//! Must show 7: each failure is one clear line and the right exit code, and nothing is lost.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Command,
};

use serde_json::{Value, json};

use super::lab::{Lab, Live};

#[test]
fn no_model_ends_with_2_and_says_what_to_set() {
    let ended = Lab::new().run(&["run", "hello"]);
    assert_eq!(ended.code, 2);
    assert!(ended.error().contains("OPENAI_API_KEY") && ended.error().contains("--model"), "{}", ended.stderr);
}

/// CLI-CMD-006, CLI-CMD-008, CLI-RUN-004, and all that cannot be begun.
#[test]
fn what_cannot_be_begun_ends_with_2_and_one_line() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello."]));
    let cases: &[(&[&str], &str)] = &[
        (&["dance"], "--help"),
        (&[], "--help"),
        (&["run", "--bogus", "x"], "--bogus"),
        (&["run"], "PROMPT"),
        (&["run", "--model", &model, ""], "empty"),
        (&["run", "--model", &model, "--workspace", "/no/such/folder", "x"], "--workspace"),
        (&["run", "--model", &model, "--session", "../up", "x"], "bad session id"),
        (&["run", "--model", &model, "--permission", "lax", "x"], "choose strict"),
        (&["run", "--model", &model, "--rules", "none", "x"], "rules file none"),
        (&["run", "--model", "scripted:none.json", "x"], "none.json"),
        (&["run", "--model", "nobody/x", "x"], "unknown provider"),
        (&["run", "--model", "openai/gpt-4o", "x"], "OPENAI_API_KEY"),
        (&["tool", "read", "{"], "not JSON"),
        (&["tool", "read", "[]"], "not an object"),
        (&["tool", "fly", "{}"], "Available tools"),
        (&["permit", "bash", "nonsense"], "not JSON"),
    ];
    for (arguments, said) in cases {
        let ended = lab.run(arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{arguments:?}: {}", ended.stderr);
        assert!(ended.error().contains(said), "{arguments:?}: {}", ended.stderr);
    }
}

/// Seen on the release binary: a person was asked about calls that could not run whatever the answer. Their argument error is the result.
#[test]
fn a_call_with_bad_arguments_asks_nobody() {
    let lab = Lab::new();
    let call = |name: &str, input: Value| json!({"name": name, "input": input});
    let model = lab.script(json!([
        {"calls": [call("bash", json!({})), call("write", json!({"path": 7})), call("bash", json!({"command": "x", "timeout": 0}))]},
        "Understood.",
    ]));
    let ended = lab.run(&["run", "--json", "--permission", "strict", "--model", &model, "go"]);
    let lines = ended.lines();
    assert_eq!((ended.code, lines.iter().filter(|line| line["event"] == "ask").count()), (0, 0), "{}", ended.stdout);
    let results = lines.iter().filter(|line| line["event"] == "call_finished");
    let said: Vec<_> = results.map(|line| line["content"].as_str().unwrap().to_owned()).collect();
    assert!(said.len() == 3 && said.iter().all(|text| text.contains("arguments")), "{said:?}");
    // What could run is asked about.
    let model = lab.script(json!([{"calls": [call("bash", json!({"command": "true"}))]}, "Understood."]));
    let mut run = lab.start(&["run", "--json", "--permission", "strict", "--model", &model, "go"]);
    let ask = run.until_event("ask")["ask"].clone();
    run.say(&json!({"answer": {"ask": ask, "grant": "once"}}).to_string());
    assert_eq!(run.end().code, 0);
}

/// A server that refuses every key.
fn refusing_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 65_536];
            let _ = stream.read(&mut request);
            let body =
                r#"{"error":{"message":"Incorrect API key provided: sk-CANARY-123456.","code":"invalid_api_key"}}"#;
            let head = format!(
                "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + body).as_bytes());
        }
    });
    format!("http://{address}/v1")
}

/// CLI-RUN-002, K01: a refused key ends with 1, names the variable, and is not shown. The prompt is kept.
#[test]
fn a_bad_key_ends_with_1_and_names_where_it_comes_from() {
    let lab = Lab::new();
    let mut command = lab.command(&["run", "--session", "s", "--model", "openai/gpt-4o", "hello"]);
    command.env("OPENAI_API_KEY", "sk-CANARY-123456").env("OPENAI_BASE_URL", refusing_server());
    let ended = Live::start(command).end();
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.error().contains("check the key in OPENAI_API_KEY"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("CANARY"), "{}", ended.stderr);
    let accepted = |entry: &&Value| entry["kind"] == "accepted";
    assert_eq!(lab.tape("s").iter().filter(accepted).count(), 1);
}

/// A server that is not there is tried again, then it is said which one it was.
#[test]
fn an_unreachable_server_ends_with_1_and_is_named() {
    let lab = Lab::new();
    let ended = lab.run(&["run", "--model", "local/m", "--base-url", "http://127.0.0.1:9/v1", "hello"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(
        ended.error().contains("http://127.0.0.1:9/v1") && ended.error().contains("--base-url"),
        "{}",
        ended.stderr
    );
}

/// Promise 7: one writer, across processes.
#[test]
fn a_session_that_another_process_has_is_refused() {
    let lab = Lab::new();
    let model = lab.script(json!([{"delay_ms": 60_000, "text": "late"}]));
    let mut first = lab.start(&["run", "--json", "--session", "s", "--model", &model, "hold it"]);
    first.until_event("step_started");
    let second = lab.run(&["run", "--session", "s", "--model", &model, "me too"]);
    assert_eq!(second.code, 1);
    assert!(second.error().contains(&format!("in use by process {}", first.pid())), "{}", second.stderr);
    first.say(r#"{"abort":"enough"}"#);
    assert_eq!(first.end().code, 130);
}

/// A small disk, where this may be made; unmounted at the end.
pub(super) struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    pub(super) fn mount(at: &std::path::Path) -> Option<SmallDisk> {
        std::fs::create_dir(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// F08: a tape at the limit of the file size (`ulimit -f`), where the system kills who writes on: the command ends with 1 like
/// one whose disk is full, and without the limit the session goes on.
#[cfg(target_os = "linux")]
#[test]
fn a_tape_at_the_limit_of_the_file_size_is_a_full_disk_and_no_death() {
    let lab = Lab::new();
    let store = lab.path("store");
    let store = store.to_str().unwrap();
    let model = lab.script(json!([
        {"text": "y".repeat(100_000), "calls": [{"name": "ls", "input": {"path": "."}}]}, "After.",
    ]));
    let arguments = ["run", "--session", "s", "--permission", "auto", "--model", &model, "--store", store, "begin"];
    let limited = Command::new("bash")
        .args(["-c", "ulimit -c 0; ulimit -f 32; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tamtam")])
        .args(arguments)
        .current_dir(lab.path(""))
        .env("HOME", lab.path("home"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(1), "{said}");
    assert!(said.contains("File too large") || said.contains("file too large"), "{said}");
    let resumed = lab.run(&["resume", "s", "--model", &model, "--store", store]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(resumed.stdout.ends_with("After.\n"), "{}", resumed.stdout);
    assert_eq!(lab.run(&["tape", "verify", "--store", store]).code, 0);
}

/// A session whose turn a full disk cut off, on that disk: the disk, the folder of its work, the store and the model.
fn on_a_full_disk(lab: &Lab) -> Option<(SmallDisk, std::path::PathBuf, String, String)> {
    let at = lab.path("disk");
    let Some(disk) = SmallDisk::mount(&at) else {
        eprintln!("skipped: mounting a small disk needs root");
        return None;
    };
    let (work, store) = (at.join("work"), at.join("store"));
    std::fs::create_dir(&work).unwrap();
    let (work_dir, store_dir) = (work.to_str().unwrap(), store.to_str().unwrap());
    let fill = "dd if=/dev/zero of=filler bs=4k; echo full";
    let model = lab.script(json!([
        {"text": "x".repeat(4_000), "calls": [{"name": "bash", "input": {"command": fill}}]},
        {"text": "y".repeat(100_000), "calls": [{"name": "ls", "input": {"path": "."}}]},
        "After.", "More.",
    ]));
    let arguments = ["run", "--session", "s", "--permission", "auto", "--model", &model];
    let arguments = [&arguments[..], &["--store", store_dir, "--workspace", work_dir, "begin"]].concat();
    let full = lab.run(&arguments);
    assert_eq!(full.code, 1, "{}", full.stderr);
    assert!(full.error().contains("free some space"), "{}", full.stderr);
    Some((disk, work.clone(), store_dir.to_owned(), model))
}

/// A session whose turn a full disk cut off, with room again: the disk, the store and the model.
fn cut_off_by_a_full_disk(lab: &Lab) -> Option<(SmallDisk, String, String)> {
    let (disk, work, store_dir, model) = on_a_full_disk(lab)?;
    // Still full, to the last byte, whatever the first process gave back when it ended: a new prompt is refused the same way, and
    // not half taken.
    let rest = work.join("rest");
    let mut filler = std::fs::File::create(&rest).unwrap();
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    drop(filler);
    let refused = lab.run(&["run", "--session", "s", "--model", &model, "--store", &store_dir, "more"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    refused.error();
    std::fs::remove_file(work.join("filler")).unwrap();
    std::fs::remove_file(rest).unwrap();
    Some((disk, store_dir, model))
}

/// The disk fills up in the middle of a turn. The command ends with 1 and says so; with room again the session goes on and has
/// every message once and one result for each call.
#[test]
fn a_full_disk_ends_with_1_and_the_session_goes_on_when_there_is_room() {
    let lab = Lab::new();
    let Some((_disk, store_dir, model)) = cut_off_by_a_full_disk(&lab) else { return };
    let store_dir = store_dir.as_str();
    let resumed = lab.run(&["resume", "s", "--model", &model, "--store", store_dir]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(resumed.stdout.ends_with("After.\n"), "{}", resumed.stdout);
    assert_eq!(
        lab.run(&["run", "--session", "s", "--model", &model, "--store", store_dir, "once more"]).stdout,
        "More.\n"
    );
    let tape = lab.run(&["tape", "show", "s", "--json", "--store", store_dir]).lines();
    let count = |kind: &str| tape.iter().filter(|entry| entry["kind"] == kind).count();
    let prompts = tape.iter().filter(|entry| entry["kind"] == "accepted");
    let prompts: Vec<_> = prompts.map(|entry| &entry["data"]["message"]["parts"][0]["text"]).collect();
    assert_eq!(prompts, ["begin", "once more"]);
    assert_eq!((count("call"), count("result")), (2, 2));
    assert_eq!(lab.run(&["tape", "verify", "--store", store_dir]).code, 0);
}

/// Seen on the release binary: a new message right after such an end exited with 1, although the turn that was cut off and its own had
/// finished.
#[test]
fn after_a_full_disk_a_new_message_finishes_the_turn_before_it() {
    let lab = Lab::new();
    let Some((_disk, store_dir, model)) = cut_off_by_a_full_disk(&lab) else { return };
    let more = lab.run(&["run", "--session", "s", "--model", &model, "--store", &store_dir, "once more"]);
    assert_eq!(more.code, 0, "{}", more.stderr);
    assert!(more.stdout.ends_with("More.\n"), "{}", more.stdout);
}

/// Seen with the binary: on a full disk `tape delete` sent to `resume`, and `resume` could not go on. `abort` gives the turn up, also
/// there, with the room that the store had reserved for it.
#[test]
fn a_turn_that_a_full_disk_cut_off_is_given_up_on_that_disk_and_the_session_removed() {
    let lab = Lab::new();
    let Some((_disk, work, store_dir, _)) = on_a_full_disk(&lab) else { return };
    let abort = ["abort", "s", "--store", &store_dir];
    // To the last byte: there is no room for a word, so the command says what was refused and how much is free.
    let mut filler = std::fs::File::create(work.join("rest")).unwrap();
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    drop(filler);
    let refused = lab.run(&abort);
    assert_eq!(refused.code, 1, "{} {}", refused.stdout, refused.stderr);
    assert!(refused.error().contains("free some space") && refused.error().contains("0B are free, 64.0KB are enough"));
    // What the first process had reserved is enough; the work that filled the disk stays.
    std::fs::remove_file(work.join("rest")).unwrap();
    let deleted = lab.run(&["tape", "delete", "s", "--yes", "--store", &store_dir]);
    assert!(deleted.code == 1 && deleted.error().contains("`tamtam abort s`"), "{}", deleted.stderr);
    let given_up = lab.run(&abort);
    assert_eq!(given_up.code, 0, "{}", given_up.stderr);
    assert!(given_up.stdout.contains("its turn is given up"), "{}", given_up.stdout);
    let deleted = lab.run(&["tape", "delete", "s", "--yes", "--store", &store_dir]);
    assert_eq!((deleted.code, deleted.stdout.as_str()), (0, "session s is deleted\n"), "{}", deleted.stderr);
}

/// The same where the process was killed: every call has its result, nothing ran and no model was asked; `doctor` and `sessions` say
/// that the turn was cut off, as long as it is.
#[cfg(unix)]
#[test]
fn a_turn_that_nobody_runs_is_given_up_without_a_model() {
    let lab = Lab::new();
    let said = |arguments: &[&str]| {
        let ended = lab.run(arguments);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended.stdout
    };
    let calls = [("echo begun > begun; sleep 60", 1), ("echo never > never", 2)];
    let calls: Vec<_> =
        calls.iter().map(|(command, _)| json!({"name": "bash", "input": {"command": command}})).collect();
    let model = lab.script(json!([{"text": "Two.", "calls": calls}, "Never said."]));
    let mut run = lab.start(&["run", "--json", "--session", "s", "--permission", "auto", "--model", &model, "begin"]);
    run.until_event("call_started");
    let live = lab.run(&["abort", "s"]);
    assert!(live.code == 1 && live.error().contains(&format!("in use by process {}", run.pid())), "{}", live.stderr);
    run.signal("-KILL");
    run.end();

    let turns = |doctor: &str| doctor.lines().find(|line| line.starts_with("turns")).unwrap().to_owned();
    assert!(turns(&said(&["doctor"])).contains("cut off in s: `tamtam resume ID`"), "{}", said(&["doctor"]));
    assert!(said(&["sessions"]).contains("interrupted"));
    let refused = lab.run(&["tape", "delete", "s", "--yes"]);
    assert!(refused.code == 1 && refused.error().contains("`tamtam abort s` gives it up"), "{}", refused.stderr);

    assert!(said(&["abort", "s", "--reason", "the wrong folder"]).contains("its turn is given up"));
    let tape = lab.run(&["tape", "show", "s", "--json"]).lines();
    let count = |kind: &str| tape.iter().filter(|entry| entry["kind"] == kind).count();
    assert_eq!((count("call"), count("result"), count("request")), (2, 2, 1));
    let ended = tape.iter().rfind(|entry| entry["kind"] == "turn_finished").unwrap();
    assert_eq!((&ended["data"]["outcome"], &ended["data"]["reason"]), (&json!("aborted"), &json!("the wrong folder")));
    assert!(!lab.work("never").exists());

    assert!(turns(&said(&["doctor"])).ends_with("all are over, or are worked on"));
    assert_eq!(said(&["abort", "s"]), "session s has no open turn\n");
    assert_eq!(said(&["tape", "delete", "s", "--yes"]), "session s is deleted\n");
    let missing = lab.run(&["abort", "s"]);
    assert!(missing.code == 2 && missing.error().contains("no session s"), "{}", missing.stderr);
}
