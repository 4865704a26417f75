//! [`Files`]: what the tools of one setup share about the files that they change: a lock for each file, the old and new contents,
//! from which a restore brings files back, and a table of the contents that are known.
//!
//! The contents are kept next to the tape of the session whose call changes them ([`Vault`](vault::Vault)), within [`KeepLimits`].
//! File tools and restores that share a [`Files`] write an existing file one after the other. A command of `bash` takes no lock,
//! and neither does a program of another process.
//!
//! A change must not give a file tool, or a restore that writes, a separate [`Files`], or two of them could write one file at
//! once. Locks make a caller wait and contents block on the disk: not for async threads.

mod known;
mod locks;
mod notes;
mod vault;

#[cfg(test)]
pub(crate) use known::ENTRIES_MAX;
pub(crate) use known::{Known, Remembered};
#[cfg(test)]
pub(crate) use locks::FileKey;
pub(crate) use locks::{FileLock, FileLocks};
pub(crate) use notes::Note;
pub(crate) use vault::{Vault, Vaults};

pub use vault::KeepLimits;

use std::path::PathBuf;

use crate::{
    tool::{FileImage, workspace::FileInfo},
    words::ids::SessionId,
};

/// The locks and contents that the tools of one toolbox, or of all toolboxes of one setup, share. A clone shares them too.
///
/// Opaque: a host's own tool that changes files hands on the value that it was given, so that all tools wait for each other. See
/// [`Tool::files`](super::Tool::files).
#[derive(Clone, Default)]
pub struct Files {
    pub(crate) locks: FileLocks,
    pub(crate) vaults: Vaults,
    /// The files whose content is known, for as long as the system says that they are unchanged.
    pub(crate) known: Known<Remembered>,
}

impl Files {
    /// A new value, which keeps contents within these limits.
    #[must_use]
    pub fn new(limits: KeepLimits) -> Files {
        Files { vaults: Vaults::new(limits), ..Files::default() }
    }

    /// Keeps a content that was read or written, and remembers it as the content of the file in the state `of`.
    pub(crate) fn keep(
        &self,
        vault: &Vault,
        session: &SessionId,
        path: PathBuf,
        content: &[u8],
        of: &FileInfo,
    ) -> FileImage {
        let image = vault.keep(content, of.mode);
        self.known.remember(session, path, Remembered { version: of.version, image: Some(image.clone()) });
        image
    }

    /// Remembers that a session has seen a file in this state. Its content is not kept here; a known file stays known.
    pub(crate) fn saw(&self, session: &SessionId, path: PathBuf, info: &FileInfo) {
        if self.known.content(session, path.clone(), &info.version).is_none() {
            self.known.remember(session, path, Remembered { version: info.version, image: None });
        }
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}
