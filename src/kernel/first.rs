//! The first entries of a tape: for a session that a host makes, and for a child that does a parent's task.

use std::sync::Arc;

use crate::{
    kernel::{Delivery, Entry, Record, State},
    words::ids::{Millis, Seq},
    words::message::{Message, MessageTime, Role},
};

/// The first entries of a tape, and the state that they make: who it is, and the prompt of its task where it has one.
pub(crate) fn first_entries(mut state: State, prompt: Option<Message>, now: Millis) -> (Vec<Entry>, State) {
    let accepted = prompt.map(|mut prompt| {
        prompt.role = Role::User;
        prompt.time = MessageTime { created: now, completed: Some(now) };
        Record::Accepted { message: Arc::new(prompt), delivery: Delivery::Queue }
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
