//! The messages that were taken, so that none is taken twice.
//!
//! A state is copied for every decision, and a session may remember thousands of ids. So they stand in blocks that copies
//! share: taking a message copies one block of at most 64, however many are remembered.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    ids::{MessageId, Seq},
    session::Disposition,
};

/// Ids in one block.
const BLOCK: usize = 64;

/// A message that was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The entry that accepted it.
    pub seq: Seq,
    /// What its sender was told.
    pub disposition: Disposition,
    /// The turn that it was delivered to.
    pub turn: Option<Seq>,
}

type Block = Arc<BTreeMap<MessageId, Seen>>;

/// The messages that were taken. Cheap to clone, and to add to. The blocks lie in the order of time.
#[derive(Clone, Debug, Default)]
pub struct SeenMessages {
    blocks: Arc<Vec<Block>>,
    len: usize,
}

impl SeenMessages {
    /// What is known of a message.
    #[must_use]
    pub fn get(&self, id: &MessageId) -> Option<&Seen> {
        self.blocks.iter().rev().find_map(|block| block.get(id))
    }

    /// All of them, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (&MessageId, &Seen)> {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// How many are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Remembers a new one.
    pub(super) fn insert(&mut self, id: MessageId, seen: Seen) {
        // Only a tape that was forged takes a message twice.
        self.forget(&id);
        self.add(id, seen);
    }

    fn add(&mut self, id: MessageId, seen: Seen) {
        let blocks = Arc::make_mut(&mut self.blocks);
        match blocks.last_mut() {
            Some(block) if block.len() < BLOCK => drop(Arc::make_mut(block).insert(id, seen)),
            _ => blocks.push(Arc::new(BTreeMap::from([(id, seen)]))),
        }
        self.len += 1;
    }

    /// Notes which turn a message went to.
    pub(super) fn delivered(&mut self, id: &MessageId, turn: Option<Seq>) {
        // The newest stand at the end, and it is they who are delivered.
        let Some(at) = self.blocks.iter().rposition(|block| block.contains_key(id)) else { return };
        if let Some(seen) = Arc::make_mut(&mut Arc::make_mut(&mut self.blocks)[at]).get_mut(id) {
            seen.turn = turn;
        }
    }

    /// Forgets one: sent again, it is new.
    pub(super) fn forget(&mut self, id: &MessageId) {
        let Some(at) = self.blocks.iter().rposition(|block| block.contains_key(id)) else { return };
        self.remove(at, id);
    }

    fn remove(&mut self, at: usize, id: &MessageId) {
        let blocks = Arc::make_mut(&mut self.blocks);
        Arc::make_mut(&mut blocks[at]).remove(id);
        if blocks[at].is_empty() {
            blocks.remove(at);
        }
        self.len -= 1;
    }

    /// Forgets the oldest one that may be forgotten.
    pub(super) fn forget_oldest(&mut self, may_go: impl Fn(&MessageId) -> bool) {
        let place = self.blocks.iter().enumerate().find_map(|(at, block)| {
            let oldest = block.iter().filter(|(id, _)| may_go(id)).min_by_key(|(_, seen)| seen.seq);
            oldest.map(|(id, _)| (at, id.clone()))
        });
        let Some((at, id)) = place else { return };
        self.remove(at, &id);
    }
}

impl PartialEq for SeenMessages {
    fn eq(&self, other: &SeenMessages) -> bool {
        // How they lie in blocks depends on when the state was read, and says nothing.
        self.len == other.len && self.iter().all(|(id, seen)| other.get(id) == Some(seen))
    }
}

impl Serialize for SeenMessages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for SeenMessages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SeenMessages, D::Error> {
        let known = BTreeMap::<MessageId, Seen>::deserialize(deserializer)?;
        let mut known: Vec<_> = known.into_iter().collect();
        known.sort_by_key(|(_, seen)| seen.seq);
        let mut messages = SeenMessages::default();
        known.into_iter().for_each(|(id, seen)| messages.add(id, seen));
        Ok(messages)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn seen(seq: u64) -> Seen {
        Seen { seq: Seq(seq), disposition: Disposition::Started, turn: None }
    }

    fn id(n: u64) -> MessageId {
        MessageId::from(format!("m{n}"))
    }

    fn many(count: u64) -> SeenMessages {
        let mut messages = SeenMessages::default();
        (1..=count).for_each(|n| messages.insert(id(n), seen(n)));
        messages
    }

    /// Taking a message copies one block, whatever the number of those remembered: the others stay shared.
    #[test]
    fn a_new_message_copies_one_block_however_many_are_known() {
        let before = many(1_000);
        let mut after = before.clone();
        after.insert(id(1_001), seen(1_001));
        after.delivered(&id(1_001), Some(Seq(1_002)));
        let shared = before.blocks.iter().zip(after.blocks.iter()).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!((before.blocks.len(), shared), (16, 15));
        assert_eq!((before.len(), after.len(), after.get(&id(1_001)).unwrap().turn), (1_000, 1_001, Some(Seq(1_002))));
    }

    /// Forgetting takes the oldest that may go, and nothing else.
    #[test]
    fn the_oldest_that_may_go_is_forgotten() {
        let mut messages = many(130);
        (0..128).for_each(|_| messages.forget_oldest(|known| *known != id(1)));
        let left: Vec<_> = messages.iter().map(|(known, _)| known.clone()).collect();
        assert_eq!((left, messages.len()), (vec![id(1), id(130)], 2));
    }

    /// What is written is what is read, in the order of the entries.
    #[test]
    fn it_reads_back_as_it_was_written() {
        let mut messages = many(200);
        messages.forget_oldest(|_| true);
        let text = serde_json::to_string(&messages).unwrap();
        assert_eq!(serde_json::from_str::<SeenMessages>(&text).unwrap(), messages);
    }
}
