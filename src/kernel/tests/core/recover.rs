//! What becomes of each open ticket after a crash: the table of `kernel/turn/recover.rs`, row by row, and promise 5.

use tamtam::{
    Seq,
    kernel::{CallState, Delivery, Due, Grant, Input, Outcome, Record, Report, Steering},
    model::{ErrorKind, ModelError},
    permission::Action,
    session::ErrorReason,
    tool::{Effect, ToolResult},
};

use super::{
    play::{Play, rules},
    tools,
};

/// The idempotency keys and attempts that the tape holds for a call, newest decision only.
fn keys(play: &Play) -> Vec<(Option<Seq>, u32, String)> {
    let started = play.entries.iter().filter_map(|entry| match &entry.record {
        Record::CallStarted { attempt, key, .. } => Some((entry.ticket, *attempt, key.clone())),
        _ => None,
    });
    started.collect()
}

/// Promise 5: an open request is made again under its own ticket, with nothing made up in between.
#[test]
fn an_open_request_is_made_again_byte_for_byte() {
    let mut play = Play::new();
    play.send("go");
    let (request, opened) = play.state.request().map(|(ticket, open)| (ticket, open.clone())).unwrap();
    play.crash();
    assert_eq!(play.follows(), (vec![Due::Request(request)], vec![]));
    assert_eq!(play.state.request(), Some((request, &opened)));
    assert_eq!(play.history(), ["user: go"]);
}

/// Promise 5: what the session was set to while the request was open is for the next one; this one stays as it was.
#[test]
fn settings_that_change_under_an_open_request_do_not_change_it() {
    let mut play = Play::new();
    play.send("go");
    let (ticket, opened) = play.state.request().map(|(ticket, open)| (ticket, open.clone())).unwrap();
    play.configure(|settings| {
        settings.system = "You are somebody else.".into();
        settings.params.temperature = Some(0.7);
    });
    play.crash();
    assert_eq!(play.state.request(), Some((ticket, &opened)));
    assert_eq!((&*opened.system, opened.params.temperature), ("", None));
    let calls = play.answer_calls(&["read"]);
    play.returned(calls[0], "ok");
    let next = play.state.request().unwrap().1;
    assert_eq!((&*next.system, next.params.temperature), ("You are somebody else.", Some(0.7)));
}

/// A report that an earlier incarnation did not get to is recorded without starting what follows from it: else the calls that it
/// opens would look as if they had run, and those of `Once` would be answered "unknown".
#[test]
fn calls_that_a_late_report_opens_are_not_taken_for_calls_that_ran() {
    let mut play = Play::new();
    play.send("go");
    let ticket = play.request();
    let answer = tamtam::model::ModelAnswer::new(
        vec![super::play::call("c0", "bash", "{}")],
        tamtam::session::Finish::ToolCalls,
    );
    play.inputs(&[Report::Answered { answer, calls: Vec::new() }.of(ticket), Input::recover()]);
    let calls: Vec<_> = play.state.calls().map(|(ticket, _)| ticket).collect();
    assert_eq!((play.started(), keys(&play)[0].1), (calls, 1));
}

/// A request that was told to stop is closed with nothing, and the message that stopped it is read.
#[test]
fn a_request_that_was_told_to_stop_is_not_made_again() {
    let mut play = Play::new();
    play.send("go");
    let request = play.request();
    play.steer("no", Steering::AbortRunning);
    play.crash();
    assert_eq!(play.history(), ["user: go", "user: no"]);
    assert_ne!(play.request(), request);
    assert_eq!((play.started(), play.stopped()), (vec![play.request()], vec![]));
}

/// A request whose turn was aborted is closed, and the turn with it.
#[test]
fn an_abort_that_a_crash_overtook_is_carried_out() {
    let mut play = Play::new();
    play.send("go");
    play.abort("enough");
    play.crash();
    assert_eq!((play.outcome(), play.is_quiet()), (Some(Outcome::Aborted { reason: "enough".into() }), true));
}

/// A call that was not started goes on as if nothing had happened.
#[test]
fn a_call_that_was_not_started_goes_on() {
    let (mut play, calls) = Play::with_calls(&["look", "bash"]);
    play.crash();
    assert_eq!(play.started(), [calls[0]]);
    play.returned(calls[0], "ok");
    assert_eq!(play.started(), [calls[1]]);
    assert_eq!(keys(&play)[0].1, 1);
}

/// Promise 4: Read and Idempotent run again, under the same key.
#[test]
fn a_running_call_of_read_or_idempotent_runs_again_with_the_same_key() {
    for tool in ["read", "put"] {
        let (mut play, calls) = Play::with_calls(&[tool]);
        let (ticket, attempt, key) = keys(&play).remove(0);
        assert_eq!((ticket, attempt), (Some(calls[0]), 1));
        play.crash();
        assert_eq!(keys(&play), [(Some(calls[0]), 2, key)], "{tool}");
        assert_eq!(play.started(), calls);
    }
}

/// C-16: Promise 4: Once never runs again; the model is told that nobody knows, and to check.
#[test]
fn a_running_call_of_once_never_runs_again() {
    let (mut play, calls) = Play::with_calls(&["bash"]);
    play.crash();
    assert!(keys(&play).is_empty());
    let told = play.newest(1, 999).remove(0);
    assert!(told.starts_with("c0! ") && told.contains("unknown") && told.contains("Check"), "{told}");
    assert_eq!(play.started(), [play.request()]);
    // And a report from before the crash would find its ticket closed.
    play.returned(calls[0], "ok");
    assert!(play.entries.is_empty());
}

/// A call that was told to stop is down for certain; how far it got is not known. It never runs again, whatever its effect.
#[test]
fn a_call_that_was_told_to_stop_is_answered() {
    for tool in ["read", "bash"] {
        let (mut play, _) = Play::with_calls(&[tool]);
        play.steer("no", Steering::AbortRunning);
        play.crash();
        assert!(keys(&play).is_empty(), "{tool}");
        assert_eq!(play.newest(1, 99), ["user: no"]);
        assert!(play.newest(2, 99)[0].contains("unknown"), "{tool}");
    }
}

/// Promise 8: an ask is asked again with the time it had left.
#[test]
fn an_open_ask_keeps_its_limit_over_a_crash() {
    let mut play = Play::with(|settings| settings.rules = vec![rules("host", &[("*", "*", Action::Ask)])]);
    play.send("go");
    let calls = play.answer_calls(&["bash"]);
    let (ask, due) = (play.asks()[0], play.state.due());
    play.later(400_000);
    play.crash();
    assert_eq!(
        (play.asks(), play.state.due(), play.call_state(calls[0])),
        (vec![ask], due, Some(CallState::Asking(ask)))
    );
    play.grant(ask, Grant::Once).unwrap();
    assert_eq!(play.started(), calls);
}

/// A wait goes on until the moment it names.
#[test]
fn a_wait_keeps_its_moment_over_a_crash() {
    let mut play = Play::new();
    play.send("go");
    play.failed(ErrorKind::Network);
    let due = play.state.due();
    play.crash();
    assert_eq!((play.state.due(), play.is_quiet()), (due, true));
    play.later(1_000);
    assert_eq!(play.state.request().unwrap().1.attempt, 2);
}

/// A session in which no turn runs has nothing to recover; what is queued starts.
#[test]
fn an_idle_session_recovers_without_a_word() {
    let mut play = Play::new();
    play.send("go");
    play.answer_text("done");
    play.crash();
    assert!(play.entries.is_empty() && play.is_quiet());
}

/// Promise 1: messages that wait are still there, in order, and are delivered once.
#[test]
fn messages_that_wait_survive_a_crash() {
    let mut play = Play::new();
    play.send("go");
    play.send("queued");
    play.steer("steered", Steering::FinishBatch);
    play.crash();
    assert_eq!(play.waiting(), (vec!["steered".to_owned()], vec!["queued".to_owned()]));
    play.answer_text("a");
    play.answer_text("b");
    assert_eq!(play.history(), ["user: go", "model: a", "user: steered", "model: b", "user: queued"]);
}

// ── promise 5: once, then it waits ──

/// Promise 5: the second crash without progress makes the turn wait; a message or go-on takes it up again.
#[test]
fn a_turn_goes_on_by_itself_once_and_then_waits() {
    for by_message in [true, false] {
        let mut play = Play::new();
        play.send("go");
        let request = play.request();
        play.crash();
        assert_eq!(play.started(), [request]);
        play.crash();
        assert!(play.state.waits && play.is_quiet());
        // It stays so over further crashes.
        play.crash();
        assert!(play.state.waits && play.is_quiet());
        if by_message {
            play.send("are you there?");
        } else {
            play.go_on();
        }
        assert_eq!(play.follows(), (vec![Due::Request(request)], vec![]));
        play.answer_text("yes");
        assert!(!play.state.waits);
    }
}

/// Promise 5: an answer or a result in between is progress.
#[test]
fn progress_lets_a_turn_recover_again() {
    let (mut play, calls) = Play::with_calls(&["read", "look"]);
    play.crash();
    assert_eq!(play.started(), [calls[0]]);
    play.returned(calls[0], "ok");
    play.crash();
    assert_eq!(play.started(), [calls[1]]);
    play.returned(calls[1], "ok");
    play.crash();
    assert_eq!(play.started(), [play.request()]);
    let calls = play.answer_calls(&["look"]);
    play.crash();
    assert_eq!(play.started(), calls);
    play.crash();
    assert!(play.state.waits && play.is_quiet());
}

/// A stop in order is no crash: however often it comes without progress in between, the turn goes on by itself.
#[test]
fn a_stop_in_order_is_not_taken_for_a_crash() {
    let mut play = Play::new();
    play.send("go");
    let request = play.request();
    for _ in 0..20 {
        play.stop_in_order();
        assert_eq!(play.started(), [request]);
    }
    assert_eq!((play.state.recoveries, play.state.turn.as_ref().unwrap().recoveries), (0, 0));
    // Nor does one hide the crashes beside it.
    play.crash();
    play.stop_in_order();
    assert_eq!((play.started(), play.state.recoveries), (vec![request], 1));
    play.crash();
    assert!(play.state.waits && play.is_quiet());
}

/// A stop in order starts nothing, is noted once, and only where a turn is open.
#[test]
fn a_stop_in_order_is_noted_only_where_a_crash_could_cut_something_off() {
    let mut play = Play::new();
    let written = play.written();
    play.signal(Input::Stop);
    assert_eq!(play.written(), written, "no turn runs");
    play.send("go");
    let written = play.written();
    play.signal(Input::Stop).signal(Input::Stop);
    assert_eq!((play.written(), play.started()), (written + 1, vec![]));
    play.crash();
    play.crash();
    play.crash();
    assert!(play.state.waits);
    let written = play.written();
    play.signal(Input::Stop);
    assert_eq!(play.written(), written, "the turn waits already");
}

/// A turn that gets on between its crashes does not do so for ever: after the tenth it ends, and says why.
#[test]
fn a_turn_that_crashes_again_and_again_ends_although_it_gets_on() {
    let mut play = Play::new();
    play.send("go");
    play.send_as("and then", Delivery::Queue).unwrap();
    for crash in 1..=10 {
        play.answer_calls(&["bash"]);
        play.crash();
        assert!(!play.state.waits && play.state.turn.is_some(), "crash {crash}");
    }
    play.answer_calls(&["bash"]);
    play.crash();
    assert_eq!(play.outcome(), Some(Outcome::RecoveryLimit { recoveries: 11 }));
    assert!(play.is_quiet() && play.state.open.is_empty(), "every call has its result");
    assert!(play.state.on_hold, "what is queued waits for a person");
    play.go_on();
    assert_eq!(play.newest(1, 99), ["user: and then"]);
}

/// A message or a go-on is a person's word that the turn may go on: the count begins again.
#[test]
fn a_go_on_begins_the_count_of_crashes_again() {
    let mut play = Play::new();
    play.send("go");
    for _ in 0..10 {
        play.answer_calls(&["bash"]);
        play.crash();
    }
    play.send_as("go on", Delivery::Steer(Steering::FinishBatch)).unwrap();
    for _ in 0..10 {
        play.answer_calls(&["bash"]);
        play.crash();
    }
    assert!(play.state.turn.is_some());
}

/// What recovery itself writes is no progress: else a call that kills the process would do so for ever.
#[test]
fn an_unknown_outcome_is_no_progress() {
    let (mut play, _) = Play::with_calls(&["bash"]);
    play.crash();
    assert_eq!(play.started(), [play.request()]);
    play.crash();
    assert!(play.state.waits && play.is_quiet());
}

/// Promise 5: a host that wants no resumption gets none, but what cannot go on is closed all the same.
#[test]
fn without_auto_resume_a_turn_waits_at_once() {
    let mut play = Play::with(|settings| settings.auto_resume = false);
    play.send("go");
    let calls = play.answer_calls(&["note", "read"]);
    play.crash();
    assert!(play.state.waits && play.is_quiet());
    assert_eq!((play.call_state(calls[0]), play.call_state(calls[1])), (None, Some(CallState::Running)));
    play.go_on();
    assert_eq!(play.started(), [calls[1]]);
    play.returned(calls[1], "ok");
    assert_eq!(play.started(), [play.request()]);
}

/// Nobody works in a turn that waits, so an abort closes it by itself: no stop goes to a worker that is not there.
#[test]
fn a_turn_that_waits_can_be_aborted() {
    for calls in [false, true] {
        let mut play = Play::with(|settings| settings.auto_resume = false);
        play.send("go");
        if calls {
            play.answer_calls(&["read", "bash"]);
        }
        play.crash();
        assert!(play.state.waits);
        play.abort("enough");
        assert_eq!((play.is_quiet(), play.outcome()), (true, Some(Outcome::Aborted { reason: "enough".into() })));
        assert!(play.state.open.is_empty() && play.state.is_idle());
    }
}

/// A message that stops what runs takes up a waiting turn without starting what it would stop.
#[test]
fn abort_running_to_a_turn_that_waits_starts_only_the_next_step() {
    for calls in [false, true] {
        let mut play = Play::with(|settings| settings.auto_resume = false);
        play.send("go");
        if calls {
            play.answer_calls(&["read", "grep"]);
        }
        play.crash();
        play.steer("no", Steering::AbortRunning);
        assert_eq!((play.started(), play.stopped()), (vec![play.request()], vec![]));
        assert_eq!(play.newest(1, 99), ["user: no"]);
    }
}

/// AbortRunning that was accepted, but not acted on when the process died, is acted on in recovery.
#[test]
fn abort_running_is_obeyed_by_recovery() {
    let mut play = Play::new();
    play.send("go");
    let request = play.request();
    play.send_as("no", Delivery::Steer(Steering::AbortRunning)).unwrap();
    play.crash_after(1);
    assert_ne!(play.request(), request);
    assert_eq!((play.started(), play.stopped()), (vec![play.request()], vec![]));
    assert_eq!(play.history(), ["user: go", "user: no"]);

    let (mut play, calls) = Play::with_calls(&["read"]);
    play.send_as("no", Delivery::Steer(Steering::AbortRunning)).unwrap();
    play.crash_after(1);
    assert_eq!(play.call_state(calls[0]), None);
    assert_eq!((play.started(), play.stopped()), (vec![play.request()], vec![]));
}

/// A crash in the middle of a batch keeps the results that are there, and the order.
#[test]
fn results_before_a_crash_keep_their_place() {
    let (mut play, calls) = Play::with_calls(&["read", "note", "grep"]);
    play.returned(calls[2], "third");
    play.crash();
    assert_eq!(play.started(), [calls[0]]);
    play.signal(Report::Returned { result: ToolResult::failed(ErrorReason::Timeout, "too slow") }.of(calls[0]));
    assert_eq!(play.newest(3, 20), ["c0! too slow", "c1! The runtime stop", "c2 third"]);
}

/// An end is an end: recovery does not take up a turn that is over.
#[test]
fn a_failed_turn_stays_failed_over_a_crash() {
    let mut play = Play::new();
    play.send("go");
    play.failed_with(ModelError::new(ErrorKind::Auth, "bad key"));
    play.crash();
    assert!(play.entries.is_empty() && play.state.is_idle());
    assert_eq!(play.outcome(), Some(Outcome::Failed { error: "bad key".into() }));
}

/// A call that ran before and is asked about again is never told as one that did not run, whatever ends it: else the model does
/// the same thing twice in another way.
#[test]
fn a_call_that_had_run_is_not_told_as_one_that_was_not() {
    let had_run = || {
        let (mut play, calls) = Play::with_calls(&["put"]);
        play.host_rules = Some(rules("host", &[("*", "*", Action::Ask)]));
        play.state.settings = {
            let mut settings = (*play.state.settings).clone();
            settings.rules.clear();
            std::sync::Arc::new(settings)
        };
        let settings = play.state.settings.clone();
        play.begin_as(|state| state.settings = settings);
        play.crash();
        let ask = play.asks()[0];
        assert_eq!((play.started(), play.call_state(calls[0])), (vec![], Some(CallState::Asking(ask))));
        (play, ask)
    };
    let told = |play: &Play| {
        play.entries.iter().find_map(|entry| match &entry.record {
            Record::Result { result, .. } => Some(result.content.clone()),
            _ => None,
        })
    };
    let says_so = |play: &Play, how: &str| {
        let said = told(play).unwrap_or_else(|| panic!("{how}: no result"));
        assert_eq!(said.matches("It had been running when the runtime stopped before").count(), 1, "{how}: {said}");
    };
    let (mut play, _) = had_run();
    play.steer("rather this", Steering::SkipRemaining);
    says_so(&play, "steered");
    let (mut play, _) = had_run();
    play.abort("enough");
    says_so(&play, "aborted");
    let (mut play, ask) = had_run();
    play.grant(ask, Grant::Reject(Some("no".into()))).unwrap();
    says_so(&play, "rejected");
    let (mut play, _) = had_run();
    play.later(play.state.settings.ask_limit_ms);
    says_so(&play, "expired");
    let (play, _) = had_run();
    let written = play.written();
    let fork = play.fork_at(written);
    assert!(fork.newest(1, 400)[0].contains("was running"), "{:?}", fork.newest(1, 400));
    // The other side: one that never ran says nothing of it.
    let mut play = Play::with(|settings| settings.rules = vec![rules("host", &[("*", "*", Action::Ask)])]);
    play.send("go");
    play.answer_calls(&["put"]);
    play.abort("enough");
    assert!(!told(&play).unwrap().contains("It had been running"));
}

/// Promise 4 holds for a call that ran before, is asked about again, and whose tool is another after the next crash.
#[test]
fn a_call_that_had_run_never_runs_again_once_its_tool_says_so() {
    let (mut play, calls) = Play::with_calls(&["put"]);
    play.host_rules = Some(rules("host", &[("*", "*", Action::Ask)]));
    play.state.settings = {
        let mut settings = (*play.state.settings).clone();
        settings.rules.clear();
        std::sync::Arc::new(settings)
    };
    let settings = play.state.settings.clone();
    play.begin_as(|state| state.settings = settings);
    play.crash();
    let ask = play.asks()[0];
    assert_eq!(play.call_state(calls[0]), Some(CallState::Asking(ask)));
    play.toolbox = play.toolbox.with(tools::fake("put", Effect::Once, true));
    play.crash();
    assert_eq!((play.call_state(calls[0]), play.asks()), (None, vec![]));
    assert!(play.grant(ask, Grant::Once).is_err() && keys(&play).is_empty());
}

/// What recovery answers of a call that ran before is no progress, whichever words it has.
#[test]
fn a_call_that_may_not_run_again_is_no_progress() {
    let (mut play, _) = Play::with_calls(&["read"]);
    play.host_rules = Some(rules("host", &[("*", "*", Action::Deny)]));
    play.crash();
    assert_eq!(play.started(), [play.request()]);
    play.crash();
    assert!(play.state.waits && play.is_quiet());
}
