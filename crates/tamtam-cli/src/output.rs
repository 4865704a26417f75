//! Writes the output of a running session on threads of its own, so that a reader that does not read cannot block a stop.
//!
//! [`Output`] keeps the order of events, answers and notes, on stdout and stderr. [`Lines`] writes the log to stderr. No order
//! holds between the two.
//!
//! At a terminal, the last line of the screen is the foot ([`Foot`]): the line that a person types, or what the session does now.
//! It is taken away before each write and drawn again after it. While a person types, text is written line by line, above the foot.
//!
//! [`Output::show`] carries events, and waits for room. [`Output::put`] carries answers and notes: it must never wait, and has no
//! bound of its own, so a caller that answers line after line awaits [`Output::room_for_answers`] between them. While a stop is
//! requested ([`Output::set_stopping`]) and something waits for the output, a reader that takes nothing for [`STUCK`] counts as
//! gone: the queue is closed and its rest is dropped. A dropped durable event is still on the tape; dropped answers, deltas, notes
//! and log lines are lost.
//!
//! A change must keep this: `Queue::bytes` is 0 once every piece is written or given up; and every condition passed to
//! `Shared::until` holds for a closed queue. Otherwise [`Output::finish`] might never return.

mod foot;
mod lines;

use std::{
    collections::VecDeque,
    io::{ErrorKind, IsTerminal as _, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::Builder,
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{render::Show, terminal::Terminal};
pub(super) use foot::columns;
use foot::{Foot, show};
pub(super) use lines::Lines;

/// Bytes that may wait for a slow reader; beyond, events wait for room.
const BYTES_MAX: usize = 1 << 20;

/// Bytes that may wait in all, answers included; beyond, no further line of stdin but an abort is carried out.
const ANSWERS_BYTES_MAX: usize = 4 << 20;

/// Bytes of one write. Each completed write proves that somebody reads.
const CHUNK_BYTES: usize = 4 << 10;

/// How long a reader may take nothing while a stop is requested, before it counts as gone.
const STUCK: Duration = Duration::from_millis(250);

/// Bytes of a line that wait for its end while a person types. A longer one is written in pieces.
const HELD_BYTES_MAX: usize = 4 << 10;

/// Takes the foot away.
const ERASE: &str = "\r\x1b[K";

/// A handle of the output queue. Clones share one queue.
#[derive(Clone)]
pub(super) struct Output {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Where a person types; it has a foot.
    terminal: Option<Arc<Terminal>>,
    /// Whether stdout is a terminal too, and so the same screen.
    is_one_screen: bool,
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
    /// The begun line of stdout that waits for its end, while a person types.
    held: String,
    /// Whether the last line on the screen, but for the foot, has no line break yet.
    is_line_open: bool,
    foot: Foot,
}

/// What the writing thread does next.
#[derive(Debug, PartialEq, Eq)]
enum Job {
    Write(Show),
    Draw,
}

impl Queue {
    /// Whether a stop has waited for [`STUCK`] and no chunk was written since the count of chunks was `written`.
    fn is_stuck(&self, written: u64) -> bool {
        let waits = self.stopping.is_some_and(|since| since.elapsed() >= STUCK);
        let is_last_foot = self.foot.has_ended && self.foot.is_drawn;
        waits && (self.bytes > 0 || is_last_foot) && self.written == written
    }

    /// The next piece. While a person types, of the text no line is given before its end; a stop waits for no end.
    fn next_piece(&mut self) -> Option<Show> {
        loop {
            let holds = !self.foot.prompt.is_empty() && self.stopping.is_none();
            if !holds && !self.held.is_empty() {
                return Some(Show::Out(std::mem::take(&mut self.held)));
            }
            match self.pieces.pop_front()? {
                Show::Out(text) if holds => {
                    self.held.push_str(&text);
                    let whole = self.held.rfind('\n').map(|at| at + 1);
                    let end = whole.or_else(|| (self.held.len() > HELD_BYTES_MAX).then_some(self.held.len()));
                    if let Some(end) = end {
                        return Some(Show::Out(self.held.drain(..end).collect()));
                    }
                }
                piece if self.held.is_empty() => return Some(piece),
                piece => {
                    self.pieces.push_front(piece);
                    return Some(Show::Out(std::mem::take(&mut self.held)));
                }
            }
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut queue = self.queue();
        (queue.is_closed, queue.bytes) = (true, 0);
        (queue.pieces, queue.held) = (VecDeque::new(), String::new());
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

    /// Blocks until there is something to do, and takes it; `None` once the queue is closed.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(piece) = queue.next_piece() {
                return Some(Job::Write(piece));
            }
            if std::mem::take(&mut queue.foot.is_stale) {
                return Some(Job::Draw);
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
            self.settle(chunk.len());
        }
        written
    }

    /// Counts so many bytes as written.
    fn settle(&self, bytes: usize) {
        let mut queue = self.queue();
        queue.bytes = queue.bytes.saturating_sub(bytes);
        queue.written += 1;
        drop(queue);
        self.moved.notify_waiters();
    }

    /// Takes the foot away, so that other text can be written, and lets it be drawn again. `ends_line`: on a line of its own.
    fn make_room(&self, ends_line: bool) {
        let mut queue = self.queue();
        let mut keys = String::new();
        if std::mem::take(&mut queue.foot.is_drawn) {
            keys.push_str(ERASE);
        }
        if ends_line && self.is_one_screen && std::mem::take(&mut queue.is_line_open) {
            keys.push('\n');
        }
        queue.foot.is_stale = self.terminal.is_some();
        drop(queue);
        show(&keys);
    }

    /// Draws the foot as it is now, or takes it away. While nobody types, no foot breaks a line of the text.
    fn draw(&self) {
        let mut queue = self.queue();
        let text = queue.foot.text(columns());
        let is_in_the_way = queue.foot.prompt.is_empty() && queue.is_line_open;
        let mut keys = String::new();
        if std::mem::take(&mut queue.foot.is_drawn) {
            keys.push_str(ERASE);
        }
        if !text.is_empty() && !is_in_the_way {
            if std::mem::take(&mut queue.is_line_open) {
                keys.push('\n');
            }
            keys.push_str(&text);
            queue.foot.is_drawn = true;
        }
        drop(queue);
        show(&keys);
        self.settle(0);
    }
}

impl Output {
    /// Starts the writing thread. The thread ends when the queue is closed, or with the process.
    pub(super) fn start(terminal: Option<Arc<Terminal>>) -> std::io::Result<Output> {
        let is_one_screen = terminal.is_some() && std::io::stdout().is_terminal();
        let output = Output { shared: Arc::new(Shared { terminal, is_one_screen, ..Shared::default() }) };
        let writing = output.clone();
        Builder::new().name("output".to_owned()).spawn(move || writing.write_all())?;
        Ok(output)
    }

    fn write_all(&self) {
        let shared = &self.shared;
        while let Some(job) = shared.next() {
            let written = match job {
                Job::Draw => {
                    shared.draw();
                    Ok(())
                }
                Job::Write(Show::Out(text)) => {
                    if shared.is_one_screen {
                        shared.make_room(false);
                    }
                    let written = shared.write(&text, &mut std::io::stdout());
                    shared.queue().is_line_open = shared.is_one_screen && !text.ends_with('\n');
                    written
                }
                Job::Write(Show::EndLine) if shared.is_one_screen => {
                    // The foot or a note may have ended it.
                    shared.make_room(true);
                    shared.settle(1);
                    Ok(())
                }
                Job::Write(Show::EndLine) => shared.write("\n", &mut std::io::stdout()),
                Job::Write(Show::Note(line)) => {
                    shared.make_room(true);
                    // If writing a note fails, the note is dropped, and stdout goes on.
                    drop(shared.write(&(line + "\n"), &mut std::io::stderr()));
                    Ok(())
                }
                Job::Write(Show::Asked(about)) => {
                    // Now the question is on the screen: keys that came until now were not for it.
                    let said = shared.terminal.as_ref().and_then(|terminal| terminal.asked(about));
                    if let Some(line) = said {
                        shared.make_room(true);
                        show(&(line + "\n"));
                    }
                    Ok(())
                }
            };
            if let Err(error) = written {
                if error.kind() != ErrorKind::BrokenPipe {
                    drop(writeln!(std::io::stderr(), "error: failed to write to stdout: {error}"));
                }
                return shared.close();
            }
        }
    }

    /// Changes the foot, and has it drawn.
    fn change(&self, change: impl FnOnce(&mut Foot)) {
        let mut queue = self.shared.queue();
        if queue.foot.has_ended {
            return;
        }
        change(&mut queue.foot);
        queue.foot.is_stale = self.shared.terminal.is_some();
        drop(queue);
        self.shared.filled.notify_one();
    }

    /// Sets the line that a person types, and the word before it. Never waits.
    pub(super) fn set_typed(&self, (prompt, typed): (&'static str, String)) {
        self.change(|foot| (foot.prompt, foot.typed) = (prompt, typed));
    }

    /// Sets what the session does now; empty for nothing. Never waits.
    pub(super) fn set_status(&self, status: String) {
        if self.shared.queue().foot.status != status {
            self.change(|foot| foot.status = status);
        }
    }

    /// Has the foot drawn where the cursor is now, after others have used the screen. Never waits.
    pub(super) fn draw_again(&self) {
        self.change(|foot| foot.is_drawn = false);
    }

    /// Takes the foot away for good. Never waits.
    pub(super) fn end_foot(&self) {
        self.change(|foot| *foot = Foot { is_drawn: foot.is_drawn, has_ended: true, ..Foot::default() });
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
            Show::EndLine => 1,
            Show::Asked(_) => 0,
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
        drop(queue);
        // A held line waits no longer.
        self.shared.filled.notify_one();
    }

    /// Whether a stop is requested.
    pub(super) fn is_stopping(&self) -> bool {
        self.shared.queue().stopping.is_some()
    }

    /// Resolves when the queue is closed: nobody reads stdout any more.
    pub(super) async fn closed(&self) {
        self.shared.until(|queue| queue.is_closed).await;
    }

    /// Waits until no byte is unwritten and no foot is drawn, or the queue is closed.
    pub(super) async fn finish(&self) {
        self.shared.until(|queue| queue.is_closed || (queue.bytes == 0 && !queue.foot.is_drawn)).await;
    }
}

#[cfg(test)]
mod tests;
