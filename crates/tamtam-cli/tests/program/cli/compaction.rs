//! A small window through the binary: earlier messages are summarized, and the session continues, also in other
//! processes.
//!
//! The rows speak of a chat with `/compact`, `/save` and `/restore`; those commands come with `chat`. Their content is
//! tested here with `run` and `tape`: nothing needs to be saved or restored, because the tape always has it.

use serde_json::{Value, json};

use super::lab::{Ended, Lab};

/// A model of 16,000 tokens that answers at such length that its second turn finds no room.
fn model(lab: &Lab) -> String {
    let file = lab.path("script.json");
    let long = "word ".repeat(9_500);
    let script = json!({
        "limits": {"context": 16_000, "output": 500},
        "replies": [
            {"when": ["You write summaries"], "text": "## Goal\nTalk."},
            {"when": ["## Goal", "- first question", "assistant: Two.", "user: third"], "text": "Three."},
            {"when": ["## Goal", "- first question", "user: second"], "text": "Two."},
            {"when": ["user: first question"], "text": long},
            {"when": ["user: short"], "text": "Short."},
        ],
    });
    std::fs::write(&file, script.to_string()).unwrap();
    format!("scripted:{}", file.display())
}

fn run(lab: &Lab, session: &str, prompt: &str) -> Ended {
    let model = model(lab);
    let ended = lab.run(&["run", "--json", "--session", session, "--model", &model, prompt]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended
}

fn names(ended: &Ended) -> Vec<String> {
    ended.lines().iter().filter_map(|line| line["event"].as_str().map(str::to_owned)).collect()
}

fn text(ended: &Ended) -> Value {
    ended.lines().last().unwrap()["result"]["text"].clone()
}

/// CLI-COMPACT-001: the events tell of a compaction that began and ended, and the summary is what the model reads in its place.
/// CLI-COMPACT-002: the turn that brought the compaction on answers as any other.
/// CLI-COMPACT-003: the anchor of the compaction is a folder of the tape, and the tape verifies; there is nothing to save.
/// CLI-COMPACT-004: a new process has the user's first question in its context, and all three questions are on the tape.
/// CLI-COMPACT-005: the session that another process summed up answers the next prompt.
#[test]
fn a_session_that_was_summed_up_goes_on_in_other_processes() {
    let lab = Lab::new();
    let first = run(&lab, "s", "first question");
    assert!(!names(&first).contains(&"compaction_started".to_owned()));
    let second = run(&lab, "s", "second");
    let seen: Vec<_> =
        names(&second).into_iter().filter(|name| name.contains("compact") || name == "step_started").collect();
    assert_eq!(seen, ["compaction_started", "compaction_finished", "step_started"]);
    assert_eq!(text(&second), "Two.");
    let anchors = std::fs::read_dir(lab.path("home/.local/share/tamtam/sessions/s/anchors")).unwrap();
    let names: Vec<_> = anchors.map(|anchor| anchor.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(names.iter().any(|name| name.contains("compaction-1-")), "{names:?}");
    assert_eq!(lab.run(&["tape", "verify", "s"]).code, 0);
    assert_eq!(text(&run(&lab, "s", "third")), "Three.");
    // Nothing left the tape.
    let said = lab.tape("s").iter().filter(|entry| entry["kind"] == "accepted").count();
    assert_eq!(said, 3);
}

/// CLI-COMPACT-001: people who read no events are told in a line that it begins, and in another what it came to.
#[test]
fn people_are_told_that_it_is_summed_up() {
    let lab = Lab::new();
    run(&lab, "s", "first question");
    let ended = lab.run(&["run", "--session", "s", "--model", &model(&lab), "second"]);
    let shown = format!("{}{}", ended.stdout, ended.stderr);
    assert!(
        shown.contains("summarizing the earlier messages") && shown.contains("older items are summarized"),
        "{shown}"
    );
}

/// CLI-COMPACT-006: a short talk is left alone.
#[test]
fn a_short_talk_is_not_summed_up() {
    let lab = Lab::new();
    for _ in 0..3 {
        let ended = run(&lab, "s", "short");
        assert!(names(&ended).iter().all(|name| !name.contains("compact")));
        assert_eq!(text(&ended), "Short.");
    }
}

/// Words are pinned over the JSON lines: by the id of a message that was read, and with a message that is sent. A message that is
/// not there is refused, and nothing changes.
#[test]
fn words_are_pinned_over_the_json_lines() {
    let lab = Lab::new();
    let wait = json!({"name": "bash", "input": {"command": "until [ -e go ]; do sleep 0.05; done; echo went"}});
    let model = lab.script(json!([{"calls": [wait]}, "Noted."]));
    let mut live =
        lab.start(&["run", "--json", "--session", "s", "--permission", "auto", "--model", &model, "Use tabs."]);
    let begun = live.until_event("turn_started");
    let id = begun["messages"][0].clone();
    live.until_event("call_started");
    live.say(&json!({"pin": "nobody said that"}).to_string());
    let refused = live.until(|line| line["reply"]["command"] == "pin");
    assert_eq!(refused["reply"]["error"]["kind"], "refused", "{refused}");
    live.say(&json!({ "pin": id }).to_string());
    let pinned = live.until_event("pinned");
    assert_eq!(pinned["message"], id);
    live.say(&json!({"send": "Never touch main.rs.", "delivery": "steer", "pin": true}).to_string());
    let sent = live.until(|line| line["reply"]["command"] == "send");
    live.say(&json!({ "unpin": id }).to_string());
    live.until_event("unpinned");
    std::fs::write(lab.work("go"), "").unwrap();
    assert_eq!(live.end().code, 0);
    let tape = lab.tape("s");
    let accepted: Vec<_> = tape.iter().filter(|entry| entry["kind"] == "accepted").collect();
    assert_eq!(
        (&accepted[1]["data"]["message"]["pinned"], &sent["reply"]["message"]),
        (&json!(true), &accepted[1]["data"]["message"]["id"])
    );
    let kinds = tape.iter().filter_map(|entry| entry["kind"].as_str()).filter(|kind| kind.ends_with("pinned"));
    assert_eq!(kinds.collect::<Vec<_>>(), ["pinned", "unpinned"]);
}

/// A model whose second turn begins a summary and does not wait for it.
fn summing_up(lab: &Lab, summary: Value) -> String {
    let file = lab.path("background.json");
    let mut summary = summary;
    summary["when"] = json!(["You write summaries"]);
    let script = json!({
        "limits": {"context": 16_000, "output": 500},
        "replies": [
            summary,
            {"when": ["user: third"], "text": "Three."},
            {"when": ["user: second"], "text": "Two."},
            {"when": ["user: first question"], "text": "word ".repeat(5_000)},
        ],
    });
    std::fs::write(&file, script.to_string()).unwrap();
    format!("scripted:{}", file.display())
}

fn summaries(lab: &Lab, session: &str) -> usize {
    lab.tape(session).iter().filter(|entry| entry["kind"] == "compaction").count()
}

/// A summary that a turn has begun is waited for at the end of the command, so that no later command pays for it again.
#[test]
fn the_end_waits_for_the_summary_that_it_began() {
    let lab = Lab::new();
    let model = summing_up(&lab, json!({"text": "## Goal\nTalk.", "delay_ms": 400}));
    let run = |prompt: &str| lab.run(&["run", "--json", "--session", "s", "--model", &model, prompt]);
    drop(run("first question"));
    let second = run("second");
    let seen: Vec<_> = names(&second).into_iter().filter(|name| name.contains("compact")).collect();
    assert_eq!((seen, text(&second)), (vec!["compaction_started".into(), "compaction_finished".into()], json!("Two.")));
    assert_eq!(text(&run("third")), "Three.");
    assert_eq!(summaries(&lab, "s"), 1, "nobody began it again");
}

/// A summary that does not come is given up at Ctrl-C, and the command says so.
#[test]
fn a_summary_that_is_given_up_is_said() {
    let lab = Lab::new();
    let model = summing_up(&lab, json!({"hang": true}));
    drop(lab.run(&["run", "--json", "--session", "s", "--model", &model, "first question"]));
    let mut live = lab.start(&["run", "--json", "--session", "s", "--model", &model, "second"]);
    live.until_event("turn_finished");
    live.signal("-INT");
    let ended = live.end();
    let warned = ended.lines().into_iter().any(|line| line["warning"]["kind"] == "summary_given_up");
    assert!(warned && ended.code == 0, "{} {}", ended.code, ended.stdout);
}
