//! The only way for words into a conversation: all that people, hosts and models put there in a user's place passes the input
//! hooks here, in the sender's task, so that a slow hook delays no one else.
//!
//! These come here: messages that are sent or edited, the message that gives a child its task (on the child's handle), the words of a
//! rejection, and the summary of a handoff. A change must keep that: a hook that takes secrets out must see them all. What the
//! runtime itself says to a session (the news of a child, the summary of a compaction) does not come here.

use std::sync::Arc;

use crate::{
    actor::{
        trace_link::{Traced, here},
        worker_context::WorkerContext,
    },
    error::SendError,
    hook::Operation,
    kernel::{self, Grant, Refusal},
    session::Session,
    words::message::Message,
};

impl Session {
    /// Checks a message and lets the input hooks see it, here in the sender's own task, so that a slow hook delays no one else. A
    /// message that gives a child its task comes here too, on the child's handle: no other way into a conversation exists.
    pub(crate) async fn passed(&self, message: Message) -> Result<Message, SendError> {
        let mut message = self.shared.limits.of_host(message)?;
        if message.trace.is_none() {
            message.trace = here(self.shared.trace_link.as_deref()).map(Arc::new);
        }
        match self.shared.hooks.is_empty() {
            true => Ok(message),
            // Before the hooks: a hook that adds words would make it a message.
            false if kernel::says_nothing(&message) => Err(Refusal::Empty.into()),
            false => self.hooked().passed(message).await,
        }
    }

    /// Words of a person or a host that get into the conversation in another way than as a message: the input hooks see them as one.
    pub(super) async fn passed_words(&self, words: String) -> Result<String, SendError> {
        match words.trim().is_empty() {
            true => Ok(words),
            false => Ok(self.passed(Message::user(words)).await?.text()),
        }
    }

    /// An answer to an ask whose words the input hooks have passed.
    pub(super) async fn passed_grant(&self, grant: Grant) -> Result<Grant, SendError> {
        match grant {
            Grant::Reject(Some(words)) => Ok(Grant::Reject(Some(self.passed_words(words).await?))),
            grant => Ok(grant),
        }
    }

    /// Whether the host's hooks let an operation be done. No hook is asked about a session that is not there.
    pub(crate) async fn allowed(&self, operation: Operation) -> Result<(), Refusal> {
        if self.shared.hooks.is_empty() {
            return Ok(());
        }
        let to = self.hooked();
        let (context, failed) = (to.hook_context(), |failure| to.hook_failed(failure));
        let asked = self.shared.hooks.before_operation(&context, operation, &failed);
        asked.await.map_err(|reason| Refusal::Blocked { operation: operation.name(), reason })
    }

    /// As what hooks are called in the caller's task.
    fn hooked(&self) -> WorkerContext {
        let (shared, slot) = (self.shared.clone(), self.slot.clone());
        let (incarnation, ticket) = (slot.newest_incarnation().max(1), slot.told());
        WorkerContext { shared, slot, incarnation, ticket, turn: None, step: None, traced: Traced::default() }
    }
}
