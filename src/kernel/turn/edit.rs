//! Editing and withdrawing messages that still wait, in the queue or for the next step of the running turn.
//!
//! A change must keep this: a message that was delivered is never changed, and the command is refused. An edit keeps the id, the
//! place among the waiting messages, the delivery and the time of the message. A withdrawn message stays known by its id, among the
//! ids that a session remembers, so it cannot be sent again under that id (`inbox.rs`).

use std::sync::Arc;

use crate::{
    kernel::{
        CarriedOut, Record, Refusal,
        draft::{Decide, Draft},
        turn::inbox::{may_be_said, waiting},
    },
    words::{
        ids::MessageId,
        message::{Message, Role},
    },
};

/// A host changes a message that still waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EditMessage {
    /// The new content, under the id of the old.
    pub message: Message,
}

impl Decide for EditMessage {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let EditMessage { message } = self;
        let old = waiting(draft, &message.id).ok_or_else(|| Refusal::NotWaiting { id: message.id.clone() })?;
        may_be_said(draft, message)?;
        let mut message = message.clone();
        message.role = Role::User;
        message.time = old.message.time;
        let seq = draft.write(None, Record::Edited { message: Arc::new(message) });
        Ok(CarriedOut::Done(seq))
    }

    fn in_words(&self) -> String {
        format!("message {} was edited", self.message.id)
    }

    fn said(&self) -> Option<String> {
        Some(self.message.text())
    }

    fn adds_work(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        self.message.bytes()
    }
}

/// A host takes back a message that still waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WithdrawMessage {
    /// The message.
    pub id: MessageId,
}

impl Decide for WithdrawMessage {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let WithdrawMessage { id } = self;
        waiting(draft, id).ok_or_else(|| Refusal::NotWaiting { id: id.clone() })?;
        let seq = draft.write(None, Record::Withdrawn { id: id.clone() });
        Ok(CarriedOut::Done(seq))
    }

    fn in_words(&self) -> String {
        format!("message {} was withdrawn", self.id)
    }
}

/// A host takes back all messages that wait. Messages of the runtime itself (news of children) stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClearQueue;

impl Decide for ClearQueue {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let waiting = draft.state.steering.iter().chain(&draft.state.queue).map(|waiting| waiting.message.clone());
        let waiting: Vec<_> = waiting.filter(|message| !message.id.is_reserved()).collect();
        for message in &waiting {
            draft.write(None, Record::Withdrawn { id: message.id.clone() });
        }
        Ok(CarriedOut::TakenBack(waiting))
    }

    fn in_words(&self) -> String {
        "all messages that waited were withdrawn".to_owned()
    }
}
