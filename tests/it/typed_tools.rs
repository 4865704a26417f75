//! Tools made of closures, in a session: errors before any question, panics, stops, and text that comes piece by piece.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{
    EventKind, EventStream, Outcome, Runtime, Session, SessionOptions,
    model::{Item, Reply, Scripted},
    permission::Profile,
    runtime::Builder,
    session::{ErrorReason, Grant, Next, Record},
    tool::{self, NoArguments, ToolResult, TypedTool},
};
use tokio::time::Instant;

use crate::support::taped;

#[derive(Deserialize, JsonSchema)]
struct Order {
    item: String,
    count: u32,
}

/// A session whose model makes these calls of one tool, and then says "done".
async fn start<A>(
    folder: &Path,
    profile: Profile,
    tool: TypedTool<A>,
    calls: &[Value],
) -> (Runtime, Session, EventStream, Arc<Scripted>)
where
    TypedTool<A>: tamtam::tool::Tool,
{
    start_over(Runtime::builder().store(folder.join("store")), folder, profile, tool, calls).await
}

/// The same over the store that is in the builder.
async fn start_over<A>(
    builder: Builder,
    folder: &Path,
    profile: Profile,
    tool: TypedTool<A>,
    calls: &[Value],
) -> (Runtime, Session, EventStream, Arc<Scripted>)
where
    TypedTool<A>: tamtam::tool::Tool,
{
    let name = tamtam::tool::Tool::name(&tool).to_owned();
    let calls = calls.iter().map(|arguments| Reply::call(&name, arguments.clone()));
    let model = Arc::new(Scripted::new(calls.chain([Reply::text("done")])));
    let runtime = builder.model(model.clone()).tool(tool).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder).profile(profile)).await.unwrap();
    let events = session.events();
    (runtime, session, events, model)
}

/// The next event that `wanted` picks.
async fn event<T>(events: &mut EventStream, wanted: impl Fn(&EventKind) -> Option<T>) -> T {
    loop {
        let Next::Event(event) = events.next().await.expect("the session goes on") else { panic!("none is missed") };
        if let Some(found) = wanted(&event.kind) {
            return found;
        }
    }
}

/// The results on the tape.
async fn results(session: &Session) -> Vec<ToolResult> {
    let entries = session.entries().await.unwrap();
    let result = |record: &Record| match record {
        Record::Result { result, .. } => Some(ToolResult::clone(result)),
        _ => None,
    };
    entries.iter().filter_map(|entry| result(&entry.record)).collect()
}

/// The model is told what is wrong with its arguments, in words. Only the call that can run is asked about.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn bad_arguments_are_told_to_the_model_and_ask_nobody() {
    let folder = taped::folder();
    let order = tool::typed("order", "Orders.", |Order { item, count }, _| async move { format!("{count} {item}") });
    let calls = [json!({"item": "gong", "count": "many"}), json!({"count": 2}), json!({"item": "gong", "count": 2})];
    let (runtime, session, mut events, model) = start(folder.path(), Profile::Strict, order, &calls).await;
    let prompt = session.prompt("Order two gongs.").await.unwrap();
    let ask = event(&mut events, |kind| match kind {
        EventKind::Ask { ask, .. } => Some(*ask),
        _ => None,
    })
    .await;
    session.answer(ask, Grant::Once).await.unwrap();
    assert_eq!(prompt.wait().await.unwrap().text, "done");
    let asks =
        session.entries().await.unwrap().iter().filter(|entry| matches!(entry.record, Record::Ask { .. })).count();
    assert_eq!(asks, 1);
    let told: Vec<_> = model
        .requests()
        .last()
        .unwrap()
        .history
        .iter()
        .filter_map(|item| match item.as_ref() {
            Item::Result(result) => Some(result.content.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [
            "bad arguments: `count`: invalid type: string \"many\", expected u32",
            "bad arguments: missing field `item`",
            "2 gong",
        ]
    );
    assert!(runtime.shutdown().await.is_empty());
}

/// Whatever the form, and whether the closure panics or its future does: one error result, and the turn goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_a_closure_is_one_error_result() {
    #[allow(unreachable_code)]
    fn forms() -> [TypedTool<NoArguments>; 5] {
        [
            tool::typed("t", "", |_: NoArguments, _| async { panic!("broken") as () }),
            tool::typed("t", "", |_: NoArguments, _| {
                panic!("broken");
                async {}
            }),
            tool::typed_blocking("t", "", |_: NoArguments, _| panic!("broken") as ()),
            tool::typed_streaming("t", "", |_: NoArguments, _, out| async move {
                out.write("so far");
                panic!("broken") as ()
            }),
            tool::typed_streaming("t", "", |_: NoArguments, _, _| {
                panic!("broken");
                async {}
            }),
        ]
    }
    for tool in forms() {
        let folder = taped::folder();
        let (runtime, session, _events, _) = start(folder.path(), Profile::Auto, tool, &[json!({})]).await;
        let answer = session.prompt("go").await.unwrap().wait().await.unwrap();
        assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "done"));
        let results = results(&session).await;
        assert_eq!(results.len(), 1);
        assert_eq!(results[0].error, Some(ErrorReason::Failed));
        assert_eq!(results[0].content, "The tool crashed: broken. The session continues; try another way.");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Says that it was dropped.
struct Drops(Arc<AtomicBool>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A closure that hears of no stop loses its future when the grace is over, and by then the abort is answered.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn the_future_of_a_stopped_call_is_dropped_within_the_grace() {
    let folder = tempfile::tempdir().unwrap();
    let is_dropped = Arc::<AtomicBool>::default();
    let drops = is_dropped.clone();
    let hangs = tool::typed("hangs", "", move |_: NoArguments, cx| {
        let drops = Drops(drops.clone());
        async move {
            let _drops = drops;
            cx.progress.title("hangs");
            std::future::pending::<()>().await;
        }
    });
    let memory = Runtime::builder().in_memory();
    let (runtime, session, mut events, _) = start_over(memory, folder.path(), Profile::Auto, hangs, &[json!({})]).await;
    session.prompt("go").await.unwrap();
    event(&mut events, |kind| matches!(kind, EventKind::CallProgress { .. }).then_some(())).await;
    let stopped_at = Instant::now();
    session.abort("enough").await.unwrap();
    assert!(is_dropped.load(Ordering::SeqCst));
    assert!(stopped_at.elapsed() <= Duration::from_millis(2_100), "{:?}", stopped_at.elapsed());
    session.wait().await.unwrap();
    let results = results(&session).await;
    assert_eq!((results.len(), results[0].error), (1, Some(ErrorReason::Aborted)));
    assert!(runtime.shutdown().await.is_empty());
}

/// A blocking closure that looks at its context ends by itself; one that does not is left behind after the grace, and holds up
/// nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_call_is_stopped_through_its_context() {
    let folder = taped::folder();
    let waits = tool::typed_blocking("waits", "", |_: NoArguments, cx| {
        cx.progress.title("waits");
        while !cx.is_cancelled() {
            std::thread::yield_now();
        }
        "saw the stop"
    });
    let (runtime, session, mut events, _) = start(folder.path(), Profile::Auto, waits, &[json!({})]).await;
    session.prompt("go").await.unwrap();
    event(&mut events, |kind| matches!(kind, EventKind::CallProgress { .. }).then_some(())).await;
    session.abort("enough").await.unwrap();
    session.wait().await.unwrap();
    assert_eq!(results(&session).await, [ToolResult::failed(ErrorReason::Aborted, "saw the stop")]);
    assert!(runtime.shutdown().await.is_empty());
}

/// The other side: a blocking closure that never looks.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_blocking_call_that_sees_no_stop_is_left_behind_after_the_grace() {
    let folder = taped::folder();
    let (let_go, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let is_at_work = Arc::<AtomicBool>::default();
    let at_work = is_at_work.clone();
    let deaf = tool::typed_blocking("deaf", "", move |_: NoArguments, _| {
        at_work.store(true, Ordering::SeqCst);
        let _ = held.lock().unwrap().recv();
    });
    let (runtime, session, _events, _) = start(folder.path(), Profile::Auto, deaf, &[json!({})]).await;
    session.prompt("go").await.unwrap();
    // Virtual time stands still while this task is busy: else it would run to the limit of the call before its thread begins.
    while !is_at_work.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    session.abort("enough").await.unwrap();
    session.wait().await.unwrap();
    let results = results(&session).await;
    assert_eq!((results.len(), results[0].error), (1, Some(ErrorReason::Aborted)));
    assert!(results[0].content.contains("how far it got is unknown"), "{}", results[0].content);
    let_go.send(()).unwrap();
    assert!(runtime.shutdown().await.is_empty());
}

/// Listeners see each piece as it comes, the model is given all of them; and a stop keeps the pieces that came before it.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn the_pieces_of_a_streaming_call_are_shown_in_order_and_kept_through_a_stop() {
    let folder = taped::folder();
    let counts = tool::typed_streaming("counts", "", |_: NoArguments, _, out| async move {
        for n in 1..=200 {
            out.write(format!("{n} "));
        }
        std::future::pending::<()>().await;
    });
    let (runtime, session, mut events, _) = start(folder.path(), Profile::Auto, counts, &[json!({})]).await;
    session.prompt("go").await.unwrap();
    let mut whole = String::new();
    for n in 1..=200 {
        let metadata = event(&mut events, |kind| match kind {
            EventKind::CallProgress { metadata, .. } => Some(metadata.clone()),
            _ => None,
        })
        .await;
        whole.push_str(&format!("{n} "));
        assert_eq!(metadata, json!({ "piece": format!("{n} "), "total_bytes": whole.len() }));
    }
    session.abort("enough").await.unwrap();
    session.wait().await.unwrap();
    let expected = ToolResult::failed(ErrorReason::Aborted, format!("{whole}\nStopped while it was running."));
    assert_eq!(results(&session).await, [expected]);
    assert!(runtime.shutdown().await.is_empty());
}

/// A limit is a stop as well: what was written is there, and that it took too long.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_streaming_call_over_its_limit_keeps_its_text() {
    let folder = taped::folder();
    let counts = tool::typed_streaming("counts", "", |_: NoArguments, _, out| async move {
        out.write("so far\n");
        std::future::pending::<()>().await;
    })
    .limit(Duration::from_secs(5));
    let (runtime, session, _events, _) = start(folder.path(), Profile::Auto, counts, &[json!({})]).await;
    session.prompt("go").await.unwrap().wait().await.unwrap();
    let results = results(&session).await;
    assert_eq!((results.len(), results[0].error), (1, Some(ErrorReason::Timeout)));
    assert!(results[0].content.starts_with("so far\nStopped"), "{}", results[0].content);
    assert!(runtime.shutdown().await.is_empty());
}

/// A runtime does not start with a tool that no model can be told of, or whose arguments could never come.
#[tokio::test]
async fn a_bad_name_or_schema_is_an_error_at_the_start() {
    async fn start(tool: impl tamtam::tool::Tool) -> Result<(), String> {
        let folder = taped::folder();
        let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(Scripted::new([])));
        let runtime = builder.tool(tool).start().await.map_err(|error| error.to_string())?;
        assert!(runtime.shutdown().await.is_empty());
        Ok(())
    }
    let why = start(tool::typed("with space", "", |_: NoArguments, _| async {})).await.unwrap_err();
    assert!(why.contains("a tool is called \"with space\""), "{why}");
    let why = start(tool::typed("number", "", |_: u32, _| async {})).await.unwrap_err();
    assert!(why.contains("the arguments of the tool \"number\" are not a JSON object"), "{why}");
    start(tool::typed("fine", "", |_: Order, _| async {})).await.unwrap();
    start(tool::typed("fine", "", |_: Value, _| async {})).await.unwrap();
}
