//! Moves sessions between a folder of files and PostgreSQL, either way: each whole or not at all, its lines byte for byte.
//!
//! ```sh
//! cargo run -p tamtam-postgres --example move_sessions -- to-postgres /var/lib/app/tapes "host=/run/postgresql user=app dbname=app"
//! cargo run -p tamtam-postgres --example move_sessions -- to-files /var/lib/app/tapes "host=/run/postgresql user=app dbname=app"
//! ```
//!
//! Drain the hosts first. A session that is there already is left alone, so it can be run again; nothing is deleted where it came
//! from. Large outputs come along where they have a place: in PostgreSQL with a folder for copies of them, as a fourth argument.
#![allow(clippy::print_stdout)]

use std::{
    error::Error,
    io::{self, BufReader, BufWriter, Seek as _},
    sync::Arc,
    time::Duration,
};

use tamtam::{
    SessionId,
    tape::{ImportOptions, Spills, Store, StoreOptions, TapeError, TapeStore, TapeStoreExt as _},
};
use tamtam_postgres::{Postgres, PostgresOptions, migrate};

/// Copies all sessions that `to` does not have. Returns those that it has by now because of this; an error names each session that
/// could not be copied, after all others were.
pub(crate) fn copy_all(from: &dyn TapeStore, to: &dyn TapeStore) -> Result<Vec<SessionId>, Box<dyn Error>> {
    let (mut copied, mut failed) = (Vec::new(), String::new());
    for session in from.sessions()? {
        match copy(from, to, &session) {
            Ok(()) => copied.push(session),
            Err(TapeError::Exists { .. }) => println!("{session} is there already."),
            Err(error) => failed += &format!("\nsession {session}: {error}"),
        }
    }
    if failed.is_empty() {
        return Ok(copied);
    }
    Err(format!(
        "{} sessions were copied; these were not, and can be when what is said here is mended:{failed}",
        copied.len()
    )
    .into())
}

fn copy(from: &dyn TapeStore, to: &dyn TapeStore, session: &SessionId) -> Result<(), TapeError> {
    let io = |error: io::Error| TapeError::Io { op: "keep", path: "the export".into(), source: Arc::new(error) };
    // Through a file, so that one store does not wait for the other.
    let mut file = tempfile::tempfile().map_err(io)?;
    let spills = if to.spill_path(session).is_some() { Spills::Taken } else { Spills::Left };
    from.export(session, spills, &mut BufWriter::new(&mut file))?;
    file.rewind().map_err(io)?;
    // The host's own record: it comes as it was, with its rules and its open work.
    to.import(&mut BufReader::new(file), &ImportOptions::as_it_was())?;
    Ok(())
}

#[allow(dead_code, reason = "the test that plays this has a main of its own")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [direction, folder, connection, copies @ ..] = &arguments[..] else {
        return Err("give it a direction (to-postgres, to-files), a folder and a connection".into());
    };
    let mut options = PostgresOptions::new(connection);
    if let Some(copies) = copies.first() {
        options = options.output_copies(copies);
    }
    migrate(&options)?;
    let (postgres, files) = (Postgres::open(&options)?, Store::open(folder, StoreOptions::default())?);
    let copied = match direction.as_str() {
        "to-postgres" => copy_all(&files, &postgres)?,
        "to-files" => copy_all(&postgres, &files)?,
        other => return Err(format!("{other} is no direction: to-postgres or to-files").into()),
    };
    println!("{} sessions were copied.", copied.len());
    files.close(Duration::from_secs(10))?;
    Ok(())
}
