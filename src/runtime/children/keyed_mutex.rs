//! One lane for each child: two callers bring up the same child one after the other, and different children at the same time.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, Weak},
};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{lock::Lock, words::ids::SessionId};

/// A lane for each child that somebody brings up, or waits to. Those for nobody are gone.
#[derive(Default)]
pub(super) struct KeyedMutex(Lock<BTreeMap<SessionId, Weak<Mutex<()>>>>);

/// A place in the lane of one child. Dropped, it lets the next one in, in the order in which they came.
pub(super) struct Lane {
    keyed_mutex: Arc<KeyedMutex>,
    child: SessionId,
    lane: Option<Arc<Mutex<()>>>,
    turn: Option<OwnedMutexGuard<()>>,
}

impl KeyedMutex {
    fn table(&self) -> MutexGuard<'_, BTreeMap<SessionId, Weak<Mutex<()>>>> {
        // Each change under this lock is whole before anything can panic.
        self.0.lock()
    }

    fn of(&self, child: &SessionId) -> Arc<Mutex<()>> {
        let mut table = self.table();
        let lane = table.get(child).and_then(Weak::upgrade).unwrap_or_default();
        table.insert(child.clone(), Arc::downgrade(&lane));
        lane
    }

    /// Returns when it is this one's turn.
    pub(super) async fn enter(self: &Arc<Self>, child: &SessionId) -> Lane {
        let lane = self.of(child);
        // Made first, so that whoever stops waiting clears up too.
        let mut place = Lane { keyed_mutex: self.clone(), child: child.clone(), lane: Some(lane.clone()), turn: None };
        place.turn = Some(lane.lock_owned().await);
        place
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut table = self.keyed_mutex.table();
        (self.turn, self.lane) = (None, None);
        if table.get(&self.child).is_some_and(|lane| lane.strong_count() == 0) {
            table.remove(&self.child);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_child_is_one_lane_and_holds_up_no_other() {
        let keyed_mutex = Arc::<KeyedMutex>::default();
        let [a, b] = ["a", "q"].map(|id| id.parse::<SessionId>().unwrap());
        let first = keyed_mutex.enter(&a).await;
        let second =
            timeout(Duration::from_secs(1), keyed_mutex.enter(&b)).await.expect("another child has a lane of its own");
        assert!(timeout(Duration::from_secs(1), keyed_mutex.enter(&a)).await.is_err(), "it is not its turn");
        assert_eq!(keyed_mutex.table().len(), 2);
        drop(first);
        let again = timeout(Duration::from_secs(1), keyed_mutex.enter(&a)).await.unwrap();
        drop((again, second));
        assert!(keyed_mutex.table().is_empty(), "nothing is left of a lane that nobody is in");
    }
}
