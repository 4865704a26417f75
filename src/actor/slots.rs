//! The sessions that a runtime knows: those that are awake, and those that have a handle somewhere.
//!
//! A sleeping session without a handle costs nothing here; only its tape is left of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, MutexGuard, Weak},
};

use tokio_util::task::TaskTracker;

use crate::{
    actor::{
        host::Host,
        slot::{Admission, Slot},
    },
    lock::Lock,
    words::ids::SessionId,
};

/// See the module. A slot's own lock may be held when this one is taken, and never the other way round.
#[derive(Default)]
pub(crate) struct Slots {
    table: Lock<Table>,
}

#[derive(Default)]
struct Table {
    admission: Admission,
    known: BTreeMap<SessionId, Weak<Slot>>,
    /// Those that are not passive. This keeps them.
    awake: BTreeMap<SessionId, Arc<Slot>>,
    /// Sessions that are kept stopped, and why; written down in the store as well.
    parked: BTreeMap<SessionId, String>,
    /// Sessions whose actor went with its supervisor in the middle of something.
    cut_off: BTreeSet<SessionId>,
    /// Tasks that outlived their session's actor.
    left: Vec<(SessionId, TaskTracker)>,
}

impl Slots {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Only whole inserts and removes happen under this lock. No slot is dropped under it: that takes it again.
        self.table.lock()
    }

    /// The slot of a session, made where there is none.
    pub(crate) fn slot(&self, host: &Arc<Host>, id: &SessionId) -> Arc<Slot> {
        let mut table = self.table();
        if let Some(slot) = table.known.get(id).and_then(Weak::upgrade) {
            return slot;
        }
        let parked = table.parked.contains_key(id);
        let slot = Arc::new(Slot::new(id.clone(), Arc::downgrade(host), table.admission, parked));
        table.known.insert(id.clone(), Arc::downgrade(&slot));
        slot
    }

    /// The slot of a session that is awake.
    pub(crate) fn awake_one(&self, id: &SessionId) -> Option<Arc<Slot>> {
        self.table().awake.get(id).cloned()
    }

    /// Those that are awake, by id.
    pub(crate) fn all_awake(&self) -> Vec<Arc<Slot>> {
        self.table().awake.values().cloned().collect()
    }

    /// How many are awake.
    pub(crate) fn awake_count(&self) -> usize {
        self.table().awake.len()
    }

    /// How many are known: awake, or held by somebody.
    #[cfg(test)]
    pub(crate) fn known_count(&self) -> usize {
        self.table().known.len()
    }

    /// Sets what the slots that are known, and those that will be, admit; one that admits less already stays so. Gives all slots.
    pub(crate) fn set_admission(&self, admission: Admission) -> Vec<Arc<Slot>> {
        let mut table = self.table();
        table.admission = table.admission.max(admission);
        let slots: Vec<_> = table.known.values().filter_map(Weak::upgrade).collect();
        drop(table);
        slots.iter().for_each(|slot| slot.set_admission(admission));
        slots
    }

    /// Whether sessions are opened.
    pub(crate) fn admission(&self) -> Admission {
        self.table().admission
    }

    /// A session wakes up.
    pub(super) fn awake(&self, slot: &Arc<Slot>) {
        let mut table = self.table();
        table.cut_off.remove(&slot.id);
        let before = table.awake.insert(slot.id.clone(), slot.clone());
        drop(table);
        drop(before);
    }

    /// A session is passive; tasks that are still there are remembered for the end.
    pub(super) fn asleep(&self, id: &SessionId, cut_off: bool, left: Option<TaskTracker>) {
        let mut table = self.table();
        if cut_off {
            table.cut_off.insert(id.clone());
        }
        table.left.retain(|(_, tasks)| !tasks.is_empty());
        table.left.extend(left.map(|tasks| (id.clone(), tasks)));
        let slot = table.awake.remove(id);
        drop(table);
        drop(slot);
    }

    /// A slot was dropped: nobody holds it, and it sleeps.
    pub(super) fn forget(&self, id: &SessionId) {
        let mut table = self.table();
        // There may be a new one of this name already.
        if table.known.get(id).is_some_and(|slot| slot.strong_count() == 0) {
            table.known.remove(id);
        }
    }

    /// The sessions that went down with their supervisor in the middle of something, once.
    pub(crate) fn take_cut_off(&self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.table().cut_off)
    }

    /// Tasks that outlived their session's actor.
    pub(crate) fn take_left(&self) -> Vec<(SessionId, TaskTracker)> {
        std::mem::take(&mut self.table().left)
    }

    /// The number of a session's newest incarnation; 0 where nobody knows of one.
    pub(crate) fn newest_incarnation(&self, id: &SessionId) -> u32 {
        let slot = self.table().known.get(id).and_then(Weak::upgrade);
        slot.map_or(0, |slot| slot.newest_incarnation())
    }

    /// Notes that a session is kept stopped after its incarnation of that number, and refuses what waits for it. Where a later incarnation has
    /// begun, it was unparked meanwhile, and nothing changes.
    pub(crate) fn park(&self, id: &SessionId, after: u32, why: String) {
        let mut table = self.table();
        let Some(slot) = table.known.get(id).and_then(Weak::upgrade) else {
            table.parked.insert(id.clone(), why);
            return;
        };
        drop(table);
        slot.park(after, || drop(self.table().parked.insert(id.clone(), why)));
    }

    /// Why a session is kept stopped, where it is.
    pub(crate) fn why_parked(&self, id: &SessionId) -> Option<String> {
        self.table().parked.get(id).cloned()
    }

    /// Notes that a session may run again. Whether it was kept stopped.
    pub(crate) fn unpark(&self, id: &SessionId) -> bool {
        let mut table = self.table();
        let was_parked = table.parked.remove(id).is_some();
        let slot = table.known.get(id).and_then(Weak::upgrade);
        drop(table);
        slot.is_some_and(|slot| slot.unpark()) || was_parked
    }

    /// The sessions that are kept stopped, and why.
    pub(crate) fn parked(&self) -> Vec<(SessionId, String)> {
        self.table().parked.iter().map(|(id, why)| (id.clone(), why.clone())).collect()
    }
}
