//! Tamtam: an in-process, supervised runtime for AI agents.

pub mod error;
pub mod event;
pub mod handle;
pub mod hook;
pub mod ids;
pub mod message;
pub mod model;
pub mod permission;
pub mod prompt;
pub mod runtime;
pub mod session;
pub mod supervisor;
pub mod tape;
pub mod tool;
#[cfg(feature = "tools")]
pub mod tools;
pub mod usage;

mod actors;

pub use error::{OpenError, SendError, StartError};
pub use event::{Event, EventKind, EventStream};
pub use handle::{Answer, Receipt, Session};
pub use ids::{CallId, MessageId, Millis, Seq, SessionId};
pub use message::{Message, ModelRef, Part};
pub use runtime::{Runtime, SessionOptions};
pub use session::{Delivery, Grant, Outcome, Steering};
