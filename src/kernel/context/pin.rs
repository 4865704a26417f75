//! Pins: messages of the host whose words stay in the context until they are unpinned, whatever is summed up.
//!
//! While a pinned message is in the context, its pin changes nothing. When a compaction or a handoff replaces the message, its
//! words are carried on whole beside the summary, because the model that writes the summary may forget a rule. Files of the message
//! are not carried on. Pins belong to the conversation: a rollback takes the pins back to what they were at its point.
//!
//! The pinned words have a bound: a pin for which there is no room is refused before anything is written. Pins that fitted the
//! window of one model may not fit that of another. If they take more than half of what a request may take, and room is needed, the
//! turn ends with an error that says so; not in a session that is set not to compact by itself.
//!
//! A change must never shorten or drop pinned words in silence. [`Pin`] is a stored format.

use std::sync::Arc;

use crate::{
    kernel::{
        CarriedOut, Outcome, Pin, Record, Refusal, State,
        context::{Level, Speaker, carry_max, fullness, of_text, said},
        draft::{Decide, Draft},
    },
    model::Item,
    words::{ids::MessageId, message::Message},
};

/// A host pins a message that stands in the context.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PinMessage {
    /// The message.
    pub message: MessageId,
}

impl Decide for PinMessage {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let PinMessage { message } = self;
        if draft.state.closed.is_some() {
            return Err(Refusal::Ended);
        }
        if draft.state.context.pins.iter().any(|pin| pin.message == *message) {
            return Ok(CarriedOut::Done(draft.state.seq));
        }
        let Some(text) = draft.state.words_of(message) else {
            return Err(Refusal::NotInContext { message: message.clone() });
        };
        if text.is_empty() {
            return Err(Refusal::Empty);
        }
        has_room(draft, &text, None)?;
        Ok(CarriedOut::Done(draft.write(None, Record::Pinned { message: message.clone() })))
    }

    fn in_words(&self) -> String {
        format!("message {} was pinned", self.message)
    }
}

/// A host takes a pin back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnpinMessage {
    /// The message.
    pub message: MessageId,
}

impl Decide for UnpinMessage {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let UnpinMessage { message } = self;
        match draft.state.context.pins.iter().any(|pin| pin.message == *message) {
            true => Ok(CarriedOut::Done(draft.write(None, Record::Unpinned { message: message.clone() }))),
            false => Err(Refusal::NotPinned { message: message.clone() }),
        }
    }

    fn in_words(&self) -> String {
        format!("message {} was unpinned", self.message)
    }
}

/// Refuses a message that is sent or edited as pinned, if there is no room for its words.
pub(in crate::kernel) fn may_be_pinned(draft: &Draft<'_>, message: &Message) -> Result<(), Refusal> {
    has_room(draft, &said(&message.parts), Some(&message.id))
}

/// Refuses words that do not fit beside the pinned messages and the waiting messages that are to be pinned. `but` is a waiting
/// message that does not count.
fn has_room(draft: &Draft<'_>, text: &str, but: Option<&MessageId>) -> Result<(), Refusal> {
    let (window, _) = fullness::fullness(draft);
    let state = &draft.state;
    let waiting = state.queue.iter().chain(&state.steering).map(|waiting| &waiting.message);
    let waiting = waiting.filter(|message| message.pinned && Some(&message.id) != but);
    let pinned: u64 = state.context.pins.iter().map(|pin| of_text(&pin.text)).sum();
    let used = pinned + waiting.map(|message| of_text(&said(&message.parts))).sum::<u64>();
    let (needs, max) = (of_text(text), carry_max(window.usable()));
    match used + needs > max {
        true => Err(Refusal::PinsFull { used, needs, max }),
        false => Ok(()),
    }
}

/// Ends the turn if the pinned messages leave too little of this model's window, because they were pinned under a larger one. No
/// summary could make room, and pinned words are not cut off in silence. Gives true if the turn was ended.
pub(in crate::kernel) fn leave_no_room(draft: &mut Draft<'_>) -> bool {
    let (state, (window, used)) = (&draft.state, fullness::with_steering(draft));
    let is_tight = window.level(used) >= Level::Compact || state.turn.as_ref().is_some_and(|turn| turn.overflowed);
    let pinned = state.context.pins.iter().map(|pin| of_text(&pin.text)).sum();
    let (pinned, max) = (state.context.meter.corrected(pinned), window.usable() / 2);
    if !is_tight || pinned <= max {
        return false;
    }
    let model = state.model_now();
    let error = format!(
        "the messages that are pinned take about {pinned} tokens, more than half of the {} that a request to {model} may take: \
         unpin some of them, or choose a model with a larger window",
        window.usable()
    );
    draft.write(None, Record::TurnFinished { outcome: Outcome::Failed { error } });
    true
}

impl State {
    /// The words of a host's message that stands in the context; `None` if it does not.
    fn words_of(&self, message: &MessageId) -> Option<String> {
        self.history.iter().skip(self.context.front).find_map(|item| match &**item {
            Item::User(user) if user.id == *message && Speaker::of(user) == Speaker::Host => Some(said(&user.parts)),
            _ => None,
        })
    }

    /// Pins a message that stands in the context.
    pub(in crate::kernel) fn pin(&mut self, message: &MessageId) {
        if let Some(text) = self.words_of(message).filter(|text| !text.is_empty()) {
            let pin = Pin { message: message.clone(), text: text.into() };
            Arc::make_mut(&mut self.context).pins.push(pin);
        }
    }

    /// Unpins a message.
    pub(in crate::kernel) fn unpin(&mut self, message: &MessageId) {
        Arc::make_mut(&mut self.context).pins.retain(|pin| pin.message != *message);
    }

    /// The pinned words of the messages that leave the context when the items before `first_kept` go.
    pub(in crate::kernel) fn pinned_words(&self, first_kept: usize) -> Vec<String> {
        let stays = |pin: &Pin| {
            let mut kept = self.history.iter().skip(first_kept);
            kept.any(|item| matches!(&**item, Item::User(user) if user.id == pin.message))
        };
        self.context.pins.iter().filter(|pin| !stays(pin)).map(|pin| pin.text.to_string()).collect()
    }
}
