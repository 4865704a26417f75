//! What hooks make of a request and of a call, as the core records it.

use tamtam::{
    kernel::{CallState, Gated, Prepared, Record, Report, TurnAdded},
    permission::Action,
};

use super::play::{Play, rules};

fn records<T>(play: &Play, of: impl Fn(Record) -> Option<T>) -> Vec<T> {
    play.entries_of_the_tape().into_iter().filter_map(|entry| of(entry.record)).collect()
}

/// What hooks add to a request is recorded before the request is sent, and stands in its conversation from then on.
#[test]
fn what_hooks_make_of_a_request_is_recorded_first() {
    let mut play = Play::new();
    play.send("go");
    let ticket = play.request();
    let turn = TurnAdded { system: "be brief".into(), messages: vec!["it is late".into()] };
    let prepared = Prepared { turn: Some(turn), reminders: vec!["look twice".into()], ..Prepared::default() };
    play.signal(Report::Prepared { prepared: Box::new(prepared) }.of(ticket));
    assert_eq!(play.request(), ticket, "the same ticket, to be sent");
    let recorded = records(&play, |record| match record {
        Record::Prepared(prepared) => Some(prepared.reminders.clone()),
        _ => None,
    });
    assert_eq!(recorded, [["look twice"]]);
    assert_eq!(play.history(), ["user: go", "user: it is late"]);
    play.answer_text("done");
    assert!(play.outcome().is_some());
}

/// A call that a hook wants a person to see is asked about although the rules allow it, and runs when the person allows it.
#[test]
fn a_call_that_a_hook_asks_about_waits_for_a_person() {
    let mut play = Play::with(|settings| settings.rules = vec![rules("host", &[("*", "*", Action::Allow)])]);
    play.send("go");
    let calls = play.answer_calls(&["bash"]);
    let gated = Gated {
        hook: "guard".into(),
        ask: Some("it is late".into()),
        passed: vec!["guard".into()],
        ..Gated::default()
    };
    play.signal(Report::Gated { gated: Box::new(gated) }.of(calls[0]));
    let asks = play.asks();
    assert_eq!((asks.len(), play.call_state(calls[0])), (1, Some(CallState::Asking(asks[0]))));
    play.grant(asks[0], tamtam::kernel::Grant::Once).unwrap();
    assert_eq!(play.call_state(calls[0]), Some(CallState::Running));
    play.returned(calls[0], "ok");
    play.answer_text("done");
    assert!(play.outcome().is_some());
}
