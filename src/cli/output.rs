//! Output on its way to stdout and stderr: in order, on threads of their own, so that a reader who takes nothing holds up
//! neither the session nor whoever stops it.
//!
//! Events wait for room ([`Output::show`]); the answer to a command does not ([`Output::put`]). After a stop was asked for
//! ([`Output::stop_waiting`]), a reader who takes nothing for [`STUCK`] counts as gone: what is not written by then is dropped, and the
//! process can end. Everything that was dropped is on the tape.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Write},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::Builder,
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::render::Show;

/// Bytes that wait for a slow reader before events wait, too.
const BYTES_MAX: usize = 1 << 20;

/// Bytes that may wait altogether, answers included, before no further line of stdin is read.
const ANSWERS_BYTES_MAX: usize = 4 << 20;

/// So much is written at a time; each time is a sign of a reader.
const CHUNK_BYTES: usize = 4 << 10;

/// How long a reader may take nothing once a stop was asked for.
const STUCK: Duration = Duration::from_millis(250);

/// Lines that wait for stderr; those beyond are dropped.
const LOG_LINES_MAX: usize = 4_096;

/// Where to show something. Clones go to the same place.
#[derive(Clone)]
pub(super) struct Output {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something came in, or nothing more is written.
    filled: Condvar,
    /// Something was written, or nothing more is.
    moved: Notify,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Show>,
    /// Of the pieces, and of the one that is being written.
    bytes: usize,
    /// How often something was written so far.
    written: u64,
    /// Since when a stop is asked for.
    stopping: Option<Instant>,
    /// Nothing is shown from here on.
    is_closed: bool,
}

impl Queue {
    /// Whether a stop waits for a reader who has taken nothing since that much was written.
    fn is_stuck(&self, written: u64) -> bool {
        let waits = self.stopping.is_some_and(|since| since.elapsed() >= STUCK);
        waits && self.bytes > 0 && self.written == written
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut queue = self.queue();
        (queue.is_closed, queue.bytes) = (true, 0);
        queue.pieces.clear();
        drop(queue);
        self.filled.notify_all();
        self.moved.notify_waiters();
    }

    /// Waits until that is so, or, while a stop is asked for, until nobody has read for [`STUCK`].
    async fn until(&self, is_so: impl Fn(&Queue) -> bool) {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            // From here on nothing that moves is missed.
            moved.as_mut().enable();
            let written = {
                let queue = self.queue();
                if is_so(&queue) {
                    return;
                }
                queue.written
            };
            if timeout(STUCK, moved).await.is_err() && self.queue().is_stuck(written) {
                self.close();
            }
        }
    }

    /// The next piece, once there is one; `None` where nothing more is to be written.
    fn next(&self) -> Option<Show> {
        let mut queue = self.queue();
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(piece) = queue.pieces.pop_front() {
                return Some(piece);
            }
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes a piece, and says after each part that somebody reads.
    fn write(&self, text: &str, to: &mut dyn Write) -> std::io::Result<()> {
        for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
            let written = to.write_all(chunk).and_then(|()| to.flush());
            let mut queue = self.queue();
            queue.bytes = queue.bytes.saturating_sub(chunk.len());
            queue.written += 1;
            drop(queue);
            self.moved.notify_waiters();
            written?;
        }
        Ok(())
    }

    fn write_all(&self) {
        while let Some(piece) = self.next() {
            let written = match piece {
                Show::Out(text) => self.write(&text, &mut std::io::stdout()),
                Show::Note(line) => {
                    // Where stderr is gone nobody misses a note.
                    drop(self.write(&(line + "\n"), &mut std::io::stderr()));
                    Ok(())
                }
            };
            if let Err(error) = written {
                if error.kind() != ErrorKind::BrokenPipe {
                    drop(writeln!(std::io::stderr(), "error: failed to write to stdout: {error}"));
                }
                return self.close();
            }
        }
    }
}

impl Output {
    /// Starts the thread, which ends with the process.
    pub(super) fn start() -> std::io::Result<Output> {
        let shared = Arc::<Shared>::default();
        let writing = shared.clone();
        Builder::new().name("output".to_owned()).spawn(move || writing.write_all())?;
        Ok(Output { shared })
    }

    /// Shows a piece as soon as there is room. What nobody reads any more is dropped.
    pub(super) async fn show(&self, piece: Show) {
        self.shared.until(|queue| queue.is_closed || queue.bytes < BYTES_MAX).await;
        self.put(piece);
    }

    /// Shows a piece, and waits for nothing.
    pub(super) fn put(&self, piece: Show) {
        let mut queue = self.shared.queue();
        if queue.is_closed {
            return;
        }
        queue.bytes += match &piece {
            Show::Out(text) => text.len(),
            Show::Note(line) => line.len() + 1,
        };
        queue.pieces.push_back(piece);
        drop(queue);
        self.shared.filled.notify_one();
    }

    /// Waits until so much is read that more may be asked.
    pub(super) async fn room_for_answers(&self) {
        self.shared.until(|queue| queue.is_closed || queue.bytes < ANSWERS_BYTES_MAX).await;
    }

    /// Whether a stop was asked for: while one was, a reader who takes nothing is not waited for.
    pub(super) fn stop_waiting(&self, is_stopping: bool) {
        let mut queue = self.shared.queue();
        queue.stopping = is_stopping.then(|| queue.stopping.unwrap_or_else(Instant::now));
    }

    /// Whether a stop was asked for.
    pub(super) fn is_stopping(&self) -> bool {
        self.shared.queue().stopping.is_some()
    }

    /// Resolves when nobody reads stdout any more.
    pub(super) async fn closed(&self) {
        self.shared.until(|queue| queue.is_closed).await;
    }

    /// Waits until all that was shown by now is written, or nobody reads it any more.
    pub(super) async fn finish(&self) {
        self.shared.until(|queue| queue.is_closed || queue.bytes == 0).await;
    }
}

/// Lines for stderr that nobody waits for: the log, and the last line of the process. Written by a thread of its own, which ends with
/// the process; a line that finds too many others before it is dropped. Clones write to the same place.
#[derive(Clone)]
pub(super) struct Lines(SyncSender<Line>);

enum Line {
    Text(Vec<u8>),
    /// All before it is written.
    End(SyncSender<()>),
}

impl Lines {
    /// Starts the thread.
    pub(super) fn start() -> std::io::Result<Lines> {
        let (lines, to_write) = sync_channel(LOG_LINES_MAX);
        Builder::new().name("stderr".to_owned()).spawn(move || Lines::write_all(to_write))?;
        Ok(Lines(lines))
    }

    fn write_all(to_write: Receiver<Line>) {
        for line in to_write {
            match line {
                // Where stderr is gone, nobody is left to be told.
                Line::Text(text) => drop(std::io::stderr().write_all(&text)),
                Line::End(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Waits until all lines are written; where nobody takes them, for [`STUCK`].
    pub(super) fn finish(&self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> Output {
        Output { shared: Arc::default() }
    }

    fn piece(bytes: usize) -> Show {
        Show::Out("x".repeat(bytes))
    }

    /// Who shows waits for a reader, who answers does not, and what is put counts.
    #[tokio::test(start_paused = true)]
    async fn who_shows_waits_for_room_and_who_answers_does_not() {
        let output = output();
        output.show(piece(BYTES_MAX)).await;
        let showing = tokio::time::timeout(Duration::from_secs(3600), output.show(piece(1)));
        assert!(showing.await.is_err(), "there was no room");
        for _ in 0..3 {
            output.put(piece(BYTES_MAX));
        }
        assert_eq!(output.shared.queue().bytes, 4 * BYTES_MAX);
        let asking = tokio::time::timeout(Duration::from_secs(3600), output.room_for_answers());
        assert!(asking.await.is_err(), "more would be asked than is read");
        output.shared.write(&"x".repeat(2 * CHUNK_BYTES), &mut std::io::sink()).unwrap_or_default();
        output.room_for_answers().await;
    }

    /// A reader who takes nothing is waited for without end; after a stop, for a moment. One who takes something now and then is
    /// waited for all the same, and so is everybody once the stop is no more.
    #[tokio::test(start_paused = true)]
    async fn after_a_stop_a_reader_who_takes_nothing_counts_as_gone() {
        let output = output();
        output.put(piece(100 * CHUNK_BYTES));
        let long = Duration::from_secs(3600);
        assert!(tokio::time::timeout(long, output.finish()).await.is_err(), "nobody asked for a stop");
        output.stop_waiting(true);
        let reading = async {
            for _ in 0..20 {
                tokio::time::sleep(STUCK * 3 / 4).await;
                output.shared.write(&"x".repeat(CHUNK_BYTES), &mut std::io::sink()).unwrap_or_default();
                assert!(!output.shared.queue().is_closed, "somebody reads");
            }
        };
        tokio::join!(reading, async { drop(tokio::time::timeout(STUCK * 15, output.finish()).await) });
        assert!(tokio::time::timeout(STUCK * 3, output.finish()).await.is_ok());
        assert!(output.shared.queue().is_closed);
        output.show(piece(1)).await;
        assert_eq!(output.shared.queue().bytes, 0, "what nobody reads is dropped");
    }
}
