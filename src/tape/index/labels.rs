//! The labels of sessions (keys and values that a host gives a session, such as its tenant) in the index: how they are read from
//! the tapes, and how a statement filters by them.
//!
//! The two parts of the index have a table each, because neither waits for the other: `labels` for searches, which [`keep`] and
//! [`forget`] write, and `row_labels` for lists, which triggers in `schema.rs` fill from the rows of sessions. Until a fork's own
//! entries state labels, it has the labels that its parent had at the entry where it was forked. They are read from the parent's
//! tape when the fork's first entry is read; tapes only grow, so they stay right.
//!
//! A change must keep: keys and values reach the database as a parameter and never as part of a statement, because hosts choose
//! them; a change of what is read here needs a new `schema::VERSION`, or old rows keep the old labels.

use rusqlite::{Transaction, params};

use super::Failed;
use crate::{
    tape::{
        Forked, Mark, TapeEntry, TapeError, TapeStore,
        appends::read_range,
        import::narrowed,
        labels::newest_labels,
        layout::Layout,
        lineage::{FORKS_OF_FORKS_MAX, origin},
        store::position,
    },
    words::{ids::SessionId, labels::Labels},
};

/// Labels as a parameter of a statement with [`has_all`].
pub(super) fn parameter(labels: &Labels) -> String {
    serde_json::to_string(labels).unwrap_or_default()
}

/// The condition that a session has all labels of a parameter, by a table of labels. The arguments become part of the statement:
/// pass names of tables, columns and parameters only.
pub(super) fn has_all(table: &str, session: &str, wanted: &str) -> String {
    format!(
        "not exists (select 1 from json_each({wanted}) wanted where not exists (select 1 from {table} own
           where own.session = {session} and own.key = wanted.key and own.value = wanted.value))"
    )
}

/// Keeps for searches what these entries of a session say of its labels.
pub(super) fn keep(
    change: &Transaction<'_>,
    layout: &Layout,
    session: &SessionId,
    entries: &[TapeEntry],
) -> Result<(), Failed> {
    let Some(labels) = after(layout, session, entries)? else { return Ok(()) };
    forget(change, session.as_str())?;
    let insert = "insert into labels (session, key, value) select ?1, key, value from json_each(?2)";
    change.execute(insert, params![session.as_str(), parameter(&labels)])?;
    Ok(())
}

/// Takes a session's labels out of the searches.
pub(super) fn forget(change: &Transaction<'_>, session: &str) -> rusqlite::Result<usize> {
    change.execute("delete from labels where session = ?1", [session])
}

/// The labels after these entries of a session; `None` if they say nothing, so that they are as before.
///
/// # Errors
/// [`TapeError::Io`] if the fork's files, or a tape that it continues from, cannot be read: the fork is then behind.
pub(super) fn after(layout: &Layout, session: &SessionId, entries: &[TapeEntry]) -> Result<Option<Labels>, TapeError> {
    let said = newest_labels(entries);
    if said.is_some() || entries.first().and_then(Forked::of).is_none() {
        return Ok(said);
    }
    // A fork that was brought in whole continues from no session of this store: the entries before say its labels.
    let Some(from) = origin(layout, session, &layout.anchor_names(session)?)? else { return Ok(None) };
    match at_fork(layout, from) {
        Err(error @ TapeError::Io { .. }) => Err(error),
        // The fork cannot be read either, and has no labels.
        at => Ok(Some(at.unwrap_or_default())),
    }
}

/// [`after`], over any engine, of entries that may be a piece of what a search has not read: searches may see the labels of each
/// piece, so those of a file are left out also before the `imported` entry, which takes them away.
///
/// # Errors
/// Those of the engine: the session is then behind.
pub(super) fn in_pieces(
    store: &dyn TapeStore,
    session: &SessionId,
    entries: &[TapeEntry],
) -> Result<Option<Labels>, TapeError> {
    let labels = match newest_labels(entries) {
        None => of_fork_in(store, session, entries)?,
        said => said,
    };
    if let (Some(said), Some(last)) = (&labels, entries.last())
        && !said.is_empty()
        && let Some((_, about)) = store.marks(Mark::Imported, Some(session))?.pop()
        && last.seq < narrowed::seq(session, &about)?
    {
        return Ok(Some(Labels::default()));
    }
    Ok(labels)
}

/// The labels that a fork has from the tape that it continues from, over any engine; `None` if these are not its first entries.
fn of_fork_in(store: &dyn TapeStore, session: &SessionId, entries: &[TapeEntry]) -> Result<Option<Labels>, TapeError> {
    if entries.first().and_then(Forked::of).is_none() {
        return Ok(None);
    }
    // A fork that was brought in whole continues from no session here: the entries before say its labels.
    let Some(from) = store.summary(session)?.from else { return Ok(None) };
    match at_fork_in(store, from) {
        // The fork cannot be read either, and has no labels.
        Err(TapeError::Missing { .. } | TapeError::Damaged(_)) => Ok(Some(Labels::default())),
        at => at.map(Some),
    }
}

/// [`at_fork`], over any engine.
fn at_fork_in(store: &dyn TapeStore, mut from: Forked) -> Result<Labels, TapeError> {
    for _ in 0..=FORKS_OF_FORKS_MAX {
        let Some(at) = store.position(&from.parent, from.seq)?.filter(|at| at.sum == from.sum) else { break };
        let part = store.range(&from.parent, at.part.first, from.seq)?;
        if let Some(labels) = newest_labels(&part) {
            return Ok(labels);
        }
        let Some(before) = store.summary(&from.parent)?.from else { break };
        from = before;
    }
    Ok(Labels::default())
}

/// The labels at the entry that a fork continues from; no labels if the other tape has another entry there.
fn at_fork(layout: &Layout, mut from: Forked) -> Result<Labels, TapeError> {
    for _ in 0..=FORKS_OF_FORKS_MAX {
        let Some(at) = position(layout, &from.parent, from.seq)?.filter(|at| at.sum == from.sum) else { break };
        let part = read_range(layout, &from.parent, at.part.first, from.seq)?;
        if let Some(labels) = newest_labels(&part) {
            return Ok(labels);
        }
        // The first part of a fork begins with no settings.
        let Some(before) = origin(layout, &from.parent, &layout.anchor_names(&from.parent)?)? else { break };
        from = before;
    }
    Ok(Labels::default())
}
