//! The tape store's child of the root: it looks after the store, and no append goes through it.
//!
//! Sessions append by their own handles, and the queue to the disk is a value that outlives its thread. So when this child
//! crashes, sessions do not notice; what it was about to do it does in its next life.

use std::{sync::Arc, time::Duration};

use crate::{
    actors::{host::Host, undone::show_undone},
    supervisor::ChildContext,
    tape::Store,
    tool::truncate::RETENTION,
};

/// How often outputs that are too old are deleted.
const TIDY_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// What it does until it is told to stop: deletes large outputs that are too old, at the start and once a day, and makes the
/// disk's reserve again when a session has used it. Shows what could not be cleaned up when the store was opened. Where the tapes are not kept in files there is nothing to look after.
pub(crate) async fn look_after_store(host: Arc<Host>, cx: ChildContext) {
    loop {
        if let Some(store) = host.store.files().cloned() {
            let stop = cx.clone();
            cx.card().doing("deletes old outputs");
            // It looks whether it must stop after each session, so this is never waited for long.
            drop(host.tokio.spawn_blocking(move || tidy(&store, &stop)).await);
        }
        show_undone(&host, cx.card());
        let next = tokio::time::Instant::now() + TIDY_EVERY;
        loop {
            tokio::select! {
                () = cx.stopping() => return,
                () = tokio::time::sleep_until(next) => break,
                () = host.tape_chores.notified() => {
                    let Some(store) = host.store.files().cloned() else { continue };
                    // Without room for it the reserve is made another time.
                    drop(host.tokio.spawn_blocking(move || store.remake_reserve()).await);
                }
            }
        }
    }
}

fn tidy(store: &Store, stop: &ChildContext) {
    let removed = store.tidy_spills(RETENTION, || stop.is_stopping());
    if removed > 0 {
        tracing::info!(removed, "old outputs were removed");
    }
}
