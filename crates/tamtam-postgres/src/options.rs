//! [`PostgresOptions`]: where the database is, and how long a session stays with a node that is gone.

use std::{fmt, path::PathBuf, time::Duration};

use crate::{PostgresError, address::Address};

/// Where the database is, and how a [`Postgres`](crate::Postgres) uses it.
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// The schema of the tables: lower-case letters, digits and `_`, at most 63. `tamtam` by default.
    pub schema: String,
    /// How people recognize this node in "in use by". The default is `tamtam`; a host name is a good one.
    pub node: String,
    /// How long the sessions of a node that no longer answers stay its own, by the server's clock. 2 s by default; 200 ms to 1 h.
    pub lease: Duration,
    /// How often a node that joined a [`Cluster`](crate::Cluster) looks for work that nobody told it of: of a session whose node was
    /// killed, or where a notification was lost. 250 ms by default; 10 ms to 1 h.
    pub look: Duration,
    /// How many nodes in a row may die while they have a session, without an entry on its tape, before it is parked. 5 by default, at
    /// least 1.
    pub deaths_max: u32,
    /// The most connections for reading, opening and listing, beside the one that writes, and one for each import while it runs. 4 by
    /// default, at least 1.
    pub connections: usize,
    /// The folder of this node for copies of large outputs while calls write and read them; the outputs themselves are in the
    /// database, and every node that has a folder reads them. `None` by default: the cut-off part of a large output is lost.
    pub output_copies: Option<PathBuf>,
    connection: String,
    password: Option<String>,
}

impl PostgresOptions {
    /// The database at a connection string: a `postgresql://` URL, or keys and values such as `host=db user=tamtam dbname=tamtam`.
    ///
    /// It must name the user, as nothing is read from the environment. Several hosts with `target_session_attrs=read-write` find the
    /// primary after a failover.
    ///
    /// `sslmode` and `sslrootcert` are those of libpq, in either form:
    ///
    /// | `sslmode` | the connection over a network |
    /// |---|---|
    /// | `disable` | is not encrypted |
    /// | `prefer` (default) | is encrypted if the server says that it can. Whoever is on the way may say that it cannot |
    /// | `require` | is encrypted, to whoever answers: nobody listens, and somebody may stand in for the server |
    /// | `verify-ca` | is encrypted, and an authority of `sslrootcert` made the server's certificate |
    /// | `verify-full` | is encrypted, and the certificate is for the name in `host` too: for every network that is not yours |
    ///
    /// `sslrootcert` is a file of certificates in PEM, which is read when the options are used. With `verify-full` it may be left out,
    /// or be `system`: then the authorities are those of the system. With `require` it means `verify-ca`. A certificate is for the names
    /// among its alternative names; its common name does not count. Where TLS was begun and failed, `prefer` is told, and does not go on
    /// without. Certificates of clients (`sslcert`) are not supported. With `channel_binding=require`, a server that knows the role by
    /// its password (SCRAM) proves with it that nobody stands between, under `require` too. Unix sockets are never encrypted.
    #[must_use]
    pub fn new(connection: impl Into<String>) -> PostgresOptions {
        PostgresOptions {
            schema: "tamtam".to_owned(),
            node: "tamtam".to_owned(),
            lease: Duration::from_secs(2),
            look: Duration::from_millis(250),
            deaths_max: 5,
            connections: 4,
            output_copies: None,
            connection: connection.into(),
            password: None,
        }
    }

    /// Sets the password of a connection string that has none, so that the string can stand where others read it.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> PostgresOptions {
        self.password = Some(password.into());
        self
    }

    /// Sets the [schema of the tables](#structfield.schema).
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> PostgresOptions {
        self.schema = schema.into();
        self
    }

    /// Sets the [name of this node](#structfield.node).
    #[must_use]
    pub fn node(mut self, node: impl Into<String>) -> PostgresOptions {
        self.node = node.into();
        self
    }

    /// Sets the [lease](#structfield.lease).
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> PostgresOptions {
        self.lease = lease;
        self
    }

    /// Sets [how often a node looks](#structfield.look).
    #[must_use]
    pub fn look(mut self, look: Duration) -> PostgresOptions {
        self.look = look;
        self
    }

    /// Limits [how many nodes may die of a session](#structfield.deaths_max).
    #[must_use]
    pub fn deaths_max(mut self, deaths_max: u32) -> PostgresOptions {
        self.deaths_max = deaths_max;
        self
    }

    /// Limits the [connections for reading](#structfield.connections).
    #[must_use]
    pub fn connections(mut self, connections: usize) -> PostgresOptions {
        self.connections = connections;
        self
    }

    /// Keeps large outputs in the database, with [copies of them in this folder](#structfield.output_copies) while a call uses them.
    /// The folder is made, with mode 0700; the one above it must be there. Nodes of one machine may share it. It needs room for
    /// the outputs that running calls write (64 MiB each at most, unless a host raised that) and for those that they name: a call
    /// that names the whole folder of its session copies all of it. What a killed node left there is removed
    /// by the next that uses outputs.
    #[must_use]
    pub fn output_copies(mut self, folder: impl Into<PathBuf>) -> PostgresOptions {
        self.output_copies = Some(folder.into());
        self
    }

    /// What the connections are made from; an error for options that cannot be used.
    pub(crate) fn address(&self) -> Result<Address, PostgresError> {
        let wrong = |what: String| Err(PostgresError::Options { what });
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts = self.schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        if !starts || self.schema.len() > 63 || !self.schema.chars().all(is_plain) {
            return wrong(format!("schema {:?}: take lower-case letters, digits and _, at most 63", self.schema));
        }
        if !(Duration::from_millis(200)..=Duration::from_secs(3600)).contains(&self.lease) {
            return wrong(format!("lease {:?}: take 200 ms to 1 h", self.lease));
        }
        if !(Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&self.look) {
            return wrong(format!("look {:?}: take 10 ms to 1 h", self.look));
        }
        if self.deaths_max == 0 {
            return wrong("deaths_max 0: take at least 1".to_owned());
        }
        if self.output_copies.as_ref().is_some_and(|folder| !folder.is_absolute()) {
            return wrong(format!("output_copies {:?}: take an absolute path", self.output_copies));
        }
        if self.connections == 0 {
            return wrong("connections 0: take at least 1".to_owned());
        }
        Address::read(&self.connection, |config| {
            if let (None, Some(password)) = (config.get_password(), &self.password) {
                config.password(password);
            }
            if config.get_connect_timeout().is_none() {
                config.connect_timeout(Duration::from_secs(5));
            }
            if config.get_application_name().is_none() {
                config.application_name(&self.node);
            }
        })
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the password, and without the connection string, which may have one.
        let PostgresOptions {
            schema,
            node,
            lease,
            look,
            deaths_max,
            connections,
            output_copies,
            connection: _,
            password: _,
        } = self;
        let mut all = f.debug_struct("PostgresOptions");
        all.field("schema", schema).field("node", node).field("lease", lease).field("look", look);
        all.field("deaths_max", deaths_max).field("connections", connections).field("output_copies", output_copies);
        all.finish_non_exhaustive()
    }
}
