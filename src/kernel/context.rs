//! What fits into a model's window: how large a conversation is, what of it can be left out, and where it can be cut.
//!
//! All of it is functions of values, with which the core decides when to prune and when to compact. Nothing here asks a model,
//! reads a clock or changes a history in place. What is left out of a request stays on the tape. The texts and the numbers that are
//! computed here go into decisions and states. A change must keep them, because existing tapes would otherwise replay to other
//! decisions; the text of a request for a summary may change, because no tape has it.

mod branch;
mod carried;
mod cut;
mod files;
mod prune;
mod summary;
mod tokens;
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
