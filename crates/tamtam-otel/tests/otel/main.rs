//! What dashboards and people are told of a runtime: figures that are the tapes' sums, series that stay bounded, traces that join,
//! and alarms that come and go. A collector and a parser that others wrote are in tests/telemetry.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{sync::Arc, time::Duration};

use tamtam::{
    Message, ModelRef, Runtime, SessionOptions,
    model::{
        BoxFuture, Deltas, HttpClient, HttpOptions, Model, ModelAnswer, ModelError, Reply, Request, Scripted, Usage,
    },
    permission::Profile,
    session::{Budget, Labels, Resource, TraceContext},
};
use tamtam_otel::{Alarm, AlarmChange, AlarmOptions, Alarms, Condition, Otlp, OtlpOptions, prometheus_text};
use tracing_subscriber::layer::SubscriberExt as _;

fn series<'t>(text: &'t str, name: &str) -> Vec<(&'t str, f64)> {
    let lines = text.lines().filter(|line| line.starts_with(name) && line[name.len()..].starts_with(['{', ' ']));
    lines.map(|line| line.rsplit_once(' ').unwrap()).map(|(name, value)| (name, value.parse().unwrap())).collect()
}

fn sum(text: &str, name: &str) -> f64 {
    series(text, name).iter().map(|(_, value)| value).sum()
}

/// 500 sessions of 150 users: what Prometheus reads is what the tapes say, and the users beyond a hundred share one series.
#[tokio::test(start_paused = true)]
async fn the_metrics_of_500_sessions_are_the_sums_of_their_tapes() {
    let folder = tempfile::tempdir().unwrap();
    let model = Scripted::from_fn(|request| {
        let words = tamtam::model::transcript(request).len() as u64;
        Reply::text("done").with_usage(Usage::new(words, 7).cache_read(words / 3))
    });
    let runtime = Runtime::builder()
        .store(folder.path().join("store"))
        .model(Arc::new(model))
        .count_label("user")
        .start()
        .await
        .unwrap();
    let (mut tokens, mut requests) = (0, 0);
    for n in 0..500 {
        let labels = Labels::new([("user", format!("user \"{}\"\n", n % 150).replace('\n', " "))]).unwrap();
        let session = runtime.create(SessionOptions::new(folder.path()).labels(labels)).await.unwrap();
        session.prompt(format!("{n} {}", "word ".repeat(n))).await.unwrap();
        session.wait().await.unwrap();
        for line in session.bill().await.unwrap().lines {
            tokens += line.charge.usage.total();
            requests += 1;
        }
    }
    let text = prometheus_text(&runtime);
    assert!(requests == 500 && text.ends_with("# EOF\n"), "{text}");
    for (name, value) in [
        ("tamtam_tokens_total", tokens),
        ("tamtam_label_tokens_total", tokens),
        ("tamtam_requests_total", requests),
        ("tamtam_turns_total", requests),
        ("tamtam_request_duration_seconds_count", requests),
    ] {
        #[allow(clippy::cast_precision_loss, reason = "small")]
        let value = value as f64;
        assert!((sum(&text, name) - value).abs() < 0.5, "{name}: {value}\n{text}");
    }
    assert_eq!(series(&text, "tamtam_label_tokens_total").len(), 101, "{text}");
    assert_eq!(
        series(&text, "tamtam_sessions").iter().map(|(_, n)| *n as u64).sum::<u64>(),
        runtime.count().sessions as u64
    );
    drop(runtime.shutdown().await);
}

/// The link hands on what the tracing system knows: a turn is in the trace of its message, and its requests carry that trace on.
#[tokio::test]
async fn a_request_carries_the_trace_of_its_message_with_a_span_of_its_own() {
    // Nobody listens there: what is exported is dropped, and nothing waits.
    let client = HttpClient::new(HttpOptions::default());
    let otlp = Otlp::start(OtlpOptions::new("http://127.0.0.1:9", "test"), client).unwrap();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(otlp.layer()));
    // With a second subscriber, each callsite is asked for each of them.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    tracing::callsite::rebuild_interest_cache();
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Scripted::new([Reply::text("done"), Reply::text("done")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.trace_link(otlp.link()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let message = Message::user("go").in_trace(TraceContext::new(parent, Some("a=b")).unwrap());
    session.send(message, Default::default()).await.unwrap().wait().await.unwrap();
    session.prompt("again").await.unwrap().wait().await.unwrap();
    let carried: Vec<_> = model.requests().into_iter().map(|request| request.trace.unwrap()).collect();
    let [first, second] = &carried[..] else { panic!("{carried:?}") };
    assert_eq!(first.traceparent()[..36], parent[..36]);
    assert_ne!(first.traceparent(), parent, "a span of its own");
    assert_eq!(first.tracestate(), Some("a=b"));
    assert_ne!(second.traceparent()[3..35], parent[3..35], "a trace of its own");
    drop(runtime.shutdown().await);
    otlp.end().await;
}

/// A model that says nothing until it is told to.
struct Silent(ModelRef, Arc<tokio::sync::Notify>);

impl Model for Silent {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(
        &'a self,
        _: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async move {
            loop {
                self.1.notified().await;
                deltas.delta(tamtam::model::Delta::Text("word ".into()));
            }
        })
    }
}

/// O-25, X-03: a request without a sign of life is an alarm, and none once a byte has come; a person hears of both.
#[tokio::test(start_paused = true)]
async fn a_stall_is_an_alarm_until_a_byte_comes() {
    let folder = tempfile::tempdir().unwrap();
    let says = Arc::new(tokio::sync::Notify::new());
    let model = Arc::new(Silent("test/silent".parse().unwrap(), says.clone()));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    session.prompt("go").await.unwrap();
    let mut options = AlarmOptions::default();
    options.quiet_max = Duration::from_secs(60);
    let mut alarms = Alarms::of(&runtime, options);
    let AlarmChange::Raised(raised) = alarms.next().await else { panic!("none was raised") };
    assert_eq!((&raised.session, &raised.condition), (&Some(session.id().clone()), &Condition::Stalled));
    assert!(raised.path.contains("request"), "{raised:?}");
    assert_eq!(alarms.raised(), std::slice::from_ref(&raised));
    says.notify_one();
    assert_eq!(alarms.next().await, AlarmChange::Cleared(raised));
    session.abort("enough").await.unwrap();
    drop(runtime.shutdown().await);
}

/// A budget of which 80 of 100 hundredths are used, and a session that is kept stopped.
#[tokio::test(start_paused = true)]
async fn budgets_and_parked_sessions_are_alarms() {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("done").with_usage(Usage::new(50_000, 30_000))));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let mut budget = Budget::default();
    budget.session.tokens = Some(100_000);
    let session = runtime.create(SessionOptions::new(folder.path()).budget(budget)).await.unwrap();
    let mut alarms = Alarms::of(&runtime, AlarmOptions::default());
    session.prompt("go").await.unwrap().wait().await.unwrap();
    let id = session.id().clone();
    let raised = async |alarms: &mut Alarms| {
        let next = tokio::time::timeout(Duration::from_secs(60), alarms.next());
        match next.await.unwrap_or_else(|_| panic!("no alarm: {}", runtime.tree())) {
            AlarmChange::Raised(Alarm { condition, session, .. }) => (condition, session),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(raised(&mut alarms).await, (Condition::Budget(Resource::Tokens), Some(id.clone())));
    runtime.operate().park(id.as_str()).await.unwrap();
    assert_eq!(raised(&mut alarms).await, (Condition::Parked, Some(id)));
    drop(runtime.shutdown().await);
}
