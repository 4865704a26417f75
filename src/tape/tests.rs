//! The tape as its users see it. Real files in a folder of the test's own.
#![allow(clippy::unwrap_used, clippy::panic)]

mod anchors;
mod claims;
mod crash;
mod engines;
mod faults;
mod files;
mod forks;
mod opening;
mod power;
mod power_restarts;
mod removals;
mod rescue;
mod stalls;
pub(crate) mod support;
mod sweeps;
