//! [`Nodes`]: what a server asks of the other nodes, where its runtime is one of several over the same tapes.
//!
//! ```text
//! session awake here ─► the runtime, as ever
//! elsewhere, or asleep ─► Nodes::send, abort ─► 202; its node, or the first one with room, gives it to the session
//! ```
//!
//! So any node takes what is posted, and messages that wait for a session stay in one row; one that is posted where the session is
//! awake may come before those (`docs/HTTP.md`, "Several nodes"). What
//! only the process of a session has (deltas, levers, answers to asks) is refused with the name of that node. A change must keep that
//! a message goes one of the two ways: the id makes it the same message on both, and nothing else does.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tamtam::{Delivery, Message, MessageId, Outcome, Seq, SessionId, model::BoxFuture, session::State as Conversation};

use crate::{
    answer::Accepted,
    app::{App, Asked, Granted, Named, Seen},
    describe::{Answers, Operation},
    operator::{Format, wants_text},
    problem::{Answered, Problem},
    wire::message_id,
};

/// The nodes that share the tapes of a server's runtime: any of them takes messages for every session.
///
/// Given to [`Server::nodes`](crate::Server::nodes). `tamtam_postgres::Cluster` is one, with the feature `server` of its crate. The
/// futures are dropped where a client goes away: what they began may happen all the same.
pub trait Nodes: Send + Sync {
    /// Accepts a message for a session, whichever node has it. It is durable when this returns, and the same id again is the same
    /// message. What the session refuses of it later is a [`MessageStage::Refused`].
    ///
    /// # Errors
    /// If there is no such session, if too much waits for it, or if nothing can be written. Nothing was accepted, but where the
    /// kind is `unsettled`: then send it again under the same id.
    fn send<'a>(
        &'a self,
        session: &'a SessionId,
        message: Message,
        delivery: Delivery,
    ) -> BoxFuture<'a, Result<(), Problem>>;

    /// Accepts the wish to end the running turn of a session, or this turn and no other. Returns whether a turn runs: where none
    /// does, nothing was accepted, and a message that waits for its node begins one all the same.
    ///
    /// # Errors
    /// As [`Nodes::send`]; and if the named turn does not run.
    fn abort<'a>(
        &'a self,
        session: &'a SessionId,
        turn: Option<Seq>,
        reason: String,
    ) -> BoxFuture<'a, Result<bool, Problem>>;

    /// How far a message came, whichever node has its session. Wakes nothing.
    ///
    /// # Errors
    /// If there is no such session, or if it cannot be read.
    fn progress<'a>(
        &'a self,
        session: &'a SessionId,
        message: &'a MessageId,
    ) -> BoxFuture<'a, Result<MessageStage, Problem>>;

    /// All nodes with their sessions, those that are gone, and what waits for one: for programs (`docs/HTTP.md`), and as text.
    ///
    /// # Errors
    /// If it cannot be read.
    fn tree(&self) -> BoxFuture<'_, Result<(Value, String), Problem>>;
}

/// How far a message came.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "stage", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MessageStage {
    /// It is durable, and no node has given it to its session yet.
    Accepted,
    /// Nothing becomes of it until an operator unparks its session.
    Parked,
    /// The session refused it; it was never read.
    Refused {
        /// Why.
        why: String,
    },
    /// It is on the tape, and waits for its turn.
    Waiting {
        /// Whether the queue is on hold: until the next send or go-on.
        on_hold: bool,
    },
    /// It was delivered to the turn that runs.
    Running {
        /// The turn.
        turn: Seq,
    },
    /// Its turn is over.
    Over {
        /// The turn.
        turn: Seq,
        /// How it ended.
        #[serde(flatten)]
        outcome: Outcome,
        /// The newest text of the model in the turn.
        text: Arc<str>,
    },
    /// It was never sent, or it was withdrawn, or the session remembers only later turns.
    Unknown,
}

impl MessageStage {
    /// As the session says that has it.
    fn of(state: &Conversation, message: &MessageId) -> MessageStage {
        if let Some(turn) = state.turn.as_ref().filter(|turn| turn.messages.contains(message)) {
            return MessageStage::Running { turn: turn.id };
        }
        if let Some(end) = state.ended.iter().rev().find(|end| end.messages.contains(message)) {
            return MessageStage::Over { turn: end.turn, outcome: end.outcome.clone(), text: Arc::clone(&end.text) };
        }
        match state.queue.iter().chain(&state.steering).any(|waiting| waiting.message.id == *message) {
            true => MessageStage::Waiting { on_hold: state.on_hold },
            false => MessageStage::Unknown,
        }
    }
}

/// A message that another node gives to its session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PassedOn {
    /// Its id.
    message: MessageId,
    /// Always `accepted`: `GET /v1/sessions/{id}/messages/{message}` says how it goes on.
    stage: &'static str,
}

/// Gives a message to the node of its session.
pub(crate) async fn pass_on(
    nodes: &dyn Nodes,
    session: &SessionId,
    message: Message,
    delivery: Delivery,
) -> Answered<PassedOn> {
    let id = message.id.clone();
    nodes.send(session, message, delivery).await?;
    Ok(PassedOn { message: id, stage: "accepted" })
}

/// An abort that another node carries out.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AbortPassedOn {
    /// `accepted`: the turn ends when its node has read it. `nothing_runs`: no turn runs, and nothing was accepted.
    stage: &'static str,
}

impl AbortPassedOn {
    pub(crate) fn new(runs: bool) -> Accepted<AbortPassedOn> {
        Accepted(AbortPassedOn { stage: if runs { "accepted" } else { "nothing_runs" } })
    }
}

/// How far a message came.
pub(crate) async fn progress(
    State(app): State<App>,
    Seen(session): Seen,
    Named(message): Named,
) -> Answered<Json<MessageStage>> {
    let message = message_id(&message)?;
    // Also of a session that is awake here: what is accepted or refused is with the nodes, and not on its tape.
    let stage = match app.nodes.as_deref() {
        Some(nodes) => nodes.progress(session.id(), &message).await?,
        None => MessageStage::of(&session.peek().await?, &message),
    };
    match stage {
        MessageStage::Unknown => {
            Err(Problem::not_found(format!("session {} knows no message {message}", session.id())))
        }
        stage => Ok(Json(stage)),
    }
}

/// How the nodes are shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowingNodes {
    /// By default what `Accept` says, else JSON.
    format: Option<Format>,
}

/// All nodes, in the form that was asked for.
pub(crate) enum NodesAnswer {
    Json(Value),
    Text(String),
}

impl IntoResponse for NodesAnswer {
    fn into_response(self) -> Response {
        match self {
            NodesAnswer::Json(nodes) => Json(nodes).into_response(),
            NodesAnswer::Text(text) => text.into_response(),
        }
    }
}

impl Answers for NodesAnswer {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers("200", "The nodes, as `docs/HTTP.md` says.", "application/json", json!({ "type": "object" }));
        operation.responses["200"]["content"]["text/plain"] = json!({ "schema": { "type": "string" } });
    }
}

pub(crate) async fn tree(
    State(app): State<App>,
    granted: Granted,
    headers: HeaderMap,
    Asked(asked): Asked<ShowingNodes>,
) -> Answered<NodesAnswer> {
    granted.all()?;
    let nodes = app.nodes.as_ref().ok_or_else(Problem::alone)?;
    let (nodes, text) = nodes.tree().await?;
    Ok(if wants_text(asked.format, &headers) { NodesAnswer::Text(text) } else { NodesAnswer::Json(nodes) })
}
