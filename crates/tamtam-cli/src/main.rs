//! The `tamtam` binary, the command line of the library: reads arguments, environment and folders, hands them to the library, and shows what happens.
//!
//! Variables, the home folder, the current folder and the clock's date are read here and nowhere in the library. A command
//! that fails prints one line on stderr that says why, and what to do where something can be done; it prints none if the reader of
//! a session is gone or the user has stopped it. The exit code says how the command ended; a command whose answer is a bad finding,
//! such as a damaged tape, prints the answer and ends with 1.
//!
//! A change must keep this: the exit codes are a promise (`docs/FORMATS.md`, "Exit codes"); text of a model, a tool or a file that
//! is shown to people passes through `escape`, because it may hold sequences that a terminal obeys; and [`print()`], which blocks,
//! is for the answer of a short command. A session of `run` or `resume` writes through `output`.

mod abort;
mod acp;
mod arguments;
mod attach;
mod branch;
mod budget;
mod catalogue;
mod command;
mod config;
mod demo;
mod doctor;
mod environment;
mod escape;
mod failure;
mod grants;
mod hooks;
mod keys;
mod local_server;
mod mcp;
mod models;
mod named_file;
mod network;
mod one_call;
mod output;
#[cfg(feature = "postgres")]
mod postgres;
mod progress;
mod prompt;
mod quirks;
mod rates;
mod remote;
mod render;
mod replay;
mod restore;
mod rules;
mod run;
mod sandboxed;
mod search;
mod serve;
mod sessions;
mod skill;
mod stdin;
mod sweep;
mod tapes;
mod team;
mod terminal;
mod transfer;
mod trust;
mod typed;

use std::{io::Write, path::Path, process::ExitCode, time::Duration};

use clap::Parser as _;

use arguments::{Arguments, Command, ConfigCommand, PromptCommand, TapeCommand};
use environment::Environment;
use failure::{Exit, Failure};
use remote::Lever;

/// How long work on blocking threads may delay the end of the process.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// Runs the command that the process was started with, and gives its exit code.
fn main() -> ExitCode {
    // Dropped last, also by a panic.
    let _terminal = terminal::GiveBack;
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return arguments::refuse(&error),
    };
    if let Command::Watch { owner } = &arguments.command {
        return end(environment::keep_watch(owner), &mut std::io::stderr());
    }
    let started = output::Lines::start()
        .and_then(|stderr| Ok((stderr, tokio::runtime::Builder::new_multi_thread().enable_all().build()?)));
    let (mut stderr, runtime) = match started {
        Ok(started) => started,
        Err(error) => return end(Err(failed_to_start(&error)), &mut std::io::stderr()),
    };
    log_to(&stderr);
    keep_environment_private();
    let environment = Environment::of_process();
    let ended = runtime.block_on(carry_out(arguments.command, &environment));
    runtime.shutdown_timeout(LAST_WAIT);
    let code = end(ended, &mut stderr);
    stderr.finish();
    code
}

fn failed_to_start(error: &std::io::Error) -> Failure {
    Failure::failed(format!("failed to start: {error}"))
}

async fn carry_out(command: Command, environment: &Environment) -> Result<Exit, Failure> {
    match command {
        Command::Watch { owner } => environment::keep_watch(&owner),
        Command::Demo => demo::demo(environment).await,
        Command::Run(arguments) => run::run(arguments, environment).await,
        Command::Resume(arguments) => run::resume(arguments, environment).await,
        Command::Abort(arguments) => abort::abort(&arguments, environment).await,
        Command::Acp(arguments) => acp::acp(*arguments, environment).await,
        Command::Serve(arguments) => serve::serve(*arguments, environment).await,
        #[cfg(feature = "postgres")]
        Command::Postgres { command: arguments::PostgresCommand::Migrate(given) } => {
            postgres::migrate(&given, environment).await
        }
        Command::Ps(arguments) => remote::ps(&arguments, environment).await,
        Command::Tree(arguments) => remote::tree(&arguments, environment).await,
        Command::Attach(arguments) => remote::attach(&arguments, environment).await,
        Command::Send(arguments) => remote::send(&arguments, environment).await,
        Command::Answer(arguments) => remote::answer(&arguments, environment).await,
        Command::Stop(arguments) => remote::lever(Lever::Stop, &arguments, environment).await,
        Command::Restart(arguments) => remote::lever(Lever::Restart, &arguments, environment).await,
        Command::Park(arguments) => remote::lever(Lever::Park, &arguments, environment).await,
        Command::Unpark(arguments) => remote::lever(Lever::Unpark, &arguments, environment).await,
        Command::Passivate(arguments) => remote::lever(Lever::Passivate, &arguments, environment).await,
        Command::Crashes(arguments) => remote::crashes(&arguments, environment).await,
        Command::Drain(arguments) => remote::drain(&arguments, environment).await,
        Command::Rm(arguments) => remote::remove(&arguments, environment).await,
        Command::Tool(arguments) => one_call::tool(arguments, environment).await,
        Command::Permit(arguments) => one_call::permit(&arguments, environment),
        Command::Config { command: ConfigCommand::Show(given) } => config::show(&given, environment),
        Command::Trust(given) => trust::trust(&given, environment),
        Command::Prompt { command: PromptCommand::Show(given) } => prompt::show(&given, environment).await,
        Command::Models(arguments) => catalogue::models(&arguments, environment),
        Command::Agents(arguments) => team::agents(&arguments, environment),
        Command::Hooks { command } => hooks::hooks(&command, environment),
        Command::Mcp { command } => mcp::mcp(command, environment).await,
        Command::Skill { command } => skill::skill(command, environment),
        Command::Doctor(store) => doctor::doctor(&store, environment).await,
        Command::Sessions(arguments) => sessions::sessions(&arguments, environment),
        Command::Replay(arguments) => replay::replay(&arguments, environment),
        Command::Tape { store, command } => {
            tape(command, &environment.store(store.store.as_deref())?, environment).await
        }
    }
}

async fn tape(command: TapeCommand, store: &Path, environment: &Environment) -> Result<Exit, Failure> {
    match command {
        TapeCommand::Show { id, json } => tapes::show(store, &id, json),
        TapeCommand::Search(given) => search::search(&given, store),
        TapeCommand::Export(given) => transfer::export(&given, store),
        TapeCommand::Import(given) => transfer::import(&given, store, environment),
        TapeCommand::Merge(given) => branch::merge(given, store, environment).await,
        TapeCommand::Rollback(given) => branch::rollback(&given, store, environment).await,
        TapeCommand::Grants(given) => grants::grants(&given, store, environment).await,
        TapeCommand::Verify { id } => tapes::verify(store, id.as_ref()),
        TapeCommand::Changes(given) => restore::changes(&given, store),
        TapeCommand::Restore(given) => restore::restore(&given, store, environment),
        TapeCommand::Fork(given) => branch::fork(given, store),
        TapeCommand::Sweep(given) => sweep::sweep(&given, store),
        TapeCommand::Delete { id, yes } => sweep::delete(store, &id, yes, environment).await,
        TapeCommand::Protect { id, off } => sweep::protect(store, &id, off),
        TapeCommand::Rebuild => tapes::rebuild(store),
    }
}

/// Writes the line of a failure to stderr, and gives the exit code of the process.
fn end(ended: Result<Exit, Failure>, stderr: &mut impl Write) -> ExitCode {
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !failure.message.is_empty() {
                // A write to a closed stderr fails; there is no other place to report that.
                let line = format!("error: {}\n", escape::line(&failure.message));
                drop(stderr.write_all(line.as_bytes()));
            }
            failure.exit.into()
        }
    }
}

/// Keeps the processes of calls from reading our keys in `/proc/PID/environ`. Their own environment has no keys.
fn keep_environment_private() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "the environment of this process cannot be made private");
    }
}

/// Sends logs to stderr, but only if `TAMTAM_LOG` is set (`info`, `tamtam=debug`, …); as JSON lines if `TAMTAM_LOG_FORMAT` is `json`.
fn log_to(stderr: &output::Lines) {
    let Ok(wanted) = std::env::var("TAMTAM_LOG") else { return };
    let filter = match tracing_subscriber::EnvFilter::try_new(&wanted) {
        Ok(filter) => filter,
        Err(error) => {
            let line = format!("warning: TAMTAM_LOG is not understood, so nothing is logged: {error}\n");
            return drop(stderr.clone().write_all(line.as_bytes()));
        }
    };
    let stderr = stderr.clone();
    // Without colours: what writes them is not in the build, and the subscriber would warn of that.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || stderr.clone()).with_ansi(false);
    match std::env::var("TAMTAM_LOG_FORMAT").as_deref() {
        Ok("json") => log.json().init(),
        _ => log.init(),
    }
}

/// Writes a line for people to stderr. It may block, so use it before a session runs. A write to a closed stderr fails; there is no
/// other place to report that.
fn note(line: &str) {
    drop(std::io::stderr().write_all(format!("{}\n", escape::line(line)).as_bytes()));
}

/// Writes the answer of a command to stdout, and returns the exit of a command that is done. If the reader of stdout is gone, the
/// text is dropped and the command continues: its work and its exit code do not depend on a reader.
fn print(text: &str) -> Result<Exit, Failure> {
    written(text).map(|_| Exit::Done)
}

/// As [`print()`], for a text that a person is asked about next: an error if the reader of stdout is gone.
fn print_to_be_read(text: &str) -> Result<(), Failure> {
    match written(text)? {
        true => Ok(()),
        false => Err(Failure::failed("nothing was changed: stdout is closed, so you would not see what you are asked")),
    }
}

/// Writes to stdout; whether it has a reader.
fn written(text: &str) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::failed(format!("failed to write to stdout: {error}"))),
    }
}
