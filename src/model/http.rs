//! Models that are reached over HTTP.
//!
//! [`HttpModel`] makes one POST per request and reads the event stream of its answer. Every wait for the server has a bound, and
//! so has the body that the server sends: see [`HttpOptions`]. Dropping the future of a request closes its connection, or with
//! HTTP/2 its stream. Errors are one line without keys; `failure` bounds how many of the server's words they repeat.
//!
//! A change must keep this: a model never retries (the session decides about that), never follows a redirect (the key would go
//! elsewhere), and takes no proxy from the environment.

mod client;
mod exchange;
mod exchanges;
#[cfg(feature = "web-fetch")]
mod page;
mod public;
#[cfg(feature = "websocket")]
mod socket;

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    Api, BoxFuture, Deltas, Endpoint, ErrorKind, GovernedBy, HttpOptions, Model, ModelAnswer, ModelError, ModelLimits,
    Price, Request, Secret,
    catalogue::price_at,
    endpoint::without_secrets,
    failure::{of_files, retry_after},
    sse::Decoder,
    wire::{self, Reading, Step},
};
use crate::words::{message::ModelRef, trace::TraceContext};

pub use client::HttpClient;
pub use exchange::{HttpAnswer, HttpEvent, HttpRequest};
use exchanges::Answered;
pub use exchanges::Exchanges;
#[cfg(feature = "web-fetch")]
pub(crate) use page::PageUrl;
pub use public::Addresses;

/// The most bytes of an error body that are read, and the longest wait for them.
const ERROR_BYTES_MAX: usize = 64 << 10;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait, after the end mark, for the end of the body, so that the connection can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(20);

/// A model behind an [`Endpoint`].
///
/// ```
/// use tamtam::model::{Api, Endpoint, HttpModel, HttpOptions, Model, Secret};
///
/// let endpoint = Endpoint::new(Api::OpenAiChat, "local", "http://127.0.0.1:11434/v1", "qwen3")
///     .with_key(Secret::new("not-shown"));
/// let model = HttpModel::new(endpoint, HttpOptions::default()).unwrap();
/// assert_eq!(model.id().to_string(), "local/qwen3");
/// ```
#[derive(Clone)]
pub struct HttpModel {
    id: ModelRef,
    endpoint: Endpoint,
    url: reqwest::Url,
    rendering: String,
    client: HttpClient,
    governed_by: GovernedBy,
}

impl HttpModel {
    /// A model with its own connections. Opens none yet.
    ///
    /// Fails if the base URL is not an `http` or `https` URL, or if the key cannot be sent in a header.
    pub fn new(endpoint: Endpoint, options: HttpOptions) -> Result<HttpModel, ModelError> {
        HttpModel::with_client(endpoint, HttpClient::new(options))
    }

    /// A model that shares the connections of `client`.
    pub fn with_client(endpoint: Endpoint, client: HttpClient) -> Result<HttpModel, ModelError> {
        let bad = |what: &str| {
            let shown = without_secrets(&endpoint.base_url);
            ModelError::new(
                ErrorKind::InvalidRequest,
                format!("bad base url {shown:?} of {}: {what}", endpoint.provider),
            )
        };
        // Only the base is checked: with a path after it, `http://` would become a host called "chat".
        let base: reqwest::Url = endpoint.base_url.trim().parse().map_err(|_| bad("not a url"))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(bad("use http://HOST or https://HOST"));
        }
        let url: reqwest::Url = endpoint.url().parse().map_err(|_| bad("not a url"))?;
        let unsendable = |key: &Secret| reqwest::header::HeaderValue::from_str(key.reveal()).is_err();
        if endpoint.key.as_ref().is_some_and(unsendable) {
            let message = format!("the key of {} has characters that no header can carry", endpoint.provider);
            return Err(ModelError::new(ErrorKind::Auth, message));
        }
        let id = ModelRef { provider: endpoint.provider.clone(), model: endpoint.model.clone() };
        let Endpoint { provider, base_url, key, rate_limits, .. } = &endpoint;
        let governed_by = GovernedBy::new(provider, base_url, key.as_ref(), *rate_limits);
        Ok(HttpModel { id, rendering: wire::rendering(&endpoint), url, endpoint, client, governed_by })
    }

    async fn run(&self, request: &Request, deltas: &mut dyn Deltas) -> Result<ModelAnswer, ModelError> {
        let mut clock = Clock::start(self.client.options(), self.endpoint.quirks.first_timeout);
        let body = wire::body(&self.endpoint, &self.rendering, request);
        let mut answer = self.ask(body, request.trace.as_ref(), &clock).await?;
        deltas.head(answer.status(), &|name| answer.header(name).map(str::to_owned));
        let read = self.take(request, &mut answer, &mut clock, deltas).await;
        answer.keep().await?;
        read
    }

    /// The head of the answer: of the server, or of the file that is played.
    async fn ask(&self, body: Bytes, trace: Option<&TraceContext>, clock: &Clock) -> Result<Answered, ModelError> {
        let (exchanges, key) = (self.client.options().exchanges.as_ref(), self.endpoint.key.as_ref());
        if let Some(played) = exchanges.and_then(|exchanges| exchanges.answer(self.url.as_str(), &body, key)) {
            return played;
        }
        let client = self.client.for_scheme(self.url.scheme()).await?;
        let sent = timeout_at(clock.until(), self.post(&client, body.clone(), trace).send()).await;
        let answer = sent.map_err(|_| self.timed_out(clock))?.map_err(|error| self.not_sent(&error))?;
        let kept = exchanges.map(|exchanges| exchanges.begin(self.url.as_str(), &body, key, &answer));
        Ok(Answered::of_server(answer, kept))
    }

    async fn take(
        &self,
        request: &Request,
        answer: &mut Answered,
        clock: &mut Clock,
        deltas: &mut dyn Deltas,
    ) -> Result<ModelAnswer, ModelError> {
        if answer.status() != 200 {
            return Err(self.refused(answer).await);
        }
        if answer.header("content-encoding").is_some_and(|coding| coding != "identity") {
            let error = self.endpoint.error(ErrorKind::Protocol, "answered in a compression that was not asked for");
            return Err(error.with_status(200));
        }
        self.read(request, answer, clock, deltas).await
    }

    fn post(&self, client: &reqwest::Client, body: Bytes, trace: Option<&TraceContext>) -> reqwest::RequestBuilder {
        let post = client
            .post(self.url.clone())
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .header(reqwest::header::ACCEPT, "text/event-stream")
            .body(body);
        self.with_headers(post, trace)
    }

    /// The request with its key and what it carries on.
    fn with_headers(&self, post: reqwest::RequestBuilder, trace: Option<&TraceContext>) -> reqwest::RequestBuilder {
        let trace = trace
            .into_iter()
            .flat_map(|trace| [("traceparent", Some(trace.traceparent())), ("tracestate", trace.tracestate())]);
        let post = trace.fold(post, |post, (name, value)| match value {
            Some(value) => post.header(name, value),
            None => post,
        });
        let (post, name, scheme) = match self.endpoint.api {
            #[cfg(feature = "openai")]
            Api::OpenAiChat | Api::OpenAiResponses => (post, "authorization", "Bearer "),
            #[cfg(feature = "anthropic")]
            Api::AnthropicMessages => (post.header("anthropic-version", super::anthropic::VERSION), "x-api-key", ""),
            #[cfg(feature = "gemini")]
            Api::GeminiGenerateContent => (post, "x-goog-api-key", ""),
        };
        let key = self.endpoint.key.as_ref().map(|key| format!("{scheme}{}", key.reveal()));
        match key.map(reqwest::header::HeaderValue::try_from) {
            Some(Ok(mut key)) => {
                key.set_sensitive(true);
                post.header(name, key)
            }
            _ => post,
        }
    }

    async fn read(
        &self,
        request: &Request,
        response: &mut Answered,
        clock: &mut Clock,
        deltas: &mut dyn Deltas,
    ) -> Result<ModelAnswer, ModelError> {
        let options = self.client.options();
        let mut reading = Reading::new(&self.endpoint, request, deltas);
        let mut decoder = Decoder::new(options.event_bytes_max);
        let (mut bytes_read, mut lines) = (0_usize, 0);
        // The bytes so far, until it is clear whether they begin a stream of events.
        let mut start = Some(Vec::new());
        loop {
            let chunk = match timeout_at(clock.until(), response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break,
                // The model's words are complete; only bookkeeping is lost.
                Ok(Err(_)) | Err(_) if reading.draft.is_complete => return reading.finish(),
                Ok(Err(error)) => {
                    response.forget();
                    return Err(self.broken(&error));
                }
                Err(_) => {
                    response.forget();
                    return Err(self.timed_out(clock));
                }
            };
            bytes_read = bytes_read.saturating_add(chunk.len());
            if bytes_read > options.answer_bytes_max {
                response.forget();
                let what = format!("sent an answer of more than {} bytes", options.answer_bytes_max);
                return Err(self.endpoint.error(ErrorKind::AnswerTooLarge, what));
            }
            if let Some(seen) = &mut start {
                seen.extend_from_slice(&chunk);
                match is_events(seen) {
                    Some(true) => start = None,
                    Some(false) => return Err(self.no_events(std::mem::take(seen), response).await),
                    None => {}
                }
            }
            let events = decoder.push(&chunk).map_err(|error| {
                response.forget();
                self.endpoint.error(ErrorKind::AnswerTooLarge, error)
            })?;
            if std::mem::replace(&mut lines, decoder.lines) != decoder.lines {
                clock.line();
            }
            for event in events {
                match reading.event(&event)? {
                    Step::Nothing => {}
                    Step::Something if reading.draft.is_complete => clock.answer_is_whole(options),
                    Step::Something if reading.draft.assembly.parts.is_empty() => {}
                    Step::Something => clock.event(options),
                    Step::End => {
                        let _ = timeout(DRAIN_TIMEOUT, response.chunk()).await;
                        return reading.finish();
                    }
                }
            }
        }
        if let Some(event) = decoder.finish() {
            // The last event lacks its empty line: either the server is careless or the stream was cut within it. Half an event
            // is not JSON, so an error here says "cut off" and not "nonsense".
            reading.event(&event).map(drop).or_else(|error| match error.kind {
                ErrorKind::Protocol => Ok(()),
                _ => Err(error),
            })?;
        }
        reading.finish()
    }

    /// An answer that is not a stream of events although its status is 200: an error as JSON, or a web page.
    async fn no_events(&self, start: Vec<u8>, response: &mut Answered) -> ModelError {
        let body = rest_of(start, response).await;
        let value: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        if !value["error"].is_null() || !value[0]["error"].is_null() {
            return self.endpoint.refusal(None, &body, None);
        }
        let shown = self.endpoint.quote(&body);
        let what = format!("answered with something other than a stream of events: {shown}");
        // A page may pass, as one of a gateway that is busy. A server that answers as JSON does not stream the next time either.
        let kind = if value.is_object() { ErrorKind::InvalidRequest } else { ErrorKind::Protocol };
        self.endpoint.error(kind, what).with_status(200)
    }

    async fn refused(&self, response: &mut Answered) -> ModelError {
        let wait = retry_after(response.header("retry-after-ms"), response.header("retry-after"), SystemTime::now());
        let status = response.status();
        self.endpoint.refusal(Some(status), &rest_of(Vec::new(), response).await, wait)
    }

    fn timed_out(&self, clock: &Clock) -> ModelError {
        let options = self.client.options();
        let (kind, what) = if clock.total <= clock.idle {
            (ErrorKind::Timeout, format!("did not finish within {:?}", options.total_timeout))
        } else if clock.has_begun {
            (ErrorKind::Timeout, format!("sent nothing new within {:?}", options.idle_timeout))
        } else {
            // If the limit is for a slow server, another try would only make it start over.
            let is_slow = self.endpoint.quirks.first_timeout.is_some();
            let kind = if is_slow { ErrorKind::Silent } else { ErrorKind::Timeout };
            (kind, format!("sent nothing of its answer within {:?} (the limit first_timeout)", clock.first))
        };
        self.endpoint.error(kind, what)
    }

    fn not_sent(&self, error: &reqwest::Error) -> ModelError {
        let at = without_secrets(self.url.as_str());
        if error.is_timeout() {
            // The only limit that the client itself has is that of a connection: nothing was sent.
            let message = format!("no connection to {at} within {:?}", self.client.options().connect_timeout);
            return ModelError::new(ErrorKind::Network, message);
        }
        let what = if error.is_connect() { "failed to connect to" } else { "failed to send to" };
        let cause = self.endpoint.quote(&innermost(error));
        ModelError::new(ErrorKind::Network, format!("{what} {at}: {cause}"))
    }

    fn broken(&self, error: &reqwest::Error) -> ModelError {
        let cause = self.endpoint.quote(&innermost(error));
        self.endpoint.error(ErrorKind::Truncated, format!("broke off the stream: {cause}"))
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Model for HttpModel {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn limits(&self) -> ModelLimits {
        self.endpoint.limits
    }

    fn price(&self) -> Option<Price> {
        price_at(&self.endpoint.provider, &self.endpoint.base_url, &self.endpoint.model)
    }

    fn governed_by(&self) -> Option<GovernedBy> {
        Some(self.governed_by.clone())
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async {
            #[cfg(feature = "websocket")]
            let over_socket = socket::run(self, request, deltas).await.map_err(|error| of_files(error, request))?;
            #[cfg(not(feature = "websocket"))]
            let over_socket = None;
            let answer = match over_socket {
                Some(answer) => answer,
                None => self.run(request, deltas).await.map_err(|error| of_files(error, request))?,
            };
            // A summary beside the turn is no answer of it.
            #[cfg(feature = "websocket")]
            let dropped = match (&request.session, &request.turn) {
                (Some(session), Some(_)) => self.client.lines().owed(session, &self.id),
                _ => Vec::new(),
            };
            #[cfg(not(feature = "websocket"))]
            let dropped = Vec::new();
            Ok(ModelAnswer { by: Some(self.id.clone()), dropped, ..answer })
        })
    }
}

/// The rest of a short body as text. Bytes beyond the bound, or that come too late, are left out.
async fn rest_of(mut body: Vec<u8>, response: &mut Answered) -> String {
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = ERROR_BYTES_MAX.saturating_sub(body.len());
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() >= room {
                break;
            }
        }
    };
    let _ = timeout(ERROR_BODY_TIMEOUT, read).await;
    String::from_utf8_lossy(&body).into_owned()
}

/// When to give up: at the limit of silence or at the total limit, whichever is nearer.
///
/// Before the first piece of the answer (a text, a thought, a call) the server may read the prompt for long. It has a longer limit
/// then, and all that it sends shows that it works: a comment, a ping, an event without a piece. Afterwards only events of the
/// answer count, because a server that has lost its model may send pings for ever.
struct Clock {
    total: Instant,
    idle: Instant,
    /// The limit of silence before the first piece.
    first: Duration,
    has_begun: bool,
}

impl Clock {
    /// `first` is this server's own limit before the first piece.
    fn start(options: &HttpOptions, first: Option<Duration>) -> Clock {
        let first = first.unwrap_or(options.first_timeout);
        Clock { total: after(options.total_timeout), idle: after(first), first, has_begun: false }
    }

    fn until(&self) -> Instant {
        self.idle.min(self.total)
    }

    /// The server has sent a whole line, of an event or a comment. A byte now and then is none.
    fn line(&mut self) {
        if !self.has_begun {
            self.idle = after(self.first);
        }
    }

    /// The server has sent an event of its answer.
    fn event(&mut self, options: &HttpOptions) {
        self.has_begun = true;
        self.idle = after(options.idle_timeout);
    }

    /// From here on only the end mark is awaited. A server that keeps sending does not move the limit.
    fn answer_is_whole(&mut self, options: &HttpOptions) {
        self.has_begun = true;
        self.idle = self.idle.min(after(options.end_timeout));
    }
}

/// The moment `time` from now. A limit beyond the clock's range, such as `Duration::MAX` for "none", becomes ten years.
fn after(time: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    Instant::now() + time.min(NEVER)
}

/// Whether a body that begins so is a stream of events, and not a page or an object; `None` if that is not clear yet. No line of a
/// stream begins with `<`, `{` or `[`; the content type is not asked, because servers and proxies get it wrong.
fn is_events(start: &[u8]) -> Option<bool> {
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'<' | b'{' | b'[') => Some(false),
        // The mark itself may be split over chunks; a stream of white space is not kept.
        None if start.len() < 64 => None,
        _ => (start.len() >= 3).then_some(true),
    }
}

/// The deepest cause of an error: the outer ones say little more than "error".
fn innermost(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A server that reads a long prompt for minutes is not abandoned while it shows that it works; once it answers, silence ends
    /// the request.
    #[tokio::test(start_paused = true)]
    async fn whatever_comes_before_the_first_piece_shows_that_the_server_works() {
        let options = HttpOptions::default();
        let mut clock = Clock::start(&options, Some(600 * SECOND));
        let left = |clock: &Clock| clock.until() - Instant::now();
        for _ in 0..2 {
            tokio::time::advance(599 * SECOND).await;
            assert_eq!(left(&clock), SECOND);
            clock.line();
            assert_eq!(left(&clock), 600 * SECOND);
        }
        let mut clock = Clock::start(&options, None);
        assert_eq!(left(&clock), 300 * SECOND, "of a server that is not known to be slow");
        clock.event(&options);
        tokio::time::advance(119 * SECOND).await;
        clock.line();
        assert_eq!(left(&clock), SECOND, "a ping behind the first piece moves nothing");
    }
}
