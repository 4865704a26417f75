//! The list from the rows of the index.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::SessionId,
    listing::{ListedSession, Looked, SessionPage, SessionQuery, Shape, Tree, beside, cursor_behind, query::Filter},
    session::{Cradle, Digest},
    tape::{Access, Behind, Card, Cards, FORK_DEPTH_MAX, Fold, Folded, Standings, Store, TapeError},
};

/// Rows that are read at a time, at least and at most.
const PIECE_MIN: usize = 16;
const PIECE_MAX: usize = 256;

/// What lists sum up of a session's entries.
fn fold(before: Option<&str>, entries: &[crate::tape::Entry]) -> Folded {
    // What cannot be read back was not written by this form; then it is better to know less.
    let mut digest: Digest = before.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    entries.iter().for_each(|entry| digest.take(entry));
    let parent = digest.origin.clone().map(|cradle| match cradle {
        Cradle::Fork { parent, .. } => (parent, true),
        Cradle::Task { parent, .. } => (parent, false),
    });
    Folded { digest: serde_json::to_string(&digest).unwrap_or_default(), parent }
}

/// A page; `None` where there is no index and none can be made. Only a damaged one is made anew: what is busy, or has no room, is
/// there again later, with all that it took long to read.
pub(super) fn page(store: &Store, query: &SessionQuery, filter: &Filter) -> Result<Option<SessionPage>, TapeError> {
    let looked = match look(store, query, filter) {
        // It broke while it was read: made anew, it is asked once more.
        Err(TapeError::Index { is_damaged: true, .. }) if store.access() == Access::Write => {
            let healed = store.index_to_search().and_then(|mut index| index.heal());
            healed.and_then(|()| look(store, query, filter))
        }
        looked => looked,
    };
    match looked {
        Err(TapeError::Index { .. }) => Ok(None),
        // Its files, or the one that is locked for them, cannot be made or opened just now.
        Err(TapeError::Io { path, .. }) if store.is_of_index(&path) => Ok(None),
        looked => looked.map(Some),
    }
}

fn look(store: &Store, query: &SessionQuery, filter: &Filter) -> Result<SessionPage, TapeError> {
    let mut index = store.index_to_search()?;
    let (brought, behind) = index.bring_cards(&Fold { form: Digest::FORM, take: &fold }, query.wait)?;
    let looked = Looked { folders: brought.looked_at, tapes: brought.read, bytes: brought.bytes, rows: 0 };
    let (parents, below) = (BTreeMap::new(), Below::default());
    let mut page = Rows { store, standings: Standings::of_all(store)?, cards: index.cards()?, parents, below, looked };
    match query.shape {
        Shape::List => page.list(query, filter, behind),
        Shape::Tree => page.tree(query, filter, behind),
    }
}

struct Rows<'i> {
    store: &'i Store,
    standings: Standings<'i>,
    cards: Cards<'i>,
    /// What those said that forks have something from.
    parents: BTreeMap<SessionId, Option<Known>>,
    below: Below,
    looked: Looked,
}

/// What was found out of who stands below whom.
#[derive(Default)]
struct Below {
    /// Those that stand below one at the top, or there themselves.
    has_top: BTreeSet<SessionId>,
    /// Those at the top of a circle.
    tops: BTreeSet<SessionId>,
}

/// What a session said, and which one it is a fork of.
type Known = (Digest, Option<SessionId>);

/// The session that this one is a fork of.
fn fork_parent(card: &Card) -> Option<&SessionId> {
    card.parent.as_ref().filter(|(_, is_fork)| *is_fork).map(|(parent, _)| parent)
}

impl Rows<'_> {
    fn list(&mut self, query: &SessionQuery, filter: &Filter, behind: Behind) -> Result<SessionPage, TapeError> {
        let (mut sessions, is_more) = self.newest_first(query, filter)?;
        sessions.iter_mut().try_for_each(|listed| self.fill(listed))?;
        let next = if is_more { cursor_behind(&sessions) } else { None };
        Ok(SessionPage { sessions, next, behind, indexed: true, cut: false, looked: self.looked })
    }

    fn tree(&mut self, query: &SessionQuery, filter: &Filter, behind: Behind) -> Result<SessionPage, TapeError> {
        let (roots, is_more) = self.newest_first(query, filter)?;
        let mut tree = Tree::new();
        for mut root in roots {
            self.fill(&mut root)?;
            tree.grow(root, &mut |listed, limit| self.below(listed, limit))?;
        }
        let Tree { rows, cut, .. } = tree;
        let next = if is_more { cursor_behind(&rows) } else { None };
        Ok(SessionPage { sessions: rows, next, behind, indexed: true, cut, looked: self.looked })
    }

    fn below(&mut self, listed: &ListedSession, limit: usize) -> Result<Vec<ListedSession>, TapeError> {
        let cards = self.cards.below(&listed.session, limit)?;
        let filled = |card: &Card| {
            self.looked.rows += 1;
            let mut listed = self.listed(card)?;
            self.fill(&mut listed)?;
            Ok(listed)
        };
        cards.iter().map(filled).collect()
    }

    /// So many sessions as a page has, and whether there are more.
    fn newest_first(&mut self, query: &SessionQuery, filter: &Filter) -> Result<(Vec<ListedSession>, bool), TapeError> {
        let limit = query.page_limit();
        let mut found: Vec<ListedSession> = Vec::new();
        let mut after = query.after.as_ref().map(|after| (after.last, after.session.clone()));
        loop {
            // A piece at a time, so that no row is held while others are looked up.
            let piece = (limit + 1 - found.len()).clamp(PIECE_MIN, PIECE_MAX);
            let behind = after.as_ref().map(|(last, session)| (*last, session.as_str()));
            let cards = self.cards.newest_first(behind, piece)?;
            let Some(newest) = cards.last() else { return Ok((found, false)) };
            after = Some((newest.last, newest.session.clone()));
            for card in cards {
                self.looked.rows += 1;
                if query.shape == Shape::Tree && !self.is_root(&card)? {
                    continue;
                }
                let listed = self.listed(&card)?;
                if !filter.takes(&listed) {
                    continue;
                }
                if found.len() == limit {
                    return Ok((found, true));
                }
                found.push(listed);
            }
        }
    }

    /// Whether it stands at the top: it belongs to nobody who is there. Sessions that were brought in may belong to each other in a
    /// circle, because their files say so; of these the one whose id is the first stands at the top, and the others below it.
    fn is_root(&mut self, card: &Card) -> Result<bool, TapeError> {
        let mut path = vec![card.session.clone()];
        let mut on_path = BTreeSet::from([card.session.clone()]);
        let mut is_top = true;
        let mut next = card.parent.clone();
        while let Some((parent, _)) = next {
            if self.below.has_top.contains(&parent) {
                is_top = false;
                break;
            }
            if !on_path.insert(parent.clone()) {
                // From where it closes, the path is the circle.
                let circle = path.iter().skip_while(|known| **known != parent);
                self.below.tops.extend(circle.min().cloned());
                break;
            }
            self.looked.rows += 1;
            let Some(above) = self.cards.one(&parent)? else { break };
            is_top = false;
            path.push(parent);
            next = above.parent;
        }
        self.below.has_top.extend(path);
        Ok(is_top || self.below.tops.contains(&card.session))
    }

    fn listed(&mut self, card: &Card) -> Result<ListedSession, TapeError> {
        let mut listed = ListedSession::bare(card.session.clone(), &self.standings)?;
        let digest: Digest = serde_json::from_str(&card.digest).unwrap_or_default();
        listed.take(&digest);
        listed.goes_on_from(fork_parent(card));
        listed.created = (card.entries > 0).then_some(card.created);
        listed.last = (card.entries > 0).then_some(card.last);
        listed.seq = card.seq;
        listed.entries = Some(card.entries);
        listed.bytes = card.bytes;
        // Of a fork's parent, and of what that goes on from itself.
        let mut next = fork_parent(card).cloned();
        for _ in 0..FORK_DEPTH_MAX {
            let Some(parent) = next.filter(|_| listed.lacks_something()) else { break };
            let Some((digest, of_parent)) = self.parent(&parent)? else { break };
            listed.inherit(&digest);
            next = of_parent;
        }
        Ok(listed)
    }

    fn parent(&mut self, session: &SessionId) -> Result<Option<Known>, TapeError> {
        if let Some(known) = self.parents.get(session) {
            return Ok(known.clone());
        }
        self.looked.rows += 1;
        let card = self.cards.one(session)?;
        let known =
            card.map(|card| (serde_json::from_str(&card.digest).unwrap_or_default(), fork_parent(&card).cloned()));
        self.parents.insert(session.clone(), known.clone());
        Ok(known)
    }

    /// What only those need that are shown.
    fn fill(&mut self, listed: &mut ListedSession) -> Result<(), TapeError> {
        listed.beside_bytes = beside(self.store, &listed.session);
        (listed.forks, listed.children) = self.cards.count_below(&listed.session)?;
        Ok(())
    }
}
