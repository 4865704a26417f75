//! The list from the rows of the index.

use crate::{
    kernel::{Digest, Parent},
    ops::listing::{ListCost, ListedSession, SessionPage, SessionQuery, Shape, beside, cursor_behind},
    tape::{
        Access, FORK_DEPTH_MAX, Fold, Folded, SessionRow, SessionRows, SessionStatuses, SessionSummary, Store,
        TapeError,
    },
    words::ids::SessionId,
};

/// Rows that are read at a time, at least and at most.
const PIECE_MIN: usize = 16;
const PIECE_MAX: usize = 256;

/// The most sessions of one page that is a tree.
const TREE_MAX: usize = 1_000;

/// What lists sum up of a session's entries.
fn fold(before: Option<&str>, entries: &[crate::tape::Entry]) -> Folded {
    // What cannot be read back was not written by this form; then it is better to know less.
    let mut digest: Digest = before.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    entries.iter().for_each(|entry| digest.take(entry));
    let parent =
        digest.origin.as_ref().map(|parent| (parent.session().clone(), matches!(parent, Parent::ForkOf { .. })));
    Folded { digest: serde_json::to_string(&digest).unwrap_or_default(), parent }
}

/// A page; `None` where there is no index and none can be made. Only a damaged one is made anew: what is busy, or has no room, is
/// there again later, with all that it took long to read.
pub(super) fn page(store: &Store, query: &SessionQuery) -> Result<Option<SessionPage>, TapeError> {
    query.check()?;
    let page = match look(store, query) {
        // It broke while it was read: made anew, it is asked once more.
        Err(TapeError::Index { is_damaged: true, .. }) if store.access() == Access::Write => {
            let healed = store.index_to_search().and_then(|mut index| index.heal());
            healed.and_then(|()| look(store, query))
        }
        page => page,
    };
    match page {
        Err(TapeError::Index { .. }) => Ok(None),
        // Its files, or the one that is locked for them, cannot be made or opened just now.
        Err(TapeError::Io { path, .. }) if store.is_of_index(&path) => Ok(None),
        page => page.map(Some),
    }
}

fn look(store: &Store, query: &SessionQuery) -> Result<SessionPage, TapeError> {
    let mut index = store.index_to_search()?;
    let (brought, behind) = index.bring_rows(&Fold { form: Digest::FORM, take: &fold }, query.wait)?;
    let cost = ListCost { folders: brought.looked_at, tapes: brought.read, bytes: brought.bytes, rows: 0 };
    let mut rows = Rows { store, statuses: SessionStatuses::of_all(store)?, session_rows: index.session_rows()?, cost };
    let (mut sessions, is_more) = rows.newest_first(query)?;
    let next = if is_more { cursor_behind(&sessions) } else { None };
    let cut = query.shape == Shape::Tree && rows.put_below(&mut sessions)?;
    sessions.iter_mut().try_for_each(|listed| rows.fill(listed))?;
    Ok(SessionPage { sessions, next, behind, indexed: true, cut, cost: rows.cost })
}

struct Rows<'i> {
    store: &'i Store,
    statuses: SessionStatuses<'i>,
    session_rows: SessionRows<'i>,
    cost: ListCost,
}

/// The session that this one is a fork of.
fn fork_parent(row: &SessionRow) -> Option<&SessionId> {
    row.parent.as_ref().filter(|(_, is_fork)| *is_fork).map(|(parent, _)| parent)
}

/// What its entries said. What cannot be read back was not written by this form; then it is better to know less.
fn digest(row: &SessionRow) -> Digest {
    serde_json::from_str(&row.digest).unwrap_or_default()
}

impl Rows<'_> {
    /// So many sessions as a page has, and whether there are more; of a tree those at the top.
    fn newest_first(&mut self, query: &SessionQuery) -> Result<(Vec<ListedSession>, bool), TapeError> {
        let limit = query.page_limit();
        let mut found: Vec<ListedSession> = Vec::new();
        let mut after = query.after.as_ref().map(|after| (after.last, after.session.clone()));
        loop {
            // A piece at a time, so that no row is held while others are looked up.
            let piece = (limit + 1 - found.len()).clamp(PIECE_MIN, PIECE_MAX);
            let behind = after.as_ref().map(|(last, session)| (*last, session.as_str()));
            let session_rows = self.session_rows.newest_first(behind, piece, query.shape == Shape::Tree)?;
            let Some((session, newest)) = session_rows.last() else { return Ok((found, false)) };
            after = Some((newest.last, session.clone()));
            for (session, row) in session_rows {
                let listed = self.listed(session, &row)?;
                if !query.takes(&listed) {
                    continue;
                }
                if found.len() == limit {
                    return Ok((found, true));
                }
                found.push(listed);
            }
        }
    }

    /// Puts behind each session what is below it; of the first ones where that is too much, and says so.
    fn put_below(&mut self, sessions: &mut Vec<ListedSession>) -> Result<bool, TapeError> {
        let mut cut = false;
        for top in std::mem::take(sessions) {
            let room = TREE_MAX.saturating_sub(sessions.len() + 1);
            let below = self.session_rows.below(&top.session, room + 1)?;
            cut |= below.len() > room;
            sessions.push(top);
            for (depth, (session, row)) in below.into_iter().take(room) {
                sessions.push(ListedSession { depth, ..self.listed(session, &row)? });
            }
        }
        Ok(cut)
    }

    fn listed(&mut self, session: SessionId, row: &SessionRow) -> Result<ListedSession, TapeError> {
        self.cost.rows += 1;
        let (created, last) = ((row.entries > 0).then_some(row.created), (row.entries > 0).then_some(row.last));
        let summary = SessionSummary { id: session, from: None, created, last, seq: row.seq, bytes: row.bytes };
        let mut listed = ListedSession::of(&summary, &self.statuses, Some(&digest(row)), fork_parent(row));
        listed.entries = Some(row.entries);
        // Of a fork's parent, and of what that goes on from itself.
        let mut next = fork_parent(row).cloned();
        for _ in 0..FORK_DEPTH_MAX {
            let Some(parent) = next.filter(|_| listed.lacks_something()) else { break };
            self.cost.rows += 1;
            let Some(above) = self.session_rows.one(&parent)? else { break };
            listed.inherit(&digest(&above));
            next = fork_parent(&above).cloned();
        }
        Ok(listed)
    }

    /// What only those need that are shown.
    fn fill(&mut self, listed: &mut ListedSession) -> Result<(), TapeError> {
        listed.beside_bytes = beside(self.store, &listed.session);
        (listed.forks, listed.children) = self.session_rows.count_below(&listed.session)?;
        Ok(())
    }
}
