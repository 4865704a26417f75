//! Tamtam: an in-process, supervised runtime for AI agents.

pub mod ids;
pub mod message;
pub mod model;
#[cfg(all(unix, feature = "tools"))]
pub mod process;
pub mod tape;
pub mod tool;
#[cfg(all(unix, feature = "tools"))]
pub mod tools;
pub mod usage;

pub use ids::{CallId, MessageId, Millis, Seq, SessionId};
pub use message::{Message, ModelRef, Part};
