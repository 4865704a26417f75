//! A decision is one append, but a power cut can leave a prefix of it. Whatever prefix is there, the session goes on, no call
//! runs that must not, and no pair is parted.

use tamtam::{
    kernel::{Outcome, Record, Settings, Steering},
    model::{AnswerPart, ErrorKind},
    permission::Action,
    session::Finish,
};

use super::play::{Play, call, rules};

/// Every call in the history is followed by its results, in call order, before anything else.
pub(super) fn assert_paired(play: &Play, cut: usize) {
    let mut expected: Vec<String> = Vec::new();
    for item in play.state.history.iter() {
        match item.as_ref() {
            tamtam::model::Item::Result(result) => {
                assert!(!expected.is_empty(), "an unexpected result after a cut at {cut}");
                assert_eq!(expected.remove(0), result.call.as_str(), "after a cut at {cut}");
            }
            other => {
                assert!(expected.is_empty(), "{other:?} between a call and its result after a cut at {cut}");
                if let tamtam::model::Item::Assistant(answer) = other {
                    let calls = answer.parts.iter().filter_map(|part| match part {
                        AnswerPart::Call { id, .. } => Some(id.to_string()),
                        _ => None,
                    });
                    expected = calls.collect();
                }
            }
        }
    }
}

/// Plays to its end whatever is open: calls return, asks are granted, the model stops.
pub(super) fn play_out(play: &mut Play) {
    for _ in 0..50 {
        let call = play.state.calls().next().map(|(ticket, _)| ticket);
        if play.state.on_hold || play.state.waits {
            play.go_on();
        } else if let Some(ask) = play.asks().first() {
            play.grant(*ask, tamtam::kernel::Grant::Once).unwrap();
        } else if let Some(ticket) = call {
            play.returned(ticket, "ok");
        } else if play.state.request().is_some() {
            play.answer_text("end");
        } else if play.state.due().is_some() {
            play.later(60_000);
        } else {
            break;
        }
    }
    assert!(play.state.is_idle() && play.state.open.is_empty(), "the session is stuck: {:?}", play.state.open);
}

/// Plays a scene, cuts its last decision after each of its entries in turn, recovers, and plays on to the end.
fn each_cut(scene: impl Fn() -> Play, check: impl Fn(&Play, usize)) {
    let entries = scene().entries.len();
    assert!(entries > 1, "the scene's last decision has nothing to cut");
    for cut in 0..=entries {
        let mut play = scene();
        play.crash_after(cut);
        assert_eq!(
            play.stopped(),
            [],
            "a recovery stops a worker that it would have to start first, after a cut at {cut}"
        );
        check(&play, cut);
        play_out(&mut play);
        assert_paired(&play, cut);
    }
}

fn answered(settings: impl Fn(&mut Settings), names: &[&str], finish: Finish) -> Play {
    let mut play = Play::with(settings);
    play.send("go");
    let calls = names.iter().enumerate().map(|(index, name)| call(&format!("c{index}"), name, "{}"));
    play.answer(calls.collect(), finish);
    play
}

/// Promise 2: an answer of which only some calls reached the tape gets all of them.
#[test]
fn an_answer_that_was_torn_from_its_calls_gets_them_back() {
    each_cut(|| answered(|_| {}, &["read", "nosuch", "bash", "grep"], Finish::ToolCalls), |_, _| {});
}

/// C-p6: calls that must not run do not run because a crash came between them and their answer.
#[test]
fn calls_that_must_not_run_do_not_run_after_a_torn_write() {
    for (finish, steps) in [(Finish::Length, 9), (Finish::ContentFilter, 9), (Finish::ToolCalls, 1)] {
        let scene = || answered(|settings| settings.steps_max = Some(steps), &["read", "bash"], finish);
        each_cut(scene, |play, cut| {
            let ran = play.entries.iter().any(|entry| matches!(entry.record, Record::CallStarted { .. }));
            assert!(!ran, "{finish:?} {steps} ran a call after a cut at {cut}");
        });
    }
}

/// A tool that does not exist is neither asked about nor run after a torn write.
#[test]
fn an_unknown_tool_is_never_asked_about() {
    let ask = |settings: &mut Settings| settings.rules = vec![rules("host", &[("*", "*", Action::Ask)])];
    each_cut(
        || answered(ask, &["nosuch", "nosuch"], Finish::ToolCalls),
        |play, cut| {
            assert_eq!(play.asks(), [], "after a cut at {cut}");
        },
    );
}

/// A06: an abort that was half written is carried out whole, and starts nothing on its way.
#[test]
fn a_torn_abort_is_carried_out() {
    let streaming = || {
        let mut play = Play::new();
        play.send("go");
        play.abort("enough");
        play
    };
    let running = || {
        let (mut play, _) = Play::with_calls(&["read", "grep", "bash", "write"]);
        play.abort("enough");
        play
    };
    let check = |play: &Play, cut: usize| {
        if cut > 0 {
            assert_eq!(play.outcome(), Some(Outcome::Aborted { reason: "enough".into() }), "after a cut at {cut}");
            assert_eq!(play.follows(), (vec![], vec![]), "after a cut at {cut}");
        }
    };
    each_cut(streaming, check);
    each_cut(running, check);
}

/// Steering, retries, turns that end and turns that begin: no prefix of their entries leaves the session stuck.
#[test]
fn no_torn_write_leaves_a_session_stuck() {
    each_cut(
        || {
            let (mut play, _) = Play::with_calls(&["read", "bash", "write"]);
            play.steer("no", Steering::AbortRunning);
            play
        },
        |_, _| {},
    );
    each_cut(
        || {
            let (mut play, calls) = Play::with_calls(&["bash"]);
            play.steer("hm", Steering::SkipRemaining);
            play.returned(calls[0], "ok");
            play
        },
        |_, _| {},
    );
    each_cut(
        || {
            let mut play = Play::new();
            play.send("go");
            play.failed(ErrorKind::Network);
            play
        },
        |_, _| {},
    );
    each_cut(
        || {
            let mut play = Play::new();
            play.send("go");
            play.send("next");
            play.answer_text("done");
            play
        },
        |_, _| {},
    );
    each_cut(
        || {
            let (mut play, _) = Play::with_calls(&["read", "grep", "bash"]);
            play.crash();
            play.crash();
            play.send("take it up");
            play
        },
        |_, _| {},
    );
}
