//! Appends that are on their way when an incarnation ends, or that settle unobserved.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Outcome, Runtime,
    model::BoxFuture,
    permission::Profile,
    session::Next,
    tape::{Mark, TapeStore as _},
    tool::{Tool, ToolContext, ToolResult},
};

use super::{Engine, Gate, Kept, Own, each_engine, say, seen, until};

/// An abort that waits behind an append when its actor dies is decided by the next incarnation in its order: it does not end the turn of a
/// message that was sent after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_behind_an_append_is_decided_in_its_order_by_the_next_incarnation() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let (runtime, _) = engine.start().await;
    let session = runtime.create(engine.options()).await.unwrap();
    say(&session, "before").await;
    own.hold(true);
    let crash = async {
        until("the first is on its way", || own.outstanding.load(Ordering::SeqCst) == 1).await;
        runtime.operate().crash(session.id().as_str(), "on purpose").unwrap();
        until("its actor has crashed", || runtime.crashes().len() == 1).await;
        own.hold(false);
    };
    // In this order.
    let (handoff, abort, receipt, ()) =
        tokio::join!(session.handoff("mark", None), session.abort("nothing"), session.prompt("do this"), crash);
    assert!(handoff.is_ok() && abort.is_ok());
    assert_eq!(receipt.unwrap().wait().await.unwrap().outcome, Outcome::Done);
    assert!(runtime.shutdown().await.is_empty());
}

/// What came to the tape behind a stop is shown to whoever went on listening, when the session wakes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_shows_what_came_to_the_tape_behind_a_stop() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let (runtime, tools) = engine.start().await;
    let session = runtime.create(engine.options()).await.unwrap();
    let mut events = session.events();
    session.prompt("call gate").await.unwrap();
    tools.gate.is_running().await;
    own.hold(true);
    tools.gate.open.add_permits(1);
    until("the result is on its way", || own.outstanding.load(Ordering::SeqCst) == 1).await;
    runtime.operate().stop(session.id().as_str()).await.unwrap();
    own.hold(false);
    session.state().await.unwrap();
    let shown = async {
        let (mut last, mut finished) = (0, 0);
        while finished == 0 {
            let Some(Next::Event(event)) = events.next().await else { panic!("the stream goes on") };
            if event.id.is_durable() {
                assert!(event.id.seq.0 >= last, "in order");
                last = event.id.seq.0;
            }
            finished += usize::from(matches!(event.kind, EventKind::CallFinished { .. }));
        }
    };
    tokio::time::timeout(Duration::from_secs(60), shown).await.expect("the call's end is shown");
    assert!(runtime.shutdown().await.is_empty());
}

/// A session is open once the tape has it that its turn, which was cut off, is taken up: not while that is on its way. One whose disk
/// refuses that is open all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_open_once_the_turn_that_was_cut_off_is_taken_up() {
    for refuses in [false, true] {
        let own = Own::new();
        let engine = Engine::of(Kept::Own(own.clone()));
        let (runtime, tools) = engine.start().await;
        let session = runtime.create(engine.options()).await.unwrap();
        session.prompt("call gate").await.unwrap();
        tools.gate.is_running().await;
        assert!(runtime.shutdown().await.is_empty());
        let last = session.peek().await.unwrap().seq;

        let runtime = engine.builder().without_auto_resume().start().await.unwrap();
        own.refuse(refuses);
        own.hold(true);
        let mut opens = Box::pin(runtime.open(session.id()));
        let mut is_pending = async || assert!(futures_util::poll!(&mut opens).is_pending(), "it is open");
        while own.outstanding.load(Ordering::SeqCst) == 0 {
            is_pending().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The actor has the time for many rounds.
        for _ in 0..50 {
            is_pending().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        own.hold(false);
        let session = tokio::time::timeout(Duration::from_secs(60), opens).await.expect("it is open").unwrap();
        assert_eq!(session.state().await.unwrap().seq > last, !refuses);
        own.refuse(false);
        session.wait().await.unwrap();
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// What a session writes when it comes up with other rules of its host begins no turn: it is not listed as open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_takes_new_rules_at_its_start_is_not_listed_as_open() {
    each_engine(async |engine| {
        let (first, _) = engine.start().await;
        let session = first.create(engine.options()).await.unwrap();
        say(&session, "before").await;
        assert!(first.shutdown().await.is_empty());
        drop((first, session));
        let (id, mark) = ("s".parse().unwrap(), engine.folder.path().join("store/open/s"));
        // As after a power cut, when it is not known which of them was in a turn.
        match &engine.kept {
            Kept::Files(_) => fs::write(&mark, "").unwrap(),
            Kept::Memory(memory) => memory.mark(&id, Mark::Open, "").unwrap(),
            Kept::Own(own) => own.mark(&id, Mark::Open, "").unwrap(),
        }
        let second = engine.builder().rules(Profile::Strict.ruleset()).start().await.unwrap();
        assert_eq!(second.recovered().len(), 1);
        second.session(&id).wait().await.unwrap();
        let marked = (id.clone(), String::new());
        let is_marked = || match &engine.kept {
            Kept::Files(_) => mark.exists(),
            Kept::Memory(memory) => memory.marks(Mark::Open, None).unwrap().contains(&marked),
            Kept::Own(own) => own.marks(Mark::Open, None).unwrap().contains(&marked),
        };
        until("it is not marked", || !is_marked()).await;
        assert!(second.shutdown().await.is_empty());
    })
    .await;
}

/// The first call that may go on has much to tell beside its words, the others do not.
#[derive(Clone, Default)]
struct Detailed {
    gate: Gate,
    returned: Arc<AtomicUsize>,
}

impl Tool for Detailed {
    fn name(&self) -> &str {
        "detailed"
    }

    fn description(&self) -> &str {
        "Tells much."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            self.gate.running.add_permits(1);
            self.gate.open.acquire().await.unwrap().forget();
            match self.returned.fetch_add(1, Ordering::SeqCst) {
                0 => ToolResult::ok("much").with_details("x".repeat(1 << 19).into()),
                _ => ToolResult::ok("little").with_details("y".repeat(1 << 10).into()),
            }
        })
    }
}

/// A row that an engine does not take is its own fault alone: what waits behind it is recorded as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_behind_a_row_that_is_too_large_is_recorded_whole() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let tool = Detailed::default();
    let runtime: Runtime = engine.builder().tool(tool.clone()).start().await.unwrap();
    let session = runtime.create(engine.options()).await.unwrap();
    let turn = session.prompt("calls detailed").await.unwrap();
    tool.gate.is_running().await;
    tool.gate.is_running().await;
    own.row_max.store(256 * 1024, Ordering::SeqCst);
    own.hold(true);
    for on_their_way in 1..=2 {
        tool.gate.open.add_permits(1);
        until("a result is there", || tool.returned.load(Ordering::SeqCst) == on_their_way).await;
        until("the first is on its way", || own.outstanding.load(Ordering::SeqCst) == 1).await;
    }
    own.hold(false);
    assert_eq!(turn.wait().await.unwrap().outcome, Outcome::Done);
    let seen = seen(&session).await;
    assert!(seen.iter().any(|said| said.starts_with("much\n[the whole result is too large")), "{seen:?}");
    assert!(seen.contains(&"little".to_owned()), "{seen:?}");
    assert_eq!(runtime.crashes().len(), 0);
    assert!(runtime.shutdown().await.is_empty());
}
