//! The Responses API over the WebSocket of a server that we did not write.

use serde_json::json;

use super::Lab;
use crate::support::{
    aimock::{answer, call},
    said::{Said, Wire, said},
    tamtam::Tamtam,
};

/// A turn with a call: two requests on one connection, each whole, and each answered as over HTTP.
#[test]
fn a_turn_with_a_call_goes_over_its_websocket() {
    let write = call("call_w", "write", &json!({"path": "hello.py", "content": "hello\n"}));
    let answers = [
        answer(0, &json!({"content": "I write it.", "toolCalls": [write]})),
        answer(1, &json!({"content": "hello.py is there."})),
    ];
    let lab = Lab::new(Wire::Responses, &answers);
    let url = format!("http://{}/v1", lab.server.address());
    let arguments = ["run", "--json", "--permission", "auto", "--workspace", "work", "--store", "store"];
    let server = ["--api", "responses", "--quirk", "websocket=true", "--model", "openai/gpt-4o", "--base-url", &url];
    let arguments = [&arguments[..], &server, &["create hello.py"]].concat();
    let ended = Tamtam::start(&arguments, lab.home(), &lab.mark, &[]).end();
    lab.done(&ended, "hello.py is there.");
    assert_eq!(lab.text("hello.py"), "hello\n");
    let journal = lab.server.journal();
    let methods: Vec<_> = journal.iter().map(|entry| entry["method"].as_str().unwrap_or_default()).collect();
    assert_eq!(methods, ["WS", "WS"], "{journal:#?}");
    let last = said(Wire::OpenAi, &journal[1]["body"]);
    assert!(last.iter().any(|said| matches!(said, Said::Result(id, _) if id == "call_w")), "{journal:#?}");
}
