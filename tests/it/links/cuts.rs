//! The process dies at any point between the two tapes. Played once to its end, and then again from every pair of beginnings of
//! the parent's and the child's tape that could have been on the disk at the same moment.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use tamtam::{
    Runtime, SessionId,
    model::{Reply, Scripted},
    session::{DownReason, Link, Record},
};

use super::{count, is_down, options, start, until};
use crate::support::taped::{self, LeftOut};

fn model() -> Arc<Scripted> {
    Arc::new(Scripted::new([
        Reply::call("quick", json!({})).when("user: look it up").when_answers(0),
        Reply::text("found it").when("user: look it up"),
        Reply::text("hello"),
        Reply::text("thank you"),
    ]))
}

fn tape(store: &Path, session: &str) -> PathBuf {
    store.join("sessions").join(session).join("anchors/001_session-start/entries.jsonl")
}

pub(super) fn lines(store: &Path, session: &str) -> Vec<String> {
    let text = fs::read_to_string(tape(store, session)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn kind(line: &str) -> String {
    serde_json::from_str::<Value>(line).unwrap()["kind"].as_str().unwrap().to_owned()
}

/// Lines of a tape up to which the other one cannot be without them.
pub(super) fn place(lines: &[String], wanted: &str) -> usize {
    lines.iter().position(|line| kind(line) == wanted).unwrap_or_else(|| panic!("no {wanted}")) + 1
}

/// The store as it was when the tapes had so many lines, in a folder of its own: with the marks of open turns, without claims.
pub(super) fn cut(from: &Path, parent: &[String], child: &[String]) -> taped::Folder {
    let folder = taped::folder();
    let store = folder.path().join("store");
    for (session, lines) in [("parent", parent), ("child", child)] {
        if lines.is_empty() {
            continue;
        }
        let path = tape(&store, session);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        fs::create_dir_all(store.join("open")).unwrap();
        fs::write(store.join("open").join(session), "").unwrap();
    }
    fs::copy(from.join("version"), store.join("version")).unwrap();
    folder
}

/// What a start makes of a store: the parent's DOWNs and the child's turns, once nothing moves any more.
async fn plays_out(folder: &Path) -> (Runtime, usize, Option<DownReason>) {
    let (model, slow) = (model(), Arc::default());
    let runtime = start(folder, &model, &slow).await;
    let parent = runtime.open(&"parent".parse().unwrap()).await.unwrap();
    until(async || {
        let state = parent.state().await.unwrap();
        state.is_idle() && !state.is_unfinished()
    })
    .await;
    let end = parent.state().await.unwrap().tasks_ended.back().and_then(|end| end.down.clone());
    let downs = count(&parent, is_down).await;
    (runtime, downs, end.map(|down| down.reason.clone()))
}

/// The tapes of a parent that spawned a child, heard of its end, and was woken by it.
async fn whole() -> (taped::Folder, Vec<String>, Vec<String>) {
    let folder = taped::folder();
    let (model, slow) = (model(), Arc::default());
    let runtime = start(folder.path(), &model, &slow).await;
    // A workspace that is there in every copy.
    let work = std::env::current_dir().unwrap();
    let parent = runtime.create(options(&work).id("parent".parse().unwrap())).await.unwrap();
    parent.prompt("hi").await.unwrap().wait().await.unwrap();
    let id: SessionId = "child".parse().unwrap();
    let child = parent.spawn_child(options(&work).id(id), "look it up", Link::LINKED).await.unwrap();
    assert_eq!(super::down(&child).await, DownReason::Done);
    parent.wait().await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
    let store = folder.path().join("store");
    let (parent, child) = (lines(&store, "parent"), lines(&store, "child"));
    (folder, parent, child)
}

/// Must show 6 for tasks: whatever of both tapes was on the disk when the process died, the parent gets exactly one DOWN, and the
/// child's task is done once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_may_die_at_any_point_between_the_two_tapes() {
    let (folder, parent, child) = whole().await;
    let store = folder.path().join("store");
    let (spawned, heard) = (place(&parent, "task_started"), place(&parent, "task_finished"));
    let ended = place(&child, "turn_finished");
    // The child's tape begins after the task is on its parent's, and the DOWN comes after the child's end.
    let begins = (spawned..heard).flat_map(|parent| (0..=child.len()).map(move |child| (parent, child)));
    let after = (heard..=parent.len()).flat_map(|parent| (ended..=child.len()).map(move |child| (parent, child)));
    let mut played = 0;
    for (of_parent, of_child) in begins.chain(after) {
        let copy = cut(&store, &parent[..of_parent], &child[..of_child]);
        let (runtime, downs, reason) = plays_out(copy.path()).await;
        assert_eq!((downs, reason), (1, Some(DownReason::Done)), "parent {of_parent}, child {of_child}");
        let child = runtime.open(&"child".parse().unwrap()).await.unwrap();
        let prompts = count(&child, |record| matches!(record, Record::Accepted { .. })).await;
        let turns = count(&child, |record| matches!(record, Record::TurnFinished { .. })).await;
        assert_eq!((prompts, turns), (1, 1), "parent {of_parent}, child {of_child}");
        assert!(runtime.shutdown().await.is_empty());
        played += 1;
    }
    assert!(played > child.len(), "{played} cuts");
}

/// The folder of the child was made and nothing is in it yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_may_die_while_the_childs_tape_is_made() {
    let (folder, parent, _) = whole().await;
    let spawned = place(&parent, "task_started");
    let copy = cut(&folder.path().join("store"), &parent[..spawned], &[]);
    copy.may_leave_out(LeftOut::NeverBegun);
    let path = tape(&copy.path().join("store"), "child");
    for made in [path.parent().unwrap().parent().unwrap().to_owned(), path.parent().unwrap().to_owned()] {
        fs::create_dir_all(made).unwrap();
        fs::write(&path, "").ok();
        let again = taped::folder();
        let copied =
            std::process::Command::new("cp").arg("-r").arg(copy.path().join("store")).arg(again.path()).status();
        assert!(copied.unwrap().success());
        let (runtime, downs, reason) = plays_out(again.path()).await;
        assert_eq!((downs, reason), (1, Some(DownReason::Done)));
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// A child whose parent's tape is damaged or gone is an orphan from the next start on, works on, and can be adopted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_whose_parent_is_gone_is_an_orphan() {
    let (folder, _, child) = whole().await;
    let unfinished = &child[..place(&child, "request")];
    let copy = cut(&folder.path().join("store"), &[], unfinished);
    let (model, slow) = (model(), Arc::default());
    let runtime = start(copy.path(), &model, &slow).await;
    let orphan = runtime.session(&"child".parse().unwrap());
    orphan.wait().await.unwrap();
    let origin = orphan.state().await.unwrap().origin.unwrap();
    assert!(origin.orphaned.is_some() && origin.end.as_ref().is_some_and(|down| down.reason == DownReason::Done));
    let parent = runtime.create(options(&std::env::current_dir().unwrap())).await.unwrap();
    let adopted = parent.adopt(orphan.id(), Link::DETACHED).await.unwrap();
    assert_eq!(super::down(&adopted).await, DownReason::Done);
    assert!(runtime.shutdown().await.is_empty());
}
