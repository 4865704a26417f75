//! The events of a session as a stream of server-sent events that a client can resume.
//!
//! **Only a durable event has an `id:` line.** So what a browser sends back as `Last-Event-ID` is always a place on the tape, and the
//! stream goes on exactly behind it: the entry of that event is read again, because an entry may have several events, and those up
//! to the named one are left out. Provisional events (deltas) do not replay, and have their id in the data only.
//!
//! **A client that reads too slowly costs a bounded ring and nothing else.** The stream pulls: while the client's socket is full,
//! events wait in the session's ring, which is bounded and counts what it drops. The stream then says `lagged` once and ends; the
//! client comes again with its last id, and what it missed is read from the tape.
//!
//! **A session that another node has is followed by its rows** ([`Nodes`](crate::Nodes)): twice a second the stream asks for its last
//! entry, and reads on from what it has told. It has no deltas. When the session wakes here, the stream reads once more before it
//! tells what happens live: what the other node wrote last comes first, and nothing twice. Where the rows cannot be read, the stream
//! waits; it ends when they are gone.
//!
//! A change must keep that a stream ends with exactly one named frame (`lagged`, `draining` or `ended`), and that no id is sent for
//! what cannot be resumed.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event as Frame, KeepAlive},
    },
};
use futures_util::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tamtam::{
    Event, EventKind, EventStream, Seq,
    session::{EventId, Next, TurnEvent, Turns},
};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::{
    answer::{Events, Frames},
    app::{App, Asked, LastEventId, Seen},
    describe::Operation,
    problem::{Answered, Problem},
    rows::{Rows, next_of},
};

/// When a client comes again whose connection broke.
const RETRY: Duration = Duration::from_secs(1);

/// When a client comes again whose server goes down.
pub(crate) const COME_BACK: Duration = Duration::from_secs(5);

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Behind an entry, with all its events.
    Entry(Seq),
    /// Behind one event of an entry.
    Event(EventId),
}

impl Place {
    /// `SEQ`, or the id of a durable event: `SEQ.0.SUB`.
    fn read(text: &str) -> Answered<Place> {
        if let Ok(seq) = text.parse().map(Seq) {
            return Ok(Place::Entry(seq));
        }
        match text.parse::<EventId>() {
            Ok(id) if id.is_durable() => Ok(Place::Event(id)),
            Ok(_) => Err(Problem::invalid(format!(
                "the event {text} is on no tape: name the last one that had an `id:` line"
            ))),
            Err(bad) => Err(Problem::invalid(format!("{bad}; nor is it an entry"))),
        }
    }

    /// The entry behind which the tape is read.
    fn after(self) -> Seq {
        match self {
            Place::Entry(seq) => seq,
            Place::Event(id) => Seq(id.seq.0.saturating_sub(1)),
        }
    }

    /// Whether the client has had this event.
    fn has(self, id: EventId) -> bool {
        matches!(self, Place::Event(last) if id.is_durable() && id.seq == last.seq && id.sub <= last.sub)
    }
}

/// 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum Flag {
    /// No.
    #[serde(rename = "0")]
    Off,
    /// Yes.
    #[serde(rename = "1")]
    On,
}

impl Flag {
    fn on() -> Flag {
        Flag::On
    }

    fn off() -> Flag {
        Flag::Off
    }
}

/// A view of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum View {
    /// Messages of a front end: `turn_start`, `stream_chunk`, …, `turn_end`, `agent_complete`.
    Turns,
}

/// What a reader wants.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listening {
    /// An entry (`SEQ`), or the id of a durable event (`SEQ.0.SUB`): the stream begins behind it. From now on without it.
    after: Option<String>,
    /// Whether deltas come too.
    #[serde(default = "Flag::on")]
    #[schemars(extend("default" = "1"))]
    deltas: Flag,
    /// Under which names the events come; under their own by default.
    view: Option<View>,
    /// Whether this reader answers no asks.
    #[serde(default = "Flag::off")]
    #[schemars(extend("default" = "0"))]
    looks_on: Flag,
}

/// The client read too slowly, and comes again with its last id.
#[derive(Serialize, JsonSchema)]
struct Lagged {
    /// How many events it missed.
    missed: u64,
}

/// The server goes down.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Draining {
    /// When the client comes again, in milliseconds.
    retry_ms: u64,
}

/// The stream is over for good.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Over {
    /// Why.
    pub(crate) why: &'static str,
}

/// The frames of a session's stream.
pub(crate) struct SessionFrames;

impl Frames for SessionFrames {
    fn frames(operation: &mut Operation<'_>) -> Vec<(&'static str, Value)> {
        vec![
            ("message", json!({ "anyOf": [operation.shown::<Event>(), operation.shown::<TurnEvent>()] })),
            ("lagged", operation.shown::<Lagged>()),
            ("draining", operation.shown::<Draining>()),
            ("ended", operation.shown::<Over>()),
        ]
    }
}

pub(crate) async fn events(
    State(app): State<App>,
    Seen(session): Seen,
    LastEventId(last): LastEventId,
    Asked(asked): Asked<Listening>,
) -> Answered<Events<SessionFrames>> {
    // A browser that reconnects repeats its address, so the header is newer.
    let place = last.or(asked.after).filter(|place| !place.is_empty()).map(|place| Place::read(&place)).transpose()?;
    let permit = app.subscribers.clone().try_acquire_owned().map_err(|_| Problem::too_many("event streams"))?;
    let begins = match place {
        Some(place) => place.after(),
        // From now on, of what another node writes.
        None if app.nodes.is_some() => session.last_entry().await?,
        None => Seq::ZERO,
    };
    let place = place.or_else(|| app.elsewhere(&session).map(|_| Place::Entry(begins)));
    let mut events = match place {
        Some(place) => session.events_after(place.after()).await?,
        None => {
            let id = session.id();
            if !app.runtime.exists(id).await? {
                return Err(Problem::not_found(format!("there is no session {id}")));
            }
            session.events()
        }
    };
    let looks_on = asked.looks_on == Flag::On;
    if looks_on {
        events.look_on();
    }
    let rows = app.nodes.is_some().then(|| Rows::new(&app, &session, begins, looks_on));
    let draining = app.draining.subscribe();
    let stream = Streaming {
        events,
        rows,
        told: None,
        turns: asked.view.map(|View::Turns| Turns::default()),
        ready: VecDeque::new(),
        place,
        deltas: asked.deltas == Flag::On,
        draining,
        is_over: false,
        _permit: permit,
    };
    let frames = stream::unfold(stream, |mut stream| async move { stream.frame().await.map(|frame| (frame, stream)) });
    Ok(Events::new(respond(frames, app.options.beat)))
}

/// A response that begins with the time after which a client comes again, and beats.
pub(crate) fn respond(frames: impl stream::Stream<Item = Frame> + Send + 'static, beat: Duration) -> Response {
    let first = stream::once(async { Frame::default().retry(RETRY) });
    let frames = first.chain(frames).map(Ok::<_, Infallible>);
    let beating = Sse::new(frames).keep_alive(KeepAlive::new().interval(beat).text("beat"));
    ([("x-accel-buffering", "no")], beating).into_response()
}

/// One client's stream.
struct Streaming {
    events: EventStream,
    /// What another node may write, where there are others.
    rows: Option<Rows>,
    /// The last durable event that was read.
    told: Option<EventId>,
    /// The fold of the turn view, if that is asked for.
    turns: Option<Turns>,
    /// Frames of one event that come next.
    ready: VecDeque<Frame>,
    place: Option<Place>,
    deltas: bool,
    draining: watch::Receiver<bool>,
    is_over: bool,
    /// Its place among the subscribers.
    _permit: OwnedSemaphorePermit,
}

impl Streaming {
    /// The next frame; `None` after the last.
    async fn frame(&mut self) -> Option<Frame> {
        if self.is_over {
            return None;
        }
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            let next = tokio::select! {
                // First what has happened: the end of a turn that a drain waited for is told before the stream ends.
                biased;
                next = self.events.next(), if self.rows.as_ref().is_none_or(|rows| !rows.come_first()) => next,
                again = next_of(&mut self.rows, self.told) => {
                    let Some(events) = again else { return Some(self.ended()) };
                    self.events = events;
                    continue;
                }
                () = is_true(&mut self.draining) => return Some(self.last(draining())),
            };
            match next {
                Some(Next::Event(event)) => {
                    if self.rows.as_mut().is_none_or(|rows| rows.may_tell(&event)) {
                        self.ready = self.frames_of(&event);
                    }
                }
                Some(Next::Lagged(missed)) => {
                    return Some(self.last(named("lagged", &Lagged { missed })));
                }
                Some(_) => {}
                None if *self.draining.borrow() => return Some(self.last(draining())),
                None => match &mut self.rows {
                    // Also where the store gave no answer: a look tells that from the end.
                    Some(rows) => rows.read_again(),
                    None => return Some(self.ended()),
                },
            }
        }
    }

    fn ended(&mut self) -> Frame {
        self.last(named("ended", &Over { why: "the session was deleted, or its runtime is down" }))
    }

    fn last(&mut self, frame: Frame) -> Frame {
        self.is_over = true;
        frame
    }

    /// The frames of an event. Where it has several, the last one has its id: a client that breaks off between them gets all again.
    fn frames_of(&mut self, event: &Event) -> VecDeque<Frame> {
        if event.id.is_durable() {
            if self.told.is_some_and(|told| event.id <= told) {
                return VecDeque::new();
            }
            self.told = Some(event.id);
        }
        let mut frames: VecDeque<Frame> = match &mut self.turns {
            // Events that the client has had count for the view too.
            Some(turns) => turns.next(event).iter().map(data).collect(),
            None => [data(event)].into(),
        };
        if self.leaves_out(event) {
            return VecDeque::new();
        }
        if event.id.is_durable()
            && let Some(last) = frames.pop_back()
        {
            frames.push_back(last.id(event.id.to_string()));
        }
        frames
    }

    fn leaves_out(&self, event: &Event) -> bool {
        let is_delta = matches!(
            event.kind,
            EventKind::TextDelta { .. } | EventKind::ReasoningDelta { .. } | EventKind::CallInput { .. }
        );
        (is_delta && !self.deltas) || self.place.is_some_and(|place| place.has(event.id))
    }
}

/// Resolves when the value is true; never if it cannot become so any more.
pub(crate) async fn is_true(value: &mut watch::Receiver<bool>) {
    if value.wait_for(|is| *is).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn data(value: &impl Serialize) -> Frame {
    // No value here has a key that is not text, which is all that could fail; JSON has no line break of its own.
    Frame::default().data(serde_json::to_string(value).unwrap_or_default())
}

pub(crate) fn named(name: &'static str, data: &impl Serialize) -> Frame {
    // The name first: a reader that goes line by line knows what the data is.
    Frame::default().event(name).data(json!(data).to_string())
}

pub(crate) fn draining() -> Frame {
    let retry_ms = u64::try_from(COME_BACK.as_millis()).unwrap_or(u64::MAX);
    named("draining", &Draining { retry_ms }).retry(COME_BACK)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_place_is_an_entry_or_a_durable_event() {
        assert_eq!(Place::read("17").unwrap(), Place::Entry(Seq(17)));
        assert_eq!(Place::read("17.0.2").unwrap(), Place::Event("17.0.2".parse().unwrap()));
        for bad in ["", "x", "-1", "17.1.0", "17.0", "1.0.0.0", "17.0.99999999999", "99999999999999999999"] {
            assert!(Place::read(bad).is_err(), "{bad}");
        }
        assert_eq!(Place::read("0.0.0").unwrap().after(), Seq(0));
    }
}
