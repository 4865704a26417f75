//! [`Cluster`]: any node takes a message for any session, and the node that has the session gives it to it.
//!
//! ```text
//! send: one insert, committed ─► notify ─► the owner, or who claims it first: Session::send under the same id ─► delete
//! ```
//!
//! A row leaves the inbox only after the tape has its message, or after its refusal is kept in the row. A node that dies between
//! leaves the row, and the next owner sends it again under its id, which the session knows. So nothing here needs a lock or an
//! order between nodes: the fence of the tape and the ids of the session decide. A change must keep that order, and that a node
//! looks without being told (`LOOK`): a notification that is lost costs time and nothing else.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tamtam::{
    Delivery, Message, MessageId, OpenError, Runtime, SendError, Seq, SessionId,
    session::{Refusal, TurnEnd},
    tape::TapeError,
};
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
};

use crate::{Postgres, PostgresError, pool::Failure, schema::in_schema};

/// How often a node looks for messages without being told.
const LOOK: Duration = Duration::from_millis(250);
/// How often a wait looks whether a turn is over.
const WAIT_LOOK: Duration = Duration::from_millis(50);
/// How long a session that could not take a message is left alone.
const PAUSE: Duration = Duration::from_millis(100);

/// The most messages of one session that wait in the inbox, and the most bytes.
const MESSAGES_MAX: i64 = 1_024;
const BYTES_MAX: usize = 16 * 1024 * 1024;

const SEND: &str = "
with there as materialized (select session from $schema.sessions where session = $1),
room as materialized (
    select count(*) < $6 and coalesce(sum(octet_length(body)), 0) + octet_length($4) <= $7 as is_left
    from $schema.inbox where session = $1 and refused is null),
taken as (
    insert into $schema.inbox (session, message, what, body)
    select $1, $2, $3, $4 from there, room where room.is_left
    on conflict (session, message) do nothing returning session),
told as materialized (select pg_notify($5, session)::text from taken)
select exists (select from there), (select is_left from room)
    or exists (select from $schema.inbox where session = $1 and message = $2), (select count(*) from told)";

/// The sessions that have messages and are this node's; and, with `$2`, those that are free and have messages or an open turn.
const TAKE: &str = "
select s.session from $schema.sessions s
where s.node = $1 and s.expires > clock_timestamp()
    and exists (select from $schema.inbox i where i.session = s.session and i.refused is null)
union all
select s.session from $schema.sessions s
where $2 and s.expires <= clock_timestamp()
    and s.session in (
        select session from $schema.inbox where refused is null
        union select session from $schema.marks where mark = 'open')
    and not exists (select from $schema.marks m where m.session = s.session and m.mark in ('parked', 'hidden'))
limit 256";

/// How far a message came, as [`Cluster::progress`] finds it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MessageProgress {
    /// It is in the inbox: no node has given it to its session yet. It is durable.
    Accepted,
    /// The session refused it, for this reason. It was never read. Kept for a day.
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
/// or drained, is taken up too, once its lease is over.
///
/// All runtimes that share the database should join: messages for a session that is awake in one that did not wait until it sleeps
/// there. Text deltas and events stay local to the node that has the session; what a session said is read from its tape on any node.
/// Sessions are made by [`Runtime::create`] on any node.
///
/// Dropping it, or draining its runtime, ends this node's part: it takes nothing more, and what waits is another's. Drop it before
/// the last [`Postgres`] that it was made from.
#[derive(Debug)]
pub struct Cluster {
    inner: Arc<Inner>,
    tasks: [AbortHandle; 2],
}

#[derive(Debug)]
struct Inner {
    postgres: Postgres,
    runtime: Runtime,
    sessions_max: usize,
    wakes: Arc<Notify>,
    /// The sessions that a task of this node gives messages to.
    at_work: Mutex<BTreeSet<SessionId>>,
    /// The runtime drains or is shut down.
    is_over: AtomicBool,
}

struct Row {
    number: i64,
    what: String,
    body: String,
}

/// What became of a row.
enum Took {
    Done,
    Refused(String),
    /// The session has no room for another message of this delivery.
    Full,
    /// Another node has the session, or nobody can give it a message now.
    NotNow,
}

impl Cluster {
    /// Joins with a runtime whose tapes are in this store. Takes free sessions up while the node has fewer than `sessions_max`.
    ///
    /// It must be called in a tokio runtime.
    #[must_use]
    pub fn join(postgres: &Postgres, runtime: &Runtime, sessions_max: usize) -> Cluster {
        let (postgres, runtime, wakes) = (postgres.clone(), runtime.clone(), Arc::new(Notify::new()));
        let listens = postgres.node.pool.listen(channel(&postgres), Arc::clone(&wakes));
        let (at_work, is_over) = (Mutex::default(), AtomicBool::new(false));
        let inner = Arc::new(Inner { postgres, runtime, sessions_max, wakes, at_work, is_over });
        let takes = tokio::spawn(Arc::clone(&inner).run()).abort_handle();
        Cluster { inner, tasks: [listens, takes] }
    }

    /// Accepts a message for a session, on whichever node it is. It is durable when this returns; sent again under the same id it is
    /// the same message. At most 1,024 messages and 16 MiB of a session wait here.
    ///
    /// A dropped future may have sent the message.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`PostgresError::InboxFull`] in a [`TapeError::Engine`]; others of the store. Nothing was accepted,
    /// but for [`PostgresError::Unreachable`]: then send it again under the same id.
    pub async fn send(
        &self,
        session: &SessionId,
        message: impl Into<Message>,
        delivery: Delivery,
    ) -> Result<MessageId, TapeError> {
        let message = message.into();
        let body = serde_json::to_string(&(&message, delivery)).map_err(TapeError::engine)?;
        self.accept(session, message.id.clone(), "send", body).await?;
        Ok(message.id)
    }

    /// Aborts the running turn of a session, on whichever node it is, as [`Session::abort`](tamtam::Session::abort) does. It comes
    /// behind the messages that were accepted before.
    ///
    /// # Errors
    ///
    /// As [`Cluster::send`].
    pub async fn abort(&self, session: &SessionId, reason: impl Into<String>) -> Result<(), TapeError> {
        self.accept(session, MessageId::new(), "abort", reason.into()).await
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
            .inner
            .ask("take a message", move |postgres, client| {
                let (of, id, body) = (of.clone(), id.clone(), body.clone());
                Box::pin(async move {
                    let (sql, channel) = (postgres.sql(SEND), channel(&postgres));
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
        let row = self.inner.ask("read the inbox", move |postgres, client| {
            let (of, id) = (of.clone(), id.clone());
            Box::pin(async move {
                let sql = postgres.sql("select refused from $schema.inbox where session = $1 and message = $2");
                let row = client.query_opt(&sql, &[&of.as_str(), &id.as_str()]).await?;
                Ok(row.map(|row| row.get::<_, Option<String>>(0)))
            })
        });
        // First the inbox: what has left it is on the tape.
        match row.await? {
            Some(None) => return Ok(MessageProgress::Accepted),
            Some(Some(why)) => return Ok(MessageProgress::Refused(why)),
            None => {}
        }
        let state = self.inner.runtime.session(session).peek().await?;
        if let Some(turn) = state.turn.as_ref().filter(|turn| turn.messages.contains(message)) {
            return Ok(MessageProgress::Running(turn.id));
        }
        if let Some(end) = state.ended.iter().rev().find(|end| end.messages.contains(message)) {
            return Ok(MessageProgress::Over(Arc::clone(end)));
        }
        let waits = state.queue.iter().chain(&state.steering).any(|waiting| waiting.message.id == *message);
        Ok(if waits { MessageProgress::Waiting { on_hold: state.on_hold } } else { MessageProgress::Unknown })
    }

    /// Waits until nothing more becomes of a message by itself: its turn is over, it was refused, it is on hold, or nobody knows it.
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
    }
}

/// What a question on a connection gives.
type Asked<'c, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, Failure>> + 'c>>;

impl Inner {
    /// Asks the database on a thread that may block. `work` may be run twice.
    async fn ask<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl for<'c> Fn(Postgres, &'c tokio_postgres::Client) -> Asked<'c, T> + Send + 'static,
    ) -> Result<T, TapeError> {
        let postgres = self.postgres.clone();
        let asked = tokio::task::spawn_blocking(move || {
            postgres.node.pool.run(op, async |client| work(postgres.clone(), client).await)
        });
        asked.await.map_err(|_| TapeError::Closed)?
    }

    /// Gives messages to sessions until the runtime ends.
    async fn run(self: Arc<Inner>) {
        let mut tasks = JoinSet::new();
        while !self.is_over.load(Ordering::Relaxed) {
            for session in self.due().await {
                if self.at_work.lock().unwrap_or_else(PoisonError::into_inner).insert(session.clone()) {
                    tasks.spawn(Arc::clone(&self).serve(session));
                }
            }
            while tasks.try_join_next().is_some() {}
            let _ = tokio::time::timeout(LOOK, self.wakes.notified()).await;
        }
    }

    /// The sessions that have something for this node to do.
    async fn due(&self) -> Vec<SessionId> {
        let shared = &self.postgres.node.shared;
        let (node, has_room) = (shared.id.clone(), shared.held().len() < self.sessions_max);
        let due = self.ask("look for messages", move |postgres, client| {
            let node = node.clone();
            Box::pin(async move {
                let rows = client.query(&postgres.sql(TAKE), &[&node, &has_room]).await?;
                Ok(rows.iter().filter_map(|row| row.get::<_, &str>(0).parse().ok()).collect())
            })
        });
        // Asked again with the next look.
        due.await.unwrap_or_default()
    }

    async fn serve(self: Arc<Inner>, session: SessionId) {
        if !self.give_all(&session).await {
            tokio::time::sleep(PAUSE).await;
        }
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
        // What came since the last look at its rows.
        self.wakes.notify_one();
    }

    /// Gives a session its messages, in order. `false` if it could not take some.
    async fn give_all(&self, session: &SessionId) -> bool {
        if let Err(error) = self.runtime.open(session).await {
            self.note_end(matches!(error, OpenError::Closed));
            return false;
        }
        loop {
            let Ok(rows) = self.rows(session).await else { return false };
            if rows.is_empty() {
                return true;
            }
            let (mut done, mut refused, mut left) = (Vec::new(), Vec::new(), false);
            // The lane of queued messages is full; steering and aborts may still pass.
            let mut is_full = false;
            for row in rows {
                match self.give(session, &row, is_full).await {
                    Took::Done => done.push(row.number),
                    Took::Refused(why) => refused.push((row.number, why)),
                    Took::Full => (left, is_full) = (true, true),
                    Took::NotNow => {
                        left = true;
                        break;
                    }
                }
            }
            if self.settle(session, done, refused).await.is_err() || left {
                return false;
            }
        }
    }

    async fn give(&self, session: &SessionId, row: &Row, is_full: bool) -> Took {
        let session = self.runtime.session(session);
        let sent = match row.what.as_str() {
            "abort" => session.abort(row.body.as_str()).await.map(drop),
            _ => match serde_json::from_str::<(Message, Delivery)>(&row.body) {
                Ok((_, Delivery::Queue)) if is_full => return Took::Full,
                Ok((message, delivery)) => session.send(message, delivery).await.map(drop),
                Err(error) => return Took::Refused(format!("the row cannot be read by this node: {error}")),
            },
        };
        match sent {
            Ok(()) | Err(SendError::Handled) => Took::Done,
            Err(SendError::Refused(Refusal::InboxFull { .. })) => Took::Full,
            Err(error @ (SendError::Refused(_) | SendError::NoAgent { .. } | SendError::Crashed)) => {
                Took::Refused(error.to_string())
            }
            Err(error @ SendError::HookFailed { .. }) => Took::Refused(error.to_string()),
            Err(error) => {
                self.note_end(matches!(error, SendError::Closed | SendError::Draining));
                Took::NotNow
            }
        }
    }

    /// A runtime that ends takes nothing more.
    fn note_end(&self, ends: bool) {
        self.is_over.fetch_or(ends, Ordering::Relaxed);
    }

    async fn rows(&self, session: &SessionId) -> Result<Vec<Row>, TapeError> {
        let session = session.clone();
        let rows = self.ask("read messages", move |postgres, client| {
            let session = session.clone();
            Box::pin(async move {
                let sql = "select number, what, body from $schema.inbox where session = $1 and refused is null order by number";
                let rows = client.query(&postgres.sql(sql), &[&session.as_str()]).await?;
                Ok(rows.iter().map(|row| Row { number: row.get(0), what: row.get(1), body: row.get(2) }).collect())
            })
        });
        rows.await
    }

    /// Removes the rows whose messages are on the tape, and old refusals; notes new ones.
    async fn settle(&self, session: &SessionId, done: Vec<i64>, refused: Vec<(i64, String)>) -> Result<(), TapeError> {
        if done.is_empty() && refused.is_empty() {
            return Ok(());
        }
        let session = session.clone();
        let settled = self.ask("settle messages", move |postgres, client| {
            let (session, done) = (session.clone(), done.clone());
            let (numbers, whys): (Vec<i64>, Vec<String>) = refused.iter().cloned().unzip();
            Box::pin(async move {
                let delete = "delete from $schema.inbox where session = $1
                    and (number = any($2) or refused is not null and at < clock_timestamp() - interval '1 day')";
                client.execute(&postgres.sql(delete), &[&session.as_str(), &done]).await?;
                let note =
                    "update $schema.inbox i set refused = r.why from unnest($2::bigint[], $3::text[]) as r(number, why)
                    where i.session = $1 and i.number = r.number";
                client.execute(&postgres.sql(note), &[&session.as_str(), &numbers, &whys]).await?;
                Ok(())
            })
        });
        settled.await
    }
}

/// Where nodes tell each other of messages.
fn channel(postgres: &Postgres) -> String {
    in_schema("tamtam_inbox_$schema", &postgres.node.shared.schema)
}
