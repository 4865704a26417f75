//! One lane for each child: two callers bring up the same child one after the other, and different children at the same time.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, Weak},
};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{lock::Lock, words::ids::SessionId};

/// A lane for each child that somebody brings up, or waits to. Those for nobody are gone.
#[derive(Default)]
pub(super) struct Lanes(Lock<BTreeMap<SessionId, Weak<Mutex<()>>>>);

/// A place in the lane of one child. Dropped, it lets the next one in, in the order in which they came.
pub(super) struct Lane {
    lanes: Arc<Lanes>,
    child: SessionId,
    lane: Option<Arc<Mutex<()>>>,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Lanes {
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
        let mut place = Lane { lanes: self.clone(), child: child.clone(), lane: Some(lane.clone()), turn: None };
        place.turn = Some(lane.lock_owned().await);
        place
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut table = self.lanes.table();
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
        let lanes = Arc::<Lanes>::default();
        let [a, b] = ["a", "q"].map(|id| id.parse::<SessionId>().unwrap());
        let first = lanes.enter(&a).await;
        let second =
            timeout(Duration::from_secs(1), lanes.enter(&b)).await.expect("another child has a lane of its own");
        assert!(timeout(Duration::from_secs(1), lanes.enter(&a)).await.is_err(), "it is not its turn");
        assert_eq!(lanes.table().len(), 2);
        drop(first);
        let again = timeout(Duration::from_secs(1), lanes.enter(&a)).await.unwrap();
        drop((again, second));
        assert!(lanes.table().is_empty(), "nothing is left of a lane that nobody is in");
    }
}
