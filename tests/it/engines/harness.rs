//! A runtime over an engine of tapes, with a model and tools that the claims need: what the claims of `turns.rs` and `tapes.rs` share.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Message, Outcome, Runtime, Session, SessionOptions,
    model::{BoxFuture, Item, Reply, Request, Scripted},
    permission::Profile,
    runtime::Builder,
    session::{Entry, Record},
    tool::{Tool, ToolContext, ToolResult},
};

use crate::support::bomb::Bomb;

/// What keeps the tapes of a test, while its runtimes come and go.
pub(crate) trait Keeps {
    fn name(&self) -> &'static str;

    fn is_files(&self) -> bool {
        false
    }

    /// Whether it keeps an index of words.
    fn searches(&self) -> bool {
        self.is_files()
    }

    /// A runtime over it, which may keep files in the folder.
    fn keep(&self, builder: Builder, folder: &Path) -> Builder;
}

/// An engine with a folder to work in.
pub(crate) struct Engine<K> {
    pub(crate) kept: K,
    pub(crate) folder: tempfile::TempDir,
}

impl<K: Keeps> Engine<K> {
    pub(crate) fn of(kept: K) -> Engine<K> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Engine { kept, folder }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.kept.name()
    }

    pub(crate) fn is_files(&self) -> bool {
        self.kept.is_files()
    }

    pub(crate) fn searches(&self) -> bool {
        self.kept.searches()
    }

    pub(crate) fn builder(&self) -> Builder {
        self.kept.keep(Runtime::builder().model(Arc::new(Scripted::from_fn(reply))), self.folder.path())
    }

    /// A runtime over these tapes, with the tools that the scripts call.
    pub(crate) async fn start(&self) -> (Runtime, Tools) {
        let tools = Tools::default();
        let runtime =
            self.builder().tool(tools.gate.clone()).tool(tools.bomb.clone()).tool(Large).start().await.unwrap();
        tools.bomb.arm(&runtime);
        tools.bomb.goes_off(1);
        (runtime, tools)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn options(&self) -> SessionOptions {
        SessionOptions::new(self.work()).id("s".parse().unwrap()).profile(Profile::Auto)
    }
}

#[derive(Default)]
pub(crate) struct Tools {
    pub(crate) gate: Gate,
    pub(crate) bomb: Bomb,
}

/// A call that waits until it is let go on, or stopped.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) open: Arc<tokio::sync::Semaphore>,
    pub(crate) running: Arc<tokio::sync::Semaphore>,
}

impl Default for Gate {
    fn default() -> Gate {
        let closed = || Arc::new(tokio::sync::Semaphore::new(0));
        Gate { open: closed(), running: closed() }
    }
}

impl Gate {
    /// Returns when one more call runs.
    pub(crate) async fn is_running(&self) {
        let running = tokio::time::timeout(Duration::from_secs(60), self.running.acquire()).await;
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
pub(crate) struct Large;

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
pub(crate) fn reply(request: &Request) -> Reply {
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

pub(crate) async fn say(session: &Session, text: &str) -> String {
    let answer = session.prompt(Message::user(text).with_id(text.into())).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done, "{text}");
    answer.text
}

/// The conversation as the model sees it, a line an item.
pub(crate) async fn seen(session: &Session) -> Vec<String> {
    let state = session.state().await.unwrap();
    let line = |item: &Item| match item {
        Item::User(user) => user.text(),
        Item::Assistant(answer) => answer.text(),
        Item::Result(result) => result.content.to_string(),
        other => format!("{other:?}"),
    };
    state.history.iter().map(|item| line(item)).collect()
}

pub(crate) async fn count(session: &Session, which: impl Fn(&Record) -> bool) -> usize {
    session.entries().await.unwrap().iter().filter(|entry: &&Entry| which(&entry.record)).count()
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), waited).await.is_ok(), "it never came to be: {what}");
}
