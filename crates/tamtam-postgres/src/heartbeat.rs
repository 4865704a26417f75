//! The heartbeat of a node: it renews the one row of the node, and asks which sessions are still its own: all of them where its lease was
//! over, and else some, in turns. An append is what decides; this is how a node hears of it that appends nothing. Once in a lease it
//! frees what the rows say that it has and it does not know, so that no session is kept from others by a node that lives.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use tamtam::tape::{Holder, TapeError};
use tokio_postgres::{Client, Row, types::ToSql};

use crate::{
    PostgresError,
    keeper::{Keeper, answered, claims},
    pool::STATEMENT_MAX,
    schema::in_schema,
    statements::HOLDERS,
    tape::Tape,
};

/// How many sessions one heartbeat looks after, where nobody may have taken one.
const LOOKED_AT_MAX: usize = 512;

impl Keeper {
    /// Renews the lease of the node, finds what another node has by now, and gives back what this one does not know.
    pub(crate) async fn beat(&mut self) -> Result<(), PostgresError> {
        match self.renew().await {
            Ok(()) => self.waits.drain(..).for_each(|waits| _ = waits.send(())),
            Err(error) if error.is_unreachable() => return Err(error),
            // Where it was refused, the next heartbeat or claim decides; behind the last user there may be none.
            Err(_) if self.has_ended => self.waits.clear(),
            Err(_) => {}
        }
        self.look_after().await?;
        if Instant::now() >= self.next_free {
            match self.free().await {
                Err(error) if error.is_unreachable() => return Err(error),
                Ok(()) | Err(_) => self.next_free = Instant::now() + self.shared.lease,
            }
        }
        Ok(())
    }

    async fn renew(&self) -> Result<(), PostgresError> {
        let (sent, shared, link) = (Instant::now(), &self.shared, self.link()?);
        let (pid, seconds) = (i64::from(std::process::id()), shared.lease.as_secs_f64());
        let is_in_cluster = Some(shared.is_in_cluster());
        let values: [&(dyn ToSql + Sync); 5] = [&shared.id, &shared.name, &pid, &seconds, &is_in_cluster];
        let row = answered(link.client.query_one(&link.beat, &values)).await?;
        shared.beaten(sent, row.map_err(|error| self.refusal("renew the lease", &error))?.get(0));
        Ok(())
    }

    /// Frees what the rows say that this node has, and it does not know.
    async fn free(&self) -> Result<(), PostgresError> {
        let (link, refused) = (self.link()?, |error| self.refusal("give sessions back", &error));
        // What is claimed from now on has a later epoch, and what was before is among the names.
        let now = in_schema("select nextval('$schema.epochs')", &self.shared.schema);
        let now: i64 = answered(link.client.query_one(&now, &[])).await?.map_err(refused)?.get(0);
        let names = self.shared.names();
        answered(link.client.execute(&link.free, &[&self.shared.id, &names, &now])).await?.map_err(refused)?;
        Ok(())
    }

    /// Looks whether sessions are still this node's. What another one has by now is lost.
    async fn look_after(&mut self) -> Result<(), PostgresError> {
        let mut tapes = self.shared.held();
        // A claim that looked while the lease was over may wait at the server for as long as a statement may take.
        let mut last = None;
        if tapes.len() > LOOKED_AT_MAX && !self.shared.was_over(STATEMENT_MAX) {
            tapes.retain(|tape| self.looked_at.as_ref().is_none_or(|last| tape.session > *last));
            tapes.truncate(LOOKED_AT_MAX);
            last = tapes.last().map(|tape| tape.session.clone());
        }
        let (names, epochs) = claims(tapes.iter());
        let looked = async {
            let link = self.link()?;
            let held = answered(link.client.query(&link.held, &[&names, &epochs])).await?;
            let held = held.map_err(|error| self.refusal("look after sessions", &error))?;
            let held: BTreeSet<&str> = held.iter().map(|row| row.get(0)).collect();
            let is_lost = |tape: &&Arc<Tape>| !held.contains(tape.session.as_str());
            let lost: Vec<_> = tapes.iter().filter(is_lost).map(Arc::clone).collect();
            self.lose(&link.client, &lost).await
        };
        match looked.await {
            Ok(()) => self.looked_at = last,
            Err(error) if error.is_unreachable() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    /// Notes that these sessions are not this node's any more, and whose.
    pub(crate) async fn lose(&self, client: &Client, lost: &[Arc<Tape>]) -> Result<(), PostgresError> {
        if lost.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = lost.iter().map(|tape| tape.session.as_str()).collect();
        let holders = self.query(client, HOLDERS, &[&names]).await?;
        let holder = |row: &Row| {
            let pid = u32::try_from(row.get::<_, i64>(2)).unwrap_or_default();
            Holder::new(row.get::<_, String>(1), pid, row.get::<_, String>(3))
        };
        let holders: BTreeMap<&str, Holder> = holders.iter().map(|row| (row.get(0), holder(row))).collect();
        for tape in lost {
            let (session, seq) = (tape.session.clone(), tape.state().lines.seq());
            tape.lose(match holders.get(session.as_str()) {
                // Nobody took it: the epoch or the last line of this claim is gone.
                Some(by) if by.owner == self.shared.id => {
                    let why = Arc::new(PostgresError::WentBack { session: session.clone(), seq });
                    TapeError::Lost { session, why }
                }
                Some(by) => TapeError::Claimed { session, by: by.clone() },
                None => TapeError::Missing { session },
            });
        }
        Ok(())
    }
}
