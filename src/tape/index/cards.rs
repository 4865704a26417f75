//! One row for each session, for lists: what somebody above sums up of its entries, and when it was used last.
//!
//! This layer does not know what entries mean, so the sum is a text to it, made by a [`Fold`] that is handed in and goes on from
//! the text that it made before. As with the entries, for each session is remembered up to where its files were read; what was
//! appended since is read when somebody asks. A look at what has not changed is the names in a folder and the lengths of files.
//!
//! It has nothing to do with searching: a list does not wait for words to be indexed, nor a search for sums.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};

use super::{
    BUSY_WAIT, Failed, Index, inode, open,
    tail::{Place, Tail},
    try_lock_index,
};
use crate::{
    ids::{Millis, Seq, SessionId},
    tape::{Behind, Entry, TapeError, layout::Layout, lineage::origin},
};

/// So much is read, or so many sessions are, before it is written down.
const BATCH_BYTES: u64 = 8 * 1024 * 1024;
const BATCH_SESSIONS: usize = 256;

/// Sums up entries.
pub(crate) struct Fold<'f> {
    /// Its form. What was summed up in another one is read anew.
    pub(crate) form: u32,
    /// From what it said before, to what it says after these entries of the session.
    pub(crate) take: &'f dyn Fn(Option<&str>, &[Entry]) -> Folded,
}

/// A sum of entries.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub(crate) digest: String,
    /// The session that this one is shown below, and whether as a fork of it.
    pub(crate) parent: Option<(SessionId, bool)>,
}

/// What bringing the rows up to date took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Brought {
    /// Sessions whose folder and files were looked at.
    pub(crate) looked_at: u64,
    /// Sessions of which something was read.
    pub(crate) read: u64,
    /// Bytes of tapes that were read.
    pub(crate) bytes: u64,
    /// Sessions of which something was not read, because the time was over, or their files cannot be read.
    pub(crate) behind: u64,
}

/// A session's row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Card {
    pub(crate) session: SessionId,
    pub(crate) digest: String,
    pub(crate) parent: Option<(SessionId, bool)>,
    pub(crate) created: Millis,
    pub(crate) last: Millis,
    pub(crate) seq: Seq,
    /// Entries of its own: a fork's begin where it was forked.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Index {
    /// Reads what was appended since, of all sessions, for as long as it may.
    ///
    /// # Errors
    /// As catching up.
    pub(crate) fn bring_cards(&mut self, fold: &Fold<'_>, wait: Duration) -> Result<(Brought, Behind), TapeError> {
        if self.only_reads {
            let looked = count_behind(&self.database, &self.layout, fold.form).map_err(|e| e.into_error("read"))?;
            return Ok((looked, behind(looked.behind)));
        }
        let until = Instant::now() + wait;
        let lock = match try_lock_index(&self.layout, wait.min(BUSY_WAIT)) {
            Ok(Some(lock)) => lock,
            Ok(None) => return Ok((Brought::default(), Behind::Unknown)),
            // What is there can be listed on a full disk, too.
            Err(error) if error.is_full() => return Ok((Brought::default(), Behind::Unknown)),
            Err(error) => return Err(error),
        };
        if self.inode != inode(&self.path) {
            self.database = open(&self.path).map_err(|failed| failed.into_error("open"))?;
            self.inode = inode(&self.path);
        }
        let brought = match bring_all(&mut self.database, &self.layout, fold, until) {
            Err(Failed::Corrupt(_)) => {
                self.make_anew()?;
                bring_all(&mut self.database, &self.layout, fold, until)
            }
            brought => brought,
        };
        drop(lock);
        match brought.map_err(|failed| failed.into_error("write")) {
            Ok(brought) => Ok((brought, behind(brought.behind))),
            Err(TapeError::Index { message, .. }) if message.contains("disk is full") => {
                Ok((Brought::default(), Behind::Unknown))
            }
            Err(error) => Err(error),
        }
    }

    /// The rows, as they are at one moment.
    pub(crate) fn cards(&self) -> Result<Cards<'_>, TapeError> {
        let at_once = self.database.unchecked_transaction();
        at_once.map(|at_once| Cards { at_once }).map_err(|error| Failed::from(error).into_error("read"))
    }
}

fn behind(count: u64) -> Behind {
    if count == 0 { Behind::No } else { Behind::Sessions(count) }
}

/// The rows, as they were at one moment.
pub(crate) struct Cards<'i> {
    at_once: Transaction<'i>,
}

const COLUMNS: &str = "session, digest, parent, is_fork, created, last, seq, entries, bytes";

fn card(row: &Row<'_>) -> rusqlite::Result<Option<Card>> {
    let number = |column: usize| row.get::<_, i64>(column).map(|n| u64::try_from(n).unwrap_or(0));
    let parent: Option<String> = row.get(2)?;
    let is_fork: bool = row.get(3)?;
    // What is in the database is not believed: a name that is none is no session's.
    let Ok(session) = row.get::<_, String>(0)?.parse() else { return Ok(None) };
    Ok(Some(Card {
        session,
        digest: row.get(1)?,
        parent: parent.and_then(|parent| Some((parent.parse().ok()?, is_fork))),
        created: Millis(number(4)?),
        last: Millis(number(5)?),
        seq: Seq(number(6)?),
        entries: number(7)?,
        bytes: number(8)?,
    }))
}

impl Cards<'_> {
    /// The rows behind that place, those that were used last first, so many at most.
    pub(crate) fn newest_first(&self, after: Option<(Millis, &str)>, limit: usize) -> Result<Vec<Card>, TapeError> {
        // Behind every name that there can be: the last time of all is one that an entry may have.
        let (last, session) = after.map_or((i64::MAX, "\u{10ffff}"), |(last, session)| (signed(last.0), session));
        let sql = format!(
            "select {COLUMNS} from cards where (last, session) < (?1, ?2) order by last desc, session desc limit ?3"
        );
        let mut query = self.at_once.prepare(&sql).map_err(failed)?;
        let rows = query.query_map(params![last, session, signed(limit as u64)], card).map_err(failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// The row of a session.
    pub(crate) fn one(&self, session: &SessionId) -> Result<Option<Card>, TapeError> {
        let sql = format!("select {COLUMNS} from cards where session = ?1");
        let mut query = self.at_once.prepare(&sql).map_err(failed)?;
        Ok(query.query_row([session.as_str()], card).optional().map_err(failed)?.flatten())
    }

    /// The sessions that are shown directly below one, newest first, so many at most.
    pub(crate) fn below(&self, parent: &SessionId, limit: usize) -> Result<Vec<Card>, TapeError> {
        let sql = format!("select {COLUMNS} from cards where parent = ?1 order by last desc, session desc limit ?2");
        let mut query = self.at_once.prepare(&sql).map_err(failed)?;
        let rows = query.query_map(params![parent.as_str(), signed(limit as u64)], card).map_err(failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// How many forks, and how many children with a task, a session has.
    pub(crate) fn count_below(&self, parent: &SessionId) -> Result<(u64, u64), TapeError> {
        let sql =
            "select count(*) filter (where is_fork), count(*) filter (where not is_fork) from cards where parent = ?1";
        let mut query = self.at_once.prepare(sql).map_err(failed)?;
        let counted = query.query_row([parent.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
        counted.map(|(forks, tasks)| (forks.unsigned_abs(), tasks.unsigned_abs())).map_err(failed)
    }
}

fn failed(error: rusqlite::Error) -> TapeError {
    Failed::from(error).into_error("read")
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Up to where a session was read.
struct Mark {
    form: u32,
    files: u64,
    bytes: u64,
}

fn marks(database: &Connection) -> Result<BTreeMap<String, Mark>, Failed> {
    let mut query = database.prepare("select session, form, files, bytes from cards")?;
    let rows = query.query_map([], |row| {
        let (files, bytes): (i64, i64) = (row.get(2)?, row.get(3)?);
        Ok((row.get(0)?, Mark { form: row.get(1)?, files: files.unsigned_abs(), bytes: bytes.unsigned_abs() }))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether there are as many files as there were, and as long together.
fn is_as_known(layout: &Layout, session: &SessionId, mark: Option<&Mark>, form: u32) -> Result<bool, TapeError> {
    let (mut files, mut bytes) = (0, 0);
    for anchor in layout.anchor_names(session)? {
        let path = layout.entries(session, &anchor);
        match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            looked => {
                bytes += looked.map_err(TapeError::io("look at", path))?.len();
                files += 1;
            }
        }
    }
    let is_empty = bytes == 0;
    Ok(mark.map_or(is_empty, |mark| mark.form == form && mark.files == files && mark.bytes == bytes))
}

fn count_behind(database: &Connection, layout: &Layout, form: u32) -> Result<Brought, Failed> {
    let known = marks(database)?;
    let mut brought = Brought::default();
    for session in layout.all_session_ids()? {
        brought.looked_at += 1;
        let is_known = is_as_known(layout, &session, known.get(session.as_str()), form);
        brought.behind += u64::from(!is_known.unwrap_or(false));
    }
    Ok(brought)
}

fn bring_all(database: &mut Connection, layout: &Layout, fold: &Fold<'_>, until: Instant) -> Result<Brought, Failed> {
    let mut done = Brought::default();
    // The deleted ones that forks go on from are there too.
    let sessions = layout.all_session_ids()?;
    let known = marks(database)?;
    let mut change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let there: BTreeSet<&str> = sessions.iter().map(SessionId::as_str).collect();
    for gone in known.keys().filter(|known| !there.contains(known.as_str())) {
        change.execute("delete from cards where session = ?1", [gone])?;
    }
    let (mut bytes, mut read) = (0, 0);
    for session in &sessions {
        done.looked_at += 1;
        // One that cannot be read is found out when it is read.
        if is_as_known(layout, session, known.get(session.as_str()), fold.form).unwrap_or(false) {
            continue;
        }
        if Instant::now() >= until {
            done.behind += 1;
            continue;
        }
        let brought = match bring(&change, layout, session, fold) {
            Err(failed) if failed.is_of_one_session() => {
                tracing::debug!(%session, ?failed, "a session cannot be read for the list");
                done.behind += 1;
                continue;
            }
            brought => brought?,
        };
        done.read += 1;
        done.bytes += brought;
        (bytes, read) = (bytes + brought, read + 1);
        if bytes >= BATCH_BYTES || read >= BATCH_SESSIONS {
            change.commit()?;
            change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            (bytes, read) = (0, 0);
        }
    }
    change.commit()?;
    Ok(done)
}

/// What is known of a session while its files are read.
#[derive(Default)]
struct Reading {
    folded: Folded,
    created: Option<Millis>,
    last: Millis,
    seq: Seq,
    entries: u64,
    anchor: String,
    offset: u64,
    sum: String,
}

/// Reads a session on, or from its beginning where its files are not what they were. Gives the bytes that were read.
fn bring(change: &Transaction<'_>, layout: &Layout, session: &SessionId, fold: &Fold<'_>) -> Result<u64, Failed> {
    let anchors = layout.anchor_names(session)?;
    let before = known_reading(change, session, fold.form)?.filter(|before| anchors.contains(&before.anchor));
    let mut read_bytes = 0;
    let on = match before {
        Some(before) => read_on(layout, session, &anchors, before, fold, &mut read_bytes)?,
        None => None,
    };
    let on = match on {
        Some(on) => on,
        None => {
            let start = Reading::default();
            read_on(layout, session, &anchors, start, fold, &mut read_bytes)?.unwrap_or_default()
        }
    };
    let (reading, files, bytes) = on;
    if bytes == 0 {
        // Nobody was told that it exists.
        change.execute("delete from cards where session = ?1", [session.as_str()])?;
        return Ok(read_bytes);
    }
    let mut parent = reading.folded.parent.filter(|(parent, _)| parent != session);
    if let Some((named, true)) = &parent
        && origin(layout, session, &anchors)?.is_none_or(|forked| forked.parent != *named)
    {
        // It was brought in, and goes on from nobody here: who has that name now is another.
        parent = None;
    }
    let (parent, is_fork) = parent.map_or((None, false), |(parent, is_fork)| (Some(parent), is_fork));
    change
        .prepare(
            "insert or replace into cards
         (session, form, digest, parent, is_fork, created, last, seq, entries, anchor, offset, sum, files, bytes)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            session.as_str(),
            fold.form,
            reading.folded.digest,
            parent.as_ref().map(SessionId::as_str),
            is_fork,
            signed(reading.created.unwrap_or_default().0),
            signed(reading.last.0),
            signed(reading.seq.0),
            signed(reading.entries),
            reading.anchor,
            signed(reading.offset),
            reading.sum,
            signed(files),
            signed(bytes),
        ])?;
    Ok(read_bytes)
}

fn known_reading(change: &Transaction<'_>, session: &SessionId, form: u32) -> Result<Option<Reading>, Failed> {
    let mut query = change.prepare(
        "select digest, parent, is_fork, created, last, seq, entries, anchor, offset, sum from cards
         where session = ?1 and form = ?2",
    )?;
    let found = query.query_row(params![session.as_str(), form], |row| {
        let number = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
        let parent: Option<String> = row.get(1)?;
        let is_fork: bool = row.get(2)?;
        Ok(Reading {
            folded: Folded {
                digest: row.get(0)?,
                parent: parent.and_then(|parent| Some((parent.parse().ok()?, is_fork))),
            },
            created: Some(Millis(number(3)?)),
            last: Millis(number(4)?),
            seq: Seq(number(5)?),
            entries: number(6)?,
            anchor: row.get(7)?,
            offset: number(8)?,
            sum: row.get(9)?,
        })
    });
    Ok(found.optional()?)
}

/// Reads all that comes after `reading`; `None` where the files are not what was read before. Gives how many files there are
/// and how long they are together, as far as that was read: a torn tail is not, so it is looked at again.
fn read_on(
    layout: &Layout,
    session: &SessionId,
    anchors: &[String],
    mut reading: Reading,
    fold: &Fold<'_>,
    read_bytes: &mut u64,
) -> Result<Option<(Reading, u64, u64)>, Failed> {
    let (mut files, mut bytes) = (0, 0);
    let begun = anchors.iter().position(|anchor| *anchor == reading.anchor);
    for (n, anchor) in anchors.iter().enumerate() {
        let Some(mut tail) = Tail::open(&layout.entries(session, anchor))? else { continue };
        files += 1;
        if tail.length == 0 {
            continue;
        }
        if begun.is_some_and(|begun| n < begun) {
            bytes += tail.length;
            continue;
        }
        let goes_on = begun == Some(n);
        let mut place = goes_on.then(|| Place { offset: reading.offset, seq: reading.seq, sum: reading.sum.clone() });
        let mut is_first = goes_on;
        bytes += loop {
            let Some(piece) = tail.read(session, anchor, place.as_ref())? else { return Ok(None) };
            *read_bytes += piece.bytes;
            let entries = &piece.decoded.entries;
            if is_first && entries.is_empty() && piece.is_bad() {
                return Ok(None);
            }
            is_first = false;
            if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
                reading.created.get_or_insert(first.time);
                reading.last = last.time;
                reading.seq = last.seq;
                reading.entries += entries.len() as u64;
                let before = (!reading.folded.digest.is_empty()).then_some(reading.folded.digest.as_str());
                reading.folded = (fold.take)(before, entries);
            }
            let end = piece.end();
            (reading.offset, reading.sum) = (end.offset, end.sum.clone());
            // A newer line is not for us, and no reason not to list what is before it.
            if piece.is_bad() || piece.is_newer {
                break tail.length;
            }
            if piece.ends {
                break end.offset;
            }
            place = Some(end);
        };
        reading.anchor.clone_from(anchor);
    }
    Ok(Some((reading, files, bytes)))
}

#[cfg(test)]
mod tests;
