//! A host's mistake is reported at once, in words, and costs nothing else.

mod matrix;
mod panics;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tamtam::{
    EventStream, Message, ModelRef, Outcome, Runtime, SendError, Session, SessionOptions,
    model::{
        AnswerPart, BoxFuture, Deltas, MicroUsd, Model, ModelAnswer, ModelError, Models, Price, Reply, Request,
        Scripted, Usage,
    },
    permission::{Action, Profile, Rule, Ruleset},
    runtime::{Kind, StartError},
    session::{Finish, ForkOptions, Link, MESSAGE_BYTES_MAX, Refusal, Resource},
    tool::{Tool, ToolContext, ToolResult, Toolbox},
};

use crate::support::taped;

/// Seen with a host's program: on a tokio without a time driver `start()` never returned.
#[test]
fn a_tokio_without_a_timer_is_an_error_at_the_start() {
    let folder = taped::folder();
    let store = folder.path().join("store");
    for tokio in [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()] {
        let mut tokio = tokio;
        let started = tokio.build().unwrap().block_on(async {
            let model = Arc::new(Scripted::new([]));
            Runtime::builder().store(&store).model(model).start().await.map(drop)
        });
        let Err(error @ StartError::NoTimer) = started else { panic!("{started:?}") };
        assert!(error.kind() == Kind::Invalid && error.to_string().contains("enable_all"), "{error}");
    }
    assert!(!store.exists(), "nothing was begun");
}

/// Seen with a host's program: the question whether there is a timer rang the host's alarm, which hangs at the panic hook.
#[test]
fn a_start_without_a_timer_is_an_error_and_no_panic_that_a_hook_hears() {
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words = panic.payload_as_str().unwrap_or_default();
        HEARD.fetch_add(usize::from(words.contains("timers are disabled")), Ordering::SeqCst);
        before(panic);
    }));
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let started = tokio.block_on(Runtime::builder().in_memory().model(Arc::new(Scripted::new([]))).start());
    assert!(matches!(started.map(drop), Err(StartError::NoTimer)));
    assert_eq!(HEARD.load(Ordering::SeqCst), 0);
    // The hook of the host is back: it hears of the same panic where the host itself makes it.
    assert!(tokio.block_on(async { std::panic::catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))) }).is_err());
    assert_eq!(HEARD.load(Ordering::SeqCst), 1);
}

#[test]
fn a_start_outside_of_tokio_is_an_error_and_no_panic() {
    let start = std::pin::pin!(Runtime::builder().in_memory().model(Arc::new(Scripted::new([]))).start());
    let polled = start.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    let std::task::Poll::Ready(Err(error @ StartError::NoTokio)) = polled.map(|started| started.map(drop)) else {
        panic!("there is no tokio")
    };
    assert!(error.kind() == Kind::Invalid && error.to_string().contains("tokio::main"), "{error}");
}

/// What a host keeps in a static, an `Arc` or a task. It does not compile where one of them cannot be kept so.
#[test]
fn what_a_host_holds_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Runtime>();
    is_shared::<tamtam::runtime::Builder>();
    is_shared::<SessionOptions>();
    is_shared::<Session>();
    is_shared::<tamtam::Receipt>();
    is_shared::<tamtam::EventStream>();
    // A stream is polled by one owner.
    fn is_sent<T: Send + 'static>() {}
    is_sent::<tamtam::session::TurnStream>();
    is_shared::<tamtam::runtime::Child>();
    is_shared::<tamtam::runtime::Operator>();
    is_shared::<tamtam::supervisor::SupervisorHandle>();
    is_shared::<tamtam::supervisor::ChildSpec>();
    is_shared::<tamtam::tool::Toolbox>();
    is_shared::<tamtam::tool::ToolContext>();
    is_shared::<tamtam::tape::Store>();
    is_shared::<tamtam::tape::MemoryStore>();
    is_shared::<tamtam::runtime::Agents>();
    is_shared::<tamtam::runtime::Commands>();
    is_shared::<tamtam::SendError>();
    is_shared::<tamtam::OpenError>();
    is_shared::<StartError>();
}

/// A tool of one name, which says that it ran.
fn named(name: &'static str) -> impl Tool {
    tamtam::tool::typed(name, "Says its name", move |_: tamtam::tool::NoArguments, _: ToolContext| async move {
        ToolResult::ok(name)
    })
}

/// Seen with a host's program: `.tool(mine).tools(full())` lost `mine` without a word.
#[tokio::test]
async fn a_setter_of_one_part_of_several_adds_to_what_was_given_before() {
    let folder = tempfile::tempdir().unwrap();
    let agent = |name: &str| {
        let mut agent = tamtam::runtime::Agent::new(name, "An agent.");
        agent.prompt = Some("Be brief.".to_owned());
        tamtam::runtime::Agents::built_in().with(agent).unwrap()
    };
    let command = |name: &str| {
        let says = tamtam::runtime::Does::Say("Hi.".to_owned());
        tamtam::runtime::Commands::built_in().with([tamtam::runtime::Command::new(name, "Says hi", says)])
    };
    let rules = |pattern: &str| Ruleset::new("", [Rule::new("bash", pattern, Action::Deny)]);
    let model = Arc::new(Scripted::new([Reply::text("Hi.")]));
    let builder = Runtime::builder().in_memory().model(model.clone());
    let builder = builder.tool(named("one")).tools(Toolbox::default().with(named("two"))).tool(named("three"));
    let builder = builder.tools(Toolbox::default().with(named("four")));
    let builder = builder.agents(agent("first")).agents(agent("second"));
    let builder = builder.commands(command("hello")).commands(command("bye"));
    let builder = builder.rules(rules("rm *")).rules(rules("dd *"));
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    session.prompt("Hi.").await.unwrap().wait().await.unwrap();
    let told = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    assert_eq!(told, ["four", "one", "three", "two"]);
    assert!(["first", "second", "build"].iter().all(|name| runtime.agents().get(name).is_some()));
    assert!(["hello", "bye", "undo"].iter().all(|name| session.commands().get(name).is_some()));
    let host = session.state().await.unwrap().settings.host.clone().unwrap();
    assert_eq!((host.name.as_str(), host.rules.len()), ("host", 2));
    drop(runtime.shutdown().await);

    let twice = Runtime::builder().in_memory().model(Arc::new(Scripted::new([])));
    let twice = twice.tool(named("one")).tools(Toolbox::default().with(named("one"))).start().await;
    assert!(matches!(twice.map(drop), Err(StartError::Tools(why)) if why.contains("\"one\"")));
}

/// A model of a host's own.
struct Own(ModelRef, usize);

impl Model for Own {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(&'a self, _: &'a Request, _: &'a mut dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async move {
            if self.1 == 0 {
                return std::future::pending().await;
            }
            let call =
                |n| AnswerPart::Call { id: format!("c{n}").into(), name: "x".into(), input: "{}".into(), extra: None };
            Ok(ModelAnswer::new((0..self.1).map(call).collect(), Finish::ToolCalls))
        })
    }
}

impl Models for Own {
    fn find(&self, _: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(Own(self.0.clone(), self.1)))
    }
}

/// Seen with a host's program: a model of its own was held to no limit; 5,000 calls of one answer were taken, and a request that never
/// ended held its turn for ever.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_model_of_a_hosts_own_is_held_to_the_limits_of_the_wires() {
    for (calls, said) in
        [(5_000, "asked for 5000 calls in one answer: the limit is 1024"), (0, "did not finish within 3600 s")]
    {
        let folder = taped::folder();
        let model: ModelRef = "own/model".parse().unwrap();
        let models = Arc::new(Own(model.clone(), calls));
        let builder = Runtime::builder().store(folder.path().join("store")).models(models, model);
        let runtime = builder.start().await.unwrap();
        let options = SessionOptions::new(folder.path()).profile(Profile::Auto);
        let session = runtime.create(options).await.unwrap();
        let answer = session.prompt("go").await.unwrap().wait().await.unwrap();
        let Outcome::Failed { error } = &answer.outcome else { panic!("{answer:?}") };
        assert!(error.contains(said), "{error}");
        assert!(session.state().await.unwrap().history.len() <= 2, "no call of it was taken");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Seen with a host's program: a message of 50 MB was refused after 3.9 s as an error of the disk that is "safe to send again".
#[tokio::test]
async fn a_message_that_is_too_large_is_refused_before_it_is_copied() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("read")));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let error = session.prompt("x".repeat(50 << 20)).await.unwrap_err();
    let SendError::Refused(Refusal::TooLarge { bytes, max: MESSAGE_BYTES_MAX }) = error else { panic!("{error}") };
    assert_eq!((bytes, error.kind()), (50 << 20, Kind::Invalid));
    assert_eq!(session.state().await.unwrap().seq.0, 1, "nothing of it is on the tape");
    // The largest one goes.
    let answer = session.prompt("y".repeat(MESSAGE_BYTES_MAX)).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    assert!(runtime.shutdown().await.is_empty());
}

/// Seen with a host's program: waiting for a message behind an aborted turn never ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_message_on_hold_is_told_so() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("a").at_barrier("gate"), Reply::text("later")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let first = session.prompt("begin").await.unwrap();
    let behind = session.prompt(Message::user("behind").with_id("mine".into())).await.unwrap();
    model.barrier("gate").reached().await;
    // One waits already, one comes later; both are told, and both may wait again after a go-on.
    let waiting = tokio::spawn({
        let behind = behind.clone();
        async move { behind.wait().await }
    });
    session.abort("enough").await.unwrap();
    assert!(matches!(first.wait().await.unwrap().outcome, Outcome::Aborted { .. }));
    let limit = Duration::from_secs(30);
    for told in [tokio::time::timeout(limit, waiting).await.unwrap().unwrap(), behind.wait().await] {
        let Err(error @ SendError::Refused(Refusal::OnHold { .. })) = told else { panic!("{told:?}") };
        assert_eq!(error.to_string().split(": ").count(), 2, "{error}");
    }
    session.go_on().await.unwrap();
    assert_eq!(behind.wait().await.unwrap().text, "later");
    assert!(runtime.shutdown().await.is_empty());
}

/// A tokio of several threads.
fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Something that must not hang.
async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| panic!("{what} hangs"))
}

/// A host with two tokio runtimes: the tree lives on the first one, its handles are used from both, and the first one is gone in
/// mid-turn. Each call answers, and the store can be opened again.
#[test]
fn handles_work_on_another_tokio_and_answer_once_their_own_is_gone() {
    let folder = taped::folder();
    let (home, away) = (tokio(), tokio());
    let model = Arc::new(Scripted::from_fn(|request| {
        let hangs = tamtam::model::transcript(request).ends_with("user: hang");
        if hangs { Reply::text("late").at_barrier("gate") } else { Reply::text("read") }
    }));
    let builder = || Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = home.block_on(builder().start()).unwrap();
    let create = || runtime.create(SessionOptions::new(folder.path()));
    let session = home.block_on(create()).unwrap();
    let ask = |session: Session| async move {
        for _ in 0..5 {
            assert_eq!(session.prompt("go").await.unwrap().wait().await.unwrap().text, "read");
        }
    };
    let asks = [home.spawn(ask(session.clone())), away.spawn(ask(session.clone()))];
    away.block_on(async {
        for asked in asks {
            soon("a prompt", asked).await.unwrap();
        }
        // All that wakes and makes works from there too.
        let other = soon("a create", create()).await.unwrap();
        soon("a passivate", runtime.passivate(other.id())).await.unwrap();
        soon("a prompt that wakes", ask(other)).await;
        soon("a fork", session.fork(ForkOptions::newest())).await.unwrap();
    });

    let (waits, idle, mut events) = away.block_on(async {
        let receipt = session.prompt("hang").await.unwrap();
        model.barrier("gate").reached().await;
        let (wait, idle) = (session.clone(), session.clone());
        let waits = tokio::spawn(async move { receipt.wait().await.map(drop) });
        (waits, tokio::spawn(async move { idle.wait().await }), wait.events())
    });
    home.shutdown_timeout(Duration::from_secs(20));
    away.block_on(async {
        assert!(soon("Receipt::wait", waits).await.unwrap().is_err());
        assert!(soon("Session::wait", idle).await.unwrap().is_err());
        while soon("EventStream::next", events.next()).await.is_some() {}
        assert!(matches!(soon("a prompt", session.prompt("go")).await, Err(SendError::Closed)));
        assert!(matches!(soon("a state", session.state()).await, Err(SendError::Closed)));
        assert!(matches!(soon("an abort", session.abort("go")).await, Err(SendError::Closed)));
        assert!(soon("an open", runtime.open(session.id())).await.is_err());
        assert!(soon("a create", create()).await.is_err());
        drop(soon("Runtime::ended", runtime.ended()).await);
        soon("Runtime::drain", runtime.drain(Duration::from_secs(1))).await;
        assert!(soon("Runtime::shutdown", runtime.shutdown()).await.is_empty());
    });
    let id = session.id().clone();
    drop((runtime, session, events));
    model.barrier("gate").release();
    away.block_on(async {
        let runtime = soon("a start", builder().start()).await.unwrap();
        let session = soon("an open", runtime.open(&id)).await.unwrap();
        soon("the cut off turn", session.wait()).await.unwrap();
        soon("a prompt", ask(session)).await;
        assert!(soon("a shutdown", runtime.shutdown()).await.is_empty());
    });
}

/// Every handle of a session is dropped in mid-turn, and clones of the runtime too: the turn goes on to its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_goes_on_when_all_handles_are_dropped() {
    let folder = taped::folder();
    let replies = [Reply::call("echo", serde_json::json!({})), Reply::text("done").at_barrier("gate")];
    let model = Arc::new(Scripted::new(replies));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.tool(Echo).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    let id = session.id().clone();
    let (events, clone) = (session.events(), runtime.clone());
    let receipt = session.prompt("go").await.unwrap();
    let message = receipt.message.clone();
    model.barrier("gate").reached().await;
    drop((receipt, events, session, clone));
    tokio::task::yield_now().await;
    model.barrier("gate").release();
    let session = runtime.session(&id);
    soon("the turn", session.wait()).await.unwrap();
    let ended = session.state().await.unwrap().ended;
    assert_eq!(ended.len(), 1);
    assert_eq!((&*ended[0].text, &ended[0].outcome), ("done", &Outcome::Done));
    // The same message again gets the receipt that was dropped.
    let again = session.prompt(Message::user("go").with_id(message)).await.unwrap();
    assert_eq!(soon("the receipt", again.wait()).await.unwrap().text, "done");
    assert!(runtime.shutdown().await.is_empty());
}

/// Must show 2 of Edges, by the handle: a listener that never reads does not stand between a host and the stop. No request is made and
/// no call begins after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_ends_the_turn_while_no_listener_reads() {
    let folder = taped::folder();
    let say = |n| format!("{n} {}", "x".repeat(1_000));
    let replies = (0..20_000).map(|n| Reply::call("echo", serde_json::json!({ "say": say(n) })));
    let model = Arc::new(Scripted::new(replies));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.tool(Echo).start().await.unwrap();
    let mut options = SessionOptions::new(folder.path()).profile(Profile::Auto);
    options.steps_max = None;
    let session = runtime.create(options).await.unwrap();
    let unread = [session.events(), session.events()];
    let receipt = session.prompt("go").await.unwrap();
    // Far more events than a listener is kept.
    while model.requests().len() < 1_500 {
        tokio::task::yield_now().await;
    }
    soon("the abort", session.abort("enough")).await.unwrap();
    let answer = soon("the answer", receipt.wait()).await.unwrap();
    assert_eq!(answer.outcome, Outcome::Aborted { reason: "enough".into() });
    let (asked, seq) = (model.requests().len(), session.state().await.unwrap().seq);
    assert!(soon("a shutdown", runtime.shutdown()).await.is_empty());
    assert_eq!(model.requests().len(), asked, "no request after the stop");
    drop(unread);
    let store = tamtam::tape::Store::open(folder.path().join("store"), tamtam::tape::StoreOptions::default()).unwrap();
    let begun = |kind: &str| ["request", "call", "call_started"].contains(&kind);
    let tape = tamtam::tape::TapeStoreExt::read(&store, session.id(), tamtam::Seq::ZERO).unwrap();
    assert!(!tape.iter().any(|entry| entry.seq > seq && begun(&entry.kind)));
    let aborted = tape.iter().position(|entry| entry.kind == "turn_finished").unwrap();
    assert!(!tape[aborted..].iter().any(|entry| begun(&entry.kind)), "nothing begins after the stop");
}

/// Seen with a host's program: a session was made with tools that there are not, and its model was offered none.
#[tokio::test]
async fn tools_that_there_are_not_are_refused_by_name() {
    let folder = taped::folder();
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(Scripted::new([])));
    let runtime = builder.tool(Echo).start().await.unwrap();
    let named = |names: &[&str]| {
        let mut options = SessionOptions::new(folder.path());
        options.tools = Some(names.iter().map(|name| (*name).to_owned()).collect());
        options
    };
    let error = runtime.create(named(&["echo", "raed"])).await.unwrap_err();
    assert_eq!(error.to_string(), "the runtime has no tool called raed: it has echo");
    assert_eq!(error.kind(), Kind::Invalid);
    for fine in [&["echo"][..], &["mcp_*"], &[]] {
        drop(runtime.create(named(fine)).await.unwrap());
    }
    let parent = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let error = parent.spawn_child(named(&["raed"]), "work", Link::LINKED).await.unwrap_err();
    assert_eq!(error.to_string(), "the runtime has no tool called raed: it has echo");
    assert_eq!(parent.state().await.unwrap().tasks().count(), 0);
    assert!(runtime.shutdown().await.is_empty());
}

struct Echo;

impl Tool for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn description(&self) -> &str {
        "Says it again."
    }

    fn schema(&self) -> serde_json::Value {
        serde_json::json!({ "type": "object" })
    }

    fn run<'a>(&'a self, arguments: serde_json::Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { ToolResult::ok(arguments.to_string()) })
    }
}

/// Seen with a host's program: who listened to a session that there is not waited for ever. Its stream ends; that of a session that
/// sleeps does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_a_session_that_there_is_not_end() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("hello")]));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let mut events = runtime.session(&"nobody".parse().unwrap()).events();
    assert_eq!(EventStream::next(&mut events).await, None);
    let id = runtime.create(SessionOptions::new(folder.path())).await.unwrap().id().clone();
    assert!(runtime.shutdown().await.is_empty());

    let model = Arc::new(Scripted::new([Reply::text("hello")]));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let session = runtime.session(&id);
    let mut events = session.events();
    let first = tokio::spawn(async move { EventStream::next(&mut events).await });
    session.prompt("go").await.unwrap().wait().await.unwrap();
    assert!(first.await.unwrap().is_some());
    assert!(runtime.shutdown().await.is_empty());
}

/// Falls back on another model, whose answer it passes on.
struct FallsBack(ModelRef, Scripted);

impl Model for FallsBack {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async move {
            let mut answer = self.1.stream(request, deltas).await?;
            answer.by = Some("other/cheap".parse().unwrap());
            Ok(answer)
        })
    }
}

/// Seen with a host's program: the usage of a fallback was priced as the primary's. Bill, turn and messages name the model that answered,
/// and what it costs; also after the session was rebuilt from its tape.
#[tokio::test]
async fn the_answer_of_a_fallback_costs_what_the_fallback_costs() {
    let folder = taped::folder();
    let usage = Usage::new(1_000_000, 1_000_000);
    let dear: ModelRef = "host/dear".parse().unwrap();
    let cheap: ModelRef = "other/cheap".parse().unwrap();
    let model = Arc::new(FallsBack(dear.clone(), Scripted::new([Reply::text("ok").with_usage(usage)])));
    let prices = [
        (dear, Price::new(MicroUsd(9_000_000), MicroUsd(9_000_000))),
        (cheap.clone(), Price::new(MicroUsd(1), MicroUsd(2))),
    ];
    let builder = Runtime::builder().store(folder.path().join("store")).model(model).prices(prices);
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let answer = session.prompt("go").await.unwrap().wait().await.unwrap();
    let bill = session.bill().await.unwrap();
    assert_eq!(bill.lines.iter().map(|line| line.model.clone()).collect::<Vec<_>>(), std::slice::from_ref(&cheap));
    assert_eq!(answer.spent.cost.shown().cost, Some(MicroUsd(3)), "{answer:?}");
    assert_eq!(session.messages().await.unwrap().last().unwrap().model, Some(cheap));
    runtime.operate().restart(session.id().as_str()).await.unwrap();
    assert_eq!(session.state().await.unwrap().spent.of(Resource::Usd), 3_000_000);
    assert!(runtime.shutdown().await.is_empty());
}
