//! What the tests share.

pub(crate) mod bomb;
pub(crate) mod copied;
#[cfg(feature = "http")]
pub(crate) mod fault_server;
#[cfg(feature = "tools")]
#[allow(dead_code, reason = "the tests of the program use more of it")]
pub(crate) mod marked;
#[allow(dead_code, reason = "the tests of the program use more of it")]
pub(crate) mod rng;
#[cfg(all(unix, feature = "websocket"))]
pub(crate) mod socket_server;
#[cfg(feature = "http")]
pub(crate) mod streams;
#[cfg(feature = "http")]
pub(crate) mod strict;
pub(crate) mod taped;
