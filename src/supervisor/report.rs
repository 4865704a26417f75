//! What is written down when a child ends badly: one struct, as JSON, with the same facts each time.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use serde::Serialize;

use crate::{
    ids::Millis,
    supervisor::{card::Happened, exit::ExitReason, spec::ChildId},
};

/// How many crash reports a runtime keeps.
pub(crate) const CRASHES_KEPT: usize = 256;

/// How many different nodes the throttle of the log remembers before it forgets them all.
const THROTTLED_MAX: usize = 4096;

/// What the supervisor did about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// It is started again after this long.
    Restart {
        /// Milliseconds; 0 is at once.
        after_ms: u64,
    },
    /// It is kept stopped.
    Park,
    /// The supervisor ends itself.
    Escalate,
    /// It had ended as it may, and stays down.
    Ended,
    /// It was to be stopped, and is.
    Stopped,
    /// It was started by hand and could not start; the caller was told.
    Refused,
}

/// During what a child ended; the words are those of OTP's supervisor reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Context {
    /// It could not start.
    StartError,
    /// It ended by itself.
    ChildTerminated,
    /// It was asked to stop and ended in another way.
    ShutdownError,
}

/// A child's bad end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CrashReport {
    /// When.
    pub at: Millis,
    /// The path of the supervisor.
    pub supervisor: String,
    /// During what.
    pub context: Context,
    /// Why.
    pub reason: ExitReason,
    /// Which child.
    pub offender: ChildId,
    /// What kind of node it is.
    pub kind: &'static str,
    /// Which life ended: 1 for the first.
    pub incarnation: u64,
    /// The kind of message that was in hand.
    pub message: Option<String>,
    /// How long it had been in hand, in milliseconds.
    pub in_hand_ms: Option<u64>,
    /// The last messages, oldest first; at most 16.
    pub recent: Vec<Happened>,
    /// What the supervisor did about it.
    pub decision: Decision,
    /// How many restarts count now, this one included.
    pub in_window: u32,
}

/// The last crashes, and how loudly each was reported.
#[derive(Debug, Default)]
pub(crate) struct CrashLog {
    inner: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    ring: VecDeque<CrashReport>,
    counts: HashMap<String, u64>,
}

impl CrashLog {
    /// Keeps a report, and logs it if it is this node's first, second, fourth, eighth …
    pub(crate) fn add(&self, report: CrashReport) {
        let mut kept = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let path = format!("{}/{}", report.supervisor, report.offender);
        if kept.counts.len() >= THROTTLED_MAX && !kept.counts.contains_key(&path) {
            kept.counts.clear();
        }
        let count = kept.counts.entry(path).or_insert(0);
        *count += 1;
        let count = *count;
        if kept.ring.len() == CRASHES_KEPT {
            kept.ring.pop_front();
        }
        if count.is_power_of_two() {
            tracing::error!(
                supervisor = report.supervisor,
                context = ?report.context,
                reason = %report.reason,
                offender = %report.offender,
                incarnation = report.incarnation,
                decision = ?report.decision,
                crashes = count,
                "a child ended badly"
            );
        }
        kept.ring.push_back(report);
    }

    pub(crate) fn all(&self) -> Vec<CrashReport> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).ring.iter().cloned().collect()
    }
}
