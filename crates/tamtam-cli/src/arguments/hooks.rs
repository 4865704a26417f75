//! The arguments of `tamtam hooks`. The doc comments are the texts of `--help`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// List the hooks and the files that name them; runs none
    List(HooksArguments),
    /// The same, and exit 1 if one cannot be used
    Check(HooksArguments),
}

#[derive(Args, Debug)]
pub(crate) struct HooksArguments {
    /// Folder whose hooks run with your own [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Print one hook per line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
