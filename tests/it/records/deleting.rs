//! A deleted conversation is gone with every byte; its state while others use it, and the fate of its handles.

use std::{path::Path, sync::Arc, time::Duration};

use tamtam::{
    Outcome, Runtime, SendError, Session, SessionOptions,
    model::{Reply, Scripted},
    runtime::{DeleteError, Kind},
    session::{ForkOptions, Link},
    tape::{Deleted, Durability, MemoryStore, Store, StoreOptions, TapeError, TapeStore, TapeStoreExt as _},
};

use super::{id, say, talker};
use crate::{engines::plain::Plain, support::taped};

/// Words whose letters stand in no file by chance.
const SECRET: [&str; 3] = ["zanzibarquestion", "xylophoneanswer", "quetzalcoatltitle"];

fn secret_in(folder: &Path) -> Vec<String> {
    files_with(folder, &SECRET)
}

/// The files below a folder that have the end of one of the words, whatever their format.
pub(super) fn files_with(folder: &Path, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = item.path();
        if path.is_dir() {
            found.extend(files_with(&path, words));
        } else if let Ok(bytes) = std::fs::read(&path) {
            let has = |word: &&&str| bytes.windows(word.len() - 4).any(|part| part == &word.as_bytes()[4..]);
            found.extend(words.iter().filter(has).map(|word| format!("{}: {word}", path.display())));
        }
    }
    found
}

async fn start(folder: &Path, durability: Durability) -> Runtime {
    let model = Scripted::from_fn(|request| {
        let is_secret = format!("{:?}", request.history).contains(SECRET[0]);
        Reply::text(if is_secret { format!("The {}.", SECRET[1]) } else { "Of no interest.".into() })
    });
    let builder = Runtime::builder().store(folder.join("store")).model(Arc::new(model)).durability(durability);
    builder.start().await.unwrap()
}

async fn secret(runtime: &Runtime, folder: &Path, name: &str) -> Session {
    let mut options = SessionOptions::new(folder).id(id(name));
    options.title = Some(format!("about {}", SECRET[2]));
    let session = runtime.create(options).await.unwrap();
    say(&session, &format!("the {}", SECRET[0])).await;
    session.handoff("phase-1", Some(format!("about {}", SECRET[0]))).await.unwrap();
    say(&session, &format!("again the {}", SECRET[0])).await;
    session
}

/// Has the index take all of it, where there is an index.
async fn index(runtime: &Runtime) {
    #[cfg(feature = "sqlite")]
    for word in &SECRET[..2] {
        let query = tamtam::tape::Query::new(*word).wait(Duration::from_secs(60));
        assert!(!runtime.search(query).await.unwrap().hits.is_empty(), "{word}");
    }
    let mut query = tamtam::ops::SessionQuery::default();
    query.wait = Duration::from_secs(60);
    assert!(!runtime.sessions(query).await.unwrap().sessions.is_empty());
}

fn is_missing(error: &SendError) -> bool {
    error.kind() == Kind::NotFound
}

/// Awake and indexed, in both durabilities: no file has a word the moment the call returns. Another session stays as it is, and the
/// id can be used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_session_leaves_no_word_in_any_file() {
    for durability in [Durability::Process, Durability::Power] {
        let folder = taped::folder();
        let runtime = start(folder.path(), durability).await;
        let session = secret(&runtime, folder.path(), "goes").await;
        let stays = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
        say(&stays, "the jabberwocky").await;
        index(&runtime).await;
        runtime.protect(session.id()).await.unwrap();
        for beside in ["spill", "files"] {
            let beside = folder.path().join("store/sessions/goes").join(beside);
            std::fs::create_dir_all(&beside).unwrap();
            std::fs::write(beside.join("x"), SECRET[0]).unwrap();
        }
        assert!(!secret_in(folder.path()).is_empty());
        let deletion = runtime.delete(session.id()).await.unwrap();
        assert_eq!((deletion.session, deletion.left), (Deleted::Gone, None));
        assert_eq!(secret_in(folder.path()), [""; 0], "{durability:?}");
        assert!(is_missing(&session.prompt("still there?").await.unwrap_err()));
        assert!(!runtime.exists(session.id()).await.unwrap());
        let again = runtime.delete(session.id()).await.unwrap_err();
        assert!(matches!(again, DeleteError::Open(_)) && again.kind() == Kind::NotFound, "{again}");
        say(&stays, "still there?").await;
        // A new one under the id, through the old handle too.
        let anew = runtime.create(SessionOptions::new(folder.path()).id(id("goes"))).await.unwrap();
        say(&session, "hello").await;
        assert_eq!(anew.messages().await.unwrap().len(), 2);
        assert!(runtime.shutdown().await.is_empty());
        let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
        assert!(store.protected_sessions().unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_session_lives_on_in_its_forks_alone() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Durability::Process).await;
    let parent = secret(&runtime, folder.path(), "parent").await;
    let fork = parent.fork(ForkOptions::newest().id(id("fork"))).await.unwrap();
    index(&runtime).await;
    let deletion = runtime.delete(parent.id()).await.unwrap();
    assert_eq!((deletion.session, deletion.left), (Deleted::Hidden, None));
    assert!(is_missing(&parent.prompt("still there?").await.unwrap_err()));
    assert!(!runtime.exists(parent.id()).await.unwrap());
    let taken = runtime.open_or_create(SessionOptions::new(folder.path()).id(id("parent"))).await.unwrap_err();
    assert_eq!(taken.kind(), Kind::Exists, "{taken}");
    // The fork is read, talks on, sleeps and wakes.
    say(&fork, "go on").await;
    runtime.passivate(fork.id()).await.unwrap();
    let said = format!("{:?}", runtime.open(fork.id()).await.unwrap().messages().await.unwrap());
    assert!(said.contains(SECRET[0]) && said.contains("go on"), "{said}");
    let deletion = runtime.delete(fork.id()).await.unwrap();
    assert_eq!((deletion.session, deletion.left), (Deleted::Gone, None));
    assert_eq!(secret_in(folder.path()), [""; 0]);
    assert!(runtime.list().await.unwrap().is_empty());
    assert!(runtime.shutdown().await.is_empty());
}

/// Over files, memory and an engine of a host's: awake or asleep, and while others send to it and wake it all the while. A
/// message was taken before the deletion, which then says that the session is busy, or finds no session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_deleted_beside_those_who_send_to_it() {
    let folder = taped::folder();
    let engines: [Option<Arc<dyn TapeStore>>; 3] =
        [None, Some(Arc::new(MemoryStore::new())), Some(Arc::new(Plain::default()))];
    for engine in engines {
        let runtime = match engine {
            None => start(folder.path(), Durability::Process).await,
            Some(engine) => Runtime::builder().tapes(engine).model(talker()).start().await.unwrap(),
        };
        for round in 0..20 {
            let options = SessionOptions::new(folder.path()).id(id("one"));
            let session = runtime.create(options).await.unwrap();
            if round % 2 == 0 {
                runtime.passivate(session.id()).await.unwrap();
            }
            let sender = tokio::spawn({
                let session = session.clone();
                async move {
                    // An end, because a session that always has a turn is never deleted.
                    for _ in 0..10 {
                        match session.prompt("hi").await {
                            Ok(receipt) => drop(receipt.wait().await),
                            Err(error) => return error,
                        }
                    }
                    // Endless: a question wakes the session, and does not keep it from being deleted.
                    loop {
                        match session.state().await {
                            Ok(_) => tokio::task::yield_now().await,
                            Err(error) => return error,
                        }
                    }
                }
            });
            let deletion = loop {
                match runtime.delete(session.id()).await {
                    Err(DeleteError::Busy { .. }) => tokio::task::yield_now().await,
                    deleted => break deleted.unwrap(),
                }
            };
            assert_eq!((deletion.session, deletion.left), (Deleted::Gone, None));
            let error = sender.await.unwrap();
            assert!(is_missing(&error), "{error}");
            assert!(runtime.list().await.unwrap().is_empty() && runtime.awake().is_empty());
        }
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// The listeners of a session that is deleted hear its end, and nothing of a session that is made under its id later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_of_a_deleted_session_hear_no_more() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Durability::Process).await;
    let session = secret(&runtime, folder.path(), "one").await;
    let mut events = session.events();
    runtime.delete(session.id()).await.unwrap();
    while events.next().await.is_some() {}
    let anew = runtime.create(SessionOptions::new(folder.path()).id(id("one"))).await.unwrap();
    let mut heard = anew.events();
    say(&anew, "hello").await;
    assert!(heard.next().await.is_some());
    assert!(events.next().await.is_none());
    assert!(runtime.shutdown().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_at_work_is_not_deleted() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("done").at_barrier("gate")));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model.clone()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let turn = session.prompt("work").await.unwrap();
    let error = runtime.delete(session.id()).await.unwrap_err();
    assert!(matches!(error, DeleteError::Busy { .. }) && error.kind() == Kind::Busy, "{error}");
    session.abort("to delete it").await.unwrap();
    assert!(matches!(turn.wait().await.unwrap().outcome, Outcome::Aborted { .. }));
    session.wait().await.unwrap();
    // With a child at work, neither the one nor the other.
    let options = SessionOptions::new(folder.path());
    let child = session.spawn_child(options, "a task", Link::default()).await.unwrap();
    let error = runtime.delete(session.id()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    let error = runtime.delete(child.session().id()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    model.barrier("gate").release();
    child.down().await.unwrap();
    session.wait().await.unwrap();
    for id in [child.session().id(), session.id()] {
        assert_eq!(runtime.delete(id).await.unwrap().session, Deleted::Gone);
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// A parked session goes with the turn that parked it; one that another process has does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_session_is_deleted_and_one_of_another_process_is_not() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("never").at_barrier("gate")));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).id(id("parked"))).await.unwrap();
    session.prompt(format!("the {}", SECRET[0])).await.unwrap();
    runtime.operate().park("parked").await.unwrap();
    let other = start(folder.path(), Durability::Process).await;
    let theirs = secret(&other, folder.path(), "theirs").await;
    let error = runtime.delete(theirs.id()).await.unwrap_err();
    assert!(matches!(&error, DeleteError::Open(tamtam::OpenError::Tape(TapeError::Claimed { .. }))), "{error}");
    say(&theirs, "still there?").await;
    assert_eq!(other.delete(theirs.id()).await.unwrap().session, Deleted::Gone);
    assert_eq!(runtime.delete(session.id()).await.unwrap().session, Deleted::Gone);
    assert!(runtime.parked().is_empty());
    assert!(is_missing(&session.prompt("hi").await.unwrap_err()));
    assert_eq!(secret_in(folder.path()), [""; 0]);
    // Of an earlier runtime, too; and with a fork it is hidden and does not go on by itself.
    let session = runtime.create(SessionOptions::new(folder.path()).id(id("parked"))).await.unwrap();
    let fork = session.fork(ForkOptions::newest().id(id("fork"))).await.unwrap();
    session.prompt("work").await.unwrap();
    runtime.operate().park("parked").await.unwrap();
    assert!(runtime.shutdown().await.is_empty() && other.shutdown().await.is_empty());
    let runtime = start(folder.path(), Durability::Process).await;
    assert_eq!(runtime.delete(session.id()).await.unwrap().session, Deleted::Hidden);
    assert!(runtime.shutdown().await.is_empty());
    let runtime = start(folder.path(), Durability::Process).await;
    assert!(runtime.recovered().is_empty() && runtime.parked().is_empty());
    say(&runtime.open(fork.id()).await.unwrap(), "hello").await;
    assert!(runtime.shutdown().await.is_empty());
}

/// A session whose turn was cut off by the end of its process and is asleep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_turn_was_cut_off_is_opened_and_aborted_first() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("never").at_barrier("gate")));
    let first = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let session = first.create(SessionOptions::new(folder.path()).id(id("cut"))).await.unwrap();
    session.prompt("work").await.unwrap();
    assert!(first.shutdown().await.is_empty());
    let builder = Runtime::builder().store(folder.path().join("store")).model(talker()).without_auto_resume();
    let runtime = builder.start().await.unwrap();
    let error = runtime.delete(&id("cut")).await.unwrap_err();
    assert!(matches!(error, DeleteError::Busy { .. }), "{error}");
    let session = runtime.open(&id("cut")).await.unwrap();
    session.abort("to delete it").await.unwrap();
    session.wait().await.unwrap();
    assert_eq!(runtime.delete(session.id()).await.unwrap().session, Deleted::Gone);
    assert!(runtime.shutdown().await.is_empty());
}
