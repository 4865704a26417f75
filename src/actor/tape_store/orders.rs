//! The orders to the tape store: tapes that are to be opened. A value of the runtime that outlives every incarnation of the store's
//! actor; an order stands here until its result has been delivered.
//!
//! Two equal orders are one. While the actor is between two incarnations, orders wait. If it is not back within [`GONE_MAX`], the
//! waiting orders are refused, and new ones at once, until it returns.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore, oneshot},
    task::JoinSet,
};

use crate::{
    actor::{
        host::Host,
        slot::Slot,
        tape_store::{Chore, First, Look},
    },
    error::OpenError,
    lock::Lock,
    supervisor::{NodeState, shell::Mailbox},
    words::ids::SessionId,
};

/// So many tapes are opened at once: as many as keep a disk and a few cores busy.
pub(super) const OPENS_MAX: usize = 16;

/// How long an order waits for an actor that is not there.
pub(super) const GONE_MAX: Duration = Duration::from_secs(5);

/// What is to be done with a session's tape.
pub(crate) enum Opening {
    /// It is claimed and read.
    Load,
    /// It is made, with its first entries.
    Make(Box<First>),
}

type Opened = Result<(), OpenError>;

/// A session whose tape is to be opened.
pub(super) type Order = (Arc<Slot>, Opening);

/// See the module.
pub(crate) struct Orders {
    /// Each change under this lock is whole before anything can panic.
    list: Lock<List>,
    /// The chores that somebody has asked for.
    asked: [Notify; Chore::ALL.len()],
    /// Held while a tape is being opened.
    pub(crate) room: Arc<Semaphore>,
}

#[derive(Default)]
struct List {
    /// Who takes the orders, and where it is shown how many have no answer.
    actor: Option<(Mailbox<Look>, Arc<NodeState>)>,
    /// How many actors have ended.
    ended: u64,
    /// Waits for the next actor while there is none, and gives up some time.
    patience: JoinSet<()>,
    /// None has come for too long.
    given_up: bool,
    closed: bool,
    /// What nobody has begun.
    waiting: VecDeque<Order>,
    /// Who waits for each session that is to be opened, or is being opened.
    opening: HashMap<SessionId, Vec<oneshot::Sender<Opened>>>,
}

impl List {
    fn show(&self) {
        if let Some((_, node)) = &self.actor {
            node.inbox(self.opening.len());
        }
    }

    /// Why nothing is taken, where nothing is.
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
        Orders { list: Lock::default(), asked: Default::default(), room: Arc::new(Semaphore::new(OPENS_MAX)) }
    }
}

impl Orders {
    // ---- who asks ------------------------------------------------------------------------------------------------------

    /// Has a session's tape opened, and put into its slot with the state that it makes. Dropping the future stops waiting, and
    /// nothing else.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`]; [`OpenError::Closed`]; and why the tape cannot be opened.
    pub(crate) async fn open(&self, slot: &Arc<Slot>, opening: Opening) -> Opened {
        let (tell, told) = oneshot::channel();
        {
            let mut list = self.list.lock();
            if let Some(refusal) = list.refusal() {
                return Err(refusal);
            }
            match list.opening.get_mut(&slot.id) {
                Some(waiters) => waiters.push(tell),
                None => {
                    list.opening.insert(slot.id.clone(), vec![tell]);
                    list.waiting.push_back((slot.clone(), opening));
                    if let Some((actor, _)) = &list.actor {
                        // One that is ending leaves it to the next.
                        let _ = actor.send(Look);
                    }
                    list.show();
                }
            }
        }
        // Whoever carries it out answers; where nobody is left to, the tokio runtime of the tree is gone.
        told.await.unwrap_or(Err(OpenError::Closed))
    }

    /// Has a chore done, some time: by the next incarnation of the actor where there is none just now.
    pub(crate) fn chore(&self, chore: Chore) {
        self.asked[chore as usize].notify_one();
    }

    /// Returns when somebody has asked for a chore since this returned last.
    pub(super) async fn asked(&self, chore: Chore) {
        self.asked[chore as usize].notified().await;
    }

    /// The runtime ends: what waits is refused, and so is all that comes.
    pub(crate) fn close(&self) {
        let mut list = self.list.lock();
        list.closed = true;
        list.patience.abort_all();
        let refused = refused(&mut list);
        drop(list);
        drop(refused);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.list.lock().closed
    }

    // ---- the actor -----------------------------------------------------------------------------------------------------

    /// An incarnation of the actor begins.
    pub(super) fn begin(&self, actor: Mailbox<Look>, node: Arc<NodeState>) {
        let mut list = self.list.lock();
        // What waited for it.
        let _ = actor.send(Look);
        (list.actor, list.given_up) = (Some((actor, node)), false);
        list.patience.abort_all();
        list.show();
    }

    /// An incarnation of the actor is over. Where none follows, those who wait are told so.
    pub(super) fn end(&self, host: &Arc<Host>) {
        let mut list = self.list.lock();
        list.actor = None;
        list.ended += 1;
        if list.closed {
            return;
        }
        let (ended, host, tokio) = (list.ended, Arc::downgrade(host), host.tokio.clone());
        let give_up = async move {
            tokio::time::sleep(GONE_MAX).await;
            if let Some(host) = host.upgrade() {
                host.orders.give_up(ended);
            }
        };
        while list.patience.try_join_next().is_some() {}
        list.patience.spawn_on(give_up, &tokio);
    }

    /// So many incarnations are over; where that was the last one, none has followed it for too long.
    fn give_up(&self, ended: u64) {
        let mut list = self.list.lock();
        if list.ended == ended && list.actor.is_none() {
            list.given_up = true;
            let refused = refused(&mut list);
            drop(list);
            drop(refused);
        }
    }

    /// The next order.
    pub(super) fn take(&self) -> Option<Order> {
        self.list.lock().waiting.pop_front()
    }

    /// A session's tape was opened, or could not be.
    pub(super) fn opened(&self, session: &SessionId, opened: &Opened) {
        let mut list = self.list.lock();
        let waiters = list.opening.remove(session).unwrap_or_default();
        list.show();
        drop(list);
        // Whoever stopped waiting does not want to know.
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

    /// Whether somebody waits for that session to be opened.
    pub(crate) fn is_opening(&self, session: &SessionId) -> bool {
        self.list.lock().opening.contains_key(session)
    }
}

/// Takes out what nobody has begun, and tells those who wait for it. What is given is dropped outside of the lock.
fn refused(list: &mut List) -> VecDeque<Order> {
    let why = list.refusal().unwrap_or(OpenError::Closed);
    let waiting = std::mem::take(&mut list.waiting);
    for (slot, _) in &waiting {
        let waiters = list.opening.remove(&slot.id).unwrap_or_default();
        waiters.into_iter().for_each(|waiter| drop(waiter.send(Err(why.clone()))));
    }
    waiting
}
