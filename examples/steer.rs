//! A message in mid-run: what becomes of the calls, and what the model reads next.
//!
//! `cargo run --example steer`: no key, no network.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tamtam::{
    EventKind, Runtime, SessionOptions,
    model::{Reply, Scripted},
    permission::Profile,
    session::Next,
    tools::Setup,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let write = |name: &str| json!({ "path": name, "content": "x" });
    let four = Reply::call("bash", json!({ "command": "sleep 1; echo one" }))
        .with_call("write", write("two"))
        .with_call("write", write("three"))
        .with_call("write", write("four"));
    let model = Arc::new(Scripted::new([four, Reply::text("I stopped, as you said.")]));
    let tools = Setup::new().environment(std::env::vars_os()).full();
    let runtime = Runtime::builder().store(folder.path().join("tapes")).model(model).tools(tools).start().await?;
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await?;

    let mut events = session.events();
    let shown = tokio::spawn(async move {
        while let Some(Next::Event(event)) = events.next().await {
            match &event.kind {
                EventKind::CallStarted { name, input, .. } => println!("started   {name} {input}"),
                EventKind::CallFinished { name, content, .. } => println!("finished  {name}: {content}"),
                EventKind::Steered { message, .. } => println!("steered   {}", message.text()),
                EventKind::TurnFinished { text, .. } => return println!("answered  {text}"),
                _ => {}
            }
        }
    });
    let prompt = session.prompt("Make four files.").await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    session.steer("Stop, I changed my mind.").await?;
    prompt.wait().await?;
    shown.await?;

    let made = ["two", "three", "four"].iter().filter(|name| folder.path().join(name).exists()).count();
    println!("files made: {made}");
    assert!(runtime.shutdown().await.is_empty());
    Ok(())
}
