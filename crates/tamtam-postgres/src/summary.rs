//! Summaries of sessions: two rows of each tape, however long it is, and the first append of a fork. All sessions are read with one
//! statement for each [`PIECE`] of them.

use tamtam::{
    SessionId,
    tape::{Forked, SessionSummary, TapeError, TapeLines},
};
use tokio_postgres::Row;

use crate::{
    Postgres,
    read::{millis, seq},
};

/// How many sessions are read with one statement, which has a time limit.
const PIECE: i64 = 10_000;

const SUMMARY: &str = "
select s.session, s.after_seq, s.after_sum, first.anchor, first.time, last.seq, last.time, last.bytes,
    case when s.first_part > 1 then (
        select string_agg(e.line, E'\n' order by e.seq) from $schema.entries e
        where e.session = s.session and e.seq between first.seq and first.seq + first.more) end
from $schema.sessions s
left join lateral (
    select seq, time, more, anchor from $schema.entries where session = s.session order by seq limit 1) first on true
left join lateral (
    select seq, time, bytes from $schema.entries where session = s.session order by seq desc limit 1) last on true";

impl Postgres {
    pub(crate) fn read_summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError> {
        let sql = self.sql(&format!("{SUMMARY} where s.session = $1"));
        self.node.pool.run("read a summary", async |client| {
            let row = client.query_opt(&sql, &[&session.as_str()]).await?;
            let row = row.ok_or_else(|| TapeError::Missing { session: session.clone() })?;
            Ok(summary(session.clone(), &row)?)
        })
    }

    pub(crate) fn read_summaries(&self) -> Result<Vec<SessionSummary>, TapeError> {
        let sql = self.sql(&format!("{SUMMARY} where s.session > $1 order by s.session limit $2"));
        let mut all = Vec::new();
        // Behind every name there is none; before every name is the empty one.
        let mut last = Some(String::new());
        while let Some(behind) = last.take() {
            let rows = self
                .node
                .pool
                .run("list the sessions", async |client| Ok(client.query(&sql, &[&behind, &PIECE]).await?))?;
            if rows.len() as i64 == PIECE {
                last = rows.last().map(|row| row.get(0));
            }
            let named = rows.iter().filter_map(|row| Some((row.get::<_, &str>(0).parse::<SessionId>().ok()?, row)));
            all.extend(named.map(|(session, row)| {
                summary(session.clone(), row).unwrap_or_else(|_| SessionSummary::unread(session))
            }));
        }
        Ok(all)
    }
}

/// An error where the first append of a fork is damaged, which says what the fork continues from.
fn summary(session: SessionId, row: &Row) -> Result<SessionSummary, TapeError> {
    let mut summary = SessionSummary::new(session);
    summary.created = row.get::<_, Option<i64>>(4).map(millis);
    summary.seq = row.get::<_, Option<i64>>(5).map(seq).unwrap_or_default();
    summary.last = row.get::<_, Option<i64>>(6).map(millis);
    summary.bytes = row.get::<_, Option<i64>>(7).and_then(|bytes| bytes.try_into().ok()).unwrap_or(0);
    if let Some(first) = row.get::<_, Option<&str>>(8) {
        let mut entries = Vec::new();
        TapeLines::after(&summary.id, "", seq(row.get(1)), row.get(2)).decode(row.get(3), first, &mut entries)?;
        summary.from = entries.first().and_then(Forked::of);
    }
    Ok(summary)
}
