//! The wire format of OpenAI's Responses API: how a request is rendered ([`body`]) and how the answer's stream is read
//! ([`ResponsesReading`]).
//!
//! Both do no I/O: `super::http` sends the bytes and feeds the events. A change must keep that, so that tests need no server, and
//! must keep nothing on the server: a request that relies on what a server kept cannot be made again elsewhere.

mod body;
mod read;

pub(crate) use body::body;
#[cfg(feature = "websocket")]
pub(crate) use body::{create, is_reminded, steer};
pub(crate) use read::ResponsesReading;
#[cfg(feature = "websocket")]
pub(crate) use read::said_usage;
