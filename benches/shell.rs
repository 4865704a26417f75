//! The figure of shell judgement in `docs/PERFORMANCE.md`: reading and judging a command of 1 KiB.
//!
//! `cargo bench --features cli --bench shell` prints it, and what a short command and a call without one pay.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

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

/// How long it takes to read a command and to judge it by the rules of a session.
fn quickest(access: &Access) -> Duration {
    let (rules, globs) = (Profile::Readonly.ruleset(), Globs::default());
    let times = (0..RUNS).map(|_| {
        let wanted = vec![black_box(access).clone()];
        let start = Instant::now();
        let parts = seen_from("/work", &[], with_parts(wanted));
        let verdict = decide(&[&rules], &parts, &globs);
        assert_eq!(verdict.judgement.action, Action::Allow, "{}", verdict.why(&parts));
        start.elapsed()
    });
    times.min().unwrap()
}

fn main() {
    let long = command();
    println!("shell command of {} bytes, read and judged: {:.1?}", long.len(), quickest(&Access::new("bash", &long)));
    println!("`ls -la src`, read and judged: {:.1?}", quickest(&Access::new("bash", "ls -la src")));
    println!("a call without a command, judged: {:.1?}", quickest(&Access::new("read", "src/lib.rs")));
}
