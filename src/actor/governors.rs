//! The governors of a runtime at work: every request to a governed model waits here for its permit, and gives it back at its end.
//!
//! A governor (`model/governor.rs`) is made at the first request for its name, and shared by all sessions. It is a value of the
//! runtime: the worker of a request asks it and waits, an answer or an end wakes the next in the thread where it happens, and an
//! actor under the supervisor `models` wakes those that only time holds back, and shows the queue. Without its actor nothing is lost:
//! who waits looks for itself every [`LOOK_EVERY`]. A new incarnation of the actor begins without what the former one had learned of
//! the provider, so an operator's `restart` ends a stillness.
//!
//! Dropping the future of a request gives back its place, or its permit, at once. The time limit of a request begins when it leaves;
//! the wait before has [`WAIT_MAX`], and ends with its turn.
//!
//! A request that nothing holds back takes four short locks: the table's, and its governor's when it asks, at the head of its answer
//! and at its end. A change must take no other lock under them but the governor's under the table's, and wake nobody under them.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, SystemTime},
};

use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    lock::Lock,
    model::{
        Delta, Deltas, ErrorKind, GovernedBy, Model, ModelAnswer, ModelError, Request,
        governor::{Asking, Ended, Figures, Governor, Rank, Refusal, Ticket, read_headers},
    },
    supervisor::{AdminError, ChildContext, ChildSpec, Payload, Restart, SupervisorHandle},
};

/// How long a request waits for its turn at most.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// How often a request that waits looks for itself.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// From how many governors on those without a request are given up, and with them what they learned.
const KEPT_MAX: usize = 1_024;

/// How often a child is tried to be started while one of its name still ends, and how long apart.
const STARTS_MAX: u32 = 50;
const START_AGAIN: Duration = Duration::from_millis(100);

/// The governors by name.
#[derive(Default)]
pub(crate) struct Governors {
    table: Lock<HashMap<Arc<str>, Arc<Governed>>>,
    /// The supervisor of their actors, once the tree is up.
    pub(crate) supervisor: OnceLock<SupervisorHandle>,
}

/// One governor.
struct Governed {
    name: Arc<str>,
    core: Lock<Core>,
    began: Instant,
    /// The sign for the actor that the queue has changed, or that the governor was given up.
    changed: Arc<Notify>,
}

struct Core {
    governor: Governor,
    waiting: HashMap<Ticket, oneshot::Sender<Told>>,
}

type Told = Result<(), Refusal>;

/// For whom a request is made, as its session knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) rank: Rank,
    /// Our estimate of the tokens that it reads.
    pub(crate) tokens: u64,
}

impl Governors {
    /// Makes a request, after its turn has come if its model is governed. `waits` is told what it waits for, and `None` when the wait
    /// is over. `time_max` bounds the request from the moment that it leaves.
    pub(crate) async fn stream(
        &self,
        model: &dyn Model,
        request: &Request,
        (standing, tenant): (Standing, Option<&str>),
        (time_max, waits): (Duration, &(dyn Fn(Option<String>) + Sync)),
        deltas: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<ModelAnswer, ModelError> {
        let permit = match model.governed_by() {
            Some(by) => Some(self.permit(&by, request, standing, tenant, waits).await?),
            None => None,
        };
        let mut heard = Heard { permit: permit.as_ref(), deltas };
        let made = timeout(time_max, model.stream(request, &mut heard)).await.unwrap_or_else(|_| {
            let text = format!("{} did not finish within {} s", model.id(), time_max.as_secs());
            Err(ModelError::new(ErrorKind::Timeout, text))
        });
        if let Some(permit) = permit {
            permit.end(&made);
        }
        made
    }

    async fn permit(
        &self,
        by: &GovernedBy,
        request: &Request,
        standing: Standing,
        tenant: Option<&str>,
        waits: &(dyn Fn(Option<String>) + Sync),
    ) -> Result<Permit, ModelError> {
        let of = self.governed(by);
        let asking = Asking {
            tenant: tenant.and_then(|label| request.labels.get(label)).unwrap_or_default().into(),
            session: request.session.as_ref().map_or("", |id| id.as_str()).into(),
            rank: standing.rank,
            tokens: standing.tokens,
        };
        let (reply, mut told) = oneshot::channel();
        let (ticket, before) = of.change(|Core { governor, waiting }, _| {
            governor.set_limits(by.limits());
            let asked = governor.ask(asking);
            waiting.insert(asked.0, reply);
            asked
        });
        // From here on dropping it gives the place back.
        let permit = Permit { of, ticket, is_over: false };
        if let Ok(told) = told.try_recv() {
            return permit.told(told);
        }
        let name = &permit.of.name;
        waits(Some(format!("waiting for {name}: {before} before it")));
        let until = Instant::now() + WAIT_MAX;
        let told = loop {
            tokio::select! {
                told = &mut told => break told,
                () = sleep_until(until) => {
                    let text = format!("its turn at {name} did not come within {} s", WAIT_MAX.as_secs());
                    return Err(ModelError::new(ErrorKind::RateLimited, text));
                }
                () = sleep(LOOK_EVERY) => permit.of.wake(),
            }
        };
        waits(None);
        // The sender goes only after it was used.
        permit.told(told.unwrap_or(Ok(())))
    }

    fn governed(&self, by: &GovernedBy) -> Arc<Governed> {
        let mut table = self.table.lock();
        if let Some(known) = table.get(by.name()) {
            return known.clone();
        }
        let given_up = if table.len() < KEPT_MAX {
            Vec::new()
        } else {
            table.extract_if(|_, governed| Arc::strong_count(governed) == 1).collect()
        };
        let core = Core { governor: Governor::new(by.limits()), waiting: HashMap::new() };
        let governed = Arc::new(Governed {
            name: by.name().clone(),
            core: Lock::new(core),
            began: Instant::now(),
            changed: Arc::default(),
        });
        table.insert(by.name().clone(), governed.clone());
        drop(table);
        drop(given_up);
        if let Some(supervisor) = self.supervisor.get() {
            tokio::spawn(start(supervisor.clone(), by.name().clone(), Arc::downgrade(&governed)));
        }
        governed
    }
}

/// Starts the actor of a governor. One of the same name may still be on its way out.
async fn start(supervisor: SupervisorHandle, name: Arc<str>, governed: Weak<Governed>) {
    for _ in 0..STARTS_MAX {
        let governed = governed.clone();
        let actor = ChildSpec::new(&*name, move |cx| {
            let governed = governed.clone();
            async move {
                keep(governed, cx).await;
                Ok(())
            }
        });
        match supervisor.start_child(actor.labelled("governor").restart(Restart::Transient)).await {
            Err(AdminError::AlreadyPresent | AdminError::AlreadyStarted) => sleep(START_AGAIN).await,
            Err(error) => return tracing::debug!(%name, %error, "a governor works without its actor"),
            Ok(_) => return,
        }
    }
}

/// The actor: wakes who only waits for time, and shows the queue, until its governor was given up.
async fn keep(governed: Weak<Governed>, cx: ChildContext) {
    let Some(changed) = governed.upgrade().map(|of| of.changed.clone()) else { return };
    cx.node().put(Shown(governed.clone()));
    if let Some(of) = governed.upgrade().filter(|_| cx.incarnation() > 1) {
        of.core.lock().governor.forget();
    }
    loop {
        let Some(of) = governed.upgrade() else { return };
        let (waiting, next) = of.look();
        drop(of);
        cx.node().queue(waiting);
        tokio::select! {
            () = cx.stopping() => return,
            () = changed.notified() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

impl Governed {
    /// Lets go, and refuses, who need not wait any longer.
    fn wake(&self) {
        self.change(|_, _| ());
    }

    /// Wakes, and returns how many wait on, and the moment at which time alone lets one of them go.
    fn look(&self) -> (usize, Option<Instant>) {
        self.tell(|_, _| ());
        let (now, core) = (self.began.elapsed(), self.core.lock());
        (core.waiting.len(), core.governor.next(now).map(|at| self.began + at))
    }

    /// Changes the governor, and tells those whom the change concerns.
    fn change<T>(&self, change: impl FnOnce(&mut Core, Duration) -> T) -> T {
        let (made, is_news) = self.tell(change);
        if is_news {
            self.changed.notify_one();
        }
        made
    }

    /// The same without a sign for the actor. Returns whether there is news for it too.
    fn tell<T>(&self, change: impl FnOnce(&mut Core, Duration) -> T) -> (T, bool) {
        let now = self.began.elapsed();
        let (made, told, is_news) = {
            let mut core = self.core.lock();
            let before = core.waiting.len();
            let made = change(&mut core, now);
            let Core { governor, waiting } = &mut *core;
            let grants = governor.grants(now).into_iter();
            let told: Vec<_> = grants.filter_map(|(ticket, told)| Some((waiting.remove(&ticket)?, told))).collect();
            (made, told, before > 0 || !waiting.is_empty())
        };
        for (sender, told) in told {
            // Who has gone meanwhile gives the permit back.
            drop(sender.send(told));
        }
        (made, is_news)
    }
}

impl Drop for Governed {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

/// A place with a governor: first in its queue, then the permit of a request. Dropping it gives it back.
struct Permit {
    of: Arc<Governed>,
    ticket: Ticket,
    /// Whether the governor knows it no more.
    is_over: bool,
}

impl Permit {
    fn told(mut self, told: Told) -> Result<Permit, ModelError> {
        match told {
            Ok(()) => Ok(self),
            Err(refusal) => {
                self.is_over = true;
                Err(refusal.error(&self.of.name))
            }
        }
    }

    fn end(mut self, made: &Result<ModelAnswer, ModelError>) {
        let how = match made {
            Ok(answer) => Ended::Answered(answer.usage.total()),
            Err(error) => Ended::Failed(error),
        };
        self.is_over = true;
        self.of.change(|core, now| core.governor.ended(now, self.ticket, &how));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.of.change(|Core { governor, waiting }, now| {
            waiting.remove(&self.ticket);
            governor.give_up(now, self.ticket);
        });
    }
}

/// Passes the pieces of an answer on, and its head to the governor.
struct Heard<'a> {
    permit: Option<&'a Permit>,
    deltas: &'a mut (dyn FnMut(Delta) + Send),
}

impl Deltas for Heard<'_> {
    fn head(&mut self, status: u16, header: &dyn Fn(&str) -> Option<String>) {
        let Some(Permit { of, ticket, .. }) = self.permit else { return };
        let (is_good, said) = ((200..300).contains(&status), read_headers(header, SystemTime::now()));
        of.change(|core, now| core.governor.head(now, *ticket, is_good, said));
    }

    fn delta(&mut self, delta: Delta) {
        (self.deltas)(delta);
    }
}

/// What the node of a governor shows, as it is at the moment of the look.
#[derive(Debug)]
struct Shown(Weak<Governed>);

impl Shown {
    fn figures(&self) -> Option<Figures> {
        let of = self.0.upgrade()?;
        let figures = of.core.lock().governor.figures(of.began.elapsed());
        Some(figures)
    }
}

impl Payload for Shown {
    fn facts(&self) -> Vec<String> {
        self.figures().map(|figures| figures.facts()).unwrap_or_default()
    }

    fn fields(&self) -> serde_json::Value {
        self.figures().and_then(|figures| serde_json::to_value(figures).ok()).unwrap_or_default()
    }
}
