//! What the next append takes of what waits, and in which order.

use std::collections::BTreeMap;

use super::Waiting;
use crate::kernel::Input;

/// Inputs of one append, at most.
pub(super) const BATCH_MAX: usize = 64;

/// Bytes of the inputs of one append, about, where it is more than one.
pub(super) const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// What the next append takes, in its order.
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

/// Commands as they came, then reports; those that came before a stop are before it. Where reports wait, commands that go on
/// coming do not keep them waiting.
fn in_order(waiting: &BTreeMap<u64, Waiting>) -> Vec<u64> {
    let (mut order, mut reports) = (Vec::with_capacity(waiting.len()), Vec::new());
    let has_reports = waiting.values().any(|waiting| waiting.input.reported().is_some());
    let commands_max = if has_reports { BATCH_MAX / 2 } else { usize::MAX };
    let mut commands = 0;
    for (at, Waiting { input, .. }) in waiting {
        match input {
            Input::Report { .. } => reports.push(*at),
            _ if commands == commands_max => {}
            input => {
                if input.is_stop() {
                    order.append(&mut reports);
                }
                order.push(*at);
                commands += 1;
            }
        }
    }
    order.append(&mut reports);
    order
}
