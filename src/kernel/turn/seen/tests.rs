//! Which messages are remembered.

#![allow(clippy::unwrap_used)]

use super::*;

fn seen(seq: u64) -> Seen {
    Seen { seq: Seq(seq), disposition: Disposition::Started, turn: None, words: None }
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
