//! What others ask of the tape store's actor: orders (tapes that are to be opened or made), and requests for its chores. [`Orders`]
//! is a value of the runtime, so it outlives every incarnation of the actor. An order waits here until it begins, and its callers
//! wait here until they have the result.
//!
//! An order for a session whose opening waits or runs joins that opening and gets its result. While the actor is between two
//! incarnations, orders wait. If it is not back within [`GONE_MAX`], the waiting orders are refused, and new ones at once, until
//! it returns.
//!
//! A change must keep that every caller gets a result, whatever becomes of the actor: a caller waits without a limit.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore, oneshot},
    task::JoinSet,
};

use crate::{
    error::OpenError,
    kernel::{Entry, State},
    lock::Lock,
    supervisor::{NodeState, shell::Mailbox},
    words::ids::SessionId,
};

/// The most tapes that are opened at once: enough to keep a disk and a few cores busy.
pub(super) const OPENS_MAX: usize = 16;

/// How long an order waits while there is no actor.
pub(super) const GONE_MAX: Duration = Duration::from_secs(5);

/// What to do with a session's tape.
pub(crate) enum Opening {
    /// Claim it and read it.
    Load,
    /// Make it, with its first entries.
    Make(Box<First>),
}

/// The first entries of a new tape.
pub(crate) struct First {
    pub(crate) entries: Vec<Entry>,
    /// The state after these entries.
    pub(crate) state: State,
}

type Opened = Result<(), OpenError>;

/// One order: a session, and what to do with its tape.
pub(super) type Order = (SessionId, Opening);

/// The message to the actor: look at the orders.
pub(crate) struct Look;

/// The other work of the actor. A chore runs when its time has come (the reserve has none), and on request ([`Orders::chore`]).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chore {
    Tidy,
    Reserve,
    Sweep,
    Scrub,
}

impl Chore {
    pub(super) const ALL: [Chore; 4] = [Chore::Tidy, Chore::Reserve, Chore::Sweep, Chore::Scrub];
}

/// The orders and the requests for chores; see the module.
pub(crate) struct Orders {
    /// Each change under this lock is whole before anything can panic.
    list: Arc<Lock<List>>,
    /// One notification for each kind of chore: it was asked for.
    asked: [Notify; Chore::ALL.len()],
    /// The permits for opening tapes; [`OPENS_MAX`] of them.
    pub(crate) room: Arc<Semaphore>,
}

#[derive(Default)]
struct List {
    /// The actor that takes the orders, and its node, which shows the number of open orders.
    actor: Option<(Mailbox<Look>, Arc<NodeState>)>,
    /// How many incarnations of the actor have ended.
    ended: u64,
    /// The tasks that refuse the waiting orders if no next incarnation comes within [`GONE_MAX`].
    patience: JoinSet<()>,
    /// No incarnation has come within [`GONE_MAX`]: orders are refused.
    given_up: bool,
    closed: bool,
    /// The orders that have not begun.
    waiting: VecDeque<Order>,
    /// The waiting callers of each session whose opening waits or is under way.
    opening: HashMap<SessionId, Vec<oneshot::Sender<Opened>>>,
}

impl List {
    fn show(&self) {
        if let Some((_, node)) = &self.actor {
            node.inbox(self.opening.len());
        }
    }

    /// Removes the orders that have not begun, and refuses their callers.
    fn refuse_waiting(&mut self) {
        let why = self.refusal().unwrap_or(OpenError::Closed);
        for (session, _) in std::mem::take(&mut self.waiting) {
            let waiters = self.opening.remove(&session).unwrap_or_default();
            // A caller may have dropped its receiver.
            waiters.into_iter().for_each(|waiter| drop(waiter.send(Err(why.clone()))));
        }
    }

    /// Why orders are refused; `None` if they are taken.
    fn refusal(&self) -> Option<OpenError> {
        match (self.closed, self.given_up) {
            (true, _) => Some(OpenError::Closed),
            (false, true) => Some(OpenError::Unavailable),
            (false, false) => None,
        }
    }
}

impl Default for Orders {
    fn default() -> Orders {
        Orders { list: Arc::default(), asked: Default::default(), room: Arc::new(Semaphore::new(OPENS_MAX)) }
    }
}

impl Orders {
    // ---- who asks ------------------------------------------------------------------------------------------------------

    /// Has a session's tape opened, and put into its slot with its state. Dropping the future stops the wait only; the opening goes
    /// on.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`]; [`OpenError::Closed`]; and why the tape cannot be opened.
    pub(crate) async fn open(&self, session: &SessionId, opening: Opening) -> Opened {
        let (tell, told) = oneshot::channel();
        {
            let mut list = self.list.lock();
            if let Some(refusal) = list.refusal() {
                return Err(refusal);
            }
            match list.opening.get_mut(session) {
                Some(waiters) => waiters.push(tell),
                None => {
                    list.opening.insert(session.clone(), vec![tell]);
                    list.waiting.push_back((session.clone(), opening));
                    if let Some((actor, _)) = &list.actor {
                        // An actor that is ending leaves the order to the next incarnation.
                        let _ = actor.send(Look);
                    }
                    list.show();
                }
            }
        }
        // The opening always answers; if its sender is gone, the tokio runtime of the tree is gone.
        told.await.unwrap_or(Err(OpenError::Closed))
    }

    /// Asks for a chore, and returns at once. If there is no actor just now, its next incarnation does the chore.
    pub(crate) fn chore(&self, chore: Chore) {
        self.asked[chore as usize].notify_one();
    }

    /// Returns when the chore was asked for since the last return.
    pub(super) async fn asked(&self, chore: Chore) {
        self.asked[chore as usize].notified().await;
    }

    /// Called at the end of the runtime: refuses all waiting orders, and every order from now on.
    pub(crate) fn close(&self) {
        let mut list = self.list.lock();
        list.closed = true;
        list.patience.abort_all();
        list.refuse_waiting();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.list.lock().closed
    }

    // ---- the actor -----------------------------------------------------------------------------------------------------

    /// Registers an incarnation of the actor that begins.
    pub(super) fn begin(&self, actor: Mailbox<Look>, node: Arc<NodeState>) {
        let mut list = self.list.lock();
        // For the orders that have waited for it.
        let _ = actor.send(Look);
        (list.actor, list.given_up) = (Some((actor, node)), false);
        list.patience.abort_all();
        list.show();
    }

    /// Notes that an incarnation of the actor is over. If none follows within [`GONE_MAX`], waiting orders are refused.
    pub(super) fn end(&self, tokio: &Handle) {
        let mut list = self.list.lock();
        list.actor = None;
        list.ended += 1;
        if list.closed {
            return;
        }
        while list.patience.try_join_next().is_some() {}
        let waits = give_up(Arc::downgrade(&self.list), list.ended);
        list.patience.spawn_on(waits, tokio);
    }

    /// Takes out the next order.
    pub(super) fn take(&self) -> Option<Order> {
        self.list.lock().waiting.pop_front()
    }

    /// Delivers the result of an opening to all its callers.
    pub(super) fn opened(&self, session: &SessionId, opened: &Opened) {
        let mut list = self.list.lock();
        let waiters = list.opening.remove(session).unwrap_or_default();
        list.show();
        drop(list);
        // A caller may have dropped its receiver.
        waiters.into_iter().for_each(|waiter| drop(waiter.send(opened.clone())));
    }
}

#[cfg(test)]
impl Orders {
    /// Whether an actor takes them.
    pub(crate) fn is_taken(&self) -> bool {
        self.list.lock().actor.is_some()
    }

    /// How many incarnations of the actor are over.
    pub(crate) fn ended(&self) -> u64 {
        self.list.lock().ended
    }

    /// Kills the actor behind its supervisor's back. Whether there is one.
    pub(crate) fn kill(&self) -> bool {
        self.list.lock().actor.as_ref().map(|(actor, _)| actor.kill()).is_some()
    }

    /// Whether a caller waits for that session to be opened.
    pub(crate) fn is_opening(&self, session: &SessionId) -> bool {
        self.list.lock().opening.contains_key(session)
    }
}

/// Refuses the waiting orders after [`GONE_MAX`], and new ones from then on, if no incarnation began after `ended` of them had ended.
async fn give_up(list: Weak<Lock<List>>, ended: u64) {
    tokio::time::sleep(GONE_MAX).await;
    let Some(list) = list.upgrade() else { return };
    let mut list = list.lock();
    if list.ended == ended && list.actor.is_none() {
        list.given_up = true;
        list.refuse_waiting();
    }
}
