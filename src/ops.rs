//! Operations on a store without its sessions: list them, sweep them, restore the files that they changed, replay their decisions.
//!
//! None of them needs a runtime; a runtime offers most of them as methods. All of them block on the disk, so they do not belong
//! on an async thread. The exception is a replay that has been opened: it is all in memory.
//!
//! A change must keep this room free of actors, so that a program without a runtime can use it. An operation may read tapes
//! alongside a working session; it may write to a tape, or remove one, only under the session's claim, because one process writes a
//! tape.

pub(crate) mod listing;
pub(crate) mod remembered;
pub mod replay;
#[cfg(all(unix, feature = "tools"))]
pub(crate) mod restore;
pub(crate) mod sweep;
pub(crate) mod taped;

pub use crate::kernel::Parent;
pub use listing::{ListedSession, SessionCursor, SessionPage, SessionQuery, sessions};
#[cfg(all(unix, feature = "tools"))]
pub use restore::{FilePlan, FileStep, PlannedFile, Restore, RestoreError, Restored, changes, offline};
pub use sweep::{KeptReason, KeptSession, Sweep, SweepPolicy, SweepReason, SweptSession, sweep_plan, sweep_planned};
