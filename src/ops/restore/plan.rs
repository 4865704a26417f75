//! Decides what a restore would do, as a function of the recorded changes and of how the files are now.
//!
//! A file is put back only if it still is as the session left it; after a change that a crash may have cut off, also if it is as
//! before that change. If only the mode of the file differs, the mode is put back. A file that others changed is a conflict. A
//! file outside of the workspace, or whose old content was not kept, is not restorable.
//!
//! A change must keep these functions pure, so that the plan that a person sees is carried out and tests need no files: they read
//! no disk, and ask `kept` whether a content exists.

use std::collections::BTreeMap;

use crate::{
    kernel::RestoredFiles,
    ops::restore::{
        history::{History, Made},
        look::Now,
    },
    tool::FileState,
    words::ids::Seq,
};

/// What a restore would do to each file that was changed after an entry. Nothing has been done yet.
///
/// Shown as text it names each file, and then has a unified diff of what would change.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct FilePlan {
    /// Changes after this entry are taken back.
    pub since: Seq,
    /// The newest entry that was read.
    pub upto: Seq,
    /// The files, by path.
    pub files: Vec<PlannedFile>,
    /// Calls that ran without saying which files they change, one line each. A restore does not touch these changes.
    pub silent: Vec<String>,
}

/// One file of a plan.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct PlannedFile {
    /// Its path: relative to the workspace, or absolute if it is outside.
    pub path: String,
    /// What would be done.
    pub step: FileStep,
    /// The calls and restores that changed it: a call by its ticket, a restore by its entry.
    pub by: Vec<Seq>,
    /// Whether others changed it between two of these changes. A restore removes that change too; its content is kept.
    pub others_between: bool,
    /// The change as a unified diff, or a line that says why there is none; `None` if nothing would change.
    pub diff: Option<String>,
    /// The target state of the file.
    #[serde(skip)]
    pub(super) target: FileState,
    /// The mode to set; `None` if the mode stays.
    #[serde(skip)]
    pub(super) mode: Option<u32>,
    /// The state of the file when the plan was made.
    #[serde(skip)]
    pub(super) now: Now,
}

/// What is done to a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileStep {
    /// Its old content, or its old mode, is put back.
    Restore,
    /// The file did not exist before, and is deleted.
    Delete,
    /// The file is already as it was.
    Nothing,
    /// Others changed the file since. It is refused, unless the host asks for [`Restore::Over`](super::Restore::Over).
    Conflict {
        /// What was found.
        why: String,
    },
    /// It cannot be put back.
    NotRestorable {
        /// The reason, in words.
        why: String,
    },
}

impl PlannedFile {
    fn new(path: &str, step: FileStep, made: &[&Made], target: FileState, now: Now) -> PlannedFile {
        let mut by: Vec<Seq> = made.iter().map(|made| made.by).collect();
        by.dedup();
        PlannedFile { path: path.to_owned(), step, by, others_between: false, diff: None, target, mode: None, now }
    }
}

impl FilePlan {
    /// The files that a restore would change.
    pub fn to_change(&self) -> impl Iterator<Item = &PlannedFile> {
        self.files.iter().filter(|file| matches!(file.step, FileStep::Restore | FileStep::Delete))
    }

    /// The files that must be refused: changed by others since, or not restorable.
    pub fn refused(&self) -> impl Iterator<Item = &PlannedFile> {
        self.files.iter().filter(|file| matches!(file.step, FileStep::Conflict { .. } | FileStep::NotRestorable { .. }))
    }
}

/// Makes the plan.
pub(super) fn plan(history: &History, now: &BTreeMap<String, Now>, kept: &dyn Fn(&str) -> bool) -> FilePlan {
    let mut chains: BTreeMap<&str, Vec<&Made>> = BTreeMap::new();
    for made in &history.changes {
        chains.entry(&made.change.path).or_default().push(made);
    }
    // Hard links of one file share the changes that were made under any of its names.
    let mut names_of: BTreeMap<(u64, u64), Vec<&str>> = BTreeMap::new();
    for (path, now) in now {
        if let Some(file) = now.file().filter(|file| file.info.links > 1) {
            names_of.entry(file.info.version.identity()).or_default().push(path);
        }
    }
    let file = |path: &str, own: &[&Made]| {
        let now = now.get(path).filter(|_| own.iter().all(|made| made.here));
        let Some(now) = now else { return elsewhere(path, own) };
        let names = now.file().and_then(|file| names_of.get(&file.info.version.identity()));
        let shared = names.filter(|names| names.len() > 1).map(|names| {
            let mut all: Vec<&Made> = names.iter().filter_map(|name| chains.get(name)).flatten().copied().collect();
            all.sort_by_key(|made| made.at);
            all
        });
        one(path, own, shared.as_deref().unwrap_or(own), now, kept)
    };
    let files = chains.iter().map(|(path, own)| file(path, own)).collect();
    FilePlan { since: history.since, upto: history.upto, files, silent: history.silent.clone() }
}

/// The plan that undoes a restore: its changes in reverse order.
pub(super) fn back(done: &RestoredFiles, upto: Seq, now: &dyn Fn(&str) -> Now) -> FilePlan {
    let files = done.files.iter().rev().map(|change| {
        let now = now(&change.path);
        let step = match (&change.before, now.is(&change.after)) {
            (_, false) => FileStep::Conflict { why: "someone else changed it at that moment".to_owned() },
            (FileState::Absent, true) => FileStep::Delete,
            (FileState::File(_), true) => FileStep::Restore,
            (FileState::Unknown(why), true) => FileStep::NotRestorable { why: why.clone() },
        };
        let mode = match &change.before {
            FileState::File(image) => Some(image.mode),
            _ => None,
        };
        PlannedFile { by: vec![upto], mode, ..PlannedFile::new(&change.path, step, &[], change.before.clone(), now) }
    });
    FilePlan { since: upto, upto, files: files.collect(), silent: Vec::new() }
}

/// The plan for a file outside of the workspace: it is never restorable.
fn elsewhere(path: &str, own: &[&Made]) -> PlannedFile {
    let before = own.first().map_or(&FileState::Absent, |made| &made.change.before);
    let why = match before {
        FileState::Unknown(why) => why.clone(),
        FileState::Absent => "it is not in the session's workspace; it was not there before".to_owned(),
        FileState::File(image) => match &image.hash {
            Some(hash) if image.not_kept.is_none() => {
                format!("it is not in the session's workspace; its old content is kept as {hash}")
            }
            _ => "it is not in the session's workspace".to_owned(),
        },
    };
    PlannedFile::new(path, FileStep::NotRestorable { why }, own, before.clone(), Now::Absent)
}

/// The plan for one path. `own` are the changes under this path; `all` are the changes under any hard link of the file.
fn one(path: &str, own: &[&Made], all: &[&Made], now: &Now, kept: &dyn Fn(&str) -> bool) -> PlannedFile {
    let made_here = own.first().is_some_and(|made| made.change.before == FileState::Absent);
    let first = all.iter().find(|made| made_here || made.change.before != FileState::Absent);
    let target = match (made_here, first) {
        (true, _) | (_, None) => FileState::Absent,
        (false, Some(first)) => first.change.before.clone(),
    };
    let last = all.last().map(|made| (&made.change.after, made.uncertain.then_some(&made.change.before)));
    let mode = match (&target, last) {
        (FileState::File(image), Some((FileState::File(last), _))) if now.file().is_some() => {
            (image.mode != last.mode).then_some(image.mode)
        }
        (FileState::File(image), _) => Some(image.mode),
        _ => None,
    };
    let step = step(&target, last, now, mode, kept);
    let pairs = all.windows(2).filter(|pair| !pair[0].uncertain);
    let others_between = pairs.into_iter().any(|pair| are_apart(&pair[0].change.after, &pair[1].change.before));
    PlannedFile { others_between, mode, ..PlannedFile::new(path, step, all, target, now.clone()) }
}

fn step(
    target: &FileState,
    last: Option<(&FileState, Option<&FileState>)>,
    now: &Now,
    mode: Option<u32>,
    kept: &dyn Fn(&str) -> bool,
) -> FileStep {
    if now.is(target) && now.has(mode) {
        return FileStep::Nothing;
    }
    let cannot = |why: &str| FileStep::NotRestorable { why: why.to_owned() };
    match target {
        FileState::Unknown(why) => return cannot(why),
        FileState::File(image) => match (&image.hash, &image.not_kept) {
            (_, Some(why)) => return cannot(&format!("its old content was not kept: {why}")),
            (None, None) => return cannot("its old content was not kept"),
            (Some(hash), None) if !kept(hash) => return cannot("its old content was not kept"),
            (Some(_), None) => {}
        },
        FileState::Absent => {}
    }
    let Some((after, or_before)) = last else { return FileStep::Nothing };
    if let FileState::Unknown(why) = after {
        return cannot(why);
    }
    if now.is(after) || or_before.is_some_and(|before| now.is(before)) || now.is(target) {
        return if *target == FileState::Absent { FileStep::Delete } else { FileStep::Restore };
    }
    let why = match now {
        Now::Absent => "someone else deleted it since".to_owned(),
        Now::File(_) if *after == FileState::Absent => "it was created again since".to_owned(),
        Now::File(_) => "someone else changed it since".to_owned(),
        Now::Other(what) => format!("it is {what}"),
    };
    FileStep::Conflict { why }
}

/// Whether others changed the file between two changes.
fn are_apart(after: &FileState, before: &FileState) -> bool {
    match (after, before) {
        (FileState::Unknown(_), _) | (_, FileState::Unknown(_)) => false,
        (FileState::File(after), FileState::File(before)) => {
            matches!((&after.hash, &before.hash), (Some(after), Some(before)) if after != before)
        }
        (after, before) => after != before,
    }
}
