//! The figure of shell judgement in `docs/PERFORMANCE.md`: reading and judging a command of 1 KiB.
//!
//! `cargo bench --features cli --bench shell` prints one line.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{hint::black_box, time::Instant};

use tamtam::{
    permission::{Action, Globs, Profile, decide, seen_from, with_parts},
    tool::Access,
};

/// Runs of the measurement; the quickest counts, because other work disturbs and never helps.
const RUNS: usize = 200;

/// A command of about 1 KiB, of the kind that a model writes.
fn command() -> String {
    let part = "grep -rn \"fn main\" --include='*.rs' . | head -n 20 > /dev/null; if [ -f Cargo.toml ]; then cat Cargo.toml; fi\n";
    part.repeat(1_024_usize.div_ceil(part.len()))
}

fn main() {
    let (command, rules, globs) = (command(), Profile::Readonly.ruleset(), Globs::default());
    let quickest = (0..RUNS).map(|_| {
        let start = Instant::now();
        let parts = with_parts(vec![Access::new("bash", black_box(&command))]);
        let parts = seen_from("/work", &[], parts);
        let verdict = decide(&[&rules], &parts, &globs);
        assert_eq!(verdict.judgement.action, Action::Allow, "{}", verdict.why(&parts));
        start.elapsed()
    });
    println!("shell command of {} bytes, read and judged: {:.1?}", command.len(), quickest.min().unwrap());
}
