//! The progress of a long command, on stderr: on a terminal one line that is overwritten, elsewhere a line now and then.

use std::{
    io::{IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use super::escape;

/// How often it is shown on a terminal.
const ON_TERMINAL: Duration = Duration::from_millis(100);
/// How often it is written elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(10);

/// Shows nothing of what is done before its first interval is over.
pub(super) struct Progress {
    on_terminal: bool,
    last: Instant,
    shown: bool,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress { on_terminal: std::io::stderr().is_terminal(), last: Instant::now(), shown: false }
    }

    /// Shows it where it is time to. Where stderr is gone, nobody wants to know.
    pub(super) fn show(&mut self, done: &str) {
        if self.last.elapsed() < if self.on_terminal { ON_TERMINAL } else { ELSEWHERE } {
            return;
        }
        (self.last, self.shown) = (Instant::now(), true);
        let (before, behind) = if self.on_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        let mut stderr = std::io::stderr().lock();
        drop(write!(stderr, "{before}{}{behind}", escape::line(done)).and_then(|()| stderr.flush()));
    }

    /// A line that stays.
    pub(super) fn warn(what: &str) {
        drop(writeln!(std::io::stderr(), "warning: {}", escape::line(what)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.on_terminal && self.shown {
            drop(write!(std::io::stderr(), "\r\x1b[K"));
        }
    }
}
