//! Shows the events of a session in their order, and notes what they say about the end of the command.
//!
//! The narrator waits for the reader of the output. Events that the stream lost are read again from the tape, so no durable event
//! is left out.
//!
//! A change must keep this: only the regular end of the command waits for what the narrator shows, through [`CatchUp`]. A stop does
//! not, because a reader that takes nothing would block it.

use std::time::Duration;

use tamtam::{Event, EventKind, EventStream, SendError, Seq, Session, model::ErrorKind, session::Next};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use super::view::View;
use crate::failure::Failure;

/// How often a person is shown that the session works.
const TICK: Duration = Duration::from_secs(1);

/// The task that shows events.
pub(super) struct Narrator {
    task: JoinHandle<()>,
    catch_up: CatchUp,
    /// Why the session must be left: its storage failed, it crashed without progress, or it was closed.
    pub(super) left: mpsc::Receiver<Failure>,
    heard: watch::Receiver<Heard>,
}

/// Asks the narrator to answer once it has shown all events that came before the question.
#[derive(Clone)]
pub(super) struct CatchUp(mpsc::Sender<oneshot::Sender<()>>);

impl CatchUp {
    /// Waits until all events that came so far are shown, or the narrator has ended.
    pub(super) async fn now(&self) {
        let (done, wait) = oneshot::channel();
        if self.0.send(done).await.is_ok() {
            drop(wait.await);
        }
    }
}

/// What the events said about the end of the command.
#[derive(Clone, Copy, Default)]
pub(super) struct Heard {
    /// The kind of error of the newest model request that failed; `None` after a step that succeeded.
    pub(super) failed_with: Option<ErrorKind>,
    /// Whether a turn has ended since the narrator started.
    pub(super) has_ended: bool,
}

impl Narrator {
    /// Starts the task. A recovery up to `opened` that left the session waiting is no reason to leave: the command lets it go on.
    pub(super) fn start(session: Session, view: View, events: EventStream, opened: Seq) -> Narrator {
        let (leave, left) = mpsc::channel(1);
        let (hear, heard) = watch::channel(Heard::default());
        let (ask, asked) = mpsc::channel(1);
        let telling = Telling { session, view, events, opened, heard: hear };
        Narrator { task: tokio::spawn(telling.tell(asked, leave)), catch_up: CatchUp(ask), left, heard }
    }

    /// The channel to ask for [`CatchUp`].
    pub(super) fn catch_up(&self) -> CatchUp {
        self.catch_up.clone()
    }

    /// Ends the task at once, and gives what the events said so far.
    pub(super) async fn stop(self) -> Heard {
        self.task.abort();
        drop(self.task.await);
        *self.heard.borrow()
    }
}

struct Telling {
    session: Session,
    view: View,
    events: EventStream,
    opened: Seq,
    heard: watch::Sender<Heard>,
}

impl Telling {
    async fn tell(mut self, mut asked: mpsc::Receiver<oneshot::Sender<()>>, leave: mpsc::Sender<Failure>) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            self.view.listen_to(&mut self.events);
            let told = tokio::select! {
                // Events come first: the answer to a question says that all earlier events are shown.
                biased;
                next = self.events.next() => self.take(next).await,
                done = asked.recv() => match done {
                    Some(done) => {
                        let _ = done.send(());
                        Ok(())
                    }
                    None => return,
                },
                _ = tick.tick() => {
                    self.view.tick();
                    Ok(())
                }
            };
            if let Err(failure) = told {
                return drop(leave.send(failure).await);
            }
        }
    }

    /// Shows one event; an error if the event is a reason to leave the session.
    async fn take(&mut self, next: Option<Next>) -> Result<(), Failure> {
        let event = match next {
            Some(Next::Event(event)) => event,
            Some(Next::Lagged(missed)) => {
                let after = self.view.last_seen();
                tracing::info!(missed, %after, "reading missed events from the tape");
                self.events = self.session.events_after(after).await?;
                return Ok(());
            }
            Some(_) => return Ok(()),
            None => return Err(SendError::Closed.into()),
        };
        self.view.event(&event).await;
        self.hear(&event)
    }

    fn hear(&self, event: &Event) -> Result<(), Failure> {
        let id = self.session.id();
        match &event.kind {
            EventKind::RequestFailed { kind, .. } => self.heard.send_modify(|heard| heard.failed_with = Some(*kind)),
            EventKind::StepFinished { .. } => self.heard.send_modify(|heard| heard.failed_with = None),
            EventKind::TurnFinished { .. } => self.heard.send_modify(|heard| heard.has_ended = true),
            EventKind::StorageFailed { error } => {
                return Err(Failure::failed(format!(
                    "{error}: free some space; nothing that was accepted is lost, `tamtam resume {id}` continues"
                )));
            }
            EventKind::SessionRecovered { resumed: false, .. } if event.id.seq > self.opened => {
                return Err(Failure::failed(format!(
                    "the session crashed twice without progress; `tamtam resume {id}` tries again"
                )));
            }
            _ => {}
        }
        Ok(())
    }
}
