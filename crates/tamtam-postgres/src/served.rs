//! [`Cluster`] as the [`Nodes`] of a server: what `tamtam-server` asks of it, over the public methods.

use std::time::Duration;

use serde_json::{Value, json};
use tamtam::{
    Delivery, Message, MessageId, OpenError, SendError, Seq, SessionId, model::BoxFuture, session::Refusal,
    tape::TapeError,
};
use tamtam_server::{MessageStage, Nodes, Problem};

use crate::{
    Cluster, ClusterNode, ClusterSessions, ClusterTree, MessageProgress, PostgresError, cluster::MESSAGES_MAX,
};

impl Nodes for Cluster {
    fn send<'a>(
        &'a self,
        session: &'a SessionId,
        message: Message,
        delivery: Delivery,
    ) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            let id = message.id.clone();
            let sent = Cluster::send(self, session, message, delivery).await;
            sent.map(drop).map_err(|error| problem(error, Some(id)))
        })
    }

    fn abort<'a>(
        &'a self,
        session: &'a SessionId,
        turn: Option<Seq>,
        reason: String,
    ) -> BoxFuture<'a, Result<bool, Problem>> {
        Box::pin(async move {
            let unsettled = |error| problem(error, None);
            let running = self.turn_of(session).await.map_err(unsettled)?;
            match (turn, running) {
                (Some(expected), actual) if actual != Some(expected) => {
                    Err(SendError::from(Refusal::TurnMismatch { expected, actual }).into())
                }
                (_, None) => Ok(false),
                (_, Some(running)) => self.abort_turn(session, running, reason).await.map(|()| true).map_err(unsettled),
            }
        })
    }

    fn progress<'a>(
        &'a self,
        session: &'a SessionId,
        message: &'a MessageId,
    ) -> BoxFuture<'a, Result<MessageStage, Problem>> {
        Box::pin(async move {
            Ok(match Cluster::progress(self, session, message).await? {
                MessageProgress::Accepted => MessageStage::Accepted,
                MessageProgress::Parked => MessageStage::Parked,
                MessageProgress::Refused(why) => MessageStage::Refused { why },
                MessageProgress::Waiting { on_hold } => MessageStage::Waiting { on_hold },
                MessageProgress::Running(turn) => MessageStage::Running { turn },
                MessageProgress::Over(end) => {
                    MessageStage::Over { turn: end.turn, outcome: end.outcome.clone(), text: end.text.clone() }
                }
                MessageProgress::Unknown => MessageStage::Unknown,
            })
        })
    }

    fn tree(&self) -> BoxFuture<'_, Result<(Value, String), Problem>> {
        Box::pin(async move {
            let tree = Cluster::tree(self).await?;
            Ok((shown(&tree), tree.to_string()))
        })
    }
}

/// A full inbox is a limit, as that of a session is, and no matter of the disk. What a server that is out of reach may have taken is
/// unsettled.
fn problem(error: TapeError, message: Option<MessageId>) -> Problem {
    match &error {
        TapeError::Engine(ours) if matches!(ours.downcast_ref(), Some(PostgresError::InboxFull { .. })) => {
            SendError::from(Refusal::InboxFull { depth: usize::try_from(MESSAGES_MAX).unwrap_or(usize::MAX) }).into()
        }
        TapeError::Unreachable(_) => SendError::Unsettled { message }.into(),
        _ => OpenError::from(error).into(),
    }
}

fn shown(tree: &ClusterTree) -> Value {
    let nodes: Vec<Value> = tree.nodes.iter().map(node).collect();
    json!({ "nodes": nodes, "waiting": sessions(&tree.waiting), "parked": sessions(&tree.parked) })
}

fn node(node: &ClusterNode) -> Value {
    let ms = |time: Option<Duration>| time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    json!({
        "id": node.id,
        "name": node.name,
        "pid": node.pid,
        "is_live": node.gone.is_none(),
        "joined_ms": ms(node.joined),
        "gone_ms": ms(node.gone),
        "sessions": sessions(&node.sessions),
    })
}

fn sessions(sessions: &ClusterSessions) -> Value {
    let shown = sessions
        .shown
        .iter()
        .map(|one| json!({ "session": one.session, "in_turn": one.in_turn, "messages": one.messages }));
    json!({ "count": sessions.count, "shown": shown.collect::<Vec<_>>() })
}
