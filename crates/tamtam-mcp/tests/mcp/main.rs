//! The client against real servers over real pipes: those that others wrote (`everything`, `judges`), and one that misbehaves in
//! every way that we know (`hostile`, with `tests/hostile.mjs`). `sessions` has whole turns, `shared` counts processes, `left` looks
//! for what stays behind. Every tape is replayed at the end of its test, with no server there.
#![allow(clippy::unwrap_used, clippy::panic)]

mod conformance;
mod deferred;
mod door;
mod everything;
mod hostile;
mod judges;
mod lab;
mod left;
mod sessions;
mod shared;
#[allow(dead_code, reason = "the tests of the library use more of it")]
#[path = "../../../../tests/it/support/taped.rs"]
mod taped;
mod web;
