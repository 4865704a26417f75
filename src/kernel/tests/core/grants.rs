//! Standing grants: which calls they answer, how long they hold, what they cannot do, and how they end.

use tamtam::{
    Seq,
    kernel::{
        AnswerAsk, CallState, CarriedOut, Grant, Granted, Record, Refusal, RevokeAll, RevokeGrant, Scope, Settings,
    },
    permission::{Action, Chain, Rule},
    session::Finish,
    tool::Access,
};

use super::play::{Play, call, rules};

fn ask_all(settings: &mut Settings) {
    settings.rules = vec![rules("host", &[("*", "*", Action::Ask)])];
}

fn allow(pattern: &str) -> Rule {
    Rule::new("bash", pattern, Action::Allow)
}

/// The model calls bash with this command.
fn calls(play: &mut Play, command: &str) {
    play.answer(vec![call("c0", "bash", &serde_json::json!({"at": command}).to_string())], Finish::ToolCalls);
}

/// The model calls bash, and is asked about; the call that ran without a question returned.
fn is_asked(play: &mut Play, command: &str) -> bool {
    calls(play, command);
    match play.asks()[..] {
        [ask] => {
            play.grant(ask, Grant::Reject(Some("no".into()))).unwrap();
            true
        }
        _ => {
            let calls = play.started();
            play.returned(calls[0], "ok");
            false
        }
    }
}

/// A session whose person allowed `cargo test` so, and whose call returned. The grant's id.
fn granted(grant: Grant) -> (Play, Seq) {
    let mut play = Play::with(ask_all);
    play.send("go");
    calls(&mut play, "cargo test");
    let ask = play.asks()[0];
    let Ok(CarriedOut::Done(id)) = play.grant(ask, grant) else { panic!("{:?}", play.reply) };
    let calls = play.started();
    play.returned(calls[0], "ok");
    (play, id)
}

fn revoke(play: &mut Play, grant: Seq) -> Result<CarriedOut, Refusal> {
    let reply = play.reply_to();
    play.signal(RevokeGrant { grant }.to(reply));
    play.reply.clone().unwrap()
}

/// An answer whose rules were chosen before, on a parent's tape.
fn answer_with(play: &mut Play, ask: Seq, rules: Vec<Rule>) {
    let reply = play.reply_to();
    let grant = Grant::Always(Scope::Session);
    play.signal(AnswerAsk { ask, grant, who: None, rules: Some(rules), digest: None }.to(reply));
}

/// H-13, C-05: the chosen offer is what is not asked about again, in its scope, and the tape has its rules.
#[test]
fn an_offer_is_granted_in_its_scope_and_no_further() {
    for (scope, next_turn_asks) in [(Scope::Turn, true), (Scope::Session, false), (Scope::Project, false)] {
        let (mut play, id) = granted(Grant::Offered { scope, offer: 2 });
        let [granted] = &play.state.grants[..] else { panic!() };
        assert_eq!(
            (granted.id, granted.scope, &granted.rules[..]),
            (id, scope, &[allow("cargo test"), allow("cargo test *")][..])
        );
        assert_eq!(
            (granted.allows().as_str(), granted.time),
            ("Allows `cargo test` with any arguments.", play.state.time)
        );
        assert!(!is_asked(&mut play, "cargo test --lib") && !is_asked(&mut play, "cargo test"));
        for other in ["cargo build", "cargo test; rm x", "cargo test > a", "cargo testify"] {
            assert!(is_asked(&mut play, other), "{other}");
        }
        play.answer_text("done");
        play.send("again");
        assert_eq!(is_asked(&mut play, "cargo test --lib"), next_turn_asks, "{scope:?}");
    }
    // The first offer is the very command.
    for grant in [Grant::Always(Scope::Session), Grant::Offered { scope: Scope::Session, offer: 1 }] {
        let (mut play, _) = granted(grant);
        assert!(!is_asked(&mut play, "cargo test") && is_asked(&mut play, "cargo test --lib"));
    }
}

/// C-05: an offer that is not there is refused, and the ask stays open; what cannot be offered is allowed once.
#[test]
fn an_offer_that_is_not_there_is_refused() {
    let mut play = Play::with(ask_all);
    play.send("go");
    calls(&mut play, "cargo test");
    let ask = play.asks()[0];
    for offer in [0, 3] {
        let refused = play.grant(ask, Grant::Offered { scope: Scope::Session, offer });
        assert_eq!(refused, Err(Refusal::NoSuchOffer { ask, offer, last: 2 }));
        assert_eq!((play.entries.len(), play.asks()), (0, vec![ask]));
    }
    play.grant(ask, Grant::Once).unwrap();
    let running = play.started();
    play.returned(running[0], "ok");
    for grant in [Grant::Always(Scope::Session), Grant::Offered { scope: Scope::Session, offer: 1 }] {
        calls(&mut play, "rm \u{1}");
        let ask = play.asks()[0];
        play.grant(ask, grant).unwrap();
        assert!(play.state.grants.is_empty());
        assert!(
            matches!(&play.entries[0].record, Record::Granted { grant: Grant::Once, rules, .. } if rules.is_empty())
        );
        let running = play.started();
        play.returned(running[0], "ok");
    }
}

/// C-02, C-05: a deny that comes later wins over a standing grant, whoever says it.
#[test]
fn a_deny_that_comes_later_wins() {
    let (mut play, _) = granted(Grant::Offered { scope: Scope::Session, offer: 2 });
    play.configure(|settings| {
        settings.rules = vec![rules("host", &[("*", "*", Action::Ask), ("bash", "cargo test --all*", Action::Deny)])];
    });
    calls(&mut play, "cargo test --all");
    assert_eq!(play.newest(1, 28), ["c0! Permission denied: bash "]);
    assert!(!is_asked(&mut play, "cargo test --lib"));
}

/// Promise 8, H-20: a grant answers what a rule of an ancestor asks about, and nothing that it denies.
#[test]
fn a_grant_answers_the_ask_of_an_ancestor_and_not_its_deny() {
    let above =
        |action| Chain::new("/w", vec![rules("parent", &[("*", "*", Action::Allow), ("bash", "cargo test*", action)])]);
    for action in [Action::Ask, Action::Deny] {
        let mut play = Play::new();
        play.begin_as(|state| {
            let settings = std::sync::Arc::make_mut(&mut state.settings);
            settings.rules = vec![rules("own", &[("*", "*", Action::Allow)])];
            settings.above = vec![above(action)];
            state.grants = vec![grant_of(Seq(1), &["cargo test", "cargo test *"])].into();
        });
        play.send("go");
        calls(&mut play, "cargo test --lib");
        assert_eq!((play.asks(), play.state.calls().count()), (vec![], usize::from(action == Action::Ask)));
        match action {
            Action::Ask => assert_eq!(play.call_state(play.started()[0]), Some(CallState::Running)),
            _ => assert_eq!(play.newest(1, 28), ["c0! Permission denied: bash "]),
        }
    }
}

fn grant_of(id: Seq, patterns: &[&str]) -> Granted {
    let rules = patterns.iter().map(|pattern| allow(pattern)).collect();
    Granted { id, rules, ..Granted::default() }
}

/// C-05: what people granted for longer than the session answers in each turn, within the bounds of a grant: a wildcard takes nothing
/// that is hidden and no shell syntax, a rule that does not allow grants nothing, and a deny stays.
#[test]
fn what_was_granted_for_longer_than_the_session_answers_in_each_turn() {
    let mut play = Play::with(|settings| {
        settings.rules = vec![rules("own", &[("*", "*", Action::Ask), ("bash", "rm *", Action::Deny)])];
        let edit = Rule::new("edit", "src/**", Action::Allow);
        let exact = Rule { exact: true, ..allow("echo *") };
        settings.granted = vec![allow("cargo *"), allow("rm x"), exact, edit, Rule::new("put", "*", Action::Ask)];
    });
    for turn in ["first", "second"] {
        play.send(turn);
        assert!(
            !is_asked(&mut play, "cargo test")
                && is_asked(&mut play, "cargo test; ls")
                && is_asked(&mut play, "echo a")
        );
        play.answer_text("done");
    }
    let globs = Default::default();
    let judged = |permission: &str, pattern: &str| play.state.judge(&[Access::new(permission, pattern)], &globs);
    for (permission, pattern, action) in [
        ("bash", "rm x", Action::Deny),
        ("bash", "echo *", Action::Allow),
        ("edit", "src/a.rs", Action::Allow),
        ("edit", "src/.env", Action::Ask),
        ("put", "x", Action::Ask),
    ] {
        assert_eq!(judged(permission, pattern).action, action, "{permission} {pattern}");
        let granted = play.state.settings.grants(&[Access::new(permission, pattern)], &globs);
        assert_eq!(granted, action == Action::Allow || action == Action::Deny, "{permission} {pattern}");
    }
    assert!(!play.state.settings.grants(&[], &globs));
    play.crash();
    play.send("third");
    assert!(!is_asked(&mut play, "cargo test"));
}

/// Revoked, a grant holds no more: for the next call, for one that has not started, and after a crash.
#[test]
fn a_revoked_grant_is_asked_about_again() {
    let (mut play, id) = granted(Grant::Offered { scope: Scope::Session, offer: 2 });
    assert!(!is_asked(&mut play, "cargo test --all"));
    // A call that is held up by a pause is judged anew.
    play.pause();
    calls(&mut play, "cargo test --lib");
    assert_eq!((play.started(), play.asks()), (vec![], vec![]));
    revoke(&mut play, id).unwrap();
    play.resume();
    assert_eq!((play.started(), play.asks().len()), (vec![], 1));
    let ask = play.asks()[0];
    play.grant(ask, Grant::Reject(Some("no".into()))).unwrap();
    play.crash();
    assert!(play.state.grants.is_empty() && is_asked(&mut play, "cargo test"));
    // A second revoke changes nothing and says so; so does one of what was never granted.
    for grant in [id, Seq(9_999)] {
        assert_eq!(revoke(&mut play, grant), Err(Refusal::NoSuchGrant { grant }));
        assert!(play.entries.is_empty());
    }
}

/// All grants go at once, in one append; without a grant nothing is recorded.
#[test]
fn all_grants_are_revoked_at_once() {
    let (mut play, first) = granted(Grant::Offered { scope: Scope::Session, offer: 2 });
    calls(&mut play, "make all");
    let ask = play.asks()[0];
    let Ok(CarriedOut::Done(second)) = play.grant(ask, Grant::Always(Scope::Session)) else {
        panic!("{:?}", play.reply)
    };
    let revoke_all = |play: &mut Play| {
        let reply = play.reply_to();
        play.signal(RevokeAll.to(reply));
        play.reply.clone().unwrap()
    };
    let Ok(CarriedOut::Done(last)) = revoke_all(&mut play) else { panic!("{:?}", play.reply) };
    let revoked: Vec<_> = play.entries.iter().map(|entry| (entry.seq, entry.record.clone())).collect();
    let before = Seq(last.0 - 1);
    assert_eq!(revoked, [(before, Record::Revoked { grant: first }), (last, Record::Revoked { grant: second })]);
    assert!(play.state.grants.is_empty());
    assert_eq!(revoke_all(&mut play), Ok(CarriedOut::Done(play.state.seq)));
    assert!(play.entries.is_empty());
    play.crash();
    assert!(play.state.grants.is_empty());
}

/// C-05: a grant survives the session's crash, with who gave it.
#[test]
fn a_grant_survives_a_crash_with_all_that_is_said_of_it() {
    let (mut play, id) = granted(Grant::Offered { scope: Scope::Session, offer: 2 });
    let before = play.state.grants.clone();
    play.crash();
    assert_eq!((&play.state.grants, before[0].id), (&before, id));
    assert!(!is_asked(&mut play, "cargo test --all"));
}

/// Bounded: the grant after the last one is refused, and names the limit; a delivered answer counts for its call then.
#[test]
fn a_session_has_so_many_grants_and_no_more() {
    let mut play = Play::with(ask_all);
    play.begin_as(|state| {
        ask_all(std::sync::Arc::make_mut(&mut state.settings));
        state.grants = (1..=200).map(|id| grant_of(Seq(id), &["ls"])).collect::<Vec<_>>().into();
    });
    play.send("go");
    calls(&mut play, "cargo test");
    let ask = play.asks()[0];
    assert_eq!(play.grant(ask, Grant::Always(Scope::Session)), Err(Refusal::TooManyGrants { max: 200 }));
    assert!(Refusal::TooManyGrants { max: 200 }.to_string().contains("200 standing grants"));
    assert_eq!(play.asks(), [ask]);
    answer_with(&mut play, ask, vec![allow("cargo test")]);
    let running = play.started();
    assert_eq!((running.len(), play.state.grants.len()), (1, 200));
    play.returned(running[0], "ok");
    revoke(&mut play, Seq(7)).unwrap();
    calls(&mut play, "cargo test");
    let ask = play.asks()[0];
    play.grant(ask, Grant::Always(Scope::Session)).unwrap();
    assert_eq!(play.state.grants.len(), 200);
}

/// A child takes the rules that were chosen at the topmost session, whatever it would offer itself.
#[test]
fn rules_that_were_chosen_above_are_taken_as_they_are() {
    let mut play = Play::with(ask_all);
    play.send("go");
    calls(&mut play, "cargo test");
    let ask = play.asks()[0];
    answer_with(&mut play, ask, vec![allow("cargo *")]);
    assert_eq!(play.state.grants[0].rules, [allow("cargo *")]);
    let running = play.started();
    play.returned(running[0], "ok");
    assert!(!is_asked(&mut play, "cargo build"));
}

/// A call whose other accesses a rule allows is answered by the grant of the one that was asked about.
#[test]
fn a_grant_and_a_rule_answer_a_call_together() {
    let mut play = Play::new();
    play.begin_as(|state| {
        let settings = std::sync::Arc::make_mut(&mut state.settings);
        settings.rules = vec![rules("own", &[("*", "*", Action::Ask), ("look", "*", Action::Allow)])];
        state.grants = vec![grant_of(Seq(1), &["ls"])].into();
    });
    let globs = Default::default();
    let judged = |accesses: &[Access]| play.state.judge(accesses, &globs).action;
    let (ls, look, put) = (Access::new("bash", "ls"), Access::new("look", "a"), Access::new("put", "a"));
    assert_eq!(judged(&[ls.clone(), look.clone()]), Action::Allow);
    assert_eq!(judged(&[ls.clone(), put]), Action::Ask);
    assert_eq!(play.state.judge(&[ls], &globs).layer, "granted");
    assert_eq!(judged(&[]), Action::Ask);
}
