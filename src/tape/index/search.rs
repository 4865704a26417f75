//! Searching the entries of all tapes of a store, by words, kinds, times, sessions and labels.
//!
//! A search first brings the index up to date, and says in [`Page::behind`] what is missing. [`Query::wait`] bounds that, except
//! if a session must be read again. Every hit is looked up in its file before it is returned: a hit that is not there is left
//! out, and its session is read again. Hits are read newest first, and only as many as are returned or, with [`Order::Best`],
//! ranked (200). A search by labels also skips the hits of other sessions.
//!
//! A change must keep: no hit without its line in the file, because the index may be wrong; no bytes are read under a name from the
//! database before the name is checked; the number of rows read does not grow with the number of matches, except by labels; a
//! search works (with less) while another process writes the index. Blocks on the disk.
//!
//! | what is wrong with `index.db` | what a search does |
//! |---|---|
//! | missing, of an older version, not a database, damaged | rebuilds it, as far as the time allows, and says what is behind |
//! | another process writes it, or the disk is full | searches what is in, and says that it may be behind |
//! | a later version of this library made it | [`TapeError::Newer`] |
//! | missing, older or damaged, and the store was opened for reading only | [`TapeError::Index`] |

use std::{
    io::{Read, Seek, SeekFrom},
    time::{Duration, Instant},
};

use super::{
    Failed, Index, Snippet, labels,
    pull::{forget, pull_all, stale},
    query::{Cursor, Order, PAGE_HITS_MAX, Query, Term, expression, terms},
    schema::{first_id_at, last_id_at},
    snippet::{snippet, weight},
};
use crate::{
    tape::{
        Behind, LINE_BYTES_MAX, Store, TapeEntry, TapeError,
        layout::{Layout, anchor_number, open_to_read},
        line::entry_of,
    },
    words::ids::{Millis, Seq, SessionId},
};
use rusqlite::{Connection, OptionalExtension, Statement, ToSql, TransactionBehavior};

/// [`Order::Best`]: how many hits are ranked at a time.
pub(super) const BLOCK_HITS: usize = 200;
/// [`Order::Best`]: the most bytes of text that are ranked at a time.
pub(super) const BLOCK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How often at most a search restarts because a hit was not in its file.
const AGAIN_MAX: usize = 2;

/// One page of hits.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Page {
    /// In the order that was asked for.
    pub hits: Vec<Hit>,
    /// The place where the next page continues; absent on the last page.
    pub next: Option<Cursor>,
    /// Whether entries may be missing, because the index has not read them.
    pub behind: Behind,
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Hit {
    /// On which tape.
    pub session: SessionId,
    /// Which entry.
    pub seq: Seq,
    /// Its kind.
    pub kind: String,
    /// The folder of the anchor that it is in.
    pub anchor: String,
    /// When it was written.
    pub time: Millis,
    /// The part of its text around the hit.
    pub snippet: Snippet,
    /// The whole entry as it is in the file, if the query asked for it.
    pub entry: Option<TapeEntry>,
}

impl Store {
    /// Finds entries by their words. Blocks on the disk; not for an async thread.
    ///
    /// Opens the index for this one search; [`Index::search`] keeps it open.
    ///
    /// # Errors
    ///
    /// [`TapeError::Query`] if nothing, or too much, is searched for; [`TapeError::Newer`]; [`TapeError::Index`];
    /// [`TapeError::Io`].
    pub fn search(&self, query: &Query) -> Result<Page, TapeError> {
        // Refuse a bad query before the index is opened or made.
        expression(query, &terms(&query.words)?)?;
        self.index_to_search()?.search(query)
    }
}

impl Index {
    /// [`Store::search`] in an index that stays open.
    ///
    /// # Errors
    ///
    /// As [`Store::search`].
    pub fn search(&mut self, query: &Query) -> Result<Page, TapeError> {
        let terms = terms(&query.words)?;
        let expression = expression(query, &terms)?;
        let first = query.wait / 4;
        let (mut behind, mut left) = (self.bring_up_to_date(first)?, query.wait.saturating_sub(first));
        for again in 0.. {
            let mut found = match find(&self.database, &self.layout, query, &terms, &expression) {
                Err(Failed::Corrupt(_)) if again == 0 && !self.only_reads => {
                    self.heal()?;
                    behind = self.bring_up_to_date(query.wait)?;
                    continue;
                }
                found => found.map_err(|failed| failed.into_error("search"))?,
            };
            // A page that is not full yet is worth the rest of the wait.
            if found.hits.len() < query.limit && !matches!(behind, Behind::No) && !left.is_zero() {
                behind = self.bring_up_to_date(std::mem::take(&mut left))?;
                continue;
            }
            if found.gone.is_empty() || again >= AGAIN_MAX || self.only_reads || behind == Behind::Unknown {
                if !found.gone.is_empty() && behind == Behind::No {
                    behind = Behind::Sessions(found.gone.len() as u64);
                }
                return Ok(Page { hits: std::mem::take(&mut found.hits), next: found.next, behind });
            }
            self.read_anew(&found.gone)?;
            behind = self.bring_up_to_date(query.wait)?;
        }
        Err(TapeError::Index { op: "search", message: "it changes all the time".into(), is_damaged: false })
    }

    fn bring_up_to_date(&mut self, wait: Duration) -> Result<Behind, TapeError> {
        let until = Some(Instant::now() + wait);
        let look = |database: &Connection, layout: &Layout| {
            stale(database, layout).map(|stale| (stale.sessions.len() + stale.gone.len()) as u64)
        };
        let pull = &mut |database: &mut Connection, layout: &Layout| {
            pull_all(database, layout, until, &mut |_| {}).map(|done| done.behind)
        };
        Ok(Behind::of(self.bring(wait, look, pull)?))
    }

    /// Replaces a damaged database by an empty one, under the lock on `index.lock`.
    pub(crate) fn heal(&mut self) -> Result<(), TapeError> {
        let _lock = super::lock_index(&self.layout, super::BUSY_WAIT)?;
        self.make_anew()
    }

    fn read_anew(&mut self, sessions: &[String]) -> Result<(), TapeError> {
        let _lock = super::lock_index(&self.layout, super::BUSY_WAIT)?;
        let mut forget_all = || -> Result<(), Failed> {
            let change = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            sessions.iter().try_for_each(|session| forget(&change, session))?;
            Ok(change.commit()?)
        };
        forget_all().map_err(|failed| failed.into_error("write"))
    }
}

/// A row of the table of entries.
struct Row {
    id: i64,
    session: String,
    seq: u64,
    kind: String,
    anchor: String,
    time: u64,
    offset: u64,
    length: u64,
    text: String,
    /// The session whose file the row names; it equals `session` where the index is sound.
    read_from: Option<String>,
}

struct Found {
    hits: Vec<Hit>,
    next: Option<Cursor>,
    /// The sessions of hits that are not in their files.
    gone: Vec<String>,
}

fn find(
    database: &Connection,
    layout: &Layout,
    query: &Query,
    terms: &[Term],
    expression: &str,
) -> Result<Found, Failed> {
    // All that follows sees one state of the index.
    let at_once = database.unchecked_transaction()?;
    let limit = query.limit.clamp(1, PAGE_HITS_MAX);
    let (rows, next) = match query.order {
        Order::Newest => newest(&at_once, query, expression, limit)?,
        Order::Best => best(&at_once, query, terms, expression, limit)?,
    };
    let mut found = Found { hits: Vec::with_capacity(rows.len()), next, gone: Vec::new() };
    for row in rows {
        match look_up(layout, &row, query.whole) {
            Some((session, entry)) => found.hits.push(Hit {
                session,
                seq: Seq(row.seq),
                time: Millis(row.time),
                snippet: snippet(&row.text, terms),
                kind: row.kind,
                anchor: row.anchor,
                entry,
            }),
            None => found.gone.extend([row.session].into_iter().chain(row.read_from)),
        }
    }
    found.gone.sort();
    found.gone.dedup();
    Ok(found)
}

/// The ids of the hits at or before `last`, newest first.
fn ids(
    database: &Connection,
    query: &Query,
    expression: &str,
    last: Option<i64>,
    limit: usize,
) -> Result<Vec<i64>, Failed> {
    // Ids are made from times, so a range of time is a range of ids.
    let from = query.since.map_or(0, first_id_at);
    let to = query.until.map_or(i64::MAX, last_id_at).min(last.unwrap_or(i64::MAX));
    let session = "(select session from entries where id = entries_fts.rowid)";
    let sql = format!(
        "select rowid from entries_fts where entries_fts match ?1 and rowid between ?2 and ?3 and {}
         order by rowid desc limit ?4",
        labels::has_all("labels", session, "?5")
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let wanted = labels::parameter(&query.labels);
    let given: [&dyn ToSql; 5] = [&expression, &from, &to, &limit, &wanted];
    let mut select = database.prepare(&sql)?;
    let found = select.query_map(&given[..], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(found)
}

const ROW: &str = "
    select e.session, e.seq, e.kind, e.anchor, e.time, e.offset, e.length, e.text, f.session
    from entries e left join files f on f.id = e.file where e.id = ?1";

/// The row of an id, by the statement [`ROW`].
fn row(select: &mut Statement<'_>, id: i64) -> Result<Option<Row>, Failed> {
    let number = |n: i64| u64::try_from(n).unwrap_or(0);
    let row = select.query_row([id], |row| {
        Ok(Row {
            id,
            session: row.get(0)?,
            seq: number(row.get(1)?),
            kind: row.get(2)?,
            anchor: row.get(3)?,
            time: number(row.get(4)?),
            offset: number(row.get(5)?),
            length: number(row.get(6)?),
            text: row.get(7)?,
            read_from: row.get(8)?,
        })
    });
    Ok(row.optional()?)
}

type Rows = (Vec<Row>, Option<Cursor>);

fn newest(database: &Connection, query: &Query, expression: &str, limit: usize) -> Result<Rows, Failed> {
    let last = query.after.map(|after| after.id.saturating_sub(1));
    let mut ids = ids(database, query, expression, last, limit + 1)?;
    let is_more = ids.len() > limit;
    ids.truncate(limit);
    let next = ids.last().filter(|_| is_more).map(|id| Cursor { id: *id, ranked: None });
    let mut select = database.prepare(ROW)?;
    let rows = ids.into_iter().filter_map(|id| row(&mut select, id).transpose()).collect::<Result<_, _>>()?;
    Ok((rows, next))
}

fn best(database: &Connection, query: &Query, terms: &[Term], expression: &str, limit: usize) -> Result<Rows, Failed> {
    let given = query.after.and_then(|after| after.ranked).unwrap_or(0);
    let block = ids(database, query, expression, query.after.map(|after| after.id), BLOCK_HITS + 1)?;
    let Some(begins) = block.first().copied() else { return Ok((Vec::new(), None)) };
    let mut select = database.prepare(ROW)?;
    let mut ranked = Vec::new();
    let (mut bytes, mut behind) = (0, None);
    for id in block {
        if ranked.len() == BLOCK_HITS || bytes >= BLOCK_BYTES_MAX {
            behind = Some(Cursor { id, ranked: Some(0) });
            break;
        }
        let Some(row) = row(&mut select, id)? else { continue };
        bytes += row.text.len();
        ranked.push((weight(&row.text, terms), row));
    }
    ranked.sort_by(|(a, one), (b, other)| b.cmp(a).then(other.id.cmp(&one.id)));
    let to = given.saturating_add(limit).min(ranked.len());
    let next = if to < ranked.len() { Some(Cursor { id: begins, ranked: Some(to) }) } else { behind };
    let rows = ranked.into_iter().map(|(_, row)| row).skip(given).take(limit).collect();
    Ok((rows, next))
}

/// The line that a row is about; `None` if it is not there. What is in the database is not believed: nothing is read from a file
/// whose name has not been checked.
fn look_up(layout: &Layout, row: &Row, whole: bool) -> Option<(SessionId, Option<TapeEntry>)> {
    let session: SessionId = row.session.parse().ok()?;
    let is_folder = anchor_number(&row.anchor).is_some() && !row.anchor.contains(['/', '\0']);
    let mut file = open_to_read(&layout.entries(&session, &row.anchor)).ok().filter(|_| is_folder)?;
    file.seek(SeekFrom::Start(row.offset)).ok()?;
    // A line begins with version, session, seq and id, then kind, anchor and time: another session under the same name has
    // another time there.
    let begins = format!("\"session\":\"{session}\",\"seq\":{},\"id\":\"", row.seq);
    let kind = serde_json::to_string(&row.kind).ok()?;
    // A time beyond what the database can hold is not known exactly.
    let time = if row.time < i64::MAX.unsigned_abs() { format!("{},", row.time) } else { String::new() };
    let goes_on = format!("\",\"kind\":{kind},\"anchor\":\"{}\",\"time\":{time}", row.anchor);
    let head = begins.len() + uuid::fmt::Hyphenated::LENGTH + goes_on.len();
    let length = if whole { row.length.min(LINE_BYTES_MAX as u64 + 1) } else { head as u64 + 32 };
    let mut line = Vec::new();
    file.take(length).read_to_end(&mut line).ok()?;
    let at = memchr::memchr(b',', &line).filter(|at| line[..*at].starts_with(b"{\"v\":"))?;
    let said = line.get(at + 1..at + 1 + head)?;
    if !said.starts_with(begins.as_bytes()) || !said.ends_with(goes_on.as_bytes()) {
        return None;
    }
    if !whole {
        return Some((session, None));
    }
    Some((session, Some(entry_of(line.strip_suffix(b"\n")?)?)))
}

#[cfg(test)]
mod tests;
