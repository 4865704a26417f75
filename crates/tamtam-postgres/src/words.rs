//! The index of words: GIN over words that the library has cut, read from the tapes by whoever searches (decision 0061).
//!
//! ```text
//! words     one row an entry that was read: its place in time, and its words as a `tsvector` without positions
//! indexed   one row a session: through which entry it was read, its labels, and the epoch after which it was at rest
//! ```
//!
//! An append writes nothing here. A session at rest, with the epoch that its row of `indexed` names, has no new entries, because an
//! entry needs a claim and a claim another epoch; of all others the last entry is looked at. Both tables go with the row of
//! `sessions`, whoever deletes it. A change must keep: words go in under a lock of that row, so that an erasure comes before, and
//! nothing is put in, or behind, and removes it; what hides a session gives it another epoch, so that a put which waited for that is
//! none; and a piece goes in behind the one before it, or not at all.

use std::{
    collections::HashMap,
    sync::PoisonError,
    time::{Duration, Instant},
};

use tamtam::{
    Seq, SessionId,
    session::Labels,
    tape::{EntryWords, FoundEntry, TapeError, TapeLines, UnreadTape, WantedWords},
};
use tokio_postgres::{error::SqlState, types::ToSql};

use crate::{
    Postgres,
    read::{int, seq},
};

/// The version of an unread tape is its epoch, negative where it was at rest.
const UNREAD: &str = "
select s.session, coalesce(i.through + 1, first.seq), last.seq, case when s.expires = '-infinity' then -s.epoch else s.epoch end
from $schema.sessions s
left join $schema.indexed i on i.session = s.session
cross join lateral (select seq from $schema.entries where session = s.session order by seq limit 1) first
cross join lateral (select seq from $schema.entries where session = s.session order by seq desc limit 1) last
where s.session > $1 and not (s.expires = '-infinity' and i.epoch is not distinct from s.epoch)
    and last.seq > coalesce(i.through, 0)
    and not exists (select from $schema.marks m where m.mark = 'hidden' and m.session = s.session)
order by s.session limit $2";

/// What an earlier version hid still has words.
/// And sessions that came to rest with nothing new need not be looked at again.
const TIDY: &str = "
delete from $schema.words w using $schema.marks m where m.mark = 'hidden' and m.session = w.session;
delete from $schema.indexed i using $schema.marks m where m.mark = 'hidden' and m.session = i.session;
with rests as (
    select i.session, s.epoch from $schema.indexed i join $schema.sessions s on s.session = i.session
    where s.expires = '-infinity' and i.epoch <> s.epoch
        and i.through = (select max(e.seq) from $schema.entries e where e.session = s.session)
    for update of i skip locked)
update $schema.indexed i set epoch = rests.epoch from rests where i.session = rests.session";

/// Does nothing where the session was hidden meanwhile, or where the piece before this one is gone from the index: the next search
/// reads these entries again.
const PUT: &str = "
with held as materialized (
    select s.session from $schema.sessions s where s.session = $1 and s.epoch = $2
        and not exists (select from $schema.marks m where m.mark = 'hidden' and m.session = s.session)
        and $9::bigint <= coalesce((select i.through + 1 from $schema.indexed i where i.session = $1),
            (select min(e.seq) from $schema.entries e where e.session = $1))
    for key share of s),
put as (
    insert into $schema.words (session, seq, place, words)
    select h.session, w.seq, w.place, array_to_tsvector(string_to_array(w.words, ' '))
    from held h, unnest($3::bigint[], $4::bigint[], $5::text[]) as w(seq, place, words)
    on conflict (session, seq) do nothing)
insert into $schema.indexed as i (session, through, epoch, labels)
select session, $6::bigint, $7::bigint, coalesce($8::text, '{}')::jsonb from held
on conflict (session) do update
set through = excluded.through, epoch = excluded.epoch,
    labels = case when $8::text is null then i.labels else excluded.labels end
where i.through < excluded.through and i.through >= $9 - 1";

/// Whether more than [`FEW`] rows have the words, by the index alone: of rare words the planner knows nothing.
const IS_COMMON: &str = "select $schema.few_words($1::text::tsquery, $2::integer + 1) > $2";

/// The lines of what was found, up to [`BYTES_MAX`] and one more. A few rows are all found by their words and then sorted
/// (`materialized`); of common words, the newest rows are looked at until there are enough (`not materialized`).
const FIND: &str = "
with w as $how (
    select place, session, seq from $schema.words where words @@ $1::text::tsquery and place between $2 and $3)
select place, session, anchor, line from (
    select f.place, f.session, f.seq, e.anchor, e.line,
        sum(octet_length(e.line)) over (order by f.place desc, f.session desc) - octet_length(e.line) as before
    from (
        select w.place, w.session, w.seq from w
        join $schema.indexed i on i.session = w.session
        where i.labels @> $4::text::jsonb
            and not exists (select from $schema.marks m where m.mark = 'hidden' and m.session = w.session)
        order by w.place desc, w.session desc limit $5) f
    join $schema.entries e on e.session = f.session and e.seq = f.seq) found
where before < $6 order by place desc, session desc";

/// How many rows are sorted to find the newest ones.
const FEW: i32 = 5_000;

/// How long the count may take: words of which it takes longer are common. And how long its answer holds.
const COUNT_MAX: &str = "set local statement_timeout = '1s'";
const COUNT_FOR: Duration = Duration::from_secs(60);
/// The most answers that are kept.
const COUNTS_MAX: usize = 256;

/// Which words were common, and when that was counted.
pub(crate) type Counts = HashMap<String, (Instant, bool)>;

/// How many bytes of lines one search reads at once.
const BYTES_MAX: i64 = 4 * 1024 * 1024;

impl Postgres {
    pub(crate) fn unread(&self, after: Option<&SessionId>, most: usize) -> Result<Vec<UnreadTape>, TapeError> {
        let (after, most) = (after.map_or("", SessionId::as_str), i64::try_from(most).unwrap_or(i64::MAX));
        self.node.pool.run("look for unread entries", async |client| {
            if after.is_empty() {
                client.batch_execute(&self.sql(TIDY)).await?;
            }
            let rows = client.query(&self.sql(UNREAD), &[&after, &most]).await?;
            let tape = |row: &tokio_postgres::Row| {
                let session = row.get::<_, &str>(0).parse().ok()?;
                Some(UnreadTape::new(session, seq(row.get(1)), seq(row.get(2)), row.get(3)))
            };
            Ok(rows.iter().filter_map(tape).collect())
        })
    }

    pub(crate) fn put(
        &self,
        tape: &UnreadTape,
        words: &[EntryWords],
        labels: Option<&Labels>,
    ) -> Result<(), TapeError> {
        let through = words.last().map_or(Seq::ZERO, |entry| entry.seq);
        let epoch = tape.version.abs();
        let is_all_at_rest = through == tape.last && tape.version < 0;
        let at_rest = if is_all_at_rest { epoch } else { 0 };
        let seqs: Vec<i64> = words.iter().map(|entry| int(entry.seq)).collect();
        let places: Vec<i64> = words.iter().map(|entry| entry.place).collect();
        let texts: Vec<String> = words.iter().map(|entry| entry.words.join(" ")).collect();
        let labels = labels.map(serde_json::to_string).transpose().map_err(TapeError::engine)?;
        let (first, through) = (seqs.first().copied().unwrap_or(0), int(through));
        let values: [&(dyn ToSql + Sync); 9] =
            [&tape.session.as_str(), &epoch, &seqs, &places, &texts, &through, &at_rest, &labels, &first];
        self.node.pool.run("put words into the index", async |client| {
            client.execute(&self.sql(PUT), &values).await?;
            Ok(())
        })
    }

    pub(crate) fn find(&self, wanted: &WantedWords) -> Result<Vec<FoundEntry>, TapeError> {
        let labels = serde_json::to_string(&wanted.labels).map_err(TapeError::engine)?;
        let most = i64::try_from(wanted.most).unwrap_or(i64::MAX);
        let words = expression(wanted);
        let how = if self.is_common(&words)? { "not materialized" } else { "materialized" };
        let sql = self.sql(&FIND.replace("$how", how));
        self.node.pool.run("search by words", async |client| {
            let mut through = wanted.through;
            loop {
                let values: [&(dyn ToSql + Sync); 6] = [&words, &wanted.from, &through, &labels, &most, &BYTES_MAX];
                let rows = client.query(&sql, &values).await?;
                let found = |row: &tokio_postgres::Row| {
                    let (session, entry) = (row.get::<_, &str>(1).parse().ok()?, TapeLines::entry_of(row.get(3))?);
                    Some(FoundEntry::new(row.get(0), session, row.get::<_, &str>(2), entry))
                };
                let all: Vec<FoundEntry> = rows.iter().filter_map(found).collect();
                match rows.last() {
                    // None of them can be read any more: nothing found would be the end.
                    Some(last) if all.is_empty() => through = last.get::<_, i64>(0).saturating_sub(1),
                    _ => return Ok(all),
                }
            }
        })
    }

    /// Whether many rows have these words. The rounds of a page ask once.
    fn is_common(&self, words: &str) -> Result<bool, TapeError> {
        let counts = &self.node.counts;
        let known = |counts: &Counts| counts.get(words).filter(|(at, _)| at.elapsed() < COUNT_FOR).map(|(_, is)| *is);
        if let Some(is_common) = known(&counts.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(is_common);
        }
        let is_common = self.node.pool.run("count what has the words", async |client| {
            let transaction = client.transaction().await?;
            transaction.batch_execute(COUNT_MAX).await?;
            match transaction.query_one(&self.sql(IS_COMMON), &[&words, &FEW]).await {
                Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(true),
                counted => Ok(counted?.get(0)),
            }
        })?;
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= COUNTS_MAX {
            counts.clear();
        }
        counts.insert(words.to_owned(), (Instant::now(), is_common));
        Ok(is_common)
    }
}

/// A `tsquery`. Each word is a lexeme in quotes, which no dictionary looks at.
fn expression(wanted: &WantedWords) -> String {
    let lexeme = |word: &String| format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"));
    let groups = wanted.groups.iter().map(|group| group.iter().map(lexeme).collect::<Vec<_>>().join("|"));
    let prefixes = wanted.prefixes.iter().map(|word| format!("{}:*", lexeme(word)));
    groups.chain(prefixes).map(|one| format!("({one})")).collect::<Vec<_>>().join("&")
}
