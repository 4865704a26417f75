//! Scrubbing the index (the search database next to the tapes): takes deleted sessions out of its files.
//!
//! A deletion leaves a note, a folder in `deleted/` (`store/erase.rs`). A search that has caught up finds nothing of the session
//! from then on, but its words are still in the database file until [`Store::scrub`]. When that returns `true`, no text, title or
//! search word of a noted session is left. The exception is a hidden session (deleted, but kept for its forks): its row with its
//! title stays until its last fork is gone. A scrub has no limit of time and may be stopped, or killed, after each piece: the
//! next one continues.
//!
//! A change must keep: a note that a scrub began with goes only when the rows are out, the search table is merged, and the
//! write-ahead log is emptied (or the index is deleted), because nothing else remembers the work; what is deleted is overwritten
//! (`secure_delete`); the lock on `index.lock` is held. Blocks; a search meanwhile finds what is in, and says that it may be
//! behind.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::json;

use super::{Failed, delete, open, pull::forget, session_rows::signed, try_lock_index};
use crate::{
    tape::{Store, TapeError, layout::Layout, store::notes_of_erased},
    words::ids::SessionId,
};

/// How many rows are taken out in one step.
const ROWS_AT_ONCE: usize = 1_000;
/// How long to wait for another writer of the index. After that, the scrub is left to the next time.
const WRITER_WAIT: Duration = Duration::from_millis(200);
/// How much of the search table is merged in one step, in pages.
const MERGE_PAGES: i64 = 256;
/// How long to wait for readers before the write-ahead log is emptied. After that, it is left to the next time.
const READERS_WAIT: Duration = Duration::from_millis(100);

impl Store {
    /// Takes the words of deleted sessions out of the files of the index, and out of this store's commit log, and returns whether
    /// all are out. `false` if another process writes or reads the index all the while, if a later version of this library made
    /// the index, or if `stop`, asked after each piece, returned true: call it again to continue. A runtime does that on its own.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// [`TapeError::Index`]; [`TapeError::Io`]; [`TapeError::ReadingOnly`].
    pub fn scrub(&self, stop: &dyn Fn() -> bool) -> Result<bool, TapeError> {
        self.inner.must_write()?;
        self.forget_erased()?;
        let layout = self.layout();
        let mut done = Vec::new();
        loop {
            // A note of a folder that cannot be emptied stays, so it counts once.
            let notes = notes_of_erased(layout)?;
            if notes.iter().all(|note| done.contains(note)) {
                return Ok(true);
            }
            if !scrub_once(layout, &notes, stop)? {
                return Ok(false);
            }
            done = notes;
        }
    }
}

fn scrub_once(layout: &Layout, notes: &[(PathBuf, SessionId)], stop: &dyn Fn() -> bool) -> Result<bool, TapeError> {
    let path = layout.root.join("index.db");
    let Some(_lock) = try_lock_index(layout, WRITER_WAIT)? else { return Ok(false) };
    let scrub = |mut database: Connection| {
        let is_clean = forget_all(&mut database, layout, notes, stop)? && merge(&database, stop)?;
        database.busy_timeout(READERS_WAIT)?;
        let is_held = database.query_row("pragma wal_checkpoint(truncate)", [], |row| row.get::<_, bool>(0))?;
        Ok(is_clean && !is_held)
    };
    let done = match if path.exists() { open(&path).and_then(scrub) } else { Ok(true) } {
        // A broken database is of no use, but its bytes can still be read: delete it.
        Err(Failed::Corrupt(_)) => delete(&path).map(|()| true)?,
        Err(Failed::Tape(TapeError::Newer { .. })) => false,
        scrubbed => scrubbed.map_err(|failed| failed.into_error("write"))?,
    };
    if done {
        // The folder of a running removal is not empty, and stays.
        notes.iter().for_each(|(note, _)| drop(std::fs::remove_dir(note)));
    }
    Ok(done)
}

/// Takes out all rows of the noted sessions, and of all that are gone, one piece at least. Returns whether all are out. A later
/// session under such a name is read again.
fn forget_all(
    database: &mut Connection,
    layout: &Layout,
    notes: &[(PathBuf, SessionId)],
    stop: &dyn Fn() -> bool,
) -> Result<bool, Failed> {
    let there = layout.session_ids()?;
    let there: BTreeSet<&str> = there.iter().map(SessionId::as_str).collect();
    let deleted = notes.iter().map(|(_, session)| session.to_string());
    let gone: BTreeSet<String> = {
        let mut known = database.prepare("select session from files union select session from session_rows")?;
        let known = known.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
        known.into_iter().filter(|name| !there.contains(name.as_str())).chain(deleted).collect()
    };
    let names = json!(gone).to_string();
    let piece = "delete from entries where id in
        (select id from entries where session in (select value from json_each(?1)) limit ?2)";
    while database.execute(piece, params![names, signed(ROWS_AT_ONCE as u64)])? == ROWS_AT_ONCE {
        if stop() {
            return Ok(false);
        }
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for session in &gone {
        forget(&change, session)?;
        // A hidden session keeps its row: its forks take their title from it.
        if !session.parse().is_ok_and(|id: SessionId| layout.hidden_mark(&id).exists()) {
            change.execute("delete from session_rows where session = ?1", [session])?;
        }
    }
    change.commit()?;
    Ok(true)
}

/// Merges the parts of the search table: deleted words stay in it until then. Says whether all parts are merged.
fn merge(database: &Connection, stop: &dyn Fn() -> bool) -> Result<bool, Failed> {
    let mut pages = -MERGE_PAGES;
    loop {
        let before = database.total_changes();
        database.execute("insert into entries_fts (entries_fts, rank) values ('merge', ?1)", [pages])?;
        // As the database's manual has it: fewer than two changes mean that there was nothing to merge.
        if database.total_changes() - before < 2 {
            return Ok(true);
        }
        if stop() {
            return Ok(false);
        }
        pages = MERGE_PAGES;
    }
}

#[cfg(test)]
mod tests;
