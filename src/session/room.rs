//! Sends that wait for a free place in the inbox: a host that feeds a session faster than it reads is slowed down, not refused.
//!
//! A full inbox refuses a message ([`Refusal::InboxFull`]). Here the sender waits and tries again when the queue has a free place.
//! Senders who wait are served one at a time, in the order in which they began to wait, so that one freed place wakes one sender.
//! If no place can become free, because the queue is on hold, the sender is refused.
//!
//! A change must keep this: the input hooks see a message once, however often it is tried; and a message that waits for a place is
//! on no tape, so dropping the future takes it back, unless a try is just on its way to the tape.

use crate::{
    error::SendError,
    kernel::{Delivery, Refusal, State},
    session::{Session, receipt::Receipt},
    words::message::Message,
};

impl Session {
    /// Sends a message as [`Session::send`] does, and waits for room where the inbox is full, however long that takes. The future
    /// of a message that waits can be dropped: then the message is not sent. (At the moment in which a place is free the message
    /// may be on its way to the tape; sent again under the same id, it is accepted once.)
    ///
    /// A sender who comes when there is room is not held up by those who wait, so messages of different senders have no fixed
    /// order. The messages of one sender who awaits each call have the order of the calls.
    ///
    /// # Errors
    /// As [`Session::send`], of a full inbox too: [`Refusal::InboxFull`] if the queue is on hold after an abort or a failure,
    /// because then only [`Session::go_on`] and [`Session::clear_queue`] make room, and if more than a thousand callers wait.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Delivery, Runtime, SessionOptions, model::{Reply, Scripted}};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new((0..300).map(|n| Reply::text(format!("Read {n}.")))));
    /// let runtime = Runtime::builder().in_memory().model(model).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// for n in 0..300 {
    ///     // The queue has 256 places: from then on each message waits for one.
    ///     session.send_when_room(format!("Line {n}."), Delivery::Queue).await?;
    /// }
    /// session.wait().await?;
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn send_when_room(&self, message: impl Into<Message>, delivery: Delivery) -> Result<Receipt, SendError> {
        let send = self.passed_on(message.into(), delivery).await?;
        match self.hand_over(send.clone()).await {
            Err(error) if is_full(&error) => {}
            done => return done,
        }
        let _next = self.slot.waits_for_room().lock_owned().await;
        loop {
            self.slot.until(move |now| room(&now.state, delivery)).await?;
            match self.hand_over(send.clone()).await {
                // Another sender took the place.
                Err(error) if is_full(&error) => {}
                done => return done,
            }
        }
    }
}

/// Whether there is room; an error where the queue is on hold, because then it stays as full as it is.
fn room(state: &State, delivery: Delivery) -> Option<Result<(), SendError>> {
    match state.full_for(delivery) {
        None => Some(Ok(())),
        Some(depth) => state.on_hold.then_some(Err(SendError::Refused(Refusal::InboxFull { depth }))),
    }
}

fn is_full(error: &SendError) -> bool {
    matches!(error, SendError::Refused(Refusal::InboxFull { .. }))
}
