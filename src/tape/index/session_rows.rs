//! One row for each session, for lists: a digest of its entries, its parent, and when it was used last.
//!
//! This layer does not know what entries mean. The digest is a text that a [`Fold`] of the caller makes, going on from the text
//! that it made before. For each session the row remembers how far its files were read; new entries are read when a list asks, so
//! no entry is folded twice. Lists and searches are independent: neither waits for the other's table.
//!
//! A change must keep: rows never form a circle of parents, whatever tapes say; another [`Fold::form`] reads a session anew;
//! nothing from the database is trusted (names are parsed again); writing needs the lock on `index.lock`, reading needs none.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};

use super::{
    Failed, Index,
    tail::{Place, Stale, Tail},
};
use crate::{
    tape::{Behind, Entry, TapeError, layout::Layout, lineage::origin},
    words::ids::{Millis, Seq, SessionId},
};

/// How many sessions are read in one transaction.
const BATCH_SESSIONS: u64 = 256;

/// Sums up entries.
pub(crate) struct Fold<'f> {
    /// The number of the digest's form. A session with a digest of another form is read anew.
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

/// The cost of bringing the rows up to date.
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
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SessionRow {
    pub(crate) digest: String,
    pub(crate) parent: Option<(SessionId, bool)>,
    pub(crate) created: Millis,
    pub(crate) last: Millis,
    pub(crate) seq: Seq,
    /// How many entries it has of its own; a fork's begin where it was forked.
    pub(crate) entries: u64,
    /// The length of its files together, in bytes, as far as they were read. A torn tail is not counted, so it is looked at again.
    pub(crate) bytes: u64,
    form: u32,
    files: u64,
    /// How far the files were read: the newest file, the offset in it in bytes, and the checksum of the entry before.
    anchor: String,
    offset: u64,
    sum: String,
}

impl Index {
    /// Reads what was appended to all sessions since the last time, for `wait` at most.
    ///
    /// # Errors
    /// As [`Index::catch_up`].
    pub(crate) fn bring_rows(&mut self, fold: &Fold<'_>, wait: Duration) -> Result<(Brought, Behind), TapeError> {
        let until = Instant::now() + wait;
        let brought = match self.only_reads {
            true => {
                let stale = stale(&self.database, &self.layout, fold.form).map_err(|e| e.into_error("read"))?;
                let (looked_at, Stale { sessions, .. }) = stale;
                Some(Brought { looked_at, behind: sessions.len() as u64, ..Brought::default() })
            }
            false => self.bring(wait, &mut |database, layout| bring_all(database, layout, fold, until))?,
        };
        Ok((brought.unwrap_or_default(), Behind::of(brought.map(|brought| brought.behind))))
    }

    /// The rows, as they are at one moment.
    pub(crate) fn session_rows(&self) -> Result<SessionRows<'_>, TapeError> {
        let at_once = self.database.unchecked_transaction();
        at_once.map(|at_once| SessionRows { at_once }).map_err(|error| Failed::from(error).into_error("read"))
    }
}

/// The rows, as they were at one moment.
pub(crate) struct SessionRows<'i> {
    at_once: Transaction<'i>,
}

/// A session and its row; `None` where the name is no session id: content of the database is not trusted.
fn read_row(columns: &Row<'_>) -> rusqlite::Result<Option<(SessionId, SessionRow)>> {
    let number = |column: &str| columns.get::<_, i64>(column).map(|n| u64::try_from(n).unwrap_or(0));
    let (parent, is_fork): (Option<String>, bool) = (columns.get("parent")?, columns.get("is_fork")?);
    let row = SessionRow {
        digest: columns.get("digest")?,
        parent: parent.and_then(|parent| Some((parent.parse().ok()?, is_fork))),
        created: Millis(number("created")?),
        last: Millis(number("last")?),
        seq: Seq(number("seq")?),
        entries: number("entries")?,
        bytes: number("bytes")?,
        form: columns.get("form")?,
        files: number("files")?,
        anchor: columns.get("anchor")?,
        offset: number("offset")?,
        sum: columns.get("sum")?,
    };
    Ok(columns.get::<_, String>("session")?.parse().ok().map(|session| (session, row)))
}

const NEWEST_FIRST: &str = "select * from session_rows where (last, session) < (?1, ?2)
    and (not ?4 or not exists (select 1 from session_rows above where above.session = session_rows.parent))
    order by last desc, session desc limit ?3";

/// A session and its row.
pub(crate) type Named = (SessionId, SessionRow);

impl SessionRows<'_> {
    /// The rows behind the place `after`, last used first, `limit` at most. With `top_only`, only those whose parent has no row.
    pub(crate) fn newest_first(
        &self,
        after: Option<(Millis, &str)>,
        limit: usize,
        top_only: bool,
    ) -> Result<Vec<Named>, TapeError> {
        // A place before the newest row: the latest possible time, and a name behind every session id.
        let (last, session) = after.map_or((i64::MAX, "\u{10ffff}"), |(last, session)| (signed(last.0), session));
        let mut query = self.at_once.prepare(NEWEST_FIRST).map_err(failed)?;
        let rows = query.query_map(params![last, session, signed(limit as u64), top_only], read_row).map_err(failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// The sessions below a session, each with its depth: children right behind their parent, last used first; `limit` at most.
    pub(crate) fn below(&self, top: &SessionId, limit: usize) -> Result<Vec<(u32, Named)>, TapeError> {
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut query = self.at_once.prepare(
                "with recursive below as (
                   select 1 as depth, * from session_rows where parent = ?1
                   union all select depth + 1, session_rows.* from below join session_rows on session_rows.parent = below.session
                   order by depth desc, last desc, session desc limit ?2)
                 select * from below",
            )?;
            let rows = query.query_map(params![top.as_str(), signed(limit as u64)], |columns| {
                Ok(read_row(columns)?.map(|row| (columns.get("depth").unwrap_or(u32::MAX), row)))
            })?;
            rows.filter_map(Result::transpose).collect()
        };
        read().map_err(failed)
    }

    /// The row of a session.
    pub(crate) fn one(&self, session: &SessionId) -> Result<Option<SessionRow>, TapeError> {
        one(&self.at_once, session).map_err(failed)
    }

    /// How many forks, and how many children with a task, a session has.
    pub(crate) fn count_below(&self, parent: &SessionId) -> Result<(u64, u64), TapeError> {
        let sql = "select count(*) filter (where is_fork), count(*) filter (where not is_fork) from session_rows where parent = ?1";
        let mut query = self.at_once.prepare(sql).map_err(failed)?;
        let counted = query.query_row([parent.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
        counted.map(|(forks, tasks)| (forks.unsigned_abs(), tasks.unsigned_abs())).map_err(failed)
    }
}

fn one(database: &Connection, session: &SessionId) -> rusqlite::Result<Option<SessionRow>> {
    let mut query = database.prepare("select * from session_rows where session = ?1")?;
    Ok(query.query_row([session.as_str()], read_row).optional()?.flatten().map(|(_, row)| row))
}

fn failed(error: rusqlite::Error) -> TapeError {
    Failed::from(error).into_error("read")
}

pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The sessions whose rows differ from their files, or have another form. Hidden sessions that forks go on from are included.
fn stale(database: &Connection, layout: &Layout, form: u32) -> Result<(u64, Stale), Failed> {
    let there = layout.all_session_ids()?;
    let known = format!("select session, iif(form = {form}, files, -1), bytes from session_rows");
    Ok((there.len() as u64, Stale::of(database, layout, there, &known)?))
}

fn bring_all(database: &mut Connection, layout: &Layout, fold: &Fold<'_>, until: Instant) -> Result<Brought, Failed> {
    let (looked_at, stale) = stale(database, layout, fold.form)?;
    let mut done = Brought { looked_at, ..Brought::default() };
    let mut change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for gone in stale.gone {
        change.execute("delete from session_rows where session = ?1", [gone])?;
    }
    for session in &stale.sessions {
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
        if done.read.is_multiple_of(BATCH_SESSIONS) {
            change.commit()?;
            change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        }
    }
    change.commit()?;
    Ok(done)
}

/// Reads a session on, or from its beginning where its files are not what they were. Gives the bytes that were read.
fn bring(change: &Transaction<'_>, layout: &Layout, session: &SessionId, fold: &Fold<'_>) -> Result<u64, Failed> {
    let anchors = layout.anchor_names(session)?;
    let before = one(change, session)?.filter(|before| before.form == fold.form);
    let mut read_bytes = 0;
    let mut read = |before| read_on(layout, session, &anchors, before, fold, &mut read_bytes);
    let on = match before.filter(|before| anchors.contains(&before.anchor)) {
        Some(before) => read(before)?,
        None => None,
    };
    let row = match on {
        Some(on) => on,
        None => read(SessionRow::default())?.unwrap_or_default(),
    };
    if row.bytes == 0 {
        // A session without an entry: nobody was told that it exists.
        change.execute("delete from session_rows where session = ?1", [session.as_str()])?;
        return Ok(read_bytes);
    }
    let parent = match &row.parent {
        // The fork was brought in whole, and goes on from no session of this store: one with its parent's name is another.
        Some((named, true)) if origin(layout, session, &anchors)?.is_none_or(|from| from.parent != *named) => None,
        Some((named, _)) if is_above(change, session, named)? => None,
        parent => parent.clone(),
    };
    let (parent, is_fork) = parent.map_or((None, false), |(parent, is_fork)| (Some(parent), is_fork));
    change
        .prepare(
            "insert or replace into session_rows
         (session, form, digest, parent, is_fork, created, last, seq, entries, anchor, offset, sum, files, bytes)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            session.as_str(),
            fold.form,
            row.digest,
            parent.as_ref().map(SessionId::as_str),
            is_fork,
            signed(row.created.0),
            signed(row.last.0),
            signed(row.seq.0),
            signed(row.entries),
            row.anchor,
            signed(row.offset),
            row.sum,
            signed(row.files),
            signed(row.bytes),
        ])?;
    Ok(read_bytes)
}

/// Whether one session is the other, or stands above it already. Files may say that sessions belong to each other in a circle. The
/// row that would close the circle gets no parent, so there is no circle in the rows.
fn is_above(change: &Transaction<'_>, session: &SessionId, other: &SessionId) -> rusqlite::Result<bool> {
    let mut query = change.prepare(
        "with recursive above (session) as (
           select ?2 union select parent from session_rows join above using (session) where parent is not null)
         select exists (select 1 from above where session = ?1)",
    )?;
    query.query_row([session.as_str(), other.as_str()], |row| row.get(0))
}

/// Reads all that comes after `row`; `None` where the files are not what was read before.
fn read_on(
    layout: &Layout,
    session: &SessionId,
    anchors: &[String],
    mut row: SessionRow,
    fold: &Fold<'_>,
    read_bytes: &mut u64,
) -> Result<Option<SessionRow>, Failed> {
    (row.files, row.bytes) = (0, 0);
    let begun = anchors.iter().position(|anchor| *anchor == row.anchor);
    for (n, anchor) in anchors.iter().enumerate() {
        let Some(mut tail) = Tail::open(&layout.entries(session, anchor))? else { continue };
        row.files += 1;
        if tail.length == 0 {
            continue;
        }
        if begun.is_some_and(|begun| n < begun) {
            row.bytes += tail.length;
            continue;
        }
        let goes_on = begun == Some(n);
        let mut place = goes_on.then(|| Place { offset: row.offset, seq: row.seq, sum: row.sum.clone() });
        let mut is_first = goes_on;
        row.bytes += loop {
            let Some(piece) = tail.read(session, anchor, place.as_ref())? else { return Ok(None) };
            *read_bytes += piece.bytes;
            let entries = &piece.decoded.entries;
            if is_first && entries.is_empty() && piece.is_bad() {
                return Ok(None);
            }
            is_first = false;
            if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
                if row.entries == 0 {
                    row.created = first.time;
                }
                (row.last, row.seq) = (last.time, last.seq);
                row.entries += entries.len() as u64;
                let before = (!row.digest.is_empty()).then_some(row.digest.as_str());
                Folded { digest: row.digest, parent: row.parent } = (fold.take)(before, entries);
            }
            let end = piece.end();
            (row.offset, row.sum) = (end.offset, end.sum.clone());
            // A line of a later version ends what can be read; the entries before it are listed all the same.
            if piece.is_over() {
                break tail.length;
            }
            if piece.ends {
                break end.offset;
            }
            place = Some(end);
        };
        row.anchor.clone_from(anchor);
    }
    Ok(Some(row))
}

#[cfg(test)]
mod tests;
