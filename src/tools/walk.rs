//! Walks a folder of the workspace and shows its entries to a caller: `find`, `grep`, the look of `bash` at the files, and
//! `listing.rs`.
//!
//! The walk goes down from its start by open handles and follows no link, so it cannot leave that folder, even if files change
//! meanwhile. A change must keep that. It leaves out the temporary files of writes. Unless the caller asks for these too, it also
//! leaves out what git ignores by `.git/info/exclude` or by a `.gitignore` from the workspace down, and the folders of
//! [`LEFT_OUT`]. Entries of a folder come in the order of their names. A folder below the start that cannot be read is counted
//! and does not end the walk. Depth and the size of ignore files are bounded ([`Missed`] counts what is beyond); the number of
//! entries is not, so the caller's `stop` and `visit` must end a walk that takes too long.

use std::{
    ffi::OsStr,
    io::Read as _,
    path::{Path, PathBuf},
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::tool::workspace::{Dir, DirEntry, FileKind, Workspace, WorkspaceError, WorkspacePath};

/// Folders that are left out unless they are asked for.
const LEFT_OUT: [&str; 5] = [".git", "node_modules", "_build", "deps", "target"];

/// After how many entries or files a search reports its progress.
pub(super) const PROGRESS_EVERY: usize = 1_000;

/// How many levels the walk goes down from its start. Each level holds an open handle.
const DEPTH_MAX: usize = 128;

/// How many bytes the ignore files that hold in one folder may have together. An ignore file beyond this is not obeyed. (The worst
/// patterns take five hundred times as much memory when they are compiled, and some seconds for each MiB.)
const IGNORE_BYTES_MAX: usize = 256 * 1024;

/// The rules by which a walk leaves out entries.
pub(super) struct Rules<'a> {
    /// Whether `.gitignore` files and the list of folders are obeyed.
    pub(super) obey_ignore: bool,
    /// Whether a folder of [`LEFT_OUT`] was asked for by its name.
    pub(super) asked_for: &'a dyn Fn(&OsStr) -> bool,
    /// Whether to leave out an entry with all below it. Takes the path from the start of the walk, and whether it is a directory.
    pub(super) left_out: &'a dyn Fn(&Path, bool) -> bool,
}

/// One entry of a folder, as the walk shows it.
pub(super) struct Entry<'a> {
    /// The open directory that holds the entry.
    pub(super) dir: &'a Dir,
    pub(super) name: &'a OsStr,
    pub(super) kind: FileKind,
    /// The path from the start of the walk.
    pub(super) path: &'a Path,
}

/// Whether to walk on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    On,
    Stop,
}

/// The number of files and folders that a walk could not look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// Files and folders that were left out because git ignores them, or for their name ([`LEFT_OUT`]). A `.git` does not count.
    pub(super) ignored: usize,
    /// Folders that could not be opened or listed.
    pub(super) unreadable: usize,
    /// Folders that lie deeper than [`DEPTH_MAX`].
    pub(super) too_deep: usize,
    /// Ignore files that are too large to be obeyed.
    pub(super) large_ignores: usize,
}

/// One directory on the way down.
struct Level {
    dir: Dir,
    /// The path from the start of the walk.
    path: PathBuf,
    /// The entries that are left to show, in the order of their names.
    rest: std::vec::IntoIter<DirEntry>,
    /// How many ignore files hold in this directory.
    ignores: usize,
}

/// An ignore file, and the directory that it is for, relative to the root (the workspace, or another folder that may be read).
struct Ignore {
    base: PathBuf,
    rules: Gitignore,
    bytes: usize,
}

/// Shows the entries beneath a folder to `visit`, which may stop the walk. The walk also stops once `stop` answers true. An error
/// means that the start cannot be opened or listed.
pub(super) fn walk(
    workspace: &Workspace,
    dir: Dir,
    rules: &Rules,
    stop: &dyn Fn() -> bool,
    mut visit: impl FnMut(&Entry) -> Step,
) -> Result<Missed, WorkspaceError> {
    let start = dir.path().clone();
    let prefix = start.relative().to_owned();
    let mut walk = Walk { rules, stop, prefix, ignores: Vec::new(), missed: Missed::default() };
    if rules.obey_ignore {
        walk.take_in_above(workspace, &start);
    }
    let mut levels = vec![walk.level(dir, PathBuf::new())?];
    while let Some(current) = levels.last_mut() {
        if stop() {
            break;
        }
        walk.ignores.truncate(current.ignores);
        let Some(entry) = current.rest.next() else {
            levels.pop();
            continue;
        };
        let path = current.path.join(&entry.name);
        let kind = match entry.kind {
            FileKind::Unknown => current.dir.info(&entry.name).map_or(FileKind::Unknown, |info| info.kind),
            kind => kind,
        };
        let is_directory = kind == FileKind::Directory;
        let ignored = rules.obey_ignore
            && (is_left_out(&entry.name, is_directory, rules) || walk.is_ignored(&path, is_directory));
        walk.missed.ignored += usize::from(ignored && entry.name != ".git");
        if ignored || is_temporary(&entry.name) || (rules.left_out)(&path, is_directory) {
            continue;
        }
        if visit(&Entry { dir: &current.dir, name: &entry.name, kind, path: &path }) == Step::Stop {
            break;
        }
        if is_directory && levels.len() > DEPTH_MAX {
            walk.missed.too_deep += 1;
        } else if is_directory {
            let below = levels.last().map(|current| current.dir.open_dir(&entry.name));
            match below.and_then(Result::ok).and_then(|dir| walk.level(dir, path).ok()) {
                Some(below) => levels.push(below),
                None => walk.missed.unreadable += 1,
            }
        }
    }
    Ok(walk.missed)
}

/// A running walk: the values for all of it, the ignore files that hold where it is, and what it missed.
struct Walk<'a> {
    rules: &'a Rules<'a>,
    stop: &'a dyn Fn() -> bool,
    /// The path from the workspace to the start of the walk.
    prefix: PathBuf,
    ignores: Vec<Ignore>,
    missed: Missed,
}

impl Walk<'_> {
    /// Lists a directory and reads its ignore file.
    fn level(&mut self, dir: Dir, path: PathBuf) -> Result<Level, WorkspaceError> {
        let mut entries = Vec::new();
        for entry in dir.entries()? {
            if (self.stop)() {
                break;
            }
            entries.push(entry?);
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let name = OsStr::new(".gitignore");
        if self.rules.obey_ignore && entries.binary_search_by(|entry| entry.name.as_os_str().cmp(name)).is_ok() {
            self.take_in(&dir, name, self.prefix.join(&path), None);
        }
        Ok(Level { dir, path, rest: entries.into_iter(), ignores: self.ignores.len() })
    }

    /// Reads the ignore files of the folders above the start of the walk, from the workspace down. They hold in the workspace only,
    /// and not in another folder that may be read.
    fn take_in_above(&mut self, workspace: &Workspace, start: &WorkspacePath) {
        if workspace.absolute(start).strip_prefix(workspace.root()).is_err() {
            return;
        }
        let Ok(mut dir) = workspace.resolve(".").and_then(|top| workspace.open_dir(&top)) else { return };
        let info = dir.open_dir(OsStr::new(".git")).and_then(|git| git.open_dir(OsStr::new("info")));
        if let Ok(info) = info {
            self.take_in(&info, OsStr::new("exclude"), PathBuf::new(), Some(start.relative()));
        }
        let mut base = PathBuf::new();
        for component in start.relative().components() {
            let below = start.relative().strip_prefix(&base).ok();
            self.take_in(&dir, OsStr::new(".gitignore"), base.clone(), below);
            base.push(component);
            match dir.open_dir(component.as_os_str()) {
                Ok(below) => dir = below,
                Err(_) => break,
            }
        }
    }

    /// Reads an ignore file, if it exists and fits. Of a file above the start of the walk, lines about `start` (its path from
    /// there) do not count: a caller who names a folder wants to search it.
    fn take_in(&mut self, dir: &Dir, name: &OsStr, base: PathBuf, start: Option<&Path>) {
        let Ok((file, _)) = dir.open_read(name) else { return };
        let room = IGNORE_BYTES_MAX.saturating_sub(self.ignores.iter().map(|ignore| ignore.bytes).sum());
        let mut bytes = Vec::new();
        if file.take(room as u64 + 1).read_to_end(&mut bytes).is_err() {
            return;
        }
        match (bytes.len() <= room).then(|| ignore(&bytes, base, start)).flatten() {
            Some(ignore) => self.ignores.push(ignore),
            None => self.missed.large_ignores += 1,
        }
    }

    /// Whether a path is ignored, by the deepest ignore file that has a rule for it.
    fn is_ignored(&self, path: &Path, is_directory: bool) -> bool {
        let path = self.prefix.join(path);
        let matches = self.ignores.iter().rev().filter_map(|ignore| {
            let path = path.strip_prefix(&ignore.base).ok()?;
            Some(ignore.rules.matched(path, is_directory)).filter(|matched| !matched.is_none())
        });
        matches.map(|matched| matched.is_ignore()).next().unwrap_or(false)
    }
}

/// The rules of an ignore file; `None` for rules that are too large to be compiled.
fn ignore(bytes: &[u8], base: PathBuf, start: Option<&Path>) -> Option<Ignore> {
    let text = String::from_utf8_lossy(bytes);
    let mut builder = GitignoreBuilder::new(".");
    let start = start.filter(|start| !start.as_os_str().is_empty());
    let about_start = |line: &str| start.is_some_and(|start| ignores(line, start));
    for line in text.trim_start_matches('\u{feff}').lines().filter(|line| !about_start(line)) {
        // A line that is not a pattern is skipped, as in git.
        let _ = builder.add_line(None, line);
    }
    Some(Ignore { base, rules: builder.build().ok()?, bytes: bytes.len() })
}

/// Whether a line of an ignore file ignores a folder, one above it, or all that is in it (`folder/*`).
fn ignores(line: &str, folder: &Path) -> bool {
    let line = line.trim_end();
    let whole = line.strip_suffix("/**").or_else(|| line.strip_suffix("/*")).unwrap_or(line);
    let mut builder = GitignoreBuilder::new(".");
    let _ = builder.add_line(None, whole);
    builder.build().is_ok_and(|rules| rules.matched_path_or_any_parents(folder, true).is_ignore())
}

fn is_left_out(name: &OsStr, is_directory: bool, rules: &Rules) -> bool {
    // `.git` is a file in a linked worktree.
    (is_directory || name == ".git") && LEFT_OUT.iter().any(|left_out| name == *left_out) && !(rules.asked_for)(name)
}

/// Whether a name is that of the temporary file of a write (`tool/workspace/write.rs`).
fn is_temporary(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(".tamtam-") && name.ends_with(".tmp"))
}

impl Missed {
    /// The notice for a search that found nothing, although something was left out that it may be in.
    pub(super) fn ignored_notice(self) -> Option<String> {
        let left_out = "files or folders left out by .gitignore or their name (node_modules, _build, deps, target)";
        (self.ignored > 0).then(|| format!("[{} {left_out}; include_ignored searches them]", self.ignored))
    }

    /// The notice for the model; `None` if nothing was missed.
    pub(super) fn notice(self) -> Option<String> {
        let unreadable = (self.unreadable > 0).then(|| format!("{} folders could not be read", self.unreadable));
        let deep =
            (self.too_deep > 0).then(|| format!("{} folders more than {DEPTH_MAX} deep were left out", self.too_deep));
        let large = (self.large_ignores > 0)
            .then(|| format!("{} ignore files are too large and were not obeyed", self.large_ignores));
        let parts: Vec<String> = unreadable.into_iter().chain(deep).chain(large).collect();
        (!parts.is_empty()).then(|| format!("[{}]", parts.join("; ")))
    }
}
