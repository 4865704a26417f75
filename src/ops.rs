//! Operations beside the sessions: listing and sweeping them, replaying their decisions, and restoring files.

pub mod listing;
pub mod replay;
#[cfg(all(unix, feature = "tools"))]
pub mod restore;
pub mod sweep;
