//! What is in the editor and not on the disk.

use serde_json::{Value, json};

use crate::lab::{Client, Lab, options};

async fn editor(lab: &Lab) -> Client {
    let options = options().unsaved(lab.unsaved.clone());
    lab.client_with(options, json!({ "fs": { "readTextFile": true, "writeTextFile": true } })).await
}

/// Answers the next request for the text of a file.
async fn gives(client: &mut Client, text: &str) -> Value {
    let asked = client.asked("fs/read_text_file").await;
    client.reply(&asked, json!({ "content": text })).await;
    asked["params"]["path"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn unsaved_changes_are_read_and_never_written_over() {
    let lab = Lab::new().await;
    let file = lab.work().join("a.txt");
    std::fs::write(&file, "on the disk\r\n").unwrap();
    let mut client = editor(&lab).await;
    let session = client.new_session(&lab.work()).await;
    let prompt = client.prompt(&session, "see").await;
    assert_eq!(gives(&mut client, "in the editor\n").await, json!(file));
    client.answer(prompt).await.unwrap();
    let read = client.updates("tool_call_update").pop().unwrap();
    let text = read["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("on the disk") && text.ends_with("\nin the editor"), "{text}");

    // By whatever name the call gives the file.
    for write in ["write new", "alias new"] {
        let prompt = client.prompt(&session, write).await;
        let asked = client.asked("session/request_permission").await;
        client.choose(&asked, ":once").await;
        gives(&mut client, "in the editor\n").await;
        client.answer(prompt).await.unwrap();
        let refused = client.updates("tool_call_update").pop().unwrap();
        assert_eq!(refused["_meta"]["tamtam"]["error"], "blocked", "{refused}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "on the disk\r\n");
    }
    lab.end().await;
}

/// The same text in the editor and on the disk, but for what editors change by themselves, changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_saved_file_is_written_as_ever() {
    let lab = Lab::new().await;
    std::fs::write(lab.work().join("a.txt"), "the same\r\n").unwrap();
    let mut client = editor(&lab).await;
    let session = client.new_session(&lab.work()).await;
    let prompt = client.prompt(&session, "see").await;
    gives(&mut client, "the same\n").await;
    client.answer(prompt).await.unwrap();
    let read = client.updates("tool_call_update").pop().unwrap();
    assert!(!read["content"][0]["content"]["text"].as_str().unwrap().contains("editor"), "{read}");
    let prompt = client.prompt(&session, "write new").await;
    let asked = client.asked("session/request_permission").await;
    client.choose(&asked, ":once").await;
    gives(&mut client, "the same\n").await;
    client.answer(prompt).await.unwrap();
    assert!(std::fs::read_to_string(lab.work().join("a.txt")).unwrap().starts_with("new"));
    lab.end().await;
}

/// An editor that refuses, lies or has gone is as one that has no files.
#[tokio::test(flavor = "multi_thread")]
async fn an_editor_that_gives_no_text_is_passed_over() {
    let lab = Lab::new().await;
    std::fs::write(lab.work().join("a.txt"), "x\n").unwrap();
    let mut client = editor(&lab).await;
    let session = client.new_session(&lab.work()).await;
    for answer in [
        json!({ "result": null }),
        json!({ "result": { "content": 7 } }),
        json!({ "error": { "code": -1, "message": "no" } }),
    ] {
        let prompt = client.prompt(&session, "see").await;
        let asked = client.asked("fs/read_text_file").await;
        let mut frame = json!({ "jsonrpc": "2.0", "id": asked["id"] });
        frame.as_object_mut().unwrap().append(&mut answer.as_object().unwrap().clone());
        client.line(frame.to_string()).await;
        assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "end_turn");
    }
    client.die().await;
    let handle = lab.runtime.session(&session.parse().unwrap());
    handle.prompt("see").await.unwrap().wait().await.unwrap();
    lab.end().await;
}
