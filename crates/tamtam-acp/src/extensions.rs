//! What the protocol has no method for, under names that begin with `_tamtam/`: the queue, going back, branches, the tree, budgets.
//!
//! One table ([`EXTENSIONS`]) is what is answered and what `initialize` lists; `docs/EDITORS.md` describes each.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{
    MessageId, Seq, Session,
    model::MicroUsd,
    session::{ForkOptions, Point, RollbackTarget},
};

use crate::{
    connection::{Connection, Done},
    content::{self, Block},
    rpc::{Fault, params},
    sessions::{self, Named},
};

type Handler = for<'a> fn(&'a Connection, Value) -> BoxFuture<'a, Result<Value, Fault>>;

/// Each method with what answers it.
pub(crate) const EXTENSIONS: [(&str, Handler); 8] = [
    ("_tamtam/queue", |connection, given| Box::pin(queue(connection, given))),
    ("_tamtam/edit", |connection, given| Box::pin(edit(connection, given))),
    ("_tamtam/withdraw", |connection, given| Box::pin(withdraw(connection, given))),
    ("_tamtam/go_on", |connection, given| Box::pin(go_on(connection, given))),
    ("_tamtam/fork", |connection, given| Box::pin(fork(connection, given))),
    ("_tamtam/rollback", |connection, given| Box::pin(rollback(connection, given))),
    ("_tamtam/tree", |connection, _| Box::pin(tree(connection))),
    ("_tamtam/budget", |connection, given| Box::pin(budget(connection, given))),
];

/// Answers an extension; `None` where there is none of this name.
pub(crate) async fn answer(connection: &Arc<Connection>, method: &str, given: Value) -> Option<Result<Done, Fault>> {
    let (_, handler) = EXTENSIONS.iter().find(|(name, _)| *name == method)?;
    Some(handler(connection, given).await.map(Done::from))
}

fn session_of(connection: &Connection, named: &str) -> Result<Session, Fault> {
    Ok(connection.held(&sessions::id(named)?)?.session.clone())
}

/// The messages that wait, next first.
async fn queue(connection: &Connection, given: Value) -> Result<Value, Fault> {
    let named: Named = params(given)?;
    let waiting = session_of(connection, &named.session)?.queue().await?;
    let shown = waiting.iter().map(|one| {
        let text: String = one.message.text().chars().take(2_000).collect();
        json!({ "message": one.message.id, "seq": one.seq, "delivery": one.delivery, "text": text })
    });
    Ok(json!({ "waiting": shown.collect::<Vec<_>>() }))
}

#[derive(Deserialize)]
struct OfMessage {
    #[serde(rename = "sessionId")]
    session: String,
    message: String,
    #[serde(default)]
    prompt: Vec<Block>,
}

async fn edit(connection: &Connection, given: Value) -> Result<Value, Fault> {
    let edit: OfMessage = params(given)?;
    let message = content::message(edit.prompt)?.with_id(MessageId::from(edit.message.as_str()));
    session_of(connection, &edit.session)?.edit(message).await?;
    Ok(json!({}))
}

async fn withdraw(connection: &Connection, given: Value) -> Result<Value, Fault> {
    let taken: OfMessage = params(given)?;
    session_of(connection, &taken.session)?.withdraw(MessageId::from(taken.message.as_str())).await?;
    Ok(json!({}))
}

/// Releases what is on hold, and goes on with a turn that was cut off.
async fn go_on(connection: &Connection, given: Value) -> Result<Value, Fault> {
    let named: Named = params(given)?;
    session_of(connection, &named.session)?.go_on().await?;
    Ok(json!({}))
}

/// A point of a conversation, by exactly one of its fields.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct At {
    seq: Option<u64>,
    before_message: Option<String>,
    before_turn: Option<u64>,
}

impl At {
    fn point(&self) -> Result<Option<Point>, Fault> {
        Ok(match (self.seq, self.before_message.as_deref(), self.before_turn) {
            (None, None, None) => None,
            (Some(seq), None, None) => Some(Point::At(Seq(seq))),
            (None, Some(message), None) => Some(Point::BeforeMessage(MessageId::from(message))),
            (None, None, Some(turn)) => Some(Point::BeforeTurn(Seq(turn))),
            _ => return Err(Fault::bad_params("one of seq, beforeMessage and beforeTurn names a point")),
        })
    }
}

#[derive(Deserialize)]
struct Branching {
    #[serde(rename = "sessionId")]
    session: String,
    /// The id of the fork: the same request finds it again.
    fork: Option<String>,
    #[serde(flatten)]
    at: At,
}

/// Makes a session that goes on from a point of this one; the client loads it.
async fn fork(connection: &Connection, given: Value) -> Result<Value, Fault> {
    let given: Branching = params(given)?;
    let mut options = given.at.point()?.map_or_else(ForkOptions::newest, ForkOptions::at);
    if let Some(fork) = given.fork {
        options = options.id(sessions::id(&fork)?);
    }
    let fork = session_of(connection, &given.session)?.fork(options).await?;
    Ok(json!({ "sessionId": fork.id() }))
}

#[derive(Deserialize)]
struct Back {
    #[serde(rename = "sessionId")]
    session: String,
    #[serde(default)]
    redo: bool,
    #[serde(flatten)]
    at: At,
}

/// Goes back to a point: without one, before the newest message of the user.
async fn rollback(connection: &Connection, given: Value) -> Result<Value, Fault> {
    let back: Back = params(given)?;
    let target = match (back.at.point()?, back.redo) {
        (Some(_), true) => return Err(Fault::bad_params("redo goes to no point: leave one of them out")),
        (Some(point), false) => RollbackTarget::Point(point),
        (None, true) => RollbackTarget::Redo,
        (None, false) => RollbackTarget::Undo,
    };
    let session = session_of(connection, &back.session)?;
    let done = session.rollback_with(target, tamtam::session::RollbackOptions::new()).await?;
    Ok(json!({ "entry": done.entry, "to": done.to, "gone": done.gone }))
}

/// The supervision tree of the agent's process, as data and as text.
async fn tree(connection: &Connection) -> Result<Value, Fault> {
    let tree = connection.runtime.tree();
    Ok(json!({ "tree": tree, "text": tree.to_string() }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Limit {
    session_id: String,
    tokens: Option<u64>,
    micro_usd: Option<u64>,
}

/// What a session has used and may use; with `tokens` or `microUsd` it is limited to that first.
async fn budget(connection: &Connection, given: Value) -> Result<Value, Fault> {
    let limit: Limit = params(given)?;
    let session = session_of(connection, &limit.session_id)?;
    if limit.tokens.is_some() || limit.micro_usd.is_some() {
        let change = |settings: &mut tamtam::session::Settings| {
            let own = &mut settings.budget.session;
            own.tokens = limit.tokens.or(own.tokens);
            own.usd = limit.micro_usd.map(|micro| MicroUsd(micro).to_pico()).or(own.usd);
        };
        session.configure(change).await?;
    }
    let state = session.state().await?;
    let limits = state.settings.budget.session.shown();
    Ok(json!({ "limits": limits, "spent": state.spent_in_all().shown(), "left": state.left().shown() }))
}
