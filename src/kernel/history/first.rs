//! The first entries of a tape: for a session that a host makes, and for a child that does a parent's task.
//!
//! Such a tape begins with the whole state; a child's prompt is the second entry. (The tape of a fork begins with a `forked` entry,
//! which the tape writes itself.) A change must keep the state as the first entry: without it nothing can open the tape. The
//! entries are only computed here; the caller has them written to the new tape.

use std::sync::Arc;

use crate::{
    kernel::{Delivery, Entry, Record, State},
    words::{
        ids::{Millis, Seq},
        message::{Message, MessageTime, Role},
    },
};

/// The first entries of a tape (the state, and the prompt of a child's task), and the state that they fold to.
pub(crate) fn first_entries(mut state: State, prompt: Option<Message>, now: Millis) -> (Vec<Entry>, State) {
    let accepted = prompt.map(|mut prompt| {
        prompt.role = Role::User;
        prompt.time = MessageTime { created: now, completed: Some(now) };
        Record::Accepted { message: Arc::new(prompt), delivery: Delivery::Queue, agent: None, added: 0 }
    });
    let records = std::iter::once(Record::State(Arc::new(state.clone()))).chain(accepted);
    let entry = |(seq, record)| Entry {
        seq: Seq(seq),
        time: now,
        cause: None,
        turn: None,
        step: None,
        ticket: None,
        input: None,
        record,
    };
    let entries: Vec<_> = (1..).zip(records).map(entry).collect();
    entries.iter().for_each(|entry| state.apply(entry));
    (entries, state)
}
