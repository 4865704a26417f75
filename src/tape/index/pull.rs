//! Reading the tapes into the index, from where it stopped.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::FileExt as _,
    path::Path,
    time::Instant,
};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::{
    CaughtUp, Failed,
    schema::{TIME_MAX, first_id_at, last_id_at, tag},
    text::text_of,
    tokens::Searchable,
};
use crate::{
    ids::{Millis, Seq, SessionId},
    tape::{
        TapeError,
        layout::{Layout, anchor_name, anchor_number},
        line::{Chain, Decoded, Rest, Sum, decode_known_lines, glance, looks_newer},
    },
};

/// How much of a file is read and committed at a time. An append that is larger is read whole.
pub(super) const PULL_BYTES: u64 = 8 * 1024 * 1024;

/// So much of a line says its version.
const NEWER_HEAD_BYTES: usize = 32;

/// Where a newer line is next, such a part of that is read first: as a rule it is found whole, and no more is wanted.
const NEWER_PART: u64 = 256;

/// Brings the index up to what the files say, or as far as it comes until then. `told` hears of each step.
pub(super) fn pull_all(
    database: &mut Connection,
    layout: &Layout,
    until: Option<Instant>,
    told: &mut dyn FnMut(&CaughtUp),
) -> Result<CaughtUp, Failed> {
    let is_late = || until.is_some_and(|until| Instant::now() >= until);
    let mut done = CaughtUp::default();
    let sessions = layout.session_ids()?;
    let known = marks(database)?;
    let there: BTreeSet<&str> = sessions.iter().map(SessionId::as_str).collect();
    for gone in known.keys().filter(|known| !there.contains(known.as_str())) {
        if is_late() {
            done.behind += 1;
            continue;
        }
        let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        forget(&change, gone)?;
        change.commit()?;
        done.removed += 1;
    }
    for session in &sessions {
        fault!(layout.faults, "index.session", session.as_str());
        // Looking is cheap, so what has not changed never counts as behind.
        // One that cannot be read is found out when it is read.
        if is_as_known(layout, session, known.get(session.as_str())).unwrap_or(false) {
            continue;
        }
        if is_late() {
            done.behind += 1;
            continue;
        }
        // What is not what was read before is read anew in one go: half of it would be taken for that again.
        let (mut until, mut reading) = (until, None);
        loop {
            let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut pulled = pull_session(&change, layout, session, reading.as_deref());
            if let Ok(None) = pulled {
                forget(&change, session.as_str())?;
                done.read_anew += 1;
                until = None;
                pulled = pull_session(&change, layout, session, None);
            }
            let pulled = match pulled {
                Err(failed) if failed.is_of_one_session() => {
                    tracing::warn!(%session, ?failed, "a session cannot be read for the index");
                    done.behind += 1;
                    break;
                }
                pulled => pulled?.unwrap_or_default(),
            };
            done.added += pulled.added;
            fault!(layout.faults, "index.pulled", session.as_str());
            change.commit()?;
            fault!(layout.faults, "index.committed", session.as_str());
            told(&done);
            reading = pulled.more_in;
            if reading.is_none() {
                break;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                done.behind += 1;
                break;
            }
        }
    }
    Ok(done)
}

/// How many sessions have something that the index has not read.
pub(super) fn count_behind(database: &Connection, layout: &Layout) -> Result<u64, Failed> {
    let sessions = layout.session_ids()?;
    let known = marks(database)?;
    let there: BTreeSet<&str> = sessions.iter().map(SessionId::as_str).collect();
    let mut behind = known.keys().filter(|known| !there.contains(known.as_str())).count() as u64;
    for session in &sessions {
        behind += u64::from(!is_as_known(layout, session, known.get(session.as_str())).unwrap_or(false));
    }
    Ok(behind)
}

/// The files that were read, by session: anchor, and how long it was.
type Marks = BTreeMap<String, Vec<(String, u64)>>;

fn marks(database: &Connection) -> Result<Marks, Failed> {
    let mut query = database.prepare("select session, anchor, seen from files")?;
    let mut found = query.query([])?;
    let mut marks = Marks::new();
    while let Some(row) = found.next()? {
        let seen = u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
        marks.entry(row.get(0)?).or_default().push((row.get(1)?, seen));
    }
    Ok(marks)
}

/// Whether each file is as long as it was when it was read, and there is no other.
fn is_as_known(layout: &Layout, session: &SessionId, marks: Option<&Vec<(String, u64)>>) -> Result<bool, TapeError> {
    let marks = marks.map_or(&[][..], Vec::as_slice);
    let mut with_file = 0;
    for anchor in layout.anchor_names(session)? {
        let path = layout.entries(session, &anchor);
        let length = match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            looked => looked.map_err(TapeError::io("look at", path))?.len(),
        };
        if !marks.iter().any(|(known, seen)| *known == anchor && *seen == length) {
            return Ok(false);
        }
        with_file += 1;
    }
    Ok(with_file == marks.len())
}

/// Takes a session out: the next pull reads it from its beginning.
pub(super) fn forget(change: &Transaction<'_>, session: &str) -> Result<(), Failed> {
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

/// What one look at a session brought.
#[derive(Default)]
struct Pulled {
    added: u64,
    /// The anchor whose file was not read to its end.
    more_in: Option<String>,
}

/// Adds what is new in a session's files; `None` where they are not what was read before. `reading` is the anchor whose file
/// was begun just now: a bad line in it is only that.
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
        let path = layout.entries(session, anchor);
        let mark = mark_of(change, session, anchor)?;
        found += i64::from(mark.is_some());
        let mut at_most = PULL_BYTES;
        // Again with more, while not one whole append fits.
        let (length, ends, read) = loop {
            let Some((length, bytes)) = read_from(&path, mark.as_ref(), at_most)? else { break (0, true, None) };
            let Some(bytes) = bytes else { return Ok(None) };
            if mark.as_ref().is_some_and(|mark| mark.seen == length) {
                break (length, true, None);
            }
            let offset = mark.as_ref().map_or(0, |mark| mark.offset);
            let ends = offset.unsigned_abs() + bytes.len() as u64 >= length.unsigned_abs();
            let Some(chain) = chain_at(session, anchor, mark.as_ref(), &bytes) else { return Ok(None) };
            let (read, newer) = decode_known_lines(&chain, &bytes);
            if newer.is_some() {
                // It is not for this index, and no reason not to index the rest. It is looked at again the next time, by itself.
                break (length, true, Some(read).filter(|read| !read.entries.is_empty()));
            }
            if ends || !read.entries.is_empty() || !matches!(read.rest, Rest::Torn { .. }) {
                break (length, ends, Some(read));
            }
            at_most = at_most.saturating_mul(4);
        };
        let Some(read) = read else { continue };
        let was_read = mark.as_ref().is_some_and(|mark| mark.offset > 0) && reading != Some(anchor.as_str());
        if was_read && matches!(read.rest, Rest::Bad { .. }) {
            return Ok(None);
        }
        pulled.added += add(change, layout, session, anchor, mark.as_ref(), &read, length)?;
        if !ends && !matches!(read.rest, Rest::Bad { .. }) {
            pulled.more_in = Some(anchor.clone());
            // The files after it wait, so that a later entry is never there without an earlier one.
            return Ok(Some(pulled));
        }
    }
    // A file that was read before and is gone, or has another name now.
    Ok((found == known).then_some(pulled))
}

/// What the lines from the mark on must go on from; `None` where the mark makes no sense.
fn chain_at(session: &SessionId, anchor: &str, mark: Option<&Mark>, bytes: &[u8]) -> Option<Chain> {
    if let Some(Mark { offset: 1.., seq, sum, .. }) = mark {
        return Some(Chain::at(session, anchor, *seq, Sum::parse(sum)?));
    }
    Some(chain_of_start(session, anchor, bytes))
}

/// What the lines of a file must go on from that is read from its beginning.
pub(super) fn chain_of_start(session: &SessionId, anchor: &str, bytes: &[u8]) -> Chain {
    // The first file of a tape that goes on from another one does not begin with 1.
    let first_line = memchr::memchr(b'\n', bytes).and_then(|end| glance(&bytes[..end]));
    let goes_on = first_line.is_some_and(|first| first.seq > Seq(1));
    let is_start = anchor_number(anchor) == Some(1) && !goes_on;
    if is_start { Chain::start(session, anchor) } else { Chain::unknown(session, anchor) }
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

#[cfg(test)]
thread_local! {
    /// How much of tapes was read.
    pub(super) static READ_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How long the file is and what stands behind the mark, as far as `at_most`; `None` for the bytes where it is shorter than
/// the mark.
#[allow(clippy::type_complexity, reason = "two answers of one look at a file")]
fn read_from(path: &Path, mark: Option<&Mark>, at_most: u64) -> Result<Option<(i64, Option<Vec<u8>>)>, TapeError> {
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
        // What was read ends with its checksum, which says all that was before it. Else it is another file by the same name.
        if mark.is_some_and(|mark| mark.offset > 0)
            && !ends_with_sum(&file, offset.unsigned_abs(), mark.map_or("", |mark| &mark.sum)).map_err(failed())?
        {
            return Ok(Some((length, None)));
        }
        let mut beginning = [0; NEWER_HEAD_BYTES];
        let peeked = file.read_at(&mut beginning, offset.unsigned_abs()).map_err(failed())?;
        let at_most = if looks_newer(&beginning[..peeked]) { at_most / NEWER_PART } else { at_most };
        file.seek(SeekFrom::Start(offset.unsigned_abs())).map_err(failed())?;
        file.take((length - offset).unsigned_abs().min(at_most)).read_to_end(&mut bytes).map_err(failed())?;
        #[cfg(test)]
        READ_BYTES.with(|read| read.set(read.get() + bytes.len()));
    }
    Ok(Some((length, Some(bytes))))
}

/// Whether the line before that place says that its checksum is this one.
pub(super) fn ends_with_sum(file: &File, at: u64, sum: &str) -> io::Result<bool> {
    let tail = format!(",\"sum\":\"{sum}\"}}\n");
    let mut found = vec![0; tail.len()];
    let Some(from) = at.checked_sub(tail.len() as u64) else { return Ok(false) };
    match file.read_exact_at(&mut found, from) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| found == tail.as_bytes()),
    }
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
    // A torn tail may be an append that is being written, and be cut back: what stands there next may be just as long. Where
    // the file was not read to its end, it is looked at again as well.
    let length = if matches!(read.rest, Rest::Bad { .. }) { length } else { end };
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
        let (seq, time) = (number(entry.seq.0), number(entry.time.0));
        let (offset, length) = (base + number(*offset as u64), number((next - offset) as u64));
        let text = text_of(entry.data.get());
        let mut moment = entry.time;
        let id = loop {
            let (from, to) = (first_id_at(moment), last_id_at(moment));
            match newest.query_row([from, to], |row| row.get::<_, Option<i64>>(0))? {
                None => break from,
                Some(last) if last < to => break last + 1,
                // A million entries of one millisecond: only a clock that stands still writes them.
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
