//! Shows the progress of a long command on stderr: one overwritten line on a terminal, elsewhere a line now and then. Also warns of
//! a list or a search that may lack entries ([`lack`]).
//!
//! Every text is escaped, and a failed write is ignored. A write goes to stderr directly and may block there, so a running
//! session must not use this module.

use std::{
    io::{IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use tamtam::tape::Behind;

use super::escape;

/// Least time between two updates on a terminal.
const ON_TERMINAL: Duration = Duration::from_millis(100);
/// Least time between two lines elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(10);

/// The progress of one command. Nothing is shown during the first interval, so a quick command shows none. On a terminal, the drop
/// clears the line: drop it before anything else is printed, or the text continues that line.
pub(super) struct Progress {
    on_terminal: bool,
    /// When something was last shown; at first, the start.
    last: Instant,
    shown: bool,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress { on_terminal: std::io::stderr().is_terminal(), last: Instant::now(), shown: false }
    }

    /// Shows the progress, at most once per interval.
    pub(super) fn show(&mut self, done: &str) {
        if self.last.elapsed() < if self.on_terminal { ON_TERMINAL } else { ELSEWHERE } {
            return;
        }
        (self.last, self.shown) = (Instant::now(), true);
        let (before, behind) = if self.on_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        let mut stderr = std::io::stderr().lock();
        drop(write!(stderr, "{before}{}{behind}", escape::line(done)).and_then(|()| stderr.flush()));
    }

    /// Writes a warning as a line that stays.
    pub(super) fn warn(what: &str) {
        drop(writeln!(std::io::stderr(), "warning: {}", escape::line(what)));
    }
}

/// Why a list or a search may lack entries; `None` where it lacks none.
pub(super) fn lack(behind: Behind) -> Option<String> {
    match behind {
        Behind::No => None,
        Behind::Sessions(count) => Some(format!("{count} sessions are not completely indexed")),
        Behind::Unknown => Some("another process is writing the index".to_owned()),
        _ => Some("the index is behind".to_owned()),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.on_terminal && self.shown {
            drop(write!(std::io::stderr(), "\r\x1b[K"));
        }
    }
}
