//! The newest crash reports of a runtime: keeps them, numbers them, and throttles how often they are logged.
//!
//! The newest [`CRASHES_KEPT`] reports are kept. A report is logged if it is its node's first, second, fourth, eighth and so on,
//! so that a child that crashes in a loop does not flood the log. After [`THROTTLED_MAX`] different nodes the counts are reset.
//!
//! A change must never log under the lock: a subscriber of the host may read the crashes.

use std::collections::{HashMap, VecDeque};

use crate::{lock::Lock, supervisor::report::CrashReport};

/// How many crash reports a runtime keeps.
const CRASHES_KEPT: usize = 256;

/// How many different nodes the throttle of the log remembers before it forgets them all.
const THROTTLED_MAX: usize = 4096;

/// The last crash reports, and a count of crashes for each node.
#[derive(Debug, Default)]
pub(crate) struct CrashLog {
    inner: Lock<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    ring: VecDeque<CrashReport>,
    counts: HashMap<String, u64>,
}

impl CrashLog {
    /// Keeps a report, and logs it if it is this node's first, second, fourth, eighth … Returns its number.
    pub(crate) fn add(&self, report: CrashReport) -> u64 {
        let (report, count) = self.keep(report);
        // Not under the lock: a subscriber of the host may read the crashes.
        if is_loud(count) {
            tracing::error!(
                supervisor = report.supervisor,
                context = ?report.context,
                reason = %report.reason,
                offender = %report.offender,
                incarnation = report.incarnation,
                decision = ?report.decision,
                in_hand = report.message,
                in_hand_ms = report.in_hand_ms,
                doing = report.doing,
                figures = report.payload.facts().join(", "),
                crash = report.number,
                crashes = count,
                "a child ended badly"
            );
        }
        report.number
    }

    /// Keeps a report. Returns it with its number, and how many crashes of its node there were.
    pub(crate) fn keep(&self, mut report: CrashReport) -> (CrashReport, u64) {
        let mut kept = self.inner.lock();
        kept.last += 1;
        report.number = kept.last;
        let path = report.path();
        if kept.counts.len() >= THROTTLED_MAX && !kept.counts.contains_key(&path) {
            kept.counts.clear();
        }
        let count = kept.counts.entry(path).or_insert(0);
        *count += 1;
        let count = *count;
        if kept.ring.len() == CRASHES_KEPT {
            kept.ring.pop_front();
        }
        kept.ring.push_back(report.clone());
        (report, count)
    }

    pub(crate) fn all(&self) -> Vec<CrashReport> {
        self.inner.lock().ring.iter().cloned().collect()
    }
}

/// Whether a node's crash number `count` is logged.
pub(crate) fn is_loud(count: u64) -> bool {
    count.is_power_of_two()
}
