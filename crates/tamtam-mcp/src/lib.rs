//! [MCP](https://modelcontextprotocol.io) servers under the supervision tree of a [Tamtam](tamtam) runtime.
//!
//! One actor for each configuration of a server, a program or an address, shared by every session: it starts at the first use, ends when nobody has
//! used it for a while, is started again with a growing wait when it crashes, and is parked when it crashes too often. Its tools are
//! offered as `mcp_<server>_<tool>`, so `mcp_files_*` in a rule is all of one server.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tamtam::{Runtime, model::Scripted};
//! use tamtam_mcp::{ServerConfig, Servers};
//!
//! # async fn f(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let files = ServerConfig::stdio("files", "/usr/bin/npx").arguments(["-y", "@modelcontextprotocol/server-filesystem", "/data"]);
//! let servers = Servers::new([files])?;
//! let runtime = Runtime::builder().store(folder).model(Arc::new(Scripted::new([]))).start().await?;
//! servers.start_in(&runtime).await?;
//! for listed in servers.list().await {
//!     println!("{}: {} tools", listed.server, listed.tools.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Everything that a server says is data of a stranger: `docs/MCP.md` says what a hostile server can and cannot do. The files, in the
//! order in which a call meets them: `tool` (what the model sees), `server` (what all users of one server share), `life` (its actor),
//! `connection` (requests and their answers), `stdio` with `wire` (lines in and out of a process) or `http` (requests to an address),
//! `intake` (what comes back), `ask` (questions of the server), `content` (its result). `hello` opens a connection, `offer` judges what a server lists, `search` finds tools of which there are many, `references` reads what a person's message takes from servers, `files` reads the configurations of other programs.
//!
//! The other way round, [`SessionTools`] makes the sessions of a runtime the tools of a server, for clients that others wrote.
//!
//! A change must keep this: each buffer, list and wait that a server can fill has a bound; nothing that a server says decides what a
//! call may do, unless the host says so ([`Hints::Believed`]); no process is started for a session.

mod ask;
mod config;
mod connection;
mod content;
mod files;
mod hello;
mod http;
mod intake;
mod life;
mod listing;
mod message;
mod offer;
mod references;
mod search;
mod secrets;
mod server;
mod servers;
mod session_tools;
mod stdio;
mod tail;
mod text;
mod tool;
mod wire;

pub use config::{Address, BadConfig, Hints, Program, ServerConfig, Transport, well_known};
pub use files::{BadFile, Dialect, Skipped, read};
pub use offer::Refused;
pub use references::BadReference;
pub use server::{Phase, ServerFigures};
pub use servers::{Listed, Servers};
pub use session_tools::SessionTools;
