//! The supervision tree of a runtime: its children, their start order, and how often each may crash.
//!
//! A crash in one branch restarts nothing in another. The tape store, a session or a host's child that crashes too often is parked:
//! kept stopped for a while, or, a session, until it is unparked. The crashes of all the root's own children (the supervisors and
//! the timekeeper) are counted together; more than 3 in 30 s end the tree, and `close_with` then closes the runtime to callers.
//!
//! A change must keep the order of the root's children. They start from first to last and stop from last to first: the host's
//! children may use sessions to their end, and the sessions are down before the tape store that opened their tapes.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use crate::{
    actor::{shared::Shared, tape_store::tape_store, timekeeper::keep_time},
    error::StartError,
    supervisor::{ChildSpec, Intensity, OnExhausted, Strategy, SupervisorHandle, SupervisorSpec},
};

/// The spec of the root, and the handles of the supervisors whose children come and go.
pub(super) struct Tree {
    pub(super) root: SupervisorSpec,
    /// The supervisor of the governors' actors.
    pub(super) governors: SupervisorHandle,
    pub(super) sessions: SupervisorHandle,
    pub(super) compactions: SupervisorHandle,
    /// The supervisor of what tools share.
    pub(super) tools: SupervisorHandle,
    /// The supervisor of the host's own children.
    pub(super) host_children: SupervisorHandle,
}

pub(super) fn tree(shared: &Arc<Shared>, children: Vec<ChildSpec>) -> Result<Tree, StartError> {
    let supervisor = |spec| ChildSpec::supervisor(spec).map_err(crate::supervisor::TreeError::from);
    // Sessions that are awake work on without the tape store. So after too many crashes its supervisor keeps it stopped for a
    // while, and does not end.
    let tapes = SupervisorSpec::dynamic("tapes")
        .intensity(Intensity::new(3, Duration::from_secs(30)))
        .on_exhausted(OnExhausted::Park)
        .park_for(Duration::from_secs(30))
        .child(tape_store(shared));
    let (tapes, _) = supervisor(tapes)?;
    // A governor works on without its actor, so after too many crashes the actor is kept stopped for a while.
    let governors = SupervisorSpec::dynamic("models")
        .intensity(Intensity::new(3, Duration::from_secs(30)))
        .on_exhausted(OnExhausted::Park)
        .park_for(Duration::from_secs(30));
    let (models, governors) = supervisor(governors)?;
    let (tools_child, tools) = supervisor(super::host::shared_by_tools())?;
    // At most 2 restarts in 60 s; the third crash parks that one session only.
    let sessions = SupervisorSpec::dynamic("sessions")
        .intensity(Intensity::new(2, Duration::from_secs(60)))
        .on_exhausted(OnExhausted::Park)
        .max_children(shared.keeper.awake_limit());
    let (sessions_child, sessions) = supervisor(sessions)?;
    // At most one for each awake session, and never restarted. So they need no bound, and exhaust no intensity.
    let (compactions_child, compactions) = supervisor(SupervisorSpec::dynamic("compactions"))?;
    let (for_keeper, of_keeper) = (shared.clone(), sessions.clone());
    let timekeeper = ChildSpec::new("timekeeper", move |cx| {
        let (shared, sessions) = (for_keeper.clone(), of_keeper.clone());
        async move {
            keep_time(shared, sessions, cx).await;
            Ok(())
        }
    });
    let (host_branch, host_children) = super::host::supervisor(children)?;
    let root = SupervisorSpec::new("runtime", Strategy::OneForOne)
        .intensity(Intensity::new(3, Duration::from_secs(30)))
        .child(tapes)
        .child(models)
        .child(tools_child)
        .child(compactions_child)
        .child(sessions_child)
        .child(timekeeper.labelled("timekeeper"))
        // The host's children come last, so they stop first: they may use sessions to their end.
        .child(host_branch);
    Ok(Tree { root, governors, sessions, compactions, tools, host_children })
}

/// Closes the runtime when its tree has ended for any reason, so that handles answer `Closed` instead of letting their senders
/// wait. The same if the tokio runtime of the tree ends first: its tasks are dropped then, and no actor is left to answer.
pub(super) fn close_with(shared: &Arc<Shared>, root: SupervisorHandle) {
    let mut lost = Lost(Arc::downgrade(shared));
    tokio::spawn(async move {
        root.ended().await;
        if let Some(shared) = std::mem::take(&mut lost.0).upgrade() {
            shared.close();
        }
    });
}

/// Closes the runtime when it is dropped with the tokio runtime that the actors ran on. Empty once the tree has ended.
struct Lost(Weak<Shared>);

impl Drop for Lost {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.close().iter().for_each(|slot| {
                slot.close_ring();
                slot.give_up();
            });
        }
    }
}
