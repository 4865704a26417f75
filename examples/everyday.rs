//! Five everyday tasks, each whole in a few lines.
//!
//! `cargo run --example everyday`: no key, no network. In place of the scripts a host has a model such as
//! `tamtam::model::openai(key).model("gpt-4o")?`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tamtam::{
    EventKind, Runtime, SessionOptions,
    model::{Model, Reply, Scripted, transcript},
    permission::Profile,
    runtime::{Agent, Agents},
    session::Next,
    tool,
};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// One question, one answer.
pub async fn one_shot(model: Arc<dyn Model>) -> Result<String, Failed> {
    let runtime = Runtime::builder().in_memory().model(model).start().await?;
    let session = runtime.create(SessionOptions::new(".")).await?;
    let answer = session.prompt("What is a tam-tam?").await?.wait().await?;
    drop(runtime.shutdown().await);
    Ok(answer.text)
}

/// A tool of the host.
pub async fn with_a_tool(model: Arc<dyn Model>) -> Result<String, Failed> {
    #[derive(Deserialize, JsonSchema)]
    struct City {
        name: String,
    }
    let weather =
        tool::typed("weather", "The weather in a city.", |City { name }, _| async move { format!("{name}: rain") });
    let runtime = Runtime::builder().in_memory().model(model).tool(weather).start().await?;
    let session = runtime.create(SessionOptions::new(".").profile(Profile::Auto)).await?;
    let answer = session.prompt("Do I need an umbrella in Bergen?").await?.wait().await?;
    drop(runtime.shutdown().await);
    Ok(answer.text)
}

/// The text as it arrives.
pub async fn streaming(model: Arc<dyn Model>, mut show: impl FnMut(&str)) -> Result<(), Failed> {
    let runtime = Runtime::builder().in_memory().model(model).start().await?;
    let session = runtime.create(SessionOptions::new(".")).await?;
    let mut turn = session.prompt_streaming("Tell me a story.").await?;
    while let Some(next) = turn.next().await {
        let Next::Event(event) = next else { continue };
        let EventKind::TextDelta { text, .. } = &event.kind else { continue };
        show(text);
    }
    drop(runtime.shutdown().await);
    Ok(())
}

/// A conversation that is on disk, and goes on in the next process.
pub async fn memory(model: Arc<dyn Model>, store: &std::path::Path, says: &str) -> Result<String, Failed> {
    let runtime = Runtime::builder().store(store).model(model).start().await?;
    let session = runtime.open_or_create(SessionOptions::new(".").id("ann".parse()?)).await?;
    let answer = session.prompt(says).await?.wait().await?;
    drop(runtime.shutdown().await);
    Ok(answer.text)
}

/// A model that hands a part of its work to another agent.
pub async fn subagent(model: Arc<dyn Model>) -> Result<String, Failed> {
    let critic = Agent::new("critic", "Finds the weak points of a text.").prompt("You are a stern critic.");
    let agents = Agents::built_in().with(critic)?;
    let runtime = Runtime::builder().in_memory().model(model).agents(agents).with_tasks().start().await?;
    let session = runtime.create(SessionOptions::new(".").profile(Profile::Auto)).await?;
    let answer = session.prompt("Have my essay criticized.").await?.wait().await?;
    drop(runtime.shutdown().await);
    Ok(answer.text)
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    println!("{}", one_shot(scripted([Reply::text("A kind of gong.")])).await?);
    let calls = Reply::call("weather", json!({ "name": "Bergen" }));
    println!("{}", with_a_tool(scripted([calls, Reply::text("Yes, it rains.").expecting("Bergen: rain")])).await?);
    streaming(scripted([Reply::text("Once upon a time.")]), |text| print!("{text}")).await?;
    println!();
    memory(scripted([Reply::text("Hello, Ann.")]), folder.path(), "I am Ann.").await?;
    println!("{}", memory(scripted([Reply::text("Ann.").expecting("I am Ann.")]), folder.path(), "Who am I?").await?);
    let task = json!({ "description": "Criticize", "prompt": "Read it.", "subagent_type": "critic" });
    let model = Scripted::from_fn(move |request| match &*request.system {
        system if system.contains("stern critic") => Reply::text("It is too long."),
        _ if transcript(request).contains("It is too long.") => Reply::text("The critic finds it too long."),
        _ => Reply::call("task", task.clone()),
    });
    println!("{}", subagent(Arc::new(model)).await?);
    Ok(())
}

fn scripted<const N: usize>(replies: [Reply; N]) -> Arc<dyn Model> {
    Arc::new(Scripted::new(replies))
}
