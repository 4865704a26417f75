//! The doom loop: which calls repeat those before them, who lets them run all the same, and what ends it.

use tamtam::{
    kernel::{CallVerdict, Compact, Grant, Outcome, Record, ReplyTo, Report, ResetLoops, Scope, Settings, Steering},
    model::ModelAnswer,
    permission::Action,
    session::Finish,
    tool::Access,
};

use super::play::{Play, call, rules};

/// All is allowed but loops.
fn loops(action: Action) -> impl FnOnce(&mut Settings) {
    move |settings| settings.rules = vec![rules("test", &[("*", "*", Action::Allow), ("doom_loop", "*", action)])]
}

/// A session that was told to go, and whose rules say that about loops.
fn playing(action: Action, heard: bool) -> Play {
    let mut play = Play::with(loops(action));
    play.heard = heard;
    play.send("go");
    play
}

/// The model asks for one call each time, and each that is started returns. `x` is a call at x; `poll` and `gong` are tools.
fn calls(play: &mut Play, names: &str) {
    for name in names.split(' ') {
        let part = match name {
            "poll" | "gong" | "read" => call("c", name, "{}"),
            at => call("c", "note", &format!("{{\"at\":\"{at}\"}}")),
        };
        play.answer(vec![part], Finish::ToolCalls);
        all_return(play);
    }
}

/// The calls that were started return.
fn all_return(play: &mut Play) {
    for ticket in play.started() {
        if play.call_state(ticket).is_some() {
            play.returned(ticket, "ok");
        }
    }
}

/// How each call of the tape was judged: `+` ran, `!` was refused as a repetition, `-` anything else.
fn judged(play: &Play) -> String {
    let results = play.entries_of_the_tape().into_iter().filter_map(|entry| match entry.record {
        Record::Result { judged: CallVerdict::Allowed, .. } => Some('+'),
        Record::Result { judged: CallVerdict::Repeats, .. } => Some('!'),
        Record::Result { .. } => Some('-'),
        _ => None,
    });
    results.collect()
}

fn ended(play: &Play) -> bool {
    play.outcome() == Some(Outcome::DoomLoop { tool: "note".into() })
}

/// D-03, I-01, I-03, I-07, C-09: three equal calls in a row, and cycles of two to four calls. Where nobody can be asked the call is
/// answered with an error for the model; the next one ends the turn.
#[test]
fn a_call_that_repeats_is_refused_and_then_ends_the_turn() {
    for (names, expected, ends) in [
        ("a a", "++", false),
        ("a a a", "++!", false),
        ("a a a a", "++!!", true),
        ("a a b a a", "+++++", false),
        ("a a a b a a a", "++!+++!", false),
        ("a a a b a a a a", "++!+++!!", true),
        ("a b a b a", "+++++", false),
        ("a b a b a b", "+++++!", false),
        ("a b a b a b a", "+++++!!", true),
        ("a b a b a b c a", "+++++!++", false),
        ("a b c a b c a b c", "++++++++!", false),
        ("a b c d a b c d a b c d", "+++++++++++!", false),
        ("a b c d a b c d a b c d a", "+++++++++++!!", true),
        ("a b c d e a b c d e a b c d e", "+++++++++++++++", false),
        ("a a b a a b a a b", "++++++++!", false),
        ("b a a b a a a", "++++++!", false),
        ("x a b x a b a b a b", "+++++++++!", false),
    ] {
        for action in [Action::Ask, Action::Deny] {
            let mut play = playing(action, false);
            calls(&mut play, names);
            assert_eq!((judged(&play).as_str(), ended(&play)), (expected, ends), "{names}");
        }
    }
}

/// C-09, ASK-30: a call that polls is none, and ends a row. One of a tool that there is not counts like any other.
#[test]
fn polling_is_no_loop() {
    for (names, expected) in [
        ("poll poll poll poll poll", "+++++"),
        ("a poll a poll a poll a poll", "++++++++"),
        ("a a poll a a poll a a a", "++++++++!"),
        ("gong gong gong gong", "--!!"),
        ("a a gong a a", "++-++"),
    ] {
        let mut play = playing(Action::Deny, false);
        calls(&mut play, names);
        assert_eq!(judged(&play), expected, "{names}");
    }
}

/// A call that can never run (no such tool, no JSON, not among the agent's tools, cut off) is a call like any other: three rounds of
/// it are a loop, and it resets no other loop. Nobody is asked, because a yes could not make it run.
#[test]
fn a_call_that_can_never_run_is_a_call_for_the_guard() {
    let played = |action, heard, answers: &[(&str, &str)], finish| {
        let mut play = playing(action, heard);
        play.configure(|settings| settings.tools = Some(["note".to_owned(), "gong".to_owned()].into()));
        for (tool, input) in answers {
            play.answer(vec![call("c", tool, input)], finish);
            all_return(&mut play);
        }
        assert_eq!(play.asks(), [], "nobody is asked");
        let ends = matches!(play.outcome(), Some(Outcome::DoomLoop { .. }));
        (judged(&play), ends)
    };
    for (unusable, finish) in [
        ([("gong", r#"{"a":1}"#); 4], Finish::ToolCalls),
        ([("gong", "{\"a"); 4], Finish::ToolCalls),
        ([("note", r#"{"at":"#); 4], Finish::ToolCalls),
        ([("note", "[1]"); 4], Finish::ToolCalls),
        ([("read", "{}"); 4], Finish::ToolCalls),
        ([("note", "{\"at\":1}"), ("note", "{\"at\":\"1"), ("note", "{"), ("note", "{\"at\":\"12")], Finish::Length),
    ] {
        for (action, heard) in [(Action::Deny, false), (Action::Ask, false), (Action::Ask, true)] {
            assert_eq!(played(action, heard, &unusable, finish), ("--!!".to_owned(), true), "{unusable:?}");
        }
        assert_eq!(played(Action::Allow, false, &unusable, finish), ("----".to_owned(), false), "{unusable:?}");
    }
    // It resets nothing: three rounds of a call that runs and of one that cannot are a loop.
    let rounds = [("note", "{}"), ("gong", "{}"), ("note", "{}"), ("gong", "{}"), ("note", "{}"), ("gong", "{}")];
    assert_eq!(played(Action::Deny, false, &rounds, Finish::ToolCalls).0, "+-+-+!");
    // Other texts are other calls.
    let others = [("gong", "{\"a"), ("gong", "{\"b"), ("gong", "{\"a"), ("gong", "{\"c")];
    assert_eq!(played(Action::Deny, false, &others, Finish::ToolCalls), ("----".to_owned(), false));
}

/// The model is told both: why the call cannot run, and that it repeats it.
#[test]
fn a_repeated_call_that_cannot_run_is_told_both() {
    let mut play = playing(Action::Deny, false);
    calls(&mut play, "gong gong gong");
    let told = play.history().pop().unwrap();
    for words in ["tool not found: gong", "for the third time in a row", "If the next answer repeats it"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

/// I-04: the same arguments are the same however they are written; other arguments or another tool are not.
#[test]
fn equal_arguments_are_equal_in_any_order() {
    let played = |inputs: [(&str, &str); 3]| {
        let mut play = playing(Action::Deny, false);
        for (tool, input) in inputs {
            play.answer(vec![call("c", tool, input)], Finish::ToolCalls);
            all_return(&mut play);
        }
        judged(&play)
    };
    let swapped = ("note", r#"{"b":{"y":[1,2],"x":2},"a":1}"#);
    assert_eq!(played([("note", r#"{"a":1,"b":{"x":2,"y":[1,2]}}"#), swapped, ("note", swapped.1)]), "++!");
    assert_eq!(played([("note", r#"{"a":1}"#), ("note", "{\"a\":1}\n"), ("note", r#"{"a":2}"#)]), "+++");
    assert_eq!(played([("note", r#"{"a":[1,2]}"#), ("note", r#"{"a":[2,1]}"#), ("note", r#"{"a":[1,2]}"#)]), "+++");
    assert_eq!(played([("note", ""), ("note", "{}"), ("note", "null")]), "++!");
    assert_eq!(played([("note", "{}"), ("note", "{}"), ("put", "{}")]), "+++");
}

/// Q-03, H-21: a person is asked for the permission `doom_loop` of the tool, beside what the call wants; once is for one call, always
/// for all that follow, and a no is a no as for every call.
#[test]
fn a_person_is_asked_whether_it_goes_on() {
    let asked = || {
        let mut play = playing(Action::Ask, true);
        calls(&mut play, "a a a");
        let ask = play.asks()[0];
        (play, ask)
    };
    let (mut play, ask) = asked();
    let wants = play.state.asks().next().unwrap().1.access.clone();
    assert_eq!(wants, [Access::new("note", "a"), Access::new("doom_loop", "note")]);
    play.grant(ask, Grant::Once).unwrap();
    let ticket = play.started()[0];
    play.returned(ticket, "ok");
    calls(&mut play, "a");
    assert_eq!((judged(&play).as_str(), play.asks().len()), ("+++", 1), "once is for one call");

    let (mut play, ask) = asked();
    play.grant(ask, Grant::Always(Scope::Turn)).unwrap();
    let ticket = play.started()[0];
    play.returned(ticket, "ok");
    calls(&mut play, "a a a");
    assert_eq!((judged(&play).as_str(), play.asks().len()), ("++++++", 0));

    let (mut play, ask) = asked();
    play.grant(ask, Grant::Reject(Some("try b".into()))).unwrap();
    calls(&mut play, "b a a");
    assert_eq!((judged(&play).as_str(), play.asks().len()), ("++-+++", 0), "it went another way");
    calls(&mut play, "a");
    let ask = play.asks()[0];
    play.grant(ask, Grant::Reject(Some("no".into()))).unwrap();
    calls(&mut play, "a");
    assert_eq!((judged(&play).as_str(), ended(&play)), ("++-+++-!", true), "a loop is refused once");

    let (mut play, ask) = asked();
    play.grant(ask, Grant::Reject(None)).unwrap();
    assert_eq!(play.outcome(), Some(Outcome::Rejected { tool: "note".into() }));
}

/// An ask about a loop that nobody answers in time refuses the loop, so a listener that only looks on does not let a loop go on for as
/// many time limits as there are steps.
#[test]
fn an_ask_about_a_loop_that_nobody_answers_is_a_refusal() {
    let mut play = playing(Action::Ask, true);
    calls(&mut play, "a a a");
    play.later(600_000);
    assert_eq!((judged(&play).as_str(), ended(&play)), ("++-", false));
    calls(&mut play, "a");
    assert_eq!((judged(&play).as_str(), ended(&play)), ("++-!", true));
    // Asks about something else end no turn.
    let mut play = Play::with(|settings| settings.rules = vec![rules("test", &[("doom_loop", "*", Action::Allow)])]);
    play.heard = true;
    play.send("go");
    for _ in 0..5 {
        calls(&mut play, "a");
        play.later(600_000);
    }
    assert_eq!(judged(&play), "-----");
}

/// A call that a person let run begins also if the person has left meanwhile; a rule that denies loops is above every grant.
#[test]
fn a_grant_for_a_loop_holds_and_a_deny_is_above_it() {
    for (action, expected) in [(Action::Ask, "+++"), (Action::Deny, "++!")] {
        let mut play = playing(Action::Ask, true);
        calls(&mut play, "a a a");
        play.pause();
        let ask = play.asks()[0];
        play.grant(ask, Grant::Once).unwrap();
        play.configure(loops(action));
        play.heard = false;
        play.resume();
        all_return(&mut play);
        assert_eq!(judged(&play), expected, "{action:?}");
    }
}

/// A rule that allows loops allows them without end.
#[test]
fn a_rule_may_allow_loops() {
    let mut play = playing(Action::Allow, false);
    calls(&mut play, "a a a a a a a a a a a a a a a a a a a a");
    assert_eq!(judged(&play), "+".repeat(20));
}

/// E-11: the guard comes first, so a call that is denied again and again ends the turn too.
#[test]
fn a_denied_call_that_repeats_ends_the_turn() {
    let mut play = Play::with(|settings| {
        settings.rules = vec![rules(
            "test",
            &[("*", "*", Action::Allow), ("note", "a", Action::Deny), ("doom_loop", "*", Action::Deny)],
        )];
    });
    play.send("go");
    calls(&mut play, "a a a a");
    assert_eq!((judged(&play).as_str(), ended(&play)), ("--!!", true));
    assert_eq!(play.newest(3, 20)[0], "c! Not run: this is ");
}

/// I-03: the calls of one answer count too. The model hears of all of them before the turn ends, and what else it asked for runs.
#[test]
fn repetitions_within_one_answer_end_no_turn() {
    let mut play = playing(Action::Deny, false);
    let a = |id: &str| call(id, "note", "{\"at\":\"a\"}");
    play.answer(vec![a("c0"), a("c1"), a("c2"), a("c3"), call("c4", "read", "{}")], Finish::ToolCalls);
    all_return(&mut play);
    assert_eq!(judged(&play), "!!+++", "the read is another call");
    assert!(play.state.request().is_some(), "the model is told");
    play.answer(vec![a("c0"), a("c1"), a("c2")], Finish::ToolCalls);
    assert!(!ended(&play), "the read was in between");
    all_return(&mut play);
    play.answer(vec![a("c0"), a("c1"), call("c2", "read", "{}")], Finish::ToolCalls);
    assert!(ended(&play));
    let newest = play.newest(3, 36);
    assert_eq!(newest[0], "c0! Not run: this is the same call o");
    assert_eq!(
        newest[1..],
        ["c1! Not run: the calls of note repeat", "c2! Not run: the calls of note repeat"].map(|line| &line[..36])
    );
}

/// I-02, I-05, C-09: a message begins anew, and so does the host (I-06). A queue waits behind a turn that a loop ended.
#[test]
fn a_message_and_a_reset_begin_anew() {
    let mut play = playing(Action::Deny, false);
    calls(&mut play, "a");
    play.answer(vec![call("c", "note", "{\"at\":\"a\"}")], Finish::ToolCalls);
    play.steer("look elsewhere", Steering::FinishBatch);
    all_return(&mut play);
    let open: Vec<_> = play.state.calls().map(|(ticket, _)| ticket).collect();
    for ticket in open {
        play.returned(ticket, "ok");
    }
    calls(&mut play, "a a");
    assert_eq!(judged(&play), "++++");
    play.signal(ResetLoops.to(ReplyTo(9)));
    assert!(matches!(play.entries[0].record, Record::LoopsReset {}));
    play.signal(ResetLoops.to(ReplyTo(9)));
    assert!(play.entries.is_empty(), "there is nothing to reset");
    calls(&mut play, "a a a");
    assert_eq!(judged(&play), "++++++!");
    play.signal(ResetLoops.to(ReplyTo(9)));
    calls(&mut play, "a a a");
    assert_eq!((judged(&play).as_str(), ended(&play)), ("++++++!++!", false));
    play.send("and then");
    calls(&mut play, "a");
    assert!(ended(&play) && play.state.on_hold);
    play.go_on();
    calls(&mut play, "a a");
    assert_eq!(judged(&play), "++++++!++!!++");
}

/// Promise 4: neither a crash nor a compaction in the middle of a row forgets it.
#[test]
fn a_row_of_calls_survives_a_crash_and_a_compaction() {
    let mut play = playing(Action::Deny, false);
    calls(&mut play, "a");
    play.crash();
    calls(&mut play, "a");
    play.signal(Compact.to(ReplyTo(9)));
    if let Some((ticket, _)) = play.state.compaction() {
        play.signal(Report::Summarised { result: Ok(("sum".into(), Default::default())), lost: 0 }.of(ticket));
    }
    calls(&mut play, "a");
    play.crash();
    assert_eq!(judged(&play), "++!");
    calls(&mut play, "a");
    assert!(ended(&play));
}

/// Calls without a key repeat nothing: those of a tool that polls.
#[test]
fn calls_without_a_key_are_no_loop() {
    let mut play = playing(Action::Deny, false);
    for _ in 0..5 {
        let ticket = play.request();
        let answer = ModelAnswer::new(vec![call("c", "note", "{}")], Finish::ToolCalls);
        let mut facts = play.toolbox.facts("note", "{}");
        facts.loop_key = None;
        play.signal(Report::Answered { answer, calls: vec![facts] }.of(ticket));
        all_return(&mut play);
    }
    assert_eq!(judged(&play), "+++++");
}
