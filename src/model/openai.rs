//! The wire format of OpenAI's Chat Completions, as OpenAI and the "compatible" servers speak it: how a request is rendered
//! ([`body`]) and how the answer's stream is read ([`ChatReading`]).
//!
//! Both do no I/O: `super::http` sends the bytes and feeds the events. A change must keep that, so that tests need no server. What
//! one server wants differently is a [`Quirks`](super::Quirks) field; what it sends differently is tolerated by the reading.

mod body;
mod read;

pub(crate) use body::body;
pub(crate) use read::ChatReading;
