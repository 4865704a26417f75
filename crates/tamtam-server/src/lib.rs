//! Reach a running [Tamtam](tamtam) runtime over HTTP.
//!
//! A host mounts a router in three lines; the program serves the same one:
//!
//! ```
//! use std::sync::Arc;
//! use tamtam::{Runtime, model::Scripted};
//! use tamtam_server::{Server, ServerOptions};
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! # let folder = tempfile::tempdir()?;
//! let runtime = Runtime::builder().store(folder.path()).model(Arc::new(Scripted::new([]))).start().await?;
//! let server = Server::new(runtime.clone()).with(ServerOptions::new(folder.path()));
//! let app: axum::Router = axum::Router::new().nest("/agents", server.router());
//! # drop(app);
//! runtime.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! Everything goes through the public API of `tamtam`; a route does what the method of the same name does. The files, in the order in
//! which a request meets them: `serve` (connections and their limits), `guard` (host, origin, token, scope), `app` (what routes share,
//! and how they name what they need), `routes` (the table, of which
//! `openapi` makes the document by what `describe` reads from the handlers), then the routes: `sessions`, `messages`, `levers`, `asks`, `tasks`, `events` (with `rows`), `operator` (with
//! `tree`), `nodes`, `whole`, `page`. `wire` reads JSON, `answer` and `problem` answer.
//!
//! A change must keep this: a request sees only what its [`Scope`] has, on every route; every body, stream and wait has a bound; and a
//! stopped server ends its streams with a word about when to come back.

mod answer;
mod app;
mod asks;
mod describe;
mod events;
mod guard;
mod levers;
mod messages;
mod nodes;
mod openapi;
mod operator;
mod options;
mod page;
mod problem;
mod routes;
mod rows;
mod serve;
mod sessions;
mod tasks;
mod tree;
mod whole;
mod wire;

use std::sync::Arc;

use axum::{Router, middleware};
use tamtam::Runtime;

pub use nodes::{MessageStage, Nodes};
pub use openapi::openapi;
pub use options::{Denied, NewSession, RequestInfo, Scope, ServerOptions};
pub use problem::Problem;
pub use serve::{Bound, ServeError, serve, serve_beside};
pub use wire::{NewBudget, NewDelivery, NewLimits, NewMessage, NewParams};

use app::App;

/// A server over one runtime. Cheap to clone: all clones are one server.
#[derive(Clone)]
pub struct Server {
    app: App,
    /// The host's own.
    routes: Router,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("options", &self.app.options).finish_non_exhaustive()
    }
}

impl Server {
    /// A server with the default options: it makes no sessions, and shows those that there are.
    #[must_use]
    pub fn new(runtime: Runtime) -> Server {
        Server { app: App::new(runtime, ServerOptions::default(), None), routes: Router::new() }
    }

    /// The same server with these options.
    #[must_use]
    pub fn with(self, options: ServerOptions) -> Server {
        Server { app: App::new(self.app.runtime.clone(), options, self.app.nodes.clone()), ..self }
    }

    /// The same server as one of several over the same tapes: it takes messages and aborts for sessions that another node has, and
    /// shows all nodes at `GET /v1/cluster`. Keep the nodes; this server only asks them.
    #[must_use]
    pub fn nodes(self, nodes: Arc<dyn Nodes>) -> Server {
        let (runtime, options) = (self.app.runtime.clone(), self.app.options.clone());
        Server { app: App::new(runtime, options, Some(nodes)), ..self }
    }

    /// The same server with further routes of the host's. They stand behind the same checks of host, origin and token as the server's
    /// own, and find what the request may see as an extension:
    ///
    /// ```
    /// use axum::{Extension, Json, Router, routing::get};
    /// use tamtam::{Runtime, runtime::LabelledBill};
    /// use tamtam_server::{Denied, Problem, Scope, Server};
    ///
    /// fn with_bill(server: Server, runtime: Runtime) -> Server {
    ///     let bill = async move |Extension(scope): Extension<Scope>| -> Result<Json<LabelledBill>, Problem> {
    ///         let Scope::Labels(labels) = scope else { return Err(Denied::Forbidden("name a tenant".into()).into()) };
    ///         Ok(Json(runtime.labelled(labels)?.bill().await?))
    ///     };
    ///     server.routes(Router::new().route("/bill", get(bill)))
    /// }
    /// ```
    ///
    /// # Panics
    /// [`Server::router`] panics if a route has a path of the server's own.
    #[must_use]
    pub fn routes(self, routes: Router) -> Server {
        Server { routes: self.routes.merge(routes), ..self }
    }

    /// Ends all event streams of this server with the event `draining`, and `/readyz` says so. For a host that serves the router by
    /// itself and is about to stop: a server that waits for its connections would wait for the streams.
    pub fn end_streams(&self) {
        self.app.draining.send_replace(true);
    }

    /// The router, to be served or nested. It checks hosts, origins and tokens by itself.
    pub fn router(&self) -> Router {
        let app = self.app.clone();
        routes::router()
            .with_state(app.clone())
            .merge(self.routes.clone())
            .fallback(async || problem::Problem::not_found("there is nothing at this path"))
            .method_not_allowed_fallback(async || problem::Problem::method_not_allowed())
            .layer(middleware::from_fn_with_state(app, guard::guard))
    }
}
