//! The tape: the append-only record of a session, and the only thing that a session is recovered from.
//!
//! This layer knows lines, files and checksums; what the entries mean is `session`'s business.

mod entry;

pub use entry::{Cause, Entry};
