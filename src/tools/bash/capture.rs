//! Taking in what a command writes: the end of it in memory, all of it in a spill file once it is long.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;

use crate::{
    process::{Output, Process, Stream},
    tool::{
        Progress, ToolContext,
        truncate::{Limits, Spill, SpillFile, Truncation, tail},
    },
    tools::bash::BashOptions,
};

/// How much of both streams is kept in memory (F-24): 100 KiB.
const ROLLING_BYTES: usize = 100 * 1024;
/// How much of each stream alone is kept for the details.
const APART_BYTES: usize = 16 * 1024;
/// How much of a stream may be held back: the beginning of one character.
const HELD_BYTES_MAX: usize = 3;
/// How much of the end a progress report shows.
const PROGRESS: Limits = Limits::new(20, 2_000);

/// What a command has written so far.
pub(super) struct Capture {
    output: Output,
    /// From how many bytes on everything goes to a file.
    spill_from: usize,
    spill_bytes_max: u64,
    folder: Arc<PathBuf>,
    id: String,
    limits: Limits,
    spill: Spilling,
    /// How much was there at the last progress report.
    shown: usize,
}

enum Spilling {
    No,
    To(Spill),
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
            shown: 0,
        }
    }

    pub(super) async fn take(&mut self, stream: Stream, bytes: &[u8]) {
        // The beginning is still in memory when the file is begun, because the file begins long before memory is full.
        let reaches = self.output.merged().total_bytes() + bytes.len() + HELD_BYTES_MAX > self.spill_from;
        let begun = !matches!(self.spill, Spilling::No);
        let beginning = (reaches && !begun).then(|| self.output.merged().bytes().to_vec());
        let new = self.output.push(stream, bytes);
        if begun {
            self.append_to_spill(new).await;
        } else if let Some(mut whole) = beginning
            && self.output.merged().total_bytes() > self.spill_from
        {
            whole.extend_from_slice(&new);
            self.begin_spill(whole).await;
        }
    }

    /// Takes what is still written, for at most so long.
    pub(super) async fn drain(&mut self, process: &mut Process, at_most: Duration) {
        let until = tokio::time::Instant::now() + at_most;
        loop {
            match tokio::time::timeout_at(until, process.next()).await {
                Ok(crate::process::Event::Output(stream, bytes)) => self.take(stream, &bytes).await,
                Ok(crate::process::Event::Ended(_)) => {}
                Ok(crate::process::Event::Closed) | Err(_) => return,
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
        if matches!(self.spill, Spilling::To(_)) {
            self.append_to_spill(rest).await;
        }
        let merged = self.output.merged();
        let (lines, bytes) = (merged.total_lines(), merged.total_bytes());
        let truncation = tail(&merged.text(), self.limits).with_totals(lines, bytes);
        if truncation.truncated && matches!(self.spill, Spilling::No) {
            // Few bytes, but too many lines.
            self.begin_spill(self.output.merged().bytes().to_vec()).await;
        }
        let spill = match self.spill {
            Spilling::No => None,
            Spilling::To(spill) => Some(Ok(spill.finish())),
            Spilling::Failed(why) => Some(Err(why)),
        };
        Captured { truncation, spill, output: self.output }
    }

    async fn begin_spill(&mut self, bytes: Vec<u8>) {
        let (folder, id, max_bytes) = (self.folder.clone(), self.id.clone(), self.spill_bytes_max);
        self.on_disk(move || {
            let mut spill = Spill::create(&folder, &id, max_bytes)?;
            spill.write(&bytes)?;
            Ok(spill)
        })
        .await;
    }

    async fn append_to_spill(&mut self, bytes: Vec<u8>) {
        if let Spilling::To(spill) = &mut self.spill
            && spill.pass_over(bytes.len())
        {
            return;
        }
        if let Spilling::To(mut spill) = std::mem::replace(&mut self.spill, Spilling::No) {
            self.on_disk(move || spill.write(&bytes).map(|()| spill)).await;
        }
    }

    /// Works on the spill file on a thread that may wait for the disk. A full disk costs the file, never the output in memory.
    async fn on_disk(&mut self, work: impl FnOnce() -> std::io::Result<Spill> + Send + 'static) {
        self.spill = match tokio::task::spawn_blocking(work).await {
            Ok(Ok(spill)) => Spilling::To(spill),
            Ok(Err(error)) => Spilling::Failed(error.to_string()),
            Err(lost) => Spilling::Failed(lost.to_string()),
        };
    }
}
