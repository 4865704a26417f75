//! The simulator: random schedules of messages, reports, failures, waits and crashes, against the core alone.
//!
//! A schedule is made from a seed, so any of them can be played again:
//!
//! ```text
//! TAMTAM_SIM_SCHEDULES=20000 cargo test --lib sim::        more schedules (2,000 by default)
//! TAMTAM_SIM_FROM=500000     cargo test --lib sim::        other seeds: 500000 and up (1 and up by default)
//! TAMTAM_SIM_SEED=4711       cargo test --lib sim:: -- --nocapture    one schedule, told step by step
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `rng.rs` | chance, from a seed |
//! | `world.rs` | a session with its tape, its workers and its host |
//! | `shell.rs` | the shell, driven by the real mailbox: what it does next, and what it begins |
//! | `disk.rs` | a disk that is slow, refuses or hangs, and the deaths of the actor and of the process |
//! | `takeover.rs` | a second node takes the session over, and the owner of before does not know yet |
//! | `tasks.rs` | child sessions, which live on through a crash of their parent |
//! | `back.rs` | going back to any point, from any other |
//! | `merge.rs` | what a fork said is merged, also from an older state, and twice |
//! | `forks.rs` | a fork at the end of any append goes on as a session of its own, and is merged |
//! | `budgets.rs` | limits, grants and what providers and children keep to; nothing goes beyond what was held back |
//! | `counts.rs` | what happened in a schedule, to see that they are not tame |
//! | `chance.rs` | what happens next in a schedule |
//! | `host.rs` | who sends, and what was promised to them |
//! | `again.rs` | the tape of a schedule, replayed from its entries alone |
//! | `forged.rs` | tapes that no session wrote: whatever stands on them, nothing panics or goes round for ever |
//! | `checks.rs` | what must hold after each signal, at each request, and on the whole tape |

pub(crate) mod again;
mod back;
mod budgets;
mod chance;
pub(crate) mod checks;
mod counts;
mod disk;
mod forged;
mod forks;
mod host;
mod inside;
mod merge;
#[path = "../../../tests/it/support/rng.rs"]
pub(crate) mod rng;
mod shell;
mod takeover;
pub(crate) mod tasks;
mod world;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use counts::Counts;
use world::World;

/// Why a schedule broke a promise.
type Broken = String;

/// Where a promise does not hold, the schedule ends with the reason.
macro_rules! hold {
    ($holds:expr, $($why:tt)*) => {
        if !$holds {
            return Err(format!($($why)*));
        }
    };
}
use hold;

/// The longest schedule, in happenings before the calm.
const HAPPENINGS_MAX: u32 = 60;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("the setting is a number"))
}

/// Plays one schedule; a panic in the core is a broken promise too.
fn play(seed: u64, happenings: u32, told: bool) -> Result<Counts, (Broken, Vec<String>)> {
    let mut world = World::new(seed, told);
    let played = catch_unwind(AssertUnwindSafe(|| world.play(happenings)));
    match played {
        Ok(Ok(())) => Ok(world.counts),
        Ok(Err(broken)) => Err((broken, world.told)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err((format!("a panic: {}", text.unwrap_or_default()), world.told))
        }
    }
}

/// The same seed makes the same beginning whatever its length, so the shortest one that fails is found by trying.
fn shortest(seed: u64) -> (u32, Broken, Vec<String>) {
    for happenings in 0..=HAPPENINGS_MAX {
        if let Err((broken, told)) = play(seed, happenings, true) {
            return (happenings, broken, told);
        }
    }
    panic!("seed {seed} failed, and does not fail when it is played again: the core is not deterministic");
}

fn report(seed: u64) -> ! {
    let (happenings, broken, told) = shortest(seed);
    let told = told.join("\n");
    panic!(
        "{told}\n\nseed {seed} breaks a promise after {happenings} happenings: {broken}\n\
         play it again: TAMTAM_SIM_SEED={seed} cargo test --lib sim:: -- --nocapture"
    );
}

/// Promises 1, 2, 4 and 5, and the table of `design.md` §5, under whatever happens; A02, A04, A05, A06.
#[test]
fn no_schedule_breaks_a_promise() {
    if let Some(seed) = setting("TAMTAM_SIM_SEED") {
        match play(seed, HAPPENINGS_MAX, true) {
            Ok(counts) => println!("seed {seed} holds: {counts:?}"),
            Err(_) => report(seed),
        }
        return;
    }
    let from = setting("TAMTAM_SIM_FROM").unwrap_or(1);
    let schedules = setting("TAMTAM_SIM_SCHEDULES").unwrap_or(2_000);
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let failed = AtomicU64::new(u64::MAX);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let counts = std::thread::scope(|scope| {
        let work = || {
            let mut counts = Counts::default();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= schedules || failed.load(Ordering::Relaxed) != u64::MAX {
                    return counts;
                }
                match play(from + n, HAPPENINGS_MAX, false) {
                    Ok(more) => counts += more,
                    Err(_) => {
                        failed.fetch_min(from + n, Ordering::Relaxed);
                    }
                }
            }
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).fold(Counts::default(), |mut sum, counts| {
            sum += counts;
            sum
        })
    });
    let failed = failed.into_inner();
    if failed != u64::MAX {
        report(failed);
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = schedules as f64 * 60.0 / seconds;
    println!("seeds {from} to {}: {counts:?}", from + schedules - 1);
    println!("{schedules} schedules in {seconds:.1} s on {threads} threads: {rate:.0} a minute");
    assert!(counts.is_varied(), "the schedules are too tame to mean anything: {counts:?}");
}
