//! The scenarios of the specification, told by the people who use the runtime: hosts, operators, integrators.
//!
//! `cargo test --test bdd` runs them all; `-- --tags @BDD-AGENT-031` one of them. The last line is `N passed, N failed`; the
//! process ends with 1 if one failed, a feature could not be read, or nothing ran. `target/results/bdd.json` has each result.
//!
//! Every scenario has a runtime, a store, a workspace and a scripted model of its own; the rest is real. What a step asserts is
//! what can be seen from outside: requests as the model got them, files, events, the tape. Nothing sleeps.
//!
//! At the end of each scenario the tapes in its store are replayed: byte for byte as they are, and with another prompt, which
//! must be found at the first request. The line before the last says how many tapes that were; none is left out.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../tests/it/support/copied.rs"]
mod copied;
mod held;
mod hooks;
mod lab;
mod report;
mod steps;
mod tape;
#[allow(dead_code, reason = "the other suite lets folders replay by themselves")]
#[path = "../tests/it/support/taped.rs"]
mod taped;

use std::path::Path;

use cucumber::{World as _, event::ScenarioFinished};

use lab::Lab;
use report::Report;

/// Scenarios that run at the same time.
const SCENARIOS_AT_ONCE: usize = 4;

#[tokio::main]
async fn main() {
    // The program that the scenarios start is of the package that builds this one.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let report = Lab::cucumber()
        .with_writer(Report::default())
        .fail_on_skipped()
        .max_concurrent_scenarios(SCENARIOS_AT_ONCE)
        .after(|_, _, _, finished, lab| {
            let passed = matches!(finished, ScenarioFinished::StepPassed);
            Box::pin(async move {
                if let Some(lab) = lab {
                    lab.close(passed).await;
                }
            })
        })
        .run(root.join("bdd/features"))
        .await;
    let is_good = report.finish(&root.join("target/results/bdd.json"));
    std::process::exit(i32::from(!is_good));
}
