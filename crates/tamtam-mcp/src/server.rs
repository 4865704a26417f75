//! One server as its users share it: its connection while there is one, who uses it, what it offers, and what the tree shows.
//!
//! A [`Server`] outlives its process and each incarnation of its actor (`life.rs`). A user is counted before it looks for the
//! connection, and the actor gives a connection up only after it has looked for users: so nobody is handed one that is going. A user
//! waits for one try to start the server, and gets that try's error. Nothing here starts a process or opens a socket.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json};
use tamtam::{
    supervisor::{NodeState, Payload, Status},
    tool::ToolContext,
};
use tokio::sync::watch;

use crate::{
    ask,
    config::ServerConfig,
    connection::{Connection, RequestError},
    hello::Hello,
    message::Rejected,
    offer::{Offer, Refused},
    secrets::Secrets,
    tail::Tail,
};

/// How often a call may be asked for more before its result.
const ROUNDS_MAX: usize = 8;
/// How many questions one answer may have.
const QUESTIONS_MAX: usize = 8;
/// How many refused tools the tree shows.
const REFUSED_SHOWN_MAX: usize = 8;
/// How often a waiting user looks whether the server is parked.
const LOOK: Duration = Duration::from_millis(250);
/// The longest wait of its supervisor before a start, with a little room.
const BACKOFF_MAX: Duration = Duration::from_secs(31);

/// Where a server is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// It has no process; a call starts it.
    #[default]
    Asleep,
    /// Its process runs and has not listed its tools yet.
    Starting,
    /// It takes calls.
    Ready,
    /// Its process ended, or did not start. It is started again after a wait, if a call wants it.
    Down,
}

/// What the node of a server shows in the tree and in crash reports. Reading it changes nothing.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ServerFigures {
    /// Where it is in its life.
    pub phase: Phase,
    /// The id of its process, while it has one.
    pub pid: Option<i32>,
    /// Its name and version, in its own words.
    pub server: String,
    /// The version of MCP that it speaks.
    pub protocol: String,
    /// Calls that use it now, also those that wait for its start.
    pub in_flight: usize,
    /// Calls since the runtime started.
    pub calls: u64,
    /// How many tools it offers.
    pub tools: usize,
    /// How many of its tools are not offered.
    pub refused: usize,
    /// Why: the first eight.
    pub refusals: Vec<Refused>,
    /// Messages that nobody had asked for, on this connection.
    pub unasked: u64,
    /// The last lines of its standard error: eight at most, of 256 bytes each.
    pub last_words: Vec<String>,
}

impl Payload for ServerFigures {
    fn facts(&self) -> Vec<String> {
        let mut facts = vec![
            match self.phase {
                Phase::Asleep => "asleep",
                Phase::Starting => "starting",
                Phase::Ready => "ready",
                Phase::Down => "down",
            }
            .to_owned(),
        ];
        facts.extend(self.pid.map(|pid| format!("pid {pid}")));
        facts.push(format!("{} of {} calls running", self.in_flight, self.calls));
        facts.push(format!("{} tools", self.tools));
        facts.extend((self.refused > 0).then(|| format!("{} refused", self.refused)));
        facts.extend((self.unasked > 0).then(|| format!("{} unasked messages", self.unasked)));
        facts.extend(self.last_words.last().map(|line| format!("stderr: {line}")));
        facts
    }

    fn fields(&self) -> Value {
        json!({ "mcp": self })
    }
}

/// Whether there is a connection.
#[derive(Clone)]
enum Link {
    None,
    Up(Arc<Connection>),
}

/// The link, and how often a start or a connection failed, with the last reason.
struct State {
    link: Link,
    failures: u64,
    why: Arc<str>,
}

/// Why a call did not reach its server, or did not come back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the MCP server {server} is not started: {why}")]
    Unavailable { server: String, why: Arc<str> },
    #[error("the MCP server {server} did not answer: {why}. It is started again at the next call")]
    Lost { server: String, why: Arc<str> },
    #[error("the MCP server {server} did not answer: {why}")]
    Broken { server: String, why: Arc<str> },
    #[error("the MCP server {server} refused the call: {why}")]
    Refused { server: String, why: Rejected },
    #[error("the MCP server {server} asked {ROUNDS_MAX} times and gave no result")]
    Insatiable { server: String },
}

/// One server.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    state: watch::Sender<State>,
    users: watch::Sender<usize>,
    /// `None` until the server has listed its tools once.
    offer: Mutex<Option<Arc<Offer>>>,
    /// Counts the changes of offers of all servers.
    changes: watch::Sender<u64>,
    calls: AtomicU64,
    seen: Mutex<Seen>,
    /// What was sent to it and is shown to nobody.
    pub(crate) secrets: Arc<Secrets>,
}

#[derive(Default)]
struct Seen {
    node: Option<Arc<NodeState>>,
    phase: Phase,
    pid: Option<i32>,
    hello: Hello,
    tail: Tail,
}

/// A user of a server: while there is one, the server is not put to sleep.
pub(crate) struct User<'a>(&'a Server);

impl Server {
    pub(crate) fn new(config: ServerConfig, changes: watch::Sender<u64>) -> Server {
        let why = "no runtime has it: Servers::start_in puts it there".into();
        Server {
            config,
            state: watch::Sender::new(State { link: Link::None, failures: 0, why }),
            users: watch::Sender::new(0),
            secrets: Arc::default(),
            offer: Mutex::default(),
            changes,
            calls: AtomicU64::new(0),
            seen: Mutex::default(),
        }
    }

    // ---- for users ----------------------------------------------------------------------------------------------------

    /// Keeps the server awake until the drop.
    pub(crate) fn user(&self) -> User<'_> {
        self.users.send_modify(|users| *users += 1);
        User(self)
    }

    /// The connection; starts the server if there is none, and waits for that one try.
    ///
    /// Dropping the future ends the wait; the start goes on.
    pub(crate) async fn connection(&self, user: &User<'_>) -> Result<Arc<Connection>, CallError> {
        let limit = self.config.start_limit + BACKOFF_MAX;
        let connection = tokio::time::timeout(limit, self.next_connection(user)).await;
        connection.unwrap_or_else(|_| Err(self.unavailable("its actor does not start it".into())))
    }

    async fn next_connection(&self, _: &User<'_>) -> Result<Arc<Connection>, CallError> {
        let mut state = self.state.subscribe();
        let failures = state.borrow().failures;
        loop {
            {
                let now = state.borrow_and_update();
                if let Link::Up(connection) = &now.link {
                    return Ok(connection.clone());
                }
                if now.failures > failures {
                    return Err(self.unavailable(now.why.clone()));
                }
                let status = self.seen().node.as_ref().map(|node| node.status());
                match status {
                    None => return Err(self.unavailable(now.why.clone())),
                    Some(Status::Parked) => {
                        let why = format!("it is parked until somebody unparks it, or for a while: {}", now.why);
                        return Err(self.unavailable(why.into()));
                    }
                    Some(Status::Stopped | Status::Stopping) => {
                        return Err(self.unavailable("it was stopped by hand, or with the runtime".into()));
                    }
                    Some(_) => {}
                }
            }
            // A park and a stop of its supervisor are no change of the state.
            drop(tokio::time::timeout(LOOK, state.changed()).await);
        }
    }

    /// Calls a tool by the server's name of it.
    ///
    /// Dropping the future withdraws the call: the server is told.
    pub(crate) async fn call(&self, tool: &str, arguments: Value, context: &ToolContext) -> Result<Value, CallError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let user = self.user();
        self.show();
        let mut params = json!({ "name": tool, "arguments": arguments });
        for _ in 0..ROUNDS_MAX {
            let mut answer = self.request("tools/call", &params, Some(context), &user).await?;
            if answer["resultType"] != "input_required" {
                return Ok(answer);
            }
            params["inputResponses"] = self.asked(&answer["inputRequests"], context).await;
            params["requestState"] = answer["requestState"].take();
        }
        Err(CallError::Insatiable { server: self.config.name.clone() })
    }

    /// Makes a request that is for no call, within the limit of one.
    ///
    /// Dropping the future withdraws the request.
    pub(crate) async fn fetch(&self, method: &'static str, params: &Value) -> Result<Value, String> {
        let user = self.user();
        let answer = tokio::time::timeout(self.config.call_limit, self.request(method, params, None, &user)).await;
        let answer = answer.map_err(|_| format!("the MCP server {} did not answer in time", self.config.name))?;
        answer.map_err(|error| error.to_string())
    }

    /// Makes a request; once more where the server had ended the session before it read the request.
    async fn request(
        &self,
        method: &'static str,
        params: &Value,
        context: Option<&ToolContext>,
        user: &User<'_>,
    ) -> Result<Value, CallError> {
        let connection = self.connection(user).await?;
        match connection.request(method, params.clone(), context).await {
            Err(RequestError::Gone) => {
                let connection = self.connection(user).await?;
                let answer = connection.request(method, params.clone(), context).await;
                answer.map_err(|error| self.failed(&connection, error))
            }
            answer => answer.map_err(|error| self.failed(&connection, error)),
        }
    }

    /// The answers to what the server wants to know before it gives a result, one after the other.
    async fn asked(&self, requests: &Value, context: &ToolContext) -> Value {
        let mut answers = serde_json::Map::new();
        for (key, request) in requests.as_object().into_iter().flatten().take(QUESTIONS_MAX) {
            let answer = match request["method"].as_str() {
                Some("elicitation/create") => self.ask(&request["params"], context).await,
                _ => ask::declined(),
            };
            answers.insert(key.clone(), answer);
        }
        answers.into()
    }

    /// Puts a question of the server to a person, by way of a call.
    pub(crate) async fn ask(&self, params: &Value, context: &ToolContext) -> Value {
        match ask::question(&self.config.name, params) {
            Ok((question, values)) => ask::response(&context.ask(question).await, values),
            Err(_) => ask::declined(),
        }
    }

    fn failed(&self, connection: &Connection, error: RequestError) -> CallError {
        let server = self.config.name.clone();
        match error {
            RequestError::Closed(why) => CallError::Lost { server, why },
            RequestError::Broken(why) => CallError::Broken { server, why },
            RequestError::Gone => CallError::Broken { server, why: error.to_string().into() },
            RequestError::Rejected(why) => {
                // It may be that the tool is no longer there.
                connection.tools_changed.notify_one();
                CallError::Refused { server, why }
            }
        }
    }

    fn unavailable(&self, why: Arc<str>) -> CallError {
        CallError::Unavailable { server: self.config.name.clone(), why }
    }

    /// What it offers; `None` until it has listed its tools once.
    pub(crate) fn offer(&self) -> Option<Arc<Offer>> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    // ---- for the actor ------------------------------------------------------------------------------------------------

    /// Resolves when somebody uses the server.
    pub(crate) async fn wanted(&self) {
        // The sender is in `self`.
        drop(self.users.subscribe().wait_for(|users| *users > 0).await);
    }

    /// Resolves when nobody has used the server for as long as its process is kept.
    pub(crate) async fn unused(&self) {
        let mut users = self.users.subscribe();
        loop {
            drop(users.wait_for(|users| *users == 0).await);
            tokio::select! {
                () = tokio::time::sleep(self.config.idle) => return,
                _ = users.wait_for(|users| *users > 0) => {}
            }
        }
    }

    /// Gives the connection up if nobody uses the server. After this, users wait for the next one.
    pub(crate) fn rests(&self, connection: &Arc<Connection>) -> bool {
        self.set(Link::None);
        let is_unused = *self.users.borrow() == 0;
        if !is_unused {
            self.set(Link::Up(connection.clone()));
        }
        is_unused
    }

    /// Takes the connection back from all users, although they use it; whether they had it.
    pub(crate) fn gives_up(&self, connection: &Arc<Connection>) -> bool {
        let had = matches!(&self.state.borrow().link, Link::Up(now) if Arc::ptr_eq(now, connection));
        self.set(Link::None);
        had
    }

    /// Hands the connection to all users.
    pub(crate) fn is_up(&self, connection: &Arc<Connection>) {
        let pid = self.seen().pid;
        self.phase(Phase::Ready, pid);
        self.set(Link::Up(connection.clone()));
    }

    /// Tells all users that wait that this try failed.
    pub(crate) fn is_down(&self, why: &str) {
        self.state.send_modify(|state| {
            state.link = Link::None;
            state.failures += 1;
            state.why = why.into();
        });
        self.phase(Phase::Down, None);
    }

    /// Notes that an incarnation of its actor began, which shows the figures from now on.
    pub(crate) fn born(&self, node: Arc<NodeState>) {
        self.seen().node = Some(node);
    }

    /// Notes what the server said of itself, and what it offers now.
    pub(crate) fn offers(&self, hello: Hello, offer: Offer) {
        self.seen().hello = hello;
        let is_new = {
            let mut now = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = now.as_deref() != Some(&offer);
            if is_new {
                *now = Some(Arc::new(offer));
            }
            is_new
        };
        if is_new {
            self.changes.send_modify(|changes| *changes += 1);
        }
        self.show();
    }

    /// Notes where it is in its life.
    pub(crate) fn phase(&self, phase: Phase, pid: Option<i32>) {
        {
            let mut seen = self.seen();
            (seen.phase, seen.pid) = (phase, pid);
        }
        self.show();
    }

    /// Takes what the server wrote to its standard error.
    pub(crate) fn heard(&self, bytes: &[u8]) {
        if self.seen().tail.push(bytes) {
            self.show();
        }
    }

    /// Takes a line that should have been a message.
    pub(crate) fn misheard(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(&line[..line.len().min(256)]).into_owned();
        self.seen().tail.add(&line);
    }

    /// The last lines of its standard error, one after the other.
    pub(crate) fn last_words(&self) -> String {
        self.seen().tail.lines().join(" | ")
    }

    /// The figures as they are now.
    pub(crate) fn figures(&self) -> ServerFigures {
        let offer = self.offer();
        let (tools, refused) = offer.as_ref().map_or((0, &[][..]), |offer| (offer.tools.len(), &offer.refused[..]));
        let unasked = match &self.state.borrow().link {
            Link::Up(connection) => connection.strays(),
            Link::None => 0,
        };
        let seen = self.seen();
        ServerFigures {
            phase: seen.phase,
            pid: seen.pid,
            server: seen.hello.server.clone(),
            protocol: seen.hello.version.clone(),
            in_flight: *self.users.borrow(),
            calls: self.calls.load(Ordering::Relaxed),
            tools,
            refused: refused.len(),
            refusals: refused.iter().take(REFUSED_SHOWN_MAX).cloned().collect(),
            unasked,
            last_words: seen.tail.lines(),
        }
    }

    /// Shows the figures in the tree.
    fn show(&self) {
        let node = self.seen().node.clone();
        if let Some(node) = node {
            node.put(self.figures());
        }
    }

    fn set(&self, link: Link) {
        self.state.send_modify(|state| state.link = link);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.0.users.send_modify(|users| *users -= 1);
        self.0.show();
    }
}
