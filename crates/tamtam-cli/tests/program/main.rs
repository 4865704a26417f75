//! The program as its users see it: the real process, real tools, real files; scripted models.
#![allow(clippy::unwrap_used, clippy::panic)]

mod aimock;
mod canary;
mod cli;
mod flood;
mod kill;
mod processes;
mod prompts;
mod support;
