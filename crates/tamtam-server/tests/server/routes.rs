//! Every route once, and with wrong input.

use serde_json::{Value, json};
use tamtam::SessionOptions;

use crate::lab::Lab;

/// Make, prompt, follow, read: RPC by one POST each.
#[tokio::test]
async fn a_session_is_made_with_its_first_message_by_one_post() {
    let lab = Lab::new().await;
    let made = lab.ask("POST", "/v1/sessions", json!({ "id": "s1", "title": "First", "labels": { "team": "a" }, "prompt": { "id": "m1", "text": "hello" } })).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    assert_eq!((&made["session"]["session"], &made["session"]["title"]), (&json!("s1"), &json!("First")));
    assert_eq!((&made["receipt"]["message"], &made["receipt"]["disposition"]), (&json!("m1"), &json!("started")));
    let mut events = lab.events("/v1/sessions/s1/events?after=0", "").await;
    assert_eq!(events.until("turn_finished").await["text"], "echo: hello");
    // The same again is the same session and the same message.
    let again = lab.ask("POST", "/v1/sessions", json!({ "id": "s1", "prompt": { "id": "m1", "text": "hello" } })).await;
    assert_eq!((again.status, &again.json()["receipt"]["seq"]), (200, &made["receipt"]["seq"]));
    let page = lab.get("/v1/sessions/s1/messages?limit=1").await;
    assert_eq!(page["seq"], lab.get("/v1/sessions/s1").await["seq"]);
    assert_eq!((page["messages"].as_array().unwrap().len(), &page["messages"][0]["role"]), (1, &json!("assistant")));
    let next = page["next"].as_str().unwrap();
    let page = lab.get(&format!("/v1/sessions/s1/messages?before={next}")).await;
    assert_eq!((&page["messages"][0]["id"], &page["next"]), (&json!("m1"), &Value::Null));
    let shown = lab.get("/v1/sessions/s1").await;
    assert_eq!((&shown["now"]["turn"], &shown["labels"]["team"]), (&Value::Null, &json!("a")));
    lab.ask("PATCH", "/v1/sessions/s1", json!({ "title": "Second" })).await.ok();
    assert_eq!(lab.get("/v1/sessions/s1").await["title"], "Second");
    lab.ask("PATCH", "/v1/sessions/s1", json!({ "title": null, "labels": { "team": "b" } })).await.ok();
    assert_eq!(lab.get("/v1/sessions?label.team=b&text=s1").await["sessions"][0]["title"], "hello");
    let none = lab.get("/v1/sessions?label.team=a").await;
    assert_eq!((&none["sessions"], &none["next"], &none["complete"]), (&json!([]), &Value::Null, &json!(true)));
    let deleted = lab.ask("DELETE", "/v1/sessions/s1", Value::Null).await;
    assert_eq!(deleted.ok()["session"], "gone");
    assert_eq!(lab.ask("GET", "/v1/sessions/s1", Value::Null).await.refused(), (404, "not_found".into()));
    lab.end().await;
}

/// THINKING-001: what is asked of the model is the client's to say, checked as everywhere; the answer then fits the schema or is none.
#[tokio::test]
async fn a_session_is_made_with_what_is_asked_of_its_model() {
    let lab = Lab::new().await;
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let params =
        json!({ "thinking": "high", "temperature": 0.5, "top_p": 1, "max_output": 900, "answer_schema": schema });
    let made = lab.ask("POST", "/v1/sessions", json!({ "id": "s", "agent": "build", "params": params })).await;
    assert_eq!(made.status, 201, "{made:?}");
    let set = lab.runtime.session(&"s".parse().unwrap()).state().await.unwrap().settings.params.clone();
    assert_eq!((set.thinking, set.temperature, set.top_p), (Some(tamtam::model::Thinking::High), Some(0.5), Some(1.0)));
    assert_eq!((set.max_output, set.answer_schema.unwrap().as_json()), (Some(900), &schema));
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    lab.post("/v1/sessions/s/messages", json!({ "text": "hello" })).await;
    assert_eq!(events.until("turn_finished").await["outcome"], "bad_answer", "the model of the lab says no JSON");
    for (params, why) in [
        (json!({ "thinking": "much" }), "is none of off, minimal, low, medium, high and xhigh"),
        (json!({ "temperature": 3 }), "is not a number from 0 to 2"),
        (json!({ "answer_schema": { "type": "string" } }), "its \"type\" must be \"object\""),
        (json!({ "options": {} }), "unknown field"),
        (json!([]), "a list is in the place of an object"),
    ] {
        let refused = lab.ask("POST", "/v1/sessions", json!({ "params": params })).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.json()["detail"].as_str().unwrap().contains(why), "{refused:?}");
    }
    lab.end().await;
}

/// A client that names an agent leaves what the host says of the model, where the agent says nothing of it, and the host's bound of an
/// answer.
#[tokio::test]
async fn an_agent_of_a_client_keeps_what_the_host_says_of_the_model() {
    let lab = Lab::with(|options| {
        options.new_session(|new, _| {
            let mut options = SessionOptions::new(new.workspace.clone().unwrap_or("/".into()));
            options.model = Some("scripted/host".parse().unwrap());
            options.fallback = vec![tamtam::session::Fallback::new("scripted/behind".parse().unwrap())];
            (options.params.max_output, options.params.temperature) = (Some(700), Some(0.5));
            options.params.thinking = Some(tamtam::model::Thinking::Low);
            Ok(options)
        })
    })
    .await;
    for (id, agent) in [("none", None), ("build", Some("build"))] {
        let made = lab.ask("POST", "/v1/sessions", json!({ "id": id, "agent": agent })).await;
        assert_eq!(made.status, 201, "{made:?}");
        let settings = lab.runtime.session(&id.parse().unwrap()).state().await.unwrap().settings.clone();
        let params = &settings.params;
        assert_eq!((settings.model.to_string().as_str(), settings.fallback.len()), ("scripted/host", 1), "{id}");
        assert_eq!((params.max_output, params.temperature), (Some(700), Some(0.5)), "{id}");
        assert_eq!(params.thinking, Some(tamtam::model::Thinking::Low), "{id}");
    }
    lab.end().await;
}

/// A chain of models is given where a session is made: beside its model, beside the host's, and never the host's behind another model.
#[tokio::test]
async fn a_session_is_made_with_a_chain_of_models() {
    let lab = Lab::with(|options| {
        options.new_session(|new, _| {
            let mut options = SessionOptions::new(new.workspace.clone().unwrap_or("/".into()));
            options.model = Some("scripted/host".parse().unwrap());
            options.fallback = vec!["scripted/behind on auth".parse().unwrap()];
            Ok(options)
        })
    })
    .await;
    let chain = json!([{ "model": "scripted/a" }, { "model": "scripted/b", "on": ["overloaded", "auth"] }]);
    for (id, more, model, expected) in [
        ("host", json!({}), "host", &["scripted/behind on auth"][..]),
        ("chain", json!({ "fallback": chain }), "host", &["scripted/a", "scripted/b on auth,overloaded"]),
        (
            "both",
            json!({ "model": "scripted/x", "fallback": chain }),
            "x",
            &["scripted/a", "scripted/b on auth,overloaded"],
        ),
        ("model", json!({ "model": "scripted/x" }), "x", &[]),
    ] {
        let mut new = more;
        new["id"] = id.into();
        let made = lab.ask("POST", "/v1/sessions", new).await;
        assert_eq!(made.status, 201, "{made:?}");
        let settings = lab.runtime.session(&id.parse().unwrap()).state().await.unwrap().settings.clone();
        let chain: Vec<_> = settings.fallback.iter().map(ToString::to_string).collect();
        assert_eq!(
            (settings.model.model.as_str(), &chain[..]),
            (model, &expected.iter().map(|text| text.to_string()).collect::<Vec<_>>()[..]),
            "{id}"
        );
    }
    for (fallback, why) in [
        (json!([{ "model": "scripted/a", "on": ["busy"] }]), "busy"),
        (json!([{ "model": "scripted/a" }, { "model": "scripted/a" }]), "names scripted/a twice"),
        (json!([{ "model": "scripted/a", "on": ["context_overflow"] }]), "the request is made smaller"),
    ] {
        let refused = lab.ask("POST", "/v1/sessions", json!({ "fallback": fallback })).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.json()["detail"].as_str().unwrap().contains(why), "{refused:?}");
    }
    lab.end().await;
}

/// A busy session: what waits is listed, edited, withdrawn, taken back; an abort ends the turn.
#[tokio::test]
async fn what_waits_is_seen_edited_and_taken_back() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    lab.post("/v1/sessions/s/messages", json!({ "text": "gate" })).await;
    events.until("call_started").await;
    for id in ["a", "b", "c"] {
        let receipt = lab.ask("POST", "/v1/sessions/s/messages", json!({ "id": id, "text": "first words" })).await;
        assert_eq!(receipt.status, 202);
    }
    let steered = lab
        .post(
            "/v1/sessions/s/messages",
            json!({ "id": "now", "text": "look", "delivery": "steer", "steering": "skip_remaining" }),
        )
        .await;
    assert_eq!(steered["disposition"], "steering");
    let busy = lab.ask("POST", "/v1/sessions/s/messages", json!({ "text": "x", "delivery": "reject" })).await;
    assert_eq!(busy.refused(), (409, "busy".into()));
    let other = lab.ask("POST", "/v1/sessions/s/messages", json!({ "text": "x", "expect_turn": 999 })).await;
    assert_eq!(other.refused(), (409, "stale".into()));
    lab.ask("PATCH", "/v1/sessions/s/queue/b", json!({ "text": "second words" })).await.ok();
    lab.ask("DELETE", "/v1/sessions/s/queue/a", Value::Null).await.ok();
    assert_eq!(lab.ask("DELETE", "/v1/sessions/s/queue/a", Value::Null).await.refused(), (409, "stale".into()));
    let waiting = lab.get("/v1/sessions/s/queue").await;
    let waiting: Vec<_> = waiting["waiting"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["message"]["id"].as_str().unwrap().to_owned(),
                one["message"]["parts"][0]["text"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let wanted = [("now", "look"), ("b", "second words"), ("c", "first words")]
        .map(|(id, text)| (id.to_owned(), text.to_owned()));
    assert_eq!(waiting, wanted);
    let now = lab.get("/v1/sessions/s").await["now"].clone();
    assert_eq!((&now["steering"], &now["queued"]), (&json!(1), &json!(2)));
    assert_eq!(lab.post("/v1/sessions/s/abort", json!({ "reason": "enough" })).await["recorded"], true);
    let finished = events.until("turn_finished").await;
    assert_eq!(finished["outcome"], "aborted", "{finished}");
    let back = lab.ask("DELETE", "/v1/sessions/s/queue", Value::Null).await.ok();
    assert!(back["messages"].as_array().unwrap().len() >= 2, "{back}");
    lab.end().await;
}

/// Asks reach a client, and an answer is taken once. What was allowed for longer is listed and revoked.
#[tokio::test]
async fn asks_are_listed_and_answered_and_grants_revoked() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    lab.post("/v1/sessions/s/messages", json!({ "text": "note milk" })).await;
    let asked = events.until("ask").await;
    let asks = lab.get("/v1/sessions/s/asks").await["asks"].clone();
    assert_eq!((&asks[0]["ask"], &asks[0]["kind"], &asks[0]["name"]), (&asked["ask"], &json!("call"), &json!("note")));
    assert_eq!((&asks[0]["input"], &asks[0]["offers"]), (&asked["input"], &asked["offers"]));
    let path = format!("/v1/sessions/s/asks/{}", asked["ask"]);
    for wrong in
        [json!({}), json!({ "grant": "yes" }), json!({ "grant": "once", "offer": 1 }), json!({ "grant": "raise" })]
    {
        assert_eq!(lab.ask("POST", &path, wrong.clone()).await.refused(), (422, "invalid".into()), "{wrong}");
    }
    assert_eq!(
        lab.ask("POST", &path, json!({ "grant": "once", "digest": "other" })).await.refused(),
        (422, "invalid".into())
    );
    let answer = json!({ "grant": "always", "scope": "session", "who": "ann", "digest": asked["digest"] });
    assert_eq!(lab.ask("POST", &path, answer.clone()).await.status, 204);
    assert_eq!(events.until("ask_closed").await["who"], "ann");
    events.until("turn_finished").await;
    assert_eq!(lab.ask("POST", &path, answer).await.refused(), (409, "stale".into()));
    let grants = lab.get("/v1/sessions/s/grants").await["grants"].clone();
    assert!(grants[0]["allows"].as_str().unwrap().starts_with("Allows"), "{grants}");
    lab.ask("DELETE", &format!("/v1/sessions/s/grants/{}", grants[0]["id"]), Value::Null).await.ok();
    assert_eq!(
        lab.ask("DELETE", &format!("/v1/sessions/s/grants/{}", grants[0]["id"]), Value::Null).await.refused(),
        (404, "not_found".into())
    );
    lab.ask("DELETE", "/v1/sessions/s/grants", Value::Null).await.ok();
    assert_eq!(lab.get("/v1/sessions/s/grants").await, json!({ "grants": [] }));
    lab.end().await;
}

/// Fork, go back, undo, redo, commands, search, export, budget.
#[tokio::test]
async fn a_conversation_is_forked_taken_back_searched_and_exported() {
    let lab = Lab::new().await;
    lab.session("s").await;
    lab.say("s", "alpha").await;
    lab.say("s", "beta").await;
    let fork = lab.ask("POST", "/v1/sessions/s/fork", json!({ "id": "f" })).await;
    assert_eq!((fork.status, fork.json()["session"].clone()), (201, json!("f")));
    let undone = lab.post("/v1/sessions/s/undo", Value::Null).await;
    assert_eq!(undone["gone"].as_array().unwrap().len(), 1);
    let redone = lab.post("/v1/sessions/s/redo", Value::Null).await;
    assert_eq!(redone["again"], undone["gone"]);
    let back = lab.post("/v1/sessions/s/rollback", json!({ "to": { "before_message": undone["gone"][0] } })).await;
    assert_eq!(back["gone"], undone["gone"]);
    assert_eq!(
        lab.ask("POST", "/v1/sessions/s/rollback", json!({ "to": { "at": 99999 } })).await.refused(),
        (404, "not_found".into())
    );
    assert_eq!(
        lab.ask("POST", "/v1/sessions/s/rollback", json!({ "to": { "after": "x" } })).await.refused(),
        (422, "invalid".into())
    );
    assert_eq!(lab.get("/v1/sessions/f/messages").await["messages"].as_array().unwrap().len(), 4);
    let said = lab.post("/v1/sessions/f/command", json!({ "line": "/undo" })).await;
    assert!(said["said"].as_str().unwrap().starts_with("Undid"), "{said}");
    assert_eq!(
        lab.ask("POST", "/v1/sessions/f/command", json!({ "line": "/nothing" })).await.refused(),
        (404, "not_found".into())
    );
    assert_eq!(
        lab.ask("POST", "/v1/sessions/f/command", json!({ "line": "nothing" })).await.refused(),
        (422, "invalid".into())
    );
    let found = lab.get("/v1/search?q=alpha&session=s&limit=5").await;
    assert_eq!((&found["hits"][0]["session"], &found["behind"]), (&json!("s"), &json!("no")), "{found}");
    let lines = lab.ask("GET", "/v1/sessions/s/export", Value::Null).await;
    let kinds: Vec<Value> =
        lines.body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone()).collect();
    assert!(kinds.contains(&json!("rolled_back")), "{kinds:?}");
    lab.ask("PATCH", "/v1/sessions/s/budget", json!({ "session": { "tokens": 100000, "micro_usd": 5 } })).await.ok();
    let budget = lab.get("/v1/sessions/s/budget").await;
    assert_eq!(budget["session"], json!({ "tokens": 100000, "micro_usd": 5 }));
    for lever in ["pause", "resume", "go_on", "reset_loops"] {
        assert_eq!(lab.ask("POST", &format!("/v1/sessions/s/{lever}"), Value::Null).await.status, 204, "{lever}");
    }
    for lever in ["compact", "undo_compaction"] {
        let (status, _) = lab.ask("POST", &format!("/v1/sessions/s/{lever}"), Value::Null).await.refused();
        assert!((400..500).contains(&status), "{lever}: nothing is there to do: {status}");
    }
    assert_eq!(lab.ask("POST", "/v1/sessions/s/end", json!({ "reason": "over" })).await.status, 204);
    assert_eq!(
        lab.ask("POST", "/v1/sessions/s/messages", json!({ "text": "x" })).await.refused(),
        (409, "ended".into())
    );
    lab.end().await;
}

/// A task is given, seen and stopped.
#[tokio::test]
async fn tasks_are_given_seen_and_stopped() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    let task = lab.ask("POST", "/v1/sessions/s/tasks", json!({ "prompt": "hang", "id": "child" })).await;
    assert_eq!((task.status, &task.json()["session"]), (201, &json!("child")));
    let ticket = task.json()["ticket"].clone();
    let tasks = lab.get("/v1/sessions/s/tasks").await["tasks"].clone();
    assert_eq!(
        (&tasks[0]["ticket"], &tasks[0]["session"], &tasks[0]["queued"]),
        (&ticket, &json!("child"), &json!(false))
    );
    assert_eq!(lab.get(&format!("/v1/sessions/s/tasks/{ticket}")).await["session"], "child");
    assert_eq!(lab.ask("POST", &format!("/v1/sessions/s/tasks/{ticket}/stop"), Value::Null).await.status, 204);
    events.until("task_finished").await;
    assert_eq!(
        lab.ask("GET", &format!("/v1/sessions/s/tasks/{ticket}"), Value::Null).await.refused(),
        (404, "not_found".into())
    );
    assert_eq!(lab.ask("POST", "/v1/sessions/s/tasks", json!({})).await.refused(), (422, "invalid".into()));
    lab.end().await;
}

/// MODEL-005, MODEL-008: the models that the host names are listed, as many as there are and in its order.
#[tokio::test]
async fn the_models_that_a_host_names_are_listed() {
    for models in [&["scripted/script", "a/b", "c/d"][..], &["a/b", "scripted/script"]] {
        let lab = Lab::with(|options| options.models(models.iter().copied())).await;
        assert_eq!(lab.get("/v1/models").await, json!({ "models": models }));
        lab.end().await;
    }
}

/// What is of the whole runtime.
#[tokio::test]
async fn the_runtime_is_looked_at_and_its_levers_pulled() {
    let lab = Lab::with(|options| {
        let mut options = options.models(["scripted/script"]);
        options.drills = true;
        options
    })
    .await;
    lab.session("s").await;
    lab.say("s", "hello").await;
    assert_eq!(lab.get("/healthz").await, json!({ "status": "ok" }));
    assert_eq!(lab.get("/readyz").await, json!({ "status": "ready" }));
    let about = lab.get("/v1").await;
    assert_eq!(
        (&about["scope"], &about["needs_token"], &about["draining"], &about["several_nodes"]),
        (&json!("all"), &json!(false), &json!(false), &json!(false))
    );
    assert!(lab.get("/v1/agents").await["agents"].as_array().unwrap().iter().any(|agent| agent["name"] == "build"));
    assert!(
        lab.get("/v1/commands").await["commands"].as_array().unwrap().iter().any(|command| command["name"] == "undo")
    );
    assert_eq!(lab.get("/v1/models").await, json!({ "models": ["scripted/script"] }));
    assert_eq!(lab.get("/v1/tree").await[0]["id"], "runtime");
    assert!(lab.ask("GET", "/v1/tree?format=text", Value::Null).await.body.starts_with("runtime"));
    assert!(lab.ask_with("GET", "/v1/tree", "accept: text/plain\r\n", Value::Null).await.body.starts_with("runtime"));
    assert_eq!(lab.ask("GET", "/v1/tree?format=xml", Value::Null).await.refused(), (422, "invalid".into()));
    assert_eq!(lab.get("/v1/count").await["sessions"], 1);
    assert_eq!(lab.get("/v1/actors/s").await["node"]["kind"], "session");
    assert_eq!(lab.get("/v1/actors/runtime%2Fsessions%2Fs").await["node"]["id"], "s");
    assert_eq!(lab.ask("GET", "/v1/actors/none", Value::Null).await.refused(), (404, "not_found".into()));
    for lever in ["restart", "park", "unpark", "stop", "restart", "passivate"] {
        let pulled = lab.ask("POST", &format!("/v1/actors/s/{lever}"), Value::Null).await;
        assert_eq!(pulled.status, 204, "{lever}: {pulled:?}");
        if lever == "park" {
            assert_eq!(lab.get("/v1/parked").await["parked"][0]["session"], "s");
            let parked = lab.ask("POST", "/v1/sessions/s/messages", json!({ "text": "x" })).await;
            assert_eq!(parked.refused(), (409, "parked".into()));
        }
    }
    assert_eq!(lab.ask("POST", "/v1/actors/runtime/stop", Value::Null).await.refused(), (422, "invalid".into()));
    assert_eq!(lab.get("/v1/crashes").await, json!({ "crashes": [] }));
    lab.say("s", "still here").await;
    let drill = json!({ "words": "the words of the drill" });
    assert_eq!(lab.ask("POST", "/v1/actors/s/crash", drill).await.status, 204);
    lab.say("s", "and again").await;
    let crashes = lab.get("/v1/crashes").await["crashes"].clone();
    assert_eq!(crashes[0]["path"], "runtime/sessions/s", "{crashes}");
    assert_eq!(crashes[0]["reason"]["detail"]["text"], "the words of the drill", "{crashes}");
    assert_eq!(lab.get("/v1/actors/s").await["crashes"], crashes);
    assert_eq!(lab.post("/v1/drain", json!({ "deadline_ms": 1000 })).await, json!({ "left": [] }));
    let ready = lab.ask("GET", "/readyz", Value::Null).await;
    assert_eq!((ready.status, ready.json()), (503, json!({ "status": "draining" })));
    assert_eq!(lab.get("/v1").await["draining"], json!(true));
    assert_eq!(lab.ask("POST", "/v1/sessions", json!({})).await.refused(), (503, "closed".into()));
    lab.end().await;
}

/// Each path refuses what it cannot read, with a typed error, and nothing changes.
#[tokio::test]
async fn wrong_input_is_refused_with_a_typed_error() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let long = "x".repeat(257);
    let at_long = format!("/v1/sessions/s/messages/{long}");
    let invalid = [
        ("POST", "/v1/sessions", json!({ "nonsense": 1 })),
        ("POST", "/v1/sessions", json!({ "id": "../etc" })),
        ("POST", "/v1/sessions", json!({ "labels": { "Bad": "x" } })),
        ("POST", "/v1/sessions", json!({ "agent": "nobody" })),
        ("POST", "/v1/sessions", json!({ "model": "no-slash" })),
        ("POST", "/v1/sessions", json!({ "prompt": {} })),
        ("POST", "/v1/sessions", json!([])),
        ("GET", "/v1/sessions?limit=many", Value::Null),
        ("GET", "/v1/sessions?after=nowhere", Value::Null),
        ("GET", "/v1/sessions?status=odd", Value::Null),
        ("GET", "/v1/sessions?odd=1", Value::Null),
        ("GET", "/v1/sessions?limit=1&limit=2", Value::Null),
        ("POST", "/v1/sessions/s/messages", json!({})),
        ("POST", "/v1/sessions/s/messages", json!({ "text": "" })),
        ("POST", "/v1/sessions/s/messages", json!({ "text": "x", "parts": [] })),
        ("POST", "/v1/sessions/s/messages", json!({ "text": "x", "id": "" })),
        ("POST", "/v1/sessions/s/messages", json!({ "text": "x", "id": long })),
        ("POST", "/v1/sessions/s/messages", json!({ "text": "x", "id": "a\0b" })),
        ("GET", &at_long, Value::Null),
        ("GET", "/v1/sessions/s/messages/a%00b", Value::Null),
        ("POST", "/v1/sessions/s/messages", json!({ "text": "x", "delivery": "stear" })),
        ("POST", "/v1/sessions/s/messages", json!({ "text": "x", "steering": "skip_remaining" })),
        ("POST", "/v1/sessions/s/messages", json!({ "text": "x", "delivery": "steer", "steering": "odd" })),
        ("POST", "/v1/sessions/s/messages", json!({ "text": "x", "when_room": true, "expect_turn": 1 })),
        ("POST", "/v1/sessions/s/messages", json!({ "parts": [{ "type": "step-start" }] })),
        ("GET", "/v1/sessions/s/messages?before=x", Value::Null),
        ("PATCH", "/v1/sessions/s/queue/x", json!({ "text": "x", "delivery": "queue" })),
        ("PATCH", "/v1/sessions/s", json!({ "labels": { "": "x" } })),
        ("POST", "/v1/sessions/s/abort", json!({ "why": "x" })),
        ("POST", "/v1/sessions/s/pause", json!({ "x": 1 })),
        ("POST", "/v1/sessions/s/fork", json!({ "id": "a/b" })),
        ("POST", "/v1/sessions/s/rollback", json!({})),
        ("PATCH", "/v1/sessions/s/budget", json!({ "session": { "usd": 1 } })),
        ("GET", "/v1/search?order=odd&q=x", Value::Null),
        ("GET", "/v1/search", Value::Null),
        ("GET", "/v1/sessions/s/events?after=1.2.3", Value::Null),
        ("GET", "/v1/sessions/s/events?deltas=no", Value::Null),
        ("GET", "/v1/tree/events?x=1", Value::Null),
        ("POST", "/v1/drain", json!({ "deadline_ms": -1 })),
    ];
    for (method, path, body) in invalid {
        let answer = lab.ask(method, path, body.clone()).await;
        assert_eq!(answer.refused(), (422, "invalid".into()), "{method} {path} {body}");
    }
    assert_eq!(
        lab.ask("POST", "/v1/actors/s/crash", Value::Null).await.refused(),
        (403, "forbidden".into()),
        "no drills"
    );
    for (method, path) in [
        ("GET", "/v1/sessions/none"),
        ("DELETE", "/v1/sessions/none"),
        ("GET", "/v1/sessions/none/messages"),
        ("GET", "/v1/sessions/none/queue"),
        ("POST", "/v1/sessions/none/abort"),
        ("GET", "/v1/sessions/none/events"),
        ("GET", "/v1/sessions/none/events?after=0"),
        ("GET", "/v1/sessions/none/asks"),
        ("GET", "/v1/sessions/none/export"),
        ("POST", "/v1/sessions/none/fork"),
        ("GET", "/v1/sessions/s/tasks/7"),
        ("DELETE", "/v1/sessions/s/grants/x"),
        ("POST", "/v1/actors/none/stop"),
        ("GET", "/v1/none"),
        ("GET", "/none"),
        ("GET", "/page/..%2Findex.html"),
        ("GET", "/page/none.js"),
    ] {
        assert_eq!(lab.ask(method, path, Value::Null).await.refused(), (404, "not_found".into()), "{method} {path}");
    }
    assert_eq!(lab.ask("PUT", "/v1/sessions/s", Value::Null).await.refused(), (405, "method_not_allowed".into()));
    assert_eq!(lab.get("/v1/sessions/s/messages").await["messages"], json!([]), "nothing was taken");
    lab.end().await;
}

/// A-09, RPC-001, 002, 003, 004, 005, 006, 007, 008: a client makes a session, sends, follows, and aborts, over plain HTTP; each wrong
/// request has its own typed error.
#[tokio::test]
async fn a_request_is_answered_by_its_result_or_by_a_typed_error() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    let path = "/v1/sessions/s/messages";
    // RPC-001: a valid request is carried out; RPC-005: its id is in the answer.
    let sent = lab.ask("POST", path, json!({ "id": "42", "text": "hello" })).await;
    assert_eq!((sent.status, &sent.json()["message"]), (202, &json!("42")));
    // RPC-003: the echo.
    let finished = events.until("turn_finished").await;
    assert_eq!((&finished["text"], &finished["messages"]), (&json!("echo: hello"), &json!(["42"])));
    // RPC-002: no JSON.
    let raw = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 8\r\nconnection: close\r\n\r\nnot JSON",
        lab.at
    );
    assert_eq!(lab.raw(raw.as_bytes()).await.refused(), (400, "malformed".into()));
    // RPC-004: nothing is called so, or takes that method.
    assert_eq!(lab.ask("POST", "/v1/sessions/s/chat", json!({})).await.refused(), (404, "not_found".into()));
    assert_eq!(lab.ask("PUT", path, json!({})).await.refused(), (405, "method_not_allowed".into()));
    // RPC-006: the version of the interface is in the path, and a request without it is none.
    assert_eq!(
        lab.ask("POST", "/sessions/s/messages", json!({ "text": "x" })).await.refused(),
        (404, "not_found".into())
    );
    // RPC-007: a handler that panics is an error of its own call, and of nothing else.
    lab.post(path, json!({ "text": "boom" })).await;
    let boom = events.until("call_finished").await;
    assert_eq!((&boom["name"], boom["error"].is_string()), (&json!("boom"), true), "{boom}");
    assert_eq!(events.until("turn_finished").await["outcome"], "done");
    assert_eq!(lab.get("/v1/crashes").await["crashes"], json!([]));
    // RPC-008: attachments are in the conversation as they were sent.
    let file = |name: &str| json!({ "type": "file", "mime": "text/markdown", "filename": name, "url": "data:text/markdown;base64,SGk=" });
    let parts = json!([{ "type": "text", "text": "read these" }, file("file1.md"), file("file2.md")]);
    lab.post(path, json!({ "id": "with files", "parts": parts })).await;
    let turn = events.until("turn_finished").await;
    assert_eq!(turn["messages"], json!(["with files"]));
    let page = lab.get(path).await["messages"].clone();
    let sent = page.as_array().unwrap().iter().find(|message| message["id"] == "with files").unwrap();
    let names: Vec<_> = sent["parts"].as_array().unwrap().iter().filter_map(|part| part["filename"].as_str()).collect();
    assert_eq!(names, ["file1.md", "file2.md"]);
    // and an abort ends what runs.
    lab.post(path, json!({ "text": "hang" })).await;
    events.until("step_started").await;
    assert_eq!(lab.post("/v1/sessions/s/abort", json!({})).await, json!({ "recorded": true }));
    assert_eq!(events.until("turn_finished").await["outcome"], "aborted");
    lab.end().await;
}

/// What waits, and what is asked, can be looked at one by one; a list in the place of an object is refused at any depth; and a session
/// that has ended says so, which no second try changes.
#[tokio::test]
async fn one_of_what_waits_is_shown_and_what_has_ended_says_so() {
    let lab = Lab::new().await;
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    lab.post("/v1/sessions/s/messages", json!({ "text": "note milk" })).await;
    let ask = events.until("ask").await["ask"].clone();
    lab.post("/v1/sessions/s/messages", json!({ "id": "later", "text": "more" })).await;
    let all = lab.get("/v1/sessions/s/asks").await;
    assert_eq!(lab.get(&format!("/v1/sessions/s/asks/{ask}")).await, all["asks"][0]);
    let waits = lab.get("/v1/sessions/s/queue").await;
    assert_eq!(lab.get("/v1/sessions/s/queue/later").await, waits["waiting"][0]);
    for missing in ["/v1/sessions/s/asks/9999", "/v1/sessions/s/asks/x", "/v1/sessions/s/queue/never"] {
        assert_eq!(lab.ask("GET", missing, Value::Null).await.refused(), (404, "not_found".into()), "{missing}");
    }
    let lists = [
        ("POST", "/v1/sessions", json!({ "budget": [null, null] })),
        ("POST", "/v1/sessions", json!({ "prompt": ["m", "words"] })),
        ("POST", "/v1/sessions/s/messages", json!({ "parts": [["text", "words"]] })),
        ("PATCH", "/v1/sessions/s/budget", json!({ "turn": [1] })),
        ("POST", &format!("/v1/sessions/s/asks/{ask}"), json!({ "grant": "raise", "by": [1] })),
    ];
    for (method, path, body) in lists {
        let answer = lab.ask(method, path, body.clone()).await;
        assert_eq!(answer.refused(), (422, "invalid".into()), "{method} {path} {body}");
    }
    lab.ask("POST", "/v1/sessions/s/end", json!({ "reason": "enough" })).await.ok();
    for (path, body) in [
        ("messages", json!({ "text": "x" })),
        ("undo", Value::Null),
        ("tasks", json!({ "prompt": "x" })),
        ("command", json!({ "line": "/undo" })),
    ] {
        let answer = lab.ask("POST", &format!("/v1/sessions/s/{path}"), body).await;
        assert_eq!(answer.refused(), (409, "ended".into()), "{path}");
    }
    lab.end().await;
}

/// The document of the interface needs no token, and is that of the crate.
#[tokio::test]
async fn the_document_of_the_interface_is_open() {
    let lab = Lab::with(|options| options.token("t0ken")).await;
    assert_eq!(lab.get("/openapi.json").await, tamtam_server::openapi());
    assert_eq!(lab.ask("GET", "/v1", Value::Null).await.refused(), (401, "unauthorized".into()));
    lab.end().await;
}

/// A server alone says how it would be one of several; and how far its messages came.
#[tokio::test]
async fn a_server_alone_shows_no_other_nodes_and_how_far_its_messages_came() {
    let lab = Lab::new().await;
    let alone = lab.ask("GET", "/v1/cluster", Value::Null).await;
    assert_eq!(alone.refused(), (404, "not_found".into()));
    assert!(alone.json()["detail"].as_str().unwrap().contains("tamtam serve --postgres"), "{alone:?}");
    lab.session("s").await;
    let mut events = lab.events("/v1/sessions/s/events", "").await;
    let stage = async |id: &str| lab.ask("GET", &format!("/v1/sessions/s/messages/{id}"), Value::Null).await;
    lab.post("/v1/sessions/s/messages", json!({ "id": "m1", "text": "gate" })).await;
    lab.gate.entered.notified().await;
    lab.post("/v1/sessions/s/messages", json!({ "id": "m2", "text": "hello" })).await;
    assert_eq!(stage("m1").await.json()["stage"], "running");
    assert_eq!(stage("m2").await.json(), json!({ "stage": "waiting", "on_hold": false }));
    lab.gate.open();
    for _ in 0..2 {
        events.until("turn_finished").await;
    }
    let over = stage("m2").await.json();
    assert_eq!(
        (&over["stage"], &over["outcome"], &over["text"]),
        (&json!("over"), &json!("done"), &json!("echo: hello"))
    );
    assert_eq!(stage("nobody").await.refused(), (404, "not_found".into()));
    lab.end().await;
}
