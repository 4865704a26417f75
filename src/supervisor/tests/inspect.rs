//! What can be seen of a tree without asking any of it: the tree, watches, traces, crash reports.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::{Strategy as _, prop};

use super::*;
use crate::{
    supervisor::crash_log::{CrashLog, is_loud},
    supervisor::shell::{Behaviour, Context as Cx, ExitError},
};

const SECOND: Duration = Duration::from_secs(1);

/// A behaviour that breaks its word.
struct Waits;

impl Behaviour for Waits {
    type Msg = ();

    const MAY_WAIT: bool = false;

    async fn init(&mut self, cx: &mut Cx<()>) -> Result<crate::supervisor::shell::Init, ExitError> {
        cx.mailbox().send(())?;
        Ok(crate::supervisor::shell::Init::Run)
    }

    async fn handle(&mut self, (): (), _: &mut Cx<()>) -> Result<(), ExitError> {
        tokio::task::yield_now().await;
        Ok(())
    }
}

/// Invariant 24: a handler that may not wait and does is found out at once.
#[tokio::test(start_paused = true)]
async fn invariant_24_a_handler_that_waits_and_may_not_is_a_crash_in_debug_builds() {
    let lab = Lab::start(park_after(0)).await;
    lab.sup.start_child(ChildSpec::behaviour("waits", "odd", || Waits)).await.unwrap();
    lab.until_status("waits", Status::Parked).await;
    assert!(lab.registry.crashes()[0].reason.to_string().contains("a handler waited that may not"));
    lab.end().await;
}

/// Invariant 8: a supervisor that starts a child, restarts in a storm or shuts down for 30 s answers at once, and the tree shows
/// each as it is.
#[tokio::test(start_paused = true)]
async fn invariant_08_inspection_answers_during_a_start_a_storm_and_a_shutdown() {
    let lab = Lab::start(park_after(1_000_000)).await;
    lab.add("storm", Restart::Transient).await;
    let slow = lab.children.spec("slow", Restart::Transient, 29 * SECOND).shutdown(Shutdown::After(30 * SECOND));
    lab.sup.start_child(slow).await.unwrap();
    lab.children.begins("hangs", Beginning::Hangs);
    let (sup, hangs) = (lab.sup.clone(), lab.children.puppet("hangs", Restart::Transient));
    let starting = tokio::spawn(async move { sup.start_child(hangs).await });
    settle().await;
    let answers = async || {
        let before = tokio::time::Instant::now();
        let children = lab.sup.which_children().await.unwrap();
        assert_eq!(lab.sup.count_children().await.unwrap().specs, children.len());
        let tree = lab.registry.snapshot();
        assert_eq!(tree[0].children.len(), children.len());
        assert_eq!(before.elapsed(), Duration::ZERO, "an answer took time");
        tree
    };
    assert_eq!(answers().await[0].find("hangs").unwrap().status, Status::Starting);
    for _ in 0..200 {
        lab.children.order("storm", Order::Panic);
        answers().await;
    }
    starting.abort();
    let sup = lab.sup.clone();
    let ending = tokio::spawn(async move { sup.shutdown().await });
    settle().await;
    let tree = answers().await;
    assert_eq!(tree[0].find("slow").unwrap().status, Status::Stopping);
    ending.await.unwrap();
    assert!(lab.registry.snapshot().is_empty());
}

/// The start of a child; on its cancellation, it checks whether the child is in the tree.
struct Reader(Registry, std::sync::mpsc::Sender<bool>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.1.send(self.0.snapshot()[0].find("leaves").is_some()).unwrap();
    }
}

/// This is how the caller of a sleep learns of it, and then reads the tree.
#[tokio::test(start_paused = true)]
async fn who_hears_that_a_place_was_given_up_finds_its_child_in_the_tree_no_more() {
    let lab = Lab::start(park_after(0)).await;
    let (tell, found) = std::sync::mpsc::channel();
    let reader = Reader(lab.registry.clone(), tell);
    let leaves = ChildSpec::new("leaves", move |_| {
        let _ = &reader;
        async { Ok(()) }
    });
    lab.sup.start_child(leaves.restart(Restart::Transient)).await.unwrap();
    quiet().await;
    assert_eq!(found.try_recv(), Ok(false));
    lab.end().await;
}

/// What a hand may do to one of four children.
#[derive(Clone, Copy, Debug)]
enum Hand {
    Start,
    Crash,
    Stop,
    Park,
    Unpark,
    Recycle,
    Delete,
}

/// Invariant 37: at rest the tree shows what the planner knows; keys are unique; each parent is there; restarts never count down.
#[test]
fn invariant_37_at_rest_the_tree_shows_what_the_planner_knows() {
    let hands = [Hand::Start, Hand::Crash, Hand::Stop, Hand::Park, Hand::Unpark, Hand::Recycle, Hand::Delete];
    let deeds = prop::collection::vec((prop::sample::select(hands.to_vec()), 0..4_usize), 1..40);
    let mut runner = proptest::test_runner::TestRunner::new(proptest::test_runner::Config {
        cases: 40,
        failure_persistence: None,
        ..Default::default()
    });
    let held = runner.run(&deeds.prop_map(|deeds| deeds), |deeds| {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        tokio.block_on(play(deeds));
        Ok(())
    });
    held.unwrap();
}

async fn play(deeds: Vec<(Hand, usize)>) {
    let lab = Lab::start(park_after(2)).await;
    let mut restarts = BTreeMap::new();
    for (hand, child) in deeds {
        let id = ["a", "b", "c", "d"][child];
        let spec = || lab.children.spec(id, Restart::Transient, Duration::ZERO);
        // Many of these are refused; what is refused changes nothing, and that is shown as well.
        match hand {
            Hand::Start => drop(lab.sup.start_child(spec()).await),
            Hand::Crash if lab.sup.which_child(id).await.is_ok() => lab.children.order(id, Order::Panic),
            Hand::Crash => {}
            Hand::Stop => drop(lab.sup.terminate_child(id).await),
            Hand::Park => drop(lab.sup.park(id).await),
            Hand::Unpark => drop(lab.sup.unpark(id).await),
            Hand::Recycle => drop(lab.sup.recycle_child(id).await),
            Hand::Delete => drop(lab.sup.delete_child(id).await),
        }
        settle().await;
        let known: Vec<_> = lab.sup.which_children().await.unwrap();
        let tree = lab.registry.snapshot();
        let [root] = &tree[..] else { panic!("one root: {tree:?}") };
        let shown: BTreeMap<&str, _> = root
            .children
            .iter()
            .map(|node| (node.id.as_str(), (node.status, node.incarnation, node.restarts)))
            .collect();
        let expected: BTreeMap<&str, _> =
            known.iter().map(|info| (info.id.as_str(), (info.status, info.incarnation, info.restarts))).collect();
        assert_eq!(shown, expected);
        let keys: Vec<u64> = root.iter().map(|node| node.key).collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        for node in &root.children {
            assert_eq!(node.path, format!("sessions/{}", node.id));
            let before = restarts.insert(node.key, node.restarts).unwrap_or(0);
            assert!(node.restarts >= before, "{before} restarts became {}", node.restarts);
        }
    }
    lab.end().await;
}

/// Invariant 33 for the tree: a watch on a node that is down, or that never was, answers at once.
#[tokio::test(start_paused = true)]
async fn invariant_33_a_watch_on_a_dead_or_unknown_node_answers_at_once() {
    let lab = Lab::start(park_after(0)).await;
    lab.add("a", Restart::Transient).await;
    lab.crash("a").await;
    lab.until_status("a", Status::Parked).await;
    let before = tokio::time::Instant::now();
    let mut watch = lab.registry.watch(Some("a"));
    let Happening::Seen { status, incarnation, last_exit } = watch.next().await.unwrap().what else { panic!() };
    assert_eq!((status, incarnation), (Status::Parked, 1));
    assert!(last_exit.unwrap().to_string().contains("boom"));
    let mut nobody = lab.registry.watch(Some("nobody"));
    let first = nobody.next().await.unwrap();
    assert_eq!((&*first.path, first.what), ("nobody", Happening::Unknown {}));
    assert_eq!(nobody.next().await, None);
    assert_eq!(before.elapsed(), Duration::ZERO);

    // One that is down may come up again, and the watch is still there.
    lab.sup.unpark("a").await.unwrap();
    assert_eq!(watch.next().await.unwrap().what, Happening::Started { incarnation: 2 });
    lab.end().await;
}

/// A watch tells the whole story of its node and of no other; the watch of all ends with the tree; a slow one learns how much it
/// missed.
#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_happens_to_its_node_and_the_watch_of_all_ends_with_the_tree() {
    let lab = Lab::start(park_after(1)).await;
    lab.add("a", Restart::Transient).await;
    lab.add("b", Restart::Transient).await;
    let (mut a, mut all, asleep) = (lab.registry.watch(Some("a")), lab.registry.watch(None), lab.registry.watch(None));
    lab.crash("b").await;
    lab.crash("a").await;
    lab.until("a", 2).await;
    lab.crash("a").await;
    lab.until_status("a", Status::Parked).await;
    let mut story = Vec::new();
    while !matches!(story.last(), Some(Happening::Parked {})) {
        let event = a.next().await.unwrap();
        assert_eq!(&*event.path, "sessions/a");
        story.push(event.what);
    }
    let words: Vec<String> = story
        .iter()
        .map(|what| match what {
            Happening::Seen { incarnation, .. } => format!("seen {incarnation}"),
            Happening::Started { incarnation } => format!("started {incarnation}"),
            Happening::Exited { incarnation, decision, crash, .. } => {
                format!("exited {incarnation}, {decision}, crash {}", crash.unwrap())
            }
            other => format!("{other:?}"),
        })
        .collect();
    let expected =
        ["seen 1", "exited 1, restarted at once, crash 2", "started 2", "exited 2, parked, crash 3", "Parked"];
    assert_eq!(words, expected);

    for _ in 0..2_000 {
        lab.registry.tell("x", Happening::Lever { lever: "test" });
    }
    let mut asleep = asleep;
    asleep.next().await.unwrap();
    assert!(asleep.lost() > 900, "{}", asleep.lost());
    lab.end().await;
    let mut last = None;
    while let Some(event) = all.next().await {
        last = Some(event);
    }
    let last = last.unwrap();
    assert_eq!(&*last.path, "sessions");
    assert!(matches!(last.what, Happening::Down { .. }), "{last}");
}

/// A node that is shown under another one is shown under its supervisor again when that one is gone.
#[tokio::test(start_paused = true)]
async fn a_node_shown_under_one_that_is_gone_is_shown_under_its_supervisor() {
    let lab = Lab::start(park_after(2)).await;
    lab.add("parent", Restart::Transient).await;
    lab.add("child", Restart::Transient).await;
    let (parent, child) = (lab.info("parent").await.node, lab.info("child").await.node);
    child.show_under(&parent);
    let tree = lab.registry.snapshot();
    assert_eq!(tree[0].children.len(), 1);
    assert_eq!(tree[0].find("parent").unwrap().children[0].id, "child");
    assert_eq!(tree[0].find("child").unwrap().path, "sessions/child", "the path is that of its supervision");
    lab.sup.terminate_child("parent").await.unwrap();
    settle().await;
    let tree = lab.registry.snapshot();
    assert_eq!(tree.len(), 1, "it is no root");
    assert_eq!(tree[0].children[0].id, "child");
    // Two that are shown under each other are roots rather than lost.
    lab.add("other", Restart::Transient).await;
    let other = lab.info("other").await.node;
    child.show_under(&other);
    other.show_under(&child);
    let tree = lab.registry.snapshot();
    assert_eq!(tree.iter().flat_map(Node::iter).count(), 3);
    lab.end().await;
}

/// A node keeps what its last incarnation did, and its trace says nothing of what was said until that is asked for.
#[tokio::test(start_paused = true)]
async fn a_trace_is_redacted_by_default_and_what_a_dead_node_did_can_still_be_read() {
    let lab = Lab::start(park_after(0)).await;
    lab.add("a", Restart::Transient).await;
    let state = lab.info("a").await.node;
    let said = || Some("the password".to_owned() + &"!".repeat(1_000));
    state.take_up("send", Some(7), said);
    let trace = || lab.registry.trace("a").unwrap();
    assert_eq!(trace().last().unwrap().to_string(), "send 7");
    state.trace_in_full(true);
    state.take_up("send", Some(8), said);
    let detail = trace().last().unwrap().detail.clone().unwrap();
    assert!(detail.starts_with("the password!") && detail.len() == 200, "{detail}");
    state.doing("holding the password");
    lab.crash("a").await;
    lab.until_status("a", Status::Parked).await;
    let crash = lab.registry.crashes().remove(0);
    assert!(!serde_json::to_string(&crash.recent).unwrap().contains("password"));
    assert_eq!(crash.doing.as_deref(), Some("holding the password"));
    state.trace_in_full(false);
    assert!(!serde_json::to_string(&trace()).unwrap().contains("password"));

    let tree = lab.registry.snapshot();
    let node = tree[0].find("a").unwrap();
    assert_eq!((node.reading, node.doing.as_deref()), (Reading::PostMortem, Some("holding the password")));
    assert!(render(&tree).contains("parked   last seen at holding the password, last exit 0 ms ago: panic: boom"));
    for _ in 0..100 {
        state.take_up("again", None, || None);
    }
    assert_eq!(trace().len(), 32);
    assert_eq!(lab.registry.trace("nobody"), None);
    lab.end().await;
}

/// The last 256 crashes are kept, each with its number; the log hears of a node's first, second, fourth, eighth … crash.
#[tokio::test(start_paused = true)]
async fn crash_reports_are_bounded_and_their_log_is_throttled_by_node() {
    let lab = Lab::start(park_after(1_000)).await;
    lab.add("a", Restart::Transient).await;
    lab.add("b", Restart::Transient).await;
    for incarnation in 1..=300 {
        lab.crash("a").await;
        lab.until("a", incarnation + 1).await;
    }
    lab.crash("b").await;
    lab.until("b", 2).await;
    let crashes = lab.registry.crashes();
    assert_eq!(crashes.iter().map(|crash| crash.number).collect::<Vec<_>>(), (46..=301).collect::<Vec<_>>());
    // How loud each is, from the log itself: what a subscriber of one thread hears depends on those of all others.
    let log = CrashLog::default();
    let loud = |report: &CrashReport| is_loud(log.keep(report.clone()).1);
    let heard: Vec<usize> = (1..=300).filter(|_| loud(&crashes[0])).collect();
    assert_eq!(heard, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    assert!(loud(&crashes[255]), "another node's first");
    let text = crashes[255].to_string();
    for fact in [
        "offender    host b, incarnation 1, under sessions",
        "context     crashed",
        "panic: boom",
        "location    unknown",
    ] {
        assert!(text.contains(fact), "{text}");
    }
    assert!(
        crashes[255]
            .line()
            .ends_with("host b crashed in incarnation 1: panic: boom → restarted at once, crash 1 in the window")
    );
    lab.end().await;
}

/// What a child says of itself, and what its payload says, may be foreign text: it breaks no line, and no control character of it
/// reaches the terminal, neither in the tree nor in a crash report.
#[tokio::test(start_paused = true)]
async fn what_a_child_says_of_itself_is_shown_without_control_characters() {
    #[derive(Debug)]
    struct Foreign;
    impl crate::supervisor::Payload for Foreign {
        fn facts(&self) -> Vec<String> {
            vec!["two\nlines\u{1b}[31m".to_owned()]
        }

        fn fields(&self) -> serde_json::Value {
            serde_json::Value::Null
        }
    }
    let lab = Lab::start(park_after(0)).await;
    lab.add("a", Restart::Transient).await;
    let node = lab.info("a").await.node;
    node.doing("one\r\u{1b}[2J");
    node.put(Foreign);
    let tree = lab.registry.snapshot();
    let shown = render(&tree);
    assert_eq!(shown.lines().count(), tree.iter().flat_map(Node::iter).count());
    lab.crash("a").await;
    lab.until_status("a", Status::Parked).await;
    let report = lab.registry.crashes()[0].to_string();
    assert!(report.contains("last seen at one"), "{report}");
    for text in [shown, report] {
        assert!(text.contains("two lines"), "{text}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
    lab.end().await;
}
