//! The worker that has a summary written: one model request of its own, beside the session's.
//!
//! It shows no text to anyone and calls no tool. What a short wait can mend it tries again itself; everything else it reports
//! as a failure, and the core decides what becomes of it. Dropping it ends the request.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;

use crate::{
    actors::{host::Host, worker::Post},
    agent::Agent,
    hook::panic_text,
    message::Part,
    model::{Delta, History, Item, ModelError, Request, RetryClass, UserItem},
    session::{Asked, Report},
    supervisor::WorkerCard,
    usage::Usage,
};

/// How long it may take altogether, waits included: a turn may be held up by it.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// The waits before further tries; no wait that a server asks for is longer than the last of them.
const WAITS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(30)];

/// A summary that is being written.
pub(crate) struct SummaryWorker {
    task: tokio::task::AbortHandle,
}

impl SummaryWorker {
    /// Asks for it in a task of its own.
    pub(crate) fn start(post: Post, asked: Asked, card: WorkerCard) -> SummaryWorker {
        let tasks = post.slot.tasks();
        let task = tasks.spawn(async move {
            let (tries, key) = (Tries::default(), format!("{}/{}", post.slot.id, post.ticket));
            let writing = tokio::time::timeout(LIMIT, write(&post.host, &asked, key, &tries));
            let written = AssertUnwindSafe(writing).catch_unwind().await;
            drop(card);
            let lost = tries.in_vain(matches!(written, Ok(Ok(Ok(_)))));
            let result = match written {
                Ok(Ok(Ok((text, usage)))) => Ok((Arc::from(text), usage)),
                Ok(Ok(Err(error))) => Err(error.message.as_str().into()),
                Ok(Err(_)) => Err(format!("it was not written within {} s", LIMIT.as_secs()).as_str().into()),
                Err(panic) => Err(format!("the model client crashed: {}", panic_text(&*panic)).as_str().into()),
            };
            post.report(Report::Summarised { result, lost });
        });
        SummaryWorker { task: task.abort_handle() }
    }
}

impl Drop for SummaryWorker {
    fn drop(&mut self) {
        self.task.abort();
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
pub(crate) async fn write(
    host: &Host,
    asked: &Asked,
    key: String,
    tries: &Tries,
) -> Result<(String, Usage), ModelError> {
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
