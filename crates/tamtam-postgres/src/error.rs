//! [`PostgresError`]: why PostgreSQL did not do what the store needs of it.
//!
//! Callers of a store get a [`TapeError`]; what no variant of that describes is a [`TapeError::Engine`] with one of these inside, or,
//! while the server is away, a [`TapeError::Unreachable`]. The one question that the store itself asks of an error is whether the
//! server may have done the work all the same ([`PostgresError::Unreachable`]): everything else is an answer, and nothing was
//! written.

use std::{error::Error as _, io, sync::Arc};

use tamtam::{Seq, SessionId, tape::TapeError};
use tokio_postgres::error::{DbError, SqlState};

use crate::tls::Refused;

/// Why PostgreSQL did not do what was asked of it.
///
/// In a [`TapeError`] it is found by `downcast_ref` in [`TapeError::Engine`] and [`TapeError::Unreachable`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The options cannot be used. Nothing was connected.
    #[error("cannot use these options: {what}")]
    Options {
        /// Which, and what to write instead.
        what: String,
    },
    /// No connection, or it broke. The store tries again by itself.
    #[error(
        "PostgreSQL cannot be reached: {message}; check that the server runs and takes connections at this address"
    )]
    Unreachable {
        /// What the connection said.
        message: String,
    },
    /// There is no connection that is encrypted as [`sslmode`](crate::PostgresOptions::new) asks. Nothing was sent.
    #[error("no encrypted connection to PostgreSQL: {message}")]
    Tls {
        /// What is wrong with the server's TLS or its certificate, and what to do.
        message: String,
    },
    /// The server answered with an error. Nothing was written.
    #[error("PostgreSQL refused to {op}: {message} (SQLSTATE {code}){}", next_step(code, message))]
    Refused {
        /// What was tried: a verb.
        op: &'static str,
        /// The five characters of its SQLSTATE.
        code: String,
        /// What the server said.
        message: String,
    },
    /// The database does not have what it had acknowledged: it was restored from a backup, or a replica took over that did not have
    /// the last commits. Nothing is written behind the gap.
    #[error(
        "the database went back behind entry {seq} of session {session}, which it had acknowledged: open the session again to go on \
         from what is there"
    )]
    WentBack {
        /// Which session.
        session: SessionId,
        /// The last entry that was acknowledged.
        seq: Seq,
    },
    /// So many messages of this session wait in the inbox that no more are taken. Nothing was accepted.
    #[error(
        "the inbox of session {session} is full: at most 1,024 messages and 16 MiB wait; look why no node takes them, or send again later"
    )]
    InboxFull {
        /// Which session.
        session: SessionId,
    },
    /// So many nodes in a row died while they had this session, without an entry on its tape, that it is kept stopped: it is parked,
    /// on all nodes, until somebody unparks it. A node that started while it was parked goes on refusing it until
    /// [`Operator::unpark`](tamtam::runtime::Operator::unpark) is pulled there, or the node starts again.
    #[error(
        "session {session} is parked: {deaths} nodes in a row died while they had it, and left no entry; look why (memory, a tool that \
         ends its process), then unpark it (Operator::unpark, on each node that started while it \
         was parked)"
    )]
    Deadly {
        /// Which session.
        session: SessionId,
        /// How many nodes.
        deaths: i32,
    },
    /// The tables of this schema are missing or of an earlier version.
    #[error(
        "schema {schema} is of version {found}, this library needs {known}: run tamtam_postgres::migrate as the owner of the schema"
    )]
    NotMigrated {
        /// Which schema.
        schema: String,
        /// Its version; 0 if it has no tables.
        found: i32,
        /// The version that is needed.
        known: i32,
    },
    /// The tables of this schema are of a later version. Nothing was changed.
    #[error("schema {schema} is of version {found}, this library knows up to {known}: update this host")]
    Newer {
        /// Which schema.
        schema: String,
        /// Its version.
        found: i32,
        /// The newest that is understood here.
        known: i32,
    },
}

/// What `tokio-postgres` says of a server that is to encrypt and does not.
const NO_TLS: &str = "server does not support TLS";
const NO_TLS_TEXT: &str =
    "the server does not encrypt; turn on ssl at the server, or take sslmode=disable on a network that is yours";

impl PostgresError {
    pub(crate) fn of(op: &'static str, error: &tokio_postgres::Error) -> PostgresError {
        if let Some(refusal) = error.as_db_error().filter(|refusal| !ends_connection(refusal.code())) {
            let (code, message) = (refusal.code().code().to_owned(), refusal.message().to_owned());
            return PostgresError::Refused { op, code, message };
        }
        let is_of_connection =
            |cause: &(dyn std::error::Error + 'static)| cause.is::<io::Error>() || cause.is::<DbError>();
        match error.source() {
            Some(cause) if cause.is::<Refused>() => PostgresError::Tls { message: cause.to_string() },
            Some(cause) if cause.to_string() == NO_TLS => PostgresError::Tls { message: NO_TLS_TEXT.to_owned() },
            // Such as a missing password, or a kind of authentication that is not known: nothing was sent.
            Some(cause) if !is_of_connection(cause) => {
                PostgresError::Refused { op, code: "none".to_owned(), message: text(error) }
            }
            _ => PostgresError::Unreachable { message: text(error) },
        }
    }

    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, PostgresError::Unreachable { .. })
    }

    /// Whether a lock was not to be had in time.
    pub(crate) fn is_locked_out(&self) -> bool {
        matches!(self, PostgresError::Refused { code, .. } if code == SqlState::LOCK_NOT_AVAILABLE.code())
    }

    /// Whether the same may succeed at once: the server resolved a conflict by refusing one side.
    pub(crate) fn is_conflict(&self) -> bool {
        let conflicts = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        matches!(self, PostgresError::Refused { code, .. } if conflicts.iter().any(|one| one.code() == code))
    }
}

impl From<PostgresError> for TapeError {
    fn from(error: PostgresError) -> TapeError {
        match &error {
            // The runtime asks whether there is no room, and then takes no new work.
            PostgresError::Refused { code, .. } if code == SqlState::DISK_FULL.code() => {
                let source = Arc::new(io::Error::new(io::ErrorKind::StorageFull, error));
                TapeError::Io { op: "write to", path: "PostgreSQL".into(), source }
            }
            PostgresError::Unreachable { .. } => TapeError::unreachable(error),
            _ => TapeError::engine(error),
        }
    }
}

/// Whether the server ends the connection with this error, or has none to give: then an error is no answer to the statement.
fn ends_connection(code: &SqlState) -> bool {
    let others = [SqlState::TOO_MANY_CONNECTIONS, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    code.code().starts_with("08") || code.code().starts_with("57P") || others.contains(code)
}

fn next_step(code: &str, message: &str) -> &'static str {
    match code {
        "28000" if ["no encryption", "SSL off"].iter().any(|end| message.ends_with(end)) => {
            ": the server may want an encrypted connection, see sslmode"
        }
        "25006" => ": this server only reads, connect to the primary (target_session_attrs=read-write)",
        "42501" => ": grant the role what tamtam_postgres::migrate lists",
        "55P03" => {
            ": something reads or changes a table for long, find it in pg_stat_activity; run it again when that has ended"
        }
        "57014" => ": the statement took longer than its limit, look for locks in pg_stat_activity",
        "28P01" => ": check user and password",
        "28000" => ": check user, password, pg_hba.conf and sslmode",
        "3D000" => ": create the database",
        _ => "",
    }
}

/// The error with its causes.
fn text(error: &tokio_postgres::Error) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
