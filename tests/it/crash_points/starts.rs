//! A crash in the start that follows a crash: the story is cut off in the middle of a call, and the start after it at each of
//! its crash points, by a panic and by a `kill -9`.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use tamtam::tape::Durability;

use super::{
    host::{play, resuming, runtime},
    judge::{promises, told},
    named::{differences, go_on_struck},
    picture::{Picture, copy, picture},
    strike::Strike,
    world::{Outside, World},
};

use crate::support::taped;

/// The points of a start with something to recover.
const STARTS: [&str; 13] = [
    "session.begun",
    "session.init",
    "session.recovered",
    "start.resume",
    "start.resumed",
    "start.store_opened",
    "start.tree_up",
    "supervisor.spawn runtime/sessions",
    "tape.claim.stale",
    "tape.load.claimed",
    "tape.load.read",
    "tape.open.dead_owner",
    "tape.open.folders",
];

/// After this one the tree is up and resumed; a start that panics there, or is dropped, leaves that tree running.
const OWN_PANIC: &str = "start.resumed";

/// The story as it is in the middle of a call, and as it ends.
async fn cut_off(durability: Durability) -> (Picture, Vec<String>) {
    let home = taped::folder();
    let store = home.path().join("store");
    let (world, strike) = (World::default(), Strike::default());
    let taken: Arc<Mutex<Option<Picture>>> = Arc::default();
    let (slot, outside, folder) = (taken.clone(), world.clone(), store.clone());
    // The three reads are the first calls; the fourth is the first that must not run twice.
    strike.at("session.call_started", 4, move || {
        *slot.lock().unwrap() = Some(picture("in the fourth call", &folder, &outside));
    });
    let builder = runtime(&world, &store).durability(durability).faults(strike.faults());
    let started = builder.start().await.unwrap();
    let state = play(&started, &world, home.path()).await.unwrap();
    assert!(started.shutdown().await.is_empty());
    assert_eq!(promises(&state, &world, &store), Vec::<String>::new());
    let picture = taken.lock().unwrap().take().unwrap();
    (picture, told(&state))
}

fn again(picture: &Picture) -> (taped::Folder, World) {
    let folder = taped::folder();
    copy(&picture.folder.path().join("store"), &folder.path().join("store"));
    let (ran, ran_as, failed) =
        (picture.outside.ran.clone(), picture.outside.ran_as.clone(), picture.outside.failed.clone());
    let requests = picture.outside.requests.clone();
    (folder, World::of(Outside { ran, ran_as, failed, requests, ..Outside::default() }))
}

/// What is wrong when the start after the cut is struck at that point.
async fn struck(cut_off: &Picture, reference: &[String], point: &str, durability: Durability) -> Vec<String> {
    let (panics, kills) = (Strike::default(), Strike::default());
    panics.panic_at(point, 1);
    let taken: Arc<Mutex<Option<Picture>>> = Arc::default();
    let (killed, killed_world) = again(cut_off);
    let (slot, outside, store) = (taken.clone(), killed_world.clone(), killed.path().join("store"));
    kills.at(point, 1, move || *slot.lock().unwrap() = Some(picture("a start", &store, &outside)));
    let mut wrong = Vec::new();
    let mut lives = vec![(kills, (killed, killed_world))];
    if point != OWN_PANIC {
        lives.push((panics, again(cut_off)));
    }
    for (strike, (folder, world)) in lives {
        let played = go_on_struck(folder.path(), &world, durability, strike, resuming).await;
        let missed = (played.strike.struck() == 0).then(|| "it was not struck".to_owned());
        let all: Vec<_> =
            [played.wrong, differences(&played.told, reference)].concat().into_iter().chain(missed).collect();
        if !all.is_empty() {
            wrong.push(format!("{point}: {all:#?} {:?}", played.restarts));
        }
    }
    let Some(killed) = taken.lock().unwrap().take() else { return wrong };
    let (folder, world) = again(&killed);
    let played = go_on_struck(folder.path(), &world, durability, Strike::default(), resuming).await;
    let all: Vec<_> = [played.wrong, differences(&played.told, reference), played.restarts].concat();
    if !all.is_empty() {
        wrong.push(format!("{point}, killed: {all:#?}"));
    }
    wrong
}

async fn starts(durability: Durability) {
    let (cut_off, reference) = cut_off(durability).await;
    let (cut_off, reference) = (&cut_off, &reference);
    let judged = STARTS.map(|point| struck(cut_off, reference, point, durability));
    let wrong: Vec<_> = futures_util::stream::iter(judged).buffer_unordered(STARTS.len()).concat().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// X02, X05, promises 1, 2, 4 and 5: a start that is cut off at any of its crash points is followed by one that goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_cut_off_anywhere_is_followed_by_one_that_goes_on() {
    starts(Durability::Process).await;
}

/// The same with a commit log to replay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_cut_off_anywhere_is_followed_by_one_that_goes_on_with_power() {
    starts(Durability::Power).await;
}
