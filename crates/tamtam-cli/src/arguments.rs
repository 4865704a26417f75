//! The arguments of each command (those of `sessions` and `tape` are in the files below), and the answer to a wrong argument.
//!
//! Help goes to stdout with exit code 0. A wrong argument becomes one line on stderr with exit code 2; with `--json`, also one
//! line of JSON on stdout. A missing command becomes the line on stderr only.
//!
//! The doc comments on commands and arguments are the texts of `--help`: a change to one changes what users read. A change must not
//! look at the store, the variables or a folder here: arguments are refused for their form alone, before anything is opened.

mod acp;
mod hooks;
mod mcp;
#[cfg(feature = "postgres")]
mod postgres;
pub(super) mod remote;
mod sessions;
mod skill;
mod tape;

use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand, error::ErrorKind};
use tamtam::{SessionId, permission::Profile};

use super::{
    budget::BudgetArguments,
    escape,
    failure::{Exit, Failure},
    network::NetworkArguments,
    sandboxed::SandboxArguments,
};

pub(super) use acp::AcpArguments;
pub(super) use hooks::{HooksArguments, HooksCommand};
pub(super) use mcp::{McpAddArguments, McpArguments, McpCheckArguments, McpCommand};
#[cfg(feature = "postgres")]
pub(super) use postgres::{MigrateArguments, PostgresArguments, PostgresCommand};
use remote::{
    AnswerArguments, AttachArguments, CrashesArguments, DrainArguments, LeverArguments, PsArguments, RemoveArguments,
    SendArguments, ServeArguments, TreeArguments,
};
use sessions::label;
pub(super) use sessions::{SessionsArguments, labels};
pub(super) use skill::SkillCommand;
pub(super) use tape::{
    BeforeArguments, ChangesArguments, ExportArguments, ForkArguments, GrantsArguments, ImportArguments,
    MergeArguments, RestoreArguments, RollbackArguments, SearchArguments, SweepArguments, TapeCommand,
};

/// Run AI agents as supervised, replayable sessions.
#[derive(Debug, Parser)]
#[command(name = "tamtam", version, propagate_version = true, after_help = EXIT_STATUS)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The end of the help.
const EXIT_STATUS: &str = "\
Exit status:
  0    done
  1    failed
  2    wrong usage or configuration
  3    stopped by a rejection, a budget, the step limit or the loop guard
  130  aborted";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Watch a scripted session edit files, take a message mid-run, crash and recover (no key, no network)
    Demo,
    /// Run a prompt until it is done. Type while it runs to send the agent a message
    Run(RunArguments),
    /// Continue an interrupted session
    Resume(ResumeArguments),
    /// Give up the open turn of a session that no process runs, also on a full disk; asks no model and runs no tool
    Abort(AbortArguments),
    /// Serve sessions over HTTP, with events, levers and a page, until a signal comes
    Serve(Box<ServeArguments>),
    /// Make the tables for `serve --postgres`, or bring them up to date
    #[cfg(feature = "postgres")]
    Postgres {
        #[command(subcommand)]
        command: PostgresCommand,
    },
    /// Serve an editor over the Agent Client Protocol, on stdin and stdout
    Acp(Box<AcpArguments>),
    /// List the sessions that a server has awake, those that need a person first
    Ps(PsArguments),
    /// Show the supervision tree of a server
    Tree(TreeArguments),
    /// Follow a session of a server, and type to steer it
    Attach(AttachArguments),
    /// Send a message to a session of a server
    Send(SendArguments),
    /// Answer a question of a session of a server
    Answer(AnswerArguments),
    /// Stop an actor of a server; a session goes on with its next message
    Stop(LeverArguments),
    /// Restart an actor of a server; what it has open goes on
    Restart(LeverArguments),
    /// Keep an actor of a server stopped
    Park(LeverArguments),
    /// Let a parked actor of a server run again
    Unpark(LeverArguments),
    /// Put an idle session of a server to sleep
    Passivate(LeverArguments),
    /// Show why actors of a server crashed
    Crashes(CrashesArguments),
    /// Let a server take no new messages, and wait until its sessions are at rest
    Drain(DrainArguments),
    /// Delete a session of a server
    Rm(RemoveArguments),
    /// Run one tool without asking for approval, and print the result as JSON
    Tool(ToolArguments),
    /// Show what the permission rules would decide about a call, without running it
    Permit(PermitArguments),
    /// Show the effective settings and where each one comes from
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Show a project's configuration, agents, commands and AGENTS.md and trust them, or revoke that trust
    Trust(TrustArguments),
    /// Show the system prompt and the tools of a new session
    Prompt {
        #[command(subcommand)]
        command: PromptCommand,
    },
    /// List the models with a known price, and whether you have a key for them
    Models(ModelsArguments),
    /// List the agents: what each one is for, and the file that defines it
    Agents(AgentsArguments),
    /// Use MCP servers: list, check and add them
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// List or check hooks: programs that run at fixed points of a session
    Hooks {
        #[command(subcommand)]
        command: HooksCommand,
    },
    /// List or check skills: instructions that a model reads when it needs them
    Skill {
        #[command(subcommand)]
        command: SkillCommand,
    },
    /// Check the configuration, model, API keys, store, database, terminal and sandbox support
    Doctor(StoreArguments),
    /// List the sessions, those that wait for you first
    Sessions(SessionsArguments),
    /// Replay a session from its tape, without network or tools; exits 1 at the first difference
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
    /// Show each setting of a new session with its origin, and the rules; takes the arguments of run
    Show(TurnArguments),
}

#[derive(Args, Debug)]
pub(super) struct TrustArguments {
    /// Folder of the project
    pub(super) dir: Option<PathBuf>,
    /// Show the files whole, and what changed since they were trusted; trusts nothing
    #[arg(long, conflicts_with_all = ["yes", "list", "revoke"])]
    pub(super) show: bool,
    /// Trust the files without a question; needed without a terminal
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub(super) yes: bool,
    /// List the trusted projects and the approvals for each
    #[arg(long, conflicts_with = "revoke")]
    pub(super) list: bool,
    /// Revoke the trust and all approvals; with an ID, only that approval of the list
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true)]
    pub(super) revoke: Option<Option<u64>>,
    /// With --list: one project per line, as JSON
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
    /// Abort it in the server that runs it, which listens there
    #[arg(long, visible_alias = "url", value_name = "PLACE", conflicts_with = "store")]
    pub(super) at: Option<String>,
    /// Token of that server [default: the variable TAMTAM_SERVE_TOKEN]
    #[arg(long, value_name = "TOKEN", requires = "at")]
    pub(super) token: Option<String>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// Where the tapes are.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct StoreArguments {
    /// Folder of the session store [default: tamtam in your data folder]
    #[arg(long, value_name = "DIR", global = true, display_order = 900)]
    pub(super) store: Option<PathBuf>,
}

/// Which calls may run.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct PermissionArguments {
    /// strict, ask, edits, auto, readonly, headless or opencode [default: ask on a terminal and with --json, else headless]
    #[arg(long, value_name = "PROFILE")]
    pub(super) permission: Option<Profile>,
    /// File of rules that override the profile, in TOML (NAME.toml) or JSON: bash = "ask", or
    /// {"permission":"bash","pattern":"cargo test","action":"allow"} (see docs/CONFIG.md)
    #[arg(long, value_name = "FILE")]
    pub(super) rules: Option<PathBuf>,
}

/// Who answers.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ModelArguments {
    /// PROVIDER/MODEL, or scripted:FILE to play a script [default: the session's, else that of the first provider
    /// with a key, in the order of `tamtam doctor`, else that of a local server]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(super) model: Option<String>,
    /// Model that goes on with a turn where the one before it fails; may be repeated. With failures, such as
    /// "local/qwen3 on auth,network", it stands in for these alone [default: those of the agent]
    #[arg(long, value_name = "PROVIDER/MODEL[ on FAILURE,…]")]
    pub(super) fallback: Vec<tamtam::session::Fallback>,
    /// URL of the model's provider
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// API of the provider: chat (Chat Completions), responses, messages or gemini [default: that of the provider, else chat]
    #[arg(long, value_name = "API", value_parser = super::quirks::api)]
    pub(super) api: Option<tamtam::model::Api>,
    /// How the provider's server differs from the original of its API, such as max_tokens=max_completion_tokens; may be repeated
    /// (see docs/PROVIDERS.md)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(super) quirk: Vec<super::quirks::Quirk>,
    /// The most that goes to the provider with its key: requests=N at once, requests_per_minute=N, tokens_per_minute=N; may be
    /// repeated
    #[arg(long, value_name = "NAME=NUMBER")]
    pub(super) rate_limit: Vec<super::rates::RateLimit>,
    /// Seconds of silence after which a request is given up whose answer has not begun [default: 600 for local, else 300]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) first_timeout: Option<u64>,
    /// Whether the model takes images [default: false for local, else by its name]
    #[arg(long, value_name = "BOOL")]
    pub(super) images: Option<bool>,
    /// Which of the model's thoughts are sent back: never, with_calls or details [default: that of the provider]
    #[arg(long, value_name = "WHICH", value_parser = super::models::reasoning_back)]
    pub(super) reasoning_back: Option<tamtam::model::ReasoningBack>,
    /// How much the model thinks: off, minimal, low, medium, high or xhigh [default: that of the agent, else of the provider]
    #[arg(long, value_name = "LEVEL")]
    pub(super) thinking: Option<tamtam::model::Thinking>,
    /// Sampling temperature, from 0 to 2 [default: that of the agent, else of the provider]
    #[arg(long, value_name = "NUMBER", value_parser = super::models::temperature)]
    pub(super) temperature: Option<f32>,
    /// Nucleus sampling, from 0 to 1 [default: that of the agent, else of the provider]
    #[arg(long, value_name = "NUMBER", value_parser = super::models::top_p)]
    pub(super) top_p: Option<f32>,
    #[command(flatten)]
    pub(super) network: NetworkArguments,
}

impl ModelArguments {
    /// Whether they say how the model is to answer, and not only which it is.
    pub(super) fn samples(&self) -> bool {
        self.thinking.is_some() || self.temperature.is_some() || self.top_p.is_some()
    }
}

/// Whose session it is, and where it works.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct SetupArguments {
    /// Agent to use: build, plan (edits only its plan until you approve it), or one of your own (see `tamtam agents`) [default:
    /// build]
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// Folder that the tools work in; if the folder of a session was moved, its new location [default: the session's, else the
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
    /// File of settings that override yours and the project's (see docs/CONFIG.md)
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) setup: SetupArguments,
    /// File of a JSON schema that the final answer must fit; stdout then gets that JSON alone
    #[arg(long, value_name = "FILE")]
    pub(super) output_schema: Option<PathBuf>,
    /// Maximum number of model requests in a turn, of the session and of each of its tasks [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_steps: Option<u32>,
    #[command(flatten)]
    pub(super) budget: BudgetArguments,
    /// How long a question waits for an answer before it is denied: 90s, 10m, 2h, or off to wait without end [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub(super) ask_limit: Option<AskLimit>,
    /// Write one event per line to stdout, and read one command per line from stdin (see docs/FORMATS.md)
    #[arg(long)]
    pub(super) json: bool,
    /// Do not redact secrets in tool output. By default, anything that looks like a key, and the values of variables such as
    /// MY_TOKEN, are replaced by [redacted: kind] before the model, the tape and you see them
    #[arg(long)]
    pub(super) no_redact: bool,
    /// File whose text joins the system prompt of a new session, as AGENTS.md does; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) instructions: Vec<PathBuf>,
    /// Hint at plans: the size of a request, failures so far, findings in .tamtam/findings.md, an open to-do list [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(super) planning: Option<bool>,
    /// Offer the tool web_fetch, which reads pages of the web; each host is a permission [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(super) web_fetch: Option<bool>,
    /// Hint at the work after many reads in a row [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(super) read_loop: Option<bool>,
    /// How durable the session log is [default: process]
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(super) durability: Option<Survives>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    /// The database that a file names, for `serve`, whose argument it is.
    #[arg(skip)]
    pub(super) postgres: Option<String>,
}

/// What the tape of a session survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Survives {
    /// Survives a crash or kill of the process; a power loss may take what the system had not yet written
    Process,
    /// Survives power loss (one fsync per step)
    Power,
}

/// How long a question may stay unanswered. `off` is kept as [`AskLimit::OFF`], a hundred years: a moment that programs can still
/// read as a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AskLimit(pub(super) Duration);

impl AskLimit {
    const OFF: AskLimit = AskLimit(Duration::from_secs(36_525 * 86_400));
}

impl std::str::FromStr for AskLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<AskLimit, String> {
        if text == "off" {
            return Ok(AskLimit::OFF);
        }
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "s" => Some(1),
            "m" => Some(60),
            "h" => Some(3_600),
            _ => None,
        };
        let seconds = digits.parse::<u64>().ok().filter(|n| *n > 0).zip(unit).and_then(|(n, unit)| n.checked_mul(unit));
        let seconds = seconds.filter(|seconds| *seconds <= AskLimit::OFF.0.as_secs());
        seconds
            .map(|seconds| AskLimit(Duration::from_secs(seconds)))
            .ok_or("write it as 90s, 10m, 2h or off".to_owned())
    }
}

impl std::fmt::Display for AskLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_secs() {
            _ if *self == AskLimit::OFF => f.write_str("off"),
            seconds if seconds.is_multiple_of(3_600) => write!(f, "{}h", seconds / 3_600),
            seconds if seconds.is_multiple_of(60) => write!(f, "{}m", seconds / 60),
            seconds => write!(f, "{seconds}s"),
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct RunArguments {
    /// The prompt; - to read it from stdin; /NAME for a command (see /help)
    #[arg(required = true, value_name = "PROMPT")]
    pub(super) prompt: Vec<String>,
    /// Continue this session, or create it under this id
    #[arg(long, value_name = "ID")]
    pub(super) session: Option<SessionId>,
    /// Title shown in lists [default: the start of the first message]
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,
    /// Label by which `sessions` and `tape search` find the session; may be repeated. An existing session keeps its other
    /// labels
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(super) label: Vec<(String, String)>,
    /// Files and images to send with the prompt
    #[arg(long, value_name = "PATH", num_args = 1)]
    pub(super) file: Vec<PathBuf>,
    /// Let other programs follow and steer this run while it goes on: on a socket, or on HOST:PORT of this machine
    #[arg(long, value_name = "WHERE")]
    pub(super) listen: Option<String>,
    #[command(flatten)]
    pub(super) turn: TurnArguments,
}

#[derive(Args, Debug)]
pub(super) struct ResumeArguments {
    /// The session
    #[arg(value_name = "ID")]
    pub(super) session: SessionId,
    /// Prompt to send when the unfinished work is done; - to read it from stdin
    #[arg(value_name = "PROMPT")]
    pub(super) prompt: Vec<String>,
    /// Let other programs follow and steer this run while it goes on: on a socket, or on HOST:PORT of this machine
    #[arg(long, value_name = "WHERE")]
    pub(super) listen: Option<String>,
    #[command(flatten)]
    pub(super) turn: TurnArguments,
}

#[derive(Args, Debug)]
pub(super) struct ToolArguments {
    /// read, write, edit, bash, grep, find or ls
    pub(super) name: String,
    /// Arguments of the tool: a JSON object
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
    /// Arguments of the call: a JSON object
    pub(super) json: String,
    /// Folder that the call would work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    /// File of settings that override yours and the project's (see docs/CONFIG.md)
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
    /// Print one JSON object: the system prompt, whole and by section, and the tools
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct ModelsArguments {
    /// Only models whose name contains this text
    pub(super) part: Option<String>,
    /// Print one model per line, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct AgentsArguments {
    /// Folder whose agents are listed with your own [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    /// Print one agent per line, as JSON
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
    /// Replay through this decision, then create a session that continues after it, and print its id; no session is created if
    /// an earlier decision differs from the tape
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["prompt", "to_test"])]
    pub(super) fork_at: Option<u64>,
    /// With --fork-at: id of the new session [default: a new id]
    #[arg(long = "as", value_name = "ID", requires = "fork_at")]
    pub(super) fork: Option<SessionId>,
    /// Begin at the newest anchor instead of the first entry
    #[arg(long)]
    pub(super) from_anchor: bool,
    /// Replay with the system prompt in this file, and show the first request that it changes
    #[arg(long, value_name = "FILE")]
    pub(super) prompt: Option<PathBuf>,
    /// Write the tape as a test into this file, then replay it
    #[arg(long, value_name = "FILE")]
    pub(super) to_test: Option<PathBuf>,
    /// Check a file written by --to-test, on any machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "step", "fork_at", "from_anchor", "prompt", "to_test", "against"])]
    pub(super) test: Option<PathBuf>,
    /// Compare with the tape of another session; exits 1 if they differ
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
            drop(writeln!(std::io::stderr(), "error: no command given: see `tamtam --help`"));
            Exit::Usage.into()
        }
        _ => {
            let given: Vec<String> =
                std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
            let line = one_line(&error.to_string(), &given);
            if std::env::args_os().any(|argument| argument == "--json") {
                let failure = Failure::usage(line.trim_start_matches("error: "));
                drop(std::io::stdout().write_all(failure.line().as_bytes()));
            }
            drop(writeln!(std::io::stderr(), "{line}"));
            Exit::Usage.into()
        }
    }
}

/// Joins clap's lines into one: the error, its tip, and the `--help` of the command that was given.
fn one_line(message: &str, given: &[String]) -> String {
    use clap::CommandFactory as _;
    let all = Arguments::command();
    let (mut command, mut path) = (&all, "tamtam".to_owned());
    for word in given {
        let Some(below) = command.find_subcommand(word) else { break };
        command = below;
        path = format!("{path} {word}");
    }
    // The tip of clap is a name that looks alike; a command of `tape` is what was meant.
    let of_tape = all.find_subcommand("tape").zip(given.first());
    let of_tape = of_tape.filter(|(tape, word)| path == "tamtam" && tape.find_subcommand(word).is_some());
    if let Some((_, word)) = of_tape {
        return escape::line(&format!("error: unrecognized subcommand '{word}': `tamtam tape {word}` is one"));
    }
    let said = message.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let said: Vec<&str> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
    escape::line(&format!("{} (see `{path} --help`)", said.join(" ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Arguments::try_parse_from(line.split(' ')).map(|arguments| arguments.command)
    }

    /// The line about arguments that do not parse.
    fn refused(line: &str) -> String {
        let given: Vec<String> = line.split(' ').skip(1).map(str::to_owned).collect();
        one_line(&parse(line).unwrap_err().to_string(), &given)
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

    #[test]
    fn the_limit_of_a_question_is_read_and_written_in_the_same_words() {
        for text in ["90s", "10m", "2h", "off"] {
            assert_eq!(text.parse::<AskLimit>().map(|limit| limit.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("120s".parse::<AskLimit>().map(|limit| limit.to_string()), Ok("2m".to_owned()));
        for bad in ["", "10", "m", "0s", "1d", "-1m", "99999999999999999999s", "18446744073709551615h"] {
            assert!(bad.parse::<AskLimit>().is_err(), "{bad}");
        }
    }

    /// CLI-CMD-006, CLI-RUN-004: what is wrong is said in one line, with the place to read on.
    #[test]
    fn a_wrong_argument_is_answered_in_one_line() {
        let cases = [
            ("tamtam xyzzy", "error: unrecognized subcommand 'xyzzy' (see `tamtam --help`)"),
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
            assert_eq!(refused(line), expected);
        }
        let bad = refused("tamtam run --permission lax x");
        assert!(bad.contains("choose strict, ask") && bad.ends_with("(see `tamtam run --help`)"), "{bad}");
        assert_eq!(refused("tamtam grants"), "error: unrecognized subcommand 'grants': `tamtam tape grants` is one");
    }
}
