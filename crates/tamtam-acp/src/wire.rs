//! Lines in and lines out, each bounded.
//!
//! A line that is too long is passed over up to its end, so that the next one is read right. Frames for the client wait in a queue
//! of [`FRAMES_MAX`]; while it is full, whoever has one waits, and nothing is dropped here: a session's events wait in its own
//! bounded ring, and what that drops is read again from the tape.

use std::io;

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc,
};

use crate::rpc::Fault;

/// How many frames wait for a client that reads slowly.
pub(crate) const FRAMES_MAX: usize = 256;

/// The lines of a client.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    bytes_max: usize,
    line: Vec<u8>,
    /// Whether the line is too long already.
    is_over: bool,
}

/// A line is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, bytes_max: usize) -> Lines<R> {
        Lines { reader: BufReader::new(reader), bytes_max, line: Vec::new(), is_over: false }
    }

    /// The next line without its end; empty ones are left out. `None` at the end of the stream. Cancel-safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Result<Vec<u8>, TooLong>>> {
        loop {
            let read = self.reader.fill_buf().await?;
            if read.is_empty() {
                return Ok(self.take());
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let piece = &read[..end.unwrap_or(read.len())];
            self.is_over |= self.line.len() + piece.len() > self.bytes_max;
            if self.is_over {
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(piece);
            }
            let count = piece.len() + usize::from(end.is_some());
            AsyncBufRead::consume(std::pin::Pin::new(&mut self.reader), count);
            if end.is_some()
                && let Some(line) = self.take()
            {
                return Ok(Some(line));
            }
        }
    }

    /// What the client is told of a line that is too long.
    pub(crate) fn too_long(&self) -> Fault {
        Fault::no_request(&format!("the line has more than {} bytes: send less in one message", self.bytes_max))
    }

    /// What was read of the line; `None` if that is blank.
    fn take(&mut self) -> Option<Result<Vec<u8>, TooLong>> {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_over) {
            return Some(Err(TooLong));
        }
        (!line.trim_ascii().is_empty()).then_some(Ok(line))
    }
}

/// Writes frames, one a line, until all senders are gone. Flushes where no further frame waits.
pub(crate) async fn write<W: AsyncWrite + Unpin>(mut to: W, mut frames: mpsc::Receiver<String>) -> io::Result<()> {
    while let Some(frame) = frames.recv().await {
        to.write_all(frame.as_bytes()).await?;
        to.write_all(b"\n").await?;
        if frames.is_empty() {
            to.flush().await?;
        }
    }
    to.flush().await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A line over the bound costs itself, and the lines around it are whole.
    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over_up_to_its_end() {
        let text = format!("one\r\n\n{}\ntwo\n{}", "x".repeat(20_000), "y".repeat(11));
        let mut lines = Lines::new(text.as_bytes(), 10);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(line.map(|line| String::from_utf8(line).unwrap()));
        }
        assert_eq!(read, [Ok("one\r".into()), Err(TooLong), Ok("two".into()), Err(TooLong)]);
    }
}
