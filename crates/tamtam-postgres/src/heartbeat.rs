//! The heartbeat of a node: it renews the one row of the node, gives back what a row says too much, and asks which sessions are still
//! its own: all of them where its lease was over, and else some, in turns. An append is what decides; this is how a node hears of it
//! that appends nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use tamtam::tape::{Holder, TapeError};
use tokio_postgres::{Client, Row, types::ToSql};

use crate::{
    PostgresError,
    keeper::{Keeper, Link, answered, claims},
    schema::in_schema,
    statements::{FREE, HOLDERS},
    tape::Tape,
};

/// How many sessions one heartbeat looks after, where nobody may have taken one.
const LOOKED_AT_MAX: usize = 512;

impl Keeper {
    /// Renews the lease of the node, gives back what it could not, and finds what another node has by now.
    pub(crate) async fn beat(&mut self) -> Result<(), PostgresError> {
        match self.renew().await {
            Err(error) if error.is_unreachable() => return Err(error),
            // Where it was refused, the next heartbeat or claim decides.
            Ok(()) | Err(_) => {}
        }
        for waits in self.waits.drain(..) {
            let _ = waits.send(());
        }
        self.look_after().await
    }

    async fn renew(&self) -> Result<(), PostgresError> {
        let (sent, shared, link) = (Instant::now(), &self.shared, self.link()?);
        let (pid, seconds) = (i64::from(std::process::id()), shared.lease.as_secs_f64());
        let values: [&(dyn ToSql + Sync); 5] = [&shared.id, &shared.name, &pid, &seconds, &shared.is_in_cluster()];
        let row = answered(link.client.query_one(&link.beat, &values)).await?;
        shared.beaten(sent, row.map_err(|error| self.refusal("renew the lease", &error))?.get(0));
        if shared.take_owes() {
            self.free(link).await.inspect_err(|_| shared.owe())?;
        }
        Ok(())
    }

    /// Frees what the rows say that this node has, and it does not know.
    async fn free(&self, link: &Link) -> Result<(), PostgresError> {
        let refused = |error| self.refusal("give sessions back", &error);
        // What is claimed from now on has a later epoch, and what was before is among the names.
        let now = in_schema("select nextval('$schema.epochs')", &self.shared.schema);
        let now: i64 = answered(link.client.query_one(&now, &[])).await?.map_err(refused)?.get(0);
        let (sql, names) = (in_schema(FREE, &self.shared.schema), self.shared.names());
        answered(link.client.execute(&sql, &[&self.shared.id, &names, &now])).await?.map_err(refused)?;
        Ok(())
    }

    /// Looks whether sessions are still this node's. What another one has by now is lost.
    async fn look_after(&mut self) -> Result<(), PostgresError> {
        let was_over = self.shared.take_was_over();
        let mut tapes = self.shared.held();
        if !was_over && tapes.len() > LOOKED_AT_MAX {
            tapes.retain(|tape| self.looked_at.as_ref().is_none_or(|last| tape.session > *last));
            self.looked_at = tapes.get(LOOKED_AT_MAX - 1).map(|tape| tape.session.clone());
            tapes.truncate(LOOKED_AT_MAX);
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
        let looked = looked.await;
        if was_over && looked.is_err() {
            // All of them are to be looked at again.
            self.shared.was_over();
        }
        looked.or_else(|error| if error.is_unreachable() { Err(error) } else { Ok(()) })
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
