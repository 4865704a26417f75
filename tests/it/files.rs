//! Files that a conversation changed, shown and put back: as a host sees it.

use std::{path::Path, sync::Arc};

use serde_json::json;
use tamtam::{
    EventKind, Part, Runtime, Seq, Session, SessionOptions,
    model::{Item, Reply, Scripted},
    ops::{Restore, RestoreError},
    permission::Profile,
    session::{BranchEvent, ForkOptions, Next},
    tape::TapeStoreExt as _,
    tools,
};

use crate::support::taped;

async fn runtime(folder: &Path, model: Scripted) -> Runtime {
    let builder = Runtime::builder().store(folder.join("store")).model(Arc::new(model)).tools(tools::full());
    builder.start().await.unwrap()
}

fn work(folder: &Path) -> std::path::PathBuf {
    let work = folder.join("work");
    std::fs::create_dir_all(&work).unwrap();
    work
}

async fn say(session: &Session, text: &str) -> Seq {
    let answer = session.prompt(text).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, tamtam::Outcome::Done, "{answer:?}");
    answer.turn
}

/// Z-03, C-p13: the files of a turn that changed 20 of them are shown as a diff, and then put back; one that was changed
/// behind our back is refused by name and stops all of it, until the host says to leave it; what was done is on the tape, and
/// is undone from there by another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_of_a_turn_that_changed_twenty_are_shown_and_put_back() {
    let folder = taped::folder();
    let work = work(folder.path());
    for n in 0..15 {
        std::fs::write(work.join(format!("f{n}")), format!("old {n}\n")).unwrap();
    }
    let mut reply = Reply::empty();
    for n in 0..15 {
        let edit = json!({"path": format!("f{n}"), "old_string": "old", "new_string": "new"});
        reply = reply.with_raw_call(format!("c{n}"), "edit", edit.to_string());
    }
    for n in 15..20 {
        let write = json!({"path": format!("made/f{n}"), "content": "new\n"});
        reply = reply.with_raw_call(format!("c{n}"), "write", write.to_string());
    }
    let model = Scripted::new([
        Reply::call("write", json!({"path": "f0", "content": "old 0\nbefore\n"})),
        Reply::text("first"),
        reply,
        Reply::text("second"),
    ]);
    let runtime = runtime(folder.path(), model).await;
    let session = runtime.create(SessionOptions::new(&work).profile(Profile::Auto)).await.unwrap();
    say(&session, "one").await;
    let turn = say(&session, "two").await;

    let plan = session.changes(turn).await.unwrap();
    assert_eq!((plan.to_change().count(), plan.refused().count()), (20, 0));
    let shown = plan.to_string();
    assert!(shown.contains("restore   f3\n") && shown.contains("delete    made/f17\n"), "{shown}");
    assert!(shown.contains("--- a/f3\n+++ b/f3\n@@ -1 +1 @@\n-new 3\n+old 3\n"), "{shown}");
    assert_eq!(std::fs::read_to_string(work.join("f3")).unwrap(), "new 3\n", "showing changes nothing");

    std::fs::write(work.join("f7"), "mine\n").unwrap();
    let error = session.restore(turn, Restore::Whole).await.unwrap_err();
    assert!(matches!(&error, RestoreError::Refused { plan } if plan.refused().count() == 1), "{error}");
    assert!(error.to_string().contains("f7: someone else changed it since"), "{error}");
    assert_eq!(std::fs::read_to_string(work.join("f3")).unwrap(), "new 3\n", "all or nothing is nothing");

    let mut events = session.events();
    let done = session.restore(turn, Restore::Rest).await.unwrap();
    assert_eq!((done.files.files.len(), done.files.refused.len()), (19, 1));
    for n in (0..15).filter(|n| *n != 7) {
        let then = if n == 0 { "old 0\nbefore\n".to_owned() } else { format!("old {n}\n") };
        assert_eq!(std::fs::read_to_string(work.join(format!("f{n}"))).unwrap(), then);
    }
    assert_eq!(std::fs::read_to_string(work.join("f7")).unwrap(), "mine\n");
    assert_eq!(std::fs::read_dir(work.join("made")).unwrap().count(), 0);
    let event = loop {
        if let Some(Next::Event(event)) = events.next().await
            && let EventKind::Branch(BranchEvent::FilesRestored { files, refused, .. }) = &event.kind
        {
            break (files.len(), refused[0].path.clone());
        }
    };
    assert_eq!(event, (19, "f7".to_owned()));
    // The conversation as messages has what was there before, and which files.
    let messages = session.messages().await.unwrap();
    let parts: Vec<&Part> = messages.iter().flat_map(|message| &message.parts).collect();
    let patches = parts.iter().filter(|part| matches!(part, Part::Patch(_))).count();
    let snapshots = parts.iter().filter(|part| matches!(part, Part::Snapshot(_))).count();
    assert_eq!((patches, snapshots), (21, 16));
    let id = session.id().clone();
    assert!(runtime.shutdown().await.is_empty());

    let runtime = self::runtime(folder.path(), Scripted::new([Reply::text("never")])).await;
    let session = runtime.open(&id).await.unwrap();
    session.restore(Seq(done.entry.0 - 1), Restore::Whole).await.unwrap();
    assert_eq!(std::fs::read_to_string(work.join("f3")).unwrap(), "new 3\n", "the restore is undone");
    assert_eq!(std::fs::read_to_string(work.join("made/f17")).unwrap(), "new\n");
    assert!(runtime.shutdown().await.is_empty());
}

/// While a turn runs nothing is put back, for it may be changing the same files; what it said it changed can be shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_not_put_back_while_a_turn_runs() {
    let folder = taped::folder();
    let work = work(folder.path());
    let wait = json!({"command": "echo x > made; until [ -e go ]; do sleep 0.02; done"});
    let model = Scripted::new([
        Reply::call("write", json!({"path": "f", "content": "new\n"})),
        Reply::call("bash", wait),
        Reply::text("done"),
    ]);
    let runtime = runtime(folder.path(), model).await;
    let session = runtime.create(SessionOptions::new(&work).profile(Profile::Auto)).await.unwrap();
    let receipt = session.prompt("go").await.unwrap();
    while !work.join("made").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let error = session.restore(Seq(1), Restore::Whole).await.unwrap_err();
    assert!(matches!(error, RestoreError::Busy { .. }), "{error}");
    assert_eq!(session.changes(Seq(1)).await.unwrap().to_change().count(), 1);
    assert_eq!(std::fs::read_to_string(work.join("f")).unwrap(), "new\n");
    std::fs::write(work.join("go"), "").unwrap();
    receipt.wait().await.unwrap();
    let done = session.restore(Seq(1), Restore::Whole).await.unwrap();
    assert_eq!(done.files.files.len(), 3, "{done:?}");
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0);
    assert!(runtime.shutdown().await.is_empty());
}

/// The model sees nothing of what is kept beside its results, and nothing of what was put back; what it knows of these files
/// is out of date, so it has to read them again before it edits them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_is_told_nothing_and_must_read_again() {
    let folder = taped::folder();
    let work = work(folder.path());
    std::fs::write(work.join("f"), "old\n").unwrap();
    let edit = |old: &str, new: &str| Reply::call("edit", json!({"path": "f", "old_string": old, "new_string": new}));
    let model = Arc::new(Scripted::new([
        edit("old", "new"),
        Reply::text("first"),
        edit("old", "newer"),
        Reply::text("second"),
    ]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).tools(tools::full());
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(&work).profile(Profile::Auto)).await.unwrap();
    let turn = say(&session, "one").await;
    session.restore(turn, Restore::Whole).await.unwrap();
    say(&session, "two").await;
    assert_eq!(std::fs::read_to_string(work.join("f")).unwrap(), "old\n");
    let requests = model.requests();
    let told = format!("{:?}", requests.last().unwrap().history);
    let hash = std::fs::read_dir(folder.path().join("store/sessions").join(session.id().as_str()).join("files"));
    for entry in hash.unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!told.contains(&name), "{told}");
    }
    assert!(told.contains("Read it again first"), "{told}");
    assert!(!told.contains("restored"), "{told}");
    assert!(runtime.shutdown().await.is_empty());
}

/// A fork shows what its parent did to files before it was made, and puts it back with what its parent kept; what the parent did
/// afterwards is none of its business, and a file of which the parent changed more since is refused by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_puts_back_what_its_parent_changed_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path());
    for name in ["a", "b", "c"] {
        std::fs::write(work.join(name), "old\n").unwrap();
    }
    // Does what the newest message says, call by call, and then says that it is done.
    let model = Scripted::from_fn(|request| {
        let history: Vec<&Arc<Item>> = request.history.iter().collect();
        let newest = history.iter().rposition(|item| matches!(item.as_ref(), Item::User(_))).unwrap();
        let Item::User(user) = history[newest].as_ref() else { panic!("it is one") };
        let said = user.text();
        let done = history[newest..].iter().filter(|item| matches!(item.as_ref(), Item::Result(_))).count();
        let Some(wish) = said.split(", ").nth(done) else { return Reply::text("done") };
        let (how, path) = wish.split_once(' ').unwrap();
        let (from, to) = if how == "edit" { ("old", "new") } else { ("new", "newer") };
        Reply::call("edit", json!({"path": path, "old_string": from, "new_string": to}))
    });
    let runtime = runtime(folder.path(), model).await;
    let parent = runtime.create(SessionOptions::new(&work).profile(Profile::Auto)).await.unwrap();
    say(&parent, "edit a, edit b").await;
    let fork = parent.fork(ForkOptions::newest()).await.unwrap();
    say(&fork, "edit c").await;
    let plan = fork.changes(Seq::ZERO).await.unwrap();
    let mut paths: Vec<&str> = plan.to_change().map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!((paths, plan.refused().count()), (vec!["a", "b", "c"], 0), "{plan}");
    assert!(plan.to_string().contains("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-new\n+old\n"), "{plan}");

    say(&parent, "append b").await;
    assert_eq!(std::fs::read_to_string(work.join("b")).unwrap(), "newer\n");
    let refused = fork.restore(Seq::ZERO, Restore::Whole).await.unwrap_err();
    assert!(refused.to_string().contains("b: someone else changed it since"), "{refused}");
    let done = fork.restore(Seq::ZERO, Restore::Rest).await.unwrap();
    assert_eq!((done.files.files.len(), done.files.refused.len()), (2, 1));
    for (name, content) in [("a", "old\n"), ("b", "newer\n"), ("c", "old\n")] {
        assert_eq!(std::fs::read_to_string(work.join(name)).unwrap(), content, "{name}");
    }
    // The parent has what the fork did not: its own words on `b`.
    let of_parent = parent.changes(Seq::ZERO).await.unwrap();
    assert!(of_parent.to_change().any(|file| file.path == "b"), "{of_parent}");
    // A parent that was deleted keeps its contents for its fork.
    let (parent, fork, entry) = (parent.id().clone(), fork.id().clone(), done.entry);
    assert!(runtime.shutdown().await.is_empty());
    let store = tamtam::tape::Store::open(folder.path().join("store"), Default::default()).unwrap();
    assert_eq!(store.delete(&parent).unwrap(), tamtam::tape::Deleted::Hidden);
    let undone = tamtam::ops::offline(&store, &fork, Seq(entry.0 - 1), &tools::full(), Restore::Whole).unwrap();
    assert_eq!(undone.files.files.len(), 2);
    let again = tamtam::ops::offline(&store, &fork, Seq::ZERO, &tools::full(), Restore::Rest).unwrap();
    assert_eq!(again.files.files.len(), 2);
    assert_eq!(std::fs::read_to_string(work.join("a")).unwrap(), "old\n");
}
