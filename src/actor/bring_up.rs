//! How sessions are brought up: woken, and made where they are children that are not there yet.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::timeout};

use crate::{
    actor::{
        child::SpawnArgs,
        host::Host,
        slot::{Admission, Question, Reply, Slot},
        tape_store::First,
    },
    error::{OpenError, SendError},
    kernel::{Open, Origin, State, StopLevel, TaskOrder, first_entries},
    tape::{TapeError, TapeStoreExt as _},
    words::ids::{Seq, SessionId},
};

/// How long a child may take to answer that it is up, and its parent whether it still wants it. Then others who want the child
/// have their turn, and who wanted it looks again.
const UP_WAIT: Duration = Duration::from_secs(30);

impl Slot {
    /// Asks the actor something, and asks its next incarnation again where this one ended before it answered.
    pub(crate) async fn ask_state<T>(
        self: &Arc<Self>,
        question: impl Fn(Reply<T>) -> Question,
    ) -> Result<T, SendError> {
        loop {
            let (reply, answer) = oneshot::channel();
            // A closed or parked slot refuses here, which ends the loop.
            self.question(question(reply))?;
            if let Ok(answer) = answer.await {
                return answer;
            }
        }
    }

    /// Returns when the session is awake.
    pub(crate) async fn up(self: &Arc<Self>) -> Result<(), OpenError> {
        let session = self.id.clone();
        self.ask_state(Question::Up).await.map_err(|error| match error {
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

/// Makes sure that a child is up. Made at most once, whoever asks at the same time.
pub(crate) async fn bring_up(host: Arc<Host>, spawn: SpawnArgs) -> Result<Arc<Slot>, OpenError> {
    let slot = host.slot(&spawn.child);
    let _one = slot.bringing_up().lock_owned().await;
    let up = loop {
        let up = timeout(UP_WAIT, slot.up()).await.map_err(|_| no_answer(&spawn.child))?;
        let is_missing = match &up {
            Err(OpenError::Tape(TapeError::Missing { .. })) => true,
            // The process died between making the tape and its first lines.
            Err(OpenError::Damaged { .. }) => is_blank(&host, &spawn.child).await,
            _ => false,
        };
        let Some(order) = spawn.order.clone().filter(|_| is_missing) else { break up };
        if spawn.asks_first && !still_wants(&host, &spawn).await? {
            break up;
        }
        // Where somebody else wakes it just now, the next look shows what came of it.
        if let Some(flight) = slot.begin_activation() {
            break flight.make(first(&host, spawn, &order)).await;
        }
    };
    match up {
        Err(_) if host.slots.admission() == Admission::Closed => Err(OpenError::Closed),
        up => up.map(|()| slot),
    }
}

/// Whether the parent has the task still, and has not told the child to stop. Nobody makes the child meanwhile.
async fn still_wants(host: &Arc<Host>, spawn: &SpawnArgs) -> Result<bool, OpenError> {
    let parent = host.slot(&spawn.tie.parent);
    let state = timeout(UP_WAIT, parent.ask_state(Question::State)).await.map_err(|_| no_answer(&spawn.tie.parent))?;
    // It sees to its child when it is there again.
    let state =
        state.map_err(|error| OpenError::NoAnswer { session: spawn.tie.parent.clone(), why: error.to_string() })?;
    Ok(matches!(state.open.get(&spawn.tie.ticket), Some(Open::Task(task)) if task.told == StopLevel::Run))
}

async fn is_blank(host: &Arc<Host>, id: &SessionId) -> bool {
    let id = id.clone();
    let read = host.blocking(move |host| Ok::<_, OpenError>(host.store.read(&id, Seq::ZERO)?)).await;
    read.is_ok_and(|entries| entries.is_empty())
}

/// What the tape of a child begins with: its state, which names its parent, and its prompt, in one append. So a child that is there
/// has its task.
fn first(host: &Host, spawn: SpawnArgs, TaskOrder { settings, prompt }: &TaskOrder) -> First {
    let mut settings = settings.clone();
    let now = host.clock.now();
    settings.host = host.rules.clone();
    let spill = host.store.spill_path(&spawn.child);
    settings.read_roots = spill.map(|folder| folder.display().to_string()).into_iter().collect();
    let mut state = State::new(spawn.child, settings, now);
    state.take_grant(&spawn.tie.grant);
    state.origin = Some(Arc::new(Origin {
        parent: spawn.tie.parent,
        ticket: spawn.tie.ticket,
        link: spawn.tie.link,
        depth: spawn.tie.depth,
        prompt: prompt.id.clone(),
        orphaned: None,
        before: Vec::new(),
        end: None,
    }));
    let (entries, state) = first_entries(state, Some(prompt.clone()), now);
    First { entries, state }
}
