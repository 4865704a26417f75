//! The one type of the crate that is an actor of ractor: a shell that runs any [`Behaviour`]. The rest of the crate knows nothing
//! of ractor.
//!
//! The shell catches the panics of a behaviour itself, so that a report can say which message was being handled, and for how long.
//! It notes the message in hand on the actor's node, and writes down how the actor ended ([`LastWord`]). The task that joins the
//! actor reads this; if nothing was written, the actor was killed, or its tokio runtime ended. While `handle` runs, a stop waits
//! for it, and a kill drops it at its next await.
//!
//! ractor runs every actor in its own span, `Actor`, which names a number that means nothing elsewhere. The shell runs the
//! behaviour in a span that has no parent and names the actor's node, so that no line of ours or of a host's child is under
//! ractor's.
//!
//! A change must keep this. Nothing of ractor leaves this file, which holds the only `impl ractor::Actor`. Supervision events of
//! ractor stay ignored: by default a child's end would stop its parent. The link to the parent stays, because it ends the
//! children of a killed supervisor. Actors get no ractor names, which are global. A host that turns on ractor's features
//! `async-trait` or `cluster` changes the trait for the whole build; only this file would have to follow.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Instant,
};

use futures_util::FutureExt;
use ractor::{ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::{
    sync::oneshot,
    task::{JoinError, JoinHandle},
};
use tracing::{Instrument as _, Span};

use crate::supervisor::{
    exit::{ExitReason, PanicReport, chain},
    node_state::{NodeState, millis},
    registry::Registry,
};

/// The behaviour of an actor: what it does, without how it is run.
///
/// A handler must not await a model, a tool, a person or a slow disk: it is one step. `Err` and a panic end the actor;
/// a failure that a caller can handle is an answer and not an `Err`.
pub(crate) trait Behaviour: Send + 'static {
    /// The type of its messages.
    type Msg: Send + 'static;

    /// Called once before the first message. The actor counts as started when it has returned; a supervisor is up only when its
    /// children are, too. An error or a panic here is a failed start.
    fn init(&mut self, cx: &mut Context<Self::Msg>) -> impl Future<Output = Result<Init, ExitError>> + Send {
        let _ = cx;
        async { Ok(Init::Run) }
    }

    /// Takes one message.
    fn handle(
        &mut self,
        msg: Self::Msg,
        cx: &mut Context<Self::Msg>,
    ) -> impl Future<Output = Result<(), ExitError>> + Send;

    /// Called last, after a stop or [`Context::exit`]; not after an error, a panic or a kill. A kill may cut it off, too.
    fn terminate(&mut self, reason: &ExitReason, cx: &mut Context<Self::Msg>) -> impl Future<Output = ()> + Send {
        let _ = (reason, cx);
        async {}
    }

    /// The name of a message, for the node and for crash reports.
    fn describe(msg: &Self::Msg) -> &'static str {
        let _ = msg;
        "message"
    }

    /// Whether the behaviour itself names each piece of its work on its node. Then its messages are only wakes.
    const TELLS_ITS_WORK: bool = false;

    /// Whether the handler may wait. If not, a wait panics in debug builds.
    const MAY_WAIT: bool = true;

    /// The message that asks it to stop. With `None` it gets no message, and is stopped between two messages.
    fn stop_message(reason: &str) -> Option<Self::Msg> {
        let _ = reason;
        None
    }
}

/// The result of `init`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Init {
    /// It runs.
    Run,
    /// It runs, and has a reply for its starter.
    RunWith(Arc<str>),
    /// It has nothing to do; this is not an error.
    Ignore,
}

/// Why a behaviour ends itself.
#[derive(Debug)]
pub(crate) struct ExitError(pub(crate) ExitReason);

impl<E: std::error::Error + 'static> From<E> for ExitError {
    fn from(error: E) -> ExitError {
        ExitError(ExitReason::Error(chain(&error)))
    }
}

/// How an actor ended, written by the actor itself. The first word counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastWord(Arc<OnceLock<ExitReason>>);

impl LastWord {
    fn leave(&self, reason: ExitReason) {
        // Any later word is a consequence of the first.
        let _ = self.0.set(reason);
    }

    /// How a joined actor ended. An actor that was killed, or lost with its tokio runtime, wrote nothing.
    pub(crate) fn reason(&self, joined: &Result<(), JoinError>) -> ExitReason {
        match (self.0.get(), joined) {
            (Some(reason), _) => reason.clone(),
            (None, Err(lost)) if lost.is_cancelled() => ExitReason::Cancelled,
            (None, _) => ExitReason::Killed,
        }
    }
}

/// Where to send messages to an actor. Cheap to clone; does not keep the actor alive.
///
/// The queue behind it has no bound. Anything that may come in floods must go into a bounded value of the owner, and only a wake
/// goes through here.
pub(crate) struct Mailbox<M>(ActorRef<Envelope<M>>)
where
    M: Send + 'static;

impl<M: Send + 'static> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Mailbox(self.0.clone())
    }
}

impl<M: Send + 'static> Mailbox<M> {
    /// Puts a message into the actor's queue, or says that the actor has ended. A message that was taken is lost if the actor ends
    /// before its turn.
    pub(crate) fn send(&self, msg: M) -> Result<(), Gone> {
        self.0.send_message(Envelope(msg)).map_err(|_| Gone)
    }

    /// Kills the actor behind its supervisor's back.
    #[cfg(test)]
    pub(crate) fn kill(&self) {
        self.0.kill();
    }
}

/// The actor has ended, and the message is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the actor has ended")]
pub(crate) struct Gone;

/// The actor that runs a behaviour, as the behaviour sees it.
pub(crate) struct Context<M: Send + 'static> {
    actor: ActorRef<Envelope<M>>,
    node: Arc<NodeState>,
    incarnation: u64,
    /// How the actor ends, if the behaviour has decided that; otherwise the stop decides.
    leaving: Option<ExitReason>,
}

impl<M: Send + 'static> Context<M> {
    /// The mailbox of this actor.
    pub(crate) fn mailbox(&self) -> Mailbox<M> {
        Mailbox(self.actor.clone())
    }

    /// This actor's node.
    pub(crate) fn node(&self) -> &Arc<NodeState> {
        &self.node
    }

    /// Which incarnation this is: 1 for the first.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Ends the actor normally after this handler. Queued messages are dropped.
    pub(crate) fn exit(&mut self) {
        self.leaving = Some(ExitReason::Normal);
        self.actor.stop(None);
    }

    /// Ends the actor after this handler, as a shutdown with this word.
    pub(crate) fn exit_with(&mut self, word: impl Into<String>) {
        self.leaving = Some(ExitReason::Shutdown(word.into()));
        self.actor.stop(None);
    }

    /// Called in `terminate`: the actor ended with this reason, and not because of the stop.
    pub(crate) fn ends_as(&mut self, reason: ExitReason) {
        self.leaving = Some(reason);
    }

    /// Unlinks the actor from its supervisor, which then does not learn of its end.
    #[cfg(test)]
    pub(crate) fn unlink(&self) {
        if let Some(supervisor) = self.actor.try_get_supervisor() {
            self.actor.get_cell().unlink(supervisor);
        }
    }

    /// The arguments for the start of a child of this actor.
    pub(crate) fn child(&self, node: Arc<NodeState>, incarnation: u64, registry: Registry) -> SpawnArgs {
        SpawnArgs { parent: Some(self.actor.get_cell()), node, incarnation, registry }
    }
}

/// A running actor, for the supervisor that owns it. It never leaves the crate, so no host stops an actor behind its supervisor's
/// back.
#[derive(Clone)]
pub(crate) struct Running {
    cell: ActorCell,
    ask: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Running {
    /// Asks it to stop: by its stop message if it has one, otherwise between two messages.
    pub(crate) fn stop(&self, reason: &str) {
        (self.ask)(reason);
    }

    /// Drops its handler at the next await, and kills its children.
    pub(crate) fn kill(&self) {
        self.cell.kill();
    }
}

/// The arguments of a start.
pub(crate) struct SpawnArgs {
    /// The actor that it is linked to as a child; `None` for a root.
    parent: Option<ActorCell>,
    pub(crate) node: Arc<NodeState>,
    pub(crate) incarnation: u64,
    /// Where a supervisor shows its children.
    pub(crate) registry: Registry,
}

impl SpawnArgs {
    /// The arguments for a root.
    pub(crate) fn root(node: Arc<NodeState>, registry: Registry) -> SpawnArgs {
        SpawnArgs { parent: None, node, incarnation: 1, registry }
    }
}

/// A started actor.
pub(crate) struct Live {
    pub(crate) running: Running,
    /// Resolves when the actor and its state are gone.
    pub(crate) join: JoinHandle<()>,
    pub(crate) last_word: LastWord,
    /// The word that its start had for its starter.
    pub(crate) info: Option<Arc<str>>,
    /// For supervisors: resolves when their own children are up, or could not come up.
    pub(crate) ready: Option<oneshot::Receiver<Result<(), ExitReason>>>,
    /// For supervisors: resolves, with names, if the actor has ended and some of its children are still there. `join` waits for
    /// these children, too.
    pub(crate) leftover: Option<oneshot::Receiver<Vec<String>>>,
}

/// Why a start made no actor.
#[derive(Debug)]
pub(crate) enum NotStarted {
    Ignored,
    Failed(ExitReason),
}

/// Starts one incarnation of a child.
pub(crate) type StartFn =
    Arc<dyn Fn(SpawnArgs) -> Pin<Box<dyn Future<Output = Result<Live, NotStarted>> + Send>> + Send + Sync>;

/// The start function of a behaviour; `make` is called for each incarnation.
pub(crate) fn start_fn<B: Behaviour>(make: impl Fn() -> B + Send + Sync + 'static) -> StartFn {
    let make = Arc::new(make);
    Arc::new(move |spawn| {
        let make = make.clone();
        Box::pin(async move { start(make(), spawn).await })
    })
}

/// Starts a behaviour. If the future is dropped before it is done, no actor is left.
pub(crate) async fn start<B: Behaviour>(behaviour: B, spawn: SpawnArgs) -> Result<Live, NotStarted> {
    let last_word = LastWord::default();
    let found = Arc::new(OnceLock::new());
    let SpawnArgs { parent, node, incarnation, .. } = spawn;
    let args = Args { behaviour, node, incarnation, last_word: last_word.clone(), found: found.clone() };
    let shell = Shell::<B>(std::marker::PhantomData);
    // No names: ractor's are global to the process, and free again before the old actor is gone.
    let spawned = match parent {
        Some(parent) => parent.spawn_linked(None, shell, args).await,
        None => ractor::Actor::spawn(None, shell, args).await,
    };
    match spawned {
        Ok((actor, join)) => {
            let cell = actor.get_cell();
            let ask = Arc::new(move |reason: &str| {
                // A refused message means that the actor is ending, and then there is nothing to ask.
                if B::stop_message(reason).is_none_or(|msg| actor.send_message(Envelope(msg)).is_err()) {
                    actor.stop(None);
                }
            });
            let info = match found.get() {
                Some(Init::RunWith(info)) => Some(info.clone()),
                _ => None,
            };
            Ok(Live { running: Running { cell, ask }, join, last_word, info, ready: None, leftover: None })
        }
        Err(_) if found.get() == Some(&Init::Ignore) => Err(NotStarted::Ignored),
        Err(error) => Err(NotStarted::Failed(match last_word.0.get() {
            Some(ExitReason::Error(text)) => ExitReason::StartFailed(text.clone()),
            Some(panic @ ExitReason::Panic(_)) => ExitReason::StartFailed(panic.to_string()),
            Some(reason) => reason.clone(),
            None => ExitReason::StartFailed(match error {
                ractor::SpawnErr::StartupFailed(cause) => cause.to_string(),
                other => other.to_string(),
            }),
        })),
    }
}

/// The one message type that ractor sees.
struct Envelope<M>(M);

struct Shell<B>(std::marker::PhantomData<fn() -> B>);

struct Args<B> {
    behaviour: B,
    node: Arc<NodeState>,
    incarnation: u64,
    last_word: LastWord,
    found: Arc<OnceLock<Init>>,
}

/// The state of the actor. `post_stop` takes it out, because ractor would move the rest into the supervisor's queue.
struct Inner<B: Behaviour> {
    behaviour: B,
    cx: Context<B::Msg>,
    last_word: LastWord,
    span: Span,
}

impl<B: Behaviour> ractor::Actor for Shell<B> {
    type Msg = Envelope<B::Msg>;
    type State = Option<Inner<B>>;
    type Arguments = Args<B>;

    async fn pre_start(&self, myself: ActorRef<Self::Msg>, args: Args<B>) -> Result<Self::State, ActorProcessingErr> {
        let Args { behaviour, node, incarnation, last_word, found } = args;
        let cx = Context { actor: myself, node, incarnation, leaving: None };
        let span = tracing::error_span!(parent: None, "actor", node = cx.node.path());
        let mut inner = Inner { behaviour, cx, last_word, span };
        let since = Instant::now();
        let init = inner.behaviour.init(&mut inner.cx).instrument(inner.span.clone());
        let result = AssertUnwindSafe(init).catch_unwind().await;
        let init = inner.outcome(result, "start", since)?;
        match found.get_or_init(|| init) {
            Init::Run | Init::RunWith(_) => Ok(Some(inner)),
            Init::Ignore => Err("ignored".into()),
        }
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        Envelope(msg): Envelope<B::Msg>,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let Some(inner) = state.as_mut() else { return Ok(()) };
        let what = B::describe(&msg);
        let since = Instant::now();
        match B::TELLS_ITS_WORK {
            true => inner.cx.node.begin_untold(what),
            false => inner.cx.node.take_up(what, None, || None),
        }
        let handling = step(B::MAY_WAIT, inner.behaviour.handle(msg, &mut inner.cx)).instrument(inner.span.clone());
        let result = AssertUnwindSafe(handling).catch_unwind().await;
        inner.outcome(result, what, since)?;
        inner.cx.node.finish();
        Ok(())
    }

    /// Ignores ractor's events: a supervisor hears of a child's end from the task that joined the child.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        _: SupervisionEvent,
        _: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Self::Msg>, state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        let Some(mut inner) = state.take() else { return Ok(()) };
        let stopped = || ExitReason::Shutdown("shutdown".to_owned());
        let reason = inner.cx.leaving.get_or_insert_with(stopped).clone();
        let since = Instant::now();
        let terminate = inner.behaviour.terminate(&reason, &mut inner.cx).instrument(inner.span.clone());
        let result = AssertUnwindSafe(terminate).catch_unwind().await;
        inner.outcome(result.map(Ok), "terminate", since)?;
        // `terminate` may have changed it (`ends_as`).
        inner.last_word.leave(inner.cx.leaving.take().unwrap_or(reason));
        Ok(())
    }
}

/// Runs a handler. In debug builds, panics if the handler waits although it may not.
async fn step<T>(may_wait: bool, handling: impl Future<Output = T>) -> T {
    let mut handling = std::pin::pin!(handling);
    std::future::poll_fn(move |cx| {
        let polled = handling.as_mut().poll(cx);
        debug_assert!(may_wait || polled.is_ready(), "a handler waited that may not");
        polled
    })
    .await
}

impl<B: Behaviour> Inner<B> {
    /// Records an error or a panic as the last word, and passes a value on.
    fn outcome<T>(
        &self,
        result: Result<Result<T, ExitError>, Box<dyn std::any::Any + Send>>,
        what: &'static str,
        since: Instant,
    ) -> Result<T, ActorProcessingErr> {
        let reason = match result {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(ExitError(reason))) => reason,
            Err(payload) => {
                // The piece of work that the behaviour named is more exact than the message that woke it.
                let told = self.cx.node.in_hand().filter(|_| B::TELLS_ITS_WORK);
                let (message, in_hand) = told.unwrap_or((what, since.elapsed()));
                ExitReason::Panic(PanicReport {
                    message: Some(message.to_owned()),
                    in_hand_ms: millis(in_hand),
                    ..PanicReport::caught(payload.as_ref())
                })
            }
        };
        let text = reason.to_string();
        self.last_word.leave(reason);
        Err(text.into())
    }
}
