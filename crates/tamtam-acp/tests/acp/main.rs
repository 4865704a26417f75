//! The Agent Client Protocol over pipes in memory: one runtime, any number of clients, frames as they are on the wire.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub)]

mod choices;
mod hostile;
mod lab;
mod load;
mod steer;
mod talk;
mod unsaved;
