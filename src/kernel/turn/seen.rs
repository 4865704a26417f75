//! The ids of the messages that were accepted, by which a message that is sent again is recognised.
//!
//! A state is copied for every decision, and a session may remember thousands of ids. So the ids are kept in blocks of at most 64
//! that copies share: accepting a message copies the list of blocks and one or two blocks, not all ids.
//!
//! A change must keep this cost, and the stored form of [`SeenMessages`]: a map from id to [`Seen`], part of every anchor.

use std::{
    collections::BTreeMap,
    io::{BufWriter, Write as _},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    kernel::Disposition,
    words::{
        ids::{MessageId, Seq},
        message::Message,
    },
};

/// The most ids in one block.
const BLOCK: usize = 64;

/// A message that was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// The entry that accepted it.
    pub(crate) seq: Seq,
    /// The disposition that its sender was told.
    pub(crate) disposition: Disposition,
    /// The turn that it was delivered to; `None` while it waits, or if it was taken back.
    pub(crate) turn: Option<Seq>,
    /// What its sender said, as [`words`] has it; `None` in a state that was stored before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) words: Option<u64>,
}

/// A short hash of what the sender of a message says and asks for, without the parts that input hooks added at the end. It has 53
/// bits, so that every reader of JSON can hold it. An edit of a waiting message does not change it: it is that of the first send.
///
/// The words are taken as the hooks leave them. A hash of the words before them would stand on the tape, and the words that a hook
/// takes out, such as a number of few digits, could be found by it.
pub(in crate::kernel) fn words(message: &Message, added: usize) -> u64 {
    let own = &message.parts[..message.parts.len().saturating_sub(added)];
    let said = (own, &message.agent, &message.model, &message.tools, message.pinned);
    let mut hasher = blake3::Hasher::new();
    let mut pieces = BufWriter::with_capacity(1024, &mut hasher);
    // Writing into a hasher cannot fail, and every message can be written.
    drop(serde_json::to_writer(&mut pieces, &said).and_then(|()| pieces.flush().map_err(serde_json::Error::io)));
    drop(pieces);
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first) >> 11
}

type Block = Arc<BTreeMap<MessageId, Seen>>;

/// The messages that were accepted, by id. Cheap to clone and to extend. The blocks stand in the order of acceptance.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenMessages {
    blocks: Arc<Vec<Block>>,
    len: usize,
}

impl SeenMessages {
    /// The record of an accepted message; `None` if the id is unknown or forgotten.
    #[must_use]
    pub(crate) fn get(&self, id: &MessageId) -> Option<&Seen> {
        self.blocks.iter().rev().find_map(|block| block.get(id))
    }

    /// All of them, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&MessageId, &Seen)> {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// How many are remembered.
    pub(in crate::kernel) fn len(&self) -> usize {
        self.len
    }

    pub(in crate::kernel) fn insert(&mut self, id: MessageId, seen: Seen) {
        // Only a forged tape accepts a message twice.
        self.forget(&id);
        let blocks = Arc::make_mut(&mut self.blocks);
        match blocks.last_mut() {
            Some(block) if block.len() < BLOCK => drop(Arc::make_mut(block).insert(id, seen)),
            _ => blocks.push(Arc::new(BTreeMap::from([(id, seen)]))),
        }
        self.len += 1;
    }

    /// Notes which turn a message went to.
    pub(in crate::kernel) fn delivered(&mut self, id: &MessageId, turn: Option<Seq>) {
        // Search from the end: messages that are delivered are mostly among the newest.
        let Some(at) = self.blocks.iter().rposition(|block| block.contains_key(id)) else { return };
        if let Some(seen) = Arc::make_mut(&mut Arc::make_mut(&mut self.blocks)[at]).get_mut(id) {
            seen.turn = turn;
        }
    }

    /// Forgets a message. Sent again, it counts as new.
    pub(in crate::kernel) fn forget(&mut self, id: &MessageId) {
        let Some(at) = self.blocks.iter().rposition(|block| block.contains_key(id)) else { return };
        let blocks = Arc::make_mut(&mut self.blocks);
        Arc::make_mut(&mut blocks[at]).remove(id);
        if blocks[at].is_empty() {
            blocks.remove(at);
        }
        self.len -= 1;
    }

    /// Forgets the oldest message that `may_go` allows to be forgotten.
    pub(in crate::kernel) fn forget_oldest(&mut self, may_go: impl Fn(&MessageId) -> bool) {
        let oldest = self.blocks.iter().find_map(|block| {
            let oldest = block.iter().filter(|(id, _)| may_go(id)).min_by_key(|(_, seen)| seen.seq);
            oldest.map(|(id, _)| id.clone())
        });
        oldest.iter().for_each(|id| self.forget(id));
    }
}

impl PartialEq for SeenMessages {
    fn eq(&self, other: &SeenMessages) -> bool {
        // The division into blocks depends on when the state was read, and has no meaning.
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
        known.into_iter().for_each(|(id, seen)| messages.insert(id, seen));
        Ok(messages)
    }
}

#[cfg(test)]
mod tests;
