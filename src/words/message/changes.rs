//! The changes that one call made to files. They are on the tape with the call's result, so that a restore can take them back.
//! The model does not see them.
//!
//! [`Changes`] names files and their states; the contents are kept elsewhere, by their hash. It is a stored format: a restore
//! reads it from old tapes, so a field may be added with a default, and none may change its meaning.

use serde::{Deserialize, Serialize};

/// The changes of one call to files.
///
/// A result without this value comes from a call that reports nothing about files: it only reads, or its effects are not tracked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Changes {
    /// The files: in the order of the changes for a tool that reports each change, by path for a comparison of two looks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// Why more may have been changed than is listed; `None` if the list is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<String>,
}

/// One file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FileChange {
    /// Its path: relative to the workspace for a file inside, else absolute; without links for a file that this process changed,
    /// and as the call named it for one that was changed elsewhere. A name that is not plain text is in quotes, with escapes.
    pub path: String,
    /// What was at the path before the change.
    pub before: FileState,
    /// What is at the path after the change.
    pub after: FileState,
}

/// The state of a path at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileState {
    /// Nothing.
    Absent,
    /// A file.
    File(FileImage),
    /// Not known, or not a file that can be put back. The text says why.
    Unknown(String),
}

/// A regular file, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FileImage {
    /// BLAKE3 of its content, in hex; `None` if it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Its permission bits.
    pub mode: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Why its content was not kept; `None` if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
    /// The file and its state as the system tells them (device, inode, size, times), for a file without a hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<String>,
}

impl Changes {
    /// Changes of which nothing is listed: more may have been changed than is known, and `why` says the reason.
    #[must_use]
    pub fn unlisted(why: impl Into<String>) -> Changes {
        Changes { files: Vec::new(), unlisted: Some(why.into()) }
    }
}

impl FileState {
    /// The hash of the content; `None` for anything but a file that was read.
    #[must_use]
    pub fn hash(&self) -> Option<&str> {
        match self {
            FileState::File(image) => image.hash.as_deref(),
            FileState::Absent | FileState::Unknown(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use serde_json::json;

    use super::*;

    /// The stored form, for readers of future tapes.
    #[test]
    fn changes_are_written_as_they_are_read() {
        let image = FileImage { hash: Some("ab".into()), mode: 0o644, bytes: 2, not_kept: None, stamp: None };
        let all = Changes {
            files: vec![
                FileChange { path: "new".into(), before: FileState::Absent, after: FileState::File(image.clone()) },
                FileChange {
                    path: "big".into(),
                    before: FileState::File(FileImage {
                        hash: None,
                        not_kept: Some("too large".into()),
                        stamp: Some("1:2".into()),
                        ..image
                    }),
                    after: FileState::Unknown("changed by bash".into()),
                },
            ],
            unlisted: Some("too many".into()),
        };
        let written = json!({
            "files": [
                {"path": "new", "before": "absent", "after": {"file": {"hash": "ab", "mode": 420, "bytes": 2}}},
                {
                    "path": "big",
                    "before": {"file": {"mode": 420, "bytes": 2, "not_kept": "too large", "stamp": "1:2"}},
                    "after": {"unknown": "changed by bash"},
                },
            ],
            "unlisted": "too many",
        });
        assert_eq!(serde_json::to_value(&all).unwrap(), written);
        assert_eq!(serde_json::from_value::<Changes>(written).unwrap(), all);
        assert_eq!(serde_json::to_value(Changes::default()).unwrap(), json!({}));
    }
}
