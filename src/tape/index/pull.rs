//! Reading the tapes into the index, from where it stopped.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::{CaughtUp, Failed, text::text_of};
use crate::{
    ids::{Seq, SessionId},
    tape::{
        TapeError,
        layout::{Layout, anchor_number},
        line::{Chain, Decoded, Rest, Sum, decode_lines},
    },
};

/// Brings the index up to what the files say.
pub(super) fn pull_all(database: &mut Connection, layout: &Layout) -> Result<CaughtUp, Failed> {
    let mut done = CaughtUp::default();
    let sessions = layout.session_ids()?;
    let there: BTreeSet<&str> = sessions.iter().map(SessionId::as_str).collect();
    for gone in known_sessions(database)?.iter().filter(|known| !there.contains(known.as_str())) {
        let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        forget(&change, gone)?;
        change.commit()?;
        done.removed += 1;
    }
    for session in &sessions {
        fault!(layout.faults, "index.session", session.as_str());
        // One transaction a session: it is there as its files were at one moment, or as before.
        let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match pull_session(&change, layout, session)? {
            Some(added) => done.added += added,
            None => {
                forget(&change, session.as_str())?;
                done.read_anew += 1;
                done.added += pull_session(&change, layout, session)?.unwrap_or(0);
            }
        }
        fault!(layout.faults, "index.pulled", session.as_str());
        change.commit()?;
        fault!(layout.faults, "index.committed", session.as_str());
    }
    Ok(done)
}

fn known_sessions(database: &Connection) -> Result<Vec<String>, Failed> {
    let mut query = database.prepare("select distinct session from files")?;
    let known = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(known)
}

fn forget(change: &Transaction<'_>, session: &str) -> Result<(), Failed> {
    change.execute("delete from entries where session = ?1", [session])?;
    change.execute("delete from files where session = ?1", [session])?;
    Ok(())
}

/// Up to where a file was read.
struct Mark {
    id: i64,
    offset: i64,
    seq: Seq,
    sum: String,
    seen: i64,
}

/// Adds what is new in a session's files; `None` where they are not what was read before.
fn pull_session(change: &Transaction<'_>, layout: &Layout, session: &SessionId) -> Result<Option<u64>, Failed> {
    let anchors = layout.anchor_names(session)?;
    let known: i64 =
        change.query_row("select count(*) from files where session = ?1", [session.as_str()], |row| row.get(0))?;
    let (mut added, mut found) = (0, 0);
    for anchor in &anchors {
        let path = layout.entries(session, anchor);
        let mark = mark_of(change, session, anchor)?;
        found += i64::from(mark.is_some());
        let Some((length, bytes)) = read_from(&path, mark.as_ref())? else { continue };
        let Some(bytes) = bytes else { return Ok(None) };
        if mark.as_ref().is_some_and(|mark| mark.seen == length) {
            continue;
        }
        let chain = match &mark {
            Some(Mark { offset: 1.., seq, sum, .. }) => {
                let Some(sum) = Sum::parse(sum) else { return Ok(None) };
                Chain::at(session, anchor, *seq, sum)
            }
            _ if anchor_number(anchor) == Some(1) => Chain::start(session, anchor),
            _ => Chain::unknown(session, anchor),
        };
        let read = match decode_lines(&chain, &bytes) {
            // A newer line is not for this index, and no reason not to index the rest.
            Err(TapeError::Newer { .. }) => continue,
            read => read?,
        };
        if mark.as_ref().is_some_and(|mark| mark.offset > 0) && matches!(read.rest, Rest::Bad { .. }) {
            return Ok(None);
        }
        added += add(change, layout, session, anchor, mark.as_ref(), &read, length)?;
    }
    // A file that was read before and is gone, or has another name now.
    Ok((found == known).then_some(added))
}

fn mark_of(change: &Transaction<'_>, session: &SessionId, anchor: &str) -> Result<Option<Mark>, Failed> {
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Mark {
            id: row.get(0)?,
            offset: row.get(1)?,
            seq: Seq(u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0)),
            sum: row.get(3)?,
            seen: row.get(4)?,
        })
    };
    let sql = "select id, offset, seq, sum, seen from files where session = ?1 and anchor = ?2";
    Ok(change.query_row(sql, [session.as_str(), anchor], read).optional()?)
}

/// How long the file is and what stands behind the mark; `None` for the bytes where it is shorter than that.
#[allow(clippy::type_complexity, reason = "two answers of one look at a file")]
fn read_from(path: &Path, mark: Option<&Mark>) -> Result<Option<(i64, Option<Vec<u8>>)>, TapeError> {
    let failed = || TapeError::io("read", path);
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed())?,
    };
    let length = i64::try_from(file.metadata().map_err(failed())?.len()).unwrap_or(i64::MAX);
    let offset = mark.map_or(0, |mark| mark.offset);
    if length < offset {
        return Ok(Some((length, None)));
    }
    let mut bytes = Vec::new();
    if mark.is_none_or(|mark| mark.seen != length) {
        file.seek(SeekFrom::Start(offset.unsigned_abs())).map_err(failed())?;
        file.take((length - offset).unsigned_abs()).read_to_end(&mut bytes).map_err(failed())?;
    }
    Ok(Some((length, Some(bytes))))
}

fn add(
    change: &Transaction<'_>,
    layout: &Layout,
    session: &SessionId,
    anchor: &str,
    mark: Option<&Mark>,
    read: &Decoded,
    length: i64,
) -> Result<u64, Failed> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let base = mark.map_or(0, |mark| mark.offset);
    let end = base + number(read.good_bytes as u64);
    let (seq, sum) = (number(read.chain.seq.0), read.chain.sum.as_str());
    // A torn tail may be an append that is being written, and be cut back: what stands there next may be just as long.
    let length = if matches!(read.rest, Rest::Torn { .. }) { end } else { length };
    let file = match mark {
        Some(mark) => {
            let sql = "update files set offset = ?2, seq = ?3, sum = ?4, seen = ?5 where id = ?1";
            change.execute(sql, params![mark.id, end, seq, sum, length])?;
            mark.id
        }
        None => {
            let path = layout.entries(session, anchor);
            let path = path.strip_prefix(&layout.root).unwrap_or(&path).to_string_lossy().into_owned();
            let sql =
                "insert into files (session, anchor, path, offset, seq, sum, seen) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            change.execute(sql, params![session.as_str(), anchor, path, end, seq, sum, length])?;
            change.last_insert_rowid()
        }
    };
    let mut insert = change.prepare(
        "insert or replace into entries (session, seq, kind, anchor, time, file, offset, length, text)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let ends = read.offsets.iter().skip(1).copied().chain([read.good_bytes]);
    for ((entry, offset), next) in read.entries.iter().zip(&read.offsets).zip(ends) {
        let (seq, time) = (number(entry.seq.0), number(entry.time.0));
        let (offset, length) = (base + number(*offset as u64), number((next - offset) as u64));
        let text = text_of(entry.data.get());
        insert.execute(params![session.as_str(), seq, entry.kind, anchor, time, file, offset, length, text])?;
    }
    Ok(read.entries.len() as u64)
}
