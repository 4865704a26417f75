//! A tool of your own: a schema from a type, arguments with good errors, an idempotency key, and cancellation.
//!
//! `cargo run --example own_tool`: no key, no network.

use std::{sync::Arc, time::Duration};

use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{
    Runtime, SessionOptions,
    model::{BoxFuture, Reply, Scripted},
    permission::Profile,
    tool::{Effect, Tool, ToolContext, ToolResult, parse_arguments},
};

/// Orders a number of things.
struct Order;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// What to order.
    item: String,
    /// How many.
    count: u32,
}

impl Tool for Order {
    fn name(&self) -> &str {
        "order"
    }

    fn description(&self) -> &str {
        "Orders things from the warehouse."
    }

    fn schema(&self) -> Value {
        schema_for!(Arguments).into()
    }

    // The warehouse takes each key once, so after a crash the call may be made again.
    fn effect(&self) -> Effect {
        Effect::Idempotent
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let Arguments { item, count } = match parse_arguments(arguments) {
                Ok(arguments) => arguments,
                Err(error) => return ToolResult::error(error.to_string()),
            };
            context.progress.title(format!("ordering {count} {item}"));
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(100)) => {
                    ToolResult::ok(format!("ordered {count} {item}")).with_details(json!({ "key": context.key }))
                }
                () = context.cancelled() => ToolResult::error("the order was not placed"),
            }
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let replies = [
        Reply::call("order", json!({ "item": "gong", "count": "many" })),
        Reply::call("order", json!({ "item": "gong", "count": 2 })),
        Reply::text("Two gongs are on their way."),
    ];
    let model = Arc::new(Scripted::new(replies));
    let runtime = Runtime::builder().store(folder.path().join("tapes")).model(model).tool(Order).start().await?;
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await?;
    println!("{}", session.prompt("Order two gongs.").await?.wait().await?.text);
    for message in session.messages().await? {
        println!("{}", serde_json::to_string(&message)?);
    }
    let _ = runtime.shutdown().await;
    Ok(())
}
