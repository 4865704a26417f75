//! `tamtam tape changes` and `restore`: shows the files that a session changed, and restores them. `tape rollback` (`branch.rs`)
//! takes its words from here ([`how`], [`Work`]).
//!
//! A plan is printed first, and nothing is changed without `--yes`. The restore makes its plan again under the session's claim, so
//! it may treat a file that changed in between differently. `changes` opens the store to read only.
//!
//! A change must keep this: a plan may hold names and text from files, so it is escaped before it is printed; and no file
//! changes before its plan was shown.

use std::{fmt::Write as _, path::Path};

use tamtam::{
    Seq,
    ops::{self, FilePlan, FileStep, Restore, RestoreError},
    tape::{Store, TapeStoreExt as _},
};

use super::{
    arguments::{ChangesArguments, RestoreArguments},
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    print,
    sessions::count,
    tapes,
};

/// Lists the changed files, and what a restore would do. Reads only.
pub(super) fn changes(given: &ChangesArguments, path: &Path) -> Result<Exit, Failure> {
    let (plan, _) = plan(given, path)?;
    print(&escape::text(&plan.to_string()))
}

/// Shows what would change; with `--yes`, changes it. Fails where `--yes` is given and a file is refused.
pub(super) fn restore(given: &RestoreArguments, path: &Path, environment: &Environment) -> Result<Exit, Failure> {
    let (plan, since) = plan(&given.changes, path)?;
    // The plan quotes files, which may hold sequences that a terminal obeys.
    let shown = escape::text(&plan.to_string());
    let how = how(given.rest, given.over);
    let work = Work::of(&plan, how);
    if work.to_change == 0 {
        let exit = if given.yes && work.refused > 0 { Exit::Failed } else { Exit::Done };
        return print(&format!("{shown}\n{}", work.nothing())).map(|_| exit);
    }
    if !given.yes {
        return print(&format!("{shown}\n{}", work.would()));
    }
    print(&shown)?;
    let id = &given.changes.id;
    let done = ops::offline(&tapes::open_to_change(path, id)?, id, since, &environment.tools(), how)?;
    let mut text = format!("\n{} restored: entry {}\n", files(done.files.files.len()), done.entry);
    for refused in &done.files.refused {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "not changed: {}: {}", escape::line(&refused.path), escape::line(&refused.why));
    }
    print(&text)?;
    Ok(if done.files.refused.is_empty() { Exit::Done } else { Exit::Failed })
}

fn files(number: usize) -> String {
    count(number as u64, "file")
}

/// How a restore treats the files that must be refused: all files or none (`Whole`), without the refused ones (`Rest`), or as
/// `Rest`, but also those that somebody else changed (`Over`). clap refuses `--rest` together with `--over`.
pub(super) fn how(rest: bool, over: bool) -> Restore {
    match (rest, over) {
        (_, true) => Restore::Over,
        (true, _) => Restore::Rest,
        (false, false) => Restore::Whole,
    }
}

/// What a restore would do to the files of a plan.
pub(super) struct Work {
    how: Restore,
    /// Files that would be changed, if the refused files do not stop the restore.
    to_change: usize,
    /// Files that would be refused.
    refused: usize,
    /// Refused files that `--over` would change.
    conflicts: usize,
}

impl Work {
    pub(super) fn of(plan: &FilePlan, how: Restore) -> Work {
        let (to_change, refused) = (plan.to_change().count(), plan.refused().count());
        let conflicts = plan.refused().filter(|file| matches!(file.step, FileStep::Conflict { .. })).count();
        match how {
            Restore::Over => Work { how, to_change: to_change + conflicts, refused: refused - conflicts, conflicts: 0 },
            _ => Work { how, to_change, refused, conflicts },
        }
    }

    /// The line that says what would be done, and what to add so that it is done.
    pub(super) fn would(&self) -> String {
        let Work { how, to_change, refused, conflicts } = self;
        match (how, refused) {
            (_, 0) => format!("{} would change: add --yes to do it\n", files(*to_change)),
            (Restore::Whole, _) => {
                let over =
                    if *conflicts > 0 { ", or --yes --over to also restore what someone else changed" } else { "" };
                format!(
                    "{} could be restored, {refused} cannot: add --yes --rest to skip {}{over}\n",
                    files(*to_change),
                    if *refused == 1 { "that one" } else { "those" }
                )
            }
            _ => format!("{} would change, {refused} would be skipped: add --yes to do it\n", files(*to_change)),
        }
    }

    /// The line for a plan that changes no file.
    fn nothing(&self) -> String {
        match (self.refused, self.conflicts) {
            (0, _) => "there is nothing to restore\n".to_owned(),
            (refused, 0) => format!("{} cannot be restored\n", files(refused)),
            (refused, _) => {
                format!("{} cannot be restored; --over restores what someone else changed\n", files(refused))
            }
        }
    }
}

fn plan(given: &ChangesArguments, path: &Path) -> Result<(FilePlan, Seq), Failure> {
    let store = tapes::open_for(path, &given.id)?;
    let since = match given.since {
        Some(since) => Seq(since),
        None => newest_turn(&store, given)?,
    };
    Ok((ops::changes(&store, &given.id, since)?, since))
}

/// The entry that began the newest turn.
fn newest_turn(store: &Store, given: &ChangesArguments) -> Result<Seq, Failure> {
    let entries = store.read(&given.id, Seq::ZERO)?;
    let newest = entries.iter().rev().find_map(|entry| entry.turn);
    newest.ok_or_else(|| Failure::usage("the session has no turn yet: name an entry with --since"))
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Failure {
        match error {
            RestoreError::Open(error) => error.into(),
            RestoreError::Workspace(_) => Failure::usage(error.to_string()),
            RestoreError::Busy { .. } => Failure::failed(
                "the session has an unfinished turn: finish it with `tamtam resume`, or give it up with `tamtam abort`, then restore",
            ),
            RestoreError::Refused { .. } => Failure::failed(format!(
                "{error}: --rest restores the others, --over also those that someone else changed"
            )),
            error => Failure::failed(error.to_string()),
        }
    }
}
