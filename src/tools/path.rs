//! Turns the path that a model wrote into a path in the workspace, and such a path into the text that a model is shown.
//!
//! Before a call runs, [`access`] names every spelling that the path may be read as, and the permission rules judge all of them.
//! While the call runs, a link that leads to a path about which the rules are stricter is refused (`Call::judge`).
//!
//! A change must keep [`access`] in step with [`Call::resolve`] and `Call::meant`: a spelling that these resolve and [`access`]
//! does not name would pass the rules. [`access`] is a pure function, because a tool has no workspace before it runs; the methods
//! of [`Call`] may look at the disk.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use crate::{
    tool::{
        Access, ToolResult,
        workspace::{Dir, FileInfo, Workspace, WorkspaceError, WorkspacePath},
    },
    tools::{
        call::{Call, failure},
        names,
        seen::Glimpse,
    },
    words::message::ErrorReason,
};

/// A file that was opened to be read.
pub(super) struct OpenFile {
    /// The path as the model meant it.
    pub(super) path: WorkspacePath,
    /// The absolute path of the file, without links.
    pub(super) real: PathBuf,
    pub(super) file: File,
    /// What the system said of the file when it was opened.
    pub(super) info: FileInfo,
}

impl Call<'_> {
    /// The path of a file to write.
    pub(super) fn resolve(&self, given: &str) -> Result<WorkspacePath, ToolResult> {
        self.judged(self.quoted(given).unwrap_or_else(|| self.workspace.resolve_for_write(given)).map_err(failure)?)
    }

    /// Opens a folder that should exist; `None` if the path leads to something else. The judged path is the opened one, and
    /// [`Dir::path`] has no links: entries beneath it are judged by where they are.
    pub(super) fn open_folder(&self, given: &str) -> Result<Option<Dir>, ToolResult> {
        let path = self.meant(given)?;
        match self.workspace.open_dir(&path) {
            Ok(dir) => self.judge(&path, dir.path().relative()).map(|()| Some(dir)),
            // The kind of a folder that the call may not touch stays unsaid.
            Err(error) => match self.judged(path) {
                Ok(_) if matches!(error, WorkspaceError::NotDirectory { .. }) => Ok(None),
                Ok(_) => Err(failure(error)),
                Err(denied) => Err(denied),
            },
        }
    }

    /// Opens a file that should exist, even if the model spelled its name a little differently (see
    /// [`Workspace::resolve_existing`] and `unicode_forms`). The judged path is the opened one.
    pub(super) fn open_existing(&self, given: &str) -> Result<OpenFile, ToolResult> {
        let path = self.meant(given)?;
        match self.workspace.open_real(&path) {
            Ok((file, info, real)) => {
                self.judge(&path, &real)?;
                let real = self.workspace.absolute(&path.sibling(real));
                Ok(OpenFile { path, real, file, info })
            }
            // The kind of a file that the call may not touch stays unsaid.
            Err(error) => Err(self.judged(path).err().unwrap_or_else(|| failure(error))),
        }
    }

    /// The path that a model meant by a text, not judged yet.
    fn meant(&self, given: &str) -> Result<WorkspacePath, ToolResult> {
        if let Some(path) = self.quoted(given) {
            return path.map_err(unseen);
        }
        let path = self.workspace.resolve_existing(given).map_err(unseen)?;
        if given.is_ascii() || self.workspace.link_info(&path).is_ok() {
            return Ok(path);
        }
        let mut found = unicode_forms(given).filter_map(|form| self.workspace.resolve_existing(&form).ok());
        Ok(found.find(|path| self.workspace.link_info(path).is_ok()).unwrap_or(path))
    }

    /// The same path, or an error where links lead from it to a path about which the rules are stricter.
    fn judged(&self, path: WorkspacePath) -> Result<WorkspacePath, ToolResult> {
        if self.context.may.is_anything() {
            return Ok(path);
        }
        match self.workspace.real(&path) {
            Ok(real) => self.judge(&path, &real).map(|()| path),
            // The end of the path is not known, for example because links change all the time. A later try of the operation may
            // get through, so the call is refused here.
            Err(error @ WorkspaceError::Io { .. }) => Err(failure(error)),
            // The operation that uses the path reports why it cannot be reached.
            Err(_) => Ok(path),
        }
    }

    /// An error where a path leads to `real` by links, and the rules are stricter about that.
    fn judge(&self, path: &WorkspacePath, real: &Path) -> Result<(), ToolResult> {
        if self.context.may.is_anything() || real == path.relative() {
            return Ok(());
        }
        let real = self.path_from(&self.workspace.absolute(&path.sibling(real.to_owned())));
        if self.may_touch(&real) {
            return Ok(());
        }
        let (shown, real) = (self.shown(path), names::shown(&real));
        let text = format!("{shown}: Permission denied: it is a link to {real}, about which the rules are stricter.");
        Err(ToolResult::failed(ErrorReason::Denied, text))
    }

    /// Whether the rules let the call touch a path that it came across.
    pub(super) fn may_touch(&self, path: &Path) -> bool {
        let may = &self.context.may;
        may.is_anything() || may.touch(&Access::new(self.permission, path.to_string_lossy()))
    }

    /// The path in a quoted form (see `names`); `None` for a text that is not a quoted form. It is taken to the letter: an
    /// absolute path or `..` is an error, and `~` is a name.
    fn quoted(&self, given: &str) -> Option<Result<WorkspacePath, WorkspaceError>> {
        let path = names::given(given);
        if path == Path::new(given) {
            return None;
        }
        let why = "a quoted path must be relative, without `..`";
        let beneath = self.workspace.beneath(&path);
        Some(beneath.ok_or_else(|| WorkspaceError::BadPath { path: given.to_owned(), why }))
    }

    /// A path as the model sees it, and may send it back: relative to the workspace for a path inside.
    pub(super) fn shown(&self, path: &WorkspacePath) -> String {
        names::shown(&self.path_of(path))
    }

    /// Remembers what the session has just seen at an absolute path without links.
    pub(super) fn remember(&self, real: PathBuf, glimpse: Glimpse) {
        self.shared.seen.remember(&self.context.session, real, glimpse);
    }

    /// The absolute path of a workspace path, without links; the path as it was given where the walk to it fails.
    pub(super) fn real(&self, path: &WorkspacePath) -> PathBuf {
        let real = self.workspace.real(path).map(|real| path.sibling(real));
        self.workspace.absolute(real.as_ref().unwrap_or(path))
    }

    /// The path as it is shown and judged: relative to the workspace for a path inside, else absolute.
    pub(super) fn path_of(&self, path: &WorkspacePath) -> PathBuf {
        self.path_from(&self.workspace.absolute(path))
    }

    /// The path of a file beneath a folder, as rules and models write it.
    pub(super) fn below(&self, path: &WorkspacePath, relative: &Path) -> PathBuf {
        self.path_from(&self.workspace.absolute(path).join(relative))
    }

    pub(super) fn path_from(&self, absolute: &Path) -> PathBuf {
        let relative = absolute.strip_prefix(self.workspace.root()).map(Path::to_owned);
        match relative {
            Ok(path) if path.as_os_str().is_empty() => PathBuf::from("."),
            Ok(path) => path,
            Err(_) => absolute.to_owned(),
        }
    }
}

/// The same name with its accents composed, and with them apart: file systems differ in what they store.
fn unicode_forms(given: &str) -> impl Iterator<Item = String> {
    [given.nfc().collect(), given.nfd().collect()].into_iter()
}

/// The result for a path that cannot be read. A path outside counts as missing.
fn unseen(error: WorkspaceError) -> ToolResult {
    let outside = matches!(error, WorkspaceError::Outside { .. });
    let mut result = failure(error);
    if outside {
        result.content.push_str(" (ENOENT: this tool sees nothing out there)");
    }
    result
}

/// The accesses of a call on a path, for every spelling that the path may be read as: `permission` for the path, and
/// `external_directory` too where the path leads out of the workspace as text.
///
/// A tool does not know its workspace before it runs, so an absolute path counts as outside; `permission::seen_from` corrects
/// that with the workspace of the session.
pub(super) fn access(permission: &str, arguments: &Value, keys: &[&str], home: Option<&Path>) -> Vec<Access> {
    let given = keys.iter().find_map(|key| arguments.get(key)).and_then(Value::as_str).unwrap_or(".");
    let quoted = names::given(given);
    let mut spellings = vec![from_home(given, home)];
    if quoted != Path::new(given) {
        // A quoted path is taken to the letter: its `~` is a name in the workspace.
        spellings = vec![quoted.to_string_lossy().into_owned()];
    } else {
        for form in std::iter::once(given.to_owned()).chain(unicode_forms(given)) {
            for spelling in Workspace::spellings(&form) {
                let spelling = from_home(&spelling, home);
                if !spellings.contains(&spelling) {
                    spellings.push(spelling);
                }
            }
        }
    }
    let mut accesses = Vec::new();
    for spelling in spellings {
        let (pattern, inside) = as_text(&spelling);
        if !inside {
            accesses.push(Access::new("external_directory", &pattern));
        }
        accesses.push(Access::new(permission, pattern));
    }
    accesses.dedup();
    accesses
}

/// The absolute path for a path that begins with `~`, where the host named a home.
fn from_home(given: &str, home: Option<&Path>) -> String {
    let rest = if given == "~" { Some("") } else { given.strip_prefix("~/") };
    match (rest, home.and_then(Path::to_str)) {
        (Some(rest), Some(home)) => format!("{home}/{rest}"),
        _ => given.to_owned(),
    }
}

/// A path without `.` and `..`, and whether it stays inside as text.
fn as_text(given: &str) -> (String, bool) {
    let mut kept: Vec<&str> = Vec::new();
    let absolute = given.starts_with('/');
    for piece in given.split('/') {
        match piece {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => drop(kept.pop()),
            ".." if absolute => {}
            piece => kept.push(piece),
        }
    }
    let inside = !absolute && kept.first().is_none_or(|first| *first != ".." && *first != "~");
    let joined = kept.join("/");
    match (absolute, joined.is_empty()) {
        (true, _) => (format!("/{joined}"), inside),
        (false, true) => (".".to_owned(), inside),
        (false, false) => (joined, inside),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn accesses(path: &str) -> Vec<(String, String)> {
        let found = access("read", &json!({ "file_path": path }), &["path", "file_path"], None);
        found.into_iter().map(|one| (one.permission, one.pattern)).collect()
    }

    /// F01, F02: what leaves the workspace as text needs a permission more.
    #[test]
    fn a_path_that_leads_out_needs_a_second_permission() {
        let one = |permission: &str, pattern: &str| (permission.to_owned(), pattern.to_owned());
        assert_eq!(accesses("src/./a/../lib.rs"), [one("read", "src/lib.rs")]);
        assert_eq!(accesses("a/.."), [one("read", ".")]);
        for (path, pattern) in
            [("../x", "../x"), ("a/../../x", "../x"), ("/etc/../etc/passwd", "/etc/passwd"), ("~/.ssh/id", "~/.ssh/id")]
        {
            assert_eq!(accesses(path), [one("external_directory", pattern), one("read", pattern)]);
        }
    }

    /// Home has one spelling too, once it is known.
    #[test]
    fn a_path_from_home_is_the_absolute_one() {
        let arguments = json!({"path": "~/.ssh/../id"});
        let found = access("read", &arguments, &["path"], Some(Path::new("/home/ada")));
        assert_eq!(found, [Access::new("external_directory", "/home/ada/id"), Access::new("read", "/home/ada/id")]);
    }

    /// A quoted path is resolved in the workspace, so that path is judged, and not one in the home.
    #[test]
    fn a_quoted_path_does_not_begin_at_home() {
        let arguments = json!({"path": r#""~/x\n""#});
        let found = access("read", &arguments, &["path"], Some(Path::new("/home/ada")));
        assert_eq!(found, [Access::new("external_directory", "~/x\n"), Access::new("read", "~/x\n")]);
    }

    #[test]
    fn every_spelling_is_judged() {
        assert_eq!(accesses("@secret").iter().map(|one| one.1.as_str()).collect::<Vec<_>>(), ["@secret", "secret"]);
        assert_eq!(accesses(r#""a\nb""#), [("read".to_owned(), "a\nb".to_owned())]);
    }
}
