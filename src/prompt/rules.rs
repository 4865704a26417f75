//! Rule files: instructions for agents that people keep next to their code, and those of the user.
//!
//! ```text
//! the user's folder          AGENTS.md, rules/*.md      in each folder, AGENTS.override.md takes the place of AGENTS.md
//! the repository's root      AGENTS.md, CLAUDE.md, .cursorrules, .tamtam/rules/*.md
//!   …each folder below it    the same
//!     the workspace          the same: what is nearest comes last
//! ```
//!
//! The files of a project are instructions of strangers. Each is shown to the host's judge as it was read (its first 32 KiB), and
//! only text that the judge trusted is used; a file without text, and one with the text of an earlier file, is skipped before
//! that. Files of a project are opened beneath the folder's handle, so no link leads out of it. The files of the user need no
//! judge, and may be links into another folder. No special file is waited for. A refused file, and one for which there is no
//! room, is listed with the reason among the sections of the prompt; the model does not see it. A change must keep all of this,
//! because this text has the authority of the user.

use std::{
    collections::BTreeSet,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    EnvironmentProvider, Place, Section,
    git::repository,
    text::{cut_at_line, on_one_line},
};
use crate::{
    kernel::Layer,
    model::BoxFuture,
    tool::{Workspace, workspace::WorkspaceError},
};

/// The rule file of a folder, and the file that takes its place: what a person wants for a while, beside what everybody has.
const AGENTS: &str = "AGENTS.md";
const OVERRIDE: &str = "AGENTS.override.md";

/// Further names of rule files in a folder of a project.
const NAMES: [&str; 2] = ["CLAUDE.md", ".cursorrules"];

/// The folder of further rule files in a folder of a project.
const PROJECT_FOLDER: &str = ".tamtam/rules";

/// The folder of rules in the user's folder.
const USER_FOLDER: &str = "rules";

/// Bytes of one file.
const FILE_BYTES_MAX: usize = 32 * 1024;

/// Bytes of all files together, with the text around them.
const BYTES_MAX: usize = 64 * 1024;

/// Files in one folder of rules.
const FILES_MAX: usize = 64;

/// Decides whether the text of a file may be used.
type Trusts = dyn Fn(&Path, &str) -> bool + Send + Sync;

/// Tells a session the rules of its project and of its user.
///
/// ```
/// use tamtam::{Runtime, runtime::RuleFiles};
///
/// // A host that has looked at the files itself, and knows them by their text.
/// let known = "Use tabs.\n";
/// let rules = RuleFiles::trusting(move |_path, text| text == known).user_folder("/home/me/.config/tamtam");
/// let builder = Runtime::builder().environment(rules);
/// # drop(builder);
/// ```
#[derive(Clone)]
pub struct RuleFiles {
    user: Option<PathBuf>,
    trusts: Arc<Trusts>,
}

impl RuleFiles {
    /// The note of a file that the host does not trust ([`PromptSection::note`](crate::session::PromptSection::note)).
    pub const NOT_TRUSTED: &str = "ignored: it is not trusted";

    /// The rules of projects that `trusts` accepts, by path and text of the file. The judged text is the one used. `trusts` is
    /// called on a blocking thread, once for each file and session.
    #[must_use]
    pub fn trusting(trusts: impl Fn(&Path, &str) -> bool + Send + Sync + 'static) -> RuleFiles {
        RuleFiles { user: None, trusts: Arc::new(trusts) }
    }

    /// Also the rules of the user: `AGENTS.md` and `rules/*.md` in this folder. They are trusted, and come first.
    #[must_use]
    pub fn user_folder(mut self, folder: impl Into<PathBuf>) -> RuleFiles {
        self.user = Some(folder.into());
        self
    }

    fn read(&self, workspace: &Path) -> Vec<Section> {
        let mut found = Found::default();
        if let Some(user) = self.user.as_deref().and_then(|user| Workspace::open(user).ok()) {
            found.take_agents(&user, Path::new(""), None);
            found.take_folder(&user, USER_FOLDER, None);
        }
        let root = repository(workspace).unwrap_or(workspace);
        let Ok(project) = Workspace::open(root) else { return found.sections };
        let mut level = PathBuf::new();
        let below = workspace.strip_prefix(root).unwrap_or(Path::new(""));
        for step in std::iter::once(None).chain(below.iter().map(Some)) {
            level.extend(step);
            found.take_agents(&project, &level, Some(&*self.trusts));
            for name in NAMES {
                found.take(&project, &named(&level, name), Some(&*self.trusts));
            }
            found.take_folder(&project, &named(&level, PROJECT_FOLDER), Some(&*self.trusts));
        }
        found.sections
    }
}

impl EnvironmentProvider for RuleFiles {
    fn name(&self) -> &str {
        "rules"
    }

    fn sections<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Vec<Section>, String>> {
        let (rules, workspace) = (self.clone(), place.workspace.clone());
        Box::pin(async move {
            tokio::task::spawn_blocking(move || rules.read(&workspace)).await.map_err(|error| error.to_string())
        })
    }
}

/// Tells a session the text of files that the host names, such as a team's conventions: like rule files of the user, they are trusted,
/// and told in their order. A file that is not there, or not text, is left out with a note.
///
/// ```
/// use tamtam::runtime::InstructionFiles;
///
/// let builder = tamtam::Runtime::builder().environment(InstructionFiles::new(["/etc/acme/agents.md"]));
/// # drop(builder);
/// ```
#[derive(Clone, Debug)]
pub struct InstructionFiles {
    files: Vec<PathBuf>,
}

impl InstructionFiles {
    /// These files, by their whole paths: of each at most 32 KiB, of all together 64 KiB.
    #[must_use]
    pub fn new(files: impl IntoIterator<Item = impl Into<PathBuf>>) -> InstructionFiles {
        InstructionFiles { files: files.into_iter().map(Into::into).collect() }
    }

    fn read(&self) -> Vec<Section> {
        let mut found = Found::default();
        for file in &self.files {
            let folder = file.parent().and_then(|folder| Workspace::open(folder).ok());
            let name = file.file_name().and_then(|name| name.to_str());
            match (folder, name) {
                (Some(folder), Some(name)) if file.symlink_metadata().is_ok() => found.take(&folder, name, None),
                _ => found.left_out(&file.display().to_string(), file.clone(), "it is not there".to_owned()),
            }
        }
        found.sections
    }
}

impl EnvironmentProvider for InstructionFiles {
    fn name(&self) -> &str {
        "instructions"
    }

    fn sections<'a>(&'a self, _: &'a Place) -> BoxFuture<'a, Result<Vec<Section>, String>> {
        let files = self.clone();
        Box::pin(
            async move { tokio::task::spawn_blocking(move || files.read()).await.map_err(|error| error.to_string()) },
        )
    }
}

fn named(level: &Path, name: &str) -> String {
    level.join(name).to_string_lossy().into_owned()
}

/// What was found so far.
#[derive(Default)]
struct Found {
    sections: Vec<Section>,
    /// The texts so far: a text that two names lead to is used once.
    texts: BTreeSet<Arc<str>>,
    bytes: usize,
}

impl Found {
    /// Takes all `*.md` of a folder, in the order of their names.
    fn take_folder(&mut self, root: &Workspace, folder: &str, trusts: Option<&Trusts>) {
        let opened = match (trusts, root.beneath(Path::new(folder))) {
            // The user's folder may be a link to another one.
            (None, _) => Workspace::open(&root.root().join(folder)).and_then(|own| own.open_dir(&own.resolve(".")?)),
            (Some(_), Some(place)) => root.open_dir(&place),
            (Some(_), None) => return,
        };
        let Ok(entries) = opened.and_then(|dir| dir.entries()) else { return };
        let names = entries.filter_map(|entry| entry.ok()?.name.into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
        names.sort_unstable();
        for name in names.iter().take(FILES_MAX) {
            self.take(root, &format!("{folder}/{name}"), trusts);
        }
        if names.len() > FILES_MAX {
            self.left_out(
                folder,
                root.root().join(folder),
                format!("only {FILES_MAX} of {} files are read", names.len()),
            );
        }
    }

    /// Takes the rule file of a folder, or the one in its place. One that cannot be used takes nobody's place.
    fn take_agents(&mut self, root: &Workspace, level: &Path, trusts: Option<&Trusts>) {
        let used = self.sections.len();
        self.take(root, &named(level, OVERRIDE), trusts);
        if !self.sections[used..].iter().any(|section| !section.text.is_empty()) {
            self.take(root, &named(level, AGENTS), trusts);
        }
    }

    /// Takes a file, if it exists. `trusts` judges it; without a judge it is trusted.
    fn take(&mut self, root: &Workspace, name: &str, trusts: Option<&Trusts>) {
        let path = root.root().join(name);
        let opened = match (trusts, root.beneath(Path::new(name))) {
            (None, _) => Workspace::behind_links(&path).and_then(|(folder, file)| folder.open_read(&file)),
            (Some(_), Some(place)) => root.open_read(&place),
            (Some(_), None) => return,
        };
        let read = match opened {
            Ok((file, _)) => read(file),
            Err(WorkspaceError::NotFound { .. }) if trusts.is_none() && path.is_symlink() => {
                Err("it is a link to a file that is not there".to_owned())
            }
            Err(WorkspaceError::NotFound { .. }) => return,
            Err(error) => Err(error.to_string()),
        };
        let (text, is_cut) = match read {
            Ok(read) => read,
            Err(why) => return self.left_out(name, path, why),
        };
        if text.trim().is_empty() && is_cut {
            return self.left_out(
                name,
                path,
                format!("its first line of text is longer than the {FILE_BYTES_MAX} bytes of a file"),
            );
        }
        if text.trim().is_empty() || self.texts.contains(&*text) {
            return;
        }
        if !trusts.is_none_or(|trusts| trusts(&path, &text)) {
            return self.left_out(name, path, RuleFiles::NOT_TRUSTED.to_owned());
        }
        let fence = on_one_line(name).replace('"', "'");
        // A file must not end its own fence.
        let inside = text.trim_end().replace("</rules", "<\\/rules");
        let around = fence.len() + 100;
        let (kept, is_cut_again) = cut_at_line(&inside, BYTES_MAX.saturating_sub(self.bytes + around));
        if kept.trim().is_empty() {
            return self.left_out(name, path, format!("there is no room: all rules together have {BYTES_MAX} bytes"));
        }
        let is_cut = is_cut || is_cut_again;
        let end = if is_cut { "\n[cut here: the file has more]" } else { "" };
        let mut section = Section::new(Layer::Rules, name, format!("<rules file=\"{fence}\">\n{kept}{end}\n</rules>"));
        section.note =
            is_cut.then(|| format!("cut: a file has {FILE_BYTES_MAX} bytes at most, all together {BYTES_MAX}"));
        self.bytes += section.text.len() + 2;
        self.texts.insert(text.into());
        self.sections.push(section.from_origin(path.display().to_string()));
    }

    fn left_out(&mut self, name: &str, path: PathBuf, why: String) {
        let section = Section::left_out(Layer::Rules, name, why);
        self.sections.push(section.from_origin(path.display().to_string()));
    }
}

/// The text of a file, and whether it was cut; an error says why the file is refused.
fn read(file: File) -> Result<(String, bool), String> {
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.starts_with(b"\xef\xbb\xbf") || bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err("it begins with a byte order mark: save it as plain UTF-8".to_owned());
    }
    // A character cut by the end of the read is not the file's fault.
    let whole = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && bytes.len() > FILE_BYTES_MAX => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return Err("it is not UTF-8 text".to_owned()),
    };
    if whole.contains('\0') {
        return Err("it is not text".to_owned());
    }
    let (text, is_cut) = cut_at_line(whole, FILE_BYTES_MAX);
    Ok((text.to_owned(), is_cut))
}

#[cfg(test)]
mod tests;
