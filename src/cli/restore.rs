//! `tamtam tape changes` and `restore`: shows the files that a session changed, and restores them.
//!
//! The plan is always printed before a change, and nothing is changed without `--yes`. `changes` opens the store to read only. A
//! plan may quote files, so it is escaped before it is printed.

use std::{fmt::Write as _, path::Path};

use tamtam::{
    Seq,
    ops::{self, FilePlan, Restore, RestoreError},
    tape::{Store, TapeStoreExt as _},
};

use super::{
    arguments::{ChangesArguments, RestoreArguments},
    escape,
    failure::{Exit, Failure},
    place::Environment,
    print, tapes,
};

/// Lists the changed files, and what a restore would do. Reads only.
pub(super) fn changes(given: &ChangesArguments, path: &Path) -> Result<Exit, Failure> {
    let (plan, _) = plan(given, path)?;
    print(&escape::text(&plan.to_string()))
}

/// Shows what would change; with `--yes`, changes it.
pub(super) fn restore(given: &RestoreArguments, path: &Path, environment: &Environment) -> Result<Exit, Failure> {
    let (plan, since) = plan(&given.changes, path)?;
    // The plan quotes files, which may hold sequences that a terminal obeys.
    let shown = escape::text(&plan.to_string());
    let how = how(given.rest, given.over);
    let has_work = plan.to_change().next().is_some() || (how == Restore::Over && plan.refused().next().is_some());
    if !has_work {
        return print(&format!("{shown}\nthere is nothing to restore\n"));
    }
    if !given.yes {
        return print(&format!("{shown}\n{}", would(&plan)));
    }
    print(&shown)?;
    let id = &given.changes.id;
    let done = ops::offline(&tapes::open_to_change(path, id)?, id, since, &environment.tools(), how)?;
    let mut text = format!("\n{} files were restored: entry {}\n", done.files.files.len(), done.entry);
    for refused in &done.files.refused {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "not changed: {}: {}", escape::line(&refused.path), escape::line(&refused.why));
    }
    print(&text)?;
    Ok(if done.files.refused.is_empty() { Exit::Done } else { Exit::Failed })
}

/// How a restore treats the files that must be refused.
pub(super) fn how(rest: bool, over: bool) -> Restore {
    match (rest, over) {
        (_, true) => Restore::Over,
        (true, _) => Restore::Rest,
        (false, false) => Restore::Whole,
    }
}

/// The line that says what `--yes` would do.
pub(super) fn would(plan: &FilePlan) -> String {
    let (to_change, refused) = (plan.to_change().count(), plan.refused().count());
    format!("{to_change} files would change, {refused} are refused; --yes writes them\n")
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
            RestoreError::Busy { .. } => {
                Failure::failed("the session has an unfinished turn: finish it with `tamtam resume`, then restore")
            }
            RestoreError::Refused { .. } => Failure::failed(format!(
                "{error}: --rest restores the others, --over also those that someone else changed"
            )),
            error => Failure::failed(error.to_string()),
        }
    }
}
