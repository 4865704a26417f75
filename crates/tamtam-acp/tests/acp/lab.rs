//! A runtime with a model that does what it is told, and clients that speak the protocol by hand.

use std::{collections::VecDeque, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    Runtime, SessionOptions,
    model::{ErrorKind, ModelError, Reply, Request, Scripted, transcript},
    permission::{Action, Rule, Ruleset},
    tool::{self, NoArguments, Question},
};
use tamtam_acp::{AcpOptions, UnsavedFiles, serve};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split},
    sync::Notify,
    task::JoinHandle,
};

/// After that long a test is stuck.
pub const LONG: Duration = Duration::from_secs(60);

/// What the tests let a tool wait for.
#[derive(Default)]
pub struct Gate {
    pub entered: Notify,
    pub open: Notify,
}

/// The last words of a user decide what the model does; behind a result it says that it is done.
fn reply(request: &Request) -> Reply {
    let said = transcript(request);
    let last = said.lines().next_back().unwrap_or_default();
    let Some(words) = last.strip_prefix("user: ") else { return Reply::text("All ").with_text("done.") };
    match words.split_once(' ').unwrap_or((words, "")) {
        ("write", text) => Reply::text("I write.").with_call("write", json!({ "path": "a.txt", "content": text })),
        ("alias", text) => Reply::call("write", json!({ "file": "a.txt", "content": text })),
        ("outside", _) => Reply::call("write", json!({ "path": "../outside.txt", "content": "x" })),
        ("read", _) => Reply::call("look", json!({})),
        ("see", _) => Reply::call("read", json!({ "path": "a.txt" })),
        ("gate", _) => Reply::call("gate", json!({})).with_call("look", json!({})),
        ("question", _) => Reply::call("question", json!({})),
        ("todo", _) => Reply::call("todo_write", json!({ "todos": [{ "content": "one", "status": "pending" }] })),
        ("hang", _) => Reply::hang(),
        ("fail", _) => Reply::error(no_key()),
        ("flood", _) => (0..2_000).fold(Reply::text("0 "), |reply, n| reply.with_text(format!("{n} "))),
        _ => Reply::empty().with_reasoning("Hm.").with_text("You said: ").with_text(words),
    }
}

fn no_key() -> ModelError {
    ModelError::new(ErrorKind::Auth, "no such key")
}

pub fn rules() -> Ruleset {
    let rule = |tool, action| Rule::new(tool, "*", action);
    let allowed = ["look", "gate", "question", "todo", "read"].map(|tool| rule(tool, Action::Allow));
    Ruleset::new("lab", [vec![rule("*", Action::Ask)], allowed.to_vec()].concat())
}

pub struct Lab {
    pub folder: tempfile::TempDir,
    pub runtime: Runtime,
    pub gate: Arc<Gate>,
    /// Where a test looks for what editors have not saved.
    pub unsaved: UnsavedFiles,
}

pub async fn runtime(folder: &Path, gate: &Arc<Gate>, unsaved: &UnsavedFiles) -> Runtime {
    let waits = gate.clone();
    let gate = tool::typed("gate", "Waits until it is let go.", move |_: NoArguments, _| {
        let waits = waits.clone();
        async move {
            waits.entered.notify_one();
            waits.open.notified().await;
            "opened"
        }
    });
    let look = tool::typed("look", "Looks.", |_: NoArguments, _| async { "seen" });
    let question = tool::typed("question", "Asks a person.", |_: NoArguments, cx| async move {
        cx.ask(Question::new("Go on?").with_details("It takes long.")).await.to_string()
    });
    let tools = tamtam::tools::with_todos(&tamtam::tools::full()).with(gate).with(look).with(question);
    let model = Arc::new(Scripted::from_fn(reply));
    let builder = Runtime::builder().store(folder.join("store")).model(model).tools(tools).hook(unsaved.clone());
    builder.without_auto_resume().start().await.unwrap()
}

pub fn options() -> AcpOptions {
    AcpOptions::default()
        .new_session(|folder| Ok(SessionOptions::new(folder).rules(rules()).asks_wait(true)))
        .rights(|_, profile| Ok(vec![profile.ruleset()]))
}

impl Lab {
    pub async fn new() -> Lab {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let (gate, unsaved) = (Arc::new(Gate::default()), UnsavedFiles::new());
        Lab { runtime: runtime(folder.path(), &gate, &unsaved).await, folder, gate, unsaved }
    }

    pub fn work(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    /// A client that has said hello.
    pub async fn client(&self) -> Client {
        self.client_with(options(), json!({ "session": { "notices": {} } })).await
    }

    pub async fn client_with(&self, options: AcpOptions, capabilities: Value) -> Client {
        let mut client = self.stranger(options);
        let hello = json!({
            "protocolVersion": 1, "clientCapabilities": capabilities,
            "clientInfo": { "name": "lab", "version": "1" },
        });
        client.ask("initialize", hello).await.unwrap();
        client
    }

    /// A client that has said nothing.
    pub fn stranger(&self, options: AcpOptions) -> Client {
        let (here, there) = tokio::io::duplex(4_096);
        let (input, output) = split(there);
        let served = tokio::spawn(serve(self.runtime.clone(), options, input, output));
        let (read, write) = split(here);
        Client { read: BufReader::new(read).lines(), write: Some(write), next: 0, heard: VecDeque::new(), served }
    }

    /// The agent's process dies, and another one comes.
    pub async fn restarted(self) -> Lab {
        assert!(self.runtime.shutdown().await.is_empty());
        let (gate, unsaved) = (Arc::new(Gate::default()), UnsavedFiles::new());
        Lab { runtime: runtime(self.folder.path(), &gate, &unsaved).await, folder: self.folder, gate, unsaved }
    }

    pub async fn end(self) {
        self.gate.open.notify_waiters();
        let left = self.runtime.shutdown().await;
        assert!(left.is_empty(), "{left:?}");
    }
}

/// A client that speaks by hand. What the agent sends meanwhile is kept in order.
pub struct Client {
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: Option<WriteHalf<DuplexStream>>,
    next: u64,
    heard: VecDeque<Value>,
    served: JoinHandle<Result<(), tamtam_acp::ServeError>>,
}

impl Client {
    pub async fn line(&mut self, line: impl AsRef<[u8]>) {
        let write = self.write.as_mut().unwrap();
        write.write_all(line.as_ref()).await.unwrap();
        write.write_all(b"\n").await.unwrap();
    }

    /// Sends a request, and gives its id.
    pub async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let frame = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.line(frame.to_string()).await;
        self.next
    }

    pub async fn tell(&mut self, method: &str, params: Value) {
        self.line(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()).await;
    }

    async fn frame(&mut self) -> Value {
        let line = tokio::time::timeout(LONG, self.read.next_line()).await.expect("the agent says nothing").unwrap();
        let frame: Value = serde_json::from_str(&line.expect("the agent has gone")).unwrap();
        assert_eq!(frame["jsonrpc"], "2.0", "{frame}");
        frame
    }

    /// The first frame, of those that were kept and those that come, for which this holds. The others are kept.
    pub async fn wait_for(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.heard.iter().position(&is_it) {
            return self.heard.remove(at).unwrap();
        }
        loop {
            let frame = self.frame().await;
            if is_it(&frame) {
                return frame;
            }
            self.heard.push_back(frame);
        }
    }

    /// The answer to a request.
    pub async fn answer(&mut self, id: u64) -> Result<Value, Value> {
        let answer = self.wait_for(|frame| frame["id"] == id && frame.get("method").is_none()).await;
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    pub async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    /// The next request of the agent of this method.
    pub async fn asked(&mut self, method: &str) -> Value {
        self.wait_for(|frame| frame["method"] == method && frame.get("id").is_some()).await
    }

    /// Answers a request of the agent.
    pub async fn reply(&mut self, request: &Value, result: Value) {
        self.line(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string()).await;
    }

    /// Chooses an option of a permission request by the end of its id.
    pub async fn choose(&mut self, request: &Value, ending: &str) {
        let options = request["params"]["options"].as_array().unwrap();
        let id = options.iter().map(|option| option["optionId"].as_str().unwrap()).find(|id| id.ends_with(ending));
        let id = id.unwrap_or_else(|| panic!("{ending} is none of {options:?}"));
        self.reply(request, json!({ "outcome": { "outcome": "selected", "optionId": id } })).await;
    }

    pub async fn new_session(&mut self, folder: &Path) -> String {
        let made = self.ask("session/new", json!({ "cwd": folder, "mcpServers": [] })).await.unwrap();
        made["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt, and gives the id of the request.
    pub async fn prompt(&mut self, session: &str, words: &str) -> u64 {
        self.send("session/prompt", said(session, words)).await
    }

    /// The updates that were kept, taken, of one kind.
    pub fn updates(&mut self, kind: &str) -> Vec<Value> {
        let is_it = |frame: &Value| frame["params"]["update"]["sessionUpdate"] == kind;
        let (taken, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.heard).into_iter().partition(is_it);
        self.heard = rest.into();
        taken.into_iter().map(|frame| frame["params"]["update"].clone()).collect()
    }

    /// The text of the updates of this kind.
    pub fn text(&mut self, kind: &str) -> String {
        self.updates(kind).iter().map(|update| update["content"]["text"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits for an update for which this holds.
    pub async fn update(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let frame =
            self.wait_for(|frame| frame["method"] == "session/update" && is_it(&frame["params"]["update"])).await;
        frame["params"]["update"].clone()
    }

    /// The client dies.
    pub async fn die(mut self) {
        drop(self.write.take());
        drop(self.read);
        tokio::time::timeout(LONG, self.served).await.unwrap().unwrap().ok();
    }
}

pub fn said(session: &str, words: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": words }] })
}
