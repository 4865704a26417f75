//! The open table as a value: what is open in a session, by ticket, in the order of the tickets.
//!
//! Each decision works on a copy of the state, so a copy must be cheap: the tickets are shared between the copies, and only one that
//! is changed is copied. A change must keep that a walk over all tickets to change some of them copies those alone
//! ([`OpenTable::change`]). On the tape of a snapshot it is a map by ticket, as it always was.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{kernel::Open, words::ids::Seq};

/// What is open in a session, by ticket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenTable(Vec<(Seq, Arc<Open>)>);

impl OpenTable {
    /// How many tickets are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is open under a ticket.
    #[must_use]
    pub fn get(&self, ticket: &Seq) -> Option<&Open> {
        self.at(ticket).ok().map(|at| &*self.0[at].1)
    }

    /// Whether the ticket is open.
    #[must_use]
    pub fn contains_key(&self, ticket: &Seq) -> bool {
        self.at(ticket).is_ok()
    }

    /// Everything that is open, in the order of the tickets.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Seq, &Open)> + ExactSizeIterator {
        self.0.iter().map(|(ticket, open)| (ticket, &**open))
    }

    /// The same without the tickets.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Open> + ExactSizeIterator {
        self.0.iter().map(|(_, open)| &**open)
    }

    /// The tickets alone.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Seq> + ExactSizeIterator {
        self.0.iter().map(|(ticket, _)| ticket)
    }

    pub(super) fn get_mut(&mut self, ticket: &Seq) -> Option<&mut Open> {
        self.at(ticket).ok().map(|at| Arc::make_mut(&mut self.0[at].1))
    }

    pub(crate) fn insert(&mut self, ticket: Seq, open: Open) -> Option<Open> {
        let open = Arc::new(open);
        match self.at(&ticket) {
            Ok(at) => Some(Arc::unwrap_or_clone(std::mem::replace(&mut self.0[at].1, open))),
            Err(at) => {
                self.0.insert(at, (ticket, open));
                None
            }
        }
    }

    pub(super) fn remove(&mut self, ticket: &Seq) -> Option<Open> {
        self.at(ticket).ok().map(|at| Arc::unwrap_or_clone(self.0.remove(at).1))
    }

    pub(super) fn retain(&mut self, stays: impl Fn(&Open) -> bool) {
        self.0.retain(|(_, open)| stays(open));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Changes those that are found, the first `most` of them.
    pub(super) fn change(&mut self, most: usize, found: impl Fn(&Open) -> bool, mut change: impl FnMut(&mut Open)) {
        for (_, open) in self.0.iter_mut().filter(|(_, open)| found(open)).take(most) {
            change(Arc::make_mut(open));
        }
    }

    /// Where the ticket is, or would be. Nearly always it is asked for at the end.
    fn at(&self, ticket: &Seq) -> Result<usize, usize> {
        match self.0.last() {
            Some((last, _)) if last < ticket => Err(self.0.len()),
            _ => self.0.binary_search_by_key(ticket, |(ticket, _)| *ticket),
        }
    }
}

#[cfg(test)]
impl std::ops::Index<&Seq> for OpenTable {
    type Output = Open;

    fn index(&self, ticket: &Seq) -> &Open {
        match self.at(ticket) {
            Ok(at) | Err(at) => &self.0[at].1,
        }
    }
}

impl FromIterator<(Seq, Open)> for OpenTable {
    fn from_iter<I: IntoIterator<Item = (Seq, Open)>>(open: I) -> OpenTable {
        BTreeMap::from_iter(open).into()
    }
}

impl From<BTreeMap<Seq, Open>> for OpenTable {
    fn from(open: BTreeMap<Seq, Open>) -> OpenTable {
        OpenTable(open.into_iter().map(|(ticket, open)| (ticket, Arc::new(open))).collect())
    }
}

impl Serialize for OpenTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for OpenTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OpenTable, D::Error> {
        BTreeMap::deserialize(deserializer).map(<OpenTable as From<BTreeMap<Seq, Open>>>::from)
    }
}
