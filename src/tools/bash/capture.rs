//! Taking in what a command writes: the end of it in memory, all of it in a spill file once it is long.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;
use tokio::{
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
/// How much is read after the end of everybody who wrote: more than what a pipe may hold.
const REST_BYTES_MAX: usize = 2 * 1024 * 1024;
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
    spill: Spilling,
    /// What is to go to the file next: no more than was read while one piece was being written.
    unwritten: Vec<u8>,
    /// How much was there at the last progress report.
    shown: usize,
}

enum Spilling {
    No,
    To(Spill),
    /// A piece is being written, on a thread that may wait for the disk.
    Writing(JoinHandle<io::Result<Spill>>),
    Failed(String),
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
            spill: Spilling::No,
            unwritten: Vec::new(),
            shown: 0,
        }
    }

    /// Takes some output. Waits until the disk has what came before it; dropped meanwhile, nothing is lost.
    pub(super) async fn take(&mut self, stream: Stream, bytes: &[u8]) {
        // The beginning is still in memory when the file is begun, because the file begins long before memory is full.
        let reaches = self.output.merged().total_bytes() + bytes.len() + HELD_BYTES_MAX > self.spill_from;
        let begun = !matches!(self.spill, Spilling::No);
        let beginning = (reaches && !begun).then(|| self.output.merged().bytes().to_vec());
        let new = self.output.push(stream, bytes);
        if begun {
            self.unwritten.extend_from_slice(&new);
            self.write_on().await;
        } else if let Some(mut whole) = beginning
            && self.output.merged().total_bytes() > self.spill_from
        {
            whole.extend_from_slice(&new);
            self.begin_spill(whole);
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

    /// Takes what is left in the pipes, however busy the machine is, until nothing comes for so long.
    pub(super) async fn rest(&mut self, process: &mut Process, silence: Duration) {
        let mut bytes_left = REST_BYTES_MAX;
        while bytes_left > 0 {
            match timeout(silence, process.next()).await {
                Ok(Event::Output(stream, bytes)) => {
                    bytes_left = bytes_left.saturating_sub(bytes.len());
                    let _ = timeout(silence, self.take(stream, &bytes)).await;
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
        if !matches!(self.spill, Spilling::No) {
            self.unwritten.extend_from_slice(&rest);
        }
        let merged = self.output.merged();
        let (lines, bytes) = (merged.total_lines(), merged.total_bytes());
        let truncation = tail(&merged.text(), self.limits).with_totals(lines, bytes);
        if truncation.truncated && matches!(self.spill, Spilling::No) {
            // Few bytes, but too many lines.
            self.begin_spill(self.output.merged().bytes().to_vec());
        }
        self.settle().await;
        let spill = match self.spill {
            Spilling::No => None,
            Spilling::To(spill) => Some(Ok(spill.finish())),
            Spilling::Failed(why) => Some(Err(why)),
            Spilling::Writing(_) => Some(Err("it was not finished".to_owned())),
        };
        Captured { truncation, spill, output: self.output }
    }

    fn begin_spill(&mut self, bytes: Vec<u8>) {
        let Some(folder) = self.folder.clone() else {
            self.spill = Spilling::Failed(NO_FOLDER.to_owned());
            return;
        };
        let (id, max_bytes) = (self.id.clone(), self.spill_bytes_max);
        self.spill = Spilling::Writing(spawn_blocking(move || {
            let mut spill = Spill::create(&folder, &id, max_bytes)?;
            spill.write(&bytes)?;
            Ok(spill)
        }));
    }

    /// Sees the last piece written, and has the next one begun. A full disk costs the file, never the output in memory.
    async fn write_on(&mut self) {
        loop {
            match &mut self.spill {
                Spilling::Writing(piece) => {
                    let written = piece.await.unwrap_or_else(|lost| Err(io::Error::other(lost)));
                    self.spill = written.map_or_else(|error| Spilling::Failed(error.to_string()), Spilling::To);
                }
                Spilling::No | Spilling::Failed(_) => return self.unwritten.clear(),
                Spilling::To(_) if self.unwritten.is_empty() => return,
                Spilling::To(spill) => {
                    let bytes = std::mem::take(&mut self.unwritten);
                    if !spill.pass_over(bytes.len())
                        && let Spilling::To(mut spill) = std::mem::replace(&mut self.spill, Spilling::No)
                    {
                        let piece = spawn_blocking(move || spill.write(&bytes).map(|()| spill));
                        self.spill = Spilling::Writing(piece);
                    }
                    return;
                }
            }
        }
    }

    /// Waits until everything is written, but not for ever.
    async fn settle(&mut self) {
        let all = async {
            while matches!(self.spill, Spilling::Writing(_)) || !self.unwritten.is_empty() {
                self.write_on().await;
            }
        };
        if timeout(DISK_PATIENCE, all).await.is_err() {
            // What is being written removes its file when it is done.
            self.spill = Spilling::Failed("the disk did not answer in time".to_owned());
        }
    }
}
