//! Tamtam: an in-process, OTP-style supervised runtime for AI agents.
//!
//! A [`Runtime`] holds a supervision tree inside your own service. Every conversation in it is an actor behind a [`Session`],
//! a handle that outlives every crash of the actor. You send [`Message`]s, and choose what becomes of the running calls. You get
//! a [`Receipt`], which means that the message is on the tape. [`Event`]s and [`Runtime::tree`] show what happens.
//!
//! # Five lines
//!
//! ```
//! use std::sync::Arc;
//! use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}};
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! # let folder = tempfile::tempdir()?;
//! let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
//! let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
//! let session = runtime.create(SessionOptions::new(folder.path())).await?;
//! let answer = session.prompt("Say hello.").await?.wait().await?;
//! assert_eq!(answer.text, "Hello.");
//! # runtime.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # The tour
//!
//! - [`runtime`]: the builder, the tree and the operator's levers, sweeps by the clock, agents that a host defines.
//! - [`session`]: the handle of a conversation, and the values of its methods: ids, messages, events, receipts, outcomes, budgets,
//!   the state, and the entries of a tape.
//! - [`tape`]: the append-only record that everything is recovered from; a store of files, in memory, or of your own.
//! - [`ops`]: operations on a store without its sessions: list, sweep, restore files, replay.
//! - [`model`]: the contract of a model, and prices; the clients of OpenAI's and Anthropic's APIs; the scripted model for tests.
//! - [`tool`]: the contract of a tool. The feature `tools` adds seven tools.
//! - [`hook`] and [`permission`]: what a host can refuse, rewrite and watch, and which calls a person is asked about.
//! - [`supervisor`]: children, restarts, parking; a host may put its own actors under the same tree.
//!
//! # What a host must give
//!
//! A tokio runtime with time and I/O (multi-threaded in production), and a build with `panic = "unwind"`. The library reads no
//! environment variable, no home and no current directory, takes no signal, and sets nothing for the whole process unless the host
//! calls [`supervisor::locate_panics`]. One dependency does read two variables: on Linux, the loader of the system's certificates
//! obeys `SSL_CERT_FILE` and `SSL_CERT_DIR`.
//!
//! # Features
//!
//! | feature | on by default | brings |
//! |---|---|---|
//! | `http` | yes | all wires: `openai`, `anthropic` and `gemini` |
//! | `openai` | by `http` | OpenAI's Chat Completions, and the providers that speak it, and OpenAI's Responses: `model::Api::OpenAiChat`, `model::Api::OpenAiResponses` |
//! | `anthropic` | by `http` | Anthropic's Messages: `model::Api::AnthropicMessages`, and the provider that speaks it |
//! | `gemini` | by `http` | Gemini's own API: `model::Api::GeminiGenerateContent` |
//! | `sqlite` | yes | the derived index of the tape: search, and lists that need no reading of tapes |
//! | `tools` | yes | the seven file and shell tools, and restoring files (Unix) |
//! | `shell-policy` | no | rules judge a shell command by its syntax tree; without it only by its exact text |
//! | `rules-file` | no | rules of permission from TOML and JSON |
//! | `agent-files` | no | agents and commands from files; brings `rules-file` |
//! | `schema` | no | `JsonSchema` of what a host shows: events, messages, the tree, crash reports, receipts, pages |
//! | `sandbox` | no | shell commands confined by the kernel (Linux); brings `tools` |
//!
//! One wire is enough for [`model`]'s `HttpModel`, `HttpClient`, `HttpOptions`, `Endpoint`, `Provider`, `Router` and `PROVIDERS`.
//! Without a wire a host brings its own [`model::Model`].

// This file only declares the rooms and exports the few names that most hosts use. A change must keep at most 20 names at the
// root and 10 public modules; a new public name goes into a module. A room may import only rooms below it
// (`docs/ARCHITECTURE.md`). A public struct or enum can grow and has one name and one path (`tests/it/face.rs`).

// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[macro_use]
mod fault;
#[cfg(test)]
extern crate self as tamtam;
mod lock;

mod agent;
mod error;
mod event;
pub mod hook;
pub mod model;
pub mod ops;
pub mod permission;
#[cfg(all(unix, feature = "tools"))]
mod process;
mod prompt;
pub mod runtime;
pub mod session;
pub mod supervisor;
pub mod tape;
mod task;
pub mod tool;
#[cfg(all(unix, feature = "tools"))]
pub mod tools;

// The programs of the host's page are compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../docs/HOST.md")]
struct Host;

mod actor;
mod kernel;
mod words;

pub use error::{OpenError, SendError};
pub use event::{Event, EventKind, EventStream};
pub use kernel::{Delivery, Outcome, Steering};
pub use runtime::Runtime;
pub use runtime::options::SessionOptions;
pub use session::Session;
pub use session::receipt::{Answer, Receipt};
pub use words::ids::{MessageId, Millis, Seq, SessionId};
pub use words::message::{Message, ModelRef, Part};

/// The crate that makes the schemas of [typed tools](tool::typed): their arguments derive its `JsonSchema`. A host that does not
/// depend on schemars itself writes `#[schemars(crate = "tamtam::schemars")]` beside the derive.
pub use schemars;
