//! Tapes in PostgreSQL, over a real server that the tests start.
//!
//! | file | contents |
//! |---|---|
//! | `server.rs` | the server |
//! | `engines.rs` | what every engine promises |
//! | `ownership.rs` | who has a session: leases, epochs, hand-overs |
//! | `processes.rs` | a node in a process of its own is killed, or stands still |
//! | `cluster.rs` | any node takes messages for any session |
//! | `example.rs` | `examples/cluster.rs`, played to its end; with the feature `server` |
//! | `served.rs` | nodes behind HTTP; with the feature `server` |
//! | `lost.rs` | a node learns that a session is another's: its work ends at once |
//! | `sessions.rs` | whole sessions, and one that goes from node to node |
//! | `lists.rs` | all sessions at once |
//! | `nodes.rs` | the tree of all nodes |
//! | `words.rs` | the index of words: what a search reads, and what a deletion leaves |
//! | `moved.rs` | sessions move between files and PostgreSQL, byte for byte |
//! | `halfway.rs` | an import that is under way, and everybody else |
//! | `tls.rs` | connections that are encrypted, and servers that are not what they should be |
//! | `outputs.rs` | large outputs of calls |
//! | `faults.rs` | the server is killed, connections are ended, a statement is not answered |
#![allow(clippy::unwrap_used, clippy::panic)]

mod cluster;
mod engines;
#[cfg(feature = "server")]
mod example;
mod faults;
mod halfway;
mod lists;
mod lost;
mod moved;
mod nodes;
mod outputs;
mod ownership;
mod processes;
#[cfg(feature = "server")]
mod served;
mod server;
mod sessions;
mod support;
mod tls;
mod words;
