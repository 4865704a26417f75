//! Forking at any point and merging, in a whole runtime: real actors, real tapes.
//! | file | contents |
//! |---|---|
//! | `chance.rs` | random sends, rollbacks, forks and merges against a list of messages |
//! | `files.rs` | rollback with files, and what a merge does to them |
//! | `cut.rs` | a merge, struck and cut off at each place |

mod chance;
mod cut;
#[cfg(feature = "tools")]
mod files;

use std::{path::Path, sync::Arc};

use tamtam::{
    Delivery, EventKind, Message, Outcome, Runtime, SendError, Seq, Session, SessionId, SessionOptions,
    model::{Item, Model, Reply, Scripted, transcript},
    permission::Profile,
    session::{BranchError, BranchEvent, Limits, Next, NoPoint, Point, Record, Refusal, RollbackOptions, State},
    tape::Deleted,
};

use crate::{
    back::{Echo, entries},
    support::taped,
};

pub(crate) use crate::back::told;

pub(crate) async fn start(folder: &Path, model: Arc<dyn Model>) -> Runtime {
    std::fs::create_dir_all(folder.join("work")).unwrap();
    Runtime::builder().store(folder.join("store")).model(model).start().await.unwrap()
}

pub(crate) async fn create(runtime: &Runtime, folder: &Path) -> Session {
    let options = SessionOptions::new(folder.join("work")).profile(Profile::Auto).id("parent".parse().unwrap());
    runtime.create(options).await.unwrap()
}

pub(crate) async fn say(session: &Session, texts: &[&str]) {
    for text in texts {
        let message = Message::user(*text).with_id((*text).into());
        let answer = session.prompt(message).await.unwrap().wait().await.unwrap();
        assert_eq!((answer.outcome, answer.text), (Outcome::Done, format!("re {text}")));
    }
}

/// The conversation as the model sees it.
pub(crate) async fn seen(session: &Session) -> Vec<String> {
    said_in(&session.state().await.unwrap())
}

fn said_in(state: &State) -> Vec<String> {
    let lines = state.history.iter().map(|item| match &**item {
        Item::User(user) => user.text(),
        Item::Assistant(answer) => answer.text(),
        _ => "result".to_owned(),
    });
    lines.collect()
}

pub(crate) async fn newest(session: &Session) -> Seq {
    session.state().await.unwrap().seq
}

/// The state that the tape makes, up to an entry.
async fn folded(session: &Session, upto: Seq) -> State {
    let entries = entries(session).await;
    let Record::State(first) = &entries[0].record else { panic!("{:?}", entries[0]) };
    let mut state = (**first).clone();
    entries.iter().filter(|entry| entry.seq <= upto).for_each(|entry| state.apply(entry));
    state
}

pub(crate) async fn merges(session: &Session) -> usize {
    let entries = entries(session).await;
    entries.iter().filter(|entry| matches!(entry.record, Record::Merged(_))).count()
}

/// Z-01, SESSION-002: a fork from any message or turn knows what was said before it; one goes there by its id; and neither
/// side changes the other, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_from_a_message_or_a_turn_knows_what_came_before() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Echo::new()).await;
    let parent = create(&runtime, folder.path()).await;
    say(&parent, &["a", "b", "c"]).await;
    let turns: Vec<Seq> = parent.state().await.unwrap().ended.iter().map(|end| end.turn).collect();
    let befores = [&[][..], &["a", "re a"], &["a", "re a", "b", "re b"]];
    let mut forks = Vec::new();
    for (n, message) in ["a", "b", "c"].into_iter().enumerate() {
        for point in [Point::BeforeMessage(message.into()), Point::BeforeTurn(turns[n])] {
            let fork = parent.fork(point).await.unwrap();
            assert_eq!(seen(&fork).await, befores[n]);
            say(&fork, &["x"]).await;
            // What comes after the point was never said here, so it is new.
            say(&fork, &[message]).await;
            forks.push((
                fork.id().clone(),
                [befores[n], &["x", "re x", message, &format!("re {message}")]].concat().join(","),
            ));
        }
    }
    assert_eq!(told(&parent).await, ["a", "re a", "b", "re b", "c", "re c"]);
    assert!(runtime.shutdown().await.is_empty());
    let runtime = start(folder.path(), Echo::new()).await;
    for (fork, said) in forks {
        let fork = runtime.open(&fork).await.unwrap();
        assert_eq!((seen(&fork).await.join(","), told(&fork).await.join(",")), (said.clone(), said));
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// A model that is let go on once for each permit, so that messages wait, and one append ends a turn and begins the next.
fn gated() -> (Arc<tokio::sync::Semaphore>, Arc<dyn Model>) {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let permits = gate.clone();
    let model = Scripted::from_fn(move |request| {
        while permits.try_acquire().map(tokio::sync::SemaphorePermit::forget).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let said = transcript(request);
        let last = said.lines().rev().find_map(|line| line.strip_prefix("user: ")).unwrap_or_default().to_owned();
        Reply::text(format!("re {last}"))
    });
    (gate, Arc::new(model))
}

/// Z-01: at every entry of a tape, those inside an append too, the fork says exactly what was said there.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_at_any_entry_says_what_was_said_there() {
    let folder = taped::folder();
    let (gate, model) = gated();
    let runtime = start(folder.path(), model).await;
    let parent = create(&runtime, folder.path()).await;
    let mut receipts = Vec::new();
    for text in ["a", "b", "c"] {
        receipts.push(parent.prompt(Message::user(text).with_id(text.into())).await.unwrap());
    }
    gate.add_permits(3);
    for receipt in receipts {
        assert_eq!(receipt.wait().await.unwrap().outcome, Outcome::Done);
    }
    let undone = parent.undo().await.unwrap();
    assert_eq!(undone.gone, ["c".into()]);
    let last = newest(&parent).await;
    let mut inside = 0;
    for seq in 1..=last.0 {
        let fork = parent.fork(Seq(seq)).await.unwrap();
        assert_eq!(seen(&fork).await, said_in(&folded(&parent, Seq(seq)).await), "at {seq}");
        let began = entries(&fork).await.into_iter().find(|entry| matches!(entry.record, Record::Forked(_)));
        let began = began.unwrap().seq.0 - 1;
        inside += usize::from(began != seq);
        assert!(fork.state().await.unwrap().is_idle());
    }
    assert!(inside > 4, "{inside} entries were inside an append");
    // "b" was read in the append that recorded the answer to "a": what was said before it is there, and nothing else.
    let fork = parent.fork(Point::BeforeMessage("b".into())).await.unwrap();
    assert_eq!(seen(&fork).await, ["a", "re a"]);
    gate.add_permits(1);
    say(&fork, &["x"]).await;
    assert_eq!(told(&fork).await, ["a", "re a", "x", "re x"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// SESSION-ERR-005: messages that wait are the parent's alone: where one goes to the fork nothing waits, and nothing of it is
/// lost there.
#[tokio::test(flavor = "multi_thread")]
async fn session_err_005_nothing_waits_in_a_fork() {
    let folder = taped::folder();
    let (gate, model) = gated();
    let runtime = start(folder.path(), model).await;
    let parent = create(&runtime, folder.path()).await;
    let running = parent.prompt("a").await.unwrap();
    let mut waiting = Vec::new();
    for text in ["b", "c"] {
        waiting.push(parent.send(Message::user(text).with_id(text.into()), Delivery::Queue).await.unwrap());
    }
    let fork = parent.fork(waiting[1].seq).await.unwrap();
    assert_eq!((fork.queue().await.unwrap().len(), parent.queue().await.unwrap().len()), (0, 2));
    assert!(fork.state().await.unwrap().is_idle());
    gate.add_permits(4);
    running.wait().await.unwrap();
    for receipt in waiting {
        assert_eq!(receipt.wait().await.unwrap().outcome, Outcome::Done);
    }
    // Never said in the fork, so there it is a message of its own.
    say(&fork, &["b"]).await;
    assert_eq!(seen(&fork).await, ["a", "b", "re b"]);
    assert_eq!(seen(&parent).await, ["a", "re a", "b", "re b", "c", "re c"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// What is no point of the conversation is said by name, and no session is left behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_no_point_is_refused() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Echo::new()).await;
    let parent = create(&runtime, folder.path()).await;
    say(&parent, &["a", "b"]).await;
    parent.undo().await.unwrap();
    let none = parent.fork(Point::BeforeMessage("b".into())).await.unwrap_err();
    assert!(matches!(&none, BranchError::NoPoint(NoPoint::NoMessage { .. })), "{none}");
    let none = parent.fork(Point::BeforeTurn(Seq(2))).await.unwrap_err();
    assert!(matches!(&none, BranchError::NoPoint(NoPoint::NoTurn { .. })), "{none}");
    for beyond in [0, 9_999] {
        assert!(matches!(parent.fork(Seq(beyond)).await, Err(BranchError::Open(_))));
    }
    assert_eq!(runtime.list().await.unwrap().len(), 1);
    assert!(runtime.shutdown().await.is_empty());
}

/// A fork is no way round a limit: it may use what was left at its point, and counts from 0.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_may_use_what_was_left_and_no_more() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Echo::new()).await;
    let parent = create(&runtime, folder.path()).await;
    parent.configure(|settings| settings.budget.session = Limits::default().tokens(6_000)).await.unwrap();
    say(&parent, &["a"]).await;
    let then = parent.state().await.unwrap();
    let left = then.left().tokens.unwrap();
    assert!(left < 6_000 && left > 0, "{left}");
    let fork = parent.fork(then.seq).await.unwrap();
    let state = fork.state().await.unwrap();
    assert_eq!((state.left().tokens, state.settings.budget.session.tokens), (Some(left), Some(left)));
    assert_eq!((state.spent_in_all(), state.turns), (Default::default(), 0));
    // However often it is forked, a line of the conversation comes to its end.
    let mut line = fork;
    let outcome = loop {
        let answer = line.prompt("go on").await.unwrap().wait().await.unwrap();
        if answer.outcome != Outcome::Done {
            break answer.outcome;
        }
        let next = line.fork(newest(&line).await).await.unwrap();
        let (before, after) = (line.state().await.unwrap().left().tokens, next.state().await.unwrap().left().tokens);
        assert_eq!(before, after);
        line = next;
    };
    assert!(matches!(outcome, Outcome::Budget { .. }), "{outcome:?}");
    assert!(runtime.shutdown().await.is_empty());
}

/// C-28, BDD-TAPE-015, BDD-TAPE-016, S-10: what was said in the fork is said in its parent once it is merged, and not before;
/// merged again it is nothing, which is said; and after an undo it can be merged again. The next process finds it as it was left.
#[tokio::test(flavor = "multi_thread")]
async fn a_merge_brings_what_was_said_in_the_fork_once() {
    let folder = taped::folder();
    let model = Echo::new();
    let runtime = start(folder.path(), model.clone()).await;
    let parent = create(&runtime, folder.path()).await;
    say(&parent, &["a"]).await;
    let fork = parent.fork(newest(&parent).await).await.unwrap();
    let before = newest(&parent).await;
    let nothing = parent.merge(fork.id()).await.unwrap();
    assert_eq!((nothing.entry, nothing.items, nothing.messages.len()), (None, 0, 0));
    assert_eq!(newest(&parent).await, before, "nothing was written");
    say(&fork, &["x", "y"]).await;
    say(&parent, &["b"]).await;
    assert_eq!(told(&parent).await, ["a", "re a", "b", "re b"]);
    let mut events = parent.events();
    let merged = parent.merge(fork.id()).await.unwrap();
    assert_eq!((merged.messages.as_slice(), merged.items), (&["x".into(), "y".into()][..], 4));
    let shown = loop {
        match events.next().await {
            Some(Next::Event(event)) if matches!(event.kind, EventKind::Branch(BranchEvent::Merged { .. })) => {
                break event.kind.clone();
            }
            Some(_) => {}
            None => panic!("the stream ended"),
        }
    };
    assert!(
        matches!(&shown, EventKind::Branch(BranchEvent::Merged { fork: id, items: 4, messages, .. })
        if id == fork.id() && *messages == merged.messages),
        "{shown:?}"
    );
    let all = ["a", "re a", "b", "re b", "x", "re x", "y", "re y"];
    assert_eq!(
        (told(&parent).await, seen(&parent).await),
        (all.map(String::from).to_vec(), all.map(String::from).to_vec())
    );
    assert_eq!(parent.merge(fork.id()).await.unwrap().entry, None, "merged again it is nothing");
    say(&fork, &["z"]).await;
    assert_eq!(parent.merge(fork.id()).await.unwrap().messages, ["z".into()]);
    assert_eq!(parent.undo().await.unwrap().gone, ["z".into()]);
    assert_eq!(told(&parent).await, all);
    assert_eq!(parent.merge(fork.id()).await.unwrap().messages, ["z".into()]);
    let back = parent.rollback(Point::BeforeMessage("x".into())).await.unwrap();
    assert_eq!(back.gone, ["x".into(), "y".into(), "z".into()]);
    assert_eq!(parent.redo().await.unwrap().again, ["x".into(), "y".into(), "z".into()]);
    assert_eq!(told(&fork).await, ["a", "re a", "x", "re x", "y", "re y", "z", "re z"], "the fork is what it was");
    say(&parent, &["c"]).await;
    let history = model.newest()["history"].as_array().unwrap().len();
    assert_eq!(history, 11, "the model is sent all of it");
    assert!(runtime.shutdown().await.is_empty());

    let runtime = start(folder.path(), model).await;
    let parent = runtime.open(parent.id()).await.unwrap();
    assert_eq!(seen(&parent).await[8..], ["z", "re z", "c", "re c"]);
    assert_eq!(parent.merge(fork.id()).await.unwrap().entry, None);
    assert!(runtime.shutdown().await.is_empty());
}

/// What the fork took back is not merged; what it summed up, or began an anchor after, is merged whole. BDD-TAPE-027: an anchor
/// of the fork stays the fork's, for what is merged is one entry; what was said on both sides of it is merged.
#[tokio::test(flavor = "multi_thread")]
async fn bdd_tape_027_a_merge_is_whole_and_has_nothing_that_was_taken_back() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Echo::new()).await;
    let parent = create(&runtime, folder.path()).await;
    say(&parent, &["a", "b"]).await;
    let fork = parent.fork(Point::BeforeMessage("b".into())).await.unwrap();
    say(&fork, &["x"]).await;
    fork.handoff("fork-phase", Some("We said x.".into())).await.unwrap();
    say(&fork, &["y", "wrong"]).await;
    fork.undo().await.unwrap();
    say(&fork, &["z"]).await;
    assert!(seen(&fork).await[0].contains("We said x."));
    let merged = parent.merge(fork.id()).await.unwrap();
    assert_eq!(merged.messages, ["x".into(), "y".into(), "z".into()]);
    let all = ["a", "re a", "b", "re b", "x", "re x", "y", "re y", "z", "re z"];
    assert_eq!(
        (seen(&parent).await, told(&parent).await),
        (all.map(String::from).to_vec(), all.map(String::from).to_vec())
    );
    let store = folder.path().join("store/sessions");
    let anchors = |id: &SessionId| std::fs::read_dir(store.join(id.as_str()).join("anchors")).unwrap().count();
    assert_eq!((anchors(parent.id()), anchors(fork.id())), (1, 2));
    // The fork goes back to before what was merged: what it says then is new all the same.
    fork.rollback(Point::BeforeMessage("x".into())).await.unwrap();
    say(&fork, &["other"]).await;
    assert_eq!(parent.merge(fork.id()).await.unwrap().messages, ["other".into()]);
    assert!(runtime.shutdown().await.is_empty());
}

/// BDD-TAPE-024: a merge that fails says why and by whom, leaves both sides as they were, and the fork is kept.
#[tokio::test(flavor = "multi_thread")]
async fn bdd_tape_024_a_failed_merge_leaves_both_sides_whole() {
    let folder = taped::folder();
    let (gate, model) = gated();
    let runtime = start(folder.path(), model).await;
    let parent = create(&runtime, folder.path()).await;
    gate.add_permits(2);
    say(&parent, &["a"]).await;
    let fork = parent.fork(newest(&parent).await).await.unwrap();
    say(&fork, &["x"]).await;
    let refused = fork.merge(parent.id()).await.unwrap_err();
    assert!(matches!(&refused, BranchError::NotAFork { .. }), "{refused}");
    assert!(matches!(parent.merge(parent.id()).await, Err(BranchError::NotAFork { .. })));
    assert!(matches!(parent.merge(&"none".parse().unwrap()).await, Err(BranchError::Open(_))));

    let running = fork.prompt("y").await.unwrap();
    let busy = parent.merge_and_delete(fork.id()).await.unwrap_err();
    assert!(matches!(&busy, BranchError::Busy { session, .. } if session == fork.id()), "{busy}");
    gate.add_permits(1);
    running.wait().await.unwrap();
    let running = parent.prompt("b").await.unwrap();
    let busy = parent.merge_and_delete(fork.id()).await.unwrap_err();
    assert!(matches!(&busy, BranchError::Busy { session, .. } if session == parent.id()), "{busy}");
    gate.add_permits(1);
    running.wait().await.unwrap();
    let (ours, theirs) = (told(&parent).await, told(&fork).await);
    let (a, b) = (newest(&parent).await, newest(&fork).await);
    parent.end("over").await.unwrap();
    let refused = parent.merge_and_delete(fork.id()).await.unwrap_err();
    assert!(matches!(&refused, BranchError::Session(SendError::Refused(Refusal::Ended))), "{refused}");
    assert_eq!((told(&parent).await, told(&fork).await), (ours.clone(), theirs.clone()));
    assert_eq!((newest(&parent).await, newest(&fork).await), (a.next(), b), "only the end was written");
    assert!(runtime.shutdown().await.is_empty());
    // The parent's tape is closed.
    let closed = parent.merge_and_delete(fork.id()).await.unwrap_err();
    assert!(matches!(&closed, BranchError::Session(SendError::Closed)), "{closed}");
    assert_eq!((told(&parent).await, told(&fork).await), (ours, theirs));
}

/// BDD-TAPE-032: a fork that is merged and to be gone is gone, its words are its parent's, and what it used counts there, once.
#[tokio::test(flavor = "multi_thread")]
async fn bdd_tape_032_a_merged_fork_is_gone_and_counted_once() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Echo::new()).await;
    let parent = create(&runtime, folder.path()).await;
    say(&parent, &["a"]).await;
    let fork = parent.fork(newest(&parent).await).await.unwrap();
    say(&fork, &["x"]).await;
    let own = parent.state().await.unwrap().spent_in_all();
    let first = parent.merge(fork.id()).await.unwrap();
    parent.undo().await.unwrap();
    // Taken back and merged again it is said once, and was used once.
    say(&fork, &["y"]).await;
    let used = fork.state().await.unwrap().spent_in_all();
    let merged = parent.merge_and_delete(fork.id()).await.unwrap();
    assert_eq!((merged.messages.len(), merged.deleted), (2, Some(Deleted::Gone)));
    let (mut both, mut expected) = (first.spent, own);
    both += merged.spent;
    assert_eq!(both, used);
    expected += used;
    let now = parent.state().await.unwrap();
    assert_eq!((now.spent_in_all(), now.turns), (expected, 1));
    assert!(!folder.path().join("store/sessions").join(fork.id().as_str()).exists());
    assert_eq!(runtime.list().await.unwrap().len(), 1);
    let gone = fork.prompt("more").await.unwrap_err();
    assert!(matches!(&gone, SendError::Unavailable(_)), "{gone}");
    assert!(matches!(parent.merge_and_delete(fork.id()).await, Err(BranchError::Open(_))), "it is not there any more");
    assert_eq!(told(&parent).await, ["a", "re a", "x", "re x", "y", "re y"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// What a host said in the fork and nobody read yet is never lost with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_with_words_that_wait_is_not_deleted() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Echo::new()).await;
    let parent = create(&runtime, folder.path()).await;
    say(&parent, &["a"]).await;
    let fork = parent.fork(newest(&parent).await).await.unwrap();
    say(&fork, &["x"]).await;
    fork.pause().await.unwrap();
    let waits = fork.send("y", Delivery::Queue).await.unwrap();
    let refused = parent.merge_and_delete(fork.id()).await.unwrap_err();
    assert!(matches!(&refused, BranchError::Waiting { waiting: 1, .. }), "{refused}");
    assert_eq!(merges(&parent).await, 0);
    assert_eq!(parent.merge(fork.id()).await.unwrap().messages, ["x".into()]);
    assert_eq!(fork.queue().await.unwrap().len(), 1);
    fork.withdraw(waits.message.clone()).await.unwrap();
    let gone = parent.merge_and_delete(fork.id()).await.unwrap();
    assert_eq!((gone.entry, gone.deleted), (None, Some(Deleted::Gone)), "all of it was merged before");
    assert!(runtime.shutdown().await.is_empty());
}

/// A fork of a fork is merged into the fork, and with it into the parent; into the parent itself it cannot be, for that one never
/// had what came before. A fork that was made behind the point can take it too.
#[tokio::test(flavor = "multi_thread")]
async fn forks_of_forks_are_merged_into_what_they_go_on_from() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Echo::new()).await;
    let parent = create(&runtime, folder.path()).await;
    say(&parent, &["a"]).await;
    let early = parent.fork(newest(&parent).await).await.unwrap();
    say(&parent, &["b"]).await;
    let late = parent.fork(newest(&parent).await).await.unwrap();
    say(&early, &["x"]).await;
    let below = early.fork(newest(&early).await).await.unwrap();
    say(&below, &["y"]).await;
    assert!(matches!(parent.merge(below.id()).await, Err(BranchError::NotAFork { .. })));
    assert_eq!(early.merge(below.id()).await.unwrap().messages, ["y".into()]);
    assert_eq!(late.merge(early.id()).await.unwrap().messages, ["x".into(), "y".into()]);
    assert_eq!(parent.merge(early.id()).await.unwrap().messages, ["x".into(), "y".into()]);
    let spent = |session: &Session| {
        let session = session.clone();
        async move { session.state().await.unwrap().spent_in_all().requests }
    };
    assert_eq!((spent(&early).await, spent(&late).await, spent(&parent).await), (2, 2, 4));
    assert!(matches!(early.merge(late.id()).await, Err(BranchError::NotAFork { .. })), "it has not what came before");
    assert!(runtime.shutdown().await.is_empty());
}

/// BRANCHSUM-001: what was taken back goes along as a summary, in one append with the rollback; redo brings back what it stood
/// for, and the summary is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_takes_along_a_summary_of_what_is_left() {
    let folder = taped::folder();
    let model = Echo::new();
    let runtime = start(folder.path(), model.clone()).await;
    let parent = create(&runtime, folder.path()).await;
    say(&parent, &["a", "b", "c"]).await;
    let options = RollbackOptions::new().with_summary();
    let back = parent.rollback_with(Point::BeforeMessage("b".into()), options).await.unwrap();
    assert!(back.summary);
    let now = seen(&parent).await;
    assert_eq!(now[..2], ["a", "re a"]);
    assert!(now.len() == 3 && now[2].contains("another way was tried and left"), "{now:?}");
    let asked = model.sent_to_sum_up();
    assert!(asked.contains("[user] b") && asked.contains("re c") && !asked.contains("[user] a"), "{asked}");
    let entries = entries(&parent).await;
    let kinds: Vec<_> =
        entries[entries.len() - 2..].iter().map(|entry| matches!(entry.record, Record::RolledBack(_))).collect();
    assert_eq!(kinds, [true, false]);
    assert_eq!(parent.redo().await.unwrap().again, ["b".into(), "c".into()]);
    assert_eq!(seen(&parent).await, ["a", "re a", "b", "re b", "c", "re c"]);
    // Where nothing is left there is nothing to sum up.
    let forth = parent.rollback_with(tamtam::session::RollbackTarget::Undo, RollbackOptions::new()).await.unwrap();
    let redone = parent.rollback_with(tamtam::session::RollbackTarget::Redo, options).await.unwrap();
    assert_eq!((forth.summary, redone.summary), (false, false));
    assert!(runtime.shutdown().await.is_empty());
}
