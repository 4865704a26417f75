//! The actors and tasks of a runtime, and what they share. They do what the core (`kernel/`) decides, with the rooms below
//! (`tape`, `model`, `tool`). Begin with `session.rs`, a session's actor, and `slot.rs`, the part of a session that outlives it;
//! docs/ARCHITECTURE.md lists all files.
//!
//! A change must keep three rules. No actor decides anything about a turn: the core does. No actor holds state of a conversation
//! that its tape does not have, except the one decision that is being written; inputs that wait, and events for listeners, are in
//! the slot. No actor handles a message by waiting for a model's answer, a tool, a hook, a person or a slow disk, because the
//! actor would hear no stop meanwhile: such waits are tasks of their own. Two calls of a host's code stay in a session's actor:
//! the limits and price of a model (`known_models.rs`), and a tape engine of the host.
//!
//! Files import downwards as rooms do. Only `shared.rs`, `slot.rs` and `slots.rs` name each other: the runtime has slots, and a slot
//! finds its runtime.

pub(crate) mod activation;
pub(crate) mod bring_up;
mod call_context;
pub(crate) mod child;
pub(crate) mod compaction;
pub(crate) mod counters;
mod facts;
pub(crate) mod figures;
pub(crate) mod governors;
pub(crate) mod known_models;
pub(crate) mod limits;
mod milestone;
#[cfg(all(unix, feature = "tools"))]
mod modes;
pub(crate) mod observers;
mod outputs;
mod questions;
mod send_on;
pub(crate) mod session;
pub(crate) mod shared;
pub(crate) mod slot;
pub(crate) mod slots;
pub(crate) mod tape_store;
pub(crate) mod tapes;
pub(crate) mod timekeeper;
pub(crate) mod toolset;
pub(crate) mod trace_link;
pub(crate) mod undone;
mod worker;
pub(crate) mod worker_context;
