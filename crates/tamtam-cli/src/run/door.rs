//! `--listen`: other programs follow, steer and operate a run, or what an editor runs, while it goes on, over the routes of
//! `docs/HTTP.md`.
//!
//! The door shows the run's own runtime and makes no session in it: the run ends with its prompt, and what others began would end
//! with it. A change must keep that the door is closed before the runtime is shut down.

use std::net::ToSocketAddrs as _;

use tamtam::Runtime;
use tamtam_server::{Bound, Denied, Server, ServerOptions};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{environment::Environment, failure::Failure, remote::Place, serve::TOKEN};

/// An open door.
pub(crate) struct Door {
    /// Where it is.
    pub(crate) at: String,
    close: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Door {
    /// Opens a door where one is asked for.
    pub(crate) async fn open(
        runtime: &Runtime,
        at: Option<&str>,
        environment: &Environment,
    ) -> Result<Option<Door>, Failure> {
        let Some(at) = at else { return Ok(None) };
        let none_new = "no other session is made here: `tamtam serve` makes them";
        let options = ServerOptions::default().new_session(move |_, _| Err(Denied::Forbidden(none_new.to_owned())));
        let options = environment.get(TOKEN).into_iter().fold(options, |options, token| options.token(token));
        let server = Server::new(runtime.clone()).with(options);
        let bound = match Place::parse(at)? {
            Place::Socket(path) => Bound::unix(environment.absolute(&path)).await,
            Place::Address(address) => {
                let found = address.to_socket_addrs().ok().and_then(|mut found| found.next());
                let unknown = || Failure::usage(format!("{address} is no address of this machine: name HOST:PORT"));
                Bound::tcp(found.ok_or_else(unknown)?, &server).await
            }
        };
        let bound = bound.map_err(|error| Failure::usage(error.to_string()))?;
        let at = bound.at().to_owned();
        let (close, closed) = oneshot::channel();
        let task = tokio::spawn(tamtam_server::serve_beside(server, bound, async { drop(closed.await) }));
        Ok(Some(Door { at, close, task }))
    }

    /// Ends what others follow.
    pub(crate) async fn close(self) {
        // Where nobody waits for it, the door has closed already.
        let _ = self.close.send(());
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the server beside the run ended badly");
        }
    }
}
