//! Reading a tape back: whole or from an entry on, beside its writer or in order to go on with it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::{
    Damage, Entry, TapeError,
    layout::{FIRST_ANCHOR, Layout, new_file},
    line::{Chain, Decoded, Rest, decode_lines, glance},
};
use crate::ids::{Millis, Seq, SessionId};

/// A torn tail that was cut off when a tape was loaded: what was being written when the writer died.
///
/// Nothing that was acknowledged is in it, unless the machine lost its power or the disk its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The file that was cut.
    pub file: PathBuf,
    /// The first line that was cut off, from 1.
    pub line: usize,
    /// What was wrong with it.
    pub what: String,
    /// How many bytes were cut off.
    pub bytes: u64,
    /// Where they are now.
    pub set_aside: PathBuf,
}

/// What opening a tape to write found.
pub(super) struct Opened {
    pub(super) chain: Chain,
    pub(super) entries: Vec<Entry>,
    pub(super) anchors: Vec<String>,
    /// How long the newest file is, after the repair.
    pub(super) length: u64,
    pub(super) repair: Option<Repair>,
    pub(super) damage: Option<Damage>,
}

/// Reads the newest anchor of a session that we have the claim of, and cuts off a torn tail.
pub(super) fn open_to_write(layout: &Layout, session: &SessionId) -> Result<Opened, TapeError> {
    let mut anchors = layout.anchor_names(session)?;
    let (mut repair, mut damage) = (None, None);
    while let Some(anchor) = anchors.last().cloned() {
        let file = layout.entries(session, &anchor);
        let (bytes, read) = read_file(layout, session, &anchor)?;
        match read.rest {
            Rest::Nothing => {}
            Rest::Torn { line, what } => {
                let cut = set_aside(&file, line, what, &bytes[read.good_bytes..], read.good_bytes as u64)?;
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
        // An anchor without one sound entry was never begun: the one before goes on.
        anchors.pop();
        if damage.is_none() {
            set_anchor_aside(layout, session, &anchor)?;
        }
    }
    let chain = Chain::start(session, FIRST_ANCHOR);
    Ok(Opened { chain, entries: Vec::new(), anchors, length: 0, repair, damage })
}

/// The entries after `after`, of all anchors. Takes no lock; what a live writer is writing just now is left out.
pub(super) fn read_after(layout: &Layout, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError> {
    let mut tries = 0;
    loop {
        match read_after_once(layout, session, after) {
            // A writer that cuts back a failed write under our hands looks like damage. Damage is still there later.
            Err(TapeError::Damaged(_)) if tries < 3 => tries += 1,
            read => return read,
        }
    }
}

fn read_after_once(layout: &Layout, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError> {
    let anchors = layout.anchor_names(session)?;
    let mut first = 0;
    for (n, anchor) in anchors.iter().enumerate().rev() {
        let begins = first_line(&layout.entries(session, anchor))?.and_then(|line| glance(&line));
        if begins.is_some_and(|(seq, _)| seq <= after.next()) {
            first = n;
            break;
        }
    }
    let mut entries = Vec::new();
    let mut last: Option<Chain> = None;
    for (n, anchor) in anchors.iter().enumerate().skip(first) {
        let (_, read) = read_file(layout, session, anchor)?;
        let file = layout.entries(session, anchor);
        let damaged = |line, what: String, last_good| {
            Err(TapeError::Damaged(Damage { file: file.clone(), line, what, last_good }))
        };
        if let (Some(last), Some(_)) = (&last, read.entries.first())
            && read.began != (last.seq, last.sum)
        {
            return damaged(1, "the anchor does not go on from the one before".into(), last.seq);
        }
        match read.rest {
            Rest::Bad { line, what } => return damaged(line, what, read.chain.seq),
            Rest::Torn { line, what } if n + 1 < anchors.len() => return damaged(line, what, read.chain.seq),
            Rest::Torn { .. } | Rest::Nothing => {}
        }
        entries.extend(read.entries.into_iter().filter(|entry| entry.seq > after));
        last = Some(read.chain);
    }
    Ok(entries)
}

/// The bytes and the lines of one anchor's file; a missing file is an empty one.
pub(super) fn read_file(layout: &Layout, session: &SessionId, anchor: &str) -> Result<(Vec<u8>, Decoded), TapeError> {
    let path = layout.entries(session, anchor);
    let bytes = match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(TapeError::io("read", &path))?,
    };
    let is_first = super::layout::anchor_number(anchor) == Some(1);
    let chain = if is_first { Chain::start(session, anchor) } else { Chain::unknown(session, anchor) };
    let read = decode_lines(&chain, &bytes).map_err(|error| match error {
        TapeError::Newer { found, known, .. } => TapeError::Newer { file: path, found, known },
        other => other,
    })?;
    Ok((bytes, read))
}

/// Copies the tail into a file of its own next to the tape, then cuts it off. In this order, so that it is never nowhere.
fn set_aside(file: &Path, line: usize, what: String, tail: &[u8], keep: u64) -> Result<Repair, TapeError> {
    let (set_aside, mut copy) = free_name(file)?;
    let copied = copy.write_all(tail).and_then(|()| copy.sync_all()).map_err(TapeError::io("write", &set_aside));
    let cut = copied.and_then(|()| {
        let tape = OpenOptions::new().write(true).open(file).map_err(TapeError::io("open", file))?;
        tape.set_len(keep).map(|()| tape).map_err(TapeError::io("cut", file))
    });
    if cut.is_err() {
        // The tape is as it was, so the copy is needed by nobody: on a full disk each try would leave another one.
        let _ = std::fs::remove_file(&set_aside);
    }
    cut?.sync_all().map_err(TapeError::io("sync", file))?;
    Ok(Repair { file: file.into(), line, what, bytes: tail.len() as u64, set_aside })
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

/// The first whole line of a file, without its line break.
pub(super) fn first_line(path: &Path) -> Result<Option<Vec<u8>>, TapeError> {
    let Some(mut file) = open_if_there(path)? else { return Ok(None) };
    let mut line = Vec::new();
    loop {
        let from = line.len();
        let read = (&mut file).take(64 * 1024).read_to_end(&mut line).map_err(TapeError::io("read", path))?;
        if let Some(end) = memchr::memchr(b'\n', &line[from..]) {
            line.truncate(from + end);
            return Ok(Some(line));
        }
        if read == 0 {
            return Ok(None);
        }
    }
}

/// Seq and time of the last whole line of a file that can be read, looking back from its end.
pub(super) fn last_seen(path: &Path) -> Result<Option<(Seq, Millis)>, TapeError> {
    let Some(mut file) = open_if_there(path)? else { return Ok(None) };
    let failed = || TapeError::io("read", path);
    let length = file.metadata().map_err(failed())?.len();
    let mut window: u64 = 64 * 1024;
    loop {
        let from = length.saturating_sub(window);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(from)).map_err(failed())?;
        (&mut file).take(length - from).read_to_end(&mut tail).map_err(failed())?;
        let seen = tail.split_inclusive(|b| *b == b'\n').rev().filter(|l| l.ends_with(b"\n")).find_map(glance);
        if seen.is_some() || from == 0 {
            return Ok(seen);
        }
        window *= 16;
    }
}

fn open_if_there(path: &Path) -> Result<Option<File>, TapeError> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(TapeError::io("open", path)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_tail_that_cannot_be_cut_off_leaves_no_copy_behind() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("entries.jsonl");
        for _ in 0..3 {
            assert!(set_aside(&file, 1, "torn".into(), b"tail", 0).is_err(), "there is no such file");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::fs::write(&file, "good\ntail").unwrap();
        let repair = set_aside(&file, 2, "torn".into(), b"tail", 5).unwrap();
        assert_eq!(std::fs::read_to_string(&repair.set_aside).unwrap(), "tail");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "good\n");
    }
}
