//! What a person chooses, lists and throws away; branches, budgets, the tree.

use std::path::Path;

use serde_json::{Value, json};
use tamtam::SessionOptions;
use tamtam_acp::AcpOptions;

use crate::lab::{Lab, options};

fn current(options: &Value, id: &str) -> Value {
    let option = options.as_array().unwrap().iter().find(|option| option["id"] == id).unwrap();
    option["currentValue"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_model_and_permission_are_chosen() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let made = client.ask("session/new", json!({ "cwd": lab.work(), "mcpServers": [] })).await.unwrap();
    let session = made["sessionId"].as_str().unwrap();
    assert_eq!(current(&made["configOptions"], "permission"), "own");
    client.ask("session/set_mode", json!({ "sessionId": session, "modeId": "plan" })).await.unwrap();
    let mode = client.update(|update| update["sessionUpdate"] == "current_mode_update").await;
    assert_eq!(mode["currentModeId"], "plan");
    let shown = client.update(|update| update["sessionUpdate"] == "config_option_update").await;
    assert_eq!(current(&shown["configOptions"], "mode"), "plan");
    let set = |id: &str, value: &str| json!({ "sessionId": session, "configId": id, "value": value });
    let chosen = client.ask("session/set_config_option", set("mode", "build")).await.unwrap();
    assert_eq!(current(&chosen["configOptions"], "mode"), "build");
    let chosen = client.ask("session/set_config_option", set("permission", "readonly")).await.unwrap();
    assert_eq!(current(&chosen["configOptions"], "permission"), "readonly");
    let prompt = client.prompt(session, "write no").await;
    client.answer(prompt).await.unwrap();
    assert!(!lab.work().join("a.txt").exists(), "the profile denies it, and nobody is asked");
    for (id, value) in [("mode", "explore"), ("model", "no/such"), ("permission", "headless"), ("colour", "red")] {
        let fault = client.ask("session/set_config_option", set(id, value)).await.unwrap_err();
        assert_eq!(fault["code"], -32_602, "{id}: {fault}");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_chosen_has_no_chain_of_another() {
    let lab = Lab::new().await;
    let make = |folder: &Path| Ok(SessionOptions::new(folder).fallback(vec!["local/behind".parse().unwrap()]));
    let mut acp = AcpOptions::default().new_session(make);
    acp.models = vec!["local/other".parse().unwrap()];
    let mut client = lab.client_with(acp, json!({})).await;
    let session = client.new_session(&lab.work()).await;
    let handle = lab.runtime.session(&session.parse().unwrap());
    let chain = async || handle.state().await.unwrap().settings.fallback.len();
    assert_eq!(chain().await, 1);
    let set = json!({ "sessionId": session, "configId": "model", "value": "local/other" });
    client.ask("session/set_config_option", set).await.unwrap();
    assert_eq!(chain().await, 0, "it stood behind the model before");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_closed_and_deleted() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let prompt = client.prompt(&session, "hello there").await;
    client.answer(prompt).await.unwrap();
    let running = client.prompt(&session, "hang").await;
    let listed = client.ask("session/list", json!({ "cwd": lab.work() })).await.unwrap();
    assert_eq!(
        (&listed["sessions"][0]["sessionId"], &listed["sessions"][0]["title"]),
        (&json!(session), &json!("hello there"))
    );
    assert!(listed["sessions"][0]["updatedAt"].as_str().unwrap().ends_with('Z'), "{listed}");
    let elsewhere = client.ask("session/list", json!({ "cwd": "/nowhere" })).await.unwrap();
    assert_eq!(elsewhere["sessions"], json!([]));
    let named = json!({ "sessionId": session });
    client.ask("session/close", named.clone()).await.unwrap();
    assert_eq!(client.answer(running).await.unwrap()["stopReason"], "cancelled");
    let closed = client.ask("session/prompt", crate::lab::said(&session, "x")).await.unwrap_err();
    assert_eq!((&closed["code"], &closed["data"]["kind"]), (&json!(-32_002), &json!("not_found")));
    client.ask("session/delete", named.clone()).await.unwrap();
    client.ask("session/delete", named).await.unwrap();
    let load = json!({ "sessionId": session, "cwd": lab.work(), "mcpServers": [] });
    assert_eq!(client.ask("session/load", load).await.unwrap_err()["code"], -32_002);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_forked_and_goes_back_and_has_a_budget() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    for words in ["one", "two"] {
        let prompt = client.prompt(&session, words).await;
        client.answer(prompt).await.unwrap();
    }
    let forked = client.ask("_tamtam/fork", json!({ "sessionId": session })).await.unwrap();
    let back = client.ask("_tamtam/rollback", json!({ "sessionId": session })).await.unwrap();
    assert_eq!(back["gone"].as_array().unwrap().len(), 1, "{back}");
    client.updates("user_message_chunk");
    let load = |id: &Value| json!({ "sessionId": id, "cwd": lab.work(), "mcpServers": [] });
    client.ask("session/load", load(&json!(session))).await.unwrap();
    assert_eq!(client.text("user_message_chunk"), "one");
    client.ask("session/load", load(&forked["sessionId"])).await.unwrap();
    assert_eq!(client.text("user_message_chunk"), "onetwo");
    let two = json!({ "sessionId": session, "seq": 1, "beforeTurn": 1 });
    assert_eq!(client.ask("_tamtam/fork", two).await.unwrap_err()["code"], -32_602);
    let budget = client.ask("_tamtam/budget", json!({ "sessionId": session, "tokens": 7 })).await.unwrap();
    assert_eq!(budget["limits"]["tokens"], 7, "{budget}");
    let tree = client.ask("_tamtam/tree", json!({})).await.unwrap();
    assert!(tree["text"].as_str().unwrap().contains(&session), "{tree}");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_lets_nobody_choose_says_so() {
    let lab = Lab::new().await;
    let mut client = lab.client_with(AcpOptions::default(), json!({})).await;
    let refused = client.ask("session/new", json!({ "cwd": lab.work(), "mcpServers": [] })).await.unwrap_err();
    assert_eq!(refused["data"]["kind"], "forbidden", "{refused}");
    let mut client = lab.client_with(options(), json!({})).await;
    let server = json!({ "name": "files", "command": "/bin/true", "args": [], "env": [] });
    let with = json!({ "cwd": lab.work(), "mcpServers": [server] });
    let refused = client.ask("session/new", with).await.unwrap_err();
    assert_eq!(refused["data"]["kind"], "forbidden", "{refused}");
    lab.end().await;
}

/// An editor asks its user for a key by the code, and shows the text.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_every_request_says_what_is_missing() {
    let lab = Lab::new().await;
    let mut client = lab.client_with(options().no_key("set OPENAI_API_KEY"), json!({})).await;
    let new = json!({ "cwd": lab.work(), "mcpServers": [] });
    let wanted = json!({ "code": -32_000, "message": "set OPENAI_API_KEY", "data": { "kind": "auth_required" } });
    for (method, params) in [
        ("session/new", new),
        ("session/list", json!({})),
        ("session/prompt", crate::lab::said("s", "x")),
        ("authenticate", json!({ "methodId": "environment" })),
    ] {
        assert_eq!(client.ask(method, params).await.unwrap_err(), wanted, "{method}");
    }
    lab.end().await;
}

/// A host gets the servers that a client names, and a session has none of those that are no programs.
#[tokio::test(flavor = "multi_thread")]
async fn servers_of_tools_are_handed_to_the_host() {
    let lab = Lab::new().await;
    let (seen, mut handed) = tokio::sync::mpsc::unbounded_channel();
    let options = options().tool_servers(move |servers| {
        let seen = seen.clone();
        async move {
            seen.send(servers).unwrap();
            Ok(())
        }
    });
    let mut client = lab.client_with(options, json!({})).await;
    let env = json!([{ "name": "A", "value": "b" }]);
    let server = json!({ "name": "files", "command": "/bin/true", "args": ["x"], "env": env });
    client.ask("session/new", json!({ "cwd": lab.work(), "mcpServers": [server] })).await.unwrap();
    let handed = handed.recv().await.unwrap().pop().unwrap();
    assert_eq!((handed.name.as_str(), handed.command.as_str()), ("files", "/bin/true"));
    assert_eq!((handed.arguments, handed.environment), (vec!["x".into()], vec![("A".into(), "b".into())]));
    assert_eq!(handed.folder, lab.work());
    let far = json!({ "type": "http", "name": "far", "url": "http://127.0.0.1:1", "headers": [] });
    let refused = client.ask("session/new", json!({ "cwd": lab.work(), "mcpServers": [far] })).await.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("http"), "{refused}");
    lab.end().await;
}
