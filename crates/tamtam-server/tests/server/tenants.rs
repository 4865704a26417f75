//! Tenants: a request sees what its scope has, on every route, and makes nothing that it would not see.

use serde_json::{Value, json};
use tamtam::session::Labels;
use tamtam_server::{Denied, Scope};

use crate::lab::Lab;

/// `x-tenant: NAME` is a tenant, `x-operator: yes` sees all, and nobody else anything.
async fn lab() -> Lab {
    Lab::with(|options| {
        options.authorize(|request| {
            if request.headers.contains_key("x-operator") {
                return Ok(Scope::All);
            }
            let tenant =
                request.headers.get("x-tenant").and_then(|name| name.to_str().ok()).ok_or(Denied::Unauthorized)?;
            if tenant == "banned" {
                return Err(Denied::Forbidden("this tenant is closed".into()));
            }
            Ok(Scope::Labels(Labels::new([("tenant", tenant)]).unwrap()))
        })
    })
    .await
}

const ANN: &str = "x-tenant: ann\r\n";
const BOB: &str = "x-tenant: bob\r\n";
const OPERATOR: &str = "x-operator: yes\r\n";

async fn with_secret(lab: &Lab) {
    for (who, id) in [(ANN, "ann-1"), (BOB, "bob-1")] {
        let made =
            lab.ask_with("POST", "/v1/sessions", who, json!({ "id": id, "title": format!("title-of-{id}") })).await;
        assert_eq!(made.status, 201, "{made:?}");
        let mut events = lab.events(&format!("/v1/sessions/{id}/events"), who).await;
        let said = json!({ "id": format!("m-{id}"), "text": format!("secret-of-{id}") });
        lab.ask_with("POST", &format!("/v1/sessions/{id}/messages"), who, said).await.ok();
        events.until("turn_finished").await;
    }
}

/// Every route that names a session: for another tenant it does not exist, asleep or awake, and nothing changes.
#[tokio::test]
async fn another_tenants_session_does_not_exist_on_any_route() {
    let lab = lab().await;
    with_secret(&lab).await;
    let routes = [
        ("GET", "", Value::Null),
        ("PATCH", "", json!({ "title": "mine" })),
        ("DELETE", "", Value::Null),
        ("POST", "/messages", json!({ "text": "hello" })),
        ("GET", "/messages", Value::Null),
        ("GET", "/queue", Value::Null),
        ("DELETE", "/queue", Value::Null),
        ("PATCH", "/queue/m", json!({ "text": "x" })),
        ("DELETE", "/queue/m", Value::Null),
        ("POST", "/abort", Value::Null),
        ("POST", "/end", Value::Null),
        ("POST", "/pause", Value::Null),
        ("POST", "/resume", Value::Null),
        ("POST", "/go_on", Value::Null),
        ("POST", "/compact", Value::Null),
        ("POST", "/undo_compaction", Value::Null),
        ("POST", "/reset_loops", Value::Null),
        ("POST", "/fork", json!({})),
        ("POST", "/rollback", json!({ "to": { "at": 1 } })),
        ("POST", "/undo", Value::Null),
        ("POST", "/redo", Value::Null),
        ("POST", "/command", json!({ "line": "/undo" })),
        ("GET", "/asks", Value::Null),
        ("POST", "/asks/1", json!({ "grant": "once" })),
        ("GET", "/grants", Value::Null),
        ("DELETE", "/grants", Value::Null),
        ("DELETE", "/grants/1", Value::Null),
        ("GET", "/budget", Value::Null),
        ("GET", "/tasks", Value::Null),
        ("POST", "/tasks", json!({ "prompt": "x" })),
        ("GET", "/tasks/1", Value::Null),
        ("POST", "/tasks/1/stop", Value::Null),
        ("GET", "/events", Value::Null),
        ("GET", "/events?after=0", Value::Null),
        ("GET", "/export", Value::Null),
    ];
    let levers = ["", "/restart", "/stop", "/park", "/unpark", "/passivate"];
    for asleep in [false, true] {
        if asleep {
            lab.runtime.passivate(&"bob-1".parse().unwrap()).await.unwrap();
        }
        for (method, route, body) in &routes {
            let answer = lab.ask_with(method, &format!("/v1/sessions/bob-1{route}"), ANN, body.clone()).await;
            let missing = lab.ask_with(method, &format!("/v1/sessions/none-1{route}"), ANN, body.clone()).await;
            assert_eq!(answer.refused(), (404, "not_found".into()), "{method} {route}");
            assert_eq!(answer.body.replace("bob-1", "none-1"), missing.body, "it tells that the session is there");
        }
        for lever in levers {
            for name in ["bob-1", "runtime%2Fsessions%2Fbob-1", "runtime", "sessions", "runtime%2Fsessions"] {
                let method = if lever.is_empty() { "GET" } else { "POST" };
                let answer = lab.ask_with(method, &format!("/v1/actors/{name}{lever}"), ANN, Value::Null).await;
                let (status, _) = answer.refused();
                assert!(matches!(status, 404 | 422), "{name}{lever}: {answer:?}");
            }
        }
        assert_eq!(lab.runtime.awake().len(), if asleep { 1 } else { 2 }, "a stranger's look wakes nothing");
    }
    let shown = lab.ask_with("GET", "/v1/sessions/bob-1", BOB, Value::Null).await.ok();
    assert_eq!(shown["title"], "title-of-bob-1");
    assert_eq!(
        lab.ask_with("GET", "/v1/sessions/bob-1/messages", BOB, Value::Null).await.ok()["messages"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    lab.end().await;
}

/// Lists, searches, the tree in all its forms, crash reports: no word of another tenant is in them, and all of one's own is.
#[tokio::test]
async fn lists_searches_and_the_tree_show_a_tenant_its_own() {
    let lab = lab().await;
    with_secret(&lab).await;
    for id in ["ann-1", "bob-1"] {
        lab.runtime.operate().crash(id, &format!("crash-of-{id}")).unwrap();
        lab.runtime
            .session(&id.parse().unwrap())
            .send("again", tamtam::Delivery::Queue)
            .await
            .unwrap()
            .wait()
            .await
            .unwrap();
    }
    lab.runtime.operate().park("bob-1").await.unwrap();
    let paths = [
        "/v1/sessions",
        "/v1/sessions?label.tenant=bob",
        "/v1/sessions?text=bob",
        "/v1/search?q=secret",
        "/v1/search?q=bob",
        "/v1/tree",
        "/v1/tree?flat=1",
        "/v1/tree?format=text",
        "/v1/crashes",
        "/v1/parked",
        "/v1",
    ];
    for path in paths {
        let mine = lab.ask_with("GET", path, ANN, Value::Null).await;
        assert_eq!(mine.status, 200, "{path}: {mine:?}");
        assert!(!mine.body.contains("bob-1"), "{path}: {mine:?}");
        assert!(!mine.body.contains("\"runtime\""), "{path}: {mine:?}");
    }
    for (path, wanted) in [
        ("/v1/sessions", "ann-1"),
        ("/v1/search?q=secret", "ann-1"),
        ("/v1/tree", "ann-1"),
        ("/v1/tree?flat=1", "ann-1"),
        ("/v1/tree?format=text", "ann-1"),
        ("/v1/crashes", "crash-of-ann-1"),
    ] {
        let mine = lab.ask_with("GET", path, ANN, Value::Null).await;
        assert!(mine.body.contains(wanted), "{path}: {mine:?}");
        let all = lab.ask_with("GET", path, OPERATOR, Value::Null).await;
        assert!(all.body.contains("ann-1") && all.body.contains("bob-1"), "{path}: {all:?}");
    }
    for path in ["/v1/search?q=secret&session=bob-1"] {
        assert_eq!(lab.ask_with("GET", path, ANN, Value::Null).await.refused(), (404, "not_found".into()));
    }
    let mut tree = lab.events("/v1/tree/events", ANN).await;
    let first = tree.next().await.unwrap();
    assert!(first.data.to_string().contains("ann-1") && !first.data.to_string().contains("bob-1"), "{first:?}");
    lab.runtime.operate().unpark("bob-1").await.unwrap();
    lab.ask_with("POST", "/v1/sessions", BOB, json!({ "id": "bob-2", "prompt": { "text": "hello" } })).await.ok();
    lab.ask_with("POST", "/v1/sessions", ANN, json!({ "id": "ann-2" })).await.ok();
    loop {
        let frame = tree.next().await.unwrap().data.to_string();
        assert!(!frame.contains("bob"), "{frame}");
        if frame.contains("ann-2") {
            break;
        }
    }
    lab.end().await;
}

/// What a tenant makes is its own; it cannot choose another's label, take another's id, lose its label, or raise its budget.
#[tokio::test]
async fn a_tenant_makes_only_what_is_its_own() {
    let lab = lab().await;
    with_secret(&lab).await;
    let taken =
        lab.ask_with("POST", "/v1/sessions", ANN, json!({ "id": "bob-1", "prompt": { "text": "hello" } })).await;
    assert_eq!(taken.refused(), (409, "exists".into()));
    let other = lab.ask_with("POST", "/v1/sessions", ANN, json!({ "labels": { "tenant": "bob" } })).await;
    assert_eq!(other.refused(), (403, "forbidden".into()));
    let moved = lab.ask_with("PATCH", "/v1/sessions/ann-1", ANN, json!({ "labels": { "tenant": "bob" } })).await;
    assert_eq!(moved.refused(), (403, "forbidden".into()));
    lab.ask_with("PATCH", "/v1/sessions/ann-1", ANN, json!({ "labels": { "color": "red" } })).await.ok();
    let labels = lab.ask_with("GET", "/v1/sessions/ann-1", ANN, Value::Null).await.ok()["labels"].clone();
    assert_eq!(labels, json!({ "tenant": "ann", "color": "red" }));
    let fork = lab.ask_with("POST", "/v1/sessions/ann-1/fork", ANN, json!({ "id": "ann-fork" })).await;
    assert_eq!(fork.status, 201);
    let clash = lab.ask_with("POST", "/v1/sessions/ann-1/fork", ANN, json!({ "id": "bob-1" })).await;
    assert_eq!(clash.refused(), (409, "exists".into()));
    for (who, status) in [(ANN, 200), (BOB, 404)] {
        assert_eq!(lab.ask_with("GET", "/v1/sessions/ann-fork", who, Value::Null).await.status, status);
    }
    lab.ask_with("POST", "/v1/sessions/ann-1/tasks", ANN, json!({ "prompt": "hello", "id": "ann-child" })).await.ok();
    for (who, status) in [(ANN, 200), (BOB, 404)] {
        assert_eq!(lab.ask_with("GET", "/v1/sessions/ann-child", who, Value::Null).await.status, status);
    }
    let raise = lab.ask_with("PATCH", "/v1/sessions/ann-1/budget", ANN, json!({ "session": {} })).await;
    assert_eq!(raise.refused(), (403, "forbidden".into()));
    for (method, path) in [("POST", "/v1/drain"), ("GET", "/v1/count")] {
        assert_eq!(lab.ask_with(method, path, ANN, Value::Null).await.refused(), (403, "forbidden".into()), "{path}");
    }
    assert_eq!(
        lab.ask_with("GET", "/v1/sessions", "x-tenant: banned\r\n", Value::Null).await.refused(),
        (403, "forbidden".into())
    );
    assert_eq!(lab.ask("GET", "/v1/sessions", Value::Null).await.refused(), (401, "unauthorized".into()));
    // An operator moves a session to another tenant: the one loses it, the other has it, at once.
    lab.ask_with("PATCH", "/v1/sessions/ann-1", OPERATOR, json!({ "labels": { "tenant": "bob" } })).await.ok();
    for (who, status) in [(ANN, 404), (BOB, 200)] {
        assert_eq!(lab.ask_with("GET", "/v1/sessions/ann-1", who, Value::Null).await.status, status);
    }
    lab.end().await;
}

/// A budget that asks for more asks an operator: a tenant may decline, and cannot give itself more.
#[tokio::test]
async fn a_tenant_cannot_raise_its_budget_by_an_answer() {
    let lab = lab().await;
    let budget = json!({ "session": { "tokens": 1 }, "on_breach": "ask" });
    lab.ask_with("POST", "/v1/sessions", ANN, json!({ "id": "ann-1", "budget": budget })).await.ok();
    let mut events = lab.events("/v1/sessions/ann-1/events", ANN).await;
    lab.ask_with("POST", "/v1/sessions/ann-1/messages", ANN, json!({ "text": "hello" })).await.ok();
    let asked = events.until("budget").await;
    let asks = lab.ask_with("GET", "/v1/sessions/ann-1/asks", ANN, Value::Null).await.ok()["asks"].clone();
    assert_eq!(
        (&asks[0]["kind"], &asks[0]["ask"], &asks[0]["breach"]["max"]),
        (&json!("budget"), &asked["ask"], &json!(1))
    );
    let path = format!("/v1/sessions/ann-1/asks/{}", asked["ask"]);
    for more in
        [json!({ "grant": "once" }), json!({ "grant": "always" }), json!({ "grant": "raise", "by": { "tokens": 9 } })]
    {
        assert_eq!(lab.ask_with("POST", &path, ANN, more.clone()).await.refused(), (403, "forbidden".into()), "{more}");
    }
    assert_eq!(lab.ask_with("POST", &path, OPERATOR, json!({ "grant": "always" })).await.status, 204);
    assert_eq!(events.until("turn_finished").await["outcome"], "done");
    lab.end().await;
}

/// A session whose id is that of another node of the tree gives its tenant no lever on that node.
#[tokio::test]
async fn the_id_of_a_session_names_no_other_node() {
    let lab = lab().await;
    for id in ["sessions", "runtime", "host"] {
        lab.ask_with("POST", "/v1/sessions", ANN, json!({ "id": id })).await.ok();
        let node = lab.ask_with("GET", &format!("/v1/actors/{id}"), ANN, Value::Null).await.ok()["node"].clone();
        assert_eq!((&node["kind"], &node["path"]), (&json!("session"), &json!(format!("runtime/sessions/{id}"))));
        assert_eq!(lab.ask_with("POST", &format!("/v1/actors/{id}/stop"), ANN, Value::Null).await.status, 204);
        let gone = lab.ask_with("POST", &format!("/v1/actors/{id}/stop"), ANN, Value::Null).await;
        assert!(gone.status == 404 || gone.status == 204, "{gone:?}");
    }
    assert!(lab.runtime.tree().to_string().contains("sessions"), "the supervisors are up");
    lab.ask_with("POST", "/v1/sessions", ANN, json!({ "id": "after" })).await.ok();
    lab.end().await;
}

/// A tenant has the levers of its own sessions.
#[tokio::test]
async fn a_tenant_pulls_the_levers_of_its_own_sessions() {
    let lab = lab().await;
    with_secret(&lab).await;
    for lever in ["park", "unpark", "restart", "passivate"] {
        let pulled = lab.ask_with("POST", &format!("/v1/actors/ann-1/{lever}"), ANN, Value::Null).await;
        assert_eq!(pulled.status, 204, "{lever}: {pulled:?}");
    }
    lab.end().await;
}
