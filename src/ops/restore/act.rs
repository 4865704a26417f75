//! Carries out a plan, file by file, each whole or not at all, and reports the result for each.
//!
//! A restore that is cut off half-way can be made again: it finds the files that are done and does the others. A failure of one
//! file does not stop the rest.
//!
//! A change must keep the order for each file: take the lock that the tools take too, look once more, keep the present content in
//! the vault, note the change, then change the file. So no content is lost that could be kept, and after a crash the notes say what
//! may have been changed. Deletions come before writes.

use crate::{
    kernel::{RefusedFile, RestoredFiles},
    ops::restore::{
        Bench, Restore,
        look::{self, Now, NowFile},
        plan::{FilePlan, FileStep, PlannedFile},
    },
    tool::{
        FileChange, FileImage, FileState,
        files::{Note, Vault},
        workspace::{WorkspaceError, WorkspacePath, WriteOptions},
    },
};

pub(super) fn act(plan: &FilePlan, bench: &Bench, how: Restore) -> RestoredFiles {
    let mut done = RestoredFiles { since: plan.since, key: bench.key.clone(), files: Vec::new(), refused: Vec::new() };
    let mut work = Vec::new();
    for file in &plan.files {
        match &file.step {
            FileStep::Nothing => {}
            FileStep::Conflict { why } if how != Restore::Over => done.refuse(file, why),
            FileStep::NotRestorable { why } => done.refuse(file, why),
            FileStep::Restore | FileStep::Delete | FileStep::Conflict { .. } => work.push(file),
        }
    }
    // Deleting first frees space, and separates the names of one file before its content goes back.
    work.sort_by_key(|file| file.target != FileState::Absent);
    for file in work {
        match (One { plan, file, bench, how }).put_back() {
            Ok(change) => done.files.extend(change),
            Err(why) => done.refuse(file, &why),
        }
        fault!(bench.faults, "restore.file", &file.path);
    }
    done
}

impl RestoredFiles {
    fn refuse(&mut self, file: &PlannedFile, why: &str) {
        self.refused.push(RefusedFile { path: file.path.clone(), why: why.to_owned() });
    }
}

/// The restore of one file.
struct One<'a> {
    plan: &'a FilePlan,
    file: &'a PlannedFile,
    bench: &'a Bench,
    how: Restore,
}

impl One<'_> {
    /// Puts the file back. `None` if the file is already as it should be.
    fn put_back(&self) -> Result<Option<FileChange>, String> {
        let Bench { workspace, files, .. } = self.bench;
        let failed = |error: WorkspaceError| error.to_string();
        let place = look::place(workspace, &self.file.path).ok_or("it is not in the workspace")?;
        // Not stoppable: a tool holds this lock for one write at most.
        let lock = files.locks.take(workspace, &place, || false).map_err(failed)?;
        let now = look::one(workspace, &self.file.path);
        if let Now::Other(what) = &now {
            return Err(format!("it is {what}"));
        }
        if now.is(&self.file.target) && now.has(self.file.mode) {
            return Ok(None);
        }
        // A hard link to a file that was just put back has the target content, and has returned above.
        if !is_unchanged(&now, &self.file.now) && self.how != Restore::Over {
            return Err("someone else changed it at that moment".to_owned());
        }
        let before = self.keep(&place, &now)?;
        let change = match &self.file.target {
            FileState::Absent => self.delete(&place, before)?,
            FileState::File(image) => self.write(&place, before, image, now.file())?,
            FileState::Unknown(why) => return Err(why.clone()),
        };
        drop(lock);
        Ok(Some(change))
    }

    /// Keeps the present content in the vault, so that the restore can be undone.
    fn keep(&self, place: &WorkspacePath, now: &Now) -> Result<FileState, String> {
        let Some(now) = now.file() else { return Ok(FileState::Absent) };
        let vault = &self.bench.vault;
        let image = match self.bench.workspace.read(place, vault.file_bytes_max()) {
            Ok((content, info)) if info.version == now.info.version => vault.keep(&content, info.mode),
            Ok(_) => return Err("someone else changed it at that moment".to_owned()),
            Err(WorkspaceError::TooLarge { .. }) => {
                let hash = Some(now.hash.clone());
                FileImage { hash, ..vault.too_large(now.info.mode, now.info.bytes) }
            }
            Err(error) => return Err(error.to_string()),
        };
        match &image.not_kept {
            Some(why) if self.how != Restore::Over => {
                Err(format!("its present content could not be kept, so this could not be undone: {why}"))
            }
            _ => Ok(FileState::File(image)),
        }
    }

    fn delete(&self, place: &WorkspacePath, before: FileState) -> Result<FileChange, String> {
        let change = FileChange { path: self.file.path.clone(), before, after: FileState::Absent };
        self.noted(&change, || self.bench.workspace.remove_file(place))?;
        Ok(change)
    }

    fn write(
        &self,
        place: &WorkspacePath,
        before: FileState,
        image: &FileImage,
        now: Option<&NowFile>,
    ) -> Result<FileChange, String> {
        let content = content(image, &self.bench.vaults)?;
        let expect = now.map(|now| now.info.version);
        let options = WriteOptions { expect, mode: self.file.mode, ..WriteOptions::default() };
        // A fork that takes a content from its parent's vault keeps it in its own from now on.
        let mut image = self.bench.vault.keep(&content, image.mode);
        let mut change = FileChange { path: self.file.path.clone(), before, after: FileState::File(image.clone()) };
        let written = self.noted(&change, || self.bench.workspace.write(place, &content, &options))?;
        image.mode = written.info.mode;
        change.after = FileState::File(image);
        Ok(change)
    }

    /// Notes a change, then makes it. If the change fails, notes that it was not made.
    fn noted<T>(&self, change: &FileChange, make: impl FnOnce() -> Result<T, WorkspaceError>) -> Result<T, String> {
        self.note(change, false);
        make().map_err(|error| {
            self.note(change, true);
            error.to_string()
        })
    }

    fn note(&self, change: &FileChange, not_made: bool) {
        let (seq, restore) = (self.plan.upto, Some(self.bench.key.clone()));
        if let Err(error) = self.bench.vault.note(&Note { seq, restore, change: change.clone(), not_made }) {
            tracing::warn!(%error, "a change could not be noted");
        }
    }
}

fn is_unchanged(now: &Now, then: &Now) -> bool {
    match (now, then) {
        // The version also differs where another hard link of the file was deleted. So only identity and content count.
        (Now::File(now), Now::File(then)) => {
            now.hash == then.hash && now.info.version.identity() == then.info.version.identity()
        }
        (now, then) => now == then,
    }
}

/// Reads a kept content from the first vault that has it.
pub(super) fn content(image: &FileImage, vaults: &[Vault]) -> Result<Vec<u8>, String> {
    let hash = image.hash.as_deref().unwrap_or_default();
    let mut why = "its old content was not kept".to_owned();
    for vault in vaults {
        match vault.read(hash) {
            Ok(content) => return Ok(content),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}
