//! Whether a story that was cut off came to the same end, and kept the promises.

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;
use tamtam::{
    Seq,
    model::Item,
    session::{Entry, Record, State},
    tape::{Store, StoreOptions, TapeStoreExt as _},
};

use super::{
    host::id,
    world::{MESSAGES, World},
};

/// What the conversation says: one line for each thing, results with the ticket of their call's place.
pub(crate) fn told(state: &State) -> Vec<String> {
    let line = |item: &Item| match item {
        Item::User(user) => format!("user {}", user.id.as_str()),
        Item::Assistant(answer) => {
            let calls = serde_json::to_string(&answer.parts).unwrap();
            format!("model {calls}")
        }
        Item::Result(result) => format!("result {}: {}", result.call.as_str(), result.content),
        _ => "something new".to_owned(),
    };
    state.history.iter().map(|item| line(item)).collect()
}

/// What may differ: the results of the calls that were running when the story was cut off.
pub(crate) fn differences(told: &[String], reference: &[String], cut_off: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (now, then) in told.iter().zip(reference) {
        let call = then.strip_prefix("result ").and_then(|rest| rest.split(':').next());
        let unknown = call.is_some_and(|call| cut_off.contains(call)) && now.contains("outcome is unknown");
        if now != then && !unknown {
            wrong.push(format!("told {now:?}, and without the crash {then:?}"));
        }
    }
    if told.len() != reference.len() {
        wrong.push(format!("{} things were told, and without the crash {}", told.len(), reference.len()));
    }
    wrong
}

/// The calls that are running where these entries end, by the ids that the model gave to them.
pub(crate) fn running(lines: &[tamtam::tape::TapeEntry]) -> BTreeSet<String> {
    let mut running = std::collections::BTreeMap::new();
    let mut ids = std::collections::BTreeMap::new();
    for line in lines {
        let entry = Entry::from_tape(line).unwrap();
        match (&entry.record, entry.ticket) {
            (Record::Call(call), _) => drop(ids.insert(entry.seq, call.id.as_str().to_owned())),
            (Record::CallStarted { .. }, Some(ticket)) => drop(running.insert(ticket, ids[&ticket].clone())),
            (Record::Result { .. }, Some(ticket)) => drop(running.remove(&ticket)),
            _ => {}
        }
    }
    running.into_values().collect()
}

/// Promises 1, 2 and 4, and that requests which came again were what they had been. On a tape that nobody writes any more.
pub(crate) fn promises(state: &State, world: &World, store: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    let users: Vec<_> =
        told(state).into_iter().filter_map(|line| line.strip_prefix("user ").map(str::to_owned)).collect();
    if users != MESSAGES {
        wrong.push(format!("the model was told {users:?}"));
    }
    let entries = match entries(store) {
        Ok(entries) => entries,
        Err(unsound) => return vec![unsound],
    };
    let of = |kind: &str, ticket: Seq| {
        entries.iter().filter(|entry| entry.kind == kind && entry.ticket == Some(ticket)).count()
    };
    for call in entries.iter().filter(|entry| entry.kind == "call") {
        let results = of("result", call.seq);
        if results != 1 {
            wrong.push(format!("call {} has {results} results", call.seq));
        }
    }
    for id in MESSAGES {
        let accepted = |entry: &&tamtam::tape::TapeEntry| {
            let data: Value = serde_json::from_str(entry.data.get()).unwrap();
            entry.kind == "accepted" && data["message"]["id"] == id
        };
        let times = entries.iter().filter(accepted).count();
        if times != 1 {
            wrong.push(format!("{id} was accepted {times} times"));
        }
    }
    let outside = world.look();
    wrong.extend(
        outside.ran.iter().filter(|(_, times)| **times > 1).map(|(what, times)| format!("{what} ran {times} times")),
    );
    wrong.extend(outside.changed.clone());
    wrong
}

/// All that the tape says. The whole store must be sound.
pub(crate) fn entries(store: &Path) -> Result<Vec<tamtam::tape::TapeEntry>, String> {
    let store = Store::open(store, StoreOptions::default().access(tamtam::tape::TapeAccess::Read)).unwrap();
    let findings = store.verify_all().unwrap();
    if findings.is_empty() { Ok(store.read(&id(), Seq::ZERO).unwrap()) } else { Err(format!("{findings:?}")) }
}
