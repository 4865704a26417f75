//! The operator's commands against `tamtam serve`: what is shown, what each lever does, and what is said where nothing can be done.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
};

use serde_json::{Value, json};

use super::lab::{Lab, Live};

/// A server of the lab on its default socket, and that socket.
fn serve(lab: &Lab, more: &[&str], replies: Value) -> (Live, String) {
    let model = lab.script(replies);
    let mut arguments = vec!["serve", "--store", "../store", "--model", &model];
    arguments.extend(more);
    let mut live = lab.start(&arguments);
    let line = live.line();
    let socket = line.strip_prefix("listening on unix:").unwrap_or_else(|| panic!("{line}")).to_owned();
    (live, socket)
}

/// Makes a session with its first message.
fn make(socket: &str, id: &str, text: &str) {
    let body = json!({ "id": id, "prompt": { "text": text } }).to_string();
    let mut stream = UnixStream::connect(socket).unwrap();
    let head = "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close";
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

fn done(lab: &Lab, arguments: &[&str]) -> String {
    let ended = lab.run(arguments);
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
    ended.stdout
}

fn refused(lab: &Lab, arguments: &[&str], code: i32, why: &str) {
    let ended = lab.run(arguments);
    assert!(ended.code == code && ended.error().contains(why), "{arguments:?}: {ended:?}");
}

/// An operator sees a session at work, steers it, and pulls each lever; each command says what it did.
#[test]
fn an_operator_sees_a_session_and_pulls_its_levers() {
    let lab = Lab::new();
    let wait = "until [ -e ../go ]; do sleep 0.02; done; echo built";
    let calls = json!([{ "name": "bash", "input": { "command": wait } }, { "name": "bash", "input": { "command": "rm -r out" } }]);
    let replies = json!([{ "text": "I build. ", "calls": calls }, { "expect": ["delete nothing"], "text": "As you said." }, "Again."]);
    let (live, socket) = serve(&lab, &["--permission", "auto"], replies);
    assert_eq!(done(&lab, &["ps"]), "no session is awake\n");
    make(&socket, "one", "build it");
    let mut watched = lab.start(&["attach", "one", "--after", "0", "--json", "--at", &socket]);
    watched.until(|line| line["event"] == "call_started");
    let table = done(&lab, &["ps"]);
    assert!(table.lines().nth(1).is_some_and(|row| row.starts_with("one ") && row.contains("tools")), "{table}");
    assert!(done(&lab, &["tree"]).contains("one"), "the tree is the server's");

    let steer = ["send", "one", "delete nothing", "--delivery", "steer", "--message-id", "m1", "--json"];
    let receipt: Value = serde_json::from_str(&done(&lab, &steer)).unwrap();
    assert_eq!(receipt["disposition"], "steering");
    let again: Value = serde_json::from_str(&done(&lab, &steer)).unwrap();
    assert_eq!(again["seq"], receipt["seq"], "the same id is the same message");
    std::fs::write(lab.path("go"), "").unwrap();
    let ended = watched.until(|line| line["event"] == "turn_finished");
    assert_eq!((&ended["outcome"], &ended["text"]), (&json!("done"), &json!("As you said.")));

    assert_eq!(done(&lab, &["restart", "one"]), "one is restarted\n");
    assert_eq!(done(&lab, &["crashes"]), "no crash\n");
    assert_eq!(done(&lab, &["park", "runtime/sessions/one"]), "runtime/sessions/one is parked\n");
    refused(&lab, &["send", "one", "more"], 1, "parked");
    let parked = done(&lab, &["ps", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(parked.trim()).unwrap()["status"], "parked");
    done(&lab, &["unpark", "one"]);
    let said = done(&lab, &["send", "one", "more"]);
    assert!(said.contains("begins a turn"), "{said}");
    watched.until(|line| line["event"] == "turn_finished");
    done(&lab, &["passivate", "one"]);
    assert_eq!(done(&lab, &["rm", "one", "--yes"]), "session one is deleted\n");
    assert_eq!(watched.end().code, 0, "what it followed is gone");

    refused(&lab, &["send", "one", "more"], 1, "no session one");
    refused(&lab, &["stop", "nobody"], 1, "no nobody");
    refused(&lab, &["rm", "one"], 2, "nothing was deleted");
    refused(&lab, &["send", "one", "x", "--steering", "skip"], 2, "--delivery");
    assert!(done(&lab, &["drain"]).contains("every session is at rest"));
    live.signal("-TERM");
    assert_eq!(live.end().code, 0);
    refused(&lab, &["ps"], 1, "start one with `tamtam serve`");
    refused(&lab, &["ps", "--at", "https://host:1"], 2, "no TLS");
}

/// Who follows a session misses nothing and sees nothing twice, although the server is killed in between; its question is answered by
/// its number, and a live turn is aborted from outside.
#[test]
fn who_follows_a_session_goes_on_with_the_next_server() {
    let lab = Lab::new();
    let replies = json!([{ "calls": [{ "name": "bash", "input": { "command": "echo ran > ran" } }] }, "It ran.",
        { "calls": [{ "name": "bash", "input": { "command": "sleep 600" } }] }]);
    let asks = ["--permission", "ask", "--sandbox", "off"];
    let (live, socket) = serve(&lab, &asks, replies.clone());
    make(&socket, "one", "run it");
    let mut watched = lab.start(&["attach", "one", "--after", "0", "--json"]);
    let asked = watched.until(|line| line["event"] == "ask");
    live.signal("-KILL");
    drop(live);
    let (live, _) = serve(&lab, &asks, replies);
    refused(&lab, &["answer", "one", "999", "once"], 1, "999 is closed");
    refused(&lab, &["answer", "one", "1", "once", "--offer", "1"], 2, "`always`");
    let ask = asked["ask"].to_string();
    let answered = done(&lab, &["answer", "one", &ask, "once"]);
    assert!(answered.contains("is answered"), "{answered}");
    watched.until(|line| line["event"] == "turn_finished" && line["text"] == "It ran.");
    assert!(lab.work("ran").exists());
    done(&lab, &["send", "one", "sleep"]);
    watched.until(|line| line["event"] == "call_started");
    assert!(done(&lab, &["abort", "one", "--at", &socket, "--reason", "enough"]).contains("aborted"));
    let ended = watched.until(|line| line["event"] == "turn_finished");
    assert_eq!(ended["outcome"], "aborted");
    live.signal("-TERM");
    assert_eq!(live.end().code, 0);
    watched.signal("-KILL");
    let lines = watched.end().lines();
    let durable: Vec<_> = lines.iter().filter_map(|line| line["id"].as_str()).filter(|id| id.contains(".0.")).collect();
    let mut once = durable.clone();
    once.dedup();
    assert_eq!(durable, once);
    for (one, next) in durable.iter().zip(&durable[1..]) {
        let number = |id: &str| id.split('.').map(|part| part.parse::<u64>().unwrap()).collect::<Vec<_>>();
        assert!(number(one) < number(next), "{one} before {next}");
    }
}

/// A token is asked for where the server has one, and is not needed on the command line.
#[test]
fn a_token_is_given_by_flag_or_variable() {
    let lab = Lab::new();
    let (live, _) = serve(&lab, &["--token", "t0ken"], json!([]));
    refused(&lab, &["ps"], 1, "wants a token");
    refused(&lab, &["ps", "--token", "other"], 1, "wants a token");
    assert_eq!(done(&lab, &["ps", "--token", "t0ken"]), "no session is awake\n");
    let mut command = lab.command(&["ps"]);
    command.env("TAMTAM_SERVE_TOKEN", "t0ken");
    assert_eq!(Live::start(command).end().code, 0);
    live.signal("-TERM");
    assert_eq!(live.end().code, 0);
}

/// A run with `--listen` is followed and steered by others while it goes on; it makes no session for them, and its socket goes with it.
#[test]
fn a_run_that_listens_is_steered_by_others() {
    let lab = Lab::new();
    let wait = "until [ -e ../go ]; do sleep 0.02; done; echo built";
    let calls = json!([{ "name": "bash", "input": { "command": wait } }, { "name": "bash", "input": { "command": "rm -r out" } }]);
    let replies =
        json!([{ "text": "I build. ", "calls": calls }, { "expect": ["delete nothing"], "text": "As you said." }]);
    let (model, socket) = (lab.script(replies), lab.path("door/run.sock"));
    let at = socket.to_str().unwrap();
    let run =
        ["run", "--session", "one", "--listen", at, "--permission", "auto", "--json", "--model", &model, "build it"];
    let mut live = lab.start(&run);
    live.until(|line| line["event"] == "call_started");
    let table = done(&lab, &["ps", "--at", at]);
    assert!(table.lines().nth(1).is_some_and(|row| row.starts_with("one ")), "{table}");
    assert!(done(&lab, &["tree", "--at", at]).contains("one"));
    refused(&lab, &["ps", "--at", &lab.path("other.sock").display().to_string()], 1, "other.sock");
    let mut stream = UnixStream::connect(&socket).unwrap();
    let head = "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close";
    write!(stream, "{head}\r\ncontent-length: 2\r\n\r\n{{}}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("no other session is made here"), "{answer}");
    done(&lab, &["send", "one", "delete nothing", "--delivery", "steer", "--at", at]);
    std::fs::write(lab.path("go"), "").unwrap();
    let ended = live.end();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("As you said."), "{}", ended.stdout);
    assert!(!socket.exists(), "the socket goes with the run");
}
