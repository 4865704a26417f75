//! The clock of sessions: the times of entries and events are taken from it, and the deadlines of sessions are set by it.
//!
//! It reads the wall clock once, at the start of the runtime, and counts on with tokio's clock. So a wall clock that jumps moves
//! no deadline, and virtual time in tests moves all of them. A change must not compute a deadline from the wall clock.

use std::time::Duration;

use tokio::time::Instant;

use crate::words::ids::Millis;

/// The clock of sessions: the wall clock at the start of the runtime, plus the time that tokio's clock has counted since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Millis,
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { wall: Millis::now(), start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Millis {
        self.wall.plus(self.start.elapsed())
    }

    /// This clock, moved forward if necessary so that it reads `moment` or later. For a session whose tape was written by a clock
    /// ahead of this one: its waits keep their length and do not grow by the difference.
    pub(crate) fn not_before(self, moment: Millis) -> Clock {
        Clock { wall: self.wall.plus(moment.since(self.now())), ..self }
    }

    /// The tokio instant of a moment, for a timer: at most one millisecond after the moment, and never before it.
    pub(crate) fn instant(&self, moment: Millis) -> Instant {
        // `Millis` are rounded down, so without this a timer could fire before its moment.
        self.start + moment.since(self.wall) + Duration::from_millis(1)
    }
}
