//! The arguments of `serve`, and of the commands that work on a running server: `ps`, `tree`, `attach`, `send`, `answer`, the levers, `crashes`,
//! `drain`, `rm`.
//!
//! The doc comments on arguments are the texts of `--help`: a change to one changes what users read.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tamtam::{MessageId, SessionId};

use super::TurnArguments;

#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    /// Listen on this address, for the page in a browser; any other than one of this machine needs a token [default with the
    /// option alone: 127.0.0.1:7878; without it: a Unix socket]
    #[arg(long, value_name = "IP:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:7878", conflicts_with = "socket")]
    pub(crate) addr: Option<std::net::SocketAddr>,
    /// Listen on this Unix socket, which only you can open [default: tamtam/tamtam.sock in your runtime folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Token that every request must carry [default: the variable TAMTAM_SERVE_TOKEN, which other users cannot see in the list of
    /// processes]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Another name under which clients reach the server; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Let clients crash a session's actor on purpose
    #[arg(long)]
    pub(crate) drills: bool,
    #[cfg(feature = "postgres")]
    #[command(flatten)]
    pub(crate) nodes: super::PostgresArguments,
    /// With PostgreSQL: name of this server for people and in errors, such as its address [default: the name of this machine]
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    #[command(flatten)]
    pub(crate) turn: TurnArguments,
}

/// Which server.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServerArguments {
    /// Where the server listens: a socket, HOST:PORT or http://HOST:PORT [default: the socket of `tamtam serve`]
    #[arg(long, visible_alias = "url", value_name = "PLACE")]
    pub(crate) at: Option<String>,
    /// Token of the server [default: the variable TAMTAM_SERVE_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct PsArguments {
    /// Print one session per line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

#[derive(Args, Debug)]
pub(crate) struct TreeArguments {
    /// Show all servers that share the sessions over PostgreSQL: which live, what each has, and what waits for one
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the tree as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

#[derive(Args, Debug)]
pub(crate) struct AttachArguments {
    /// The session
    #[arg(value_name = "ID")]
    pub(crate) session: SessionId,
    /// Show first what happened after this entry of its tape; 0 for everything
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
    /// Print one event per line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

#[derive(Args, Debug)]
pub(crate) struct SendArguments {
    /// The session
    #[arg(value_name = "ID")]
    pub(crate) session: SessionId,
    /// The message; - to read it from stdin
    #[arg(value_name = "TEXT", required = true)]
    pub(crate) text: Vec<String>,
    /// What the message does while a turn runs
    #[arg(long, value_name = "HOW", default_value = "queue")]
    pub(crate) delivery: HowDelivered,
    /// What a steering message does to the calls of the running turn
    #[arg(long, value_name = "HOW", requires = "delivery")]
    pub(crate) steering: Option<HowSteered>,
    /// Id of the message: sent again under the same id, it is not sent twice
    #[arg(long, value_name = "ID")]
    pub(crate) message_id: Option<MessageId>,
    /// Print the receipt as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// What a message does while a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HowDelivered {
    /// It waits, and begins a turn of its own
    Queue,
    /// The running turn reads it
    Steer,
    /// It is refused
    Reject,
}

/// What a steering message does to calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HowSteered {
    /// The running call ends, the others are skipped
    #[value(name = "skip")]
    SkipRemaining,
    /// All calls end first
    #[value(name = "finish")]
    FinishBatch,
    /// Running calls are stopped
    #[value(name = "abort")]
    AbortRunning,
}

#[derive(Args, Debug)]
pub(crate) struct AnswerArguments {
    /// The session
    #[arg(value_name = "ID")]
    pub(crate) session: SessionId,
    /// The number of the question
    #[arg(value_name = "ASK")]
    pub(crate) ask: u64,
    /// The answer
    #[arg(value_name = "ANSWER")]
    pub(crate) grant: HowGranted,
    /// How far `always` reaches
    #[arg(long, value_name = "SCOPE", default_value = "session")]
    pub(crate) scope: HowFar,
    /// Which of the question's offers `always` takes
    #[arg(long, value_name = "N")]
    pub(crate) offer: Option<u32>,
    /// Words for the model with `reject`; without them the turn ends
    #[arg(long, value_name = "WORDS")]
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// An answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HowGranted {
    /// This call may run
    Once,
    /// This call and all that ask for the same
    Always,
    /// The call may not run
    Reject,
}

/// How far an answer reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HowFar {
    /// The running turn
    Turn,
    /// The session
    Session,
    /// All sessions of its folder
    Project,
}

#[derive(Args, Debug)]
pub(crate) struct LeverArguments {
    /// The actor: a session, or the path of a node of the tree
    #[arg(value_name = "ID")]
    pub(crate) actor: String,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

#[derive(Args, Debug)]
pub(crate) struct CrashesArguments {
    /// Only those of this actor
    #[arg(value_name = "ID")]
    pub(crate) actor: Option<String>,
    /// Print one report per line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

#[derive(Args, Debug)]
pub(crate) struct DrainArguments {
    /// How long running turns may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub(crate) within: u64,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArguments {
    /// The session
    #[arg(value_name = "ID")]
    pub(crate) session: SessionId,
    /// Delete without a question; needed without a terminal
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}
