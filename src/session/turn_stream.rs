//! A turn as a stream: a message is sent, and its events come until its turn is over.
//!
//! The stream listens before the message is sent. So it has the turn's events from the first one on, or, where the message joins a
//! running turn, from the moment the turn reads the message; it leaves out the events of other turns. A reader that is too slow
//! loses events, and [`Next::Lagged`] says how many. The stream ends when the message is answered, when no answer will come (the
//! message was withdrawn, or is on hold), or when the runtime is shut down. Dropping it ends the listening: the turn continues.
//!
//! A change must keep two things. The end comes from the answer of the receipt and not from an event, because a slow reader may
//! lose that event. Events that were published before the answer, and were not lost, are given before the end.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{Stream, future::BoxFuture};

use crate::{
    error::SendError,
    event::{EventKind, EventStream, Next},
    kernel::Delivery,
    session::{
        Session,
        receipt::{Answer, Receipt},
    },
    words::{ids::Seq, message::Message},
};

/// The events of the turn that reads one message, from the moment in which it reads the message to its end, provisional events
/// (text as it is written) included. A [`Stream`], and [`TurnStream::next`] for those who do without.
///
/// Dropping the stream changes nothing about the turn. While the stream is held, the session may ask its listener.
pub struct TurnStream {
    receipt: Receipt,
    events: EventStream,
    /// The turn, once it has read the message.
    turn: Option<Seq>,
    /// The answer of the receipt, until it comes.
    waits: Option<BoxFuture<'static, Result<Answer, SendError>>>,
    answer: Option<Result<Answer, SendError>>,
}

impl std::fmt::Debug for TurnStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnStream").field("receipt", &self.receipt).field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Session {
    /// Sends a message as [`Session::prompt`] does, and returns the events of its turn as a stream that ends with the turn. The
    /// message is on the tape when this returns.
    ///
    /// # Errors
    /// As [`Session::send`]. [`TurnStream::answer`] returns errors of the turn.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{EventKind, Runtime, SessionOptions, model::{Reply, Scripted}, session::Next};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new([Reply::text("Hel").with_text("lo.")]));
    /// let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// let mut turn = session.prompt_streaming("Say hello.").await?;
    /// let mut said = String::new();
    /// while let Some(next) = turn.next().await {
    ///     if let Next::Event(event) = next && let EventKind::TextDelta { text } = &event.kind {
    ///         said.push_str(text);
    ///     }
    /// }
    /// assert_eq!(said, turn.answer().await?.text);
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn prompt_streaming(&self, message: impl Into<Message>) -> Result<TurnStream, SendError> {
        self.send_streaming(message, Delivery::Queue).await
    }

    /// As [`Session::prompt_streaming`], with a choice of what the message does where the session is busy. Of a message that joins
    /// a running turn, the stream has the events from the moment the turn reads the message.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn send_streaming(
        &self,
        message: impl Into<Message>,
        delivery: Delivery,
    ) -> Result<TurnStream, SendError> {
        // Listen first, so that nothing is missed.
        let events = self.events();
        let receipt = self.send(message, delivery).await?;
        let waiting = receipt.clone();
        let waits: BoxFuture<'static, _> = Box::pin(async move {
            let answer = waiting.wait().await;
            let slot = &waiting.session.slot;
            // The end is in the state before listeners are told of it. The actor answers this after it has told them; a session that
            // sleeps or was stopped meanwhile has told them, and is not woken.
            if answer.is_ok() && slot.is_awake() {
                drop(slot.next_round().await);
            }
            answer
        });
        // A message that is sent again may be in a turn that has begun.
        let turn = turn_of(&receipt);
        Ok(TurnStream { receipt, events, turn, waits: Some(waits), answer: None })
    }
}

impl TurnStream {
    /// The receipt of the message.
    #[must_use]
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// The next event of the turn; `None` when the turn is over and all its events were returned. Cancel-safe: an event that was
    /// not returned is returned by the next call. If the reader was too slow, [`Next::Lagged`] says how many events of the session
    /// are missing; the answer is not lost by that.
    pub async fn next(&mut self) -> Option<Next> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// The end of the turn, as from [`Receipt::wait`]. Reads no event: [`TurnStream::next`] still returns those that are held for this
    /// reader. Cancel-safe.
    ///
    /// # Errors
    /// As [`Receipt::wait`].
    pub async fn answer(&mut self) -> Result<Answer, SendError> {
        std::future::poll_fn(|cx| match self.poll_end(cx) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        self.answer.clone().unwrap_or(Err(SendError::Closed))
    }

    /// Whether the turn is over.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(waits) = &mut self.waits
            && let Poll::Ready(answer) = waits.as_mut().poll(cx)
        {
            (self.waits, self.answer) = (None, Some(answer));
        }
        self.answer.is_some()
    }

    /// Whether the event belongs to the turn.
    fn is_ours(&mut self, next: &Next) -> bool {
        let Next::Event(event) = next else {
            // The event that says which turn it is may be among those that are missing.
            self.turn = self.turn.or_else(|| turn_of(&self.receipt));
            return true;
        };
        if let EventKind::TurnStarted { messages } | EventKind::Delivered { messages } = &event.kind
            && messages.contains(&self.receipt.message)
        {
            self.turn = event.turn;
        }
        self.turn.is_some() && event.turn == self.turn
    }
}

/// The turn that has read the message, as far as the session shows and remembers it. Wakes nobody.
fn turn_of(receipt: &Receipt) -> Option<Seq> {
    let state = receipt.session.slot.shown()?;
    let open = state.turn.as_ref().filter(|turn| turn.messages.contains(&receipt.message)).map(|turn| turn.id);
    let ended = || state.ended.iter().rev().find(|end| end.messages.contains(&receipt.message)).map(|end| end.turn);
    open.or_else(ended)
}

impl Stream for TurnStream {
    type Item = Next;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Next>> {
        let this = &mut *self;
        loop {
            // Asked before the events are read: what was published before the end is returned before it.
            let is_over = this.poll_end(cx);
            match Pin::new(&mut this.events).poll_next(cx) {
                Poll::Pending if is_over => return Poll::Ready(None),
                next => match ready!(next) {
                    Some(next) if this.is_ours(&next) => return Poll::Ready(Some(next)),
                    Some(_) => {}
                    None => return Poll::Ready(None),
                },
            }
        }
    }
}
