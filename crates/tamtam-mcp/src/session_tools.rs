//! [`SessionTools`]: the sessions of a runtime as tools of an MCP server, for a client such as an editor or another agent.
//!
//! Five tools: `prompt`, `steer`, `status`, `answer`, `abort`. Each result has the state of the session as structured content, and
//! where a message was sent, its receipt and its fate: what became of it until now. A message is on the tape once there is a receipt,
//! so a client that stops waiting, or goes away, loses nothing; `status` with the message's id says more later.
//!
//! The messages are lines of JSON-RPC, as in `message.rs`, from the other side. A change must keep the bounds: one line, the calls that
//! are open, the time that a call waits. What a client sends is judged by the session's own rules and by nothing here.

use std::{io, sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _,
    future::{AbortHandle, Abortable, BoxFuture},
    stream::FuturesUnordered,
};
use serde_json::{Map, Value, json};
use tamtam::{
    Delivery, EventKind, Message, MessageId, Receipt, Runtime, Seq, Session, SessionId, SessionOptions, Steering,
    session::{Grant, Next, Scope, State, Waiting},
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::{
    hello::{STATELESS, VERSIONS},
    listing::tools,
    wire::{Lines, TooLong},
};

/// The longest line of a client, in bytes.
const LINE_BYTES_MAX: usize = 4 << 20;
/// How many calls of a client may be open.
const CALLS_MAX: usize = 64;
/// How long a call waits for the end of a turn if the client names no time, and at most.
const WAIT: Duration = Duration::from_secs(45);
const WAIT_MAX: Duration = Duration::from_secs(600);
/// How much of an answer is repeated as text; the whole is in the structured content.
const CALL_INPUT_BYTES_MAX: usize = 4 * 1024;

/// Makes the options of a new session.
type Make = dyn Fn() -> Result<SessionOptions, String> + Send + Sync;

/// The sessions of a runtime as tools of an MCP server. Cheap to clone.
///
/// ```no_run
/// use tamtam::{Runtime, SessionOptions};
/// use tamtam_mcp::SessionTools;
///
/// # async fn f(runtime: &Runtime) -> std::io::Result<()> {
/// let tools = SessionTools::new(runtime, || Ok(SessionOptions::new("/work")));
/// let (client, server) = tokio::io::duplex(1 << 16);
/// let (read, write) = tokio::io::split(server);
/// tools.serve(read, write).await?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SessionTools {
    runtime: Runtime,
    make: Arc<Make>,
}

impl std::fmt::Debug for SessionTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionTools")
    }
}

/// Why a call has no result: words for the client.
type Wrong = String;

impl SessionTools {
    /// The sessions of this runtime, all of them: whoever has the two ends of [`serve`](SessionTools::serve) can read and steer each.
    /// `make` is asked for the options of a new session; its error is the client's. A session that shall wait for an answer to a
    /// question has [`SessionOptions::asks_wait`], since nobody listens between two calls.
    pub fn new(
        runtime: &Runtime,
        make: impl Fn() -> Result<SessionOptions, String> + Send + Sync + 'static,
    ) -> SessionTools {
        SessionTools { runtime: runtime.clone(), make: Arc::new(make) }
    }

    /// Serves one client until its input ends: 64 calls at once, lines of 4 MiB at most. A client that reads nothing stops only itself.
    ///
    /// Dropping the future, and the end of the input, end the waiting of its calls and nothing else: the sessions go on.
    ///
    /// # Errors
    /// The streams', and [`io::ErrorKind::InvalidData`] for a line that is too long.
    pub async fn serve(
        &self,
        mut input: impl AsyncRead + Unpin + Send,
        mut output: impl AsyncWrite + Unpin + Send,
    ) -> io::Result<()> {
        let (mut lines, mut piece) = (Lines::new(LINE_BYTES_MAX), vec![0; 16 * 1024]);
        let mut open: FuturesUnordered<BoxFuture<'_, (Value, Option<Value>)>> = FuturesUnordered::new();
        let mut stops: Vec<(Value, AbortHandle)> = Vec::new();
        loop {
            let (mut messages, mut answers) = (Vec::new(), Vec::new());
            tokio::select! {
                Some((id, result)) = open.next(), if !open.is_empty() => {
                    stops.retain(|(open, _)| *open != id);
                    answers.extend(result.map(|result| answer(&id, result)));
                }
                read = input.read(&mut piece) => {
                    let count = read?;
                    if count == 0 {
                        return Ok(());
                    }
                    let taken = lines.push(&piece[..count], |line| messages.push(serde_json::from_slice::<Value>(line)));
                    if taken == Err(TooLong) {
                        let why = format!("the client sent a line of more than {LINE_BYTES_MAX} bytes");
                        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                    }
                }
            }
            for message in messages {
                let Ok(message) = message else {
                    answers.push(failed(&Value::Null, -32_700, "the line is not JSON"));
                    continue;
                };
                let (id, params) = (message["id"].clone(), &message["params"]);
                let is_request = id.is_string() || id.is_number();
                match message["method"].as_str() {
                    Some("notifications/cancelled") => {
                        let of = &params["requestId"];
                        stops.iter().filter(|(open, _)| open == of).for_each(|(_, stop)| stop.abort());
                    }
                    Some("tools/call") if is_request && open.len() >= CALLS_MAX => {
                        answers.push(failed(
                            &id,
                            -32_000,
                            &format!("{CALLS_MAX} calls are open: wait for one of them"),
                        ));
                    }
                    Some("tools/call") if is_request => {
                        let (stop, registration) = AbortHandle::new_pair();
                        stops.push((id.clone(), stop));
                        let call = Abortable::new(self.call(params.clone()), registration);
                        open.push(Box::pin(async move { (id, call.await.ok()) }));
                    }
                    Some(method) if is_request => answers.push(about(&id, method, params)),
                    // Notifications, and answers to what nobody asked.
                    _ => {}
                }
            }
            for line in answers {
                output.write_all(format!("{line}\n").as_bytes()).await?;
            }
            output.flush().await?;
        }
    }

    /// Carries out a call. A failure is a result too.
    async fn call(&self, params: Value) -> Value {
        let arguments = params["arguments"].as_object().cloned().unwrap_or_default();
        let arguments = Arguments(arguments);
        let done = match params["name"].as_str().unwrap_or_default() {
            "prompt" => self.prompt(&arguments).await,
            "steer" => self.steer(&arguments).await,
            "status" => self.status(&arguments).await,
            "answer" => self.answer(&arguments).await,
            "abort" => self.abort(&arguments).await,
            other => Err(format!("there is no tool {other:?}: prompt, steer, status, answer, abort")),
        };
        match done {
            Ok(shown) => {
                let text = in_words(&shown);
                json!({ "content": [{ "type": "text", "text": text }], "structuredContent": shown })
            }
            Err(why) => json!({ "content": [{ "type": "text", "text": why }], "isError": true }),
        }
    }

    async fn prompt(&self, given: &Arguments) -> Result<Value, Wrong> {
        let delivery = match given.text("delivery")?.unwrap_or("queue") {
            "queue" => Delivery::Queue,
            "reject" => Delivery::Reject,
            other => return Err(format!("`delivery` is queue or reject, not {other:?}")),
        };
        let (message, wait) = (given.message()?, given.wait()?);
        let session = match given.text("session")? {
            Some(_) => self.session(given).await?,
            None => {
                let options = (self.make)()?;
                self.runtime.create(options).await.map_err(|error| error.to_string())?
            }
        };
        sent(&session, message, delivery, wait).await
    }

    async fn steer(&self, given: &Arguments) -> Result<Value, Wrong> {
        let steering = match given.text("running")?.unwrap_or("skip_remaining") {
            "skip_remaining" => Steering::SkipRemaining,
            "finish_batch" => Steering::FinishBatch,
            "abort_running" => Steering::AbortRunning,
            other => return Err(format!("`running` is skip_remaining, finish_batch or abort_running, not {other:?}")),
        };
        let (message, wait) = (given.message()?, given.wait()?);
        sent(&self.session(given).await?, message, Delivery::Steer(steering), wait).await
    }

    async fn status(&self, given: &Arguments) -> Result<Value, Wrong> {
        let session = self.known(given)?;
        let state = session.peek().await.map_err(|error| error.to_string())?;
        let mut shown = shown(&state);
        if let Some(message) = given.text("message")? {
            shown["fate"] = fate(&state, &MessageId::from(message));
        }
        Ok(shown)
    }

    async fn answer(&self, given: &Arguments) -> Result<Value, Wrong> {
        let session = self.session(given).await?;
        let ask = given.number("ask")?.ok_or("`ask` is the number of an open question")?;
        let words = given.text("message")?;
        let grant = match given.needed("grant")? {
            "reject" => Grant::Reject(words.map(str::to_owned)),
            _ if words.is_some() => return Err("`message` goes with the grant reject".to_owned()),
            "once" => Grant::Once,
            "always" => Grant::Always(Scope::default()),
            other => return Err(format!("`grant` is once, always or reject, not {other:?}")),
        };
        let who = "a client of MCP".to_owned();
        let state = session.state().await.map_err(|error| error.to_string())?;
        let answered = match given.text("digest")? {
            Some(digest) => session.answer_shown(Seq(ask), grant, digest, Some(who)).await,
            None if !matches!(grant, Grant::Reject(_)) && state.digest_of(Seq(ask)).is_some() => {
                return Err("`digest` is missing: a grant is for what was shown, and `status` shows it".to_owned());
            }
            None => session.answer_as(Seq(ask), grant, who).await,
        };
        answered.map_err(|error| error.to_string())?;
        let state = session.state().await.map_err(|error| error.to_string())?;
        Ok(shown(&state))
    }

    async fn abort(&self, given: &Arguments) -> Result<Value, Wrong> {
        let session = self.session(given).await?;
        let reason = given.text("reason")?.unwrap_or("asked for over MCP");
        let aborted = match given.number("turn")? {
            Some(turn) => session.abort_turn(Seq(turn), reason).await,
            None => session.abort(reason).await,
        };
        let aborted = aborted.map_err(|error| error.to_string())?;
        let state = session.peek().await.map_err(|error| error.to_string())?;
        let mut shown = shown(&state);
        shown["recorded"] = aborted.recorded.into();
        Ok(shown)
    }

    /// The session that a call names, as it lies there.
    fn known(&self, given: &Arguments) -> Result<Session, Wrong> {
        let id: SessionId = given.needed("session")?.parse().map_err(|error| format!("`session`: {error}"))?;
        Ok(self.runtime.session(&id))
    }

    /// The same, awake.
    async fn session(&self, given: &Arguments) -> Result<Session, Wrong> {
        let session = self.known(given)?;
        self.runtime.open(session.id()).await.map_err(|error| error.to_string())
    }
}

/// The arguments of a call.
struct Arguments(Map<String, Value>);

impl Arguments {
    fn text(&self, name: &str) -> Result<Option<&str>, Wrong> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{name}` is a text")),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Wrong> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(given) => given.as_u64().map(Some).ok_or_else(|| format!("`{name}` is a whole number")),
        }
    }

    fn needed(&self, name: &str) -> Result<&str, Wrong> {
        self.text(name)?.ok_or_else(|| format!("`{name}` is missing"))
    }

    fn message(&self) -> Result<Message, Wrong> {
        let message = Message::user(self.needed("text")?);
        Ok(match self.text("message")? {
            Some(id) => message.with_id(MessageId::from(id)),
            None => message,
        })
    }

    fn wait(&self) -> Result<Duration, Wrong> {
        match self.0.get("wait_seconds") {
            None => Ok(WAIT),
            Some(given) => {
                let seconds = given.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                seconds.map(|wait| wait.min(WAIT_MAX)).ok_or_else(|| "`wait_seconds` is 0 to 600".to_owned())
            }
        }
    }
}

/// Sends a message, waits until its turn is over, a person is asked or the time is up, and shows what became of it.
async fn sent(session: &Session, message: Message, delivery: Delivery, wait: Duration) -> Result<Value, Wrong> {
    let mut events = session.events();
    let receipt = session.send(message, delivery).await.map_err(|error| error.to_string())?;
    let asked = async {
        while let Some(next) = events.next().await {
            if let Next::Event(event) = next
                && matches!(event.kind, EventKind::Ask { .. } | EventKind::Budget { ask: Some(_), .. })
            {
                return;
            }
        }
        std::future::pending().await
    };
    let over = async { drop(receipt.wait().await) };
    drop(
        tokio::time::timeout(wait, async {
            tokio::select! { () = over => {}, () = asked => {} }
        })
        .await,
    );
    let state = session.peek().await.map_err(|error| error.to_string())?;
    let mut shown = shown(&state);
    shown["receipt"] = receipt_shown(&receipt);
    shown["fate"] = fate(&state, &receipt.message);
    Ok(shown)
}

fn receipt_shown(receipt: &Receipt) -> Value {
    serde_json::to_value(receipt).unwrap_or_default()
}

/// What became of a message until now.
fn fate(state: &State, id: &MessageId) -> Value {
    let at = |all: &std::collections::VecDeque<Waiting>| all.iter().position(|waiting| waiting.message.id == *id);
    if let Some(before) = at(&state.queue) {
        let word = if state.on_hold { "on_hold" } else { "waiting" };
        return json!({ "state": word, "before": before });
    }
    if at(&state.steering).is_some() {
        return json!({ "state": "joining" });
    }
    if let Some(turn) = state.turn.as_ref().filter(|turn| turn.messages.contains(id)) {
        return json!({ "state": "running", "turn": turn.id, "step": turn.step });
    }
    let Some(end) = state.ended.iter().rev().find(|end| end.messages.contains(id)) else {
        return json!({ "state": "not_known" });
    };
    let mut fate = json!({ "state": "ended", "turn": end.turn, "text": end.text, "steps": end.steps });
    if let (Value::Object(fate), Ok(Value::Object(outcome))) = (&mut fate, serde_json::to_value(&end.outcome)) {
        fate.extend(outcome);
    }
    fate
}

/// The state of a session.
fn shown(state: &State) -> Value {
    let word = match state {
        _ if state.closed.is_some() => "closed",
        _ if state.asks().next().is_some() || state.task_asks().next().is_some() || state.budget_ask().is_some() => {
            "asks"
        }
        _ if state.paused => "paused",
        _ if state.turn.is_some() => "works",
        _ if state.on_hold => "on_hold",
        _ => "idle",
    };
    let input = |text: &str| crate::text::clean(text, CALL_INPUT_BYTES_MAX);
    let calls = state.asks().map(|(ask, open)| {
        let call = state.calls().find(|(ticket, _)| *ticket == open.call).map(|(_, call)| call);
        json!({
            "ask": ask, "tool": call.map(|call| &call.facts.tool), "input": call.map(|call| input(&call.input)),
            "question": open.question, "access": open.access, "digest": state.digest_of(ask),
        })
    });
    let tasks = state.task_asks().map(|(ask, open)| {
        let asked = &open.asked;
        json!({
            "ask": ask, "tool": asked.name, "input": input(&asked.input), "question": asked.question,
            "access": asked.access, "digest": asked.digest(),
        })
    });
    let budget = state.budget_ask().map(|(ask, open)| json!({ "ask": ask, "budget": open.breach.shown() }));
    let asks: Vec<_> = calls.chain(tasks).chain(budget).collect();
    let waiting: Vec<_> = state.steering.iter().chain(&state.queue).map(|waiting| &waiting.message.id).collect();
    json!({ "session": state.session, "seq": state.seq, "state": word, "turn": state.turn.as_ref().map(|turn| turn.id), "waiting": waiting, "asks": asks })
}

/// The same for a reader who has no structured content.
fn in_words(shown: &Value) -> String {
    let (session, state) = (&shown["session"], shown["state"].as_str().unwrap_or_default());
    let fate = &shown["fate"];
    let mut text = match fate["state"].as_str() {
        Some("ended") => {
            let outcome = fate["outcome"].as_str().unwrap_or_default();
            format!("{}\n\n[the turn ended: {outcome}; session {session}]", fate["text"].as_str().unwrap_or_default())
        }
        Some(fate) => format!("The message is {fate}; the session {session} is {state}."),
        None => format!("The session {session} is {state}."),
    };
    for ask in shown["asks"].as_array().into_iter().flatten() {
        text.push_str(&format!("\nIt asks ({}): {} {}", ask["ask"], ask["tool"], ask["question"]["title"]));
    }
    text
}

/// The answer to a request that is no call.
fn about(id: &Value, method: &str, params: &Value) -> Value {
    let info = json!({ "name": "tamtam", "version": env!("CARGO_PKG_VERSION") });
    let capabilities = json!({ "tools": {} });
    match method {
        "initialize" => {
            let wanted = params["protocolVersion"].as_str().unwrap_or_default();
            let version = VERSIONS.iter().find(|version| **version == wanted).unwrap_or(&VERSIONS[0]);
            answer(id, json!({ "protocolVersion": version, "capabilities": capabilities, "serverInfo": info }))
        }
        "server/discover" => answer(
            id,
            json!({ "resultType": "complete", "supportedVersions": [STATELESS], "capabilities": capabilities, "serverInfo": info }),
        ),
        "ping" => answer(id, json!({})),
        "tools/list" => answer(id, json!({ "tools": tools() })),
        other => failed(id, -32_601, &format!("{} is not supported", crate::text::clean_line(other, 64))),
    }
}

fn answer(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn failed(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}
