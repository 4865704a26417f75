//! The wire format of Anthropic's Messages.
//!
//! Rendering ([`body`]) and reading ([`Reading`]) are functions of values; [`http`](super::http) moves the bytes. A change must do
//! no I/O here, and must fit the API version below.

mod body;
mod read;

pub(crate) use body::body;
pub(crate) use read::Reading;

/// The version of the API that rendering and reading follow; sent as `anthropic-version`.
pub(crate) const VERSION: &str = "2023-06-01";
