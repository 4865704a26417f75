//! Finding one entry in a tape's file of any length by binary search: each line says its seq (the number of its entry).
//!
//! The search reads some twenty places of a file of a gigabyte. The line that [`find`] finds is checked against the checksum of the
//! line before it, and against nothing else: loading the tape checks all of it. A line that does not fit is [`TapeError::Damaged`],
//! never a find. [`begins_at`] checks nothing: its caller decodes the lines from there on, and so checks each against the one
//! before.
//!
//! A change must keep: no lock is taken and nothing is changed, because a writer may be at work; the places that are read grow only
//! with the logarithm of the file's length, except for the error message. It relies on the stored format: one line an entry, no
//! line break inside, seqs that rise by 1, and `seq` in the first 256 bytes of a line. May block on the disk.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
};

use super::{
    Damage, TapeError,
    layout::read_bytes,
    line::{Link, Sum, head_seq},
    read::open_if_there,
};
use crate::words::ids::{Millis, Seq};

/// The search stops halving when this many bytes are left, and reads them line by line.
const WINDOW: u64 = 32 * 1024;

/// A file of this length at most is read whole: that is as cheap, and checks all of it.
const SHORT: u64 = 64 * 1024;

/// How much of a file is read at each place of the search: a line of the usual length, and the beginning of the next.
const PLACE_BYTES: usize = 2 * 1024;

/// A line says its seq within so many bytes.
const HEAD_BYTES: usize = 256;

/// The entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) seq: Seq,
    pub(super) sum: Sum,
    pub(super) time: Millis,
    /// How many lines of its append follow.
    pub(super) more: u64,
}

/// The entry `seq` of a file; `None` if the file does not have it. [`TapeError::Damaged`] if its line does not fit the line before
/// it.
pub(super) fn find(path: &Path, seq: Seq) -> Result<Option<Found>, TapeError> {
    let Some(file) = open_if_there(path)? else { return Ok(None) };
    let found = place_before(&file, seq).and_then(|from| scan(&file, from, seq));
    match found.map_err(TapeError::io("read", path))? {
        Scanned::Found(found) => Ok(Some(found)),
        Scanned::NotThere => Ok(None),
        Scanned::Unsound => {
            let what = "the line does not continue the one before it".into();
            let last_good = Seq(seq.0.saturating_sub(1));
            Err(TapeError::Damaged(Damage { file: path.into(), line: line_number(path, seq)?, what, last_good }))
        }
    }
}

/// The offset of a line before that of `seq` (or of the first line), at most a window or one line before it.
fn place_before(file: &File, seq: Seq) -> io::Result<u64> {
    let end = file.metadata()?.len();
    let (mut from, mut to, mut window) = (0, end, WINDOW);
    // From the end first: most look for the newest entries, and the first line of a file may be a long one.
    while window < end && from == 0 {
        match next_line(file, end - window, to)? {
            Some((begins, Some(found))) if found < seq => from = begins,
            _ => to = end - window,
        }
        window = window.saturating_mul(4);
    }
    while to - from > WINDOW {
        let middle = from + (to - from) / 2;
        match next_line(file, middle, to)? {
            Some((begins, Some(found))) if found < seq => from = begins,
            // The line is not before `seq`, or no line begins here, or it cannot be read: continue in the first half.
            _ => to = middle,
        }
    }
    Ok(from)
}

/// The first line that begins after `from` and before `to`, and its seq where it says one.
fn next_line(file: &File, from: u64, to: u64) -> io::Result<Option<(u64, Option<Seq>)>> {
    let (mut place, mut piece) = (from, vec![0; PLACE_BYTES]);
    loop {
        let read = file.read_at(&mut piece, place)?;
        if let Some(end) = memchr::memchr(b'\n', &piece[..read]) {
            let begins = place + end as u64 + 1;
            let mut head = piece[end + 1..read].to_vec();
            if head.len() < HEAD_BYTES {
                head.resize(HEAD_BYTES, 0);
                let read = file.read_at(&mut head, begins)?;
                head.truncate(read);
            }
            return Ok((begins < to).then(|| (begins, head_seq(&head))));
        }
        place += read as u64;
        if read == 0 || place >= to {
            return Ok(None);
        }
        // A long line.
        piece.resize(WINDOW as usize, 0);
    }
}

/// The place in a file where the line of an entry begins, and what the line goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begins {
    pub(super) offset: u64,
    /// The checksum that the line before says.
    pub(super) before: Sum,
}

/// Where the line of the entry `seq` begins, or will begin if it is the next one. `None` where that cannot be told without reading the
/// whole file: the file is short or missing, the entry is its first one, or a line nearby cannot be read.
pub(super) fn begins_at(path: &Path, seq: Seq) -> Result<Option<Begins>, TapeError> {
    let Some(file) = open_if_there(path)? else { return Ok(None) };
    let look = || -> io::Result<Option<Begins>> {
        let mut first = [0; HEAD_BYTES];
        let read = file.read_at(&mut first, 0)?;
        if file.metadata()?.len() <= SHORT || head_seq(&first[..read]) == Some(seq) {
            return Ok(None);
        }
        let from = place_before(&file, seq)?;
        let mut lines = BufReader::with_capacity(WINDOW as usize, &file);
        lines.seek(SeekFrom::Start(from))?;
        let (mut offset, mut line) = (from, Vec::new());
        let mut before: Option<(Seq, Sum)> = None;
        loop {
            line.clear();
            let length = lines.read_until(b'\n', &mut line)? as u64;
            let is_whole = line.pop() == Some(b'\n');
            // Behind the last whole line comes the next entry, also where its line is just being written.
            let found = if is_whole { head_seq(&line) } else { before.map(|(last, _)| last.next()) };
            match (found, before) {
                (Some(found), Some((_, before))) if found == seq => return Ok(Some(Begins { offset, before })),
                (Some(found), _) if found >= seq => return Ok(None),
                _ if !is_whole => return Ok(None),
                _ => before = found.zip(Sum::at_end_of(&line)),
            }
            offset += length;
        }
    };
    look().map_err(TapeError::io("read", path))
}

enum Scanned {
    Found(Found),
    NotThere,
    Unsound,
}

/// Looks for the entry line by line; `from` is where a line begins.
fn scan(file: &File, from: u64, seq: Seq) -> io::Result<Scanned> {
    let mut lines = BufReader::new(file);
    lines.seek(SeekFrom::Start(from))?;
    let mut line = Vec::new();
    let mut before: Option<Sum> = None;
    let mut is_first_of_file = from == 0;
    loop {
        line.clear();
        lines.read_until(b'\n', &mut line)?;
        // The end of the file, or a line that is being written.
        if line.pop() != Some(b'\n') {
            return Ok(Scanned::NotThere);
        }
        match head_seq(&line) {
            Some(at) if at == seq => {
                let link = Link::of(&line).filter(|link| {
                    let goes_on_from = if is_first_of_file { Some(link.prev()) } else { before };
                    goes_on_from.is_some_and(|before| link.follows(before))
                });
                return Ok(link.map_or(Scanned::Unsound, |link| {
                    Scanned::Found(Found { seq, sum: link.sum, time: link.time, more: link.more })
                }));
            }
            Some(at) if at > seq => return Ok(Scanned::NotThere),
            _ => before = Sum::at_end_of(&line),
        }
        is_first_of_file = false;
    }
}

/// The number of an entry's line in its file, from 1. For an error message; reads the whole file.
fn line_number(path: &Path, seq: Seq) -> Result<usize, TapeError> {
    let bytes = read_bytes(path).map_err(TapeError::io("read", path))?;
    Ok(bytes.split(|b| *b == b'\n').position(|line| head_seq(line) == Some(seq)).map_or(1, |n| n + 1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::tape::{
        line::{Chain, encode_lines},
        tests::support::{entry, id},
    };

    /// Files of lines of all lengths, up to several windows; each entry is found, and none that is not there.
    #[test]
    fn each_entry_of_a_file_is_found_however_long_the_lines_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entries.jsonl");
        for (lines, long) in [(1, 0), (2, 0), (700, 0), (60, 40_000), (60, 200_000)] {
            let mut chain = Chain::start(&id("s"), "001_session-start");
            let (mut bytes, mut sums) = (Vec::new(), Vec::new());
            for seq in 1..=lines {
                let mut entry = entry(seq);
                if long > 0 && seq % 7 == 3 {
                    let text = format!("\"{}\"", "x".repeat(long));
                    entry.data = serde_json::value::RawValue::from_string(text).unwrap();
                }
                bytes.extend(encode_lines(&mut chain, &[entry]).unwrap());
                sums.push(chain.sum);
            }
            std::fs::write(&path, &bytes).unwrap();
            for seq in 1..=lines {
                let found = find(&path, Seq(seq)).unwrap().unwrap();
                assert_eq!((found.seq, found.sum, found.more), (Seq(seq), sums[seq as usize - 1], 0));
            }
            assert_eq!(find(&path, Seq(lines + 1)).unwrap(), None);
            assert_eq!(find(&path, Seq(0)).unwrap(), None);
        }
        assert_eq!(find(&folder.path().join("none"), Seq(1)).unwrap(), None);
    }

    /// Where each line of a long file begins, and what it goes on from; also the line that is not there yet.
    #[test]
    fn the_place_of_each_line_of_a_long_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entries.jsonl");
        for (lines, long) in [(900, 0), (60, 40_000), (40, 200_000)] {
            let mut chain = Chain::start(&id("s"), "001_session-start");
            let (mut bytes, mut places) = (Vec::new(), Vec::new());
            for seq in 1..=lines {
                let mut entry = entry(seq);
                if long > 0 && seq % 7 == 3 {
                    let text = format!("\"{}\"", "x".repeat(long));
                    entry.data = serde_json::value::RawValue::from_string(text).unwrap();
                }
                places.push(Begins { offset: bytes.len() as u64, before: chain.sum });
                bytes.extend(encode_lines(&mut chain, &[entry]).unwrap());
            }
            assert!(bytes.len() as u64 > SHORT);
            places.push(Begins { offset: bytes.len() as u64, before: chain.sum });
            // A line that is being written behind them changes nothing.
            for torn in ["", "{\"v\":1,\"session\":\"s\",\"se"] {
                std::fs::write(&path, [&bytes, torn.as_bytes()].concat()).unwrap();
                for seq in 2..=lines + 1 {
                    assert_eq!(begins_at(&path, Seq(seq)).unwrap(), Some(places[seq as usize - 1]), "{seq} of {lines}");
                }
                // The first entry, and one far behind the end, need the whole file.
                assert_eq!(begins_at(&path, Seq(1)).unwrap(), None);
                assert_eq!(begins_at(&path, Seq(lines + 9)).unwrap(), None);
            }
        }
        std::fs::write(&path, "short\n").unwrap();
        assert_eq!(begins_at(&path, Seq(2)).unwrap(), None);
        assert_eq!(begins_at(&folder.path().join("none"), Seq(2)).unwrap(), None);
    }

    #[test]
    fn a_line_that_does_not_fit_the_one_before_it_is_no_find() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entries.jsonl");
        let mut chain = Chain::start(&id("s"), "001_session-start");
        let all: Vec<_> = (1..=400).map(entry).collect();
        let bytes = encode_lines(&mut chain, &all).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        std::fs::write(&path, text.replace("entry 300", "entry 3oo")).unwrap();
        let Err(TapeError::Damaged(damage)) = find(&path, Seq(300)) else { panic!("not found") };
        assert_eq!((damage.file, damage.line, damage.last_good), (path.clone(), 300, Seq(299)));
        assert_eq!(find(&path, Seq(299)).unwrap().map(|found| found.more), Some(101));
    }
}
