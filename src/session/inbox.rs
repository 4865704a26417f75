//! Which messages are taken, refused, edited, withdrawn and delivered. Nothing is dropped silently.

use std::sync::Arc;

use crate::{
    ids::{MessageId, Seq},
    message::{Message, MessageTime, Part, Role},
    session::{
        Delivery, Disposition, Entry, Held, Mode, Receipt, Record, Recorded, Refusal, Steering, Waiting, advance,
        command::{Decide, first},
        decide::Draft,
        pin, recover,
    },
    tape::Cause,
};

/// A host sends a message.
#[derive(Clone, Debug, PartialEq)]
pub struct SendMessage {
    /// What it says.
    pub message: Message,
    /// What becomes of it when the session is busy.
    pub delivery: Delivery,
    /// Only if this turn is running.
    pub expect_turn: Option<Seq>,
}

impl Decide for SendMessage {
    fn is() -> &'static str {
        "send"
    }

    fn read_back(_: &Recorded, wrote: &[Entry]) -> Option<SendMessage> {
        match first(wrote)? {
            Record::Accepted { message, delivery } => {
                Some(SendMessage { message: (**message).clone(), delivery: *delivery, expect_turn: None })
            }
            _ => None,
        }
    }

    fn name(&self) -> &'static str {
        match self.delivery {
            Delivery::Queue => "send",
            Delivery::Steer(_) => "steer",
            Delivery::Reject => "send if idle",
        }
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        draft.cause = Some(Cause::Message(self.message.id.clone()));
        send(draft, &self.message, self.delivery, self.expect_turn)
    }

    fn in_words(&self) -> String {
        let how = match self.delivery {
            Delivery::Queue => "",
            Delivery::Steer(_) => " to steer",
            Delivery::Reject => " to an idle session",
        };
        format!("message {} was sent{how}", self.message.id)
    }

    fn has_an_id(&self) -> bool {
        true
    }

    fn said(&self) -> Option<String> {
        Some(self.message.text())
    }

    fn stops(&self) -> bool {
        self.delivery == Delivery::Steer(Steering::AbortRunning)
    }

    fn bytes(&self) -> usize {
        self.message.bytes()
    }

    fn begins_work(&self) -> bool {
        true
    }

    fn adds_work(&self) -> bool {
        true
    }
}

/// A host changes a message that still waits in the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct EditMessage {
    /// The new content, under the id of the old.
    pub message: Message,
}

impl Decide for EditMessage {
    fn is() -> &'static str {
        "edit"
    }

    fn read_back(_: &Recorded, wrote: &[Entry]) -> Option<EditMessage> {
        match first(wrote)? {
            Record::Edited { message } => Some(EditMessage { message: (**message).clone() }),
            _ => None,
        }
    }

    fn name(&self) -> &'static str {
        "edit"
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        edit(draft, &self.message)
    }

    fn in_words(&self) -> String {
        format!("message {} was edited", self.message.id)
    }

    fn said(&self) -> Option<String> {
        Some(self.message.text())
    }

    fn bytes(&self) -> usize {
        self.message.bytes()
    }

    fn adds_work(&self) -> bool {
        true
    }
}

/// A host takes back a message that still waits.
#[derive(Clone, Debug, PartialEq)]
pub struct WithdrawMessage {
    /// Which.
    pub id: MessageId,
}

impl Decide for WithdrawMessage {
    fn is() -> &'static str {
        "withdraw"
    }

    fn read_back(_: &Recorded, wrote: &[Entry]) -> Option<WithdrawMessage> {
        match first(wrote)? {
            Record::Withdrawn { id } => Some(WithdrawMessage { id: id.clone() }),
            _ => None,
        }
    }

    fn name(&self) -> &'static str {
        "withdraw"
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        withdraw(draft, &self.id)
    }

    fn in_words(&self) -> String {
        format!("message {} was withdrawn", self.id)
    }
}

/// A host takes back all messages that wait. What the runtime tells the session of itself stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClearQueue;

impl Decide for ClearQueue {
    fn is() -> &'static str {
        "clear_queue"
    }

    fn read_back(_: &Recorded, wrote: &[Entry]) -> Option<ClearQueue> {
        matches!(first(wrote)?, Record::Withdrawn { .. }).then_some(ClearQueue)
    }

    fn name(&self) -> &'static str {
        "clear queue"
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        let waiting = draft.state.steering.iter().chain(&draft.state.queue).map(|waiting| waiting.message.clone());
        let waiting: Vec<_> = waiting.filter(|message| !message.id.is_reserved()).collect();
        for message in &waiting {
            draft.write(None, Record::Withdrawn { id: message.id.clone() });
        }
        Ok(Held::TakenBack(waiting))
    }

    fn in_words(&self) -> String {
        "all messages that waited were withdrawn".to_owned()
    }
}

/// Steering messages that may wait in one session.
pub const INBOX_STEERING_MAX: usize = 64;

/// Queued messages that may wait in one session.
pub const INBOX_QUEUED_MAX: usize = 256;

/// Takes a message, or says why not. The same id again is the same message, and gets the same receipt.
pub(super) fn send(
    draft: &mut Draft<'_>,
    message: &Message,
    delivery: Delivery,
    expect_turn: Option<Seq>,
) -> Result<Held, Refusal> {
    let state = &draft.state;
    let (id, seen) = (message.id.clone(), state.seen.get(&message.id).copied());
    if let Some(seen) = seen.filter(|seen| seen.turn.is_some() || waiting(draft, &id).is_some()) {
        return Ok(Held::Receipt(Receipt { message: id, seq: seen.seq, disposition: seen.disposition }));
    }
    if state.closed.is_some() {
        return Err(Refusal::Ended);
    }
    if seen.is_some() {
        // It waits nowhere and never will: its old receipt would have its sender wait for ever.
        return Err(Refusal::Withdrawn { id });
    }
    let running = state.turn.as_ref().map(|turn| turn.id);
    if let Some(expected) = expect_turn
        && running != Some(expected)
    {
        return Err(Refusal::TurnMismatch { expected, actual: running });
    }
    if let (Some(expected), Delivery::Steer(_)) = (expect_turn, delivery)
        && advance::reads_no_more(draft)
    {
        return Err(Refusal::TurnMismatch { expected, actual: None });
    }
    if is_empty(message) {
        return Err(Refusal::Empty);
    }
    if let (Delivery::Reject, Some(turn)) = (delivery, running) {
        return Err(Refusal::Busy { turn });
    }
    pin::may_be_pinned(draft, message)?;
    let disposition = state.disposition(delivery);
    let (depth, max) = match disposition {
        Disposition::Steering => (state.steering.len(), INBOX_STEERING_MAX),
        _ => (state.queue.len(), INBOX_QUEUED_MAX),
    };
    if depth >= max {
        return Err(Refusal::InboxFull { depth });
    }
    let mut message = message.clone();
    message.role = Role::User;
    message.time = MessageTime { created: draft.now, completed: Some(draft.now) };
    let id = message.id.clone();
    let waited = draft.state.waits;
    let seq = draft.write(None, Record::Accepted { message: Arc::new(message), delivery });
    if waited {
        // Whoever sends lets an interrupted turn go on.
        recover::start_again(draft);
    }
    Ok(Held::Receipt(Receipt { message: id, seq, disposition }))
}

fn is_empty(message: &Message) -> bool {
    message.parts.iter().all(|part| matches!(part, Part::Text(text) if text.text.trim().is_empty()))
}

/// Changes a message that still waits.
pub(super) fn edit(draft: &mut Draft<'_>, message: &Message) -> Result<Held, Refusal> {
    let old = waiting(draft, &message.id).ok_or_else(|| Refusal::NotWaiting { id: message.id.clone() })?;
    if is_empty(message) {
        return Err(Refusal::Empty);
    }
    pin::may_be_pinned(draft, message)?;
    let mut message = message.clone();
    message.role = Role::User;
    message.time = old.message.time;
    let seq = draft.write(None, Record::Edited { message: Arc::new(message) });
    Ok(Held::Done(seq))
}

/// Takes back a message that still waits.
pub(super) fn withdraw(draft: &mut Draft<'_>, id: &MessageId) -> Result<Held, Refusal> {
    waiting(draft, id).ok_or_else(|| Refusal::NotWaiting { id: id.clone() })?;
    let seq = draft.write(None, Record::Withdrawn { id: id.clone() });
    Ok(Held::Done(seq))
}

fn waiting(draft: &Draft<'_>, id: &MessageId) -> Option<Waiting> {
    let mut all = draft.state.queue.iter().chain(&draft.state.steering);
    all.find(|waiting| waiting.message.id == *id).cloned()
}

/// Puts waiting steering messages into the context: all of them, or one where the settings say so.
pub(super) fn deliver_steering(draft: &mut Draft<'_>) -> bool {
    let waiting = &draft.state.steering;
    // A request that the next message would cut at once is not worth starting: that message joins it.
    let aborts = waiting.iter().rposition(|waiting| waiting.steering() == Steering::AbortRunning);
    let aborting = aborts.map_or(0, |at| at + 1);
    // The first request of a turn carries the message that began it.
    let begins = draft.state.turn.as_ref().is_some_and(|turn| turn.step == 0);
    let take = match draft.state.settings.steering_mode {
        Mode::One => aborting.max(usize::from(!begins)),
        Mode::All => usize::MAX,
    };
    let ids: Vec<_> = draft.state.steering.iter().take(take).map(|waiting| waiting.message.id.clone()).collect();
    deliver(draft, ids)
}

/// Puts the next queued message into the context, or all of them where the settings say so.
pub(super) fn deliver_queued(draft: &mut Draft<'_>) -> bool {
    let steers = |waiting: &&Waiting| matches!(waiting.delivery, Delivery::Steer(_));
    // Steering that came too late for its turn stands at the head of the queue, and is delivered together as it would have been.
    let late = draft.state.queue.iter().take_while(steers).count();
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
