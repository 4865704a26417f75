//! `tamtam serve`, by a client that knows nothing but HTTP.

use std::{
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
};

use serde_json::{Value, json};

use super::lab::{Lab, Live};

/// Sends a request and reads the answer: its status and its body.
pub(super) fn ask(mut socket: impl std::io::Read + std::io::Write, request: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let headers = "host: localhost\r\ncontent-type: application/json\r\nconnection: close";
    write!(socket, "{request} HTTP/1.1\r\n{headers}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// Where the server says that it listens.
pub(super) fn address(live: &mut Live) -> String {
    let line = live.line();
    line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// A server is killed as soon as a message has its receipt: the next one goes on with the turn, and has the same receipt for the same
/// message. A server that is told to end ends with 0.
#[test]
fn a_served_session_outlives_a_kill_of_the_server() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello to you."]));
    let serve = ["serve", "--addr", "127.0.0.1:0", "--store", "../store", "--model", &model];
    let mut live = lab.start(&serve);
    let at = address(&mut live);
    let connect = |at: &str| TcpStream::connect(at.trim_start_matches("http://")).unwrap();
    let bad = ask(connect(&at), "POST /v1/sessions", &json!({ "profile": "everything" }));
    assert_eq!((bad.0, &bad.1["kind"]), (422, &json!("invalid")));
    let gone = ask(connect(&at), "POST /v1/sessions", &json!({ "workspace": "/nowhere/at/all" }));
    assert_eq!((gone.0, &gone.1["kind"]), (422, &json!("invalid")));
    let new = json!({ "id": "s", "profile": "readonly", "prompt": { "id": "m", "text": "Hello." } });
    let (status, made) = ask(connect(&at), "POST /v1/sessions", &new);
    assert_eq!((status, &made["receipt"]["disposition"]), (201, &json!("started")), "{made}");
    live.signal("-KILL");
    assert_ne!(live.end().code, 0);
    let mut live = lab.start(&serve);
    let at = address(&mut live);
    let (_, again) = ask(connect(&at), "POST /v1/sessions/s/messages", &json!({ "id": "m", "text": "Hello." }));
    assert_eq!(again["seq"], made["receipt"]["seq"], "the same message has the same receipt");
    // The interrupted turn goes on by itself. The process is killed if it does not.
    let said = loop {
        let (_, page) = ask(connect(&at), "GET /v1/sessions/s/messages", &Value::Null);
        let messages = page["messages"].as_array().unwrap().clone();
        if messages[0]["finish"] == "stop" {
            break messages;
        }
    };
    assert_eq!((said.len(), &said[0]["parts"][1]["text"]), (2, &json!("Hello to you.")), "{said:?}");
    live.signal("-TERM");
    assert_eq!(live.end().code, 0);
}

/// A session that a client makes has what the arguments say of the answer, as one of `run`; a file that is no schema ends the command.
#[test]
fn a_served_session_has_the_schema_and_the_sampling_of_the_arguments() {
    let lab = Lab::new();
    let model = lab.script(json!(["one", "{\"n\": 1}"]));
    lab.put("work/shape.json", "{\"type\": \"object\", \"required\": [\"n\"]}");
    let serve = ["serve", "--addr", "127.0.0.1:0", "--store", "../store", "--model", &model];
    let shape = ["--thinking", "low", "--temperature", "0.5", "--top-p", "0.25", "--output-schema"];
    let ended = lab.run(&[&serve[..], &shape[..], &["none.json"]].concat());
    assert!(ended.code == 2 && ended.error().contains("output schema none.json"), "{ended:?}");
    let mut live = lab.start(&[&serve[..], &shape[..], &["shape.json"]].concat());
    let at = address(&mut live);
    let connect = || TcpStream::connect(at.trim_start_matches("http://")).unwrap();
    let (status, made) = ask(connect(), "POST /v1/sessions", &json!({"id": "s", "prompt": {"text": "Hello."}}));
    assert_eq!(status, 201, "{made}");
    let said = loop {
        let (_, page) = ask(connect(), "GET /v1/sessions/s/messages", &Value::Null);
        let page = page["messages"].to_string();
        if page.contains("{\\\"n\\\": 1}") {
            break page;
        }
    };
    assert!(said.contains("one"), "the first answer did not fit: {said}");
    live.signal("-TERM");
    assert_eq!(live.end().code, 0);
    let first = std::fs::read_to_string(lab.path("store/sessions/s/anchors/001_session-start/entries.jsonl")).unwrap();
    for field in ["\"thinking\":\"low\"", "\"temperature\":0.5", "\"top_p\":0.25"] {
        assert!(first.contains(field), "{field}: {first}");
    }
}

/// Without an address it is a Unix socket in the user's runtime folder, which nobody else can open; a second server does not take it.
#[test]
fn without_an_address_the_socket_is_the_users_alone() {
    let lab = Lab::new();
    let model = lab.script(json!([]));
    let mut command = lab.command(&["serve", "--store", "../store", "--model", &model]);
    command.env("XDG_RUNTIME_DIR", lab.path("tmp")).env("TAMTAM_SERVE_TOKEN", "t0ken");
    let mut live = Live::start(command);
    let path = lab.path("tmp/tamtam/tamtam.sock");
    assert_eq!(address(&mut live), format!("unix:{}", path.display()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(UnixStream::connect(&path).unwrap(), "GET /healthz", &Value::Null).0, 200);
    assert_eq!(ask(UnixStream::connect(&path).unwrap(), "GET /v1/sessions", &Value::Null).0, 401, "a token was set");
    let second = lab.run(&["serve", "--store", "../store", "--model", &model, "--socket", path.to_str().unwrap()]);
    assert!(second.code == 2 && second.error().contains("another server listens there"), "{second:?}");
    live.signal("-TERM");
    assert_eq!(live.end().code, 0);
    assert!(!path.exists(), "the socket is taken away");
}

/// An address that others can reach needs a token.
#[test]
fn an_address_that_others_can_reach_needs_a_token() {
    let lab = Lab::new();
    let model = lab.script(json!([]));
    let ended = lab.run(&["serve", "--addr", "0.0.0.0:0", "--store", "../store", "--model", &model]);
    assert!(ended.code == 2 && ended.error().contains("set a token"), "{ended:?}");
}
