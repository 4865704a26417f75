//! The figures of a session on its node in the tree: its turn and step, its tokens and cost, its budget left, its tasks that
//! wait, its to-do list, the end of its tape.
//!
//! A change must keep three things. Figures are numbers, fixed words and the host's labels, never content of the conversation, because
//! they stand in the tree and in crash reports, which anyone may see. The field names in `Fields`, and those of the types
//! in it, are JSON that hosts read there, so none may be renamed or dropped. An unknown cost is never shown as 0.

use serde::Serialize;

use crate::{
    kernel::{Limits, ShownLimits},
    supervisor::{Node, Payload},
    words::ids::Seq,
    words::is_default,
    words::labels::Labels,
    words::usage::{Cost, ShownCost, Usage},
};

/// Where in its conversation a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct At {
    /// The turn.
    pub turn: Seq,
    /// The step of the turn.
    pub step: u32,
}

/// The figures of a session, as its node shows them.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct SessionFigures {
    /// The turn and step that the session is in; `None` outside of a turn.
    pub at: Option<At>,
    /// The tokens used by the session, by its tasks that are over, and by the forks merged into it.
    pub usage: Usage,
    /// The cost of these tokens.
    #[serde(flatten, with = "crate::event::shown::cost")]
    pub cost: Cost,
    /// The rest of each limit of its budget.
    #[serde(with = "crate::event::shown::limits")]
    pub left: Limits,
    /// How many of its tasks wait for room: their children are not made yet.
    pub tasks_queued: usize,
    /// How many items of its to-do list are open.
    pub todos_open: usize,
    /// How many items its to-do list has.
    pub todos: usize,
    /// The seq of the last entry on its tape.
    pub tape_seq: Seq,
    /// What its host says of it, such as its tenant. In the tree's JSON, and not in its text.
    pub labels: Labels,
}

impl SessionFigures {
    /// The figures on a node; `None` if the node is not a session, or has not presented any yet.
    #[must_use]
    pub fn of(node: &Node) -> Option<&SessionFigures> {
        node.payload.get()
    }

    /// The tokens that the model read, cached or not.
    fn tokens_in(&self) -> u64 {
        self.usage.input.saturating_add(self.usage.cache_read).saturating_add(self.usage.cache_write)
    }

    /// The tokens that the model wrote, reasoning included.
    fn tokens_out(&self) -> u64 {
        self.usage.output.saturating_add(self.usage.reasoning)
    }
}

/// The fields that a session adds to its node's JSON.
#[derive(Serialize)]
struct Fields {
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<At>,
    tokens: u64,
    tokens_in: u64,
    tokens_out: u64,
    #[serde(flatten)]
    cost: ShownCost,
    #[serde(skip_serializing_if = "is_default")]
    left: ShownLimits,
    #[serde(skip_serializing_if = "is_default")]
    tasks_queued: usize,
    #[serde(skip_serializing_if = "is_default")]
    todos_open: usize,
    #[serde(skip_serializing_if = "is_default")]
    todos: usize,
    tape_seq: Seq,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    labels: Labels,
}

impl Payload for SessionFigures {
    fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        if self.usage.total() > 0 {
            facts.push(format!("tokens {} in {} out", self.tokens_in(), self.tokens_out()));
        }
        let cost = self.cost.shown();
        match (cost.cost, cost.cost_at_least) {
            (Some(cost), _) if cost.0 > 0 => facts.push(format!("cost {cost}")),
            (None, Some(cost)) => facts.push(format!("cost {cost} or more")),
            (None, None) => facts.push("cost unknown".to_owned()),
            (Some(_), _) => {}
        }
        if !self.left.is_none() {
            facts.push(format!("left {}", self.left));
        }
        if self.tasks_queued > 0 {
            facts.push(format!("tasks queued {}", self.tasks_queued));
        }
        if self.todos > 0 {
            facts.push(format!("to-do {} of {} open", self.todos_open, self.todos));
        }
        if self.tape_seq > Seq::ZERO {
            facts.push(format!("tape {}", self.tape_seq));
        }
        facts
    }

    fn fields(&self) -> serde_json::Value {
        let fields = Fields {
            turn: self.at,
            tokens: self.usage.total(),
            tokens_in: self.tokens_in(),
            tokens_out: self.tokens_out(),
            cost: self.cost.shown(),
            left: self.left.shown(),
            tasks_queued: self.tasks_queued,
            todos_open: self.todos_open,
            todos: self.todos,
            tape_seq: self.tape_seq,
            labels: self.labels.clone(),
        };
        // Numbers and texts only, so it cannot fail.
        serde_json::to_value(fields).unwrap_or_default()
    }
}
