//! Forks as a host makes them: of sessions that rest or run, and of forks.

use std::{path::Path, sync::Arc};

use tamtam::{
    OpenError, Outcome, Runtime, Seq, Session, SessionOptions,
    model::{Item, Model, Reply, Request, Scripted},
    session::{BranchError, ForkOptions, Role},
    tape::{TapeError, TapeStoreExt as _},
};

use crate::support::taped;

/// Says how many messages of the host it has read, and what the first and the last one said.
fn counting() -> Arc<Scripted> {
    Arc::new(Scripted::from_fn(|request| Reply::text(said(request).join(", "))))
}

fn said(request: &Request) -> Vec<String> {
    let texts = request.history.iter().filter_map(|item| match item.as_ref() {
        Item::User(user) => Some(user.text()),
        _ => None,
    });
    texts.collect()
}

async fn runtime(folder: &Path, model: Arc<dyn Model>) -> Runtime {
    Runtime::builder().store(folder.join("store")).model(model).start().await.unwrap()
}

async fn ask(session: &Session, text: &str) -> String {
    let answer = session.prompt(text).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    answer.text
}

/// The newest entry of each turn's end.
fn turn_ends(folder: &Path, session: &Session) -> Vec<Seq> {
    let options = tamtam::tape::StoreOptions::default().access(tamtam::tape::TapeAccess::Read);
    let store = tamtam::tape::Store::open(folder.join("store"), options).unwrap();
    let entries = store.read(session.id(), Seq::ZERO).unwrap();
    entries.iter().filter(|entry| entry.kind == "turn_finished").map(|entry| entry.seq).collect()
}

/// SESSION-001, 005, 006: both go on, each alone; a fork of the fork too; and all of it is there after a restart.
/// SESSION-004: three levels: a fork of a fork of the first session answers with the turns of all three.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_goes_on_from_where_it_was_made_and_its_parent_does_not_notice() {
    let folder = taped::folder();
    let first = runtime(folder.path(), counting()).await;
    let parent = first.create(SessionOptions::new(folder.path())).await.unwrap();
    ask(&parent, "a").await;
    ask(&parent, "b").await;
    let early = parent.fork(turn_ends(folder.path(), &parent)[0]).await.unwrap();
    let late = parent.fork(ForkOptions::newest()).await.unwrap();
    assert_eq!(ask(&early, "x").await, "a, x");
    assert_eq!(ask(&late, "y").await, "a, b, y");
    assert_eq!(ask(&parent, "c").await, "a, b, c");
    let again = early.fork(ForkOptions::newest()).await.unwrap();
    assert_eq!(ask(&again, "z").await, "a, x, z");
    let texts: Vec<String> = again.messages().await.unwrap().iter().map(tamtam::Message::text).collect();
    assert_eq!(texts, ["a", "a", "x", "a, x", "z", "a, x, z"]);
    assert!(first.shutdown().await.is_empty());

    let second = runtime(folder.path(), counting()).await;
    for (session, text) in [(&parent, "a, b, c, !"), (&early, "a, x, !"), (&late, "a, b, y, !"), (&again, "a, x, z, !")]
    {
        let session = second.open(session.id()).await.unwrap();
        assert_eq!(ask(&session, "!").await, text);
    }
    assert_eq!(second.list().await.unwrap().len(), 4);
    assert!(second.shutdown().await.is_empty());
}

/// The parent is in mid-turn, its model still at work: the fork is at rest, and answers at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_runs_can_be_forked_and_both_finish() {
    let folder = taped::folder();
    let gate = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (open, wait) = (gate.clone(), std::time::Duration::from_millis(5));
    let model = Scripted::from_fn(move |request| {
        let said = said(request);
        if said.last().is_some_and(|last| last == "slow") {
            while !open.load(std::sync::atomic::Ordering::SeqCst) {
                std::thread::sleep(wait);
            }
        }
        Reply::text(said.join(", "))
    });
    let runtime = runtime(folder.path(), Arc::new(model)).await;
    let parent = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    ask(&parent, "a").await;
    let slow = parent.prompt("slow").await.unwrap();
    let fork = parent.fork(ForkOptions::newest()).await.unwrap();
    let answer = ask(&fork, "x").await;
    // Where the fork stands in the turn depends on how far the parent was.
    assert!(answer == "a, x" || answer == "a, slow, x", "{answer}");
    gate.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(slow.wait().await.unwrap().text, "a, slow");
    let roles: Vec<Role> = fork.messages().await.unwrap().iter().map(|message| message.role).collect();
    assert_eq!(roles.last(), Some(&Role::Assistant));
    assert!(runtime.shutdown().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_nothing_is_refused_with_what_there_is() {
    let folder = taped::folder();
    let runtime = runtime(folder.path(), counting()).await;
    let parent = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    ask(&parent, "a").await;
    let none = runtime.session(&"none".parse().unwrap()).fork(ForkOptions::newest()).await.unwrap_err();
    assert!(matches!(none, BranchError::Open(OpenError::Tape(TapeError::Missing { .. }))), "{none}");
    let beyond = parent.fork(Seq(9_999)).await.unwrap_err();
    assert!(matches!(beyond, BranchError::Open(OpenError::Tape(TapeError::NoEntry { .. }))), "{beyond}");
    assert_eq!(runtime.list().await.unwrap().len(), 1);
    assert!(runtime.shutdown().await.is_empty());
}

/// BDD-TAPE-007, 008, 009, 023, SESSION-003: a name is there once, and the session opens from its newest anchor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_hands_over_to_an_anchor_and_the_session_opens_from_there() {
    let folder = taped::folder();
    let first = runtime(folder.path(), counting()).await;
    let session = first.create(SessionOptions::new(folder.path())).await.unwrap();
    ask(&session, "a").await;
    let begun = session.handoff("phase-1", None).await.unwrap();
    let again = session.handoff("phase-1", None).await.unwrap_err();
    assert!(again.to_string().contains("anchor \"phase-1\" already exists"), "{again}");
    assert_eq!(ask(&session, "b").await, "a, b");
    session.handoff("phase-2", Some("We counted to two.".into())).await.unwrap();
    let texts = ask(&session, "c").await;
    assert!(texts.contains("We counted to two.") && texts.ends_with("c"), "{texts}");
    assert!(first.shutdown().await.is_empty());
    let options = tamtam::tape::StoreOptions::default().access(tamtam::tape::TapeAccess::Read);
    let store = tamtam::tape::Store::open(folder.path().join("store"), options).unwrap();
    let anchors = store.anchors(session.id()).unwrap();
    let names: Vec<_> = anchors.iter().map(|anchor| (anchor.number, anchor.name.as_str())).collect();
    assert_eq!(names, [(1, "session-start"), (2, "phase-1"), (3, "phase-2")]);
    assert_eq!(anchors[1].first, begun);
    assert_eq!(store.verify(session.id()).unwrap(), []);
    let second = runtime(folder.path(), counting()).await;
    let session = second.open(session.id()).await.unwrap();
    assert!(ask(&session, "d").await.contains("We counted to two."));
    assert!(second.shutdown().await.is_empty());
}

/// The files of a session's tape, by name: path below its anchors, and bytes.
fn tape_files(folder: &Path, session: &Session) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let anchors = folder.join("store/sessions").join(session.id().as_str()).join("anchors");
    let mut files: Vec<_> =
        std::fs::read_dir(anchors).unwrap().map(|entry| entry.unwrap().path().join("entries.jsonl")).collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), std::fs::read(&file).unwrap())).collect()
}

/// BDD-TAPE-028: a tape with two anchors is begun again: by the same runtime and by another one over the store, under its id and
/// while it sleeps or is awake. Each is refused, and both anchors stay, with every byte of every entry; what is said next is added.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bdd_tape_028_a_tape_that_is_begun_again_keeps_all_that_is_there() {
    let folder = taped::folder();
    let first = runtime(folder.path(), counting()).await;
    let options = || SessionOptions::new(folder.path()).id("kept".parse().unwrap());
    let session = first.create(options()).await.unwrap();
    ask(&session, "a").await;
    session.handoff("phase-1", None).await.unwrap();
    ask(&session, "b").await;
    let before = tape_files(folder.path(), &session);
    assert_eq!(before.len(), 2);
    let is_taken = |made: Result<Session, OpenError>| {
        assert!(matches!(made, Err(OpenError::Tape(TapeError::Exists { .. }))), "{made:?}");
        assert_eq!(tape_files(folder.path(), &session), before);
    };
    is_taken(first.create(options()).await);
    first.passivate(session.id()).await.unwrap();
    is_taken(first.create(options()).await);
    assert!(first.shutdown().await.is_empty());

    let second = runtime(folder.path(), counting()).await;
    is_taken(second.create(options()).await);
    let again = second.open(session.id()).await.unwrap();
    assert_eq!(tape_files(folder.path(), &session), before, "opening it writes nothing");
    assert_eq!(ask(&again, "c").await, "a, b, c");
    let after = tape_files(folder.path(), &session);
    assert_eq!(after[0], before[0]);
    assert!(after[1].1.len() > before[1].1.len() && after[1].1.starts_with(&before[1].1));
    assert!(second.shutdown().await.is_empty());
}
