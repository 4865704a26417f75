//! What fits into a model's window: how much a conversation takes, what of it can be left out, and where it can be cut.
//!
//! All of it is functions of values. The core decides with them when to prune and when to compact; nothing here asks a model,
//! reads a clock or changes a history in place. What is left out of a request stays on the tape.

mod branch;
mod carried;
mod cut;
mod prune;
mod summary;
mod tokens;
mod window;

pub use branch::{BRANCH_SUMMARY_MAX, branch_digest, branch_prompt, common_ancestor, render_branch};
pub use carried::{Branches, Carried, FileOperations, Replaced, ReplacedCalls, Speaker, UserWords};
pub use cut::{Cut, cut};
pub use prune::{PRUNED_TEXT, PruneRule, prune};
pub use summary::{BadSummary, HEADINGS, SUMMARY_SYSTEM, Summarise, check, render, words as said};
pub use tokens::{IMAGE_TOKENS, Meter, of_item, of_text};
pub use window::{CARRY_MAX, Fullness, KEEP_RECENT, Level, RESERVE_MIN, SUMMARY_MAX, Window, carry_max, summary_max};
