//! A test of your own agent by a recorded tape: record a conversation once, keep the file beside your tests, and check in CI that this
//! version of your agent, and of tamtam, would decide the same again. No model is asked.
//!
//! `cargo run --example recorded`: no key, no network.

use std::{path::Path, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tamtam::{
    Runtime, SessionId, SessionOptions,
    model::{Reply, Scripted},
    ops::replay::{Checked, Replay, check, write_test},
    permission::Profile,
    tape::{Access, Store, StoreOptions},
    tool,
};

/// The prompt of the agent under test.
const PROMPT: &str = "You answer for the shop. Look up each order before you speak of it.";

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The number of the order.
    number: u32,
}

/// Once: the conversation, with the real model in place of the scripted one.
async fn record(store: &Path, session: &SessionId) -> Result<(), Box<dyn std::error::Error>> {
    let look_up = tool::typed("look_up", "Looks up an order.", |Order { number }, _cx| async move {
        format!("order {number}: two gongs, sent on Monday")
    });
    let replies = [Reply::call("look_up", json!({ "number": 7 })), Reply::text("Your gongs were sent on Monday.")];
    let model = Arc::new(Scripted::new(replies));
    let runtime = Runtime::builder().store(store).model(model).tool(look_up).start().await?;
    let mut options = SessionOptions::new(".").id(session.clone()).profile(Profile::Auto);
    options.system = Some(PROMPT.to_owned());
    runtime.create(options).await?.prompt("Where is order 7?").await?.wait().await?;
    runtime.shutdown().await;
    Ok(())
}

/// The file for your repository. It needs nothing but itself.
fn keep(store: &Path, session: &SessionId, file: &Path) -> Result<Checked, Box<dyn std::error::Error>> {
    let store = Store::open(store, StoreOptions { access: Access::Read, ..StoreOptions::default() })?;
    Ok(write_test(&store, session, file)?)
}

/// What a changed prompt reaches: the first decision that would be another one.
fn changed(store: &Path, session: &SessionId, prompt: &str) -> Result<Option<String>, Box<dyn std::error::Error>> {
    let store = Store::open(store, StoreOptions { access: Access::Read, ..StoreOptions::default() })?;
    let difference = Replay::open(&store, session)?.prompt(prompt).first_difference();
    Ok(difference.map(|difference| difference.to_string()))
}

/// The whole of it, in a folder: what was checked, and what an equal and another prompt come to.
pub async fn recorded(folder: &Path) -> Result<(Checked, [Option<String>; 2]), Box<dyn std::error::Error>> {
    let (store, session, file) = (folder.join("tapes"), "order-7".parse()?, folder.join("order-7.jsonl"));
    record(&store, &session).await?;
    keep(&store, &session, &file)?;
    // This line is your test.
    let checked = check(&file)?;
    let prompts = [PROMPT, "You answer for the shop, in one word."];
    let [same, other] = prompts.map(|prompt| changed(&store, &session, prompt));
    Ok((checked, [same?, other?]))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (checked, [same, other]) = recorded(folder.path()).await?;
    println!("{} entries and {} decisions are as they were", checked.entries, checked.decisions);
    println!("with the same prompt: {}", same.unwrap_or_else(|| "no difference".to_owned()));
    println!("with another prompt: {}", other.unwrap_or_else(|| "no difference".to_owned()));
    Ok(())
}
