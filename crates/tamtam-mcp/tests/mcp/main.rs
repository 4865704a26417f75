//! The client against real servers over real pipes: one that others wrote (`everything`), and one that misbehaves in every way that
//! we know (`hostile`, with `tests/hostile.mjs`). `shared` counts processes, `left` looks for what stays behind.
#![allow(clippy::unwrap_used, clippy::panic)]

mod everything;
mod hostile;
mod lab;
mod left;
mod shared;
