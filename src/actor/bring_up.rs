//! Wakes a session and waits until it is up ([`Slot::up`]); brings a child up, and makes it if it does not exist yet
//! ([`bring_up`]).
//!
//! A change must keep three things. Callers who want one child at the same time make it once, because [`bring_up`] holds the
//! slot's `bringing_up` mutex from its first look to its end. The first append of a child holds its origin (who its parent is)
//! and its prompt together, so a child that exists has its task. Within [`bring_up`] every question to an actor has a limit
//! ([`UP_WAIT`]), because others wait for the mutex.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{
    actor::{
        shared::Shared,
        slot::{Admission, Slot},
        tape_store::First,
    },
    error::{OpenError, SendError},
    kernel::{Open, OpenTask, Origin, State, StopLevel, TaskOrder, Tie, first_entries},
    tape::{TapeError, TapeStoreExt as _},
    words::ids::{Seq, SessionId},
};

/// How long a child may take to answer that it is up, and its parent to answer whether it still wants the child. After that the
/// next caller has its turn, and this caller looks again later.
const UP_WAIT: Duration = Duration::from_secs(30);

/// A child, as its parent's tape describes it.
#[derive(Clone)]
pub(crate) struct SpawnArgs {
    pub(crate) child: SessionId,
    pub(crate) tie: Tie,
    /// What to make the child from if it does not exist; without an order it is not made.
    pub(crate) order: Option<Arc<TaskOrder>>,
    /// Whether to ask the parent once more right before the child is made. Set by callers other than the watcher: they may come
    /// after a stop that the watcher has dealt with.
    pub(crate) asks_first: bool,
}

impl Slot {
    /// Returns when the session is awake.
    pub(crate) async fn up(self: &Arc<Self>) -> Result<(), OpenError> {
        let session = self.id.clone();
        self.answers().await.map_err(|error| match error {
            SendError::Closed => OpenError::Closed,
            SendError::Parked => OpenError::Parked { session },
            SendError::Stopped => OpenError::Stopped { session },
            SendError::Unavailable(error) => *error,
            other => OpenError::not_started(&session, other),
        })
    }
}

fn no_answer(session: &SessionId) -> OpenError {
    let why = format!("it was waited for {} s; `inspect` shows its state", UP_WAIT.as_secs());
    OpenError::NoAnswer { session: session.clone(), why }
}

/// Makes sure that a child is up. If it does not exist, makes it from the order in `spawn`, if there is one and it is not an
/// order to go on (`again`). Callers who come at the same time make it once.
pub(crate) async fn bring_up(shared: Arc<Shared>, spawn: SpawnArgs) -> Result<Arc<Slot>, OpenError> {
    let slot = shared.slot(&spawn.child);
    let _one = slot.bringing_up().lock_owned().await;
    let up = loop {
        let up = timeout(UP_WAIT, slot.up()).await.map_err(|_| no_answer(&spawn.child))?;
        let is_missing = match &up {
            Err(error) => is_not_made(&shared, &spawn.child, error).await,
            Ok(()) => false,
        };
        // A child that was to continue and is gone is lost. It is not made again, because it would not know what it knew.
        let Some(order) = spawn.order.clone().filter(|order| is_missing && !order.again) else { break up };
        if spawn.asks_first && !still_wants(&shared, &spawn).await? {
            break up;
        }
        // If another caller is waking the child just now, the next round of the loop sees the result.
        if let Some(flight) = slot.begin_activation() {
            break flight.make(first(&shared, spawn, &order)).await;
        }
    };
    match up {
        Err(_) if shared.slots.admission() == Admission::Closed => Err(OpenError::Closed),
        up => up.map(|()| slot),
    }
}

/// Whether the parent still has the task open and has not told the child to stop. The caller holds the child's mutex, so nobody
/// makes the child meanwhile.
async fn still_wants(shared: &Arc<Shared>, spawn: &SpawnArgs) -> Result<bool, OpenError> {
    let parent = shared.slot(&spawn.tie.parent);
    let state = timeout(UP_WAIT, parent.now()).await.map_err(|_| no_answer(&spawn.tie.parent))?;
    // If the parent cannot answer, its next incarnation looks after the child.
    let state =
        state.map_err(|error| OpenError::NoAnswer { session: spawn.tie.parent.clone(), why: error.to_string() })?;
    let wants = |task: &OpenTask| task.stop_level == StopLevel::Run && !task.queued;
    Ok(matches!(state.open.get(&spawn.tie.ticket), Some(Open::Task(task)) if wants(task)))
}

/// Why a session could not be opened. A child that is missing because its task waits for room is not missing: its parent is asked.
pub(crate) async fn why_not_there(shared: &Arc<Shared>, slot: &Slot, error: OpenError) -> OpenError {
    let OpenError::Tape(TapeError::Missing { session }) = &error else { return error };
    let Some((parent, ticket)) = slot.task() else { return error };
    let parent = shared.slot(&parent);
    match timeout(UP_WAIT, parent.now()).await {
        Ok(Ok(state)) if state.is_queued(ticket) => OpenError::Queued { session: session.clone() },
        _ => error,
    }
}

/// Whether a session did not come up because it was not made. Where the process died while it was made, it has no entry yet.
pub(crate) async fn is_not_made(shared: &Arc<Shared>, id: &SessionId, error: &OpenError) -> bool {
    match error {
        OpenError::Tape(TapeError::Missing { .. }) => true,
        OpenError::Damaged { .. } => is_blank(shared, id).await,
        _ => false,
    }
}

async fn is_blank(shared: &Arc<Shared>, id: &SessionId) -> bool {
    let id = id.clone();
    let read = shared.blocking(move |shared| Ok::<_, OpenError>(shared.store.read(&id, Seq::ZERO)?)).await;
    read.is_ok_and(|entries| entries.is_empty())
}

/// The first entries of a child's tape: its state, which names its parent, and its prompt, in one append. So a child that exists
/// has its task.
fn first(shared: &Shared, spawn: SpawnArgs, TaskOrder { settings, prompt, terms, .. }: &TaskOrder) -> First {
    let mut settings = settings.clone();
    let now = shared.clock.now();
    settings.host = shared.host_rules().as_deref().cloned();
    let spill = shared.store.spill_path(&spawn.child);
    settings.read_roots = spill.map(|folder| folder.display().to_string()).into_iter().collect();
    let mut state = State::new(spawn.child, settings, now);
    state.begin_with_grant(&spawn.tie.grant);
    state.origin = Some(Arc::new(Origin {
        parent: spawn.tie.parent,
        ticket: spawn.tie.ticket,
        link: spawn.tie.link,
        depth: spawn.tie.depth,
        prompt: prompt.id.clone(),
        terms: terms.clone(),
        orphaned: None,
        end: None,
    }));
    let (entries, state) = first_entries(state, Some(prompt.clone()), now);
    First { entries, state }
}
