//! What can go wrong with a path. The texts are meant for the model, and keep the system's own names of errors.

use std::{io, path::PathBuf};

use rustix::io::Errno;

use crate::tool::workspace::FileKind;

/// Why a path was refused, or an operation on it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// It leads out of the workspace: as text, or by a link.
    #[error("{path}: path traversal blocked: it is outside the workspace {}", root.display())]
    Outside {
        /// What was asked for.
        path: String,
        /// The workspace.
        root: PathBuf,
    },
    /// It lies outside and goes through a link, so that it is not what was allowed.
    #[error("{path}: path traversal blocked: it goes through a link; ask for {} itself", real.display())]
    Linked {
        /// What was asked for.
        path: String,
        /// Where it leads to.
        real: PathBuf,
    },
    /// It can be no path: empty, too long, with a NUL byte, or `~` where no home is known.
    #[error("{path:?} is not a usable path: {why}")]
    BadPath {
        /// What was given, at most 200 characters of it.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing is there.
    #[error("{path}: No such file or directory (ENOENT)")]
    NotFound {
        /// What was asked for.
        path: String,
    },
    /// A directory is where a file was expected.
    #[error("{path}: Is a directory (EISDIR)")]
    IsDirectory {
        /// What was asked for.
        path: String,
    },
    /// Something else is where a directory was expected.
    #[error("{path}: Not a directory (ENOTDIR)")]
    NotDirectory {
        /// What was asked for.
        path: String,
    },
    /// The system refuses it.
    #[error("{path}: Permission denied (EACCES)")]
    Denied {
        /// What was asked for.
        path: String,
    },
    /// It may be read but not changed.
    #[error("{path}: Read-only: permission denied (EACCES)")]
    ReadOnly {
        /// What was asked for.
        path: String,
    },
    /// It is neither a file nor a directory.
    #[error("{path}: not a regular file ({kind})")]
    NotRegular {
        /// What was asked for.
        path: String,
        /// What it is.
        kind: FileKind,
    },
    /// The file is larger than the caller takes.
    #[error("{path}: file too large ({bytes} bytes, at most {max_bytes})")]
    TooLarge {
        /// What was asked for.
        path: String,
        /// How large it is, or as much of it as was read.
        bytes: u64,
        /// How much would have been taken.
        max_bytes: u64,
    },
    /// The file is not the one that was read before: somebody changed, replaced or deleted it.
    #[error("{path}: the file was changed by someone else; read it again")]
    Changed {
        /// What was asked for.
        path: String,
    },
    /// Anything else that the system says.
    #[error("{path}: {source}")]
    Io {
        /// What was asked for.
        path: String,
        /// What it says.
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
