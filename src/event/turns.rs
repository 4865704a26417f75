//! The turn view: the same events under the names that a desktop front end draws by, one assistant message for each step.
//!
//! Their turn is our step: a front end makes a message at `turn_start`, fills it, and closes it at `turn_end`; our turn ends with
//! `agent_complete`. The names and the fields (camelCase) are those front ends' own, and a change must keep them.
//!
//! [`Turns`] is a fold over the events of a session, without a clock or a session: the same events make the same view, live and from
//! the tape. Chunks and `stream_tool_call_start` come of provisional events, so they are not replayed; `message.part.updated` has
//! each part whole, and is durable. A request that is made again begins its message anew, by a second `turn_start` with its id.
//!
//! Rejected: a view that turns a replayed part into one chunk. A client that comes back in mid-message would have its text twice.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    event::{Event, EventKind, shown},
    kernel::Outcome,
    words::ids::{CallId, Seq},
    words::message::Part,
};

/// An event of the turn view.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum TurnEvent {
    /// A message begins; if there is one of this id, it begins anew.
    TurnStart {
        /// The id of the message, by which all that belongs to it is tied together.
        turn_id: TurnId,
        /// The number of the step in its turn, from 1.
        iteration: u32,
    },
    /// More text of the message. Provisional.
    StreamChunk {
        /// The text.
        content: String,
        /// The message.
        turn_id: TurnId,
    },
    /// The model begins to write a call. Provisional.
    StreamToolCallStart {
        /// Position among the calls of the message, from 0.
        index: u32,
        /// The id that the model gave to it.
        id: CallId,
        /// Which tool.
        name: String,
        /// The message.
        turn_id: TurnId,
    },
    /// A part of the message is complete, and stands in the place of what was streamed of it.
    #[serde(rename = "message.part.updated")]
    PartUpdated {
        /// The part.
        part: Box<Part>,
        /// The message.
        turn_id: TurnId,
    },
    /// A call is over.
    ToolCallEnd {
        /// The id that the model gave to it.
        tool_call_id: CallId,
        /// Whether it has a good result.
        success: bool,
        /// The result, as the model sees it.
        output: String,
        /// The message.
        turn_id: TurnId,
    },
    /// The message is complete.
    TurnEnd {
        /// The message.
        turn_id: TurnId,
    },
    /// The agent is done with what it was asked: our turn is over.
    AgentComplete {
        /// How it ended.
        #[cfg_attr(feature = "schema", schemars(with = "Outcome"))]
        #[serde(flatten, with = "shown::outcome")]
        outcome: Outcome,
        /// The newest text of the model.
        text: Arc<str>,
    },
}

/// The id of a message of the view: `TURN.STEP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TurnId {
    /// Our turn.
    pub turn: Seq,
    /// The step of it.
    pub step: u32,
}

impl std::fmt::Display for TurnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.turn, self.step)
    }
}

impl Serialize for TurnId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

crate::words::schema::schema!(TurnId, "TurnId", {
    "description": "The id of a message of the turn view: `TURN.STEP`.",
    "type": "string",
    "pattern": "^[0-9]+\\.[0-9]+$",
});

/// Whether a message is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Message {
    /// Not known: the events began in the middle.
    #[default]
    Unknown,
    Open(TurnId),
    Closed,
}

/// The fold that makes the turn view: give it the events of one session in their order.
///
/// ```
/// use tamtam::{Event, session::Turns};
///
/// let event: Event = serde_json::from_str(
///     r#"{"v":1,"id":"7.1.0","session":"s","time":5,"turn":4,"step":1,"event":"text_delta","text":"Hel"}"#,
/// )?;
/// let shown = Turns::default().next(&event);
/// assert_eq!(serde_json::to_string(&shown)?, r#"[{"type":"stream_chunk","content":"Hel","turnId":"4.1"}]"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    message: Message,
}

impl Turns {
    /// The events of the view that follow from the next event; most have one or none. On events from the beginning of a session, each
    /// message has one end. On events from another place, the end of a turn that was not done may end a message again.
    pub fn next(&mut self, event: &Event) -> Vec<TurnEvent> {
        let (Some(turn), Some(step)) = (event.turn, event.step) else { return Vec::new() };
        let turn_id = TurnId { turn, step };
        let one = match &event.kind {
            EventKind::StepStarted { .. } => {
                self.message = Message::Open(turn_id);
                TurnEvent::TurnStart { turn_id, iteration: step }
            }
            EventKind::TextDelta { text } => TurnEvent::StreamChunk { content: text.clone(), turn_id },
            EventKind::CallPending { index, call, name } => {
                let (id, name) = (call.clone(), name.clone());
                TurnEvent::StreamToolCallStart { index: *index, id, name, turn_id }
            }
            EventKind::PartUpdated { part } => TurnEvent::PartUpdated { part: Box::new(part.clone()), turn_id },
            EventKind::CallFinished { call, error, content, .. } => {
                let (tool_call_id, output) = (call.clone(), content.clone());
                TurnEvent::ToolCallEnd { tool_call_id, success: error.is_none(), output, turn_id }
            }
            EventKind::StepFinished { .. } => {
                self.message = Message::Closed;
                TurnEvent::TurnEnd { turn_id }
            }
            EventKind::TurnFinished { outcome, text, .. } => {
                // A step whose request failed, or was aborted before its first word, has no end of its own.
                let open = match std::mem::replace(&mut self.message, Message::Closed) {
                    Message::Open(open) => Some(open),
                    Message::Unknown if *outcome != Outcome::Done => Some(turn_id),
                    Message::Unknown | Message::Closed => None,
                };
                let complete = TurnEvent::AgentComplete { outcome: outcome.clone(), text: text.clone() };
                return open.map(|turn_id| TurnEvent::TurnEnd { turn_id }).into_iter().chain([complete]).collect();
            }
            _ => return Vec::new(),
        };
        vec![one]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn event(id: &str, fields: Value) -> Event {
        let mut event = json!({ "v": 1, "id": id, "session": "s", "time": 5, "turn": 4, "step": 1 });
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(event).unwrap()
    }

    fn view(turns: &mut Turns, events: &[Event]) -> Vec<Value> {
        events.iter().flat_map(|event| turns.next(event)).map(|shown| json!(shown)).collect()
    }

    fn started(attempt: u32) -> Event {
        event(
            "5.0.0",
            json!({ "event": "step_started", "model": "a/b", "attempt": attempt, "used": 1, "usable": 2, "hash": "h" }),
        )
    }

    fn finished(outcome: Value) -> Event {
        let mut fields =
            json!({ "event": "turn_finished", "text": "bye", "messages": ["m"], "usage": usage(), "cost": 0 });
        fields.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        event("9.0.0", fields)
    }

    fn usage() -> Value {
        json!({ "input": 0, "output": 0, "reasoning": 0, "cache_read": 0, "cache_write": 0 })
    }

    /// U-03, U-04, U-05, U-06, U-07, U-08, U-10, U-11, C-22: each event has the name and the fields of the desktop design, and the
    /// id of its message, also the end of a call.
    #[test]
    fn each_event_has_the_name_and_the_fields_of_the_view() {
        let text = json!({ "type": "text", "text": "Hello" });
        let events = [
            started(1),
            event("5.1.1", json!({ "event": "text_delta", "text": "Hel" })),
            event("5.1.2", json!({ "event": "call_pending", "index": 0, "call": "c1", "name": "read" })),
            event("6.0.0", json!({ "event": "part_updated", "part": text })),
            event(
                "7.0.0",
                json!({ "event": "call_started", "ticket": 7, "call": "c1", "name": "read", "input": "{}", "attempt": 1 }),
            ),
            event(
                "8.0.0",
                json!({ "event": "call_finished", "ticket": 7, "call": "c1", "name": "read", "content": "all of it" }),
            ),
            event("8.0.1", json!({ "event": "step_finished", "finish": "tool-calls", "usage": usage(), "cost": 0 })),
            finished(json!({ "outcome": "done" })),
        ];
        let wanted = [
            json!({ "type": "turn_start", "turnId": "4.1", "iteration": 1 }),
            json!({ "type": "stream_chunk", "content": "Hel", "turnId": "4.1" }),
            json!({ "type": "stream_tool_call_start", "index": 0, "id": "c1", "name": "read", "turnId": "4.1" }),
            json!({ "type": "message.part.updated", "part": text, "turnId": "4.1" }),
            json!({ "type": "tool_call_end", "toolCallId": "c1", "success": true, "output": "all of it", "turnId": "4.1" }),
            json!({ "type": "turn_end", "turnId": "4.1" }),
            json!({ "type": "agent_complete", "outcome": "done", "text": "bye" }),
        ];
        assert_eq!(view(&mut Turns::default(), &events), wanted);
    }

    #[test]
    fn a_message_without_an_answer_ends_with_its_turn_and_no_message_ends_twice() {
        let aborted = || finished(json!({ "outcome": "aborted", "reason": "enough" }));
        let start = json!({ "type": "turn_start", "turnId": "4.1", "iteration": 1 });
        let end = json!({ "type": "turn_end", "turnId": "4.1" });
        let complete = json!({ "type": "agent_complete", "outcome": "aborted", "reason": "enough", "text": "bye" });
        // The request was made twice.
        let seen = view(&mut Turns::default(), &[started(1), started(2), aborted()]);
        assert_eq!(seen, [start.clone(), start.clone(), end.clone(), complete.clone()]);
        let step = event("8.0.1", json!({ "event": "step_finished", "finish": "stop", "usage": usage(), "cost": 0 }));
        let seen = view(&mut Turns::default(), &[started(1), step, aborted()]);
        assert_eq!(seen, [start, end.clone(), complete.clone()]);
        // From the middle it is not known: the message is ended, for the second time at most.
        assert_eq!(view(&mut Turns::default(), &[aborted()]), [end, complete]);
        let done = json!({ "type": "agent_complete", "outcome": "done", "text": "bye" });
        assert_eq!(view(&mut Turns::default(), &[finished(json!({ "outcome": "done" }))]), [done]);
    }
}
