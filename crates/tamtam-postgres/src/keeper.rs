//! [`Keeper`]: the connection that writes. It appends, renews the node's lease, releases sessions, and settles what a lost connection
//! left open.
//!
//! While a statement is under way, what comes meanwhile waits and goes with the next: one round trip and one sync of the server for
//! all of it. Each append carries the epoch of its claim in the statement that writes it; the row of the session is locked for share
//! until that commits, so a claim by another node comes before it or behind it, and never between its check and its write.
//!
//! ```text
//! connect ─► fence: a new epoch for all that this node still has ─► ask for appends whose answer was lost ─► beat, write, …
//! ```
//!
//! The fence is what makes a lost answer decidable: it waits for a statement that still runs on the server and refuses one that comes
//! later. What is not on the tape behind it never will be, and is sent again. A change must keep that order.
//!
//! The statements are in `statements.rs`, what goes together in `batch.rs`, and the heartbeat in `heartbeat.rs`.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use tamtam::{
    SessionId,
    tape::{GivenBack, TapeError},
};
use tokio::{
    runtime::Handle,
    sync::{mpsc::UnboundedReceiver, oneshot},
    time::timeout,
};
use tokio_postgres::{Client, Row, Statement, types::ToSql};

use crate::{
    PostgresError,
    address::Address,
    batch::Batch,
    node::{Job, Shared, Told},
    pool::{PATIENCE, STATEMENT_MAX, connect},
    schema::{channel, in_schema},
    statements::{APPEND, BEAT, BURY, FENCE, FREE, HELD, MARK_OPEN, RELEASE, WRITTEN},
    tape::{Rows, Tape},
};

/// The pauses between two tries to connect.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The connection, with what is prepared on it.
pub(crate) struct Link {
    pub(crate) client: Client,
    append: Statement,
    pub(crate) beat: Statement,
    pub(crate) held: Statement,
    pub(crate) free: Statement,
    release: Statement,
    mark_open: Statement,
}

pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
    address: Address,
    thread: Handle,
    jobs: UnboundedReceiver<Told>,
    link: Option<Link>,
    pending: VecDeque<Job>,
    next_beat: Instant,
    /// Who waits for the next heartbeat.
    pub(crate) waits: Vec<oneshot::Sender<()>>,
    /// When it looks next for what it has and does not know.
    pub(crate) next_free: Instant,
    /// The last session that a heartbeat looked at.
    pub(crate) looked_at: Option<SessionId>,
    /// Whether the last user of the store is gone.
    pub(crate) has_ended: bool,
    /// Since when there is no server.
    away: Option<Instant>,
}

impl Keeper {
    pub(crate) fn new(shared: Arc<Shared>, address: Address, thread: Handle, jobs: UnboundedReceiver<Told>) -> Keeper {
        // Until then a node lives by its claims.
        let (pending, next_beat, waits) = (VecDeque::new(), Instant::now() + shared.lease / 4, Vec::new());
        let (next_free, link, looked_at, has_ended, away) = (next_beat, None, None, false, None);
        Keeper { shared, address, thread, jobs, link, pending, next_beat, waits, next_free, looked_at, has_ended, away }
    }

    /// Runs until the store has no user and nothing waits.
    pub(crate) async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            self.receive().await;
            if self.pending.is_empty() && self.waits.is_empty() && self.has_ended {
                return;
            }
            let Err(error) = self.step().await else {
                (pause, self.away) = (PAUSE_MIN, None);
                continue;
            };
            self.link = None;
            self.away.get_or_insert_with(Instant::now);
            self.give_up(&error);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Waits for a job, or for the next heartbeat, and takes all jobs that are there.
    async fn receive(&mut self) {
        if self.pending.is_empty() && !self.has_ended {
            let left = self.next_beat.saturating_duration_since(Instant::now());
            match timeout(left, self.jobs.recv()).await {
                Ok(Some(told)) => self.hear(told),
                Ok(None) => self.has_ended = true,
                Err(_) => {}
            }
        }
        while let Ok(told) = self.jobs.try_recv() {
            self.hear(told);
        }
        self.has_ended |= self.jobs.is_closed() && self.jobs.is_empty();
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Job(job) => self.pending.push_back(job),
            Told::Beat(waits) => {
                self.next_beat = Instant::now();
                self.waits.push(waits);
            }
        }
    }

    /// Renews the lease if it is time, and does one batch. An error is a lost connection.
    async fn step(&mut self) -> Result<(), PostgresError> {
        let is_due = Instant::now() >= self.next_beat;
        let is_beat = is_due && (self.shared.is_in_use() || !self.waits.is_empty());
        if is_beat || !self.pending.is_empty() {
            self.link_up().await?;
        }
        if is_beat {
            self.beat().await?;
        }
        if is_due {
            self.next_beat = Instant::now() + self.shared.lease / 4;
        }
        match Batch::next(&mut self.pending) {
            Batch::Nothing => Ok(()),
            Batch::Appends(appends) => self.append(appends).await,
            Batch::Releases(tapes) => self.release(tapes).await,
            Batch::Marks(marks) => self.mark(marks).await,
        }
    }

    /// Connects if there is no connection, and settles what the last one left open.
    async fn link_up(&mut self) -> Result<(), PostgresError> {
        if self.link.as_ref().is_some_and(|link| !link.client.is_closed()) {
            return Ok(());
        }
        self.link = None;
        let client = answered(connect(&self.address, &self.thread)).await??;
        let prepare = async |sql: &str| {
            let prepared = answered(client.prepare(&in_schema(sql, &self.shared.schema))).await?;
            prepared.map_err(|error| unreachable_or("prepare", &error))
        };
        let (append, mark_open) = (prepare(APPEND).await?, prepare(MARK_OPEN).await?);
        let (beat, held, free) = (prepare(BEAT).await?, prepare(HELD).await?, prepare(FREE).await?);
        let release = prepare(RELEASE).await?;
        self.fence(&client).await?;
        self.ask(&client).await?;
        // Where it is refused, another connection does it.
        let _ = self.query(&client, BURY, &[]).await;
        self.link = Some(Link { client, append, beat, held, free, release, mark_open });
        Ok(())
    }

    /// Gives a new epoch to all that this node still has, so that no statement of an earlier connection can write any more.
    async fn fence(&self, client: &Client) -> Result<(), PostgresError> {
        let held = self.shared.held();
        if held.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = held.iter().map(|tape| tape.session.as_str()).collect();
        let fenced = self.query(client, FENCE, &[&names, &self.shared.id]).await?;
        let epochs: BTreeMap<&str, i64> = fenced.iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut lost = Vec::new();
        for tape in &held {
            match epochs.get(tape.session.as_str()) {
                Some(epoch) => tape.state().epoch = *epoch,
                None => lost.push(Arc::clone(tape)),
            }
        }
        self.lose(client, &lost).await
    }

    /// Settles the appends whose answer was lost: those that are on the tape. The others were not written, and wait again.
    async fn ask(&mut self, client: &Client) -> Result<(), PostgresError> {
        let sent = |job: &Job| match job {
            Job::Append(tape, rows) if rows.was_sent => {
                let last = rows.rows.last()?;
                Some((tape.session.as_str().to_owned(), last.seq, last.sum.clone()))
            }
            _ => None,
        };
        let asked: Vec<(String, i64, String)> = self.pending.iter().filter_map(sent).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = asked.iter().map(|(session, _, _)| session.as_str()).collect();
        let seqs: Vec<i64> = asked.iter().map(|(_, seq, _)| *seq).collect();
        let sums: Vec<&str> = asked.iter().map(|(_, _, sum)| sum.as_str()).collect();
        let found = self.query(client, WRITTEN, &[&names, &seqs, &sums]).await?;
        let found: BTreeSet<&str> = found.iter().map(|row| row.get(0)).collect();
        for mut job in mem::take(&mut self.pending) {
            match &mut job {
                Job::Append(tape, rows) if rows.was_sent && found.contains(tape.session.as_str()) => {
                    self.settle(tape, rows, Ok(()));
                    continue;
                }
                Job::Append(_, rows) => rows.was_sent = false,
                _ => {}
            }
            self.pending.push_back(job);
        }
        Ok(())
    }

    async fn append(&mut self, appends: Vec<(Arc<Tape>, Rows)>) -> Result<(), PostgresError> {
        let mut left = Vec::new();
        for (tape, rows) in appends {
            match tape.lost() {
                Some(lost) => self.settle(&tape, &rows, Err(lost)),
                None => left.push((tape, rows)),
            }
        }
        // A refused batch is tried one by one: one bad append refuses no other.
        let mut batches = VecDeque::from([left]);
        while let Some(batch) = batches.pop_front().filter(|batch| !batch.is_empty()) {
            match self.insert(&batch).await {
                Ok(taken) => {
                    let (taken, lost): (Vec<_>, Vec<_>) =
                        batch.into_iter().partition(|(tape, _)| taken.contains(tape.session.as_str()));
                    taken.iter().for_each(|(tape, rows)| self.settle(tape, rows, Ok(())));
                    let tapes: Vec<_> = lost.iter().map(|(tape, _)| Arc::clone(tape)).collect();
                    let told = match &self.link {
                        Some(link) => self.lose(&link.client, &tapes).await,
                        None => Ok(()),
                    };
                    if let Err(error) = told {
                        // They were not written: asked again, they are refused again.
                        self.put_back(lost, false);
                        self.put_back(batches.into_iter().flatten().collect(), false);
                        return Err(error);
                    }
                    for (tape, rows) in lost {
                        let why = tape.lost().unwrap_or(TapeError::Closed);
                        self.settle(&tape, &rows, Err(why));
                    }
                }
                Err(error) if error.is_unreachable() => {
                    self.put_back(batch, true);
                    self.put_back(batches.into_iter().flatten().collect(), false);
                    return Err(error);
                }
                Err(error) if error.is_conflict() => batches.push_front(batch),
                Err(_) if batch.len() > 1 => batch.into_iter().rev().for_each(|one| batches.push_front(vec![one])),
                Err(error) => {
                    batch.iter().for_each(|(tape, rows)| self.settle(tape, rows, Err(error.clone().into())));
                }
            }
        }
        Ok(())
    }

    /// Writes appends, and returns the sessions whose epoch held: all of their rows are written, and none of the others.
    async fn insert(&self, batch: &[(Arc<Tape>, Rows)]) -> Result<BTreeSet<String>, PostgresError> {
        let names: Vec<&str> = batch.iter().map(|(tape, _)| tape.session.as_str()).collect();
        let epochs: Vec<i64> = batch.iter().map(|(tape, _)| tape.state().epoch).collect();
        let lasts: Vec<i64> = batch.iter().map(|(_, rows)| rows.last.0).collect();
        let last_sums: Vec<&str> = batch.iter().map(|(_, rows)| rows.last.1.as_str()).collect();
        let rows = || {
            batch
                .iter()
                .flat_map(|(tape, append)| append.rows.iter().enumerate().map(move |(n, row)| (tape, append, n, row)))
        };
        let sessions: Vec<&str> = rows().map(|(tape, ..)| tape.session.as_str()).collect();
        let seqs: Vec<i64> = rows().map(|(.., row)| row.seq).collect();
        let times: Vec<i64> = rows().map(|(.., row)| row.time).collect();
        let more: Vec<i64> = rows().map(|(.., row)| row.more).collect();
        let anchors: Vec<&str> = rows().map(|(_, append, ..)| append.anchor.as_str()).collect();
        let begins: Vec<bool> = rows().map(|(_, append, n, _)| append.begins && n == 0).collect();
        let sums: Vec<&str> = rows().map(|(.., row)| row.sum.as_str()).collect();
        let bytes: Vec<i64> = rows().map(|(.., row)| row.bytes).collect();
        let lines: Vec<&str> = rows().map(|(.., row)| row.line.as_str()).collect();
        let values: [&(dyn ToSql + Sync); 13] = [
            &names, &epochs, &lasts, &last_sums, &sessions, &seqs, &times, &more, &anchors, &begins, &sums, &bytes,
            &lines,
        ];
        let link = self.link()?;
        let held = answered(link.client.query(&link.append, &values)).await?;
        let held = held.map_err(|error| self.refusal("append", &error))?;
        Ok(held.iter().map(|row| row.get(0)).collect())
    }

    /// Gives these back, and tells other nodes where work waits.
    async fn release(&mut self, leaving: Vec<(Arc<Tape>, Option<GivenBack>)>) -> Result<(), PostgresError> {
        let released = async {
            let (names, epochs) = claims(leaving.iter().map(|(tape, _)| tape));
            let (link, channel) = (self.link()?, channel(&self.shared.schema));
            let released = answered(link.client.execute(&link.release, &[&names, &epochs, &channel])).await?;
            released.map_err(|error| self.refusal("release sessions", &error))
        };
        match released.await {
            Err(error) if error.is_unreachable() => {
                for (tape, then) in leaving.into_iter().rev() {
                    self.pending.push_front(Job::Release(tape, then));
                }
                Err(error)
            }
            // Where it was refused, a later heartbeat gives them back.
            Ok(_) | Err(_) => {
                leaving.into_iter().for_each(|(tape, then)| self.left(&tape, then));
                Ok(())
            }
        }
    }

    async fn mark(&mut self, marks: Vec<(SessionId, String, bool)>) -> Result<(), PostgresError> {
        let names: Vec<&str> = marks.iter().map(|(session, ..)| session.as_str()).collect();
        let about: Vec<&str> = marks.iter().map(|(_, about, _)| about.as_str()).collect();
        let wanted: Vec<bool> = marks.iter().map(|(.., wanted)| *wanted).collect();
        let marked = async {
            let link = self.link()?;
            let marked =
                answered(link.client.execute(&link.mark_open, &[&names, &about, &wanted, &self.shared.id])).await?;
            marked.map_err(|error| self.refusal("mark open turns", &error))
        };
        let marked = marked.await;
        match marked {
            Err(error) if error.is_unreachable() => {
                for (session, about, set) in marks.into_iter().rev() {
                    self.pending.push_front(Job::MarkOpen { session, about, set });
                }
                Err(error)
            }
            // A server that refuses this refuses the append behind it as well, and that is told.
            Ok(_) | Err(_) => {
                marks.iter().for_each(|_| self.shared.done(0));
                Ok(())
            }
        }
    }

    /// Once the server is away for too long, tells those who wait. An append whose answer was lost waits on, with all that is behind
    /// it: it may be on the tape. Where the store has no user any more, nothing waits on.
    fn give_up(&mut self, error: &PostgresError) {
        if self.away.is_none_or(|since| since.elapsed() < PATIENCE) {
            return;
        }
        if self.has_ended {
            self.waits.clear();
        }
        let mut unsettled = BTreeSet::new();
        for job in mem::take(&mut self.pending) {
            let waits_on = !self.has_ended
                && match &job {
                    Job::Append(_, rows) => rows.was_sent,
                    Job::Release(tape, _) => unsettled.contains(&tape.session),
                    Job::MarkOpen { .. } => true,
                };
            match job {
                job if waits_on => {
                    unsettled.insert(job.session().clone());
                    self.pending.push_back(job);
                }
                Job::Append(tape, rows) => self.settle(&tape, &rows, Err(error.clone().into())),
                Job::Release(tape, then) => self.left(&tape, then),
                Job::MarkOpen { .. } => self.shared.done(0),
            }
        }
    }

    fn settle(&self, tape: &Tape, rows: &Rows, result: Result<(), TapeError>) {
        tape.settle(rows, result);
        self.shared.done(rows.size);
    }

    fn left(&self, tape: &Tape, then: Option<GivenBack>) {
        self.shared.released(&tape.session);
        if let Some(then) = then {
            then();
        }
        self.shared.done(0);
    }

    fn put_back(&mut self, appends: Vec<(Arc<Tape>, Rows)>, was_sent: bool) {
        for (tape, mut rows) in appends.into_iter().rev() {
            rows.was_sent |= was_sent;
            self.pending.push_front(Job::Append(tape, rows));
        }
    }

    pub(crate) fn link(&self) -> Result<&Link, PostgresError> {
        self.link.as_ref().ok_or_else(|| PostgresError::Unreachable { message: "not connected".to_owned() })
    }

    /// An error of a connection that is closed by now is no answer.
    pub(crate) fn refusal(&self, op: &'static str, error: &tokio_postgres::Error) -> PostgresError {
        match &self.link {
            Some(link) if !link.client.is_closed() => PostgresError::of(op, error),
            _ => unreachable_or(op, error),
        }
    }

    pub(crate) async fn query(
        &self,
        client: &Client,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PostgresError> {
        let sql = in_schema(sql, &self.shared.schema);
        answered(client.query(&sql, values)).await?.map_err(|error| unreachable_or("reconnect", &error))
    }
}

/// The names of these sessions, and the epochs of their claims.
pub(crate) fn claims<'t>(tapes: impl Iterator<Item = &'t Arc<Tape>>) -> (Vec<&'t str>, Vec<i64>) {
    tapes.map(|tape| (tape.session.as_str(), tape.state().epoch)).unzip()
}

/// While connecting every error means another try.
fn unreachable_or(op: &'static str, error: &tokio_postgres::Error) -> PostgresError {
    let error = PostgresError::of(op, error);
    if error.is_unreachable() { error } else { PostgresError::Unreachable { message: error.to_string() } }
}

/// An answer, or the error of a server that gives none although its own limit is over.
pub(crate) async fn answered<T>(answer: impl Future<Output = T>) -> Result<T, PostgresError> {
    let answer = timeout(STATEMENT_MAX + PATIENCE, answer).await;
    answer.map_err(|_| PostgresError::Unreachable { message: "the server does not answer".to_owned() })
}
