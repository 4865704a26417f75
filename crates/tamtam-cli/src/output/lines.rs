//! [`Lines`]: the log, and the last line of the process, on their way to stderr.

use std::{
    io::Write,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::Builder,
};

use super::STUCK;

/// Lines that may wait for stderr; further lines are dropped.
const LOG_LINES_MAX: usize = 4_096;

/// Lines for stderr that no writer waits for: the log, and the last line of the process. A thread of its own writes them, and ends
/// with the process. A line that finds [`LOG_LINES_MAX`] lines queued before it is dropped. Clones share one queue.
#[derive(Clone)]
pub(crate) struct Lines(SyncSender<Line>);

enum Line {
    Text(Vec<u8>),
    /// A marker: answered once every line before it is written.
    End(SyncSender<()>),
}

impl Lines {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Lines> {
        let (lines, to_write) = sync_channel(LOG_LINES_MAX);
        Builder::new().name("stderr".to_owned()).spawn(move || Lines::write_all(to_write))?;
        Ok(Lines(lines))
    }

    fn write_all(to_write: Receiver<Line>) {
        for line in to_write {
            match line {
                // A write to a closed stderr fails; there is no other place to report that.
                Line::Text(text) => drop(std::io::stderr().write_all(&text)),
                Line::End(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Waits until all lines queued before are written, at most for [`STUCK`]; not at all where the queue is full.
    pub(crate) fn finish(&self) {
        let (done, written) = sync_channel(1);
        if self.0.try_send(Line::End(done)).is_ok() {
            let _ = written.recv_timeout(STUCK);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        drop(self.0.try_send(Line::Text(line.to_vec())));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
