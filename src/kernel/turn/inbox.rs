//! Which messages are accepted, refused and delivered.
//!
//! Each sender gets a receipt or a refusal. A message that is sent again under its id gets the receipt that it got, or is refused
//! if it was withdrawn. Other words under a known id are refused. The newest 4,096 ids are remembered (`SEEN_MAX`), and the id of a message that waits is never forgotten; a
//! message with a forgotten id counts as new.
//!
//! A change must keep these promises. The ids are kept in `seen.rs`.

use std::sync::Arc;

use crate::{
    kernel::{
        AgentChoice, CarriedOut, Delivery, Disposition, Mode, Receipt, Record, Refusal, State, Steering, Waiting,
        context::pin,
        draft::{Decide, Draft},
        turn::{
            recover,
            seen::{self, Seen},
        },
    },
    tape::Cause,
    words::{
        ids::{MessageId, Seq},
        message::{Message, MessageTime, Part, Role},
    },
};

/// A host sends a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SendMessage {
    /// The message.
    pub message: Message,
    /// What becomes of the message when the session is busy.
    pub delivery: Delivery,
    /// The turn that must be running; `None` to accept the message in any case.
    pub expect_turn: Option<Seq>,
    /// The agent of the turn that reads the message; `None` for the one that is in force.
    pub agent: Option<AgentChoice>,
    /// How many parts at the end of the message are not its sender's: input hooks added them.
    pub added: usize,
}

impl Decide for SendMessage {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        draft.cause = Some(Cause::Message(self.message.id.clone()));
        let (message, delivery, expect_turn) = (&self.message, self.delivery, self.expect_turn);
        let state = &draft.state;
        let (id, known) = (message.id.clone(), state.seen.get(&message.id).copied());
        if let Some(seen) = known.filter(|seen| seen.turn.is_some() || waiting(draft, &id).is_some()) {
            if seen.words.is_some_and(|words| words != seen::words(message, self.added)) {
                return Err(Refusal::OtherWords { id, first: seen.seq });
            }
            let Seen { seq, disposition, .. } = seen;
            return Ok(CarriedOut::Receipt(Receipt { message: id, seq, disposition, known_before: true }));
        }
        if state.closed.is_some() {
            return Err(Refusal::Ended);
        }
        if known.is_some() {
            // The message was taken back and waits nowhere: with its old receipt its sender would wait for ever.
            return Err(Refusal::Withdrawn { id });
        }
        state.expects(expect_turn)?;
        let running = state.turn.as_ref().map(|turn| turn.id);
        if let (Some(expected), Delivery::Steer(_)) = (expect_turn, delivery)
            && draft.state.reads_no_more()
        {
            return Err(Refusal::TurnMismatch { expected, actual: None });
        }
        if let (Delivery::Reject, Some(turn)) = (delivery, running) {
            return Err(Refusal::Busy { turn });
        }
        may_be_said(draft, message)?;
        let disposition = state.disposition(delivery);
        if let Some(depth) = state.full(disposition) {
            return Err(Refusal::InboxFull { depth });
        }
        let mut message = message.clone();
        message.role = Role::User;
        message.time = MessageTime { created: draft.now, completed: Some(draft.now) };
        let id = message.id.clone();
        let waited = draft.state.waits;
        let (message, agent, added) = (Arc::new(message), self.agent.clone(), self.added);
        let seq = draft.write(None, Record::Accepted { message, delivery, agent, added });
        if waited {
            // A new message lets an interrupted turn go on.
            recover::start_again(draft);
        }
        Ok(CarriedOut::Receipt(Receipt { message: id, seq, disposition, known_before: false }))
    }

    fn in_words(&self) -> String {
        let SendMessage { message, delivery, .. } = self;
        let how = match delivery {
            Delivery::Queue => "",
            Delivery::Steer(_) => " to steer",
            Delivery::Reject => " to an idle session",
        };
        format!("message {} was sent{how}", message.id)
    }

    fn said(&self) -> Option<String> {
        Some(self.message.text())
    }

    fn begins_work(&self) -> bool {
        true
    }

    fn stops(&self) -> bool {
        self.delivery == Delivery::Steer(Steering::AbortRunning)
    }

    fn bytes(&self) -> usize {
        self.message.bytes()
    }
}

/// The most steering messages that may wait in one session.
pub(crate) const INBOX_STEERING_MAX: usize = 64;

/// The most queued messages that may wait in one session.
pub(crate) const INBOX_QUEUED_MAX: usize = 256;

impl State {
    /// How many messages wait, where there is no room for one more with this disposition.
    fn full(&self, disposition: Disposition) -> Option<usize> {
        let (depth, max) = match disposition {
            Disposition::Steering => (self.steering.len(), INBOX_STEERING_MAX),
            _ => (self.queue.len(), INBOX_QUEUED_MAX),
        };
        (depth >= max).then_some(depth)
    }

    /// How many messages wait, where there is no room for one of this delivery now.
    pub(crate) fn full_for(&self, delivery: Delivery) -> Option<usize> {
        self.full(self.disposition(delivery))
    }
}

/// Whether a message has nothing but blanks.
pub(crate) fn says_nothing(message: &Message) -> bool {
    message.parts.iter().all(|part| matches!(part, Part::Text(text) if text.text.trim().is_empty()))
}

/// Refuses a message that says nothing, and a pinned message for which there is no room.
pub(in crate::kernel) fn may_be_said(draft: &Draft<'_>, message: &Message) -> Result<(), Refusal> {
    if says_nothing(message) {
        return Err(Refusal::Empty);
    }
    if message.pinned { pin::may_be_pinned(draft, message) } else { Ok(()) }
}

pub(in crate::kernel) fn waiting(draft: &Draft<'_>, id: &MessageId) -> Option<Waiting> {
    let mut all = draft.state.queue.iter().chain(&draft.state.steering);
    all.find(|waiting| waiting.message.id == *id).cloned()
}

/// Puts waiting steering messages into the context: all of them; or, where the settings say so, one, or all up to one that aborts.
pub(in crate::kernel) fn deliver_steering(draft: &mut Draft<'_>) -> bool {
    let waiting = &draft.state.steering;
    // A request that a waiting message would abort at once is not worth starting: that message joins the request.
    let aborts = waiting.iter().rposition(|waiting| waiting.steering() == Steering::AbortRunning);
    let aborting = aborts.map_or(0, |at| at + 1);
    // The first request of a turn already carries the message that began the turn.
    let begins = draft.state.turn.as_ref().is_some_and(|turn| turn.step == 0);
    // The answer to what the provider has committed has begun, and goes on only if nothing else joins it.
    let committed = draft.state.committed();
    let take = match draft.state.settings.steering_mode {
        _ if aborting == 0 && committed > 0 => committed,
        Mode::One => aborting.max(usize::from(!begins)),
        Mode::All => usize::MAX,
    };
    let ids: Vec<_> = draft.state.steering.iter().take(take).map(|waiting| waiting.message.id.clone()).collect();
    deliver(draft, ids)
}

/// Puts the next queued message into the context, or all of them where the settings say so.
pub(in crate::kernel) fn deliver_queued(draft: &mut Draft<'_>) -> bool {
    // Steering messages that no turn has read are delivered together, as they would have been in a turn.
    let late = draft.state.late_steering();
    let take = match (draft.state.settings.queue_mode, draft.state.settings.steering_mode) {
        (Mode::All, _) => usize::MAX,
        (Mode::One, Mode::All) => late.max(1),
        (Mode::One, Mode::One) => 1,
    };
    let ids: Vec<_> = draft.state.queue.iter().take(take).map(|waiting| waiting.message.id.clone()).collect();
    deliver(draft, ids)
}

fn deliver(draft: &mut Draft<'_>, ids: Vec<MessageId>) -> bool {
    if ids.is_empty() {
        return false;
    }
    draft.write(None, Record::Delivered { ids });
    true
}
