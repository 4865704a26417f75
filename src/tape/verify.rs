//! Verifies the tapes of a store of files: [`Store::verify`] those of one session, [`Store::verify_all`] all of them. Each flaw
//! that is found is reported as a [`Finding`].
//!
//! Each file is read and checked up to its first bad line; one finding names that line. Other findings name a file that does not
//! continue its predecessor, a file of a later version, and a file that cannot be read. Damage in a session's own files is a
//! finding and not an `Err`, so that a bad tape does not keep the others from being checked. Runs alongside live writers; a torn
//! tail may then be an append that is being written.
//!
//! A change must write nothing and take no lock: people run this on a store that they want to rescue. Reads whole files and blocks.

use std::{fmt, path::PathBuf};

use super::{
    Store, TapeError,
    layout::anchor_number,
    line::{Chain, Rest},
    lineage::{Forked, origin},
    read::read_file,
    whole::before_fork,
};
use crate::words::ids::SessionId;

/// One flaw of a tape.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The session.
    pub session: SessionId,
    /// The file with the flaw.
    #[serde(serialize_with = "crate::words::path_text")]
    pub file: PathBuf,
    /// The line in that file, from 1; also 1 if the file as a whole has the flaw.
    pub line: usize,
    /// The kind of flaw.
    pub flaw: Flaw,
    /// The flaw in words.
    pub what: String,
}

/// The kind of flaw of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Flaw {
    /// The end of the newest file is not whole. Loading the session cuts it off and sets it aside; next to a live writer it may
    /// be an append that is being written.
    Torn,
    /// A line is bad, and it is not the unfinished end of the newest file. The lines of its file after it are not read.
    Bad,
    /// A file does not continue its predecessor: lines at the end of the earlier file, or whole files, are missing. Of a fork:
    /// the parent cannot be read up to the entry at which the fork begins.
    Break,
    /// A later version of this library wrote it.
    Newer,
    /// It cannot be read, or it is not a regular file or folder.
    Unreadable,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.flaw {
            Flaw::Unreadable => write!(f, "{}: {}", self.file.display(), self.what),
            _ => write!(f, "{} line {}: {}", self.file.display(), self.line, self.what),
        }
    }
}

/// Why the entries before a fork's own cannot be read; `None` if they can.
fn unfounded(store: &Store, forked: &Forked) -> Result<Option<String>, TapeError> {
    match before_fork(store, forked) {
        Ok(_) => Ok(None),
        Err(error @ (TapeError::Damaged(_) | TapeError::Newer { .. } | TapeError::TooDeep { .. })) => {
            Ok(Some(format!("its parent session {}: {error}", forked.parent)))
        }
        Err(error) => Err(error),
    }
}

impl Store {
    /// Reads all files of a session's own tape. Reports the first bad line of each, and each file that does not continue its
    /// predecessor. Takes no lock.
    ///
    /// Of a fork, it also checks that the parent has the entry that the fork continues from, with that checksum and nothing bad
    /// between the parent's anchor and that entry. It does not check the rest of the parent.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`] and [`TapeError::Io`]; what is wrong with the tape is a finding and not an error.
    pub fn verify(&self, session: &SessionId) -> Result<Vec<Finding>, TapeError> {
        self.must_exist(session)?;
        self.verify_files(session)
    }

    fn verify_files(&self, session: &SessionId) -> Result<Vec<Finding>, TapeError> {
        let layout = self.layout();
        let mut findings = Vec::new();
        let mut before: Option<Chain> = None;
        let anchors = layout.anchor_names(session)?;
        for (n, anchor) in anchors.iter().enumerate() {
            let file = layout.entries(session, anchor);
            let mut find = |line, flaw, what| {
                findings.push(Finding { session: session.clone(), file: file.clone(), line, flaw, what });
            };
            let read = match read_file(layout, session, anchor) {
                Ok((_, read)) => read,
                Err(error @ TapeError::Newer { .. }) => {
                    find(1, Flaw::Newer, error.to_string());
                    before = None;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if n == 0 && anchor_number(anchor) != Some(1) {
                match origin(layout, session, &anchors)? {
                    None => find(1, Flaw::Break, "the anchors before it are missing".into()),
                    Some(forked) => {
                        if let Some(what) = unfounded(self, &forked)? {
                            find(1, Flaw::Break, what);
                        }
                    }
                }
            }
            if let Some(before) = before.as_ref().filter(|before| !read.goes_on_from(before)) {
                find(1, Flaw::Break, format!("it does not continue entry {} of the anchor before", before.seq));
            }
            match read.rest {
                Rest::Nothing => {}
                Rest::Torn { line, what } if n + 1 == anchors.len() => find(line, Flaw::Torn, what),
                Rest::Torn { line, what } | Rest::Bad { line, what } => find(line, Flaw::Bad, what),
            }
            before = Some(read.chain);
        }
        Ok(findings)
    }

    /// [`Store::verify`] for all sessions, those included that were deleted and that forks depend on. A session that cannot be
    /// read is a finding, and so is a file among the folders of the sessions.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`] if the folder of the sessions cannot be read.
    pub fn verify_all(&self) -> Result<Vec<Finding>, TapeError> {
        let mut findings = Vec::new();
        let (sessions, others) = self.layout().session_folders()?;
        for session in sessions {
            match self.verify_files(&session) {
                Ok(found) => findings.extend(found),
                Err(TapeError::Io { op, path: file, source }) => {
                    let what = format!("failed to {op} it: {source}");
                    findings.push(Finding { session, file, line: 1, flaw: Flaw::Unreadable, what });
                }
                Err(error) => return Err(error),
            }
        }
        for session in others {
            let (file, what) = (self.layout().session(&session), "not a session folder".to_owned());
            findings.push(Finding { session, file, line: 1, flaw: Flaw::Unreadable, what });
        }
        Ok(findings)
    }
}
