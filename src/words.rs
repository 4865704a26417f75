//! Words: what all rooms speak in. They are values, and do nothing.

pub mod ids;
pub mod message;
pub mod usage;
