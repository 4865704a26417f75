//! The errors of paths: why a path was refused, or an operation on it failed.
//!
//! The model reads these texts and acts on them. So every text names the path, and the most common errors of the system have a text
//! with a POSIX name that models know (`ENOENT`; `EACCES` for all that is not permitted); any other error is shown as the system
//! words it ([`WorkspaceError::Io`]).
//!
//! A change must keep the path and the name in a text, and must not change the words for their own sake: models act on them, and
//! tests compare them.

use std::{io, path::PathBuf};

use rustix::io::Errno;

use crate::tool::workspace::FileKind;

/// Why a path was refused, or an operation on it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The path leads out of the workspace: as text, or by a link.
    #[error("{path}: path traversal blocked: it is outside the workspace {}", root.display())]
    Outside {
        /// The path that was asked for.
        path: String,
        /// The workspace.
        root: PathBuf,
    },
    /// The path lies outside and goes through a link, so it is not the path that was allowed.
    #[error("{path}: path traversal blocked: it goes through a link; ask for {} itself", real.display())]
    Linked {
        /// The path that was asked for.
        path: String,
        /// The path that the link leads to.
        real: PathBuf,
    },
    /// The text is not a usable path: empty, too long, with a NUL byte, `~` without a known home, a path where one name is
    /// expected, or a relative path for the folder of a workspace.
    #[error("{path:?} is not a usable path: {why}")]
    BadPath {
        /// The text that was given. A long one may be cut to 200 characters.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing is at the path.
    #[error("{path}: No such file or directory (ENOENT)")]
    NotFound {
        /// The path that was asked for.
        path: String,
    },
    /// A directory is where a file was expected.
    #[error("{path}: Is a directory (EISDIR)")]
    IsDirectory {
        /// The path that was asked for.
        path: String,
    },
    /// Something else is where a directory was expected.
    #[error("{path}: Not a directory (ENOTDIR)")]
    NotDirectory {
        /// The path that was asked for.
        path: String,
    },
    /// The system refuses the operation (EACCES or EPERM).
    #[error("{path}: Permission denied (EACCES)")]
    Denied {
        /// The path that was asked for.
        path: String,
    },
    /// The file may be read but not changed.
    #[error("{path}: Read-only: permission denied (EACCES)")]
    ReadOnly {
        /// The path that was asked for.
        path: String,
    },
    /// The path leads to something that is neither a regular file nor a directory.
    #[error("{path}: not a regular file ({kind})")]
    NotRegular {
        /// The path that was asked for.
        path: String,
        /// The kind of the existing file.
        kind: FileKind,
    },
    /// The file is larger than the caller takes.
    #[error("{path}: file too large ({bytes} bytes, at most {max_bytes})")]
    TooLarge {
        /// The path that was asked for.
        path: String,
        /// The size of the file, or how much of it was read, in bytes.
        bytes: u64,
        /// The largest size that the caller takes, in bytes.
        max_bytes: u64,
    },
    /// The file is not in the state that the caller expects: it was changed, replaced or deleted meanwhile.
    #[error("{path}: the file was changed by someone else; read it again")]
    Changed {
        /// The path that was asked for.
        path: String,
    },
    /// Any other error of the system.
    #[error("{path}: {source}")]
    Io {
        /// The path that was asked for.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

impl WorkspaceError {
    pub(super) fn from_errno(path: String, errno: Errno) -> WorkspaceError {
        match errno {
            Errno::NOENT => WorkspaceError::NotFound { path },
            Errno::ISDIR => WorkspaceError::IsDirectory { path },
            Errno::NOTDIR => WorkspaceError::NotDirectory { path },
            Errno::ACCESS | Errno::PERM => WorkspaceError::Denied { path },
            Errno::ROFS => WorkspaceError::ReadOnly { path },
            errno => WorkspaceError::Io { path, source: errno.into() },
        }
    }

    pub(super) fn io(path: String, error: &io::Error) -> WorkspaceError {
        match Errno::from_io_error(error) {
            Some(errno) => WorkspaceError::from_errno(path, errno),
            None => WorkspaceError::Io { path, source: io::Error::new(error.kind(), error.to_string()) },
        }
    }
}
