//! Laying sessions out below those that they belong to.

use std::collections::BTreeSet;

use crate::{ids::SessionId, listing::ListedSession, tape::TapeError};

/// The most sessions of one page that is a tree.
const ROWS_MAX: usize = 1_000;

/// The rows of a tree, as they grow.
pub(super) struct Tree {
    pub(super) rows: Vec<ListedSession>,
    /// There was more than is shown.
    pub(super) cut: bool,
    /// The roots: in a circle one of them stands below its own descendants as well, and is shown once.
    roots: BTreeSet<SessionId>,
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree { rows: Vec::new(), cut: false, roots: BTreeSet::new() }
    }

    /// Puts down a root and all that is below it. `below` gives the sessions directly below one, so many at most and one more
    /// where there are more.
    pub(super) fn grow(
        &mut self,
        root: ListedSession,
        below: &mut impl FnMut(&ListedSession, usize) -> Result<Vec<ListedSession>, TapeError>,
    ) -> Result<(), TapeError> {
        self.roots.insert(root.session.clone());
        let mut next = vec![root];
        while let Some(listed) = next.pop() {
            // Of the roots none is left out: the page is as long as was asked for.
            if self.rows.len() >= ROWS_MAX && listed.depth > 0 {
                self.cut = true;
                continue;
            }
            if listed.forks + listed.children > 0 {
                let room = ROWS_MAX.saturating_sub(self.rows.len() + next.len());
                // One more than is shown, and than may be a root.
                let mut found = below(&listed, room + 2)?;
                found.retain(|found| !self.roots.contains(&found.session));
                self.cut |= found.len() > room;
                found.truncate(room);
                found.iter_mut().for_each(|found| found.depth = listed.depth + 1);
                next.extend(found.into_iter().rev());
            }
            self.rows.push(listed);
        }
        Ok(())
    }
}
