//! The tables, and how a schema comes to have them.
//!
//! ```text
//! sessions   one row a session: what its tape continues from, and who has it: epoch, node, expires; how many owners in a row died
//!            without an entry (deaths), told by the last entry at the newest claim (claimed_seq)
//! entries    one row a line of a tape (docs/TAPE.md, "The line"); rows are inserted and deleted, and never changed
//! marks      open, parked, protected, hidden, forked, imported
//! inbox      messages that any node took, until their session's tape has them
//! nodes      one row a node: until when it lives if it says nothing more (expires), and since when it is in a cluster
//! words      the words of an entry, once a search has read it; indexed: through which entry a session was read, and its labels
//! outputs    large outputs of calls; output_pieces: their bytes
//! epochs     counts claims; no two claims of any session have the same number
//! ```
//!
//! `sessions.expires` is `-infinity` where nobody has the session, and `infinity` where its node has it for as long as that lives: time
//! changes rows of `nodes` alone. Another time is the lease of a node of a version before the seventh. Rows of `sessions` and `nodes`
//! change in place; what a heartbeat or an append changes is in no index.
//! A change must be a new migration: those that ran are never edited, and older hosts refuse a newer schema.

use std::time::Duration;

use tokio_postgres::Client;

use crate::{PostgresError, PostgresOptions, thread::on_a_thread};

/// How often a migration tries to lock its tables, for [`LOCK_WAIT`] each, and how long it waits between two tries.
const TRIES: u32 = 3;
const TRY_WAIT: Duration = Duration::from_secs(1);
/// A change of a table waits behind everything that reads it, and everything that comes later waits behind the change: all nodes.
const LOCK_WAIT: &str = "set local lock_timeout = '2s'";

/// The version of the tables that this library needs: the number of migrations.
pub(crate) const VERSION: i32 = MIGRATIONS.len() as i32;

/// What the role of a running host needs, and on what: the list in the documentation of [`migrate`].
pub(crate) const GRANTS: [(&str, &str); 7] = [
    ("usage", "schema $schema"),
    ("usage", "sequence $schema.epochs"),
    ("select", "$schema.migrations"),
    ("select, insert, update, delete", "$schema.sessions, $schema.marks, $schema.inbox, $schema.nodes"),
    ("select, insert, delete", "$schema.entries, $schema.words, $schema.output_pieces"),
    ("select, insert, update, delete", "$schema.indexed, $schema.outputs"),
    ("execute", "function $schema.few_words(tsquery,integer)"),
];

/// Each brings the tables from one version to the next. `$schema` stands for the schema.
const MIGRATIONS: [&str; 7] = [
    r#"
create sequence $schema.epochs;
create table $schema.sessions (
    session text collate "C" primary key,
    first_part bigint not null,
    after_seq bigint not null,
    after_sum text not null,
    epoch bigint not null,
    node text not null,
    pid bigint not null,
    host text not null,
    expires timestamptz not null
) with (fillfactor = 50);
create table $schema.entries (
    session text collate "C" not null,
    seq bigint not null,
    time bigint not null,
    more bigint not null,
    anchor text not null,
    begins boolean not null,
    sum text not null,
    bytes bigint not null,
    line text not null,
    primary key (session, seq)
);
create index entries_parts on $schema.entries (session, seq) where begins;
create table $schema.marks (
    mark text collate "C" not null,
    session text collate "C" not null,
    fork text collate "C" not null,
    about text not null,
    primary key (mark, session, fork)
);
create index marks_session on $schema.marks (session);
"#,
    r#"
create table $schema.inbox (
    session text collate "C" not null,
    number bigint generated always as identity,
    message text collate "C" not null,
    what text not null,
    body text not null,
    refused text,
    at timestamptz not null default clock_timestamp(),
    primary key (session, number),
    unique (session, message)
);
create index inbox_waiting on $schema.inbox (session) where refused is null;
"#,
    r#"
alter table $schema.sessions add column deaths integer not null default 0, add column claimed_seq bigint not null default 0;
"#,
    r#"
create table $schema.nodes (
    node text collate "C" primary key,
    host text not null,
    pid bigint not null,
    since timestamptz not null default clock_timestamp(),
    expires timestamptz not null
) with (fillfactor = 50);
"#,
    r#"
create table $schema.words (
    session text collate "C" not null references $schema.sessions on delete cascade,
    seq bigint not null,
    place bigint not null,
    words tsvector not null,
    primary key (session, seq)
);
create index words_found on $schema.words using gin (words);
create index words_newest on $schema.words (place, session);
create table $schema.indexed (
    session text collate "C" primary key references $schema.sessions on delete cascade,
    through bigint not null,
    epoch bigint not null,
    labels jsonb not null
);
create function $schema.few_words(wanted tsquery, most integer) returns bigint language sql stable
    set enable_seqscan = off set enable_indexscan = off
    as 'select count(*) from (select from $schema.words where words @@ wanted limit most) few';
"#,
    r#"
create table $schema.outputs (
    session text collate "C" not null references $schema.sessions on delete cascade,
    name text collate "C" not null,
    bytes bigint not null,
    at timestamptz not null default clock_timestamp(),
    primary key (session, name)
);
create index outputs_oldest on $schema.outputs (at);
create table $schema.output_pieces (
    session text collate "C" not null,
    name text collate "C" not null,
    number bigint not null,
    piece bytea not null,
    primary key (session, name, number),
    foreign key (session, name) references $schema.outputs on delete cascade deferrable initially deferred
);
alter table $schema.output_pieces alter column piece set storage external;
"#,
    r#"
alter table $schema.nodes alter column since drop not null;
create index sessions_owner on $schema.sessions (node) where expires = 'infinity';
"#,
];

/// Makes the tables, or brings them to the version that this library needs, in one transaction. Does nothing if they are. Several
/// hosts may call it at once: one does the work, and the others wait. Returns the version that the tables had; 0 for none.
///
/// Nodes that run are held up for two seconds at a time at most: a migration that does not get at a table so long gives way, tries
/// again twice, and then fails as [`Refused`](PostgresError::Refused) with SQLSTATE 55P03, about 8 s after the first try.
///
/// Call it as the role that owns the schema, or may create it. The role of a running host needs less:
///
/// ```sql
/// grant usage on schema tamtam to app;
/// grant usage on sequence tamtam.epochs to app;
/// grant select on tamtam.migrations to app;
/// grant select, insert, update, delete on tamtam.sessions, tamtam.marks, tamtam.inbox, tamtam.nodes to app;
/// grant select, insert, delete on tamtam.entries, tamtam.words, tamtam.output_pieces to app;
/// grant select, insert, update, delete on tamtam.indexed, tamtam.outputs to app;
/// grant execute on function tamtam.few_words(tsquery,integer) to app;
/// ```
///
/// # Errors
///
/// [`PostgresError::Options`], [`Unreachable`](PostgresError::Unreachable), [`Refused`](PostgresError::Refused), and
/// [`Newer`](PostgresError::Newer). The tables are as they were then. It blocks, as [`Postgres::open`](crate::Postgres::open) does.
pub fn migrate(options: &PostgresOptions) -> Result<i32, PostgresError> {
    let address = options.address()?;
    on_a_thread(async {
        let (mut client, connection) = address.connect().await?;
        let driven = tokio::spawn(connection);
        let mut found = run(&mut client, &options.schema).await;
        for _ in 1..TRIES {
            if !matches!(&found, Err(error) if error.is_locked_out()) {
                break;
            }
            tokio::time::sleep(TRY_WAIT).await;
            found = run(&mut client, &options.schema).await;
        }
        drop(client);
        let _ = driven.await;
        found
    })
}

fn refused(error: &tokio_postgres::Error) -> PostgresError {
    PostgresError::of("migrate", error)
}

async fn run(client: &mut Client, schema: &str) -> Result<i32, PostgresError> {
    let transaction = client.transaction().await.map_err(|error| refused(&error))?;
    let execute =
        async |sql: &str| transaction.batch_execute(&in_schema(sql, schema)).await.map_err(|error| refused(&error));
    // Held until the end of the transaction.
    execute("select pg_advisory_xact_lock(hashtext('tamtam.migrate'), hashtext('$schema'))").await?;
    execute(LOCK_WAIT).await?;
    let found = version(transaction.client(), schema).await?;
    if found > VERSION {
        return Err(PostgresError::Newer { schema: schema.to_owned(), found, known: VERSION });
    }
    if found == 0 {
        execute("create schema if not exists $schema").await?;
        execute(
            "create table $schema.migrations (version integer primary key, ran timestamptz not null default now())",
        )
        .await?;
    }
    for (version, migration) in (1..).zip(MIGRATIONS).skip(usize::try_from(found).unwrap_or(0)) {
        execute(migration).await?;
        execute(&format!("insert into $schema.migrations (version) values ({version})")).await?;
    }
    transaction.commit().await.map_err(|error| refused(&error))?;
    Ok(found)
}

/// An error if the tables are not those that this library needs.
pub(crate) async fn check(client: &Client, schema: &str) -> Result<(), PostgresError> {
    let (found, known, schema) = (version(client, schema).await?, VERSION, schema.to_owned());
    match found {
        _ if found > known => Err(PostgresError::Newer { schema, found, known }),
        _ if found < known => Err(PostgresError::NotMigrated { schema, found, known }),
        _ => Ok(()),
    }
}

async fn version(client: &Client, schema: &str) -> Result<i32, PostgresError> {
    let refused = |error| PostgresError::of("read the version of the tables", &error);
    let is_there = client.query_one("select to_regclass($1) is not null", &[&format!("{schema}.migrations")]).await;
    if !is_there.map_err(refused)?.get::<_, bool>(0) {
        return Ok(0);
    }
    let newest = in_schema("select coalesce(max(version), 0) from $schema.migrations", schema);
    Ok(client.query_one(&newest, &[]).await.map_err(refused)?.get(0))
}

/// A statement with its schema. The name was checked to need no quotes. `$free` stands for: nobody has the session of the row `s`.
pub(crate) fn in_schema(sql: &str, schema: &str) -> String {
    let free = "(s.expires <= clock_timestamp() or s.expires = 'infinity' and not exists (
        select from $schema.nodes n where n.node = s.node and n.expires > clock_timestamp()))";
    sql.replace("$free", free).replace("$schema", schema)
}

/// Where nodes tell each other of messages, and of sessions that are free and have work. PostgreSQL takes names of up to 63 letters, and so a schema may have as many.
pub(crate) fn channel(schema: &str) -> String {
    let name = format!("tamtam_inbox_{schema}");
    if name.len() <= 63 {
        return name;
    }
    // FNV-1a: all nodes must come to the same. Two schemas with one channel would only look without need.
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("tamtam_inbox_{:016x}", schema.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test over a server shows that what is documented is enough.
    #[test]
    fn the_grants_are_those_that_are_documented() {
        let documented = include_str!("schema.rs").lines().filter(|line| line.starts_with("/// grant "));
        let grants =
            GRANTS.map(|(privileges, on)| in_schema(&format!("/// grant {privileges} on {on} to app;"), "tamtam"));
        assert_eq!(documented.collect::<Vec<_>>(), grants);
    }
}
