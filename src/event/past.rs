//! The past of a session in front of its live events: read from the tape a page at a time, when the reader of the stream comes to it.
//!
//! A stream holds one page, and the reading of the next one, so a long tape costs what a page costs, however slow the reader is. The
//! one who makes a [`Past`] says what a page is; nothing here reads a tape.

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::{event::Event, words::ids::Seq};

/// A page of past events.
pub(crate) struct PastPage {
    /// The events, oldest first.
    pub(crate) events: Vec<Arc<Event>>,
    /// The last entry that was read.
    pub(crate) through: Seq,
    /// What comes after it; `None` if the tape had no more.
    pub(crate) rest: Option<Past>,
}

/// A part of the past that is not read yet. The call begins to read its first page, without waiting; the answer is `None` if the
/// tape cannot be read any further.
pub(crate) type Past = Box<dyn FnOnce() -> Reading + Send + Sync>;

/// A page that is being read.
pub(crate) type Reading = JoinHandle<Option<PastPage>>;
