//! Checking the index (the search database beside the tapes): compares its row of each entry with the entry on the tape.
//!
//! All differences are counted, and the first 100 are named; a broken database counts once. Entries that the index has not read
//! yet are counted apart and are no fault. A broken database is a finding and no error. Not compared: the labels, the rows of
//! session lists, and the search table, except that each entry must be in it. Damage of a tape is reported by [`Store::verify`];
//! here it shows only where the index has entries that can no longer be read.
//!
//! A change must keep: the check writes nothing to the database or a tape, and does not take the lock on `index.lock`, because it
//! runs beside a writer of the index. (SQLite itself may leave its files `index.db-wal` and `index.db-shm`.) It sees one state of
//! the database, in one transaction that begins before a tape is read: tapes grow, so whatever a row of that state is about is on
//! the tape. It reads all tapes that it compares, and blocks.

use std::{collections::BTreeSet, fmt};

use rusqlite::{Connection, OptionalExtension, params};

use super::{Failed, open_as_it_is, schema::tag, session_rows::signed, text::text_of};
use crate::{
    tape::{Store, TapeError, read::read_known_lines},
    words::ids::SessionId,
};

/// The most faults that are listed one by one.
const WRONG_MAX: usize = 100;

/// The columns of an entry that are compared.
const COMPARED: [&str; 7] = ["kind", "time", "place", "text", "anchor", "file", "words"];

/// The outcome of comparing the index with the tapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexCheck {
    /// There is no index yet, or only one of an older version: nothing is wrong with that.
    pub is_missing: bool,
    /// Why the index could not be read, for a reason that is no fault in it: a full disk, another process.
    pub unreadable: Option<String>,
    /// Entries that were compared.
    pub entries: u64,
    /// Entries on the tapes that the index has not read yet.
    pub behind: u64,
    /// The first 100 faults. Making the index anew mends all faults.
    pub wrong: Vec<WrongRow>,
    /// The number of all faults.
    pub wrong_count: u64,
}

/// Something in which the index does not say what a tape says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongRow {
    /// The session, by its name in the index; empty where the fault is about the database.
    pub session: String,
    /// The number of the entry; 0 where the fault is not about one entry.
    pub seq: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for WrongRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.session.as_str(), self.seq) {
            ("", _) => write!(f, "{}", self.what),
            (session, 0) => write!(f, "session {session}: {}", self.what),
            (session, seq) => write!(f, "session {session} entry {seq}: {}", self.what),
        }
    }
}

impl IndexCheck {
    fn add(&mut self, found: IndexCheck) {
        self.entries += found.entries;
        self.behind += found.behind;
        self.wrong_count += found.wrong_count;
        let room = WRONG_MAX - self.wrong.len();
        self.wrong.extend(found.wrong.into_iter().take(room));
    }

    fn wrong(&mut self, session: &str, seq: u64, what: impl Into<String>) {
        self.wrong_count += 1;
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(WrongRow { session: session.to_owned(), seq, what: what.into() });
        }
    }
}

impl Store {
    /// Compares the index with the tapes: of one session, or of all. Reads these tapes whole. Does not lock the index; beside a
    /// live writer of it, it sees one state of it.
    ///
    /// A damaged database is a fault in the result, and not an error.
    ///
    /// # Errors
    ///
    /// [`TapeError::Newer`] where a later version of this library made the index; [`TapeError::Missing`]; [`TapeError::Io`].
    pub fn check_index(&self, session: Option<&SessionId>) -> Result<IndexCheck, TapeError> {
        if let Some(session) = session {
            self.must_exist(session)?;
        }
        let mut check = IndexCheck::default();
        let path = self.layout().root.join("index.db");
        if !path.exists() {
            check.is_missing = true;
            return Ok(check);
        }
        let compared = open_as_it_is(&path, true).and_then(|database| match database {
            Some(database) => self.compare(&database, session, &mut check),
            // An index of an older version is made anew when it is opened to write.
            None => {
                check.is_missing = true;
                Ok(())
            }
        });
        match compared {
            Ok(()) => {}
            Err(Failed::Corrupt(what)) => check.wrong("", 0, format!("it cannot be read: {what}")),
            Err(Failed::Database(what)) => check.unreadable = Some(what),
            Err(Failed::Tape(error)) => return Err(error),
        }
        Ok(check)
    }

    fn compare(
        &self,
        database: &Connection,
        session: Option<&SessionId>,
        check: &mut IndexCheck,
    ) -> Result<(), Failed> {
        let at_once = database.unchecked_transaction()?;
        // The state that a transaction sees is that of its first read.
        at_once.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))?;
        if session.is_none() {
            let sound: String = at_once.query_row("pragma integrity_check(1)", [], |row| row.get(0))?;
            if sound != "ok" {
                check.wrong("", 0, sound);
            }
        }
        let sessions = self.layout().session_ids()?;
        for known in sessions.iter().filter(|known| session.is_none_or(|wanted| wanted == *known)) {
            let mut found = IndexCheck::default();
            let compared = self.compare_session(&at_once, known, &mut found);
            match self.must_be_there(known) {
                // It was erased meanwhile: the next catching up takes it out.
                Err(TapeError::Missing { .. }) if session.is_none() => continue,
                there => there.map_err(Failed::Tape)?,
            }
            match compared {
                // `Store::verify_all` names it; there is nothing to compare its rows with.
                Err(failed) if failed.is_of_one_session() && session.is_none() => {}
                compared => compared?,
            }
            check.add(found);
        }
        if session.is_some() {
            return Ok(());
        }
        let there: BTreeSet<&str> = sessions.iter().map(SessionId::as_str).collect();
        let mut query = at_once.prepare("select session, count(*) from entries group by session")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (name, count): (String, i64) = (row.get(0)?, row.get(1)?);
            // A session that was read and is gone since is no fault: the next catching up takes it out.
            if !there.contains(name.as_str()) && name.parse::<SessionId>().is_err() {
                check.wrong(&name, 0, format!("{count} entries of a session whose name is no id"));
            }
        }
        Ok(())
    }

    fn compare_session(
        &self,
        database: &Connection,
        session: &SessionId,
        check: &mut IndexCheck,
    ) -> Result<(), Failed> {
        let layout = self.layout();
        let name = session.as_str();
        let number = |n: i64| u64::try_from(n).unwrap_or(0);
        let mut mark = database.prepare("select offset from files where session = ?1 and anchor = ?2")?;
        let mut row = database.prepare(
            "select e.kind = ?3, e.time = ?4, e.offset = ?5 and e.length = ?6, e.text = ?7, e.anchor = ?8,
                    ifnull(f.anchor = ?8 and f.session = ?1, false),
                    exists (select 1 from entries_fts_docsize d where d.id = e.id)
             from entries e left join files f on f.id = e.file where e.session = ?1 and e.seq = ?2",
        )?;
        let mut on_tape = BTreeSet::new();
        for anchor in layout.anchor_names(session)? {
            let read = read_known_lines(layout, session, &anchor)?;
            let read_up_to: Option<i64> = mark.query_row([name, &anchor], |row| row.get(0)).optional()?;
            let read_up_to = number(read_up_to.unwrap_or(0));
            let ends = read.offsets.iter().skip(1).copied().chain([read.good_bytes]);
            for ((entry, offset), next) in read.entries.iter().zip(&read.offsets).zip(ends) {
                if *offset as u64 >= read_up_to {
                    check.behind += 1;
                    continue;
                }
                check.entries += 1;
                let seq = entry.seq.0;
                on_tape.insert(seq);
                let text = text_of(entry.data.get());
                let (place, length) = (signed(*offset as u64), signed((next - offset) as u64));
                let said = params![name, signed(seq), entry.kind, signed(entry.time.0), place, length, text, anchor];
                let compared = row.query_row(said, |row| {
                    (0..COMPARED.len()).map(|column| row.get(column)).collect::<Result<Vec<bool>, _>>()
                });
                match compared.optional()? {
                    None => check.wrong(name, seq, "it is on the tape and not in the index"),
                    Some(all) => {
                        COMPARED.iter().zip(all).filter(|(_, is_right)| !is_right).for_each(|(what, _)| {
                            check.wrong(name, seq, format!("its {what} is not the one on the tape"))
                        })
                    }
                }
            }
        }
        let mut all = database.prepare("select seq from entries where session = ?1 order by seq")?;
        let mut all = all.query([name])?;
        let mut rows: i64 = 0;
        while let Some(found) = all.next()? {
            rows += 1;
            let seq = number(found.get(0)?);
            if !on_tape.contains(&seq) {
                check.wrong(name, seq, "it is not on the tape");
            }
        }
        let by_tag = format!("tags : \"{}\"", tag('s', name));
        let sql = "select count(*) from entries_fts where entries_fts match ?1";
        let tagged: i64 = database.query_row(sql, [by_tag], |row| row.get(0))?;
        if tagged != rows {
            check.wrong(name, 0, format!("{tagged} of {rows} entries can be found by their words"));
        }
        Ok(())
    }
}
