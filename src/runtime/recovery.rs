//! Turns that were open when their process ended: they continue when a runtime starts on the same tapes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::StreamExt as _;

use crate::{
    event::EventStream,
    runtime::{Recovered, Runtime, children},
    words::ids::SessionId,
};

/// How many interrupted sessions are brought back at once: as many as keep a disk and a few cores busy.
const RESUMED_AT_ONCE: usize = 16;

/// Who listens to a session that goes on, before its first step.
pub(super) type Listen = dyn Fn(&SessionId, EventStream) + Send + Sync;

/// Brings back the sessions that were in a turn when their process ended, some at a time. One that cannot come back holds up
/// no other. Whoever is to listen listens to all of them before the first step of any.
pub(super) async fn resume_interrupted(
    runtime: &Runtime,
    open: Vec<SessionId>,
    listen: Option<&Listen>,
) -> Vec<Recovered> {
    // To all, before the first goes on: it may be a child's parent, which brings that up before its turn comes here.
    if let Some(listen) = listen {
        for id in &open {
            let events = runtime.session(id).events();
            if catch_unwind(AssertUnwindSafe(|| listen(id, events))).is_err() {
                tracing::warn!(session = %id, "who was to listen to it panicked, and does not");
            }
        }
    }
    let resumed = futures_util::stream::iter(open).map(async |id| {
        fault!(runtime.inner.host.store.faults(), "start.resume", id.as_str());
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
