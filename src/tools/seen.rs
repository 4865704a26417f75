//! Remembers what each session has last seen of a file, so that it does not overwrite a change that it has not seen.
//!
//! A session that has read or written a file has seen its content, or its state (see [`Glimpse`]). A write that finds another
//! content or state there is refused until the session has read the file again, because someone else was at work (a person, a
//! command, another session). A file that the session has never read may be written: no knowledge of it can be out of date.
//!
//! The memory belongs to the tools of one [`Setup`](super::Setup) and holds the newest entries (see [`Known`]). After a restart
//! it is empty and nothing is refused, so this is a help against mistakes and no lock. A change must let `read` and every write
//! of a file tool remember what they saw.

use std::io::{self, Read};

use crate::tool::{
    files::Known,
    workspace::{FileInfo, Version},
};

/// Largest file whose content is remembered (by its hash), in bytes. Of a larger file that is read the state is remembered.
pub(super) const CONTENT_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// What a session has seen of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glimpse {
    /// The whole content, by its hash. The same content counts as unchanged, with any time stamps.
    Content(blake3::Hash),
    /// Which file it is, its size and its times, as the system tells them: of a file that was read in part or is too large.
    State(Version),
}

impl Glimpse {
    /// The glimpse of a session that has seen this whole content.
    pub(super) fn of_content(content: &[u8]) -> Glimpse {
        Glimpse::Content(blake3::hash(content))
    }
}

/// What each session has seen.
pub(super) type Seen = Known<Glimpse>;

/// A file that is being read. The bytes that were read are hashed, up to [`CONTENT_BYTES_MAX`].
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

    /// What was seen: the content where the file was read to its end and is not larger than [`CONTENT_BYTES_MAX`], else the state
    /// that the file had when it was opened.
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
