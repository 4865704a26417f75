//! One connection to a server: requests and their answers, progress, and what the server asks.
//!
//! A request whose future is dropped is withdrawn: the server is sent `notifications/cancelled`. When the connection closes, each
//! open request is answered with the reason. Calls wait here, never in the server's actor; the actor feeds each line to
//! [`Connection::take`], which waits for nothing.
//!
//! A change must keep the bounds: [`CALLS_MAX`] open calls, beyond which a call waits for its place, and [`LINES_MAX`] lines that the
//! server has not read. A server that reads nothing makes requests wait, and lines that nobody waits for (cancellations, answers to
//! it) are lost.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use tamtam::tool::ToolContext;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

use crate::{
    message::{self, Incoming, NO_METHOD, Rejected},
    text::clean_line,
};

/// How many calls may be open at once.
const CALLS_MAX: usize = 64;
/// How many lines may wait for the server to read them.
pub(crate) const LINES_MAX: usize = 256;
/// The longest title of a progress, in bytes.
const TITLE_BYTES_MAX: usize = 256;

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Rejected(Rejected),
    /// The connection closed before the answer came.
    #[error("{0}")]
    Closed(Arc<str>),
    /// This one request failed on its way, or its answer did.
    #[error("{0}")]
    Broken(Arc<str>),
    /// The server no longer knows the session, and has not read the request.
    #[error("it ended the session again and again")]
    Gone,
}

/// What the server wants to be told that no connection can tell it.
#[derive(Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) id: Value,
    pub(crate) params: Value,
}

/// What a line was.
#[derive(Debug, PartialEq)]
pub(crate) enum Taken {
    /// The answer to a request.
    Awaited,
    /// The progress of a call.
    Shown,
    /// Nobody asked for it.
    Unasked,
    /// The server wants a person to be asked.
    Wish(Wish),
}

/// One connection.
pub(crate) struct Connection {
    out: mpsc::Sender<String>,
    table: Mutex<Table>,
    /// The places of calls; closed with the connection.
    places: Semaphore,
    /// What each request carries besides its parameters, since 2026-07-28.
    meta: OnceLock<Value>,
    /// The version of the protocol, once it is agreed.
    version: OnceLock<&'static str>,
    /// The server says that its list of tools is another one now.
    pub(crate) tools_changed: Notify,
    /// Messages that nobody asked for.
    strays: AtomicU64,
}

#[derive(Default)]
struct Table {
    last: u64,
    open: BTreeMap<u64, Open>,
    /// Why there will be no further answer.
    closed: Option<Arc<str>>,
}

/// A request that waits for its answer.
struct Open {
    answer: oneshot::Sender<Result<Value, RequestError>>,
    /// The call that it was made for.
    call: Option<ToolContext>,
    /// Whether the server refused to read it, because it does not know the session.
    is_gone: bool,
}

impl Connection {
    /// A connection whose lines go to the receiver.
    pub(crate) fn new() -> (Arc<Connection>, mpsc::Receiver<String>) {
        let (out, lines) = mpsc::channel(LINES_MAX);
        let connection = Connection {
            out,
            table: Mutex::default(),
            places: Semaphore::new(CALLS_MAX),
            meta: OnceLock::new(),
            version: OnceLock::new(),
            tools_changed: Notify::new(),
            strays: AtomicU64::new(0),
        };
        (Arc::new(connection), lines)
    }

    /// Sets what each further request carries as `_meta`. A second call changes nothing.
    pub(crate) fn set_meta(&self, meta: Value) {
        let _ = self.meta.set(meta);
    }

    /// Sets the version of the protocol that both speak. A second call changes nothing.
    pub(crate) fn set_version(&self, version: &'static str) {
        let _ = self.version.set(version);
    }

    /// The version of the protocol; `None` before it is agreed.
    pub(crate) fn version(&self) -> Option<&'static str> {
        self.version.get().copied()
    }

    /// How many messages came that nobody had asked for.
    pub(crate) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Makes a request and waits for its answer. `call` gets the progress, may be asked about, and waits for its place.
    ///
    /// Dropping the future withdraws the request.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        mut params: Value,
        call: Option<&ToolContext>,
    ) -> Result<Value, RequestError> {
        let _place = match call {
            Some(_) => Some(self.places.acquire().await.map_err(|_| self.closed())?),
            None => None,
        };
        let (id, answer) = self.open(call)?;
        let mut withdraw = Withdraw { connection: self, id, is_sent: false };
        if let Value::Object(fields) = &mut params {
            let mut meta = self.meta.get().cloned().unwrap_or_else(|| json!({}));
            if let Some(call) = call {
                meta["progressToken"] = id.into();
                if let Some(trace) = call.trace() {
                    meta["traceparent"] = trace.traceparent().into();
                    trace.tracestate().into_iter().for_each(|state| meta["tracestate"] = state.into());
                }
            }
            if meta.as_object().is_some_and(|meta| !meta.is_empty()) {
                fields.insert("_meta".to_owned(), meta);
            }
        }
        let line = message::request(id, method, &params);
        tokio::select! {
            biased;
            sent = self.out.send(line) => sent.map_err(|_| self.closed())?,
            // The connection closed while the line waited.
            () = self.out.closed() => return Err(self.closed()),
        }
        withdraw.is_sent = method != "initialize";
        answer.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// Sends a notification, if the server reads its lines.
    pub(crate) fn notify(&self, method: &str, params: &Value) {
        drop(self.out.try_send(message::notification(method, params)));
    }

    /// Answers a wish of the server, if it reads its lines.
    pub(crate) fn grant(&self, id: &Value, result: Result<Value, Rejected>) {
        drop(self.out.try_send(message::answer(id, result)));
    }

    /// The one call that is open; `None` if there are none or several. A wish that names no call can only be of that one.
    pub(crate) fn only_call(&self) -> Option<ToolContext> {
        let table = self.table();
        let mut calls = table.open.values().filter_map(|open| open.call.clone());
        calls.next().filter(|_| calls.next().is_none())
    }

    /// The call of a request that is open; `None` for one that was made for no call.
    pub(crate) fn call_of(&self, id: u64) -> Option<ToolContext> {
        self.table().open.get(&id).and_then(|open| open.call.clone())
    }

    /// Whether a request waits for its answer.
    pub(crate) fn is_open(&self, id: u64) -> bool {
        self.table().open.contains_key(&id)
    }

    /// Answers one request with an error of the transport, if it is open.
    pub(crate) fn fail(&self, id: u64, error: RequestError) {
        if let Some(open) = self.table().open.remove(&id) {
            drop(open.answer.send(Err(error)));
        }
    }

    /// Notes that the server has not read a request, because it no longer knows the session. The request is answered so when the
    /// connection closes.
    pub(crate) fn is_gone(&self, id: u64) {
        if let Some(open) = self.table().open.get_mut(&id) {
            open.is_gone = true;
        }
    }

    /// Takes one message of the server. Waits for nothing.
    pub(crate) fn take(&self, message: Incoming) -> Taken {
        let taken = match message {
            Incoming::Answer(id, result) => {
                let open = self.table().open.remove(&id);
                // A second answer to a request finds no request.
                open.map_or(Taken::Unasked, |open| {
                    drop(open.answer.send(result.map_err(RequestError::Rejected)));
                    Taken::Awaited
                })
            }
            Incoming::Notification { method, params } => match method.as_str() {
                "notifications/progress" => self.progress(&params),
                "notifications/tools/list_changed" => {
                    self.tools_changed.notify_one();
                    Taken::Unasked
                }
                _ => Taken::Unasked,
            },
            Incoming::Request { id, method, params } => match method.as_str() {
                "ping" => {
                    self.grant(&id, Ok(json!({})));
                    Taken::Unasked
                }
                "elicitation/create" => Taken::Wish(Wish { id, params }),
                _ => {
                    self.grant(&id, Err(Rejected { code: NO_METHOD, message: "not supported".to_owned() }));
                    Taken::Unasked
                }
            },
            Incoming::Stray => Taken::Unasked,
        };
        if taken == Taken::Unasked {
            self.strays.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Shows the progress of the call that it names.
    fn progress(&self, params: &Value) -> Taken {
        let Some(id) = params["progressToken"].as_u64() else { return Taken::Unasked };
        let Some(call) = self.table().open.get(&id).and_then(|open| open.call.clone()) else { return Taken::Unasked };
        if let Some(said) = params["message"].as_str() {
            call.progress.title(clean_line(said, TITLE_BYTES_MAX));
        }
        let number = |name: &str| Some(params[name].clone()).filter(Value::is_number).unwrap_or_default();
        call.progress.metadata(json!({ "progress": number("progress"), "total": number("total") }));
        Taken::Shown
    }

    /// Ends the connection: each open request is answered with `why`, and so is each further one. The first reason stays.
    pub(crate) fn close(&self, why: &str) {
        self.places.close();
        let mut table = self.table();
        let why = table.closed.get_or_insert_with(|| why.into()).clone();
        for open in std::mem::take(&mut table.open).into_values() {
            let error = if open.is_gone { RequestError::Gone } else { RequestError::Closed(why.clone()) };
            drop(open.answer.send(Err(error)));
        }
    }

    fn open(
        &self,
        call: Option<&ToolContext>,
    ) -> Result<(u64, oneshot::Receiver<Result<Value, RequestError>>), RequestError> {
        let mut table = self.table();
        if let Some(why) = &table.closed {
            return Err(RequestError::Closed(why.clone()));
        }
        let (answer, answered) = oneshot::channel();
        table.last += 1;
        let id = table.last;
        table.open.insert(id, Open { answer, call: call.cloned(), is_gone: false });
        Ok((id, answered))
    }

    fn closed(&self) -> RequestError {
        RequestError::Closed(self.table().closed.clone().unwrap_or_else(|| "the server was stopped".into()))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Withdraws a request that nobody waits for any more.
struct Withdraw<'a> {
    connection: &'a Connection,
    id: u64,
    is_sent: bool,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        let was_open = self.connection.table().open.remove(&self.id).is_some();
        if was_open && self.is_sent {
            let params = json!({ "requestId": self.id, "reason": "the call was stopped" });
            self.connection.notify("notifications/cancelled", &params);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Mutex;

    use tamtam::tool::Progress;

    use super::*;
    use tamtam::session::TraceContext;

    fn sent(lines: &mut mpsc::Receiver<String>) -> Vec<Value> {
        std::iter::from_fn(|| lines.try_recv().ok()).map(|line| serde_json::from_str(&line).unwrap()).collect()
    }

    /// Each title and each metadata of a call.
    type Shown = Arc<Mutex<Vec<(Option<String>, Value)>>>;

    fn call() -> (ToolContext, Shown) {
        let mut context = ToolContext::detached("/".into(), "/".into());
        let shown = Shown::default();
        let seen = shown.clone();
        context.progress = Progress::new(move |title, metadata| seen.lock().unwrap().push((title, metadata)));
        (context, shown)
    }

    /// A dropped request is withdrawn, once, and its late answer is nobody's.
    #[tokio::test]
    async fn dropping_a_request_tells_the_server() {
        let (connection, mut lines) = Connection::new();
        let mut request = Box::pin(connection.request("tools/call", json!({}), None));
        assert!(futures_util::poll!(&mut request).is_pending());
        drop(request);
        let cancelled = json!({ "requestId": 1, "reason": "the call was stopped" });
        assert_eq!(
            sent(&mut lines),
            [
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}),
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}),
            ]
        );
        assert_eq!(connection.take(Incoming::Answer(1, Ok(json!({})))), Taken::Unasked);
        assert_eq!(connection.strays(), 1);
    }

    /// The second of two answers changes nothing, and no cancellation follows an answer.
    #[tokio::test]
    async fn the_first_answer_counts() {
        let (connection, mut lines) = Connection::new();
        let mut request = Box::pin(connection.request("tools/call", json!({}), None));
        assert!(futures_util::poll!(&mut request).is_pending());
        assert_eq!(connection.take(Incoming::Answer(1, Ok(json!("first")))), Taken::Awaited);
        assert_eq!(connection.take(Incoming::Answer(1, Ok(json!("second")))), Taken::Unasked);
        assert_eq!(request.await, Ok(json!("first")));
        assert_eq!(sent(&mut lines).len(), 1);
    }

    #[tokio::test]
    async fn a_call_carries_its_trace_on() {
        let (connection, mut lines) = Connection::new();
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = call().0.in_trace(TraceContext::new(parent, Some("a=b")).unwrap());
        let mut request = Box::pin(connection.request("tools/call", json!({}), Some(&context)));
        assert!(futures_util::poll!(&mut request).is_pending());
        let meta = json!({"progressToken": 1, "traceparent": parent, "tracestate": "a=b"});
        assert_eq!(sent(&mut lines)[0]["params"]["_meta"], meta);
    }

    #[tokio::test]
    async fn progress_reaches_its_call_and_no_other() {
        let (connection, mut lines) = Connection::new();
        let (context, shown) = call();
        let mut request = Box::pin(connection.request("tools/call", json!({}), Some(&context)));
        assert!(futures_util::poll!(&mut request).is_pending());
        assert_eq!(sent(&mut lines)[0]["params"], json!({"_meta": {"progressToken": 1}}));
        let progress = |token: Value| {
            let params = json!({"progressToken": token, "progress": 2, "total": 5, "message": "two\u{1b}[2J\nof five"});
            connection.take(Incoming::Notification { method: "notifications/progress".to_owned(), params })
        };
        assert_eq!(
            (progress(json!(7)), progress(json!("1")), progress(json!(1))),
            (Taken::Unasked, Taken::Unasked, Taken::Shown)
        );
        let expected = [(Some("two[2J of five".to_owned()), Value::Null), (None, json!({"progress": 2, "total": 5}))];
        assert_eq!(*shown.lock().unwrap(), expected);
        assert!(connection.only_call().is_some());
    }

    /// Whoever waits when a connection closes gets the reason, and whoever comes later too.
    #[tokio::test]
    async fn a_close_answers_all() {
        let (connection, lines) = Connection::new();
        let mut request = Box::pin(connection.request("tools/call", json!({}), None));
        assert!(futures_util::poll!(&mut request).is_pending());
        connection.close("it crashed");
        connection.close("it was stopped");
        let closed = Err(RequestError::Closed("it crashed".into()));
        assert_eq!(request.await, closed);
        assert_eq!(connection.request("tools/call", json!({}), None).await, closed);
        drop(lines);
    }

    /// A call beyond the bound waits for its place, and one that waits when the connection closes gets the reason.
    #[tokio::test]
    async fn the_open_calls_are_bounded() {
        let (connection, mut lines) = Connection::new();
        let (context, _) = call();
        let mut open: Vec<_> =
            (0..=CALLS_MAX).map(|_| Box::pin(connection.request("tools/call", json!({}), Some(&context)))).collect();
        for request in &mut open {
            assert!(futures_util::poll!(request).is_pending());
        }
        assert_eq!(sent(&mut lines).len(), CALLS_MAX);
        // So many polls use up what one task may do at a stretch.
        tokio::task::yield_now().await;
        let mut last = open.pop().unwrap();
        drop(open.pop());
        assert!(futures_util::poll!(&mut last).is_pending());
        assert_eq!(sent(&mut lines).len(), 2, "the withdrawal of one, and the other");
        let mut one_more = Box::pin(connection.request("tools/call", json!({}), Some(&context)));
        drop(open.pop());
        let mut late = Box::pin(connection.request("tools/call", json!({}), Some(&context)));
        assert!(futures_util::poll!(&mut one_more).is_pending() && futures_util::poll!(&mut late).is_pending());
        connection.close("it crashed");
        assert_eq!(late.await, Err(RequestError::Closed("it crashed".into())));
    }

    /// What the server asks is answered at once; only a question to a person is left to others.
    #[test]
    fn a_ping_is_answered_and_sampling_is_refused() {
        let (connection, mut lines) = Connection::new();
        let ask = |method: &str| {
            connection.take(Incoming::Request { id: json!("s1"), method: method.to_owned(), params: json!({}) })
        };
        assert_eq!((ask("ping"), ask("sampling/createMessage")), (Taken::Unasked, Taken::Unasked));
        assert_eq!(ask("elicitation/create"), Taken::Wish(Wish { id: json!("s1"), params: json!({}) }));
        assert_eq!(
            sent(&mut lines),
            [
                json!({"jsonrpc": "2.0", "id": "s1", "result": {}}),
                json!({"jsonrpc": "2.0", "id": "s1", "error": {"code": NO_METHOD, "message": "not supported"}}),
            ]
        );
    }
}
