//! The actors and tasks of a runtime, and what they share. They do what the core (`kernel/`) decides, with the rooms below
//! (`tape`, `model`, `tool`).
//!
//! A change must keep three rules. No actor decides anything about a turn: the core does. No actor holds state of a conversation
//! that its tape does not have, except the one decision that is being written; inputs that wait, and events for listeners, are in
//! the slot. No actor handles a message by waiting for a model's answer, a tool, a hook, a person or a slow disk, because the
//! actor would hear no stop meanwhile: such waits are tasks of their own. Two calls of a host's code stay in a session's actor:
//! the limits and price of a model (`known_models.rs`), and a tape engine of the host.
//!
//! | file | what runs |
//! |---|---|
//! | `session.rs` | a session's actor: takes its inputs, asks the core, writes the tape, does as the state says |
//! | `worker.rs` | one model request or one tool call, as a tracked task |
//! | `compaction.rs` | the compaction actor: has one summary written |
//! | `tape_store.rs` | the tape store's actor: has tapes claimed, opened and made, and old sessions swept |
//! | `timekeeper.rs` | the child that puts idle sessions to sleep, and wakes those that went down with their supervisor |
//! | `child.rs` | a parent's watch over a child session, as a task |
//! | `observers.rs` | the hooks that watch, each behind a queue of its own |
//!
//! And what they share:
//!
//! | file | what it is |
//! |---|---|
//! | `shared.rs` | the shared context of one runtime |
//! | `slot.rs` | the part of a session that outlives its actor: its mailbox, the callers who wait, its listeners |
//! | `slots.rs` | the table of the slots of a runtime |
//! | `activation.rs` | how a session wakes up |
//! | `bring_up.rs` | waking a session and waiting for it; making a child |
//! | `tapes.rs` | the tapes of a runtime: the engine that keeps them, and the open ones |
//! | `known_models.rs` | the host's models, and what is known of them |
//! | `call_context.rs` | the context that a running call gets |
//! | `questions.rs` | how a running call asks people, and how long it has waited for them |
//! | `modes.rs` | how a running call enters and leaves plan mode |
//! | `facts.rs` | what a tool says of a call before it is judged |
//! | `limits.rs` | bounds that a host may narrow: on messages, and on models |
//! | `figures.rs` | what a session shows of itself on its node |
//! | `undone.rs` | clean-ups that failed when the store was opened |

pub(crate) mod activation;
pub(crate) mod bring_up;
mod call_context;
pub(crate) mod child;
pub(crate) mod compaction;
mod facts;
pub(crate) mod figures;
pub(crate) mod known_models;
pub(crate) mod limits;
#[cfg(all(unix, feature = "tools"))]
mod modes;
pub(crate) mod observers;
mod questions;
pub(crate) mod session;
pub(crate) mod shared;
pub(crate) mod slot;
pub(crate) mod slots;
pub(crate) mod tape_store;
pub(crate) mod tapes;
pub(crate) mod timekeeper;
pub(crate) mod undone;
mod worker;
pub(crate) mod worker_context;
