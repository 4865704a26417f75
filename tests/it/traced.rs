//! What a host's tracing system, metrics and log see of turns: spans with the right parents, also over a crash and a restart;
//! counters that are the tapes' sums; and no word of a conversation in any of them.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, LazyLock, Mutex},
};

use serde_json::json;
use tamtam::{
    Message, Outcome, Runtime, Session, SessionOptions,
    model::{ErrorKind, MicroUsd, ModelError, Price, Reply, Scripted, Usage},
    permission::Profile,
    runtime::{Counters, TraceLink},
    session::{Bill, CallVerdict, Finish, Labels, Spent, TraceContext},
    tool::{self, NoArguments, ToolContext, ToolResult},
};
use tracing::{
    Dispatch, Event, Span, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt as _, registry::LookupSpan};

use crate::support::taped;

/// A span as a tracing system sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    name: &'static str,
    /// The place of its parent among all spans.
    parent: Option<usize>,
    fields: BTreeMap<&'static str, String>,
    closed: bool,
    /// The trace that a link continued.
    continued: Option<String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Seen {
    fn get(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// A tracing system in memory: the spans in the order of their begin, and all that was logged.
#[derive(Clone, Default)]
struct Tracing(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    spans: Vec<Seen>,
    now: HashMap<u64, usize>,
    logged: Vec<String>,
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Tracing {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut kept = self.0.lock().unwrap();
        let above = context.span(id).and_then(|span| span.parent()).map(|span| span.id().into_u64());
        let parent = above.and_then(|above| kept.now.get(&above).copied());
        let mut seen = Seen { name: attributes.metadata().name(), parent, ..Seen::default() };
        attributes.record(&mut seen);
        let place = kept.spans.len();
        kept.now.insert(id.into_u64(), place);
        kept.spans.push(seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut kept = self.0.lock().unwrap();
        let place = kept.now[&id.into_u64()];
        values.record(&mut kept.spans[place]);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Seen::default();
        event.record(&mut line);
        self.0.lock().unwrap().logged.push(format!("{:?}", line.fields));
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut kept = self.0.lock().unwrap();
        if let Some(place) = kept.now.remove(&id.into_u64()) {
            kept.spans[place].closed = true;
        }
    }
}

/// As in `logged.rs`: with more than one subscriber, all are asked about each callsite.
static OTHERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(tracing_subscriber::registry())));

impl Tracing {
    fn listen(&self) -> DefaultGuard {
        LazyLock::force(&OTHERS);
        tracing::subscriber::set_default(tracing_subscriber::registry().with(self.clone()))
    }

    /// The spans that say what turns do.
    fn spans(&self) -> Vec<Seen> {
        self.0.lock().unwrap().spans.clone()
    }

    fn of(&self, name: &str) -> Vec<Seen> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }

    /// A span with the names of all above it: `turn/step/call`.
    fn path(&self, span: &Seen) -> String {
        let spans = self.spans();
        let above = std::iter::successors(Some(span), |span| span.parent.map(|parent| &spans[parent]));
        let mut names: Vec<_> = above.map(|span| span.name).collect();
        names.reverse();
        names.join("/")
    }
}

/// The link of that tracing system. The id of a trace is that of the context that it continues, else one made of its root.
impl TraceLink for Tracing {
    fn continue_from(&self, span: &Span, context: &TraceContext) {
        let mut kept = self.0.lock().unwrap();
        let place = kept.now[&span.id().unwrap().into_u64()];
        kept.spans[place].continued = Some(context.traceparent()[3..35].to_owned());
    }

    fn context_of(&self, span: &Span) -> Option<TraceContext> {
        let kept = self.0.lock().unwrap();
        let place = *kept.now.get(&span.id()?.into_u64())?;
        let mut at = place;
        while let Some(parent) = kept.spans[at].parent {
            at = parent;
        }
        let trace = kept.spans[at].continued.clone().unwrap_or_else(|| format!("{:032x}", at + 1));
        Some(TraceContext::new(&format!("00-{trace}-{:016x}-01", place + 1), None).unwrap())
    }
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn options(folder: &Path) -> SessionOptions {
    SessionOptions::new(folder).profile(Profile::Auto)
}

/// A tool that says which trace it was called in.
fn traced() -> impl tool::Tool {
    tool::typed("traced", "Says its trace", async |_: NoArguments, context: ToolContext| {
        let mut result = ToolResult::ok("called");
        result.details = json!({ "trace": context.trace().map(TraceContext::traceparent) });
        tracing::info_span!("own").in_scope(|| {});
        result
    })
}

/// The traces that the results of the session say.
async fn traces(session: &Session) -> Vec<String> {
    let entries = session.entries().await.unwrap();
    let results = entries.iter().filter_map(|entry| match &entry.record {
        tamtam::session::Record::Result { result, .. } => result.details["trace"].as_str().map(str::to_owned),
        _ => None,
    });
    results.collect()
}

/// the trace of a turn with two calls and a task is one tree: turn, steps, requests, calls with the tool's own spans, and the
/// turn of the child. Requests, calls and tasks carry the trace on.
#[tokio::test(start_paused = true)]
async fn a_turn_with_calls_and_a_task_is_one_trace() {
    let tracing = Tracing::default();
    let _guard = tracing.listen();
    let folder = taped::folder();
    let task = json!({ "description": "look", "prompt": "find it", "subagent_type": "general" });
    let model = Arc::new(Scripted::new([
        Reply::call("traced", json!({})).with_call("traced", json!({})),
        Reply::call("task", task),
        Reply::text("done"),
        Reply::text("found").when("user: find it"),
    ]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).with_tasks();
    let runtime = builder.tool(traced()).trace_link(tracing.clone()).start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    let message = Message::user("go").in_trace(TraceContext::new(PARENT, None).unwrap());
    let answer = session.send(message, Default::default()).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    let child = session.tasks().await.unwrap().len();
    assert_eq!(child, 0, "the task is over");
    drop(runtime.shutdown().await);

    let spans = tracing.spans();
    let paths = |name: &str| tracing.of(name).iter().map(|span| tracing.path(span)).collect::<Vec<_>>();
    assert_eq!(paths("turn"), ["turn"; 2]);
    assert_eq!(paths("request"), ["turn/step/request"; 4]);
    assert_eq!(paths("call"), ["turn/step/call"; 3]);
    assert_eq!(paths("own"), ["turn/step/call/own"; 2]);
    assert_eq!(paths("task"), ["turn/step/task"]);
    assert_eq!(tracing.of("step").len(), 4);
    assert!(spans.iter().all(|span| span.closed), "{spans:#?}");
    // Both turns are in the trace of the message: the child's through the task.
    let trace = &PARENT[3..35];
    for turn in tracing.of("turn") {
        assert_eq!(turn.continued.as_deref(), Some(trace), "{turn:?}");
        assert_eq!(turn.get("tamtam.outcome"), "done");
        assert_eq!(turn.get("gen_ai.operation.name"), "invoke_agent");
    }
    for request in model.requests() {
        assert_eq!(&request.trace.unwrap().traceparent()[3..35], trace);
    }
    let called = traces(&session).await;
    assert_eq!(called.len(), 2);
    assert!(called.iter().all(|called| called[3..35] == *trace) && called[0] != called[1], "{called:?}");
    let tools: Vec<_> = tracing.of("call").iter().map(|call| call.get("gen_ai.tool.name").to_owned()).collect();
    assert_eq!(tools, ["traced", "traced", "task"]);
}

/// A turn whose actor crashes goes on in the same span; one whose process went down goes on in the trace that its message named.
#[tokio::test(start_paused = true)]
async fn a_crash_keeps_the_span_of_the_turn_and_a_restart_keeps_its_trace() {
    let tracing = Tracing::default();
    let _guard = tracing.listen();
    let folder = taped::folder();
    let start = async |replies: Vec<Reply>| {
        let model = Arc::new(Scripted::new(replies));
        let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
        let runtime = builder.tool(traced()).trace_link(tracing.clone()).start().await.unwrap();
        (runtime, model)
    };
    let (runtime, model) =
        start(vec![Reply::call("traced", json!({})), Reply::text("done").at_barrier("second")]).await;
    let session = runtime.create(options(folder.path())).await.unwrap();
    let message = Message::user("go").in_trace(TraceContext::new(PARENT, None).unwrap());
    let receipt = session.send(message, Default::default()).await.unwrap();
    model.barrier("second").reached().await;
    runtime.operate().crash(session.id().as_str(), "on purpose").unwrap();
    // The request is made again after the crash.
    while tracing.of("request").len() < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let [turn] = &tracing.of("turn")[..] else { panic!("{:#?}", tracing.spans()) };
    assert_eq!((turn.get("tamtam.recoveries"), turn.closed), ("1", false));
    assert!(tracing.of("request").iter().all(|span| tracing.path(span) == "turn/step/request"));

    let id = session.id().clone();
    drop(runtime.shutdown().await);
    drop((session, receipt));
    let (runtime, _) = start(vec![Reply::call("traced", json!({})), Reply::text("done")]).await;
    let session = runtime.open(&id).await.unwrap();
    session.wait().await.unwrap();
    drop(runtime.shutdown().await);
    let turns = tracing.of("turn");
    let [before, after] = &turns[..] else { panic!("{turns:#?}") };
    assert_eq!(before.get("tamtam.turn"), after.get("tamtam.turn"));
    assert_eq!(after.continued.as_deref(), Some(&PARENT[3..35]));
    assert_eq!(after.get("tamtam.outcome"), "done");
    assert!(tracing.spans().iter().all(|span| span.closed), "{:#?}", tracing.spans());
}

/// Without a link the library knows no tracing system, and hands on what it was given. With one, a message that names no trace gets
/// that of its sender's span.
#[tokio::test(start_paused = true)]
async fn a_trace_goes_through_without_a_link_and_comes_from_the_senders_span_with_one() {
    let tracing = Tracing::default();
    let _guard = tracing.listen();
    let folder = taped::folder();
    let replies = || [Reply::call("traced", json!({})), Reply::text("done")];
    let model = Arc::new(Scripted::new(replies()));
    let builder = Runtime::builder().store(folder.path().join("plain")).model(model.clone());
    let runtime = builder.tool(traced()).start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    let message = Message::user("go").in_trace(TraceContext::new(PARENT, Some("a=b")).unwrap());
    session.send(message, Default::default()).await.unwrap().wait().await.unwrap();
    assert_eq!(traces(&session).await, [PARENT]);
    assert!(model.requests().iter().all(|request| request.trace.as_ref().unwrap().tracestate() == Some("a=b")));
    session.prompt("once more").await.unwrap().wait().await.unwrap();
    assert_eq!(model.requests().last().unwrap().trace, None, "the second message names none");
    drop(runtime.shutdown().await);

    let model = Arc::new(Scripted::new(replies()));
    let builder = Runtime::builder().store(folder.path().join("linked")).model(model.clone());
    let runtime = builder.trace_link(tracing.clone()).tool(traced()).start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    use tracing::Instrument as _;
    let sent = session.prompt("go").instrument(tracing::info_span!("host")).await.unwrap();
    sent.wait().await.unwrap();
    let host = tracing.spans().iter().position(|span| span.name == "host").unwrap();
    assert_eq!(traces(&session).await[0][3..35], format!("{:032x}", host + 1));
    drop(runtime.shutdown().await);
}

/// what the counters say is what the tapes say, to the last token: over answers, retries, failures, tools that fail, loops and
/// summaries. The values of a label are bounded.
#[tokio::test(start_paused = true)]
async fn counters_are_the_sums_of_the_tapes_and_their_names_are_bounded() {
    let folder = taped::folder();
    let script = |n: usize| -> Vec<Reply> {
        let busy = || ModelError::new(ErrorKind::Overloaded, "busy").with_status(529);
        match n % 4 {
            0 => vec![Reply::text("one").with_usage(Usage::new(100 + n as u64, 7))],
            1 => vec![Reply::error(busy()), Reply::text("two").with_usage(Usage::new(50, n as u64))],
            2 => vec![
                Reply::call("fails", json!({})).with_usage(Usage::new(10, 3)),
                Reply::call("unknown", json!({})).with_usage(Usage::new(20, 3)),
                Reply::text("three").with_usage(Usage::new(30, 3)),
            ],
            _ => vec![Reply::error(ModelError::new(ErrorKind::InvalidRequest, "no").with_status(400))],
        }
    };
    let fails = tool::typed("fails", "Fails", async |_: NoArguments, _: ToolContext| ToolResult::error("no"));
    let asked = Mutex::new(HashMap::new());
    let model = Scripted::from_fn(move |request| {
        let text = tamtam::model::transcript(request);
        let (_, rest) = text.split_once("number ").unwrap();
        let n = rest.split_once('.').unwrap().0.parse().unwrap();
        let mut asked = asked.lock().unwrap();
        let times = asked.entry(n).or_insert(0);
        *times += 1;
        script(n).swap_remove(*times - 1)
    });
    let (name, price) = ("scripted/script".parse().unwrap(), Price::new(MicroUsd(3), MicroUsd(15)));
    let model = Arc::new(model.with_price(name, price));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model).tool(fails).count_label("tenant");
    let runtime = builder.start().await.unwrap();
    let mut sessions = Vec::new();
    for n in 0..200 {
        let labels = Labels::new([("tenant", format!("t{n}"))]).unwrap();
        let session = runtime.create(options(folder.path()).labels(labels)).await.unwrap();
        session.prompt(format!("number {n}.")).await.unwrap().wait().await.unwrap();
        sessions.push(session);
    }
    let Counters { turns_begun, turns, steps, retries, models, tools, labelled, .. } = runtime.counters();
    let mut truth = Spent::default();
    for session in &sessions {
        let bill: Bill = session.bill().await.unwrap();
        bill.lines.iter().for_each(|line| truth += line.charge);
    }
    let spent = models.values().map(|model| model.spent).fold(Spent::default(), |sum, spent| sum.plus(&spent));
    assert_eq!(spent, truth);
    assert!(truth.usage.total() > 10_000 && truth.cost != Default::default(), "{truth:?}");
    let by_label = labelled.values().fold(Spent::default(), |sum, spent| sum.plus(spent));
    assert_eq!((by_label, labelled.len()), (truth, 101), "a hundred names, and the rest together");
    assert_eq!((turns_begun, turns["done"], turns["failed"]), (200, 150, 50));
    assert_eq!((steps, retries), (50 + 50 + 150 + 50, 50));
    assert_eq!(tools["fails"].verdicts, BTreeMap::from([(CallVerdict::Allowed, 50)]));
    assert_eq!(tools["fails"].failed, 50);
    assert!(!tools.contains_key("unknown"), "a name that a model made up: {tools:?}");
    assert_eq!(models.values().next().unwrap().failed.values().sum::<u64>(), 100);
    drop(runtime.shutdown().await);
}

/// No word of a conversation, of a tool or of a provider is in a span, a line of the log or a counter.
#[tokio::test(start_paused = true)]
async fn no_words_of_a_conversation_are_in_spans_logs_or_counters() {
    let tracing = Tracing::default();
    let _guard = tracing.listen();
    let folder = taped::folder();
    let says = tool::typed("says", "Says it", async |_: NoArguments, _: ToolContext| ToolResult::ok("a canary"));
    let model = Arc::new(Scripted::new([
        Reply::text("a canary").with_call("says", json!({ "canary": "canary" })),
        Reply::call("canary", json!({})),
        Reply::call("canary", json!({})).with_finish(Finish::Length),
        Reply::error(ModelError::new(ErrorKind::InvalidRequest, "a canary").with_status(400)),
    ]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model).tool(says);
    let runtime = builder.trace_link(tracing.clone()).start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    let answer = session.prompt("a canary").await.unwrap().wait().await.unwrap();
    assert!(matches!(answer.outcome, Outcome::Failed { .. }));
    let counters = serde_json::to_string(&runtime.counters()).unwrap();
    drop(runtime.shutdown().await);
    let kept = tracing.0.lock().unwrap();
    assert!(kept.spans.len() >= 8 && kept.logged.len() >= 8, "{:?} {:?}", kept.spans, kept.logged);
    for said in [format!("{:?}", kept.logged), counters] {
        assert!(!said.contains("canary"), "{said}");
    }
    // The name of the tool that does not exist is on no span either: its call never began.
    let said = format!("{:?}", kept.spans);
    assert!(!said.contains("canary"), "{said}");
}
