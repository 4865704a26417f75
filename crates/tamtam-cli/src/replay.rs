//! `tamtam replay`: makes the decisions of a session again from its tape, and compares them with the tape.
//!
//! | option | what it does |
//! |---|---|
//! | none | replays the session, and says whether every decision came out as recorded |
//! | `--step` | shows each decision; at a terminal it waits for a key after each, and `f` forks the session there |
//! | `--fork-at N` | forks the session after decision N |
//! | `--from-anchor` | begins at the newest anchor, not at the beginning |
//! | `--prompt FILE` | replays with another system prompt |
//! | `--test FILE` | replays the tape in that file |
//! | `--to-test FILE` | writes such a file, and then replays the session |
//! | `--against ID` | compares two tapes without a replay |
//!
//! The session's tape is not changed, no model is asked and no tool runs. A fork is made only if every decision that was replayed
//! came out as recorded.
//!
//! A change must keep this: text from a tape passes through `escape` before it is printed; a difference ends the command with
//! exit code 1, also where nobody reads stdout, and wrong use with 2.

use std::{
    fmt::Write as _,
    io::{
        BufRead as _,
        ErrorKind::{QuotaExceeded, StorageFull},
        IsTerminal as _, Write as _,
    },
    path::Path,
};

use tamtam::{
    SessionId,
    ops::replay::{CheckError, Replay, ReplayError, Step, check, diverge, write_test},
    session::Point,
    tape::Store,
};

use super::{
    arguments::ReplayArguments,
    branch,
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    named_file, print, tapes,
};

/// Largest file with a prompt.
const PROMPT_BYTES_MAX: u64 = 16 << 20;

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
            CheckError::Io { ref source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded) => {
                Failure::failed(error.to_string())
            }
            CheckError::Io { .. } | CheckError::NotATest { .. } => Failure::usage(error.to_string()),
            other => Failure::failed(other.to_string()),
        }
    }
}

/// Carries out the command in one of its forms: check a file, compare two tapes, or replay a session and then fork it if asked to.
pub(super) fn replay(given: &ReplayArguments, environment: &Environment) -> Result<Exit, Failure> {
    if let Some(file) = &given.test {
        return match check(file) {
            Ok(checked) => as_recorded(&checked.session, checked.entries, checked.decisions),
            Err(CheckError::Differs { session, difference }) => {
                differs(&format!("{session} does not replay: {}\n", escape::text(&difference.to_string())))
            }
            Err(error) => Err(error.into()),
        };
    }
    let Some(session) = &given.id else {
        return Err(Failure::usage("no session given: `tamtam sessions` lists the sessions"));
    };
    let path = environment.store(given.store.store.as_deref())?;
    let store = tapes::open_for(&path, session)?;
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
        let prompt = named_file::text(file, PROMPT_BYTES_MAX)
            .map_err(|error| Failure::usage(format!("cannot read the prompt in {}: {error}", file.display())))?;
        replay = replay.prompt(prompt);
    }
    walk(replay, session, &path, given)
}

/// Replays all decisions, or those up to the decision to fork after, and ends at the first that does not match the tape.
fn walk(replay: Replay, session: &SessionId, path: &Path, given: &ReplayArguments) -> Result<Exit, Failure> {
    // Makes a session that continues after the decision. The replayed session is not changed.
    let fork = |step: &Step| branch::make_fork(path, session, Some(&Point::At(step.last())), given.fork.clone());
    let by_hand = given.step && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let wanted = given.fork_at.map(|wanted| usize::try_from(wanted).unwrap_or(usize::MAX));
    let (mut decisions, mut entries, mut last) = (0, 0, 0);
    let all = replay.decisions();
    if by_hand {
        note("Enter: next decision; f: fork the session here; q: quit");
    }
    for step in replay {
        decisions += 1;
        entries += step.recorded.len();
        last = step.number;
        if given.step {
            print(&told(&step))?;
        }
        if let Some(difference) = &step.difference {
            let text = format!(
                "{session} does not replay: decision {} ({}) does not match the tape\n{difference}\n",
                step.number, step.signal
            );
            return differs(&escape::text(&text));
        }
        if wanted == Some(step.number) {
            return fork(&step);
        }
        if wanted.is_some_and(|wanted| wanted < step.number) {
            break;
        }
        match if by_hand { typed() } else { Key::GoOn } {
            Key::GoOn => {}
            Key::Fork => return fork(&step),
            Key::End => return Ok(Exit::Done),
        }
    }
    if let Some(wanted) = wanted {
        let from = last + 1 - decisions.max(1);
        return Err(Failure::usage(format!(
            "decision {wanted} is not among those that are replayed, {from} to {all}: `tamtam replay {session} --step` numbers them"
        )));
    }
    as_recorded(session, entries, decisions)
}

/// Says where it differs.
fn differs(words: &str) -> Result<Exit, Failure> {
    print(words).map(|_| Exit::Failed)
}

fn as_recorded(session: &SessionId, entries: usize, decisions: usize) -> Result<Exit, Failure> {
    print(&format!("{session}: {entries} entries in {decisions} decisions replay as recorded\n"))
}

/// Writes a hint for the person at the terminal to stderr, beside the output of the command.
fn note(words: &str) {
    // A write to a closed stderr fails; the hint is not needed then.
    drop(writeln!(std::io::stderr(), "{words}"));
}

/// One decision as text: its number, the input that it answered, and the entries that it wrote.
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

/// What a person wants after a decision.
enum Key {
    GoOn,
    Fork,
    End,
}

/// Waits for a line on stdin. The end of the input counts as `q`; an unknown word is asked for again.
fn typed() -> Key {
    loop {
        let mut line = String::new();
        if !std::io::stdin().lock().read_line(&mut line).is_ok_and(|read| read > 0) {
            return Key::End;
        }
        match line.trim() {
            "" => return Key::GoOn,
            "f" => return Key::Fork,
            "q" => return Key::End,
            _ => note("Enter, f or q"),
        }
    }
}

fn compare(store: &Store, session: &SessionId, other: &SessionId) -> Result<Exit, Failure> {
    match diverge(&store.appends(session)?, &store.appends(other)?) {
        None => print(&format!("{session} and {other} are the same, except for ids and times\n")),
        Some(divergence) => differs(&format!("{}\n", escape::text(&divergence.to_string()))),
    }
}
