//! Hooks that see the model's answers: what they take out reaches no one, and what they could not check is withheld.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tamtam::{
    EventKind, EventStream, Message, Outcome, Part, Runtime, SendError, Session, SessionOptions,
    hook::{Hook, HookCall, HookContext, Input},
    model::{AnswerPart, BoxFuture, Reply, Scripted, Usage},
    permission::Profile,
    session::{Next, Refusal},
    tool::{Access, Effect, Tool, ToolContext, ToolResult},
};

use crate::support::taped;

const CANARY: &str = "sk-canary-8421";

/// Takes the canary out of texts and of the arguments of calls; fails at some answers.
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

    fn sees_answers(&self) -> bool {
        true
    }

    fn on_answer<'a>(&'a self, context: &'a HookContext, mut parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
        assert_eq!(context.id.as_str(), "s");
        Box::pin(async move {
            for part in &mut parts {
                match part {
                    AnswerPart::Text { text, .. } if text.contains("crash") => panic!("redact"),
                    AnswerPart::Text { text, .. } if text.contains("hang") => std::future::pending().await,
                    AnswerPart::Text { text, .. } => *text = text.replace(CANARY, "[key]"),
                    AnswerPart::Call { input, .. } => *input = input.replace(CANARY, "[key]"),
                    _ => {}
                }
            }
            parts
        })
    }
}

async fn start(folder: &Path, model: &Arc<Scripted>, hook: impl Hook) -> (Runtime, Session, EventStream) {
    let builder = Runtime::builder().store(folder.join("store")).model(model.clone()).hook(hook);
    let runtime = builder.start().await.unwrap();
    let mut options = SessionOptions::new(folder).profile(Profile::Auto);
    options.id = Some("s".parse().unwrap());
    let session = runtime.create(options).await.unwrap();
    let events = session.events();
    (runtime, session, events)
}

/// All events so far, when the runtime has ended.
async fn heard(mut events: EventStream) -> Vec<EventKind> {
    let mut all = Vec::new();
    while let Some(next) = events.next().await {
        let Next::Event(event) = next else { panic!("none is missed") };
        all.push(event.kind.clone());
    }
    all
}

/// Whether a file below a folder holds the canary.
fn holds_canary(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().map(|item| item.unwrap().path()).any(|path| match path.is_dir() {
        true => holds_canary(&path),
        false => {
            let bytes = std::fs::read(&path).unwrap();
            bytes.windows(CANARY.len()).any(|bytes| bytes == CANARY.as_bytes())
        }
    })
}

/// Seen on the release binary: no hook saw the model's answer, and a key in it reached client and tape. What a hook takes out is in
/// no event, no file of the store and no later request; its text is shown once, whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hook_takes_out_of_an_answer_reaches_nobody() {
    let folder = taped::folder();
    let said = format!("the key is {CANARY}, and");
    let call = Reply::call("nosuch", json!({ "key": CANARY })).with_text(said.clone());
    let model = Arc::new(Scripted::new([call, Reply::text(said)]));
    let (runtime, session, events) = start(folder.path(), &model, Redact { guards: true }).await;
    let answer = session.prompt("go").await.unwrap().wait().await.unwrap();
    assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "the key is [key], and"));
    session.wait().await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
    let events = heard(events).await;
    assert!(!format!("{events:?}").contains(CANARY), "{events:?}");
    let deltas = events.iter().filter_map(|kind| match kind {
        EventKind::TextDelta { text } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(deltas.collect::<Vec<_>>(), ["the key is [key], and"; 2]);
    assert!(!format!("{:?}", model.requests()).contains(CANARY));
    assert!(!holds_canary(&folder.path().join("store")));
}

/// An answer at which a guarding hook fails is withheld: its words and its calls reach nobody, listeners hear of the hook, the
/// tokens are charged, and the session takes the next message. Where the hook does not guard, the answer goes on as it was.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn an_answer_at_which_a_hook_fails_is_withheld() {
    for guards in [true, false] {
        let folder = taped::folder();
        let used = Usage::new(7, 5);
        let replies = ["crash", "hang"].map(|what| Reply::text(format!("{what} {CANARY}")).with_usage(used));
        let model = Arc::new(Scripted::new(replies.into_iter().chain([Reply::text("fine")])));
        let (runtime, session, events) = start(folder.path(), &model, Redact { guards }).await;
        for _ in 0..2 {
            let answer = session.prompt("go").await.unwrap().wait().await.unwrap();
            assert_eq!(answer.outcome, if guards { Outcome::Refused } else { Outcome::Done });
            assert_eq!(answer.text.contains(CANARY), !guards);
        }
        let last = session.prompt("go").await.unwrap().wait().await.unwrap();
        assert_eq!((last.outcome, last.text.as_str()), (Outcome::Done, "fine"));
        assert_eq!(session.state().await.unwrap().usage.total(), 24, "what was withheld is charged");
        assert!(runtime.shutdown().await.is_empty());
        let events = heard(events).await;
        let failed: Vec<_> = events
            .iter()
            .filter_map(|kind| match kind {
                EventKind::HookError { hook, callback, error } if callback == "on_answer" => {
                    Some((hook.as_str(), error.as_str()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(failed, [("redact", "panicked: redact"), ("redact", "took longer than 5 s")]);
        assert_eq!(format!("{events:?}").contains(CANARY), !guards);
        assert_eq!(holds_canary(&folder.path().join("store")), !guards);
    }
}

/// An answer that is cut off in the middle passes the hooks too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_cut_off_passes_the_hooks() {
    let folder = taped::folder();
    let reply = Reply::text(format!("so far {CANARY}")).at_barrier("gate").with_text(" and never this");
    let model = Arc::new(Scripted::new([reply]));
    let (runtime, session, events) = start(folder.path(), &model, Redact { guards: true }).await;
    let receipt = session.prompt("go").await.unwrap();
    model.barrier("gate").reached().await;
    session.abort("enough").await.unwrap();
    let answer = receipt.wait().await.unwrap();
    assert_eq!(answer.text, "so far [key]");
    assert!(runtime.shutdown().await.is_empty());
    assert!(!format!("{:?}", heard(events).await).contains(CANARY));
    assert!(!holds_canary(&folder.path().join("store")));
}

/// An input hook that waits until it is told to go on.
struct Slow(Arc<tokio::sync::Notify>, Arc<tokio::sync::Notify>);

impl Hook for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move {
            self.0.notify_one();
            self.1.notified().await;
            Input::Pass(Box::new(message))
        })
    }
}

/// A send that is dropped while an input hook looks at its message is not sent; sent again under the same id it is sent once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_is_dropped_in_an_input_hook_is_not_sent() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("one")]));
    let (shown, goes_on) = (Arc::<tokio::sync::Notify>::default(), Arc::<tokio::sync::Notify>::default());
    let (runtime, session, _) = start(folder.path(), &model, Slow(shown.clone(), goes_on.clone())).await;
    let message = || Message::user("hello").with_id("mine".into());
    tokio::select! {
        sent = session.prompt(message()) => panic!("{sent:?}"),
        () = shown.notified() => {}
    }
    goes_on.notify_one();
    let state = session.state().await.unwrap();
    assert!(state.queue.is_empty() && state.turn.is_none() && state.turns == 0);
    goes_on.notify_one();
    let answer = session.prompt(message()).await.unwrap().wait().await.unwrap();
    assert_eq!((answer.text.as_str(), model.requests().len()), ("one", 1));
    let gone: Result<_, SendError> = tokio::time::timeout(Duration::from_secs(60), session.wait()).await.unwrap();
    gone.unwrap();
    assert!(runtime.shutdown().await.is_empty());
}

/// Says what it is once, and panics when it is asked again.
#[derive(Default)]
struct AskedOnce([AtomicBool; 3]);

impl AskedOnce {
    fn once(&self, which: usize) {
        assert!(!self.0[which].swap(true, Ordering::SeqCst), "asked again");
    }
}

impl Hook for AskedOnce {
    fn name(&self) -> &str {
        self.once(0);
        "once"
    }

    fn guards(&self) -> bool {
        self.once(1);
        true
    }

    fn sees_answers(&self) -> bool {
        self.once(2);
        true
    }

    fn on_answer<'a>(&'a self, _: &'a HookContext, parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
        assert!(!format!("{parts:?}").contains("crash"));
        Box::pin(async { parts })
    }
}

/// A hook says at the start what it is, and is not asked again: a panic there would leave its turn open.
#[tokio::test]
async fn a_hook_is_asked_once_what_it_is() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("fine"), Reply::text("crash"), Reply::hang()]));
    let (runtime, session, _events) = start(folder.path(), &model, AskedOnce::default()).await;
    for expected in [Outcome::Done, Outcome::Refused] {
        let answered = tokio::time::timeout(Duration::from_secs(60), async {
            session.prompt("go").await.unwrap().wait().await.unwrap().outcome
        });
        assert_eq!(answered.await.expect("the turn ends"), expected);
    }
    let cut = session.prompt("go").await.unwrap();
    session.abort("enough").await.unwrap();
    assert!(matches!(cut.wait().await.unwrap().outcome, Outcome::Aborted { .. }));
    assert!(runtime.shutdown().await.is_empty());
}

/// A tool that answers at once, or crashes at it.
struct Crashes;

impl Tool for Crashes {
    fn name(&self) -> &str {
        "crashes"
    }

    fn description(&self) -> &str {
        "Crashes."
    }

    fn schema(&self) -> serde_json::Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, _: serde_json::Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { panic!("{CANARY} {}", "long ".repeat(100_000)) })
    }
}

/// Takes the canary out of results.
struct InResults;

impl Hook for InResults {
    fn name(&self) -> &str {
        "in results"
    }

    fn on_result<'a>(&'a self, _: &'a HookCall, mut result: ToolResult) -> BoxFuture<'a, ToolResult> {
        result.content = result.content.replace(CANARY, "[key]");
        Box::pin(async { result })
    }
}

/// What a crash says passes the hooks and the limits of a result, also where the tool crashed in the worker's own task.
#[tokio::test]
async fn the_words_of_a_crash_pass_the_hooks_and_the_limits() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::call("crashes", json!({})), Reply::text("done")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.tool(Crashes).hook(InResults).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    session.prompt("go").await.unwrap().wait().await.unwrap();
    let said = format!("{:?}", model.requests().last().unwrap().history);
    assert!(said.contains("The tool crashed: [key]") && !said.contains(CANARY), "{}", &said[..2_000.min(said.len())]);
    assert!(said.len() < 200_000, "{} bytes", said.len());
    assert!(runtime.shutdown().await.is_empty());
    assert!(!holds_canary(&folder.path().join("store/sessions")));
}

/// Says how long its calls look at what they want, which takes until a gate opens.
struct LooksLong(Arc<AtomicBool>);

impl Tool for LooksLong {
    fn name(&self) -> &str {
        "looks"
    }

    fn description(&self) -> &str {
        "Looks."
    }

    fn schema(&self) -> serde_json::Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn access(&self, _: &serde_json::Value) -> Vec<Access> {
        self.0.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(500));
        vec![]
    }

    fn run<'a>(&'a self, _: serde_json::Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("looked") })
    }
}

/// An answer that is cut off while its calls are being looked at was shown by then, and is not shown again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_cut_off_before_its_calls_is_shown_once() {
    let folder = taped::folder();
    let looks = Arc::<AtomicBool>::default();
    let model = Arc::new(Scripted::new([Reply::call("looks", json!({})).with_text("I look.")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model);
    let runtime = builder.tool(LooksLong(looks.clone())).hook(Redact { guards: true }).start().await.unwrap();
    let mut options = SessionOptions::new(folder.path()).profile(Profile::Auto);
    options.id = Some("s".parse().unwrap());
    let session = runtime.create(options).await.unwrap();
    let events = session.events();
    let turn = session.prompt("go").await.unwrap();
    while !looks.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    session.abort("enough").await.unwrap();
    assert!(matches!(turn.wait().await.unwrap().outcome, Outcome::Aborted { .. }));
    session.wait().await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
    let heard = heard(events).await;
    let shown = heard.iter().filter(|kind| matches!(kind, EventKind::TextDelta { text } if text == "I look."));
    assert_eq!(shown.count(), 1, "{heard:?}");
}

/// Adds words to each message.
struct Adds;

impl Hook for Adds {
    fn name(&self) -> &str {
        "adds"
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        message.parts.push(Part::text("[a hint]"));
        Box::pin(async { Input::Pass(Box::new(message)) })
    }
}

/// A message that says nothing is refused, whatever a hook would add to it.
#[tokio::test]
async fn a_message_that_says_nothing_is_refused_before_the_hooks() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("fine")]));
    let (runtime, session, _events) = start(folder.path(), &model, Adds).await;
    let refused = session.prompt("  \n").await;
    assert!(matches!(refused, Err(SendError::Refused(Refusal::Empty))), "{refused:?}");
    assert_eq!(session.prompt("hello").await.unwrap().wait().await.unwrap().text, "fine");
    assert!(runtime.shutdown().await.is_empty());
}
