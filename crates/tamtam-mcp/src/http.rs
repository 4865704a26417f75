//! A server at an address (*streamable HTTP*): each line is a POST of its own, and the messages of its answer come as one JSON text or
//! as a stream of events.
//!
//! ```text
//!   POST ──► 200 JSON: its messages          404, with a session: the session is gone, and the request was not read
//!        ──► 200 events: until the answer    else: an error of this request alone
//!             │ cut off, after an event with an id
//!             └──► wait ──► GET with that id, five times at most without news
//! ```
//!
//! Beside that, one GET listens for what the server says of itself, where it has such a stream. A request that fails on its way costs
//! its own call and no other. Nothing is sent twice: where an answer is lost, nobody knows what the call did.
//!
//! A change must keep this: no redirect is followed (the library's client follows none), no header is shown, also where the server
//! repeats one, and an exchange ends soon after nobody waits for its request.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::Engine as _;
use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use serde_json::Value;
use tamtam::model::{ErrorKind, HttpAnswer, HttpClient, HttpEvent, HttpOptions, HttpRequest, ModelError, Secret};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use crate::{
    config::{Address, ServerConfig},
    connection::{Connection, RequestError},
    hello::STATELESS,
    intake::{Heard, Intake, heard},
    life::{Rest, Why},
    message::Rejected,
    secrets::{Secrets, is_credential},
    server::Server,
    text::clean_line,
};

/// How many exchanges may be open at once.
const OPEN_MAX: usize = 128;
/// How soon an exchange ends after nobody waits for its request.
const LOOK: Duration = Duration::from_millis(100);
/// How long a server may take to take what needs no answer, to end its session, and to say why it refuses.
const ASIDE_WITHIN: Duration = Duration::from_secs(10);
/// How long the end of a stream is awaited once the answer is there, so that the connection can be used again.
const DRAIN_WITHIN: Duration = Duration::from_millis(20);
/// How long a session may take to end.
const ENDS_WITHIN: Duration = Duration::from_millis(1_200);
/// The wait before a stream is read again, if the server names none, and the longest that it may name.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often a stream is read again without a message on it.
const RESUMES_MAX: u32 = 5;
/// A listening stream that lived so long was no failure.
const LISTENED: Duration = Duration::from_secs(10);
/// The longest id of a session, in bytes.
const SESSION_BYTES_MAX: usize = 1_024;
/// How much of the words of a refusal is shown, in bytes.
const SAID_BYTES_MAX: usize = 256;

/// A server at an address, for one life of it.
pub(crate) struct Web {
    client: HttpClient,
    address: Address,
    /// The id of the session, once the server gave one.
    session: Mutex<Option<String>>,
    secrets: Arc<Secrets>,
}

/// How an exchange ended.
enum Ended {
    Done,
    /// The greeting is over: what the server says of itself may be listened for.
    Greeted,
    /// The server does not know the session.
    Gone,
}

/// What every exchange of a life shares.
#[derive(Clone, Copy)]
struct Life<'a> {
    server: &'a Server,
    connection: &'a Connection,
    reports: &'a mpsc::Sender<Heard>,
}

impl Life<'_> {
    /// Takes what came, and waits until the actor has judged what nobody asked for.
    async fn take(&self, text: &str, of: Option<u64>) {
        let heard = heard(self.server, self.connection, text.as_bytes(), of);
        if !heard.is_nothing() {
            // The actor is gone only together with this exchange.
            drop(self.reports.send(heard).await);
        }
    }

    /// Ends a request with an error of its own, or notes what went wrong with what nobody waits for.
    fn fail(&self, id: Option<u64>, error: RequestError) {
        match id {
            Some(id) => self.connection.fail(id, error),
            None => self.server.misheard(error.to_string().as_bytes()),
        }
    }

    fn broken(&self, id: Option<u64>, why: impl AsRef<str>) {
        self.fail(id, RequestError::Broken(self.server.secrets.text(why.as_ref()).into()));
    }

    fn is_open(&self, id: Option<u64>) -> bool {
        id.is_some_and(|id| self.connection.is_open(id))
    }
}

impl Web {
    /// `secrets` hears of each credential that is sent.
    pub(crate) fn new(address: &Address, config: &ServerConfig, options: &HttpOptions, secrets: Arc<Secrets>) -> Web {
        let mut options = options.clone();
        options.event_bytes_max = config.line_bytes_max;
        options.answer_bytes_max = config.line_bytes_max;
        // A call has its own limit, which begins later.
        options.first_timeout = config.call_limit + config.start_limit;
        Web { client: HttpClient::new(options), address: address.clone(), session: Mutex::default(), secrets }
    }

    /// Carries lines to the server and its messages back, until the session is gone or the server says too much.
    pub(crate) async fn pump(
        &self,
        server: &Server,
        connection: &Connection,
        mut lines: mpsc::Receiver<String>,
    ) -> Result<Rest, Why> {
        let (reports, mut reported) = mpsc::channel(1);
        let life = Life { server, connection, reports: &reports };
        let mut intake = Intake::new(server, connection);
        let mut open: FuturesUnordered<BoxFuture<'_, Ended>> = FuturesUnordered::new();
        // Nothing overtakes the end of the greeting.
        let mut is_greeting = false;
        loop {
            tokio::select! {
                () = intake.asking() => {}
                Some(heard) = reported.recv() => intake.judge(heard)?,
                Some(ended) = open.next(), if !open.is_empty() => match ended {
                    Ended::Done => {}
                    Ended::Greeted => {
                        is_greeting = false;
                        open.push(Box::pin(self.listen(life)));
                    }
                    Ended::Gone => return Ok(Rest::Renewed),
                },
                Some(line) = lines.recv(), if !is_greeting && open.len() < OPEN_MAX => {
                    let message: Value = serde_json::from_str(&line).unwrap_or_default();
                    is_greeting = message["method"] == "notifications/initialized";
                    open.push(Box::pin(self.exchange(life, line, message)));
                }
            }
        }
    }

    /// Ends the session, as far as the server lets it.
    pub(crate) async fn end(&self) {
        if self.session().is_some() {
            let request = self.dressed(HttpRequest::delete(&self.address.url), None).await;
            if let Ok(request) = request {
                drop(timeout(ENDS_WITHIN, self.client.send(request)).await);
            }
        }
    }

    /// Sends one line, and takes what comes back.
    async fn exchange(&self, life: Life<'_>, line: String, message: Value) -> Ended {
        let method = message["method"].as_str().unwrap_or_default();
        let id = message["id"].as_u64().filter(|_| !method.is_empty());
        let is_stateless = life.connection.version() == Some(STATELESS);
        if is_stateless && method == "notifications/cancelled" {
            // The end of its exchange tells the server.
            return Ended::Done;
        }
        let answered = self.answered(life, line, &message, id);
        let ended = match id {
            Some(id) => tokio::select! {
                biased;
                ended = answered => ended,
                () = given_up(life.connection, id) => Ended::Done,
            },
            None => timeout(ASIDE_WITHIN, answered).await.unwrap_or(Ended::Done),
        };
        match ended {
            Ended::Done if method == "notifications/initialized" => Ended::Greeted,
            ended => ended,
        }
    }

    async fn answered(&self, life: Life<'_>, line: String, message: &Value, id: Option<u64>) -> Ended {
        let method = message["method"].as_str().unwrap_or_default();
        let had_session = self.session().is_some();
        let request = HttpRequest::post(&self.address.url, line)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        let request = match life.connection.version() {
            Some(STATELESS) => routed(request, message),
            _ => request,
        };
        let answer = match self.sent(request, life.connection.version()).await {
            Ok(answer) => answer,
            Err(why) => {
                life.broken(id, why);
                return Ended::Done;
            }
        };
        match answer.status() {
            200..=299 => {
                if method == "initialize" {
                    self.open_session(answer.header("mcp-session-id"));
                }
                self.read(life, answer, id).await;
                Ended::Done
            }
            404 if had_session => {
                id.iter().for_each(|id| life.connection.is_gone(*id));
                Ended::Gone
            }
            _ => self.refused(life, answer, id, had_session).await,
        }
    }

    /// Reads a good answer.
    async fn read(&self, life: Life<'_>, answer: HttpAnswer, id: Option<u64>) {
        if id.is_none() {
            return;
        }
        let kind = answer.header("content-type").unwrap_or_default().to_ascii_lowercase();
        match kind.split(';').next().unwrap_or_default().trim() {
            "application/json" => match answer.text().await {
                Ok(text) => {
                    life.take(&text, id).await;
                    if life.is_open(id) {
                        life.broken(id, "it answered without an answer to the request");
                    }
                }
                Err(error) => life.broken(id, error.to_string()),
            },
            "text/event-stream" => self.events(life, answer, id).await,
            other => {
                life.broken(id, format!("it answered as {:?}, which is neither JSON nor events", clean_line(other, 64)))
            }
        }
    }

    /// Reads events until the answer to the request is among them. A stream that ends before is read again from its last event, if the
    /// server gave that an id.
    async fn events(&self, life: Life<'_>, mut answer: HttpAnswer, id: Option<u64>) {
        let (mut last, mut wait, mut tries) = (None, RETRY, 0);
        loop {
            match answer.event().await {
                Ok(Some(HttpEvent { data, id: event, retry, .. })) => {
                    last = event.or(last);
                    wait = retry.unwrap_or(wait).min(RETRY_MAX);
                    if data.is_empty() {
                        continue;
                    }
                    tries = 0;
                    life.take(&data, id).await;
                    if !life.is_open(id) {
                        drop(timeout(DRAIN_WITHIN, answer.event()).await);
                        return;
                    }
                    continue;
                }
                Err(error) if error.kind == ErrorKind::AnswerTooLarge => return life.broken(id, error.to_string()),
                Ok(None) | Err(_) => {}
            }
            if last.is_none() || tries == RESUMES_MAX {
                return life.broken(id, "its stream ended before the answer; what the call did is not known");
            }
            // Each further try waits; the call's own limit bounds all of them.
            answer = loop {
                tries += 1;
                sleep(wait).await;
                match self.stream(life, last.as_deref()).await {
                    Ok(Some(answer)) => break answer,
                    Err(_) if tries < RESUMES_MAX => {}
                    _ => return life.broken(id, "its stream ended before the answer, and could not be read again"),
                }
            };
        }
    }

    /// Listens for what the server says of itself, as long as it has a stream for that.
    async fn listen(&self, life: Life<'_>) -> Ended {
        let (mut last, mut wait, mut failures) = (None::<String>, RETRY, 0);
        while failures < RESUMES_MAX {
            let began = Instant::now();
            match self.stream(life, last.as_deref()).await {
                Ok(Some(mut answer)) => {
                    while let Ok(Some(HttpEvent { data, id, retry, .. })) = answer.event().await {
                        last = id.or(last);
                        wait = retry.unwrap_or(wait).min(RETRY_MAX);
                        life.take(&data, None).await;
                    }
                }
                Ok(None) => break,
                Err(_) => {}
            }
            failures = if began.elapsed() < LISTENED { failures + 1 } else { 0 };
            sleep(wait).await;
        }
        Ended::Done
    }

    /// Opens a stream of events by GET, from behind an event; `None` if the server has none.
    async fn stream(&self, life: Life<'_>, last: Option<&str>) -> Result<Option<HttpAnswer>, String> {
        let request = HttpRequest::get(&self.address.url).header("accept", "text/event-stream");
        let request = last.into_iter().fold(request, |request, last| request.header("last-event-id", last));
        let answer = self.sent(request, life.connection.version()).await?;
        let is_stream = answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        match answer.status() {
            200 if is_stream => Ok(Some(answer)),
            status if status >= 500 => Err(format!("HTTP {status}")),
            _ => Ok(None),
        }
    }

    /// What a request gets that the server refuses.
    async fn refused(&self, life: Life<'_>, answer: HttpAnswer, id: Option<u64>, had_session: bool) -> Ended {
        let status = answer.status();
        let said = timeout(ASIDE_WITHIN, answer.text()).await.ok().and_then(Result::ok).unwrap_or_default();
        if serde_json::from_str::<Value>(&said).is_ok_and(|said| said["error"].is_object()) {
            life.take(&said, id).await;
        }
        let said = self.secrets.text(&said);
        // Servers that follow the examples of the protocol's own SDK say so with this status, in these words.
        let is_unknown = ["no valid session id", "session not found", "invalid session id"];
        if status == 400 && had_session && is_unknown.iter().any(|words| said.to_ascii_lowercase().contains(words)) {
            id.iter().for_each(|id| life.connection.is_gone(*id));
            return Ended::Gone;
        }
        let hint = match status {
            300..=399 => " (it redirects, and no redirect is followed: configure the address that it means)",
            401 | 403 => " (it wants other credentials: set its headers)",
            404 | 405 => " (is this the address of an MCP server?)",
            _ => "",
        };
        let message = format!("HTTP {status}{hint}: {}", clean_line(&said, SAID_BYTES_MAX));
        life.fail(id, RequestError::Rejected(Rejected { code: i64::from(status), message }));
        Ended::Done
    }

    /// Sends a request with the headers that each one has.
    async fn sent(&self, request: HttpRequest, version: Option<&str>) -> Result<HttpAnswer, String> {
        let request = self.dressed(request, version).await?;
        self.client.send(request).await.map_err(|error: ModelError| error.to_string())
    }

    async fn dressed(&self, mut request: HttpRequest, version: Option<&str>) -> Result<HttpRequest, String> {
        let mut headers = self.address.headers.clone();
        let is_secret = |(name, _): &&(String, Secret)| is_credential(name);
        let mut secrets: Vec<_> = headers.iter().filter(is_secret).map(|(_, value)| value.clone()).collect();
        if let Some(fresh) = &self.address.fresh {
            let asked = timeout(ASIDE_WITHIN, fresh.ask()).await;
            let fresh = asked.map_err(|_| format!("the host gave no headers within {ASIDE_WITHIN:?}"))?;
            let fresh = fresh.map_err(|why| format!("the host has no headers for it: {why}"))?;
            // They are made for each request because they expire: credentials, whatever they are called.
            secrets.extend(fresh.iter().map(|(_, value)| value.clone()));
            headers.extend(fresh);
        }
        self.secrets.add(secrets);
        // Those of the protocol win.
        let own: Vec<_> = self.session().map(|id| ("mcp-session-id", id)).into_iter().collect();
        let version = version.map(|version| ("mcp-protocol-version", version.to_owned()));
        let reserved = ["content-type", "accept", "mcp-method", "mcp-name", "last-event-id", "content-length", "host"];
        for (name, value) in &headers {
            if !reserved.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
                request = request.header(name, value.clone());
            }
        }
        let request =
            own.into_iter().chain(version).fold(request, |request, (name, value)| request.header(name, value));
        Ok(request)
    }

    /// Keeps the id of the session that the greeting opened. Only visible ASCII is one.
    fn open_session(&self, id: Option<&str>) {
        let is_id =
            |id: &&str| (1..=SESSION_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = id.filter(is_id).map(str::to_owned);
    }

    fn session(&self) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Resolves soon after nobody waits for the answer any more.
async fn given_up(connection: &Connection, id: u64) {
    while connection.is_open(id) {
        sleep(LOOK).await;
    }
}

/// The headers by which gateways know a request of 2026-07-28: its method, and what it is about.
fn routed(request: HttpRequest, message: &Value) -> HttpRequest {
    let method = message["method"].as_str().unwrap_or_default();
    let about = match method {
        "resources/read" => &message["params"]["uri"],
        "tools/call" | "prompts/get" => &message["params"]["name"],
        _ => &Value::Null,
    };
    let request = if method.is_empty() { request } else { request.header("mcp-method", method) };
    match about.as_str() {
        Some(name) => request.header("mcp-name", in_header(name)),
        None => request,
    }
}

/// A text as a header carries it: what is no plain ASCII as base64, under the mark that the protocol has for it.
fn in_header(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') && text.trim() == text;
    match is_plain && !text.starts_with("=?base64?") {
        true => text.to_owned(),
        false => format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_carried_by_a_header_or_under_a_mark() {
        assert_eq!(
            ["echo", "get sum", "größe", " a", "=?base64?x"].map(in_header),
            ["echo", "get sum", "=?base64?Z3LDtsOfZQ==?=", "=?base64?IGE=?=", "=?base64?PT9iYXNlNjQ/eA==?=",]
        );
    }
}
