//! The examples that a host would copy from do what they say.

use std::sync::{Arc, Mutex};

use crate::support::taped;

#[path = "../../examples/chat.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program")]
mod chat;
#[path = "../../examples/recorded.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program")]
mod recorded;

/// A conversation for each name, kept in the folder; what the hook takes out is on no tape; a line that is none changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chat_bot_answers_each_name_and_keeps_no_password() {
    let folder = taped::folder();
    let chats = folder.path().join("store");
    for round in 1..=2 {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let out = said.clone();
        let lines = "ada: hello\nben: my key is pw:hunter2\nno colon\n";
        chat::chat(&chats, lines.as_bytes(), Arc::new(move |words| out.lock().unwrap().push(words.to_owned())))
            .await
            .unwrap();
        let said = said.lock().unwrap().join("\n");
        assert!(said.contains("[ada] You said: hello.") && said.contains("write `name: words`"), "{said}");
        assert!(said.contains("[ben] You said: my key is [password]."), "{said}");
        let tape =
            std::fs::read_to_string(chats.join("sessions/chat-ben/anchors/001_session-start/entries.jsonl")).unwrap();
        assert!(!tape.contains("hunter2"));
        assert_eq!(tape.matches("\"kind\":\"turn_finished\"").count(), round, "the second run continues the first");
    }
}

/// The recorded tape passes as a test, the same prompt decides the same, and another one is noticed at the first request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_tape_is_a_test_of_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let (checked, [same, other]) = recorded::recorded(folder.path()).await.unwrap();
    assert!(checked.decisions > 2 && checked.entries > checked.decisions, "{checked:?}");
    assert_eq!(same, None);
    assert!(other.is_some());
}
