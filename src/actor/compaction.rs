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
        Arc, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::task::AbortHandle;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use crate::{
    actor::host::Host,
    agent::Agent,
    hook::panic_text,
    kernel::Asked,
    lock::Lock,
    model::{Delta, History, Item, ModelError, Request, RetryClass, UserItem},
    supervisor::{
        ChildSpec, NodeState, Restart, Shutdown,
        shell::{Behaviour, Context, ExitError, Init, Mailbox},
    },
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
pub(crate) struct Writing(Arc<Job>);

impl Writing {
    /// Has it written by an actor of its own; `tell` hears once what came of it. Never waits.
    pub(crate) fn begin(host: &Arc<Host>, order: Order, tell: impl FnOnce(Written) + Send + 'static) -> Writing {
        let stands = Stands { tell: Some(Box::new(tell)), ..Stands::default() };
        let job = Arc::new(Job { host: host.clone(), order, stands: Lock::new(stands) });
        let for_start = job.clone();
        // Held until it is up, or could not come up; then the actor's own tasks are what is left of it.
        let starts = job.order.tasks.clone();
        starts.spawn_on(async move { for_start.start().await }, &host.tokio);
        Writing(job)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let tell = self.0.stands().tell.take();
        drop(tell);
        self.0.end(None);
    }
}

/// A summary, as the actor and whoever ordered it know it.
struct Job {
    host: Arc<Host>,
    order: Order,
    stands: Lock<Stands>,
}

#[derive(Default)]
struct Stands {
    /// Gone once it was told, or nobody wants to know any more.
    tell: Option<Box<dyn FnOnce(Written) + Send>>,
    actor: Option<Mailbox<Msg>>,
    request: Option<AbortHandle>,
}

impl Job {
    fn stands(&self) -> MutexGuard<'_, Stands> {
        // Each change under this lock is whole before anything can panic.
        self.stands.lock()
    }

    async fn start(self: Arc<Self>) {
        let Some(compactions) = self.host.compactions() else {
            return self.tell(Err("the runtime has ended".to_owned()));
        };
        let for_actor = self.clone();
        let spec =
            ChildSpec::behaviour(self.order.id.as_str(), "compaction", move || Compaction::new(for_actor.clone()))
                .restart(Restart::Temporary)
                .shutdown(Shutdown::Kill);
        if let Err(error) = compactions.start_child(spec).await {
            self.tell(Err(format!("its actor did not start: {error}")));
        }
    }

    fn tell(&self, written: Written) {
        let tell = self.stands().tell.take();
        if let Some(tell) = tell {
            tell(written);
        }
    }

    /// Ends the request and the actor, and says why there is no summary, where anybody waits for one.
    fn end(&self, why: Option<&str>) {
        let (actor, request) = {
            let mut stands = self.stands();
            (stands.actor.take(), stands.request.take())
        };
        request.into_iter().for_each(|request| request.abort());
        // One that has ended has nothing to end.
        actor.into_iter().for_each(|actor| {
            let _ = actor.send(Msg::Cancel);
        });
        if let Some(why) = why {
            self.tell(Err(why.to_owned()));
        }
    }
}

/// What the actor is told.
enum Msg {
    /// The request is over.
    Written(Written),
    /// Nobody wants it any more.
    Cancel,
    /// The time is over.
    Late,
}

/// The actor. Dropped without a word (killed, or crashed), it says so to whoever waits.
struct Compaction {
    job: Arc<Job>,
    /// Ends with it.
    timer: Option<AbortHandle>,
    _down: TaskTrackerToken,
}

impl Compaction {
    fn new(job: Arc<Job>) -> Compaction {
        let _down = job.order.tasks.token();
        Compaction { job, timer: None, _down }
    }
}

impl Behaviour for Compaction {
    type Msg = Msg;

    const MAY_WAIT: bool = false;

    async fn init(&mut self, cx: &mut Context<Msg>) -> Result<Init, ExitError> {
        let (job, mailbox) = (self.job.clone(), cx.mailbox());
        let mut stands = self.job.stands();
        if stands.tell.is_none() {
            return Ok(Init::Ignore);
        }
        if let Some(session) = &job.order.under {
            cx.node().show_under(session);
        }
        cx.node().doing(job.order.asked.model.to_string());
        let (tasks, late) = (job.order.tasks.clone(), mailbox.clone());
        stands.actor = Some(mailbox.clone());
        let writing = async move {
            let (asked, key) = (&job.order.asked, job.order.key.clone());
            let written = AssertUnwindSafe(write(&job.host, asked, key, &job.order.tries)).catch_unwind().await;
            let written = match written {
                Ok(Ok(written)) => Ok(written),
                Ok(Err(error)) => Err(error.message.clone()),
                Err(panic) => Err(format!("the model client crashed: {}", panic_text(&*panic))),
            };
            let _ = mailbox.send(Msg::Written(written));
        };
        let request = tasks.spawn_on(writing, &self.job.host.tokio).abort_handle();
        stands.request = Some(request);
        drop(stands);
        // Beside the request, because a client may block its thread.
        let timer = self.job.host.tokio.spawn(async move {
            tokio::time::sleep(LIMIT).await;
            let _ = late.send(Msg::Late);
        });
        self.timer = Some(timer.abort_handle());
        Ok(Init::Run)
    }

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Msg>) -> Result<(), ExitError> {
        match msg {
            Msg::Written(written) => self.job.tell(written),
            Msg::Cancel => {}
            // The request is ended first: what it read is counted when that is told.
            Msg::Late => self.job.end(Some(&format!("it was not written within {} s", LIMIT.as_secs()))),
        }
        cx.exit();
        Ok(())
    }

    fn describe(msg: &Msg) -> &'static str {
        match msg {
            Msg::Written(_) => "written",
            Msg::Cancel => "cancel",
            Msg::Late => "late",
        }
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        self.timer.iter().for_each(AbortHandle::abort);
        self.job.end(Some("its actor was ended"));
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
async fn write(host: &Host, asked: &Asked, key: String, tries: &Tries) -> Result<(String, Usage), ModelError> {
    let (model, reads_max) = (host.models.find(&asked.model)?, asked.reads_max);
    let parts = vec![Part::text(asked.prompt.clone())];
    let user = UserItem { id: "compaction".into(), parts, fragment: Default::default() };
    let mut request = Request::new(History::from_iter([Item::User(user)]));
    // No tools are offered, and what it may do is nothing; a call that it asks for all the same is no part of its text.
    let agent = Agent::compaction();
    request.system = agent.prompt.unwrap_or_default().into();
    request.params.max_output = Some(asked.tokens_max.min(agent.limits.output_max.unwrap_or(u64::MAX)));
    request.key = key;
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
