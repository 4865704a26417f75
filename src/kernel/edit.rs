//! Messages that wait are changed and taken back.

use std::sync::Arc;

use crate::{
    kernel::{
        Entry, Held, Record, Recorded, Refusal,
        command::{Decide, first},
        decide::Draft,
        inbox::{may_be_said, waiting},
    },
    words::ids::MessageId,
    words::message::{Message, Role},
};

/// A host changes a message that still waits in the queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EditMessage {
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
pub(crate) struct WithdrawMessage {
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
pub(crate) struct ClearQueue;

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

/// Changes a message that still waits.
pub(super) fn edit(draft: &mut Draft<'_>, message: &Message) -> Result<Held, Refusal> {
    let old = waiting(draft, &message.id).ok_or_else(|| Refusal::NotWaiting { id: message.id.clone() })?;
    may_be_said(draft, message)?;
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
