//! The calls of one answer: together or one by one, at most so many, always rendered in call order.

use tamtam::{kernel::CallState, session::Finish};

use super::play::{Play, call};

/// B-15, C-15: parallel calls run together.
#[test]
fn parallel_calls_run_together() {
    let (play, calls) = Play::with_calls(&["read", "grep", "put"]);
    assert_eq!(play.started(), calls);
}

/// C-15: a call of a tool that is not parallel waits for all before it, and all after it wait for it.
#[test]
fn a_call_that_is_not_parallel_is_a_barrier() {
    let (mut play, calls) = Play::with_calls(&["read", "grep", "bash", "read", "write"]);
    assert_eq!(play.started(), calls[..2]);
    play.returned(calls[1], "ok");
    assert_eq!(play.started(), []);
    play.returned(calls[0], "ok");
    assert_eq!(play.started(), [calls[2]]);
    play.returned(calls[2], "ok");
    assert_eq!(play.started(), [calls[3]]);
    play.returned(calls[3], "ok");
    assert_eq!(play.started(), [calls[4]]);
    play.returned(calls[4], "ok");
    assert_eq!(play.started(), [play.request()]);
}

/// C-15: eight at a time; the ninth starts when one is done.
#[test]
fn at_most_eight_calls_run_at_a_time() {
    let (mut play, calls) = Play::with_calls(&["read"; 10]);
    assert_eq!(play.started(), calls[..8]);
    play.returned(calls[5], "ok");
    assert_eq!(play.started(), [calls[8]]);
    play.returned(calls[0], "ok");
    assert_eq!(play.started(), [calls[9]]);
}

/// BDD-AGENT-041: of three results the last comes first; each stands at the place of its call, though two calls have one id (#1446).
#[test]
fn results_stand_in_call_order() {
    let mut play = Play::new();
    play.send("go");
    // The same id twice: a provider's mistake that must not mix up the results.
    let calls = ["a", "b", "b"].map(|id| call(id, "read", "{}"));
    play.answer(calls.into(), Finish::ToolCalls);
    let calls = play.started();
    for (ticket, content) in [(calls[2], "three"), (calls[0], "one"), (calls[1], "two")] {
        assert_eq!(play.history().len(), 2);
        play.returned(ticket, content);
    }
    assert_eq!(play.newest(3, 99), ["a one", "b two", "b three"]);
}

/// A report counts once: for a call that is over, or never was started, it means nothing.
#[test]
fn a_report_for_a_ticket_that_is_not_open_changes_nothing() {
    let (mut play, calls) = Play::with_calls(&["bash", "bash"]);
    play.returned(calls[1], "I was never started");
    assert_eq!((play.entries.len(), play.call_state(calls[1])), (0, Some(CallState::Pending)));
    play.returned(calls[0], "ok");
    play.returned(calls[0], "ok again");
    assert_eq!((play.entries.len(), play.is_quiet()), (0, true));
    play.returned(calls[1], "ok");
    assert_eq!(play.newest(2, 99), ["c0 ok", "c1 ok"]);
}

/// The arguments reach the call as the text that was received.
#[test]
fn arguments_are_kept_as_they_were_received() {
    let mut play = Play::new();
    play.send("go");
    play.answer(vec![call("a", "read", "{}"), call("b", "read", "{ \"at\" : 1.50 }")], Finish::ToolCalls);
    let inputs: Vec<_> = play.state.calls().map(|(_, call)| call.input.to_string()).collect();
    assert_eq!(inputs, ["{}", "{ \"at\" : 1.50 }"]);
}
