//! One turn of a session: its messages, its requests, its calls, and how it ends. The agent's loop runs in `advance.rs`.
//!
//! The folder decides which message is accepted and when it is read (`inbox.rs`), when the next request is made and again
//! (`advance.rs`, `retry.rs`, `chain.rs`), which calls of an answer run, wait for a person or are refused (`batch.rs`, `grants.rs`,
//! `question.rs`, `repeats.rs`), which agent and tools are in force (`switch.rs`, `toolset.rs`), and what becomes of open work
//! after a crash (`recover.rs`). `due.rs` names the tickets that need a worker.
//!
//! A change must keep this: every accepted message is delivered, withdrawn or still waiting. Every call of an answer gets
//! exactly one result. What follows is decided from the state and not from the input that came, so that a crash changes nothing.
//! No function here starts a worker or calls a tool.

pub(super) mod advance;
pub(super) mod agent;
pub(super) mod ahead;
pub(super) mod answer_ask;
pub(super) mod batch;
mod chain;
pub(super) mod due;
pub(super) mod edit;
pub(super) mod end;
pub(super) mod fallback;
pub(super) mod grants;
pub(super) mod inbox;
pub(super) mod judged;
pub(super) mod outcome;
pub(super) mod prepare;
pub(super) mod question;
pub(super) mod recover;
pub(super) mod repeats;
pub(super) mod retry;
pub(super) mod seen;
pub(super) mod switch;
pub(crate) mod toolset;
