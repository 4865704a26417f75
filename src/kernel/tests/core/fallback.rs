//! Where a model fails and no retry is left, the next one of the chain has the step, and the tape says so.

use tamtam::{
    kernel::{AgentChoice, Fallback, FellBack, OnBreach, Open, Outcome, Record, Settings, Steering},
    model::{ErrorKind, MicroUsd, Price},
    runtime::Agent,
};

use super::{
    play::Play,
    torn::{assert_paired, play_out},
};

fn chain(settings: &mut Settings) {
    settings.retries_max = 1;
    settings.fallback = vec![
        Fallback::new("b/second".parse().unwrap()),
        Fallback::new("c/third".parse().unwrap()).on([ErrorKind::Auth, ErrorKind::NotFound]),
        Fallback::new("d/fourth".parse().unwrap()).on([ErrorKind::Auth]),
    ];
}

/// The model of the open request, its try, and the model that failed before with how.
fn asked(play: &Play) -> (String, u32, Option<(String, ErrorKind)>) {
    let (_, open) = play.state.request().expect("a request is open");
    let fell = open.fallback.as_ref().map(|FellBack { from, on, .. }| (from.to_string(), *on));
    (open.model.to_string(), open.attempt, fell)
}

fn name(play: &Play) -> String {
    asked(play).0
}

/// PROVIDER-006: retries first, then the next model at once, with all of its retries, in the same step; it keeps the turn, no longer.
#[test]
fn the_next_model_has_the_step_and_the_turn() {
    let mut play = Play::with(chain);
    let first = play.state.settings.model.to_string();
    play.send("go");
    play.failed(ErrorKind::Overloaded).later(10_000);
    assert_eq!(asked(&play), (first.clone(), 2, None));
    play.failed(ErrorKind::Overloaded);
    let fell = Some((first.clone(), ErrorKind::Overloaded));
    assert_eq!(asked(&play), ("b/second".into(), 3, fell.clone()));
    assert!(play.outcome().is_none());
    let failed = play.entries.iter().find_map(|entry| match &entry.record {
        Record::RequestFailed { fallback, .. } => fallback.clone(),
        _ => None,
    });
    assert_eq!(failed.unwrap().to_string(), "b/second");
    play.failed(ErrorKind::Network).later(10_000);
    assert_eq!(asked(&play), ("b/second".into(), 4, fell.clone()));
    assert_eq!((play.state.turn.as_ref().unwrap().step, play.state.context.failures), (1, 0));
    let calls = play.answer_calls(&["bash"]);
    play.returned(calls[0], "ok");
    assert_eq!((asked(&play), play.state.turn.as_ref().unwrap().step), (("b/second".into(), 1, fell), 2));
    play.answer_text("done");
    assert_eq!(play.outcome(), Some(Outcome::Done));
    play.send("again");
    assert_eq!(asked(&play), (first, 1, None));
}

/// PROVIDER-007: a failure that no retry helps is handed on at once, and only to a model that names it; the chain goes forward alone.
#[test]
fn a_failure_is_handed_on_to_a_model_that_names_it() {
    let mut play = Play::with(chain);
    play.send("go");
    play.failed(ErrorKind::Auth);
    assert_eq!(name(&play), "c/third");
    play.failed(ErrorKind::Auth);
    assert_eq!(asked(&play), ("d/fourth".into(), 3, Some(("c/third".into(), ErrorKind::Auth))));
    play.failed(ErrorKind::Auth);
    assert_eq!(play.outcome(), Some(Outcome::Failed { error: "it failed".into() }));
    for kind in [ErrorKind::InvalidRequest, ErrorKind::ContentPolicy] {
        let mut play = Play::with(chain);
        play.send("go");
        play.failed(kind);
        assert_eq!(play.outcome(), Some(Outcome::Failed { error: "it failed".into() }), "{kind:?}");
    }
    let mut play = Play::with(chain);
    play.send("go");
    for _ in 0..2 {
        play.failed(ErrorKind::Server).later(10_000);
    }
    assert_eq!(name(&play), "b/second");
    play.failed(ErrorKind::Server).later(10_000);
    play.failed(ErrorKind::Server);
    let given_up = "it failed (gave up after 1 retries)".to_owned();
    assert_eq!(play.outcome(), Some(Outcome::Failed { error: given_up }), "nobody behind it stands in for that");
}

/// PROVIDER-009: the first of a chain goes first, whatever the names, and behind the last one the turn fails.
#[test]
fn a_chain_is_asked_in_the_order_in_which_it_was_given() {
    let order = ["z/high", "m/mid", "a/low"];
    let mut play = Play::with(|settings| {
        settings.retries_max = 0;
        settings.fallback = order.map(|model| Fallback::new(model.parse().unwrap())).to_vec();
    });
    play.send("go");
    for model in order {
        play.failed(ErrorKind::Server);
        assert_eq!(name(&play), model);
    }
    play.failed(ErrorKind::Server);
    assert!(matches!(play.outcome(), Some(Outcome::Failed { .. })), "{:?}", play.outcome());
}

/// Who names a model has it, and so has an agent with a model of its own, whose chain is its own too.
#[test]
fn a_message_and_an_agent_take_the_turn_back() {
    let mut play = Play::with(chain);
    play.send("go");
    play.failed(ErrorKind::Auth);
    let mut steer = tamtam::Message::user("ask this one");
    steer.model = Some("m/named".parse().unwrap());
    play.send_message(steer, tamtam::Delivery::Steer(Steering::SkipRemaining), None).unwrap();
    let calls = play.answer_calls(&["bash"]);
    play.returned(calls[0], "ok");
    assert_eq!(asked(&play), ("m/named".into(), 1, None));
    play.failed(ErrorKind::Auth);
    assert_eq!(name(&play), "c/third", "the chain begins anew");
    let agent = Agent::new("other", "Another one.").model("o/own".parse().unwrap());
    let choice = agent.for_session(&play.state.session).unwrap();
    play.switch(choice);
    let calls = play.answer_calls(&["bash"]);
    play.returned(calls[0], "ok");
    assert_eq!(asked(&play), ("m/named".into(), 1, None), "a message's model is before an agent's");
    play.failed(ErrorKind::Auth);
    assert!(matches!(play.outcome(), Some(Outcome::Failed { .. })), "that agent has no chain");
    play.switch(AgentChoice::Own);
    assert_eq!(play.state.settings.fallback.len(), 3, "and gives the chain back");
    let mut play = Play::with(chain);
    play.send("go");
    play.failed(ErrorKind::Auth);
    play.configure(|settings| settings.model = "e/else".parse().unwrap());
    let calls = play.answer_calls(&["bash"]);
    play.returned(calls[0], "ok");
    assert_eq!(asked(&play), ("e/else".into(), 1, None));
}

/// The price is that of the model that is asked, and a budget that does not allow it is not passed by.
#[test]
fn a_budget_goes_by_the_price_of_the_model_that_is_asked() {
    let dear = Price::new(MicroUsd(30_000_000), MicroUsd(150_000_000));
    let mut play = Play::with(|settings| {
        chain(settings);
        settings.budget.session.usd = Some(MicroUsd(1_000_000).to_pico());
        settings.budget.on_breach = OnBreach::Stop;
        settings.params.max_output = Some(1_000);
    });
    play.prices.set(play.state.settings.model.clone(), Price::new(MicroUsd(1), MicroUsd(1)));
    play.prices.set("c/third".parse().unwrap(), dear);
    play.send("go");
    play.failed(ErrorKind::Auth);
    assert_eq!(play.state.request().unwrap().1.price, Some(dear));
    play.failed(ErrorKind::Auth);
    // The price of the fourth is not known.
    assert!(matches!(play.outcome(), Some(Outcome::Failed { error }) if error.contains("the price of d/fourth")));
}

/// Where money is limited, a model whose price is not known is passed over as long as another one is left.
#[test]
fn a_budget_passes_over_a_model_without_a_price() {
    let asked_after = |usd: Option<u64>, priced: &str| {
        let mut play = Play::with(|settings| {
            chain(settings);
            settings.budget.session.usd = usd.map(|usd| MicroUsd(usd).to_pico());
        });
        let price = Price::new(MicroUsd(1), MicroUsd(1));
        play.prices.set(play.state.settings.model.clone(), price);
        play.prices.set(priced.parse().unwrap(), price);
        play.send("go");
        play.failed(ErrorKind::Auth);
        (play.state.request().map(|(_, open)| open.model.to_string()), play.outcome())
    };
    assert_eq!(asked_after(Some(1_000_000), "d/fourth"), (Some("d/fourth".into()), None));
    assert_eq!(asked_after(None, "d/fourth"), (Some("c/third".into()), None));
    let (asked, outcome) = asked_after(Some(1_000_000), "x/none");
    assert!(asked.is_none() && matches!(outcome, Some(Outcome::Failed { error }) if error.contains("of c/third")));
}

/// A torn write may leave the failure alone: what follows from it is decided again, and no step is counted twice.
#[test]
fn a_cut_after_the_failure_leaves_the_step_with_the_next_model() {
    let scene = || {
        let mut play = Play::with(chain);
        play.send("go");
        play.failed(ErrorKind::Auth);
        play
    };
    let entries = scene().entries.len();
    assert_eq!(entries, 2, "the failure and the request");
    for cut in 0..=entries {
        let mut play = scene();
        play.crash_after(cut);
        if cut == 0 {
            play.failed(ErrorKind::Auth);
        }
        assert_eq!(
            (name(&play), play.state.turn.as_ref().unwrap().step),
            ("c/third".into(), 1),
            "after a cut at {cut}"
        );
        play_out(&mut play);
        assert_paired(&play, cut);
    }
}

/// A pause holds the next model back, and an abort ends the turn before it is asked.
#[test]
fn a_pause_and_an_abort_hold_the_next_model_back() {
    let mut play = Play::with(chain);
    play.send("go");
    play.pause();
    play.failed(ErrorKind::Auth);
    assert!(!play.state.open.values().any(|open| matches!(open, Open::Request(_))));
    play.resume();
    assert_eq!(name(&play), "c/third");
    play.pause();
    play.failed(ErrorKind::Auth);
    play.abort("enough");
    assert!(matches!(play.outcome(), Some(Outcome::Aborted { .. })));
}
