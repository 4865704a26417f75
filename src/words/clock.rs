//! The clock of the sessions of a runtime, and the text form of a moment ([`Millis::utc`]). A session takes the times of its
//! entries and events from the clock, and sets its deadlines by it.
//!
//! The clock reads the wall clock once, at the start of the runtime, and counts on with tokio's clock. So a wall clock that jumps
//! moves no deadline, and virtual time in tests moves all of them. A change must not compute a deadline of a session from the
//! wall clock.

use std::time::Duration;

use tokio::time::Instant;

use crate::words::ids::Millis;

impl Millis {
    /// The moment as people write it: `2026-11-25T03:04:05Z`, in UTC and to the second.
    pub(crate) fn utc(self) -> String {
        let (days, seconds) = (self.0 / 86_400_000, self.0 / 1000 % 86_400);
        // Days are counted from 1 March of the year 0, so that a leap day is the last day of its year; 400 years have 146,097 days.
        // https://howardhinnant.github.io/date_algorithms.html#civil_from_days
        let days = days + 719_468;
        let day_of_era = days % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march + 2) / 5 + 1;
        let month = if march < 10 { march + 3 } else { march - 9 };
        let year = days / 146_097 * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

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

    /// The tokio instant for a timer that is due at a moment: one millisecond after the moment, and never before it. For a moment
    /// before the start of the clock, it is one millisecond after that start.
    pub(crate) fn instant(&self, moment: Millis) -> Instant {
        // `Millis` are rounded down, so without this a timer could fire before its moment.
        self.start + moment.since(self.wall) + Duration::from_millis(1)
    }
}

#[cfg(all(test, feature = "tools"))]
mod tests {
    use super::*;

    /// As another implementation has it, over 400 years, at moments that fall on each day of the year and hour of the day.
    #[test]
    fn a_moment_is_written_as_others_write_it() {
        for n in 0..40_000 {
            let seconds = n * 315_571_i64;
            let expected = jiff::Timestamp::from_second(seconds).map(|stamp| stamp.to_string());
            assert_eq!(Some(Millis(seconds.unsigned_abs() * 1000 + 999).utc()), expected.ok());
        }
    }
}
