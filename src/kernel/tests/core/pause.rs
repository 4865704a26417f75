//! Pause: nothing new starts, what runs runs on.

use tamtam::{
    kernel::{CallState, Disposition, Due, Steering},
    model::ErrorKind,
};

use super::play::Play;

/// A paused session takes messages and starts no turn.
#[test]
fn a_paused_session_takes_messages_and_starts_nothing() {
    let mut play = Play::new();
    play.pause();
    assert_eq!(play.send("go").disposition, Disposition::Queued { before: 0 });
    assert!(play.is_quiet() && play.state.is_idle());
    play.resume();
    assert_eq!(play.history(), ["user: go"]);
    assert_eq!(play.follows(), (vec![Due::Request(play.request())], vec![]));
}

/// What runs runs on; its answer starts no call, its result no request.
#[test]
fn a_pause_stops_nothing_and_starts_nothing() {
    let mut play = Play::new();
    play.send("go");
    play.pause();
    assert!(play.is_quiet());
    let calls = play.answer_calls(&["bash", "write"]);
    assert!(play.is_quiet());
    assert_eq!(play.call_state(calls[0]), Some(CallState::Pending));
    play.resume();
    assert_eq!(play.started(), [calls[0]]);
    play.pause();
    play.returned(calls[0], "ok");
    assert!(play.is_quiet());
    play.resume();
    assert_eq!(play.started(), [calls[1]]);
}

/// A wait that ends during a pause makes its request at the resumption's first tick.
#[test]
fn a_wait_does_not_end_while_paused() {
    let mut play = Play::new();
    play.send("go");
    play.failed(ErrorKind::Network);
    play.pause();
    assert_eq!(play.state.due(), None);
    play.later(60_000);
    play.steer("hurry", Steering::FinishBatch);
    assert!(play.is_quiet());
    play.resume();
    assert_eq!(play.started(), [play.request()]);
    assert_eq!(play.history(), ["user: go", "user: hurry"]);
}

/// An abort works while paused, and so does steering that stops what runs.
#[test]
fn stopping_works_while_paused() {
    let (mut play, calls) = Play::with_calls(&["bash", "write"]);
    play.pause();
    play.steer("no", Steering::AbortRunning);
    assert_eq!(play.stopped(), [calls[0]]);
    play.returned(calls[0], "down");
    assert!(play.started().is_empty());
    play.abort("enough");
    assert!(play.state.turn.is_none() && play.state.open.is_empty());
}

/// A pause outlives a crash.
#[test]
fn a_pause_is_on_the_tape() {
    let mut play = Play::new();
    play.pause();
    play.send("go");
    play.crash();
    assert!(play.state.paused && play.is_quiet());
}
