//! Keeps the output of a process in bounded memory: both streams merged, and each alone where they came through two pipes.
//!
//! [`Rolling`] keeps the last bytes of one stream, and [`Output`] holds one for the merged streams and one for each stream.
//! For any amount of output, each holds at most twice the bytes that it keeps (and [`Output`] three bytes of an unfinished
//! character for each stream), and the totals count everything. In the merged output, a character whose bytes come in two pieces
//! is never split by the other stream. A change must keep all three: a command may write without end, and a model reads the kept
//! bytes. Nothing here waits or touches a disk.

/// The stream that a process writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Either of them: they share one pipe.
    Both,
}

/// The last bytes of a stream that may be endless, and the totals of the whole stream.
///
/// Holds at most twice as many bytes as it keeps.
#[derive(Clone, Debug)]
pub(crate) struct Rolling {
    /// The last bytes of the stream: up to twice `keep`.
    bytes: Vec<u8>,
    /// How many bytes are kept.
    keep: usize,
    /// How many bytes there were.
    total: usize,
    /// How many line feeds there were.
    line_feeds: usize,
}

impl Rolling {
    /// Keeps the last `keep` bytes.
    #[must_use]
    pub(crate) fn new(keep: usize) -> Rolling {
        Rolling { bytes: Vec::new(), keep, total: 0, line_feeds: 0 }
    }

    /// Appends.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len());
        self.line_feeds += memchr::memchr_iter(b'\n', bytes).count();
        let last = &bytes[bytes.len().saturating_sub(self.keep)..];
        if self.bytes.len() + last.len() > self.keep.saturating_mul(2) {
            let surplus = (self.bytes.len() + last.len()).saturating_sub(self.keep).min(self.bytes.len());
            self.bytes.drain(..surplus);
        }
        self.bytes.extend_from_slice(last);
    }

    /// Takes back the last `bytes` bytes, none of which is a line feed.
    pub(crate) fn take_back(&mut self, bytes: usize) {
        self.bytes.truncate(self.bytes.len().saturating_sub(bytes));
        self.total = self.total.saturating_sub(bytes);
    }

    /// The bytes that are kept.
    #[must_use]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(self.keep)..]
    }

    /// How many bytes there were.
    #[must_use]
    pub(crate) fn total_bytes(&self) -> usize {
        self.total
    }

    /// How many lines there were. A final LF does not start another line.
    #[must_use]
    pub(crate) fn total_lines(&self) -> usize {
        self.line_feeds + usize::from(self.bytes.last().is_some_and(|byte| *byte != b'\n'))
    }

    /// The kept bytes as text. A character that is cut at the front is left out; bytes that are not UTF-8 become U+FFFD.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let mut bytes = self.bytes();
        if bytes.len() < self.total {
            let cut = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
            bytes = &bytes[cut..];
        }
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Both streams of a process: together in order of arrival, and apart.
///
/// A character whose bytes come in two pieces is withheld until it is whole, so that the other stream never splits it.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    merged: Rolling,
    /// By [`Stream`].
    streams: [Half; 3],
}

#[derive(Clone, Debug)]
struct Half {
    rolling: Rolling,
    /// The beginning of a character: at most three bytes.
    unfinished: Vec<u8>,
}

impl Output {
    /// Keeps the last `keep` bytes of both together, and the last `keep_apart` bytes of each.
    #[must_use]
    pub(crate) fn new(keep: usize, keep_apart: usize) -> Output {
        let streams =
            [keep_apart, keep_apart, 0].map(|keep| Half { rolling: Rolling::new(keep), unfinished: Vec::new() });
        Output { merged: Rolling::new(keep), streams }
    }

    /// Takes bytes of one stream; returns the bytes that were added to the merged output.
    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8]) -> Vec<u8> {
        let half = &mut self.streams[stream as usize];
        half.rolling.push(bytes);
        let mut whole = std::mem::take(&mut half.unfinished);
        whole.extend_from_slice(bytes);
        half.unfinished = whole.split_off(whole.len() - unfinished(&whole));
        self.merged.push(&whole);
        whole
    }

    /// Ends the output: adds the withheld bytes to the merged output, and returns them.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let rest = self.streams.iter_mut().flat_map(|half| std::mem::take(&mut half.unfinished)).collect::<Vec<_>>();
        self.merged.push(&rest);
        rest
    }

    /// Both streams in the order of their arrival.
    #[must_use]
    pub(crate) fn merged(&self) -> &Rolling {
        &self.merged
    }

    /// One stream alone, which is empty if both streams share a pipe; of [`Stream::Both`] the merged output.
    #[must_use]
    pub(crate) fn stream(&self, stream: Stream) -> &Rolling {
        match stream {
            Stream::Both => &self.merged,
            stream => &self.streams[stream as usize].rolling,
        }
    }
}

/// How many bytes at the end are the beginning of a character that is not complete yet.
fn unfinished(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let length = match bytes[bytes.len() - back] {
            0x80..0xc0 => continue,
            0xc2..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..0xf5 => 4,
            _ => 1,
        };
        return if length > back { back } else { 0 };
    }
    0
}
