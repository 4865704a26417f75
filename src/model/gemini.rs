//! The wire format of Gemini's own API, `streamGenerateContent`: how a request is rendered ([`body`]) and how the answer's stream is
//! read ([`GeminiReading`]).
//!
//! Both do no I/O: `super::http` sends the bytes and feeds the events. A change must keep that, so that tests need no server.

mod body;
mod read;

pub(crate) use body::body;
pub(crate) use read::GeminiReading;

/// The field next to a part that holds the signature of the thought behind it. It is also the name under which it is kept.
const SIGNATURE: &str = "thoughtSignature";
