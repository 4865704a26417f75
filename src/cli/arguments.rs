//! The arguments of each command (those of `sessions` and `tape` are in the files below), and the answer to a wrong argument.
//!
//! Help goes to stdout with exit code 0. A wrong argument becomes one line on stderr with exit code 2; with `--json`, also one
//! line of JSON on stdout. A missing command becomes the line on stderr only.
//!
//! The doc comments on commands and arguments are the texts of `--help`: a change to one changes what users read. A change must not
//! look at the store, the variables or a folder here: arguments are refused for their form alone, before anything is opened.

mod sessions;
mod tape;

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, error::ErrorKind};
use tamtam::{SessionId, permission::Profile};

use super::{
    budget::BudgetArguments,
    escape,
    failure::{Exit, Failure},
    sandboxed::SandboxArguments,
};

use sessions::label;
pub(super) use sessions::{SessionsArguments, labels};
pub(super) use tape::{
    BeforeArguments, ChangesArguments, ExportArguments, ForkArguments, GrantsArguments, ImportArguments,
    MergeArguments, RestoreArguments, RollbackArguments, SearchArguments, SweepArguments, TapeCommand,
};

/// A supervised runtime for AI agents. Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 stopped by a rejection, a
/// budget, the step limit or the guard against loops, 130 aborted.
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
    /// Run one prompt to its end; a line typed while it runs steers it
    Run(RunArguments),
    /// Continue an interrupted session
    Resume(ResumeArguments),
    /// Give up the open turn of a session that no process runs, also on a full disk; asks no model and runs no tool
    Abort(AbortArguments),
    /// Run one tool, ask nobody, and print {"content","details","is_error"}
    Tool(ToolArguments),
    /// Judge one call, run nothing, and print {"decision","rule","layer","why"}
    Permit(PermitArguments),
    /// Look at the settings that files and arguments make
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Trust the files in the folder .tamtam of a project as they are now, or take that back
    Trust(TrustArguments),
    /// Show what a session is sent before its first message
    Prompt {
        #[command(subcommand)]
        command: PromptCommand,
    },
    /// List the models whose price is known, and whether there is a key for them
    Models(ModelsArguments),
    /// List the agents: what each is for, and the file that it comes from
    Agents(AgentsArguments),
    /// Show what this system has: the store, keys by name, the terminal, and what it can hold of a sandbox
    Doctor(StoreArguments),
    /// List the sessions of the store
    Sessions(SessionsArguments),
    /// Run a session again from its tape, with no network and no tools; ends 1 at the first difference
    Replay(ReplayArguments),
    /// Wait until the parent process is gone, then end the processes that its calls left running
    #[command(name = "__watch", hide = true)]
    Watch {
        /// The process that owns them
        owner: String,
    },
    /// Work with tapes: show, verify, fork, roll back, export, remove
    Tape {
        #[command(flatten)]
        store: StoreArguments,
        #[command(subcommand)]
        command: TapeCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Show each setting of a new session and where it comes from, and the rules; takes the arguments of run
    Show(TurnArguments),
}

#[derive(Args, Debug)]
pub(super) struct TrustArguments {
    /// The folder of the project
    pub(super) dir: Option<PathBuf>,
    /// List what is trusted, and what was granted for each project
    #[arg(long, conflicts_with = "revoke")]
    pub(super) list: bool,
    /// Take back the trust and all that was granted; with an id, that grant of the list
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true)]
    pub(super) revoke: Option<Option<u64>>,
    /// With --list: one project a line, as JSON
    #[arg(long, requires = "list")]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct AbortArguments {
    /// The session
    #[arg(value_name = "ID")]
    pub(super) session: SessionId,
    /// Why, in a few words that its tape keeps
    #[arg(long, value_name = "WORDS")]
    pub(super) reason: Option<String>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// Where the tapes are.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct StoreArguments {
    /// Folder of the tapes [default: tamtam in the user's data folder]
    #[arg(long, value_name = "DIR", global = true, display_order = 900)]
    pub(super) store: Option<PathBuf>,
}

/// Which calls may run.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct PermissionArguments {
    /// strict, ask, edits, auto, readonly, headless or opencode [default: ask on a terminal and with --json, else headless]
    #[arg(long, value_name = "PROFILE")]
    pub(super) permission: Option<Profile>,
    /// A file of rules that win over those of the profile, in TOML (NAME.toml) or JSON: bash = "ask", or
    /// {"permission":"bash","pattern":"cargo test","action":"allow"} (see docs/CONFIG.md)
    #[arg(long, value_name = "FILE")]
    pub(super) rules: Option<PathBuf>,
}

/// Who answers.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ModelArguments {
    /// PROVIDER/MODEL, or scripted:FILE to play a script [default: the session's, else that of the one provider whose key or
    /// local server is found]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(super) model: Option<String>,
    /// URL of the model's provider
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// Seconds of silence after which a request is given up whose answer has not begun [default: 600 for local, else 300]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) first_timeout: Option<u64>,
    /// Whether the model takes images [default: false for local, else by its name]
    #[arg(long, value_name = "BOOL")]
    pub(super) images: Option<bool>,
    /// Which of the model's thoughts are sent back: never, with_calls or details [default: that of the provider]
    #[arg(long, value_name = "WHICH", value_parser = super::models::reasoning_back)]
    pub(super) reasoning_back: Option<tamtam::model::ReasoningBack>,
}

/// Whose session it is, and where it works.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct SetupArguments {
    /// Name of the agent, see `tamtam agents`: build, plan, which changes nothing but its plan until that is approved, or one of
    /// your files [default: build]
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// Folder that the tools work in; for a session whose folder was moved, its new place [default: the session's, else the
    /// current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    #[command(flatten)]
    pub(super) permission: PermissionArguments,
    #[command(flatten)]
    pub(super) sandbox: SandboxArguments,
}

/// What a turn is run with.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct TurnArguments {
    /// A file of settings that win over those of the user and of the project (see docs/CONFIG.md)
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) setup: SetupArguments,
    /// Model requests that a turn may make, of the session and of each task that it gives [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_steps: Option<u32>,
    #[command(flatten)]
    pub(super) budget: BudgetArguments,
    /// One event a line on stdout, one command a line on stdin (see docs/FORMATS.md)
    #[arg(long)]
    pub(super) json: bool,
    /// Leave keys in the output of tools as they are. By default what is shaped like a key, and the values of variables such as
    /// MY_TOKEN, are replaced by [redacted: kind] before the model, the tape and you see them
    #[arg(long)]
    pub(super) no_redact: bool,
    /// What is on the tape survives the end of the process, or also a power cut, at one sync of the disk for each step
    /// [default: process]
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(super) durability: Option<Survives>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// What the tape of a session survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Survives {
    /// A crash or kill of the process; a power cut may take all that the system had not written yet
    Process,
    /// A power cut
    Power,
}

#[derive(Args, Debug)]
pub(super) struct RunArguments {
    /// The task, in words; - for the text of stdin; /NAME for a command, see /help
    #[arg(required = true, value_name = "PROMPT")]
    pub(super) prompt: Vec<String>,
    /// Continue this session, or create it under this id
    #[arg(long, value_name = "ID")]
    pub(super) session: Option<SessionId>,
    /// What the session is called in lists [default: the words that its first message begins with]
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,
    /// A label by which `sessions` and `tape search` find the session; may be given again. A session that is there keeps its
    /// other labels
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(super) label: Vec<(String, String)>,
    /// Files and images to send with the prompt
    #[arg(long, value_name = "PATH", num_args = 1)]
    pub(super) file: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) turn: TurnArguments,
}

#[derive(Args, Debug)]
pub(super) struct ResumeArguments {
    /// The session
    #[arg(value_name = "ID")]
    pub(super) session: SessionId,
    /// What to say to it when its unfinished work is done; - for the text of stdin
    #[arg(value_name = "PROMPT")]
    pub(super) prompt: Vec<String>,
    #[command(flatten)]
    pub(super) turn: TurnArguments,
}

#[derive(Args, Debug)]
pub(super) struct ToolArguments {
    /// read, write, edit, bash, grep, find or ls
    pub(super) name: String,
    /// Its arguments: a JSON object
    pub(super) json: String,
    /// Folder that the tool works in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    #[command(flatten)]
    pub(super) sandbox: SandboxArguments,
}

#[derive(Args, Debug)]
pub(super) struct PermitArguments {
    /// The tool
    pub(super) tool: String,
    /// The arguments of the call: a JSON object
    pub(super) json: String,
    /// Folder that the call would work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    /// A file of settings that win over those of the user and of the project (see docs/CONFIG.md)
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) permission: PermissionArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum PromptCommand {
    /// Print the system prompt and the tools of a new session, section by section, with their sizes
    Show(PromptShowArguments),
}

#[derive(Args, Debug)]
pub(super) struct PromptShowArguments {
    #[command(flatten)]
    pub(super) setup: SetupArguments,
    /// One JSON object: the system prompt whole and by its sections, and the tools
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct ModelsArguments {
    /// Only those whose name contains this
    pub(super) part: Option<String>,
    /// One model a line, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct AgentsArguments {
    /// Folder whose agents are listed beside your own [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    /// One agent a line, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct ReplayArguments {
    /// The session
    #[arg(required_unless_present = "test")]
    pub(super) id: Option<SessionId>,
    /// Show every decision and its number; on a terminal one at a time: Enter continues, f makes a fork there, q quits
    #[arg(long)]
    pub(super) step: bool,
    /// Replay through this decision, then make a new session that continues after it, and print its id; no session is made
    /// where a decision does not match the tape before
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["prompt", "to_test"])]
    pub(super) fork_at: Option<u64>,
    /// With --fork-at: the id of the new session [default: one that no other has]
    #[arg(long = "as", value_name = "ID", requires = "fork_at")]
    pub(super) fork: Option<SessionId>,
    /// Begin at the newest anchor, not at the first entry
    #[arg(long)]
    pub(super) from_anchor: bool,
    /// Replay with the system prompt in this file, and show the first request that it changes
    #[arg(long, value_name = "FILE")]
    pub(super) prompt: Option<PathBuf>,
    /// Write the tape as a test into this file, then replay it
    #[arg(long, value_name = "FILE")]
    pub(super) to_test: Option<PathBuf>,
    /// Check a file that --to-test has written, on any machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "step", "fork_at", "from_anchor", "prompt", "to_test", "against"])]
    pub(super) test: Option<PathBuf>,
    /// Compare with the tape of another session; ends 1 where the two differ
    #[arg(long, value_name = "ID", conflicts_with_all = ["step", "fork_at", "from_anchor", "prompt", "to_test"])]
    pub(super) against: Option<SessionId>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// Answers arguments that do not parse: help on stdout, any error as one line on stderr.
pub(super) fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A write to a closed stdout fails; nobody reads the help then.
            drop(error.print());
            Exit::Done.into()
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            drop(writeln!(std::io::stderr(), "error: no command was given: see `tamtam --help`"));
            Exit::Usage.into()
        }
        _ => {
            let line = one_line(&error.to_string());
            if std::env::args_os().any(|argument| argument == "--json") {
                let failure = Failure::usage(line.trim_start_matches("error: "));
                drop(std::io::stdout().write_all(failure.line().as_bytes()));
            }
            drop(writeln!(std::io::stderr(), "{line}"));
            Exit::Usage.into()
        }
    }
}

/// Joins clap's lines into one: the error, its tip, and the `--help` to read.
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
        assert_eq!(
            (run.prompt.join(" ").as_str(), run.turn.model.model.as_deref()),
            ("hello world", Some("openai:gpt-4"))
        );
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
