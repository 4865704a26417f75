//! The server, over real connections on loopback, by clients that know nothing of it but HTTP.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, missing_docs)]

#[path = "server/lab.rs"]
mod lab;

#[path = "server/events.rs"]
mod events;
#[path = "server/guard.rs"]
mod guard;
#[path = "server/routes.rs"]
mod routes;
#[path = "server/sends.rs"]
mod sends;
#[path = "server/tenants.rs"]
mod tenants;
#[path = "server/tree.rs"]
mod tree;
