//! The arguments of `tamtam sessions`, and how a label is written on the command line: `KEY=VALUE`, in `sessions`, `run` and
//! `tape search`. A change must check labels for their form here, so that a bad one is refused before anything is opened.
//!
//! The doc comments on arguments are the texts of `--help`: a change to one changes what users read.

use clap::Args;
use tamtam::{ops::SessionCursor, session::Labels, tape::SessionStatus};

use super::StoreArguments;
use crate::failure::Failure;

#[derive(Args, Debug)]
pub(crate) struct SessionsArguments {
    /// The same without it
    #[arg(value_parser = ["list"], hide = true)]
    pub(crate) list: Option<String>,
    /// Only sessions with this text in their title or id; may be repeated
    #[arg(long, value_name = "WORDS")]
    pub(crate) text: Vec<String>,
    /// Only sessions of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only sessions with this label; may be repeated, and all must match
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
    /// Only sessions with this status
    #[arg(long, value_name = "STATE", value_enum)]
    pub(crate) state: Option<State>,
    /// Maximum number of sessions [default: 50; all with --json]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) limit: Option<u16>,
    /// Continue where a page ended
    #[arg(long, value_name = "PLACE")]
    pub(crate) after: Option<SessionCursor>,
    /// Print one session per line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
}

/// Reads one label, and checks its form.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label is KEY=VALUE")?;
    Labels::new([(key, value)]).map_err(|error| error.to_string())?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The labels that the arguments give, each of which [`label`] has read; an error if they are not allowed together.
pub(crate) fn labels(given: &[(String, String)]) -> Result<Labels, Failure> {
    Labels::new(given.iter().cloned()).map_err(|error| Failure::usage(error.to_string()))
}

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum State {
    /// Open in a process
    Live,
    /// Not open in any process
    Passive,
    /// Stopped until it is unparked: it kept crashing, or an operator parked it
    Parked,
    /// Deleted; its tape is kept for its forks
    Hidden,
}

impl From<State> for SessionStatus {
    fn from(state: State) -> SessionStatus {
        match state {
            State::Live => SessionStatus::Live,
            State::Passive => SessionStatus::Passive,
            State::Parked => SessionStatus::Parked,
            State::Hidden => SessionStatus::Hidden,
        }
    }
}
