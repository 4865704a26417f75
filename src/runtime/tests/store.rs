//! The tape store's actor, killed again and again beside sessions that are at work.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::{
    SendError,
    actor::tape_store::{Opening, TAPE_STORE},
    tape::MemoryStore,
};

/// Of the test: where the disk never waits, and no clock but the virtual one runs.
async fn in_memory(model: Arc<Scripted>) -> Runtime {
    Runtime::builder().tapes(Arc::new(MemoryStore::new())).model(model).start().await.unwrap()
}

/// In virtual time, on one thread.
fn virtually(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(work);
}

/// Waits until it is so, and lets no virtual time pass: it stops anyway while a thread waits for a claim.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < SOON, "it never came to be: {what}");
        tokio::task::yield_now().await;
    }
}

/// Waits until the store's actor is up, and kills it.
async fn kill_store(runtime: &Runtime) {
    let orders = &runtime.inner.shared.orders;
    until("the tape store is up", || orders.is_taken()).await;
    let ended = orders.ended();
    assert!(orders.kill());
    until("it is down", || orders.ended() > ended).await;
}

/// Asks again and again, and has it put to sleep in between, so that it is woken each time. Returns how often it was answered.
async fn at_work(runtime: Runtime, session: Session, over: Arc<AtomicBool>, number: u64) -> usize {
    let mut asked = 0;
    while !over.load(Ordering::Relaxed) {
        asked += 1;
        assert_eq!(
            ask(&session, "go on").await,
            asked.to_string(),
            "session {} lost or doubled something",
            session.id()
        );
        tokio::time::sleep(Duration::from_millis(40_000 + 131 * number)).await;
        // It may be at something: then it is awake the next time.
        let _ = runtime.passivate(session.id()).await;
    }
    asked
}

/// 100 kills of the tape store's actor, 11 s apart, 30 of them while a claim is being taken, beside 100 sessions that are
/// at work, sleep and wake: none is lost or stuck, and nothing is said twice.
#[test]
fn a_hundred_kills_of_the_tape_store_lose_no_session_and_hold_up_none() {
    virtually(async {
        let runtime = in_memory(counts()).await;
        let folder = tempfile::tempdir().unwrap();
        let (over, mut working) = (Arc::new(AtomicBool::new(false)), Vec::new());
        for number in 0..100 {
            let session = create(&runtime, folder.path()).await;
            working.push(tokio::spawn(at_work(runtime.clone(), session, over.clone(), number)));
        }
        let victim = create(&runtime, folder.path()).await;
        let mut answered = 0;
        for kill in 0..100 {
            if kill % 10 < 3 {
                // The tape is taken, so that the claim takes as long as this test wants.
                runtime.passivate(victim.id()).await.unwrap();
                let shared = runtime.inner.shared.clone();
                let held = shared.store.load(victim.id(), &shared.slot(victim.id()).notify(), Duration::ZERO).unwrap();
                let (asker, asked) = (victim.clone(), answered + 1);
                let asks = tokio::spawn(async move { assert_eq!(ask(&asker, "wake").await, asked.to_string()) });
                until("its claim is being taken", || shared.orders.is_opening(victim.id())).await;
                kill_store(&runtime).await;
                assert!(shared.orders.is_opening(victim.id()), "it is waited for still");
                drop(held);
                asks.await.unwrap();
                answered += 1;
            } else {
                kill_store(&runtime).await;
            }
            tokio::time::sleep(Duration::from_secs(11)).await;
        }
        let store = runtime.tree().find(TAPE_STORE).unwrap().clone();
        assert_eq!((store.status, store.restarts), (Status::Running, 100));
        over.store(true, Ordering::Relaxed);
        for working in working {
            assert!(working.await.unwrap() > 15);
        }
        assert_eq!(answered, 30);
        assert!(runtime.shutdown().await.is_empty());
    });
}

/// Issue 13: a burst of crashes exhausts the tape store's supervisor, and ends nothing: what is awake works on, what is woken or made
/// is refused, and half a minute later it is not.
#[test]
fn a_burst_of_crashes_of_the_tape_store_refuses_wakes_for_a_while_and_ends_nothing() {
    virtually(async {
        let runtime = in_memory(counts()).await;
        let folder = tempfile::tempdir().unwrap();
        let (awake, asleep) = (create(&runtime, folder.path()).await, create(&runtime, folder.path()).await);
        assert_eq!(ask(&asleep, "one").await, "1");
        runtime.passivate(asleep.id()).await.unwrap();
        for _ in 0..4 {
            kill_store(&runtime).await;
        }
        until("it is kept stopped", || runtime.tree().find(TAPE_STORE).unwrap().status == Status::Parked).await;
        // No thread is left for a fifth.
        assert!(!runtime.inner.shared.orders.kill());
        let burst = tokio::time::Instant::now();

        for number in 1..=3 {
            assert_eq!(ask(&awake, "go on").await, number.to_string());
        }
        let is_refused = |error: &SendError| match error {
            SendError::Unavailable(why) => matches!(**why, OpenError::Unavailable),
            _ => false,
        };
        // The first callers wait some seconds for it; the others get the error at once.
        let (first, second) = tokio::join!(asleep.prompt("two"), runtime.open(asleep.id()));
        assert!(first.as_ref().is_err_and(is_refused), "{first:?}");
        assert!(matches!(second, Err(OpenError::Unavailable)), "{second:?}");
        assert!(burst.elapsed() < Duration::from_secs(6), "{:?}", burst.elapsed());
        let told = tokio::time::Instant::now();
        assert!(asleep.prompt("two").await.as_ref().is_err_and(is_refused));
        let made = runtime.create(SessionOptions::new(folder.path())).await;
        assert!(matches!(made, Err(OpenError::Unavailable)), "{made:?}");
        assert_eq!(told.elapsed(), Duration::ZERO);
        // A sweep does not need it.
        assert_eq!(runtime.sweep(SweepPolicy::default()).await.unwrap(), Sweep::default());
        // A session that crashes meanwhile waits for its tape, and continues.
        let waits = tokio::spawn({
            let (runtime, awake) = (runtime.clone(), awake.clone());
            async move {
                runtime.operate().crash(awake.id().as_str(), "a drill").unwrap();
                awake.prompt("go on").await
            }
        });

        tokio::time::sleep_until(burst + Duration::from_secs(31)).await;
        until("it is back", || runtime.tree().find(TAPE_STORE).unwrap().status == Status::Running).await;
        assert_eq!(ask(&asleep, "two").await, "2");
        drop(waits.await.unwrap());
        until("it is up again", || runtime.tree().find(awake.id().as_str()).is_some_and(|node| node.restarts == 1))
            .await;
        let tapes = runtime.tree().find("tapes").unwrap().clone();
        assert_eq!((tapes.status, tapes.restarts), (Status::Running, 0));
        assert!(ask(&awake, "go on").await.parse::<u32>().unwrap() >= 4);
        assert!(runtime.shutdown().await.is_empty());
    });
}

/// A request while the actor is down is done by its next incarnation, without being repeated.
#[test]
fn what_is_asked_of_the_tape_store_between_two_incarnations_is_done_by_the_next() {
    virtually(async {
        let runtime = in_memory(counts()).await;
        let folder = tempfile::tempdir().unwrap();
        let session = create(&runtime, folder.path()).await;
        runtime.passivate(session.id()).await.unwrap();
        runtime.operate().park(TAPE_STORE).await.unwrap();
        let waits = tokio::spawn({
            let session = session.clone();
            async move { ask(&session, "one").await }
        });
        let shared = runtime.inner.shared.clone();
        until("it is asked for", || shared.orders.is_opening(session.id())).await;
        runtime.operate().unpark(TAPE_STORE).await.unwrap();
        until("it is done", || waits.is_finished()).await;
        assert_eq!(waits.await.unwrap(), "1");
        assert!(runtime.shutdown().await.is_empty());
    });
}

/// At most so many tapes are opened at once, and the same one asked for twice is opened once.
#[test]
fn equal_orders_are_one_and_at_most_sixteen_tapes_are_opened_at_once() {
    virtually(async {
        let runtime = in_memory(counts()).await;
        let folder = tempfile::tempdir().unwrap();
        let shared = runtime.inner.shared.clone();
        let mut held = Vec::new();
        let mut sessions = Vec::new();
        for _ in 0..20 {
            let session = create(&runtime, folder.path()).await;
            runtime.passivate(session.id()).await.unwrap();
            held.push(shared.store.load(session.id(), &session.slot.notify(), Duration::ZERO).unwrap());
            sessions.push(session);
        }
        let asking: Vec<_> =
            sessions.iter().cloned().map(|session| tokio::spawn(async move { ask(&session, "one").await })).collect();
        let node = || runtime.tree().find(TAPE_STORE).unwrap().clone();
        until("all are asked for", || sessions.iter().all(|session| shared.orders.is_opening(session.id()))).await;
        until("sixteen are being opened", || shared.orders.room.available_permits() == 0).await;
        // Shown while they wait, with what it is asked.
        assert_eq!(node().queue, 20);
        // Other callers for one of them wait for the same.
        let more = tokio::spawn({
            let (shared, slot) = (shared.clone(), sessions[19].slot.clone());
            async move { shared.orders.open(&slot.id, Opening::Load).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(node().queue, 20);
        drop(held);
        for asked in asking {
            assert_eq!(asked.await.unwrap(), "1");
        }
        more.await.unwrap().unwrap();
        assert_eq!((node().queue, shared.orders.room.available_permits()), (0, 16));
        assert!(runtime.shutdown().await.is_empty());
    });
}

/// What was ordered and not begun when the runtime ends is refused, and holds up no end.
#[test]
fn an_order_that_waits_when_the_runtime_ends_is_refused() {
    virtually(async {
        let runtime = in_memory(counts()).await;
        let folder = tempfile::tempdir().unwrap();
        let session = create(&runtime, folder.path()).await;
        runtime.passivate(session.id()).await.unwrap();
        runtime.inner.root.terminate_child("tapes").await.unwrap();
        let waits = tokio::spawn({
            let session = session.clone();
            async move { session.prompt("one").await }
        });
        let shared = runtime.inner.shared.clone();
        until("it is asked for", || shared.orders.is_opening(session.id())).await;
        assert!(runtime.shutdown().await.is_empty());
        assert!(matches!(waits.await.unwrap(), Err(SendError::Closed)));
    });
}
