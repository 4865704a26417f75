//! An effect outside of the process, made once: a tool that pays. It checks first, and commits under a key, so a crash anywhere pays
//! once.
//!
//! `cargo run --example payment`: no key, no network. The bank takes the payment and never answers; the process ends in mid-call; the
//! next one carries the same call out again, with the same key, and finds it paid.
//!
//! The pattern, for whatever cannot be taken back:
//!
//! 1. The key is [`ToolContext::key`]: it belongs to the call, is on the tape before the call runs, and is the same when the call runs
//!    again after a crash.
//! 2. *Check*: ask the other side what it knows under the key. What is done is the result, and nothing is sent.
//! 3. *Commit*: send it with the key, so that the other side does it once, whoever asks how often.
//! 4. Say so: [`Effect::Idempotent`]. Where the other side knows no keys, leave [`Effect::Once`]: the call never runs again, and the model
//!    learns that the outcome is unknown and must be checked.

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};
use tamtam::{
    Runtime, Session, SessionId, SessionOptions,
    model::{BoxFuture, Item, Reply, Request, Scripted},
    permission::Profile,
    tool::{Effect, Tool, ToolContext, ToolResult},
};
use tokio::sync::Notify;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The other side: a bank that does each payment once, by its key.
#[derive(Default)]
pub struct Bank {
    /// The amounts, by key.
    paid: Mutex<BTreeMap<String, u64>>,
    /// How often it was asked to pay.
    asked: Mutex<u32>,
    took_one: Notify,
    /// Whether its answers get lost.
    pub is_silent: bool,
}

impl Bank {
    fn knows(&self, key: &str) -> Option<u64> {
        self.paid.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    async fn pay(&self, key: &str, amount: u64) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.paid.lock().unwrap_or_else(PoisonError::into_inner).entry(key.to_owned()).or_insert(amount);
        self.took_one.notify_one();
        if self.is_silent {
            std::future::pending::<()>().await;
        }
    }

    /// What was paid in all, and how often it was asked to.
    pub fn paid(&self) -> (u64, u32) {
        let paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner).values().sum();
        (paid, *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Pay(Arc<Bank>);

impl Tool for Pay {
    fn name(&self) -> &str {
        "pay"
    }

    fn description(&self) -> &str {
        "Pays an amount."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object", "properties": { "amount": { "type": "integer" } }, "required": ["amount"] })
    }

    fn effect(&self) -> Effect {
        Effect::Idempotent
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let Some(amount) = arguments["amount"].as_u64() else { return ToolResult::error("amount is a number") };
            if let Some(known) = self.0.knows(&context.key) {
                return ToolResult::ok(format!("{known} were paid before."));
            }
            self.0.pay(&context.key, amount).await;
            ToolResult::ok(format!("{amount} are paid."))
        })
    }
}

/// A model that pays once, and says what came of it.
fn reply(request: &Request) -> Reply {
    match request.history.iter().last().map(AsRef::as_ref) {
        Some(Item::Result(result)) => Reply::text(format!("Done: {}", result.content)),
        _ => Reply::call("pay", json!({ "amount": 100 })),
    }
}

async fn start(store: &Path, bank: &Arc<Bank>) -> Result<Runtime> {
    let model = Arc::new(Scripted::from_fn(reply));
    Ok(Runtime::builder().store(store).model(model).tool(Pay(bank.clone())).start().await?)
}

/// Pays over a bank whose first answer is lost with the process, and writes what happened. Returns what was paid, and how often the
/// bank was asked.
pub async fn payment(store: &Path, out: &mut (impl Write + Send)) -> Result<(u64, u32)> {
    let id: SessionId = "order-7".parse()?;
    let bank = Arc::new(Bank { is_silent: true, ..Bank::default() });
    let runtime = start(store, &bank).await?;
    let session = runtime.create(SessionOptions::new(".").id(id.clone()).profile(Profile::Auto)).await?;
    session.prompt("Pay the bill.").await?;
    bank.took_one.notified().await;
    writeln!(out, "the bank has taken {}, and its answer is lost", bank.paid().0)?;
    runtime.shutdown().await;

    // The next process. It goes on with the turn that was cut off, and with the call.
    let runtime = start(store, &bank).await?;
    let session: Session = runtime.open(&id).await?;
    session.wait().await?;
    let said = session.messages().await?.last().map(tamtam::Message::text).unwrap_or_default();
    writeln!(out, "{said}")?;
    writeln!(out, "the bank has taken {} in all", bank.paid().0)?;
    runtime.shutdown().await;
    Ok(bank.paid())
}

#[tokio::main]
async fn main() -> Result {
    let store = std::env::temp_dir().join(format!("payment-{}", std::process::id()));
    let done = payment(&store, &mut std::io::stdout()).await;
    std::fs::remove_dir_all(&store)?;
    done.map(drop)
}
