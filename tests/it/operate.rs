//! What an operator sees of a running tree, and what the levers do: real actors, a real tape, a scripted model.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    EventKind, ModelRef, Outcome, Part, Runtime, SendError, Seq, Session, SessionId, SessionOptions,
    model::{BoxFuture, ErrorKind, Item, Model, ModelError, Models, Price, Reply, Request, Scripted},
    permission::Profile,
    runtime::{By, OperateError, SessionFigures},
    session::{Grant, Next},
    supervisor::{Happening, Node, Reading, Status, Watch},
    tool::{Tool, ToolContext, ToolResult},
};

use crate::support::{
    bomb::{Bomb, WORDS},
    taped,
};

#[allow(dead_code, unreachable_pub, reason = "its main is for people, and it is a program of its own elsewhere")]
#[path = "../../examples/operate.rs"]
mod example;

/// Models, of which the price of one blocks whoever asks for it first: a session's actor.
struct Blocking {
    script: Arc<Scripted>,
    held: Mutex<mpsc::Receiver<()>>,
}

impl Models for Blocking {
    fn find(&self, _: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        Ok(self.script.clone())
    }

    fn price_of(&self, name: &ModelRef) -> Option<Price> {
        if name.model == "blocks" {
            // Until the test drops its end, which is an error.
            let _ = self.held.lock().unwrap_or_else(PoisonError::into_inner).recv();
        }
        None
    }
}

/// A tool whose arguments say what goes wrong, and where. It blocks the session that it holds.
#[derive(Clone, Default)]
struct Trap(Arc<OnceLock<Session>>);

impl Tool for Trap {
    fn name(&self) -> &str {
        "trap"
    }

    fn description(&self) -> &str {
        "Does what the test wants."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if let (Some(session), true) = (self.0.get(), arguments["do"] == "block") {
                // The next request asks for the price of this model.
                let model: ModelRef = "fake/blocks".parse().unwrap();
                session.configure(|settings| settings.model = model.clone()).await.unwrap();
            }
            if arguments["do"] == "run" {
                context.progress.title("halfway");
                context.cancelled().await;
            }
            ToolResult::ok("trapped")
        })
    }
}

/// Calls the bomb or the trap where the newest message says so: `trap crash`, `trap block`, `trap run`; answers else.
fn reply(request: &Request) -> Reply {
    let Some(item) = request.history.iter().last() else { return Reply::text("?") };
    let said = match item.as_ref() {
        Item::User(user) => user.parts.iter().rev().find_map(|part| match part {
            Part::Text(text) => Some(text.text.to_string()),
            _ => None,
        }),
        _ => None,
    };
    match said.as_deref().and_then(|said| said.strip_prefix("trap ")) {
        Some("crash") => Reply::call("bomb", json!({})),
        Some(what) => Reply::call("trap", json!({ "do": what })),
        None => Reply::text("fine"),
    }
}

struct Lab {
    runtime: Runtime,
    folder: taped::Folder,
    trap: Trap,
    /// While it is there, whoever is blocked stays so.
    hold: Option<mpsc::Sender<()>>,
}

impl Lab {
    async fn new() -> Lab {
        let folder = taped::folder();
        let (hold, held) = mpsc::channel();
        let script = Arc::new(Scripted::from_fn(reply));
        let default = script.id().clone();
        let models = Arc::new(Blocking { script, held: Mutex::new(held) });
        let builder = Runtime::builder().store(folder.path().join("store")).models(models, default);
        let builder = builder.tree_shows_arguments(true);
        let (bomb, trap) = (Bomb::default(), Trap::default());
        let runtime = builder.tool(trap.clone()).tool(bomb.clone()).start().await.unwrap();
        bomb.arm(&runtime);
        Lab { runtime, folder, trap, hold: Some(hold) }
    }

    async fn session(&self, id: &str) -> Session {
        let options = SessionOptions::new(self.folder.path()).id(id.parse().unwrap());
        self.runtime.create(options.profile(Profile::Auto)).await.unwrap()
    }

    /// Waits until a node is seen to be like that, and gives it.
    async fn seen(&self, id: &str, is_so: impl Fn(&Node) -> bool) -> Node {
        let looking = async {
            loop {
                if let Some(node) = self.runtime.tree().find(id).filter(|node| is_so(node)) {
                    return node.clone();
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(60), looking).await;
        seen.unwrap_or_else(|_| panic!("{id} is not as it should be:\n{}", self.runtime.tree()))
    }

    /// Crashes a session until it is parked.
    async fn poison(&self, id: &str) -> Session {
        let session = self.session(id).await;
        session.prompt("trap crash").await.unwrap();
        // Promise 5: it goes on by itself once, and then waits to be told to.
        self.seen(id, |node| node.phase == Some("interrupted")).await;
        session.go_on().await.unwrap();
        self.seen(id, |node| node.status == Status::Parked).await;
        session
    }

    async fn end(self) {
        drop(self.hold);
        assert!(self.runtime.shutdown().await.is_empty());
    }
}

/// How many messages all actors have handled. Looking at the tree must add none.
fn handled(runtime: &Runtime) -> u64 {
    runtime.tree().roots.iter().flat_map(Node::iter).map(|node| node.handled).sum()
}

async fn next(watch: &mut Watch) -> Happening {
    tokio::time::timeout(Duration::from_secs(60), watch.next()).await.expect("it comes").expect("it goes on").what
}

/// Invariant 13, must show 3: a poison session is parked at its third crash in the window, after two restarts. A thousand others do
/// all of their work meanwhile, each in its first incarnation. The operator reads the crash report, and unparks it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_13_a_poison_session_is_parked_at_its_third_crash_and_a_thousand_others_do_not_notice() {
    const OTHERS: usize = 1_000;
    let lab = Lab::new().await;
    let mut others = Vec::new();
    for number in 0..OTHERS {
        others.push(lab.session(&format!("other-{number}")).await);
    }
    let working = tokio::spawn({
        let others = others.clone();
        async move {
            let mut answers = 0;
            for round in 0..2 {
                for other in &others {
                    let receipt = other.prompt(format!("question {round}")).await.unwrap();
                    answers += usize::from(receipt.wait().await.unwrap().text == "fine");
                }
            }
            answers
        }
    });
    let poison = lab.poison("poison").await;
    assert_eq!(working.await.unwrap(), 2 * OTHERS);

    let crashes = lab.runtime.crashes();
    let decisions: Vec<String> = crashes.iter().map(|crash| crash.decision.to_string()).collect();
    assert_eq!(decisions, ["restarted at once", "restarted at once", "parked"]);
    assert!(crashes.iter().all(|crash| crash.offender.as_str() == "poison"));
    let tree = lab.runtime.tree();
    let sessions = &tree.find("sessions").unwrap().children;
    let unharmed = sessions.iter().filter(|node| node.incarnation == 1 && node.last_exit.is_none());
    assert_eq!(unharmed.count(), OTHERS);
    assert_eq!(lab.runtime.count().parked, 1);

    // What the operator reads, from JSON as from text: OTP's four facts, and what it was at.
    let report = serde_json::to_value(&crashes[2]).unwrap();
    assert_eq!(report["supervisor"], "runtime/sessions");
    assert_eq!(report["context"], "child_terminated");
    assert_eq!(report["reason"]["detail"]["text"], WORDS);
    assert_eq!(report["offender"], "poison");
    assert_eq!(report["decision"], json!({ "kind": "park" }));
    assert_eq!((report["message"].as_str(), report["incarnation"].as_u64()), (Some("drill"), Some(3)));
    assert_eq!(report["turn"]["step"], 1);
    assert!(report["tape_seq"].as_u64().unwrap() > 3 && report["in_hand_ms"].is_u64(), "{report}");
    assert!(report["recent"].as_array().unwrap().iter().any(|happened| happened["what"] == "interrupted"), "{report}");
    let text = lab.runtime.inspect("poison").unwrap().to_string();
    for fact in [
        "parked in incarnation 3, post-mortem",
        "panic: the bomb goes off",
        "drill, for",
        "restarts 2 (crashes in window 3)",
    ] {
        assert!(text.contains(fact), "{fact:?} is missing in {text}");
    }
    assert!(matches!(poison.prompt("hello?").await, Err(SendError::Parked)));

    lab.runtime.operate().unpark("poison").await.unwrap();
    poison.abort("it crashes").await.unwrap();
    poison.wait().await.unwrap();
    assert_eq!(poison.prompt("and now?").await.unwrap().wait().await.unwrap().text, "fine");
    lab.end().await;
}

/// Invariant 38, must show 8: with one session stuck in blocking code everything is still seen at once: what it has in hand, since
/// when, and what piles up before it. No actor is asked for any of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn invariant_38_inspection_answers_while_a_session_is_stuck_in_blocking_code_and_asks_no_actor() {
    let mut lab = Lab::new().await;
    let other = lab.session("other").await;
    let stuck = lab.session("stuck").await;
    lab.trap.0.get_or_init(|| stuck.clone());
    stuck.prompt("trap block").await.unwrap();
    lab.seen("stuck", |node| node.busy_with == Some("returned") && node.reading == Reading::Busy).await;
    let mut waiting = Vec::new();
    for n in 0..3 {
        let session = stuck.clone();
        waiting.push(tokio::spawn(async move { session.prompt(format!("message {n}")).await.map(drop) }));
    }
    lab.seen("stuck", |node| node.queue == 3 && figures(node).at.is_some()).await;
    other.prompt("does it hold you up?").await.unwrap().wait().await.unwrap();
    other.wait().await.unwrap();

    let settled = lab.seen("other", |node| node.phase == Some("idle") && node.busy_ms.is_none()).await;
    assert_eq!(settled.reading, Reading::Fresh);
    let look = async || {
        for _ in 0..100 {
            let node = lab.runtime.tree().find("stuck").unwrap().clone();
            assert_eq!((node.status, node.reading, node.queue), (Status::Running, Reading::Busy, 3));
            assert_eq!(figures(&node).at.unwrap().step, 1);
            let text = lab.runtime.inspect("stuck").unwrap().to_string();
            assert!(text.contains("as it was before the message in its hand"), "{text}");
            assert!(text.contains("BUSY with returned for") && text.contains("queue 3 (peak 3)"), "{text}");
            assert_eq!(lab.runtime.count().busy, 1);
            assert_eq!(lab.runtime.top(By::Busy, 9).nodes[0].id, "stuck");
            assert_eq!(lab.runtime.top(By::Queue, 9).nodes.len(), 1);
            assert!(lab.runtime.trace("stuck").unwrap().iter().any(|happened| happened.what == "send"));
            let mut watch = lab.runtime.watch("stuck");
            assert!(matches!(next(&mut watch).await, Happening::Seen { status: Status::Running, .. }));
        }
    };
    // Others may have something to do meanwhile, such as the end of a worker of theirs: then it is looked at once more. If
    // looking asked anybody, no round would be quiet.
    let mut quiet = false;
    for _ in 0..20 {
        let before = handled(&lab.runtime);
        look().await;
        quiet = handled(&lab.runtime) == before;
        if quiet {
            break;
        }
    }
    assert!(quiet, "looking asked somebody");

    lab.hold = None;
    for sent in waiting {
        sent.await.unwrap().unwrap();
    }
    stuck.wait().await.unwrap();
    let node = lab.seen("stuck", |node| node.phase == Some("idle")).await;
    // More may have come before it got through these.
    assert!(node.queue == 0 && node.queue_peak >= 3, "{} {}", node.queue, node.queue_peak);
    lab.end().await;
}

/// A session that is stuck holds up no lever: after two seconds the operator is told what it is at.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_stuck_session_does_not_hold_up_a_lever() {
    let mut lab = Lab::new().await;
    let stuck = lab.session("stuck").await;
    lab.trap.0.get_or_init(|| stuck.clone());
    stuck.prompt("trap block").await.unwrap();
    lab.seen("stuck", |node| node.busy_with == Some("returned") && node.reading == Reading::Busy).await;
    let operator = lab.runtime.operate();
    let (paused, slept) = tokio::time::timeout(Duration::from_secs(60), async {
        tokio::join!(operator.pause("stuck"), operator.passivate("stuck"))
    })
    .await
    .expect("each lever has an end");
    for pulled in [paused, slept] {
        assert!(matches!(&pulled, Err(OperateError::NoAnswer { with: "returned", .. })), "{pulled:?}");
    }
    lab.hold = None;
    stuck.resume().await.unwrap();
    assert_eq!(stuck.prompt("and now?").await.unwrap().wait().await.unwrap().text, "fine");
    lab.end().await;
}

/// Invariant 24: the handler of a session never waits, whatever its model, its tools, its people or its disk do. In debug builds the
/// shell makes a wait a crash, so this holds for every test; here is one incarnation with everything in it that could be waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_24_the_handler_of_a_session_never_waits() {
    let folder = taped::folder();
    let limited =
        ModelError::new(ErrorKind::RateLimited, "slow down").with_retry_after(Some(Duration::from_millis(20)));
    let model = Scripted::new([
        Reply::text("slowly").waiting(Duration::from_millis(30)),
        Reply::error(limited),
        Reply::call("trap", json!({})),
        Reply::text("asked"),
        Reply::call("trap", json!({ "do": "run" })),
        Reply::hang(),
    ]);
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model));
    let builder = builder.durability(tamtam::tape::Durability::Power).tool(Trap::default());
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Strict)).await.unwrap();
    let mut events = session.events();
    session.prompt("a slow model").await.unwrap().wait().await.unwrap();
    let asked = session.prompt("a retry, and a person").await.unwrap();
    let grant = async |events: &mut tamtam::EventStream| loop {
        if let Some(Next::Event(event)) = events.next().await
            && let EventKind::Ask { ask, .. } = &event.kind
        {
            return session.answer(*ask, Grant::Once).await.unwrap();
        }
    };
    grant(&mut events).await;
    assert_eq!(asked.wait().await.unwrap().text, "asked");
    let hanging = session.prompt("a tool that hangs").await.unwrap();
    grant(&mut events).await;
    while runtime.count().calls == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    session.steer("stop that").await.unwrap();
    session.abort("enough").await.unwrap();
    assert_eq!(hanging.wait().await.unwrap().outcome, Outcome::Aborted { reason: "enough".into() });
    session.wait().await.unwrap();
    let crashes: Vec<String> = runtime.crashes().iter().map(|crash| crash.line()).collect();
    assert_eq!(crashes, Vec::<String>::new());
    drop(runtime.shutdown().await);
}

/// Each lever does what it says, or says what to do instead; whoever watches sees each pull.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lever_works_or_names_the_next_step_and_the_watch_sees_it() {
    let lab = Lab::new().await;
    let operator = lab.runtime.operate();
    let session = lab.session("a").await;
    session.prompt("hello").await.unwrap().wait().await.unwrap();
    session.wait().await.unwrap();
    let mut watch = lab.runtime.watch("a");
    assert!(matches!(
        next(&mut watch).await,
        Happening::Seen { status: Status::Running, incarnation: 1, last_exit: None }
    ));

    operator.pause("a").await.unwrap();
    assert_eq!(next(&mut watch).await, Happening::Lever { lever: "pause" });
    let paused = session.prompt("while paused").await.unwrap();
    assert_eq!(lab.seen("a", |node| node.queue == 1).await.phase, Some("paused"));
    operator.resume("a").await.unwrap();
    assert_eq!(next(&mut watch).await, Happening::Lever { lever: "resume" });
    assert_eq!(paused.wait().await.unwrap().text, "fine");

    operator.restart("a").await.unwrap();
    assert_eq!(next(&mut watch).await, Happening::Lever { lever: "restart" });
    let restarted = next(&mut watch).await;
    assert!(matches!(restarted, Happening::Exited { incarnation: 1, crash: None, .. }), "{restarted:?}");
    assert_eq!(next(&mut watch).await, Happening::Started { incarnation: 2 });
    assert_eq!(session.prompt("and now?").await.unwrap().wait().await.unwrap().text, "fine");

    // What a lever cannot do, it says, with what can be done.
    assert!(matches!(operator.unpark("a").await, Err(OperateError::NotParked { status: Status::Running, .. })));
    assert!(matches!(operator.stop("nobody").await, Err(OperateError::Unknown { .. })));
    assert!(matches!(operator.stop("runtime").await, Err(OperateError::IsRoot { .. })));
    assert!(matches!(operator.pause("sessions").await, Err(OperateError::NotASession { kind: "supervisor", .. })));
    session.prompt("trap run").await.unwrap();
    let call = lab.seen("a", |node| node.children.iter().any(|child| child.kind == "call")).await.children.remove(0);
    assert!(matches!(operator.stop(&call.path).await, Err(OperateError::IsTask { owner, .. }) if owner == "a"));
    assert!(matches!(operator.pause(&call.path).await, Err(OperateError::IsTask { owner, .. }) if owner == "a"));
    assert!(matches!(operator.pause("runtime").await, Err(OperateError::IsRoot { .. })));
    assert!(call.path.starts_with("runtime/sessions/a/trap "), "{}", call.path);

    // Stopped: gone from the tree with all that it ran; its tape is there, and it goes on from it.
    operator.stop("a").await.unwrap();
    assert!(lab.runtime.tree().find("a").is_none());
    assert_eq!(lab.runtime.count().calls, 0);
    let again = lab.runtime.open(&"a".parse::<SessionId>().unwrap()).await.unwrap();
    again.wait().await.unwrap();
    assert_eq!(again.prompt("back?").await.unwrap().wait().await.unwrap().text, "fine");

    let drained = operator.drain(Duration::from_secs(20)).await;
    assert_eq!(drained, vec![]);
    assert!(matches!(again.prompt("late").await, Err(SendError::Draining)));
    lab.end().await;
}

/// Parking by hand: senders are told, the watch sees it, and each way out of it works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_parked_by_hand_is_let_go_by_unpark_and_by_restart() {
    let lab = Lab::new().await;
    let operator = lab.runtime.operate();
    let session = lab.session("a").await;
    session.prompt("hello").await.unwrap().wait().await.unwrap();
    let mut watch = lab.runtime.watch("a");
    assert!(matches!(next(&mut watch).await, Happening::Seen { .. }));
    operator.park("a").await.unwrap();
    assert_eq!(next(&mut watch).await, Happening::Lever { lever: "park" });
    assert!(matches!(next(&mut watch).await, Happening::Exited { .. }));
    assert_eq!(next(&mut watch).await, Happening::Parked {});
    assert!(matches!(session.prompt("parked?").await, Err(SendError::Parked)));
    let refused = operator.pause("a").await.unwrap_err();
    assert!(matches!(&refused, OperateError::Parked { id } if id == "a"), "{refused}");
    assert!(refused.to_string().contains("`unpark` starts it again"));
    assert_eq!(next(&mut watch).await, Happening::Lever { lever: "pause" });
    assert!(
        matches!(next(&mut watch).await, Happening::LeverRefused { lever: "pause", why } if why == refused.to_string())
    );
    operator.unpark("a").await.unwrap();
    assert_eq!(session.prompt("again?").await.unwrap().wait().await.unwrap().text, "fine");
    operator.park("a").await.unwrap();
    operator.restart("a").await.unwrap();
    assert_eq!(session.prompt("restarted out of its parking?").await.unwrap().wait().await.unwrap().text, "fine");

    lab.end().await;
}

fn figures(node: &Node) -> &SessionFigures {
    SessionFigures::of(node).unwrap()
}

/// The workers of a session are shown under it with what they do, and go when they are done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_shows_its_workers_and_what_it_used() {
    let lab = Lab::new().await;
    let session = lab.session("a").await;
    session.prompt("trap run").await.unwrap();
    // The worker of the request may still be on its way out when the call begins.
    let at_work = |node: &Node| node.children.len() == 1 && node.children[0].doing.as_deref() == Some("halfway");
    let node = lab.seen("a", at_work).await;
    assert_eq!((node.phase, figures(&node).at.unwrap().step), (Some("tools"), 1));
    assert!(node.doing.as_ref().unwrap().ends_with("step 1: runs trap"));
    assert_eq!((node.children.len(), node.children[0].kind, figures(&node).cost.shown().cost), (1, "call", None));
    let mut count = lab.runtime.count();
    while count.requests > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        count = lab.runtime.count();
    }
    assert_eq!((count.sessions, count.in_turn, count.calls), (1, 1, 1));
    let counted = (count.specs, count.active, count.supervisors + count.workers);
    assert_eq!(counted, (count.specs, count.specs, count.specs));
    session.abort("enough").await.unwrap();
    session.wait().await.unwrap();
    let node = lab.seen("a", |node| node.phase == Some("idle") && node.children.is_empty()).await;
    assert_eq!((node.children.len(), &node.doing, figures(&node).at), (0, &None, None));
    assert!(figures(&node).tape_seq > Seq(5));
    // The trace has kinds and numbers; what was said is in it from when that is asked for, until it is not.
    let said = || serde_json::to_string(&lab.runtime.trace("a").unwrap()).unwrap();
    assert!(said().contains("abort") && !said().contains("enough"), "{}", said());
    lab.runtime.operate().trace_in_full("a", true).unwrap();
    session.prompt("a secret").await.unwrap().wait().await.unwrap();
    assert!(said().contains("a secret"));
    lab.runtime.operate().trace_in_full("a", false).unwrap();
    assert!(!said().contains("a secret"));
    lab.end().await;
}

/// `examples/operate.rs` shows what its operator has to see. Numbers and times differ from run to run, words do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_operators_example_shows_the_night_as_it_was() {
    let mut out = Vec::new();
    example::operate(&mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    for said in EXAMPLE_SAYS {
        assert!(text.contains(said), "{said:?} is missing in:\n{text}");
    }
    let tree = text.split("$ tree\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert_eq!(tree.lines().filter(|line| line.contains(" session ")).count(), 20, "{tree}");
    let crashes = text.split("$ crashes\n").nth(1).unwrap();
    let numbers: Vec<_> = crashes.lines().filter(|line| line.starts_with('#')).map(|line| &line[..2]).collect();
    assert_eq!(numbers, ["#1", "#2", "#3"], "{text}");
    assert!(text.ends_with("left behind: nothing\n"), "{text}");
}

const EXAMPLE_SAYS: &[&str] = &[
    "20 sessions, 3 in a turn; 0 requests, 2 calls; 1 busy, 0 restarting, 1 parked",
    "building, 3 of 7 parts for",
    "runtime/sessions/poison ended incarnation 3: panic: index out of bounds: the len is 0 but the index is 0; parked (crash 3)",
    "runtime/sessions/poison is parked\n",
    "offender    session poison, incarnation 3, under runtime/sessions",
    "context     crashed",
    "location    unknown",
    "handling    drill, for",
    "decision    parked; crashes in the window: 3",
    "a sender is told: the session is parked: it crashed too often",
    "poison says: Here is the answer.",
    "stuck has not answered for 2 s: it has been handling returned for",
    "the code that blocked it is done: stuck",
    "chat-18 says: Here is the answer.",
    "chat-01 is not parked, it is running: `restart` starts it afresh",
    "there is no nobody in the tree: `tree` lists what there is",
    "sessions is a supervisor, not a session",
    "not done in time: []",
];
