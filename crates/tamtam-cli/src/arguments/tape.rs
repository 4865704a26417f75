//! The arguments of the commands of `tamtam tape`. Their values are checked for form only; whether a session or a file exists,
//! the command finds out. A change must not look at the store here: a wrong argument is refused before anything is opened.
//!
//! The doc comments on commands and arguments are the texts of `--help`: a change to one changes what users read.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use tamtam::{Millis, SessionId, tape::Cursor};

use super::ModelArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum TapeCommand {
    /// Print the entries of a session's tape
    Show {
        /// The session
        id: SessionId,
        /// Print one entry per line, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Search the entries of all tapes
    Search(SearchArguments),
    /// Merge the messages of a fork into the conversation that it was forked from
    Merge(MergeArguments),
    /// Return a conversation to an earlier point; nothing leaves the tape, so a rollback can be undone
    Rollback(RollbackArguments),
    /// List or revoke a session's standing approvals
    Grants(GrantsArguments),
    /// Check every line of one tape or of all; exits 1 and names the file and line of any damage
    Verify {
        /// The session [default: all]
        id: Option<SessionId>,
    },
    /// List the files that a session changed, and what a restore would do
    Changes(ChangesArguments),
    /// Restore the files that a session changed; shows what would change, and writes it with --yes
    Restore(RestoreArguments),
    /// Export a session to one file, as a backup or for another store
    Export(ExportArguments),
    /// Import a session from a file written by `export`, completely or not at all
    Import(ImportArguments),
    /// Create a session that continues from a point of this one, and print its id
    Fork(ForkArguments),
    /// Remove sessions that are old, not among the newest, or beyond a total size; never one that is open,
    /// at work, parked or protected, or that a remaining fork or a working task needs
    Sweep(SweepArguments),
    /// Permanently delete a session and everything stored for it; it stays hidden until its last fork is gone. Its exports
    /// and the files in its workspace stay
    Delete {
        /// The session
        id: SessionId,
        /// Delete without asking; required without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Protect a session from sweeps
    Protect {
        /// The session
        id: SessionId,
        /// Remove the protection
        #[arg(long)]
        off: bool,
    },
    /// Rebuild the index from the tapes, and say whether the old one was correct
    Rebuild,
}

/// A point by what comes after it.
#[derive(Args, Clone, Debug)]
pub(crate) struct BeforeArguments {
    /// Before this message, and the messages delivered with it
    #[arg(long, value_name = "ID")]
    pub(crate) message: Option<String>,
    /// Before the turn that began with this entry
    #[arg(long, value_name = "SEQ")]
    pub(crate) turn: Option<u64>,
}

#[derive(Args, Debug)]
#[group(id = "point", required = true, multiple = false, args = ["to", "message", "turn"])]
pub(crate) struct RollbackArguments {
    /// The session
    pub(crate) id: SessionId,
    /// To this entry, which becomes the newest one (`tamtam tape show ID` shows the numbers)
    #[arg(long, value_name = "SEQ")]
    pub(crate) to: Option<u64>,
    #[command(flatten)]
    pub(crate) before: BeforeArguments,
    /// Have a model summarize the messages after that point, and begin the next turn with the summary
    #[arg(long)]
    pub(crate) summary: bool,
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Also restore the files that calls changed after that point: shows what would change, and writes it with --yes
    #[arg(long)]
    pub(crate) files: bool,
    /// With --files: write the changes
    #[arg(long, requires = "files")]
    pub(crate) yes: bool,
    /// With --files: skip the files that cannot be restored safely, and restore the rest
    #[arg(long, requires = "files")]
    pub(crate) rest: bool,
    /// With --files: also restore files that somebody else changed since; their version is kept
    #[arg(long, requires = "files", conflicts_with = "rest")]
    pub(crate) over: bool,
}

#[derive(Args, Debug)]
pub(crate) struct GrantsArguments {
    /// The session
    pub(crate) id: SessionId,
    /// Revoke the approval with this ID: you are asked again about what it allowed
    #[arg(long, value_name = "GRANT", conflicts_with = "json")]
    pub(crate) revoke: Option<u64>,
    /// Print one approval per line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MergeArguments {
    /// The fork; it does not change
    pub(crate) fork: SessionId,
    /// The session to merge into [default: the one it was forked from]
    #[arg(long, value_name = "ID")]
    pub(crate) into: Option<SessionId>,
    /// Delete the fork after the merge
    #[arg(long)]
    pub(crate) delete: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SearchArguments {
    /// Words that must all occur, "phrases" (in quotes of their own) and prefixes*; optional where another option
    /// narrows the search
    pub(crate) query: Vec<String>,
    /// Search this session only
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<SessionId>,
    /// Search sessions with this label only; may be repeated, and all must match
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::label)]
    pub(crate) label: Vec<(String, String)>,
    /// Search entries of this kind only (accepted, answer, result, …); may be repeated
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Vec<String>,
    /// Search this anchor only
    #[arg(long, value_name = "NAME")]
    pub(crate) anchor: Option<String>,
    /// Not earlier than this day or moment (2026-01-31, 2026-01-31T12:00:00Z), in UTC
    #[arg(long, value_name = "TIME", value_parser = crate::search::moment)]
    pub(crate) since: Option<Millis>,
    /// Not later than this moment, or than the end of this day
    #[arg(long, value_name = "TIME", value_parser = crate::search::end_of_moment)]
    pub(crate) until: Option<Millis>,
    /// Best matches first, instead of the newest
    #[arg(long)]
    pub(crate) best: bool,
    /// Maximum number of hits: 1 to 200
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) limit: u16,
    /// Continue after the previous page
    #[arg(long, value_name = "PLACE")]
    pub(crate) after: Option<Cursor>,
    /// Print one hit per line as JSON, with its whole entry
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ChangesArguments {
    /// The session
    pub(crate) id: SessionId,
    /// Changes after this entry; 0 for all [default: those of the newest turn]
    #[arg(long, value_name = "SEQ")]
    pub(crate) since: Option<u64>,
}

#[derive(Args, Debug)]
#[group(id = "fork_point", multiple = false, args = ["at", "message", "turn"])]
pub(crate) struct ForkArguments {
    /// The session to continue from; it may be running
    pub(crate) id: SessionId,
    /// At this entry, which becomes the newest one (`tamtam tape show ID` shows the numbers) [default: the newest]
    #[arg(long = "seq", visible_alias = "at", value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    #[command(flatten)]
    pub(crate) before: BeforeArguments,
    /// ID of the new session [default: a new ID]
    #[arg(long = "as", value_name = "ID")]
    pub(crate) fork: Option<SessionId>,
}

#[derive(Args, Debug)]
pub(crate) struct RestoreArguments {
    #[command(flatten)]
    pub(crate) changes: ChangesArguments,
    /// Only show what would change (the same as without --yes)
    #[arg(long, conflicts_with = "yes")]
    pub(crate) show: bool,
    /// Write the changes
    #[arg(long)]
    pub(crate) yes: bool,
    /// Skip the files that cannot be restored safely, and restore the rest
    #[arg(long)]
    pub(crate) rest: bool,
    /// Also restore files that somebody else changed since; their version is kept
    #[arg(long, conflicts_with = "rest")]
    pub(crate) over: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ExportArguments {
    /// The session
    pub(crate) id: SessionId,
    /// File to create; it must not exist yet [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// Include the large outputs that were cut for the model
    #[arg(long)]
    pub(crate) spills: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ImportArguments {
    /// File written by `export`
    pub(crate) file: PathBuf,
    /// Import the session under this ID instead of its own
    #[arg(long = "as", value_name = "ID")]
    pub(crate) as_id: Option<SessionId>,
    /// Folder that the session works in from now on [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Trust the whole file: its rules, approvals, workspace and unfinished work. Use it only for a file that you exported
    /// yourself and nobody else could change: its unfinished work continues as soon as the session is opened
    #[arg(long, conflicts_with = "workspace")]
    pub(crate) as_it_was: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SweepArguments {
    /// Remove sessions not used for this long (30d, 12h, 90m, 45s)
    #[arg(long, value_name = "TIME", value_parser = crate::sweep::duration)]
    pub(crate) older_than: Option<Duration>,
    /// Keep this many of the most recently used sessions
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
    /// Keep at most this much in total (500K, 200M, 2G), including large outputs and kept file contents
    #[arg(long, value_name = "BYTES", value_parser = crate::sweep::bytes)]
    pub(crate) max_bytes: Option<u64>,
    /// Only show what would be removed, and why
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove without asking; without a terminal, this or --dry-run is required
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// Print one session per line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
