//! What is done to a store beside its sessions: list them, sweep them, restore the files that they changed, replay their decisions.
//!
//! Nothing here needs a runtime; a runtime offers most of it as methods of its own. All of it blocks on the disk.

pub(crate) mod listing;
pub mod replay;
#[cfg(all(unix, feature = "tools"))]
pub(crate) mod restore;
pub(crate) mod sweep;
pub(crate) mod taped;

pub use crate::kernel::Parent;
pub use listing::{
    BadSessionCursor, ListCost, ListedSession, SessionCursor, SessionPage, SessionQuery, Shape, sessions,
};
#[cfg(all(unix, feature = "tools"))]
pub use restore::{FilePlan, PlannedFile, Restore, RestoreError, Restored, Step, changes, offline};
pub use sweep::{
    KeptReason, KeptSession, Sweep, SweepPolicy, SweepReason, SweptSession, sweep, sweep_plan, sweep_planned,
};
