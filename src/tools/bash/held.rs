//! What an unasked command may reach: the workspace as the rules let it be read, and the files that the command itself names for
//! writing ([`Held`]).
//!
//! Landlock grants folders with all beneath them, and has no exceptions. So if the rules let only some of the workspace be read,
//! the tree is granted around the rest, path by path; if that takes more than [`ENTRIES_MAX`] looks or [`GRANTS_MAX`] grants, the
//! kernel cannot enforce the rules and the command is not run so. A file to write is opened before the command begins, beneath
//! the handle of the workspace, and this very file is granted, even if its name changes. A missing one is made empty, and removed
//! again if the command did not touch it.
//!
//! A change must grant nothing that [`ToolContext::may`] refuses. The code waits for the disk.

use std::{
    fs::File,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    process::Confinement,
    tool::{
        Access, Held, ToolContext,
        workspace::{Workspace, WorkspaceError, WorkspacePath},
    },
};

/// The most files and folders that are checked to grant a workspace in part.
const ENTRIES_MAX: usize = 50_000;
/// The most paths that are granted of a workspace.
const GRANTS_MAX: usize = 4_000;
/// How deep folders are walked. A deeper one is not granted.
const DEPTH_MAX: usize = 64;

/// The folders of a repository in which the contents of its history are.
const HISTORY: &[&str] = &["objects", "modules", "lfs", "annex"];

/// The mark of a file that was made for a command and not touched since: its time of change.
const UNTOUCHED: Duration = Duration::from_secs(1);

/// What is granted to one command. Holds the files open that it may write.
#[derive(Default)]
pub(super) struct Grants {
    look: Vec<PathBuf>,
    list: Vec<PathBuf>,
    targets: Vec<Target>,
}

/// A file that a command may write.
struct Target {
    file: File,
    /// Where it was made for the command.
    made: Option<(Workspace, WorkspacePath)>,
}

impl Grants {
    /// What the rules grant to a call; the error says why the kernel cannot hold them.
    pub(super) fn of(held: &Held, context: &ToolContext) -> Result<Grants, String> {
        let mut grants = Grants::default();
        let workspace = context.workspace.as_path();
        if held.keeps_reads {
            let mut walk = Walk { context, workspace, history: held.history, looked: 0, granted: Vec::new() };
            match walk.folder(workspace, 0)? {
                Part::Whole => grants.look.push(workspace.to_owned()),
                Part::Some => grants.look = walk.granted,
            }
        } else {
            grants.look.push(workspace.to_owned());
        }
        grants.list.push(workspace.to_owned());
        grants.look.extend(worktree(workspace));
        let opened = Workspace::for_call(context).map_err(|error| error.to_string())?;
        for path in &held.writes {
            grants.targets.extend(target(&opened, path, context)?);
        }
        Ok(grants)
    }

    /// Adds to what a command may reach.
    pub(super) fn add_to(&self, confinement: &mut Confinement) {
        confinement.look.extend(self.look.iter().cloned());
        confinement.list.extend(self.list.iter().cloned());
        // By its handle: its name may be another file's by now.
        let path = |target: &Target| PathBuf::from(format!("/proc/self/fd/{}", target.file.as_raw_fd()));
        confinement.write.extend(self.targets.iter().map(path));
    }
}

/// Removes the files that were made for the command and that it did not touch.
impl Drop for Grants {
    fn drop(&mut self) {
        for Target { file, made } in self.targets.drain(..) {
            let Some((workspace, path)) = made else { continue };
            let is_untouched = file.metadata().is_ok_and(|about| {
                about.len() == 0 && about.modified().is_ok_and(|at| at == SystemTime::UNIX_EPOCH + UNTOUCHED)
            });
            if is_untouched && let Err(error) = workspace.remove_file(&path) {
                tracing::warn!(%path, %error, "an empty file that was made for a command could not be removed");
            }
        }
    }
}

/// The file that a command names for writing; `None` if its folder is missing, which the system then reports to the command.
fn target(workspace: &Workspace, path: &Path, context: &ToolContext) -> Result<Option<Target>, String> {
    let given = path.to_string_lossy();
    let cannot = |error: &dyn std::fmt::Display| format!("{given} cannot be opened for it alone: {error}");
    let found = workspace.resolve_for_write(&given).map_err(|error| cannot(&error))?;
    let real = match workspace.real(&found) {
        Ok(real) => real,
        Err(WorkspaceError::NotFound { .. } | WorkspaceError::NotDirectory { .. }) => return Ok(None),
        Err(error) => return Err(cannot(&error)),
    };
    // A link may lead to what the rules ask about.
    if !path.starts_with(&*context.workspace) {
        if real != found.relative() {
            return Err(cannot(&"it leads elsewhere"));
        }
    } else if !context.may.touch(&Access::new("edit", real.to_string_lossy())) {
        return Err(cannot(&"it leads to a file that may not be written"));
    }
    match workspace.open_real(&found) {
        Ok((file, ..)) => Ok(Some(Target { file, made: None })),
        Err(WorkspaceError::NotFound { .. }) => match workspace.create_new(&found) {
            Ok(file) => {
                // Without the mark an empty file may stay, which is harmless.
                drop(file.set_modified(SystemTime::UNIX_EPOCH + UNTOUCHED));
                Ok(Some(Target { file, made: Some((workspace.clone(), found)) }))
            }
            Err(WorkspaceError::NotFound { .. }) => Ok(None),
            Err(error) => Err(cannot(&error)),
        },
        Err(error) => Err(cannot(&error)),
    }
}

/// The repository that a linked worktree of git belongs to: the folder that its file `.git` names, if that folder names the
/// worktree too, and the one with the history. Nothing for any other workspace.
fn worktree(workspace: &Path) -> Vec<PathBuf> {
    let line = |path: &Path| {
        let text = std::fs::read_to_string(path).ok()?;
        Some(text.lines().next()?.trim().to_owned())
    };
    let file = workspace.join(".git");
    let named = file.is_file().then(|| line(&file)).flatten();
    let Some(folder) = named.and_then(|line| line.strip_prefix("gitdir: ").map(PathBuf::from)) else {
        return Vec::new();
    };
    let names_it = line(&folder.join("gitdir")).is_some_and(|back| Path::new(&back) == file);
    let common = line(&folder.join("commondir")).map(|common| folder.join(common));
    match common.filter(|_| names_it && folder.is_absolute()) {
        Some(common) => vec![folder, common],
        None => Vec::new(),
    }
}

/// How much of a folder may be read.
enum Part {
    /// All of it.
    Whole,
    /// What was granted path by path.
    Some,
}

/// Walks a workspace and grants what may be read.
struct Walk<'a> {
    context: &'a ToolContext,
    workspace: &'a Path,
    history: bool,
    looked: usize,
    granted: Vec<PathBuf>,
}

impl Walk<'_> {
    /// Grants what may be read of a folder, unless all of it may be: then the folder above grants it.
    fn folder(&mut self, folder: &Path, depth: usize) -> Result<Part, String> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Part::Some) };
        let (before, mut whole, mut is_whole) = (self.granted.len(), Vec::new(), true);
        for entry in entries {
            let Ok(entry) = entry else { continue };
            self.looked += 1;
            if self.looked > ENTRIES_MAX {
                return Err(format!(
                    "the workspace has more than {ENTRIES_MAX} files, and the rules let some be read only"
                ));
            }
            let path = entry.path();
            let kind = entry.file_type();
            let part = match kind {
                // A link is not a file: its target is granted, or not, by its own path. A grant of the link would be a grant of
                // the target.
                Ok(kind) if kind.is_symlink() => continue,
                Ok(kind) if kind.is_dir() && depth < DEPTH_MAX && !self.is_history(&path) => {
                    self.folder(&path, depth + 1)?
                }
                Ok(kind) if !kind.is_dir() && self.may_read(&path) => Part::Whole,
                _ => Part::Some,
            };
            match part {
                Part::Whole => whole.push(path),
                Part::Some => is_whole = false,
            }
        }
        if is_whole && self.granted.len() == before {
            return Ok(Part::Whole);
        }
        self.granted.append(&mut whole);
        if self.granted.len() > GRANTS_MAX {
            return Err(format!("the rules let more than {GRANTS_MAX} single paths of the workspace be read"));
        }
        Ok(Part::Some)
    }

    fn may_read(&self, path: &Path) -> bool {
        let inside = path.strip_prefix(self.workspace).unwrap_or(path);
        self.context.may.touch(&Access::new("read", inside.to_string_lossy()))
    }

    /// Whether a folder holds the contents of a repository's history, which no rule about a path can be held over.
    fn is_history(&self, path: &Path) -> bool {
        let name = |path: &Path, names: &[&str]| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(&name))
        };
        !self.history && name(path, HISTORY) && path.parent().is_some_and(|parent| parent.join("HEAD").is_file())
    }
}
