//! A merge, and a rollback with files, struck and cut off at each place.

use std::path::{Path, PathBuf};

use tamtam::SessionId;
#[cfg(feature = "fault-injection")]
use tamtam::{Runtime, session::Record};

use super::{create, merges, newest, say, seen, start, told};
use crate::{back::Echo, support::taped};

fn tape_of(folder: &Path, id: &SessionId) -> PathBuf {
    folder.join(format!("store/sessions/{id}/anchors/001_session-start/entries.jsonl"))
}

/// D10, X05: `kill -9` after each byte that matters of the parent's tape around a merge: it is there whole or not at all, and the
/// same again completes it, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_is_cut_off_is_there_whole_or_not_at_all() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Echo::new()).await;
    let parent = create(&runtime, folder.path()).await;
    say(&parent, &["a"]).await;
    let fork = parent.fork(newest(&parent).await).await.unwrap();
    say(&fork, &["x", "y"]).await;
    let merged = parent.merge(fork.id()).await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
    let (id, fork) = (parent.id().clone(), fork.id().clone());
    let tape = std::fs::read(tape_of(folder.path(), &id)).unwrap();
    let ends: Vec<_> = tape.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let (begins, ends) = (ends[ends.len() - 2], ends[ends.len() - 1]);
    for cut in [begins, begins + 1, (begins + ends) / 2, ends - 1, ends] {
        let folder_of_cut = taped::folder();
        copy(&folder.path().join("store"), &folder_of_cut.path().join("store"));
        std::fs::write(tape_of(folder_of_cut.path(), &id), &tape[..cut]).unwrap();
        let runtime = start(folder_of_cut.path(), Echo::new()).await;
        let parent = runtime.open(&id).await.unwrap();
        let is_whole = cut == ends;
        assert_eq!(merges(&parent).await, usize::from(is_whole), "cut at {cut}");
        assert_eq!(seen(&parent).await.len(), if is_whole { 6 } else { 2 });
        let again = parent.merge_and_delete(&fork).await.unwrap();
        assert_eq!(again.entry.is_some(), !is_whole);
        assert_eq!(told(&parent).await, ["a", "re a", "x", "re x", "y", "re y"]);
        let spent = parent.state().await.unwrap().spent_in_all();
        assert_eq!((merges(&parent).await, spent.requests), (1, 3), "cut at {cut}");
        assert!(runtime.shutdown().await.is_empty());
    }
    assert_eq!(merged.items, 4);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
}

/// A01: the session's actor dies at each crash point while it merges: it is merged once, and the host is told so.
#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_point_of_a_merge_makes_it_once() {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    for point in ["session.took", "session.decided", "session.appended", "session.published", "session.worked"] {
        let folder = taped::folder();
        std::fs::create_dir_all(folder.path().join("work")).unwrap();
        let armed = Arc::new(AtomicBool::new(false));
        let strikes = armed.clone();
        let faults = tamtam::runtime::Faults::new(move |passed, _| {
            if passed == point && strikes.swap(false, Ordering::SeqCst) {
                std::panic::resume_unwind(Box::new("struck on purpose"));
            }
        });
        let builder = Runtime::builder().store(folder.path().join("store")).model(Echo::new());
        let runtime = builder.faults(faults).start().await.unwrap();
        let parent = create(&runtime, folder.path()).await;
        say(&parent, &["a"]).await;
        let fork = parent.fork(newest(&parent).await).await.unwrap();
        say(&fork, &["x"]).await;
        armed.store(true, Ordering::SeqCst);
        let first = parent.merge(fork.id()).await;
        // Where it struck before the wish was taken up nothing was done; what was done is not done again.
        let again = parent.merge(fork.id()).await.unwrap();
        let recorded = usize::from(first.is_ok_and(|merge| merge.entry.is_some())) + usize::from(again.entry.is_some());
        assert_eq!((recorded, merges(&parent).await), (1, 1), "{point}");
        assert_eq!(told(&parent).await, ["a", "re a", "x", "re x"], "{point}");
        assert!(!armed.load(Ordering::SeqCst), "{point} was not passed");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// The host is killed between the entry and the deletion of the fork: the words are on the parent's tape and the fork is there;
/// the same again deletes it. The other way round they could be nowhere.
#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_outlives_a_kill_between_its_merge_and_its_deletion() {
    let (folder, killed) = (taped::folder(), taped::folder());
    std::fs::create_dir_all(folder.path().join("work")).unwrap();
    let (from, to) = (folder.path().join("store"), killed.path().join("store"));
    let faults = tamtam::runtime::Faults::new(move |point, _| {
        if point == "merge.recorded" {
            crate::crash_points::copy(&from, &to);
        }
    });
    let builder = Runtime::builder().store(folder.path().join("store")).model(Echo::new());
    let runtime = builder.faults(faults).start().await.unwrap();
    let parent = create(&runtime, folder.path()).await;
    say(&parent, &["a"]).await;
    let fork = parent.fork(newest(&parent).await).await.unwrap();
    say(&fork, &["x"]).await;
    parent.merge_and_delete(fork.id()).await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
    let runtime: Runtime = start(killed.path(), Echo::new()).await;
    let parent = runtime.open(parent.id()).await.unwrap();
    let left = runtime.open(fork.id()).await.unwrap();
    let all = ["a", "re a", "x", "re x"];
    assert_eq!(
        (told(&parent).await, told(&left).await),
        (all.map(String::from).to_vec(), all.map(String::from).to_vec())
    );
    let again = parent.merge_and_delete(fork.id()).await.unwrap();
    assert!(again.entry.is_none() && again.deleted.is_some());
    assert_eq!(runtime.list().await.unwrap().len(), 1);
    assert!(runtime.shutdown().await.is_empty());
}

/// The host is killed while files go back with the conversation: between two files, and between the last of them and the entry.
/// Files come first, so what is left is a conversation that did not go back; the same again finds what was done and completes
/// it, and a redo brings all of it forth.
#[cfg(all(feature = "fault-injection", feature = "tools"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_with_files_that_is_killed_anywhere_is_completed_by_the_same_again() {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tamtam::{
        session::{Point, RollbackTarget},
        tools,
    };

    use super::files::{files, model, story, whole};

    // Two files are put back, then comes the entry.
    for (point, nth, left) in [("restore.file", 1, 1), ("restore.file", 2, 0), ("back.files", 1, 0)] {
        for struck in [false, true] {
            let (folder, killed) = (taped::folder(), taped::folder());
            std::fs::create_dir_all(folder.path().join("work")).unwrap();
            let (from, to) = (folder.path().to_owned(), killed.path().to_owned());
            let passings = Arc::new(AtomicUsize::new(0));
            let faults = tamtam::runtime::Faults::new(move |passed, _| {
                if passed == point && passings.fetch_add(1, Ordering::SeqCst) + 1 == nth {
                    crate::crash_points::copy(&from.join("store"), &to.join("store"));
                    crate::crash_points::copy(&from.join("work"), &to.join("work"));
                    if struck {
                        std::panic::resume_unwind(Box::new("struck on purpose"));
                    }
                }
            });
            let builder = Runtime::builder().store(folder.path().join("store")).model(model()).tools(tools::full());
            let runtime = builder.faults(faults).start().await.unwrap();
            let session = super::files::create(&runtime, folder.path()).await;
            story(&session).await;
            let all = files(folder.path());
            let back = session.rollback_with(Point::BeforeMessage("2".into()), whole()).await;
            assert_eq!(back.is_ok(), !struck, "{back:?}");
            // The session names its workspace, so what the kill left of that is put where it was.
            let home = if struck { folder.path() } else { killed.path() };
            if !struck {
                assert!(runtime.shutdown().await.is_empty());
                std::fs::remove_dir_all(folder.path().join("work")).unwrap();
                crate::crash_points::copy(&home.join("work"), &folder.path().join("work"));
            }
            let runtime = match struck {
                true => runtime,
                false => {
                    let builder = Runtime::builder().store(home.join("store")).model(model()).tools(tools::full());
                    builder.start().await.unwrap()
                }
            };
            let session = runtime.open(session.id()).await.unwrap();
            assert_eq!(seen(&session).await.len(), 12, "{point} {nth}: the conversation did not go back");
            let plan = session.plan_rollback(Point::BeforeMessage("2".into())).await.unwrap();
            let counts = (plan.files.to_change().count(), plan.files.refused().count());
            assert_eq!(counts, (left, 0), "{point} {nth} struck {struck}: {}", plan.files);
            session.rollback_with(Point::BeforeMessage("2".into()), whole()).await.unwrap();
            assert_eq!((seen(&session).await.len(), files(folder.path()).len()), (4, 1), "{point} {nth}");
            let entries = crate::back::entries(&session).await;
            let backs = entries.iter().filter(|entry| matches!(entry.record, Record::RolledBack(_))).count();
            assert_eq!(backs, 1);
            session.rollback_with(RollbackTarget::Redo, whole()).await.unwrap();
            assert_eq!(files(folder.path()), all, "{point} {nth}");
            assert!(runtime.shutdown().await.is_empty());
        }
    }
}
