//! A whole runtime, as a host sees it: real actors, a real tape, a scripted model, and tools that misbehave.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Delivery, EventKind, Message, Outcome, Part, Runtime, SendError, Session, SessionOptions, Steering,
    hook::{Hook, HookCall, HookContext, Input, Verdict},
    model::{BoxFuture, ErrorKind, Item, ModelError, Reply, Scripted, Usage},
    permission::Profile,
    session::{Disposition, ErrorReason, Grant, Next, Refusal, ToolState},
    tape::TapeStoreExt as _,
    tool::{Effect, Tool, ToolContext, ToolResult},
};

use crate::support::{bomb::Bomb, taped};

/// What a misbehaving tool does.
#[derive(Clone, Copy)]
enum Does {
    Echo,
    Tell,
    Panic,
    Hang,
    Block,
    Flood,
    UntilStopped,
}

/// A tool that does one thing, and counts how often it began.
struct Stub {
    name: &'static str,
    does: Does,
    effect: Effect,
    began: Arc<AtomicUsize>,
}

fn stub(name: &'static str, does: Does) -> Stub {
    Stub { name, does, effect: Effect::Once, began: Arc::default() }
}

impl Tool for Stub {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Does what the test wants."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn limit(&self, _: &Value) -> Duration {
        match self.does {
            Does::Hang | Does::Block => Duration::from_millis(50),
            _ => Duration::from_secs(60),
        }
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.began.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match self.does {
                Does::Echo => ToolResult::ok(arguments.to_string()),
                Does::Tell => ToolResult::ok("the secret"),
                Does::Panic => panic!("the tool is broken"),
                Does::Hang => std::future::pending().await,
                Does::Block => {
                    tamtam::tool::blocking(context, |context| {
                        while !context.is_cancelled() {
                            std::thread::sleep(Duration::from_millis(5));
                        }
                        ToolResult::ok("stopped")
                    })
                    .await
                }
                Does::Flood => {
                    for n in 0..100_000_u32 {
                        context.progress.metadata(json!(n));
                    }
                    ToolResult::ok("flooded")
                }
                Does::UntilStopped => {
                    context.progress.title("waiting");
                    context.cancelled().await;
                    ToolResult::ok("stopped")
                }
            }
        })
    }
}

async fn runtime(folder: &Path, model: Arc<Scripted>, tools: Vec<Stub>) -> Runtime {
    let builder = Runtime::builder().store(folder.join("store")).model(model);
    tools.into_iter().fold(builder, tamtam::runtime::Builder::tool).start().await.unwrap()
}

async fn session(runtime: &Runtime, folder: &Path) -> Session {
    runtime.create(SessionOptions::new(folder).profile(Profile::Auto)).await.unwrap()
}

/// Waits for the first event that `wanted` picks.
async fn event<T>(events: &mut tamtam::EventStream, wanted: impl Fn(&EventKind) -> Option<T>) -> T {
    let found = async {
        loop {
            if let Next::Event(event) = events.next().await.expect("the session goes on")
                && let Some(found) = wanted(&event.kind)
            {
                return found;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("the event comes")
}

fn results(request: &tamtam::model::Request) -> Vec<String> {
    let results = request.history.iter().filter_map(|item| match item.as_ref() {
        Item::Result(result) => Some(result.content.clone()),
        _ => None,
    });
    results.collect()
}

async fn states(session: &Session) -> Vec<ToolState> {
    let messages = session.messages().await.unwrap();
    let parts = messages.into_iter().flat_map(|message| message.parts);
    parts
        .filter_map(|part| match part {
            Part::Tool(tool) => Some(tool.state),
            _ => None,
        })
        .collect()
}

/// C-16, promise 3, A01: a panic, a hang, a blocked thread and a flood each cost one error result at most; the session goes
/// on, and another session does not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_misbehaves_costs_its_own_call_and_nothing_else() {
    let folder = taped::folder();
    let model = Scripted::from_fn(|request| {
        let asked = |text: &str| {
            request
                .history
                .iter()
                .any(|item| matches!(item.as_ref(), Item::User(user) if user.parts == [Part::text(text)]))
        };
        match (asked("misbehave"), results(request).len()) {
            (true, 0) => Reply::call("panics", json!({})),
            (true, 1) => Reply::call("hangs", json!({})),
            (true, 2) => Reply::call("blocks", json!({})),
            (true, 3) => Reply::call("floods", json!({})),
            (true, _) => Reply::text("still here"),
            (false, _) => Reply::text("did not notice"),
        }
    });
    let tools = vec![
        stub("panics", Does::Panic),
        stub("hangs", Does::Hang),
        stub("blocks", Does::Block),
        stub("floods", Does::Flood),
    ];
    let runtime = runtime(folder.path(), Arc::new(model), tools).await;
    let (bad, good) = (session(&runtime, folder.path()).await, session(&runtime, folder.path()).await);
    let _listener = bad.events();
    let misbehaved = bad.prompt("misbehave").await.unwrap();
    let unaware = good.prompt("hello").await.unwrap().wait().await.unwrap();
    assert_eq!(unaware.text, "did not notice");

    let answer = misbehaved.wait().await.unwrap();
    assert_eq!((answer.outcome, answer.text.as_str(), answer.steps), (Outcome::Done, "still here", 5));
    let reasons: Vec<_> = states(&bad)
        .await
        .into_iter()
        .map(|state| match state {
            ToolState::Error { reason, error, .. } => (Some(reason), error),
            ToolState::Completed { output, .. } => (None, output),
            other => panic!("not over: {other:?}"),
        })
        .collect();
    assert_eq!(
        reasons.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(),
        [Some(ErrorReason::Failed), Some(ErrorReason::Timeout), Some(ErrorReason::Timeout), None]
    );
    assert!(reasons[0].1.contains("the tool is broken"), "{}", reasons[0].1);
    assert_eq!(runtime.crashes(), vec![]);
    assert!(runtime.shutdown().await.is_empty());
}

/// T-02, T-03: a message that aborts what runs stops the running call, skips the calls that were not started, and is read next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steering_skips_the_calls_not_yet_started() {
    let folder = taped::folder();
    let four = Reply::call("first", json!({})).with_call("echo", json!({"n": 2})).with_call("echo", json!({"n": 3}));
    let model = Arc::new(Scripted::new([four, Reply::text("I obey")]));
    let echo = stub("echo", Does::Echo);
    let echoed = echo.began.clone();
    let runtime = runtime(folder.path(), model.clone(), vec![stub("first", Does::UntilStopped), echo]).await;
    let session = session(&runtime, folder.path()).await;
    let mut events = session.events();
    let prompt = session.prompt("go").await.unwrap();
    event(&mut events, |kind| matches!(kind, EventKind::CallStarted { .. }).then_some(())).await;

    let steered = session.send("stop that", Delivery::Steer(Steering::AbortRunning)).await.unwrap();
    assert_eq!(steered.disposition, Disposition::Steering);
    let answer = prompt.wait().await.unwrap();
    assert_eq!((answer.text.as_str(), steered.wait().await.unwrap().turn), ("I obey", answer.turn));
    assert_eq!(echoed.load(Ordering::SeqCst), 0);

    let second = &model.requests()[1];
    let kinds: Vec<_> = second
        .history
        .iter()
        .map(|item| match item.as_ref() {
            Item::User(user) => format!("user {}", user.parts.len()),
            Item::Assistant(_) => "assistant".to_owned(),
            Item::Result(result) => format!("{} {}", result.name, result.is_error),
            _ => "?".to_owned(),
        })
        .collect();
    assert_eq!(kinds, ["user 1", "assistant", "first true", "echo true", "echo true", "user 1"]);
    assert!(results(second)[1].contains("Skipped due to queued user message"));
    assert!(runtime.shutdown().await.is_empty());
}

/// Promise 1, 2, 4: the actor of a session is killed in mid-call and comes back from its tape with nothing lost; a call of a
/// tool that runs once is not run again, and the model is told that its outcome is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_actor_dies_goes_on_from_its_tape() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::call("slow", json!({})), Reply::text("went on"), Reply::text("next")]));
    let slow = stub("slow", Does::UntilStopped);
    let began = slow.began.clone();
    let runtime = runtime(folder.path(), model.clone(), vec![slow]).await;
    let session = session(&runtime, folder.path()).await;
    let mut events = session.events();
    let prompt = session.prompt("go").await.unwrap();
    let queued = session.prompt("and then").await.unwrap();
    event(&mut events, |kind| matches!(kind, EventKind::CallProgress { .. }).then_some(())).await;

    runtime.operate().restart(session.id().as_str()).await.unwrap();

    assert_eq!(prompt.wait().await.unwrap().text, "went on");
    assert_eq!(queued.wait().await.unwrap().text, "next");
    assert_eq!(began.load(Ordering::SeqCst), 1);
    assert!(results(&model.requests()[1])[0].contains("outcome is unknown"));
    assert!(runtime.shutdown().await.is_empty());
}

/// Promise 5: a runtime that starts on a store with an interrupted turn goes on with it by itself, and sends the open request
/// again as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_turn_goes_on_when_the_runtime_starts_again() {
    let folder = taped::folder();
    let hanging = Arc::new(Scripted::new([Reply::hang()]));
    let first = runtime(folder.path(), hanging.clone(), vec![]).await;
    let session_before = session(&first, folder.path()).await;
    let mut events = session_before.events();
    session_before.prompt("go").await.unwrap();
    event(&mut events, |kind| matches!(kind, EventKind::StepStarted { .. }).then_some(())).await;
    while hanging.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(first.shutdown().await.is_empty());

    let model = Arc::new(Scripted::new([Reply::text("here I am again")]));
    let second = runtime(folder.path(), model.clone(), vec![]).await;
    assert_eq!(second.recovered().len(), 1);
    let again = second.session(session_before.id());
    again.wait().await.unwrap();
    let state = again.state().await.unwrap();
    assert_eq!(&*state.ended.back().unwrap().text, "here I am again");
    let keys = |model: &Scripted| model.requests().iter().map(|request| request.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&model), keys(&hanging));
    assert_eq!(model.requests()[0].history, hanging.requests()[0].history);
    assert!(second.shutdown().await.is_empty());
}

/// T-06: an abort ends the call, answers it, holds what is queued, and the queue goes on when it is told to.
/// ABORT-001: a tool that would run for ever is stopped, the turn ends as aborted with the reason, and nothing stays open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_closes_everything_and_holds_the_queue() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::call("slow", json!({})), Reply::text("second"), Reply::text("third")]));
    let runtime = runtime(folder.path(), model, vec![stub("slow", Does::UntilStopped)]).await;
    let session = session(&runtime, folder.path()).await;
    let mut events = session.events();
    let prompt = session.prompt("go").await.unwrap();
    let queued = session.prompt("later").await.unwrap();
    event(&mut events, |kind| matches!(kind, EventKind::CallStarted { .. }).then_some(())).await;

    session.abort("enough").await.unwrap();
    assert_eq!(prompt.wait().await.unwrap().outcome, Outcome::Aborted { reason: "enough".into() });
    session.wait().await.unwrap();
    let held = session.state().await.unwrap();
    assert!(held.on_hold && held.open.is_empty() && held.queue.len() == 1);
    session.go_on().await.unwrap();
    assert_eq!(queued.wait().await.unwrap().text, "second");
    assert!(runtime.shutdown().await.is_empty());
}

/// H-13, C-06: an ask reaches whoever listens; each answer does what it says; where nobody listens it is denied at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_is_answered_by_whoever_listens_or_denied_at_once() {
    let folder = taped::folder();
    let replies = (0..4).flat_map(|_| [Reply::call("echo", json!({})), Reply::text("ok")]);
    let model = Arc::new(Scripted::new(replies));
    let echo = stub("echo", Does::Echo);
    let began = echo.began.clone();
    let runtime = runtime(folder.path(), model.clone(), vec![echo]).await;
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Strict)).await.unwrap();

    session.prompt("nobody listens").await.unwrap().wait().await.unwrap();
    assert!(results(&model.requests()[1])[0].contains("nobody listens"));

    let mut events = session.events();
    let ask = |kind: &EventKind| match kind {
        EventKind::Ask { ask, .. } => Some(*ask),
        _ => None,
    };
    let rejected = session.prompt("reject").await.unwrap();
    let open = event(&mut events, ask).await;
    session.answer(open, Grant::Reject(Some("use another way".into()))).await.unwrap();
    rejected.wait().await.unwrap();
    assert!(results(model.requests().last().unwrap()).last().unwrap().contains("use another way"));
    assert!(matches!(session.answer(open, Grant::Once).await, Err(SendError::Refused(Refusal::AskClosed { .. }))));

    let once = session.prompt("once").await.unwrap();
    session.answer(event(&mut events, ask).await, Grant::Once).await.unwrap();
    once.wait().await.unwrap();
    assert_eq!(began.load(Ordering::SeqCst), 1);

    let stopped = session.prompt("stop").await.unwrap();
    session.answer(event(&mut events, ask).await, Grant::Reject(None)).await.unwrap();
    assert_eq!(stopped.wait().await.unwrap().outcome, Outcome::Rejected { tool: "echo".into() });
    assert!(runtime.shutdown().await.is_empty());
}

/// COST-004: what was counted is put back to nothing by a new session: it counts what is its own, also after a restart of the
/// runtime, and what the old one counted stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cost_004_a_new_session_counts_from_nothing() {
    let folder = taped::folder();
    let used = |input: u64, output: u64| Usage::new(input, output);
    let model = || {
        let first = [Reply::text("one").with_usage(used(100, 50)), Reply::text("two").with_usage(used(200, 100))];
        let then = Reply::text("three").with_usage(used(7, 3)).when("user: anew");
        Arc::new(Scripted::new(first.into_iter().chain([then])))
    };
    let counted = async |session: &Session| {
        let (bill, spent) = (session.bill().await.unwrap(), session.state().await.unwrap().spent);
        assert_eq!(bill.total().usage, spent.usage);
        (bill.lines.len(), spent.requests, spent.usage)
    };
    let first = runtime(folder.path(), model(), vec![]).await;
    let old = session(&first, folder.path()).await;
    for prompt in ["a", "b"] {
        old.prompt(prompt).await.unwrap().wait().await.unwrap();
    }
    assert_eq!(counted(&old).await, (2, 2, used(300, 150)));
    let new = session(&first, folder.path()).await;
    assert_eq!(counted(&new).await, (0, 0, Usage::default()));
    new.prompt("anew").await.unwrap().wait().await.unwrap();
    assert_eq!(counted(&new).await, (1, 1, used(7, 3)));
    assert!(first.shutdown().await.is_empty());
    let second = runtime(folder.path(), model(), vec![]).await;
    let [old, new] = [old.id(), new.id()].map(|id| second.session(id));
    assert_eq!((counted(&old).await, counted(&new).await), ((2, 2, used(300, 150)), (1, 1, used(7, 3))));
    assert!(second.shutdown().await.is_empty());
}

/// K-08, K-11: a failure that may pass is tried again, seen as an event, and eats no step; a bad key is not.
/// BDD-AGENT-033: after a 429 the request is made again when the seconds that the server named are over, and the turn answers.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_transient_failure_is_retried_and_a_permanent_one_is_not() {
    let folder = taped::folder();
    let limited =
        ModelError::new(ErrorKind::RateLimited, "429 rate limit").with_retry_after(Some(Duration::from_secs(7)));
    let refused = ModelError::new(ErrorKind::Auth, "invalid API key");
    let model = Arc::new(Scripted::new([Reply::error(limited), Reply::text("after all"), Reply::error(refused)]));
    let runtime = runtime(folder.path(), model.clone(), vec![]).await;
    let session = session(&runtime, folder.path()).await;
    let mut events = session.events();
    let before = tokio::time::Instant::now();
    let answer = session.prompt("go").await.unwrap().wait().await.unwrap();
    assert_eq!((answer.text.as_str(), answer.steps), ("after all", 1));
    assert!(before.elapsed() >= Duration::from_secs(7));
    event(&mut events, |kind| matches!(kind, EventKind::Retry { attempt: 1, server: true, .. }).then_some(())).await;

    let failed = session.prompt("again").await.unwrap().wait().await.unwrap();
    assert_eq!(failed.outcome, Outcome::Failed { error: "invalid API key".into() });
    assert_eq!(model.requests().len(), 3);
    assert!(runtime.shutdown().await.is_empty());
}

/// STREAM-007: the model is silent for six seconds (of the runtime's clock) in the middle of its answer: what came before is shown
/// then, nothing is asked again, and the answer goes on where it stopped.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn stream_007_a_silence_of_six_seconds_does_not_end_an_answer() {
    let folder = taped::folder();
    let silence = Duration::from_secs(6);
    let model = Arc::new(Scripted::new([Reply::text("before").waiting(silence).with_text(" after")]));
    let runtime = runtime(folder.path(), model.clone(), vec![]).await;
    let session = session(&runtime, folder.path()).await;
    let mut events = session.events();
    let receipt = session.prompt("go").await.unwrap();
    let text = |kind: &EventKind| match kind {
        EventKind::TextDelta { text } => Some((text.clone(), tokio::time::Instant::now())),
        _ => None,
    };
    let (before, at) = event(&mut events, text).await;
    let (after, then) = event(&mut events, text).await;
    assert_eq!((before.as_str(), after.as_str()), ("before", " after"));
    assert!(then - at >= silence, "the second piece was not held back");
    let answer = receipt.wait().await.unwrap();
    assert_eq!((answer.outcome, answer.text.as_str(), answer.steps), (Outcome::Done, "before after", 1));
    assert_eq!(model.requests().len(), 1);
    assert!(runtime.shutdown().await.is_empty());
}

struct Guard;

impl Hook for Guard {
    fn name(&self) -> &str {
        "guard"
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move {
            match message.text().as_str() {
                "swallow" => Input::Handled,
                "crash" => panic!("input hook"),
                _ => Input::Pass(Box::new(message.with_part(Part::text(" [seen]")))),
            }
        })
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            match call.arguments["do"].as_str() {
                Some("block") => Verdict::Block("not today".into()),
                Some("block at length") => Verdict::Block("not today\n".repeat(200_000)),
                Some("crash") => panic!("gate"),
                Some("hang") => std::future::pending().await,
                _ => Verdict::Pass,
            }
        })
    }

    fn on_result<'a>(&'a self, _: &'a HookCall, mut result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            result.content = result.content.replace("sk-secret", "[redacted]");
            result
        })
    }
}

/// E-05, C-26, C-27, BDD-HOOK-017: gates refuse and fail closed, pipes rewrite and fail open, and a
/// hook that hangs is cut off.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn hooks_guard_calls_and_rewrite_what_passes() {
    let folder = taped::folder();
    let call = |what: &str| Reply::call("echo", json!({ "do": what, "key": "sk-secret" }));
    let calls = ["block", "crash", "hang", "pass", "block at length"].map(call);
    let model = Arc::new(Scripted::new(calls.into_iter().chain([Reply::text("done")])));
    let echo = stub("echo", Does::Echo);
    let began = echo.began.clone();
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).tool(echo).hook(Guard);
    let runtime = builder.start().await.unwrap();
    let session = session(&runtime, folder.path()).await;
    let mut events = session.events();

    assert!(matches!(session.prompt("swallow").await, Err(SendError::Handled)));
    let answer = session.prompt("go").await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    let told = results(model.requests().last().unwrap());
    assert!(told[0].starts_with("Blocked by hook: not today"), "{told:?}");
    assert!(told[1].contains("guard failed (panicked: gate)"), "{told:?}");
    assert!(told[2].contains("guard failed (took longer than 5 s)"), "{told:?}");
    assert!(told[3].contains("[redacted]") && !told[3].contains("sk-secret"), "{told:?}");
    assert!(told[4].starts_with("Blocked by hook: not today") && told[4].len() < 100_000, "{}", told[4].len());
    assert_eq!(began.load(Ordering::SeqCst), 1);
    event(&mut events, |kind| {
        matches!(kind, EventKind::HookError { callback, .. } if callback == "before_call").then_some(())
    })
    .await;
    let requests = model.requests();
    let Item::User(first) = &**requests[0].history.iter().next().unwrap() else { panic!("a user's message") };
    assert_eq!(first.parts.len(), 2);
    assert!(runtime.shutdown().await.is_empty());
}

/// A hook that takes secrets out of results, and fails at it.
struct FailsAtResults {
    guards: Option<bool>,
}

impl Hook for FailsAtResults {
    fn name(&self) -> &str {
        "scrubber"
    }

    fn guards(&self) -> bool {
        struct Plain;
        impl Hook for Plain {
            fn name(&self) -> &str {
                "plain"
            }
        }
        self.guards.unwrap_or_else(|| Plain.guards())
    }

    fn on_result<'a>(&'a self, _: &'a HookCall, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { if result.content.contains("secret") { panic!("scrubber") } else { result } })
    }
}

/// A result that a guarding hook failed at reaches neither model nor tape, and guarding is the default; without it the result passes.
#[tokio::test]
async fn a_result_is_withheld_where_a_hook_that_guards_fails() {
    for (guards, is_withheld) in [(None, true), (Some(false), false)] {
        let folder = taped::folder();
        let call = Reply::call("echo", json!({ "key": "hidden" }));
        let model = Arc::new(Scripted::new([call, Reply::text("done")]));
        let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
        let builder = builder.tool(stub("echo", Does::Tell)).hook(FailsAtResults { guards });
        let runtime = builder.start().await.unwrap();
        let session = session(&runtime, folder.path()).await;
        let mut events = session.events();
        session.prompt("go").await.unwrap().wait().await.unwrap();
        event(&mut events, |kind| {
            matches!(kind, EventKind::HookError { callback, .. } if callback == "on_result").then_some(())
        })
        .await;
        let told = results(model.requests().last().unwrap());
        assert_eq!(told[0].contains("The call ran. Its result was withheld: the hook scrubber failed."), is_withheld);
        assert_eq!(told[0].contains("the secret"), !is_withheld, "{told:?}");
        let id = session.id().clone();
        assert!(runtime.shutdown().await.is_empty());
        let tape = format!("store/sessions/{id}/anchors/001_session-start/entries.jsonl");
        let tape = std::fs::read_to_string(folder.path().join(tape)).unwrap();
        assert_eq!(tape.contains("the secret"), !is_withheld);
    }
}

/// A runtime does not start with tools that no model could be told of: bad names, and two of one name.
#[tokio::test]
async fn tools_that_cannot_be_told_apart_or_named_are_refused_at_the_start() {
    for (names, why) in [
        (&["fine", "with space"][..], "a tool is called \"with space\""),
        (&[""], "a tool is called \"\""),
        (&["same", "other", "same"], "two tools are called \"same\""),
        (&["käse"], "a tool is called"),
        (&["fine-1", "Fine_2"], ""),
    ] {
        let folder = taped::folder();
        let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(Scripted::new([])));
        let builder = names.iter().fold(builder, |builder, name| builder.tool(stub(name, Does::Echo)));
        match builder.start().await {
            Ok(runtime) => {
                assert_eq!(why, "", "{names:?}");
                assert!(runtime.shutdown().await.is_empty());
            }
            Err(error) => assert!(!why.is_empty() && error.to_string().contains(why), "{names:?}: {error}"),
        }
    }
}

/// An input hook that fails on what it is to do.
struct Redact {
    guards: bool,
}

impl Hook for Redact {
    fn name(&self) -> &str {
        "redact"
    }

    fn guards(&self) -> bool {
        self.guards
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move {
            match message.text().as_str() {
                "crash" => panic!("redact"),
                "hang sk-secret" => std::future::pending().await,
                _ => Input::Pass(Box::new(message)),
            }
        })
    }
}

/// A message that a guarding input hook did not come to look at is not sent: no byte of it is on the tape, those who listen hear of the
/// hook, and the session takes the next one. Where the hook says that it does not guard, the message goes on as it was.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_message_does_not_pass_an_input_hook_that_fails() {
    for guards in [true, false] {
        let folder = taped::folder();
        let model = Arc::new(Scripted::new([Reply::text("one"), Reply::text("two"), Reply::text("three")]));
        let builder = Runtime::builder().store(folder.path().join("store")).model(model).hook(Redact { guards });
        let runtime = builder.start().await.unwrap();
        let session = session(&runtime, folder.path()).await;
        let mut events = session.events();
        for (said, why) in [("hang sk-secret", "took longer than 5 s"), ("crash", "panicked: redact")] {
            let sent = session.prompt(said).await;
            let heard = event(&mut events, |kind| match kind {
                EventKind::HookError { hook, callback, error } if callback == "on_input" => {
                    Some((hook.clone(), error.clone()))
                }
                _ => None,
            });
            assert_eq!(heard.await, ("redact".to_owned(), why.to_owned()));
            match sent {
                Ok(receipt) if !guards => drop(receipt.wait().await.unwrap()),
                Err(SendError::HookFailed { hook, error }) if guards => assert_eq!((&*hook, &*error), ("redact", why)),
                other => panic!("guards {guards}: {other:?}"),
            }
        }
        session.prompt("hello").await.unwrap().wait().await.unwrap();
        let said = format!("{:?}", session.state().await.unwrap().history);
        assert_eq!((said.contains("sk-secret"), said.contains("hello")), (!guards, true));
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// A message that replaces a waiting one passes the input hooks as well; where one refuses it, the old one waits on.
#[tokio::test]
async fn an_edited_message_does_not_pass_an_input_hook_that_fails() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("one")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model).hook(Redact { guards: true });
    let runtime = builder.start().await.unwrap();
    let session = session(&runtime, folder.path()).await;
    session.pause().await.unwrap();
    let waiting = session.prompt("hello").await.unwrap();
    let edited = session.edit(Message::user("crash").with_id(waiting.message.clone())).await;
    assert!(matches!(&edited, Err(SendError::HookFailed { hook, .. }) if hook == "redact"), "{edited:?}");
    session.edit(Message::user("hello again").with_id(waiting.message.clone())).await.unwrap();
    assert_eq!(
        session.queue().await.unwrap().iter().map(|waiting| waiting.message.text()).collect::<Vec<_>>(),
        ["hello again"]
    );
    assert!(runtime.shutdown().await.is_empty());
}

/// Design §9: durable events replay from any seq, with none missing and none twice, and then go on live.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_events_replay_from_any_entry() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::call("echo", json!({})), Reply::text("one"), Reply::text("two")]));
    let runtime = runtime(folder.path(), model, vec![stub("echo", Does::Echo)]).await;
    let session = session(&runtime, folder.path()).await;
    let mut live = session.events();
    session.prompt("go").await.unwrap().wait().await.unwrap();
    session.wait().await.unwrap();
    let mut replayed = session.events_after(tamtam::Seq::ZERO).await.unwrap();
    session.prompt("more").await.unwrap().wait().await.unwrap();
    session.wait().await.unwrap();
    assert!(runtime.shutdown().await.is_empty());

    let mut all = Vec::new();
    let mut again = Vec::new();
    while let Some(next) = live.next().await {
        if let Next::Event(event) = next
            && event.id.is_durable()
        {
            all.push(event);
        }
    }
    while let Some(next) = replayed.next().await {
        if let Next::Event(event) = next
            && event.id.is_durable()
        {
            again.push(event);
        }
    }
    assert_eq!(again, all);
    assert!(all.len() > 10);
}

/// C-28, A-04, promise 7, 13: two runtimes in one process do not see each other, and a tape has one writer: the actor of its
/// session, for as long as that is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_has_one_writer() {
    let folder = taped::folder();
    let model = || Arc::new(Scripted::new([Reply::text("mine")]));
    let first = runtime(folder.path(), model(), vec![]).await;
    let session = session(&first, folder.path()).await;
    let second = runtime(folder.path(), model(), vec![]).await;
    let refused = second.open(session.id()).await.unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    assert_eq!(second.awake(), []);
    assert!(second.session(session.id()).prompt("mine too?").await.is_err(), "nothing is written by another");
    assert_eq!(session.entries().await.unwrap().len(), 1);
    assert_eq!(session.prompt("whose?").await.unwrap().wait().await.unwrap().text, "mine");
    assert!(first.shutdown().await.is_empty());
    assert_eq!(second.open(session.id()).await.unwrap().id(), session.id());
    assert!(second.shutdown().await.is_empty());
}

/// Drain lets the running turn finish, refuses new messages, and is not held up by an open ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_finishes_the_running_turn_and_takes_no_more() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("finished").at_barrier("think")]));
    let runtime = runtime(folder.path(), model.clone(), vec![]).await;
    let session = session(&runtime, folder.path()).await;
    let prompt = session.prompt("go").await.unwrap();
    let barrier = model.barrier("think");
    barrier.reached().await;
    let draining = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.drain(Duration::from_secs(20)).await }
    });
    while !matches!(session.prompt("too late").await, Err(SendError::Draining)) {
        tokio::task::yield_now().await;
    }
    barrier.release();
    assert_eq!(prompt.wait().await.unwrap().text, "finished");
    assert_eq!(draining.await.unwrap(), vec![]);
    assert!(runtime.shutdown().await.is_empty());
}

/// Design §1: a handle never dies. Whoever waits on a session still waits when its actor was restarted under an open ask, and
/// neither the restart nor the shutdown is held up by the ask's limit of ten minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_outlive_the_actor_and_an_open_ask_leaves_nothing_behind() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([
        Reply::call("echo", json!({})),
        Reply::text("asked and done"),
        Reply::call("echo", json!({})),
    ]));
    let runtime = runtime(folder.path(), model, vec![stub("echo", Does::Echo)]).await;
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Strict)).await.unwrap();
    let mut events = session.events();
    let ask = |kind: &EventKind| match kind {
        EventKind::Ask { ask, .. } => Some(*ask),
        _ => None,
    };
    let prompt = session.prompt("go").await.unwrap();
    let open = event(&mut events, ask).await;
    let (idle, answered) = (
        tokio::spawn({
            let session = session.clone();
            async move { session.wait().await }
        }),
        tokio::spawn(async move { prompt.wait().await }),
    );
    // Both have asked before the actor goes.
    while session.state().await.unwrap().open.is_empty() {
        tokio::task::yield_now().await;
    }
    runtime.operate().restart(session.id().as_str()).await.unwrap();
    session.answer(open, Grant::Once).await.unwrap();
    assert_eq!(answered.await.unwrap().unwrap().text, "asked and done");
    assert!(idle.await.unwrap().is_ok());

    session.prompt("ask again").await.unwrap();
    event(&mut events, ask).await;
    assert!(runtime.shutdown().await.is_empty());
}

/// Promise 3: a tool that panics where it says what a call wants loses that call, and nothing else: its session does not crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_panics_over_its_arguments_loses_its_call_and_nothing_else() {
    struct Careless;
    impl Tool for Careless {
        fn name(&self) -> &str {
            "careless"
        }
        fn description(&self) -> &str {
            "Expects a number."
        }
        fn schema(&self) -> Value {
            json!({ "type": "object" })
        }
        fn access(&self, arguments: &Value) -> Vec<tamtam::tool::Access> {
            vec![tamtam::tool::Access::new("careless", arguments["n"].as_u64().unwrap().to_string())]
        }
        fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
            Box::pin(async { ToolResult::ok("ran") })
        }
    }
    let folder = taped::folder();
    let model = Scripted::new([
        Reply::call("careless", json!({ "n": "one" })).with_call("careless", json!({ "n": 1 })),
        Reply::text("done"),
    ]);
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model)).tool(Careless);
    let runtime = builder.start().await.unwrap();
    let session = session(&runtime, folder.path()).await;
    assert_eq!(session.prompt("go").await.unwrap().wait().await.unwrap().text, "done");
    let state = session.state().await.unwrap();
    let results = state.history.iter().filter_map(|item| match item.as_ref() {
        Item::Result(result) => Some(result.content.to_string()),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    assert!(results[0].contains("crashed over these arguments"), "{results:?}");
    assert_eq!(results[1], "ran");
    assert!(runtime.crashes().is_empty());
    assert!(runtime.shutdown().await.is_empty());
}

/// A session that was made is on the disk, also where each append is left to the I/O thread: before anything is said to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_made_is_on_the_disk() {
    use tamtam::tape::{Durability, Store, StoreOptions, TapeAccess};
    let folder = taped::folder();
    let store = folder.path().join("store");
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("yes")));
    let runtime = Runtime::builder().store(&store).durability(Durability::Power).model(model).start().await.unwrap();
    for _ in 0..20 {
        let made = session(&runtime, folder.path()).await;
        let reader = Store::open(&store, StoreOptions::default().access(TapeAccess::Read)).unwrap();
        assert_eq!(reader.read(made.id(), tamtam::Seq::ZERO).unwrap().len(), 1);
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// A-01, design §4: a session that crashes again and again is parked, says so to whoever sends, and an operator unparks it;
/// another session lives on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_crashes_again_and_again_is_parked_and_unparked() {
    let folder = taped::folder();
    let bomb = Bomb::default();
    let calls_bomb = Arc::new(Scripted::from_fn(|_| Reply::call("bomb", json!({}))));
    let builder = Runtime::builder().store(folder.path().join("store")).model(calls_bomb).tool(bomb.clone());
    let runtime = builder.start().await.unwrap();
    bomb.arm(&runtime);
    let (poisoned, other) = (session(&runtime, folder.path()).await, session(&runtime, folder.path()).await);
    poisoned.prompt("go").await.unwrap();
    // Promise 5: it goes on by itself once, and then waits to be told to; whoever tells it makes it crash a third time.
    let waits = async {
        while !poisoned.state().await.unwrap().waits {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waits).await.expect("it waits");
    poisoned.go_on().await.unwrap();
    let parked = async {
        loop {
            match poisoned.state().await {
                Err(SendError::Parked) => return,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), parked).await.expect("it is parked");
    assert!(matches!(poisoned.prompt("more").await, Err(SendError::Parked)));
    assert!(other.state().await.unwrap().is_idle());
    let crashes = runtime.crashes();
    assert!(crashes.len() >= 3 && serde_json::to_string(&crashes).unwrap().contains("the bomb goes off"));
    assert!(runtime.tree().to_string().contains("parked"), "{}", runtime.tree());

    // Its turn waits now: it was cut off twice with nothing new in between. So it can be looked at, and aborted.
    runtime.operate().unpark(poisoned.id().as_str()).await.unwrap();
    poisoned.abort("give it up").await.unwrap();
    poisoned.wait().await.unwrap();
    assert!(poisoned.state().await.unwrap().turn.is_none());
    assert!(runtime.shutdown().await.is_empty());
}

/// A model whose first request blocks its thread for a while, and which sees whether two of its requests run side by side.
struct Blocking {
    id: tamtam::ModelRef,
    began: AtomicUsize,
    inside: Arc<AtomicUsize>,
    beside: AtomicUsize,
}

/// Somebody is inside; dropped when they are not any more.
struct Inside(Arc<AtomicUsize>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl tamtam::model::Model for Blocking {
    fn id(&self) -> &tamtam::ModelRef {
        &self.id
    }

    fn stream<'a>(
        &'a self,
        _: &'a tamtam::model::Request,
        _: &'a mut dyn tamtam::model::Deltas,
    ) -> BoxFuture<'a, Result<tamtam::model::ModelAnswer, ModelError>> {
        Box::pin(async move {
            self.beside.fetch_add(self.inside.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
            let _inside = Inside(self.inside.clone());
            if self.began.fetch_add(1, Ordering::SeqCst) == 0 {
                // A client that works without awaiting; it hears of its end only afterwards.
                std::thread::sleep(Duration::from_millis(100));
                std::future::pending::<()>().await;
            }
            let text = tamtam::model::AnswerPart::Text { text: "I obey".into(), extra: None };
            Ok(tamtam::model::ModelAnswer::new(vec![text], tamtam::session::Finish::Stop))
        })
    }
}

/// Design §5: the next step starts when what was stopped is really down: a request that was cut does not run beside the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_that_was_cut_is_down_before_the_next_begins() {
    let folder = taped::folder();
    let id = "test/blocking".parse().unwrap();
    let (began, beside) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let model = Arc::new(Blocking { id, began, inside: Arc::default(), beside });
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model.clone()).start().await.unwrap();
    let session = session(&runtime, folder.path()).await;
    let prompt = session.prompt("go").await.unwrap();
    while model.began.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    session.send("no", Delivery::Steer(Steering::AbortRunning)).await.unwrap();
    assert_eq!(prompt.wait().await.unwrap().text, "I obey");
    assert_eq!((model.began.load(Ordering::SeqCst), model.beside.load(Ordering::SeqCst)), (2, 0));
    assert!(runtime.shutdown().await.is_empty());
}
