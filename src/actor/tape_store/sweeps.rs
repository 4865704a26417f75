//! Sweeping: a runtime removes the sessions that a policy does not keep, on request or at intervals.
//!
//! [`Sweeper`] says when a runtime sweeps at intervals, and keeps the report of the newest of these sweeps. A sweep that fails is
//! reported and tried again after the next interval; it ends nothing else. A sweep on request may run beside one of these.
//!
//! A sweep blocks on the disk, so it runs on a thread and no actor may wait for it. A change must delete through `delete_unused`,
//! which looks at each session once more under its claim: a session that is open, or that was used, parked, protected or forked
//! since the plan, stays.

use std::sync::Arc;

use crate::{
    actor::{
        shared::Shared,
        tape_store::{Chore, SweepReport, Sweeper},
    },
    ops::sweep::{Sweep, SweepPolicy, sweep_plan, sweep_through},
    tape::{TapeError, TapeStoreExt as _},
};

/// The most sessions that a report names of those that a limit selects and that stay.
const KEPT_NAMED_MAX: usize = 100;

impl Sweeper {
    /// Sweeps once, and keeps the report. Blocks on the disk.
    pub(super) fn sweep(&self, shared: &Shared, stop: &dyn Fn() -> bool) {
        let Some((_, policy)) = self.own else { return };
        let at = shared.clock.now();
        let swept = sweep(shared, policy, stop);
        let error = swept.as_ref().err().map(ToString::to_string);
        let mut swept = swept.unwrap_or_default();
        let kept = swept.kept.len();
        swept.kept.truncate(KEPT_NAMED_MAX);
        match &error {
            Some(error) => tracing::warn!(error, "a sweep was given up"),
            None if swept.gone.is_empty() => {}
            None => tracing::info!(removed = swept.gone.len(), bytes = swept.bytes(), "old sessions were removed"),
        }
        let mut newest = self.newest.lock();
        let number = newest.as_ref().map_or(1, |newest| newest.number + 1);
        *newest = Some(Arc::new(SweepReport { number, at, sweep: swept, kept, error }));
    }
}

/// Removes the sessions that a policy does not keep, until the runtime ends or `stop` returns `true`; then asks for the chore that
/// takes them out of the index. Blocks on the disk.
pub(crate) fn sweep(shared: &Shared, policy: SweepPolicy, stop: &dyn Fn() -> bool) -> Result<Sweep, TapeError> {
    let stop = || stop() || shared.orders.is_closed();
    let planned = sweep_plan(&*shared.store, policy, shared.clock.now(), stop)?;
    let done = sweep_through(
        planned,
        stop,
        |session| shared.store.exists(session),
        |session, seq| shared.store.delete_unused(session, seq),
    );
    shared.orders.chore(Chore::Scrub);
    done
}
