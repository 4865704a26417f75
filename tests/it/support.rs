//! What the tests share.

#[cfg(feature = "http")]
pub(crate) mod fault_server;
