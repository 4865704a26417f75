//! Taking in what a command writes: the end of it in memory, all of it in a spill file once it is long.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    process::{Event, Output, Process, Stream},
    tool::{
        Progress, ToolContext,
        truncate::{Limits, NO_FOLDER, Spill, SpillFile, Truncation, tail},
    },
    tools::bash::BashOptions,
};

/// How much of both streams is kept in memory (F-24): 100 KiB.
const ROLLING_BYTES: usize = 100 * 1024;
/// How much of each stream alone is kept for the details.
const APART_BYTES: usize = 16 * 1024;
/// How much of a stream may be held back: the beginning of one character.
const HELD_BYTES_MAX: usize = 3;
/// How long the end of a call waits for the disk before it gives the file up.
const DISK_PATIENCE: Duration = Duration::from_secs(1);
/// How much of the end a progress report shows.
const PROGRESS: Limits = Limits::new(20, 2_000);

/// What a command has written so far.
pub(super) struct Capture {
    output: Output,
    /// From how many bytes on everything goes to a file.
    spill_from: usize,
    spill_bytes_max: u64,
    folder: Option<Arc<PathBuf>>,
    id: String,
    limits: Limits,
    /// Once there is too much to be shown.
    writer: Option<Writer>,
    /// What the writer has not got yet.
    unwritten: Vec<u8>,
    /// How much was there at the last progress report.
    shown: usize,
}

/// The task that writes the file, and the way to it. It ends when nothing more can come, or with the first error; a file that
/// nobody waits for then is removed again.
struct Writer {
    pieces: mpsc::Sender<Vec<u8>>,
    file: JoinHandle<io::Result<Spill>>,
}

/// What a command wrote.
pub(super) struct Captured {
    /// The part for the model, with the totals of the whole.
    pub(super) truncation: Truncation,
    /// Where the whole is; an error where it could not be kept.
    pub(super) spill: Option<Result<SpillFile, String>>,
    pub(super) output: Output,
}

impl Capture {
    pub(super) fn new(options: &BashOptions, context: &ToolContext) -> Capture {
        Capture {
            output: Output::new(ROLLING_BYTES.max(options.limits.max_bytes.min(1024 * 1024)), APART_BYTES),
            spill_from: options.limits.max_bytes.min(ROLLING_BYTES / 2),
            spill_bytes_max: options.spill_bytes_max,
            folder: context.spill.clone(),
            id: format!("{}-{}", context.session, context.call),
            limits: options.limits,
            writer: None,
            unwritten: Vec::new(),
            shown: 0,
        }
    }

    /// Takes some output. Waits until the disk has what came before it; dropped meanwhile, nothing is lost.
    pub(super) async fn take(&mut self, stream: Stream, bytes: &[u8]) {
        // The beginning is still in memory when the file is begun, because the file begins long before memory is full.
        let reaches = self.output.merged().total_bytes() + bytes.len() + HELD_BYTES_MAX > self.spill_from;
        let beginning = (reaches && self.writer.is_none()).then(|| self.output.merged().bytes().to_vec());
        let new = self.output.push(stream, bytes);
        if let Some(beginning) = beginning.filter(|_| self.output.merged().total_bytes() > self.spill_from) {
            self.begin_spill(beginning);
        }
        if self.writer.is_some() {
            self.unwritten.extend_from_slice(&new);
            self.hand_over().await;
        }
    }

    /// Takes what is still written, for at most so long.
    pub(super) async fn drain(&mut self, process: &mut Process, at_most: Duration) {
        let until = Instant::now() + at_most;
        // Looked at by ourselves: of a flood there is always more at hand, and what is at hand comes before a timeout.
        while Instant::now() < until {
            match timeout_at(until, process.next()).await {
                Ok(Event::Output(stream, bytes)) => {
                    // What is not on the disk in time is in memory.
                    let _ = timeout_at(until, self.take(stream, &bytes)).await;
                }
                Ok(Event::Ended(_)) => {}
                Ok(Event::Closed) | Err(_) => return,
            }
        }
    }

    /// Shows the end of the output to people, if there is more than last time.
    pub(super) fn show(&mut self, progress: &Progress) {
        let merged = self.output.merged();
        if merged.total_bytes() != self.shown {
            self.shown = merged.total_bytes();
            let text = merged.text();
            progress.metadata(json!({
                "tail": tail(&text, PROGRESS).content,
                "total_bytes": merged.total_bytes(),
                "total_lines": merged.total_lines(),
            }));
        }
    }

    pub(super) async fn finish(mut self) -> Captured {
        let rest = self.output.finish();
        if self.writer.is_some() {
            self.unwritten.extend_from_slice(&rest);
        }
        let merged = self.output.merged();
        let (lines, bytes) = (merged.total_lines(), merged.total_bytes());
        let truncation = tail(&merged.text(), self.limits).with_totals(lines, bytes);
        if truncation.truncated && self.writer.is_none() {
            // Few bytes, but too many lines.
            self.begin_spill(self.output.merged().bytes().to_vec());
        }
        let late = || Some(Err("the disk did not answer in time".to_owned()));
        let spill = timeout(DISK_PATIENCE, self.settle()).await.unwrap_or_else(|_| late());
        Captured { truncation, spill, output: self.output }
    }

    fn begin_spill(&mut self, beginning: Vec<u8>) {
        let (pieces, to_write) = mpsc::channel(1);
        let file = write_all(self.folder.clone(), self.id.clone(), self.spill_bytes_max, to_write);
        self.writer = Some(Writer { pieces, file: tokio::spawn(file) });
        self.unwritten = beginning;
    }

    /// Gives the writer what it has not got yet, as soon as it takes more. What is cut off here is given to it the next time.
    async fn hand_over(&mut self) {
        let Some(writer) = self.writer.as_ref().filter(|_| !self.unwritten.is_empty()) else { return };
        match writer.pieces.reserve().await {
            Ok(room) => room.send(std::mem::take(&mut self.unwritten)),
            // It has failed, and says so at the end.
            Err(_) => self.unwritten.clear(),
        }
    }

    /// Waits until all is in the file.
    async fn settle(&mut self) -> Option<Result<SpillFile, String>> {
        self.hand_over().await;
        let Writer { pieces, file } = self.writer.take()?;
        drop(pieces);
        let written = file.await.unwrap_or_else(|lost| Err(io::Error::other(lost)));
        Some(written.map(Spill::finish).map_err(|error| error.to_string()))
    }
}

/// Writes a spill file of all that comes.
async fn write_all(
    folder: Option<Arc<PathBuf>>,
    id: String,
    max_bytes: u64,
    mut pieces: mpsc::Receiver<Vec<u8>>,
) -> io::Result<Spill> {
    let folder = folder.ok_or_else(|| io::Error::other(NO_FOLDER))?;
    let mut spill = on_disk(move || Spill::create(&folder, &id, max_bytes)).await?;
    while let Some(piece) = pieces.recv().await {
        spill = on_disk(move || spill.write(&piece).map(|()| spill)).await?;
    }
    Ok(spill)
}

/// Does on a thread what may wait for the disk.
async fn on_disk(work: impl FnOnce() -> io::Result<Spill> + Send + 'static) -> io::Result<Spill> {
    spawn_blocking(work).await.unwrap_or_else(|lost| Err(io::Error::other(lost)))
}
