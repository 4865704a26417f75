//! The files of a project that may have a say (its configuration, agents, commands and rule files): finds them, reads them, and
//! names each by its hash.
//!
//! The files may be a stranger's. They are opened beneath the folder's handle, so no link leads out of the workspace; a special
//! file is refused and never waited for; how many are read, and how much of them, is bounded. Where one of the files asked for
//! cannot be read, none is given.
//!
//! A change that lets another file of a workspace have a say must add its place to [`all`]; otherwise `tamtam trust` would not
//! cover it.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use tamtam::tool::{Dir, FileKind, Workspace, WorkspaceError};

/// Files of a workspace that have a say, by their place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// A file, or a folder.
    pub(super) path: &'static str,
    /// Of a folder, how the names of the files in it and below it end; none of a file.
    pub(super) endings: &'static [&'static str],
}

/// The settings and rules of a project.
pub(crate) const CONFIG: Place = Place { path: ".tamtam/config.toml", endings: &[] };

/// The skills of a project. Those of the folders above a workspace are read too, where they are trusted.
pub(crate) const SKILLS: [Place; 5] = [
    Place { path: ".tamtam/skills", endings: &["/SKILL.md", "/skill.md"] },
    Place { path: ".agents/skills", endings: &["/SKILL.md", "/skill.md"] },
    Place { path: ".claude/skills", endings: &["/SKILL.md", "/skill.md"] },
    Place { path: ".opencode/skill", endings: &["/SKILL.md", "/skill.md"] },
    Place { path: ".opencode/skills", endings: &["/SKILL.md", "/skill.md"] },
];

/// The agents and commands of a project, in all forms that are read.
pub(crate) const TEAM: [Place; 12] = [
    Place { path: ".tamtam/agents", endings: &[".md", ".toml", ".json"] },
    Place { path: ".tamtam/commands", endings: &[".md"] },
    Place { path: ".claude/agents", endings: &[".md"] },
    Place { path: ".claude/commands", endings: &[".md"] },
    Place { path: ".opencode/agent", endings: &[".md"] },
    Place { path: ".opencode/agents", endings: &[".md"] },
    Place { path: ".opencode/command", endings: &[".md"] },
    Place { path: ".opencode/commands", endings: &[".md"] },
    Place { path: "opencode.json", endings: &[] },
    Place { path: "opencode.jsonc", endings: &[] },
    Place { path: ".opencode/opencode.json", endings: &[] },
    Place { path: ".opencode/opencode.jsonc", endings: &[] },
];

/// The files that name MCP servers, which are programs. One of them may name agents too.
pub(crate) const MCP: [Place; 4] = [
    Place { path: ".mcp.json", endings: &[] },
    Place { path: ".codex/config.toml", endings: &[] },
    Place { path: "opencode.json", endings: &[] },
    Place { path: ".opencode/opencode.json", endings: &[] },
];

/// The files that name hooks, which are programs.
pub(crate) const HOOKS: [Place; 3] = [
    Place { path: ".tamtam/hooks.json", endings: &[] },
    Place { path: ".claude/settings.json", endings: &[] },
    Place { path: ".claude/settings.local.json", endings: &[] },
];

/// The files with instructions for every agent.
const RULES: [Place; 5] = [
    Place { path: "AGENTS.override.md", endings: &[] },
    Place { path: "AGENTS.md", endings: &[] },
    Place { path: "CLAUDE.md", endings: &[] },
    Place { path: ".cursorrules", endings: &[] },
    Place { path: ".tamtam/rules", endings: &[".md"] },
];

/// All places: `tamtam trust` covers them together. A new kind of file is a line here or above, and is read through `Trust::look`.
pub(super) fn all() -> Vec<Place> {
    [&[CONFIG][..], &RULES, &TEAM, &SKILLS, &MCP[..2], &HOOKS].concat()
}

/// Texts or hashes of files, by their names from the workspace on.
pub(crate) type Files = BTreeMap<String, String>;

/// Largest file, the most files, the most bytes of all, and how deep folders are looked into.
const FILE_BYTES_MAX: u64 = 1 << 20;
const FILES_MAX: usize = 1_000;
const BYTES_MAX: usize = 8 << 20;
const DEPTH_MAX: usize = 8;

impl Place {
    /// Whether a file of this name is in the place.
    pub(super) fn has(&self, name: &str) -> bool {
        match name.strip_prefix(self.path) {
            Some(rest) if !self.endings.is_empty() => rest.starts_with('/') && self.takes(rest),
            rest => rest == Some(""),
        }
    }

    fn takes(&self, name: &str) -> bool {
        self.endings.iter().any(|ending| name.ends_with(ending))
    }

    /// Whether there is a file or a folder at the path. Nothing is opened.
    pub(super) fn is_there(&self, workspace: &Path) -> bool {
        std::fs::symlink_metadata(workspace.join(self.path)).is_ok()
    }
}

/// Reads the files of a folder that are in these places.
pub(super) fn read(workspace: &Path, places: &[Place]) -> Result<Files, String> {
    let opened = Workspace::open(workspace).map_err(|error| error.to_string())?;
    let mut reading = Reading { workspace: &opened, files: Files::new(), bytes: 0 };
    for place in places.iter().filter(|place| place.is_there(workspace)) {
        if place.endings.is_empty() {
            reading.file(place.path)?;
        } else {
            let dir = opened.resolve(place.path).and_then(|path| opened.open_dir(&path));
            reading.folder(place, &dir.map_err(|error| error.to_string())?, DEPTH_MAX)?;
        }
    }
    Ok(reading.files)
}

struct Reading<'a> {
    workspace: &'a Workspace,
    files: Files,
    bytes: usize,
}

impl Reading<'_> {
    fn file(&mut self, name: &str) -> Result<(), String> {
        let text = text_in(self.workspace, name)?;
        self.bytes += text.len();
        self.files.insert(name.to_owned(), text);
        if self.files.len() > FILES_MAX || self.bytes > BYTES_MAX {
            return Err(format!("it has more than {FILES_MAX} files or {BYTES_MAX} bytes of them"));
        }
        Ok(())
    }

    /// The files in a folder and below it. Links to folders are not followed.
    fn folder(&mut self, place: &Place, dir: &Dir, depth: usize) -> Result<(), String> {
        let failed = |error: WorkspaceError| error.to_string();
        for entry in dir.entries().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = match entry.kind {
                FileKind::Unknown => dir.info(&entry.name).map_err(failed)?.kind,
                kind => kind,
            };
            let path: PathBuf = dir.path().relative().join(&entry.name);
            let name = path.to_str().ok_or_else(|| format!("{} has a name that is not UTF-8", path.display()))?;
            if kind == FileKind::Directory && depth > 0 {
                self.folder(place, &dir.open_dir(&entry.name).map_err(failed)?, depth - 1)?;
            } else if kind == FileKind::Directory {
                return Err(format!("{name} is more than {DEPTH_MAX} folders deep"));
            } else if place.takes(name) {
                self.file(name)?;
            }
        }
        Ok(())
    }
}

/// The text of one file of a folder.
pub(super) fn text(workspace: &Path, name: &str) -> Result<String, String> {
    text_in(&Workspace::open(workspace).map_err(|error| error.to_string())?, name)
}

fn text_in(workspace: &Workspace, name: &str) -> Result<String, String> {
    let path = workspace.resolve(name).map_err(|error| error.to_string())?;
    let (bytes, _) = workspace.read(&path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8 text"))
}

pub(super) fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// The files by their hashes: what trust is bound to.
pub(super) fn hashes(files: &Files) -> Files {
    files.iter().map(|(name, text)| (name.clone(), hash(text))).collect()
}

/// What is not as it was trusted; the first file by name.
pub(super) fn difference(trusted: &BTreeMap<&String, &String>, now: &Files) -> Option<String> {
    let changed = now.iter().find(|(name, hash)| trusted.get(name) != Some(hash));
    if let Some((name, _)) = changed {
        return Some(format!("{name} {}", if trusted.contains_key(name) { "has changed" } else { "is new" }));
    }
    trusted.keys().find(|name| !now.contains_key(**name)).map(|name| format!("{name} is gone"))
}

/// What tells a folder from another one that was made at the same path later: its number in the file system, and when it was made,
/// where the file system says that. `None` where there is no folder.
pub(super) fn made(workspace: &Path) -> Option<String> {
    let metadata = std::fs::metadata(workspace).ok().filter(std::fs::Metadata::is_dir)?;
    let born = metadata.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    Some(format!("{}:{}", metadata.ino(), born.map_or(0, |at| at.as_nanos())))
}
