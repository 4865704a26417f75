//! A client that means harm: each thing that it does is a typed error, and the next honest request is answered.

use serde_json::{Value, json};

use crate::lab::{Lab, options, said};

#[tokio::test(flavor = "multi_thread")]
async fn bad_lines_are_refused_one_by_one() {
    let lab = Lab::new().await;
    let mut short = options();
    short.line_bytes_max = 10_000;
    let mut client = lab.client_with(short, json!({})).await;
    let deep = "[".repeat(9_000);
    let long = format!("\"{}\"", "x".repeat(50_000));
    for (line, code) in [
        ("{", -32_700),
        ("\u{0}\u{1}", -32_700),
        (deep.as_str(), -32_700),
        ("[]", -32_600),
        ("{}", -32_600),
        (long.as_str(), -32_600),
    ] {
        client.line(line).await;
        let refused = client.wait_for(|frame| frame["error"].is_object()).await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(code)), "{refused}");
        let is_over = refused["error"]["message"].as_str().unwrap().contains("more than 10000 bytes");
        assert_eq!(is_over, line.len() > 10_000, "{refused}");
    }
    client.line(b"\xff\xfe").await;
    assert_eq!(client.wait_for(|frame| frame["error"].is_object()).await["error"]["code"], -32_700);
    let session = client.new_session(&lab.work()).await;
    for (method, params, code) in [
        ("session/nothing", json!({}), -32_601),
        ("_tamtam/nothing", json!({}), -32_601),
        ("session/prompt", json!({ "sessionId": session }), -32_602),
        ("session/prompt", json!({ "sessionId": session, "prompt": "text" }), -32_602),
        ("session/prompt", json!({ "sessionId": session, "prompt": [{ "type": "dance" }] }), -32_602),
        ("session/prompt", said("../../etc", "x"), -32_602),
        ("session/load", json!({ "sessionId": "no-such", "cwd": lab.work(), "mcpServers": [] }), -32_002),
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] }), -32_602),
        ("session/set_mode", json!({ "sessionId": session, "modeId": 7 }), -32_602),
        ("initialize", json!({ "protocolVersion": 1 }), -32_600),
        ("authenticate", json!({ "methodId": "magic" }), -32_602),
    ] {
        let refused = client.ask(method, params).await.unwrap_err();
        assert_eq!(refused["code"], code, "{method}: {refused}");
    }
    let prompt = client.prompt(&session, "hello").await;
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "end_turn");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_answered_before_hello() {
    let lab = Lab::new().await;
    let mut client = lab.stranger(options());
    for method in ["session/new", "session/prompt", "session/list", "_session/steering", "_tamtam/tree"] {
        let refused = client.ask(method, json!({ "sessionId": "x", "prompt": [] })).await.unwrap_err();
        assert_eq!(refused["code"], -32_600, "{method}: {refused}");
    }
    lab.end().await;
}

/// Answers that are for another ask, made up, or come twice decide nothing; the honest one does.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_decides_only_the_question_that_it_was_shown() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let (one, two) = (client.new_session(&lab.work()).await, client.new_session(&lab.work()).await);
    let first = client.prompt(&one, "outside").await;
    let asked = client.asked("session/request_permission").await;
    let second = client.prompt(&two, "write two").await;
    let other = client.asked("session/request_permission").await;
    let option = |asked: &Value| asked["params"]["options"][0]["optionId"].clone();
    // An option of another session's question where the numbers differ; one that nobody offered; no option at all.
    let made_up = json!({ "outcome": { "outcome": "selected", "optionId": "999:once" } });
    client.line(json!({ "jsonrpc": "2.0", "id": 4_711, "result": made_up }).to_string()).await;
    client.reply(&asked, made_up).await;
    let again = client.asked("session/request_permission").await;
    assert_eq!(again["params"], asked["params"], "it is asked again");
    client.reply(&again, json!({ "outcome": { "outcome": "selected" } })).await;
    let again = client.asked("session/request_permission").await;
    assert!(!lab.folder.path().join("outside.txt").exists());
    client.choose(&again, ":no").await;
    // Too late, and twice.
    client.choose(&asked, ":once").await;
    client.choose(&again, ":once").await;
    assert_eq!(client.answer(first).await.unwrap()["stopReason"], "end_turn");
    assert!(!lab.folder.path().join("outside.txt").exists());
    client.reply(&other, json!({ "outcome": { "outcome": "selected", "optionId": option(&other) } })).await;
    assert_eq!(client.answer(second).await.unwrap()["stopReason"], "end_turn");
    lab.end().await;
}

/// A client that never gives an answer that is one is asked three times; the ask stays open for others.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_answers_nonsense_leaves_the_ask_open() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    client.prompt(&session, "write x").await;
    for _ in 0..3 {
        let asked = client.asked("session/request_permission").await;
        client.reply(&asked, json!("yes")).await;
    }
    client.ask("_tamtam/queue", json!({ "sessionId": session })).await.unwrap();
    let handle = lab.runtime.session(&session.parse().unwrap());
    assert_eq!(handle.state().await.unwrap().asks().count(), 1);
    assert!(!lab.work().join("a.txt").exists());
    handle.abort("enough").await.unwrap();
    lab.end().await;
}

/// Ten sessions work at once; more requests and more sessions than the bounds allow are refused, and the others are served.
#[tokio::test(flavor = "multi_thread")]
async fn floods_are_bounded() {
    let lab = Lab::new().await;
    let mut tight = options();
    (tight.requests_max, tight.sessions_max) = (12, 10);
    let mut client = lab.client_with(tight, json!({})).await;
    let mut sessions = Vec::new();
    for _ in 0..10 {
        sessions.push(client.new_session(&lab.work()).await);
    }
    let one_more = client.ask("session/new", json!({ "cwd": lab.work(), "mcpServers": [] })).await.unwrap_err();
    assert_eq!(one_more["data"]["kind"], "limit");
    let listed = client.ask("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 10, "none was made that nobody holds");
    let mut prompts = Vec::new();
    for session in &sessions {
        prompts.push(client.prompt(session, "hang").await);
    }
    for session in &sessions {
        client.update(|update| update["_meta"]["tamtam"]["receipt"]["state"] == "delivered").await;
        let _ = session;
    }
    let same = json!({ "jsonrpc": "2.0", "id": prompts[0], "method": "session/list", "params": {} });
    client.line(same.to_string()).await;
    let refused = client.wait_for(|frame| frame["id"] == prompts[0]).await;
    assert_eq!(refused["error"]["code"], -32_600, "{refused}");
    // Two of the twelve are free.
    let two = (client.prompt(&sessions[0], "a").await, client.prompt(&sessions[0], "b").await);
    let third = client.prompt(&sessions[0], "c").await;
    assert_eq!(client.answer(third).await.unwrap_err()["data"]["kind"], "limit");
    for session in &sessions {
        client.tell("session/cancel", json!({ "sessionId": session })).await;
    }
    for prompt in prompts.into_iter().chain([two.0, two.1]) {
        assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "cancelled");
    }
    client.ask("session/list", json!({})).await.unwrap();
    lab.end().await;
}

/// Unknown notifications, answers to nothing and a thousand cancels change nothing.
#[tokio::test(flavor = "multi_thread")]
async fn noise_changes_nothing() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    for n in 0..300 {
        client.tell("$/nothing", json!({})).await;
        client.tell("$/cancel_request", json!({ "requestId": n + 1_000 })).await;
        client.tell("session/cancel", json!({ "sessionId": "nobody" })).await;
        client.line(json!({ "jsonrpc": "2.0", "id": n, "result": {} }).to_string()).await;
    }
    let prompt = client.prompt(&session, "hello").await;
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "end_turn");
    lab.end().await;
}
