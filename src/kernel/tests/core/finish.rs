//! How an answer ends, and what that does to its turn (the table of `Finish`, C-p6), and the step limit (C-12).

use tamtam::{
    kernel::{Outcome, Steering},
    session::Finish,
};

use super::play::{Play, call, text};

fn after(finish: Finish, calls: bool) -> Play {
    let mut play = Play::new();
    play.send("go");
    let mut parts = vec![text("so")];
    if calls {
        parts.push(call("c0", "bash", "{}"));
    }
    play.answer(parts, finish);
    play
}

fn failed(play: &Play) -> bool {
    matches!(play.outcome(), Some(Outcome::Failed { .. }))
}

/// C-p6, B-05: without calls the answer ends the turn, each finish in its own way.
#[test]
fn an_answer_without_calls_ends_the_turn() {
    assert_eq!(after(Finish::Stop, false).outcome(), Some(Outcome::Done));
    assert_eq!(after(Finish::Length, false).outcome(), Some(Outcome::CutShort));
    assert_eq!(after(Finish::ContentFilter, false).outcome(), Some(Outcome::Refused));
    // Never silently: what nobody can explain is an error.
    assert!(failed(&after(Finish::ToolCalls, false)));
    assert!(failed(&after(Finish::Unknown, false)));
}

/// C-p6: calls run after stop, tool-calls and unknown, whatever the provider called the end.
#[test]
fn calls_run_whatever_the_provider_called_the_end() {
    for finish in [Finish::Stop, Finish::ToolCalls, Finish::Unknown] {
        let mut play = after(finish, true);
        let calls = play.started();
        assert_eq!(calls.len(), 1, "{finish:?}");
        play.returned(calls[0], "ok");
        assert_eq!(play.started(), [play.request()], "{finish:?}");
    }
}

/// C-p6: a call that may be cut off is never run; the model hears so and goes on.
#[test]
fn calls_of_an_answer_that_was_cut_short_never_run() {
    let play = after(Finish::Length, true);
    assert_eq!(play.started(), [play.request()]);
    assert_eq!(play.newest(1, 44), ["c0! The answer reached its length limit, so "]);
}

/// C-p6: a withheld answer ends its turn, and its calls are answered without running.
#[test]
fn calls_of_a_withheld_answer_never_run() {
    let play = after(Finish::ContentFilter, true);
    assert_eq!((play.started(), play.outcome()), (vec![], Some(Outcome::Refused)));
    assert_eq!(play.newest(1, 35), ["c0! The provider withheld the answe"]);
}

/// BDD-AGENT-040: an answer of nothing at all is no item of the history.
#[test]
fn an_empty_answer_leaves_no_empty_item() {
    let mut play = Play::new();
    play.send("go");
    play.answer_text("");
    assert_eq!((play.history(), play.outcome()), (vec!["user: go".to_owned()], Some(Outcome::Done)));
}

/// B-14: a call that cannot run is an answer to the model, and the turn goes on.
/// TOOL-EDGE-006: the result of a call of an unknown tool begins with the error and lists the tools there are.
#[test]
fn a_call_of_an_unknown_tool_is_answered() {
    let mut play = Play::new();
    play.send("go");
    play.answer_calls(&["launch"]);
    assert_eq!(play.newest(1, 50), ["c0! tool not found: launch. Available tools: bash,"]);
    assert_eq!(play.started(), [play.request()]);
}

/// B-14: arguments that are no object are answered, others run; nothing at all counts as an empty object.
#[test]
fn arguments_that_are_no_object_are_answered_and_not_run() {
    for (input, runs) in [("{}", true), ("", true), ("null", true), ("[]", false), ("\"x\"", false), ("{\"a\":", false)]
    {
        let mut play = Play::new();
        play.send("go");
        play.answer(vec![call("c0", "bash", input)], Finish::ToolCalls);
        let ran = play.state.request().is_none();
        assert_eq!(ran, runs, "{input}");
    }
}

/// C-p15: a tool that the message switched off does not run in its turn, and does in the next.
#[test]
fn a_tool_that_is_switched_off_does_not_run() {
    let mut play = Play::new();
    let mut message = tamtam::Message::user("look, do not touch").with_id("m".into());
    message.tools.insert("bash".into(), false);
    play.send_message(message, Default::default(), None).unwrap();
    play.answer_calls(&["bash"]);
    assert_eq!(play.newest(1, 40), ["c0! The tool bash is switched off in thi"]);
    play.answer_text("ok");
    play.send("now do");
    let calls = play.answer_calls(&["bash"]);
    assert_eq!(play.started(), calls);
}

// ── the step limit ──

/// B-16, C-12, B-06, B-07: the last step offers no tools and carries the reminder's flag; then the turn ends.
#[test]
fn the_last_step_offers_no_tools_and_ends_the_turn() {
    let mut play = Play::with(|settings| settings.steps_max = Some(2));
    play.send("go");
    assert!(!play.state.request().unwrap().1.last);
    let calls = play.answer_calls(&["bash"]);
    play.returned(calls[0], "ok");
    assert!(play.state.request().unwrap().1.last);
    let request = play.entries.iter().find_map(|entry| match &entry.record {
        tamtam::kernel::Record::Request(request) => Some(request.clone()),
        _ => None,
    });
    assert_eq!(request.unwrap().tools, "");
    play.answer_text("this much is done");
    assert_eq!(play.outcome(), Some(Outcome::StepLimit { steps: 2 }));
}

/// C-12: the limit is the outcome only of a turn that it ended. A model that was only spoken to, and answers, is done; and a
/// last answer that was cut, withheld or broken is that.
#[test]
fn the_last_step_ends_as_it_ends_where_the_limit_took_nothing_away() {
    let broken = Outcome::Failed { error: "the model ended its answer without saying why".into() };
    let table = [
        (Finish::Stop, Outcome::Done, Outcome::StepLimit { steps: 2 }),
        (Finish::Length, Outcome::CutShort, Outcome::CutShort),
        (Finish::ContentFilter, Outcome::Refused, Outcome::Refused),
        (Finish::Unknown, broken.clone(), broken),
    ];
    for (finish, spoken_to, at_work) in table {
        let mut play = Play::with(|settings| settings.steps_max = Some(1));
        play.send("go");
        play.answer(vec![text("said")], finish);
        assert_eq!(play.outcome(), Some(spoken_to), "{finish:?}");

        let mut play = Play::with(|settings| settings.steps_max = Some(2));
        play.send("go");
        let calls = play.answer_calls(&["bash"]);
        play.steer("hurry", Steering::FinishBatch);
        play.returned(calls[0], "ok");
        play.answer(vec![text("said")], finish);
        assert_eq!(play.outcome(), Some(at_work), "{finish:?}");
    }
}

/// C-12: calls on the last step are answered and never run.
#[test]
fn calls_on_the_last_step_are_answered_and_not_run() {
    let mut play = Play::with(|settings| settings.steps_max = Some(1));
    play.send("go");
    play.answer_calls(&["bash", "read"]);
    assert_eq!(play.started(), []);
    assert_eq!(
        play.newest(2, 42),
        ["c0! No tools can be used on the last step ", "c1! No tools can be used on the last step "]
    );
    assert_eq!(play.outcome(), Some(Outcome::StepLimit { steps: 1 }));
    // The next turn, whose history ends with their results, only answers.
    play.send("and now?");
    play.answer_text("done");
    assert_eq!(play.outcome(), Some(Outcome::Done));
}

/// C-12: steering never stretches a turn beyond its limit; it begins the next one, before what was queued.
#[test]
fn steering_during_the_last_step_goes_first_into_the_next_turn() {
    let mut play = Play::with(|settings| settings.steps_max = Some(1));
    play.send("go");
    play.send("queued");
    play.steer("steered", Steering::SkipRemaining);
    play.answer_text("a");
    assert_eq!(play.newest(2, 99), ["model: a", "user: steered"]);
    assert_eq!((play.state.turns, play.waiting().1), (1, vec!["queued".to_owned()]));
    play.answer_text("b");
    assert_eq!(play.newest(2, 99), ["model: b", "user: queued"]);
}

/// B-10, C-12: 50 by default; `None` sets no limit.
#[test]
fn a_turn_without_a_limit_goes_on() {
    let mut play = Play::with(|settings| settings.steps_max = None);
    assert_eq!(tamtam::kernel::Settings::new("/w", "a/b".parse().unwrap()).steps_max, Some(50));
    play.send("go");
    for _ in 0..60 {
        let calls = play.answer_calls(&["bash"]);
        play.returned(calls[0], "ok");
        assert!(!play.state.request().unwrap().1.last);
    }
}
