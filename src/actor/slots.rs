//! The table of the sessions that a runtime knows: those that are awake, and those whose slot a handle or a listener
//! holds.
//!
//! A session has at most one live [`Slot`]. An awake session keeps its slot alive through this table. A sleeping session whose
//! slot nobody holds has none. Of such a session the table has only that it is parked, that it was cut off in its work, or the
//! tasks that outlived its actor.
//!
//! A change must keep the lock order: a slot first, then the table. Never lock a slot, and never drop an `Arc<Slot>`, while the
//! table is locked: dropping the last one locks the table (`forget`) and would deadlock. Take the `Arc` out, unlock the table,
//! then use or drop the `Arc`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, MutexGuard, Weak},
};

use tokio_util::task::TaskTracker;

use crate::{
    actor::{
        shared::Shared,
        slot::{Admission, Slot},
    },
    lock::Lock,
    words::{ids::SessionId, labels::Labels},
};

/// The table, with its lock. See the module for the lock order.
#[derive(Default)]
pub(crate) struct Slots {
    table: Lock<Table>,
}

#[derive(Default)]
struct Table {
    admission: Admission,
    known: BTreeMap<SessionId, Weak<Slot>>,
    /// The slots of the sessions that are not passive. This map keeps them alive.
    awake: BTreeMap<SessionId, Arc<Slot>>,
    /// The parked sessions, and why each is parked. The store records it as well.
    parked: BTreeMap<SessionId, String>,
    /// Sessions whose actor went down with its supervisor while work was open. The timekeeper wakes them again.
    cut_off: BTreeSet<SessionId>,
    /// Sessions that fell asleep with reports that a full or failing disk had not taken, and how many. Until they wake.
    unrecorded: BTreeMap<SessionId, usize>,
    /// Tasks that outlived their session's actor.
    left: Vec<(SessionId, TaskTracker)>,
    /// The labels whose sessions are drained, and the slots of these sessions: they are kept, because a new slot would take messages.
    drained: (Vec<Labels>, BTreeMap<SessionId, Arc<Slot>>),
}

impl Slots {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Only whole inserts and removes happen under this lock. Never drop a slot under it: the drop takes this lock again.
        self.table.lock()
    }

    /// The slot of a session; creates it if there is none.
    pub(crate) fn slot(&self, shared: &Arc<Shared>, id: &SessionId) -> Arc<Slot> {
        let mut table = self.table();
        if let Some(slot) = table.known.get(id).and_then(Weak::upgrade) {
            return slot;
        }
        let parked = table.parked.contains_key(id);
        let slot = Arc::new(Slot::new(id.clone(), Arc::downgrade(shared), table.admission, parked));
        table.known.insert(id.clone(), Arc::downgrade(&slot));
        slot
    }

    /// The slot of a session that is awake.
    pub(crate) fn awake_one(&self, id: &SessionId) -> Option<Arc<Slot>> {
        self.table().awake.get(id).cloned()
    }

    /// The slots of all awake sessions, ordered by id.
    pub(crate) fn all_awake(&self) -> Vec<Arc<Slot>> {
        self.table().awake.values().cloned().collect()
    }

    /// How many sessions are awake.
    pub(crate) fn awake_count(&self) -> usize {
        self.table().awake.len()
    }

    /// How many slots exist: of awake sessions, and those that somebody holds.
    #[cfg(test)]
    pub(crate) fn known_count(&self) -> usize {
        self.table().known.len()
    }

    /// Sets the admission of all known and all future slots, and returns the known ones. Admission only ever narrows: a slot that
    /// admits less already keeps that.
    pub(crate) fn set_admission(&self, admission: Admission) -> Vec<Arc<Slot>> {
        let mut table = self.table();
        table.admission = table.admission.max(admission);
        let slots: Vec<_> = table.known.values().filter_map(Weak::upgrade).collect();
        drop(table);
        slots.iter().for_each(|slot| slot.set_admission(admission));
        slots
    }

    /// Notes that no further session is to be made with these labels.
    pub(crate) fn note_drained(&self, labels: &Labels) {
        let mut table = self.table();
        if !table.drained.0.contains(labels) {
            table.drained.0.push(labels.clone());
        }
    }

    /// Whether no session is to be made with these labels.
    pub(crate) fn is_drained(&self, labels: &Labels) -> bool {
        self.table().drained.0.iter().any(|drained| labels.have(drained))
    }

    /// Has a session take no messages until the runtime ends, also when it sleeps.
    pub(crate) fn keep_drained(&self, slot: Arc<Slot>) {
        slot.set_admission(Admission::Draining);
        let before = self.table().drained.1.insert(slot.id.clone(), slot);
        drop(before);
    }

    /// Lets go of a session that is deleted.
    pub(crate) fn drop_drained(&self, id: &SessionId) {
        let gone = self.table().drained.1.remove(id);
        drop(gone);
    }

    /// Whether the runtime takes work.
    pub(crate) fn admission(&self) -> Admission {
        self.table().admission
    }

    /// Records that a session is awake. The caller holds the slot's lock.
    pub(super) fn awake(&self, slot: &Arc<Slot>) {
        let mut table = self.table();
        table.cut_off.remove(&slot.id);
        table.unrecorded.remove(&slot.id);
        let before = table.awake.insert(slot.id.clone(), slot.clone());
        drop(table);
        drop(before);
    }

    /// Records that a session is passive. `cut_off` if its work was; `left` are its tasks that still run: the end of the runtime
    /// waits for them. The caller holds the slot and its lock.
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

    /// Notes that reports of a session went with its mailbox, because the disk had not taken them.
    pub(super) fn went_unrecorded(&self, id: &SessionId, reports: usize) {
        tracing::warn!(session = %id, reports, "the disk did not take what was reported, so it is lost");
        self.table().unrecorded.insert(id.clone(), reports);
    }

    /// The sessions that sleep without what was reported to them.
    pub(crate) fn unrecorded(&self) -> Vec<(SessionId, usize)> {
        self.table().unrecorded.iter().map(|(id, reports)| (id.clone(), *reports)).collect()
    }

    /// Removes a slot that has been dropped. Called from the slot's own `Drop`.
    pub(super) fn forget(&self, id: &SessionId) {
        let mut table = self.table();
        // A new slot of this id may have been created meanwhile.
        if table.known.get(id).is_some_and(|slot| slot.strong_count() == 0) {
            table.known.remove(id);
        }
    }

    /// Takes out the sessions that went down with their supervisor while work was open. Each is returned once.
    pub(crate) fn take_cut_off(&self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.table().cut_off)
    }

    /// Takes out the tasks that outlived their session's actor.
    pub(crate) fn take_left(&self) -> Vec<(SessionId, TaskTracker)> {
        std::mem::take(&mut self.table().left)
    }

    /// The number of a session's newest incarnation; 0 if the session has no slot or no incarnation yet.
    pub(crate) fn newest_incarnation(&self, id: &SessionId) -> u32 {
        let slot = self.table().known.get(id).and_then(Weak::upgrade);
        slot.map_or(0, |slot| slot.newest_incarnation())
    }

    /// Parks a session after incarnation `after`, and refuses everything that waits in its slot. Changes nothing if a later
    /// incarnation has begun: then the session was unparked meanwhile.
    pub(crate) fn park(&self, id: &SessionId, after: u32, why: String) {
        let mut table = self.table();
        let Some(slot) = table.known.get(id).and_then(Weak::upgrade) else {
            table.parked.insert(id.clone(), why);
            return;
        };
        drop(table);
        slot.park(after, || drop(self.table().parked.insert(id.clone(), why)));
    }

    /// Why a session is parked; `None` if it is not.
    pub(crate) fn why_parked(&self, id: &SessionId) -> Option<String> {
        self.table().parked.get(id).cloned()
    }

    /// Unparks a session. Returns whether it was parked.
    pub(crate) fn unpark(&self, id: &SessionId) -> bool {
        let mut table = self.table();
        let was_parked = table.parked.remove(id).is_some();
        let slot = table.known.get(id).and_then(Weak::upgrade);
        drop(table);
        slot.is_some_and(|slot| slot.unpark()) || was_parked
    }

    /// All parked sessions, each with the reason.
    pub(crate) fn parked(&self) -> Vec<(SessionId, String)> {
        self.table().parked.iter().map(|(id, why)| (id.clone(), why.clone())).collect()
    }
}
