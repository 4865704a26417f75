//! A test of your own agent by a recorded tape. Record a conversation once and keep it next to your tests. From then on the tests
//! make every decision of the conversation again, with the agent of today. They ask no model and run no tool.
//!
//! `cargo run --example recorded`: no key, no network.

use std::{path::Path, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tamtam::{
    Runtime, SessionId, SessionOptions,
    model::{Reply, Scripted},
    ops::replay::{Checked, Difference, Replay, check, write_test},
    permission::Profile,
    tape::{Store, StoreOptions, TapeAccess},
    tool::{self, Tool, Toolbox},
};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The prompt of the agent under test. Your program has it already.
pub const PROMPT: &str = "You answer for the shop. Look up each order before you speak of it.";

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The number of the order.
    number: u32,
}

/// Its tools.
pub fn tools() -> Toolbox {
    let look_up = tool::typed("look_up", "Looks up an order.", |Order { number }, _cx| async move {
        format!("order {number}: two gongs, sent on Monday")
    });
    Toolbox::new([Arc::new(look_up) as Arc<dyn Tool>])
}

/// Once, by hand: has the conversation and keeps its tape. A real model may replace the scripted one. The `tapes` are the
/// recording; the `file` is a copy in one piece, which needs nothing but itself.
pub async fn record(tapes: &Path, session: &SessionId, file: &Path) -> Result<(), Failed> {
    let replies = [Reply::call("look_up", json!({ "number": 7 })), Reply::text("Your gongs were sent on Monday.")];
    let model = Arc::new(Scripted::new(replies));
    let runtime = Runtime::builder().store(tapes).model(model).tools(tools()).start().await?;
    let options = SessionOptions::new(".").id(session.clone()).profile(Profile::Auto).system(PROMPT);
    runtime.create(options).await?.prompt("Where is order 7?").await?.wait().await?;
    assert!(runtime.shutdown().await.is_empty());
    write_test(&reading(tapes)?, session, file)?;
    Ok(())
}

fn reading(tapes: &Path) -> Result<Store, Failed> {
    Ok(Store::open(tapes, StoreOptions::default().access(TapeAccess::Read))?)
}

/// A test of the version of tamtam: it decides the same as the version that recorded the file. A difference is an error.
pub fn tamtam_decides_the_same(file: &Path) -> Result<Checked, Failed> {
    Ok(check(file)?)
}

/// A test of the agent: the first decision that would be another one with this prompt and these tools, or `None`.
pub fn first_difference(
    tapes: &Path,
    session: &SessionId,
    prompt: &str,
    tools: Toolbox,
) -> Result<Option<Difference>, Failed> {
    Ok(Replay::open(&reading(tapes)?, session)?.prompt(prompt).toolbox(tools).first_difference())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (tapes, file, session) =
        (folder.path().join("tapes"), folder.path().join("order-7.replay"), "order-7".parse()?);
    record(&tapes, &session, &file).await?;

    let checked = tamtam_decides_the_same(&file)?;
    println!("{} entries and {} decisions are as they were", checked.entries, checked.decisions);
    for (what, prompt, tools) in [
        ("the agent as it is", PROMPT, tools()),
        ("another prompt", "You answer for the shop, in one word.", tools()),
        ("no tools", PROMPT, Toolbox::default()),
    ] {
        let difference = first_difference(&tapes, &session, prompt, tools)?;
        println!("{what}: {}", difference.map_or("no difference".to_owned(), |difference| difference.to_string()));
    }
    Ok(())
}
