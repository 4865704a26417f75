//! Taking out what was deleted, so that nothing of it is left in the file: no text, no title, and no word of the search table.
//!
//! Whoever deletes does this right after; where the index is being written by another just then, a note is left in `deleted/` and
//! the next store that is opened to write does it. A search and a list do it too for what they find gone, without the last step.

use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::{Failed, delete, open, pull::forget, try_lock_index};
use crate::{
    ids::SessionId,
    tape::{
        TapeError,
        layout::{Layout, make_folder, open_or_make, remove_file},
    },
};

/// So much of the search table is merged in one step, in pages.
const MERGE_PAGES: i64 = 256;
/// How long another that reads may hold up that the write-ahead log is emptied.
const READERS_WAIT: Duration = Duration::from_millis(100);

/// What is to be forgotten.
#[derive(Clone, Copy, Debug)]
pub(in crate::tape) enum Which<'s> {
    /// These sessions, whether they were made anew or not: what is there is read again.
    These(&'s [SessionId]),
    /// All that have no folder any more.
    AllGone,
}

/// Notes that something of the index is to be forgotten, before it is deleted. Says whether nobody had done so before.
pub(in crate::tape) fn note(layout: &Layout) -> bool {
    let path = layout.root.join("deleted").join("index");
    let is_new = layout.root.join("index.db").exists() && !path.exists();
    is_new && make_folder(&layout.deleted()).is_ok() && open_or_make(&path).is_ok()
}

/// Whether that was noted.
pub(in crate::tape) fn is_noted(layout: &Layout) -> bool {
    layout.root.join("deleted").join("index").exists()
}

/// It was done.
pub(in crate::tape) fn unnote(layout: &Layout) -> Result<(), TapeError> {
    remove_file(&layout.root.join("deleted").join("index"))
}

/// Takes sessions out of all tables, and what is left of their words out of the file, as far as that comes in `merge_for`. Says
/// whether it did; not where another writes the index for longer than `wait`, or where it is of a later version.
pub(in crate::tape) fn forget_deleted(
    layout: &Layout,
    which: Which<'_>,
    wait: Duration,
    merge_for: Duration,
) -> Result<bool, TapeError> {
    let path = layout.root.join("index.db");
    if !path.exists() {
        return Ok(true);
    }
    let Some(_lock) = try_lock_index(layout, wait)? else { return Ok(false) };
    let forgotten = open(&path).and_then(|mut database| {
        let removed = forget_all(&mut database, layout, which)?;
        if removed > 0 {
            merge(&database, Instant::now() + merge_for)?;
            database.busy_timeout(READERS_WAIT)?;
            database.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
        }
        Ok(())
    });
    match forgotten {
        Ok(()) => Ok(true),
        // It is good for nothing but what can still be read in it.
        Err(Failed::Corrupt(_)) => delete(&path).map(|()| true),
        Err(Failed::Tape(TapeError::Newer { .. })) => Ok(false),
        Err(failed) => Err(failed.into_error("write")),
    }
}

/// Gives the number of rows that went.
fn forget_all(database: &mut Connection, layout: &Layout, which: Which<'_>) -> Result<u64, Failed> {
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = change.total_changes();
    let sessions: Vec<String> = match which {
        Which::These(sessions) => sessions.iter().map(|session| session.as_str().to_owned()).collect(),
        Which::AllGone => {
            let mut known = change.prepare("select session from files union select session from cards")?;
            let known = known.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
            let is_there = |name: &String| {
                let id: Option<SessionId> = name.parse().ok();
                id.is_some_and(|id| layout.session(&id).is_dir() && !layout.hidden_mark(&id).exists())
            };
            known.into_iter().filter(|name| !is_there(name)).collect()
        }
    };
    for session in &sessions {
        forget(&change, session)?;
        // One that forks go on from is still asked for its title.
        let is_hidden = session.parse().is_ok_and(|id: SessionId| layout.hidden_mark(&id).exists());
        if !is_hidden {
            change.execute("delete from cards where session = ?1", [session])?;
        }
    }
    let removed = change.total_changes() - before;
    change.commit()?;
    Ok(removed)
}

/// What was deleted stays in the search table until its parts are merged.
fn merge(database: &Connection, until: Instant) -> Result<(), Failed> {
    let mut pages = -MERGE_PAGES;
    loop {
        let before = database.total_changes();
        database.execute("insert into entries_fts (entries_fts, rank) values ('merge', ?1)", [pages])?;
        // As the database's manual has it: fewer than two changes mean that there was nothing to merge.
        if database.total_changes() - before < 2 || Instant::now() >= until {
            return Ok(());
        }
        pages = MERGE_PAGES;
    }
}

#[cfg(test)]
mod tests;
