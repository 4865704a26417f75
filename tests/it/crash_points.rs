//! Recovery, proved at each place where it can be needed: one long story (steering, asks, retries, a crash of a tool
//! and of the model's client, a queued message), cut off everywhere and continued.
//! | file | contents |
//! |---|---|
//! | `world.rs` | what is outside of the runtime and outlives it: the model's server, what calls did, what the host wants to say |
//! | `tools.rs`, `host.rs` | the tools of the story, and the host that plays it |
//! | `judge.rs` | whether it came to the same end and kept the promises |
//! | `boundaries.rs` | cut off after each entry, and inside each line |
//! | `strike.rs`, `picture.rs`, `named.rs` | a panic, and a `kill -9`, at each crash point by name (with the feature `fault-injection`) |
//! | `starts.rs` | the start after a crash, cut off itself |
//! | `branches.rs` | forks, deletions and imports, struck at each of their points |
//! | `table.rs`, `tape.rs` | the table of recovery, row by row; the tape and the index in mid-batch |

mod boundaries;
#[cfg(all(feature = "fault-injection", feature = "sqlite"))]
mod branches;
mod host;
mod judge;
#[cfg(feature = "fault-injection")]
mod named;
#[cfg(feature = "fault-injection")]
mod picture;
#[cfg(feature = "fault-injection")]
pub(crate) use picture::copy;
#[cfg(feature = "fault-injection")]
mod starts;
#[cfg(feature = "fault-injection")]
mod strike;
#[cfg(feature = "fault-injection")]
mod table;
#[cfg(all(feature = "fault-injection", feature = "sqlite"))]
mod tape;
mod tools;
mod world;
