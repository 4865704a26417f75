//! Who has a session: [`TapeStore::begin`](tamtam::tape::TapeStore::begin) and [`claim`](tamtam::tape::TapeStore::claim) over PostgreSQL.
//!
//! A session is free where its row says so, or where its node does not live. A change must keep that a node lives before it claims;
//! and that a claim has an epoch of its own.

use std::{sync::Arc, time::Instant};

use tamtam::{
    Seq, SessionId,
    tape::{Holder, LoadedTape, Notify, Position, TapeError, TapeLines, TapeWriter},
};
use tokio_postgres::{Client, GenericClient, types::ToSql};

use crate::{
    Postgres, PostgresError,
    pool::Failure,
    read::{first_anchor, int},
    statements::BEAT,
    tape::{PgWriter, State, Tape},
};

/// The epoch is compared with that of the statement's look: an owner who came since may live by a row that the look did not see.
const BEGIN: &str = "
insert into $schema.sessions as s (session, first_part, after_seq, after_sum, epoch, node, pid, host, expires)
values ($1, $2, $3, $4, nextval('$schema.epochs'), $5, $6, $7, 'infinity')
on conflict (session) do update
set first_part = excluded.first_part, after_seq = excluded.after_seq, after_sum = excluded.after_sum,
    epoch = excluded.epoch, node = excluded.node, pid = excluded.pid, host = excluded.host, expires = excluded.expires
where ($free or s.node = excluded.node)
    and s.epoch = (select w.epoch from $schema.sessions w where w.session = s.session)
    and not exists (select from $schema.entries e where e.session = s.session)
returning epoch";

/// The owner before died where it did not give the session back. It counts if it left no entry, and an entry ends the count,
/// whoever claims next; past the bound (`$5`) the count stays until the session is unparked.
const CLAIM: &str = "
update $schema.sessions s
set epoch = nextval('$schema.epochs'), node = $2, pid = $3, host = $4, expires = 'infinity',
    deaths = case
        when s.deaths >= $5 then s.deaths
        when s.expires = '-infinity' or l.seq > s.claimed_seq then 0
        when s.node = $2 then s.deaths
        else s.deaths + 1 end,
    claimed_seq = l.seq
from (select coalesce((select max(seq) from $schema.entries where session = $1), 0) as seq) l
where s.session = $1 and ($free or s.node = $2)
    and s.epoch = (select w.epoch from $schema.sessions w where w.session = s.session)
returning epoch, first_part, after_seq, after_sum, deaths";

/// Gives a session back that its nodes die of, and keeps it stopped. The text of the mark is that of `tape/marks.rs`.
const PARK: &str = "
with parked as (
    insert into $schema.marks (mark, session, fork, about)
    values ('parked', $1, '', json_build_object('time', (extract(epoch from clock_timestamp()) * 1000)::bigint, 'why', $3::text)::text)
    on conflict (mark, session, fork) do nothing)
update $schema.sessions set expires = '-infinity' where session = $1 and epoch = $2";

const RELEASE: &str = "update $schema.sessions set expires = '-infinity' where session = $1 and epoch = $2";

impl Postgres {
    pub(crate) fn begin_tape(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        let exists = || TapeError::Exists { session: session.clone() };
        let reserved = self.node.shared.reserve(session).map_err(|error| match error {
            TapeError::Claimed { .. } => exists(),
            other => other,
        })?;
        let (number, before, sum) = match after {
            None => (1, Seq::ZERO, ""),
            Some(position) => (position.part.number as i64 + 1, position.seq, position.sum.as_str()),
        };
        let (id, pid, name) = self.me();
        let epoch = self.node.pool.run("begin a session", async |client| {
            self.live(client).await?;
            let (session, before) = (session.as_str(), int(before));
            let row = client.query_opt(&self.sql(BEGIN), &[&session, &number, &before, &sum, &id, &pid, &name]).await?;
            let epoch: i64 = row.ok_or_else(exists)?.get(0);
            // Rows that were committed while the statement waited for the lock were not seen by it.
            let any = self.sql("select from $schema.entries where session = $1 limit 1");
            if client.query_opt(&any, &[&session]).await?.is_some() {
                client.execute(&self.sql(RELEASE), &[&session, &epoch]).await?;
                return Err(exists().into());
            }
            Ok(epoch)
        })?;
        let state = State::new(epoch, TapeLines::after(session, "", before, sum), first_anchor(number));
        let tape = Arc::new(Tape::new(session.clone(), notify, state));
        reserved.open(&tape);
        Ok(self.writer(&tape))
    }

    pub(crate) fn claim_tape(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        let reserved = self.node.shared.reserve(session)?;
        let (id, pid, name) = self.me();
        let (state, entries) = self.node.pool.run("claim a session", async |client| {
            self.live(client).await?;
            let deaths_max = self.node.shared.deaths_max;
            let values: [&(dyn ToSql + Sync); 5] = [&session.as_str(), &id, &pid, &name, &deaths_max];
            let claimed = client.query_opt(&self.sql(CLAIM), &values).await?;
            let Some(claimed) = claimed else {
                return Err(match self.holder(client, session).await? {
                    Some(by) if by.owner != id => TapeError::Claimed { session: session.clone(), by }.into(),
                    // It was released between the two statements, or a try whose answer was lost has claimed it; its next caller has it.
                    _ => TapeError::Busy { waiting: 1 }.into(),
                });
            };
            if claimed.get::<_, i32>(4) >= deaths_max {
                let deadly = PostgresError::Deadly { session: session.clone(), deaths: claimed.get(4) };
                let epoch: i64 = claimed.get(0);
                client.execute(&self.sql(PARK), &[&session.as_str(), &epoch, &deadly.to_string()]).await?;
                return Err(TapeError::from(deadly).into());
            }
            let loaded = self.load(client, session, &claimed).await;
            if let Err(Failure::Told(_)) = &loaded {
                client.execute(&self.sql(RELEASE), &[&session.as_str(), &claimed.get::<_, i64>(0)]).await?;
            }
            loaded
        })?;
        let damage = state.damage.clone();
        let tape = Arc::new(Tape::new(session.clone(), notify, state));
        reserved.open(&tape);
        let mut loaded = LoadedTape::new(self.writer(&tape), entries);
        loaded.read_only = damage;
        Ok(loaded)
    }

    fn me(&self) -> (&str, i64, &str) {
        (&self.node.shared.id, i64::from(std::process::id()), &self.node.shared.name)
    }

    /// Sees to it that this node lives, so that what it claims next is its own. What it then has is renewed by the keeper.
    async fn live(&self, client: &Client) -> Result<(), Failure> {
        let shared = &self.node.shared;
        if !shared.is_sure_to_live() {
            let sent = Instant::now();
            let (id, pid, name) = self.me();
            let values: [&(dyn ToSql + Sync); 5] = [&id, &name, &pid, &shared.lease.as_secs_f64(), &None::<bool>];
            let was_over = client.query_one(&self.sql(BEAT), &values).await?.get(0);
            shared.beaten(sent, was_over);
        }
        Ok(())
    }

    /// Who has a session, by its row; `None` if it is free.
    pub(crate) async fn holder(
        &self,
        client: &impl GenericClient,
        session: &SessionId,
    ) -> Result<Option<Holder>, Failure> {
        let sql = self.sql("select not $free, s.node, s.pid, s.host from $schema.sessions s where s.session = $1");
        let row = client.query_opt(&sql, &[&session.as_str()]).await?;
        let row = row.ok_or_else(|| TapeError::Missing { session: session.clone() })?;
        let pid = u32::try_from(row.get::<_, i64>(2)).unwrap_or_default();
        Ok(row.get::<_, bool>(0).then(|| Holder::new(row.get::<_, String>(1), pid, row.get::<_, String>(3))))
    }

    /// [`TapeError::Missing`] if there is no row of that session, [`TapeError::Claimed`] if somebody has it; locks the row.
    pub(crate) async fn lock_free(&self, client: &impl GenericClient, session: &SessionId) -> Result<(), Failure> {
        let lock = self.sql("select from $schema.sessions where session = $1 for update");
        client.query(&lock, &[&session.as_str()]).await?;
        match self.holder(client, session).await? {
            None => Ok(()),
            Some(by) => Err(TapeError::Claimed { session: session.clone(), by }.into()),
        }
    }

    fn writer(&self, tape: &Arc<Tape>) -> Box<dyn TapeWriter> {
        Box::new(PgWriter::new(Arc::clone(&self.node), Arc::clone(tape)))
    }
}
