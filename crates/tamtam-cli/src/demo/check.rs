//! Checks the tape of the demo: every message that has a receipt is delivered once, every call has exactly one result, and every
//! turn ended as done.
//!
//! A pure function of entries. Except for the ids of the receipts, it must use nothing that the demo remembers: the tape alone is
//! to prove the promises. The expected counts of turns, skipped calls and recoveries belong to the script in `demo.rs`: change both
//! together.

use std::collections::BTreeMap;

use tamtam::{
    MessageId, Outcome,
    session::{Entry, ErrorReason, Record},
};

/// Counts the entries in words, or names the first broken promise.
pub(super) fn tape(entries: &[Entry], acknowledged: &[MessageId]) -> Result<String, String> {
    let mut delivered: BTreeMap<&MessageId, usize> = BTreeMap::new();
    let mut calls = BTreeMap::new();
    let (mut skipped, mut recovered, mut turns) = (0, 0, 0);
    for entry in entries {
        match &entry.record {
            Record::Delivered { ids } => ids.iter().for_each(|id| *delivered.entry(id).or_default() += 1),
            Record::Call(call) => drop(calls.insert(entry.seq, (call.facts.tool.as_str(), 0_usize))),
            Record::Result { result, .. } => {
                let call = entry.ticket.and_then(|ticket| calls.get_mut(&ticket));
                let (_, results) = call.ok_or_else(|| format!("entry {} is the result of no call", entry.seq))?;
                *results += 1;
                skipped += usize::from(result.error == Some(ErrorReason::Skipped));
            }
            Record::Recovered { .. } => recovered += 1,
            Record::TurnFinished { outcome: Outcome::Done, .. } => turns += 1,
            Record::TurnFinished { outcome, .. } => return Err(format!("a turn ended badly: {outcome:?}")),
            _ => {}
        }
    }
    for id in acknowledged {
        let times = delivered.get(id).copied().unwrap_or_default();
        if times != 1 {
            return Err(format!("message {id} was acknowledged, and delivered {times} times"));
        }
    }
    if let Some((seq, (tool, results))) = calls.iter().find(|(_, (_, results))| *results != 1) {
        return Err(format!("call {seq} of {tool} has {results} results"));
    }
    if (skipped, recovered, turns) != (3, 2, 4) {
        return Err(format!(
            "there should be 3 skipped calls, 2 recoveries and 4 turns: there are {skipped}, {recovered} and {turns}"
        ));
    }
    Ok(format!(
        "{} entries, checksums right: {} messages with a receipt, each delivered once; {} calls, each with one result, {skipped} of them skipped; {recovered} times its actor ended in the middle of a turn, and nothing was lost.",
        entries.len(),
        acknowledged.len(),
        calls.len()
    ))
}
