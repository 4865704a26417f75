//! Keeps a recorded tape as a test: one file that holds the tape and what is expected of it.
//!
//! ```text
//! # comments: what this is, and how to run it
//! {"tamtam_replay":1,"session":"s","entries":12,"decisions":5,"requests":2,"outcomes":["done"]}
//! the lines of the tape, as in its files
//! ```
//!
//! The lines keep their checksums, and the first line says how many entries there are, so a changed or missing line is found. The
//! file depends on nothing outside of it. [`write_test`] makes it readable by its owner alone, because it holds the whole
//! conversation. Hosts keep such files for years: a change must still read form 1 (`tamtam_replay`).

use std::{fs::File, io::Write as _, path::Path};

use serde::{Deserialize, Serialize};

use super::{Difference, Replay, ReplayError};
use crate::{
    kernel::Record,
    tape::{Append, Store, TapeFile, decode_files, new_file, read_bytes},
    words::ids::SessionId,
};

/// The form of these files that is read and written.
const VERSION: u32 = 1;

/// What a recorded tape holds: the first line of its file, and what a check must find in the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checked {
    tamtam_replay: u32,
    /// Whose tape it was.
    pub session: SessionId,
    /// How many entries.
    pub entries: usize,
    /// How many decisions.
    pub decisions: usize,
    requests: usize,
    outcomes: Vec<String>,
}

impl Checked {
    fn of(session: SessionId, replay: &Replay) -> Checked {
        let records = || replay.decisions.iter().flat_map(|recorded| &recorded.entries).map(|entry| &entry.record);
        let outcomes = records().filter_map(|record| match record {
            Record::TurnFinished { outcome, .. } => serde_json::to_value(outcome).ok(),
            _ => None,
        });
        Checked {
            tamtam_replay: VERSION,
            session,
            entries: records().count(),
            decisions: replay.decisions(),
            requests: records().filter(|record| matches!(record, Record::Request(_))).count(),
            outcomes: outcomes.map(|outcome| outcome["outcome"].as_str().unwrap_or_default().to_owned()).collect(),
        }
    }
}

/// Why a recorded tape does not pass as a test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The path of the file.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a recorded tape, or a later version wrote it.
    #[error("{path}: {why}")]
    NotATest {
        /// The path of the file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The tape in it cannot be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A decision comes out differently today.
    #[error("the tape of session {session} does not replay: {difference}")]
    Differs {
        /// Whose tape.
        session: SessionId,
        /// The first difference.
        difference: Box<Difference>,
    },
}

/// Checks a recorded tape: its lines are whole, and every decision comes out today as it did then. Runs no tool and no model. This
/// line is a test:
///
/// ```no_run
/// tamtam::ops::replay::check("tests/tapes/ticket-4711.replay").unwrap();
/// ```
///
/// # Errors
/// See [`CheckError`]. A difference is an error, and names its line in this file.
pub fn check(path: impl AsRef<Path>) -> Result<Checked, CheckError> {
    let path = path.as_ref();
    let (expected, appends) = read(path)?;
    let mut replay = Replay::of(appends)?;
    let found = Checked::of(expected.session.clone(), &replay);
    if found != expected {
        let why = format!("its tape differs from the recorded one: {found:?} where {expected:?} is expected");
        return Err(not_a_test(path, why));
    }
    match replay.first_difference() {
        None => Ok(expected),
        Some(found) => Err(CheckError::Differs { session: expected.session, difference: Box::new(found) }),
    }
}

/// Writes the tape of a session as a test: one new file, readable by its owner alone, because it holds the whole conversation.
/// If writing fails, no file is left.
///
/// # Errors
/// [`CheckError::Replay`] if the tape cannot be read; [`CheckError::Io`] if the file exists already or cannot be made.
pub fn write_test(store: &Store, session: &SessionId, path: impl AsRef<Path>) -> Result<Checked, CheckError> {
    let path = path.as_ref();
    let (files, appends) = store.tape_files(session).map_err(ReplayError::from)?;
    let expected = Checked::of(session.clone(), &Replay::of(appends)?);
    let header = serde_json::to_string(&expected).map_err(|error| not_a_test(path, error.to_string()))?;
    let mut text = format!("{}{header}\n", head(path)).into_bytes();
    files.iter().for_each(|file| text.extend_from_slice(&file.bytes));
    // Half a test is not a test.
    let remove = |_: &std::io::Error| drop(std::fs::remove_file(path));
    let write = |mut file: File| file.write_all(&text).and_then(|()| file.sync_all()).inspect_err(remove);
    new_file(path).and_then(write).map_err(|source| CheckError::Io { path: path.display().to_string(), source })?;
    Ok(expected)
}

fn head(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "FILE".into(), |name| name.to_string_lossy().replace(['\n', '\r'], " "));
    format!(
        "# A recorded session of tamtam as a test: every decision on its tape is made again, and must come out the same.\n\
         # It runs no tool and no model. By hand:  tamtam replay --test {name}\n\
         # From `cargo test`, in a test of a crate that uses tamtam:\n\
         #     tamtam::ops::replay::check(\"path/to/{name}\").unwrap();\n\
         # The whole conversation is in here, outputs of tools included: read it before you give it away.\n"
    )
}

fn not_a_test(path: &Path, why: impl Into<String>) -> CheckError {
    CheckError::NotATest { path: path.display().to_string(), why: why.into() }
}

fn read(path: &Path) -> Result<(Checked, Vec<Append>), CheckError> {
    let bytes = read_bytes(path).map_err(|source| CheckError::Io { path: path.display().to_string(), source })?;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    let header = lines.by_ref().find(|(_, line)| !line.starts_with(b"#") && !line.trim_ascii().is_empty());
    let no_test = |why: String| not_a_test(path, format!("it is not a recorded tape: {why}"));
    let (_, header) = header.ok_or_else(|| no_test("it is empty".to_owned()))?;
    let expected: Checked = serde_json::from_slice(header).map_err(|error| no_test(error.to_string()))?;
    if expected.tamtam_replay != VERSION {
        let why = format!("form {} is not known here: use a newer tamtam", expected.tamtam_replay);
        return Err(not_a_test(path, why));
    }
    // The lines of one anchor of one session make one file, as they did on the tape.
    let mut files: Vec<TapeFile> = Vec::new();
    for (n, line) in lines {
        let Glance { session, anchor } =
            serde_json::from_slice(line).map_err(|error| no_test(format!("line {}: {error}", n + 1)))?;
        match files.last_mut() {
            Some(file) if file.session == session && file.anchor == anchor => file.bytes.extend_from_slice(line),
            _ => {
                let (path, bytes) = (path.to_owned(), line.to_vec());
                files.push(TapeFile { session, anchor, path, line: n + 1, live: false, bytes });
            }
        }
    }
    Ok((expected, decode_files(&mut files).map_err(ReplayError::from)?))
}

/// The session and the anchor of a line: the file of the tape that had it.
#[derive(Deserialize)]
struct Glance {
    session: SessionId,
    anchor: String,
}
