//! Requests of the Responses API over a WebSocket, so that a steering message can go into the answer that is being made
//! (`docs/decisions/0057`).
//!
//! ```text
//! create ──► created ──► pieces ──► incomplete: steered ──► created: the successor ─ ─ ─ next request ─► pieces ──► …
//!                steer ──► accepted ──┘                                          └─ another request: closed
//! ```
//!
//! Each request is whole, as over HTTP, and asks the server to keep nothing. A change must keep that an answer is read to the end of
//! its own response, that nothing of a successor is shown before the request that it answers, and that a connection is closed where
//! the provider may still have a message of ours.

mod ahead;
mod estimate;
mod kept;
mod line;

use std::sync::Arc;

use serde::Deserialize;
use tokio::time::timeout_at;
use tokio_tungstenite::tungstenite::{Error, Utf8Bytes};

use super::{Clock, HttpModel};
use crate::model::{
    AnswerPart, Api, Deltas, ErrorKind, ModelAnswer, ModelError, Request, UserItem,
    failure::retry_after,
    responses::{create, is_reminded, steer},
    sse::Event,
    wire::{Reading, Step},
};
use ahead::{Ahead, Told};
use estimate::reads;
pub(super) use kept::Lines;
use kept::{Asked, Came, Kept};
use line::{Line, Made};

/// Why a message came back, where the provider has not said so.
const CALLS_COME_FIRST: &str = "the answer ended in calls: the message is read behind their results";
const NO_SUCCESSOR: &str = "the answer ended before the provider went on with it";

/// The fields of an event that are needed before it is read.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: std::borrow::Cow<'a, str>,
}

/// A connection on which an answer comes, and what has come of it.
struct Begun {
    line: Box<Line>,
    /// The name of the response that is read; `None` before it has begun.
    running: Option<String>,
    first: Option<Utf8Bytes>,
}

/// An answer, and the connection where it can be kept, with the answer that runs on it.
type Whole = (ModelAnswer, Option<Box<Line>>, Option<Came>);

/// Makes the request. `None` if the server has no WebSocket at this address: then it is made over HTTP.
pub(super) async fn run(
    model: &HttpModel,
    request: &Request,
    deltas: &mut dyn Deltas,
) -> Result<Option<ModelAnswer>, ModelError> {
    // What a session has kept is for its very next request, whichever that is.
    let kept = request.session.as_ref().and_then(|session| model.client.lines().take(session));
    let options = model.client.options();
    let is_wanted = model.endpoint.api == Api::OpenAiResponses && model.endpoint.quirks.websocket;
    // What is recorded and played are exchanges over HTTP.
    if !is_wanted || options.exchanges.is_some() || model.client.has_no_socket(&model.url) {
        kept.into_iter().for_each(|kept| model.client.lines().close(request, kept));
        return Ok(None);
    }
    let to = format!("{} {:?}", model.rendering, (&model.id, &model.url, &model.governed_by));
    let fits = |kept: &Kept| {
        let is_next = kept.came.as_ref().is_none_or(|came| came.is_continued_by(request));
        kept.to == to && kept.line.has(options.total_timeout) && is_next
    };
    // What does not fit is closed before anything else is asked.
    let kept = match kept {
        Some(kept) if !fits(&kept) => {
            model.client.lines().close(request, kept);
            None
        }
        kept => kept,
    };
    let mut clock = Clock::start(options, model.endpoint.quirks.first_timeout);
    let mut begun = None;
    match kept {
        Some(Kept { line, came: Some(came), .. }) => {
            deltas.head(OK, &|_| None);
            let reads = came.reads;
            let successor = Begun { line: Box::new(line), running: Some(came.id), first: None };
            match Answering::new(model, request, successor, clock).read(deltas).await {
                Ok(whole) => return Ok(Some(keep(model, request, to, whole))),
                Err(Broke { error, is_shown: true }) => return Err(error),
                // Nobody has asked for what the server began ahead. Where it came to nothing, it is asked as anything else is; it has read
                // the conversation all the same.
                Err(Broke { is_shown: false, .. }) => model.client.lines().owe(request, &model.id, reads),
            }
            clock = Clock::start(options, model.endpoint.quirks.first_timeout);
        }
        Some(Kept { line, came: None, .. }) => begun = asked_again(model, request, line, &clock, deltas).await?,
        None => {}
    }
    let begun = match begun {
        Some(begun) => begun,
        None => match asked(model, request, &clock, deltas).await? {
            Some(begun) => begun,
            None => return Ok(None),
        },
    };
    let whole = Answering::new(model, request, begun, clock).read(deltas).await.map_err(|broke| broke.error)?;
    Ok(Some(keep(model, request, to, whole)))
}

/// Keeps the connection for the session's next request, and gives the answer.
fn keep(model: &HttpModel, request: &Request, to: String, (answer, line, came): Whole) -> ModelAnswer {
    if let (None, Some(came)) = (&line, &came) {
        model.client.lines().owe(request, &model.id, came.reads);
    }
    if let (Some(session), Some(line)) = (&request.session, line) {
        model.client.lines().keep(session, Kept { line: *line, to, of: model.id.clone(), came }, request.turn.as_ref());
    }
    answer
}

/// Asks over a new connection, and waits for the first event.
async fn asked(
    model: &HttpModel,
    request: &Request,
    clock: &Clock,
    deltas: &mut dyn Deltas,
) -> Result<Option<Begun>, ModelError> {
    let mut line = match Line::make(model, request.trace.as_ref(), deltas).await? {
        Made::Line(line) => line,
        Made::None { for_now } => {
            let provider = &model.endpoint.provider;
            tracing::info!(provider, for_now, "there is no websocket: the request goes over http");
            if !for_now {
                model.client.note_no_socket(&model.url);
            }
            return Ok(None);
        }
    };
    let body = create(&model.endpoint, &model.rendering, request);
    let not_sent = |why: &str| {
        let what = format!("broke off before it was asked: {}", model.endpoint.quote(why));
        model.endpoint.error(ErrorKind::Network, what)
    };
    match timeout_at(clock.until(), line.send(body)).await {
        Err(_) => return Err(not_sent("it takes too long")),
        Ok(sent) => sent.map_err(|error| not_sent(&error.to_string()))?,
    }
    let first = timeout_at(clock.until(), line.next()).await.map_err(|_| model.timed_out(clock))?;
    let first = first.map_err(|error| model.line_broke(&error))?;
    begins(&first, deltas);
    Ok(Some(Begun { line, running: None, first: Some(first) }))
}

/// Asks over a connection that was kept. `None` if it was closed meanwhile, or something has come that nobody asked for: nothing was
/// answered then, and it is asked elsewhere.
async fn asked_again(
    model: &HttpModel,
    request: &Request,
    mut line: Line,
    clock: &Clock,
    deltas: &mut dyn Deltas,
) -> Result<Option<Begun>, ModelError> {
    if line.is_spoken_to() {
        return Ok(None);
    }
    let body = create(&model.endpoint, &model.rendering, request);
    let first = async {
        line.send(body).await?;
        line.next().await
    };
    match timeout_at(clock.until(), first).await {
        Err(_) => Err(model.timed_out(clock)),
        Ok(Err(_)) => Ok(None),
        Ok(Ok(first)) => {
            begins(&first, deltas);
            Ok(Some(Begun { line: Box::new(line), running: None, first: Some(first) }))
        }
    }
}

/// The status of an answer that comes.
const OK: u16 = 200;

/// Says with the first event what over HTTP the head of an answer says.
fn begins(first: &str, deltas: &mut dyn Deltas) {
    let error: Option<Refusal> = serde_json::from_str(first).ok().filter(|refusal: &Refusal| refusal.kind == "error");
    match error {
        Some(refusal) => deltas.head(refusal.status.unwrap_or(500), &|name| refusal.header(name)),
        None => deltas.head(OK, &|_| None),
    }
}

/// An event that says what over HTTP a refusal says: `{"type": "error", "status": 429, "error": {…}, "headers": {…}}`.
#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, serde_json::Value>,
}

impl Refusal {
    fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?.1;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }
}

/// Why an answer was not read to its end, and whether some of it was shown.
struct Broke {
    error: ModelError,
    is_shown: bool,
}

/// An answer that is being read.
struct Answering<'a> {
    model: &'a HttpModel,
    request: &'a Request,
    begun: Begun,
    clock: Clock,
    ahead: Ahead,
    /// Whether messages may go into the answer: with a text behind the history, the next request is another one.
    takes: bool,
    has_ended: bool,
    bytes_read: usize,
}

impl<'a> Answering<'a> {
    fn new(model: &'a HttpModel, request: &'a Request, begun: Begun, clock: Clock) -> Answering<'a> {
        let (ahead, takes) = (Ahead::default(), !is_reminded(request));
        Answering { model, request, begun, clock, ahead, takes, has_ended: false, bytes_read: 0 }
    }

    /// Reads the answer to its end, and sends what steers meanwhile.
    async fn read(mut self, deltas: &mut dyn Deltas) -> Result<Whole, Broke> {
        let (model, request) = (self.model, self.request);
        let mut reading = Reading::new(&model.endpoint, request, deltas);
        let came = self.events(&mut reading).await.map_err(|error| {
            let is_shown = !reading.draft.assembly.parts.is_empty();
            // The error that was taken for the refusal of a message may have been about the answer.
            let doubt = self.ahead.doubt.as_deref().filter(|text| !text.is_empty());
            Broke { error: doubt.map_or(error, |text| refused(model, text)), is_shown }
        })?;
        let mut answer = reading.finish().map_err(|error| Broke { error, is_shown: true })?;
        let has_calls = answer.calls().next().is_some();
        let is_settled = self.ahead.is_empty() || came.is_some() || (!self.ahead.is_open() && !has_calls);
        let is_clean = is_settled && self.ahead.doubt.is_none();
        answer.steered = self.ahead.end(if has_calls { CALLS_COME_FIRST } else { NO_SUCCESSOR });
        let came = came.map(|(id, read)| {
            let reads = reads(request, &answer, &read);
            Came { id, asked: Asked::of(request), answer: shown(&answer), read, reads }
        });
        Ok((answer, is_clean.then_some(self.begun.line), came))
    }

    /// Takes events until the answer has ended, and, where the provider has messages of ours, until it has said what it did with them.
    /// Gives the successor that it has begun, and the messages that it has read.
    async fn events(&mut self, reading: &mut Reading<'_>) -> Result<Option<Successor>, ModelError> {
        let (model, options) = (self.model, self.model.client.options());
        loop {
            let text = match self.next().await {
                Ok(Some(text)) => text,
                // A message was sent.
                Ok(None) => continue,
                Err(_) if self.has_ended => return Ok(None),
                Err(error) => return Err(error),
            };
            self.bytes_read = self.bytes_read.saturating_add(text.len());
            if self.bytes_read > options.answer_bytes_max {
                let what = format!("sent an answer of more than {} bytes", options.answer_bytes_max);
                return Err(model.endpoint.error(ErrorKind::AnswerTooLarge, what));
            }
            let kind = serde_json::from_str::<Head<'_>>(&text).map(|head| head.kind.into_owned()).unwrap_or_default();
            if self.is_of_a_message(&kind, &text) {
                if self.has_ended && !self.ahead.is_open() {
                    return Ok(None);
                }
                continue;
            }
            match kind.as_str() {
                "response.created" if self.has_ended => {
                    return Ok(self.ahead.successor().map(|read| (id_of(&text), read)));
                }
                "response.created" => self.begun.running = Some(id_of(&text)),
                _ if self.has_ended => continue,
                "error" => return Err(refused(model, &text)),
                _ => {}
            }
            self.clock.line();
            let event = Event { data: text.as_str().to_owned(), ..Event::default() };
            match reading.event(&event)? {
                Step::Nothing => {}
                Step::Something if reading.draft.assembly.parts.is_empty() => {}
                Step::Something => self.clock.event(options),
                Step::End => {
                    let is_call = |part: &AnswerPart| matches!(part, AnswerPart::Call { .. });
                    if reading.draft.assembly.parts.iter().any(is_call) || !self.ahead.is_open() {
                        return Ok(None);
                    }
                    // The provider goes on with what it has, or sends it back.
                    self.has_ended = true;
                    self.clock.answer_is_whole(options);
                }
            }
        }
    }

    /// Takes an event that says what became of a message.
    fn is_of_a_message(&mut self, kind: &str, text: &str) -> bool {
        if kind != "error" && !kind.starts_with("response.steer.") {
            return false;
        }
        let doubted = self.ahead.doubt.is_some();
        let told = self.ahead.event(kind, &serde_json::from_str(text).unwrap_or_default());
        if let Some(Told::Accepted(message)) = &told {
            self.request.steers.sent(message);
        }
        if self.ahead.doubt.is_some() && !doubted {
            // If it was about the answer, nothing more comes of that.
            self.clock.answer_is_whole(self.model.client.options());
        }
        told.is_some()
    }

    /// The next event; `None` once a message that steers was sent instead.
    async fn next(&mut self) -> Result<Option<Utf8Bytes>, ModelError> {
        if let Some(first) = self.begun.first.take() {
            return Ok(Some(first));
        }
        let takes = self.takes && !self.has_ended && self.begun.running.is_some() && self.ahead.may_send();
        let until = self.clock.until();
        let next = tokio::select! {
            biased;
            next = timeout_at(until, self.begun.line.next()) => next,
            item = self.request.steers.next(), if takes => {
                self.steer(item).await?;
                return Ok(None);
            }
        };
        let next = next.map_err(|_| self.model.timed_out(&self.clock))?;
        next.map(Some).map_err(|error: Error| self.model.line_broke(&error))
    }

    async fn steer(&mut self, item: Arc<UserItem>) -> Result<(), ModelError> {
        let text = steer(&self.model.endpoint, self.begun.running.as_deref().unwrap_or_default(), &item);
        self.ahead.send(item);
        let sent = timeout_at(self.clock.until(), self.begun.line.send(text)).await;
        sent.map_err(|_| self.model.timed_out(&self.clock))?.map_err(|error| self.model.line_broke(&error))
    }
}

/// The name of a response that was begun without a request, and the messages that it has read.
type Successor = (String, Vec<Arc<UserItem>>);

/// The error that an event says.
fn refused(model: &HttpModel, text: &str) -> ModelError {
    let refusal = serde_json::from_str::<Refusal>(text).ok();
    let header = |name: &str| refusal.as_ref().and_then(|refusal| refusal.header(name));
    let wait = retry_after(
        header("retry-after-ms").as_deref(),
        header("retry-after").as_deref(),
        std::time::SystemTime::now(),
    );
    model.endpoint.refusal(refusal.as_ref().and_then(|refusal| refusal.status), text, wait)
}

/// The parts of an answer as a history has them: none of one without a word.
fn shown(answer: &ModelAnswer) -> Vec<AnswerPart> {
    let says = |part: &AnswerPart| !matches!(part, AnswerPart::Text { text, .. } if text.is_empty());
    if answer.parts.iter().any(says) { answer.parts.clone() } else { Vec::new() }
}

/// The name of the response that an event begins.
fn id_of(text: &str) -> String {
    let event: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    event["response"]["id"].as_str().unwrap_or_default().to_owned()
}
