//! Stops and the last moment of a run, if the reader of the output reads nothing, or is gone.

use serde_json::{Value, json};

use super::lab::{Ended, Lab, Live, Output, has};

const TAPE: &str = "home/.local/share/tamtam/sessions/s/anchors/001_session-start/entries.jsonl";

/// Runs that came before the stop: what they wrote is more than every pipe and queue between holds.
const RUNS: usize = 30;

/// The command of a call: it leaves a line in `count`.
const CALL: &str = "echo x >> count";

/// A model that goes on for ever: much text, and a call that leaves a line in `count`. Rules that let it.
fn endless(lab: &Lab) -> String {
    std::fs::write(lab.path("rules"), r#"{"permission":"doom_loop","pattern":"*","action":"allow"}"#).unwrap();
    let call = json!({"name": "bash", "input": {"command": CALL}});
    lab.script_with(json!({"replies": [{"when": ["user:"], "text": "x".repeat(60_000), "calls": [call]}]}))
}

fn counted(lab: &Lab) -> usize {
    std::fs::read_to_string(lab.work("count")).map_or(0, |lines| lines.lines().count())
}

/// A run whose outputs nobody reads, when its agent is [`RUNS`] calls on.
fn unread(lab: &Lab, arguments: &[&str]) -> Live {
    let mut command = lab.command(arguments);
    command.arg("--rules").arg(lab.path("rules"));
    // The log fills stderr, too.
    command.env("TAMTAM_LOG", "trace").stdin(std::process::Stdio::piped());
    let run = Live::start(command);
    wait_for_runs(lab, &run);
    run
}

/// How many commands of calls are running.
fn calls(lab: &Lab) -> usize {
    lab.processes_that(|line| line.contains(CALL))
}

fn wait_for_runs(lab: &Lab, run: &Live) {
    let from = counted(lab);
    wait_for(|| counted(lab) >= from + RUNS, run);
}

fn wait_for(is_so: impl Fn() -> bool, run: &Live) {
    while !is_so() {
        assert!(run.is_running(), "it ended before");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// One stop of a run whose outputs are in such a state: the process ends, nothing of the agent begins after the stop, and no
/// process of it is left.
fn stop_once(stdout: Output, stderr: Output, stop: &str, form: &str) {
    let case = format!("stdout {stdout:?}, stderr {stderr:?}, {stop} {form}");
    let lab = Lab::new();
    let model = endless(&lab);
    let mut arguments =
        vec!["run", "--session", "s", "--permission", "auto", "--model", &model, "--max-steps", "100000"];
    arguments.extend(Some(form).filter(|form| !form.is_empty()));
    arguments.push("go");
    let mut run = unread(&lab, &arguments);
    run.settle_outputs(stdout, stderr);
    let is_gone = stdout == Output::Closed;
    if !is_gone {
        // It works on, whatever became of its outputs.
        wait_for_runs(&lab, &run);
    }
    if stop == "-INT" && !is_gone {
        // The commands of a call are seen by name, so that none is left below means that none is there.
        wait_for(|| calls(&lab) > 0, &run);
    }
    let (asked, before) = (std::time::Instant::now(), counted(&lab));
    match stop {
        // A run whose reader has gone may have ended by itself.
        "abort" => assert!(run.try_say(r#"{"abort":"enough"}"#) || is_gone, "{case}"),
        signal => run.signal(signal),
    }
    let code = run.end_unread();
    assert!(code == Some(130) || (is_gone && code == Some(1)), "{case}: {code:?}");
    // With `--nocapture`: how long each takes.
    eprintln!("{case}: over after {:?}", asked.elapsed());
    let began = counted(&lab);
    assert!(began < before + RUNS, "{case}: {before} calls before the stop and {began} at the end");
    let tape = lab.tape("s");
    let of = |kind: &str| tape.iter().filter(|entry| entry["kind"] == kind).count();
    // What ran at the stop may have left its line or not.
    assert!(began.abs_diff(of("call_started")) <= 1, "{case}: {began} of {}", of("call_started"));
    if !is_gone && (stop == "-INT" || stop == "abort") {
        let reason = if stop == "abort" { "enough" } else { "interrupted by the user" };
        let last = tape.iter().rfind(|entry| entry["kind"] == "turn_finished").unwrap();
        let stopped = tape.iter().position(|entry| entry["in"]["is"] == "abort").unwrap();
        let begun = ["request", "call", "call_started"];
        let later: Vec<_> =
            tape[stopped..].iter().filter(|entry| begun.contains(&entry["kind"].as_str().unwrap())).collect();
        assert!(later.is_empty(), "{case}: begun after the stop: {later:?}");
        let ended = (&last["data"]["outcome"], &last["data"]["reason"]);
        assert_eq!(ended, (&json!("aborted"), &json!(reason)), "{case}");
    }
    assert_eq!(calls(&lab), 0, "{case}");
}

/// The stops of a person and of a program: each signal in text and as JSON, and the command.
const STOPS: [(&str, &str); 7] = [
    ("-INT", ""),
    ("-INT", "--json"),
    ("-TERM", ""),
    ("-TERM", "--json"),
    ("-HUP", ""),
    ("-HUP", "--json"),
    ("abort", "--json"),
];

/// Every stop, in text and as JSON: the process ends although nobody reads, and nothing of the agent begins after the stop.
#[test]
fn a_stop_ends_the_agent_while_nobody_reads() {
    STOPS.into_iter().for_each(|(stop, form)| stop_once(Output::Full, Output::Full, stop, form));
}

/// The same for each other state of the two outputs, with one stop each; `TAMTAM_STOPS=all` tries all 56 pairs.
#[test]
fn a_stop_ends_the_agent_whatever_became_of_its_outputs() {
    let all = std::env::var("TAMTAM_STOPS").is_ok_and(|which| which == "all");
    let states = [Output::Read, Output::Full, Output::Closed];
    let pairs = states.into_iter().flat_map(|stdout| states.map(|stderr| (stdout, stderr)));
    let pairs = pairs.filter(|pair| *pair != (Output::Full, Output::Full));
    for (n, (stdout, stderr)) in pairs.enumerate() {
        let tried = if all { &STOPS[..] } else { std::slice::from_ref(&STOPS[n % STOPS.len()]) };
        tried.iter().for_each(|(stop, form)| stop_once(stdout, stderr, stop, form));
    }
}

/// Where so many replies are unread that no further line is carried out, an abort is: at once, and the lines before it are refused.
/// Without that the process waited for its reader for ever.
#[test]
fn an_abort_is_carried_out_while_the_replies_before_it_are_not_read() {
    let lab = Lab::new();
    let model = endless(&lab);
    let arguments =
        ["run", "--json", "--session", "s", "--permission", "auto", "--model", &model, "--max-steps", "100000"];
    let mut run = unread(&lab, &[&arguments[..], &["go"]].concat());
    // Each reply has the whole message: six are more than may be unread.
    run.say(&json!({"send": "x".repeat(1 << 20)}).to_string());
    (0..6).for_each(|_| run.say(r#"{"queue":true}"#));
    run.say(r#"{"send":"before the stop"}"#);
    wait_for_runs(&lab, &run);
    run.say(r#"{"abort":"enough"}"#);
    assert_eq!(run.end_unread(), Some(130));
    let tape = lab.tape("s");
    let aborted = tape.iter().rfind(|entry| entry["kind"] == "turn_finished").unwrap();
    assert_eq!(aborted["data"]["reason"], "enough");
    let taken = tape.iter().filter(|entry| entry["kind"] == "accepted").count();
    assert_eq!(taken, 2, "the prompt and the long message, and not the message that the abort overtook");
}

/// What was overtaken is answered, in the order of the lines, and a line behind the abort is carried out.
#[test]
fn a_line_that_an_abort_overtook_is_answered() {
    let lab = Lab::new();
    let call = json!({"name": "bash", "input": {"command": "sleep 60"}});
    let model = lab.script(json!([{"text": "I wait.", "calls": [call]}, "More."]));
    let mut run = lab.start(&["run", "--json", "--session", "s", "--permission", "auto", "--model", &model, "go"]);
    run.until_event("call_started");
    run.say(&json!({"send": "x".repeat(1 << 20)}).to_string());
    (0..6).for_each(|_| run.say(r#"{"queue":true}"#));
    [r#"{"send":"before"}"#, "bad", r#"{"abort":"enough"}"#, r#"{"queue":true}"#]
        .into_iter()
        .for_each(|line| run.say(line));
    // Nothing is read before the abort is on the tape.
    while !has(&lab.path(TAPE), r#""enough""#) {
        assert!(run.is_running());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let ended = run.end();
    let replies: Vec<_> = ended.lines().into_iter().filter(|line| line["reply"].is_object()).collect();
    let numbers: Vec<_> = replies.iter().map(|line| line["reply"]["re"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=11).collect::<Vec<_>>());
    let kinds: Vec<_> = replies[7..].iter().map(|line| line["reply"]["error"]["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("overtaken"), Some("bad_line"), None, None]);
    assert_eq!(replies[10]["reply"]["queue"].as_array().unwrap().len(), 1);
}

/// A reader who has gone is no reader to wait for either: the process ends by itself, and the session can be gone on with.
#[test]
fn a_run_whose_reader_has_gone_ends() {
    let lab = Lab::new();
    let model = endless(&lab);
    let mut run = unread(&lab, &["run", "--json", "--session", "s", "--permission", "auto", "--model", &model, "go"]);
    run.close_stdout();
    assert_eq!(run.end_unread(), Some(1));
}

/// What a client does at the last moment: it answers to `turn_finished` with a message, under an id of its own.
fn answers_the_end(lab: &Lab, model: &str, id: &str) -> (Vec<Value>, Ended) {
    let mut run = lab.start(&["run", "--json", "--session", "s", "--model", model, "go"]);
    run.until_event("turn_finished");
    // The process may be gone, which is an answer, too.
    run.try_say(&json!({"send": "more", "id": id}).to_string());
    let ended = run.end();
    let replies = ended.lines().into_iter().filter(|line| line["reply"].is_object()).collect();
    (replies, ended)
}

/// CLI-RUN-001: a message that comes with the end of a turn is taken and answered, or refused; sent again with its id it is never
/// doubled. `TAMTAM_ENDS=150` sends 300.
#[test]
fn a_message_at_the_end_of_a_turn_is_answered_and_never_doubled() {
    let rounds = std::env::var("TAMTAM_ENDS").map_or(6, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let lab = Lab::new();
        let model = lab.script_with(json!({"replies": [{"when": ["user:"], "text": "said"}]}));
        let id = format!("mine-{round}");
        let (replies, ended) = answers_the_end(&lab, &model, &id);
        assert_eq!((ended.code, replies.len()), (0, 1), "{}", ended.stdout);
        let was_taken = replies[0]["reply"]["error"].is_null();
        assert!(was_taken || replies[0]["reply"]["error"]["kind"] == "closed", "{}", ended.stdout);
        let (again, _) = answers_the_end(&lab, &model, &id);
        assert_eq!(again.len(), 1);
        if was_taken && again[0]["reply"]["error"].is_null() {
            assert_eq!(again[0]["reply"]["seq"], replies[0]["reply"]["seq"]);
        }
        let tape = lab.tape("s");
        let mine =
            tape.iter().filter(|entry| entry["kind"] == "accepted" && entry["data"]["message"]["id"] == id.as_str());
        assert!(mine.count() <= 1);
        let sessions = lab.run(&["sessions", "--json"]).lines();
        assert_eq!(sessions[0]["open"], json!(false), "no turn of it is left open");
    }
}

/// A line that was in the pipe before the process began comes behind the prompt.
#[test]
fn a_piped_command_never_overtakes_the_prompt() {
    let lab = Lab::new();
    let model = lab.script_with(json!({"replies": [{"when": ["user:"], "text": "said"}]}));
    for round in 0..5 {
        let session = format!("s{round}");
        let mut command = lab.command(&["run", "--json", "--session", &session, "--model", &model, "the prompt"]);
        let lines = lab.path("lines");
        std::fs::write(&lines, "{\"send\":\"the line\"}\n").unwrap();
        command.stdin(std::fs::File::open(&lines).unwrap());
        assert_eq!(Live::start(command).end().code, 0);
        let said: Vec<Value> = lab.tape(&session).into_iter().filter(|entry| entry["kind"] == "accepted").collect();
        let texts: Vec<_> = said.iter().map(|entry| &entry["data"]["message"]["parts"][0]["text"]).collect();
        assert_eq!(texts, ["the prompt", "the line"]);
    }
}
