//! What fits into a model's window: how much a conversation takes, what of it can be left out, and where it can be cut.
//!
//! All of it is functions of values. The core decides with them when to prune and when to compact; nothing here asks a model,
//! reads a clock or changes a history in place. What is left out of a request stays on the tape.

mod cut;
mod prune;
mod summary;
mod tokens;
mod window;

pub use cut::{Cut, cut};
pub use prune::{PRUNED_TEXT, PruneRule, prune};
pub use summary::{
    BadSummary, FileOperations, HEADINGS, Replaced, SUMMARY_SYSTEM, Summarise, USER_WORDS_TOKENS_MAX, UserWords, check,
    render,
};
pub use tokens::{IMAGE_TOKENS, Meter, of_item, of_text};
pub use window::{KEEP_RECENT, Level, RESERVE_MIN, Window};
