//! Paths as text: the spellings that a model may write, and the place in the workspace that they mean.
//!
//! A [`WorkspacePath`] is relative to a root of its workspace and holds no `..`, so a function that takes one never gets a path
//! whose text leaves the root. A host gets one only from [`Workspace::resolve`](super::Workspace::resolve) and its like, and from
//! [`WorkspacePath::child`]. `new` and `sibling` trust their callers in this crate: their relative path must hold no `..`. Links
//! are not followed here: the operation that uses a path finds where they lead.
//!
//! A change must keep the code pure, without a look at the disk, because permission rules judge the same spellings before a call
//! runs.

use std::{
    ffi::OsStr,
    fmt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use crate::tool::workspace::WorkspaceError;

/// The longest path that is taken, in bytes.
const PATH_BYTES_MAX: usize = 4096;

/// A path inside a workspace, made by [`Workspace::resolve`](super::Workspace::resolve) and its like.
///
/// It names a place, not a file: the operation that uses it finds whether a file exists, and whether a link on the way leads out.
/// It is shown relative to the workspace, and as `.` for the workspace itself; a place in another folder that the workspace
/// reaches is shown as an absolute path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath {
    /// The index of the root in its workspace.
    root: usize,
    /// The path beneath the root, without `.` and `..`; empty for the root itself.
    relative: PathBuf,
    /// The path as people and models are shown it.
    shown: Arc<str>,
}

impl WorkspacePath {
    pub(super) fn new(root: usize, relative: PathBuf, shown: String) -> WorkspacePath {
        WorkspacePath { root, relative, shown: shown.into() }
    }

    pub(super) fn root(&self) -> usize {
        self.root
    }

    /// The path relative to its root: no `.`, no `..`; empty for the root itself.
    #[must_use]
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// Another path beneath the same root, for its absolute path or to ask whether it exists. It is shown relative to the root,
    /// also if that is not the workspace, so it is not for showing to a model.
    pub(crate) fn sibling(&self, relative: PathBuf) -> WorkspacePath {
        let shown = shown(&relative);
        WorkspacePath::new(self.root, relative, shown)
    }

    /// The last component; `None` for the root itself.
    #[must_use]
    pub fn file_name(&self) -> Option<&OsStr> {
        self.relative.file_name()
    }

    /// The path of an entry of this directory; `None` for a name that is not a single component.
    #[must_use]
    pub fn child(&self, name: &OsStr) -> Option<WorkspacePath> {
        let mut components = Path::new(name).components();
        let (Some(Component::Normal(only)), None) = (components.next(), components.next()) else { return None };
        if only != name {
            return None;
        }
        let relative = self.relative.join(name);
        let name = name.to_string_lossy();
        let shown = if &*self.shown == "." { name.into_owned() } else { format!("{}/{name}", self.shown) };
        Some(WorkspacePath::new(self.root, relative, shown))
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// A relative path as it is shown.
pub(super) fn shown(relative: &Path) -> String {
    if relative.as_os_str().is_empty() { ".".to_owned() } else { relative.display().to_string() }
}

/// The spelling that a model most likely meant: without a leading `@`, and with plain spaces.
pub(super) fn tidy(given: &str) -> String {
    let given = given.strip_prefix('@').unwrap_or(given);
    given.chars().map(|c| if is_unicode_space(c) { ' ' } else { c }).collect()
}

/// The spellings that a model may have meant for a file that exists, in the order to try: as given, tidied, with the narrow
/// space, with the typographic apostrophe.
///
/// File names of macOS screenshots carry a narrow space before AM and PM, and typographic apostrophes, which models write as
/// plain ones.
pub(super) fn spellings(given: &str) -> Vec<String> {
    let tidied = tidy(given);
    let narrow = tidied.replace(" AM.", "\u{202f}AM.").replace(" PM.", "\u{202f}PM.");
    let quoted = tidied.replace('\'', "\u{2019}");
    let mut spellings = vec![given.to_owned()];
    for spelling in [tidied, narrow, quoted] {
        if !spellings.contains(&spelling) {
            spellings.push(spelling);
        }
    }
    spellings
}

/// The absolute path that a text means, with `.` and `..` collapsed.
pub(super) fn absolute(text: &str, root: &Path, home: Option<&Path>) -> Result<PathBuf, WorkspaceError> {
    let bad = |why| Err(WorkspaceError::BadPath { path: text.chars().take(200).collect(), why });
    if text.is_empty() {
        return bad("it is empty");
    }
    if text.contains('\0') {
        return bad("it contains a NUL byte");
    }
    if text.len() > PATH_BYTES_MAX {
        return bad("it is longer than 4096 bytes");
    }
    let from_home = if text == "~" { Some("") } else { text.strip_prefix("~/") };
    let joined = match (from_home, home) {
        (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
        (Some(_), None) => return bad("no home directory is known here; use a path relative to the workspace"),
        (None, _) => root.join(text),
    };
    Ok(collapse(&joined))
}

/// An absolute path without `.` and `..`, as text: links are not followed.
pub(super) fn collapse(path: &Path) -> PathBuf {
    let mut collapsed = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            // The folder above the root is the root.
            Component::ParentDir => drop(collapsed.pop()),
            other => collapsed.push(other),
        }
    }
    collapsed
}

fn is_unicode_space(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}
