//! A client that comes back, and several doors to one session.

use serde_json::json;
use tamtam::{Message, SessionOptions, session::Grant};
use tamtam_acp::AcpOptions;

use crate::lab::{Lab, rules};

/// The past is told whole, in order, and once.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_loaded_is_shown_from_its_beginning() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    for words in ["hello", "read it", "todo"] {
        let prompt = client.prompt(&session, words).await;
        client.answer(prompt).await.unwrap();
    }
    client.die().await;
    let lab = lab.restarted().await;
    let mut client = lab.client().await;
    let load = json!({ "sessionId": session, "cwd": lab.work(), "mcpServers": [] });
    let loaded = client.ask("session/load", load.clone()).await.unwrap();
    assert_eq!(loaded["modes"]["currentModeId"], "build");
    assert_eq!(client.text("user_message_chunk"), "helloread ittodo");
    assert_eq!(client.text("agent_message_chunk"), "You said: helloAll done.All done.");
    let calls = client.updates("tool_call_update");
    assert!(calls.iter().all(|call| call["status"] == "completed") && calls.len() == 2, "{calls:?}");
    assert_eq!(client.updates("plan").pop().unwrap()["entries"][0]["content"], "one");
    // Resumed, nothing of it is told; and it goes on.
    let mut other = lab.client().await;
    other.ask("session/resume", load).await.unwrap();
    assert!(other.updates("user_message_chunk").is_empty() && other.updates("tool_call").is_empty());
    let prompt = other.prompt(&session, "again").await;
    assert_eq!(other.answer(prompt).await.unwrap()["stopReason"], "end_turn");
    lab.end().await;
}

/// Loaded again while a prompt is open, a session is shown by one task and not by two, and the prompt is answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_loaded_twice_is_shown_once() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    let prompt = client.prompt(&session, "gate").await;
    lab.gate.entered.notified().await;
    let load = json!({ "sessionId": session, "cwd": lab.work(), "mcpServers": [] });
    client.ask("session/load", load.clone()).await.unwrap();
    client.updates("user_message_chunk");
    lab.gate.open.notify_one();
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "All done.");
    // After the end there is nothing to wait for.
    client.ask("session/load", load).await.unwrap();
    let prompt = client.prompt(&session, "hello").await;
    client.answer(prompt).await.unwrap();
    assert_eq!(client.text("agent_message_chunk"), "All done.You said: hello");
    lab.end().await;
}

/// Who comes in mid-call sees the call, and how it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_runs_is_shown_to_who_comes_later() {
    let lab = Lab::new().await;
    let (mut one, mut two) = (lab.client().await, lab.client().await);
    let session = one.new_session(&lab.work()).await;
    let prompt = one.prompt(&session, "gate").await;
    lab.gate.entered.notified().await;
    two.ask("session/resume", json!({ "sessionId": session, "cwd": lab.work() })).await.unwrap();
    let names: Vec<_> = two.updates("tool_call").iter().map(|call| call["name"].clone()).collect();
    assert_eq!(names, ["gate", "look"]);
    lab.gate.open.notify_one();
    one.answer(prompt).await.unwrap();
    for result in ["opened", "seen"] {
        let over = two.update(|update| update["content"][0]["content"]["text"] == result).await;
        assert_eq!(over["status"], "completed");
    }
    lab.end().await;
}

/// Nothing of a client that has gone is left: it listens no more, so a question that waits for nobody is denied at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_gone_listens_no_more() {
    let lab = Lab::new().await;
    let impatient = AcpOptions::default().new_session(|folder| Ok(SessionOptions::new(folder).rules(rules())));
    let mut client = lab.client_with(impatient, json!({})).await;
    let session = client.new_session(&lab.work()).await;
    client.die().await;
    let handle = lab.runtime.session(&session.parse().unwrap());
    let mut is_heard = true;
    // Its tasks were told to end, and do so in a moment.
    for _ in 0..200 {
        let receipt = handle.prompt("write x").await.unwrap();
        let asked = async {
            while handle.state().await.unwrap().asks().next().is_none() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            answer = receipt.wait() => {
                is_heard = answer.is_err();
                break;
            }
            () = asked => drop(handle.abort("somebody listens").await.unwrap()),
        }
    }
    assert!(!is_heard);
    lab.end().await;
}

/// The client dies over a question, and the agent after it: the next ones have the question, and the call runs once.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_back_gets_its_open_question() {
    let lab = Lab::new().await;
    let mut client = lab.client().await;
    let session = client.new_session(&lab.work()).await;
    client.prompt(&session, "write kept").await;
    let first = client.asked("session/request_permission").await;
    client.die().await;
    let lab = lab.restarted().await;
    let mut client = lab.client().await;
    client.ask("session/load", json!({ "sessionId": session, "cwd": lab.work(), "mcpServers": [] })).await.unwrap();
    let again = client.asked("session/request_permission").await;
    assert_eq!(again["params"]["options"], first["params"]["options"], "it is the same ask");
    let call = client.updates("tool_call").pop().unwrap();
    assert_eq!(call["toolCallId"], again["params"]["toolCall"]["toolCallId"]);
    client.choose(&again, ":once").await;
    client.update(|update| update["content"]["text"] == "done.").await;
    assert_eq!(std::fs::read_to_string(lab.work().join("a.txt")).unwrap(), "kept");
    lab.end().await;
}

/// Two editors and a program hold one session: all see all, and an answered question closes everywhere.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_does_all_see_and_an_answered_question_closes_everywhere() {
    let lab = Lab::new().await;
    let (mut one, mut two) = (lab.client().await, lab.client().await);
    let session = one.new_session(&lab.work()).await;
    two.ask("session/resume", json!({ "sessionId": session, "cwd": lab.work() })).await.unwrap();
    let prompt = one.prompt(&session, "write both").await;
    let (asked, also) = (one.asked("session/request_permission").await, two.asked("session/request_permission").await);
    assert_eq!(two.text("user_message_chunk"), "write both");
    one.choose(&asked, ":once").await;
    let taken_down = two.wait_for(|frame| frame["method"] == "$/cancel_request").await;
    assert_eq!(taken_down["params"]["requestId"], also["id"]);
    // Its answer comes too late, and decides nothing.
    two.choose(&also, ":stop").await;
    assert_eq!(one.answer(prompt).await.unwrap()["stopReason"], "end_turn");

    let handle = lab.runtime.session(&session.parse().unwrap());
    let prompt = one.prompt(&session, "write again").await;
    let asked = one.asked("session/request_permission").await;
    let ask = handle.state().await.unwrap().asks().next().unwrap().0;
    handle.answer(ask, Grant::Once).await.unwrap();
    let taken_down = one.wait_for(|frame| frame["method"] == "$/cancel_request").await;
    assert_eq!(taken_down["params"]["requestId"], asked["id"]);
    one.answer(prompt).await.unwrap();
    handle.prompt(Message::user("from the page")).await.unwrap().wait().await.unwrap();
    one.update(|update| {
        update["sessionUpdate"] == "user_message_chunk" && update["content"]["text"] == "from the page"
    })
    .await;
    lab.end().await;
}

/// A client that does not read holds up nobody; it then has all that is on the tape, and no piece of text twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_has_the_whole_text_in_the_end() {
    let lab = Lab::new().await;
    let mut slow = lab.client().await;
    let session = slow.new_session(&lab.work()).await;
    let prompt = slow.prompt(&session, "flood").await;
    // It reads nothing while three turns of a program pass.
    let handle = lab.runtime.session(&session.parse().unwrap());
    for _ in 0..3 {
        handle.prompt("flood").await.unwrap().wait().await.unwrap();
    }
    slow.answer(prompt).await.unwrap();
    let queue = slow.ask("_tamtam/queue", json!({ "sessionId": session })).await.unwrap();
    assert_eq!(queue["waiting"], json!([]));
    let whole: String = std::iter::once("0 ".to_owned()).chain((0..2_000).map(|n| format!("{n} "))).collect();
    let mut said = slow.text("agent_message_chunk");
    while said.len() < 4 * whole.len() {
        slow.update(|update| update["sessionUpdate"] == "usage_update").await;
        said += &slow.text("agent_message_chunk");
    }
    assert_eq!(said, whole.repeat(4));
    lab.end().await;
}
