//! Resumes the sessions whose turn was open when their process ended, at the start of a runtime on the same tapes.
//!
//! A session that cannot be resumed holds up no other and does not fail the start; [`Recovered`] says why it cannot. A child
//! whose parent's tape is missing or damaged becomes an orphan.
//!
//! A change must keep this: all listeners are attached before the first session continues, because its parent may wake a child at
//! once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::StreamExt as _;

use crate::{
    event::EventStream,
    runtime::{Recovered, Runtime, children},
    words::ids::SessionId,
};

/// How many interrupted sessions are resumed at the same time: enough to keep a disk and a few cores busy.
const RESUMED_AT_ONCE: usize = 16;

/// Takes the events of a session that continues, before its first step.
pub(super) type Listen = dyn Fn(&SessionId, EventStream) + Send + Sync;

/// Resumes the sessions `open`, some at a time. Each listener gets the events of all of them before any takes a step. The result is
/// sorted by session.
pub(super) async fn resume_interrupted(
    runtime: &Runtime,
    open: Vec<SessionId>,
    listeners: &[Box<Listen>],
) -> Vec<Recovered> {
    // All listeners first: a parent that continues may wake its child before this loop reaches the child.
    for listen in listeners {
        for id in &open {
            let events = runtime.session(id).events();
            if catch_unwind(AssertUnwindSafe(|| listen(id, events))).is_err() {
                tracing::warn!(session = %id, "the listener of a resumed session panicked, and gets no events");
            }
        }
    }
    let resumed = futures_util::stream::iter(open).map(async |id| {
        fault!(runtime.inner.shared.store.faults(), "start.resume", id.as_str());
        let error = runtime.open(&id).await.err().map(|error| error.to_string());
        if let Some(error) = &error {
            tracing::warn!(session = %id, error, "an interrupted session could not be resumed");
        }
        Recovered { session: id, error }
    });
    let mut recovered: Vec<_> = resumed.buffer_unordered(RESUMED_AT_ONCE).collect().await;
    recovered.sort_by(|one, other| one.session.cmp(&other.session));
    children::orphan_the_bereaved(runtime, &recovered).await;
    recovered
}
