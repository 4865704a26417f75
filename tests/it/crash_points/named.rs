//! The story again, with a panic or a `kill -9` at each crash point that it passes: the first time, in the middle, and the last
//! time, in both durabilities.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use futures_util::StreamExt as _;
use tamtam::{Runtime, tape::Durability};

use super::{
    host::{play, runtime},
    judge::{entries, promises, told},
    picture::{Picture, picture},
    strike::{STRUCK, Strike, all_points},
    world::World,
};

use crate::support::taped;

const AT_ONCE: usize = 12;

/// The points that the story does not pass; who passes and strikes them instead.
const ELSEWHERE: [(&str, &str); 28] = [
    ("back.files", "branch/cut.rs"),
    ("merge.recorded", "branch/cut.rs"),
    ("restore.file", "branch/cut.rs"),
    ("index.committed", "tape.rs"),
    ("index.deleted", "tape.rs"),
    ("index.opened", "tape.rs"),
    ("index.pulled", "tape.rs"),
    ("index.session", "tape.rs"),
    ("session.late_report", "table.rs"),
    ("session.load", "table.rs"),
    ("session.loaded", "table.rs"),
    ("start.resume", "starts.rs"),
    ("start.resumed", "starts.rs"),
    ("tape.claim.replayed", "starts.rs"),
    ("tape.claim.stale", "starts.rs"),
    ("tape.commit.cut", "tape.rs"),
    ("tape.load.claimed", "starts.rs"),
    ("tape.delete.claimed", "branches.rs"),
    ("tape.delete.hidden", "branches.rs"),
    ("tape.delete.moved", "branches.rs"),
    ("tape.delete.unmarked", "branches.rs"),
    ("tape.fork.marked", "branches.rs"),
    ("tape.import.begun", "branches.rs"),
    ("tape.import.done", "branches.rs"),
    ("tape.import.written", "branches.rs"),
    ("tape.load.read", "starts.rs"),
    ("tape.open.dead_owner", "starts.rs"),
    ("worker.call_dropped", "table.rs"),
];

async fn start(builder: tamtam::runtime::Builder, durability: Durability, strike: &Strike) -> Result<Runtime, String> {
    let builder = builder.durability(durability).faults(strike.faults());
    // In a task of its own, as a host would that wants to live on.
    match tokio::spawn(builder.start()).await {
        Ok(Ok(runtime)) => Ok(runtime),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(panic.to_string()),
    }
}

/// How a story with a strike in it went.
pub(crate) struct Played {
    pub(crate) told: Vec<String>,
    pub(crate) wrong: Vec<String>,
    /// Why the host had to start another runtime.
    pub(crate) restarts: Vec<String>,
    pub(crate) strike: Strike,
}

/// Plays the story in a runtime that is struck; the host starts another one where that one does not go on.
pub(crate) async fn play_struck(durability: Durability, strike: Strike) -> Played {
    let folder = taped::folder();
    let runtime = |world: &World, store: &Path| runtime(world, store);
    go_on_struck(folder.path(), &World::default(), durability, strike, runtime).await
}

/// Plays on from what is in that folder.
pub(crate) async fn go_on_struck(
    folder: &Path,
    world: &World,
    durability: Durability,
    strike: Strike,
    builder: impl Fn(&World, &Path) -> tamtam::runtime::Builder,
) -> Played {
    let store = folder.join("store");
    let (mut restarts, mut wrong, mut told_at_the_end) = (Vec::new(), Vec::new(), Vec::new());
    while restarts.len() < 3 {
        let runtime = match start(builder(world, &store), durability, &strike).await {
            Ok(runtime) => runtime,
            Err(error) => {
                restarts.push(format!("it did not start: {error}"));
                continue;
            }
        };
        let played = play(&runtime, world, folder).await;
        let leftover = runtime.shutdown().await;
        if !leftover.is_empty() {
            wrong.push(format!("{leftover:?}"));
        }
        match played {
            Ok(state) => {
                drop(runtime);
                wrong.extend(promises(&state, world, &store));
                told_at_the_end = told(&state);
                break;
            }
            Err(error) => restarts.push(error),
        }
    }
    if told_at_the_end.is_empty() {
        wrong.push(format!("the story came to no end: {restarts:?}"));
    }
    Played { told: told_at_the_end, wrong, restarts, strike }
}

/// Results may differ for the one call that was struck.
pub(crate) fn differences(told: &[String], reference: &[String]) -> Vec<String> {
    let differ: Vec<_> = told.iter().zip(reference).filter(|(now, then)| now != then).collect();
    let documented = |now: &str| {
        now.starts_with("result ")
            && (now.contains("outcome is unknown") || now.contains(&format!("crashed: {STRUCK}")))
    };
    let fine = told.len() == reference.len() && differ.len() <= 1 && differ.iter().all(|(now, _)| documented(now));
    if fine {
        Vec::new()
    } else {
        vec![format!("{} of {} things, and they differ: {differ:#?}", told.len(), reference.len())]
    }
}

/// The passings that are struck: the first, the middle and the last of each point.
fn passings(passed: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut chosen = Vec::new();
    for (point, times) in passed {
        let mut nths = vec![1, times.div_ceil(2), *times];
        nths.dedup();
        chosen.extend(nths.into_iter().map(|nth| (point.clone(), nth)));
    }
    chosen
}

/// A list of all points: each one is passed by the story, or by a test that is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_crash_point_is_passed_by_some_test() {
    let mut passed = BTreeMap::new();
    for durability in [Durability::Process, Durability::Power] {
        let played = play_struck(durability, Strike::default()).await;
        assert_eq!((played.wrong, played.restarts), (vec![], vec![]));
        passed.extend(played.strike.passed());
    }
    let bare = |name: &String| name.split(' ').next().unwrap().to_owned();
    let mut passed: Vec<_> = passed.keys().map(bare).chain(ELSEWHERE.map(|(point, _)| point.to_owned())).collect();
    passed.sort();
    passed.dedup();
    let mut all = all_points();
    all.dedup();
    let missed: Vec<_> = all.iter().filter(|point| !passed.contains(point)).collect();
    assert!(missed.is_empty(), "no test passes {missed:?}");
    let gone: Vec<_> = passed.iter().filter(|point| !all.contains(point)).collect();
    assert!(gone.is_empty(), "the sources have no {gone:?}");
    assert!(all.len() > 45, "{all:?}");
}

async fn panics(durability: Durability) {
    let reference = play_struck(durability, Strike::default()).await;
    assert_eq!((&reference.wrong, &reference.restarts), (&vec![], &vec![]));
    let passings = passings(&reference.strike.passed());
    let told = &reference.told;
    let judged = passings.iter().map(|(point, nth)| async move {
        let strike = Strike::default();
        strike.panic_at(point, *nth);
        let played = play_struck(durability, strike).await;
        let mut wrong = played.wrong;
        wrong.extend(differences(&played.told, told));
        // The points of the start are those of the host's own call, and the root's end is the host's to see to. A supervisor that
        // crashes while the tree starts ends the start, and the host's call says so.
        let hosts = point.starts_with("start.") || point.starts_with("tape.open") || point.ends_with(" runtime");
        let starts = |why: &&String| point.starts_with("supervisor.") && why.starts_with("it did not start: ");
        if !hosts {
            let unfit = played.restarts.iter().filter(|why| !starts(why));
            wrong.extend(unfit.map(|why| format!("the host had to start anew: {why}")));
        }
        // The last passings may be missed: the order of what happens at the same time differs from run to run.
        let place = format!("{point}, passing {nth}");
        (played.strike.struck(), if wrong.is_empty() { None } else { Some([vec![place], wrong].concat()) })
    });
    let judged: Vec<_> = futures_util::stream::iter(judged).buffer_unordered(AT_ONCE).collect().await;
    let struck: usize = judged.iter().map(|(struck, _)| struck).sum();
    let wrong: Vec<_> = judged.into_iter().filter_map(|(_, wrong)| wrong).collect();
    assert!(wrong.is_empty(), "{} of {} went wrong: {wrong:#?}", wrong.len(), passings.len());
    // How many appends a story takes differs too: what waits behind one on a slow disk is one append.
    assert!(struck * 10 >= passings.len() * 8, "{struck} of {} passings were struck", passings.len());
}

/// A01, promises 1, 2 and 4, SUPV invariants 16 and 18: a panic at any crash point costs at most the call it was about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_at_any_crash_point_changes_at_most_the_call_it_struck() {
    panics(Durability::Process).await;
}

/// The same where every append waits for a sync.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_at_any_crash_point_changes_at_most_the_call_it_struck_with_power() {
    panics(Durability::Power).await;
}

async fn kills(durability: Durability) {
    let counted = play_struck(durability, Strike::default()).await;
    let passings = passings(&counted.strike.passed());
    let (world, strike) = (World::default(), Strike::default());
    let home = taped::folder();
    let store = home.path().join("store");
    let pictures: Arc<Mutex<Vec<Picture>>> = Arc::default();
    for (point, nth) in &passings {
        let (pictures, world, store, place) =
            (pictures.clone(), world.clone(), store.clone(), format!("{point}, passing {nth}"));
        strike.at(point, *nth, move || {
            let taken = picture(&place, &store, &world);
            pictures.lock().unwrap().push(taken);
        });
    }
    let runtime = start(super::host::runtime(&world, &store), durability, &strike).await.unwrap();
    let state = play(&runtime, &world, home.path()).await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
    drop(runtime);
    assert_eq!(promises(&state, &world, &store), Vec::<String>::new());
    let reference = told(&state);

    let taken = std::mem::take(&mut *pictures.lock().unwrap());
    let count = taken.len();
    // How many appends a story takes differs from run to run, as above.
    assert!(count * 10 >= passings.len() * 8, "{count} of {} passings were met", passings.len());
    let (workspace, reference) = (home.path(), &reference);
    let judged = taken.into_iter().map(|picture| async move {
        let Picture { place, folder, mut outside } = picture;
        let acked = std::mem::take(&mut outside.acked);
        let store = folder.path().join("store");
        let world = World::of(outside);
        let runtime = start(super::host::runtime(&world, &store), durability, &Strike::default()).await.unwrap();
        let played = play(&runtime, &world, workspace).await;
        let leftover = runtime.shutdown().await;
        drop(runtime);
        let mut wrong = match played {
            Ok(state) => [promises(&state, &world, &store), differences(&told(&state), reference)].concat(),
            Err(error) => vec![error],
        };
        // What had a receipt when it struck was on the tape already: nobody needs to send it again.
        let entries = entries(&store).unwrap_or_default();
        let died =
            entries.iter().find(|entry| entry.kind == "recovered").map_or(tamtam::Seq(u64::MAX), |entry| entry.seq);
        for id in acked {
            let before = |entry: &&tamtam::tape::TapeEntry| {
                entry.kind == "accepted" && entry.seq < died && entry.data.get().contains(&format!("\"{id}\""))
            };
            if !entries.iter().any(|entry| before(&entry)) {
                wrong.push(format!("{id} had a receipt and was lost"));
            }
        }
        if !leftover.is_empty() {
            wrong.push(format!("{leftover:?}"));
        }
        if wrong.is_empty() { None } else { Some([vec![place], wrong].concat()) }
    });
    let wrong: Vec<_> =
        futures_util::stream::iter(judged).buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
    assert!(wrong.is_empty(), "{} of {count} went wrong: {wrong:#?}", wrong.len());
}

/// Promises 1, 2, 4 and 5, X05: the store as a `kill -9` at any crash point leaves it is gone on with to the same end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_crash_point_comes_to_the_same_end() {
    kills(Durability::Process).await;
}

/// The same where every append waits for a sync, and the commit log is replayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_crash_point_comes_to_the_same_end_with_power() {
    kills(Durability::Power).await;
}
