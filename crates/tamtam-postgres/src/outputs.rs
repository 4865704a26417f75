//! Large outputs of tool calls as rows (decision 0062).
//!
//! ```text
//! outputs         one row an output: its session, its name, its bytes, and when it came
//! output_pieces   its bytes, 256 KiB a row, numbered from 0
//! ```
//!
//! An output is put in with one transaction and never changed, so a reader sees all of it or nothing. Its rows go with the row of the
//! session, whoever deletes that. A put asks for no claim: the name cannot be guessed, and the result that tells it is on the tape, or
//! is not, by the claim's own rules. A change must keep that each put also bounds what the session has, as a folder is bounded.

use std::{
    cell::RefCell,
    fs::File,
    io::{Read as _, Seek as _, Write},
};

use tamtam::{SessionId, tape::TapeError};
use tokio_postgres::{GenericClient, IsolationLevel::RepeatableRead, types::ToSql};

use crate::{Postgres, PostgresError, pool::Failure};

/// How many bytes of an output are in one row.
const PIECE_BYTES: usize = 256 * 1024;
/// How many rows are read with one statement.
const PIECES: i64 = 16;
/// The most outputs of a session, and the most bytes of all of them.
const OUTPUTS_MAX: i64 = 500;
const BYTES_MAX: u64 = 512 * 1024 * 1024;
/// How many outputs that are too old one put removes at most, and of how many bytes: at least one, whatever it has.
const TIDIED_MAX: i64 = 100;
const TIDIED_BYTES: i64 = 64 * 1024 * 1024;

/// Makes the row of an output, if its session is there.
pub(crate) const MAKE: &str = "
insert into $schema.outputs (session, name, bytes)
select session, $2, $3 from $schema.sessions where session = $1
on conflict (session, name) do nothing";

/// A put that is tried again may meet its first try, which is still under way: it waits for that, and finds its pieces.
pub(crate) const PIECE: &str = "
insert into $schema.output_pieces (session, name, number, piece) values ($1, $2, $3, $4)
on conflict (session, name, number) do nothing";

/// The newest stay. Of what is beyond them, the oldest go first, as many as one statement removes in its time.
const BOUND: &str = "
delete from $schema.outputs o using (
    select name, sum(bytes) over (order by at, name) - bytes as before from (
        select name, at, bytes, row_number() over newest as number, sum(bytes) over newest as newer
        from $schema.outputs where session = $1 window newest as (order by at desc, name)) ranked
    where number > $2 or newer > $3::bigint) beyond
where o.session = $1 and o.name = beyond.name and beyond.before < $4::bigint";

/// Of any session: one that says no more does not tidy up after itself. Rows that another node removes are left to it.
const TIDY: &str = "
delete from $schema.outputs where ctid = any(array(
    select place from (
        select place, sum(bytes) over (order by at, session, name) - bytes as before from (
            select ctid as place, at, session, name, bytes from $schema.outputs
            where at < clock_timestamp() - interval '7 days'
            order by at limit $1 for update skip locked) old) summed
    where before < $2::bigint))";

impl Postgres {
    pub(crate) fn keep_output(&self, session: &SessionId, name: &str, file: &File) -> Result<(), TapeError> {
        let bytes = file.metadata().map_err(TapeError::engine)?.len();
        if bytes > BYTES_MAX {
            return Err(TapeError::engine(format!("it has {bytes} bytes: {BYTES_MAX} are the most")));
        }
        let _turn = self.node.pool.turn_for_outputs()?;
        self.node.pool.run("keep a large output", async |client| {
            let transaction = client.transaction().await?;
            let of = (session.as_str(), name);
            let there = self.sql("select from $schema.outputs where session = $1 and name = $2");
            if transaction.query_opt(&there, &[&of.0, &of.1]).await?.is_some() {
                return Ok(());
            }
            let read = write_pieces(&transaction, &self.sql(PIECE), of, file).await?;
            if read != bytes {
                return Err(TapeError::engine(format!("its file had {bytes} bytes, and {read} were read")).into());
            }
            // Last, and so for a moment only: a deletion waits for who refers to the row of its session.
            let made = transaction.execute(&self.sql(MAKE), &[&of.0, &of.1, &(bytes as i64)]).await?;
            if made == 0 && transaction.query_opt(&there, &[&of.0, &of.1]).await?.is_none() {
                return Err(TapeError::Missing { session: session.clone() }.into());
            }
            transaction.commit().await?;
            Ok(())
        })?;
        // What fails here costs room, and no output; the next put removes it.
        drop(self.node.pool.run_once("remove large outputs", async |client| {
            self.bound_outputs(client, session).await?;
            client.execute(&self.sql(TIDY), &[&TIDIED_MAX, &TIDIED_BYTES]).await?;
            Ok(())
        }));
        Ok(())
    }

    /// Removes some of what is beyond the bounds of a session. Returns how many outputs.
    pub(crate) async fn bound_outputs(
        &self,
        client: &impl GenericClient,
        session: &SessionId,
    ) -> Result<u64, tokio_postgres::Error> {
        let values: [&(dyn ToSql + Sync); 4] = [&session.as_str(), &OUTPUTS_MAX, &(BYTES_MAX as i64), &TIDIED_BYTES];
        client.execute(&self.sql(BOUND), &values).await
    }

    pub(crate) fn write_output(&self, session: &SessionId, name: &str, to: &mut dyn Write) -> Result<bool, TapeError> {
        let _turn = self.node.pool.turn_for_outputs()?;
        let to = RefCell::new(to);
        // Not twice: a part may be written.
        self.node.pool.run_once("read a large output", async |client| {
            let session = session.as_str();
            // All statements see one moment.
            let transaction =
                client.build_transaction().isolation_level(RepeatableRead).read_only(true).start().await?;
            let there = self.sql("select bytes from $schema.outputs where session = $1 and name = $2");
            let Some(row) = transaction.query_opt(&there, &[&session, &name]).await? else { return Ok(false) };
            let pieces = self.sql(
                "select piece from $schema.output_pieces
                 where session = $1 and name = $2 and number >= $3 and number < $4 order by number",
            );
            let pieces = transaction.prepare(&pieces).await?;
            let (bytes, mut written, mut first) = (row.get::<_, i64>(0) as u64, 0, 0_i64);
            while written < bytes {
                let rows = transaction.query(&pieces, &[&session, &name, &first, &(first + PIECES)]).await;
                let rows = rows.map_err(|error| match written {
                    0 => Failure::Server(error),
                    // Nor where the server would have it tried again.
                    _ => Failure::Told(PostgresError::of("read a large output", &error).into()),
                })?;
                if rows.is_empty() {
                    return Err(TapeError::engine(format!("{written} of {bytes} bytes are there")).into());
                }
                for row in rows {
                    let piece: &[u8] = row.get(0);
                    to.borrow_mut().write_all(piece).map_err(TapeError::engine)?;
                    written += piece.len() as u64;
                }
                first += PIECES;
            }
            if written != bytes {
                return Err(TapeError::engine(format!("{written} bytes are there, and it had {bytes}")).into());
            }
            Ok(true)
        })
    }

    pub(crate) fn list_outputs(&self, session: &SessionId) -> Result<Vec<(String, u64)>, TapeError> {
        self.node.pool.run("list large outputs", async |client| {
            let sql =
                self.sql(r#"select name, bytes from $schema.outputs where session = $1 order by name collate "C""#);
            let rows = client.query(&sql, &[&session.as_str()]).await?;
            Ok(rows.iter().map(|row| (row.get(0), row.get::<_, i64>(1) as u64)).collect())
        })
    }
}

/// Writes a file in pieces, from its start. Returns how many bytes it had.
async fn write_pieces(
    client: &impl GenericClient,
    sql: &str,
    (session, name): (&str, &str),
    mut file: &File,
) -> Result<u64, Failure> {
    file.rewind().map_err(TapeError::engine)?;
    let insert = client.prepare(sql).await?;
    let (mut piece, mut read) = (Vec::with_capacity(PIECE_BYTES), 0);
    for number in 0_i64.. {
        piece.clear();
        file.take(PIECE_BYTES as u64).read_to_end(&mut piece).map_err(TapeError::engine)?;
        if piece.is_empty() || read > BYTES_MAX {
            break;
        }
        read += piece.len() as u64;
        client.execute(&insert, &[&session, &name, &number, &piece]).await?;
    }
    Ok(read)
}
