//! What a parent session and its children say to each other, decided on each side from its own tape.
//!
//! The folder has the values that both tapes hold (`link.rs`), the parent's side of a task (`tasks.rs`), the child's side
//! (`child.rs`), and the questions of children on the tape of their parent (`task_ask.rs`).
//!
//! A change must keep this: a task has exactly one end, a DOWN or an orphaned child. Every command between the two sides may
//! come again after a crash, and must then change nothing. The rights and the budget of a child only narrow.

pub(super) mod child;
pub(super) mod link;
pub(super) mod task_ask;
pub(super) mod tasks;
