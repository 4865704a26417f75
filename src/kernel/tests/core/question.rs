//! Questions of running calls: judged first, asked durably, answered once, and over with their call.

use tamtam::{
    Seq,
    kernel::{CallState, CarriedOut, Grant, Outcome, Scope, Settings, Steering},
    permission::Action,
    session::{AskClosedWhy, Finish},
    tool::{Access, Effect, Question, QuestionAnswer},
};

use super::play::{Play, call, rules};
use crate::kernel::Record;

fn lines(settings: &mut Settings) {
    settings.rules = vec![rules(
        "host",
        &[
            ("*", "*", Action::Ask),
            ("bash", "*", Action::Allow),
            ("look", "*", Action::Allow),
            ("net", "good", Action::Allow),
            ("net", "bad", Action::Deny),
        ],
    )];
}

/// A session with one running call of that tool.
fn running(tool: &str) -> (Play, Seq) {
    let mut play = Play::with(lines);
    play.send("go");
    play.answer(vec![call("c0", tool, "{}")], Finish::ToolCalls);
    let call = play.started()[0];
    (play, call)
}

fn net(host: &str) -> Question {
    Question::about("Reach it?", [Access::new("net", host)])
}

fn opened(play: &mut Play, call: Seq, question: Question) -> Seq {
    match play.put_question(call, 1, question) {
        Ok(CarriedOut::Done(ask)) => ask,
        other => panic!("{other:?}"),
    }
}

fn answer(play: &Play, call: Seq, ask: Seq) -> Option<QuestionAnswer> {
    play.state.question_answer(call, ask)
}

/// E-10: the rules judge a question first. What they allow or deny asks nobody and writes nothing.
#[test]
fn rules_answer_a_question_before_a_person() {
    let (mut play, call) = running("bash");
    assert_eq!(play.put_question(call, 1, net("good")), Ok(CarriedOut::Answer(QuestionAnswer::Granted)));
    let denied = QuestionAnswer::Denied { by: "host (deny net bad)".into() };
    assert_eq!(play.put_question(call, 1, net("bad")), Ok(CarriedOut::Answer(denied)));
    assert_eq!((play.entries.len(), play.asks()), (0, vec![]));
    let both = Question::about("Both?", [Access::new("net", "good"), Access::new("net", "other")]);
    opened(&mut play, call, both);
    assert_eq!(play.asks().len(), 1);
    // Without an access no rule answers, whatever the rules allow.
    let mut play = Play::new();
    play.send("go");
    play.answer(vec![super::play::call("c0", "bash", "{}")], Finish::ToolCalls);
    let call = play.started()[0];
    opened(&mut play, call, Question::new("Go on?"));
}

/// E-10: a person's answer reaches the call, which runs on.
#[test]
fn a_person_answers_and_the_call_runs_on() {
    for (grant, expected) in [
        (Grant::Once, QuestionAnswer::Granted),
        (Grant::Always(Scope::Session), QuestionAnswer::Granted),
        (Grant::Reject(Some("no".into())), QuestionAnswer::Rejected { message: Some("no".into()) }),
    ] {
        let (mut play, call) = running("bash");
        let ask = opened(&mut play, call, net("x"));
        assert_eq!((answer(&play, call, ask), play.call_state(call)), (None, Some(CallState::Running)));
        play.grant(ask, grant.clone()).unwrap();
        assert_eq!(answer(&play, call, ask), Some(expected.clone()));
        assert_eq!((play.call_state(call), play.started(), play.stopped()), (Some(CallState::Running), vec![], vec![]));
        // Asked again it has the answer, and nobody is asked twice; another question is another one.
        assert_eq!(play.put_question(call, 1, net("x")), Ok(CarriedOut::Done(ask)));
        let other = opened(&mut play, call, net("y"));
        assert_ne!(other, ask);
        play.returned(call, "ok");
        assert_eq!((play.asks(), answer(&play, call, other)), (vec![], Some(QuestionAnswer::Cancelled)));
        assert_eq!(play.newest(1, 9), ["c0 ok"]);
    }
}

/// H-13: a standing grant answers questions too, and a question's grant answers calls.
#[test]
fn a_standing_grant_is_for_questions_too() {
    let (mut play, call) = running("bash");
    let (first, second) = (opened(&mut play, call, net("x")), {
        let again = Question::about("Reach it once more?", [Access::new("net", "x")]);
        opened(&mut play, call, again)
    });
    play.grant(first, Grant::Always(Scope::Session)).unwrap();
    assert_eq!(answer(&play, call, second), Some(QuestionAnswer::Granted));
    let third = Question::about("And again?", [Access::new("net", "x")]);
    assert_eq!(play.put_question(call, 1, third), Ok(CarriedOut::Answer(QuestionAnswer::Granted)));
}

/// C-06: a no without a message ends the turn, and the call with it.
#[test]
fn a_rejection_without_a_message_stops_the_call_and_ends_the_turn() {
    let (mut play, call) = running("bash");
    let ask = opened(&mut play, call, net("x"));
    play.grant(ask, Grant::Reject(None)).unwrap();
    assert_eq!((play.stopped(), play.call_state(call)), (vec![call], Some(CallState::Closing)));
    play.returned(call, "half");
    assert_eq!(play.outcome(), Some(Outcome::Rejected { tool: "bash".into() }));
}

/// H-18: nobody answers in time: the call is told so and runs on. It may ask once more.
#[test]
fn a_question_expires_and_the_call_runs_on() {
    let (mut play, call) = running("bash");
    let ask = opened(&mut play, call, net("x"));
    play.later(600_000);
    assert_eq!(answer(&play, call, ask), Some(QuestionAnswer::Expired));
    assert_eq!(play.call_state(call), Some(CallState::Running));
    assert_ne!(opened(&mut play, call, net("x")), ask);
}

/// Promise 8: where nobody listens the answer comes at once, unless the host has set that asks wait.
#[test]
fn a_question_that_reaches_nobody_is_answered_at_once() {
    let (mut play, call) = running("bash");
    play.heard = false;
    assert_eq!(play.put_question(call, 1, net("x")), Ok(CarriedOut::Answer(QuestionAnswer::Unheard)));
    play.configure(|settings| settings.asks_wait = true);
    opened(&mut play, call, net("x"));
}

/// The delivery table: what becomes of the question of a running call when a message steers.
#[test]
fn steering_withdraws_a_question_as_it_skips_a_call_that_asks() {
    for (steering, withdrawn, stopped) in [
        (Steering::SkipRemaining, true, false),
        (Steering::FinishBatch, false, false),
        (Steering::AbortRunning, true, true),
    ] {
        let (mut play, call) = running("bash");
        let ask = opened(&mut play, call, net("x"));
        play.steer("other", steering);
        assert_eq!(play.stopped(), if stopped { vec![call] } else { vec![] }, "{steering:?}");
        let expected = withdrawn.then_some(QuestionAnswer::Cancelled);
        assert_eq!(answer(&play, call, ask), expected, "{steering:?}");
        // A question that comes later meets the same message.
        let later = play.put_question(call, 1, net("y"));
        assert_eq!(later == Ok(CarriedOut::Answer(QuestionAnswer::Cancelled)), withdrawn, "{steering:?} {later:?}");
        play.returned(call, "ok");
        assert_eq!(play.asks(), []);
    }
}

/// An abort stops the call and takes its question away.
#[test]
fn an_abort_withdraws_the_question() {
    let (mut play, call) = running("bash");
    let ask = opened(&mut play, call, net("x"));
    play.abort("enough");
    assert_eq!((play.asks(), answer(&play, call, ask)), (vec![], Some(QuestionAnswer::Cancelled)));
    assert_eq!(play.put_question(call, 1, net("y")), Ok(CarriedOut::Answer(QuestionAnswer::Cancelled)));
    play.returned(call, "stopped");
    assert!(play.grant(ask, Grant::Once).is_err());
}

/// A crash keeps the question open, with the time that it had left. The call that runs again joins it, or has the answer.
#[test]
fn a_question_and_its_answer_survive_a_crash() {
    for answered_before in [false, true] {
        let (mut play, call) = running("look");
        assert_eq!(play.state.call(call).unwrap().facts.effect, Effect::Read);
        let ask = opened(&mut play, call, net("x"));
        if answered_before {
            play.grant(ask, Grant::Once).unwrap();
        }
        play.crash();
        assert_eq!(play.started(), [call]);
        // The run that is gone hears nothing.
        assert_eq!(play.put_question(call, 1, net("x")), Ok(CarriedOut::Answer(QuestionAnswer::Cancelled)));
        assert_eq!(play.put_question(call, 2, net("x")), Ok(CarriedOut::Done(ask)), "{answered_before}");
        if !answered_before {
            play.grant(ask, Grant::Once).unwrap();
        }
        assert_eq!(answer(&play, call, ask), Some(QuestionAnswer::Granted));
        // What is asked otherwise is not answered by it.
        let other = match play.put_question(call, 2, net("y")) {
            Ok(CarriedOut::Done(other)) => other,
            other => panic!("{other:?}"),
        };
        assert_ne!(other, ask);
        play.returned(call, "ok");
    }
}

/// A call that may not run again takes its question with it.
#[test]
fn a_crash_closes_the_question_of_a_call_that_never_runs_again() {
    let (mut play, call) = running("bash");
    let ask = opened(&mut play, call, net("x"));
    play.crash();
    assert_eq!((play.asks(), answer(&play, call, ask)), (vec![], Some(QuestionAnswer::Cancelled)));
}

/// Promise 11: a call has a bounded number of questions, open and in all.
#[test]
fn a_call_asks_a_bounded_number_of_questions() {
    let (mut play, call) = running("bash");
    let refused =
        |reply: &Result<CarriedOut, _>| matches!(reply, Ok(CarriedOut::Answer(QuestionAnswer::Refused { .. })));
    let open: Vec<_> = (0..8).map(|n| opened(&mut play, call, net(&format!("h{n}")))).collect();
    assert!(refused(&play.put_question(call, 1, net("h8"))));
    open.into_iter().for_each(|ask| drop(play.grant(ask, Grant::Once).unwrap()));
    for n in 8..64 {
        let ask = opened(&mut play, call, net(&format!("h{n}")));
        play.grant(ask, Grant::Once).unwrap();
    }
    assert!(refused(&play.put_question(call, 1, net("h64"))));
    assert_eq!(play.state.call(call).unwrap().answers.len(), 64);
}

/// Listeners hear of the end of a question also where an entry of its call closes it.
#[test]
fn the_end_of_a_call_shows_the_end_of_its_question() {
    let (mut play, call) = running("bash");
    let ask = opened(&mut play, call, net("x"));
    let before = play.state.clone();
    play.returned(call, "ok");
    let result = play.entries.iter().find(|entry| matches!(entry.record, Record::Result { .. })).unwrap();
    let kinds: Vec<_> = crate::event::events_of(&before, result).map(|event| event.kind).collect();
    let closed = |kind: &crate::event::EventKind| matches!(kind, crate::event::EventKind::AskClosed { ask: closed, why: Some(AskClosedWhy::Withdrawn), .. } if *closed == ask);
    assert_eq!(kinds.iter().filter(|kind| closed(kind)).count(), 1, "{kinds:?}");
}
