//! Files that go back with a conversation, and what a merge does to those that the fork changed.

use std::{path::Path, sync::Arc};

use serde_json::json;
use tamtam::{
    Message, Runtime, Seq, Session, SessionOptions,
    model::{Reply, Scripted},
    ops::{Restore, RestoreError},
    permission::Profile,
    session::{BranchError, Point, Record, RollbackOptions, RollbackTarget},
    tape::Deleted,
    tools,
};

use super::{newest, seen};
use crate::support::taped;

/// Does what the newest message says: `write F TEXT` or `edit F OLD NEW`; then says so.
pub(super) fn model() -> Arc<Scripted> {
    Arc::new(Scripted::from_fn(|request| {
        let said = tamtam::model::transcript(request);
        let last = said.lines().last().unwrap_or_default().to_owned();
        let Some(order) = last.strip_prefix("user: ") else { return Reply::text("done") };
        match order.split(' ').collect::<Vec<_>>()[..] {
            ["write", file, text] => Reply::call("write", json!({"path": file, "content": format!("{text}\n")})),
            ["edit", file, old, new] => {
                Reply::call("edit", json!({"path": file, "old_string": old, "new_string": new}))
            }
            _ => Reply::text("done"),
        }
    }))
}

pub(super) async fn runtime(folder: &Path) -> Runtime {
    std::fs::create_dir_all(folder.join("work")).unwrap();
    let builder = Runtime::builder().store(folder.join("store")).model(model()).tools(tools::full());
    builder.start().await.unwrap()
}

pub(super) async fn create(runtime: &Runtime, folder: &Path) -> Session {
    let options = SessionOptions::new(folder.join("work")).profile(Profile::Auto).id("parent".parse().unwrap());
    runtime.create(options).await.unwrap()
}

pub(super) async fn order(session: &Session, id: &str, text: &str) {
    let answer = session.prompt(Message::user(text).with_id(id.into())).await.unwrap().wait().await.unwrap();
    assert_eq!((answer.outcome, answer.text.as_str()), (tamtam::Outcome::Done, "done"), "{text}");
}

/// The files of the workspace: name and content.
pub(super) fn files(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder.join("work")).unwrap().map(|entry| entry.unwrap());
    let read = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap().trim().to_owned())
    };
    let mut files: Vec<_> = entries.map(read).collect();
    files.sort();
    files
}

fn named(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

pub(super) fn whole() -> RollbackOptions {
    RollbackOptions::new().with_files(Restore::Whole)
}

/// Three turns that change two files.
pub(super) async fn story(session: &Session) {
    order(session, "1", "write a one").await;
    order(session, "2", "edit a one two").await;
    order(session, "3", "write b new").await;
}

/// Z-02, Z-03, Z-05: the diff comes first and changes nothing; then the conversation and its files are what they were there, in
/// one append; redo and undo take the files along, and the next process finds all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_takes_the_files_along_and_shows_it_before() {
    let folder = taped::folder();
    let runtime = self::runtime(folder.path()).await;
    let session = create(&runtime, folder.path()).await;
    story(&session).await;
    let all = named(&[("a", "two"), ("b", "new")]);
    let before = newest(&session).await;

    let plan = session.plan_rollback(Point::BeforeMessage("2".into())).await.unwrap();
    assert_eq!((plan.gone.as_slice(), plan.again.len()), (&["2".into(), "3".into()][..], 0));
    let shown = plan.files.to_string();
    assert!(shown.contains("restore   a\ndelete    b\n") && shown.contains("-two\n+one\n"), "{shown}");
    assert_eq!((files(folder.path()), newest(&session).await), (all.clone(), before), "showing changes nothing");

    let back = session.rollback_with(Point::BeforeMessage("2".into()), whole()).await.unwrap();
    assert_eq!(back.files.as_ref().unwrap().files.len(), 2);
    assert_eq!(files(folder.path()), named(&[("a", "one")]));
    assert_eq!(seen(&session).await.len(), 4, "the first turn: message, call, result, answer");
    let entries = crate::back::entries(&session).await;
    let newest_two = &entries[entries.len() - 2..];
    assert!(matches!(newest_two[0].record, Record::RolledBack(_)) && newest_two[0].seq == back.entry);
    assert!(matches!(newest_two[1].record, Record::Restored(_)));

    assert_eq!(session.rollback_with(RollbackTarget::Redo, whole()).await.unwrap().again.len(), 2);
    assert_eq!(files(folder.path()), all);
    session.rollback_with(RollbackTarget::Undo, whole()).await.unwrap();
    assert_eq!(files(folder.path()), named(&[("a", "two")]));
    // Without them the files stay.
    session.undo().await.unwrap();
    assert_eq!(files(folder.path()), named(&[("a", "two")]));
    assert!(runtime.shutdown().await.is_empty());

    let runtime = self::runtime(folder.path()).await;
    let session = runtime.open(session.id()).await.unwrap();
    session.rollback_with(before, whole()).await.unwrap();
    assert_eq!((files(folder.path()), seen(&session).await.len()), (all, 12));
    order(&session, "4", "edit a two three").await;
    assert!(runtime.shutdown().await.is_empty());
}

/// A file that somebody else changed is refused by name, and then nothing is done at all: no file, no entry. `Rest` leaves it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_is_refused_by_the_name_of_a_file_that_changed_behind_our_back() {
    let folder = taped::folder();
    let runtime = self::runtime(folder.path()).await;
    let session = create(&runtime, folder.path()).await;
    story(&session).await;
    std::fs::write(folder.path().join("work/a"), "mine").unwrap();
    let (before, all) = (newest(&session).await, named(&[("a", "mine"), ("b", "new")]));
    let point = Point::BeforeMessage("2".into());
    let refused = session.rollback_with(point.clone(), whole()).await.unwrap_err();
    let BranchError::Files(why) = &refused else { panic!("{refused:?}") };
    assert!(matches!(&**why, RestoreError::Refused { plan } if plan.refused().count() == 1));
    assert!(refused.to_string().contains("a: someone else changed it since"), "{refused}");
    assert_eq!((files(folder.path()), newest(&session).await, seen(&session).await.len()), (all, before, 12));
    let options = RollbackOptions::new().with_files(Restore::Rest);
    let back = session.rollback_with(point, options).await.unwrap();
    let done = back.files.unwrap();
    assert_eq!((done.files.len(), done.refused[0].path.as_str()), (1, "a"));
    assert_eq!((files(folder.path()), seen(&session).await.len()), (named(&[("a", "mine")]), 4));
    assert!(runtime.shutdown().await.is_empty());
}

/// A message that comes while files are put back has its turn, with the files as it knew them: nothing stays half done. That it
/// comes just then is made sure of at a crash point.
#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_put_forth_again_where_the_conversation_does_not_go_back() {
    let folder = taped::folder();
    std::fs::create_dir_all(folder.path().join("work")).unwrap();
    let (passed, comes) = std::sync::mpsc::channel::<()>();
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let waits = std::sync::Mutex::new(waits);
    let faults = tamtam::runtime::Faults::new(move |point, _| {
        if point == "back.files" {
            let _ = passed.send(());
            let _ = waits.lock().unwrap().recv();
        }
    });
    let builder = Runtime::builder().store(folder.path().join("store")).model(model()).tools(tools::full());
    let runtime = builder.faults(faults).start().await.unwrap();
    let session = create(&runtime, folder.path()).await;
    story(&session).await;
    let (one, all) = (session.clone(), named(&[("a", "two"), ("b", "new")]));
    let back = tokio::spawn(async move { one.rollback_with(Point::BeforeMessage("2".into()), whole()).await });
    tokio::task::spawn_blocking(move || comes.recv()).await.unwrap().unwrap();
    assert_eq!(files(folder.path()), named(&[("a", "one")]));
    order(&session, "4", "hello").await;
    go_on.send(()).unwrap();
    let refused = back.await.unwrap().unwrap_err();
    assert!(matches!(&refused, BranchError::Session(_)), "{refused:?}");
    assert_eq!((files(folder.path()), seen(&session).await.len()), (all, 14));
    // Both ways are on the tape, so a later plan knows what was done.
    let entries = crate::back::entries(&session).await;
    let restored = entries.iter().filter(|entry| matches!(entry.record, Record::Restored(_))).count();
    assert_eq!(restored, 2);
    drop(go_on);
    session.rollback_with(Point::BeforeMessage("2".into()), whole()).await.unwrap();
    assert_eq!((files(folder.path()), seen(&session).await.len()), (named(&[("a", "one")]), 4));
    assert!(runtime.shutdown().await.is_empty());
}

/// What a fork changed is part of what a merge brought: a rollback to before it puts those files back too, also when the fork
/// is gone. A fork puts back what its parent changed before the point.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_a_merged_fork_changed_go_back_with_the_merge() {
    for deleted in [false, true] {
        let folder = taped::folder();
        let runtime = self::runtime(folder.path()).await;
        let session = create(&runtime, folder.path()).await;
        order(&session, "1", "write a one").await;
        order(&session, "2", "write c kept").await;
        let fork = session.fork(newest(&session).await).await.unwrap();
        order(&fork, "3", "edit a one two").await;
        order(&fork, "4", "write b new").await;
        let before = newest(&session).await;
        let merge = match deleted {
            true => session.merge_and_delete(fork.id()).await,
            false => session.merge(fork.id()).await,
        };
        let merge = merge.unwrap();
        assert_eq!((merge.items, merge.deleted), (8, deleted.then_some(Deleted::Gone)));
        let shown = session.changes(before).await.unwrap().to_string();
        assert!(shown.contains("restore   a\ndelete    b\n"), "{shown}");
        session.rollback_with(RollbackTarget::Undo, whole()).await.unwrap();
        assert_eq!(files(folder.path()), named(&[("a", "one"), ("c", "kept")]));
        session.rollback_with(RollbackTarget::Redo, whole()).await.unwrap();
        assert_eq!(files(folder.path()), named(&[("a", "two"), ("b", "new"), ("c", "kept")]));
        if deleted {
            assert!(matches!(session.merge(fork.id()).await, Err(BranchError::Open(_))));
        } else {
            fork.restore(Seq(1), Restore::Rest).await.unwrap();
            assert_eq!(files(folder.path()), [], "the fork knows what its parent did before it");
        }
        assert!(runtime.shutdown().await.is_empty());
    }
}
