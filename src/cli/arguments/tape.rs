//! The arguments of `tamtam tape`: looking at tapes, going back, forking, carrying off and removing.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use tamtam::{Millis, SessionId, tape::Cursor};

use super::{ModelArguments, StoreArguments};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TapeCommand {
    /// Print the entries of a session's tape
    Show(ShowArguments),
    /// Find entries of all tapes by what they say
    Search(SearchArguments),
    /// Make what was said in a fork part of the conversation that it was forked from
    Merge(MergeArguments),
    /// Take a conversation back to a point; nothing leaves the tape, so that can be taken back too
    Rollback(RollbackArguments),
    /// Check every line of one tape or of all; ends 1 and names file and line where something is damaged
    Verify(VerifyArguments),
    /// List the files that a session changed, and what putting them back would do
    Changes(ChangesArguments),
    /// Put the files back that a session changed; shows what would change, and does it with --yes
    Restore(RestoreArguments),
    /// Write a session to one file, to be kept or carried to another store
    Export(ExportArguments),
    /// Bring in a session from a file that `export` wrote: all of it or nothing
    Import(ImportArguments),
    /// Make a new session that goes on from a point of this one, and print its id
    Fork(ForkArguments),
    /// Remove sessions that were not used for long, are not among the newest, or take too much room; never one that is open,
    /// parked, pinned, or that another one which stays goes on from
    Sweep(SweepArguments),
    /// Keep a session from being swept
    Pin(PinArguments),
    /// Make the index anew from the tapes, and say whether it had been right
    Rebuild(RebuildArguments),
}

#[derive(Args, Debug)]
#[group(id = "point", required = true, multiple = false, args = ["to", "message", "turn"])]
pub(in crate::cli) struct RollbackArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(in crate::cli) session: SessionId,
    /// As it was when this entry was the newest (`tamtam tape show ID` numbers them)
    #[arg(long, value_name = "SEQ")]
    pub(in crate::cli) to: Option<u64>,
    /// Before this message, and those that were delivered together with it
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) message: Option<String>,
    /// Before the turn that this entry began
    #[arg(long, value_name = "SEQ")]
    pub(in crate::cli) turn: Option<u64>,
    /// Have what was said behind that point summed up by a model, and put that in front of the next turn
    #[arg(long)]
    pub(in crate::cli) summary: bool,
    #[command(flatten)]
    pub(in crate::cli) model: ModelArguments,
    /// Put the files back too that calls changed behind that point: shows what would change, and does all of it with --yes
    #[arg(long)]
    pub(in crate::cli) files: bool,
    /// With --files: do it
    #[arg(long, requires = "files")]
    pub(in crate::cli) yes: bool,
    /// With --files: leave the files that have to be refused, and put the rest back
    #[arg(long, requires = "files")]
    pub(in crate::cli) rest: bool,
    /// With --files: put files back too that somebody else changed since; what they wrote is kept
    #[arg(long, requires = "files", conflicts_with = "rest")]
    pub(in crate::cli) over: bool,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct MergeArguments {
    /// The fork; it is not changed
    #[arg(value_name = "FORK")]
    pub(in crate::cli) fork: SessionId,
    /// Where to [default: the session that it was forked from]
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) into: Option<SessionId>,
    /// Delete the fork once its words are there
    #[arg(long)]
    pub(in crate::cli) delete: bool,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct ShowArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(in crate::cli) session: SessionId,
    /// One entry a line, as JSON
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct SearchArguments {
    /// Words that must all be there, "phrases" (in quotes of their own) and prefixes*; may be left out where something else
    /// narrows the search
    #[arg(value_name = "QUERY")]
    pub(in crate::cli) words: Vec<String>,
    /// In this session only
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) session: Option<SessionId>,
    /// Entries of this kind only (accepted, answer, result, …); may be given again
    #[arg(long, value_name = "KIND")]
    pub(in crate::cli) kind: Vec<String>,
    /// In this anchor only
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) anchor: Option<String>,
    /// Not earlier than this day or moment (2026-01-31, 2026-01-31T12:00:00Z), in UTC
    #[arg(long, value_name = "TIME", value_parser = crate::cli::search::moment)]
    pub(in crate::cli) since: Option<Millis>,
    /// Not later than this day, its end included, or moment
    #[arg(long, value_name = "TIME", value_parser = crate::cli::search::end_of_moment)]
    pub(in crate::cli) until: Option<Millis>,
    /// Those first that say it most, instead of the newest
    #[arg(long)]
    pub(in crate::cli) best: bool,
    /// Hits at most: 1 to 200
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(in crate::cli) limit: u16,
    /// Go on where a page ended
    #[arg(long, value_name = "PLACE")]
    pub(in crate::cli) after: Option<Cursor>,
    /// One hit a line as JSON, with its whole entry
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct VerifyArguments {
    /// Which session; all where none is named
    #[arg(value_name = "ID")]
    pub(in crate::cli) session: Option<SessionId>,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct ChangesArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(in crate::cli) session: SessionId,
    /// What came after this entry; 0 for all [default: what the newest turn did]
    #[arg(long, value_name = "SEQ")]
    pub(in crate::cli) since: Option<u64>,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
#[group(id = "fork_point", multiple = false, args = ["at", "message", "turn"])]
pub(in crate::cli) struct ForkArguments {
    /// Which session to go on from; it may be running
    #[arg(value_name = "ID")]
    pub(in crate::cli) session: SessionId,
    /// As it was when this entry was the newest (`tamtam tape show ID` numbers them) [default: the newest]
    #[arg(long = "seq", visible_alias = "at", value_name = "SEQ")]
    pub(in crate::cli) at: Option<u64>,
    /// Before this message, and those that were delivered together with it
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) message: Option<String>,
    /// Before the turn that this entry began
    #[arg(long, value_name = "SEQ")]
    pub(in crate::cli) turn: Option<u64>,
    /// The id of the new session [default: one that no other has]
    #[arg(long = "as", value_name = "ID")]
    pub(in crate::cli) fork: Option<SessionId>,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct RestoreArguments {
    #[command(flatten)]
    pub(in crate::cli) changes: ChangesArguments,
    /// Only show what would change; so without --yes too
    #[arg(long, conflicts_with = "yes")]
    pub(in crate::cli) show: bool,
    /// Do it
    #[arg(long)]
    pub(in crate::cli) yes: bool,
    /// Leave the files that have to be refused, and put the rest back
    #[arg(long)]
    pub(in crate::cli) rest: bool,
    /// Put files back too that somebody else changed since; what they wrote is kept
    #[arg(long, conflicts_with = "rest")]
    pub(in crate::cli) over: bool,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct ExportArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(in crate::cli) session: SessionId,
    /// The file, which must not be there yet [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) to: Option<PathBuf>,
    /// With the large outputs that were cut off for the model
    #[arg(long)]
    pub(in crate::cli) spills: bool,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct ImportArguments {
    /// What `export` wrote
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
    /// Under this id instead of its own
    #[arg(long = "as", value_name = "ID")]
    pub(in crate::cli) as_id: Option<SessionId>,
    /// The folder that it works in from now on; the current one by default
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) workspace: Option<PathBuf>,
    /// Believe all of the file: its rules, grants, workspace, and what was open. For what you exported yourself and nobody
    /// could change: what is open in it goes on as soon as the session does
    #[arg(long, conflicts_with = "workspace")]
    pub(in crate::cli) as_it_was: bool,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct SweepArguments {
    /// Those that were not used for so long go (30d, 12h, 90m, 45s)
    #[arg(long, value_name = "TIME", value_parser = crate::cli::sweep::duration)]
    pub(in crate::cli) older_than: Option<Duration>,
    /// So many stay, those that were used last
    #[arg(long, value_name = "N")]
    pub(in crate::cli) keep: Option<usize>,
    /// All together take at most so much (500K, 200M, 2G), large outputs and kept contents of files included
    #[arg(long, value_name = "BYTES", value_parser = crate::cli::sweep::bytes)]
    pub(in crate::cli) max_bytes: Option<u64>,
    /// Only say what would go, and why
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    /// Remove it without asking; where nobody can be asked, this or --dry-run is needed
    #[arg(long, conflicts_with = "dry_run")]
    pub(in crate::cli) yes: bool,
    /// One session a line, as JSON
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct PinArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(in crate::cli) session: SessionId,
    /// Let it be swept again
    #[arg(long)]
    pub(in crate::cli) off: bool,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct RebuildArguments {
    #[command(flatten)]
    pub(in crate::cli) store: StoreArguments,
}
