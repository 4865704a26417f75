//! The line: how one entry of a tape is written as bytes, and how the lines of a file are read back and checked.
//!
//! Pure functions of bytes, without I/O. [`encode_lines`] returns the same bytes for the same entries at the same place, in every
//! run. [`decode_lines`] accepts only whole appends whose chain of checksums is sound, and names the first bad line. It takes the
//! sum that a file after the first begins with from the file's own first line, unless the caller knows it.
//!
//! The line is a stored format, guarded by snapshots in `line/snapshots`. A change must keep: a new or changed field needs a new
//! [`VERSION`], and every later version must read version 1; `v` stays the first field, `sum` the last, and the rule of `sum` the
//! same in all versions, so that a newer line is never taken for damage; the fields up to `time` keep their order, because
//! `glance.rs` and `index/search.rs` read them by their place.
//!
//! One line, shown here in two; `docs/TAPE.md`, "The line", specifies the fields:
//!
//! ```text
//! {"v":1,"session":"s","seq":7,"id":"0193…","kind":"result","anchor":"001_session-start","time":1732000000000,
//!  "cause":{"entry":6},"turn":2,"step":1,"ticket":6,"more":1,"in":{…},"data":{…},"sum":"61d3c2a09be4f7c5"}
//! ```

mod glance;

use std::{borrow::Cow, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    tape::{Cause, TapeEntry, TapeError},
    words::depth,
    words::ids::{Millis, Seq, SessionId},
};
pub(super) use glance::{Glance, Link, glance, head, head_seq};

/// The format version that is read and written.
pub(super) const VERSION: u64 = 1;

/// The largest line, in bytes. Larger outputs belong into the spill folder.
pub const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// `,"sum":"` + 16 digits + `"}`.
const SUM_FIELD_BYTES: usize = 26;

/// A line's checksum as it is written: 16 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum([u8; 16]);

impl Sum {
    const START: Sum = Sum(*b"0000000000000000");

    /// The sum that the first line of a tape continues from.
    pub(super) fn zero() -> Sum {
        Sum::START
    }

    /// The sum of a line that follows one with this sum.
    pub(super) fn next(self, line_before_sum: &[u8]) -> Sum {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0).update(line_before_sum);
        let hash = hasher.finalize();
        let mut digits = [0; 16];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(hash.as_bytes()) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        Sum(digits)
    }

    /// The sum at the end of a line. Not checked.
    pub(super) fn at_end_of(line: &[u8]) -> Option<Sum> {
        let tail = line.get(line.len().checked_sub(SUM_FIELD_BYTES)?..)?;
        let digits = tail.strip_prefix(b",\"sum\":\"")?.strip_suffix(b"\"}")?;
        Sum::parse(std::str::from_utf8(digits).ok()?)
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("")
    }

    pub(super) fn parse(text: &str) -> Option<Sum> {
        let digits: [u8; 16] = text.as_bytes().try_into().ok()?;
        digits.iter().all(|d| matches!(d, b'0'..=b'9' | b'a'..=b'f')).then_some(Sum(digits))
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The position of a tape: everything that the next line continues from.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(super) session: SessionId,
    /// The folder that the lines are in: `NNN_name`.
    pub(super) anchor: Arc<str>,
    /// The number of the last entry; 0 before the first.
    pub(super) seq: Seq,
    /// The checksum of the last entry.
    pub(super) sum: Sum,
    /// Whether the next line is the first of its file.
    pub(super) file_is_new: bool,
    /// Whether `seq` and `sum` are not known: the first line of the file tells them.
    unknown: bool,
}

impl Chain {
    /// The place before the first entry of a session.
    pub(crate) fn start(session: &SessionId, anchor: &str) -> Chain {
        Chain {
            session: session.clone(),
            anchor: anchor.into(),
            seq: Seq::ZERO,
            sum: Sum::START,
            file_is_new: true,
            unknown: false,
        }
    }

    /// The place before the first line of a file whose predecessors were not read.
    pub(super) fn unknown(session: &SessionId, anchor: &str) -> Chain {
        Chain { unknown: true, ..Chain::start(session, anchor) }
    }

    /// The place after an entry of another tape, from which a fork continues.
    pub(super) fn forked(session: &SessionId, anchor: &str, seq: Seq, sum: Sum) -> Chain {
        Chain { seq, sum, ..Chain::start(session, anchor) }
    }

    /// A place in the middle of a file.
    pub(super) fn at(session: &SessionId, anchor: &str, seq: Seq, sum: Sum) -> Chain {
        Chain { seq, sum, file_is_new: false, ..Chain::start(session, anchor) }
    }

    /// The same place, with the next line in another file.
    pub(super) fn in_file(&self, anchor: &str) -> Chain {
        Chain { anchor: anchor.into(), file_is_new: true, ..self.clone() }
    }
}

/// Encodes one append as lines, and moves the chain after them. On an error the chain stays where it was.
///
/// Line breaks inside of `data` (which JSON allows between its tokens) become spaces.
pub(crate) fn encode_lines(chain: &mut Chain, entries: &[TapeEntry]) -> Result<Vec<u8>, TapeError> {
    let mut seq = chain.seq;
    let mut size = 0;
    for entry in entries {
        if entry.seq != seq.next() {
            return Err(TapeError::Gap { session: chain.session.clone(), expected: seq.next(), got: entry.seq });
        }
        seq = entry.seq;
        let input = entry.input.as_ref().map_or(0, |input| input.get().len());
        let bytes = entry.data.get().len() + entry.kind.len() + input + 512;
        if bytes > LINE_BYTES_MAX {
            return Err(TapeError::TooLarge { bytes, max: LINE_BYTES_MAX });
        }
        size += bytes;
    }
    let mut out = Vec::with_capacity(size);
    let mut sum = chain.sum;
    for (n, entry) in entries.iter().enumerate() {
        let from = out.len();
        let more = entries.len() - 1 - n;
        let prev = (chain.file_is_new && n == 0 && entry.seq.0 > 1).then_some(sum);
        let line = Line {
            v: VERSION,
            session: chain.session.as_str().into(),
            seq: entry.seq,
            id: entry_id(chain, entry, sum),
            kind: entry.kind.as_str().into(),
            anchor: (&*chain.anchor).into(),
            time: entry.time,
            cause: entry.cause.clone(),
            turn: entry.turn,
            step: entry.step,
            ticket: entry.ticket,
            more: (more > 0).then_some(more),
            prev: prev.as_ref().map(|prev| prev.as_str().into()),
            input: entry.input.as_deref(),
            data: &entry.data,
            _sum: "",
        };
        serde_json::to_writer(&mut out, &line).expect("text and numbers are JSON, and a Vec takes every byte");
        // Take the closing brace off: the sum goes before it.
        out.pop();
        if memchr::memchr2(b'\n', b'\r', &out[from..]).is_some() {
            out[from..].iter_mut().filter(|b| matches!(b, b'\n' | b'\r')).for_each(|b| *b = b' ');
        }
        sum = sum.next(&out[from..]);
        out.extend_from_slice(b",\"sum\":\"");
        out.extend_from_slice(&sum.0);
        out.extend_from_slice(b"\"}\n");
    }
    if !entries.is_empty() {
        *chain = Chain { seq, sum, file_is_new: false, ..chain.clone() };
    }
    Ok(out)
}

/// A UUIDv7 of the entry's time, made from the entry's position instead of from chance: the same entry appended to the same tape
/// has the same id in every run. The 12 bits after the time are the low bits of the seq, so ids of one millisecond sort as their
/// entries, except across a multiple of 4,096.
fn entry_id(chain: &Chain, entry: &TapeEntry, sum: Sum) -> Uuid {
    let mut hasher = blake3::Hasher::new();
    hasher.update(chain.session.as_str().as_bytes()).update(&entry.seq.0.to_le_bytes()).update(&sum.0);
    let mut tail = [0; 10];
    tail.copy_from_slice(&hasher.finalize().as_bytes()[..10]);
    tail[..2].copy_from_slice(&(entry.seq.0 as u16 & 0xfff).to_be_bytes());
    uuid::Builder::from_unix_timestamp_millis(entry.time.0, &tail).into_uuid()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    v: u64,
    #[serde(borrow)]
    session: Cow<'a, str>,
    seq: Seq,
    id: Uuid,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    anchor: Cow<'a, str>,
    time: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    prev: Option<Cow<'a, str>>,
    #[serde(rename = "in", borrow, skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    data: &'a RawValue,
    /// Written apart, as it covers everything before it.
    #[serde(rename = "sum", borrow, skip_serializing)]
    _sum: &'a str,
}

impl Line<'_> {
    fn entry(self) -> TapeEntry {
        TapeEntry {
            seq: self.seq,
            time: self.time,
            cause: self.cause,
            turn: self.turn,
            step: self.step,
            ticket: self.ticket,
            input: self.input.map(ToOwned::to_owned),
            kind: self.kind.into_owned(),
            data: self.data.to_owned(),
        }
    }
}

/// The decoded lines of one file.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// The sound entries, of whole appends alone: an append that is half written, or has a bad line, is left out.
    pub(crate) entries: Vec<TapeEntry>,
    /// The offset of each entry's line, in bytes.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "only the index asks"))]
    pub(super) offsets: Vec<usize>,
    /// How many lines of the same append follow each entry.
    pub(super) more: Vec<usize>,
    /// The entry, and its sum, that the first line continues from.
    pub(super) began: (Seq, Sum),
    /// The place after the last sound entry.
    pub(crate) chain: Chain,
    /// The length of the sound lines, in bytes.
    pub(crate) good_bytes: usize,
    /// What follows the sound lines.
    pub(crate) rest: Rest,
}

impl Decoded {
    /// Whether the first line continues from the end of the file before. True for no lines.
    pub(super) fn goes_on_from(&self, before: &Chain) -> bool {
        self.entries.is_empty() || self.began == (before.seq, before.sum)
    }
}

/// What follows the sound lines of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing.
    Nothing,
    /// A torn tail: part of a line, one bad last line, or an append of which lines are missing.
    Torn {
        /// The first line that is cut off, from 1.
        line: usize,
        what: String,
    },
    /// A bad line with further lines after it.
    Bad {
        /// The bad line, from 1.
        line: usize,
        what: String,
    },
}

/// Reads the lines of one file that continues from `chain`. The only error is [`TapeError::Newer`]; damage is in
/// [`Decoded::rest`].
pub(crate) fn decode_lines(chain: &Chain, bytes: &[u8]) -> Result<Decoded, TapeError> {
    let (good, newer) = decode_known_lines(chain, bytes);
    let file = || Path::new(&*chain.anchor).into();
    newer.map_or(Ok(good), |found| Err(TapeError::Newer { file: file(), found, known: VERSION }))
}

/// Reads the lines before the first one of a newer format, and says which format that is.
pub(super) fn decode_known_lines(chain: &Chain, bytes: &[u8]) -> (Decoded, Option<u64>) {
    let mut good = Decoded {
        entries: Vec::new(),
        offsets: Vec::new(),
        more: Vec::new(),
        began: (chain.seq, chain.sum),
        chain: chain.clone(),
        good_bytes: 0,
        rest: Rest::Nothing,
    };
    // The end of the last whole append: the result falls back to it when the append after it is torn or bad.
    let mut whole = (0, good.chain.clone(), 0);
    let (mut pending, mut newer) = (None, None);
    while good.good_bytes < bytes.len() {
        let from = good.good_bytes;
        let end = memchr::memchr(b'\n', &bytes[from..]).map(|n| from + n);
        let read = match end {
            Some(end) => decode_line(&good.chain, &bytes[from..end], pending),
            None => Err(Flaw::Bad("the line has no end".into())),
        };
        match read {
            Ok((entry, sum, more)) => {
                if good.chain.unknown {
                    let before = end.and_then(|end| prev_of(&bytes[from..end])).unwrap_or(Sum::START);
                    good.began = (Seq(entry.seq.0 - 1), before);
                }
                let end = end.unwrap_or(bytes.len());
                good.chain = Chain { seq: entry.seq, sum, file_is_new: false, unknown: false, ..good.chain };
                good.entries.push(entry);
                good.offsets.push(from);
                good.more.push(more);
                good.good_bytes = end + 1;
                pending = more.checked_sub(1);
                if more == 0 {
                    whole = (good.entries.len(), good.chain.clone(), good.good_bytes);
                }
            }
            Err(Flaw::Newer(found)) => {
                newer = Some(found);
                break;
            }
            Err(Flaw::Bad(what)) => {
                let line = good.entries.len() + 1;
                let is_last = end.is_none_or(|end| end + 1 == bytes.len());
                good.rest = if is_last { Rest::Torn { line, what } } else { Rest::Bad { line, what } };
                break;
            }
        }
    }
    let (entries, chain, good_bytes) = whole;
    if entries < good.entries.len() {
        good.rest = match good.rest {
            // Name the bad line itself, and not the first line of its append.
            Rest::Bad { line, what } => Rest::Bad { line, what },
            Rest::Torn { what, .. } => Rest::Torn { line: entries + 1, what },
            Rest::Nothing => Rest::Torn { line: entries + 1, what: "lines of the last append are missing".into() },
        };
        good.entries.truncate(entries);
        good.offsets.truncate(entries);
        good.more.truncate(entries);
        good.chain = chain;
        good.good_bytes = good_bytes;
    }
    (good, newer)
}

enum Flaw {
    Newer(u64),
    Bad(String),
}

/// Reads and checks one line, without its line break. `more`: how many lines of its append must follow, as the line before says.
fn decode_line(chain: &Chain, line: &[u8], more: Option<usize>) -> Result<(TapeEntry, Sum, usize), Flaw> {
    let bad = |what: String| Err(Flaw::Bad(what));
    let Some(before_sum) = line.len().checked_sub(SUM_FIELD_BYTES).filter(|n| *n > 0) else {
        return bad("the line is too short".into());
    };
    let body = &line[..before_sum];
    let Some(written) = Sum::at_end_of(line) else {
        return bad("the line does not end in a checksum".into());
    };
    let first_of_unknown = chain.unknown;
    let before = if first_of_unknown { prev_of(line).unwrap_or(Sum::START) } else { chain.sum };
    if before.next(body) != written {
        return bad("the checksum does not fit".into());
    }
    if let Some(found) = version_of(line).filter(|v| *v > VERSION) {
        return Err(Flaw::Newer(found));
    }
    if !depth::text_is_within(line, depth::LINE_DEPTH_MAX) {
        return bad(format!("nested deeper than {} levels", depth::LINE_DEPTH_MAX));
    }
    let parsed: Line<'_> = match serde_json::from_slice(line) {
        Ok(parsed) => parsed,
        Err(error) => return bad(format!("not an entry: {error}")),
    };
    let expected = if first_of_unknown { parsed.seq } else { chain.seq.next() };
    let expected_prev = (chain.file_is_new && parsed.seq.0 > 1).then_some(before);
    let prev = parsed.prev.as_deref().map(Sum::parse);
    let follows = parsed.more.unwrap_or(0);
    if !(1..=VERSION).contains(&parsed.v) {
        bad(format!("version {} is unknown", parsed.v))
    } else if *parsed.session != *chain.session.as_str() {
        bad(format!("the line is of session {}", parsed.session))
    } else if *parsed.anchor != *chain.anchor {
        bad(format!("the line is of anchor {}", parsed.anchor))
    } else if parsed.seq != expected || parsed.seq == Seq::ZERO {
        bad(format!("seq {} where {expected} is next", parsed.seq))
    } else if prev != expected_prev.map(Some) {
        bad("the line names another predecessor".into())
    } else if more.is_some_and(|more| more != follows) {
        bad("lines of one append are missing".into())
    } else if parsed.id.get_version_num() != 7 {
        bad("the id is not a UUIDv7".into())
    } else {
        Ok((parsed.entry(), written, follows))
    }
}

/// The version of a line. It is the first field, so it can be read even if everything else has changed.
fn version_of(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(b"{\"v\":")?;
    let end = digits.iter().position(|b| !b.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

fn prev_of(line: &[u8]) -> Option<Sum> {
    #[derive(Deserialize)]
    struct Prev<'a> {
        prev: Option<&'a str>,
    }
    Sum::parse(serde_json::from_slice::<Prev<'_>>(line).ok()?.prev?)
}

/// The entry of a line that was checked before. Checks nothing.
pub(super) fn entry_of(line: &[u8]) -> Option<TapeEntry> {
    serde_json::from_slice::<Line<'_>>(line).ok().map(Line::entry)
}

#[cfg(test)]
mod tests;
