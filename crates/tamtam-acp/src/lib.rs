//! A [Tamtam](tamtam) runtime for editors: the [Agent Client Protocol](https://agentclientprotocol.com), version 1.
//!
//! ```
//! use std::sync::Arc;
//! use tamtam::{Runtime, SessionOptions, model::Scripted};
//! use tamtam_acp::{AcpOptions, serve};
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! let runtime = Runtime::builder().in_memory().model(Arc::new(Scripted::new([]))).start().await?;
//! let options = AcpOptions::default().new_session(|folder| Ok(SessionOptions::new(folder).asks_wait(true)));
//! // A program serves its standard input and output; here a client that says nothing.
//! serve(runtime.clone(), options, tokio::io::empty(), tokio::io::sink()).await?;
//! runtime.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! What a client sends in mid-run steers (`_session/steering`), and the client is told what became of it: `docs/EDITORS.md`. The
//! files, in the order in which a line meets them: `serve` and `wire` (lines in and out), `rpc` (what a line is, and how it is
//! refused), `connection` (requests), then `sessions`, `prompt`, `settings`, `extensions`; `held` shows what happens in a session,
//! by `updates` and `calls`; `asks` puts questions, over `peer`; `content` reads and writes blocks;
//! `unsaved` is a hook that asks for what the editor has not saved.
//!
//! A change must keep this: each queue, list and wait that a client can fill has a bound; an answer of a client is for the question
//! that it was shown, or decides nothing; and what a session does never waits for a client.

mod asks;
mod calls;
mod connection;
mod content;
mod extensions;
mod held;
mod options;
mod peer;
mod prompt;
mod rpc;
mod serve;
mod sessions;
mod settings;
mod unsaved;
mod updates;
mod wire;

pub use options::{AcpOptions, HandedServer};
pub use serve::{ServeError, serve};
pub use unsaved::UnsavedFiles;
