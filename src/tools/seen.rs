//! What each session has last seen of which file, so that it changes nothing that it has not seen (F07).
//!
//! A session that has read or written a file knows what was in it. When it writes there again and something else is there by
//! then, somebody else was at work (a person, a command, another session), and the call is refused until the file was read
//! again. A file that the session has not looked at may be written: nothing is known of it that could be out of date.
//!
//! Kept in memory for the tools of one [`Setup`](super::Setup), for the newest files (see [`Known`]): after a restart nothing
//! is known, so nothing is refused.

use std::io::{self, Read};

use crate::tool::{
    files::Known,
    workspace::{FileInfo, Version},
};

/// Largest file whose content is remembered, in bytes. Of a larger one it is the time stamps.
pub(super) const CONTENT_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// What was seen of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glimpse {
    /// All of its content. Whatever its time stamps say, the same content is the same file.
    Content(blake3::Hash),
    /// Which file, in which state.
    State(Version),
}

impl Glimpse {
    /// What is seen by who has this content before its eyes.
    pub(super) fn of_content(content: &[u8]) -> Glimpse {
        Glimpse::Content(blake3::hash(content))
    }
}

/// What each session has seen.
pub(super) type Seen = Known<Glimpse>;

/// A file that is being read, and what is seen of it.
pub(super) struct Watched<R> {
    from: R,
    hasher: blake3::Hasher,
    bytes: u64,
    at_end: bool,
}

impl<R: Read> Watched<R> {
    pub(super) fn new(from: R) -> Watched<R> {
        Watched { from, hasher: blake3::Hasher::new(), bytes: 0, at_end: false }
    }

    /// What was seen: the content where it was read to its end, else the state that the file had when it was opened.
    pub(super) fn glimpse(&self, opened: &FileInfo) -> Glimpse {
        match self.at_end && self.bytes <= CONTENT_BYTES_MAX {
            true => Glimpse::Content(self.hasher.finalize()),
            false => Glimpse::State(opened.version),
        }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(out)?;
        self.at_end |= read == 0 && !out.is_empty();
        self.bytes += read as u64;
        if self.bytes <= CONTENT_BYTES_MAX {
            self.hasher.update(&out[..read]);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::{
        tool::{files::ENTRIES_MAX, workspace::Workspace},
        words::ids::SessionId,
    };

    /// The memory is bounded, and what is used stays.
    #[test]
    fn the_file_that_was_not_looked_at_for_longest_is_forgotten() {
        let path = |n: usize| std::path::PathBuf::from(format!("/f{n}"));
        let (seen, session) = (Seen::default(), SessionId::new());
        let glimpse = |n: usize| Glimpse::of_content(&n.to_le_bytes());
        for n in 0..ENTRIES_MAX {
            seen.remember(&session, path(n), glimpse(n));
        }
        seen.remember(&session, path(0), glimpse(1));
        seen.remember(&session, path(ENTRIES_MAX), glimpse(2));
        assert_eq!(seen.recall(&session, path(0)), Some(glimpse(1)));
        assert_eq!(seen.recall(&session, path(1)), None);
        assert_eq!(seen.recall(&SessionId::new(), path(0)), None, "each session has its own eyes");
    }

    /// Only what was read to its end is known by its content.
    #[test]
    fn a_part_of_a_file_is_known_by_its_state() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "one\ntwo\n").unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let (file, info) = workspace.open_read(&workspace.resolve("f").unwrap()).unwrap();
        let mut watched = Watched::new(file);
        watched.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(watched.glimpse(&info), Glimpse::State(info.version));
        watched.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(watched.glimpse(&info), Glimpse::of_content(b"one\ntwo\n"));
    }
}
