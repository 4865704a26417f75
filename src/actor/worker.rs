//! The workers of a session: each carries out one model request or one tool call, as a tracked task that reports to the slot.
//!
//! A worker reports once: the answer, the result, or what became of them, also after a panic. What else may end its work:
//!
//! | what happens | what the worker does | what it reports |
//! |---|---|---|
//! | A call is over its limit, or is told to stop | tells the call, gives it [`GRACE`] to tidy up, and then drops it | the result of the call, or that it was dropped; and whether it still runs, because it blocks its thread |
//! | The client takes longer than `request_time_max` | drops the request | a failure |
//! | A request is cut ([`RequestWorker::cut`]) | drops the request | the text that had arrived; if the request is not down within a second, its text is lost |
//! | The handle is dropped: the incarnation ended, or the ticket was closed | ends at its next await, with the processes of its call | nothing, because nobody waits for it (a request that was cut before does report) |
//!
//! A request that a hook is to see has two workers, one after the other: the first asks the hooks and reports what they made of it,
//! the second sends it. A call that a hook rewrites or asks about has as many as it is started.
//!
//! These limits are those of the tool and of the client. Hooks have their own, for each callback, and run before and
//! after. What blocks a thread cannot be dropped: a client that does so keeps its turn open until the request is cut; and a tool
//! that says that it answers at once, and blocks, is reached by neither limit nor stop, because it runs in the worker's own task
//! until it first waits.
//!
//! A change must keep that a worker whose handle is not dropped reports: without a report its turn stays open until a person stops
//! it. So all code of a host runs, and is dropped, where its panics are caught. A worker never touches the state or the tape.

use std::{panic::AssertUnwindSafe, sync::Arc, task::Poll, time::Duration};

use futures_util::FutureExt as _;
use serde_json::json;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

use tracing::Instrument as _;

use crate::{
    actor::{
        call_context::CallContext, facts, governors::Standing, limits::RuntimeLimits, questions::Waited, send_on,
        slot::Arrived, toolset::Toolset, worker_context::WorkerContext,
    },
    event::EventKind,
    hook::{HookCall, Preparing, Ruling},
    kernel::context::of_text,
    kernel::{Gated, Report, Settings},
    lock::Lock,
    model::{AnswerPart, Delta, ErrorKind, ModelAnswer, ModelError, Request},
    supervisor::WorkerNode,
    tool::{ChangeLog, Tool, ToolContext, ToolResult, truncate::bounded},
    words::depth,
    words::message::{ErrorReason, Finish, ModelRef},
    words::panic_text,
};

/// How long a call that was told to stop, or that is over its limit, may tidy up.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// How long the task of a request that was cut, or of a call that was dropped, may take to be gone.
const DOWN: Duration = Duration::from_secs(1);

/// The most bytes of arguments that a hook may put in place of a call's own.
const REWRITTEN_BYTES_MAX: usize = 256 * 1024;

/// What the worker of a request does.
pub(crate) enum RequestJob {
    /// Asks the hooks what the request shall tell.
    Prepare(Box<Preparing>),
    /// Sends it.
    Send {
        model: ModelRef,
        request: Box<Request>,
        standing: Standing,
        settings: Arc<Settings>,
        tools: Arc<Toolset>,
        key: Key,
    },
}

/// Whether a key that is refused may be renewed: once in a step for each model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Renewable,
    Renewed,
}

/// The handle of a running model request. Cancelling the token `stop`, from any thread, cuts the request off; dropping the handle
/// of a request that was not cut aborts it without a report.
pub(crate) struct RequestWorker {
    /// The task of the request; [`RequestWorker::cut`] takes it and waits for its end.
    task: Option<AbortOnDropHandle<()>>,
    stop: CancellationToken,
    post: WorkerContext,
}

impl RequestWorker {
    /// Does the work in a task of its own. Returns `None` if no worker may start, because a stop or a recovery came meanwhile
    /// or the session is no longer awake.
    pub(crate) fn start(post: WorkerContext, job: RequestJob, node: WorkerNode) -> Option<RequestWorker> {
        let at_work = post.slot.begin_worker(post.incarnation, post.ticket)?;
        let (stop, for_cut) = (at_work.stop.clone(), post.clone());
        let (cut, tasks) = (stop.clone(), post.slot.tasks());
        let span = post.traced.span.clone();
        let work = async move {
            let _at_work = at_work;
            let arrived = Arc::<Lock<Arrived>>::default();
            // Where pipes see answers, a text is shown only when they have seen it.
            if !post.shared.hooks.see_answers() {
                post.slot.show_arriving(&arrived);
            }
            // All of it is caught: what a cut drops is the client's too, and may panic in its drop.
            let made = AssertUnwindSafe(carried_out(&post, job, &arrived, &cut)).catch_unwind().await;
            drop(node);
            let mut report = made.unwrap_or_else(|panic| {
                let text = format!("the model client crashed: {}", words_of(panic));
                Report::Failed { error: ModelError::new(ErrorKind::Crashed, text) }
            });
            if let Report::Failed { error } = &mut report {
                // An answer that breaks off has no figures of usage: what had arrived counts.
                let Arrived { text, beside } = &*arrived.lock();
                error.arrived = of_text(text).saturating_add(of_text(beside));
            }
            post.report(report);
        };
        let task = tasks.spawn(work.instrument(span));
        Some(RequestWorker { task: Some(AbortOnDropHandle::new(task)), stop, post: for_cut })
    }

    /// Cuts the request off. The text that has arrived is reported when the request is down, so that the next request does not run
    /// beside it. A request that is not down within 1 s, because it blocks its thread or an answer pipe is slow, is reported
    /// without its text. A second call changes nothing.
    pub(crate) fn cut(&mut self) {
        self.stop.cancel();
        let post = self.post.clone();
        let Some(mut task) = self.task.take() else { return };
        let tasks = post.slot.tasks();
        tasks.spawn(async move {
            if !matches!(tokio::time::timeout(DOWN, &mut task).await, Ok(Ok(()))) {
                // The task is left behind. Its own report, if one comes, is the second of its ticket and does not count.
                task.abort();
                post.report(Report::CutOff { partial: Vec::new(), thrown_away: 0 });
            }
        });
    }
}

async fn carried_out(
    post: &WorkerContext,
    job: RequestJob,
    arrived: &Lock<Arrived>,
    cut: &CancellationToken,
) -> Report {
    match job {
        RequestJob::Prepare(preparing) => prepared(post, *preparing, cut).await,
        RequestJob::Send { model, request, standing, settings, tools, key } => {
            let made = answered(post, &model, (&request, standing), (&settings, &tools), arrived, cut).await;
            match made {
                Report::Failed { error } => {
                    let is_asked = error.kind == ErrorKind::Auth && key == Key::Renewable;
                    let key_renewed = is_asked
                        && tokio::select! {
                            renewed = post.shared.models.renew_key(&model, &request) => renewed,
                            () = cut.cancelled() => false,
                        };
                    // Whatever a host's model says: this is the runtime's word.
                    Report::Failed { error: ModelError { key_renewed, ..error } }
                }
                made => made,
            }
        }
    }
}

/// Asks the hooks what a request shall tell, and returns the report about it.
async fn prepared(post: &WorkerContext, preparing: Preparing, cut: &CancellationToken) -> Report {
    let (context, failed) = (post.hook_context(), |failure| post.hook_failed(failure));
    let made = tokio::select! {
        made = post.shared.hooks.prepare(&context, preparing, &failed) => made,
        () = cut.cancelled() => return Report::CutOff { partial: Vec::new(), thrown_away: 0 },
    };
    match made {
        Ok(preparing) => Report::Prepared { prepared: Box::new(preparing.prepared()) },
        Err(failure) => {
            let text = format!(
                "the hook {} failed in {} ({}), so the request was not made: mend or remove the hook, or let it not guard",
                failure.hook, failure.callback, failure.error
            );
            Report::Failed { error: ModelError::new(ErrorKind::InvalidRequest, text) }
        }
    }
}

/// Makes the request, and returns the report about it.
async fn answered(
    post: &WorkerContext,
    model: &ModelRef,
    request: (&Request, Standing),
    (settings, tools): (&Arc<Settings>, &Toolset),
    arrived: &Lock<Arrived>,
    cut: &CancellationToken,
) -> Report {
    let made = async {
        let made = make(post, model, request, arrived).await;
        fault!(post.shared.store.faults(), "worker.request_made", post.slot.id.as_str());
        Ok(through_hooks(post, made?).await)
    };
    let made = tokio::select! {
        made = made => made,
        () = cut.cancelled() => {
            let Arrived { text, beside } = std::mem::take(&mut *arrived.lock());
            let partial = if text.is_empty() { vec![] } else { vec![AnswerPart::Text { text, extra: None }] };
            let answer = through_hooks(post, ModelAnswer::new(partial, Finish::Unknown)).await;
            return Report::CutOff { partial: answer.parts, thrown_away: of_text(&beside) };
        }
    };
    let mut answer = match made {
        Ok(answer) => answer,
        Err(error) => return Report::Failed { error },
    };
    let calls: facts::Calls = answer.calls().map(|(name, input)| (name.to_owned(), input.into())).collect();
    let asked = async {
        send_on::send_on(post, &answer).await;
        let mut facts = facts::ask(&tools.toolbox, calls.clone()).await;
        let with = (&tools.toolbox, &post.shared.globs);
        facts::foresee(with, &post.slot.id, settings, &calls, &mut facts).await;
        facts
    };
    tokio::select! {
        calls = asked => Report::Answered { answer, calls },
        () = cut.cancelled() => {
            // The hooks have passed the answer, and its texts were shown.
            answer.parts.retain(|part| matches!(part, AnswerPart::Text { .. }));
            Report::CutOff { partial: answer.parts, thrown_away: of_text(&arrived.lock().beside) }
        }
    }
}

/// What the answer pipes make of an answer. Its texts are shown now, where they were held back until the pipes had seen them.
async fn through_hooks(post: &WorkerContext, mut answer: ModelAnswer) -> ModelAnswer {
    let hooks = &post.shared.hooks;
    if !hooks.see_answers() || answer.parts.is_empty() {
        return answer;
    }
    // What became of messages is the provider's word alone.
    let (steered, dropped) = (std::mem::take(&mut answer.steered), std::mem::take(&mut answer.dropped));
    let mut answer = hooks.on_answer(&post.hook_context(), answer, &|failure| post.hook_failed(failure)).await;
    for (sub, part) in (1..).zip(&answer.parts) {
        if let AnswerPart::Text { text, .. } = part {
            post.show(sub, EventKind::TextDelta { text: text.clone() });
        }
    }
    (answer.steered, answer.dropped) = (steered, dropped);
    answer
}

async fn make(
    post: &WorkerContext,
    model: &ModelRef,
    (request, standing): (&Request, Standing),
    arrived: &Lock<Arrived>,
) -> Result<ModelAnswer, ModelError> {
    fault!(post.shared.store.faults(), "worker.request", post.slot.id.as_str());
    let model = post.shared.models.find_for(model, request)?;
    let mut sub = 0;
    let is_shown = !post.shared.hooks.see_answers();
    let mut deltas = |delta: Delta| {
        post.lives();
        let mut arrived = arrived.lock();
        let kind = match delta {
            Delta::Text(text) => {
                arrived.text.push_str(&text);
                EventKind::TextDelta { text }
            }
            Delta::ReasoningStarted => EventKind::ReasoningStarted {},
            Delta::Reasoning(text) => {
                arrived.beside.push_str(&text);
                EventKind::ReasoningDelta { text }
            }
            Delta::ReasoningEnded => EventKind::ReasoningEnded {},
            Delta::CallPending { index, id, name } => EventKind::CallPending { index, call: id, name },
            Delta::CallInput { index, text } => {
                arrived.beside.push_str(&text);
                EventKind::CallInput { index, text }
            }
        };
        drop(arrived);
        if is_shown {
            sub += 1;
            post.show(sub, kind);
        }
    };
    // A model of a host's own is held to limits as our wires are.
    let RuntimeLimits { answer_calls_max, request_time_max, .. } = post.shared.limits;
    let doing = format!("model {}", model.id());
    let waits = |what: Option<String>| post.doing(what.unwrap_or_else(|| doing.clone()));
    let (governors, tenant) = (&post.shared.governors, post.shared.counting.label.as_deref());
    let for_whom = (standing, tenant);
    let made = governors.stream(&*model, request, for_whom, (request_time_max, &waits), &mut deltas);
    let mut answer = made.await?;
    if let Err(error) = answer.bound() {
        let text = format!("{} sent data with its answer that is {error}", model.id());
        return Err(ModelError::new(ErrorKind::Protocol, text));
    }
    // Otherwise a budget would count a long prompt as nothing, and a session would never be compacted.
    answer.usage = answer.usage.if_read();
    let calls = answer.calls().count();
    if calls > answer_calls_max {
        let text = format!("{} asked for {calls} calls in one answer: the limit is {answer_calls_max}", model.id());
        return Err(ModelError::new(ErrorKind::AnswerTooLarge, text));
    }
    Ok(answer)
}

/// The handle of a running tool call. Dropping it ends the call without a report.
pub(crate) struct CallWorker {
    stop: CancellationToken,
    /// Ends the call without a report when the handle is dropped.
    _kill: DropGuard,
}

impl CallWorker {
    /// Carries out the call in a task of its own. Returns `None` if no worker may start, as [`RequestWorker::start`].
    pub(crate) fn start(
        post: WorkerContext,
        call: HookCall,
        (tool, tools): (Arc<dyn Tool>, Arc<Toolset>),
        context: CallContext,
        node: WorkerNode,
    ) -> Option<CallWorker> {
        let at_work = post.slot.begin_worker(post.incarnation, post.ticket)?;
        let (stop, kill) = (at_work.stop.clone(), CancellationToken::new());
        let worker = CallWorker { stop: stop.clone(), _kill: kill.clone().drop_guard() };
        let (tasks, span) = (post.slot.tasks(), post.traced.span.clone());
        let work = async move {
            let _at_work = at_work;
            let node = Arc::new(node);
            let changes = ChangeLog::new(context.files.clone(), post.ticket);
            let waited = Waited::default();
            let made = async {
                let passed = context.passed.clone();
                let context = context.of(&post, &call, stop.child_token(), &node, changes.clone(), &waited);
                let made = run(&post, call, (tool, &tools, &passed), context, (&stop, &waited)).await;
                fault!(post.shared.store.faults(), "worker.call_made", post.slot.id.as_str());
                made
            };
            // The tool's other functions may panic too, and a worker that does not report would hold its turn open.
            let made = tokio::select! {
                made = AssertUnwindSafe(made).catch_unwind() => made,
                // The incarnation ended, or the ticket is closed: nobody waits for a report.
                () = kill.cancelled() => return,
            };
            let mut report = made.unwrap_or_else(|panic| Report::Returned { result: crashed(panic) });
            drop(node);
            if let Report::Returned { result } = &mut report {
                // Taken here and not from the tool's result, so that no hook, limit or panic loses the changes.
                result.changes = changes.take().map(Box::new);
            }
            post.report(report);
        };
        tasks.spawn(work.instrument(span));
        Some(worker)
    }

    /// Tells the call to stop. Its report follows when the call is down, or was dropped after [`GRACE`].
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    #[cfg(test)]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// Runs the gates, the tool and the pipes of a call, and bounds the result. `passed` are the hooks that have seen the call.
async fn run(
    post: &WorkerContext,
    call: HookCall,
    (tool, tools, passed): (Arc<dyn Tool>, &Toolset, &[String]),
    context: ToolContext,
    (stop, waited): (&CancellationToken, &Waited),
) -> Report {
    let failed = |failure| post.hook_failed(failure);
    let ruled = async {
        match post.shared.hooks.before_call(&call, passed, &failed).await {
            Ruling::Again { hook, arguments, ask, passed } => {
                held_up(tools, &call.tool, Gated { hook, ask, passed, ..Gated::default() }, arguments).await
            }
            Ruling::Refuse(text) => Err(Some(text)),
            Ruling::Run => Err(None),
        }
    };
    let ruled = tokio::select! {
        ruled = ruled => ruled,
        () = context.cancel.cancelled() => {
            let result = ToolResult::failed(ErrorReason::Aborted, "Stopped before it ran.");
            return Report::Returned { result };
        }
    };
    let (limits, place) = (tool.output(), context.spill_place());
    let result = match ruled {
        Ok(gated) => return Report::Gated { gated: Box::new(gated) },
        Err(Some(text)) => ToolResult::failed(ErrorReason::Blocked, text),
        Err(None) => {
            // What a crash says passes the pipes and the limits too.
            let ran = AssertUnwindSafe(carry_out(post, &call, tool, context, waited)).catch_unwind().await;
            let result = ran.unwrap_or_else(crashed);
            tokio::select! {
                biased;
                result = post.shared.hooks.on_result(&call, result, &failed) => result,
                () = stopped_for(stop, GRACE) => {
                    let text = "[The call ran. Its result was withheld: it was stopped while hooks saw the result.]";
                    ToolResult::failed(ErrorReason::Aborted, text)
                }
            }
        }
    };
    Report::Returned { result: bounded(result, limits, place, || format!("{}-{}", call.session, call.call)).await }
}

async fn stopped_for(stop: &CancellationToken, time: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(time).await;
}

/// What is recorded of a call that a hook held up: with other arguments, what the tool says of it now. The error is the text for
/// the model, where such arguments cannot be taken.
async fn held_up(
    tools: &Toolset,
    tool: &str,
    gated: Gated,
    arguments: Option<serde_json::Value>,
) -> Result<Gated, Option<String>> {
    let Some(mut arguments) = arguments else { return Ok(gated) };
    let wrong = |why: String| Err(Some(format!("Blocked by hook: {} gave other arguments, which {why}", gated.hook)));
    if depth::bound(&mut arguments).is_err() {
        return wrong("are nested too deep".to_owned());
    }
    let input: Arc<str> = arguments.to_string().into();
    if input.len() > REWRITTEN_BYTES_MAX {
        return wrong(format!("have {} bytes: {REWRITTEN_BYTES_MAX} are the most", input.len()));
    }
    let facts = facts::ask(&tools.toolbox, [(tool.to_owned(), input.clone())]).await.pop();
    Ok(Gated { input: Some(input), facts, ..gated })
}

async fn carry_out(
    post: &WorkerContext,
    call: &HookCall,
    tool: Arc<dyn Tool>,
    context: ToolContext,
    waited: &Waited,
) -> ToolResult {
    fault!(post.shared.store.faults(), "worker.call", post.slot.id.as_str());
    if let Some(outputs) = &context.outputs
        && let Err(error) = outputs.fetch().await
    {
        let reason = if context.cancel.is_cancelled() { ErrorReason::Aborted } else { ErrorReason::Failed };
        return ToolResult::failed(reason, format!("The output could not be read from the store: {error}"));
    }
    let limit = tool.limit(&call.arguments);
    let arguments = call.arguments.clone();
    let cancel = context.cancel.clone();
    let at_once = tool.answers_at_once();
    // Bounded in the task itself: a result that nobody takes is dropped there, and a deep one must not be.
    let mut run = Box::pin(async move { tool.run(arguments, &context).await.bounded() });
    if at_once && let Poll::Ready(result) = futures_util::poll!(&mut run) {
        return result;
    }
    // A task of its own contains a panic, and code that never awaits.
    let mut task = AbortOnDropHandle::new(post.slot.tasks().spawn(run.in_current_span()));
    let why = tokio::select! {
        done = &mut task => return outcome(done),
        () = waited.worked_for(limit) => ErrorReason::Timeout,
        () = cancel.cancelled() => ErrorReason::Aborted,
    };
    cancel.cancel();
    let what = match why {
        ErrorReason::Timeout => format!("Stopped: it ran longer than its limit of {} s.", limit.as_secs_f32()),
        _ => "Stopped while it was running.".to_owned(),
    };
    if let Ok(done) = tokio::time::timeout(GRACE, &mut task).await {
        let mut result = outcome(done);
        if why == ErrorReason::Timeout {
            result.error = Some(ErrorReason::Timeout);
            result.content = joined(&result.content, &what);
        }
        return result;
    }
    fault!(post.shared.store.faults(), "worker.call_dropped", post.slot.id.as_str());
    task.abort();
    let gone = tokio::time::timeout(DOWN, &mut task).await.is_ok();
    let left = if gone { "" } else { " It blocks its thread and could not be ended; it may still be running." };
    let text = format!("{what} It did not end by itself, so it was cut off; how far it got is unknown.{left}");
    ToolResult::failed(why, text).with_details(json!({ "cut_off": true, "still_running": !gone }))
}

fn joined(content: &str, line: &str) -> String {
    if content.is_empty() { line.to_owned() } else { format!("{content}\n{line}") }
}

/// The message of a panic. What it was thrown with is a host's, and its drop may panic too.
fn words_of(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic_text(&*panic);
    if let Err(another) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
    text
}

fn crashed(panic: Box<dyn std::any::Any + Send>) -> ToolResult {
    let text = words_of(panic);
    ToolResult::error(format!("The tool crashed: {text}. The session continues; try another way."))
        .with_details(json!({ "crashed": true }))
}

fn outcome(done: Result<ToolResult, tokio::task::JoinError>) -> ToolResult {
    match done {
        Ok(result) => result,
        Err(error) if error.is_panic() => crashed(error.into_panic()),
        Err(_) => ToolResult::failed(ErrorReason::Aborted, "Stopped while it was running."),
    }
}
