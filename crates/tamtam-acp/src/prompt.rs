//! What a client says to a session: prompts, steering, and a stop.
//!
//! A prompt is answered when its turn is over and all of it was shown. A steering message is answered when the tape has it, and says
//! what becomes of it; that it was read, or taken back, is told later (`_meta.tamtam.receipt` of an update). A prompt that waits
//! when the client cancels is taken back; one whose turn runs ends with its turn.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{
    Answer, Delivery, Message, MessageId, Outcome, Receipt, SendError, Seq, Steering,
    session::{Disposition, Refusal},
};
use tokio::sync::watch;

use crate::{
    connection::{Connection, Done},
    content::{self, Block},
    held::Held,
    rpc::{Fault, params},
    sessions,
};

#[derive(Deserialize)]
struct Prompt {
    #[serde(rename = "sessionId")]
    session: String,
    prompt: Vec<Block>,
    #[serde(default, rename = "_meta")]
    meta: Option<Meta>,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(default)]
    tamtam: Choice,
    #[serde(default)]
    steering: Idle,
}

/// What a client may say of a message.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    /// Its id: sent again under it, it is not taken twice.
    message: Option<String>,
    delivery: Option<How>,
    /// What becomes of the calls of the running step.
    steering: Option<Steering>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum How {
    Queue,
    Steer,
    Reject,
}

#[derive(Default, Deserialize)]
struct Idle {
    #[serde(rename = "idleBehavior")]
    behavior: Option<IdleBehavior>,
}

/// What becomes of a steering message where no turn runs.
#[derive(Clone, Copy, PartialEq, Deserialize)]
enum IdleBehavior {
    /// It begins a turn.
    #[serde(rename = "startNewTurn")]
    Start,
    /// Nothing: the client sends it as a prompt.
    #[serde(rename = "promptRequired")]
    Prompt,
}

impl Prompt {
    fn message(&mut self) -> Result<Message, Fault> {
        let message = content::message(std::mem::take(&mut self.prompt))?;
        let id = self.meta.as_ref().and_then(|meta| meta.tamtam.message.as_deref());
        Ok(match id {
            Some(id) => message.with_id(MessageId::from(id)),
            None => message,
        })
    }

    fn steering(&self) -> Steering {
        self.meta.as_ref().and_then(|meta| meta.tamtam.steering).unwrap_or_default()
    }

    fn delivery(&self) -> Delivery {
        match self.meta.as_ref().and_then(|meta| meta.tamtam.delivery) {
            None | Some(How::Queue) => Delivery::Queue,
            Some(How::Steer) => Delivery::Steer(self.steering()),
            Some(How::Reject) => Delivery::Reject,
        }
    }
}

/// The session that a prompt is for, as far as its parameters say one.
pub(crate) fn session_of(given: &Value) -> Option<String> {
    given["sessionId"].as_str().map(str::to_owned)
}

/// Sends a prompt, and waits for the end of its turn. `stop` becomes true where the client cancels.
pub(crate) async fn prompt(
    connection: &Arc<Connection>,
    given: Value,
    mut stop: watch::Receiver<bool>,
) -> Result<Done, Fault> {
    let mut said: Prompt = params(given)?;
    let held = connection.held(&sessions::id(&said.session)?)?;
    let message = said.message()?;
    held.sends(message.id.clone());
    tokio::select! {
        biased;
        () = stopped(&mut stop) => return Ok(json!({ "stopReason": "cancelled" }).into()),
        free = held.cancelled() => free?,
    }
    let id = message.id.clone();
    let receipt = held.session.send(message, said.delivery()).await.map_err(|error| Fault::from(error).about(&id))?;
    let answer = tokio::select! {
        biased;
        () = stopped(&mut stop) => match taken_back(connection, &held, &receipt).await? {
            Some(answer) => answer,
            None => return Ok(json!({ "stopReason": "cancelled", "_meta": meta(&receipt, None) }).into()),
        },
        answer = receipt.wait() => answer?,
    };
    // The client may have loaded the session again meanwhile.
    if let Ok(held) = connection.held(held.session.id()) {
        held.shown_to_the_end(answer.turn).await;
    }
    answered(&receipt, &answer).map(Done::from)
}

/// Resolves when the client cancels.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Takes the message back, or ends the turn that reads it. `None` where it is taken back.
async fn taken_back(connection: &Connection, held: &Held, receipt: &Receipt) -> Result<Option<Answer>, Fault> {
    loop {
        match held.session.withdraw(receipt.message.clone()).await {
            Ok(()) => return Ok(None),
            Err(SendError::Refused(Refusal::NotWaiting { .. })) => {}
            Err(error) => return Err(error.into()),
        }
        let state = held.session.state().await?;
        let turn = state.turn.as_ref().filter(|turn| turn.messages.contains(&receipt.message)).map(|turn| turn.id);
        if let Some(turn) = turn {
            aborted(connection, held, turn).await?;
        }
        match receipt.wait().await {
            // Its turn was ended before the model read it, so it waits again.
            Err(SendError::Refused(Refusal::OnHold { .. })) => {}
            answer => return Ok(Some(answer?)),
        }
    }
}

fn answered(receipt: &Receipt, answer: &Answer) -> Result<Value, Fault> {
    let reason = match &answer.outcome {
        Outcome::Done => "end_turn",
        Outcome::CutShort => "max_tokens",
        Outcome::StepLimit { .. }
        | Outcome::Budget { .. }
        | Outcome::DoomLoop { .. }
        | Outcome::RecoveryLimit { .. } => "max_turn_requests",
        Outcome::Refused => "refusal",
        Outcome::Aborted { .. } | Outcome::Rejected { .. } => "cancelled",
        Outcome::Failed { error } => return Err(Fault::failed(error).kind("turn_failed")),
        other => return Err(Fault::failed(format!("the turn ended in a way that is not known here: {other:?}"))),
    };
    Ok(json!({ "stopReason": reason, "_meta": meta(receipt, Some(answer)) }))
}

fn meta(receipt: &Receipt, answer: Option<&Answer>) -> Value {
    let mut meta = json!({ "receipt": receipt });
    if let Some(answer) = answer {
        meta["turn"] = json!({
            "turn": answer.turn, "steps": answer.steps, "outcome": answer.outcome.shown(), "usage": answer.usage,
            "spent": answer.spent.shown(),
        });
    }
    json!({ "tamtam": meta })
}

/// `_session/steering`: a message into the running turn.
pub(crate) async fn steer(
    connection: &Arc<Connection>,
    given: Value,
    mut stop: watch::Receiver<bool>,
) -> Result<Done, Fault> {
    let mut said: Prompt = params(given)?;
    let held = connection.held(&sessions::id(&said.session)?)?;
    let message = said.message()?;
    let delivery = Delivery::Steer(said.steering());
    let must_run = said.meta.as_ref().and_then(|meta| meta.steering.behavior) == Some(IdleBehavior::Prompt);
    let prompt_required = || Ok(json!({ "outcome": "promptRequired", "reason": "noRunningTurn" }).into());
    let turn = match must_run {
        false => None,
        true => match held.session.state().await?.turn {
            Some(turn) => Some(turn.id),
            None => return prompt_required(),
        },
    };
    held.sends(message.id.clone());
    let cancelled = || Ok(json!({ "outcome": "failed", "reason": "the client has cancelled it" }).into());
    tokio::select! {
        biased;
        () = stopped(&mut stop) => return cancelled(),
        free = held.cancelled() => free?,
    }
    let id = message.id.clone();
    match held.session.send_to_turn(message, delivery, turn).await {
        // The client cancelled while it was on its way, when no turn had it yet.
        Ok(receipt) if *stop.borrow() => {
            let read = taken_back(connection, &held, &receipt).await?;
            match read {
                None => cancelled(),
                Some(_) => Ok(json!({ "outcome": "injected", "_meta": meta(&receipt, None) }).into()),
            }
        }
        Ok(receipt) => {
            let outcome = match receipt.disposition {
                Disposition::Steering => "injected",
                _ => "startedNewTurn",
            };
            Ok(json!({ "outcome": outcome, "_meta": meta(&receipt, None) }).into())
        }
        // The turn ended at this moment, and nothing was recorded.
        Err(SendError::Refused(Refusal::TurnMismatch { .. })) => prompt_required(),
        Err(error) => {
            // Of a message that may be on the tape, the id is what a second try needs.
            let fault = Fault::from(error).about(&id);
            Ok(json!({ "outcome": "failed", "reason": fault.message, "_meta": { "tamtam": fault.data } }).into())
        }
    }
}

/// Ends one turn; if it is over by now, none.
async fn aborted(connection: &Connection, held: &Held, turn: Seq) -> Result<(), SendError> {
    match held.session.abort_turn(turn, format!("{} cancelled it", connection.client_name())).await {
        Ok(_) | Err(SendError::Refused(Refusal::TurnMismatch { .. })) => Ok(()),
        Err(error) => Err(error),
    }
}

/// `session/cancel`: ends the turn that runs when its line is read, whoever began it. What the client sends behind it waits for that,
/// so the cancel never ends the turn of a later prompt. Returns what is left to do.
pub(crate) async fn cancel(connection: &Arc<Connection>, given: &Value) -> Option<impl Future<Output = ()> + use<>> {
    let held = session_of(given).and_then(|id| connection.held(&sessions::id(&id).ok()?).ok())?;
    let turn = held.session.peek().await.ok()?.turn?.id;
    held.may_cancel().await;
    let cancelling = held.cancels();
    let connection = connection.clone();
    Some(async move {
        if let Err(error) = aborted(&connection, &held, turn).await {
            tracing::warn!(session = %held.session.id(), %error, "a turn was not cancelled");
        }
        drop(cancelling);
    })
}
