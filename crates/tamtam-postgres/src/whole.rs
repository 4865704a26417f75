//! A whole session that comes from elsewhere, in one transaction: `TapeStore::take_in` over PostgreSQL.
//!
//! ```text
//! begin ─► the row of the session, free ─► rows of entries, a few MiB a statement ─► marks ─► commit
//! ```
//!
//! Nobody sees any of it before the commit, and a node that is killed before leaves nothing. The rows are those that appends would
//! have written: a session that came from files has the bytes of its files. A change must keep that the row of the session comes
//! first: it keeps every other maker of the name waiting until all is there, or nothing.

use tamtam::{
    Seq, SessionId,
    tape::{TapeError, TapeLines, TapePiece},
};
use tokio_postgres::{Transaction, types::ToSql};

use crate::{
    Postgres, outputs,
    pool::Failure,
    read::first_anchor,
    store::{fork, word},
    tape::{Rows, State},
};

/// How many bytes of lines go with one statement. One append may be larger.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// A session with no owner, in place of one that is free and, as is asked behind it, has no entry. The row is this transaction's.
/// A node that had that one finds it to be another's.
const MAKE: &str = "
insert into $schema.sessions as s (session, first_part, after_seq, after_sum, epoch, node, pid, host, expires)
values ($1, 1, 0, '', nextval('$schema.epochs'), '', 0, '', '-infinity')
on conflict (session) do update
set first_part = 1, after_seq = 0, after_sum = '', epoch = excluded.epoch, node = '', pid = 0, host = '', expires = '-infinity'
where $free and s.epoch = (select w.epoch from $schema.sessions w where w.session = s.session)
returning session";

/// Looks also at what was committed while [`MAKE`] waited for the row, which that statement does not see.
const ANY: &str = "select from $schema.entries where session = $1 limit 1";

/// The row keeps other makers of the name waiting, and a caller whose pieces do not come would keep it for ever.
const IDLE_MAX: &str = "set local idle_in_transaction_session_timeout = '60s'";

const INSERT: &str = "
insert into $schema.entries (session, seq, time, more, anchor, begins, sum, bytes, line)
select $1, r.* from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::boolean[], $7::text[], $8::bigint[], $9::text[])
    as r(seq, time, more, anchor, begins, sum, bytes, line)";

type Pieces<'p> = &'p mut dyn Iterator<Item = Result<TapePiece, TapeError>>;

impl Postgres {
    pub(crate) fn write_whole(&self, session: &SessionId, pieces: Pieces<'_>) -> Result<(), TapeError> {
        let exists = || TapeError::Exists { session: session.clone() };
        let _reserved = self.node.shared.reserve(session).map_err(|error| match error {
            TapeError::Claimed { .. } => exists(),
            other => other,
        })?;
        // The pieces come from a file or a socket of the caller's, however slowly.
        self.node.pool.run_apart("take a session in", async |client| {
            let transaction = client.transaction().await?;
            transaction.batch_execute(IDLE_MAX).await?;
            let is_made = transaction.query_opt(&self.sql(MAKE), &[&session.as_str()]).await?.is_some();
            if !is_made || transaction.query_opt(&self.sql(ANY), &[&session.as_str()]).await?.is_some() {
                return Err(exists().into());
            }
            self.write_pieces(&transaction, session, pieces).await?;
            while self.bound_outputs(&transaction, session).await? > 0 {}
            transaction.commit().await?;
            Ok(())
        })
    }

    async fn write_pieces(
        &self,
        transaction: &Transaction<'_>,
        session: &SessionId,
        pieces: Pieces<'_>,
    ) -> Result<(), Failure> {
        let mut state = State::new(0, TapeLines::after(session, "", Seq::ZERO, ""), first_anchor(1));
        let mut waiting: Vec<Rows> = Vec::new();
        // The large output that is being written, and the number of its next piece.
        let mut output: Option<(String, i64)> = None;
        for piece in pieces {
            match piece? {
                TapePiece::Append { part, entries } => {
                    let begins = *part != *state.lines.anchor();
                    let rows = state.rows_in(part, begins, &entries)?;
                    state.move_behind(&rows);
                    waiting.push(rows);
                    if waiting.iter().map(|rows| rows.size).sum::<usize>() > BYTES_MAX {
                        self.insert(transaction, session, std::mem::take(&mut waiting)).await?;
                    }
                }
                TapePiece::Mark { mark, about } => {
                    let sql =
                        self.sql("insert into $schema.marks (mark, session, fork, about) values ($1, $2, $3, $4)");
                    let values: [&(dyn ToSql + Sync); 4] =
                        [&word(mark)?, &session.as_str(), &fork(mark, &about), &about];
                    transaction.execute(&sql, &values).await?;
                }
                TapePiece::Spill { name, bytes } => {
                    let (session, size) = (session.as_str(), bytes.len() as i64);
                    if output.as_ref().is_none_or(|(open, _)| *open != name) {
                        transaction.execute(&self.sql(outputs::MAKE), &[&session, &name, &0_i64]).await?;
                        output = Some((name.clone(), 0));
                    }
                    if let Some((name, number)) = output.as_mut().filter(|_| size > 0) {
                        let grow = "update $schema.outputs set bytes = bytes + $3 where session = $1 and name = $2";
                        transaction.execute(&self.sql(grow), &[&session, &*name, &size]).await?;
                        transaction.execute(&self.sql(outputs::PIECE), &[&session, &*name, &*number, &bytes]).await?;
                        *number += 1;
                    }
                }
                other => return Err(TapeError::engine(format!("there is no place here for {other:?}")).into()),
            }
        }
        self.insert(transaction, session, waiting).await
    }

    async fn insert(
        &self,
        transaction: &Transaction<'_>,
        session: &SessionId,
        appends: Vec<Rows>,
    ) -> Result<(), Failure> {
        let rows =
            || appends.iter().flat_map(|append| append.rows.iter().enumerate().map(move |(n, row)| (append, n, row)));
        let seqs: Vec<i64> = rows().map(|(.., row)| row.seq).collect();
        let times: Vec<i64> = rows().map(|(.., row)| row.time).collect();
        let more: Vec<i64> = rows().map(|(.., row)| row.more).collect();
        let anchors: Vec<&str> = rows().map(|(append, ..)| append.anchor.as_str()).collect();
        let begins: Vec<bool> = rows().map(|(append, n, _)| append.begins && n == 0).collect();
        let sums: Vec<&str> = rows().map(|(.., row)| row.sum.as_str()).collect();
        let bytes: Vec<i64> = rows().map(|(.., row)| row.bytes).collect();
        let lines: Vec<&str> = rows().map(|(.., row)| row.line.as_str()).collect();
        let values: [&(dyn ToSql + Sync); 9] =
            [&session.as_str(), &seqs, &times, &more, &anchors, &begins, &sums, &bytes, &lines];
        transaction.execute(&self.sql(INSERT), &values).await?;
        Ok(())
    }
}
