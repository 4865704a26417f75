//! The tools that come with the runtime.

pub mod bash;
