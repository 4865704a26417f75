//! Tools of your own: schema, argument errors and result come from types.
//!
//! `cargo run --example own_tool`: no key, no network.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tamtam::{
    Runtime, SessionOptions,
    model::{Reply, Scripted},
    permission::Profile,
    tool::{self, Effect},
};

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// What to order.
    item: String,
    /// How many.
    count: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let order = tool::typed("order", "Orders things from the warehouse.", |Order { item, count }, cx| async move {
        cx.progress.title(format!("ordering {count} {item}"));
        // The call to the warehouse goes here. It takes each key once, so after a crash the call may be made again.
        format!("ordered {count} {item} under {}", cx.key)
    })
    .effect(Effect::Idempotent);

    let folder = tempfile::tempdir()?;
    let replies = [
        Reply::call("order", json!({ "item": "gong", "count": "many" })),
        Reply::call("order", json!({ "item": "gong", "count": 2 })),
        Reply::text("Two gongs are on their way."),
    ];
    let model = Arc::new(Scripted::new(replies));
    let runtime = Runtime::builder().store(folder.path().join("tapes")).model(model).tool(order).start().await?;
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await?;
    println!("{}", session.prompt("Order two gongs.").await?.wait().await?.text);
    for message in session.messages().await? {
        println!("{}", serde_json::to_string(&message)?);
    }
    assert!(runtime.shutdown().await.is_empty());
    Ok(())
}
