//! The server, over real connections on loopback, by clients that know nothing of it but HTTP.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, missing_docs)]

#[path = "server/client.rs"]
mod client;
#[path = "server/lab.rs"]
mod lab;
#[allow(dead_code, reason = "the tests of the library use more of it")]
#[path = "../../../tests/it/support/rng.rs"]
mod rng;
#[allow(dead_code, reason = "the tests of the library use more of it")]
#[path = "../../../tests/it/support/taped.rs"]
mod taped;

#[path = "server/crowd.rs"]
mod crowd;
#[path = "server/events.rs"]
mod events;
#[path = "server/guard.rs"]
mod guard;
#[path = "server/hostile.rs"]
mod hostile;
#[path = "server/routes.rs"]
mod routes;
#[path = "server/rows.rs"]
mod rows;
#[path = "server/scenarios.rs"]
mod scenarios;
#[path = "server/sends.rs"]
mod sends;
#[path = "server/service.rs"]
mod service;
#[path = "server/tenants.rs"]
mod tenants;
#[path = "server/tree.rs"]
mod tree;
