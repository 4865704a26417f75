//! A recorded tape as a test: one file that holds the tape and what is expected of it.
//!
//! ```text
//! # comments: what this is, and how to run it
//! {"tamtam_replay":1,"session":"s","entries":12,"decisions":5,"requests":2,"outcomes":["done"]}
//! the lines of the tape, as they stood in its files
//! ```
//!
//! The lines keep their checksums, so a changed or missing one is found and named. The file depends on nothing outside of it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Difference, Replay, ReplayError};
use crate::{
    ids::SessionId,
    session::{Entry, Record},
    tape::{Append, Store, TapeError, TapeFile, decode_files},
};

/// The newest form of such files that is read, and the one that is written.
const VERSION: u32 = 1;

/// What is expected of the tape in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Expected {
    tamtam_replay: u32,
    session: SessionId,
    entries: usize,
    decisions: usize,
    requests: usize,
    outcomes: Vec<String>,
}

impl Expected {
    fn of(session: &SessionId, appends: &[Append]) -> Result<Expected, ReplayError> {
        let entries: Vec<Entry> =
            appends.iter().flat_map(|append| &append.entries).map(Entry::from_tape).collect::<Result<_, _>>()?;
        let outcomes = entries.iter().filter_map(|entry| match &entry.record {
            Record::TurnFinished { outcome, .. } => serde_json::to_value(outcome).ok(),
            _ => None,
        });
        Ok(Expected {
            tamtam_replay: VERSION,
            session: session.clone(),
            entries: entries.len(),
            decisions: appends.len(),
            requests: entries.iter().filter(|entry| matches!(entry.record, Record::Request(_))).count(),
            outcomes: outcomes.map(|outcome| outcome["outcome"].as_str().unwrap_or_default().to_owned()).collect(),
        })
    }
}

/// What was checked, where all is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Whose tape it was.
    pub session: SessionId,
    /// How many entries.
    pub entries: usize,
    /// How many decisions.
    pub decisions: usize,
}

/// Why a recorded tape does not pass as a test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is no such file, or a later version wrote it.
    #[error("{path}: {why}")]
    NotATest {
        /// Which file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The tape in it cannot be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A decision is made otherwise today.
    #[error("the tape of session {session} does not replay: {difference}")]
    Differs {
        /// Whose tape.
        session: SessionId,
        /// Where.
        difference: Box<Difference>,
    },
}

impl From<TapeError> for CheckError {
    fn from(error: TapeError) -> CheckError {
        CheckError::Replay(error.into())
    }
}

/// Checks a recorded tape: its lines are whole, and every decision is made today as it was then. This line is a test:
///
/// ```no_run
/// tamtam::replay::check("tests/tapes/ticket-4711.replay").unwrap();
/// ```
///
/// # Errors
/// See [`CheckError`]; a difference is one, with its line in this file.
pub fn check(path: impl AsRef<Path>) -> Result<Checked, CheckError> {
    let path = path.as_ref();
    let (expected, appends) = read(path)?;
    let found = Expected::of(&expected.session, &appends)?;
    if found != expected {
        let why = format!("the tape in it is not the one that was recorded: {found:?} where {expected:?} is expected");
        return Err(not_a_test(path, why));
    }
    let Expected { session, entries, decisions, .. } = expected;
    match Replay::of(appends)?.first_difference() {
        None => Ok(Checked { session, entries, decisions }),
        Some(difference) => Err(CheckError::Differs { session, difference: Box::new(difference) }),
    }
}

/// Writes the tape of a session as a test: one file, readable by its owner alone, for it holds the whole conversation.
///
/// # Errors
/// [`CheckError::Replay`] where the tape cannot be read; [`CheckError::Io`] where the file is there already or cannot be made.
pub fn write_test(store: &Store, session: &SessionId, path: impl AsRef<Path>) -> Result<Checked, CheckError> {
    let path = path.as_ref();
    let files = store.tape_files(session)?;
    let expected = Expected::of(session, &decode_files(&files)?)?;
    let header = serde_json::to_string(&expected).map_err(|error| not_a_test(path, error.to_string()))?;
    let mut text = head(path).into_bytes();
    text.extend_from_slice(header.as_bytes());
    text.push(b'\n');
    files.iter().for_each(|file| text.extend_from_slice(&file.bytes));
    write_new(path, &text).map_err(|source| CheckError::Io { path: path.display().to_string(), source })?;
    let Expected { session, entries, decisions, .. } = expected;
    Ok(Checked { session, entries, decisions })
}

fn head(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "FILE".into(), |name| name.to_string_lossy().replace(['\n', '\r'], " "));
    format!(
        "# A recorded session of tamtam as a test: every decision on its tape is made again, and must come out the same.\n\
         # It runs no tool and no model. By hand:  tamtam replay --test {name}\n\
         # From `cargo test`, in a test of a crate that uses tamtam:\n\
         #     tamtam::replay::check(\"path/to/{name}\").unwrap();\n\
         # The whole conversation is in here, outputs of tools included: read it before you give it away.\n"
    )
}

fn write_new(path: &Path, text: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text).and_then(|()| file.sync_all()).inspect_err(|_| {
        // Half a test is none.
        let _ = std::fs::remove_file(path);
    })
}

fn not_a_test(path: &Path, why: impl Into<String>) -> CheckError {
    CheckError::NotATest { path: path.display().to_string(), why: why.into() }
}

fn read(path: &Path) -> Result<(Expected, Vec<Append>), CheckError> {
    let bytes = std::fs::read(path).map_err(|source| CheckError::Io { path: path.display().to_string(), source })?;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    let header = lines.by_ref().find(|(_, line)| !line.starts_with(b"#") && !line.trim_ascii().is_empty());
    let no_test = |why: String| not_a_test(path, format!("it is no recorded tape: {why}"));
    let (_, header) = header.ok_or_else(|| no_test("it is empty".to_owned()))?;
    let expected: Expected = serde_json::from_slice(header).map_err(|error| no_test(error.to_string()))?;
    if expected.tamtam_replay != VERSION {
        let why = format!("form {} is not known here: use a newer tamtam", expected.tamtam_replay);
        return Err(not_a_test(path, why));
    }
    // The lines of each anchor of each session are one file, as they were.
    let mut files: Vec<(usize, TapeFile)> = Vec::new();
    for (n, line) in lines {
        let Glance { session, anchor } =
            serde_json::from_slice(line).map_err(|error| no_test(format!("line {}: {error}", n + 1)))?;
        match files.last_mut() {
            Some((_, file)) if file.session == session && file.anchor == anchor => file.bytes.extend_from_slice(line),
            _ => files.push((n, TapeFile { session, anchor, path: path.to_owned(), bytes: line.to_vec() })),
        }
    }
    let mut appends = Vec::new();
    let begins: Vec<usize> = files.iter().map(|(n, _)| *n).collect();
    let files: Vec<TapeFile> = files.into_iter().map(|(_, file)| file).collect();
    let mut before = None;
    for append in decode_files(&files)? {
        // Lines are counted in this file, where the reader looks for them.
        let at = match before {
            Some((file, line)) if append.line > line => file,
            Some((file, _)) => file + 1,
            None => 0,
        };
        before = Some((at, append.line));
        let line = append.line + begins.get(at).copied().unwrap_or(0);
        appends.push(Append { line, ..append });
    }
    Ok((expected, appends))
}

/// Whose line it is, and in which file it stood.
#[derive(Deserialize)]
struct Glance {
    session: SessionId,
    anchor: String,
}
