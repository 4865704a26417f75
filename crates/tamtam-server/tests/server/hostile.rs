//! Clients that mean harm: each is refused with a typed error or cut, what they do is logged once, and the others are served meanwhile.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tracing::field::{Field, Visit};

use crate::{
    crowd::allow_files,
    lab::{LONG, Lab},
};

/// Waits until the server has closed a connection, and gives what it said before.
async fn closed(mut socket: TcpStream) -> String {
    let mut said = Vec::new();
    let _ = timeout(LONG, socket.read_to_end(&mut said)).await.expect("the server closes the connection");
    String::from_utf8_lossy(&said).into_owned()
}

/// What is no request of HTTP/1, or is one in two ways, gets a 4xx or nothing: never a 2xx, never a 5xx, and no message is taken.
#[tokio::test]
async fn what_is_no_request_gets_a_refusal_or_nothing() {
    let lab = Lab::with(|mut options| {
        (options.body_time_max, options.header_time_max) = (Duration::from_secs(1), Duration::from_secs(1));
        options
    })
    .await;
    lab.session("s").await;
    let (at, message) = (lab.at, r#"{"text":"smuggled"}"#);
    let post = |headers: &str, body: &str| {
        format!(
            "POST /v1/sessions/s/messages HTTP/1.1\r\nhost: {at}\r\ncontent-type: application/json\r\n{headers}\r\n{body}"
        )
    };
    let get =
        |path: &str, headers: &str| format!("GET {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n{headers}\r\n");
    let many: String = (0..300).map(|n| format!("x-{n}: y\r\n")).collect();
    let texts = [
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3} a TLS hello\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "\r\n\r\n\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        format!("GET /v1 HTTP/9.9\r\nhost: {at}\r\n\r\n"),
        format!("GET /v1/sessions HTTP/1.1\nhost: evil.example\n\nhost: {at}\n\n"),
        // Two lengths, a length and chunks, a length that is none.
        post("content-length: 5\r\ncontent-length: 19\r\n", message),
        post("content-length: -1\r\n", message),
        post("content-length: 99999999999999999999\r\n", message),
        post("content-length: 0x13\r\n", message),
        post("transfer-encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n"),
        post("transfer-encoding: chunked\r\n", "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
        post("transfer-encoding: gzip\r\n", message),
        // A header that is none, one folded over two lines, too many, too long.
        get("/v1/sessions", "no colon\r\n"),
        get("/v1/sessions", "x y: z\r\n"),
        get("/v1/sessions", "x: a\u{0}b\r\n"),
        get("/v1/sessions", &many),
        get(&format!("/v1/sessions?text={}", "x".repeat(70_000)), ""),
        get("/v1/sessions/s/messages HTTP/1.1 HTTP/1.1", ""),
        // A proxy's requests.
        format!("CONNECT evil.example:80 HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n"),
        format!("TRACE /v1 HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n"),
        format!("OPTIONS * HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n"),
        format!(
            "OPTIONS /v1/sessions HTTP/1.1\r\nhost: {at}\r\norigin: http://evil.example\r\nconnection: close\r\n\r\n"
        ),
    ];
    // Together: some are answered only when their time is over.
    let answers = texts.iter().map(async |text| {
        let mut socket = TcpStream::connect(at).await.unwrap();
        let _ = socket.write_all(text.as_bytes()).await;
        closed(socket).await
    });
    for (text, said) in texts.iter().zip(join_all(answers).await) {
        for answer in said.split("HTTP/1.1 ").skip(1) {
            assert!(answer.starts_with('4'), "{:?}: {said}", text.chars().take(120).collect::<String>());
        }
    }
    assert_eq!(lab.get("/v1/sessions/s/messages").await["messages"], json!([]), "nothing was taken");
    lab.end().await;
}

/// A path that is written in another way leads nowhere; neither does text that is no UTF-8, wherever it stands.
#[tokio::test]
async fn tricks_with_paths_and_encodings_lead_nowhere() {
    let lab = Lab::with(|options| options.token("s3cret")).await;
    let token = "authorization: Bearer s3cret\r\n";
    lab.ask_with("POST", "/v1/sessions", token, json!({ "id": "s" })).await.ok();
    let long = format!("/v1/sessions/{}", "x".repeat(4_000));
    for path in [
        "/v1/../v1/sessions",
        "/v1/./sessions",
        "//v1/sessions",
        "/v1//sessions",
        "/V1/sessions",
        "/v1/sessions;x=1",
        "/v1/sessions%2Fs",
        "/v1/sessions/s/",
        "/v1/sessions/s%2Fmessages",
        "/v1/sessions/s\\messages",
        "/v1/sessions/%2e%2e%2fs",
        "/v1/sessions/..%2f..%2f..%2fetc%2fpasswd",
        "/v1/sessions/s%00",
        "/v1/sessions/s%0d%0aset-cookie:x",
        "/v1/sessions/%E2%80%AEs",
        "/v1/sessions/%ff%fe",
        "/v1/sessions/%",
        "/page/%2e%2e/%2e%2e/Cargo.toml",
        "/page/..%5c..%5cCargo.toml",
        "/page//etc/passwd",
        &long,
    ] {
        let answer = lab.ask_with("GET", path, token, Value::Null).await;
        assert!((400..500).contains(&answer.refused().0), "{path}: {answer:?}");
        assert!(!answer.head.contains("set-cookie"), "{path}: {answer:?}");
    }
    // A path that leads to a page's file for a browser leads to no route without a token.
    for path in ["/page/../v1/sessions", "/page/%2e%2e/v1/sessions", "/healthz/../v1/sessions", "/?/v1/sessions/s"] {
        let answer = lab.ask("GET", path, Value::Null).await;
        assert!(!answer.body.contains("\"sessions\""), "{path}: {answer:?}");
    }
    let at = lab.at;
    let get = |path: &[u8], headers: &[u8]| {
        [b"GET ", path, format!(" HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n").as_bytes(), headers, b"\r\n"]
            .concat()
    };
    let with_token = |more: &[u8]| [token.as_bytes(), more].concat();
    for (bytes, wanted) in [
        (get(b"/v1/sessions", b"authorization: Bearer s3cret\xff\r\n"), 401),
        (get(b"/v1/sessions", b"cookie: tamtam=\xff\xfe\r\n"), 401),
        (get(b"/v1/sessions", &with_token(b"origin: http://\xff\r\n")), 403),
        (get(b"/v1/sessions/s/events", &with_token(b"last-event-id: \xff\r\n")), 422),
        (get(b"/v1/sessions/s/events?after=%ff", &with_token(b"")), 422),
        (get(b"/v1/sessions?text=%ff", &with_token(b"")), 200),
    ] {
        let answer = lab.raw(&bytes).await;
        assert_eq!(answer.status, wanted, "{}: {answer:?}", String::from_utf8_lossy(&bytes));
    }
    lab.end().await;
}

/// Clients that connect and say nothing, or dribble their header or body, are cut in time; a body without end is cut at its bound. The
/// connections beyond the bound are closed at once, and a stream that was there first has its events all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_connections_that_say_nothing_hurt_nobody() {
    allow_files();
    let lab = Lab::with(|mut options| {
        (options.connections_max, options.body_bytes_max) = (1_500, 100_000);
        (options.header_time_max, options.body_time_max) = (Duration::from_secs(2), Duration::from_secs(2));
        options
    })
    .await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events?after=0", "").await;
    let at = lab.at;
    let silent = async || TcpStream::connect(at).await.unwrap();
    let head = format!("POST /v1/sessions/s/messages HTTP/1.1\r\nhost: {at}\r\ncontent-type: application/json\r\n");
    let dribbles = async |mut socket: TcpStream, text: String| {
        // Each byte by itself, until the server has had enough.
        for byte in text.bytes() {
            if socket.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        socket
    };
    // These are there before the crowd is.
    let (mut endless, mut slow_body) = (silent().await, silent().await);
    endless.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
    slow_body.write_all(format!("{head}content-length: 500\r\n\r\n{{").as_bytes()).await.unwrap();
    let slow = join_all((0..50).map(|_| silent())).await;
    let endless = async {
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
        let (mut wrote, mut bytes) = (Ok(()), 0);
        while wrote.is_ok() && bytes < 64 << 20 {
            wrote = endless.write_all(chunk.as_bytes()).await;
            bytes += chunk.len();
        }
        assert!(bytes < 32 << 20, "a body without end is taken in: {bytes}");
    };
    let slow_headers = join_all(slow.into_iter().map(|socket| dribbles(socket, head.clone())));
    let slow_body = async {
        let said = closed(slow_body).await;
        assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    };
    let turns = async {
        for n in 0..20 {
            let said = format!("turn {n}");
            lab.runtime.session(&"s".parse().unwrap()).send(said, tamtam::Delivery::Queue).await.unwrap();
            events.until("turn_finished").await;
        }
    };
    let crowd = async { join_all((0..2_500).map(|_| silent())).await };
    let (crowd, slow, (), (), ()) = tokio::join!(crowd, slow_headers, slow_body, endless, turns);
    for socket in crowd.into_iter().chain(slow) {
        let said = closed(socket).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    }
    assert_eq!(lab.get("/healthz").await, json!({ "status": "ok" }), "there is room again");
    lab.end().await;
}

/// A session that is deleted while fifty listen: each is told so once, and none of them, nor a stranger, gets in again.
#[tokio::test]
async fn the_listeners_of_a_deleted_session_are_told_and_let_go() {
    let lab = Lab::new().await;
    lab.session("s").await;
    lab.say("s", "hello").await;
    let mut streams = Vec::new();
    for _ in 0..50 {
        streams.push(lab.events("/v1/sessions/s/events?after=0", "").await);
    }
    lab.ask("DELETE", "/v1/sessions/s", Value::Null).await.ok();
    for stream in &mut streams {
        stream.until("ended").await;
        assert_eq!(stream.next().await, None);
        let again = lab.try_events("/v1/sessions/s/events", &format!("last-event-id: {}\r\n", stream.last)).await;
        assert_eq!(again.err().unwrap().refused(), (404, "not_found".into()));
    }
    lab.end().await;
}

/// What the server logs on this thread.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Logged {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("tamtam_server")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields(String);
        impl Visit for Fields {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Each refused request is one line of the log with method, path, status and kind, wherever it was refused, and without a word of its
/// body or its headers. A request that is carried out is none.
#[tokio::test]
async fn a_refused_request_is_logged_once_and_without_its_words() {
    let logged = Logged::default();
    // While `tracing` has one subscriber alone, a line that is first met on a thread without one is left out for ever, on all threads;
    // other tests run on such threads. With more than one, all are asked.
    let _others = [(); 2].map(|()| tracing::Dispatch::new(Logged::default()));
    let _here = tracing::subscriber::set_default(logged.clone());
    let lab = Lab::with(|options| options.token("s3cret")).await;
    let token = "authorization: Bearer s3cret\r\n";
    lab.ask_with("POST", "/v1/sessions", token, json!({ "id": "s" })).await.ok();
    let messages = "/v1/sessions/s/messages";
    for (headers, method, path, body, wanted) in [
        ("host: canary.example\r\n", "GET", "/v1", Value::Null, "status=421 kind=\"misdirected\""),
        ("origin: http://canary\r\n", "GET", "/v1", Value::Null, "status=403 kind=\"forbidden\""),
        ("authorization: Bearer canary\r\n", "GET", "/v1", Value::Null, "status=401 kind=\"unauthorized\""),
        (token, "GET", "/v1/none", Value::Null, "status=404 kind=\"not_found\""),
        (token, "PUT", messages, Value::Null, "status=405 kind=\"method_not_allowed\""),
        (token, "POST", messages, json!({ "text": "canary", "delivery": "canary" }), "status=422 kind=\"invalid\""),
        (token, "POST", messages, json!({ "text": ["canary"] }), "status=422 kind=\"invalid\""),
        (token, "POST", messages, json!("canary".repeat(400_000)), "status=413 kind=\"too_large\""),
        (token, "GET", "/v1/sessions/none/events?after=canary", Value::Null, "status=422 kind=\"invalid\""),
    ] {
        logged.0.lock().unwrap().clear();
        let answer = lab.ask_with(method, path, headers, body).await;
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
        let lines: Vec<String> = logged.0.lock().unwrap().clone();
        let place = format!("method={method} path={:?}", path.split('?').next().unwrap());
        assert!(lines.len() == 1 && lines[0].contains(wanted) && lines[0].contains(&place), "{wanted}: {lines:?}");
        assert!(!lines[0].contains("canary"), "{lines:?}");
    }
    logged.0.lock().unwrap().clear();
    lab.ask_with("GET", "/v1/sessions", token, Value::Null).await.ok();
    assert_eq!(*logged.0.lock().unwrap(), Vec::<String>::new());
    lab.end().await;
}
