//! [`Cluster`]: any node takes a message for any session, and the node that has the session gives it to it.
//!
//! ```text
//! send: one insert, committed ─► notify ─► the owner, or who claims it first: Session::send under the same id ─► delete
//! ```
//!
//! A row leaves the inbox only after the tape has its message, or after its refusal is kept in the row. A node that dies between
//! leaves the row, and the next owner sends it again under its id, which the session knows. So nothing here needs a lock or an
//! order between nodes: the fence of the tape and the ids of the session decide. A change must keep that order, and that a node
//! looks without being told (`PostgresOptions::look`): a notification that is lost costs time and nothing else.

use std::{sync::Arc, time::Duration};

use tamtam::{Delivery, Message, MessageId, OpenError, Runtime, Seq, SessionId, session::TurnEnd, tape::TapeError};
use tokio::{sync::Notify, task::AbortHandle};

use crate::{
    ClusterTree, Postgres, PostgresError,
    schema::channel,
    share::{ABORT, QUEUE, STEER, Share},
};

/// How often a wait looks whether a turn is over.
const WAIT_LOOK: Duration = Duration::from_millis(50);
/// How long a node that leaves waits until it is not shown any more.
const LEAVE_MAX: Duration = Duration::from_secs(10);
/// The most messages of one session that wait in the inbox, and the most bytes.
pub(crate) const MESSAGES_MAX: i64 = 1_024;
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// A session is there from its first entry on: where its maker died before, its name is free, and nobody would read the message.
/// A refused message that is sent again is new: it has a number of its own, so that a refusal that is just being noted is not its.
const SEND: &str = "
with there as materialized (
    select session from $schema.sessions where session = $1
        and exists (select from $schema.entries where session = $1)
        and not exists (select from $schema.marks where session = $1 and mark = 'hidden') for key share),
room as materialized (
    select count(*) < $6 and coalesce(sum(octet_length(body)), 0) + octet_length($4) <= $7 as is_left
    from $schema.inbox where session = $1 and refused is null),
taken as (
    insert into $schema.inbox as i (session, message, what, body)
    select $1, $2, $3, $4 from there, room where room.is_left
    on conflict (session, message) do update
        set number = default, what = excluded.what, body = excluded.body, refused = null, at = excluded.at
        where i.refused is not null
    returning session),
told as materialized (select pg_notify($5, session)::text from taken)
select exists (select from there), (select is_left from room)
    or exists (select from $schema.inbox where session = $1 and message = $2 and refused is null),
    (select count(*) from told)";

/// How far a message came, as [`Cluster::progress`] finds it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MessageProgress {
    /// It is in the inbox: no node has given it to its session yet. It is durable.
    Accepted,
    /// It is in the inbox or on the tape, and nothing becomes of it until an operator unparks its session; or the session is deleted,
    /// and hidden until its last fork is gone.
    Parked,
    /// The session refused it, for this reason. It was never read. Kept for a day, or until it is
    /// sent again.
    Refused(String),
    /// It is on the tape, and waits for its turn. `on_hold`: until the next send or go-on.
    Waiting {
        /// Whether the queue is on hold.
        on_hold: bool,
    },
    /// It was delivered to the turn that runs.
    Running(Seq),
    /// Its turn is over.
    Over(Arc<TurnEnd>),
    /// Neither the inbox nor the session knows it: it was never sent, or it was withdrawn, or the session remembers only later
    /// turns.
    Unknown,
}

/// One node among several over one database: it takes messages for every session, and works on those that it has.
///
/// [`send`](Cluster::send) may be called on any node. The committed row is the receipt; the node that has the session, or the first
/// one that gets there if none has it, gives it to the session under the same id. What the session then does with it is what it does
/// in one process: delivery, order, steering and ids. A session that is free and has an open turn, such as one whose node was killed
/// or drained, is taken up too, once the lease of its node is over.
///
/// All runtimes that share the database should join: messages for a session that is awake in one that did not wait until it sleeps
/// there. Text deltas and events stay local to the node that has the session; what a session said is read from its tape on any node.
/// Sessions are made by [`Runtime::create`] on any node.
///
/// Dropping it, or draining its runtime, ends this node's part: it takes nothing more, and what waits is another's. Drop it before
/// the last [`Postgres`] that it was made from; better [`leave`](Cluster::leave).
#[derive(Debug)]
pub struct Cluster {
    share: Arc<Share>,
    tasks: [AbortHandle; 2],
}

impl Cluster {
    /// Joins with a runtime whose tapes are in this store. Takes free sessions up while the node has fewer than `sessions_max`.
    ///
    /// It must be called in a tokio runtime.
    #[must_use]
    pub fn join(postgres: &Postgres, runtime: &Runtime, sessions_max: usize) -> Cluster {
        let (postgres, runtime, wakes) = (postgres.clone(), runtime.clone(), Arc::new(Notify::new()));
        let listens = postgres.node.pool.listen(channel(&postgres.node.shared.schema), Arc::clone(&wakes));
        let share = Arc::new(Share::new(postgres, runtime, sessions_max, wakes));
        let takes = tokio::spawn(Arc::clone(&share).run()).abort_handle();
        Cluster { share, tasks: [listens, takes] }
    }

    /// Accepts a message for a session, on whichever node it is. It is durable when this returns; sent again under the same id it is
    /// the same message, and one that was refused is given to the session again. At most 1,024 messages and 16 MiB of a session wait here.
    ///
    /// A dropped future may have sent the message.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`PostgresError::InboxFull`] in a [`TapeError::Engine`]; others of the store. Nothing was accepted,
    /// but for [`TapeError::Unreachable`]: then send it again under the same id.
    pub async fn send(
        &self,
        session: &SessionId,
        message: impl Into<Message>,
        delivery: Delivery,
    ) -> Result<MessageId, TapeError> {
        let message = message.into();
        let body = serde_json::to_string(&(&message, delivery)).map_err(TapeError::engine)?;
        let lane = if matches!(delivery, Delivery::Steer(_)) { STEER } else { QUEUE };
        self.accept(session, message.id.clone(), lane, body).await?;
        Ok(message.id)
    }

    /// Aborts the turn of a session that runs now, on whichever node it is, as [`Session::abort_turn`](tamtam::Session::abort_turn)
    /// does: a later turn goes on. Does nothing where no turn runs, also if messages wait that begin one. It comes behind the messages
    /// that were accepted before, but for those that the session has no room for.
    ///
    /// A dropped future may have sent the abort.
    ///
    /// # Errors
    ///
    /// As [`Cluster::send`], and if the tape cannot be read.
    pub async fn abort(&self, session: &SessionId, reason: impl Into<String>) -> Result<(), TapeError> {
        match self.turn_of(session).await? {
            Some(turn) => self.abort_turn(session, turn, reason.into()).await,
            None => Ok(()),
        }
    }

    /// The turn that runs, as the tape says.
    pub(crate) async fn turn_of(&self, session: &SessionId) -> Result<Option<Seq>, TapeError> {
        let state = self.share.runtime.session(session).peek().await.map_err(|error| match error {
            OpenError::Tape(error) => error,
            other => TapeError::engine(other),
        })?;
        Ok(state.turn.map(|turn| turn.id))
    }

    pub(crate) async fn abort_turn(&self, session: &SessionId, turn: Seq, reason: String) -> Result<(), TapeError> {
        let body = serde_json::to_string(&(turn, reason)).map_err(TapeError::engine)?;
        self.accept(session, MessageId::new(), ABORT, body).await
    }

    /// Ends this node's part, as dropping it does, and returns when the node is no longer shown in the [`tree`](Cluster::tree), unless
    /// its store is in another cluster or still has sessions; after 10 s without that if the server gives no answer, or refuses. A
    /// process that ends without it is shown as gone for a day. Drain and shut the runtime down before. A dropped future has left, in
    /// the background. A second call returns at once.
    pub async fn leave(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        if let Some(left) = self.share.leave() {
            let _ = tokio::time::timeout(LEAVE_MAX, left).await;
        }
    }

    async fn accept(
        &self,
        session: &SessionId,
        id: MessageId,
        what: &'static str,
        body: String,
    ) -> Result<(), TapeError> {
        let of = session.clone();
        let (is_there, is_taken) = self
            .share
            .ask("take a message", move |postgres, client| {
                let (of, id, body) = (of.clone(), id.clone(), body.clone());
                Box::pin(async move {
                    let (sql, channel) = (postgres.sql(SEND), channel(&postgres.node.shared.schema));
                    let bytes_max = BYTES_MAX as i64;
                    let row = client
                        .query_one(
                            &sql,
                            &[&of.as_str(), &id.as_str(), &what, &body, &channel, &MESSAGES_MAX, &bytes_max],
                        )
                        .await?;
                    Ok((row.get::<_, bool>(0), row.get::<_, bool>(1)))
                })
            })
            .await?;
        match (is_there, is_taken) {
            (false, _) => Err(TapeError::Missing { session: session.clone() }),
            (true, false) => Err(PostgresError::InboxFull { session: session.clone() }.into()),
            (true, true) => Ok(()),
        }
    }

    /// How far a message came, on whichever node its session is: from the inbox, else from the tape. Wakes nothing.
    ///
    /// # Errors
    ///
    /// If the inbox or the tape cannot be read.
    pub async fn progress(&self, session: &SessionId, message: &MessageId) -> Result<MessageProgress, OpenError> {
        let (of, id) = (session.clone(), message.clone());
        let row = self.share.ask("read the inbox", move |postgres, client| {
            let (of, id) = (of.clone(), id.clone());
            Box::pin(async move {
                let sql = "select i.message is not null, i.refused, exists (
                        select from $schema.marks m where m.session = $1 and m.mark in ('parked', 'hidden'))
                    from (select) one left join $schema.inbox i on i.session = $1 and i.message = $2";
                let row = client.query_one(&postgres.sql(sql), &[&of.as_str(), &id.as_str()]).await?;
                Ok((row.get::<_, bool>(0), row.get::<_, Option<String>>(1), row.get::<_, bool>(2)))
            })
        });
        // First the inbox: what has left it is on the tape.
        let (is_there, refused, is_parked) = row.await?;
        let of_parked = |progress| if is_parked { MessageProgress::Parked } else { progress };
        match refused {
            Some(why) => return Ok(MessageProgress::Refused(why)),
            None if is_there => return Ok(of_parked(MessageProgress::Accepted)),
            None => {}
        }
        let state = self.share.runtime.session(session).peek().await?;
        if let Some(turn) = state.turn.as_ref().filter(|turn| turn.messages.contains(message)) {
            return Ok(of_parked(MessageProgress::Running(turn.id)));
        }
        if let Some(end) = state.ended.iter().rev().find(|end| end.messages.contains(message)) {
            return Ok(MessageProgress::Over(Arc::clone(end)));
        }
        let waits = state.queue.iter().chain(&state.steering).any(|waiting| waiting.message.id == *message);
        Ok(if waits {
            of_parked(MessageProgress::Waiting { on_hold: state.on_hold })
        } else {
            MessageProgress::Unknown
        })
    }

    /// All nodes with their sessions, and what waits for one, from any node. Asks the database and no node, so it tells of those that
    /// are gone too. It reads the table of sessions once: for people, and not for a loop.
    ///
    /// # Errors
    ///
    /// If the rows cannot be read.
    pub async fn tree(&self) -> Result<ClusterTree, TapeError> {
        let read = self.share.ask("read the tree of all nodes", |postgres, client| {
            Box::pin(async move { ClusterTree::read(&postgres, client).await })
        });
        read.await
    }

    /// Waits until nothing more becomes of a message by itself: its turn is over, it was refused, it is on hold, its
    /// session is parked, or nobody knows it.
    /// Looks 20 times a second, so prefer [`Receipt::wait`](tamtam::Receipt::wait) where the session is on this node.
    ///
    /// # Errors
    ///
    /// As [`Cluster::progress`].
    pub async fn wait(&self, session: &SessionId, message: &MessageId) -> Result<MessageProgress, OpenError> {
        loop {
            match self.progress(session, message).await? {
                MessageProgress::Accepted
                | MessageProgress::Waiting { on_hold: false }
                | MessageProgress::Running(_) => {
                    tokio::time::sleep(WAIT_LOOK).await;
                }
                settled => return Ok(settled),
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.share.leave();
    }
}
