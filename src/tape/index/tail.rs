//! Reading on for the index: which sessions changed, and the next piece of a tape's file after the place that was read to before.
//!
//! Both parts of the index use it, the words (`pull.rs`) and the rows of sessions (`session_rows.rs`). A piece holds whole appends
//! only. If the line before the remembered place does not have the remembered checksum, the file is another one: the answer is
//! `None`, and the caller reads the session again. A session counts as unchanged while the number of its files and their total
//! length are what was read, so checking it costs the names in its folder and the lengths of its files.
//!
//! A change must keep: no lock is taken and no file is written, because this code runs alongside live writers; memory is bounded by
//! a piece or by a few times one append.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::FileExt as _,
    path::Path,
    time::Instant,
};

use rusqlite::{Connection, Params, Row};
use serde::{Deserialize, Serialize};

use super::Failed;
use crate::{
    tape::{
        TapeError,
        layout::{Layout, anchor_number},
        line::{Chain, Decoded, LINE_BYTES_MAX, Rest, Sum, decode_known_lines, glance},
        read::{next_line, open_if_there, skip_line},
    },
    words::ids::{Seq, SessionId},
};

/// How much of a file is read at a time. An append that is larger is read whole, except for a line that no tape can have.
const PIECE_BYTES: u64 = 8 * 1024 * 1024;

/// How far a file was read: the offset in bytes, the last entry before it, and the checksum of that entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FileCursor {
    pub(super) offset: u64,
    pub(super) seq: Seq,
    pub(super) sum: String,
}

/// A file of a tape, and how long it was when it was opened.
pub(super) struct Tail {
    path: Box<Path>,
    file: File,
    pub(super) length: u64,
}

/// A piece of a file that was read at once.
pub(super) struct Piece {
    /// The offset of its first byte in the file.
    pub(super) offset: u64,
    pub(super) decoded: Decoded,
    /// How many bytes were read to get the piece.
    pub(super) bytes: u64,
    /// Whether it was read to the end that the file had when it was opened.
    pub(super) ends: bool,
    /// Whether a line of a later version comes next. The index does not read that line, nor what follows it in the file.
    pub(super) is_newer: bool,
}

impl Piece {
    /// Up to where the file is read now.
    pub(super) fn end(&self) -> FileCursor {
        let Decoded { chain, good_bytes, .. } = &self.decoded;
        FileCursor { offset: self.offset + *good_bytes as u64, seq: chain.seq, sum: chain.sum.as_str().to_owned() }
    }

    /// Whether a line comes next that cannot be read and is not the last one.
    pub(super) fn is_bad(&self) -> bool {
        matches!(self.decoded.rest, Rest::Bad { .. })
    }

    /// How much of the file of this length counts as read, if nothing after the piece can be read now; else `None`. A file is
    /// read again when its length differs from this: a torn tail may be an append that is being written, and be cut back, so it
    /// does not count. A bad line counts, and so does one of a later version: the file is not read past it until it grows.
    pub(super) fn is_last(&self, length: u64) -> Option<u64> {
        if self.is_newer || self.is_bad() { Some(length) } else { self.ends.then(|| self.end().offset) }
    }
}

impl Tail {
    /// `None` if the file does not exist.
    pub(super) fn open(path: &Path) -> Result<Option<Tail>, TapeError> {
        let Some(file) = open_if_there(path)? else { return Ok(None) };
        let length = file.metadata().map_err(TapeError::io("read", path))?.len();
        Ok(Some(Tail { path: path.into(), file, length }))
    }

    /// The next piece after a place, or from the beginning of the file: one append at least, if any. `None` if the file is not
    /// the one that was read before.
    pub(super) fn read(
        &mut self,
        session: &SessionId,
        anchor: &str,
        from: Option<&FileCursor>,
    ) -> Result<Option<Piece>, TapeError> {
        self.piece(session, anchor, from).map_err(TapeError::io("read", &*self.path))
    }

    fn piece(&mut self, session: &SessionId, anchor: &str, from: Option<&FileCursor>) -> io::Result<Option<Piece>> {
        let from = from.filter(|from| from.offset > 0);
        let offset = from.map_or(0, |from| from.offset);
        // The line before the place must have the remembered checksum, which covers everything before it. Else it is another file.
        if let Some(from) = from
            && (self.length < offset || !self.ends_with_sum(from)?)
        {
            return Ok(None);
        }
        let mut at_most = PIECE_BYTES;
        loop {
            self.file.seek(SeekFrom::Start(offset))?;
            let (mut bytes, wanted) = (Vec::new(), (self.length - offset).min(at_most));
            (&mut self.file).take(wanted).read_to_end(&mut bytes)?;
            #[cfg(test)]
            READ_BYTES.with(|read| read.set(read.get() + bytes.len()));
            // The file may have been cut meanwhile.
            let mut ends = offset + bytes.len() as u64 >= self.length || (bytes.len() as u64) < wanted;
            if !ends && is_too_long(&bytes) {
                // Bad where a line follows, which is read to tell that; else it is torn.
                let mut rest = BufReader::new(&self.file);
                let has_end = skip_line(&mut rest)?;
                bytes.extend(has_end.then_some(b'\n'));
                ends = !(has_end && next_line(&mut rest, &mut bytes)?);
            }
            let chain = match from {
                Some(from) => match Sum::parse(&from.sum) {
                    Some(sum) => Chain::at(session, anchor, from.seq, sum),
                    None => return Ok(None),
                },
                None => chain_of_start(session, anchor, &bytes),
            };
            let (decoded, newer) = decode_known_lines(&chain, &bytes);
            // Again with more, while not one whole append fits.
            let fits = !decoded.entries.is_empty() || !matches!(decoded.rest, Rest::Torn { .. });
            if ends || fits || newer.is_some() {
                let bytes = bytes.len() as u64;
                return Ok(Some(Piece { offset, decoded, bytes, ends, is_newer: newer.is_some() }));
            }
            at_most = at_most.saturating_mul(4);
        }
    }

    /// Whether the line before that place says that its checksum is this one.
    fn ends_with_sum(&self, cursor: &FileCursor) -> io::Result<bool> {
        let tail = format!(",\"sum\":\"{}\"}}\n", cursor.sum);
        let mut found = vec![0; tail.len()];
        let Some(from) = cursor.offset.checked_sub(tail.len() as u64) else { return Ok(false) };
        match self.file.read_exact_at(&mut found, from) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            read => read.map(|()| found == tail.as_bytes()),
        }
    }
}

/// How many files of each session were read, and their length together.
pub(super) type Known = BTreeMap<String, (u64, u64)>;

/// Reads that with a query for a session, the number of files and their length.
pub(super) fn known(database: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<Known> {
    let number = |row: &Row<'_>, column| row.get::<_, i64>(column).map(|n| u64::try_from(n).unwrap_or(u64::MAX));
    let mut query = database.prepare(sql)?;
    query.query_map(params, |row| Ok((row.get(0)?, (number(row, 1)?, number(row, 2)?))))?.collect()
}

/// The sessions whose files changed since the index read them.
pub(super) struct Stale {
    pub(super) sessions: Vec<SessionId>,
    /// The sessions that the index knows and that are gone.
    pub(super) gone: Vec<String>,
}

impl Stale {
    /// The stale ones of these sessions. `known` says how far each was read, also of those that are gone. A look at an unchanged
    /// session costs the names in a folder and the lengths of files.
    pub(super) fn of(layout: &Layout, there: Vec<SessionId>, mut known: Known) -> Result<Stale, Failed> {
        let mut sessions = there;
        sessions.retain(|session| {
            let known = known.remove(session.as_str());
            // A file that cannot be read is found out later, when it is read.
            !files_of(layout, session).is_ok_and(|found| known.map_or(found.1 == 0, |known| known == found))
        });
        Ok(Stale { sessions, gone: known.into_keys().collect() })
    }

    /// Whether no row has to change.
    pub(super) fn is_nothing(&self) -> bool {
        self.sessions.is_empty() && self.gone.is_empty()
    }

    /// Reads the stale sessions on, one after the other, until the time is over; `read` says whether it came to the end of the
    /// session. Returns how many sessions are still behind. One that cannot be read is behind, and the others are read on.
    pub(super) fn each(
        &self,
        until: Option<Instant>,
        mut read: impl FnMut(&SessionId) -> Result<bool, Failed>,
    ) -> Result<u64, Failed> {
        let mut behind = 0;
        for session in &self.sessions {
            if until.is_some_and(|until| Instant::now() >= until) {
                behind += 1;
                continue;
            }
            match read(session) {
                Err(failed) if failed.is_of_one_session() => {
                    tracing::warn!(%session, ?failed, "a session cannot be read for the index");
                    behind += 1;
                }
                is_whole => behind += u64::from(!is_whole?),
            }
        }
        Ok(behind)
    }
}

/// Whether the last line, which has no end here, is already longer than a line of a tape.
fn is_too_long(bytes: &[u8]) -> bool {
    let line = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    bytes.len() - line > LINE_BYTES_MAX
}

/// How many files there are, and how long they are together.
pub(super) fn files_of(layout: &Layout, session: &SessionId) -> Result<(u64, u64), TapeError> {
    let (mut files, mut bytes) = (0, 0);
    for anchor in layout.anchor_names(session)? {
        let path = layout.entries(session, &anchor);
        match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            metadata => {
                bytes += metadata.map_err(TapeError::io("look at", path))?.len();
                files += 1;
            }
        }
    }
    Ok((files, bytes))
}

/// The chain that the lines of a file continue when it is read from its beginning.
fn chain_of_start(session: &SessionId, anchor: &str, bytes: &[u8]) -> Chain {
    // The first file of a tape that continues from another one does not begin with 1.
    let first_line = memchr::memchr(b'\n', bytes).and_then(|end| glance(&bytes[..end]));
    let goes_on = first_line.is_some_and(|first| first.seq > Seq(1));
    let is_start = anchor_number(anchor) == Some(1) && !goes_on;
    if is_start { Chain::start(session, anchor) } else { Chain::unknown(session, anchor) }
}

#[cfg(test)]
thread_local! {
    /// How much of tapes was read.
    pub(super) static READ_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
