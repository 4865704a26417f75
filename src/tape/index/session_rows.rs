//! One row in the index for each session, for lists: a digest of its entries, its parent, its labels, and when it was used last.
//!
//! This layer does not know what entries mean. The digest is a [`Fold`] of the caller, which continues from its earlier value.
//! The row remembers how far the session's files were read. A list reads only the entries after that point; it reads the whole
//! session if the files are not what was read before, or if the row has another [`Fold::FORM`]. Lists and searches have separate
//! tables: a list is up to date even if the searches are behind.
//!
//! A change must keep: a row of another form is read again; names from the database are parsed again before they are used;
//! writing needs the lock on `index.lock`, because the index has one writer at a time, and reading needs none. Parents may form a
//! circle, because tapes may say so: a reader that follows them needs a bound.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use rusqlite::{Connection, Params, Row, Transaction, TransactionBehavior, params};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Failed, Index, labels, schema,
    tail::{FileCursor, Known, Stale, Tail, files_of, known},
};
use crate::{
    tape::{
        Behind, ListCost, TapeEntry, TapeError,
        changed::{Changed, Seen},
        layout::Layout,
        lineage::origin,
    },
    words::{
        ids::{Millis, Seq, SessionId},
        labels::Labels,
    },
};

/// How many sessions are read in one transaction.
const BATCH_SESSIONS: u64 = 256;

/// A digest of the entries of a session.
pub(crate) trait Fold: Default + Serialize + DeserializeOwned {
    /// The number of its written form. A session with a digest of another form is read again.
    const FORM: u32;
    /// Continues with the next entries.
    fn add(&mut self, entries: &[TapeEntry]);
    /// The session that this one is shown below, and whether as a fork of it.
    fn parent(&self) -> Option<(SessionId, bool)>;
}

/// A session's row, as its column `row` has it. The other columns repeat what is searched for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct SessionRow<D: Fold> {
    pub(crate) digest: D,
    pub(crate) parent: Option<(SessionId, bool)>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(crate) labels: Labels,
    pub(crate) created: Millis,
    pub(crate) last: Millis,
    pub(crate) seq: Seq,
    /// How many entries it has itself; a fork's begin where it was forked.
    pub(crate) entries: u64,
    /// The length of its files together, in bytes, as far as they were read. A torn tail is not counted, so it is read again.
    pub(crate) bytes: u64,
    form: u32,
    files: u64,
    /// The anchor of the newest file that was read; `cursor` says how far.
    anchor: String,
    #[serde(rename = "place")]
    cursor: Option<FileCursor>,
}

/// Which sessions are read.
enum Which {
    All,
    /// Those that were noted since the last look of this owner, if that is known; otherwise all.
    Noted(Arc<Changed>, String),
    /// Some, if the database still has this number; otherwise all.
    Of(i64, BTreeSet<SessionId>),
}

impl Index {
    /// Reads what was appended to all sessions since the last time, without a look at those that cannot have changed (`changed.rs`).
    /// Begins with no further session once `wait` is over.
    ///
    /// # Errors
    /// As [`Index::catch_up`].
    pub(crate) fn bring_rows<D: Fold>(&mut self, wait: Duration) -> Result<(ListCost, Behind), TapeError> {
        let changed = self.changed.clone().filter(|_| !self.only_reads);
        let which = changed.map_or(Which::All, |(changed, owner)| Which::Noted(changed, owner));
        self.bring_some::<D>(wait, which)
    }

    /// Brings the row of one session up to date. Looks at the files of this session alone, and takes the lock of the index only where
    /// they are not what the row says.
    ///
    /// # Errors
    /// As [`Index::catch_up`].
    pub(crate) fn bring_row<D: Fold>(
        &mut self,
        session: &SessionId,
        wait: Duration,
    ) -> Result<(ListCost, Behind), TapeError> {
        let one = BTreeSet::from([session.clone()]);
        match stale(&self.database, &self.layout, D::FORM, Some(&one)) {
            Ok((cost, stale)) if stale.is_nothing() => Ok((cost, Behind::No)),
            // What is wrong with the database is mended where it is written.
            Ok(_) | Err(_) => {
                let number = schema::number(&self.database).map_err(failed)?;
                self.bring_some::<D>(wait, Which::Of(number, one))
            }
        }
    }

    /// Reads the sessions that are asked for.
    ///
    /// What was noted is taken under the lock of the index: taken before, it would be missing from a list that gets the lock first, and
    /// that would say that no session is missing.
    fn bring_some<D: Fold>(&mut self, wait: Duration, which: Which) -> Result<(ListCost, Behind), TapeError> {
        let until = Instant::now() + wait;
        let look = |database: &Connection, layout: &Layout| {
            stale(database, layout, D::FORM, None).map(|(cost, stale)| (cost, stale.sessions.len() as u64))
        };
        let brought = self.bring(wait, look, &mut |database, layout| match &which {
            // A database that was made anew meanwhile has no rows.
            Which::Of(number, some) => {
                let is_same = schema::number(database)? == *number;
                bring_all::<D>(database, layout, until, is_same.then_some(some))
            }
            Which::Noted(changed, owner) => {
                let seen = Seen::now(layout, owner, schema::number(database)?, D::FORM)?;
                let noted = changed.since(seen.as_ref());
                let brought = bring_all::<D>(database, layout, until, noted.as_ref());
                if !matches!(brought, Ok((_, 0))) {
                    changed.still(noted);
                }
                brought
            }
            Which::All => bring_all::<D>(database, layout, until, None),
        })?;
        Ok((brought.unwrap_or_default().0, Behind::of(brought.map(|(_, behind)| behind))))
    }

    /// Notes those of these sessions whose files are not what their rows say, for somebody else changed them. Whether there are any.
    pub(crate) fn note_changed<'s>(&self, sessions: impl Iterator<Item = &'s SessionId>) -> Result<bool, TapeError> {
        let Some((changed, _)) = self.changed.as_ref().filter(|_| !self.only_reads) else { return Ok(false) };
        let mut any = false;
        for session in sessions {
            let known = known(&self.database, KNOWN_ONE, [session.as_str()]).map_err(failed)?.remove(session.as_str());
            if files_of(&self.layout, session).ok() != known {
                changed.note(session);
                any = true;
            }
        }
        Ok(any)
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

/// A session and its row.
pub(crate) type Named<D> = (SessionId, SessionRow<D>);

/// The rows that a query finds. What cannot be understood is left out: content of the database is not trusted.
fn find<D: Fold>(database: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<Vec<Named<D>>> {
    let named = |columns: &Row<'_>| {
        let (session, row): (String, String) = (columns.get("session")?, columns.get("row")?);
        let named = session.parse().ok().zip(serde_json::from_str(&row).ok());
        Ok(named)
    };
    database.prepare(sql)?.query_map(params, named)?.filter_map(Result::transpose).collect()
}

fn failed(error: rusqlite::Error) -> TapeError {
    Failed::from(error).into_error("read")
}

const ONE: &str = "select * from session_rows where session = ?1";

fn newest_first() -> String {
    let has_labels = labels::has_all("row_labels", "session_rows.session", "?4");
    format!(
        "select * from session_rows
         where (last, session) < (?1, ?2) and +brought > ?5 and +brought <= ?6 and {has_labels}
         order by last desc, session desc limit ?3"
    )
}

impl SessionRows<'_> {
    /// The rows after the place `after`, last used first, `limit` at most: those that have all of the wanted labels, and were
    /// brought in after the first of the two moments and up to the second.
    pub(crate) fn newest_first<D: Fold>(
        &self,
        after: Option<(Millis, &str)>,
        limit: usize,
        wanted: &Labels,
        brought: (u64, u64),
    ) -> Result<Vec<Named<D>>, TapeError> {
        // A place before the newest row: the latest possible time, and a name after every session id.
        let (last, session) = after.map_or((i64::MAX, "\u{10ffff}"), |(last, session)| (signed(last.0), session));
        let (from, through) = (signed(brought.0), signed(brought.1));
        let params = params![last, session, signed(limit as u64), labels::parameter(wanted), from, through];
        find(&self.at_once, &newest_first(), params).map_err(failed)
    }

    /// When the newest of the rows was brought in: a number that grows with each row that is written.
    pub(crate) fn newest_brought(&self) -> Result<u64, TapeError> {
        let newest =
            self.at_once.query_row("select max(brought) from session_rows", [], |row| row.get::<_, Option<i64>>(0));
        Ok(newest.map_err(failed)?.unwrap_or(0).unsigned_abs())
    }

    /// The row of a session.
    pub(crate) fn one<D: Fold>(&self, session: &SessionId) -> Result<Option<SessionRow<D>>, TapeError> {
        let found = find(&self.at_once, ONE, [session.as_str()]).map_err(failed)?;
        Ok(found.into_iter().next().map(|(_, row)| row))
    }

    /// How many forks, and how many children with a task, a session has.
    pub(crate) fn count_below(&self, parent: &SessionId) -> Result<(u64, u64), TapeError> {
        let sql = "select count(*) filter (where is_fork), count(*) filter (where not is_fork) from session_rows where parent = ?1";
        let count = |row: &Row<'_>| Ok((row.get::<_, u32>(0)?.into(), row.get::<_, u32>(1)?.into()));
        self.at_once.query_row(sql, [parent.as_str()], count).map_err(failed)
    }
}

pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// How far the files of one session were read for its row.
const KNOWN_ONE: &str = "select session, files, bytes from session_rows where session = ?1";

/// The sessions whose rows differ from their files, or have another form. Hidden sessions that forks go on from are included. Looks at
/// those that were `noted` alone, where they are all that may have changed.
fn stale(
    database: &Connection,
    layout: &Layout,
    form: u32,
    noted: Option<&BTreeSet<SessionId>>,
) -> Result<(ListCost, Stale), Failed> {
    let (there, known) = match noted {
        None => {
            let all = format!("select session, iif(form = {form}, files, -1), bytes from session_rows");
            (layout.all_session_ids()?, known(database, &all, [])?)
        }
        Some(noted) => {
            let one =
                format!("select session, iif(form = {form}, files, -1), bytes from session_rows where session = ?1");
            let mut rows = Known::new();
            for session in noted {
                rows.extend(known(database, &one, [session.as_str()])?);
            }
            (noted.iter().filter(|session| layout.session(session).is_dir()).cloned().collect(), rows)
        }
    };
    let cost = ListCost { folders: there.len() as u64, ..ListCost::default() };
    Ok((cost, Stale::of(layout, there, known)?))
}

/// Reads all stale sessions on, until the time is over. Returns the cost, and how many sessions are still behind.
fn bring_all<D: Fold>(
    database: &mut Connection,
    layout: &Layout,
    until: Instant,
    noted: Option<&BTreeSet<SessionId>>,
) -> Result<(ListCost, u64), Failed> {
    let (mut cost, stale) = stale(database, layout, D::FORM, noted)?;
    if stale.is_nothing() {
        return Ok((cost, 0));
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for gone in &stale.gone {
        change.execute("delete from session_rows where session = ?1", [gone])?;
    }
    let behind = stale.each(Some(until), |session| {
        bring::<D>(&change, layout, session, &mut cost.bytes)?;
        cost.tapes += 1;
        if cost.tapes.is_multiple_of(BATCH_SESSIONS) {
            change.execute_batch("commit; begin immediate")?;
        }
        Ok(true)
    })?;
    change.commit()?;
    Ok((cost, behind))
}

/// Reads a session on, or from its beginning where its files are not what they were. Adds the bytes that were read to `bytes`.
fn bring<D: Fold>(
    change: &Transaction<'_>,
    layout: &Layout,
    session: &SessionId,
    bytes: &mut u64,
) -> Result<(), Failed> {
    let anchors = layout.anchor_names(session)?;
    let mut before = find::<D>(change, ONE, [session.as_str()])?.into_iter().map(|(_, row)| row);
    let before = before.find(|row| row.form == D::FORM && anchors.contains(&row.anchor));
    let mut read = |before| read_on(layout, session, &anchors, before, bytes);
    let mut row = match before.map_or(Ok(None), &mut read)? {
        Some(row) => row,
        None => read(SessionRow::default())?.unwrap_or_default(),
    };
    if row.bytes == 0 {
        // A session without an entry: its existence was never reported.
        change.execute("delete from session_rows where session = ?1", [session.as_str()])?;
        return Ok(());
    }
    row.form = D::FORM;
    row.parent = match row.parent.take() {
        // The fork was brought in whole, and continues from no session of this store: one with its parent's name is another.
        Some((named, true)) if origin(layout, session, &anchors)?.is_none_or(|from| from.parent != named) => None,
        Some((named, _)) if named == *session => None,
        parent => parent,
    };
    let (parent, is_fork) = row.parent.as_ref().map_or((None, false), |(parent, is_fork)| (Some(parent), *is_fork));
    let (parent, text) = (parent.map(SessionId::as_str), serde_json::to_string(&row).unwrap_or_default());
    let (last, files, bytes) = (signed(row.last.0), signed(row.files), signed(row.bytes));
    // The clock, so that a rebuilt index continues after the one before; the newest number, if the clock is stopped.
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(0));
    change.execute(
        "insert or replace into session_rows (session, form, parent, is_fork, last, files, bytes, brought, row)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, max(?8, (select coalesce(max(brought), 0) + 1 from session_rows)), ?9)",
        params![session.as_str(), row.form, parent, is_fork, last, files, bytes, now, text],
    )?;
    Ok(())
}

/// Reads all that comes after `row`; `None` if the files are not what was read before.
fn read_on<D: Fold>(
    layout: &Layout,
    session: &SessionId,
    anchors: &[String],
    mut row: SessionRow<D>,
    bytes: &mut u64,
) -> Result<Option<SessionRow<D>>, Failed> {
    (row.files, row.bytes) = (0, 0);
    let begun = anchors.iter().position(|anchor| *anchor == row.anchor);
    for (n, anchor) in anchors.iter().enumerate() {
        let Some(mut tail) = Tail::open(&layout.entries(session, anchor))? else { continue };
        row.files += 1;
        if begun.is_some_and(|begun| n < begun) {
            row.bytes += tail.length;
            continue;
        }
        row.cursor.take_if(|_| begun != Some(n));
        let mut goes_on = row.cursor.is_some();
        row.bytes += loop {
            let Some(piece) = tail.read(session, anchor, row.cursor.as_ref())? else { return Ok(None) };
            *bytes += piece.bytes;
            let entries = &piece.decoded.entries;
            if std::mem::take(&mut goes_on) && entries.is_empty() && piece.is_bad() {
                return Ok(None);
            }
            if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
                if row.entries == 0 {
                    row.created = first.time;
                }
                (row.last, row.seq) = (last.time, last.seq);
                row.entries += entries.len() as u64;
                row.digest.add(entries);
                row.parent = row.digest.parent();
                row.labels = labels::after(layout, session, entries)?.unwrap_or(row.labels);
            }
            row.cursor = Some(piece.end());
            if let Some(read) = piece.is_last(tail.length) {
                break read;
            }
        };
        row.anchor.clone_from(anchor);
    }
    Ok(Some(row))
}

#[cfg(test)]
mod tests;
