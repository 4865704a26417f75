//! The arguments of `acp`.
//!
//! The doc comments on arguments are the texts of `--help`: a change to one changes what users read.

use clap::Args;

use super::TurnArguments;

#[derive(Args, Debug)]
pub(crate) struct AcpArguments {
    /// Let other programs follow and steer the same sessions: on a socket, or on HOST:PORT of this machine
    #[arg(long, value_name = "WHERE")]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) turn: TurnArguments,
}
