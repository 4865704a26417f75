//! Writes the output of a running session on threads of its own, so that a reader that does not read cannot block a stop.
//!
//! [`Output`] keeps the order of events, answers and notes, on stdout and stderr. [`Lines`] writes the log to stderr. No order
//! holds between the two.
//!
//! [`Output::show`] carries events, and waits for room. [`Output::put`] carries answers and notes: it must never wait, and has no
//! bound of its own, so a caller that answers line after line awaits [`Output::room_for_answers`] between them. While a stop is
//! requested ([`Output::set_stopping`]) and something waits for the output, a reader that takes nothing for [`STUCK`] counts as
//! gone: the queue is closed and its rest is dropped. A dropped durable event is still on the tape; dropped answers, deltas, notes
//! and log lines are lost.
//!
//! A change must keep this: `Queue::bytes` is 0 once every piece is written or given up; and every condition passed to
//! `Shared::until` holds for a closed queue. Otherwise [`Output::finish`] might never return.

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

/// Bytes that may wait for a slow reader; beyond, events wait for room.
const BYTES_MAX: usize = 1 << 20;

/// Bytes that may wait in all, answers included; beyond, no further line of stdin but an abort is carried out.
const ANSWERS_BYTES_MAX: usize = 4 << 20;

/// Bytes of one write. Each completed write proves that somebody reads.
const CHUNK_BYTES: usize = 4 << 10;

/// How long a reader may take nothing while a stop is requested, before it counts as gone.
const STUCK: Duration = Duration::from_millis(250);

/// Lines that may wait for stderr; further lines are dropped.
const LOG_LINES_MAX: usize = 4_096;

/// A handle of the output queue. Clones share one queue.
#[derive(Clone)]
pub(super) struct Output {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Notified when a piece is queued, and on close.
    filled: Condvar,
    /// Notified after each written chunk, and on close.
    moved: Notify,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Show>,
    /// Bytes not written yet: those of the queued pieces, and the rest of the current piece. A piece that is given up has none.
    bytes: usize,
    /// How many chunks were written so far.
    written: u64,
    /// When the stop was requested; `None` while no stop is requested.
    stopping: Option<Instant>,
    /// Whether the queue is closed: later pieces are dropped.
    is_closed: bool,
}

impl Queue {
    /// Whether a stop has waited for [`STUCK`] and no chunk was written since the count of chunks was `written`.
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

    /// Waits until `is_so` holds. While a stop is requested, closes the queue if nothing was written for [`STUCK`].
    /// `is_so` must hold for a closed queue.
    async fn until(&self, is_so: impl Fn(&Queue) -> bool) {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            // Registered before the check, so no notification after the check is missed.
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

    /// Blocks until there is a piece, and takes it; `None` once the queue is closed.
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

    /// Writes a piece chunk by chunk, and counts each chunk as a sign of a reader. After a failed write the rest of the piece is
    /// given up. It is counted all the same, so that the bytes of the piece leave the queue.
    fn write(&self, text: &str, to: &mut dyn Write) -> std::io::Result<()> {
        let mut written = Ok(());
        for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
            written = written.and_then(|()| to.write_all(chunk)).and_then(|()| to.flush());
            let mut queue = self.queue();
            queue.bytes = queue.bytes.saturating_sub(chunk.len());
            queue.written += 1;
            drop(queue);
            self.moved.notify_waiters();
        }
        written
    }

    fn write_all(&self) {
        while let Some(piece) = self.next() {
            let written = match piece {
                Show::Out(text) => self.write(&text, &mut std::io::stdout()),
                Show::Note(line) => {
                    // If writing a note fails, the note is dropped, and stdout goes on.
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
    /// Starts the writing thread. The thread ends when the queue is closed, or with the process.
    pub(super) fn start() -> std::io::Result<Output> {
        let shared = Arc::<Shared>::default();
        let writing = shared.clone();
        Builder::new().name("output".to_owned()).spawn(move || writing.write_all())?;
        Ok(Output { shared })
    }

    /// Queues a piece as soon as there is room. A closed queue drops the piece.
    pub(super) async fn show(&self, piece: Show) {
        self.shared.until(|queue| queue.is_closed || queue.bytes < BYTES_MAX).await;
        self.put(piece);
    }

    /// Queues a piece at once, however much is queued. A closed queue drops the piece.
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

    /// Waits until fewer than [`ANSWERS_BYTES_MAX`] bytes are unwritten, so that another line may be carried out.
    pub(super) async fn room_for_answers(&self) {
        self.shared.until(|queue| queue.is_closed || queue.bytes < ANSWERS_BYTES_MAX).await;
    }

    /// Sets or clears the request to stop. While it is set, a reader that takes nothing is waited for at most [`STUCK`].
    pub(super) fn set_stopping(&self, is_stopping: bool) {
        let mut queue = self.shared.queue();
        queue.stopping = is_stopping.then(|| queue.stopping.unwrap_or_else(Instant::now));
    }

    /// Whether a stop is requested.
    pub(super) fn is_stopping(&self) -> bool {
        self.shared.queue().stopping.is_some()
    }

    /// Resolves when the queue is closed: nobody reads stdout any more.
    pub(super) async fn closed(&self) {
        self.shared.until(|queue| queue.is_closed).await;
    }

    /// Waits until no byte is unwritten, or the queue is closed.
    pub(super) async fn finish(&self) {
        self.shared.until(|queue| queue.is_closed || queue.bytes == 0).await;
    }
}

/// Lines for stderr that no writer waits for: the log, and the last line of the process. A thread of its own writes them, and ends
/// with the process. A line that finds [`LOG_LINES_MAX`] lines queued before it is dropped. Clones share one queue.
#[derive(Clone)]
pub(super) struct Lines(SyncSender<Line>);

enum Line {
    Text(Vec<u8>),
    /// A marker: answered once every line before it is written.
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
                // A write to a closed stderr fails; there is no other place to report that.
                Line::Text(text) => drop(std::io::stderr().write_all(&text)),
                Line::End(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Waits until all lines queued before are written, at most for [`STUCK`]; not at all where the queue is full.
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

    /// `show` waits for a reader, `put` does not, and the bytes of `put` count too.
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

    /// Without a stop, a reader that takes nothing is waited for without end; after a stop, only for [`STUCK`]. A reader that takes
    /// something now and then is waited for in both cases.
    #[tokio::test(start_paused = true)]
    async fn after_a_stop_a_reader_who_takes_nothing_counts_as_gone() {
        let output = output();
        output.put(piece(100 * CHUNK_BYTES));
        let long = Duration::from_secs(3600);
        assert!(tokio::time::timeout(long, output.finish()).await.is_err(), "nobody asked for a stop");
        output.set_stopping(true);
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

    /// A closed stderr.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Only the first chunk of a long note was counted as written when stderr was closed, and the end of the command waited for the
    /// others.
    #[tokio::test(start_paused = true)]
    async fn a_long_note_that_stderr_does_not_take_holds_up_nothing() {
        let output = output();
        let note = "x".repeat(3 * CHUNK_BYTES);
        output.put(Show::Note(note.clone()));
        assert_eq!(output.shared.next(), Some(Show::Note(note.clone())));
        assert!(output.shared.write(&(note + "\n"), &mut Closed).is_err());
        assert_eq!(output.shared.queue().bytes, 0);
        assert!(timeout(Duration::from_secs(3600), output.finish()).await.is_ok(), "nothing is left to write");
    }
}
