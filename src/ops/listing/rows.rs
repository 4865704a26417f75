//! Makes a page of the session list from the rows of the index.
//!
//! The rows are first brought up to date, for at most as long as the query waits. Where the index cannot be used or made, the
//! answer is `None`, and the caller reads the tapes. Rows are read in pieces of 64.
//!
//! A change must keep this: only a damaged index is made anew, and only once for a query; a busy index, or one without room on the
//! disk, is left alone, because it took long to make and is there again later. A change of what [`Digest`] takes from entries
//! needs a new `FORM`, or old rows are shown as they are.

use crate::{
    kernel::{Digest, Parent},
    ops::listing::{ListedSession, SessionCursor, SessionPage, SessionQuery, beside},
    tape::{
        Access, Entry, FORK_DEPTH_MAX, Fold, ListCost, SessionRow, SessionRows, SessionStatuses, SessionSummary, Store,
        TapeError,
    },
    words::ids::SessionId,
};

/// How many rows are read at a time.
const PIECE: usize = 64;

impl Fold for Digest {
    const FORM: u32 = 9;

    fn add(&mut self, entries: &[Entry]) {
        entries.iter().for_each(|entry| self.take(entry));
    }

    fn parent(&self) -> Option<(SessionId, bool)> {
        self.origin.as_ref().map(|parent| (parent.session().clone(), matches!(parent, Parent::ForkOf { .. })))
    }
}

/// A page; `None` where the index cannot be used or made.
pub(super) fn page(store: &Store, query: &SessionQuery) -> Result<Option<SessionPage>, TapeError> {
    query.check()?;
    let mut page = look(store, query);
    if matches!(&page, Err(TapeError::Index { is_damaged: true, .. })) && store.access() == Access::Write {
        // The index broke while it was read. It is made anew, and asked once more.
        page = store.index().and_then(|mut index| index.heal()).and_then(|()| look(store, query));
    }
    match page {
        Err(TapeError::Index { .. }) => Ok(None),
        // The files of the index, or its lock file, cannot be made or opened just now.
        Err(TapeError::Io { path, .. }) if store.is_of_index(&path) => Ok(None),
        page => page.map(Some),
    }
}

fn look(store: &Store, query: &SessionQuery) -> Result<SessionPage, TapeError> {
    let mut index = store.index_to_search()?;
    let (cost, behind) = index.bring_rows::<Digest>(query.wait)?;
    let mut rows = Rows { statuses: SessionStatuses::of_all(store)?, session_rows: index.session_rows()?, cost };
    let (mut sessions, next) = rows.newest_first(query)?;
    for listed in &mut sessions {
        listed.beside_bytes = beside(store, &listed.session);
        (listed.forks, listed.children) = rows.session_rows.count_below(&listed.session)?;
    }
    Ok(SessionPage { sessions, next, behind, indexed: true, cost: rows.cost })
}

struct Rows<'i> {
    statuses: SessionStatuses<'i>,
    session_rows: SessionRows<'i>,
    cost: ListCost,
}

/// The session that this one is a fork of.
fn fork_parent(row: &SessionRow<Digest>) -> Option<&SessionId> {
    row.parent.as_ref().filter(|(_, is_fork)| *is_fork).map(|(parent, _)| parent)
}

impl Rows<'_> {
    /// The sessions of a page, newest first, and where the next page begins.
    fn newest_first(&mut self, query: &SessionQuery) -> Result<(Vec<ListedSession>, Option<SessionCursor>), TapeError> {
        let (mut found, mut after) = (Vec::new(), query.after.clone());
        loop {
            // A piece at a time, so that no statement is open while other rows are looked up.
            let behind = after.as_ref().map(|after| (after.last, after.session.as_str()));
            let session_rows = self.session_rows.newest_first(behind, PIECE, &query.labels)?;
            let Some((session, newest)) = session_rows.last() else { return Ok((found, None)) };
            after = Some(SessionCursor { last: newest.last, session: session.clone() });
            for (session, row) in session_rows {
                let listed = self.listed(session, &row)?;
                if let Some(next) = query.add(&mut found, listed) {
                    return Ok((found, Some(next)));
                }
            }
        }
    }

    fn listed(&mut self, session: SessionId, row: &SessionRow<Digest>) -> Result<ListedSession, TapeError> {
        self.cost.rows += 1;
        let (created, last) = ((row.entries > 0).then_some(row.created), (row.entries > 0).then_some(row.last));
        let summary = SessionSummary { id: session, from: None, created, last, seq: row.seq, bytes: row.bytes };
        let mut listed = ListedSession::of(&summary, &self.statuses, Some(&row.digest), fork_parent(row));
        listed.entries = Some(row.entries);
        listed.labels.clone_from(&row.labels);
        // A fork inherits missing fields from its parent, then from that one's parent, and so on.
        let mut next = fork_parent(row).cloned();
        for _ in 0..FORK_DEPTH_MAX {
            let Some(parent) = next.filter(|_| listed.lacks_something()) else { break };
            self.cost.rows += 1;
            let Some(above) = self.session_rows.one(&parent)? else { break };
            listed.inherit(&above.digest);
            next = fork_parent(&above).cloned();
        }
        Ok(listed)
    }
}
