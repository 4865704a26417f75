//! Reading the files of one session's tape: to continue writing them (with the repair of a torn tail, the part of an append that
//! a crash cut off), or alongside their writer.
//!
//! Repair keeps every byte: a torn tail is copied to `entries.torn-NNN` and synced before it is cut off, and a later anchor without
//! a sound line is set aside as a folder. A file with a bad line that has lines after it is left as it is, and the tape can then
//! only be read ([`Damage`]).
//!
//! A change must keep: only [`open_to_write`] changes files, and its caller must have the session's claim; all other functions
//! take no lock and change nothing, because they run alongside a writer; a caller without the claim tries again
//! ([`again_if_damaged`]) before it answers with [`TapeError::Damaged`], because a writer that cuts back a failed write looks like
//! damage. Everything here blocks on the disk.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use super::{
    Damage, TapeEntry, TapeError,
    layout::{FIRST_ANCHOR, Layout, new_file, open_to_read},
    line::{Chain, Decoded, Glance, LINE_BYTES_MAX, Link, Rest, decode_lines, glance, head, head_seq},
};
use crate::words::ids::{Millis, Seq, SessionId};

/// A torn tail that was cut off when a tape was loaded: the append that was being written when the writer died.
///
/// No acknowledged entry is in it, unless the machine lost its power or the disk lost bytes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Repair {
    /// The file that was cut.
    #[serde(serialize_with = "crate::words::path_text")]
    pub file: PathBuf,
    /// The first line that was cut off, from 1.
    pub line: usize,
    /// What was wrong with that line.
    pub what: String,
    /// How many bytes were cut off.
    pub bytes: u64,
    /// The file that has these bytes now.
    #[serde(serialize_with = "crate::words::path_text")]
    pub set_aside: PathBuf,
}

impl Repair {
    /// What was wrong with that line of that file, how many bytes were cut off from there on, and the file that has them now.
    #[must_use]
    pub fn new(
        file: impl Into<PathBuf>,
        line: usize,
        what: impl Into<String>,
        bytes: u64,
        set_aside: impl Into<PathBuf>,
    ) -> Repair {
        Repair { file: file.into(), line, what: what.into(), bytes, set_aside: set_aside.into() }
    }
}

/// A session's newest readable anchor, opened to continue writing it.
pub(super) struct Opened {
    pub(super) chain: Chain,
    pub(super) entries: Vec<TapeEntry>,
    pub(super) anchors: Vec<String>,
    /// The length of the newest file after the repair, in bytes.
    pub(super) length: u64,
    pub(super) repair: Option<Repair>,
    pub(super) damage: Option<Damage>,
}

/// Reads the newest anchor of a session and cuts off a torn tail. The caller must have the session's claim.
pub(super) fn open_to_write(layout: &Layout, session: &SessionId) -> Result<Opened, TapeError> {
    let mut anchors = layout.anchor_names(session)?;
    let (mut repair, mut damage) = (None, None);
    while let Some(anchor) = anchors.last().cloned() {
        let file = layout.entries(session, &anchor);
        let (_, read) = read_file(layout, session, &anchor)?;
        match read.rest {
            Rest::Nothing => {}
            Rest::Torn { line, what } => {
                let cut = set_aside(&file, line, what, read.good_bytes as u64)?;
                repair.get_or_insert(cut);
            }
            Rest::Bad { line, what } => {
                damage.get_or_insert(Damage { file, line, what, last_good: read.chain.seq });
            }
        }
        if !read.entries.is_empty() || anchors.len() == 1 {
            let damage = damage.map(|d: Damage| Damage { last_good: read.chain.seq, ..d });
            let length = read.good_bytes as u64;
            return Ok(Opened { chain: read.chain, entries: read.entries, anchors, length, repair, damage });
        }
        // An anchor without one sound entry was never begun: the one before continues.
        anchors.pop();
        if damage.is_none() {
            set_anchor_aside(layout, session, &anchor)?;
        }
    }
    let chain = Chain::start(session, FIRST_ANCHOR);
    Ok(Opened { chain, entries: Vec::new(), anchors, length: 0, repair, damage })
}

/// Reads, and reads again (four times in all) if the result is [`TapeError::Damaged`]: a live writer that cuts back a failed write
/// looks like damage for a moment. Real damage is still there at the last try.
pub(super) fn again_if_damaged<T>(read: impl Fn() -> Result<T, TapeError>) -> Result<T, TapeError> {
    for _ in 0..3 {
        match read() {
            Err(TapeError::Damaged(_)) => {}
            read => return read,
        }
    }
    read()
}

/// The newest of these anchors that begins at or before `seq`. The anchors follow each other, so a binary search reads the first
/// lines of a few of them. An anchor without a first line counts as not begun.
pub(super) fn newest_at(
    layout: &Layout,
    session: &SessionId,
    anchors: &[String],
    seq: Seq,
) -> Result<Option<usize>, TapeError> {
    let (mut begun, mut not_begun) = (0, anchors.len());
    while begun < not_begun {
        let middle = begun + (not_begun - begun) / 2;
        if first_seq(&layout.entries(session, &anchors[middle]))?.is_some_and(|first| first <= seq) {
            begun = middle + 1;
        } else {
            not_begun = middle;
        }
    }
    // A bad first line may have any number in it. If the anchor before has the entry, take that anchor.
    while begun > 1 {
        let before = last_seen(&layout.entries(session, &anchors[begun - 2]))?;
        // Looked at first: the first line of an anchor has a whole state, which takes long to check.
        if before.is_none_or(|before| before.seq < seq)
            || first_is_sound(&layout.entries(session, &anchors[begun - 1]))?
        {
            break;
        }
        begun -= 1;
    }
    Ok(begun.checked_sub(1))
}

/// Whether the checksum of a file's first line is right for the sum that the line says it continues from.
fn first_is_sound(path: &Path) -> Result<bool, TapeError> {
    let line = first_line(path)?;
    Ok(line.is_some_and(|line| Link::of(&line).is_some_and(|link| link.follows(link.prev()))))
}

/// The bytes and the lines of one anchor's file; a missing file is an empty one.
pub(super) fn read_file(layout: &Layout, session: &SessionId, anchor: &str) -> Result<(Vec<u8>, Decoded), TapeError> {
    let path = layout.entries(session, anchor);
    let bytes = whole_file(&path)?;
    let read = decode_file(&path, session, anchor, &bytes)?;
    Ok((bytes, read))
}

/// The chain that an anchor's file continues: the start of a tape, or the one in its first line.
fn chain_of(session: &SessionId, anchor: &str) -> Chain {
    let is_first = super::layout::anchor_number(anchor) == Some(1);
    if is_first { Chain::start(session, anchor) } else { Chain::unknown(session, anchor) }
}

/// The lines of one anchor's file, which is at `path`.
pub(super) fn decode_file(path: &Path, session: &SessionId, anchor: &str, bytes: &[u8]) -> Result<Decoded, TapeError> {
    decode_lines(&chain_of(session, anchor), bytes).map_err(|error| match error {
        TapeError::Newer { found, known, .. } => TapeError::Newer { file: path.into(), found, known },
        other => other,
    })
}

/// The largest file that is read in one piece. A larger one is read line by line, because it may have a line that no tape can have.
const READ_AT_ONCE_MAX: u64 = 64 * 1024 * 1024;

/// The bytes of a file; a missing file is an empty one. In a file of more than 64 MiB, only the beginning is kept of a line that no
/// tape can have, because it is too long: enough to see that it is bad, or torn where it is the last.
pub(super) fn whole_file(path: &Path) -> Result<Vec<u8>, TapeError> {
    let Some(mut file) = open_if_there(path)? else { return Ok(Vec::new()) };
    let mut bytes = Vec::new();
    let mut read = || -> io::Result<()> {
        if file.metadata()?.len() <= READ_AT_ONCE_MAX {
            return file.read_to_end(&mut bytes).map(drop);
        }
        let mut file = BufReader::new(&file);
        while next_line(&mut file, &mut bytes)? {}
        Ok(())
    };
    read().map_err(TapeError::io("read", path))?;
    Ok(bytes)
}

/// Appends the next line to `bytes`; whether there was one. Of a line that no tape can have, because it is too long, only the
/// beginning is appended, with the line break if there is one.
pub(super) fn next_line(file: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let read = file.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', bytes)?;
    if read > 0 && !bytes.ends_with(b"\n") && skip_line(file)? {
        bytes.push(b'\n');
    }
    Ok(read > 0)
}

/// Passes over the rest of a line; whether it has an end.
pub(super) fn skip_line(file: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let piece = file.fill_buf()?;
        if piece.is_empty() {
            return Ok(false);
        }
        let (used, ends) = memchr::memchr(b'\n', piece).map_or((piece.len(), false), |at| (at + 1, true));
        file.consume(used);
        if ends {
            return Ok(true);
        }
    }
}

/// The bytes of a file from the line at the offset `from` up to the end of the append with the entry `through`, found by counting
/// lines. All that is left of the file if that line cannot be read. A line that is too long is cut off as by [`next_line`].
pub(super) fn bytes_through(path: &Path, from: u64, through: Seq) -> Result<Vec<u8>, TapeError> {
    let Some(mut file) = open_if_there(path)? else { return Ok(Vec::new()) };
    file.seek(SeekFrom::Start(from)).map_err(TapeError::io("read", path))?;
    let mut file = BufReader::with_capacity(64 * 1024, file);
    let mut bytes = Vec::new();
    let (mut read, mut wanted) = (0, 1);
    while read < wanted {
        let from = bytes.len();
        if !next_line(&mut file, &mut bytes).map_err(TapeError::io("read", path))? {
            break;
        }
        read += 1;
        let seen = if read == 1 || read == wanted { glance(&bytes[from..]) } else { None };
        if read == 1 {
            let behind_first = |first: &Glance| through.0.saturating_sub(first.seq.0);
            wanted = seen.as_ref().map_or(u64::MAX, behind_first).saturating_add(1);
        }
        // The last wanted line says how many lines of its append follow.
        if read == wanted {
            wanted += seen.filter(|seen| seen.seq <= through).map_or(0, |seen| seen.more);
        }
    }
    Ok(bytes)
}

/// Copies the tail into a new file next to the tape, syncs it, and then cuts it off. In this order, so that the bytes are in one
/// of the two files at every moment.
fn set_aside(file: &Path, line: usize, what: String, keep: u64) -> Result<Repair, TapeError> {
    let (set_aside, mut copy) = free_name(file)?;
    // Piece by piece: a tail may be larger than the memory.
    let copied = open_to_read(file).and_then(|mut tape| {
        tape.seek(SeekFrom::Start(keep))?;
        let bytes = io::copy(&mut tape, &mut copy)?;
        copy.sync_all().map(|()| bytes)
    });
    let cut = copied.map_err(TapeError::io("set aside", &set_aside)).and_then(|bytes| {
        let tape = OpenOptions::new().write(true).open(file).map_err(TapeError::io("open", file))?;
        tape.set_len(keep).map(|()| (tape, bytes)).map_err(TapeError::io("cut", file))
    });
    if cut.is_err() {
        // The tape is as it was, so remove the copy: on a full disk, each try would leave another one.
        let _ = std::fs::remove_file(&set_aside);
    }
    let (tape, bytes) = cut?;
    tape.sync_all().map_err(TapeError::io("sync", file))?;
    Ok(Repair::new(file, line, what, bytes, set_aside))
}

fn free_name(file: &Path) -> Result<(PathBuf, File), TapeError> {
    let mut n = 1;
    loop {
        let path = file.with_file_name(format!("entries.torn-{n:03}"));
        match new_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => n += 1,
            made => return made.map(|copy| (path.clone(), copy)).map_err(TapeError::io("make", path)),
        }
    }
}

fn set_anchor_aside(layout: &Layout, session: &SessionId, anchor: &str) -> Result<(), TapeError> {
    let folder = layout.anchors(session);
    let from = folder.join(anchor);
    let free = (1..).map(|n| folder.join(format!("torn-{anchor}-{n:03}"))).find(|path| !path.exists());
    let to = free.unwrap_or_else(|| folder.join(format!("torn-{anchor}")));
    std::fs::rename(&from, &to).map_err(TapeError::io("set aside", from))
}

/// The first line of a file, without its line break; `None` if it has no end, or is longer than a line of a tape.
pub(super) fn first_line(path: &Path) -> Result<Option<Vec<u8>>, TapeError> {
    let Some(file) = open_if_there(path)? else { return Ok(None) };
    let (mut file, mut line) = (BufReader::new(file).take(LINE_BYTES_MAX as u64 + 1), Vec::new());
    file.read_until(b'\n', &mut line).map_err(TapeError::io("read", path))?;
    Ok((line.pop() == Some(b'\n')).then_some(line))
}

/// The seq of the first line of a file, if there is one.
pub(super) fn first_seq(path: &Path) -> Result<Option<Seq>, TapeError> {
    Ok(match first(path)? {
        First::Line(line) => head_seq(&line).or_else(|| glance(&line).map(|first| first.seq)),
        First::Long(seq, _) => Some(seq),
        First::Missing => None,
    })
}

/// The seq and the time of the first line of a file, where there is one that can be read.
pub(super) fn first_seen(path: &Path) -> Result<Option<(Seq, Millis)>, TapeError> {
    Ok(match first(path)? {
        First::Line(line) => glance(&line).map(|first| (first.seq, first.time)),
        First::Long(seq, time) => Some((seq, time)),
        First::Missing => None,
    })
}

/// A first line that is longer, such as that of an anchor, is not read whole.
const HEAD_BYTES: usize = 8 * 1024;

/// The first line of a file.
enum First {
    Line(Vec<u8>),
    /// What the beginning of a long line says.
    Long(Seq, Millis),
    /// There is none with an end, or it is longer than a line of a tape.
    Missing,
}

fn first(path: &Path) -> Result<First, TapeError> {
    let Some(mut file) = open_if_there(path)? else { return Ok(First::Missing) };
    let look = |file: &mut File| -> io::Result<Option<First>> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
        if let Some(end) = memchr::memchr(b'\n', &bytes) {
            bytes.truncate(end);
            return Ok(Some(First::Line(bytes)));
        }
        let length = file.metadata()?.len();
        let Some((seq, time)) = head(&bytes).filter(|_| length <= LINE_BYTES_MAX as u64) else { return Ok(None) };
        // A line break anywhere behind it is the end of the line, or comes after it.
        bytes.clear();
        file.seek(SeekFrom::Start(length.saturating_sub(HEAD_BYTES as u64)))?;
        file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
        Ok(memchr::memchr(b'\n', &bytes).map(|_| First::Long(seq, time)))
    };
    match look(&mut file).map_err(TapeError::io("read", path))? {
        Some(first) => Ok(first),
        None => Ok(first_line(path)?.map_or(First::Missing, First::Line)),
    }
}

/// The last whole line of a file that can be read, looking back from its end. No more than the length of one line is held in
/// memory, however long the torn tail after the line is. No checksum is checked.
pub(super) fn last_seen(path: &Path) -> Result<Option<Glance>, TapeError> {
    let Some(mut file) = open_if_there(path)? else { return Ok(None) };
    let failed = || TapeError::io("read", path);
    let mut end = file.metadata().map_err(failed())?.len();
    let mut window: u64 = 8 * 1024;
    loop {
        let from = end.saturating_sub(window);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(from)).map_err(failed())?;
        (&mut file).take(end - from).read_to_end(&mut tail).map_err(failed())?;
        let lines = tail.split_inclusive(|b| *b == b'\n').rev().filter(|line| line.ends_with(b"\n"));
        let seen = lines.filter_map(glance).next();
        if seen.is_some() || from == 0 {
            return Ok(seen);
        }
        if window > LINE_BYTES_MAX as u64 {
            // Of this window, only the end of a line that begins before it is still to be read. A line that fills the window is
            // longer than a tape's line, so it is passed over.
            end = from + memchr::memchr(b'\n', &tail[..tail.len().saturating_sub(1)]).map_or(0, |at| at as u64 + 1);
        }
        window = (window * 16).min(LINE_BYTES_MAX as u64 + 1);
    }
}

pub(super) fn open_if_there(path: &Path) -> Result<Option<File>, TapeError> {
    match open_to_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(TapeError::io("open", path)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn no_more_of_a_file_is_read_than_the_append_that_was_asked_for_needs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entries.jsonl");
        let line = |seq: u64, more: u64| {
            let pad = "x".repeat(1000);
            format!("{{\"seq\":{seq},\"time\":1,\"more\":{more},\"pad\":\"{pad}\"}}\n")
        };
        // Appends of three lines: 11 to 13, 14 to 16, and so on.
        let lines: Vec<String> = (0..3000).map(|n| line(11 + n, 2 - n % 3)).collect();
        std::fs::write(&path, lines.concat()).unwrap();
        for (through, wanted) in [(11, 3), (12, 3), (13, 3), (14, 6), (700, 690), (3010, 3000), (9999, 3000), (5, 1)] {
            let bytes = bytes_through(&path, 0, Seq(through)).unwrap();
            assert!(bytes == lines[..wanted].concat().as_bytes(), "through {through}");
        }
        let reads_at_most = bytes_through(&path, 0, Seq(11)).unwrap().capacity() as u64;
        assert!(reads_at_most <= 64 * 1024, "{reads_at_most}");
        std::fs::write(&path, "no line\n".repeat(10)).unwrap();
        assert_eq!(bytes_through(&path, 0, Seq(2)).unwrap().len(), 80, "where that cannot be told, all of it");
    }

    /// Seen on the release binary: a torn tail of 1 GB took 1.06 GB of memory. A line that no tape can have is not read whole,
    /// but the file is read past it, to distinguish it from a torn tail.
    #[test]
    fn a_line_that_is_too_long_is_not_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entries.jsonl");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        File::options().write(true).open(&path).unwrap().set_len(READ_AT_ONCE_MAX * 4).unwrap();
        let bytes = whole_file(&path).unwrap();
        assert_eq!((&bytes[..8], bytes.len()), (&b"one\ntwo\n"[..], 8 + LINE_BYTES_MAX + 1));
        io::Write::write_all(&mut File::options().append(true).open(&path).unwrap(), b"\nthree\n").unwrap();
        let bytes = whole_file(&path).unwrap();
        assert_eq!((&bytes[bytes.len() - 7..], bytes.len()), (&b"\nthree\n"[..], 8 + LINE_BYTES_MAX + 1 + 7));
        // The other readers of single lines and of a part of the file.
        let line = |seq: u64| format!("{{\"seq\":{seq},\"time\":1}}\n");
        std::fs::write(&path, line(1) + &line(2)).unwrap();
        let good = std::fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(READ_AT_ONCE_MAX * 4).unwrap();
        assert_eq!(bytes_through(&path, 0, Seq(9)).unwrap().len() as u64, good + LINE_BYTES_MAX as u64 + 1);
        assert_eq!(last_seen(&path).unwrap().map(|seen| seen.seq), Some(Seq(2)));
        io::Write::write_all(&mut File::options().append(true).open(&path).unwrap(), b"\nnot a line\n").unwrap();
        assert_eq!(last_seen(&path).unwrap().map(|seen| seen.seq), Some(Seq(2)));
        File::create(&path).unwrap().set_len(READ_AT_ONCE_MAX * 4).unwrap();
        io::Write::write_all(&mut File::options().append(true).open(&path).unwrap(), b"\n").unwrap();
        assert_eq!(first_line(&path).unwrap(), None, "no tape has such a line");
        assert!(last_seen(&path).unwrap().is_none());
        std::fs::write(&path, "one\ntwo\n").unwrap();
        File::options().write(true).open(&path).unwrap().set_len(READ_AT_ONCE_MAX + 8).unwrap();
        // What was torn off is copied piece by piece, and the file is as it was before.
        let repair = set_aside(&path, 3, "torn".into(), 8).unwrap();
        assert_eq!(
            (repair.bytes, std::fs::metadata(&repair.set_aside).unwrap().len()),
            (READ_AT_ONCE_MAX, READ_AT_ONCE_MAX)
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    /// The first line of an anchor has a whole state: its number is known from its beginning.
    #[test]
    fn the_number_of_a_long_first_line_is_read_without_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entries.jsonl");
        for long in [10, HEAD_BYTES, 300_000] {
            let mut chain = Chain::start(&"s".parse().unwrap(), "001_session-start");
            let text = format!("\",\"time\":7,\"seq\":9{}", "x".repeat(long));
            let kind = "a\",\"time\":9".to_owned();
            let data = serde_json::value::to_raw_value(&text).unwrap();
            let entry = TapeEntry { kind, data, ..crate::tape::tests::support::entry(1) };
            let time = entry.time;
            let line = super::super::line::encode_lines(&mut chain, &[entry]).unwrap();
            for more in ["", "torn", "torn\n"] {
                std::fs::write(&path, [&line, more.as_bytes()].concat()).unwrap();
                assert_eq!(first_seen(&path).unwrap(), Some((Seq(1), time)));
                assert_eq!(first_seq(&path).unwrap(), Some(Seq(1)));
            }
            // Without its end it is no line.
            std::fs::write(&path, &line[..line.len() - 1]).unwrap();
            assert_eq!((first_seen(&path).unwrap(), first_seq(&path).unwrap()), (None, None));
        }
        assert_eq!(first_seen(&folder.path().join("none")).unwrap(), None);
    }

    #[test]
    fn a_tail_that_cannot_be_cut_off_leaves_no_copy_behind() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("entries.jsonl");
        for _ in 0..3 {
            assert!(set_aside(&file, 1, "torn".into(), 0).is_err(), "there is no such file");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::fs::write(&file, "good\ntail").unwrap();
        let repair = set_aside(&file, 2, "torn".into(), 5).unwrap();
        assert_eq!(std::fs::read_to_string(&repair.set_aside).unwrap(), "tail");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "good\n");
    }
}
