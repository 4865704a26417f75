//! The arguments about PostgreSQL: of `postgres`, and of `serve`.
//!
//! The doc comments on arguments are the texts of `--help`: a change to one changes what users read.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Which database.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PostgresArguments {
    /// Database of the sessions, which several servers share: a postgresql:// URL, or "host=… user=… dbname=…". Over
    /// a network that is not yours, add ?sslmode=verify-full (see docs/OPERATIONS.md). Leave the password
    /// out, which other users would see in the list of processes, and set the variable PGPASSWORD [default: `postgres` of your
    /// configuration, else the variable TAMTAM_SERVE_POSTGRES]
    #[arg(long, value_name = "URL")]
    pub(crate) postgres: Option<String>,
    /// Schema of its tables [default: tamtam]
    #[arg(long, value_name = "NAME")]
    pub(crate) schema: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PostgresCommand {
    /// Make the tables, or bring them up to date, as the owner of the schema
    Migrate(MigrateArguments),
}

#[derive(Args, Debug)]
pub(crate) struct MigrateArguments {
    #[command(flatten)]
    pub(crate) nodes: PostgresArguments,
    /// File of settings that override yours (see docs/CONFIG.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
