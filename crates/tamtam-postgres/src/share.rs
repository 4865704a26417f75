//! [`Share`]: what one node does in a cluster: it looks for work, takes free sessions up while it has room, and gives sessions their
//! messages.
//!
//! A row leaves the inbox behind the append that has its message, or is kept as refused; see `cluster.rs` for why nothing else is
//! needed. A change must keep that order, and that no failed look, claim or send ends the loop: what could not be done now waits for
//! the next look, or for the end of its pause.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tamtam::{Delivery, Message, OpenError, Runtime, SendError, Seq, SessionId, session::Refusal, tape::TapeError};
use tokio::{
    sync::{Notify, Semaphore, oneshot},
    task::JoinSet,
};

use crate::{Postgres, pool::Failure};

/// The first pause of a session that could not take a message.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// How long at most a session is left alone that could not take a message, and one that could not be opened. Each pause is twice
/// the one before.
const FULL_PAUSE_MAX: Duration = Duration::from_secs(5);
const UNOPENED_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often refusals of more than a day ago are deleted.
const SWEEP: Duration = Duration::from_secs(3_600);
/// How many questions to the database block a thread at the same time. The pool has as few connections.
const ASKS_MAX: usize = 8;
/// How many sessions one look takes up, and how many messages of a session are read at once.
const SESSIONS_MAX: i64 = 256;
const ROWS_MAX: i64 = 64;

/// The lanes of an inbox. Each keeps its order, and one that is full holds up no other.
pub(crate) const QUEUE: &str = "send";
pub(crate) const STEER: &str = "steer";
pub(crate) const ABORT: &str = "abort";

/// The sessions that have messages and are this node's (`$1`); and, up to `$4`, those that are free and have messages or an open turn.
/// None of those in `$2`; those in `$3` only for an abort. The row without a session has the seconds until the first lease of another
/// node ends that has such work: that node may be gone. It starts from what waits, which is little, and looks each session up with
/// `limit 1`: of a plain join the planner makes a read of the whole table of sessions.
const TAKE: &str = "
with waiting as materialized (
    select session, bool_or(what = 'abort') as aborts from $schema.inbox
    where refused is null and session <> all($2::text[]) group by session),
work as materialized (
    select session from waiting
    union select session from $schema.marks where mark = 'open' and session <> all($2::text[]))
(select w.session, null::float8 from waiting w
join lateral (
    select from $schema.sessions s
    where s.session = w.session and s.node = $1 and s.expires > '-infinity' limit 1) s on true
where w.aborts or w.session <> all($3::text[])
order by w.session limit $5)
union all
(select f.session, null from work f
join lateral (
    select from $schema.sessions s where s.session = f.session and $free limit 1) s on true
where f.session <> all($3::text[])
    and not exists (select from $schema.marks m where m.session = f.session and m.mark in ('parked', 'hidden'))
order by f.session limit $4)
union all
(select null, extract(epoch from min(n.expires) - clock_timestamp())::float8 from work f
join lateral (
    select node from $schema.sessions s where s.session = f.session and s.node <> $1 and s.expires = 'infinity' limit 1) s on true
join $schema.nodes n on n.node = s.node and isfinite(n.expires) and n.expires > clock_timestamp()
where $4::bigint > 0)";

#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) postgres: Postgres,
    pub(crate) runtime: Runtime,
    sessions_max: usize,
    wakes: Arc<Notify>,
    asks: Arc<Semaphore>,
    work: Mutex<Work>,
    /// The runtime drains: it opens no more sessions.
    drains: AtomicBool,
    /// The runtime is shut down.
    is_over: AtomicBool,
    /// It left the nodes.
    has_left: AtomicBool,
}

#[derive(Debug, Default)]
struct Work {
    /// The sessions that a task of this node gives messages to.
    at_work: BTreeSet<SessionId>,
    /// The sessions that are left alone: until when, and for how long.
    pauses: BTreeMap<SessionId, (Instant, Duration)>,
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
    /// The session has no room for another message of this lane.
    Full,
    /// The session takes no messages any more in this runtime, and still takes aborts.
    Draining,
    /// Another node has the session, this node cannot read the row, or nobody can give it a message now.
    NotNow,
}

/// What a question on a connection gives.
type Asked<'c, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, Failure>> + 'c>>;

impl Share {
    pub(crate) fn new(postgres: Postgres, runtime: Runtime, sessions_max: usize, wakes: Arc<Notify>) -> Share {
        let (asks, work) = (Arc::new(Semaphore::new(ASKS_MAX)), Mutex::default());
        let [drains, is_over, has_left] = [false; 3].map(AtomicBool::new);
        // Nothing waits until the nodes are told.
        drop(postgres.node.join(true));
        Share { postgres, runtime, sessions_max, wakes, asks, work, drains, is_over, has_left }
    }

    /// Leaves the nodes, once. What it returns is told when this node is not shown any more.
    pub(crate) fn leave(&self) -> Option<oneshot::Receiver<()>> {
        (!self.has_left.swap(true, Ordering::Relaxed)).then(|| self.postgres.node.join(false))
    }

    /// Asks the database on a thread that may block. `work` may be run twice.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl for<'c> Fn(Postgres, &'c tokio_postgres::Client) -> Asked<'c, T> + Send + 'static,
    ) -> Result<T, TapeError> {
        // The thread has it to its end, also where nobody waits for the answer any more.
        let turn = Arc::clone(&self.asks).acquire_owned().await.map_err(|_| TapeError::Closed)?;
        let postgres = self.postgres.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            postgres.node.pool.run(op, async |client| work(postgres.clone(), client).await)
        });
        asked.await.map_err(|_| TapeError::Closed)?
    }

    /// Gives messages to sessions until the runtime ends.
    pub(crate) async fn run(self: Arc<Share>) {
        let (mut tasks, mut swept) = (JoinSet::new(), None::<Instant>);
        while !self.ends() {
            let (due, look) = self.due().await;
            for session in due {
                if self.work().at_work.insert(session.clone()) {
                    tasks.spawn(Arc::clone(&self).serve(session));
                }
            }
            if swept.is_none_or(|swept| swept.elapsed() >= SWEEP) {
                swept = Some(Instant::now());
                tasks.spawn(Arc::clone(&self).sweep());
            }
            while tasks.try_join_next().is_some() {}
            let _ = tokio::time::timeout(look, self.wakes.notified()).await;
        }
        self.leave();
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is left to do for this node. One that drains still passes aborts on to what it has.
    fn ends(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
            || self.drains.load(Ordering::Relaxed) && self.postgres.node.shared.held().is_empty()
    }

    /// The sessions that have something for this node to do, and how long at most until the next look.
    async fn due(&self) -> (Vec<SessionId>, Duration) {
        let shared = &self.postgres.node.shared;
        let mut mine: BTreeSet<_> = shared.held().iter().map(|tape| tape.session.clone()).collect();
        let texts = |sessions: Vec<&SessionId>| -> Vec<String> {
            sessions.into_iter().map(|session| session.as_str().to_owned()).collect()
        };
        let (at_work, paused, pause_ends) = {
            let (mut work, now) = (self.work(), Instant::now());
            // Kept beyond their end, to be doubled where the next try fails as well.
            work.pauses.retain(|_, (until, _)| *until + UNOPENED_PAUSE_MAX > now);
            mine.extend(work.at_work.iter().cloned());
            let (paused, ends): (Vec<_>, Vec<_>) = work
                .pauses
                .iter()
                .filter_map(|(session, (until, _))| (*until > now).then_some((session, *until)))
                .unzip();
            (texts(work.at_work.iter().collect()), texts(paused), ends.into_iter().min())
        };
        let is_open = !self.drains.load(Ordering::Relaxed);
        let room = if is_open { self.sessions_max.saturating_sub(mine.len()) } else { 0 };
        let (node, room) = (shared.id.clone(), i64::try_from(room).unwrap_or(SESSIONS_MAX).min(SESSIONS_MAX));
        let due = self.ask("look for messages", move |postgres, client| {
            let (node, at_work, paused) = (node.clone(), at_work.clone(), paused.clone());
            Box::pin(async move {
                let rows = client.query(&postgres.sql(TAKE), &[&node, &at_work, &paused, &room, &SESSIONS_MAX]).await?;
                let sessions = rows.iter().filter_map(|row| row.get::<_, Option<&str>>(0)?.parse().ok()).collect();
                Ok((sessions, rows.iter().find_map(|row| row.get::<_, Option<f64>>(1))))
            })
        });
        // What it was told of is lost with this look.
        let Ok((sessions, lease_ends)) = due.await else { return (Vec::new(), shared.look.min(PAUSE_MIN)) };
        let lease_ends = lease_ends.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.001)).ok());
        let pause_ends = pause_ends.map(|end| end.saturating_duration_since(Instant::now()));
        (sessions, [lease_ends, pause_ends].into_iter().flatten().fold(shared.look, Duration::min))
    }

    async fn serve(self: Arc<Share>, session: SessionId) {
        let given = self.give_all(&session).await;
        let mut work = self.work();
        work.at_work.remove(&session);
        match given {
            Ok(()) => drop(work.pauses.remove(&session)),
            Err(pause_max) => {
                let last = work.pauses.get(&session).map(|(_, pause)| *pause);
                let pause = last.map_or(PAUSE_MIN, |last| last * 2).min(pause_max);
                work.pauses.insert(session, (Instant::now() + pause, pause));
            }
        }
        // For what came since the last look at its rows, or for the end of the pause.
        self.wakes.notify_one();
    }

    /// Gives a session its messages, in order. Where it could not take some, the error is how long at most it is left alone.
    async fn give_all(&self, session: &SessionId) -> Result<(), Duration> {
        if let Err(error) = self.runtime.open(session).await {
            self.drains.fetch_or(matches!(error, OpenError::Closed), Ordering::Relaxed);
            // Another node was quicker: nothing is wrong with the session, and the next look finds it where it is free again.
            let is_lost_race = matches!(error, OpenError::Tape(TapeError::Claimed { .. }));
            return Err(if is_lost_race { PAUSE_MIN } else { UNOPENED_PAUSE_MAX });
        }
        let mut full = BTreeSet::new();
        loop {
            let rows = self.rows(session, &full).await.map_err(|_| FULL_PAUSE_MAX)?;
            if rows.is_empty() {
                return if full.is_empty() { Ok(()) } else { Err(FULL_PAUSE_MAX) };
            }
            let (mut done, mut refused, mut is_stuck) = (Vec::new(), Vec::new(), false);
            for row in rows {
                if full.contains(&row.what) {
                    continue;
                }
                let is_abort = row.what == ABORT;
                match self.give(session, &row).await {
                    Took::Done => done.push(row.number),
                    Took::Refused(why) => refused.push((row.number, why)),
                    Took::Full => _ = full.insert(row.what),
                    Took::Draining => full.extend([QUEUE, STEER].map(str::to_owned)),
                    Took::NotNow => is_stuck = true,
                }
                // What an abort has done leaves the inbox before anything else begins.
                if is_abort || is_stuck {
                    break;
                }
            }
            if !done.is_empty() || !refused.is_empty() {
                self.work().pauses.remove(session);
                self.settle(session, done, refused).await.map_err(|_| FULL_PAUSE_MAX)?;
            }
            if is_stuck {
                return Err(FULL_PAUSE_MAX);
            }
        }
    }

    async fn give(&self, session: &SessionId, row: &Row) -> Took {
        let session = self.runtime.session(session);
        let sent = if row.what == ABORT {
            let Ok((turn, reason)) = serde_json::from_str::<(Seq, String)>(&row.body) else { return Took::NotNow };
            match session.abort_turn(turn, reason).await {
                // The disk did not answer. Its record may die with this process, so the row stays.
                Ok(aborted) if !aborted.recorded => return Took::NotNow,
                // That turn is over.
                Err(SendError::Refused(Refusal::TurnMismatch { .. })) => return Took::Done,
                aborted => aborted.map(drop),
            }
        } else {
            // A row that cannot be read here is for a newer node.
            let Ok((message, delivery)) = serde_json::from_str::<(Message, Delivery)>(&row.body) else {
                return Took::NotNow;
            };
            session.send(message, delivery).await.map(drop)
        };
        match sent {
            Ok(()) | Err(SendError::Handled) => Took::Done,
            Err(SendError::Refused(Refusal::InboxFull { .. })) => Took::Full,
            Err(error @ (SendError::Refused(_) | SendError::NoAgent { .. } | SendError::Crashed)) => {
                Took::Refused(error.to_string())
            }
            Err(error @ SendError::HookFailed { .. }) => Took::Refused(error.to_string()),
            Err(SendError::Draining) => Took::Draining,
            Err(error) => {
                // A runtime that is shut down takes nothing more.
                self.is_over.fetch_or(matches!(error, SendError::Closed), Ordering::Relaxed);
                Took::NotNow
            }
        }
    }

    /// The next messages of a session, but for lanes that are full.
    async fn rows(&self, session: &SessionId, full: &BTreeSet<String>) -> Result<Vec<Row>, TapeError> {
        let (session, full) = (session.clone(), full.iter().cloned().collect::<Vec<_>>());
        let rows = self.ask("read messages", move |postgres, client| {
            let (session, full) = (session.clone(), full.clone());
            Box::pin(async move {
                let sql = "select number, what, body from $schema.inbox
                    where session = $1 and refused is null and what <> all($2::text[]) order by number limit $3";
                let rows = client.query(&postgres.sql(sql), &[&session.as_str(), &full, &ROWS_MAX]).await?;
                Ok(rows.iter().map(|row| Row { number: row.get(0), what: row.get(1), body: row.get(2) }).collect())
            })
        });
        rows.await
    }

    /// Removes the rows whose messages are on the tape, and notes refusals.
    async fn settle(&self, session: &SessionId, done: Vec<i64>, refused: Vec<(i64, String)>) -> Result<(), TapeError> {
        let session = session.clone();
        let settled = self.ask("settle messages", move |postgres, client| {
            let (session, done) = (session.clone(), done.clone());
            let (numbers, whys): (Vec<i64>, Vec<String>) = refused.iter().cloned().unzip();
            Box::pin(async move {
                let delete = "delete from $schema.inbox where session = $1 and number = any($2)";
                client.execute(&postgres.sql(delete), &[&session.as_str(), &done]).await?;
                let note = "update $schema.inbox i set refused = r.why, body = '', at = clock_timestamp()
                    from unnest($2::bigint[], $3::text[]) as r(number, why)
                    where i.session = $1 and i.number = r.number";
                client.execute(&postgres.sql(note), &[&session.as_str(), &numbers, &whys]).await?;
                Ok(())
            })
        });
        settled.await
    }

    /// Deletes refusals that were kept for a day.
    async fn sweep(self: Arc<Share>) {
        let swept = self.ask("delete what is old", |postgres, client| {
            Box::pin(async move {
                let sql = "delete from $schema.inbox
                    where refused is not null and at < clock_timestamp() - interval '1 day'";
                client.execute(&postgres.sql(sql), &[]).await?;
                Ok(())
            })
        });
        // The next sweep, or another node's, deletes them.
        let _ = swept.await;
    }
}
