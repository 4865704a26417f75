//! [`Tapes`]: where `serve` keeps its sessions. In a folder, this process has all of them; in PostgreSQL, it is one node of several.

use std::path::PathBuf;
#[cfg(feature = "postgres")]
use std::sync::Arc;

use tamtam::{Runtime, runtime::Builder};
#[cfg(feature = "postgres")]
use tamtam_postgres::{Cluster, Postgres};
use tamtam_server::Server;

#[cfg(feature = "postgres")]
use super::super::postgres::{self, Database};
use super::super::{
    arguments::{TurnArguments, remote::ServeArguments},
    config,
    environment::Environment,
    failure::Failure,
};

pub(super) enum Tapes {
    /// A folder.
    Files(PathBuf),
    /// A database that other nodes have too.
    #[cfg(feature = "postgres")]
    Shared(Postgres),
}

impl Tapes {
    /// Those of `serve`. `turn` has what its arguments and the files say.
    pub(super) async fn of(
        given: &ServeArguments,
        turn: &TurnArguments,
        environment: &Environment,
    ) -> Result<Tapes, Failure> {
        #[cfg(feature = "postgres")]
        if let Some(database) = Database::of_serve(given, turn, environment) {
            return database.open().await.map(Tapes::Shared);
        }
        #[cfg(feature = "postgres")]
        if given.nodes.schema.is_some() || given.node.is_some() {
            // It would be a service of its own beside the others.
            return Err(Failure::usage(
                "--schema and --node are for sessions in PostgreSQL, and no database is named: give --postgres URL, or leave them out",
            ));
        }
        #[cfg(not(feature = "postgres"))]
        if turn.postgres.is_some() && given.turn.store.store.is_none() {
            return Err(Failure::usage(
                "this tamtam was built without PostgreSQL: take `postgres` out of your configuration",
            ));
        }
        config::store(environment, &given.turn).map(Tapes::Files)
    }

    /// The builder over them. Where there are other nodes, an open turn that nobody has is taken up as one of theirs, within the bound.
    pub(super) fn under(&self, host: Builder) -> Builder {
        match self {
            Tapes::Files(folder) => host.store(folder),
            #[cfg(feature = "postgres")]
            Tapes::Shared(postgres) => host.tapes(Arc::new(postgres.clone())).without_auto_resume(),
        }
    }

    /// Joins the others, if there may be any.
    #[cfg_attr(not(feature = "postgres"), allow(unused_variables, reason = "a folder has no other nodes"))]
    pub(super) fn join(&self, runtime: &Runtime) -> Others {
        match self {
            Tapes::Files(_) => Others::default(),
            #[cfg(feature = "postgres")]
            Tapes::Shared(postgres) => Others { cluster: Some(postgres::join(postgres, runtime)) },
        }
    }
}

/// The other nodes over the same tapes.
#[derive(Default)]
pub(super) struct Others {
    #[cfg(feature = "postgres")]
    cluster: Option<Arc<Cluster>>,
}

impl Others {
    /// The server, as one of them.
    pub(super) fn with(&self, server: Server) -> Server {
        #[cfg(feature = "postgres")]
        if let Some(cluster) = &self.cluster {
            return server.nodes(Arc::<Cluster>::clone(cluster));
        }
        server
    }

    /// Says that this node is gone in order. The runtime is shut down before.
    pub(super) async fn leave(&self) {
        #[cfg(feature = "postgres")]
        if let Some(cluster) = &self.cluster {
            cluster.leave().await;
        }
    }
}
