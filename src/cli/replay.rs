//! `tamtam replay`: a session again from its tape. Nothing is written to it, no model is reached and no tool runs.

use std::{
    fmt::Write as _,
    io::{BufRead as _, IsTerminal as _},
};

use tamtam::{
    SessionId,
    replay::{CheckError, Replay, ReplayError, Step, check, diverge, write_test},
    tape::{Store, TapeError},
};

use super::{
    arguments::ReplayArguments,
    escape,
    failure::{Exit, Failure},
    place::Environment,
    print, tapes,
};

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Failure {
        match error {
            ReplayError::Tape(error) => error.into(),
            ReplayError::Entry(bad) => Failure::failed(format!("{bad}: a later tamtam wrote it, or it is damaged")),
            other => Failure::failed(other.to_string()),
        }
    }
}

impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Failure {
        match error {
            CheckError::Replay(error) => error.into(),
            CheckError::Io { .. } | CheckError::NotATest { .. } => Failure::usage(error.to_string()),
            other => Failure::failed(other.to_string()),
        }
    }
}

/// Carries out the command.
pub(super) fn replay(given: &ReplayArguments, environment: &Environment) -> Result<Exit, Failure> {
    if let Some(file) = &given.test {
        return match check(file) {
            Ok(checked) => {
                let (entries, decisions) = (checked.entries, checked.decisions);
                print(&format!(
                    "{}: {entries} entries in {decisions} decisions replay as recorded\n",
                    checked.session
                ))?;
                Ok(Exit::Done)
            }
            Err(CheckError::Differs { session, difference }) => {
                print(&format!("{session} does not replay: {}\n", escape::text(&difference.to_string())))?;
                Ok(Exit::Failed)
            }
            Err(error) => Err(error.into()),
        };
    }
    let Some(session) = &given.session else {
        return Err(Failure::usage("which session? `tamtam sessions` lists those there are"));
    };
    let path = environment.store(given.store.store.as_deref())?;
    let store = tapes::open(&path)?.ok_or_else(|| TapeError::Missing { session: session.clone() })?;
    if let Some(other) = &given.against {
        return compare(&store, session, other);
    }
    if let Some(file) = &given.to_test {
        let written = write_test(&store, session, file)?;
        let shown = escape::line(&file.display().to_string());
        print(&format!(
            "{shown}: {} entries of {session}\nrun it with `tamtam replay --test {shown}`, or from cargo test as its first lines say\n",
            written.entries
        ))?;
    }
    let mut replay = Replay::open(&store, session)?;
    if given.from_anchor {
        replay = replay.from_newest_anchor();
    }
    if let Some(file) = &given.prompt {
        let prompt = std::fs::read_to_string(file)
            .map_err(|error| Failure::usage(format!("cannot read the prompt in {}: {error}", file.display())))?;
        replay = replay.prompt(prompt);
    }
    walk(replay, session, given.step)
}

/// Goes through all decisions, and ends at the first that comes out otherwise.
fn walk(replay: Replay, session: &SessionId, step_by_step: bool) -> Result<Exit, Failure> {
    let waits = step_by_step && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let (mut decisions, mut entries) = (0, 0);
    for step in replay {
        decisions += 1;
        entries += step.recorded.len();
        if step_by_step {
            print(&told(&step))?;
        }
        if let Some(difference) = &step.difference {
            let text = format!(
                "{session} does not replay: decision {} ({}) comes out otherwise\n{difference}\n",
                step.number, step.signal
            );
            print(&escape::text(&text))?;
            return Ok(Exit::Failed);
        }
        if waits && !goes_on() {
            return Ok(Exit::Done);
        }
    }
    print(&format!("{session}: {entries} entries in {decisions} decisions replay as recorded\n"))?;
    Ok(Exit::Done)
}

/// One decision on the lines of a terminal: its number, what it answered, and what it wrote.
fn told(step: &Step) -> String {
    let first = step.recorded.first().map_or(0, |(seq, _)| seq.0);
    let mut text = format!("{:4}  {}\n", step.number, escape::line(&step.signal));
    for (seq, kind) in &step.recorded {
        // Writing to a String cannot fail.
        let line = step.line as u64 + (seq.0 - first);
        let _ = writeln!(text, "      {:5}  {:18} line {line}", seq.0, escape::line(kind));
    }
    text
}

/// Waits for Enter; the end of the input, or a `q`, is the end of it.
fn goes_on() -> bool {
    let mut line = String::new();
    matches!(std::io::stdin().lock().read_line(&mut line), Ok(read) if read > 0 && line.trim() != "q")
}

fn compare(store: &Store, session: &SessionId, other: &SessionId) -> Result<Exit, Failure> {
    match diverge(&store.appends(session)?, &store.appends(other)?) {
        None => {
            print(&format!("{session} and {other} say the same, but for ids and times\n"))?;
            Ok(Exit::Done)
        }
        Some(divergence) => {
            print(&format!("{}\n", escape::text(&divergence.to_string())))?;
            Ok(Exit::Failed)
        }
    }
}
