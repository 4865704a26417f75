//! A failed request is made again: three times, after a wait that is seen, cut short, aborted (checklist K, C-19).

use std::time::Duration;

use tamtam::{
    kernel::{Open, Outcome, Steering},
    model::{ErrorKind, ModelError},
};

use super::play::Play;

fn wait_ms(play: &Play) -> Option<u64> {
    let mut waits = play.state.open.values().filter_map(|open| match open {
        Open::Wait(wait) => Some(wait.until.since(play.state.time).as_millis() as u64),
        _ => None,
    });
    waits.next()
}

/// D-05, C-19, K-03, K-09, BDD-AGENT-035: 1 s, 2 s, 4 s, then no wait but the error, which says how often it was tried.
#[test]
fn a_request_is_made_four_times_in_all() {
    let mut play = Play::new();
    play.send("go");
    let mut tickets = vec![play.request()];
    for wait in [1_000, 2_000, 4_000] {
        play.failed(ErrorKind::RateLimited);
        assert_eq!((wait_ms(&play), play.started()), (Some(wait), vec![]));
        assert_eq!(play.state.due(), Some(play.state.time.plus(Duration::from_millis(wait))));
        play.later(wait - 1);
        assert_eq!(play.started(), []);
        play.later(1);
        assert_eq!(play.started(), [play.request()]);
        tickets.push(play.request());
    }
    play.failed(ErrorKind::RateLimited);
    assert_eq!(play.outcome(), Some(Outcome::Failed { error: "it failed (gave up after 3 retries)".into() }));
    tickets.dedup();
    assert_eq!((tickets.len(), play.state.open.len()), (4, 0));
}

/// K-11: retries eat no step, so a limit of steps is a limit of answers.
#[test]
fn a_retry_eats_no_step() {
    let mut play = Play::with(|settings| settings.steps_max = Some(2));
    play.send("go");
    for _ in 0..3 {
        play.failed(ErrorKind::Server).later(10_000);
    }
    assert_eq!((play.state.turn.as_ref().unwrap().step, play.state.request().unwrap().1.last), (1, false));
    let calls = play.answer_calls(&["bash"]);
    play.returned(calls[0], "ok");
    assert!(play.state.request().unwrap().1.last);
}

/// Loop.md §3.1: an answer sets the count back.
#[test]
fn an_answer_sets_the_count_of_retries_back() {
    let mut play = Play::new();
    play.send("go");
    play.failed(ErrorKind::Network).later(10_000);
    play.failed(ErrorKind::Network).later(10_000);
    let calls = play.answer_calls(&["bash"]);
    play.returned(calls[0], "ok");
    play.failed(ErrorKind::Network);
    assert_eq!(wait_ms(&play), Some(1_000));
}

/// K-10, AB-07 (pi 1465): a retried turn is over only when its tools have run.
#[test]
fn a_retry_that_succeeds_goes_on_as_if_nothing_had_happened() {
    let mut play = Play::new();
    play.send("go");
    play.failed(ErrorKind::Timeout).later(10_000);
    let calls = play.answer_calls(&["read"]);
    assert!(play.outcome().is_none());
    play.returned(calls[0], "ok");
    play.answer_text("done");
    assert_eq!(play.history(), ["user: go", "model calls read", "c0 ok", "model: done"]);
}

/// K-07: what another try cannot help ends the turn at once.
#[test]
fn a_permanent_failure_ends_the_turn_at_once() {
    for kind in [ErrorKind::Auth, ErrorKind::NotFound, ErrorKind::InvalidRequest] {
        let mut play = Play::new();
        play.send("go");
        play.failed(kind);
        assert_eq!(play.outcome(), Some(Outcome::Failed { error: "it failed".into() }), "{kind:?}");
        assert!(play.state.open.is_empty());
    }
}

/// AUTH-006: where the host has another key, the request is made again at once, whatever the retries; once in a step, also over a
/// crash.
#[test]
fn a_request_whose_key_was_renewed_is_made_again_at_once_and_once() {
    let refused = || renewed(ErrorKind::Auth);
    let mut play = Play::with(|settings| settings.retries_max = 0);
    play.send("go");
    for step in 1..=2 {
        play.failed_with(refused());
        assert_eq!((wait_ms(&play), play.outcome()), (Some(0), None), "step {step}");
        play.later(0);
        let (_, again) = play.state.request().expect("it is made again");
        assert_eq!((again.attempt, play.state.turn.as_ref().map(|turn| turn.step)), (2, Some(step)));
        if step == 1 {
            let calls = play.answer_calls(&["bash"]);
            play.returned(calls[0], "ok");
        }
    }
    play.crash();
    play.failed_with(refused());
    assert_eq!(play.outcome(), Some(Outcome::Failed { error: "it has expired".into() }));
}

fn renewed(kind: ErrorKind) -> ModelError {
    ModelError { key_renewed: true, ..ModelError::new(kind, "it has expired") }
}

/// AUTH-006: the new key has all the retries, in the same step, also where a torn write has left the failure alone.
#[test]
fn a_new_key_has_all_the_retries_also_over_a_cut() {
    for cut in 1..=2 {
        let mut play = Play::with(|settings| settings.retries_max = 1);
        play.send("go");
        play.failed_with(renewed(ErrorKind::Auth));
        assert_eq!(play.entries.len(), 2, "the failure and the wait");
        play.crash_after(cut).later(0);
        let (_, again) = play.state.request().expect("it is made again");
        assert_eq!((again.attempt, play.state.turn.as_ref().map(|turn| turn.step)), (2, Some(1)), "after {cut}");
        play.failed(ErrorKind::Network);
        assert_eq!(wait_ms(&play), Some(1_000), "after {cut}");
        play.later(10_000);
        play.failed(ErrorKind::Network);
        assert!(matches!(play.outcome(), Some(Outcome::Failed { error }) if error.contains("gave up after 1 ")));
    }
}

/// AUTH-006: once in a step for each model, however the model came to the step.
#[test]
fn the_key_of_another_model_is_renewed_too() {
    let mut play = Play::new();
    play.send("go");
    play.failed_with(renewed(ErrorKind::Auth));
    play.configure(|settings| settings.model = "e/else".parse().unwrap()).later(0);
    assert_eq!(play.state.request().map(|(_, open)| open.model.to_string()), Some("e/else".to_owned()));
    play.failed_with(renewed(ErrorKind::Auth));
    assert_eq!((wait_ms(&play), play.outcome()), (Some(0), None));
    play.later(0);
    play.failed_with(renewed(ErrorKind::Auth));
    assert_eq!(play.outcome(), Some(Outcome::Failed { error: "it has expired".into() }));
}

/// What is no refusal of a key is retried as ever, whatever is said of keys.
#[test]
fn another_failure_renews_no_key() {
    let mut play = Play::with(|settings| settings.retries_max = 1);
    play.send("go");
    play.failed_with(renewed(ErrorKind::RateLimited).with_retry_after(Some(Duration::from_secs(9))));
    assert_eq!(wait_ms(&play), Some(9_000));
    play.later(9_000);
    play.failed_with(renewed(ErrorKind::RateLimited));
    assert!(matches!(play.outcome(), Some(Outcome::Failed { .. })));
}

/// A request that is cut off while the host is asked for another key was refused, and not read.
#[test]
fn a_refused_request_that_is_cut_off_costs_nothing() {
    for (kind, requests) in [(ErrorKind::Auth, 0), (ErrorKind::Network, 1)] {
        let mut play = Play::new();
        play.send("go");
        play.steer("no", Steering::AbortRunning);
        play.failed(kind);
        assert_eq!(play.state.spent.requests, requests, "{kind:?}");
        assert_eq!(play.history(), ["user: go", "user: no"], "{kind:?}");
    }
}

/// C-19: the server's wait is taken as it is, up to a minute; above, the turn fails and says why.
#[test]
fn a_servers_wait_is_honoured_up_to_a_minute() {
    let limited = |seconds| {
        let after = Some(Duration::from_secs(seconds));
        ModelError::new(ErrorKind::RateLimited, "slow down").with_retry_after(after)
    };
    let mut play = Play::new();
    play.send("go");
    play.failed_with(limited(60));
    assert_eq!(wait_ms(&play), Some(60_000));
    play.later(60_000);
    play.failed_with(limited(61));
    assert!(matches!(play.outcome(), Some(Outcome::Failed { error }) if error.contains("61 s")));
}

/// T-07: a wait cut short still counts as a try.
#[test]
fn a_wait_cut_short_still_counts() {
    let mut play = Play::with(|settings| settings.retries_max = 1);
    play.send("go");
    play.failed(ErrorKind::Network);
    play.steer("hurry", Steering::FinishBatch);
    play.failed(ErrorKind::Network);
    assert!(matches!(play.outcome(), Some(Outcome::Failed { .. })));
}

/// A host may want no retries at all.
#[test]
fn no_retries_means_none() {
    let mut play = Play::with(|settings| settings.retries_max = 0);
    play.send("go");
    play.failed(ErrorKind::Network);
    assert_eq!(play.outcome(), Some(Outcome::Failed { error: "it failed".into() }));
}

/// A tape that nobody here wrote may say that a request is the try before the first; it is made again as the first would be.
#[test]
fn a_request_before_the_first_is_the_first() {
    let mut play = Play::new();
    play.send("go");
    let ticket = play.request();
    play.begin_as(|state| {
        if let Some(Open::Request(request)) = state.open.get_mut(&ticket) {
            request.attempt = 0;
        }
    });
    play.failed(ErrorKind::Network);
    assert_eq!(wait_ms(&play), Some(1_000));
}

/// A failure of a request that is over means nothing.
#[test]
fn a_late_failure_changes_nothing() {
    let mut play = Play::new();
    play.send("go");
    let request = play.request();
    play.answer_text("done");
    let error = ModelError::new(ErrorKind::Network, "late");
    play.signal(tamtam::kernel::Report::Failed { error }.of(request));
    assert!(play.entries.is_empty() && play.is_quiet());
}
