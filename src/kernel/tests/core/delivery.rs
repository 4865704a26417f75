//! The table of `design.md` §5: what a steering message does where it meets the session, cell by cell.

use std::time::Duration;

use tamtam::{
    Seq,
    kernel::{CallState, Delivery, Disposition, Due, Mode, Open, Outcome, Refusal, Report, Steering, Stop},
    model::{ErrorKind, ModelError},
    permission::Action,
    session::Finish,
};

use super::play::{Play, call, rules, text};

const SKIPPED: &str = "Skipped due to queued user message";

/// The skip text of a call, as the model reads it.
fn skipped(id: &str, tool: &str) -> String {
    format!("{id}! {SKIPPED}: {tool} was not run.")
}

// ── the model is streaming ──

/// T-08, A05: the stream goes on; the calls of its answer are skipped, and the next request carries the message after them.
#[test]
fn skip_remaining_while_streaming_skips_the_calls_of_the_answer() {
    let mut play = Play::new();
    play.send("go");
    let receipt = play.steer("stop that", Steering::SkipRemaining);
    assert_eq!(receipt.disposition, Disposition::Steering);
    assert_eq!(play.follows(), (vec![], vec![]));
    play.answer_calls(&["bash", "read"]);
    assert_eq!(
        play.history(),
        [
            "user: go".to_owned(),
            "model calls bash read".to_owned(),
            skipped("c0", "bash"),
            skipped("c1", "read"),
            "user: stop that".to_owned(),
        ]
    );
    assert_eq!(play.follows(), (vec![Due::Request(play.request())], vec![]));
}

/// T-08: the calls of the answer run, and the message follows them.
#[test]
fn finish_batch_while_streaming_lets_the_calls_of_the_answer_run() {
    let mut play = Play::new();
    play.send("go");
    play.steer("and then", Steering::FinishBatch);
    let calls = play.answer_calls(&["bash", "write"]);
    assert_eq!(play.started(), [calls[0]]);
    play.returned(calls[0], "one");
    assert_eq!(play.started(), [calls[1]]);
    play.returned(calls[1], "two");
    assert_eq!(play.newest(3, 99), ["c0 one", "c1 two", "user: and then"]);
    assert_eq!(play.started(), [play.request()]);
}

/// T-06, T-08: the stream is closed, its partial text is kept, and the message follows it.
#[test]
fn abort_running_while_streaming_closes_the_stream_and_keeps_its_text() {
    let mut play = Play::new();
    play.send("go");
    let request = play.request();
    play.steer("no", Steering::AbortRunning);
    assert_eq!(play.follows(), (vec![], vec![Stop::Request(request)]));
    play.cut_off("I was about to");
    assert_eq!(play.history(), ["user: go", "model: I was about to", "user: no"]);
    assert_ne!(play.request(), request);
}

/// T-06: an empty partial answer is dropped.
#[test]
fn abort_running_before_the_first_word_leaves_no_empty_answer() {
    let mut play = Play::new();
    play.send("go");
    play.steer("no", Steering::AbortRunning);
    play.cut_off("");
    assert_eq!(play.history(), ["user: go", "user: no"]);
}

/// A report that was on its way when the stream was closed is taken as what it is.
#[test]
fn an_answer_that_overtakes_its_cut_is_kept_whole() {
    let mut play = Play::new();
    play.send("go");
    play.steer("no", Steering::AbortRunning);
    play.answer_calls(&["bash"]);
    assert_eq!(play.newest(3, 45), ["model calls bash", "c0! Skipped due to queued user message: bash ", "user: no"]);
    // The cut itself then comes too late to mean anything.
    let request = play.request();
    play.signal(tamtam::kernel::Report::CutOff { partial: vec![], thrown_away: 0 }.of(Seq(request.0 - 5)));
    assert_eq!((play.entries.len(), play.is_quiet()), (0, true));
}

// ── a call is pending ──

/// T-01, T-02, T-03, BDD-STEER-002: the running call finishes, the rest is skipped at once.
/// BDD-AGENT-031: the first call keeps its result, and both calls behind it are answered as skipped without being started.
/// BDD-AGENT-032: in what the model reads next the message stands behind the skip results.
#[test]
fn skip_remaining_skips_pending_calls_and_lets_the_running_one_finish() {
    let (mut play, calls) = Play::with_calls(&["bash", "write", "write"]);
    assert_eq!(play.started(), [calls[0]]);
    play.steer("look at data.txt", Steering::SkipRemaining);
    assert_eq!((play.call_state(calls[0]), play.call_state(calls[1])), (Some(CallState::Running), None));
    assert_eq!(play.follows(), (vec![], vec![]));
    play.returned(calls[0], "kept");
    assert_eq!(
        play.history()[1..],
        [
            "model calls bash write write".to_owned(),
            "c0 kept".to_owned(),
            skipped("c1", "write"),
            skipped("c2", "write"),
            "user: look at data.txt".to_owned(),
        ]
    );
}

/// C-13: with FinishBatch all calls run, one after the other, before the message is read.
#[test]
fn finish_batch_runs_pending_calls_too() {
    let (mut play, calls) = Play::with_calls(&["bash", "write"]);
    play.steer("afterwards", Steering::FinishBatch);
    assert_eq!(play.call_state(calls[1]), Some(CallState::Pending));
    play.returned(calls[0], "one");
    assert_eq!(play.started(), [calls[1]]);
    play.returned(calls[1], "two");
    assert_eq!(play.newest(3, 99), ["c0 one", "c1 two", "user: afterwards"]);
}

/// C-13: AbortRunning skips what was not started and stops what runs.
#[test]
fn abort_running_skips_pending_calls_and_stops_the_running_one() {
    let (mut play, calls) = Play::with_calls(&["bash", "write"]);
    play.steer("no", Steering::AbortRunning);
    assert_eq!(play.follows(), (vec![], vec![Stop::Call(calls[0])]));
    assert_eq!((play.call_state(calls[0]), play.call_state(calls[1])), (Some(CallState::Closing), None));
    play.signal(
        tamtam::kernel::Report::Returned {
            result: tamtam::tool::ToolResult::failed(tamtam::session::ErrorReason::Aborted, "stopped after 3 lines"),
        }
        .of(calls[0]),
    );
    assert_eq!(
        play.history()[2..],
        ["c0! stopped after 3 lines".to_owned(), skipped("c1", "write"), "user: no".to_owned()]
    );
}

// ── a call is asking ──

fn asking() -> (Play, Vec<Seq>) {
    let mut play = Play::with(|settings| {
        settings.rules = vec![rules("host", &[("*", "*", Action::Allow), ("write", "*", Action::Ask)])];
    });
    play.send("go");
    let calls = play.answer_calls(&["write"]);
    assert_eq!(play.asks().len(), 1);
    (play, calls)
}

/// T-08, A05: both stronger policies withdraw the question.
#[test]
fn skip_remaining_and_abort_running_withdraw_an_open_ask() {
    for steering in [Steering::SkipRemaining, Steering::AbortRunning] {
        let (mut play, _) = asking();
        let ask = play.asks()[0];
        play.steer("never mind", steering);
        assert_eq!(play.asks(), []);
        assert_eq!(play.history()[2..], [skipped("c0", "write"), "user: never mind".to_owned()], "{steering:?}");
        let late = play.grant(ask, tamtam::kernel::Grant::Once);
        assert_eq!(late, Err(Refusal::AskClosed { ask }));
    }
}

/// Promise 8: FinishBatch waits for the person, but no longer than the ask's limit.
#[test]
fn finish_batch_waits_for_an_open_ask_until_its_limit() {
    let (mut play, _) = asking();
    play.steer("afterwards", Steering::FinishBatch);
    assert_eq!(play.asks().len(), 1);
    play.later(599_999);
    assert_eq!(play.asks().len(), 1);
    play.later(1);
    assert_eq!(play.asks(), []);
    assert_eq!(play.newest(2, 21), ["c0! Permission denied", "user: afterwards"]);
}

// ── a call is running ──

/// T-01: FinishBatch and SkipRemaining touch no running call.
#[test]
fn weaker_steering_never_stops_a_running_call() {
    for steering in [Steering::SkipRemaining, Steering::FinishBatch] {
        let (mut play, calls) = Play::with_calls(&["read", "grep"]);
        play.steer("hm", steering);
        assert_eq!(play.stopped(), []);
        // Results are recorded as they come and rendered in call order.
        play.returned(calls[1], "second");
        assert_eq!(play.history().len(), 2);
        play.returned(calls[0], "first");
        assert_eq!(play.newest(3, 99), ["c0 first", "c1 second", "user: hm"], "{steering:?}");
    }
}

/// The next step starts when every cancelled call is really down, and not before.
#[test]
fn abort_running_waits_until_every_call_is_down() {
    let (mut play, calls) = Play::with_calls(&["read", "grep"]);
    play.steer("no", Steering::AbortRunning);
    assert_eq!(play.stopped(), calls);
    play.returned(calls[1], "down");
    assert_eq!(play.started(), []);
    play.returned(calls[0], "down too");
    assert_eq!(play.newest(3, 99), ["c0! down too", "c1! down", "user: no"]);
    assert_eq!(play.started(), [play.request()]);
}

/// A call is told to stop once, however many messages say so.
#[test]
fn a_second_abort_running_stops_nothing_twice() {
    let (mut play, calls) = Play::with_calls(&["bash"]);
    play.steer("no", Steering::AbortRunning);
    assert_eq!(play.stopped(), calls);
    play.steer("really no", Steering::AbortRunning);
    assert_eq!(play.stopped(), []);
    play.returned(calls[0], "down");
    assert_eq!(play.newest(2, 99), ["user: no", "user: really no"]);
}

/// The strongest waiting steering wins, whichever came first.
#[test]
fn the_strongest_waiting_steering_wins() {
    for strong_first in [true, false] {
        let (mut play, calls) = Play::with_calls(&["bash", "write"]);
        let mut order = [("weak", Steering::FinishBatch), ("strong", Steering::AbortRunning)];
        if strong_first {
            order.reverse();
        }
        for (text, steering) in order {
            play.steer(text, steering);
        }
        assert_eq!(play.call_state(calls[0]), Some(CallState::Closing));
        assert_eq!(play.call_state(calls[1]), None);
        play.returned(calls[0], "down");
        assert_eq!(play.newest(2, 99), order.map(|(text, _)| format!("user: {text}")));
    }
}

/// A steering message that is taken back in time does nothing any more.
#[test]
fn a_withdrawn_steering_message_skips_no_later_call() {
    let mut play = Play::new();
    play.send("go");
    play.steer("stop", Steering::SkipRemaining);
    play.withdraw("stop").unwrap();
    let calls = play.answer_calls(&["bash"]);
    assert_eq!(play.started(), calls);
}

// ── waiting to retry ──

fn waiting(error: ModelError) -> Play {
    let mut play = Play::new();
    play.send("go");
    play.failed_with(error);
    assert!(play.state.open.values().any(|open| matches!(open, Open::Wait(_))));
    play
}

/// T-07, T-08, A05: our own back-off is cut short, and the message joins the request that is made again.
#[test]
fn any_steering_cuts_our_own_back_off_short() {
    for steering in [Steering::FinishBatch, Steering::SkipRemaining, Steering::AbortRunning] {
        let mut play = waiting(ModelError::new(ErrorKind::Network, "reset"));
        play.steer("hurry", steering);
        let (ticket, request) = play.state.request().unwrap();
        assert_eq!((request.attempt, play.started()), (2, vec![ticket]), "{steering:?}");
        assert_eq!(play.history(), ["user: go", "user: hurry"]);
        assert_eq!(play.stopped(), []);
    }
}

/// T-07, C-19: a wait that the server asked for is kept, and the message joins the request at its end.
#[test]
fn no_steering_cuts_a_servers_wait_short() {
    for steering in [Steering::FinishBatch, Steering::SkipRemaining, Steering::AbortRunning] {
        let asked = Some(Duration::from_secs(20));
        let mut play = waiting(ModelError::new(ErrorKind::RateLimited, "slow down").with_retry_after(asked));
        play.steer("hurry", steering);
        assert_eq!((play.started(), play.stopped()), (vec![], vec![]), "{steering:?}");
        play.later(19_999);
        assert_eq!(play.started(), []);
        play.later(1);
        assert_eq!(play.started(), [play.request()]);
        assert_eq!(play.history(), ["user: go", "user: hurry"]);
    }
}

/// A message for the next turn is no reason to hurry.
#[test]
fn a_queued_message_cuts_no_wait_short() {
    let mut play = waiting(ModelError::new(ErrorKind::Network, "reset"));
    play.send("later");
    assert_eq!(play.started(), []);
    assert_eq!(play.waiting().1, ["later"]);
}

// ── where no turn runs, and at its end ──

/// Steering an idle session starts a turn (BDD-STEER-006).
#[test]
fn steering_an_idle_session_starts_a_turn() {
    let mut play = Play::new();
    let receipt = play.steer("urgent", Steering::AbortRunning);
    assert_eq!(receipt.disposition, Disposition::Started);
    assert_eq!(play.history(), ["user: urgent"]);
    assert_eq!(play.follows(), (vec![Due::Request(play.request())], vec![]));
}

/// Seen on the release binary: after an abort, the held queue ran first and never saw the message that steered.
#[test]
fn steering_after_an_abort_comes_before_the_held_queue() {
    let mut play = Play::new();
    play.send("go");
    play.send("later");
    let request = play.request();
    play.abort("enough");
    play.signal(Report::CutOff { partial: vec![], thrown_away: 0 }.of(request));
    assert!(play.state.on_hold);
    let receipt = play.steer("rather this", Steering::SkipRemaining);
    assert_eq!(receipt.disposition, Disposition::Started);
    assert_eq!(play.history(), ["user: go", "user: rather this"]);
    assert_eq!(play.waiting().1, ["later"]);
    play.answer_text("done");
    assert_eq!(play.history()[2..], ["model: done", "user: later"]);
}

/// Steering of a paused session waits in the order in which it came, before all that is queued, and its receipt says so.
#[test]
fn steering_a_paused_session_waits_before_the_queue_in_its_own_order() {
    let mut play = Play::new();
    play.pause();
    play.send("later");
    assert_eq!(play.steer("first", Steering::SkipRemaining).disposition, Disposition::Queued { before: 0 });
    assert_eq!(play.steer("second", Steering::FinishBatch).disposition, Disposition::Queued { before: 1 });
    assert_eq!(play.send("last").disposition, Disposition::Queued { before: 3 });
    play.resume();
    assert_eq!(play.history(), ["user: first", "user: second"]);
    assert_eq!(play.waiting().1, ["later", "last"]);
}

/// A05, B-20, loop.md §9.4: a message that steers after the last token still belongs to the turn.
#[test]
fn steering_during_the_last_answer_keeps_the_turn_alive() {
    let mut play = Play::new();
    let turn = play.send("go");
    play.steer("one more thing", Steering::SkipRemaining);
    play.answer_text("done");
    assert_eq!(play.history(), ["user: go", "model: done", "user: one more thing"]);
    play.answer_text("that too");
    assert_eq!(play.outcome(), Some(Outcome::Done));
    assert_eq!((play.state.turns, play.state.ended[0].messages.len()), (1, 2));
    assert!(play.state.ended[0].turn > turn.seq);
}

/// The double loop (B-19, FOLLOWUP-002, BDD-STEER-007): steering before queued messages, whatever came first.
#[test]
fn steering_is_read_before_queued_messages() {
    let mut play = Play::new();
    play.send("go");
    play.send("later");
    play.steer("now", Steering::SkipRemaining);
    play.answer_text("one");
    play.answer_text("two");
    play.answer_text("three");
    assert_eq!(play.history(), ["user: go", "model: one", "user: now", "model: two", "user: later", "model: three"]);
    assert_eq!(play.state.turns, 2);
}

// ── modes (T-05) ──

/// T-05, BDD-STEER-005: together by default, in the order they came.
#[test]
fn waiting_steering_messages_are_delivered_together() {
    let (mut play, calls) = Play::with_calls(&["bash"]);
    play.steer("first", Steering::SkipRemaining);
    play.steer("second", Steering::SkipRemaining);
    play.returned(calls[0], "ok");
    assert_eq!(play.newest(2, 99), ["user: first", "user: second"]);
}

/// T-05: one for each request where the settings say so, none left behind.
#[test]
fn steering_messages_can_be_delivered_one_at_a_time() {
    let mut play = Play::with(|settings| settings.steering_mode = Mode::One);
    play.send("go");
    for text in ["first", "second"] {
        play.steer(text, Steering::FinishBatch);
    }
    play.answer_text("a");
    play.answer_text("b");
    play.answer_text("c");
    let expected = ["user: go", "model: a", "user: first", "model: b", "user: second", "model: c"];
    assert_eq!(play.history(), expected);
    assert_eq!(play.state.turns, 1);
}

/// A request is never started only to be cut at once: what would cut it is delivered with it.
#[test]
fn one_at_a_time_never_starts_a_request_that_a_waiting_message_would_cut() {
    let mut play = Play::with(|settings| settings.steering_mode = Mode::One);
    play.send("go");
    play.steer("first", Steering::FinishBatch);
    play.steer("second", Steering::AbortRunning);
    play.steer("third", Steering::FinishBatch);
    play.cut_off("so");
    assert_eq!(play.newest(3, 99), ["model: so", "user: first", "user: second"]);
    assert_eq!((play.started(), play.stopped()), (vec![play.request()], vec![]));
    assert_eq!(play.waiting().0, ["third"]);
}

/// T-04, FOLLOWUP-004: each queued message gets a turn of its own.
/// FOLLOWUP-001: the turn that takes a queued message up begins by itself, with the answer that ends the turn before.
#[test]
fn queued_messages_get_a_turn_each() {
    let mut play = Play::new();
    let first = play.send("one");
    let receipts = [play.send("two"), play.send("three")];
    assert_eq!(first.disposition, Disposition::Started);
    let queued = receipts.map(|receipt| receipt.disposition);
    assert_eq!(queued, [Disposition::Queued { before: 0 }, Disposition::Queued { before: 1 }]);
    for answer in ["a", "b", "c"] {
        play.answer_text(answer);
    }
    assert_eq!(play.history(), ["user: one", "model: a", "user: two", "model: b", "user: three", "model: c"]);
    assert_eq!(play.state.turns, 3);
    assert!(play.state.is_idle() && play.state.open.is_empty());
}

/// T-05: all queued messages make one turn where the settings say so.
#[test]
fn queued_messages_can_be_delivered_together() {
    let mut play = Play::with(|settings| settings.queue_mode = Mode::All);
    play.send("one");
    play.send("two");
    play.send("three");
    play.answer_text("a");
    assert_eq!(play.newest(3, 99), ["model: a", "user: two", "user: three"]);
    play.answer_text("b");
    assert_eq!(play.state.turns, 2);
}

/// Steering that came too late for its turn stays in order before later steering of the next one.
#[test]
fn late_steering_stays_before_the_steering_of_the_next_turn() {
    let mut play = Play::with(|settings| {
        settings.steering_mode = Mode::One;
        settings.steps_max = Some(1);
    });
    play.send("go");
    play.send("queued before");
    play.steer("late one", Steering::FinishBatch);
    play.steer("late two", Steering::FinishBatch);
    play.answer_text("a");
    assert_eq!(play.newest(2, 99), ["model: a", "user: late one"]);
    play.configure(|settings| settings.steps_max = None);
    play.steer("newer", Steering::FinishBatch);
    for answer in ["b", "c", "d", "e"] {
        play.answer_text(answer);
    }
    let users: Vec<_> = play.history().into_iter().filter(|line| line.starts_with("user")).collect();
    let expected = ["user: go", "user: late one", "user: late two", "user: newer", "user: queued before"];
    assert_eq!(users, expected);
    assert!(play.state.is_idle());
}

/// The message follows the results, never stands between them (2c014c1b, promise 2).
#[test]
fn nothing_ever_stands_between_a_call_and_its_result() {
    let mut play = Play::new();
    play.send("go");
    play.steer("a", Steering::FinishBatch);
    play.answer(vec![text("let me look"), call("x", "read", "{}"), call("y", "bash", "{}")], Finish::ToolCalls);
    play.steer("b", Steering::FinishBatch);
    let calls: Vec<_> = play.state.calls().map(|(ticket, _)| ticket).collect();
    play.returned(calls[0], "1");
    play.send_as("c", Delivery::Queue).unwrap();
    play.returned(calls[1], "2");
    assert_eq!(play.history()[1..], ["model calls read bash", "x 1", "y 2", "user: a", "user: b"]);
}
