//! `tamtam tape changes` and `restore`: the files that a session changed. The plan is always shown before a change.

use std::fmt::Write as _;

use tamtam::{
    Seq,
    ops::{self, FilePlan, Restore, RestoreError},
    tape::{Store, StoreOptions, TapeError, TapeStoreExt as _},
};

use super::{
    arguments::{ChangesArguments, RestoreArguments},
    escape,
    failure::{Exit, Failure},
    place::Environment,
    print, tapes,
};

/// Lists the files, and what putting them back would do. Reads only.
pub(super) fn changes(given: &ChangesArguments, environment: &Environment) -> Result<Exit, Failure> {
    let (plan, _) = plan(given, environment)?;
    print(&escape::text(&plan.to_string()))?;
    Ok(Exit::Done)
}

/// Shows what would change; with `--yes` it is done.
pub(super) fn restore(given: &RestoreArguments, environment: &Environment) -> Result<Exit, Failure> {
    let (plan, since) = plan(&given.changes, environment)?;
    // What files hold is anybody's: it must not do anything on a terminal.
    let mut shown = escape::text(&plan.to_string());
    let how = match (given.rest, given.over) {
        (_, true) => Restore::Over,
        (true, _) => Restore::Rest,
        (false, false) => Restore::Whole,
    };
    let has_work = plan.to_change().next().is_some() || (how == Restore::Over && plan.refused().next().is_some());
    if !given.yes || !has_work {
        let (to_change, refused) = (plan.to_change().count(), plan.refused().count());
        // Writing to a String cannot fail.
        let _ = match has_work {
            true => writeln!(shown, "\n{to_change} files would change, {refused} are refused; --yes writes them"),
            false => writeln!(shown, "\nthere is nothing to restore"),
        };
        print(&shown)?;
        return Ok(Exit::Done);
    }
    print(&shown)?;
    let session = &given.changes.session;
    let store = Store::open(environment.store(given.changes.store.store.as_deref())?, StoreOptions::default())?;
    let done = ops::offline(&store, session, since, &environment.tools(), how)?;
    let mut text = String::new();
    let _ = writeln!(text, "\n{} files were restored: entry {}", done.files.files.len(), done.entry);
    for refused in &done.files.refused {
        let _ = writeln!(text, "not changed: {}: {}", escape::line(&refused.path), escape::line(&refused.why));
    }
    print(&text)?;
    Ok(if done.files.refused.is_empty() { Exit::Done } else { Exit::Failed })
}

fn plan(given: &ChangesArguments, environment: &Environment) -> Result<(FilePlan, Seq), Failure> {
    let missing = || TapeError::Missing { session: given.session.clone() };
    let store = tapes::open(&environment.store(given.store.store.as_deref())?)?.ok_or_else(missing)?;
    let since = match given.since {
        Some(since) => Seq(since),
        None => newest_turn(&store, given)?,
    };
    Ok((ops::changes(&store, &given.session, since)?, since))
}

/// The entry that began the newest turn.
fn newest_turn(store: &Store, given: &ChangesArguments) -> Result<Seq, Failure> {
    let entries = store.read(&given.session, Seq::ZERO)?;
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
