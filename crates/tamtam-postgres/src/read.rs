//! Reading rows: the lines of a tape, checked as those of a file are, and what a claim must know of it.

use tamtam::{
    Millis, Seq, SessionId,
    tape::{Anchor, TapeEntry, TapeError, TapeLines},
};
use tokio_postgres::{Client, Row};

use crate::{
    Postgres,
    pool::Failure,
    tape::{State, name_of, number_of},
};

/// The rows of some entries, with the one before, from whose checksum the first goes on, and those of the last one's append.
const ROW_BEFORE_AND_ROWS: &str = "
select seq, more, anchor, sum, line from $schema.entries
where session = $1 and seq >= $2::bigint - 1
    and seq <= $3::bigint + coalesce((select more from $schema.entries where session = $1 and seq = $3), 0)
order by seq";

impl Postgres {
    /// Reads lines behind `place`: the entries `from` to `through`, and those that are sound before an error.
    pub(crate) async fn read(
        &self,
        client: &Client,
        session: &SessionId,
        (from, through): (i64, i64),
        into: &mut Vec<TapeEntry>,
    ) -> Result<TapeLines, Failure> {
        let rows = client.query(&self.sql(ROW_BEFORE_AND_ROWS), &[&session.as_str(), &from, &through]).await?;
        let is_before = |row: &&Row| row.get::<_, i64>(0) < from;
        let mut place = match rows.first().filter(is_before) {
            Some(before) => TapeLines::after(session, before.get(2), seq(before.get(0)), before.get(3)),
            None => {
                let sql = self.sql("select after_seq, after_sum from $schema.sessions where session = $1");
                let row = client.query_opt(&sql, &[&session.as_str()]).await?;
                let row = row.ok_or_else(|| TapeError::Missing { session: session.clone() })?;
                TapeLines::after(session, "", seq(row.get(0)), row.get(1))
            }
        };
        let rows: Vec<&Row> = rows.iter().filter(|row| !is_before(row)).collect();
        for part in rows.chunk_by(|one, next| one.get::<_, &str>(2) == next.get::<_, &str>(2)) {
            let lines: Vec<&str> = part.iter().map(|row| row.get(4)).collect();
            let anchor = part.first().map_or("", |row| row.get(2));
            place.decode(anchor, &lines.join("\n"), into)?;
        }
        Ok(place)
    }

    /// A session that was claimed: its newest part, and what a writer must know of the rest.
    pub(crate) async fn load(
        &self,
        client: &Client,
        session: &SessionId,
        claimed: &Row,
    ) -> Result<(State, Vec<TapeEntry>), Failure> {
        let parts = "select anchor, seq from $schema.entries where session = $1 and begins order by seq";
        let parts = client.query(&self.sql(parts), &[&session.as_str()]).await?;
        let last = "select bytes from $schema.entries where session = $1 order by seq desc limit 1";
        let last = client.query_opt(&self.sql(last), &[&session.as_str()]).await?;
        let newest = parts.last().map_or(0, |row| row.get::<_, i64>(1));
        let mut entries = Vec::new();
        let read = self.read(client, session, (newest, i64::MAX), &mut entries).await;
        let (place, damage) = match read {
            Ok(place) => (place, None),
            Err(Failure::Told(TapeError::Damaged(damage))) => {
                (TapeLines::after(session, "", damage.last_good, ""), Some(damage))
            }
            Err(other) => return Err(other),
        };
        let mut state = State::new(claimed.get(0), place, first_anchor(claimed.get(1)));
        state.parts = parts.iter().map(|row| name_of(row.get(0)).to_owned()).collect();
        state.bytes = last.map_or(0, |row| row.get(0));
        state.damage = damage;
        Ok((state, entries))
    }
}

pub(crate) fn first_anchor(number: i64) -> String {
    format!("{number:03}_{}", if number == 1 { "session-start" } else { "forked" })
}

pub(crate) fn anchor(folder: &str, first: i64, time: i64) -> Anchor {
    Anchor::new(number_of(folder), name_of(folder), seq(first), millis(time))
}

/// A bound that is past every entry stays past every entry.
pub(crate) fn int(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

pub(crate) fn seq(seq: i64) -> Seq {
    Seq(u64::try_from(seq).unwrap_or_default())
}

pub(crate) fn millis(time: i64) -> Millis {
    Millis(u64::try_from(time).unwrap_or_default())
}
