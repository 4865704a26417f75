//! What the tools of one toolbox share about the files that they change: one writer for each file, and its content before a change.
//!
//! The contents are kept beside the tape of the session whose call changes them ([`Vault`](vault::Vault)); here is what bounds
//! them, and what must be the same for all who change files: whoever restores files waits for the same locks.

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

pub use vault::Limits as KeepLimits;

use std::path::PathBuf;

use crate::{
    tool::{FileImage, workspace::FileInfo},
    words::ids::SessionId,
};

/// What the tools of one toolbox share about files. A clone shares it.
///
/// Opaque: a host's own tool that changes files hands on the one that it was given, so that it and the others wait for each
/// other. See [`Tool::files`](super::Tool::files).
#[derive(Clone, Default)]
pub struct Files {
    pub(crate) locks: FileLocks,
    pub(crate) vaults: Vaults,
    /// The files whose content is known as long as the system says that nobody touched them.
    pub(crate) known: Known<Remembered>,
}

impl Files {
    /// Files of which contents are kept within these limits.
    #[must_use]
    pub fn new(limits: KeepLimits) -> Files {
        Files { vaults: Vaults::new(limits), ..Files::default() }
    }

    /// Keeps a content that was read or written, and remembers it for as long as the file stays in that state.
    pub(crate) fn keep(
        &self,
        vault: &Vault,
        session: &SessionId,
        path: PathBuf,
        content: &[u8],
        of: &FileInfo,
    ) -> FileImage {
        let image = vault.keep(content, of.mode);
        self.known.remember(session, path, Remembered { version: of.version, image: image.clone() });
        image
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}
