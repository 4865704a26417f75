//! Agents, commands and skills that people keep as files: found in folders, read, and made into one configuration.
//!
//! A folder holds the files of one program: our own, OpenCode's or Claude Code's ([`Dialect`]). Each is read in that program's
//! form, so that no file has to be rewritten; what has no counterpart here is left out (`files/foreign.rs`). A file that cannot
//! be used is left out and named with its line and field ([`BadFile`]), and the others load.
//!
//! This code reads the folders that it is given, the files of configuration that belong to them, and outside of a workspace the
//! files that such a configuration includes. The caller says whether a file of a workspace may be trusted. The code runs nothing.
//!
//! A change must keep these bounds, because others write the files of a workspace: a workspace is not left through a link; only
//! plain files are opened; no file is read that is larger than [`FILE_BYTES_MAX`]; and of no folder of agents or commands, with
//! those below it, more files are read than [`FILES_MAX`].

mod foreign;
mod read;
mod skill;
mod walk;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    agent::{Agents, AgentsConfig, BadAgent, Command, Commands, Skill, Skills},
    permission::{
        Fault,
        document::{self, Node, Value},
    },
    words::message::ModelRef,
};
use read::{Names, Section};

/// Bytes of a file, at most.
pub(super) const FILE_BYTES_MAX: u64 = 256 * 1_024;
/// Files of a folder and of those below it, at most.
const FILES_MAX: usize = 10_000;
/// How many folders deep a folder is read, itself included.
const DEPTH_MAX: usize = 16;

/// Whose form files have. In each form, files of agents may also be `.toml` or `.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// Our own: `agents/**/*.md`, `commands/**/*.md` and `skills/**/SKILL.md`.
    Tamtam,
    /// OpenCode's: `agent/**/*.md`, `command/**/*.md` and `skill/**/SKILL.md` (or `agents`, `commands`, `skills`), and the tables
    /// of `opencode.json` or `opencode.jsonc`.
    OpenCode,
    /// Claude Code's: `agents/**/*.md`, `commands/**/*.md` and `skills/**/SKILL.md`.
    ClaudeCode,
    /// The folder that programs share: `skills/**/SKILL.md`, as agentskills.io has it, and nothing else.
    AgentSkills,
}

/// Decides whether the text of a file may be used.
type Trusts = dyn Fn(&Path, &str) -> bool + Send + Sync;

/// A folder with files of one program.
#[derive(Clone)]
pub struct AgentFolder {
    path: PathBuf,
    dialect: Dialect,
    /// The folder that no link may lead out of.
    inside: Option<PathBuf>,
    trusts: Arc<Trusts>,
    /// Files of configuration that hold agents and commands too.
    configs: Vec<PathBuf>,
    /// Whether nothing but skills is read.
    only_skills: bool,
}

impl AgentFolder {
    /// A folder, such as `~/.config/tamtam`. It need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, dialect: Dialect) -> AgentFolder {
        let path = path.into();
        let configs = match dialect {
            Dialect::OpenCode => ["opencode.json", "opencode.jsonc"].map(|name| path.join(name)).into(),
            _ => Vec::new(),
        };
        AgentFolder { path, dialect, inside: None, trusts: Arc::new(|_, _| true), configs, only_skills: false }
    }

    /// The folders of a workspace, the least powerful first: those of Claude Code, of OpenCode, the shared `.agents` and our own.
    /// Their texts instruct a model, so a file is used only if `trusts` accepts its path and its text. The judged text is the one used.
    #[must_use]
    pub fn of_workspace(
        workspace: &Path,
        trusts: impl Fn(&Path, &str) -> bool + Send + Sync + 'static,
    ) -> Vec<AgentFolder> {
        let trusts: Arc<Trusts> = Arc::new(trusts);
        let folder = |name: &str, dialect| AgentFolder {
            inside: Some(workspace.to_path_buf()),
            trusts: trusts.clone(),
            ..AgentFolder::new(workspace.join(name), dialect)
        };
        let mut folders = vec![
            folder(".claude", Dialect::ClaudeCode),
            folder(".opencode", Dialect::OpenCode),
            folder(".agents", Dialect::AgentSkills),
            folder(".tamtam", Dialect::Tamtam),
        ];
        let beside = ["opencode.json", "opencode.jsonc"].map(|name| workspace.join(name));
        folders[1].configs.splice(0..0, beside);
        folders
    }

    /// Only the skills of [`AgentFolder::of_workspace`]: for the folders above a workspace, up to that of its repository.
    #[must_use]
    pub fn skills_of_workspace(
        workspace: &Path,
        trusts: impl Fn(&Path, &str) -> bool + Send + Sync + 'static,
    ) -> Vec<AgentFolder> {
        let only = |folder| AgentFolder { configs: Vec::new(), only_skills: true, ..folder };
        AgentFolder::of_workspace(workspace, trusts).into_iter().map(only).collect()
    }
}

impl std::fmt::Debug for AgentFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentFolder").field("path", &self.path).field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

/// A file, or a part of one, that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {}{why}", path.display(), line_of(*line), if field.is_empty() { String::new() } else { format!("{field}: ") })]
#[non_exhaustive]
pub struct BadFile {
    /// The file or folder.
    pub path: PathBuf,
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// The field, such as `tools.read`; empty if none is meant.
    pub field: String,
    /// What is wrong.
    pub why: String,
}

fn line_of(line: usize) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}

impl BadFile {
    fn whole(path: &Path, why: impl Into<String>) -> BadFile {
        BadFile { path: path.to_path_buf(), line: 0, field: String::new(), why: why.into() }
    }

    fn of(path: &Path, text: &str, fault: Fault) -> BadFile {
        let bad = fault.in_text(text);
        BadFile { path: path.to_path_buf(), line: bad.line, field: bad.field, why: bad.why }
    }
}

/// What the files of some folders say.
///
/// ```
/// use std::{collections::BTreeMap, fs};
/// use tamtam::runtime::{AgentFiles, AgentFolder};
///
/// # let workspace = tempfile::tempdir()?;
/// # let workspace = workspace.path();
/// fs::create_dir_all(workspace.join(".claude/agents"))?;
/// let text = "---\nname: reviewer\ndescription: Reads changes.\ntools: Read, Grep\n---\nYou review.\n";
/// fs::write(workspace.join(".claude/agents/reviewer.md"), text)?;
/// fs::write(workspace.join(".claude/agents/broken.md"), "---\nname: [\n---\n")?;
///
/// let files = AgentFiles::read(&AgentFolder::of_workspace(workspace, |_, _| true), &BTreeMap::new());
/// let (agents, commands, bad) = files.build()?;
/// assert_eq!(agents.get("reviewer").unwrap().prompt.as_deref(), Some("You review."));
/// assert_eq!((bad.len(), bad[0].line), (1, 3));
/// assert!(commands.get("review").is_some(), "the runtime's own");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct AgentFiles {
    /// The settings of agents.
    pub config: AgentsConfig,
    /// The commands, in the order in which they were found.
    pub commands: Vec<Command>,
    /// The skills, in the order in which they were found: of two of one name, the later counts.
    pub skills: Vec<Skill>,
    /// The files, and parts of files, that could not be used.
    pub bad: Vec<BadFile>,
    /// The commands that are not used, by name, with the file and the reason.
    unused: BTreeMap<String, String>,
    /// The default agent that a file of configuration names.
    default: Option<(String, PathBuf)>,
}

impl AgentFiles {
    /// Reads the folders, the least powerful first. A missing folder has no files, and a folder given twice is read once.
    /// `models` are the models that Claude Code names by one word, such as `sonnet`; an agent or command whose word is not among
    /// them has the model of its session. Blocks on the disk.
    #[must_use]
    pub fn read(folders: &[AgentFolder], models: &BTreeMap<String, ModelRef>) -> AgentFiles {
        let mut files = AgentFiles::default();
        let mut seen = std::collections::BTreeSet::new();
        for folder in folders {
            for config in &folder.configs {
                if config.is_file() && seen.insert(config.canonicalize().unwrap_or_else(|_| config.clone())) {
                    files.config_file(folder, config, models);
                }
            }
            let sections = Section::folders(folder.dialect).iter();
            for &(name, section) in sections.filter(|(_, section)| !folder.only_skills || *section == Section::Skills) {
                let root = folder.path.join(name);
                let Ok(real) = root.canonicalize() else { continue };
                if !seen.insert(real) {
                    continue;
                }
                for path in
                    walk::files(&root, folder.inside.as_deref(), section.endings(folder.dialect), &mut files.bad)
                {
                    if section == Section::Skills && !skill::is_skill(&path) {
                        continue;
                    }
                    let read = Reading { folder, models, path: &path };
                    if let Err(bad) = files.file(&read, &root, section) {
                        let name = path.strip_prefix(&root).unwrap_or(&path).with_extension("");
                        files.not_used(section, &Names::of_path(&name), bad);
                    }
                }
            }
        }
        files.check_default();
        files
    }

    /// The agents and commands that the files make of those of the runtime, and what of the files could not be used.
    ///
    /// # Errors
    /// As [`Agents::build`].
    pub fn build(mut self) -> Result<(Agents, Commands, Vec<BadFile>), BadAgent> {
        let (agents, wrong) = Agents::build(&self.config)?;
        for (source, bad) in wrong {
            let (path, field) = (source.unwrap_or_default(), bad.field().unwrap_or_default().to_owned());
            self.bad.push(BadFile { path, line: 0, field, why: bad.to_string() });
        }
        Ok((agents, Commands::built_in().with(self.commands).without(self.unused), self.bad))
    }

    /// The skills of the library, with those of the files.
    #[must_use]
    pub fn skills(&self) -> Skills {
        Skills::built_in().with(self.skills.iter().cloned())
    }

    fn not_used(&mut self, section: Section, name: &Names, bad: BadFile) {
        if section == Section::Commands {
            self.unused.insert(name.as_ours(), bad.to_string());
        }
        self.bad.push(bad);
    }

    /// One agent, command or skill as a separate file.
    fn file(&mut self, read: &Reading<'_>, root: &Path, section: Section) -> Result<(), BadFile> {
        let text = walk::text(read.path, read.folder.inside.as_deref(), &*read.folder.trusts)?;
        let wrong = |fault| BadFile::of(read.path, &text, fault);
        let (node, body) = match read.path.extension().and_then(|ending| ending.to_str()) {
            Some("json") => (document::json_with_comments(&text).map_err(wrong)?, None),
            Some("toml") => (document::toml(&text).map_err(wrong)?, None),
            _ => {
                let (front, body) = read::front_matter(&text, read.folder.dialect).map_err(wrong)?;
                (front, Some(body))
            }
        };
        let name = read.path.strip_prefix(root).unwrap_or(read.path).with_extension("");
        self.entry(read, section, &Names::of_path(&name), node, body).map_err(wrong)
    }

    /// Takes one agent, command or skill in.
    fn entry(
        &mut self,
        read: &Reading<'_>,
        section: Section,
        name: &Names,
        node: Node,
        body: Option<&str>,
    ) -> Result<(), Fault> {
        let source = Some(read.path.to_path_buf());
        match section {
            Section::Agents => {
                let (name, spec) = read::agent(node, body, name, read.folder.dialect, read.models)?;
                self.config.agents.push((name, spec, source));
            }
            Section::Commands => {
                let command = read::command(node, body, name, read.folder.dialect, read.models)?;
                self.commands.push(Command { source, ..command });
            }
            Section::Skills => self.skills.push(skill::skill(&node, body.unwrap_or_default(), read.path)?),
        }
        Ok(())
    }

    /// The tables of a file of configuration.
    fn config_file(&mut self, folder: &AgentFolder, path: &Path, models: &BTreeMap<String, ModelRef>) {
        let read = Reading { folder, models, path };
        let text = match walk::text(path, folder.inside.as_deref(), &*folder.trusts) {
            Ok(text) => text,
            Err(bad) => return self.bad.push(bad),
        };
        let fields = match document::json_with_comments(&text) {
            Ok(Node { value: Value::Map(fields), .. }) => fields,
            Ok(node) => {
                return self.bad.push(BadFile::of(path, &text, Fault::new(node.at, "", "a table is wanted here")));
            }
            Err(fault) => return self.bad.push(BadFile::of(path, &text, fault)),
        };
        for field in fields {
            let done = match (field.name.as_str(), field.node.value) {
                ("agent" | "command", Value::Map(entries)) => {
                    let section = if field.name == "agent" { Section::Agents } else { Section::Commands };
                    for entry in entries {
                        let place = format!("{}.{}", field.name, entry.name);
                        let included = read::with_files(entry.node, path, folder.inside.as_deref());
                        let taken = included
                            .and_then(|node| self.entry(&read, section, &Names::of_text(&entry.name), node, None));
                        if let Err(fault) = taken {
                            let bad = BadFile::of(path, &text, read::below(&place, fault));
                            self.not_used(section, &Names::of_text(&entry.name), bad);
                        }
                    }
                    Ok(())
                }
                ("default_agent", Value::Text(name)) => {
                    self.default = Some((name, path.to_path_buf()));
                    Ok(())
                }
                ("tools" | "permission", value) => {
                    let node = Node { at: field.node.at, value };
                    read::for_all(&field.name, node, &mut self.config)
                }
                _ => Ok(()),
            };
            if let Err(fault) = done {
                self.bad.push(BadFile::of(path, &text, fault));
            }
        }
    }

    /// An unknown default agent must not cost all agents: it may exist only in the other program.
    fn check_default(&mut self) {
        let Some((name, path)) = self.default.take() else { return };
        let is_known =
            Agents::built_in().get(&name).is_some() || self.config.agents.iter().any(|(own, ..)| *own == name);
        if is_known {
            self.config.default_agent = Some(name);
        } else {
            let why = format!("there is no agent {name:?}");
            self.bad.push(BadFile { field: "default_agent".to_owned(), ..BadFile::whole(&path, why) });
        }
    }
}

/// What is read now.
struct Reading<'a> {
    folder: &'a AgentFolder,
    models: &'a BTreeMap<String, ModelRef>,
    path: &'a Path,
}

#[cfg(test)]
mod tests;
