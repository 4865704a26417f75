//! The processes: what runs, as opposed to what decides (`session/`) and what is (`tape`, `model`, `tool`).
//!
//! | file | what runs |
//! |---|---|
//! | `shell.rs` | the one actor of the crate, which runs any behaviour |
//! | `slot.rs` | what a session is beside its actor: its mailbox, its listeners; outlives every crash |
//! | `slots.rs` | the sessions that a runtime knows |
//! | `activation.rs` | how a session wakes up |
//! | `timekeeper.rs` | the child that puts sessions to sleep |
//! | `tape.rs` | the child that looks after the store |
//! | `tapes.rs` | the tapes of a runtime: whatever keeps them, which it has open, and how the first entry of a new one gets onto the disk |
//! | `session.rs` | a session's actor: takes its inputs, asks the core, writes the tape, does as the state says |
//! | `summary.rs` | the compaction actor: has one summary written |
//! | `worker.rs` | one model request or one tool call, as a tracked task |
//! | `links.rs` | a parent's watch over a child session |
//! | `figures.rs` | what a session shows of itself on its node |
//! | `undone.rs` | what could not be cleaned up when the store was opened |
//! | `host.rs` | what all sessions of a runtime share |

pub(crate) mod activation;
mod facts;
pub(crate) mod figures;
pub(crate) mod host;
pub(crate) mod links;
pub(crate) mod observers;
pub(crate) mod session;
pub(crate) mod slot;
pub(crate) mod slots;
pub(crate) mod store;
pub(crate) mod summary;
pub(crate) mod tapes;
pub(crate) mod timekeeper;
pub(crate) mod undone;
pub(crate) mod worker;
