//! A child of a dynamic supervisor is started and stopped a million times, and memory is measured on the way.
//!
//! `cargo bench --bench cycles` runs a million; a number after `--` runs so many.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use tamtam::supervisor::{ChildSpec, Registry, Restart, Supervisor, SupervisorSpec};

#[path = "support/parts.rs"]
mod parts;

fn main() {
    let cycles = std::env::args().skip(1).find_map(|arg| arg.parse::<u64>().ok()).unwrap_or(1_000_000);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        let registry = Registry::new();
        let supervisor = Supervisor::start(SupervisorSpec::dynamic("cycles"), &registry).await.unwrap();
        let start = Instant::now();
        for cycle in 1..=cycles {
            // A new id each time: what is kept by id grows.
            let id = cycle.to_string();
            let child = ChildSpec::new(id.as_str(), |cx| async move {
                cx.stopping().await;
                Ok(())
            });
            supervisor.start_child(child.restart(Restart::Transient)).await.unwrap();
            supervisor.terminate_child(id.as_str()).await.unwrap();
            if cycle % (cycles / 10).max(1) == 0 {
                let (resident, took) = (parts::resident() / 1024, start.elapsed());
                println!(
                    "{cycle} cycles: {resident} KiB resident, {:.1} us a cycle",
                    took.as_secs_f64() * 1e6 / cycle as f64
                );
            }
        }
        // The last node goes a moment after its end is reported.
        while !registry.snapshot()[0].children.is_empty() {
            tokio::task::yield_now().await;
        }
        supervisor.shutdown().await;
    });
}
