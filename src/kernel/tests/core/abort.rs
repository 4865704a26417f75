//! Abort works everywhere, closes every ticket with a result, and keeps what is queued (T-06, B-04, A06, ABORT-001 to 011).

use tamtam::{
    kernel::{Disposition, Outcome, Report, Steering, Stop},
    model::{AnswerPart, ErrorKind},
    permission::Action,
    session::{ErrorReason, Finish},
    tool::ToolResult,
};

use super::play::{Play, call, rules, text};

fn aborted(play: &Play) -> bool {
    play.outcome() == Some(Outcome::Aborted { reason: "enough".into() })
}

/// ABORT-003: an abort where nothing runs is no error and leaves no trace.
#[test]
fn aborting_an_idle_session_changes_nothing() {
    let mut play = Play::new();
    play.abort("enough");
    assert!(play.entries.is_empty() && play.is_quiet());
    play.send("go");
    assert_eq!(play.started(), [play.request()]);
}

/// T-06, ABORT-005: the stream is closed, its text is kept, and a call in it is not.
#[test]
fn aborting_a_stream_keeps_its_text() {
    let mut play = Play::new();
    play.send("go");
    let request = play.request();
    play.abort("enough");
    assert_eq!(play.follows(), (vec![], vec![Stop::Request(request)]));
    assert!(!play.state.is_idle());
    let thought = AnswerPart::Reasoning { text: "hm".into(), time: Default::default(), extra: None };
    play.signal(
        Report::CutOff { partial: vec![thought, text("kept"), call("c", "bash", "{}")], thrown_away: 0 }.of(request),
    );
    assert_eq!(play.history(), ["user: go", "model: kept"]);
    assert!(aborted(&play) && play.state.is_idle());
}

/// A06: a failure that comes instead of the cut ends the turn as aborted and is not retried.
#[test]
fn a_failure_after_an_abort_is_not_retried() {
    let mut play = Play::new();
    play.send("go");
    play.abort("enough");
    play.failed(ErrorKind::Network);
    assert!(aborted(&play) && play.state.open.is_empty());
}

/// Promise 2: the running call is stopped, the others are answered.
/// ABORT-001: the core tells the shell to stop the running call, and the turn ends when its result, "stopped", is in.
/// ABORT-002: the second and the third call are answered as aborted before they were started, and never start.
#[test]
fn aborting_a_batch_answers_every_call() {
    let (mut play, calls) = Play::with_calls(&["bash", "write", "read"]);
    play.abort("enough");
    assert_eq!(play.follows(), (vec![], vec![Stop::Call(calls[0])]));
    assert!(play.outcome().is_none());
    let result = ToolResult::failed(ErrorReason::Aborted, "stopped");
    play.signal(Report::Returned { result }.of(calls[0]));
    assert_eq!(
        play.newest(3, 99),
        ["c0! stopped", "c1! Aborted before it was started: enough", "c2! Aborted before it was started: enough"]
    );
    assert!(aborted(&play) && play.started().is_empty());
}

/// A call that came back well after it was told to stop is kept, but is no good result.
#[test]
fn a_result_that_overtakes_its_stop_is_kept_as_aborted() {
    let (mut play, calls) = Play::with_calls(&["bash"]);
    play.abort("enough");
    play.returned(calls[0], "done after all");
    assert_eq!(play.newest(1, 99), ["c0! done after all"]);
}

/// A06: an open question is closed with its turn.
#[test]
fn aborting_closes_open_asks() {
    let mut play = Play::with(|settings| settings.rules = vec![rules("host", &[("*", "*", Action::Ask)])]);
    play.send("go");
    play.answer_calls(&["read", "grep"]);
    assert_eq!(play.asks().len(), 2);
    play.abort("enough");
    assert!(aborted(&play) && play.state.open.is_empty());
    assert_eq!(play.newest(2, 20), ["c0! Aborted before i", "c1! Aborted before i"]);
}

/// K-08: a wait before a retry can be aborted, and ends at once.
#[test]
fn aborting_ends_a_wait() {
    let mut play = Play::new();
    play.send("go");
    play.failed(ErrorKind::Overloaded);
    play.abort("enough");
    assert!(aborted(&play) && play.state.open.is_empty() && play.state.due().is_none());
    play.later(60_000);
    assert!(play.is_quiet());
}

/// An abort while one is under way changes nothing.
#[test]
fn a_second_abort_changes_nothing() {
    let (mut play, calls) = Play::with_calls(&["bash"]);
    play.abort("enough");
    play.abort("I said enough");
    assert!(play.entries.is_empty() && play.is_quiet());
    play.returned(calls[0], "x");
    assert!(aborted(&play));
}

/// Design §5: what is queued stays, held until the next send or go-on; a steering message waits with it.
#[test]
fn messages_that_wait_are_held_after_an_abort() {
    for release_by_send in [true, false] {
        let mut play = Play::new();
        play.send("go");
        play.send("queued");
        play.steer("steered", Steering::FinishBatch);
        play.abort("enough");
        play.cut_off("");
        assert_eq!(play.waiting().1, ["steered", "queued"]);
        assert!(play.state.on_hold && play.state.is_idle());
        play.crash();
        assert!(play.state.on_hold && play.is_quiet());
        if release_by_send {
            assert_eq!(play.send("next").disposition, Disposition::Queued { before: 2 });
        } else {
            play.go_on();
        }
        assert_eq!(play.history(), ["user: go", "user: steered"]);
        play.answer_text("a");
        assert_eq!(play.newest(1, 99), ["user: queued"]);
    }
}

/// ABORT-004: a message after an abort works as ever.
#[test]
fn a_message_after_an_abort_starts_a_turn() {
    let mut play = Play::new();
    play.send("go");
    play.abort("enough");
    play.cut_off("x");
    assert_eq!(play.send("again").disposition, Disposition::Started);
    play.answer_text("back");
    assert_eq!(play.outcome(), Some(Outcome::Done));
}

/// Whoever sends while the abort is still under way has said "next send" already: nothing is held from them.
#[test]
fn a_message_sent_during_an_abort_is_not_held() {
    for released_by_go_on in [true, false] {
        let (mut play, calls) = Play::with_calls(&["bash"]);
        play.send("before");
        play.abort("enough");
        if released_by_go_on {
            play.go_on();
        } else {
            play.steer("do this instead", Steering::SkipRemaining);
        }
        play.returned(calls[0], "down");
        assert!(!play.state.on_hold);
        let expected = if released_by_go_on { "user: before" } else { "user: do this instead" };
        assert_eq!(play.newest(1, 99), [expected]);
        assert_eq!(play.started(), [play.request()]);
    }
}

/// A failed turn holds the queue as an abort does; other ends let the next message go.
#[test]
fn a_failed_turn_holds_the_queue_and_a_finished_one_does_not() {
    let mut play = Play::new();
    play.send("go");
    play.send("queued");
    play.failed(ErrorKind::Auth);
    assert!(matches!(play.outcome(), Some(Outcome::Failed { .. })));
    assert!(play.state.on_hold && play.started().is_empty());

    for finish in [Finish::Stop, Finish::Length, Finish::ContentFilter] {
        let mut play = Play::new();
        play.send("go");
        play.send("queued");
        play.answer(vec![text("x")], finish);
        assert_eq!(play.newest(1, 99), ["user: queued"], "{finish:?}");
    }
}

/// Nothing waits, so nothing is held: the next message starts its turn at once.
#[test]
fn nothing_is_held_where_nothing_waits() {
    let mut play = Play::new();
    play.send("go");
    play.abort("enough");
    play.cut_off("");
    assert!(!play.state.on_hold);
}
