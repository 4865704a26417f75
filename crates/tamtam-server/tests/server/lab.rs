//! One server in a folder of its own, and its client.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tamtam::{
    Runtime, SessionOptions,
    model::{Model, Reply, Request, Scripted, transcript},
    permission::{Action, Rule, Ruleset},
    runtime::Leftover,
    tool::{self, Effect},
};
use tamtam_server::{Bound, Server, ServerOptions, serve};
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
};

pub use crate::client::{Client, Frame, LONG, Stream};

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// What to note.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Empty {}

/// What the tests let a tool wait for.
#[derive(Default)]
pub struct Gate {
    open: Notify,
    pub entered: Notify,
}

impl Gate {
    pub fn open(&self) {
        self.open.notify_waiters();
        self.open.notify_one();
    }
}

/// The last words of a user decide what the model does: `note X` calls a tool that asks, `read` one that is allowed, `gate` one that
/// waits, `boom` one that panics; all else is echoed. Behind a result it says that it is done.
pub fn reply(request: &Request) -> Reply {
    let said = transcript(request);
    let last = said.lines().next_back().unwrap_or_default();
    let Some(words) = last.strip_prefix("user: ") else { return Reply::text("done") };
    match words.split_once(' ').unwrap_or((words, "")) {
        ("note", text) => Reply::call("note", json!({ "text": text })),
        ("read", _) => Reply::call("read_all", json!({})),
        ("gate", _) => Reply::call("gate", json!({})).with_call("read_all", json!({})),
        ("boom", _) => Reply::call("boom", json!({})),
        ("barrier", name) => Reply::text("held").at_barrier(name),
        ("hang", _) => Reply::hang(),
        _ => Reply::text(format!("echo: {words}")),
    }
}

pub struct Lab {
    pub folder: tempfile::TempDir,
    pub runtime: Runtime,
    pub server: Server,
    pub gate: Arc<Gate>,
    pub client: Client,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Leftover>,
}

/// The rules of a session of the tests.
pub fn rules() -> Ruleset {
    let rule = |tool, action| Rule::new(tool, "*", action);
    Ruleset::new(
        "lab",
        vec![
            rule("note", Action::Ask),
            rule("read_all", Action::Allow),
            rule("gate", Action::Allow),
            rule("boom", Action::Allow),
            rule("task", Action::Allow),
        ],
    )
}

/// Options under which an operator's client may choose everything.
pub fn open(folder: &std::path::Path) -> ServerOptions {
    let folder = folder.to_owned();
    let mut options = ServerOptions::default().new_session(move |new, _| {
        let mut options = SessionOptions::new(new.workspace.clone().unwrap_or(folder.clone())).rules(rules());
        options.asks_wait = new.asks_wait.unwrap_or(true);
        if let Some(budget) = &new.budget {
            budget.apply(&mut options.budget);
        }
        Ok(options)
    });
    options.tree_interval = Duration::from_millis(20);
    options.drain_time_max = Duration::from_secs(5);
    options
}

impl Deref for Lab {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Lab {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Lab {
    pub async fn new() -> Lab {
        Lab::with(|options| options).await
    }

    pub async fn with(change: impl FnOnce(ServerOptions) -> ServerOptions) -> Lab {
        Lab::over(tempfile::tempdir().unwrap(), change).await
    }

    pub async fn over(folder: tempfile::TempDir, change: impl FnOnce(ServerOptions) -> ServerOptions) -> Lab {
        let model = Arc::new(Scripted::from_fn(reply));
        let gate = Arc::new(Gate::default());
        let runtime = runtime(&folder, model.clone(), gate.clone()).await;
        let server = Server::new(runtime.clone()).with(change(open(folder.path())));
        let bound = Bound::tcp("127.0.0.1:0".parse().unwrap(), &server).await.unwrap();
        let client = Client { at: bound.address().unwrap().into() };
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(server.clone(), bound, async { drop(stopped.await) }));
        Lab { folder, runtime, server, gate, client, stop, served }
    }

    /// Ends the server as a signal would, and gives its folder.
    pub async fn end(self) -> tempfile::TempDir {
        self.gate.open();
        self.stop.send(()).unwrap();
        let leftover = tokio::time::timeout(LONG, self.served).await.unwrap().unwrap();
        assert!(leftover.is_empty(), "{leftover:?}");
        self.folder
    }

    /// Tells the server to end, and does not wait for it.
    pub fn stop(self) -> (JoinHandle<Leftover>, tempfile::TempDir) {
        self.stop.send(()).unwrap();
        (self.served, self.folder)
    }
}

fn boom() -> String {
    panic!("the words of boom")
}

pub async fn runtime(folder: &tempfile::TempDir, model: Arc<dyn Model>, gate: Arc<Gate>) -> Runtime {
    let note = tool::typed("note", "Notes.", |Note { text }, _| async move { format!("noted {text}") });
    let read = tool::typed("read_all", "Reads.", |Empty {}, _| async move { "all of it" });
    let boom = tool::typed("boom", "Panics.", |Empty {}, _| async move { boom() });
    let wait = tool::typed("gate", "Waits.", move |Empty {}, _| {
        let gate = gate.clone();
        async move {
            let open = gate.open.notified();
            gate.entered.notify_one();
            open.await;
            "went through"
        }
    });
    let builder = Runtime::builder().store(folder.path().join("tapes")).model(model).with_tasks();
    builder.tool(note).tool(boom).tool(read.effect(Effect::Read)).tool(wait.effect(Effect::Read)).start().await.unwrap()
}
