//! What is done beside the sessions: listing and sweeping them, making their decisions again, and putting files back.

pub mod listing;
pub mod replay;
#[cfg(all(unix, feature = "tools"))]
pub mod restore;
pub mod sweep;
