//! The events of a session on their way to the output. The narrator waits for whoever reads; nobody waits for the narrator but the end
//! of a command that was not left.

use tamtam::{
    Event, EventKind, SendError, Session,
    model::ErrorKind,
    session::{EventStream, Next},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use super::view::View;
use crate::cli::failure::Failure;

/// Shows events as they come.
pub(super) struct Narrator {
    task: JoinHandle<()>,
    catch_up: CatchUp,
    /// Why the session is to be left.
    pub(super) left: mpsc::Receiver<Failure>,
    heard: watch::Receiver<Heard>,
}

/// Asks the narrator to say when it has shown what came by then.
#[derive(Clone)]
pub(super) struct CatchUp(mpsc::Sender<oneshot::Sender<()>>);

impl CatchUp {
    /// Waits until all that came by now is shown, or nothing is shown any more.
    pub(super) async fn now(&self) {
        let (done, wait) = oneshot::channel();
        if self.0.send(done).await.is_ok() {
            drop(wait.await);
        }
    }
}

/// What the events said.
#[derive(Clone, Copy, Default)]
pub(super) struct Heard {
    /// The kind of the newest failure of a model request.
    pub(super) failed_with: Option<ErrorKind>,
    /// Whether a turn has ended since the beginning.
    pub(super) has_ended: bool,
}

impl Narrator {
    /// Begins. Where the user resumes what was begun, an interrupted turn does not wait for that.
    pub(super) fn start(session: Session, view: View, events: EventStream, is_resumed: bool) -> Narrator {
        let (leave, left) = mpsc::channel(1);
        let (hear, heard) = watch::channel(Heard::default());
        let (ask, asked) = mpsc::channel(1);
        let telling = Telling { session, view, events, is_resumed, heard: hear };
        Narrator { task: tokio::spawn(telling.tell(asked, leave)), catch_up: CatchUp(ask), left, heard }
    }

    /// Where it is asked how far it is.
    pub(super) fn catch_up(&self) -> CatchUp {
        self.catch_up.clone()
    }

    /// Shows no more.
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
    is_resumed: bool,
    heard: watch::Sender<Heard>,
}

impl Telling {
    async fn tell(mut self, mut asked: mpsc::Receiver<oneshot::Sender<()>>, leave: mpsc::Sender<Failure>) {
        loop {
            let told = tokio::select! {
                // What is there is shown before it is said that all is shown.
                biased;
                next = self.events.next() => self.take(next).await,
                done = asked.recv() => match done {
                    Some(done) => {
                        let _ = done.send(());
                        Ok(())
                    }
                    None => return,
                },
            };
            if let Err(failure) = told {
                return drop(leave.send(failure).await);
            }
        }
    }

    /// Shows what happened; an error where that is a reason to leave.
    async fn take(&mut self, next: Option<Next>) -> Result<(), Failure> {
        let event = match next {
            Some(Next::Event(event)) => event,
            Some(Next::Lagged(missed)) => {
                let after = self.view.last_seen();
                tracing::info!(missed, %after, "reading missed events from the tape");
                self.events = self.session.events_after(after).await?;
                return Ok(());
            }
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
            EventKind::SessionRecovered { resumed: false, .. } if !self.is_resumed => {
                return Err(Failure::failed(format!(
                    "the session crashed twice without progress; `tamtam resume {id}` tries again"
                )));
            }
            _ => {}
        }
        Ok(())
    }
}
