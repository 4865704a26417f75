//! The conversation over time: how it goes back, forks, merges and begins a new anchor, and what lists and pages show of it.
//!
//! The folder decides rollbacks and their points (`back.rs`, `trail.rs`), branch summaries (`branch.rs`), merges (`merge.rs`,
//! `said.rs`), anchors (`handoff.rs`) and the first entries of a tape (`first.rs`). It folds entries to what a list or a page
//! shows (`digest.rs`, `transcript.rs`).
//!
//! A change must keep this: nothing leaves the tape, the conversation changes only between turns, and an entry that was worked
//! out for another state of the conversation is refused. No tape is read here; the caller passes the entries in.

pub(super) mod back;
pub(super) mod branch;
pub(super) mod changes;
pub(super) mod digest;
pub(super) mod first;
pub(super) mod handoff;
pub(super) mod merge;
pub(super) mod restored;
pub(super) mod said;
pub(super) mod trail;
pub(super) mod transcript;
