//! Chooses the inputs of the next append: which ones, and in which order. A function of the waiting inputs.
//!
//! A change must keep that commands stay in the order of their arrival among each other, and so do reports; and that no stream of
//! commands keeps a report waiting.

use std::collections::BTreeMap;

use super::{BATCH_BYTES_MAX, BATCH_MAX, Waiting};

/// The inputs of the next append, by arrival number, in the order in which they are decided.
pub(super) fn next_batch(waiting: &BTreeMap<u64, Waiting>) -> Vec<u64> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for at in in_order(waiting) {
        let next = &waiting[&at];
        let size = next.input.bytes();
        let fits = batch.len() < BATCH_MAX && bytes + size <= BATCH_BYTES_MAX && !next.is_alone();
        if !batch.is_empty() && !fits {
            break;
        }
        batch.push(at);
        bytes += size;
        if next.is_alone() {
            break;
        }
    }
    batch
}

/// The order of the waiting inputs: commands by arrival, then reports; a report that came before a stop stands before it.
///
/// A stream of commands cannot keep a report waiting: where reports wait, the commands of an append take at most half of its places
/// and of its bytes. Where a command does not fit into such a half, or a report that came before it does not, or the command stands
/// alone, the reports that came before it stand before it.
fn in_order(waiting: &BTreeMap<u64, Waiting>) -> Vec<u64> {
    let (mut order, mut reports) = (Vec::with_capacity(waiting.len()), Vec::new());
    let has_reports = waiting.values().any(|waiting| waiting.input.reported().is_some());
    let half = |of: usize| if has_reports { of / 2 } else { usize::MAX };
    let (mut commands, mut bytes, mut is_full) = (0, 0_usize, false);
    let mut is_report_large = false;
    for (at, one) in waiting {
        let is_large = one.is_alone() || one.input.bytes() > BATCH_BYTES_MAX / 2;
        if one.input.reported().is_some() {
            reports.push(*at);
            is_report_large |= is_large;
            continue;
        }
        (commands, bytes) = (commands + 1, bytes.saturating_add(one.input.bytes()));
        is_full |= commands > half(BATCH_MAX) || (bytes > half(BATCH_BYTES_MAX) && commands > 1);
        if is_full {
            continue;
        }
        if one.input.is_stop() || is_large || is_report_large {
            order.append(&mut reports);
            is_report_large = false;
        }
        order.push(*at);
    }
    order.append(&mut reports);
    order
}
