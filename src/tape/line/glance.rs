//! Reading a few fields of a single line, to find the way in a file that is not read whole. Pure functions, no I/O.
//!
//! Nothing here proves that the file up to a line is sound: only [`decode_lines`](super::decode_lines) does, which reads from the
//! first line of a file on. [`Link::follows`] checks one line against the sum of the line before it.
//!
//! A change must keep: nothing read here becomes an entry, because it may come from a damaged line; [`head_seq`] relies on the
//! order of the first fields (`v`, `session`, `seq`), which is part of the stored format.

use serde::Deserialize;

use super::{SUM_FIELD_BYTES, Sum, prev_of};
use crate::words::ids::{Millis, Seq};

/// A few fields of a line. No checksum is checked.
#[derive(Deserialize)]
pub(in crate::tape) struct Glance {
    pub(in crate::tape) seq: Seq,
    pub(in crate::tape) time: Millis,
    /// How many lines of the same append follow.
    #[serde(default)]
    pub(in crate::tape) more: u64,
}

/// A line as one link of the chain: it can be checked against the sum before it, and against nothing else.
pub(in crate::tape) struct Link<'a> {
    pub(in crate::tape) sum: Sum,
    pub(in crate::tape) time: Millis,
    pub(in crate::tape) more: u64,
    line: &'a [u8],
}

impl<'a> Link<'a> {
    pub(in crate::tape) fn of(line: &'a [u8]) -> Option<Link<'a>> {
        let (sum, seen) = (Sum::at_end_of(line)?, glance(line)?);
        Some(Link { sum, time: seen.time, more: seen.more, line })
    }

    /// The sum that the first line of a file continues from, as the line says; the start of a tape if the line names none.
    pub(in crate::tape) fn prev(&self) -> Sum {
        prev_of(self.line).unwrap_or(Sum::START)
    }

    /// Whether the checksum of the line is right if the line before has the sum `before`.
    pub(in crate::tape) fn follows(&self, before: Sum) -> bool {
        before.next(&self.line[..self.line.len() - SUM_FIELD_BYTES]) == self.sum
    }
}

/// The seq of a line, from its first bytes alone: it follows the version and the session.
pub(in crate::tape) fn head_seq(line: &[u8]) -> Option<Seq> {
    let behind_version = line.strip_prefix(b"{\"v\":")?;
    let digits = behind_version.iter().position(|b| !b.is_ascii_digit())?;
    let behind_session = behind_version[digits..].strip_prefix(b",\"session\":\"")?;
    let name = memchr::memchr(b'"', behind_session)?;
    let seq = behind_session[name..].strip_prefix(b"\",\"seq\":")?;
    let digits = seq.iter().position(|b| !b.is_ascii_digit())?;
    std::str::from_utf8(&seq[..digits]).ok()?.parse().ok().map(Seq)
}

/// The seq and the time of a line, from its first bytes alone: session, kind and anchor stand between, and a quote in one of them is
/// escaped.
pub(in crate::tape) fn head(line: &[u8]) -> Option<(Seq, Millis)> {
    const TIME: &[u8] = b"\",\"time\":";
    let seq = head_seq(line)?;
    let time = &line[memchr::memmem::find(line, TIME)? + TIME.len()..];
    let digits = time.iter().position(|b| !b.is_ascii_digit())?;
    Some((seq, Millis(std::str::from_utf8(&time[..digits]).ok()?.parse().ok()?)))
}

/// The fields of a complete line; `None` where it is not one.
pub(in crate::tape) fn glance(line: &[u8]) -> Option<Glance> {
    serde_json::from_slice(line).ok()
}
