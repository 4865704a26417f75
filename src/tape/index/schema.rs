//! The tables of the index (the search database next to the tapes), and the ids of its rows.
//!
//! An entry's id is made from its time, so the order of ids is the order of time, and a range of time is a range of ids. Searches
//! rest on that. It is exact up to a million entries of one millisecond; further ones get an id of a millisecond nearby.
//! The tables are not a stored format: change them freely, and raise [`VERSION`] each time, also when only the content of a
//! column changes (other tokens, other keys in `text`). An older index is then deleted and rebuilt when it is opened to write; a
//! newer one must be refused, because its tables are not known here.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::Failed;
use crate::{
    tape::TapeError,
    words::ids::{Millis, new_uuid},
};

/// The tables, in the form of [`VERSION`].
const TABLES: &str = "
    create table files (
        id integer primary key,
        session text not null,
        anchor text not null,
        path text not null,
        -- Read up to this byte; the last entry before it and its checksum.
        offset integer not null,
        seq integer not null,
        sum text not null,
        -- How long the file was then: it need not be looked at again while it is as long.
        seen integer not null,
        unique (session, anchor)
    );
    -- The ids of entries are made from their time, so that their order is that of time.
    create table entries (
        id integer primary key,
        session text not null,
        seq integer not null,
        kind text not null,
        anchor text not null,
        time integer not null,
        file integer not null references files (id),
        offset integer not null,
        length integer not null,
        text text not null,
        unique (session, seq)
    );
    create index entries_by_kind on entries (session, kind, seq);
    create index entries_by_file on entries (file);
    -- Holds tokens that were made here (tokens.rs) and no text; tags say session, kind and anchor.
    create virtual table entries_fts using fts5 (
        words, pairs, tags, content = '', contentless_delete = 1, tokenize = 'ascii', prefix = '2 3'
    );
    create trigger entries_removed after delete on entries begin
        delete from entries_fts where rowid = old.id;
    end;
    -- The labels of the sessions whose entries are searched (labels.rs).
    create table labels (
        session text not null,
        key text not null,
        value text not null,
        primary key (session, key)
    ) without rowid;
    -- What a list shows of a session (session_rows.rs), and up to where its files were read for that.
    create table session_rows (
        session text primary key,
        -- Of the digest in it. A row of another form counts as unread.
        form integer not null,
        parent text,
        is_fork integer not null,
        last integer not null,
        -- How many files there were, and how long all of them.
        files integer not null,
        bytes integer not null,
        -- Larger than that of every row that was written before this one, also in an index that was made anew.
        brought integer not null,
        -- All of it, as JSON.
        row text not null
    ) without rowid;
    create index session_rows_by_brought on session_rows (brought);
    create index session_rows_by_last on session_rows (last, session);
    create index session_rows_by_parent on session_rows (parent, last) where parent is not null;
    -- The labels that a list filters by: those in the rows, and never others.
    create table row_labels (
        session text not null,
        key text not null,
        value text not null,
        primary key (session, key)
    ) without rowid;
    create trigger session_rows_added after insert on session_rows begin
        insert into row_labels select new.session, key, value from json_each(new.row, '$.labels');
    end;
    create trigger session_rows_removed after delete on session_rows begin
        delete from row_labels where session = old.session;
    end;
";

/// The database's `user_version`. Raise it with each change of the tables or of their content.
pub(super) const VERSION: i64 = 8;

/// By how many bits an entry's time is shifted in its id: the low bits tell the entries of one millisecond apart.
pub(super) const TIME_SHIFT: u32 = 20;

/// The latest time that ids can distinguish, in the year 2248.
pub(super) const TIME_MAX: u64 = (1 << (63 - TIME_SHIFT)) - 1;

/// The first id that an entry of this time may have.
pub(super) fn first_id_at(time: Millis) -> i64 {
    i64::try_from(time.0.min(TIME_MAX) << TIME_SHIFT).unwrap_or(i64::MAX)
}

/// The last id that an entry of this time may have.
pub(super) fn last_id_at(time: Millis) -> i64 {
    first_id_at(time) | ((1 << TIME_SHIFT) - 1)
}

/// The search token of a session, a kind or an anchor: a search finds an entry by it as by a word.
pub(super) fn tag(of: char, name: &str) -> String {
    format!("{of}{}", &blake3::hash(name.as_bytes()).to_hex()[..16])
}

/// Makes the tables in an empty database, in one transaction; leaves tables of this version as they are. A database with older
/// tables counts as broken, so the caller rebuilds it; one of a later version is [`TapeError::Newer`].
pub(super) fn make_tables(database: &mut Connection, path: &Path) -> Result<(), Failed> {
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match change.query_row("pragma user_version", [], |row| row.get(0))? {
        VERSION => Ok(()),
        0 => {
            // Never 0, which is the number of a database that was not made here.
            let number = i32::from_le_bytes(*new_uuid().as_bytes().last_chunk().unwrap_or(&[1; 4])) | 1;
            change.execute_batch(&format!(
                "{TABLES} pragma user_version = {VERSION}; pragma application_id = {number}"
            ))?;
            Ok(change.commit()?)
        }
        found if found > VERSION => Err(newer(path, found)),
        found => Err(Failed::Corrupt(format!("it is of version {found}"))),
    }
}

/// The number that was drawn when this database was made: another one has another.
pub(super) fn number(database: &Connection) -> rusqlite::Result<i64> {
    database.query_row("pragma application_id", [], |row| row.get(0))
}

/// The error for an index that a later version of this library made.
pub(super) fn newer(path: &Path, found: i64) -> Failed {
    TapeError::Newer { file: path.into(), found: found.unsigned_abs(), known: VERSION.unsigned_abs() }.into()
}
