//! Reading the tapes into the index: each file from the byte where the index stopped.
//!
//! A session is read in pieces (8 MiB of a file, or one append that is larger), each in one transaction, so a crash leaves the
//! index behind and never half-changed. The entries of a session go in in their order; the rest of a file after a bad line, or
//! after a line of a later version, is skipped. A session whose files are not what was read before is read again to its end,
//! without a limit of time. A session whose files cannot be read is counted as behind, and the others are read on.
//!
//! A change must keep: the caller of [`pull_all`] or [`forget`] holds the lock on `index.lock`, because the index has one writer
//! at a time; nothing here writes a tape, or keeps an append waiting.

use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::{
    CaughtUp, Failed, labels,
    schema::{TIME_MAX, first_id_at, last_id_at, tag},
    session_rows::signed,
    tail::{FileCursor, Piece, Stale, Tail, known},
    text::text_of,
    tokens::Searchable,
};
use crate::{
    tape::layout::{Layout, anchor_name},
    words::ids::{Millis, Seq, SessionId},
};

/// Brings the index up to the state of the files, or as far as it comes before `until`. Calls `told` after each piece.
pub(super) fn pull_all(
    database: &mut Connection,
    layout: &Layout,
    until: Option<Instant>,
    told: &mut dyn FnMut(&CaughtUp),
) -> Result<CaughtUp, Failed> {
    let is_late = || until.is_some_and(|until| Instant::now() >= until);
    let mut done = CaughtUp::default();
    let stale = stale(database, layout)?;
    for gone in &stale.gone {
        if is_late() {
            done.behind += 1;
            continue;
        }
        let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        forget(&change, gone)?;
        change.commit()?;
        done.removed += 1;
    }
    let behind = stale.each(until, |session| {
        fault!(layout.faults, "index.session", session.as_str());
        // A session that is read again is read to its end, without a limit of time: half-read, it would be taken for changed
        // again.
        let (mut until, mut reading) = (until, None);
        loop {
            let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut pulled = pull_session(&change, layout, session, reading.as_deref())?;
            if pulled.is_none() {
                forget(&change, session.as_str())?;
                done.read_anew += 1;
                until = None;
                pulled = pull_session(&change, layout, session, None)?;
            }
            let pulled = pulled.unwrap_or_default();
            done.added += pulled.added;
            fault!(layout.faults, "index.pulled", session.as_str());
            change.commit()?;
            fault!(layout.faults, "index.committed", session.as_str());
            told(&done);
            reading = pulled.more_in;
            if reading.is_none() {
                return Ok(true);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
    })?;
    done.behind += behind;
    Ok(done)
}

/// The sessions whose files differ from what the index has read.
pub(super) fn stale(database: &Connection, layout: &Layout) -> Result<Stale, Failed> {
    let rows = "select session, count(*), sum(seen) from files group by session";
    Stale::of(layout, layout.session_ids()?, known(database, rows, [])?)
}

/// Takes a session out: the next pull reads it from its beginning.
pub(super) fn forget(change: &Transaction<'_>, session: &str) -> Result<(), Failed> {
    change.execute("delete from entries where session = ?1", [session])?;
    change.execute("delete from files where session = ?1", [session])?;
    labels::forget(change, session)?;
    Ok(())
}

/// How far the index has read a file.
struct ReadFile {
    id: i64,
    cursor: FileCursor,
    /// The length of the file at that time, in bytes.
    seen: u64,
}

/// The outcome of reading one piece of a session.
#[derive(Default)]
struct Pulled {
    added: u64,
    /// The anchor whose file was not read to its end.
    more_in: Option<String>,
}

/// Adds what is new in a session's files; `None` if they are not what was read before. `reading` is the anchor whose file was just
/// begun: a bad line in it is damage, and not a sign of another file.
fn pull_session(
    change: &Transaction<'_>,
    layout: &Layout,
    session: &SessionId,
    reading: Option<&str>,
) -> Result<Option<Pulled>, Failed> {
    let anchors = layout.anchor_names(session)?;
    let known: i64 =
        change.query_row("select count(*) from files where session = ?1", [session.as_str()], |row| row.get(0))?;
    let (mut pulled, mut found) = (Pulled::default(), 0);
    for anchor in &anchors {
        let known_file = read_file(change, session, anchor)?;
        found += i64::from(known_file.is_some());
        let Some(mut tail) = Tail::open(&layout.entries(session, anchor))? else { continue };
        if known_file.as_ref().is_some_and(|known_file| known_file.seen == tail.length) {
            continue;
        }
        let cursor = known_file.as_ref().map(|known_file| &known_file.cursor);
        let Some(piece) = tail.read(session, anchor, cursor)? else { return Ok(None) };
        let was_read = piece.offset > 0 && reading != Some(anchor.as_str());
        if was_read && piece.is_bad() {
            return Ok(None);
        }
        pulled.added += add(change, layout, session, anchor, known_file.as_ref(), &piece, tail.length)?;
        if piece.is_last(tail.length).is_none() {
            pulled.more_in = Some(anchor.clone());
            // The files after it wait, so that entries go in in their order.
            return Ok(Some(pulled));
        }
    }
    // A file that was read before is gone, or has another name now.
    Ok((found == known).then_some(pulled))
}

fn read_file(change: &Transaction<'_>, session: &SessionId, anchor: &str) -> Result<Option<ReadFile>, Failed> {
    let read = |row: &rusqlite::Row<'_>| {
        let number = |column: usize| row.get::<_, i64>(column).map(|n| u64::try_from(n).unwrap_or(0));
        let cursor = FileCursor { offset: number(1)?, seq: Seq(number(2)?), sum: row.get(3)? };
        Ok(ReadFile { id: row.get(0)?, cursor, seen: number(4)? })
    };
    let sql = "select id, offset, seq, sum, seen from files where session = ?1 and anchor = ?2";
    Ok(change.query_row(sql, [session.as_str(), anchor], read).optional()?)
}

fn add(
    change: &Transaction<'_>,
    layout: &Layout,
    session: &SessionId,
    anchor: &str,
    known_file: Option<&ReadFile>,
    piece: &Piece,
    length: u64,
) -> Result<u64, Failed> {
    let (base, read, FileCursor { offset: end, seq, sum }) = (signed(piece.offset), &piece.decoded, piece.end());
    let (end, seq) = (signed(end), signed(seq.0));
    // If the file was not read to its end, it is read again.
    let length = piece.is_last(length).map_or(end, signed);
    let file = match known_file {
        Some(known_file) => {
            let sql = "update files set offset = ?2, seq = ?3, sum = ?4, seen = ?5 where id = ?1";
            change.execute(sql, params![known_file.id, end, seq, sum, length])?;
            known_file.id
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
    labels::keep(change, layout, session, &read.entries)?;
    let mut newest = change.prepare("select max(id) from entries where id between ?1 and ?2")?;
    let mut insert = change.prepare(
        "insert or replace into entries (id, session, seq, kind, anchor, time, file, offset, length, text)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let mut insert_tokens =
        change.prepare("insert into entries_fts (rowid, words, pairs, tags) values (?1, ?2, ?3, ?4)")?;
    let of_all = format!("{} {} {}", tag('s', session.as_str()), tag('a', anchor), tag('n', anchor_name(anchor)));
    let ends = read.offsets.iter().skip(1).copied().chain([read.good_bytes]);
    for ((entry, offset), next) in read.entries.iter().zip(&read.offsets).zip(ends) {
        let (seq, time) = (signed(entry.seq.0), signed(entry.time.0));
        let (offset, length) = (base + signed(*offset as u64), signed((next - offset) as u64));
        let text = text_of(entry.data.get());
        let mut moment = entry.time;
        let id = loop {
            let (from, to) = (first_id_at(moment), last_id_at(moment));
            match newest.query_row([from, to], |row| row.get::<_, Option<i64>>(0))? {
                None => break from,
                Some(last) if last < to => break last + 1,
                // More than a million entries of one millisecond: only a stopped clock writes them.
                Some(_) if moment < Millis(TIME_MAX / 2) => moment = Millis(moment.0 + 1),
                Some(_) => moment = Millis(moment.0.min(TIME_MAX) - 1),
            }
        };
        insert.execute(params![id, session.as_str(), seq, entry.kind, anchor, time, file, offset, length, text])?;
        let Searchable { words, pairs } = Searchable::of(&text);
        insert_tokens.execute(params![id, words, pairs, format!("{of_all} {}", tag('k', &entry.kind))])?;
    }
    Ok(read.entries.len() as u64)
}
