//! How costs grow: of a look-up with the entries of a tape, the children of a session and the sessions of a store; of a step with
//! rules, labels, listeners and hooks; of a call with the calls of its answer; of a lever with open tasks.
//!
//! `cargo bench --bench growth` grows to 100,000 entries, 1,000 children and 10,000 sessions; `-- --short` to 3,000, 100 and 300, for
//! the suite. A word picks the groups whose name contains it: entries, children, sessions, beside, calls, tasks. Judged are counts, which are the same on a busy machine: bytes and calls
//! of reading (from `/proc/self/io`), and allocations. The bench **fails** where a count at the largest size is more than the row's
//! bound times that of a smaller size. Times are printed, and judged by nobody.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/counted.rs"]
mod counted;
#[path = "support/grown.rs"]
mod grown;
#[path = "support/parts.rs"]
mod parts;
#[path = "support/stepped.rs"]
mod stepped;

fn main() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let failed = tokio.block_on(grown::run(&wanted));
    if failed > 0 {
        eprintln!("{failed} costs grow faster than their bound");
        std::process::exit(1);
    }
}
