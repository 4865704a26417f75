//! The driver on tokio's paused clock: real actors, no sleeping. The name of a test carries the row of OTP's or Elixir's own
//! suite that it shows (`otp_NN`), or the invariant (`invariant_NN`); `tests/it/otp.rs` checks that none is missing.
#![allow(clippy::unwrap_used, clippy::panic)]

mod administration;
mod answering;
mod inspect;
mod lab;
mod loops;
mod parking;
mod pitfalls;
mod restarts;
mod significant;
mod starts;
mod stops;
mod strategies;

use std::time::Duration;

use lab::*;

use super::*;

/// Like the supervisor of the sessions: a child that crashes once more than this in a minute is parked.
fn park_after(crashes: u32) -> SupervisorSpec {
    SupervisorSpec::dynamic("sessions")
        .on_exhausted(OnExhausted::Park)
        .intensity(Intensity::new(crashes, Duration::from_secs(60)))
}
