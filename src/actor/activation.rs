//! [`Activation`]: wakes a session. A session has at most one at a time.
//!
//! The tape store opens the tape before there is an actor. So a session that cannot be opened (missing, damaged, claimed by
//! another process) costs the caller an error, and no actor crashes. Then the actor gets a place under the supervisor. Messages
//! and questions that arrive meanwhile wait in the slot; if the session cannot be woken, each sender gets the reason.
//! [`Activation::launch`] and [`Activation::make`], which makes the tape first, run in tasks that no caller can cancel.
//!
//! A change must keep this: only the slot creates an [`Activation`], under its lock and while no other one is under way
//! (`Slot::take_off`). An activation must reach `finish` or `finish_unmade`. Dropping it earlier counts as a failure and locks
//! the slot, so never drop one under the slot's lock. A deletion takes an activation too, only to keep the session from waking.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    actor::{
        bring_up::why_not_there,
        session::{LOAD_WAIT, SessionActor},
        shared::Shared,
        slot::{Admission, Slot},
        tape_store::{First, Opening},
    },
    error::OpenError,
    kernel::RestartPolicy,
    supervisor::{AdminError, ChildSpec, Intensity, Restart, Shutdown},
    words::panic_text,
};

/// How long a session's workers may take to be gone before its next incarnation begins.
pub(crate) const WORKERS_WAIT: Duration = Duration::from_secs(5);

/// How long a start may take, in addition to the wait for its tape.
const START_WAIT: Duration = Duration::from_secs(30);

/// How long an actor may take to shut down.
const ACTOR_SHUTDOWN: Duration = Duration::from_secs(5);

/// How long an activation goes on trying while the supervisor is between two incarnations, or the previous actor is ending.
const PLACE_WAIT: Duration = Duration::from_secs(15);

/// The wait between two tries.
const PLACE_LOOK: Duration = Duration::from_millis(20);

/// The one activation of a session. Dropping it before it has finished is a failure, which it reports to the slot.
pub(crate) struct Activation {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    is_over: bool,
}

impl Activation {
    pub(super) fn new(shared: Arc<Shared>, slot: Arc<Slot>) -> Activation {
        Activation { shared, slot, is_over: false }
    }

    /// Wakes the session in a task of its own, from its tape unless an opened tape is in the slot already. The receiver gets the
    /// result, and may be dropped: the slot gets it in any case.
    pub(crate) fn launch(self) -> oneshot::Receiver<Result<(), OpenError>> {
        let (told, tells) = oneshot::channel();
        let shared = self.shared.clone();
        shared.keeper.one_more(shared.slots.awake_count());
        let tasks = shared.tasks.clone();
        tasks.spawn_on(
            async move {
                // No host code runs in it, so a panic is a fault of ours, and not the end of the runtime.
                let activated = AssertUnwindSafe(activate(&self.shared, &self.slot)).catch_unwind().await;
                let result = activated.unwrap_or_else(|panic| {
                    Err(OpenError::not_started(&self.slot.id, format!("panicked: {}", panic_text(&*panic))))
                });
                self.finish(result.clone());
                // The receiver may have been dropped.
                drop(told.send(result));
            },
            &shared.tokio,
        );
        tells
    }

    /// Ends the activation, and tells the slot the result.
    pub(crate) fn finish(mut self, result: Result<(), OpenError>) {
        self.is_over = true;
        self.slot.finished(result);
    }

    /// Makes the session's tape, then wakes the session, in a task: other callers may wait for this activation, even if this future is
    /// dropped.
    pub(crate) async fn make(self, first: First) -> Result<(), OpenError> {
        let shared = self.shared.clone();
        let making = async move {
            if let Err(error) = self.shared.orders.open(&self.slot.id, Opening::Make(Box::new(first))).await {
                self.finish_unmade(error.clone());
                return Err(error);
            }
            self.launch().await.map_err(|_| OpenError::Closed)?
        };
        shared.tasks.spawn_on(making, &shared.tokio).await.map_err(OpenError::lost)?
    }

    /// Ends the activation of a session that was not made. The maker is told the error; inputs of other callers wake the session if
    /// it exists.
    pub(crate) fn finish_unmade(mut self, error: OpenError) {
        self.is_over = true;
        self.slot.unmade(error);
    }
}

impl Drop for Activation {
    fn drop(&mut self) {
        if !self.is_over {
            self.slot.finished(Err(OpenError::Closed));
        }
    }
}

/// A session's place under the supervisor, and its number. It is dropped when the supervisor gives the place up: then nothing of
/// the actor is left, unless the supervisor crashed and the actor is still ending.
struct Place(Arc<Slot>, u32);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.vacated(self.1);
    }
}

async fn activate(shared: &Arc<Shared>, slot: &Arc<Slot>) -> Result<(), OpenError> {
    let sessions = shared.sessions.get().ok_or(OpenError::Closed)?;
    let until = Instant::now() + PLACE_WAIT;
    // While the supervisor is between two incarnations, actors of the last one may still hold tapes.
    while sessions.ping().await.is_err() {
        look_again(shared, until).await.map_err(|()| OpenError::Closed)?;
    }
    if !slot.is_prepared() {
        let loaded = shared.orders.open(&slot.id, Opening::Load).await;
        if let Err(error) = loaded {
            return Err(why_not_there(shared, slot, error).await);
        }
    }
    let restart = slot.restart_policy();
    // The load may have taken longer than the wait for a place.
    let until = Instant::now() + PLACE_WAIT;
    loop {
        let error = match sessions.start_child(spec(shared, slot, restart)).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        match error {
            AdminError::MaxChildren { max } => return Err(OpenError::TooMany { max }),
            // The supervisor is between two incarnations.
            AdminError::Gone | AdminError::ShuttingDown => {}
            AdminError::AlreadyStarted | AdminError::AlreadyPresent | AdminError::Restarting => {
                // The previous actor is ending. Whatever the answer, the next start shows the result.
                drop(sessions.terminate_child(slot.id.as_str()).await);
            }
            other => return Err(OpenError::not_started(&slot.id, other)),
        }
        look_again(shared, until).await.map_err(|()| OpenError::not_started(&slot.id, error))?;
    }
}

/// Waits for [`PLACE_LOOK`]. An error if `until` has passed or the runtime is closed.
async fn look_again(shared: &Shared, until: Instant) -> Result<(), ()> {
    if Instant::now() >= until || shared.slots.admission() == Admission::Closed {
        return Err(());
    }
    tokio::time::sleep(PLACE_LOOK).await;
    Ok(())
}

fn spec(shared: &Arc<Shared>, slot: &Arc<Slot>, restart: RestartPolicy) -> ChildSpec {
    let (for_actor, place) = (shared.clone(), Place(slot.clone(), slot.next_place()));
    let make = move || {
        let Place(slot, _) = &place;
        SessionActor::new(for_actor.clone(), slot.clone())
    };
    let spec = ChildSpec::behaviour(slot.id.as_str(), "session", make);
    let spec = match restart {
        RestartPolicy::Session => spec,
        RestartPolicy::Once => spec.intensity(Intensity::new(1, Duration::MAX)),
        RestartPolicy::Never => spec.intensity(Intensity::new(0, Duration::MAX)),
    };
    spec.restart(Restart::Transient)
        .start_timeout(Some(LOAD_WAIT + START_WAIT))
        .shutdown(Shutdown::After(ACTOR_SHUTDOWN))
        .workers(slot.tasks(), WORKERS_WAIT)
}
