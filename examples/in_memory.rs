//! A runtime that keeps nothing: the tapes are in memory, and go with it.
//!
//! `cargo run --example in_memory`: no key, no network, no file.

use std::sync::Arc;

use tamtam::{
    Runtime, SessionOptions,
    model::{Reply, Scripted},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Arc::new(Scripted::new([Reply::text("Paris."), Reply::text("Rome.")]));
    let runtime = Runtime::builder().in_memory().model(model).start().await?;
    let session = runtime.create(SessionOptions::new(".")).await?;
    println!("{}", session.prompt("What is the capital of France?").await?.wait().await?.text);
    // It sleeps, and is woken from its tape by the next message.
    runtime.passivate(session.id()).await?;
    println!("{}", session.prompt("And of Italy?").await?.wait().await?.text);
    println!("{} messages", session.messages().await?.len());
    assert!(runtime.shutdown().await.is_empty());
    Ok(())
}
