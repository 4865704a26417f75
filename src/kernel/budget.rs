//! What a session may use, what it has used, and what that cost.
//!
//! The folder has the values of a budget (`limits.rs`, `breach.rs`, `spent.rs`), the account of what is used, reserved and left
//! (`account.rs`), the decisions that follow from it before each request, call and task (`spending.rs`), and the bill (`bill.rs`).
//!
//! A change must keep this: an amount is reserved before the work that uses it begins, and each amount is charged once, by
//! `bill::charged`, for the state and for the bill alike. What a child is granted is never more than what is left of its
//! parent's budget. Limits, breaches and sums are stored formats.

pub(super) mod account;
pub(super) mod bill;
pub(super) mod breach;
pub(super) mod limits;
pub(super) mod spending;
pub(super) mod spent;
