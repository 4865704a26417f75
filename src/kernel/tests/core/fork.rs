//! What a fork has of the session that it goes on from: at every entry of every scene.

use tamtam::{
    kernel::{Delivery, Grant, Outcome, Scope, Steering},
    model::Item,
    permission::{Action, Rule},
    session::Finish,
};

use super::{
    play::{Play, call, rules},
    torn::{assert_paired, play_out},
};

/// Calls of all states, a finished one, messages that wait, an ask.
pub(super) fn busy() -> Play {
    let mut play = Play::with(|settings| {
        let rows = [("*", "*", Action::Allow), ("bash", "*", Action::Ask)];
        settings.rules = vec![rules("host", &rows)];
    });
    play.send("first");
    play.answer_text("one");
    play.send("go");
    play.answer_calls(&["read", "read", "bash", "read"]);
    play.send("later");
    let running = play.started();
    if let Some(call) = running.first() {
        play.returned(*call, "read");
    }
    play.steer("look here", Steering::FinishBatch);
    play
}

/// At every entry: nothing is open, every call has one result, nothing of the parent's runs here, and it goes on.
#[test]
fn a_fork_at_any_entry_is_at_rest_paired_and_goes_on() {
    let entries = busy().written();
    assert!(entries > 12);
    for at in 1..=entries {
        let mut fork = busy().fork_at(at);
        assert_eq!(fork.entries, [], "nothing is left to recover at {at}");
        assert!(fork.is_quiet() && fork.state.is_idle() && fork.state.open.is_empty());
        assert_eq!((fork.waiting(), fork.state.turn.clone()), ((vec![], vec![]), None), "at {at}");
        assert_eq!(fork.state.session.as_str(), "fork");
        assert_eq!((fork.state.usage, fork.state.turns), (Default::default(), 0));
        assert_paired(&fork, at);
        let before = fork.history();
        fork.send("and now?");
        assert_eq!(fork.history()[..before.len()], before[..]);
        assert_eq!(fork.newest(1, 80), ["user: and now?"]);
        fork.answer_text("this");
        play_out(&mut fork);
        assert_eq!(fork.outcome(), Some(Outcome::Done));
    }
}

/// What was said and done before is the same; only the calls that were open say where their results are.
#[test]
fn a_fork_keeps_the_conversation_and_says_what_became_of_open_calls() {
    let play = busy();
    let (settings, written) = (play.state.settings.clone(), play.written());
    let fork = play.fork_at(written);
    let history = fork.history();
    assert_eq!(history[..4], ["user: first", "model: one", "user: go", "model calls read read bash read"]);
    assert_eq!(history.len(), 8, "{history:#?}");
    assert!(history[5..].iter().any(|line| line.contains("was running, and what came of it is not known here")));
    assert!(history[5..].iter().any(|line| line.contains("had not begun, and does not run here")));
    let mut expected = (*settings).clone();
    expected.read_roots.push("/store/fork/spill".into());
    assert_eq!(*fork.state.settings, expected);
}

/// A message that waits there was not said here: the same id is taken anew. One that was said stays said.
#[test]
fn a_message_that_waits_at_the_fork_is_the_parents_and_one_that_was_said_is_both() {
    let play = busy();
    let written = play.written();
    let mut fork = play.fork_at(written);
    let said = fork.state.history.len();
    fork.send_as("go", Delivery::Queue).unwrap();
    assert_eq!(fork.state.history.len(), said, "it is in the history already");
    fork.send_as("later", Delivery::Queue).unwrap();
    assert_eq!(fork.newest(1, 80), ["user: later"]);
    assert!(matches!(fork.state.history.last().unwrap().as_ref(), Item::User(_)));
}

/// A turn that was cut off by the fork has an outcome, so that nobody waits for it.
#[test]
fn a_turn_that_was_open_at_the_fork_ended_here() {
    let play = busy();
    let (turn, written) = (play.state.turn.as_ref().unwrap().id, play.written());
    let fork = play.fork_at(written);
    let end = fork.state.ended.back().unwrap();
    assert_eq!(end.turn, turn);
    assert_eq!(end.outcome, Outcome::Aborted { reason: "it goes on in session play".into() });
}

/// A grant "for this session" is for that one; pauses, ends and holds are too.
#[test]
fn grants_pauses_and_the_end_stay_with_the_parent() {
    let mut play = Play::with(|settings| {
        settings.rules = vec![rules("host", &[("*", "*", Action::Ask)])];
        settings.granted = vec![Rule::new("edit", "a", Action::Allow)];
    });
    play.send("go");
    play.answer(vec![call("c0", "read", "{}")], Finish::ToolCalls);
    let ask = play.asks()[0];
    play.grant(ask, Grant::Always(Scope::Session)).unwrap();
    assert!(!play.state.grants.is_empty() && !play.state.settings.granted.is_empty());
    play.pause();
    let written = play.written();
    let mut fork = play.fork_at(written);
    assert!(fork.state.grants.is_empty() && !fork.state.paused && fork.state.closed.is_none());
    assert!(fork.state.settings.granted.is_empty());
    fork.send("again");
    fork.answer(vec![call("c1", "read", "{}")], Finish::ToolCalls);
    assert_eq!(fork.asks().len(), 1, "it asks again");
}
