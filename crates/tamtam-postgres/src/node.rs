//! [`Node`]: which sessions this store has, and what waits for the connection that writes.
//!
//! A session is in the table from before its claim until after its release, so within one store it has one writer without asking
//! the server. What waits is bounded in bytes; an append beyond it is refused as [`TapeError::Busy`], and nothing of it was taken.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tamtam::{
    SessionId,
    tape::{GivenBack, Holder, TapeError},
};
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use crate::{
    PostgresOptions,
    pool::Pool,
    tape::{Rows, Tape},
    words::Counts,
};

/// How much may wait: about two of the largest appends.
const BYTES_MAX: usize = 128 * 1024 * 1024;
const JOBS_MAX: usize = 65_536;

/// How long a claim waits until a writer of this store that was just dropped has given its session back.
const RELEASE_MAX: Duration = Duration::from_secs(30);

/// What the connection that writes has to do. The jobs of one session are done in their order.
pub(crate) enum Job {
    Append(Arc<Tape>, Rows),
    Release(Arc<Tape>, Option<GivenBack>),
    /// Sets or clears the mark of an open turn.
    MarkOpen {
        session: SessionId,
        about: String,
        set: bool,
    },
}

/// What the thread is told.
pub(crate) enum Told {
    Job(Job),
    /// The node came into a cluster, or left one: its next heartbeat is due, and then this is told.
    Beat(oneshot::Sender<()>),
}

impl Job {
    pub(crate) fn session(&self) -> &SessionId {
        match self {
            Job::Append(tape, _) | Job::Release(tape, _) => &tape.session,
            Job::MarkOpen { session, .. } => session,
        }
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            Job::Append(_, rows) => rows.size,
            Job::Release(..) | Job::MarkOpen { .. } => 0,
        }
    }
}

/// What the clones of a store and its writers share. Dropping the last ends the thread, once what waits is done.
pub(crate) struct Node {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: Pool,
    /// Of the newest searches.
    pub(crate) counts: Mutex<Counts>,
    queue: UnboundedSender<Told>,
}

/// The part that the thread has as well.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The name of this store among all that use the database.
    pub(crate) id: String,
    /// How people recognize it.
    pub(crate) name: String,
    pub(crate) schema: String,
    pub(crate) lease: Duration,
    pub(crate) look: Duration,
    pub(crate) deaths_max: i32,
    pub(crate) output_copies: Option<PathBuf>,
    table: Mutex<Table>,
    changed: Condvar,
    life: Mutex<Life>,
}

/// What is known of the row of this node.
#[derive(Debug, Default)]
struct Life {
    /// In how many clusters it is: it lives for them also while it has no session.
    clusters: usize,
    /// When the newest heartbeat that was answered was sent.
    beaten: Option<Instant>,
    /// When a heartbeat last found its lease over.
    was_over: Option<Instant>,
}

#[derive(Debug, Default)]
struct Table {
    sessions: BTreeMap<SessionId, Slot>,
    /// Jobs that are not done.
    jobs: usize,
    bytes: usize,
}

#[derive(Debug)]
enum Slot {
    /// It is being claimed, or erased.
    Taken,
    Open(Arc<Tape>),
    /// Its writer was dropped, and it is not released yet.
    Leaving(Arc<Tape>),
}

impl Node {
    pub(crate) fn new(shared: Arc<Shared>, pool: Pool, queue: UnboundedSender<Told>) -> Node {
        Node { shared, pool, counts: Mutex::default(), queue }
    }

    pub(crate) fn push(&self, job: Job) -> Result<(), TapeError> {
        let mut table = self.shared.table();
        let size = job.size();
        if table.jobs >= JOBS_MAX || (table.bytes > 0 && table.bytes + size > BYTES_MAX) {
            return Err(TapeError::Busy { waiting: table.jobs });
        }
        self.queue.send(Told::Job(job)).map_err(|_| TapeError::Closed)?;
        table.jobs += 1;
        table.bytes += size;
        Ok(())
    }

    /// Gives a session back, behind what waits.
    pub(crate) fn leave(&self, tape: &Arc<Tape>, then: Option<GivenBack>) {
        let mut table = self.shared.table();
        table.sessions.insert(tape.session.clone(), Slot::Leaving(Arc::clone(tape)));
        let sent = self.queue.send(Told::Job(Job::Release(Arc::clone(tape), then)));
        table.jobs += usize::from(sent.is_ok());
        drop(table);
        if sent.is_err() {
            // The thread panicked, and with it all connections: the lease ends by itself.
            self.shared.released(&tape.session);
        }
    }

    /// Comes into a cluster, or leaves it. What it returns is told once the row of the node says so.
    pub(crate) fn join(&self, joins: bool) -> oneshot::Receiver<()> {
        let mut life = self.shared.life();
        life.clusters = if joins { life.clusters + 1 } else { life.clusters.saturating_sub(1) };
        drop(life);
        let (tell, told) = oneshot::channel();
        // Where the thread panicked, the row runs out.
        let _ = self.queue.send(Told::Beat(tell));
        told
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(id: String, options: &PostgresOptions) -> Shared {
        let PostgresOptions { schema, node: name, lease, look, deaths_max, output_copies, .. } = options.clone();
        let deaths_max = i32::try_from(deaths_max).unwrap_or(i32::MAX);
        let (table, changed, life) = (Mutex::default(), Condvar::new(), Mutex::default());
        Shared { id, name, schema, lease, look, deaths_max, output_copies, table, changed, life }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_in_cluster(&self) -> bool {
        self.life().clusters > 0
    }

    /// Whether the node has a reason to live.
    pub(crate) fn is_in_use(&self) -> bool {
        self.is_in_cluster() || !self.table().sessions.is_empty()
    }

    /// Whether the lease of this node has some time left, so that a claim now needs no heartbeat before it.
    pub(crate) fn is_sure_to_live(&self) -> bool {
        self.life().beaten.is_some_and(|sent| sent.elapsed() < self.lease / 2)
    }

    /// Notes a heartbeat that was answered.
    pub(crate) fn beaten(&self, sent: Instant, was_over: bool) {
        let mut life = self.life();
        // Before its first heartbeat it has nothing.
        if was_over && life.beaten.is_some() {
            life.was_over = Some(Instant::now());
        }
        life.beaten = life.beaten.max(Some(sent));
    }

    /// Whether a heartbeat found the lease over within this time.
    pub(crate) fn was_over(&self, within: Duration) -> bool {
        self.life().was_over.is_some_and(|at| at.elapsed() < within)
    }

    /// The sessions that this node has, or is about to have.
    pub(crate) fn names(&self) -> Vec<String> {
        self.table().sessions.keys().map(|session| session.as_str().to_owned()).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a session from every other caller of this store. [`TapeError::Claimed`] if one has it; waits for one that is leaving.
    pub(crate) fn reserve(&self, session: &SessionId) -> Result<Reserved<'_>, TapeError> {
        let is_leaving = |table: &mut Table| matches!(table.sessions.get(session), Some(Slot::Leaving(_)));
        let waited = self.changed.wait_timeout_while(self.table(), RELEASE_MAX, is_leaving);
        let (mut table, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if table.sessions.contains_key(session) {
            let by = Holder::new(self.id.clone(), std::process::id(), self.name.clone());
            return Err(TapeError::Claimed { session: session.clone(), by });
        }
        table.sessions.insert(session.clone(), Slot::Taken);
        Ok(Reserved { shared: self, session: Some(session.clone()) })
    }

    /// The sessions that this node has and did not lose.
    pub(crate) fn held(&self) -> Vec<Arc<Tape>> {
        let tapes = |slot: &Slot| match slot {
            Slot::Taken => None,
            Slot::Open(tape) | Slot::Leaving(tape) => Some(Arc::clone(tape)),
        };
        let mut held: Vec<_> = self.table().sessions.values().filter_map(tapes).collect();
        held.retain(|tape| tape.lost().is_none());
        held
    }

    /// Removes a session that is released.
    pub(crate) fn released(&self, session: &SessionId) {
        self.table().sessions.remove(session);
        self.changed.notify_all();
    }

    /// Notes that a job of this size is done.
    pub(crate) fn done(&self, size: usize) {
        let mut table = self.table();
        table.jobs -= 1;
        table.bytes -= size;
        self.changed.notify_all();
    }

    /// Waits until nothing waits. `false` after the limit.
    pub(crate) fn settle(&self, limit: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.table(), limit, |table| table.jobs > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.jobs == 0
    }
}

/// A session that one caller alone claims or erases. Dropping it lets others.
#[derive(Debug)]
pub(crate) struct Reserved<'s> {
    shared: &'s Shared,
    session: Option<SessionId>,
}

impl Reserved<'_> {
    /// The session is claimed: from now on it is looked after.
    pub(crate) fn open(mut self, tape: &Arc<Tape>) {
        if let Some(session) = self.session.take() {
            self.shared.table().sessions.insert(session, Slot::Open(Arc::clone(tape)));
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.shared.released(&session);
        }
    }
}
