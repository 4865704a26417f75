//! Permission for a path outside of the workspace (`external_directory`), from the ask to the file.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::json;
use tamtam::{
    EventKind, Runtime, SessionOptions,
    model::{Item, Reply, Scripted},
    permission::{Action, Profile, Rule, Ruleset},
    session::{Grant, Next},
    tools,
};

use crate::support::taped;

fn results(model: &Scripted) -> Vec<String> {
    let requests = model.requests();
    let items = requests.last().unwrap().history.iter();
    let results = items.filter_map(|item| match item.as_ref() {
        Item::Result(result) => Some(result.content.clone()),
        _ => None,
    });
    results.collect()
}

async fn ask(events: &mut tamtam::EventStream) -> (tamtam::Seq, Vec<(String, String)>) {
    let found = async {
        loop {
            if let Next::Event(event) = events.next().await.unwrap()
                && let EventKind::Ask { ask, access, .. } = &event.kind
            {
                return (*ask, access.iter().map(|one| (one.permission.clone(), one.pattern.clone())).collect());
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("an ask comes")
}

/// A-13, F01: what lies outside is asked for by its one true name; allowed once, it is reached in that call and in no other;
/// a path of the same call's folder that was not asked for stays out of reach.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_outside_is_reached_in_the_call_that_was_allowed_to() {
    let folder = taped::folder();
    let top = folder.path().canonicalize().unwrap();
    let (work, other) = (top.join("work"), top.join("other"));
    std::fs::create_dir(&work).unwrap();
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("a.txt"), "from outside\n").unwrap();
    let model = Arc::new(Scripted::new([
        Reply::call("read", json!({"path": "../other/a.txt"})),
        Reply::call("read", json!({"path": other.join("a.txt")})),
        Reply::call("write", json!({"path": other.join("b.txt"), "content": "new"})),
        Reply::text("done"),
    ]));
    let builder = Runtime::builder().store(top.join("store")).model(model.clone());
    let runtime = builder.tools(tools::full()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(&work).profile(Profile::Auto)).await.unwrap();
    let mut events = session.events();
    let prompt = session.prompt("go").await.unwrap();
    let wants = |permission: &str, path: &Path| {
        let path = path.display().to_string();
        vec![("external_directory".to_owned(), path.clone()), (permission.to_owned(), path)]
    };

    let (first, access) = ask(&mut events).await;
    assert_eq!(access, wants("read", &other.join("a.txt")), "a path that climbs is asked for by its whole name");
    session.answer(first, Grant::Once).await.unwrap();
    let (second, access) = ask(&mut events).await;
    assert_eq!(access, wants("read", &other.join("a.txt")), "once is once");
    session.answer(second, Grant::Reject(Some("not again".into()))).await.unwrap();
    let (third, access) = ask(&mut events).await;
    assert_eq!(access, wants("edit", &other.join("b.txt")));
    session.answer(third, Grant::Once).await.unwrap();

    assert_eq!(prompt.wait().await.unwrap().text, "done");
    let results = results(&model);
    assert_eq!(results[0], "     1\tfrom outside");
    assert!(results[1].contains("not again"), "{}", results[1]);
    assert!(results[2].starts_with("Created: "), "{}", results[2]);
    assert_eq!(std::fs::read_to_string(other.join("b.txt")).unwrap(), "new");
    assert!(runtime.shutdown().await.is_empty());
}

/// F03, S10, K04: a rule about a file holds for a link to it and for a search that comes by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_file_is_not_read_through_a_link_or_by_a_search() {
    let folder = taped::folder();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join(".env"), "KEY=needle\n").unwrap();
    std::fs::write(work.join("notes"), "needle\n").unwrap();
    std::os::unix::fs::symlink(".env", work.join("innocent")).unwrap();
    let model = Arc::new(Scripted::new([
        Reply::call("read", json!({"path": "innocent"})),
        Reply::call("grep", json!({"pattern": "needle"})),
        Reply::call("read", json!({"path": "notes"})),
        Reply::text("done"),
    ]));
    let rules = Ruleset::new("host", [Rule::new("read", "**/.env", Action::Deny)]);
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).rules(rules);
    let runtime = builder.tools(tools::full()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(&work).profile(Profile::Auto)).await.unwrap();
    session.prompt("go").await.unwrap().wait().await.unwrap();
    let results = results(&model);
    assert!(results[0].contains("Permission denied: it is a link to .env"), "{}", results[0]);
    assert_eq!(results[1], "notes:1: needle\n[1 files left out by the permission rules]");
    assert_eq!(results[2], "     1\tneedle");
    assert!(runtime.shutdown().await.is_empty());
}
