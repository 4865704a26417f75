//! What the tests share.

#[cfg(feature = "cli")]
pub(crate) mod aimock;
pub(crate) mod bomb;
pub(crate) mod copied;
#[cfg(feature = "http")]
pub(crate) mod fault_server;
#[cfg(feature = "cli")]
pub(crate) mod http;
#[cfg(feature = "cli")]
pub(crate) mod marked;
pub(crate) mod rng;
#[cfg(feature = "cli")]
pub(crate) mod said;
#[cfg(feature = "http")]
pub(crate) mod streams;
#[cfg(feature = "cli")]
pub(crate) mod tamtam;
#[cfg(feature = "cli")]
pub(crate) mod tap;
pub(crate) mod taped;
