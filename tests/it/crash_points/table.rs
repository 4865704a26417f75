//! The table of recovery (what is lost, from what it is recovered, who sees it), row by row. The tape's writer and the index
//! have theirs in `tape.rs`, the whole process in `tests/it/storm.rs`.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tamtam::{
    EventKind, Outcome, Runtime, SessionOptions,
    model::{Reply, Scripted},
    permission::Profile,
    session::Next,
};

use super::{
    host::play,
    judge::{promises, told},
    named::differences,
    strike::Strike,
    tools::toolbox,
    world::World,
};

use crate::support::taped;

/// The longest that anything here may take.
const LIMIT: Duration = Duration::from_secs(60);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("{what} does not come"))
}

/// Row "session": it is rebuilt from its tape; its handle, its receipts and its listeners live on, and hear of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovery_of_a_session() {
    let folder = taped::folder();
    let (strike, world) = (Strike::default(), World::default());
    let model = Scripted::new([
        Reply::call("look", json!({"at": "a"})),
        Reply::text("first").at_barrier("middle"),
        Reply::text("second"),
    ]);
    let middle = model.barrier("middle");
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model)).tools(toolbox(&world));
    let runtime = builder.faults(strike.faults()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    let mut events = session.events();
    let first = session.prompt("one").await.unwrap();
    soon("the middle of the turn", middle.reached()).await;
    let second = session.prompt("two").await.unwrap();
    let passed = strike.passed()["session.took"];
    strike.panic_at("session.took", passed + 1);
    // The message that strikes is not lost either: it stays in the slot until it is answered.
    let third = soon("a receipt", session.prompt("three")).await.unwrap();
    assert_eq!(strike.struck(), 1);
    soon("the request, again", middle.reached_times(2)).await;
    middle.release();
    middle.release();
    assert_eq!(soon("the first answer", first.wait()).await.unwrap().text, "first");
    assert_eq!(soon("the second answer", second.wait()).await.unwrap().text, "second");
    let last = soon("the third outcome", third.wait()).await.unwrap();
    assert!(matches!(last.outcome, Outcome::Failed { .. }), "the script has no third answer: {last:?}");
    let recovered = async {
        loop {
            if let Some(Next::Event(event)) = events.next().await
                && let EventKind::SessionRecovered { n: 1, resumed: true } = event.kind
            {
                return;
            }
        }
    };
    soon("the event", recovered).await;
    assert_eq!(runtime.crashes().len(), 1);
    assert!(runtime.shutdown().await.is_empty());
}

/// A session that dies between its tape and those who wait: the next incarnation finds the turn over, and tells them all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_on_the_tape_and_was_not_told_is_told_by_the_next_incarnation() {
    let folder = taped::folder();
    let strike = Strike::default();
    let model = Scripted::new([Reply::text("first").at_barrier("middle"), Reply::text("second")]);
    let middle = model.barrier("middle");
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model));
    let runtime = builder.faults(strike.faults()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    let mut events = session.events();
    let first = session.prompt("one").await.unwrap();
    soon("the middle of the turn", middle.reached()).await;
    let passed = strike.passed()["session.appended"];
    strike.panic_at("session.appended", passed + 1);
    middle.release();
    assert_eq!(soon("the outcome", first.wait()).await.unwrap().text, "first");
    assert_eq!((strike.struck(), runtime.crashes().len()), (1, 1));
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(EventKind::TurnFinished { .. })) {
        if let Some(Next::Event(event)) = soon("the end, as an event", events.next()).await
            && event.id.is_durable()
        {
            seen.push(event.kind.clone());
        }
    }
    let ended = seen.iter().filter(|kind| matches!(kind, EventKind::StepFinished { .. })).count();
    assert_eq!(ended, 1, "nothing is missing and nothing is doubled: {seen:?}");

    // A wish whose answer was lost in a crash is answered, and not decided again.
    let passed = strike.passed()["session.appended"];
    strike.panic_at("session.appended", passed + 1);
    soon("a handoff", session.handoff("mark", None)).await.unwrap();
    assert_eq!(strike.struck(), 2);
    assert_eq!(soon("the second answer", session.prompt("two").await.unwrap().wait()).await.unwrap().text, "second");
    assert!(runtime.shutdown().await.is_empty());
}

/// A caller that has its answer sees it in the state, also where the session died between its tape and the answer: the next
/// incarnation publishes what is on the tape before it answers what its predecessor had in hand. The next incarnation is held up right
/// after that, before it does anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_next_incarnation_answers_is_in_the_state() {
    let folder = taped::folder();
    let strike = Strike::default();
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(Scripted::new([])));
    let runtime = builder.faults(strike.faults()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    assert!(!session.state().await.unwrap().paused);
    let (goes_on, held_up) = std::sync::mpsc::channel::<()>();
    strike.panic_at_next("session.appended");
    // A test that is over has dropped its end.
    strike.at("session.begun", strike.passed()["session.begun"] + 1, move || {
        let _ = held_up.recv();
    });
    soon("the answer", session.pause()).await.unwrap();
    // The answer may be here before the one that gave it is held up.
    let is_held_up = async {
        while strike.struck() < 2 {
            tokio::task::yield_now().await;
        }
    };
    soon("what holds it up", is_held_up).await;
    assert_eq!((strike.struck(), runtime.crashes().len()), (2, 1), "it died, and the next one is held up");
    let state = soon("the state", session.state()).await.unwrap();
    assert!(state.paused, "it was answered and is not in the state of entry {}", state.seq);
    drop(goes_on);
    assert!(runtime.shutdown().await.is_empty());
}

/// Row "llm worker": a model client that panics costs one try; the turn goes on with the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovery_of_a_model_request_worker() {
    let folder = taped::folder();
    let strike = Strike::default();
    strike.panic_at("worker.request", 1);
    let model = Arc::new(Scripted::new([Reply::text("after all")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model);
    let runtime = builder.faults(strike.faults()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let mut events = session.events();
    let answer = soon("the answer", session.prompt("go").await.unwrap().wait()).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.steps, strike.struck()), ("after all", 1, 1));
    let retried = async {
        loop {
            if let Some(Next::Event(event)) = events.next().await
                && matches!(event.kind, EventKind::Retry { attempt: 1, .. })
            {
                return;
            }
        }
    };
    soon("the event", retried).await;
    assert_eq!(runtime.crashes().len(), 0, "the session did not crash");
    assert!(runtime.shutdown().await.is_empty());
}

/// Row "tool worker": its panic is an error result, wherever it strikes; the session does not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovery_of_a_tool_worker() {
    for point in ["worker.call", "worker.call_made"] {
        let folder = taped::folder();
        let (strike, world) = (Strike::default(), World::default());
        strike.panic_at(point, 1);
        let model = Scripted::new([Reply::call("look", json!({"at": "a"})), Reply::text("I see").expecting("crashed")]);
        let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model));
        let runtime = builder.tools(toolbox(&world)).faults(strike.faults()).start().await.unwrap();
        let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
        let answer = soon("the answer", session.prompt("go").await.unwrap().wait()).await.unwrap();
        assert_eq!((answer.outcome, answer.text.as_str(), strike.struck()), (Outcome::Done, "I see", 1), "{point}");
        assert_eq!(runtime.crashes().len(), 0);
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Row "event bus": a listener that lagged is told how many events it missed, and has the durable ones again from the tape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovery_of_the_event_ring() {
    let folder = taped::folder();
    let talk = (0..5_000).fold(Reply::empty(), |reply, n| reply.with_text(n.to_string()));
    let model = Arc::new(Scripted::new([talk]));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let mut slow = session.events();
    soon("the answer", session.prompt("talk").await.unwrap().wait()).await.unwrap();
    let Some(Next::Lagged(missed)) = slow.next().await else { panic!("the listener did not lag") };
    assert!(missed > 0);
    let mut again = session.events_after(tamtam::Seq::ZERO).await.unwrap();
    let finished = async {
        let mut kinds = Vec::new();
        while let Some(Next::Event(event)) = again.next().await {
            kinds.push(event.kind.clone());
            if matches!(event.kind, EventKind::TurnFinished { .. }) {
                return kinds;
            }
        }
        panic!("the replay ended early: {kinds:?}")
    };
    let kinds = soon("the replay", finished).await;
    assert!(kinds.iter().any(|kind| matches!(kind, EventKind::TurnStarted { .. })));
    assert!(runtime.shutdown().await.is_empty());
}

/// Row "a supervisor": the sessions' own supervisor crashes over a message. It takes its children with it and is started again;
/// the handles stay valid, and the turn goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovery_of_the_supervisor_of_all_sessions() {
    let folder = taped::folder();
    let strike = Strike::default();
    let model = Scripted::new([Reply::text("first").at_barrier("middle"), Reply::text("second")]);
    let middle = model.barrier("middle");
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model));
    let runtime = builder.faults(strike.faults()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let first = session.prompt("one").await.unwrap();
    soon("the middle of the turn", middle.reached()).await;
    let point = "supervisor.message runtime/sessions";
    strike.panic_at(point, strike.passed()[point] + 1);
    // Any message will do.
    drop(soon("an answer", runtime.create(SessionOptions::new(folder.path()))).await);
    assert_eq!(strike.struck(), 1);
    // A message wakes it up where it does not go on by itself.
    let second = soon("a receipt", session.prompt("two")).await.unwrap();
    soon("the request, again", middle.reached_times(2)).await;
    middle.release();
    middle.release();
    assert_eq!(soon("the first answer", first.wait()).await.unwrap().text, "first");
    assert_eq!(soon("the second answer", second.wait()).await.unwrap().text, "second");
    assert!(runtime.shutdown().await.is_empty());
}

/// The root crashes: the whole tree is gone. Whoever sends is told, and does not wait for ever; the store is free again after
/// `shutdown`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_root_is_told_to_whoever_sends() {
    let folder = taped::folder();
    let strike = Strike::default();
    let model = || Arc::new(Scripted::new([Reply::text("again")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model());
    let runtime = builder.faults(strike.faults()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let point = "supervisor.message runtime/sessions";
    // Four crashes of the sessions' supervisor within its window are more than the root lets pass. Between two of its incarnations it takes
    // no message.
    let strikes = async {
        loop {
            let struck = strike.struck();
            strike.panic_at_next(point);
            while strike.struck() == struck {
                drop(soon("an answer", runtime.create(SessionOptions::new(folder.path()))).await);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    tokio::select! {
        _ = soon("the end of the root", runtime.ended()) => {}
        () = strikes => {}
    }
    let sent = soon("an answer", session.prompt("are you there?")).await;
    assert!(sent.is_err(), "{sent:?}");
    assert!(soon("the end", runtime.shutdown()).await.is_empty());
    drop(runtime);
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model()).start().await.unwrap();
    let session = runtime.open(session.id()).await.unwrap();
    assert_eq!(soon("the answer", session.prompt("go").await.unwrap().wait()).await.unwrap().text, "again");
    assert!(runtime.shutdown().await.is_empty());
}

/// A restart by hand that comes while a start is still reading the tape: the start is given up, and the next one is not told
/// that the session is in use. It once was, and that counted as a crash: three of them, and an operator's lever parked it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_by_hand_in_the_middle_of_a_start_is_no_crash() {
    let folder = taped::folder();
    let strike = Strike::default();
    let model = Arc::new(Scripted::new([Reply::text("here")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model);
    let runtime = builder.faults(strike.faults()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let (reached, reads) = tokio::sync::oneshot::channel();
    let mut reached = Some(reached);
    let (go_on, held) = std::sync::mpsc::channel::<()>();
    strike.at("session.loaded", 1, move || {
        reached.take().unwrap().send(()).unwrap();
        // The tape is claimed, and its reading takes a while.
        let _ = held.recv_timeout(LIMIT);
    });
    let first = tokio::spawn({
        let (runtime, id) = (runtime.clone(), session.id().clone());
        async move { runtime.operate().restart(id.as_str()).await }
    });
    soon("the reading of the tape", reads).await.unwrap();
    let again = tokio::spawn({
        let (runtime, id) = (runtime.clone(), session.id().clone());
        async move { runtime.operate().restart(id.as_str()).await }
    });
    // The start is given up and the next one begins; a moment for both, and none of them is timed.
    tokio::time::sleep(Duration::from_millis(50)).await;
    go_on.send(()).unwrap();
    soon("the second restart", again).await.unwrap().unwrap();
    let _ = soon("the first restart", first).await.unwrap();
    assert_eq!(runtime.crashes(), vec![]);
    assert_eq!(soon("the answer", session.prompt("go").await.unwrap().wait()).await.unwrap().text, "here");
    assert!(runtime.shutdown().await.is_empty());
}

/// The points that only an incarnation after a crash passes: a crash there, too, changes at most the call that was running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_in_the_incarnation_after_a_crash_is_one_more_crash() {
    let reference = super::named::play_struck(tamtam::tape::Durability::Process, Strike::default()).await.told;
    let mut struck_late_report = 0;
    // Where the disk is slow, more reports are taken together, so another take is the one with reports behind it; and a report may
    // still be on its way when the actor crashes.
    let takes = [3, 3, 4, 5, 2].into_iter().cycle().take(30).map(|nth| ("session.took", nth, "session.late_report"));
    for (first, nth, second) in
        [("session.took", 9, "session.load"), ("session.carry_out", 12, "session.loaded")].into_iter().chain(takes)
    {
        if struck_late_report == 2 {
            break;
        }
        let folder = taped::folder();
        let (world, strike, store) = (World::default(), Strike::default(), folder.path().join("store"));
        let calls = strike.clone();
        strike.at(first, nth, move || {
            // The actor takes the report of the first read. The others are let into the slot before it crashes, so that its next
            // incarnation finds them there.
            for _ in 0..200 {
                if second != "session.late_report" || calls.passed().get("worker.call_made") == Some(&3) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(20));
            std::panic::resume_unwind(Box::new(super::strike::STRUCK));
        });
        strike.panic_at(second, 1);
        let runtime = super::host::runtime(&world, &store).faults(strike.faults()).start().await.unwrap();
        let state = play(&runtime, &world, folder.path()).await.unwrap();
        assert!(runtime.shutdown().await.is_empty());
        drop(runtime);
        assert_eq!(promises(&state, &world, &store), Vec::<String>::new(), "{first} {nth}, {second}");
        assert_eq!(differences(&told(&state), &reference), Vec::<String>::new(), "{first} {nth}, {second}");
        match second {
            "session.late_report" => {
                assert!(strike.struck() >= 1, "{first} {nth}");
                struck_late_report += strike.struck() - 1;
            }
            _ => assert_eq!(strike.struck(), 2, "{second}"),
        }
    }
    assert_eq!(struck_late_report, 2, "of thirty");
}
