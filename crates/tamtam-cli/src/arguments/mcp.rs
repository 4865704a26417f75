//! The arguments of `tamtam mcp`. The doc comments are the texts of `--help`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::TurnArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the MCP servers and the files that name them; starts none
    List(McpArguments),
    /// Start the MCP servers and list their tools; exits 1 if one does not start
    Check(McpCheckArguments),
    /// Add an MCP server to your own file
    Add(McpAddArguments),
    /// Be an MCP server on standard input and output: prompt, steer, status, answer and abort for sessions of this store
    Serve(Box<TurnArguments>),
}

#[derive(Args, Debug)]
pub(crate) struct McpArguments {
    /// Folder whose MCP servers are used with your own [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Print one server per line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct McpCheckArguments {
    /// Only this server
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) of: McpArguments,
}

#[derive(Args, Debug)]
pub(crate) struct McpAddArguments {
    /// Its name: letters, digits and -
    pub(crate) name: String,
    /// A variable of its environment; may be given again. ${NAME} stands for a variable of yours
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// The address of a server that is no program of this machine
    #[arg(long, conflicts_with_all = ["command", "env"])]
    pub(crate) url: Option<String>,
    /// A header of each request to the address; may be given again. ${NAME} stands for a variable of yours
    #[arg(long, value_name = "NAME=VALUE", requires = "url", conflicts_with_all = ["command", "env"])]
    pub(crate) header: Vec<String>,
    /// Its command and arguments, after --
    #[arg(last = true, required_unless_present = "url")]
    pub(crate) command: Vec<String>,
}
