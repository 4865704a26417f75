//! May a call run? Allowed, denied, asked; what a person may answer; who answers where nobody listens.

use tamtam::{
    Seq,
    kernel::{CallState, Grant, Outcome, Refusal, Scope, Settings},
    permission::Action,
    session::Finish,
};

use super::play::{Play, call, rules};

fn ask_all(settings: &mut Settings) {
    settings.rules = vec![rules(
        "host",
        &[("*", "*", Action::Ask), ("look", "*", Action::Allow), ("doom_loop", "*", Action::Allow)],
    )];
}

/// A session that asks, and whose model called that tool at that place.
fn asked(at: &str) -> (Play, Seq) {
    let mut play = Play::with(ask_all);
    play.send("go");
    calls_at(&mut play, at);
    let ask = play.asks()[0];
    (play, ask)
}

fn calls_at(play: &mut Play, at: &str) {
    play.answer(vec![call("c0", "bash", &format!("{{\"at\":\"{at}\"}}"))], Finish::ToolCalls);
}

/// H-02: an allowed call runs without a question, a denied one is answered.
#[test]
fn rules_allow_and_deny_without_a_question() {
    let mut play = Play::with(|settings| {
        settings.rules = vec![rules("host", &[("*", "*", Action::Allow), ("write", "*", Action::Deny)])];
    });
    play.send("go");
    let calls = play.answer_calls(&["write", "bash"]);
    assert_eq!((play.started(), play.asks()), (vec![calls[1]], vec![]));
    play.returned(calls[1], "ok");
    assert_eq!(play.newest(2, 99), ["c0! Permission denied: write * by host (deny write *).", "c1 ok"]);
}

/// H-14, C-06: once is for this call only.
#[test]
fn a_grant_for_once_is_for_one_call() {
    let (mut play, ask) = asked("a");
    assert_eq!(play.started(), []);
    play.grant(ask, Grant::Once).unwrap();
    let calls = play.started();
    play.returned(calls[0], "ok");
    calls_at(&mut play, "a");
    assert_eq!(play.asks().len(), 1);
}

/// H-13, C-05: always holds for the same wish in its scope, and for no other.
#[test]
fn a_grant_for_always_holds_for_the_same_wish_in_its_scope() {
    for (scope, next_turn_asks) in [(Scope::Session, false), (Scope::Turn, true)] {
        let (mut play, ask) = asked("a");
        play.grant(ask, Grant::Always(scope)).unwrap();
        for _ in 0..2 {
            let calls = play.started();
            assert_eq!((calls.len(), play.asks()), (1, vec![]), "{scope:?}");
            play.returned(calls[0], "ok");
            calls_at(&mut play, "a");
        }
        let calls = play.started();
        play.returned(calls[0], "ok");
        calls_at(&mut play, "elsewhere");
        let ask = play.asks()[0];
        play.grant(ask, Grant::Reject(Some("not there".into()))).unwrap();
        play.answer_text("done");
        play.send("again");
        calls_at(&mut play, "a");
        assert_eq!(!play.asks().is_empty(), next_turn_asks, "{scope:?}");
    }
}

/// H-13: what was granted for always is not asked a second time of calls that ask already; what was not, stays open.
#[test]
fn a_grant_for_always_answers_all_who_ask_for_the_same() {
    let mut play = Play::with(ask_all);
    play.send("go");
    let at = |id: &str, at: &str| call(id, "note", &format!("{{\"at\":\"{at}\"}}"));
    play.answer(vec![at("c0", "a"), at("c1", "b"), at("c2", "a"), at("c3", "a")], Finish::ToolCalls);
    let (asks, calls) = (play.asks(), play.state.calls().map(|(ticket, _)| ticket).collect::<Vec<_>>());
    play.grant(asks[0], Grant::Always(Scope::Turn)).unwrap();
    assert_eq!((play.asks(), play.started()), (vec![asks[1]], vec![calls[0], calls[2], calls[3]]));
    let refused = play.grant(asks[2], Grant::Reject(None));
    assert_eq!(refused, Err(Refusal::AskClosed { ask: asks[2] }));
    // Once is for one call, and releases no other.
    let mut play = Play::with(ask_all);
    play.send("go");
    play.answer(vec![at("c0", "a"), at("c1", "a")], Finish::ToolCalls);
    let asks = play.asks();
    play.grant(asks[0], Grant::Once).unwrap();
    assert_eq!(play.asks(), [asks[1]]);
}

/// C-05: a session's grants survive a crash with it.
#[test]
fn grants_are_on_the_tape() {
    let (mut play, ask) = asked("a");
    play.grant(ask, Grant::Always(Scope::Session)).unwrap();
    play.crash();
    calls_at(&mut play, "a");
    assert_eq!((play.started().len(), play.asks()), (1, vec![]));
}

/// C-02, C-05, promise 8: no grant undoes a deny, neither one given before nor one given for the very call.
#[test]
fn a_deny_beats_every_grant() {
    let deny = |settings: &mut Settings| {
        settings.rules = vec![rules("host", &[("*", "*", Action::Ask), ("bash", "*", Action::Deny)])];
    };
    let (mut play, ask) = asked("a");
    play.grant(ask, Grant::Always(Scope::Session)).unwrap();
    let calls = play.started();
    play.returned(calls[0], "ok");
    play.configure(deny);
    calls_at(&mut play, "a");
    assert_eq!(play.newest(1, 28), ["c0! Permission denied: bash "]);

    // Allowed by a person, but held up by a pause while the host forbids it.
    let (mut play, ask) = asked("a");
    play.pause();
    play.grant(ask, Grant::Once).unwrap();
    play.configure(deny);
    play.resume();
    assert_eq!(play.newest(1, 28), ["c0! Permission denied: bash "]);
}

/// H-16, C-06: a rejection with words goes to the model, and the turn goes on.
#[test]
fn a_rejection_with_words_goes_to_the_model() {
    let (mut play, ask) = asked("a");
    play.grant(ask, Grant::Reject(Some("use the other disk".into()))).unwrap();
    assert_eq!(play.newest(1, 99), ["c0! This call was rejected: use the other disk"]);
    assert_eq!(play.started(), [play.request()]);
}

/// C-06: a rejection without words ends the turn, rejects every other open ask, and stops what runs.
#[test]
fn a_rejection_without_words_halts_the_turn() {
    let mut play = Play::with(|settings| {
        settings.rules = vec![rules("host", &[("*", "*", Action::Ask), ("read", "*", Action::Allow)])];
    });
    play.send("go");
    play.send("queued");
    let calls = play.answer_calls(&["read", "grep", "put", "bash"]);
    let asks = play.asks();
    assert_eq!((play.started(), asks.len()), (vec![calls[0]], 2));
    play.grant(asks[0], Grant::Reject(None)).unwrap();
    assert_eq!((play.stopped(), play.asks()), (vec![calls[0]], vec![]));
    play.returned(calls[0], "half");
    assert_eq!(
        play.newest(4, 99),
        [
            "c0! half",
            "c1! The user rejected this call.",
            "c2! Not run: the user rejected the call of grep.",
            "c3! Not run: the user rejected the call of grep."
        ]
    );
    assert_eq!(play.outcome(), Some(Outcome::Rejected { tool: "grep".into() }));
    assert!(play.state.on_hold && play.started().is_empty());
}

/// Promise 8: where nobody listens a question is a no, at once.
#[test]
fn where_nobody_listens_an_ask_is_denied_at_once() {
    let mut play = Play::with(ask_all);
    play.heard = false;
    play.send("go");
    play.answer_calls(&["bash"]);
    assert_eq!(play.newest(1, 44), ["c0! Permission denied: bash * must be asked "]);
    assert_eq!(play.started(), [play.request()]);
}

/// A host may set that asks wait for a listener who comes later: then the ask is open until its limit, and says so.
#[test]
fn an_ask_may_wait_for_a_listener_who_comes_later() {
    let mut play = Play::with(|settings| {
        ask_all(settings);
        settings.asks_wait = true;
        settings.ask_limit_ms = 1_000;
    });
    play.heard = false;
    play.send("go");
    let call = play.answer_calls(&["bash"])[0];
    assert_eq!((play.asks().len(), play.started()), (1, vec![]));
    play.heard = true;
    play.grant(play.asks()[0], Grant::Once).unwrap();
    assert_eq!(play.started(), [call]);
    play.returned(call, "ok");
    play.heard = false;
    play.answer_calls(&["bash"]);
    play.later(1_000);
    assert_eq!(play.newest(1, 60), ["c0! Permission denied: nobody answered the question in time."]);
}

/// Promise 8, C-33: an ask is denied by itself at its limit, which it names.
#[test]
fn an_ask_is_denied_at_its_limit() {
    let mut play = Play::with(|settings| {
        ask_all(settings);
        settings.ask_limit_ms = 1_000;
    });
    play.send("go");
    play.answer_calls(&["bash"]);
    let ask = play.asks()[0];
    assert_eq!(play.state.due(), Some(play.state.time.plus(std::time::Duration::from_secs(1))));
    play.later(999);
    assert_eq!(play.asks(), [ask]);
    play.later(1);
    assert_eq!(play.grant(ask, Grant::Once), Err(Refusal::AskClosed { ask }));
    assert_eq!(play.newest(1, 60), ["c0! Permission denied: nobody answered the question in time."]);
    assert_eq!(play.request(), play.request());
}

/// An ask is answered once: the second answer is told that it came too late.
#[test]
fn an_ask_is_answered_once() {
    let (mut play, ask) = asked("a");
    play.grant(ask, Grant::Once).unwrap();
    assert_eq!(play.grant(ask, Grant::Reject(None)), Err(Refusal::AskClosed { ask }));
    assert_eq!(play.grant(Seq(999), Grant::Once), Err(Refusal::AskClosed { ask: Seq(999) }));
    assert!(play.entries.is_empty());
}

/// C-04: a tool that says that it wants nothing is asked about all the same, under rules that ask.
#[test]
fn a_tool_that_names_no_access_is_no_way_round_the_rules() {
    let mut play = Play::with(ask_all);
    play.send("go");
    let calls = play.answer_calls(&["free"]);
    assert_eq!((play.started(), play.asks().len()), (vec![], 1));
    let ask = play.asks()[0];
    play.grant(ask, Grant::Always(Scope::Session)).unwrap();
    assert_eq!(play.started(), calls);
    play.returned(calls[0], "ok");
    // Nothing that could be granted was named, so the next one is asked about again.
    play.answer_calls(&["free"]);
    assert_eq!((play.started(), play.asks().len()), (vec![], 1));
}

/// A barrier that is asked about holds up what is after it; a parallel call that is asked about does not.
#[test]
fn an_open_ask_holds_up_what_must_come_after_it_and_nothing_else() {
    let mut play = Play::with(ask_all);
    play.send("go");
    let calls = play.answer_calls(&["bash", "look"]);
    assert_eq!((play.asks().len(), play.started()), (1, vec![]));
    assert_eq!(play.call_state(calls[1]), Some(CallState::Pending));

    let mut play = Play::with(|settings| {
        settings.rules = vec![rules("host", &[("*", "*", Action::Allow), ("grep", "*", Action::Ask)])];
    });
    play.send("go");
    let calls = play.answer_calls(&["grep", "read", "bash"]);
    assert_eq!((play.asks().len(), play.started()), (1, vec![calls[1]]));
    play.returned(calls[1], "ok");
    assert_eq!(play.started(), []);
    let ask = play.asks()[0];
    play.grant(ask, Grant::Once).unwrap();
    assert_eq!(play.started(), [calls[0]]);
    play.returned(calls[0], "ok");
    assert_eq!(play.started(), [calls[2]]);
}

/// C-15: a call that was asked about while later ones started waits for room like any other. Found by the simulator.
#[test]
fn a_granted_call_waits_for_room() {
    let mut play = Play::with(|settings| {
        settings.parallel_max = 1;
        settings.rules = vec![rules("host", &[("*", "*", Action::Allow), ("note", "*", Action::Ask)])];
    });
    play.send("go");
    let calls = play.answer_calls(&["note", "read"]);
    let ask = play.asks()[0];
    assert_eq!(play.started(), [calls[1]]);
    play.grant(ask, Grant::Once).unwrap();
    assert_eq!((play.started(), play.call_state(calls[0])), (vec![], Some(CallState::Allowed)));
    play.returned(calls[1], "ok");
    assert_eq!(play.started(), [calls[0]]);
}
