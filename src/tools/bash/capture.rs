//! Captures the output of a command: its end in memory, and the whole of it, up to a cap, in a spill file once it is long.
//!
//! The model and the people who watch get the output as a terminal would show it (`screen.rs`); the file has every byte.
//!
//! Memory is bounded for any amount of output: the next output is read only when the writer of the file has accepted the one
//! before. A change must keep that. It must also keep that a wait for the writer can be dropped without losing output, because a
//! timeout and an abort interrupt such a wait. The end of a call does wait for the disk, at most [`DISK_PATIENCE`] at each of its
//! waits, and after the last one abandons the file; then for a store that keeps the output itself ([`SpillPlace::keep`]). A failing
//! disk costs the file and never the call; the result says so.

use std::{io, time::Duration};

use serde_json::json;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    process::{Output, Process, ProcessEvent, Stream},
    tool::{
        OutputFilter, Progress, SpillPlace, ToolContext,
        truncate::{CutLimits, NO_FOLDER, Spill, SpillFile, Truncation, tail},
    },
    tools::bash::{BashOptions, screen::Screen},
};

/// How much of both streams together is kept in memory at least: 100 KiB. It is more where the model is given more.
const ROLLING_BYTES: usize = 100 * 1024;
/// How much of each stream alone is kept for the details.
const APART_BYTES: usize = 16 * 1024;
/// How many bytes of a stream may be withheld: the beginning of one character.
const HELD_BYTES_MAX: usize = 3;
/// How long the end of a call waits for the disk before it abandons the file.
const DISK_PATIENCE: Duration = Duration::from_secs(1);
/// How much of the end of the output a progress report shows.
const PROGRESS: CutLimits = CutLimits::new(20, 2_000);

/// The output of a command so far.
pub(super) struct Capture {
    output: Output,
    /// Both streams as a terminal would show them.
    screen: Screen,
    /// What the bytes of each stream pass before anything of them is kept, shown or written.
    filters: Vec<(Stream, Box<dyn OutputFilter>)>,
    /// How many bytes of output begin a spill file.
    spill_from: usize,
    /// The cap of the spill file, in bytes.
    spill_bytes_max: u64,
    /// The place of the spill file; `None` if no outputs are kept.
    place: Option<SpillPlace>,
    /// The name of the call in the file's name.
    id: String,
    /// How much of the output the model is given.
    limits: CutLimits,
    /// The writer of the spill file, once there is more output than `spill_from`, or more than the model is given.
    writer: Option<Writer>,
    /// The bytes that the writer has not taken yet.
    unwritten: Vec<u8>,
    /// How many bytes there were at the last progress report.
    shown: usize,
}

/// The task that writes the spill file, and the channel to it. The task ends when no more bytes can come, or with the first error.
/// A file that nothing waits for at that moment is removed again.
struct Writer {
    pieces: mpsc::Sender<Vec<u8>>,
    file: JoinHandle<io::Result<Spill>>,
}

/// The whole output of a command that has ended.
pub(super) struct Captured {
    /// The part for the model, with the totals of the whole.
    pub(super) truncation: Truncation,
    /// How many bytes a terminal would not show: progress that was written over, and escape sequences.
    pub(super) left_out: usize,
    /// The spill file with the whole output, or why it could not be kept; `None` if none was needed.
    pub(super) spill: Option<Result<SpillFile, String>>,
    pub(super) output: Output,
}

impl Capture {
    pub(super) fn new(options: &BashOptions, context: &ToolContext) -> Capture {
        let keep = ROLLING_BYTES.max(options.limits.max_bytes.min(1024 * 1024));
        Capture {
            output: Output::new(keep, APART_BYTES),
            screen: Screen::new(keep),
            filters: [Stream::Stdout, Stream::Stderr, Stream::Both].map(|stream| (stream, context.filter())).into(),
            spill_from: options.limits.max_bytes.min(ROLLING_BYTES / 2),
            spill_bytes_max: options.spill_bytes_max,
            place: context.spill_place(),
            id: format!("{}-{}", context.session, context.call),
            limits: options.limits,
            writer: None,
            unwritten: Vec::new(),
            shown: 0,
        }
    }

    /// Takes some output, and waits until the writer of the spill file has room for it. Once the future was polled, dropping it
    /// loses nothing.
    pub(super) async fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let filter = self.filters.iter_mut().find(|(of, _)| *of == stream);
        let bytes = filter.map_or_else(|| bytes.to_vec(), |(_, filter)| filter.push(bytes));
        self.keep(stream, &bytes).await;
    }

    async fn keep(&mut self, stream: Stream, bytes: &[u8]) {
        // The file begins long before memory is full, so the beginning of the output is still in memory then.
        let reaches = self.output.merged().total_bytes() + bytes.len() + HELD_BYTES_MAX > self.spill_from;
        let beginning = (reaches && self.writer.is_none()).then(|| self.output.merged().bytes().to_vec());
        let new = self.output.push(stream, bytes);
        self.screen.push(&new);
        if let Some(beginning) = beginning.filter(|_| self.output.merged().total_bytes() > self.spill_from) {
            self.begin_spill(beginning);
        }
        if self.writer.is_some() {
            self.unwritten.extend_from_slice(&new);
            self.hand_over().await;
        }
    }

    /// Takes the output that still comes, for at most `at_most`.
    pub(super) async fn drain(&mut self, process: &mut Process, at_most: Duration) {
        let until = Instant::now() + at_most;
        // The loop looks at the clock itself: in a flood there is always an event ready, and a ready event comes before a timeout.
        while Instant::now() < until {
            match timeout_at(until, process.next()).await {
                Ok(ProcessEvent::Output(stream, bytes)) => {
                    // Output that the disk does not take in time stays in memory.
                    let _ = timeout_at(until, self.take(stream, &bytes)).await;
                }
                Ok(ProcessEvent::Ended(_)) => {}
                Ok(ProcessEvent::Closed) | Err(_) => return,
            }
        }
    }

    /// Shows the end of the output to people, if more came since the last report.
    pub(super) fn show(&mut self, progress: &Progress) {
        let (merged, kept) = (self.output.merged(), self.screen.kept());
        if merged.total_bytes() != self.shown {
            self.shown = merged.total_bytes();
            progress.metadata(json!({
                "tail": tail(&kept.text(), PROGRESS).content,
                "total_bytes": merged.total_bytes(),
                "total_lines": kept.total_lines(),
            }));
        }
    }

    /// Ends the output, and waits for the spill file if there is one.
    pub(super) async fn finish(mut self) -> Captured {
        for (stream, mut filter) in std::mem::take(&mut self.filters) {
            let rest = filter.finish();
            // What the disk does not take in time stays in memory.
            let _ = timeout(DISK_PATIENCE, self.keep(stream, &rest)).await;
        }
        let rest = self.output.finish();
        self.screen.push(&rest);
        if self.writer.is_some() {
            self.unwritten.extend_from_slice(&rest);
        }
        let kept = self.screen.kept();
        let mut truncation = tail(&kept.text(), self.limits).with_totals(kept.total_lines(), kept.total_bytes());
        truncation.total_bytes = self.output.merged().total_bytes();
        if truncation.truncated && self.writer.is_none() {
            // Few bytes, but too many lines.
            self.begin_spill(self.output.merged().bytes().to_vec());
        }
        let late = || Some(Err(io::Error::other("the disk did not answer in time")));
        let written = timeout(DISK_PATIENCE, self.settle()).await.unwrap_or_else(|_| late());
        let spill = match (written, &self.place) {
            (Some(Ok(spill)), Some(place)) => Some(place.keep(spill).await),
            (Some(Ok(_)), None) | (None, _) => None,
            (Some(Err(error)), _) => Some(Err(error)),
        };
        let spill = spill.map(|kept| kept.map_err(|error| error.to_string()));
        Captured { truncation, left_out: self.screen.left_out(), spill, output: self.output }
    }

    fn begin_spill(&mut self, beginning: Vec<u8>) {
        let (pieces, to_write) = mpsc::channel(1);
        let file = write_all(self.place.clone(), self.id.clone(), self.spill_bytes_max, to_write);
        self.writer = Some(Writer { pieces, file: tokio::spawn(file) });
        self.unwritten = beginning;
    }

    /// Passes the writer the bytes that it has not taken yet, as soon as it takes more. If this is dropped, the next call passes
    /// them.
    async fn hand_over(&mut self) {
        let Some(writer) = self.writer.as_ref().filter(|_| !self.unwritten.is_empty()) else { return };
        match writer.pieces.reserve().await {
            Ok(room) => room.send(std::mem::take(&mut self.unwritten)),
            // The writer has failed, and reports its error at the end.
            Err(_) => self.unwritten.clear(),
        }
    }

    /// Waits until all output is in the file.
    async fn settle(&mut self) -> Option<io::Result<Spill>> {
        self.hand_over().await;
        let Writer { pieces, file } = self.writer.take()?;
        drop(pieces);
        Some(file.await.unwrap_or_else(|lost| Err(io::Error::other(lost))))
    }
}

/// Writes all pieces that come to a spill file.
async fn write_all(
    place: Option<SpillPlace>,
    id: String,
    max_bytes: u64,
    mut pieces: mpsc::Receiver<Vec<u8>>,
) -> io::Result<Spill> {
    let place = place.ok_or_else(|| io::Error::other(NO_FOLDER))?;
    let mut spill = on_disk(move || place.create(&id, max_bytes)).await?;
    while let Some(piece) = pieces.recv().await {
        spill = on_disk(move || spill.write(&piece).map(|()| spill)).await?;
    }
    Ok(spill)
}

/// Runs work that may wait for the disk on a blocking thread.
async fn on_disk(work: impl FnOnce() -> io::Result<Spill> + Send + 'static) -> io::Result<Spill> {
    spawn_blocking(work).await.unwrap_or_else(|lost| Err(io::Error::other(lost)))
}
