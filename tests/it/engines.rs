//! What a host can rely on over any engine: one list of claims, tested over each.
//!
//! The engines: files in both durabilities, memory, and a host's own engine that answers every append later, from its
//! own thread.
//! | file | contents |
//! |---|---|
//! | `plain.rs` | the plainest engine that a host could write: what an engine owes, and nothing else |
//! | `own.rs` | the host's own engine: the plain one behind a thread, which refuses on demand |
//! | `turns.rs` | messages, calls, crashes, recovery |
//! | `tapes.rs` | sleep, parking, forks, merges, going back, compaction, budgets, lists |
//! | `refusing.rs` | an engine that accepts nothing for a while, or cannot be read |
//! | `panicking.rs` | an engine that panics in a method |
//! | `later.rs` | appends that are on their way when an incarnation ends |
//! | `full.rs` | memory that is full |
//! | `nothing.rs` | in memory nothing is written |

mod full;
mod later;
mod nothing;
mod own;
mod panicking;
pub(crate) mod plain;
mod refusing;
mod tapes;
mod turns;

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    Message, Outcome, Runtime, Session, SessionOptions,
    model::{BoxFuture, Item, Reply, Request, Scripted},
    permission::Profile,
    runtime::Builder,
    session::{Entry, Record},
    tape::{Durability, MemoryStore},
    tool::{Tool, ToolContext, ToolResult},
};

use crate::support::bomb::Bomb;
use own::Own;

/// Where the tapes of a test are, and stay while its runtimes come and go.
#[derive(Clone)]
enum Kept {
    Files(Durability),
    Memory(MemoryStore),
    Own(Own),
}

/// An engine with a folder to work in.
struct Engine {
    kept: Kept,
    folder: tempfile::TempDir,
}

/// Tells a claim about each engine, one after the other.
async fn each_engine(claim: impl AsyncFn(&Engine)) {
    let engines = [
        Kept::Files(Durability::Process),
        Kept::Files(Durability::Power),
        Kept::Memory(MemoryStore::new()),
        Kept::Own(Own::new()),
    ];
    for kept in engines {
        let engine = Engine::of(kept);
        println!("over {}", engine.name());
        claim(&engine).await;
    }
}

impl Engine {
    fn of(kept: Kept) -> Engine {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Engine { kept, folder }
    }

    fn name(&self) -> &'static str {
        match &self.kept {
            Kept::Files(Durability::Process) => "files",
            Kept::Files(Durability::Power) => "files, Power",
            Kept::Files(other) => panic!("{other:?} has no name here"),
            Kept::Memory(_) => "memory",
            Kept::Own(_) => "an engine of the host's own",
        }
    }

    fn is_files(&self) -> bool {
        matches!(self.kept, Kept::Files(_))
    }

    fn builder(&self) -> Builder {
        let builder = Runtime::builder().model(Arc::new(Scripted::from_fn(reply)));
        match &self.kept {
            Kept::Files(durability) => builder.store(self.folder.path().join("store")).durability(*durability),
            Kept::Memory(memory) => builder.tapes(Arc::new(memory.clone())),
            Kept::Own(own) => builder.tapes(Arc::new(own.clone())),
        }
    }

    /// A runtime over these tapes, with the tools that the scripts call.
    async fn start(&self) -> (Runtime, Tools) {
        let tools = Tools::default();
        let runtime =
            self.builder().tool(tools.gate.clone()).tool(tools.bomb.clone()).tool(Large).start().await.unwrap();
        tools.bomb.arm(&runtime);
        tools.bomb.goes_off(1);
        (runtime, tools)
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn options(&self) -> SessionOptions {
        SessionOptions::new(self.work()).id("s".parse().unwrap()).profile(Profile::Auto)
    }
}

#[derive(Default)]
struct Tools {
    gate: Gate,
    bomb: Bomb,
}

/// A call that waits until it is let go on, or stopped.
#[derive(Clone)]
struct Gate {
    open: Arc<tokio::sync::Semaphore>,
    running: Arc<tokio::sync::Semaphore>,
}

impl Default for Gate {
    fn default() -> Gate {
        let closed = || Arc::new(tokio::sync::Semaphore::new(0));
        Gate { open: closed(), running: closed() }
    }
}

impl Gate {
    /// Returns when one more call runs.
    async fn is_running(&self) {
        let running = tokio::time::timeout(Duration::from_secs(30), self.running.acquire()).await;
        running.expect("a call is to run").unwrap().forget();
    }
}

impl Tool for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn description(&self) -> &str {
        "Waits."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            self.running.add_permits(1);
            tokio::select! {
                opened = self.open.acquire() => opened.unwrap().forget(),
                () = context.cancelled() => {}
            }
            ToolResult::ok("through the gate")
        })
    }
}

/// A call that says more than a model may read.
struct Large;

impl Tool for Large {
    fn name(&self) -> &str {
        "large"
    }

    fn description(&self) -> &str {
        "Says much."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("line\n".repeat(100_000)) })
    }
}

/// What the model says: to `call X` a call of that tool, to `calls X` two of them, to `hang` nothing at all, to all else that
/// it was said.
fn reply(request: &Request) -> Reply {
    let newest = request.history.last().map(|item| match &**item {
        Item::User(user) => user.text(),
        _ => String::new(),
    });
    let newest = newest.unwrap_or_default();
    match newest.split_once(' ') {
        Some(("call", tool)) => Reply::call(tool, json!({})),
        Some(("calls", tool)) => Reply::call(tool, json!({})).with_call(tool, json!({})),
        Some(("long", _)) => Reply::text("word ".repeat(250)),
        _ if newest == "hang" => Reply::hang(),
        _ if newest.is_empty() => Reply::text("that is all"),
        _ => Reply::text(format!("re {newest}")),
    }
}

async fn say(session: &Session, text: &str) -> String {
    let answer = session.prompt(Message::user(text).with_id(text.into())).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done, "{text}");
    answer.text
}

/// The conversation as the model sees it, a line an item.
async fn seen(session: &Session) -> Vec<String> {
    let state = session.state().await.unwrap();
    let line = |item: &Item| match item {
        Item::User(user) => user.text(),
        Item::Assistant(answer) => answer.text(),
        Item::Result(result) => result.content.to_string(),
        other => format!("{other:?}"),
    };
    state.history.iter().map(|item| line(item)).collect()
}

async fn count(session: &Session, which: impl Fn(&Record) -> bool) -> usize {
    session.entries().await.unwrap().iter().filter(|entry: &&Entry| which(&entry.record)).count()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), waited).await.is_ok(), "it never came to be: {what}");
}
