//! Hostile and clumsy clients: refused with a typed error, and nothing is hurt.

use std::time::Duration;

use serde_json::{Value, json};
use tamtam_server::{Bound, ServeError, Server, ServerOptions};

use crate::lab::Lab;

/// Another name for this machine (DNS rebinding) and a foreign page are refused on every kind of path, before a token is looked at.
#[tokio::test]
async fn a_foreign_host_or_origin_is_refused() {
    let lab = Lab::with(|options| options.host("agents.example").origin("https://app.example")).await;
    for path in ["/v1/sessions", "/v1/tree/events", "/", "/healthz"] {
        for host in ["evil.example", "evil.example:80", "localhost.evil.example"] {
            let answer = lab.ask_with("GET", path, &format!("host: {host}\r\n"), Value::Null).await;
            assert_eq!(answer.refused(), (421, "misdirected".into()), "{path} {host}");
        }
    }
    let none = lab.raw(b"GET /v1/sessions HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    assert_eq!(none.refused().0, 421);
    let two = lab
        .raw(b"GET /v1/sessions HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\r\n")
        .await;
    assert!(matches!(two.status, 400 | 421), "{two:?}");
    for origin in ["http://evil.example", "null", "http://localhost", "https://127.0.0.1:1", "file://"] {
        let answer = lab.ask_with("POST", "/v1/sessions", &format!("origin: {origin}\r\n"), json!({})).await;
        assert_eq!(answer.refused(), (403, "forbidden".into()), "{origin}");
    }
    let fetched = lab
        .ask_with("GET", "/v1/sessions", "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n", Value::Null)
        .await;
    assert_eq!(fetched.refused(), (403, "forbidden".into()));
    for (host, origin) in [
        (lab.at.to_string(), format!("http://{}", lab.at)),
        ("agents.example".into(), "https://app.example".into()),
        ("LOCALHOST:5".into(), "http://localhost:5".into()),
    ] {
        let answer =
            lab.ask_with("GET", "/v1/sessions", &format!("host: {host}\r\norigin: {origin}\r\n"), Value::Null).await;
        assert_eq!(answer.status, 200, "{host} {origin}: {answer:?}");
        assert!(!answer.head.to_ascii_lowercase().contains("access-control"), "{answer:?}");
    }
    lab.end().await;
}

/// With a token, nothing but the page's files and health passes without it; a page changes it for a cookie that does not hold it.
#[tokio::test]
async fn without_its_token_nothing_is_shown() {
    let lab = Lab::with(|options| options.token("s3cret-token")).await;
    let wrong = [
        "",
        "authorization: Bearer s3cret\r\n",
        "authorization: Basic s3cret-token\r\n",
        "cookie: tamtam=s3cret-token\r\n",
    ];
    for path in
        ["/v1", "/v1/sessions", "/v1/tree", "/v1/tree/events", "/v1/sessions/s/events?token=s3cret-token", "/v1/none"]
    {
        for headers in wrong {
            let answer = lab.ask_with("GET", path, headers, Value::Null).await;
            assert_eq!(answer.refused(), (401, "unauthorized".into()), "{path} {headers}");
            assert!(answer.head.contains("www-authenticate"), "{answer:?}");
        }
    }
    for open in ["/healthz", "/readyz", "/"] {
        assert_eq!(lab.ask("GET", open, Value::Null).await.status, 200, "{open}");
    }
    let right = lab.ask_with("GET", "/v1", "authorization: Bearer s3cret-token\r\n", Value::Null).await;
    assert_eq!(right.ok()["needs_token"], true);
    assert_eq!(lab.ask("POST", "/v1/login", json!({ "token": "other" })).await.refused(), (401, "unauthorized".into()));
    let foreign =
        lab.ask_with("POST", "/v1/login", "origin: http://evil.example\r\n", json!({ "token": "s3cret-token" })).await;
    assert_eq!(foreign.refused().0, 403);
    let login = lab.ask("POST", "/v1/login", json!({ "token": "s3cret-token" })).await;
    let cookie = login.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("s3cret"),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(
        lab.ask_with("GET", "/v1/sessions", &format!("cookie: a=b; {cookie}\r\n"), Value::Null).await.status,
        200
    );
    let logout = lab.ask("POST", "/v1/logout", Value::Null).await;
    assert!(logout.head.contains("Max-Age=0"), "{logout:?}");
    lab.end().await;
}

/// Bodies that are too large, endless, no JSON, no UTF-8 or too deep are refused with a typed error; so are headers that never end.
#[tokio::test]
async fn bodies_and_headers_have_bounds_in_bytes_and_time() {
    let lab = Lab::with(|mut options| {
        options.body_bytes_max = 1_000;
        (options.body_time_max, options.header_time_max) = (Duration::from_millis(200), Duration::from_millis(200));
        options
    })
    .await;
    lab.session("s").await;
    let large = lab.ask("POST", "/v1/sessions/s/messages", json!({ "text": "x".repeat(2_000) })).await;
    assert_eq!(large.refused(), (413, "too_large".into()));
    let at = lab.at;
    let post = |kind: &str, body: &[u8]| {
        let head = format!(
            "POST /v1/sessions/s/messages HTTP/1.1\r\nhost: {at}\r\n{kind}content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    };
    let json = "content-type: application/json\r\n";
    for (body, wanted) in [
        (post("", b"{\"text\":\"x\"}"), (415, "unsupported_media")),
        (post("content-type: text/plain\r\n", b"{\"text\":\"x\"}"), (415, "unsupported_media")),
        (post(json, b"{"), (400, "malformed")),
        (post(json, b"\xff\xfe"), (400, "malformed")),
        (post(json, b"{\"text\":\"\xff\"}"), (400, "malformed")),
        (post(json, "[".repeat(900).as_bytes()), (422, "invalid")),
        (post(json, format!("{{\"parts\":{}", "[".repeat(900)).as_bytes()), (400, "malformed")),
        (
            post(json, format!("{{\"parts\":[{{\"type\":\"text\",\"text\":\"\",\"x\":{}", "[".repeat(900)).as_bytes()),
            (400, "malformed"),
        ),
    ] {
        let (status, kind) = lab.raw(&body).await.refused();
        assert_eq!((status, kind.as_str()), wanted, "{}", String::from_utf8_lossy(&body));
    }
    let endless = format!(
        "POST /v1/sessions/s/messages HTTP/1.1\r\nhost: {at}\r\n{json}transfer-encoding: chunked\r\nconnection: close\r\n\r\n1\r\n{{\r\n"
    );
    assert_eq!(lab.raw(endless.as_bytes()).await.refused(), (408, "timeout".into()));
    // A header that never ends: the connection is closed.
    // (Left to itself, the HTTP library waits for half a minute.)
    let header = format!("GET /v1 HTTP/1.1\r\nhost: {at}\r\nx-slow: ");
    let slow = tokio::time::timeout(Duration::from_secs(20), lab.raw(header.as_bytes())).await.unwrap();
    assert!(matches!(slow.status, 0 | 408), "{slow:?}");
    let huge =
        lab.raw(format!("GET /v1 HTTP/1.1\r\nhost: {at}\r\nx-huge: {}\r\n\r\n", "x".repeat(100_000)).as_bytes()).await;
    assert!(matches!(huge.status, 0 | 431), "{huge:?}");
    for path in ["/v1/sessions/%ff", "/v1/sessions/..%2f..%2fetc", "/v1/sessions/%00", "/v1/sessions//messages"] {
        let (status, _) = lab.ask("GET", path, Value::Null).await.refused();
        assert!((400..500).contains(&status), "{path}");
    }
    lab.say("s", "still here").await;
    lab.end().await;
}

/// A connection too many is closed at once, and the others go on.
#[tokio::test]
async fn connections_have_a_bound() {
    let lab = Lab::with(|mut options| {
        options.connections_max = 3;
        options
    })
    .await;
    lab.session("s").await;
    let mut held = Vec::new();
    while held.len() < 3 {
        // The connection of the request before may not have ended yet.
        held.extend(lab.try_stream("/v1/sessions/s/events").await);
    }
    assert_eq!(lab.ask("GET", "/healthz", Value::Null).await.status, 0, "closed without an answer");
    drop(held.pop());
    while lab.ask("GET", "/healthz", Value::Null).await.status != 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lab.end().await;
}

/// Any address but the loopback needs a token; a Unix socket is its owner's alone, replaces a dead one and no live one.
#[tokio::test]
async fn a_server_is_bound_safely() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = Lab::new().await;
    let refused = Bound::tcp("0.0.0.0:0".parse().unwrap(), &lab.server).await.err().unwrap();
    assert!(matches!(refused, ServeError::NeedsToken { .. }), "{refused}");
    let with_token = Server::new(lab.runtime.clone()).with(ServerOptions::default().token("t"));
    assert!(Bound::tcp("0.0.0.0:0".parse().unwrap(), &with_token).await.is_ok());
    let taken = Bound::tcp(lab.at, &lab.server).await.err().unwrap();
    assert!(matches!(taken, ServeError::InUse { .. }), "{taken}");
    let path = lab.folder.path().join("run/tamtam.sock");
    let bound = Bound::unix(&path).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(matches!(Bound::unix(&path).await.err().unwrap(), ServeError::InUse { .. }));
    drop(bound);
    let again = Bound::unix(&path).await.unwrap();
    assert_eq!(again.at(), format!("unix:{}", path.display()));
    std::fs::write(lab.folder.path().join("file"), "mine").unwrap();
    let file = Bound::unix(lab.folder.path().join("file")).await.err();
    assert!(file.is_some(), "a file is no dead socket");
    assert_eq!(std::fs::read_to_string(lab.folder.path().join("file")).unwrap(), "mine");
    lab.end().await;
}

/// A host nests the router under a path: the page's files and the routes are under it, and a path cannot break out of the page.
#[tokio::test]
async fn a_host_nests_the_router_under_a_path() {
    let mut lab = Lab::new().await;
    let app = axum::Router::new().nest("/agents", lab.server.router()).nest("/of/{tenant}", lab.server.router());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let served = (lab.at, lab.at = listener.local_addr().unwrap()).0;
    let host = tokio::spawn(async { axum::serve(listener, app).await });
    let page = lab.ask("GET", "/agents", Value::Null).await;
    assert!(page.body.contains("=\"/agents/page/main.js\"") && !page.body.contains("=\"/page/"), "{page:?}");
    assert_eq!(lab.ask("GET", "/agents/page/main.js", Value::Null).await.status, 200);
    assert_eq!(lab.get("/agents/v1").await["name"], "tamtam");
    assert!(lab.ask("GET", "/of/ann", Value::Null).await.body.contains("=\"/of/ann/page/main.js\""));
    let odd = lab.ask("GET", "/of/a\"b'c", Value::Null).await;
    assert!(!odd.body.contains("a\"b"), "{odd:?}");
    host.abort();
    lab.at = served;
    lab.end().await;
}

/// The page has a policy without inline scripts, and no path leads out of its folder.
#[tokio::test]
async fn the_page_has_a_strict_policy() {
    let lab = Lab::new().await;
    let page = lab.ask("GET", "/", Value::Null).await;
    assert!(page.head.contains("default-src 'none'; script-src 'self'") && !page.head.contains("unsafe"), "{page:?}");
    assert!(page.head.contains("text/html") && page.head.contains("nosniff"), "{page:?}");
    assert_eq!(lab.ask("GET", "/page/index.html", Value::Null).await.body, page.body);
    for path in ["/page/", "/page/../Cargo.toml", "/page/%2e%2e%2fCargo.toml"] {
        assert_eq!(lab.ask("GET", path, Value::Null).await.refused().0, 404, "{path}");
    }
    lab.end().await;
}
