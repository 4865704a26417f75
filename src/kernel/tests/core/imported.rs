//! What a session that was brought in from a file has of it: its words, and no power.

use tamtam::{
    kernel::{Bill, Grant, Outcome, Scope},
    permission::{Action, Rule},
    session::Finish,
};

use super::{
    budget,
    fork::busy,
    play::{Play, call, rules},
    tasks,
    torn::{assert_paired, play_out},
};

/// At every entry: nothing is open, every call has one result, nothing runs by itself, and each call is asked about.
#[test]
fn what_is_brought_in_is_at_rest_paired_and_asks_before_it_does_anything() {
    let entries = busy().written();
    assert!(entries > 12);
    for at in 1..=entries {
        let mut play = busy().imported_at(at);
        assert_eq!(play.entries, [], "nothing is left to recover at {at}");
        assert!(play.is_quiet() && play.state.is_idle() && play.state.open.is_empty(), "at {at}");
        assert_eq!((play.waiting(), play.state.turn.clone()), ((vec![], vec![]), None), "at {at}");
        assert_eq!(play.state.session.as_str(), "here", "it is what it is called here");
        let settings = play.state.settings.clone();
        assert_eq!(
            (settings.workspace.as_str(), &settings.read_roots[..]),
            ("/here", &["/store/play/spill".into()][..])
        );
        assert!(settings.rules.is_empty() && settings.host.is_none());
        assert_paired(&play, at);
        let before = play.history();
        play.send("and now?");
        assert_eq!(play.history()[..before.len()], before[..]);
        play.answer(vec![call("c9", "read", "{}")], Finish::ToolCalls);
        assert_eq!(play.asks().len(), 1, "at {at}: what it was allowed in the file is asked about here");
        assert!(play.started().is_empty());
        let ask = play.asks()[0];
        play.grant(ask, Grant::Once).unwrap();
        play_out(&mut play);
        assert_eq!(play.outcome(), Some(Outcome::Done));
        // The bill and the state agree about what was lost.
        let entries = play.entries_of_the_tape();
        let billed =
            Bill::of(&entries).lines.iter().fold(Default::default(), |mut sum: tamtam::kernel::Spent, line| {
                sum += line.charge;
                sum
            });
        assert_eq!((billed.requests, billed.usage), (play.state.spent.requests, play.state.spent.usage), "at {at}");
    }
}

/// What was said stays; the calls that were open say why they have no result, and whoever waits for the turn hears its end.
#[test]
fn the_conversation_stays_and_says_what_became_of_what_was_open() {
    let play = busy();
    let (turn, written) = (play.state.turn.as_ref().unwrap().id, play.written());
    let play = play.imported_at(written);
    let history = play.history();
    assert_eq!(history[..4], ["user: first", "model: one", "user: go", "model calls read read bash read"]);
    let open = history[5..].iter().filter(|line| line.contains("brought in from a file at this point"));
    assert_eq!(open.count(), 3, "{history:#?}");
    let end = play.state.ended.back().unwrap();
    assert_eq!(end.turn, turn);
    assert!(matches!(&end.outcome, Outcome::Aborted { reason } if reason.contains("brought in from a file")));
}

/// Grants, pauses, parents and large settings of the file give nothing; an end stays an end.
#[test]
fn grants_and_wide_settings_of_the_file_give_nothing() {
    let mut play = Play::with(|settings| {
        settings.rules = vec![rules("host", &[("*", "*", Action::Ask)])];
        settings.granted = vec![Rule::new("bash", "*", Action::Allow)];
        settings.read_roots = vec!["/etc".into()];
        settings.parallel_max = 1_000;
        settings.steps_max = None;
        settings.task_depth_max = 64;
        settings.task_width_max = 5_000;
        settings.params.options = serde_json::json!({"tools": ["anything"]});
    });
    play.send("go");
    play.answer(vec![call("c0", "read", "{}")], Finish::ToolCalls);
    let ask = play.asks()[0];
    play.grant(ask, Grant::Always(Scope::Session)).unwrap();
    play.pause();
    let written = play.written();
    let play = play.imported_at(written);
    assert!(play.state.grants.is_empty() && !play.state.paused && play.state.origin.is_none());
    let settings = &play.state.settings;
    assert!(settings.granted.is_empty());
    assert_eq!((settings.parallel_max, settings.task_depth_max, settings.task_width_max), (8, 1, 8));
    assert_eq!(settings.steps_max, Some(50));
    assert!(settings.params.options.is_null() && !settings.read_roots.contains(&"/etc".into()));

    let mut play = Play::new();
    tasks::end(&mut play);
    let written = play.written();
    assert!(play.imported_at(written).state.closed.is_some());
}

/// A child of the file is nobody's child here: no session of that name is told anything, and its whole grant counts as used.
#[test]
fn a_task_of_the_file_is_over_and_its_grant_is_used() {
    let mut play = Play::with(|settings| settings.budget.session.tokens = Some(10_000));
    play.send("go");
    let (_, grant) = budget::spawn(&mut play, "somebodys", |_| {}).unwrap();
    let granted = grant.tokens.expect("it has a share");
    assert!(granted > 0);
    let written = play.written();
    let play = play.imported_at(written);
    assert!(play.is_quiet() && play.state.open.is_empty());
    assert!(play.state.left().tokens.unwrap() <= 10_000 - granted, "{:?}", play.state.left());
}
