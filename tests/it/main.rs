//! The integration tests: one binary, one file per room or promise.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;
#[cfg(feature = "http")]
mod wire;
