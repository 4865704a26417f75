//! What fits into a model's window: how large a conversation is, what is left out of it, and what replaces its older part.
//!
//! The folder measures (`tokens.rs`, `window.rs`, `bytes.rs`), prunes and cuts (`prune.rs`, `files.rs`, `cut.rs`), decides when
//! to compact (`compact.rs`) and what is carried on (`summary.rs`, `carried.rs`, `pin.rs`), and undoes a compaction (`undo.rs`).
//! `sections.rs` divides the system prompt, and `cached.rs` says why a provider did not read a request from its cache.
//!
//! Nothing here asks a model, reads a clock or changes a history in place. What is left out of a request stays on the tape. The
//! texts and the numbers that are computed here go into decisions and states. A change must keep them, because existing tapes
//! would otherwise replay to other decisions; the text of a request for a summary may change, because no tape has it.

mod branch;
pub(super) mod bytes;
pub(super) mod cached;
mod carried;
pub(super) mod compact;
pub(super) mod compaction;
mod cut;
mod files;
pub(super) mod fullness;
pub(super) mod pin;
pub(super) mod prefix;
mod prune;
pub(super) mod sections;
mod summary;
mod tokens;
pub(super) mod undo;
mod window;

pub(crate) use branch::{BRANCH_SUMMARY_MAX, branch_digest, branch_prompt, render_branch};
pub use carried::FileOperations;
pub(crate) use carried::{Carried, Replaced, Speaker};
pub(crate) use cut::{Cut, cut};
pub(crate) use files::{bytes_of, with_files, without_files};
pub(crate) use prune::{PRUNED_TEXT, PruneRule, prune};
pub use summary::SUMMARY_SYSTEM;
pub(crate) use summary::{BadSummary, Summarise, check, render, words as said};
pub use tokens::estimated_tokens;
pub(crate) use tokens::{Meter, of_item, of_text};
pub use window::Fullness;
pub(crate) use window::{Level, RESERVE_MIN, SUMMARY_MAX, Window, carry_max, learned, summary_max};
