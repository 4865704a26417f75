//! Words: what all rooms speak in. They are values, and do nothing.

pub(crate) mod ids;
pub(crate) mod message;
pub(crate) mod usage;
