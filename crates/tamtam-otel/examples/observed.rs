//! A host whose collector and Prometheus see all that its sessions do.
//!
//! ```sh
//! cargo run -p tamtam-otel --example observed -- http://127.0.0.1:4318
//! ```
//!
//! Runs two turns on a scripted model: one with two calls and a task, whose actor crashes in between, and one that fails. Then it prints what Prometheus would read. Without an address nothing is exported.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tamtam::{
    Message, Part, Runtime, SessionOptions,
    model::{ErrorKind, HttpClient, HttpOptions, Item, ModelError, Reply, Scripted, Usage},
    permission::Profile,
    session::{Labels, TraceContext},
    tool::{self, NoArguments, ToolContext, ToolResult},
};
use tamtam_otel::{Otlp, OtlpOptions, prometheus_text};
use tracing_subscriber::layer::SubscriberExt as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = std::env::args().nth(1);
    let mut options = OtlpOptions::new(endpoint.as_deref().unwrap_or("http://127.0.0.1:9"), "observed");
    options.attributes.push(("deployment.environment.name".into(), "example".into()));
    options.headers.insert("x-collector-key".into(), "a-canary-of-a-key".into());
    let otlp = Otlp::start(options, HttpClient::new(HttpOptions::default()))?;
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(otlp.layer()))?;

    let folder = tempfile::tempdir()?;
    let looks = tool::typed("look", "Looks", async |_: NoArguments, _: ToolContext| {
        tracing::info_span!("query of the host").in_scope(|| {});
        ToolResult::ok("a canary of a result")
    });
    let task = json!({ "description": "look", "prompt": "find it", "subagent_type": "general" });
    let used = |reply: Reply| reply.with_usage(Usage::new(1_000, 20));
    let model = Arc::new(Scripted::from_fn(move |request| {
        let first = match request.history.iter().next().map(AsRef::as_ref) {
            Some(Item::User(message)) => match message.parts.first() {
                Some(Part::Text(text)) => text.text.as_str(),
                _ => "",
            },
            _ => "",
        };
        used(match (first, request.history.iter().count()) {
            ("fail", _) => Reply::error(ModelError::new(ErrorKind::InvalidRequest, "a canary of an error")),
            ("find it", _) => Reply::text("found"),
            (_, 1) => Reply::call("look", json!({})).with_call("look", json!({})),
            (_, 4) => Reply::call("task", task.clone()),
            _ => Reply::text("a canary of an answer").waiting(Duration::from_millis(300)),
        })
    }));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model).tool(looks).with_tasks();
    let runtime = builder.trace_link(otlp.link()).count_label("tenant").start().await?;
    otlp.measure(&runtime)?;

    let options = || SessionOptions::new(folder.path()).profile(Profile::Auto);
    let session = runtime.create(options().labels(Labels::new([("tenant", "a \"quoted\" tenant")])?)).await?;
    // As an HTTP server of the host would pass it on.
    let trace = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None)?;
    let receipt = session.send(Message::user("a canary of a prompt").in_trace(trace), Default::default()).await?;
    // The last request takes 300 ms; meanwhile the session's actor crashes, and the turn goes on.
    while runtime.counters().steps < 4 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    runtime.operate().crash(session.id().as_str(), "a drill")?;
    receipt.wait().await?;
    let failing = runtime.create(options()).await?;
    failing.prompt("fail").await?.wait().await?;
    print!("{}", prometheus_text(&runtime));
    runtime.shutdown().await;
    otlp.end().await;
    Ok(())
}
