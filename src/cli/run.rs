//! `run` and `resume`: one session, driven from the outside to the end of its turns.
//!
//! ```text
//! stdin ─► listener: one line after the other is carried out and answered ─┐
//! Ctrl-C ─► abort; a second one leaves                                     ├─► output (its own thread)
//! session's events ─► shown as they come ──────────────────────────────────┘
//! ```
//!
//! The command ends when the session is idle, with the outcome of its newest turn. It leaves a session that runs (to be gone
//! on with by `resume`) where the tape cannot be written, nobody reads its output, or Ctrl-C is pressed twice.

mod listener;
mod open;
mod view;

use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tamtam::{
    EventKind, Message, Outcome, Runtime, SendError, Seq, Session,
    model::ErrorKind,
    session::{EventStream, Next, Spent, TurnEnd},
};

use super::{
    arguments::{ResumeArguments, RunArguments},
    attach, escape,
    failure::{Exit, Failure},
    models,
    output::Output,
    place::Environment,
};
use listener::Listener;
use open::Opened;
use view::View;

/// How long the tree may take to go down.
const LEAVE_LIMIT: Duration = Duration::from_secs(12);

/// One prompt to its end.
pub(super) async fn run(given: RunArguments, environment: &Environment) -> Result<Exit, Failure> {
    let mut prompt = Message::user(given.prompt.join(" "));
    for path in &given.file {
        prompt = prompt.with_part(attach::part(path)?);
    }
    let opened = open::for_run(&given, environment).await?;
    drive(opened, Some(prompt), given.turn.json).await
}

/// What was begun, to its end.
pub(super) async fn resume(given: ResumeArguments, environment: &Environment) -> Result<Exit, Failure> {
    let opened = open::for_resume(&given, environment).await?;
    drive(opened, None, given.turn.json).await
}

/// How the driving ended.
enum Ended {
    /// Nothing runs and nothing waits to run.
    Idle,
    /// It goes on another time.
    Left(Failure),
}

async fn drive(opened: Opened, prompt: Option<Message>, json: bool) -> Result<Exit, Failure> {
    let Opened { runtime, session, events, hints, asked } = opened;
    let output = Output::start().map_err(|error| Failure::failed(format!("failed to start: {error}")))?;
    let mut drive = Drive {
        view: View::new(json, session.clone(), output.clone()),
        runtime: runtime.clone(),
        session,
        events,
        output,
        hints,
        is_resumed: prompt.is_none(),
        failed_with: None,
        has_ended: false,
    };
    let ended = drive.carry_through(prompt, &asked).await;
    let Drive { view, failed_with, hints, output, .. } = drive;
    let used = ended.as_ref().ok().and_then(|end| used(end.as_deref()?));
    let (exit, result, message) = match ended {
        Ok(end) => finished(end.as_deref(), failed_with, &hints),
        Err(failure) => {
            let result = json!({"outcome": "interrupted", "error": failure.message});
            (failure.exit, result, failure.message)
        }
    };
    if let Some(line) = used.filter(|_| !json) {
        view.note(line).await;
    }
    view.result(result).await;
    output.finish().await;
    let shut = tokio::time::timeout(LEAVE_LIMIT, runtime.shutdown()).await;
    if let Ok(leftover) = shut
        && !leftover.is_empty()
    {
        tracing::warn!(?leftover, "something could not be stopped");
    }
    if exit == Exit::Done || message.is_empty() { Ok(exit) } else { Err(Failure { exit, message }) }
}

/// What is driven, and by what.
struct Drive {
    runtime: Runtime,
    session: Session,
    events: EventStream,
    output: Output,
    view: View,
    hints: Hints,
    /// Whether what was begun is gone on with because the user said so: then an interrupted turn does not wait for that.
    is_resumed: bool,
    /// The kind of the newest failure of a model request.
    failed_with: Option<ErrorKind>,
    /// Whether a turn has ended since the beginning.
    has_ended: bool,
}

/// What a failed request is explained with.
pub(super) struct Hints {
    pub(super) key_from: String,
    pub(super) base_url: String,
}

impl Drive {
    /// The turn that ended last since the beginning; `None` where there was none.
    async fn carry_through(
        &mut self,
        prompt: Option<Message>,
        asked: &[Seq],
    ) -> Result<Option<std::sync::Arc<TurnEnd>>, Failure> {
        self.view.begin().await;
        self.ask_again(asked).await?;
        let mut listener = Listener::start(self.runtime.clone(), self.session.clone(), self.view.clone())
            .map_err(|error| Failure::failed(format!("failed to start: {error}")))?;
        if let Some(prompt) = prompt {
            self.session.prompt(prompt).await?;
        }
        let ended = self.until_idle(&mut listener).await;
        listener.stop().await;
        match ended? {
            Ended::Left(failure) => Err(failure),
            Ended::Idle => {
                let state = self.session.state().await?;
                Ok(state.ended.back().filter(|_| self.has_ended).cloned())
            }
        }
    }

    /// Shows questions that were asked before this process began.
    async fn ask_again(&self, asked: &[Seq]) -> Result<(), Failure> {
        for ask in asked {
            let mut events = self.session.events_after(Seq(ask.0.saturating_sub(1))).await?;
            if let Some(Next::Event(event)) = events.next().await {
                self.view.event(&event).await;
            }
        }
        Ok(())
    }

    async fn until_idle(&mut self, listener: &mut Listener) -> Result<Ended, Failure> {
        loop {
            let session = self.session.clone();
            let idle = session.wait();
            tokio::pin!(idle);
            loop {
                tokio::select! {
                    // What happened is shown before it is looked at whether more can come.
                    biased;
                    left = listener.left() => return Ok(Ended::Left(left)),
                    () = self.output.closed() => return Ok(Ended::Left(Failure::quiet(Exit::Failed))),
                    next = self.events.next() => {
                        if let Some(left) = self.take(next).await? {
                            return Ok(Ended::Left(left));
                        }
                    }
                    idle = &mut idle => {
                        idle?;
                        break;
                    }
                }
            }
            // Commands that were there before the turn ended are carried out; they may begin another one.
            listener.catch_up().await;
            while let Some(next) = self.events.next().now_or_never() {
                let is_over = next.is_none();
                if let Some(left) = self.take(next).await? {
                    return Ok(Ended::Left(left));
                }
                if is_over {
                    break;
                }
            }
            if self.session.state().await?.is_idle() {
                return Ok(Ended::Idle);
            }
        }
    }

    /// Shows what happened, and says whether that is a reason to leave.
    async fn take(&mut self, next: Option<Next>) -> Result<Option<Failure>, Failure> {
        let event = match next {
            Some(Next::Event(event)) => event,
            Some(Next::Lagged(missed)) => {
                let after = self.view.last_seen();
                tracing::info!(missed, %after, "reading missed events from the tape");
                self.events = self.session.events_after(after).await?;
                return Ok(None);
            }
            None => return Err(SendError::Closed.into()),
        };
        self.view.event(&event).await;
        Ok(match &event.kind {
            EventKind::RequestFailed { kind, .. } => {
                self.failed_with = Some(*kind);
                None
            }
            EventKind::StepFinished { .. } => {
                self.failed_with = None;
                None
            }
            EventKind::TurnFinished { .. } => {
                self.has_ended = true;
                None
            }
            EventKind::StorageFailed { error } => Some(Failure::failed(format!(
                "{error}: free some space; nothing that was accepted is lost, `tamtam resume {}` continues",
                self.session.id()
            ))),
            EventKind::SessionRecovered { resumed: false, .. } if !self.is_resumed => Some(Failure::failed(format!(
                "the session crashed twice without progress; `tamtam resume {}` tries again",
                self.session.id()
            ))),
            _ => None,
        })
    }
}

/// The last line for people: what the newest turn used, and what that cost.
fn used(end: &TurnEnd) -> Option<String> {
    let Spent { requests, estimated, usage, cost, .. } = end.spent;
    let read = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let written = usage.output.saturating_add(usage.reasoning);
    let about = if estimated > 0 { "about " } else { "" };
    (requests > 0).then(|| format!("{about}{read} tokens in, {written} out; cost {cost}"))
}

/// Exit code, result and the line on stderr of a session that is idle.
fn finished(end: Option<&TurnEnd>, failed_with: Option<ErrorKind>, hints: &Hints) -> (Exit, Value, String) {
    let Some(end) = end else {
        return (Exit::Done, json!({"outcome": "idle"}), String::new());
    };
    let TurnEnd { turn, outcome, text, steps, spent, .. } = end;
    let mut result = json!(outcome);
    if let Some(result) = result.as_object_mut() {
        result.extend([
            ("text".to_owned(), json!(text)),
            ("turn".to_owned(), json!(turn)),
            ("steps".to_owned(), json!(steps)),
            ("usage".to_owned(), json!(spent.usage)),
        ]);
        if spent.estimated > 0 {
            result.insert("estimated".to_owned(), json!(spent.estimated));
        }
        if let Value::Object(cost) = json!(spent.cost.shown()) {
            result.extend(cost);
        }
    }
    let message = match outcome {
        Outcome::Done => String::new(),
        Outcome::Failed { error } => format!("{}{}", escape::short(error, 500), hint(failed_with, hints)),
        Outcome::Aborted { reason } => format!("aborted: {}", escape::short(reason, 200)),
        Outcome::Rejected { tool } => format!("stopped: {} was rejected", escape::line(tool)),
        Outcome::StepLimit { steps } => format!("stopped after {steps} steps: give it more with --max-steps"),
        Outcome::Budget { breach } => format!("stopped: {breach}: raise it with --budget-usd or --budget-tokens"),
        Outcome::CutShort => "the answer reached the model's limit of output tokens: ask for less at once".to_owned(),
        Outcome::Refused => "the provider withheld the answer: say it another way or choose another --model".to_owned(),
        other => format!("{other:?}"),
    };
    (Exit::of(outcome), result, message)
}

/// What to do about a request that failed.
fn hint(kind: Option<ErrorKind>, hints: &Hints) -> String {
    let at = models::shown(&hints.base_url);
    match kind {
        Some(ErrorKind::Auth) if hints.key_from.is_empty() => format!(": {at} does not accept this key"),
        Some(ErrorKind::Auth) => format!(": check the key in {}", hints.key_from),
        Some(ErrorKind::NotFound) => format!(": check --model and --base-url ({at})"),
        Some(ErrorKind::RateLimited | ErrorKind::RetryAfterTooLong | ErrorKind::Overloaded) => {
            ": try again later, or choose another --model".to_owned()
        }
        Some(ErrorKind::Network | ErrorKind::Timeout) if !at.is_empty() => {
            format!(": is the server at {at} up? Check --base-url and the network")
        }
        _ => String::new(),
    }
}
