//! Tamtam: an in-process, supervised runtime for AI agents.

mod actors;
pub mod ids;
pub mod message;
pub mod model;
pub mod supervisor;
pub mod tape;
pub mod tool;
pub mod usage;

pub use ids::{CallId, MessageId, Millis, Seq, SessionId};
pub use message::{Message, ModelRef, Part};
