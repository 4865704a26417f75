//! Tapes of a [Tamtam](tamtam) runtime in PostgreSQL: several processes share them, and each session has one writer.
//!
//! | value | what it is for |
//! |---|---|
//! | [`Postgres`] | the engine: give it to [`Builder::tapes`](tamtam::runtime::Builder::tapes) |
//! | [`PostgresOptions`] | where the database is, and how long a session stays with a node that is gone |
//! | [`Cluster`] | any node takes messages for any session, and the one that has it works on them |
//! | [`MessageProgress`] | how far such a message came |
//! | [`ClusterTree`] | all nodes with their sessions, and what waits for one |
//! | [`migrate`] | makes the tables, or brings them up to date |
//! | feature `server` | [`Cluster`] as the nodes of a server over HTTP (`tamtam_server::Server::nodes`) |
//! | [`PostgresError`] | why the database did not do what was asked of it |
//!
//! The lines of a tape are rows, the same bytes with the same checksums as in files. `keeper.rs` is the connection that writes, and
//! the place of every promise about ownership and lost answers; `store.rs` has the rest of the engine. Decision 0054 says why. A
//! change must keep: every write of a tape carries the epoch of its claim in the same statement; rows of entries are never updated;
//! no clock but the server's decides.

mod address;
mod batch;
mod claim;
mod cluster;
mod error;
mod health;
mod heartbeat;
mod keeper;
mod node;
mod options;
mod outputs;
mod pool;
mod read;
mod schema;
#[cfg(feature = "server")]
mod served;
mod share;
mod statements;
mod store;
mod summary;
mod tape;
mod thread;
mod tls;
mod tree;
mod whole;
mod words;

pub use cluster::{Cluster, MessageProgress};
pub use error::PostgresError;
pub use health::{DatabaseState, examine};
pub use options::PostgresOptions;
pub use schema::migrate;
pub use store::Postgres;
pub use tree::{ClusterNode, ClusterSession, ClusterSessions, ClusterTree};
