//! Which projects the user trusts, and what people granted for them: the file `trust.json` in the user's data folder.
//!
//! A workspace may be a stranger's, such as a repository that was cloned. Its files say nothing until the user has run `tamtam
//! trust DIR`. Trust is for one folder: its real path, and that folder itself, not another one that was made there later. Trust is
//! also for the bytes of its files. The configuration is one kind of file, agents, commands and skills are another, MCP servers a third, hooks a
//! fourth ([`CONFIG`], [`TEAM`], [`SKILLS`], [`MCP`], [`HOOKS`]):
//! where one byte has changed, or there is a file more or less, no file of that kind is read. A rule file such as AGENTS.md is
//! judged alone ([`Trust::has_trusted`]). What people granted for the project holds while its configuration is trusted as it is.
//!
//! A change must keep this: the code that reads configuration, agents or commands of a workspace asks [`Trust::look`] and uses the
//! text that it gives, because a file that is read a second time may have changed. `trust.json` is a stored format
//! (`docs/FORMATS.md`). It is written whole and then renamed, under a lock, and only its owner may read and write it. A trust file
//! that is not understood is an error, and for [`Trust::has_trusted`] a no: to pass it over would lose what was granted.

mod command;
mod project;
mod stored;

use std::path::{Path, PathBuf};

use tamtam::{
    Millis, Seq,
    permission::Rule,
    session::{Granted, Scope},
};

use super::{environment::Environment, failure::Failure, sessions::count};
use stored::{Entry, Stored};

pub(super) use command::trust;
pub(super) use project::{CONFIG, HOOKS, MCP, Place, SKILLS, TEAM};

/// What the files of a project are worth.
#[derive(Debug, PartialEq)]
pub(super) enum Project {
    /// There are none, and the folder is not trusted.
    Nothing,
    /// The files, by name from the folder on, with the text that was trusted, and what people granted.
    Trusted { files: project::Files, granted: Vec<Granted> },
    /// They are not read; the line says why, and what to do.
    Untrusted(String),
}

/// The trust file of a user. Holds nothing open.
#[derive(Clone, Debug)]
pub(super) struct Trust {
    /// `None` where the user has no data folder: then nothing is trusted.
    path: Option<PathBuf>,
}

impl Trust {
    /// The trust file of the user of this process.
    pub(super) fn of(environment: &Environment) -> Trust {
        Trust { path: environment.data().map(|data| data.join("trust.json")) }
    }

    fn read(&self) -> Result<Stored, Failure> {
        self.path.as_deref().map_or_else(|| Ok(Stored::default()), stored::read)
    }

    /// Changes the file: reads it under its lock, and writes it whole.
    fn change<T>(&self, change: impl FnOnce(&mut Stored) -> Result<T, Failure>) -> Result<T, Failure> {
        let path = self.path.as_deref();
        let path = path.ok_or_else(|| Failure::usage("no folder for the trust file is known: set HOME"))?;
        stored::change(path, change)
    }

    /// The files of the folder `workspace` in these places, if they are trusted as they are now. Files in other places may have
    /// changed.
    pub(super) fn look(&self, workspace: &Path, places: &[Place]) -> Result<Project, Failure> {
        Ok(look(self.read()?.of(workspace), workspace, places))
    }

    /// Whether a file of a trusted folder is as it was trusted, and begins with `text`.
    pub(super) fn has_trusted(&self, file: &Path, text: &str) -> bool {
        let Ok(stored) = self.read() else { return false };
        stored.projects.iter().any(|entry| {
            let workspace = Path::new(&entry.path);
            let name = file.strip_prefix(workspace).ok().and_then(Path::to_str);
            let trusted = name.and_then(|name| stored.of(workspace)?.files.get(name).map(|hash| (name, hash)));
            trusted.is_some_and(|(name, hash)| {
                let whole = project::text(workspace, name);
                whole.is_ok_and(|whole| project::hash(&whole) == *hash && whole.starts_with(text))
            })
        })
    }

    /// Why a rule file such as AGENTS.md is ignored, and the command that trusts it. A folder of rules is trusted with the folder
    /// that `.tamtam` is in.
    pub(super) fn why_not(&self, file: &Path) -> String {
        let folder = file.parent().unwrap_or(Path::new("/"));
        let project =
            folder.ancestors().find(|above| above.ends_with(".tamtam")).and_then(Path::parent).unwrap_or(folder);
        let of = |workspace: &Path| Some(file.strip_prefix(workspace).ok()?.to_str()?.to_owned());
        let stored = self.read().unwrap_or_default();
        let trusted = stored.projects.iter().map(|entry| Path::new(&entry.path)).find(|workspace| {
            stored.of(workspace).zip(of(workspace)).is_some_and(|(entry, name)| entry.files.contains_key(&name))
        });
        match trusted {
            Some(workspace) => {
                format!("{} is ignored: it has changed since you trusted it: {}", file.display(), how_again(workspace))
            }
            None => format!("{} is ignored: it is not trusted: {}", file.display(), how(project)),
        }
    }

    /// How the user stands to a folder, in words: whether it is trusted, has changed since, or has nothing to trust.
    pub(super) fn standing(&self, workspace: &Path) -> Result<String, Failure> {
        Ok(match self.look(workspace, &project::all())? {
            Project::Nothing => format!("{} has no files that need trust", workspace.display()),
            Project::Trusted { files, .. } if files.is_empty() => {
                format!("{} is trusted; it has no files yet", workspace.display())
            }
            Project::Trusted { files, .. } => {
                format!("{} is trusted with {}", workspace.display(), count(files.len() as u64, "file"))
            }
            Project::Untrusted(why) => format!("no: {why}"),
        })
    }

    /// Trusts the files of a folder as they were read, in all places.
    fn trust(&self, workspace: &Path, files: &project::Files) -> Result<(), Failure> {
        self.change(|stored| {
            let entry = stored.entry(workspace)?;
            (entry.files, entry.time) = (project::hashes(files), Millis::now());
            Ok(())
        })
    }

    /// Adds rules that a person granted for the folder `workspace`, as one grant. Rules that are granted already are not added.
    ///
    /// # Errors
    /// Where the project is not trusted, and where the file cannot be written.
    pub(super) fn add_project_rules(&self, workspace: &Path, rules: &[Rule], who: Option<&str>) -> Result<(), Failure> {
        self.change(|stored| {
            let granted = match look(stored.of(workspace), workspace, &[CONFIG]) {
                Project::Trusted { granted, .. } => granted,
                Project::Nothing => return Err(Failure::usage(untrusted(workspace))),
                Project::Untrusted(why) => return Err(Failure::usage(why)),
            };
            if granted.iter().any(|granted| granted.rules == rules) {
                return Ok(());
            }
            let mut new = Granted::default();
            new.id = Seq(granted.iter().map(|granted| granted.id.0).max().unwrap_or_default() + 1);
            (new.scope, new.rules) = (Scope::Project, rules.to_vec());
            (new.who, new.time) = (who.map(str::to_owned), Millis::now());
            stored.entry(workspace)?.granted.push(new);
            Ok(())
        })
    }

    /// Takes back the grant of that id, or with `None` all grants and the trust. Gives what was taken back.
    fn revoke(&self, workspace: &Path, id: Option<u64>) -> Result<Vec<Granted>, Failure> {
        self.change(|stored| {
            let at = stored.projects.iter().position(|entry| Path::new(&entry.path) == workspace);
            let at = at.ok_or_else(|| Failure::usage(format!("{} is not trusted", workspace.display())))?;
            let Some(id) = id else { return Ok(stored.projects.remove(at).granted) };
            let granted = &mut stored.projects[at].granted;
            let found = granted.iter().position(|granted| granted.id == Seq(id));
            let found = found.ok_or_else(|| {
                let list = format!("`tamtam trust {} --list` lists them", workspace.display());
                Failure::usage(format!("no grant for {} has the id {id}: {list}", workspace.display()))
            })?;
            Ok(vec![granted.remove(found)])
        })
    }
}

/// As [`Trust::look`], for what the trust file says of the folder.
fn look(entry: Option<&Entry>, workspace: &Path, places: &[Place]) -> Project {
    let Some(entry) = entry else {
        let Some(found) = places.iter().find(|place| place.is_there(workspace)) else { return Project::Nothing };
        let place = workspace.join(found.path);
        return Project::Untrusted(format!("{} is ignored: it is not trusted: {}", place.display(), how(workspace)));
    };
    let files = match project::read(workspace, places) {
        Ok(files) => files,
        Err(why) => return Project::Untrusted(format!("{} is ignored: {why}", workspace.display())),
    };
    let trusted = entry.files.iter().filter(|(name, _)| places.iter().any(|place| place.has(name)));
    match project::difference(&trusted.collect(), &project::hashes(&files)) {
        None => Project::Trusted { files, granted: entry.granted.clone() },
        Some(what) => Project::Untrusted(format!(
            "{what} since you trusted {}, so it is ignored: {}",
            workspace.display(),
            how_again(workspace)
        )),
    }
}

/// What to say about a folder without files that is not trusted.
pub(super) fn untrusted(workspace: &Path) -> String {
    format!("{} is not trusted: {}", workspace.display(), how(workspace))
}

/// The command that trusts a folder.
fn how(workspace: &Path) -> String {
    format!("run `tamtam trust {}`", workspace.display())
}

/// The commands that show what has changed in a folder, and trust it again.
fn how_again(workspace: &Path) -> String {
    let dir = workspace.display();
    format!("`tamtam trust --show {dir}` shows it, `tamtam trust {dir}` trusts it")
}

#[cfg(test)]
mod tests;
