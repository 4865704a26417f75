//! The arguments of each command, and how a wrong one is answered.

use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand, error::ErrorKind};
use tamtam::{
    Millis, SessionId,
    listing::SessionCursor,
    permission::Profile,
    tape::{Cursor, Standing},
};

use super::{budget::BudgetArguments, escape, failure::Exit};

/// A supervised runtime for AI agents. Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 stopped by a rejection or
/// a limit of steps or budget, 130 aborted.
#[derive(Debug, Parser)]
#[command(name = "tamtam", version, propagate_version = true, disable_help_subcommand = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the whole machine on a scripted model: real files, steering, a crash, a recovery, the tree
    Demo,
    /// Run one prompt to its end; type a line while it runs to steer
    Run(RunArguments),
    /// Go on with an interrupted session
    Resume(ResumeArguments),
    /// Run one tool, ask nobody, and print {"content","details","is_error"}
    Tool(ToolArguments),
    /// Judge one call, run nothing, and print {"decision","rule","layer","why"}
    Permit(PermitArguments),
    /// List the models whose price is known, and whether there is a key for them
    Models(ModelsArguments),
    /// List the sessions of the store
    Sessions(SessionsArguments),
    /// Run a session again from its tape, with no network and no tools; ends 1 at the first difference
    Replay(ReplayArguments),
    /// Wait until the process that started this one is gone, then end what its calls left running
    #[command(name = "__watch", hide = true)]
    Watch {
        /// Whose processes
        owner: String,
    },
    /// Look at tapes
    Tape {
        #[command(subcommand)]
        command: TapeCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum TapeCommand {
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

/// Where the tapes are.
#[derive(Args, Debug)]
pub(super) struct StoreArguments {
    /// Folder of the tapes [default: tamtam in the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub(super) store: Option<PathBuf>,
}

/// Which calls may run.
#[derive(Args, Debug)]
pub(super) struct PermissionArguments {
    /// strict, ask, edits, auto, readonly, headless or opencode [default: ask on a terminal and with --json, else headless]
    #[arg(long, value_name = "PROFILE")]
    pub(super) permission: Option<Profile>,
    /// Rules behind those of the profile, so that they win: one a line, {"permission":"bash","pattern":"cargo *","action":"allow"}
    #[arg(long, value_name = "FILE")]
    pub(super) rules: Option<PathBuf>,
}

/// What a turn is run with.
#[derive(Args, Debug)]
pub(super) struct TurnArguments {
    /// PROVIDER/MODEL, or scripted:FILE to play a script [default: that of the one provider whose key or local server is found]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(super) model: Option<String>,
    /// Where the model's provider is reached
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// Name of the agent
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    #[command(flatten)]
    pub(super) permission: PermissionArguments,
    /// Model requests that a turn may make [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_steps: Option<u32>,
    #[command(flatten)]
    pub(super) budget: BudgetArguments,
    /// One event a line on stdout, one command a line on stdin (see docs/FORMATS.md)
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct RunArguments {
    /// What is to be done
    #[arg(required = true, value_name = "PROMPT")]
    pub(super) prompt: Vec<String>,
    /// Go on with this session, or create it under this id
    #[arg(long, value_name = "ID")]
    pub(super) session: Option<SessionId>,
    /// Folder that the tools work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    /// Files and images that go with the prompt
    #[arg(long, value_name = "PATH", num_args = 1)]
    pub(super) file: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) turn: TurnArguments,
}

#[derive(Args, Debug)]
#[group(id = "point", required = true, multiple = false, args = ["to", "message", "turn"])]
pub(super) struct RollbackArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(super) session: SessionId,
    /// As it was when this entry was the newest (`tamtam tape show ID` numbers them)
    #[arg(long, value_name = "SEQ")]
    pub(super) to: Option<u64>,
    /// Before this message, and those that were delivered together with it
    #[arg(long, value_name = "ID")]
    pub(super) message: Option<String>,
    /// Before the turn that this entry began
    #[arg(long, value_name = "SEQ")]
    pub(super) turn: Option<u64>,
    /// Put the files back too that calls changed behind that point: shows what would change, and does all of it with --yes
    #[arg(long)]
    pub(super) files: bool,
    /// With --files: do it
    #[arg(long, requires = "files")]
    pub(super) yes: bool,
    /// With --files: leave the files that have to be refused, and put the rest back
    #[arg(long, requires = "files")]
    pub(super) rest: bool,
    /// With --files: put files back too that somebody else changed since; what they wrote is kept
    #[arg(long, requires = "files", conflicts_with = "rest")]
    pub(super) over: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct MergeArguments {
    /// The fork; it is not changed
    #[arg(value_name = "FORK")]
    pub(super) fork: SessionId,
    /// Where to [default: the session that it was forked from]
    #[arg(long, value_name = "ID")]
    pub(super) into: Option<SessionId>,
    /// Delete the fork once its words are there
    #[arg(long)]
    pub(super) delete: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct ResumeArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(super) session: SessionId,
    #[command(flatten)]
    pub(super) turn: TurnArguments,
}

#[derive(Args, Debug)]
pub(super) struct ToolArguments {
    /// read, write, edit, bash, grep, find or ls
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// Its arguments: a JSON object
    #[arg(value_name = "JSON")]
    pub(super) arguments: String,
    /// Folder that the tool works in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(super) struct PermitArguments {
    /// Which tool
    #[arg(value_name = "TOOL")]
    pub(super) tool: String,
    /// The arguments of the call: a JSON object
    #[arg(value_name = "JSON")]
    pub(super) arguments: String,
    /// Folder that the call would work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    #[command(flatten)]
    pub(super) permission: PermissionArguments,
}

#[derive(Args, Debug)]
pub(super) struct ModelsArguments {
    /// Only those whose name contains this
    #[arg(value_name = "PART")]
    pub(super) part: Option<String>,
    /// One model a line, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct SessionsArguments {
    /// The same without it
    #[arg(value_parser = ["list"], hide = true)]
    pub(super) list: Option<String>,
    /// Only those with this in their title or id; may be given again
    #[arg(long, value_name = "WORDS")]
    pub(super) text: Vec<String>,
    /// Only those of this agent
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// Only those that stand so
    #[arg(long, value_name = "STATE", value_enum)]
    pub(super) state: Option<State>,
    /// Each with its forks and children below it
    #[arg(long)]
    pub(super) tree: bool,
    /// Sessions at most, of a tree those at the top [default: 50; all with --json]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) limit: Option<u16>,
    /// Go on where a page ended
    #[arg(long, value_name = "PLACE")]
    pub(super) after: Option<SessionCursor>,
    /// One session a line, as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum State {
    /// Some process has it open
    Live,
    /// It sleeps
    Passive,
    /// It is kept stopped, because it crashed again and again
    Parked,
    /// It was deleted, and is kept for its forks
    Hidden,
}

impl From<State> for Standing {
    fn from(state: State) -> Standing {
        match state {
            State::Live => Standing::Live,
            State::Passive => Standing::Passive,
            State::Parked => Standing::Parked,
            State::Hidden => Standing::Hidden,
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct ShowArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(super) session: SessionId,
    /// One entry a line, as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct SearchArguments {
    /// Words that must all be there, "phrases" (in quotes of their own) and prefixes*; may be left out where something else
    /// narrows the search
    #[arg(value_name = "QUERY")]
    pub(super) words: Vec<String>,
    /// In this session only
    #[arg(long, value_name = "ID")]
    pub(super) session: Option<SessionId>,
    /// Entries of this kind only (accepted, answer, result, …); may be given again
    #[arg(long, value_name = "KIND")]
    pub(super) kind: Vec<String>,
    /// In this anchor only
    #[arg(long, value_name = "NAME")]
    pub(super) anchor: Option<String>,
    /// Not earlier than this day or moment (2026-01-31, 2026-01-31T12:00:00Z), in UTC
    #[arg(long, value_name = "TIME", value_parser = super::search::moment)]
    pub(super) since: Option<Millis>,
    /// Not later than this day, its end included, or moment
    #[arg(long, value_name = "TIME", value_parser = super::search::end_of_moment)]
    pub(super) until: Option<Millis>,
    /// Those first that say it most, instead of the newest
    #[arg(long)]
    pub(super) best: bool,
    /// Hits at most: 1 to 200
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(super) limit: u16,
    /// Go on where a page ended
    #[arg(long, value_name = "PLACE")]
    pub(super) after: Option<Cursor>,
    /// One hit a line as JSON, with its whole entry
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct ReplayArguments {
    /// Which session
    #[arg(value_name = "ID", required_unless_present = "test")]
    pub(super) session: Option<SessionId>,
    /// Show every decision; on a terminal one at a time, Enter goes on and q ends
    #[arg(long)]
    pub(super) step: bool,
    /// Begin at the newest anchor, not at the first entry
    #[arg(long)]
    pub(super) from_anchor: bool,
    /// With the system prompt in this file: the first request that it changes is the difference
    #[arg(long, value_name = "FILE")]
    pub(super) prompt: Option<PathBuf>,
    /// Write the tape as a test into this file, then replay it
    #[arg(long, value_name = "FILE")]
    pub(super) to_test: Option<PathBuf>,
    /// Check a file that --to-test has written, on any machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["session", "step", "from_anchor", "prompt", "to_test", "against"])]
    pub(super) test: Option<PathBuf>,
    /// Compare with the tape of another session, and end 1 where the two part
    #[arg(long, value_name = "ID", conflicts_with_all = ["step", "from_anchor", "prompt", "to_test"])]
    pub(super) against: Option<SessionId>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct VerifyArguments {
    /// Which session; all where none is named
    #[arg(value_name = "ID")]
    pub(super) session: Option<SessionId>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct ChangesArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(super) session: SessionId,
    /// What came after this entry; 0 for all [default: what the newest turn did]
    #[arg(long, value_name = "SEQ")]
    pub(super) since: Option<u64>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
#[group(id = "fork_point", multiple = false, args = ["at", "message", "turn"])]
pub(super) struct ForkArguments {
    /// Which session to go on from; it may be running
    #[arg(value_name = "ID")]
    pub(super) session: SessionId,
    /// As it was when this entry was the newest (`tamtam tape show ID` numbers them) [default: the newest]
    #[arg(long = "seq", visible_alias = "at", value_name = "SEQ")]
    pub(super) at: Option<u64>,
    /// Before this message, and those that were delivered together with it
    #[arg(long, value_name = "ID")]
    pub(super) message: Option<String>,
    /// Before the turn that this entry began
    #[arg(long, value_name = "SEQ")]
    pub(super) turn: Option<u64>,
    /// The id of the new session [default: one that no other has]
    #[arg(long = "as", value_name = "ID")]
    pub(super) fork: Option<SessionId>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct RestoreArguments {
    #[command(flatten)]
    pub(super) changes: ChangesArguments,
    /// Only show what would change; so without --yes too
    #[arg(long, conflicts_with = "yes")]
    pub(super) show: bool,
    /// Do it
    #[arg(long)]
    pub(super) yes: bool,
    /// Leave the files that have to be refused, and put the rest back
    #[arg(long)]
    pub(super) rest: bool,
    /// Put files back too that somebody else changed since; what they wrote is kept
    #[arg(long, conflicts_with = "rest")]
    pub(super) over: bool,
}

#[derive(Args, Debug)]
pub(super) struct ExportArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(super) session: SessionId,
    /// The file, which must not be there yet [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(super) to: Option<PathBuf>,
    /// With the large outputs that were cut off for the model
    #[arg(long)]
    pub(super) spills: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct ImportArguments {
    /// What `export` wrote
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Under this id instead of its own
    #[arg(long = "as", value_name = "ID")]
    pub(super) as_id: Option<SessionId>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct SweepArguments {
    /// Those that were not used for so long go (30d, 12h, 90m, 45s)
    #[arg(long, value_name = "TIME", value_parser = super::sweep::duration)]
    pub(super) older_than: Option<Duration>,
    /// So many stay, those that were used last
    #[arg(long, value_name = "N")]
    pub(super) keep: Option<usize>,
    /// All together take at most so much (500K, 200M, 2G), large outputs and kept contents of files included
    #[arg(long, value_name = "BYTES", value_parser = super::sweep::bytes)]
    pub(super) max_bytes: Option<u64>,
    /// Only say what would go, and why
    #[arg(long)]
    pub(super) dry_run: bool,
    /// One session a line, as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct PinArguments {
    /// Which session
    #[arg(value_name = "ID")]
    pub(super) session: SessionId,
    /// Let it be swept again
    #[arg(long)]
    pub(super) off: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Args, Debug)]
pub(super) struct RebuildArguments {
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// Answers arguments that are no command: help on stdout, anything else as one line on stderr.
pub(super) fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader who has gone wants no more help.
            drop(error.print());
            Exit::Done.into()
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            drop(writeln!(std::io::stderr(), "error: no command was given: see `tamtam --help`"));
            Exit::Usage.into()
        }
        _ => {
            drop(writeln!(std::io::stderr(), "{}", one_line(&error.to_string())));
            Exit::Usage.into()
        }
    }
}

/// clap's several lines as one: what is wrong, its tip, and where to read on.
fn one_line(message: &str) -> String {
    let usage = message.lines().find_map(|line| line.strip_prefix("Usage: tamtam"));
    let command: Vec<&str> = usage
        .unwrap_or_default()
        .split_whitespace()
        .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    let said = message.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let said: Vec<&str> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
    let help = ["tamtam"].into_iter().chain(command).chain(["--help"]).collect::<Vec<_>>().join(" ");
    escape::line(&format!("{} (see `{help}`)", said.join(" ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Arguments::try_parse_from(line.split(' ')).map(|arguments| arguments.command)
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }

    /// CLI-CMD-003, CLI-CMD-007
    #[test]
    fn the_words_of_a_prompt_and_the_model_are_taken() {
        let Command::Run(run) = parse("tamtam run --model openai:gpt-4 hello world").unwrap() else { panic!() };
        assert_eq!((run.prompt.join(" ").as_str(), run.turn.model.as_deref()), ("hello world", Some("openai:gpt-4")));
    }

    /// CLI-CMD-004, CLI-CMD-005
    #[test]
    fn sessions_are_listed_and_resumed_by_id() {
        assert!(matches!(parse("tamtam sessions").unwrap(), Command::Sessions(_)));
        assert!(matches!(parse("tamtam sessions list").unwrap(), Command::Sessions(_)));
        let Command::Resume(resume) = parse("tamtam resume abc123").unwrap() else { panic!() };
        assert_eq!(resume.session.as_str(), "abc123");
    }

    /// CLI-CMD-006, CLI-RUN-004: what is wrong is said in one line, with the place to read on.
    #[test]
    fn a_wrong_argument_is_answered_in_one_line() {
        let cases = [
            ("tamtam dance", "error: unrecognized subcommand 'dance' (see `tamtam --help`)"),
            (
                "tamtam run --bogus x",
                "error: unexpected argument '--bogus' found tip: to pass '--bogus' as a value, use '-- --bogus' (see `tamtam run --help`)",
            ),
            (
                "tamtam run",
                "error: the following required arguments were not provided: <PROMPT>... (see `tamtam run --help`)",
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(one_line(&parse(line).unwrap_err().to_string()), expected);
        }
        let bad = parse("tamtam run --permission lax x").unwrap_err().to_string();
        assert!(one_line(&bad).contains("choose strict, ask"), "{bad}");
    }
}
