//! Going back in a conversation: to a point, to before the newest message, and forth again.
//!
//! The tape is read here, in the host's own task and on a thread for that, and never by the session's actor. What follows from
//! it is one entry, which the session takes only if nothing was decided in between. So whoever drops a future, or dies, at any
//! moment has gone back whole or not at all.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{OpenError, RollbackError, SendError},
    handle::Session,
    ids::{MessageId, Seq, SessionId},
    session::{Entry, Held, NoPoint, Point, RolledBack, Signal, State, Wanted, look_back},
    tape::{Store, TapeError},
};

/// How long an entry may be on its way to the disk before it is not waited for any more, and how often it is looked for.
const ARRIVAL_WAIT: Duration = Duration::from_secs(2);
const ARRIVAL_LOOK: Duration = Duration::from_millis(5);

/// How a conversation went back, or forth.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rollback {
    /// The entry that records it.
    pub entry: Seq,
    /// The conversation is what it was when this entry was the newest.
    pub to: Seq,
    /// Messages of the host that are no part of it any more, oldest first.
    pub gone: Vec<MessageId>,
    /// Messages of the host that are part of it again, oldest first.
    pub again: Vec<MessageId>,
}

impl Session {
    /// Goes back to a point: the model knows nothing of what was said after it. Nothing leaves the tape, so another point, also
    /// one that was gone back from, can be gone to later.
    ///
    /// Messages keep their receipts, and turns their outcomes; what was used stays used; settings, grants and tasks stay as they
    /// are; messages that wait stay, and are held until the next send or [`Session::go_on`]. Files are not touched.
    ///
    /// # Errors
    /// [`SendError::Busy`] while a turn runs; [`Refusal::Moved`](crate::session::Refusal::Moved) where something was decided in
    /// between; [`RollbackError::NoPoint`].
    pub async fn rollback(&self, to: impl Into<Point>) -> Result<Rollback, RollbackError> {
        self.go_back(Wanted::Point(to.into())).await
    }

    /// Goes back to before the newest message of the host, and of those that were delivered together with it.
    ///
    /// # Errors
    /// As [`Session::rollback`]; [`NoPoint::NothingToUndo`].
    pub async fn undo(&self) -> Result<Rollback, RollbackError> {
        self.go_back(Wanted::Undo).await
    }

    /// Goes to where the newest undo or rollback came from, as long as nothing was said since. As many in a row as there were.
    ///
    /// # Errors
    /// As [`Session::rollback`]; [`NoPoint::NothingToRedo`].
    pub async fn redo(&self) -> Result<Rollback, RollbackError> {
        self.go_back(Wanted::Redo).await
    }

    async fn go_back(&self, wanted: Wanted) -> Result<Rollback, RollbackError> {
        let now = self.state().await?;
        if let Some(turn) = &now.turn {
            return Err(SendError::Busy { turn: turn.id }.into());
        }
        let (store, id) = (self.host.store.clone(), self.id().clone());
        let found = tokio::task::spawn_blocking(move || look(&store, &id, &now, &wanted)).await;
        let back = Arc::new(found.map_err(|_| SendError::Closed)??);
        let recorded = back.clone();
        match self.ask(|reply| Signal::RollBack { back: recorded, reply }).await? {
            Held::Done(entry) => {
                let RolledBack { to, gone, again, .. } = Arc::unwrap_or_clone(back);
                Ok(Rollback { entry, to, gone, again })
            }
            Held::Receipt(_) => Err(SendError::Closed.into()),
        }
    }
}

/// Works out from the tape what a rollback records. Reads from the newest anchor on, and further back until it is found.
fn look(store: &Store, session: &SessionId, now: &State, wanted: &Wanted) -> Result<RolledBack, RollbackError> {
    let anchors = store.anchors(session)?;
    let mut anchors_read = 1;
    loop {
        let from = anchors.len().saturating_sub(anchors_read);
        let after = anchors.get(from).map_or(Seq::ZERO, |anchor| Seq(anchor.first.0.saturating_sub(1)));
        let entries = read(store, session, after, now.seq)?;
        if let Some(back) = look_back(&entries, now, wanted, from == 0)? {
            return Ok(back);
        }
        if from == 0 {
            return Err(NoPoint::Unreadable.into());
        }
        // More at a time, so that a point far back is not looked for once for each anchor.
        anchors_read *= 4;
    }
}

/// The entries behind `after` through `upto`; waits for those that are on their way to the disk.
fn read(store: &Store, session: &SessionId, after: Seq, upto: Seq) -> Result<Vec<Entry>, RollbackError> {
    let until = std::time::Instant::now() + ARRIVAL_WAIT;
    loop {
        let lines = store.read(session, after)?;
        let last = lines.last().map_or(Seq::ZERO, |line| line.seq);
        if last >= upto {
            let entries = lines.iter().take_while(|line| line.seq <= upto).map(Entry::from_tape);
            let damaged = |bad: crate::session::BadRecord| OpenError::Damaged {
                session: session.clone(),
                damage: bad.to_string(),
            };
            return Ok(entries.collect::<Result<_, _>>().map_err(damaged)?);
        }
        if std::time::Instant::now() >= until {
            return Err(TapeError::NoEntry { session: session.clone(), seq: upto, last }.into());
        }
        std::thread::sleep(ARRIVAL_LOOK);
    }
}
