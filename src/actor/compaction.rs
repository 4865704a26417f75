//! The compaction actor: it has one summary written, by a model request of its own, beside its session.
//!
//! The actor is a temporary child of the supervisor `compactions`, is shown under its session, and is linked to it by data: the
//! session hears exactly once how the summary went, also where the actor was killed, crashed or hung. A crash of the actor crashes
//! nothing else, and nobody restarts it: the session decides, by its ticket, whether to ask for the summary again.
//!
//! The same actor writes the summaries of a conversation and of a branch. It shows no text to anyone and calls no tool. It retries
//! failures that a short wait can mend; every other failure ends it.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::sync::oneshot;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    actor::host::Host,
    agent::Agent,
    hook::panic_text,
    kernel::Asked,
    lock::Lock,
    model::{Delta, History, Item, ModelError, Request, RetryClass, UserItem},
    supervisor::{ChildSpec, NodeState, Restart, Shutdown, SupervisorHandle},
    words::message::Part,
    words::usage::Usage,
};

/// How long it may take altogether, waits included: a turn may be held up by it.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// The waits before further tries; no wait that a server asks for is longer than the last of them.
const WAITS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(30)];

/// The text of a summary and what it used, or why there is none.
pub(crate) type Written = Result<(String, Usage), String>;

/// A summary that is to be written.
pub(crate) struct Order {
    pub(crate) asked: Asked,
    /// Names the request for the provider.
    pub(crate) key: String,
    /// Names the actor among the others.
    pub(crate) id: String,
    /// Under whom it is shown.
    pub(crate) under: Option<Arc<NodeState>>,
    /// Counts what a provider has read, also for whoever drops the summary.
    pub(crate) tries: Arc<Tries>,
    /// Who waits until nothing of it is left.
    pub(crate) tasks: TaskTracker,
}

/// A summary that is being written. Dropping it ends that, and nobody is told.
pub(crate) struct Writing(#[allow(dead_code, reason = "it is dropped")] DropGuard);

impl Writing {
    /// Has it written by an actor of its own; `tell` hears once what came of it. Never waits.
    pub(crate) fn begin(host: &Arc<Host>, order: Order, tell: impl FnOnce(Written) + Send + 'static) -> Writing {
        let unwanted = CancellationToken::new();
        let writing = Writing(unwanted.clone().drop_guard());
        let (host, tasks, tokio) = (host.clone(), order.tasks.clone(), host.tokio.clone());
        let watch = async move {
            let Some(compactions) = host.compactions.get().cloned() else {
                return tell(Err("the runtime has ended".to_owned()));
            };
            let id = order.id.clone();
            let written = begin(host, &compactions, order).await;
            // Beside the request, because a client may block its thread.
            let written = tokio::select! {
                biased;
                () = unwanted.cancelled() => None,
                written = written => Some(written),
                () = tokio::time::sleep(LIMIT) => None,
            };
            if written.is_none() {
                // It is ended first, so that what it has read is counted. One that has ended by itself is not found.
                drop(compactions.terminate_child(id).await);
            }
            if !unwanted.is_cancelled() {
                let late = || Err(format!("it was not written within {} s", LIMIT.as_secs()));
                tell(written.unwrap_or_else(late));
            }
        };
        tasks.spawn_on(watch, &tokio);
        writing
    }
}

/// Starts the actor. What it gives resolves when the actor has written, or is there no more.
async fn begin(host: Arc<Host>, compactions: &SupervisorHandle, order: Order) -> impl Future<Output = Written> {
    let (reply, written) = oneshot::channel();
    let (id, down) = (order.id.clone(), order.tasks.token());
    let job = Lock::new(Some((host, order, reply, down)));
    let actor = ChildSpec::new(id, move |cx| {
        let job = job.lock().take();
        async move {
            // It is temporary, and so it is started once.
            let Some((host, order, reply, _down)) = job else { return Ok(()) };
            order.under.iter().for_each(|session| cx.node().show_under(session));
            cx.node().doing(order.asked.model.to_string());
            let written = AssertUnwindSafe(write(&host, &order)).catch_unwind().await;
            // Nobody has to wait for it still.
            drop(reply.send(match written {
                Ok(Ok(written)) => Ok(written),
                Ok(Err(error)) => Err(error.message.clone()),
                Err(panic) => Err(format!("the model client crashed: {}", panic_text(&*panic))),
            }));
            Ok(())
        }
    });
    let actor = actor.labelled("compaction").restart(Restart::Temporary).shutdown(Shutdown::Kill);
    let started = compactions.start_child(actor).await;
    async move {
        started.map_err(|error| format!("its actor did not start: {error}"))?;
        written.await.unwrap_or_else(|_| Err("its actor was ended".to_owned()))
    }
}

/// How many tries of a request a provider has read, the one that is under way among them. It is asked when the writing is over,
/// however it came to its end.
#[derive(Debug, Default)]
pub(crate) struct Tries(AtomicU32);

impl Tries {
    /// How many came to nothing: all but the one that was answered.
    pub(crate) fn in_vain(&self, is_answered: bool) -> u32 {
        self.0.load(Ordering::Relaxed).saturating_sub(u32::from(is_answered))
    }
}

/// Has the hidden agent write a summary. Dropping it ends the request.
async fn write(host: &Host, order: &Order) -> Result<(String, Usage), ModelError> {
    let Order { asked, tries, .. } = order;
    let (model, reads_max) = (host.models.find(&asked.model)?, asked.reads_max);
    let parts = vec![Part::text(asked.prompt.clone())];
    let user = UserItem { id: "compaction".into(), parts, fragment: Default::default() };
    let mut request = Request::new(History::from_iter([Item::User(user)]));
    // No tools are offered, and what it may do is nothing; a call that it asks for all the same is no part of its text.
    let agent = Agent::compaction();
    request.system = agent.prompt.unwrap_or_default().into();
    request.params.max_output = Some(asked.tokens_max.min(agent.limits.output_max.unwrap_or(u64::MAX)));
    request.key = order.key.clone();
    let mut waits = WAITS.into_iter();
    loop {
        tries.0.fetch_add(1, Ordering::Relaxed);
        let error = match model.stream(&request, &mut |_: Delta| {}).await {
            Ok(answer) => return Ok((answer.text(), answer.usage)),
            Err(error) => error,
        };
        if !error.was_read() {
            tries.0.fetch_sub(1, Ordering::Relaxed);
        }
        let asked = error.retry_after_ms.map(Duration::from_millis);
        match waits.next() {
            Some(wait)
                if error.class() == RetryClass::Transient
                    && tries.0.load(Ordering::Relaxed) < reads_max
                    && asked.unwrap_or_default() <= WAITS[2] =>
            {
                tokio::time::sleep(asked.unwrap_or(wait)).await;
            }
            _ => return Err(error),
        }
    }
}
