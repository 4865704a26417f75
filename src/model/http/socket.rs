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
mod kept;
mod line;

use std::sync::Arc;

use serde::Deserialize;
use tokio::time::timeout_at;
use tokio_tungstenite::tungstenite::{Error, Utf8Bytes};

use super::{Clock, HttpModel};
use crate::model::{
    AnswerPart, Api, Deltas, ErrorKind, ModelAnswer, ModelError, Request, UserItem,
    responses::{create, steer},
    sse::Event,
    wire::{Reading, Step},
};
use ahead::{Ahead, Told};
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

/// An answer that is being read.
struct Answering<'a> {
    model: &'a HttpModel,
    request: &'a Request,
    line: Box<Line>,
    clock: Clock,
    ahead: Ahead,
    /// The name of the response that is read; `None` before it has begun.
    running: Option<String>,
}

/// Makes the request. `None` if the server has no WebSocket at this address: then it is made over HTTP.
pub(super) async fn run(
    model: &HttpModel,
    request: &Request,
    deltas: &mut dyn Deltas,
) -> Result<Option<ModelAnswer>, ModelError> {
    // What is recorded and played are exchanges over HTTP.
    let is_taped = model.client.options().exchanges.is_some();
    let has_none = || model.client.has_no_socket(&model.url);
    if model.endpoint.api != Api::OpenAiResponses || !model.endpoint.quirks.websocket || is_taped || has_none() {
        return Ok(None);
    }
    let clock = Clock::start(model.client.options(), model.endpoint.quirks.first_timeout);
    let to = format!("{} {:?}", model.rendering, (&model.id, &model.url, &model.governed_by));
    let kept = request.session.as_ref().and_then(|session| model.client.lines().take(session));
    let (line, running, first) = match kept.filter(|kept| kept.to == to) {
        Some(Kept { line, came: Some(came), .. }) if came.is_continued_by(request) => {
            (Box::new(line), Some(came.id), None)
        }
        Some(Kept { line, came: None, .. }) if line.is_young() => match asked_again(model, request, line, &clock).await
        {
            Some((line, first)) => (Box::new(line), None, Some(first)),
            None => match asked(model, request, &clock, deltas).await? {
                Some(line) => (line, None, None),
                None => return Ok(None),
            },
        },
        _ => match asked(model, request, &clock, deltas).await? {
            Some(line) => (line, None, None),
            None => return Ok(None),
        },
    };
    let answering = Answering { model, request, line, clock, ahead: Ahead::default(), running };
    let (answer, line, came) = answering.read(first, deltas).await?;
    if let (Some(session), Some(line)) = (&request.session, line) {
        model.client.lines().keep(session, Kept { line: *line, to, came });
    }
    Ok(Some(answer))
}

/// Asks over a new connection.
async fn asked(
    model: &HttpModel,
    request: &Request,
    clock: &Clock,
    deltas: &mut dyn Deltas,
) -> Result<Option<Box<Line>>, ModelError> {
    let mut line = match Line::make(model, request.trace.as_ref(), clock, deltas).await? {
        Made::Line(line) => line,
        Made::None => {
            tracing::info!(
                provider = model.endpoint.provider,
                "the server has no websocket here: requests go over http"
            );
            model.client.note_no_socket(&model.url);
            return Ok(None);
        }
    };
    let body = create(&model.endpoint, &model.rendering, request);
    let sent = timeout_at(clock.until(), line.send(body)).await;
    sent.map_err(|_| model.timed_out(clock))?.map_err(|error| model.line_broke(&error))?;
    Ok(Some(line))
}

/// Asks over a connection that was kept. `None` if it was closed meanwhile: nothing was answered then, and it is asked elsewhere.
async fn asked_again(
    model: &HttpModel,
    request: &Request,
    mut line: Line,
    clock: &Clock,
) -> Option<(Line, Result<Utf8Bytes, ModelError>)> {
    let body = create(&model.endpoint, &model.rendering, request);
    match timeout_at(clock.until(), async {
        line.send(body).await?;
        line.next().await
    })
    .await
    {
        Ok(Ok(first)) => Some((line, Ok(first))),
        Ok(Err(_)) => None,
        Err(_) => Some((line, Err(model.timed_out(clock)))),
    }
}

impl Answering<'_> {
    /// Reads the answer to its end, and sends what steers meanwhile. Gives the answer, and the connection where it can be kept, with
    /// the answer that runs on it.
    async fn read(
        mut self,
        mut first: Option<Result<Utf8Bytes, ModelError>>,
        deltas: &mut dyn Deltas,
    ) -> Result<(ModelAnswer, Option<Box<Line>>, Option<Came>), ModelError> {
        let (model, request) = (self.model, self.request);
        let options = model.client.options();
        let mut reading = Reading::new(&model.endpoint, request, deltas);
        let mut bytes_read = 0_usize;
        let mut has_ended = false;
        let mut came = None;
        loop {
            let text = match first.take() {
                Some(first) => first?,
                None => match self.next(has_ended).await {
                    Ok(Some(text)) => text,
                    // A message was sent.
                    Ok(None) => continue,
                    Err(_) if has_ended => break,
                    Err(error) => return Err(error),
                },
            };
            bytes_read = bytes_read.saturating_add(text.len());
            if bytes_read > options.answer_bytes_max {
                let what = format!("sent an answer of more than {} bytes", options.answer_bytes_max);
                return Err(model.endpoint.error(ErrorKind::AnswerTooLarge, what));
            }
            let kind = serde_json::from_str::<Head<'_>>(&text).map(|head| head.kind.into_owned()).unwrap_or_default();
            if kind == "error" || kind.starts_with("response.steer.") {
                let event = serde_json::from_str(&text).unwrap_or_default();
                if let Some(told) = self.ahead.event(&kind, &event) {
                    if let Told::Accepted(message) = told {
                        request.steers.sent(&message);
                    }
                    if has_ended && !self.ahead.is_open() {
                        break;
                    }
                    continue;
                }
            }
            if kind == "response.created" {
                let id = id_of(&text);
                if has_ended {
                    came = self.ahead.successor().map(|read| (id, read));
                    break;
                }
                self.running = Some(id);
            }
            if has_ended {
                continue;
            }
            self.clock.line();
            match reading.event(&Event { name: String::new(), data: text.as_str().to_owned(), ..Event::default() })? {
                Step::Nothing => {}
                Step::Something if reading.draft.assembly.parts.is_empty() => {}
                Step::Something => self.clock.event(options),
                Step::End => {
                    let has_calls =
                        reading.draft.assembly.parts.iter().any(|part| matches!(part, AnswerPart::Call { .. }));
                    if has_calls || !self.ahead.is_open() {
                        break;
                    }
                    // The provider goes on with what it has, or sends it back.
                    has_ended = true;
                    self.clock.answer_is_whole(options);
                }
            }
        }
        let mut answer = reading.finish()?;
        let has_calls = answer.calls().next().is_some();
        let is_clean = self.ahead.is_empty() || came.is_some() || (!self.ahead.is_open() && !has_calls);
        answer.steered = self.ahead.end(if has_calls { CALLS_COME_FIRST } else { NO_SUCCESSOR });
        let came = came.map(|(id, read)| Came { id, asked: Asked::of(request), answer: shown(&answer), read });
        Ok((answer, is_clean.then_some(self.line), came))
    }

    /// The next event; `None` once a message that steers was sent instead.
    async fn next(&mut self, has_ended: bool) -> Result<Option<Utf8Bytes>, ModelError> {
        let takes = !has_ended && self.running.is_some() && self.ahead.may_send();
        let until = self.clock.until();
        let next = tokio::select! {
            biased;
            next = timeout_at(until, self.line.next()) => next,
            item = self.request.steers.next(), if takes => {
                self.steer(item).await?;
                return Ok(None);
            }
        };
        let next = next.map_err(|_| self.model.timed_out(&self.clock))?;
        next.map(Some).map_err(|error: Error| self.model.line_broke(&error))
    }

    async fn steer(&mut self, item: Arc<UserItem>) -> Result<(), ModelError> {
        let text = steer(&self.model.endpoint, self.running.as_deref().unwrap_or_default(), &item);
        self.ahead.send(item);
        let sent = timeout_at(self.clock.until(), self.line.send(text)).await;
        sent.map_err(|_| self.model.timed_out(&self.clock))?.map_err(|error| self.model.line_broke(&error))
    }
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
