//! The parts of a runtime, seen from inside: the relations of its children, and the cost of a sleeping session.

#![allow(clippy::unwrap_used, clippy::panic)]

mod at_once;
mod back;
mod family;
mod hung;
mod store;
mod undone;
mod unsettled;

use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::{
    actor::slot::{Phase, Slot, WAITERS_MAX},
    model::{Item, Reply, Scripted},
    permission::Profile,
    supervisor::Status,
};

const SOON: Duration = Duration::from_secs(60);

async fn start(folder: &std::path::Path, model: Arc<Scripted>) -> Runtime {
    Runtime::builder().store(folder.join("store")).model(model).start().await.unwrap()
}

async fn create(runtime: &Runtime, folder: &std::path::Path) -> Session {
    runtime.create(SessionOptions::new(folder).profile(Profile::Auto)).await.unwrap()
}

/// Answers each prompt with the number of user messages that it has seen.
fn counts() -> Arc<Scripted> {
    Arc::new(Scripted::from_fn(|request| {
        let users = request.history.iter().filter(|item| matches!(item.as_ref(), Item::User(_)));
        Reply::text(users.count().to_string())
    }))
}

async fn ask(session: &Session, text: &str) -> String {
    session.prompt(text).await.unwrap().wait().await.unwrap().text
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(timeout(SOON, waited).await.is_ok(), "it never came to be: {what}");
}

/// At most 300 bytes for a passive session with a handle: its slot, its id, its place in the table.
#[test]
fn a_passive_slot_is_small() {
    let counts = 2 * size_of::<usize>();
    // Without the counter of the tests.
    let slot = size_of::<Slot>() - size_of::<std::sync::atomic::AtomicUsize>() + counts;
    let id = 36 + counts;
    let place = size_of::<(SessionId, std::sync::Weak<Slot>)>();
    // A place in the table may be half empty, and each allocation takes up to 16 bytes more than was asked for.
    let all = slot + id + 2 * place + 3 * 16;
    assert!(all <= 300, "a passive session takes {all} bytes: slot {slot}, id {id}, place {place}");
}

/// The reason for waking a session is not part of its start: a crash over it is followed by a restart, and the input after it is
/// answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_over_what_woke_a_session_is_no_failed_start() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let session = create(&runtime, folder.path()).await;
    ask(&session, "one").await;
    runtime.passivate(session.id()).await.unwrap();
    session.slot.crash("on purpose".to_owned()).unwrap();
    assert_eq!(ask(&session, "two").await, "2");
    let tree = runtime.tree();
    let node = tree.find(session.id().as_str()).unwrap();
    assert_eq!((node.incarnation, node.restarts), (2, 1), "{tree}");
    assert!(runtime.shutdown().await.is_empty());
}

/// A sleeping session without a handle costs nothing; one with a handle costs its slot alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_pays_for_a_session_that_sleeps_and_that_nobody_holds() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let slots = &runtime.inner.shared.slots;
    let mut held = Vec::new();
    for _ in 0..20 {
        let session = create(&runtime, folder.path()).await;
        drop(session.events());
        ask(&session, "one").await;
        held.push(session);
    }
    assert_eq!((slots.known_count(), slots.awake_count()), (20, 20));
    for session in &held {
        runtime.passivate(session.id()).await.unwrap();
        assert_eq!(session.slot.phase(), Phase::Passive);
        assert!(session.slot.is_bare(), "it keeps what only an awake one needs");
    }
    assert_eq!((slots.known_count(), slots.awake_count()), (20, 0));
    let listens = held[0].events();
    held.clear();
    // The task that reports its sleep drops it a moment later.
    until("one is left, which is listened to", || slots.known_count() == 1).await;
    drop(listens);
    until("none is left", || slots.known_count() == 0).await;
    assert!(runtime.shutdown().await.is_empty());
}

/// Supervision §7.2, a supervisor: when that of the sessions goes down, open work continues under the next, waiting callers still
/// wait and are answered, and the others sleep until they are needed. It happens as often as allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_outlive_their_supervisor() {
    let folder = tempfile::tempdir().unwrap();
    let thinks = |request: &crate::model::Request| {
        let think = [crate::words::message::Part::text("think")];
        request.history.iter().any(|item| matches!(item.as_ref(), Item::User(user) if user.parts == think))
    };
    let model = Arc::new(Scripted::from_fn(move |request| match thinks(request) {
        true => Reply::text("thought").at_barrier("think"),
        false => Reply::text("hello"),
    }));
    let asked = || model.requests().iter().filter(|request| thinks(request)).count();
    let runtime = start(folder.path(), model.clone()).await;
    let (busy, idle) = (create(&runtime, folder.path()).await, create(&runtime, folder.path()).await);
    let mut events = busy.events();
    assert_eq!(ask(&idle, "hello").await, "hello");
    let prompt = busy.prompt("think").await.unwrap();
    until("the model is asked", || asked() == 1).await;
    let waits = tokio::spawn(async move { prompt.wait().await });

    runtime.inner.root.recycle_child("sessions").await.unwrap();
    until("the model is asked again", || asked() == 2).await;
    model.barrier("think").release();
    let answer = timeout(SOON, waits).await.expect("it goes on").unwrap().unwrap();
    assert_eq!(answer.text, "thought");
    assert_eq!(ask(&idle, "again").await, "hello");
    let mut finished = 0;
    while finished == 0 {
        let Some(crate::event::Next::Event(event)) = events.next().await else { panic!("the stream goes on") };
        finished += usize::from(matches!(event.kind, crate::EventKind::TurnFinished { .. }));
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// The same if no caller waits for the turn that was cut off: the timekeeper wakes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timekeeper_wakes_what_went_down_with_its_supervisor() {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("went on").at_barrier("think")));
    let runtime = start(folder.path(), model.clone()).await;
    let id = create(&runtime, folder.path()).await.id().clone();
    drop(runtime.session(&id).prompt("think").await.unwrap());
    until("the model is asked", || model.requests().len() == 1).await;
    runtime.inner.root.recycle_child("sessions").await.unwrap();
    until("the model is asked again", || model.requests().len() == 2).await;
    model.barrier("think").release();
    let session = runtime.session(&id);
    session.wait().await.unwrap();
    assert_eq!(&*session.state().await.unwrap().ended.back().unwrap().text, "went on");
    assert!(runtime.shutdown().await.is_empty());
}

/// Design §4: when the tape store restarts, sessions do not notice; while it is gone, those that are awake live and write, and
/// one can fall asleep. It is woken when the store is there again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_live_and_go_on_without_the_tape_store() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let session = create(&runtime, folder.path()).await;
    assert_eq!(ask(&session, "one").await, "1");
    runtime.inner.root.recycle_child("tapes").await.unwrap();
    assert_eq!(ask(&session, "two").await, "2");
    runtime.inner.root.terminate_child("tapes").await.unwrap();
    assert_eq!(ask(&session, "three").await, "3");
    runtime.passivate(session.id()).await.unwrap();
    let asked = tokio::spawn({
        let session = session.clone();
        async move { ask(&session, "four").await }
    });
    until("it is to be woken", || runtime.inner.shared.orders.is_opening(session.id())).await;
    runtime.inner.root.restart_child("tapes").await.unwrap();
    assert_eq!(asked.await.unwrap(), "4");
    let other = create(&runtime, folder.path()).await;
    assert_eq!(ask(&other, "one").await, "1");
    assert_eq!(runtime.tree().find(session.id().as_str()).unwrap().restarts, 0);
    assert!(runtime.shutdown().await.is_empty());
}

/// The tape store's child deletes outputs that are too old, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_outputs_are_deleted_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path(), counts()).await;
    let session = create(&first, folder.path()).await;
    let spill = first.inner.shared.store.spill_path(session.id()).unwrap();
    std::fs::create_dir_all(&spill).unwrap();
    let (old, new) = (spill.join("call-old.log"), spill.join("call-new.log"));
    for path in [&old, &new] {
        std::fs::write(path, "output").unwrap();
    }
    let long_ago = std::time::SystemTime::now() - crate::tool::truncate::RETENTION.keep - Duration::from_secs(60);
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    assert!(first.shutdown().await.is_empty());
    let second = start(folder.path(), counts()).await;
    until("the old one is deleted", || !old.exists()).await;
    assert!(new.exists());
    assert!(second.shutdown().await.is_empty());
}

/// A restarted timekeeper knows which sessions were parked while it was down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parking_that_the_timekeeper_missed_is_noted_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let session = create(&runtime, folder.path()).await;
    runtime.inner.root.terminate_child("timekeeper").await.unwrap();
    runtime.inner.sessions.park(session.id().as_str()).await.unwrap();
    assert_eq!(runtime.parked(), []);
    runtime.inner.root.restart_child("timekeeper").await.unwrap();
    until("it is noted", || runtime.parked().len() == 1).await;
    until("and written down", || {
        runtime.inner.shared.store.parked_sessions().unwrap().iter().any(|(id, _)| id == session.id())
    })
    .await;
    assert!(matches!(session.prompt("hello").await, Err(crate::SendError::Parked)));
    runtime.operate().unpark(session.id().as_str()).await.unwrap();
    assert_eq!(ask(&session, "hello").await, "1");
    // A second note of the same parking may have been on its way; it is taken back.
    until("nothing stays written down", || runtime.inner.shared.store.parked_sessions().unwrap().is_empty()).await;
    assert_eq!(runtime.tree().find("timekeeper").unwrap().status, Status::Running);
    assert!(runtime.shutdown().await.is_empty());
}

/// A parking that the store cannot note holds in this runtime, and the lever says that it ends with it; so does its unparking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parking_that_the_store_cannot_note_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let session = create(&runtime, folder.path()).await;
    let parked = runtime.inner.shared.store.folder(None).unwrap().join("parked");
    std::fs::write(&parked, "no folder").unwrap();
    let told = runtime.operate().park(session.id().as_str()).await.unwrap_err();
    assert!(
        matches!(told, OperateError::NotNoted { .. }) && told.to_string().contains("pull the lever again"),
        "{told}"
    );
    assert!(matches!(session.prompt("hello").await, Err(crate::SendError::Parked)));
    std::fs::remove_file(&parked).unwrap();
    runtime.operate().unpark(session.id().as_str()).await.unwrap();
    assert_eq!(ask(&session, "hello").await, "1");
    assert!(runtime.shutdown().await.is_empty());
}

/// A parking that is noted late, behind the unparking: the session takes what it is sent, also what came before the note, and
/// nothing stays written down. On a busy machine a message behind a successful `unpark` was refused as parked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parking_that_is_noted_behind_its_unparking_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let (shared, session) = (runtime.inner.shared.clone(), create(&runtime, folder.path()).await);
    let written = || shared.store.parked_sessions().unwrap();
    let incarnation = shared.slots.newest_incarnation(session.id());
    runtime.operate().park(session.id().as_str()).await.unwrap();
    assert_eq!(written().len(), 1);
    runtime.operate().unpark(session.id().as_str()).await.unwrap();
    // What the timekeeper saw before.
    shared.park(session.id(), incarnation, "late".to_owned()).await.unwrap();
    assert_eq!((runtime.parked(), written()), (vec![], vec![]));
    assert_eq!(ask(&session, "one").await, "1");

    // The same between the unparking and the incarnation that it starts.
    runtime.operate().park(session.id().as_str()).await.unwrap();
    let incarnation = shared.slots.newest_incarnation(session.id());
    shared.unpark(session.id()).await;
    shared.park(session.id(), incarnation, "late".to_owned()).await.unwrap();
    assert_eq!(written().len(), 1);
    runtime.inner.sessions.unpark(session.id().as_str()).await.unwrap();
    assert_eq!(ask(&session, "two").await, "2");
    until("nothing is written down", || written().is_empty()).await;
    assert_eq!(runtime.parked(), []);
    assert!(runtime.shutdown().await.is_empty());
}

/// Invariants 22 and 23 (supervision §8): a slot takes as many as it may and refuses the rest to their senders; what was taken
/// was answered, delivered or withdrawn; nothing is dropped silently. A listener that never reads slows no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_22_23_a_full_slot_refuses_and_drops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Scripted::from_fn(|request| {
        let users = request.history.iter().filter(|item| matches!(item.as_ref(), Item::User(_))).count();
        if users == 1 { Reply::text("first").at_barrier("first") } else { Reply::text("next") }
    }));
    let runtime = start(folder.path(), model.clone()).await;
    let session = create(&runtime, folder.path()).await;
    // Never reads.
    let _listener = session.events();
    session.prompt("first").await.unwrap();
    model.barrier("first").reached().await;
    let (mut taken, mut refused) = (Vec::new(), 0);
    for n in 0..400 {
        match session.prompt(n.to_string()).await {
            Ok(receipt) => taken.push(receipt),
            Err(crate::SendError::Refused(crate::session::Refusal::InboxFull { depth })) => {
                assert!(depth <= 320, "{depth}");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(taken.len() + refused, 400);
    assert_eq!(taken.len(), crate::kernel::INBOX_QUEUED_MAX);
    let withdrawn = taken.pop().unwrap();
    session.withdraw(withdrawn.message.clone()).await.unwrap();
    model.barrier("first").release();
    assert!(withdrawn.wait().await.is_err());
    session.wait().await.unwrap();
    assert_eq!(session.state().await.unwrap().turns, taken.len() as u64 + 1);
    let mut said = session.messages().await.unwrap();
    said.retain(|message| taken.iter().any(|receipt| receipt.message == message.id));
    let order: Vec<_> = taken.iter().map(|receipt| receipt.message.clone()).collect();
    assert_eq!(said.into_iter().map(|message| message.id).collect::<Vec<_>>(), order);
    assert_eq!(session.slot.depth(), 0);
    assert!(runtime.shutdown().await.is_empty());
}

/// The same where the timekeeper was not there to see it: its next incarnation looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timekeeper_wakes_what_went_down_before_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("went on").at_barrier("think")));
    let runtime = start(folder.path(), model.clone()).await;
    let id = create(&runtime, folder.path()).await.id().clone();
    drop(runtime.session(&id).prompt("think").await.unwrap());
    until("the model is asked", || model.requests().len() == 1).await;
    runtime.inner.root.terminate_child("timekeeper").await.unwrap();
    runtime.inner.root.recycle_child("sessions").await.unwrap();
    until("it is cut off", || runtime.session(&id).slot.phase() == Phase::Passive).await;
    runtime.inner.root.restart_child("timekeeper").await.unwrap();
    until("the model is asked again", || model.requests().len() == 2).await;
    model.barrier("think").release();
    runtime.session(&id).wait().await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
}

/// A drain after the end opens nothing again: callers learn at once that it is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_after_the_end_admits_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let session = create(&runtime, folder.path()).await;
    assert!(runtime.shutdown().await.is_empty());
    assert!(runtime.drain(Duration::from_secs(1)).await.is_empty());
    assert_eq!(runtime.inner.shared.slots.admission(), Admission::Closed);
    assert!(matches!(session.slot.command(crate::kernel::GoOn), Err(crate::SendError::Closed)));
}

/// Two say "create it, or else resume it" of one that sleeps: the first finds that it exists, and the second, who asked while
/// the first was still looking, has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_one_that_was_to_be_made_has_the_one_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let session = create(&runtime, folder.path()).await;
    runtime.passivate(session.id()).await.unwrap();
    let flight = session.slot.begin_activation().unwrap();
    let (second, id) = (runtime.clone(), session.id().clone());
    let resumes = tokio::spawn(async move { second.open(&id).await.map(drop) });
    until("it waits", || session.slot.waiting() == 1).await;
    flight.finish_unmade(OpenError::Tape(TapeError::Exists { session: session.id().clone() }));
    timeout(SOON, resumes).await.expect("it is told").unwrap().unwrap();
    assert_eq!(ask(&session, "hello").await, "1");
    assert!(runtime.shutdown().await.is_empty());
}

/// A dropped creation of a session takes nothing from those who wait for it. On one thread, so that nothing is made while the
/// test looks.
#[tokio::test]
async fn a_create_that_is_dropped_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let session = runtime.session(&"s".parse().unwrap());
    let options = SessionOptions::new(folder.path()).id(session.id().clone());
    let mut creates = Box::pin(runtime.create(options));
    loop {
        assert!(futures_util::poll!(&mut creates).is_pending());
        if session.slot.phase() != Phase::Passive {
            break;
        }
        tokio::task::yield_now().await;
    }
    let mut waits = Box::pin(session.slot.up());
    assert!(futures_util::poll!(&mut waits).is_pending());
    assert_eq!((session.slot.waiting(), session.slot.phase()), (1, Phase::Activating));
    drop(creates);
    timeout(SOON, waits).await.expect("it is told").unwrap();
    assert_eq!(ask(&session, "hello").await, "1");
    assert!(runtime.shutdown().await.is_empty());
}

/// Those who stop waiting for a DOWN, and wait again, leave nothing behind in a parent; and however many wait, there is a bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_down_in_vain_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Scripted::new([Reply::text("found").at_barrier("child")]));
    let runtime = start(folder.path(), model.clone()).await;
    let parent = create(&runtime, folder.path()).await;
    let options = SessionOptions::new(folder.path()).profile(Profile::Auto);
    let child = parent.spawn_child(options, "look", crate::kernel::Link::LINKED).await.unwrap();
    model.barrier("child").reached().await;
    let mut waits: Vec<_> = Vec::new();
    for _ in 0..WAITERS_MAX {
        let mut down = Box::pin(child.down());
        assert!(futures_util::poll!(&mut down).is_pending());
        waits.push(down);
    }
    assert!(matches!(child.down().await, Err(crate::SendError::Refused(crate::session::Refusal::InboxFull { .. }))));
    waits.truncate(1);
    model.barrier("child").release();
    assert_eq!(timeout(SOON, child.down()).await.expect("it comes").unwrap().text.as_ref(), "found");
    drop(waits);
    parent.wait().await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
}
