//! The driver on tokio's paused clock: real actors, no sleeping. Names carry the row of OTP's or Elixir's own suite,
//! as listed for this crate (`otp_NN`).
#![allow(clippy::unwrap_used, clippy::panic)]

mod admin;
mod ends;
mod lab;
mod pitfalls;

use std::time::Duration;

use lab::*;

use super::*;

fn park_after(crashes: u32) -> SupervisorSpec {
    SupervisorSpec::dynamic("sessions")
        .on_exhausted(OnExhausted::Park)
        .intensity(Intensity::new(crashes, Duration::from_secs(60)))
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_child_that_crashes_is_restarted_and_its_sibling_is_not_touched() {
    let lab = Lab::start(park_after(2)).await;
    lab.add("a", Restart::Transient).await;
    lab.add("b", Restart::Transient).await;
    lab.crash("a").await;
    lab.until("a", 2).await;
    assert_eq!(lab.info("b").await.incarnation, 1);
    assert_eq!(lab.info("a").await.restarts, 1);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_crash_after_the_last_allowed_one_parks_that_child_and_no_other() {
    let lab = Lab::start(park_after(2)).await;
    lab.add("a", Restart::Transient).await;
    lab.add("b", Restart::Transient).await;
    for incarnation in 2..=3 {
        lab.crash("a").await;
        lab.until("a", incarnation).await;
    }
    lab.crash("a").await;
    lab.until_status("a", Status::Parked).await;
    assert_eq!(lab.info("b").await.status, Status::Running);
    assert_eq!(lab.sup.restart_child("a").await, Err(AdminError::Parked));
    assert_eq!(lab.sup.unpark("a").await, Ok(Done::Started));
    assert_eq!(lab.info("a").await.incarnation, 4);
    let crashes = lab.registry.crashes();
    assert_eq!(crashes.len(), 3);
    assert_eq!(crashes[2].decision, Decision::Park);
    assert_eq!(crashes[2].reason, ExitReason::Panic(PanicReport { text: "boom".into(), ..PanicReport::default() }));
    lab.end().await;
}
