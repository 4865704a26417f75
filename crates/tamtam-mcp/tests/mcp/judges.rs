//! Whole turns over the servers that others wrote: `everything`, `filesystem` and `memory`, as npm has them.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::json;
use tamtam::{
    EventKind, Outcome, Session,
    model::{Item, Reply, Request, ScriptBy, Scripted, ToolResultItem},
    session::Next,
};
use tamtam_mcp::Hints;

use crate::{
    lab::{Lab, PATIENCE, everything, kill, npm, until},
    taped,
};

/// The results of a session's calls, in their order.
async fn results(session: &Session) -> Vec<ToolResultItem> {
    let state = session.state().await.unwrap();
    let result = |item: &Item| match item {
        Item::Result(result) => Some(result.clone()),
        _ => None,
    };
    state.history.iter().filter_map(|item| result(item.as_ref())).collect()
}

async fn done(session: &Session, prompt: &str) {
    let answer = session.prompt(prompt).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done, "{answer:?}");
}

/// AA-01: files are written, read and listed by a server of others, within the folder that it was given and not outside.
#[tokio::test(flavor = "multi_thread")]
async fn the_filesystem_server_works_in_a_session() {
    let folder = taped::folder();
    let served = folder.path().join("served");
    std::fs::create_dir(&served).unwrap();
    let served = served.canonicalize().unwrap();
    let at = |name: &str| served.join(name).display().to_string();
    let script = [
        Reply::call("mcp_fs_write_file", json!({"path": at("note.txt"), "content": "one\ntwo\n"})),
        Reply::call("mcp_fs_read_text_file", json!({"path": at("note.txt")})),
        Reply::call("mcp_fs_list_directory", json!({"path": at("")})),
        Reply::call("mcp_fs_read_text_file", json!({"path": "/etc/hostname"})),
        Reply::text("Done."),
    ];
    let config = npm("fs", "server-filesystem", &[&at("")]);
    let lab = Lab::with(folder, [config]).await.with_sessions(Scripted::from_list(script, ScriptBy::Answers)).await;
    let session = lab.runtime.create(lab.options()).await.unwrap();
    done(&session, "Write a note.").await;
    assert_eq!(std::fs::read_to_string(served.join("note.txt")).unwrap(), "one\ntwo\n");
    let results = results(&session).await;
    assert_eq!(results.iter().map(|result| result.is_error).collect::<Vec<_>>(), [false, false, false, true]);
    assert_eq!((results[1].content.as_str(), results[2].content.as_str()), ("one\ntwo\n", "[FILE] note.txt"));
    assert!(results[3].content.contains("outside allowed directories"), "{}", results[3].content);
    lab.end().await;
}

/// AA-01: what one session has the memory server keep, another one finds, also after the server was killed.
#[tokio::test(flavor = "multi_thread")]
async fn the_memory_server_is_shared_and_survives_its_death() {
    let folder = taped::folder();
    let file = folder.path().join("memory.jsonl").display().to_string();
    let config = npm("memory", "server-memory", &[]).environment([("MEMORY_FILE_PATH", file)]);
    let entity = json!({"name": "Tamtam", "entityType": "drum", "observations": ["carries messages"]});
    let model = Scripted::from_fn(move |request: &Request| {
        let asked = request.history.iter().any(|item| matches!(item.as_ref(), Item::Result(_)));
        let keeps = format!("{:?}", request.history).contains("Keep");
        match (asked, keeps) {
            (true, _) => Reply::text("Done."),
            (false, true) => Reply::call("mcp_memory_create_entities", json!({"entities": [entity]})),
            (false, false) => Reply::call("mcp_memory_search_nodes", json!({"query": "drum"})),
        }
    });
    let lab = Lab::with(folder, [config]).await.with_sessions(model).await;
    let one = lab.runtime.create(lab.options()).await.unwrap();
    done(&one, "Keep it.").await;
    let pid = lab.figures("memory").pid.unwrap();
    kill(pid);
    until("its death is seen", || lab.figures("memory").pid.is_none()).await;
    let other = lab.runtime.create(lab.options()).await.unwrap();
    done(&other, "Find it.").await;
    let found = results(&other).await.remove(0);
    assert!(!found.is_error && found.content.contains("carries messages"), "{}", found.content);
    assert!(lab.figures("memory").pid.is_some_and(|now| now != pid));
    lab.end().await;
}

/// AA-01, E-02: an image reaches the model as an attachment, and the progress of a call is an event of its session.
#[tokio::test(flavor = "multi_thread")]
async fn images_reach_the_model_and_progress_reaches_the_people() {
    let lab = Lab::new([everything("every").hints(Hints::Believed)]).await;
    let script = [
        Reply::call("mcp_every_get-tiny-image", json!({})),
        Reply::call("mcp_every_trigger-long-running-operation", json!({"duration": 0.03, "steps": 3})),
        Reply::text("Done."),
    ];
    let model = Scripted::from_list(script, ScriptBy::Answers);
    let lab = lab.with_sessions(model.clone()).await;
    let session = lab.runtime.create(lab.options()).await.unwrap();
    let mut events = session.events();
    done(&session, "Show me.").await;
    let shown = model.requests()[1].history.iter().any(|item| match item.as_ref() {
        Item::Result(result) => result.attachments.len() == 1 && result.attachments[0].mime == "image/png",
        _ => false,
    });
    assert!(shown, "the second request has the image");
    let mut reports = Vec::new();
    let seen = async {
        loop {
            let Next::Event(event) = events.next().await.expect("the session lives") else { continue };
            match &event.kind {
                EventKind::CallProgress { metadata, .. } if !metadata.is_null() => reports.push(metadata.clone()),
                EventKind::TurnFinished { .. } => return,
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("the turn ends");
    assert!(!reports.is_empty() && reports.iter().all(|report| report["total"] == 3), "{reports:?}");
    lab.end().await;
}

/// E-14, P4-18: an abort in mid-call ends the call and reaches the server, which goes on; a server killed in mid-call costs one error
/// result, and the same turn calls it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_aborted_or_loses_its_server_in_mid_call() {
    let slow = || Reply::call("mcp_every_trigger-long-running-operation", json!({"duration": 600, "steps": 2}));
    let echo = || Reply::call("mcp_every_echo", json!({"message": "still here"}));
    let model =
        Scripted::from_fn(move |request: &Request| match request.history.iter().next_back().map(AsRef::as_ref) {
            Some(Item::Result(result)) if result.name.ends_with("echo") => Reply::text("Done."),
            Some(Item::Result(_)) => echo(),
            _ if format!("{:?}", request.history.iter().next_back()).contains("Again") => echo(),
            _ => slow(),
        });
    let lab = Lab::new([everything("every")]).await.with_sessions(model).await;
    lab.list().await;
    let pid = lab.figures("every").pid.unwrap();
    let aborted = lab.runtime.create(lab.options()).await.unwrap();
    let prompt = aborted.prompt("Wait.").await.unwrap();
    until("the call is at the server", || lab.figures("every").in_flight == 1).await;
    assert!(aborted.abort("enough").await.unwrap().recorded);
    assert!(matches!(prompt.wait().await.unwrap().outcome, Outcome::Aborted { .. }));
    assert_eq!(lab.figures("every").in_flight, 0);
    done(&aborted, "Again.").await;
    assert_eq!(results(&aborted).await.pop().unwrap().content, "Echo: still here");
    assert_eq!(lab.figures("every").pid, Some(pid), "an abort costs the server nothing");

    let bereft = lab.runtime.create(lab.options()).await.unwrap();
    let prompt = bereft.prompt("Wait.").await.unwrap();
    until("the call is at the server", || lab.figures("every").in_flight == 1).await;
    kill(pid);
    assert_eq!(prompt.wait().await.unwrap().outcome, Outcome::Done);
    let results = results(&bereft).await;
    assert_eq!(results.iter().map(|result| result.is_error).collect::<Vec<_>>(), [true, false]);
    assert!(results[0].content.contains("its process ended (signal: 9 (SIGKILL))"), "{}", results[0].content);
    assert_eq!(results[1].content, "Echo: still here");
    lab.end().await;
}

/// P4-18, ASK-14: 100 sessions use one process of a server that others wrote.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_sessions_share_one_process() {
    let model = Scripted::from_fn(|request: &Request| match request.history.iter().next_back().map(AsRef::as_ref) {
        Some(Item::Result(_)) => Reply::text("Done."),
        _ => {
            let pid_of = json!({"message": request.history.iter().count().to_string()});
            Reply::call("mcp_every_echo", pid_of)
        }
    });
    let lab = Lab::new([everything("every")]).await.with_sessions(model).await;
    let pids: BTreeSet<_> = join_all((0..100).map(|_| async {
        let session = lab.runtime.create(lab.options()).await.unwrap();
        done(&session, "Say it.").await;
        assert_eq!(results(&session).await[0].content, "Echo: 1");
        lab.figures("every").pid
    }))
    .await
    .into_iter()
    .collect();
    assert_eq!((pids.len(), lab.figures("every").calls, lab.node("every").restarts), (1, 100, 0), "{pids:?}");
    lab.end().await;
}
