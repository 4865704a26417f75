//! Servers at an address: `everything` over HTTP, on loopback, and a raw one that misbehaves (`tests/hostile_http.mjs`).

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Outcome,
    model::{HttpClient, HttpOptions, HttpRequest, Reply, ScriptBy, Scripted},
    session::{Grant, Next},
};
use tamtam_mcp::{Phase, ServerConfig};

use crate::lab::{Lab, PATIENCE, tests, until};

/// A server that listens on loopback until the drop.
struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    fn start(command: &mut Command) -> Listening {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| line.strip_prefix("port ")?.parse().ok()).expect("it says its port");
        // What it says later must go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        Listening { child, port }
    }

    fn hostile(mode: &str) -> Listening {
        Listening::start(Command::new("node").arg(tests().join("hostile_http.mjs")).arg(mode))
    }

    fn everything(port: u16) -> Listening {
        let package = tests().join("npm/node_modules/@modelcontextprotocol/server-everything");
        let mut command = Command::new("node");
        command.arg("--import").arg(tests().join("loopback.mjs")).arg(package.join("dist/index.js"));
        Listening::start(command.arg("streamableHttp").env("PORT", port.to_string()))
    }

    fn config(&self) -> ServerConfig {
        ServerConfig::http("web", format!("http://127.0.0.1:{}/mcp", self.port)).start_limit(PATIENCE)
    }

    async fn lab(&self) -> Lab {
        Lab::new([self.config()]).await
    }

    /// What the hostile server was sent.
    async fn seen(&self) -> Value {
        let request = HttpRequest::get(format!("http://127.0.0.1:{}/seen", self.port));
        let answer = HttpClient::new(HttpOptions::default()).send(request).await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A lab with a hostile server, and what its tool `echo` answers there.
async fn hostile(mode: &str, more: impl FnOnce(ServerConfig) -> ServerConfig) -> (Listening, Lab, String) {
    let listening = Listening::hostile(mode);
    let lab = Lab::new([more(listening.config())]).await;
    assert_eq!(lab.list().await.error, None, "{mode}");
    let said = lab.call("mcp_web_echo", json!({"a": 1})).await.content;
    (listening, lab, said)
}

/// AA-01: the server that others wrote is listed and called at an address: text, images, progress, calls side by side. Its session ends
/// with its use, and a server that was started again is greeted again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_at_an_address_is_listed_called_and_greeted_again() {
    let mut listening = Listening::everything(0);
    let lab = listening.lab().await;
    let listed = lab.list().await;
    assert_eq!((&listed.error, listed.tools.contains(&"mcp_web_echo".to_owned())), (&None, true), "{listed:?}");
    assert_eq!((lab.figures("web").phase, lab.figures("web").pid), (Phase::Ready, None));
    let image = lab.call("mcp_web_get-tiny-image", json!({})).await;
    assert_eq!((image.attachments.len(), image.attachments[0].mime.as_str()), (1, "image/png"));
    let slow = lab.call("mcp_web_trigger-long-running-operation", json!({"duration": 0.3, "steps": 3}));
    let echo = lab.call("mcp_web_echo", json!({"message": "meanwhile"}));
    let (slow, echo) = tokio::join!(slow, echo);
    assert!(slow.content.starts_with("Long running operation completed."), "{slow:?}");
    assert_eq!(echo.content, "Echo: meanwhile");
    let (context, _) = lab.context();
    let tool = lab.tool("mcp_web_trigger-long-running-operation");
    let (stopped, ()) = tokio::join!(tool.run(json!({"duration": 600, "steps": 2}), &context), async {
        until("the slow call runs", || lab.figures("web").in_flight == 1).await;
        context.cancel();
    });
    assert!(stopped.is_error() && stopped.content.starts_with("the call was stopped"), "{stopped:?}");

    let killed = lab.call("mcp_web_trigger-long-running-operation", json!({"duration": 600, "steps": 2}));
    let port = listening.port;
    let (killed, ()) = tokio::join!(killed, async {
        until("the call runs", || lab.figures("web").in_flight == 1).await;
        // The request is on its way when it counts as in flight; it has arrived a moment later.
        tokio::time::sleep(Duration::from_millis(200)).await;
        listening.kill();
    });
    assert!(killed.is_error(), "{killed:?}");
    let unreached = lab.call("mcp_web_echo", json!({"message": "gone"})).await;
    assert!(unreached.content.contains("failed to connect to http://127.0.0.1"), "{unreached:?}");
    let _again = Listening::everything(port);
    assert_eq!(lab.call("mcp_web_echo", json!({"message": "again"})).await.content, "Echo: again");
    assert_eq!(lab.node("web").restarts, 0, "a session that is gone is no crash");
    lab.end().await;
}

/// Each request carries the session, the version and the host's headers, and of a header that both set the protocol's. A session that
/// ends is ended at the server too.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_carries_session_version_and_the_headers_of_the_host() {
    let listening = Listening::hostile("old");
    let fresh = || -> tamtam::model::BoxFuture<'static, _> {
        Box::pin(async { Ok(vec![("x-fresh".to_owned(), "new".into())]) })
    };
    let config = listening.config().bearer("sk-CANARY").header("Accept", "nothing").fresh_headers(fresh);
    let lab = Lab::new([config]).await;
    assert_eq!(lab.list().await.error, None);
    assert_eq!(lab.figures("web").protocol, "2025-03-26", "an older version is agreed on");
    // A tool that repeats a header in a good answer brings it to nobody.
    let repeated = lab.call("mcp_web_headers", json!({})).await;
    assert!(repeated.content.contains("Bearer [redacted]"), "{repeated:?}");
    let said = listening.seen().await["headers"].clone();
    for (name, value) in [
        ("authorization", "Bearer sk-CANARY"),
        ("x-fresh", "new"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-session-id", "session-1"),
        ("mcp-protocol-version", "2025-03-26"),
    ] {
        assert_eq!(said[name], value, "{said}");
    }
    let shown = format!("{repeated:?} {:?} {:?}", lab.servers.figures("web"), lab.runtime.tree());
    assert!(!shown.contains("CANARY"), "{shown}");
    lab.end().await;
    assert_eq!(listening.seen().await["deletes"], 1);
}

/// A server of 2026-07-28 alone is asked what it speaks, and each request says in its headers what it is. No session is kept. A call
/// that is stopped closes its stream, which is how such a server hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_sessions_gets_its_headers() {
    let listening = Listening::hostile("modern");
    let lab = listening.lab().await;
    assert_eq!(lab.list().await.error, None);
    assert_eq!(lab.figures("web").protocol, "2026-07-28");
    let said: Value = serde_json::from_str(&lab.call("mcp_web_headers", json!({})).await.content).unwrap();
    assert_eq!((&said["mcp-method"], &said["mcp-name"]), (&json!("tools/call"), &json!("headers")));
    assert!(said["mcp-session-id"].is_null(), "{said}");
    let (context, titles) = lab.context();
    let tool = lab.tool("mcp_web_hang");
    let hanging = tool.run(json!({}), &context);
    let (stopped, ()) = tokio::join!(hanging, async {
        until("it hangs", || titles.lock().unwrap().contains(&"hanging".to_owned())).await;
        context.cancel();
    });
    assert!(stopped.is_error());
    let cut = async {
        while listening.seen().await["cut"] != 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, cut).await.expect("the stream is closed");
    lab.end().await;
}

/// Each way in which an answer can be none costs its own call, with a reason, and the server is used further.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_none_costs_its_call() {
    for (mode, why) in [
        ("page", "the MCP server web did not answer: it answered as \"text/html\", which is neither JSON nor events"),
        ("other-answer", "the MCP server web did not answer: it answered without an answer to the request"),
        ("broken-json", "the MCP server web did not answer: it answered without an answer to the request"),
        ("busy", "the MCP server web refused the call: error 503: HTTP 503: come back later"),
        (
            "redirect",
            "the MCP server web refused the call: error 307: HTTP 307 (it redirects, and no redirect is followed: configure the \
             address that it means): ",
        ),
        ("line", "sent an event of more than 1048576 bytes"),
        ("long-json", "sent an answer of more than 1048576 bytes"),
        (
            "dead-end",
            "the MCP server web did not answer: its stream ended before the answer, and could not be read again",
        ),
        ("twice", "first"),
        ("resume", "resumed"),
        ("other-session", "{\"a\":1}"),
    ] {
        let (listening, lab, said) = hostile(mode, |config| config.line_bytes_max(1 << 20)).await;
        assert!(said.ends_with(why), "{mode}: {said}");
        let (figures, seen) = (lab.figures("web"), listening.seen().await);
        assert_eq!((figures.phase, lab.node("web").restarts), (Phase::Ready, 0), "{mode}");
        assert_eq!((&seen["elsewhere"], &seen["initialize"]), (&json!(0), &json!(1)), "{mode}");
        // Another id of a session changes nothing.
        lab.call("mcp_web_echo", json!({"a": 2})).await;
        assert_eq!(listening.seen().await["sessions"], json!(["session-1"]), "{mode}");
        lab.end().await;
    }
}

/// A stream that is cut at any byte gives the whole answer or an error, and never half of one.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_anywhere_is_an_error_of_its_call() {
    let listening = Listening::hostile("good");
    let lab = listening.lab().await;
    lab.list().await;
    let (mut whole, mut at) = (0, 0);
    while whole == 0 {
        let result = lab.call("mcp_web_cut", json!({"at": at})).await;
        match result.is_error() {
            true => assert!(
                result.content.ends_with("its stream ended before the answer; what the call did is not known"),
                "{at}: {}",
                result.content
            ),
            false => {
                assert_eq!(result.content, "whole");
                whole += 1;
            }
        }
        at += 1;
    }
    assert!(at > 100, "cut at {at}");
    lab.end().await;
}

/// A call that is never answered ends when it is stopped, and a flood ends the connection with its reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_an_answer_is_stopped_and_a_flood_ends_the_server() {
    for mode in ["mute", "silent-events"] {
        let listening = Listening::hostile(mode);
        let lab = listening.lab().await;
        lab.list().await;
        let (context, _) = lab.context();
        let tool = lab.tool("mcp_web_echo");
        let (stopped, ()) = tokio::join!(tool.run(json!({}), &context), async {
            until("it runs", || lab.figures("web").in_flight == 1).await;
            context.cancel();
        });
        assert!(stopped.is_error() && lab.figures("web").in_flight == 0, "{mode}");
        lab.end().await;
    }
    let (_listening, lab, said) = hostile("flood", |config| config.unasked_max(500)).await;
    let why = "it sent more than 500 messages in a second that answer nothing";
    assert!(said.starts_with(&format!("the MCP server web did not answer: {why}")), "{said}");
    assert!(lab.crash().await.reason.to_string().contains(why));
    lab.end().await;
}

/// A server that forgets the session is greeted again, and the call, which it has not read, is made once more; one that forgets each
/// session at once is given up, as any server that does not start.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_gone_is_opened_again() {
    let (listening, lab, said) = hostile("forgets", |config| config).await;
    // Each of the first two sessions is forgotten at its first call.
    assert_eq!(said, "the MCP server web did not answer: it ended the session again and again");
    assert_eq!(lab.call("mcp_web_echo", json!({"a": 2})).await.content, "{\"a\":2}");
    let seen = listening.seen().await;
    assert_eq!((&seen["initialize"], &seen["calls"], lab.node("web").restarts), (&json!(3), &json!(1), 0), "{seen}");
    lab.end().await;
    let listening = Listening::hostile("amnesia");
    let lab = listening.lab().await;
    let error = lab.list().await.error.unwrap();
    assert!(error.ends_with("it does not know the session that it has just opened"), "{error}");
    lab.end().await;
}

/// K01: a server that wants other credentials says so, and what it repeats of a header is masked, in the error, the tree and the report.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_asked_for_and_never_shown() {
    let listening = Listening::hostile("guarded");
    let lab = Lab::new([listening.config().bearer("sk-CANARY-wrong")]).await;
    let error = lab.list().await.error.unwrap();
    assert!(error.contains("HTTP 401 (it wants other credentials: set its headers): not Bearer [redacted]"), "{error}");
    let shown = format!("{error} {:?} {:?}", lab.crash().await, lab.runtime.tree());
    assert!(!shown.contains("CANARY"), "{shown}");
    lab.end().await;
    let lab = Lab::new([listening.config().bearer("sk-CANARY-right")]).await;
    assert_eq!(lab.list().await.error, None);
    lab.end().await;
}

/// The list of tools that a server changes is heard of on its own stream.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_list_is_heard_of() {
    let listening = Listening::hostile("good");
    let lab = listening.lab().await;
    lab.list().await;
    let mut changes = lab.servers.changes();
    changes.mark_unchanged();
    // The stream may not be open yet at the first call.
    let heard = async {
        loop {
            lab.call("mcp_web_change", json!({})).await;
            if tokio::time::timeout(Duration::from_millis(50), changes.changed()).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.unwrap();
    assert!(lab.list().await.tools.contains(&"mcp_web_new".to_owned()));
    lab.end().await;
}

/// E-10: a question on the stream of a call is asked in the session of that call, also while another call is open.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_on_a_stream_belongs_to_its_call() {
    let listening = Listening::hostile("good");
    let script = Scripted::from_list([Reply::call("mcp_web_ask", json!({})), Reply::text("Done.")], ScriptBy::Answers);
    let lab = listening.lab().await.with_sessions(script).await;
    let (context, titles) = lab.context();
    let tool = lab.tool("mcp_web_hang");
    let asked = async {
        until("another call is open", || titles.lock().unwrap().contains(&"hanging".to_owned())).await;
        let session = lab.runtime.create(lab.options()).await.unwrap();
        let mut events = session.events();
        let prompt = session.prompt("Go.").await.unwrap();
        let ask = async {
            loop {
                if let Next::Event(event) = events.next().await.unwrap()
                    && let EventKind::Ask { ask, .. } = &event.kind
                {
                    return *ask;
                }
            }
        };
        let ask = tokio::time::timeout(PATIENCE, ask).await.unwrap();
        session.answer(ask, Grant::Once).await.unwrap();
        assert_eq!(prompt.wait().await.unwrap().outcome, Outcome::Done);
        let said = serde_json::to_string(&session.messages().await.unwrap()).unwrap();
        assert!(said.contains(r#"{\"action\":\"accept\",\"content\":{\"sure\":true}}"#), "{said}");
        context.cancel();
    };
    let (_, ()) = tokio::join!(tool.run(json!({}), &context), asked);
    lab.end().await;
}
