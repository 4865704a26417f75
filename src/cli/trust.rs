//! Which projects the user trusts, and what people granted for them: a file in the user's data folder.
//!
//! Whoever writes a folder's files, such as the author of a repository that was cloned, says nothing by them until the user has
//! said `tamtam trust DIR`. That holds for one folder (its real path, and the folder itself: one that was made anew there is
//! another) and for the bytes of its files: one changed byte, one file more or less, and nothing of it is read.
//!
//! `trust.json` is a stored format (`docs/FORMATS.md`). It is written whole and then renamed, under a lock, and nobody but its
//! owner may write it. A file that is not understood is an error: it says what is allowed, and to pass it over would lose what
//! was granted. A change must keep that the text which is judged is the text which is used: it is read once.

mod command;
mod project;
mod stored;

use std::path::{Path, PathBuf};

use tamtam::permission::Rule;

use super::{environment::Environment, failure::Failure};
use stored::{Entry, Stored};

pub(super) use command::trust;
pub(super) use project::Project;
pub(super) use stored::Granted;

/// The trust file of a user. Holds nothing open.
#[derive(Debug)]
pub(super) struct Trust {
    /// `None` where the user has no data folder: then nothing is trusted.
    path: Option<PathBuf>,
    /// When something is written: now.
    now: String,
}

impl Trust {
    /// The trust file of the user of this process.
    pub(super) fn of(environment: &Environment) -> Trust {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Trust { path: environment.data().map(|data| data.join("trust.json")), now }
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

    /// What is known of the folder `workspace`; `None` where nothing is, or where it was made anew since.
    fn entry(&self, workspace: &Path) -> Result<Option<Entry>, Failure> {
        let entry = self.read()?.projects.into_iter().find(|entry| Path::new(&entry.path) == workspace);
        let made = project::made(workspace);
        Ok(entry.filter(|entry| Some(&entry.made) == made.as_ref()))
    }

    /// The configuration files of the folder `workspace`, if they are trusted as they are now.
    pub(super) fn look(&self, workspace: &Path) -> Result<Project, Failure> {
        if !project::has_files(workspace) {
            return self.look_for_lost(workspace);
        }
        let how = format!("`tamtam trust {}` shows and trusts it", workspace.display());
        let place = workspace.join(project::FOLDER);
        let Some(trusted) = self.entry(workspace)?.and_then(|entry| entry.files) else {
            return Ok(Project::Untrusted(format!(
                "{} is not trusted, so nothing of it is read: {how}",
                place.display()
            )));
        };
        let files = match project::read(workspace) {
            Ok(files) => files,
            Err(why) => {
                return Ok(Project::Untrusted(format!("{} was trusted, and is not read now: {why}", place.display())));
            }
        };
        if project::hashes(&files) == trusted {
            return Ok(Project::Trusted(files.into_iter().map(|(name, text)| (place.join(name), text)).collect()));
        }
        Ok(Project::Untrusted(format!(
            "{} has changed since it was trusted, so nothing of it is read: {how}",
            place.display()
        )))
    }

    /// A project without configuration; it is worth a word where it had one that was trusted.
    fn look_for_lost(&self, workspace: &Path) -> Result<Project, Failure> {
        let had = self.entry(workspace)?.and_then(|entry| entry.files).is_some();
        let gone = || {
            let place = workspace.join(project::FOLDER);
            Project::Untrusted(format!("the configuration that was trusted in {} is gone", place.display()))
        };
        Ok(if had { gone() } else { Project::Nothing })
    }

    /// Trusts files of a folder as they were read.
    fn trust(&self, workspace: &Path, files: &[(String, String)]) -> Result<(), Failure> {
        self.change(|stored| {
            let entry = stored.entry(workspace, &self.now)?;
            entry.files = Some(project::hashes(files));
            entry.at.clone_from(&self.now);
            Ok(())
        })
    }

    /// The rules that people granted for the folder `workspace`, in the order in which they were granted. None for a folder that
    /// was made anew since.
    pub(super) fn project_rules(&self, workspace: &Path) -> Result<Vec<Granted>, Failure> {
        Ok(self.entry(workspace)?.map(|entry| entry.rules).unwrap_or_default())
    }

    /// Adds rules to those that were granted for the folder `workspace`, and says who granted them. A rule that is there already
    /// is not added.
    #[cfg_attr(not(test), expect(dead_code, reason = "its caller is the answer to an ask whose scope is the project"))]
    pub(super) fn add_project_rules(&self, workspace: &Path, rules: &[Rule], who: Option<&str>) -> Result<(), Failure> {
        self.change(|stored| {
            let entry = stored.entry(workspace, &self.now)?;
            for rule in rules {
                if !entry.rules.iter().any(|granted| granted.rule == *rule) {
                    let granted = Granted { rule: rule.clone(), who: who.map(str::to_owned), at: self.now.clone() };
                    entry.rules.push(granted);
                }
            }
            Ok(())
        })
    }

    /// Takes back the rule at that place of [`Trust::project_rules`], counted from 1, or with `None` all rules and the trust.
    /// Gives the rules that went, and whether files were trusted.
    fn revoke(&self, workspace: &Path, number: Option<usize>) -> Result<(Vec<Granted>, bool), Failure> {
        self.change(|stored| {
            let at = stored.projects.iter().position(|entry| Path::new(&entry.path) == workspace);
            let Some(at) = at else {
                return Err(Failure::usage(format!("nothing is trusted in {}", workspace.display())));
            };
            let Some(number) = number else {
                let entry = stored.projects.remove(at);
                return Ok((entry.rules, entry.files.is_some()));
            };
            let entry = &mut stored.projects[at];
            if number == 0 || number > entry.rules.len() {
                let why =
                    format!("there is no rule {number}: `tamtam trust {} --list` numbers them", workspace.display());
                return Err(Failure::usage(why));
            }
            let gone = entry.rules.remove(number - 1);
            if entry.rules.is_empty() && entry.files.is_none() {
                stored.projects.remove(at);
            }
            Ok((vec![gone], false))
        })
    }
}

#[cfg(test)]
mod tests;
