//! Taking out what was deleted, so that nothing of it is left in the file: no text, no title, and no word of the search table.
//!
//! Whoever deletes does this right after; where the index is being written by another just then, or the time is over, its note in
//! `deleted/` stays, and the next store that is opened to write goes on (`store/notes.rs`). A search and a list do it too for what
//! they find gone, without the last step.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use rusqlite::{Connection, TransactionBehavior, params};

use super::{Failed, delete, open, pull::forget, try_lock_index};
use crate::{
    ids::SessionId,
    tape::{
        TapeError,
        layout::Layout,
        store::{Forgotten, Patience, Which},
    },
};

/// So many rows are taken out in one step.
const ROWS_AT_ONCE: u32 = 1_000;
/// How long another may write the index before what was deleted is left to the next start.
const WRITER_WAIT: Duration = Duration::from_millis(200);
/// So much of the search table is merged in one step, in pages.
const MERGE_PAGES: i64 = 256;
/// How long another that reads may hold up that the write-ahead log is emptied.
const READERS_WAIT: Duration = Duration::from_millis(100);

/// Takes sessions out of all tables, and what is left of their words out of the file, as far as it comes in that time, but always
/// a piece. Says how far, where all rows are out; `None` also where another writes the index all the while, or it is of a later
/// version.
pub(in crate::tape) fn forget_deleted(
    layout: &Layout,
    which: Which<'_>,
    patience: &Patience<'_>,
) -> Result<Option<Forgotten>, TapeError> {
    let path = layout.root.join("index.db");
    if !path.exists() {
        return Ok(Some(Forgotten::Words));
    }
    let Some(_lock) = try_lock_index(layout, WRITER_WAIT)? else { return Ok(None) };
    let forgotten = open(&path).and_then(|mut database| {
        let until = Instant::now() + patience.rows;
        let is_over = || (patience.stop)() || Instant::now() >= until;
        let before = database.total_changes();
        let all = forget_all(&mut database, layout, which, &is_over)?;
        let removed = database.total_changes() - before;
        // Rows that went some other time may have left words.
        let merged = match all && (removed > 0 || matches!(which, Which::AllGone)) {
            true => merge(&database, Instant::now() + patience.merge, patience.stop)?,
            false => true,
        };
        if removed > 0 || matches!(which, Which::AllGone) {
            database.busy_timeout(READERS_WAIT)?;
            database.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
        }
        Ok(all.then_some(if merged { Forgotten::Words } else { Forgotten::Rows }))
    });
    match forgotten {
        Ok(forgotten) => Ok(forgotten),
        // It is good for nothing but what can still be read in it.
        Err(Failed::Corrupt(_)) => delete(&path).map(|()| Some(Forgotten::Words)),
        Err(Failed::Tape(TapeError::Newer { .. })) => Ok(None),
        Err(failed) => Err(failed.into_error("write")),
    }
}

/// Says whether all rows are out.
fn forget_all(
    database: &mut Connection,
    layout: &Layout,
    which: Which<'_>,
    is_over: &dyn Fn() -> bool,
) -> Result<bool, Failed> {
    let sessions: Vec<String> = match which {
        Which::These(sessions) => sessions.iter().map(|session| session.as_str().to_owned()).collect(),
        Which::AllGone => {
            let there = layout.session_ids()?;
            let there: BTreeSet<&str> = there.iter().map(SessionId::as_str).collect();
            let mut known = database.prepare("select session from files union select session from cards")?;
            let known = known.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
            known.into_iter().filter(|name| !there.contains(name.as_str())).collect()
        }
    };
    let mut change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (mut piece, at_once) = (0, ROWS_AT_ONCE as usize);
    for session in &sessions {
        loop {
            let removed = change.execute(
                "delete from entries where id in (select id from entries where session = ?1 limit ?2)",
                params![session, ROWS_AT_ONCE],
            )?;
            piece += removed;
            let is_last = removed < at_once;
            if is_last {
                forget(&change, session)?;
                // One that forks go on from is still asked for its title.
                let is_hidden = session.parse().is_ok_and(|id: SessionId| layout.hidden_mark(&id).exists());
                if !is_hidden {
                    change.execute("delete from cards where session = ?1", [session])?;
                }
            }
            if piece >= at_once || is_over() {
                change.commit()?;
                if is_over() && !(is_last && sessions.last() == Some(session)) {
                    return Ok(false);
                }
                change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
                piece = 0;
            }
            if is_last {
                break;
            }
        }
    }
    change.commit()?;
    Ok(true)
}

/// What was deleted stays in the search table until its parts are merged. Says whether they are.
fn merge(database: &Connection, until: Instant, stop: &dyn Fn() -> bool) -> Result<bool, Failed> {
    let mut pages = -MERGE_PAGES;
    loop {
        let before = database.total_changes();
        database.execute("insert into entries_fts (entries_fts, rank) values ('merge', ?1)", [pages])?;
        // As the database's manual has it: fewer than two changes mean that there was nothing to merge.
        if database.total_changes() - before < 2 {
            return Ok(true);
        }
        if stop() || Instant::now() >= until {
            return Ok(false);
        }
        pages = MERGE_PAGES;
    }
}

#[cfg(test)]
mod tests;
