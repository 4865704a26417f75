//! What these tests share, and what they share with those of the library.

pub(crate) mod aimock;
#[allow(dead_code, reason = "the tests of the library use more of it")]
#[path = "../../../../tests/it/support/fault_server.rs"]
pub(crate) mod fault_server;
pub(crate) mod http;
#[path = "../../../../tests/it/support/marked.rs"]
pub(crate) mod marked;
#[allow(dead_code, reason = "the tests of the library use more of it")]
#[path = "../../../../tests/it/support/rng.rs"]
pub(crate) mod rng;
pub(crate) mod said;
#[allow(dead_code, reason = "the tests of the library use more of it")]
#[path = "../../../../tests/it/support/streams.rs"]
pub(crate) mod streams;
#[path = "../../../../tests/it/support/strict.rs"]
pub(crate) mod strict;
pub(crate) mod tamtam;
pub(crate) mod tap;
#[path = "../../../../tests/it/support/taped.rs"]
pub(crate) mod taped;
