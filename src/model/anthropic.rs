//! The wire format of Anthropic's Messages API: how a request is rendered ([`body`]) and how the answer's stream is read
//! ([`MessagesReading`]).
//!
//! Both do no I/O: `super::http` sends the bytes and feeds the events. A change must keep that, so that tests need no server, and
//! must fit the API version below, which each request names.

mod body;
mod read;

pub(crate) use body::body;
pub(crate) use read::MessagesReading;

/// The version of the API that rendering and reading follow; sent as `anthropic-version`.
pub(crate) const VERSION: &str = "2023-06-01";
