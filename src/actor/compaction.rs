//! The compaction actor: it has one summary written, of a conversation or of a branch, by a model request beside its session.
//!
//! The actor is a temporary child of the supervisor `compactions`, and is shown under its session. The session hears exactly once
//! how the summary went, also if the actor was killed, crashed or hung, unless it has dropped the handle ([`SummaryHandle`]). A crash
//! of the actor crashes nothing else, and nobody restarts it: the session decides, by its ticket, whether to ask for the summary
//! again.
//!
//! The actor retries a failure that a short wait can mend, up to three times. It ends at any other failure, at a server's wait longer
//! than the last of [`WAITS`], at the number of tries that the budget allows, and at [`LIMIT`].
//! A change must not let it show text to anyone, call a tool, or touch the session's state: the result goes to the session as a
//! report, and the core decides what follows from it.

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
    actor::{governors::Standing, shared::Shared},
    agent::Agent,
    kernel::{Asked, context::of_text},
    lock::Lock,
    model::{Delta, ErrorKind, History, Item, ModelError, Request, RetryClass, UserItem, governor::Rank},
    supervisor::{AdminError, ChildSpec, NodeState, Restart, Shutdown, SupervisorHandle},
    words::ids::SessionId,
    words::labels::Labels,
    words::message::Part,
    words::panic_text,
    words::usage::Usage,
};

/// How long a summary may take once its actor has started, waits included: a turn may be waiting for it. A server on this machine
/// may read the conversation for ten minutes.
pub(crate) const LIMIT: Duration = Duration::from_secs(900);

/// The waits before further tries. If a server asks for a wait longer than the last of them, there is no further try.
const WAITS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(30)];

/// The text of a summary and what it used, or why there is none.
pub(crate) type Written = Result<(String, Usage), String>;

/// A summary that is to be written.
pub(crate) struct Order {
    pub(crate) asked: Asked,
    /// The key of the model request.
    pub(crate) key: String,
    /// The session that the summary is for, and its labels.
    pub(crate) of: (SessionId, Labels),
    /// Whose work that session's is.
    pub(crate) rank: Rank,
    /// The id of the actor under its supervisor.
    pub(crate) id: String,
    /// The node under which the actor is shown: its session's.
    pub(crate) under: Option<Arc<NodeState>>,
    /// Counts the tries that a provider has read. Shared, so that the count is known also if the summary is dropped.
    pub(crate) tries: Arc<Tries>,
    /// The session's tracker: it waits until nothing of the summary's work is left.
    pub(crate) tasks: TaskTracker,
}

/// The handle of a summary that is being written. Dropping it ends the work without a report.
pub(crate) struct SummaryHandle(#[allow(dead_code, reason = "it is dropped")] DropGuard);

impl SummaryHandle {
    /// Has a summary written by an actor of its own. `tell` is called once with the result, unless the handle is dropped. Never
    /// waits.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        order: Order,
        tell: impl FnOnce(Written) + Send + 'static,
    ) -> SummaryHandle {
        let unwanted = CancellationToken::new();
        let writing = SummaryHandle(unwanted.clone().drop_guard());
        let (shared, tasks, tokio) = (shared.clone(), order.tasks.clone(), shared.tokio.clone());
        let watch = async move {
            let Some(compactions) = shared.compactions.get().cloned() else {
                return tell(Err("the runtime has ended".to_owned()));
            };
            let id = order.id.clone();
            let written = begin(shared, &compactions, order).await;
            // The limit runs beside the request, because a client may block its thread.
            let written = tokio::select! {
                biased;
                () = unwanted.cancelled() => None,
                written = written => Some(written),
                () = tokio::time::sleep(LIMIT) => None,
            };
            if written.is_none() {
                // The actor is ended first, so that its tries are counted. An actor that has ended already is not found.
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

/// Starts the actor. The returned future resolves when the actor has written the summary, or is gone.
async fn begin(shared: Arc<Shared>, compactions: &SupervisorHandle, order: Order) -> impl Future<Output = Written> {
    let (reply, written) = oneshot::channel();
    let (id, down) = (order.id.clone(), order.tasks.token());
    let job = Lock::new(Some((shared, order, reply, down)));
    let actor = ChildSpec::new(id, move |cx| {
        let job = job.lock().take();
        async move {
            // The actor is temporary, so it is started once.
            let Some((shared, order, reply, _down)) = job else { return Ok(()) };
            order.under.iter().for_each(|session| cx.node().show_under(session));
            cx.node().doing(order.asked.model.to_string());
            let written = AssertUnwindSafe(write(&shared, &order)).catch_unwind().await;
            // The receiver may have been dropped.
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
        let was_ended = || "its actor was ended".to_owned();
        started.map_err(|error| match error {
            // It may have been at work: it is ended, whether its supervisor had heard of its start or not.
            AdminError::Stopped => was_ended(),
            error => format!("its actor did not start: {error}"),
        })?;
        written.await.unwrap_or_else(|_| Err(was_ended()))
    }
}

/// The number of tries that a provider has read, including the one under way. Read it when the writing is over, however it ended.
#[derive(Debug, Default)]
pub(crate) struct Tries(AtomicU32);

impl Tries {
    /// The number of tries without an answer: all of them, or all but the one that was answered.
    pub(crate) fn in_vain(&self, is_answered: bool) -> u32 {
        self.0.load(Ordering::Relaxed).saturating_sub(u32::from(is_answered))
    }
}

/// Has the hidden agent `compaction` write a summary. Dropping the future ends the request.
async fn write(shared: &Shared, order: &Order) -> Result<(String, Usage), ModelError> {
    let Order { asked, tries, .. } = order;
    let parts = vec![Part::text(asked.prompt.clone())];
    let user = UserItem { id: "compaction".into(), parts, fragment: Default::default() };
    let mut request = Request::new(History::from_iter([Item::User(user)]));
    // The request offers no tools. A call that the model asks for anyway is not part of the text and is ignored.
    let agents = shared.agents.lock().clone();
    let agent = agents.get("compaction").map_or_else(Agent::compaction, |agent| (**agent).clone());
    request.system = agent.prompt.unwrap_or_default().into();
    request.params.max_output = Some(asked.tokens_max.min(agent.limits.output_max.unwrap_or(u64::MAX)));
    request.key = order.key.clone();
    let (session, labels) = order.of.clone();
    (request.session, request.labels) = (Some(session), labels);
    let (mut model, reads_max) = (shared.models.find_for(&asked.model, &request)?, asked.reads_max);
    let mut key_renewed = false;
    let standing = Standing { rank: order.rank, tokens: of_text(&asked.prompt) };
    let for_whom = (standing, shared.counting.label.as_deref());
    let unseen = |_: Option<String>| {};
    let mut waits = WAITS.into_iter();
    loop {
        tries.0.fetch_add(1, Ordering::Relaxed);
        let with = (shared.limits.request_time_max, &unseen as _);
        let error = match shared.governors.stream(&*model, &request, for_whom, with, &mut |_: Delta| {}).await {
            Ok(mut answer) => {
                // Only the text is used. Data of providers that is nested too deep would overflow the stack when dropped, so it goes first.
                let _ = answer.bound();
                return Ok((answer.text(), answer.usage.if_read()));
            }
            Err(error) => error,
        };
        if !error.was_read() {
            tries.0.fetch_sub(1, Ordering::Relaxed);
        }
        let may_renew = error.kind == ErrorKind::Auth && !std::mem::replace(&mut key_renewed, true);
        if may_renew && shared.models.renew_key(&asked.model, &request).await {
            model = shared.models.find_for(&asked.model, &request)?;
            continue;
        }
        let server_wait = error.server_wait();
        match waits.next() {
            Some(wait)
                if error.class() == RetryClass::Transient
                    && tries.0.load(Ordering::Relaxed) < reads_max
                    && server_wait.unwrap_or_default() <= WAITS[2] =>
            {
                tokio::time::sleep(server_wait.unwrap_or(wait)).await;
            }
            _ => return Err(error),
        }
    }
}
