#![allow(clippy::unwrap_used)]
use super::*;
use crate::kernel::Settings;

fn state(limits: Limits) -> State {
    let mut settings = Settings::new("/w", "a/b".parse().unwrap());
    settings.budget.session = limits;
    State::new("s".parse().unwrap(), settings, Millis(1_000))
}

#[test]
fn a_breach_says_what_is_spent_held_and_needed() {
    let breach = Breach {
        resource: Resource::Usd,
        extent: Extent::Session,
        max: 500_000_000_000,
        used: 400_000_000_000,
        reserved: 50_000_000_000,
        needs: 70_000_000_000,
    };
    let text =
        "the session's budget of $0.5000 has too little left: $0.4000 spent, $0.0500 reserved, $0.0700 needed next";
    assert_eq!((breach.to_string().as_str(), breach.missing()), (text, 20_000_000_000));
}

#[test]
fn the_smaller_limit_of_each_thing_counts() {
    let a = Limits { tokens: Some(5), calls: Some(1), ..Limits::default() };
    let b = Limits { tokens: Some(3), tasks: Some(2), ..Limits::default() };
    assert_eq!(a.or_less(&b), Limits { tokens: Some(3), calls: Some(1), tasks: Some(2), ..Limits::default() });
    assert_eq!(a.to_string(), "5 tokens, 1 calls");
}

/// A grant is counted from when it was given, and of an older one no more is left than was.
#[test]
fn a_grant_is_counted_from_when_it_was_given() {
    let mut state = state(Limits::default());
    state.spent.calls = 7;
    state.take_grant(&Limits { calls: Some(10), ..Limits::default() });
    assert_eq!(state.left().calls, Some(10));
    state.spent.calls = 11;
    assert_eq!(state.left().calls, Some(6));
    state.take_grant(&Limits { calls: Some(100), tokens: Some(5), ..Limits::default() });
    assert_eq!(state.left(), Limits { calls: Some(6), tokens: Some(5), ..Limits::default() });
    state.spent.calls = 12;
    let (spent, lent) = state.account_for_task();
    assert_eq!((spent.calls, lent), (1, Limits::default()));
    state.close_grant();
    assert_eq!(state.left().calls, Some(0));
}

/// Time is passed on as it is; everything else is divided; what is not limited is not granted.
#[test]
fn time_is_passed_on_and_everything_else_is_divided() {
    let state = state(Limits { calls: Some(90), time_ms: Some(5_000), tasks: Some(4), ..Limits::default() });
    let none = Limits::default();
    let grant = state.grant_for(&none, &none, false).unwrap();
    let expected = Limits { calls: Some(10), time_ms: Some(5_000), tasks: Some(0), ..Limits::default() };
    assert_eq!(grant, expected);
    let asked = Limits { calls: Some(91), ..Limits::default() };
    assert_eq!(state.grant_for(&asked, &none, false).unwrap_err().needs, 91);
}
