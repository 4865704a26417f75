//! Restores the files that a session changed: makes a plan from the changes that the tape records, and carries the plan out.
//!
//! `history` finds the changes, `look` reads how the files are now, `plan` is a function of both, `show` adds the diffs, and `act`
//! carries the plan out. The results of calls on the tape say which files a session changed. A call that a crash cut off has no
//! such result; its changes come from the notes next to the tape, because a call notes each change before it makes it. A call
//! that ran without saying what it changes is named in the plan.
//!
//! What a change must not break: no file is changed that the plan did not name, and none outside of the workspace. A file whose
//! old content was not kept is refused by name. So is a file that others changed since the session did, unless the caller asks
//! for [`Restore::Over`]. The present content is kept before it is replaced or deleted, so that another restore can undo this
//! one; if it cannot be kept, the file is refused, again except with [`Restore::Over`].

mod act;
mod error;
mod history;
mod look;
mod offline;
mod plan;
mod show;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    error::OpenError,
    kernel::{Entry, RestoredFiles},
    ops::taped,
    tape::{TapeError, TapeStore, TapeStoreExt as _},
    tool::{FileChange, FileState, Files, files::Vault, workspace::Workspace},
    words::ids::{Seq, SessionId},
};

pub use error::{RestoreError, Restored};
pub use offline::offline;
pub use plan::{FilePlan, FileStep, PlannedFile};

/// How a restore treats files that cannot simply be put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Restore {
    /// All or nothing: where a single file has to be refused, no file is changed.
    #[default]
    Whole,
    /// Files that have to be refused are left as they are; the rest is put back.
    Rest,
    /// As [`Restore::Rest`], but a file that others changed is put back too. Its present content is kept first, if possible.
    Over,
}

/// The folders, locks and vaults that a restore works with.
pub(crate) struct Bench {
    workspace: Workspace,
    files: Files,
    vault: Vault,
    /// Where old contents are looked for: in the vault of the session, then of its parents, then of the forks merged into it.
    vaults: Vec<Vault>,
    /// The name of this restore, in its notes and its entry.
    key: String,
    /// What happens at the crash points.
    #[cfg(feature = "fault-injection")]
    faults: crate::fault::Faults,
}

#[cfg(feature = "fault-injection")]
impl Bench {
    /// The same bench with these crash points.
    pub(crate) fn with_faults(self, faults: &crate::fault::Faults) -> Bench {
        Bench { faults: faults.clone(), ..self }
    }
}

/// The files that calls of a session changed after that entry, and what a restore would do to them. Only reads. Blocks on the disk,
/// and may run alongside any other work on the store.
///
/// # Errors
/// [`RestoreError::Open`] if the tape cannot be read; [`RestoreError::Workspace`].
pub fn changes(store: &dyn TapeStore, session: &SessionId, since: Seq) -> Result<FilePlan, RestoreError> {
    prepare(store, session, since, Files::default()).map(|(plan, _)| plan)
}

/// The file changes of a session after one entry and up to another, in order, and the calls that ran without saying what they
/// change. For a merge, which records them on another tape.
pub(crate) fn changed(
    store: &dyn TapeStore,
    session: &SessionId,
    since: Seq,
    upto: Seq,
) -> Result<(Vec<FileChange>, Vec<String>), OpenError> {
    let mut entries = entries(store, session, since)?;
    entries.retain(|entry| entry.seq <= upto);
    let notes = Files::default().vaults.at(store.files_path(session).as_deref()).notes().unwrap_or_default();
    let history = history::of(&entries, &notes, since);
    Ok((history.changes.into_iter().map(|made| made.change).collect(), history.silent))
}

/// Copies the kept contents that these changes name from one session's vault to another's. A content that cannot be copied is
/// missing later: a plan that needs it says so.
pub(crate) fn hand_over(
    store: &dyn TapeStore,
    files: &Files,
    from: &SessionId,
    to: &SessionId,
    changes: &[FileChange],
) {
    let (from, to) = (at(files, store, from), at(files, store, to));
    let states = changes.iter().flat_map(|change| [&change.before, &change.after]);
    for hash in states.filter_map(FileState::hash) {
        if !to.has(hash)
            && let Ok(content) = from.read(hash)
        {
            drop(to.keep(&content, 0));
        }
    }
}

/// Makes the plan, and the bench to carry it out with. Blocks on the disk, and changes nothing.
pub(crate) fn prepare(
    store: &dyn TapeStore,
    session: &SessionId,
    since: Seq,
    files: Files,
) -> Result<(FilePlan, Bench), RestoreError> {
    let entries = entries(store, session, since)?;
    let parents = parents(store, session, &entries)?;
    prepare_from(&entries, &parents, &|session| store.files_path(session), session, since, files)
}

/// The sessions that a tape is forked from, nearest first, and the last entry that it has of each. The entries of an imported
/// session name sessions of another store; so only parents that this store knows as parents count.
fn parents(store: &dyn TapeStore, session: &SessionId, entries: &[Entry]) -> Result<Vec<(SessionId, Seq)>, OpenError> {
    let mut parents = history::forked_from(entries);
    parents.retain(|(parent, _)| parent != session);
    let are_here: Result<Vec<bool>, TapeError> =
        parents.iter().map(|(parent, seq)| store.has_entry_of(session, parent, *seq)).collect();
    Ok(parents.into_iter().zip(are_here?).filter_map(|(parent, is_here)| is_here.then_some(parent)).collect())
}

/// The vault of a session.
fn at(files: &Files, store: &dyn TapeStore, session: &SessionId) -> Vault {
    files.vaults.at(store.files_path(session).as_deref())
}

fn prepare_from(
    entries: &[Entry],
    parents: &[(SessionId, Seq)],
    folder_of: &dyn Fn(&SessionId) -> Option<PathBuf>,
    session: &SessionId,
    since: Seq,
    files: Files,
) -> Result<(FilePlan, Bench), RestoreError> {
    let vault = files.vaults.at(folder_of(session).as_deref());
    let mut notes = vault.notes().unwrap_or_default();
    let mut vaults = vec![vault.clone()];
    for (parent, seq) in parents {
        let of_parent = files.vaults.at(folder_of(parent).as_deref());
        notes.extend(of_parent.notes().unwrap_or_default().into_iter().filter(|note| history::is_shared(note, *seq)));
        vaults.push(of_parent);
    }
    let history = history::of(entries, &notes, since);
    vaults.extend(history.merged.iter().map(|fork| files.vaults.at(folder_of(fork).as_deref())));
    let workspace = Workspace::open(&PathBuf::from(&history.workspace))?;
    let now = look::at(&workspace, history.changes.iter().filter(|made| made.here).map(|made| &made.change.path));
    let kept = |hash: &str| vaults.iter().any(|vault| vault.has(hash));
    let mut plan = plan::plan(&history, &now, &kept);
    show::add_diffs(&mut plan, &workspace, &vaults);
    let key = crate::words::ids::new_uuid().to_string();
    let bench = Bench {
        workspace,
        files,
        vault,
        vaults,
        key,
        #[cfg(feature = "fault-injection")]
        faults: crate::fault::Faults::default(),
    };
    Ok((plan, bench))
}

/// Carries a plan out, and returns the result for each file. Blocks on the disk.
///
/// # Errors
/// [`RestoreError::Refused`] with [`Restore::Whole`] if the plan refuses a file. Nothing was changed then.
pub(crate) fn carry_out(plan: FilePlan, bench: &Bench, how: Restore) -> Result<RestoredFiles, RestoreError> {
    if how == Restore::Whole && plan.refused().next().is_some() {
        return Err(RestoreError::Refused { plan: Box::new(plan) });
    }
    Ok(act::act(&plan, bench, how))
}

/// Undoes a restore, for a rollback that the session did not take. Changes only files that are still as the restore left them; the
/// others are named as refused.
pub(crate) fn take_back(done: &RestoredFiles, upto: Seq, bench: Bench) -> RestoredFiles {
    let bench = Bench { key: crate::words::ids::new_uuid().to_string(), ..bench };
    let plan = plan::back(done, upto, &|path| look::one(&bench.workspace, path));
    act::act(&plan, &bench, Restore::Rest)
}

/// The entries from the newest anchor at or before `since`, to the end of the tape.
fn entries(store: &dyn TapeStore, session: &SessionId, since: Seq) -> Result<Vec<Entry>, OpenError> {
    let before = if since == Seq::ZERO { Vec::new() } else { store.read_to(session, since)?.entries };
    taped::entries(session, before.iter().chain(&store.read(session, since)?))
}
