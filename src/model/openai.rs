//! The wire format of OpenAI's Chat Completions, as OpenAI and all the "compatible" servers speak it.
//!
//! Rendering ([`body`]) and reading ([`Reading`]) are functions of values; [`http`](super::http) moves the bytes. A change must do
//! no I/O here; a difference of one server is a [`Quirks`](super::Quirks) field, or is tolerated when it is read.

mod body;
mod read;

pub(crate) use body::body;
pub(crate) use read::Reading;
