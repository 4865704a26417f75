//! Makes a page of the session list from the rows of the index.
//!
//! The rows are first brought up to date, for at most as long as the query waits. If the index cannot be used or made, the
//! answer is `None`, and the caller reads the tapes. Rows are read in pieces of 64.
//!
//! A change must keep this: only a damaged index is rebuilt, and only once for a query; a busy index, or one without room on the
//! disk, is left alone, because it took long to build and will be usable again. A change of what [`Digest`] takes from entries
//! needs a new `FORM`, or old rows are shown as they are.

use std::time::Duration;

use crate::{
    kernel::{Digest, Parent},
    ops::listing::{ListedSession, SessionCursor, SessionPage, SessionQuery, beside, query::Part},
    tape::{
        Behind, FORK_DEPTH_MAX, Fold, Index, ListCost, SessionRow, SessionRows, SessionStatuses, SessionSummary, Store,
        TapeAccess, TapeEntry, TapeError,
    },
    words::ids::SessionId,
};

/// How many rows are read at a time.
const PIECE: usize = 64;

impl Fold for Digest {
    const FORM: u32 = 9;

    fn add(&mut self, entries: &[TapeEntry]) {
        entries.iter().for_each(|entry| self.take(entry));
    }

    fn parent(&self) -> Option<(SessionId, bool)> {
        self.origin.as_ref().map(|parent| (parent.session().clone(), matches!(parent, Parent::ForkOf { .. })))
    }
}

/// A page; `None` if the index cannot be used or made.
pub(super) fn page(store: &Store, query: &SessionQuery) -> Result<Option<SessionPage>, TapeError> {
    query.check()?;
    if_usable(store, || look(store, query))
}

/// How long one session waits for the index, at most.
const ONE_WAIT: Duration = Duration::from_secs(1);

/// A session; `None` if the index cannot be used or made, or does not get to know the session now.
pub(super) fn one(store: &Store, session: &SessionId) -> Result<Option<ListedSession>, TapeError> {
    if_usable(store, || one_in(&mut store.index_to_search()?, store, session)).map(Option::flatten)
}

fn one_in(index: &mut Index, store: &Store, session: &SessionId) -> Result<Option<ListedSession>, TapeError> {
    let (cost, behind) = index.bring_row::<Digest>(session, ONE_WAIT)?;
    let (statuses, session_rows) = (SessionStatuses::of_one(store, session)?, index.session_rows()?);
    let mut rows = Rows { statuses, session_rows, cost };
    let Some(row) = rows.session_rows.one(session)?.filter(|_| behind == Behind::No) else { return Ok(None) };
    let mut listed = rows.listed(session.clone(), &row)?;
    listed.beside_bytes = beside(store, session);
    (listed.forks, listed.children) = rows.session_rows.count_below(session)?;
    Ok(Some(listed))
}

/// What a look at the index found; `None` if the index cannot be used or made.
fn if_usable<T>(store: &Store, look: impl Fn() -> Result<T, TapeError>) -> Result<Option<T>, TapeError> {
    let mut looked = look();
    if matches!(&looked, Err(TapeError::Index { is_damaged: true, .. })) && store.access() == TapeAccess::Write {
        // The index broke while it was read. It is rebuilt, and asked once more.
        looked = store.index().and_then(|mut index| index.heal()).and_then(|()| look());
    }
    match looked {
        Err(TapeError::Index { .. }) => Ok(None),
        // The files of the index, or its lock file, cannot be made or opened at the moment.
        Err(TapeError::Io { path, .. }) if store.is_of_index(&path) => Ok(None),
        looked => looked.map(Some),
    }
}

fn look(store: &Store, query: &SessionQuery) -> Result<SessionPage, TapeError> {
    let mut index = store.index_to_search()?;
    let page = look_in(&mut index, store, query)?;
    // Somebody changed files by hand, or a session is being written just now: its row is read again.
    let is_old = index.note_changed(page.sessions.iter().map(|listed| &listed.session))?;
    if is_old { look_in(&mut index, store, query) } else { Ok(page) }
}

fn look_in(index: &mut Index, store: &Store, query: &SessionQuery) -> Result<SessionPage, TapeError> {
    let (cost, behind) = index.bring_rows::<Digest>(query.wait)?;
    // Whether another look may bring in more: this one had no time for all, or another process reads them in just now.
    let reads_on = match behind {
        Behind::No => ReadsOn::No,
        Behind::Sessions(_) if cost.tapes > 0 => ReadsOn::Here,
        Behind::Sessions(_) => ReadsOn::No,
        Behind::Unknown => ReadsOn::Elsewhere,
    };
    let mut rows = Rows { statuses: SessionStatuses::of_all(store)?, session_rows: index.session_rows()?, cost };
    let (mut sessions, next) = rows.newest_first(query, behind, reads_on)?;
    for listed in &mut sessions {
        listed.beside_bytes = beside(store, &listed.session);
        (listed.forks, listed.children) = rows.session_rows.count_below(&listed.session)?;
    }
    Ok(SessionPage { sessions, next, behind, indexed: true, cost: rows.cost })
}

/// Who brings more rows in, where the index is behind.
#[derive(Clone, Copy, PartialEq)]
enum ReadsOn {
    /// The next page does.
    Here,
    /// Another process does; this one cannot see how far it is.
    Elsewhere,
    /// No process: everything is in, or the files of the rest cannot be read.
    No,
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
    /// The sessions of a page, newest first, and where the next page begins. A list that began while the index was behind
    /// continues with the part that was brought in since, and so on until everything was brought in.
    fn newest_first(
        &mut self,
        query: &SessionQuery,
        behind: Behind,
        reads_on: ReadsOn,
    ) -> Result<(Vec<ListedSession>, Option<SessionCursor>), TapeError> {
        let newest = self.session_rows.newest_brought()?;
        let first = || SessionCursor {
            at: None,
            part: (behind != Behind::No).then_some(Part { after: 0, through: newest, is_last: false }),
        };
        let (mut found, mut cursor) = (Vec::new(), query.after.clone().unwrap_or_else(first));
        // Where the next page begins if this one is full.
        let mut next = cursor.clone();
        loop {
            // A piece at a time, so that no statement is open while other rows are looked up.
            let at = cursor.at.as_ref().map(|(last, session)| (*last, session.as_str()));
            let brought = cursor.part.map_or((0, u64::MAX), |part| (part.after, part.through));
            let session_rows = self.session_rows.newest_first(at, PIECE, &query.labels, brought)?;
            if let Some((session, newest)) = session_rows.last() {
                cursor.at = Some((newest.last, session.clone()));
                for (session, row) in session_rows {
                    let at = Some((row.last, session.clone()));
                    let listed = self.listed(session, &row)?;
                    if query.is_full(&mut found, listed) {
                        return Ok((found, Some(next)));
                    }
                    next = SessionCursor { at, part: cursor.part };
                }
                continue;
            }
            let Some(part) = cursor.part.filter(|part| !part.is_last) else { return Ok((found, None)) };
            let is_last = reads_on == ReadsOn::No;
            next = SessionCursor { at: None, part: Some(Part { after: part.through, through: newest, is_last }) };
            if newest <= part.through {
                return Ok((found, (reads_on == ReadsOn::Here).then_some(next)));
            }
            cursor = next.clone();
        }
    }

    fn listed(&mut self, session: SessionId, row: &SessionRow<Digest>) -> Result<ListedSession, TapeError> {
        self.cost.rows += 1;
        let (created, last) = ((row.entries > 0).then_some(row.created), (row.entries > 0).then_some(row.last));
        let summary = SessionSummary { id: session, from: None, created, last, seq: row.seq, bytes: row.bytes };
        let mut listed = ListedSession::of(&summary, &self.statuses, Some(&row.digest), fork_parent(row));
        listed.entries = Some(row.entries);
        listed.labels.clone_from(&row.labels);
        // A fork inherits missing fields from its parent, then from the parent's parent, and so on.
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
