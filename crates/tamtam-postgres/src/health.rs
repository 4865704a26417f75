//! [`examine`]: what an operator asks of a database before a node uses it.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::{
    PostgresError, PostgresOptions,
    pool::connect,
    schema::{GRANTS, check, in_schema},
    store::about,
    thread::on_a_thread,
};

/// What [`examine`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseState {
    /// The version of the server, such as `15.8`.
    pub server: String,
    /// The version of TLS between this process and what it connected to, such as `TLSv1.3`; `None` where it is not encrypted.
    pub encryption: Option<String>,
    /// Whether the server only reads, as a replica does: a node needs one that writes.
    pub is_read_only: bool,
    /// What the role may not do and a node needs, each as what to grant, such as `insert on tamtam.entries`; empty where it may do
    /// all. Else why the tables cannot be used: [`NotMigrated`](PostgresError::NotMigrated) or [`Newer`](PostgresError::Newer).
    pub tables: Result<Vec<String>, PostgresError>,
}

/// Connects once, with the role that the options name, and looks at all that a node needs of a database. Nothing is written. It blocks,
/// as [`Postgres::open`](crate::Postgres::open) does, and for `limit` at most.
///
/// # Errors
///
/// Each of [`PostgresError`] that keeps a connection from being made; [`Refused`](PostgresError::Refused) also where the role may not
/// look at the schema.
pub fn examine(options: &PostgresOptions, limit: Duration) -> Result<DatabaseState, PostgresError> {
    let address = options.address()?;
    on_a_thread(async {
        let examined = tokio::time::timeout(limit, async {
            let client = connect(&address, &Handle::current()).await?;
            let refused = |error| PostgresError::of("look at the database", &error);
            let about = about(&client).await?;
            let tables = match check(&client, &options.schema).await {
                Ok(()) => {
                    let missing = client.query(&lacking(&options.schema), &[]).await.map_err(refused)?;
                    Ok(missing.iter().map(|row| row.get(0)).collect())
                }
                Err(error @ (PostgresError::NotMigrated { .. } | PostgresError::Newer { .. })) => Err(error),
                Err(error) => return Err(error),
            };
            // Debian's versions have the name of its package behind them.
            let server = about.get::<_, &str>(2).split(' ').next().unwrap_or_default().to_owned();
            Ok(DatabaseState { server, encryption: address.encryption(), is_read_only: about.get(3), tables })
        });
        examined.await.unwrap_or_else(|_| {
            Err(PostgresError::Unreachable { message: format!("no answer for {} s", limit.as_secs()) })
        })
    })
}

/// The query for what the role of the connection may not do.
fn lacking(schema: &str) -> String {
    let one = |privilege: &str, object: &str| {
        // What it is, by the word before its name: a table has none.
        let (kind, name) = object.split_once(' ').unwrap_or(("table", object));
        format!("('{privilege} on {object}', has_{kind}_privilege('{name}', '{privilege}'))")
    };
    let all: Vec<String> = GRANTS
        .iter()
        .flat_map(|(privileges, objects)| {
            let objects = move || objects.split(", ");
            privileges.split(", ").flat_map(move |privilege| objects().map(move |object| one(privilege, object)))
        })
        .collect();
    in_schema(&format!("select what from (values {}) as granted (what, is_so) where not is_so", all.join(", ")), schema)
}
