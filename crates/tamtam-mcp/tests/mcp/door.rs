//! Sessions as the tools of a server, over a raw pair of streams: the bounds, and what a client gets that sends nonsense. The client that
//! others wrote is in the tests of the program.

use serde_json::{Value, json};
use tamtam::{
    SessionOptions,
    model::{Reply, ScriptBy, Scripted},
    permission::Profile,
    tool::{self, NoArguments},
};
use tamtam_mcp::SessionTools;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, split};

use crate::{lab::PATIENCE, taped};

struct Client {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    out: WriteHalf<DuplexStream>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
    runtime: tamtam::Runtime,
    _folder: taped::Folder,
}

impl Client {
    /// A client of sessions that ask before they call the one tool that there is.
    async fn new() -> Client {
        let folder = taped::folder();
        let model = Scripted::from_list([Reply::call("greet", json!({})), Reply::text("Done.")], ScriptBy::Answers);
        let builder = tamtam::Runtime::builder().store(folder.path().join("store")).model(std::sync::Arc::new(model));
        let greet = tool::typed("greet", "Greets.", |_: NoArguments, _| async { "Hello." });
        let runtime = builder.tool(std::sync::Arc::new(greet)).start().await.unwrap();
        let workspace = folder.path().to_owned();
        let tools = SessionTools::new(&runtime, move || {
            let mut options = SessionOptions::new(&workspace).profile(Profile::Ask);
            options.asks_wait = true;
            Ok(options)
        });
        let (near, far) = tokio::io::duplex(1 << 16);
        let (read, write) = split(far);
        let served = tokio::spawn(async move { tools.serve(read, write).await });
        let (read, out) = split(near);
        Client { lines: BufReader::new(read).lines(), out, served, runtime, _folder: folder }
    }

    async fn say(&mut self, line: &str) {
        self.out.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
    }

    async fn call(&mut self, id: u64, name: &str, arguments: Value) {
        self.ask(id, "tools/call", json!({"name": name, "arguments": arguments})).await;
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("an answer comes");
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }

    async fn end(self) -> std::io::Result<()> {
        drop((self.lines, self.out));
        let ended = self.served.await.unwrap();
        assert!(self.runtime.shutdown().await.is_empty());
        ended
    }
}

/// What is no request is answered so, and costs nothing else; a version that nobody knows gets the newest.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_answered_and_costs_nothing() {
    let mut client = Client::new().await;
    client.say("{").await;
    assert_eq!(client.next().await["error"]["code"], -32_700);
    client.ask(1, "roots/list", json!({})).await;
    assert_eq!(client.next().await["error"], json!({"code": -32_601, "message": "roots/list is not supported"}));
    client.say(r#"[1, {"method": 7}]"#).await;
    client.say(r#"{"method": "notifications/cancelled", "params": {"requestId": 99}}"#).await;
    client.ask(2, "initialize", json!({"protocolVersion": "1999-01-01"})).await;
    assert_eq!(client.next().await["result"]["protocolVersion"], "2025-11-25");
    client.call(3, "dance", json!({})).await;
    let wrong = client.next().await;
    assert_eq!(wrong["result"]["isError"], true, "{wrong}");
    client.call(4, "prompt", json!({"text": "hi", "wait_seconds": -1})).await;
    assert_eq!(client.next().await["result"]["content"][0]["text"], "`wait_seconds` is 0 to 600");
    client.call(5, "status", json!({"session": "nobody"})).await;
    assert_eq!(client.next().await["result"]["isError"], true);
    client.end().await.unwrap();
}

/// 64 calls wait at once and one more is refused; a call that is cancelled is not answered; the end of the input ends them all, and the
/// messages stay.
#[tokio::test(flavor = "multi_thread")]
async fn the_calls_that_wait_are_bounded_and_end_with_the_input() {
    let mut client = Client::new().await;
    client.call(1, "prompt", json!({"text": "Greet."})).await;
    let asks = client.next().await["result"]["structuredContent"].clone();
    assert_eq!((&asks["state"], &asks["asks"][0]["tool"]), (&json!("asks"), &json!("greet")), "{asks}");
    let session = asks["session"].as_str().unwrap().to_owned();
    let later =
        |id: u64| json!({"session": session, "text": "Later.", "message": format!("m{id}"), "wait_seconds": 600});
    for id in 100..163 {
        client.call(id, "prompt", later(id)).await;
    }
    // A call that is cancelled early may not have sent its message.
    let of_first = json!({"session": session, "message": "m100"});
    let mut fate = Value::Null;
    while fate != "waiting" {
        client.call(99, "status", of_first.clone()).await;
        fate = client.next().await["result"]["structuredContent"]["fate"]["state"].take();
    }
    client.call(163, "prompt", later(163)).await;
    client.call(164, "status", json!({"session": session})).await;
    let refused = client.next().await;
    assert_eq!(
        (&refused["id"], &refused["error"]["message"]),
        (&json!(164), &json!("64 calls are open: wait for one of them"))
    );
    client.say(r#"{"method": "notifications/cancelled", "params": {"requestId": 100}}"#).await;
    // Its place is free at once, or a moment later.
    let status = loop {
        client.call(165, "status", of_first.clone()).await;
        let answer = client.next().await;
        if answer["error"].is_null() {
            break answer;
        }
    };
    let shown = &status["result"]["structuredContent"];
    assert_eq!((&status["id"], &shown["fate"]["state"]), (&json!(165), &json!("waiting")), "{status}");
    client.end().await.unwrap();
}

/// A line without end ends the serving with an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_without_end_ends_the_serving() {
    let mut client = Client::new().await;
    let piece = vec![b'x'; 1 << 16];
    while client.out.write_all(&piece).await.is_ok() {}
    assert_eq!(client.end().await.unwrap_err().to_string(), "the client sent a line of more than 4194304 bytes");
}
