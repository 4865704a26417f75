//! Tapes in PostgreSQL: `serve --postgres`, which is one of several nodes then, and `postgres migrate`.
//!
//! | where | from the strongest |
//! |---|---|
//! | the connection | `--postgres`, `postgres` of a file, the variable `TAMTAM_SERVE_POSTGRES` |
//! | its password | the connection itself, the variable `PGPASSWORD` |
//!
//! A change must keep that no password reaches an output: a connection is shown through [`network::database_shown`] alone.

use std::{sync::Arc, time::Duration};

use tamtam::{Runtime, runtime::Passivation};
use tamtam_postgres::{Cluster, DatabaseState, Postgres, PostgresError, PostgresOptions, examine};

use super::{
    arguments::{MigrateArguments, PostgresArguments, TurnArguments, remote::ServeArguments},
    config::Config,
    environment::{Environment, POSTGRES},
    failed_to_start,
    failure::{Exit, Failure},
    network, print,
};

/// The variable with the password of a connection that has none, as for other programs of PostgreSQL.
const PASSWORD: &str = "PGPASSWORD";

/// How long `doctor` waits for a database.
const EXAMINE_LIMIT: Duration = Duration::from_secs(5);

/// The database of a command.
pub(super) struct Database {
    options: PostgresOptions,
    /// How `postgres migrate` names it.
    flags: String,
    schema: String,
    /// The connection, as people may see it.
    shown: String,
}

impl Database {
    /// The database that the arguments name, else the file, else the environment. `--store` means files.
    pub(super) fn of_serve(
        given: &ServeArguments,
        turn: &TurnArguments,
        environment: &Environment,
    ) -> Option<Database> {
        if given.nodes.postgres.is_none() && given.turn.store.store.is_some() {
            return None;
        }
        let mut database = Database::named(&given.nodes, turn.postgres.as_deref(), environment)?;
        let node =
            given.node.clone().unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
        database.options = database.options.node(node);
        // A folder that is not absolute is another one after each change of folder.
        if let Some(data) = environment.data().filter(|data| data.is_absolute()) {
            database.options = database.options.output_copies(data.join("tamtam-outputs"));
        }
        Some(database)
    }

    fn named(given: &PostgresArguments, of_file: Option<&str>, environment: &Environment) -> Option<Database> {
        let connection = given.postgres.as_deref().or(of_file).or_else(|| environment.get(POSTGRES))?;
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let mut flags = given
            .postgres
            .as_deref()
            .map(|url| format!(" --postgres {}", quoted(&network::database_shown(url))))
            .unwrap_or_default();
        let mut options = PostgresOptions::new(connection);
        if let Some(schema) = &given.schema {
            flags += &format!(" --schema {schema}");
            options = options.schema(schema);
        }
        if let Some(password) = environment.get(PASSWORD) {
            options = options.password(password);
        }
        let schema = options.schema.clone();
        Some(Database { options, flags, schema, shown: network::database_shown(connection) })
    }

    /// Opens it.
    pub(super) async fn open(self) -> Result<Postgres, Failure> {
        let options = self.options.clone();
        let opened = blocking(move || {
            if let Some(above) = options.output_copies.as_ref().and_then(|copies| copies.parent()) {
                // What fails here is told by the first output that cannot be kept.
                let _ = std::fs::create_dir_all(above);
            }
            Postgres::open(&options)
        });
        opened.await?.map_err(|error| self.refused(&error))
    }

    /// What `doctor` says of it, and whether a server could use it.
    fn told(&self, state: &DatabaseState) -> (bool, String) {
        let wrong = match &state.tables {
            Err(error) => Some(self.refused(error).message),
            Ok(_) if state.is_read_only => {
                Some("it only reads: name all servers, with target_session_attrs=read-write".to_owned())
            }
            Ok(missing) if !missing.is_empty() => Some(format!(
                "the role may not do all that `tamtam serve` needs: as the owner of the schema, grant it {}",
                missing.join("; ")
            )),
            Ok(_) => None,
        };
        let encrypted =
            state.encryption.as_ref().map_or("not encrypted".to_owned(), |version| format!("encrypted ({version})"));
        let about = format!("{}: PostgreSQL {}, {encrypted}", self.shown, state.server);
        match wrong {
            None => (true, format!("{about}, schema {} is up to date", self.schema)),
            Some(wrong) => (false, format!("no: {about}: {wrong}")),
        }
    }

    fn refused(&self, error: &PostgresError) -> Failure {
        match error {
            PostgresError::Options { .. } => Failure::usage(error.to_string()),
            PostgresError::NotMigrated { schema, found, known } => Failure::usage(format!(
                "schema {schema} is of version {found}, this tamtam needs {known}: run `tamtam postgres migrate{}` as its owner",
                self.flags
            )),
            _ => Failure::failed(error.to_string()),
        }
    }
}

/// Joins the other nodes. Sessions are taken up to the number that stays awake.
pub(super) fn join(postgres: &Postgres, runtime: &Runtime) -> Arc<Cluster> {
    Arc::new(Cluster::join(postgres, runtime, Passivation::default().awake_max))
}

/// What `doctor` says of the database of `serve`, and whether a server could use it; `None` where none is named.
pub(super) async fn examined(of_file: Option<&str>, environment: &Environment) -> Option<(bool, String)> {
    let database = Database::named(&PostgresArguments::default(), of_file, environment)?;
    let options = database.options.clone();
    let examined = match blocking(move || examine(&options, EXAMINE_LIMIT)).await {
        Ok(Ok(state)) => return Some(database.told(&state)),
        Ok(Err(error)) => database.refused(&error),
        Err(failure) => failure,
    };
    Some((false, format!("no: {}: {}", database.shown, examined.message)))
}

/// Carries out `postgres migrate`.
pub(super) async fn migrate(given: &MigrateArguments, environment: &Environment) -> Result<Exit, Failure> {
    let file = Config::of_user(environment, given.config.as_deref())?;
    let database = Database::named(&given.nodes, file.postgres.as_deref(), environment).ok_or_else(|| {
        Failure::usage(format!(
            "no database is named: give --postgres URL, or set {POSTGRES} or `postgres` in your configuration"
        ))
    })?;
    let options = database.options.clone();
    let found =
        blocking(move || tamtam_postgres::migrate(&options)).await?.map_err(|error| database.refused(&error))?;
    let schema = &database.schema;
    print(&match found {
        0 => format!("schema {schema}: the tables are made\n"),
        found => format!("schema {schema}: the tables were of version {found}, and are up to date\n"),
    })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| failed_to_start(&std::io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The strongest names it; the command for the tables names it again, without its password.
    #[test]
    fn the_database_is_that_of_the_argument_else_of_the_file_else_of_the_variable() {
        let environment = Environment::of(&[(POSTGRES, "host=c user=u"), (PASSWORD, "hunter2")]);
        let given = |postgres: Option<&str>| PostgresArguments {
            postgres: postgres.map(str::to_owned),
            schema: Some("t".to_owned()),
        };
        let named = |url: Option<&str>, file| Database::named(&given(url), file, &environment).unwrap();
        let error = PostgresError::NotMigrated { schema: "t".to_owned(), found: 3, known: 4 };
        let by_flag = named(Some("postgresql://u:hunter2@a/d"), Some("host=b user=u")).refused(&error);
        assert_eq!(by_flag.exit, Exit::Usage);
        assert!(
            by_flag
                .message
                .ends_with("run `tamtam postgres migrate --postgres 'postgresql://u@a/d' --schema t` as its owner"),
            "{by_flag:?}"
        );
        assert_eq!(named(None, Some("host=b user=u")).options.schema, "t");
        assert!(Database::named(&given(None), None, &Environment::default()).is_none());
        let debug = format!("{:?}", named(None, None).options);
        assert!(!debug.contains("hunter2"), "{debug}");
    }
}
