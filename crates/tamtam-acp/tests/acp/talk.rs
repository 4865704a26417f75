//! From the first line to an answer: hello, a session, a prompt, its updates, its permission, its cancel.

use serde_json::{Value, json};

use crate::lab::{Lab, options};

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_answered_when_all_of_its_turn_was_shown() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let prompt = client.prompt(&session, "hello").await;
    let answer = client.answer(prompt).await.unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(answer["_meta"]["tamtam"]["turn"]["outcome"]["outcome"], "done", "{answer}");
    // All of it came before the answer, so it is here now.
    assert_eq!(client.text("agent_thought_chunk"), "Hm.");
    assert_eq!(client.text("agent_message_chunk"), "You said: hello");
    assert_eq!(client.updates("user_message_chunk"), Vec::<Value>::new(), "the client shows its own words itself");
    let usage = client.updates("usage_update").pop().unwrap();
    assert!(usage["used"].as_u64().unwrap() > 0 && usage["size"].as_u64() > usage["used"].as_u64(), "{usage}");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_needs_a_yes_is_asked_about_with_its_change_and_runs() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let prompt = client.prompt(&session, "write hello").await;
    let asked = client.asked("session/request_permission").await;
    let call = &asked["params"]["toolCall"];
    let path = lab.work().join("a.txt");
    assert_eq!((&call["title"], &call["kind"]), (&json!("Write a.txt"), &json!("edit")));
    assert_eq!(call["content"], json!([{ "type": "diff", "path": path, "oldText": null, "newText": "hello" }]));
    let kinds: Vec<_> = asked["params"]["options"].as_array().unwrap().iter().map(|one| one["kind"].clone()).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once", "reject_once"]);
    let shown = client.update(|update| update["sessionUpdate"] == "tool_call").await;
    assert_eq!((&shown["toolCallId"], &shown["status"]), (&call["toolCallId"], &json!("pending")));
    assert!(!path.exists());
    client.choose(&asked, ":once").await;
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "hello");
    let states: Vec<_> = client.updates("tool_call_update").iter().map(|update| update["status"].clone()).collect();
    assert_eq!(states.iter().filter(|state| !state.is_null()).collect::<Vec<_>>(), ["in_progress", "completed"]);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_is_told_to_the_model_and_a_stop_ends_the_turn() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    for (choice, ends, says) in [(":no", "end_turn", "All done."), (":stop", "cancelled", "")] {
        let prompt = client.prompt(&session, "write no").await;
        let asked = client.asked("session/request_permission").await;
        client.choose(&asked, choice).await;
        assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], ends);
        assert_eq!(client.text("agent_message_chunk"), format!("I write.{says}"));
        let over = client.updates("tool_call_update").pop().unwrap();
        assert_eq!((&over["status"], &over["_meta"]["tamtam"]["error"]), (&json!("failed"), &json!("denied")));
        assert!(!lab.work().join("a.txt").exists());
    }
    lab.end().await;
}

/// A cancel reaches a prompt that runs, one that waits, and one whose line was read a moment ago.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_running_turn_and_takes_back_what_waits() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let running = client.prompt(&session, "gate").await;
    lab.gate.entered.notified().await;
    let waiting = client.prompt(&session, "waits").await;
    client.update(|update| update["_meta"]["tamtam"]["receipt"]["state"] == "queued").await;
    client.tell("session/cancel", json!({ "sessionId": session })).await;
    for prompt in [running, waiting] {
        assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "cancelled");
    }
    let late = client.prompt(&session, "late").await;
    client.tell("session/cancel", json!({ "sessionId": session })).await;
    let late = client.answer(late).await.unwrap();
    // Where it was over already there was nothing to cancel.
    assert!(["cancelled", "end_turn"].contains(&late["stopReason"].as_str().unwrap()), "{late}");
    let queue = client.ask("_tamtam/queue", json!({ "sessionId": session })).await.unwrap();
    assert_eq!(queue["waiting"], json!([]));
    lab.end().await;
}

/// A cancel is for what came before it: the prompt of the next line has its turn, however the two meet.
#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_behind_a_cancel_has_its_turn() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    for round in 0..20 {
        let first = client.prompt(&session, "hang").await;
        if round % 2 == 0 {
            client.update(|update| update["_meta"]["tamtam"]["receipt"]["state"] == "delivered").await;
        }
        client.tell("session/cancel", json!({ "sessionId": session })).await;
        let second = client.prompt(&session, "hello").await;
        assert_eq!(client.answer(first).await.unwrap()["stopReason"], "cancelled", "round {round}");
        let second = client.answer(second).await;
        assert_eq!(second.as_ref().map(|answer| &answer["stopReason"]), Ok(&json!("end_turn")), "round {round}");
    }
    lab.end().await;
}

/// A request that records something is carried out, whatever the client cancels: its answer says what was done.
#[tokio::test(flavor = "multi_thread")]
async fn a_steering_message_that_is_cancelled_says_what_became_of_it() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let prompt = client.prompt(&session, "gate").await;
    lab.gate.entered.notified().await;
    let steered = client
        .send(
            "_session/steering",
            json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "look there" }] }),
        )
        .await;
    client.tell("$/cancel_request", json!({ "requestId": steered })).await;
    let steered = client.answer(steered).await.unwrap();
    assert_eq!(steered["outcome"], "injected", "{steered}");
    lab.gate.open.notify_one();
    client.answer(prompt).await.unwrap();
    lab.end().await;
}

/// A steering message that begins a turn is what a cancel behind it is for, at whatever moment the two meet.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_behind_a_steering_message_ends_what_it_began() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    for round in 0..20 {
        let words = json!([{ "type": "text", "text": "hang" }]);
        let steered = client.send("_session/steering", json!({ "sessionId": session, "prompt": words })).await;
        client.tell("session/cancel", json!({ "sessionId": session })).await;
        let outcome = client.answer(steered).await.unwrap()["outcome"].clone();
        assert!(
            ["failed", "injected", "startedNewTurn"].contains(&outcome.as_str().unwrap()),
            "round {round}: {outcome}"
        );
        // A turn that hangs on would keep it waiting.
        let next = client.prompt(&session, "hello").await;
        assert_eq!(client.answer(next).await.unwrap()["stopReason"], "end_turn", "round {round}");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_cancelled_ends_alone() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let other = client.new_session(&lab.work()).await;
    let (hangs, writes) = (client.prompt(&session, "hang").await, client.prompt(&other, "write x").await);
    let asked = client.asked("session/request_permission").await;
    client.tell("$/cancel_request", json!({ "requestId": hangs })).await;
    assert_eq!(client.answer(hangs).await.unwrap()["stopReason"], "cancelled");
    client.choose(&asked, ":once").await;
    assert_eq!(client.answer(writes).await.unwrap()["stopReason"], "end_turn");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_a_form_where_the_client_shows_forms() {
    let lab = Lab::new().await;
    let mut plain = lab.client().await;
    let session = plain.new_session(&lab.work()).await;
    let prompt = plain.prompt(&session, "question").await;
    let asked = plain.asked("session/request_permission").await;
    assert_eq!(asked["params"]["toolCall"]["title"], "Go on?");
    plain.choose(&asked, ":once").await;
    plain.answer(prompt).await.unwrap();

    let mut client = lab.client_with(options(), json!({ "elicitation": { "form": {} } })).await;
    let session = client.new_session(&lab.work()).await;
    let prompt = client.prompt(&session, "question").await;
    let asked = client.asked("elicitation/create").await;
    assert_eq!(
        (&asked["params"]["mode"], &asked["params"]["message"]),
        (&json!("form"), &json!("Go on?\n\nIt takes long."))
    );
    client.reply(&asked, json!({ "action": "accept", "content": { "answer": "no", "words": "Not today." } })).await;
    client.answer(prompt).await.unwrap();
    let over = client.updates("tool_call_update").pop().unwrap();
    assert_eq!(over["content"][0]["content"]["text"], "The user said no, and says: Not today.");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_to_do_list_is_the_plan_and_a_failure_is_told() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let prompt = client.prompt(&session, "todo").await;
    client.answer(prompt).await.unwrap();
    let plan = client.updates("plan").pop().unwrap();
    assert_eq!(plan["entries"], json!([{ "content": "one", "priority": "medium", "status": "pending" }]));
    let prompt = client.prompt(&session, "fail").await;
    let error = client.answer(prompt).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32_603), &json!("turn_failed")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("no such key"), "{error}");
    let notice = client.updates("notice").pop().unwrap();
    assert_eq!(notice["severity"], "warning");
    lab.end().await;
}
