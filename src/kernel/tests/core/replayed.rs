//! What decisions looked at is on the tape also where no request says it: each of these is followed by an incarnation of the
//! session in which models, prices and tools are others, so that whoever guesses by what comes later guesses wrong. The tape is
//! replayed when the test lets go of it, as every tape of these tests is.

use tamtam::{
    ModelRef, Outcome,
    kernel::{
        BranchSummary, Compact, EnvSeen, Input, LeaveBranch, ModelSeen, OnBreach, Report, RollBack, RollbackTarget,
        Settings, context::Window, look_back,
    },
    model::{Item, MicroUsd, Price, Usage},
    session::{Finish, Grant},
    tool::ToolResult,
};

use super::play::{Play, text};

const DEAR: Price = Price::new(MicroUsd(10_000_000), MicroUsd(10_000_000));
const CHEAP: Price = Price::new(MicroUsd(1_000_000), MicroUsd(1_000_000));

fn model(name: &str) -> ModelRef {
    name.parse().unwrap()
}

fn with(change: impl FnOnce(&mut Settings)) -> Play {
    let mut play = Play::with(|settings| {
        settings.params.max_output = Some(2_000);
        change(settings);
    });
    play.prices.set(model("fake/model"), DEAR);
    play.tools_tokens = 900;
    play
}

/// The host comes back with other models, prices and tools, and a budget that is no limit; a turn is played.
fn another_incarnation(play: &mut Play) {
    play.prices.set(model("fake/model"), CHEAP);
    play.prices.set(model("fake/other"), DEAR);
    (play.window, play.tools_tokens) = (Window::new(50_000, 4_000), 5_000);
    play.crash();
    play.configure(|settings| settings.budget = Default::default());
    play.go_on();
    while play.state.request().is_some() {
        play.answer_text("fine");
    }
    play.send("more");
    play.answer_text("fine");
    assert_eq!(play.outcome(), Some(Outcome::Done));
}

/// What the tape says of its models and tools at the end, one line each input that said something.
fn env_seen(play: &Play) -> Vec<EnvSeen> {
    let said = play.tape().into_iter().filter_map(|entry| Some(entry.input?.env));
    said.filter(|env| !env.models.is_empty() || env.tools.is_some()).collect()
}

/// The tools alone are more than the budget: nothing says how large they were but the question for more.
#[test]
fn a_request_that_a_person_is_asked_about_is_decided_again_by_what_was_seen() {
    let mut play = with(|settings| settings.budget.session.tokens = Some(1_500));
    play.send("go");
    let (ask, _) = play.state.budget_ask().expect("it is too much");
    let seen = &env_seen(&play)[0];
    assert_eq!(seen.models["fake/model"], ModelSeen { window: play.window, price: Some(DEAR) });
    assert_eq!(seen.tools.as_ref().unwrap().tokens, 900);
    play.grant(ask, Grant::Reject(None)).unwrap();
    another_incarnation(&mut play);
}

/// The same where nobody listens, and where nobody is to be asked.
#[test]
fn a_turn_that_ends_at_its_budget_before_its_request_is_decided_again_by_what_was_seen() {
    for (heard, on_breach) in [(false, OnBreach::Ask), (true, OnBreach::Stop), (false, OnBreach::Stop)] {
        let mut play = with(|settings| {
            settings.budget.session.usd = Some("0.02".parse().unwrap());
            settings.budget.on_breach = on_breach;
        });
        play.heard = heard;
        play.send("go");
        assert!(matches!(play.outcome(), Some(Outcome::Budget { .. })));
        assert_eq!(env_seen(&play).len(), 1);
        another_incarnation(&mut play);
    }
}

/// A missing price is what was seen too: with the price that the host gives then, it would not have ended.
#[test]
fn a_turn_that_ended_for_want_of_a_price_is_decided_again_without_one() {
    let mut play = with(|settings| {
        settings.model = model("fake/other");
        settings.budget.session.usd = Some("100".parse().unwrap());
    });
    play.send("go");
    assert!(matches!(play.outcome(), Some(Outcome::Failed { .. })));
    assert_eq!(env_seen(&play)[0].models["fake/other"].price, None);
    another_incarnation(&mut play);
}

/// A request that goes to the second model says what the first one was; one that neither may have says it of both.
#[test]
fn the_second_model_is_chosen_again_by_what_was_seen_of_the_first() {
    let mut play = with(|settings| {
        settings.budget.session.usd = Some("0.02".parse().unwrap());
        settings.budget.on_breach = OnBreach::Model(model("fake/cheap"));
    });
    play.prices.set(model("fake/cheap"), CHEAP);
    play.send("go");
    assert_eq!(play.state.request().unwrap().1.model, model("fake/cheap"));
    let usage = |output| Usage { input: 1_000, output, ..Usage::default() };
    play.answer_using(vec![text("half of it")], Finish::Stop, usage(1_000));
    play.send("and the rest");
    play.answer_using(vec![text("all of it")], Finish::Stop, usage(15_000));
    play.send("and more");
    let models: Vec<_> = env_seen(&play).iter().map(|seen| seen.models.len()).collect();
    assert_eq!(models, [2], "both were seen once, and stayed what they were");
    another_incarnation(&mut play);
}

/// A summary is cut by windows that no request was made in.
#[test]
fn a_compaction_is_opened_again_by_the_windows_that_were_seen() {
    let mut play = with(|settings| settings.compaction.keep = Some(0));
    for n in 0..4 {
        play.send(&format!("{n} {}", "words ".repeat(400)));
        play.answer_text("fine");
    }
    play.window = Window::new(9_000, 700);
    let reply = play.reply_to();
    play.signal(Compact.to(reply));
    assert_eq!(env_seen(&play).len(), 2, "{:?}", play.reply);
    another_incarnation(&mut play);
}

/// Rolled back, undone and redone, then left for a fork: the fork replays from the first entry of its parent on.
#[test]
fn a_fork_of_a_session_that_went_back_and_forth_replays() {
    let mut play = with(|settings| settings.budget.session.tokens = Some(100_000));
    let go = |play: &mut Play, wanted| {
        let back = look_back(&play.tape(), &play.state, &wanted, true).unwrap().unwrap();
        let reply = play.reply_to();
        play.signal(RollBack { back: back.into(), files: None, summary: None }.to(reply));
        assert!(play.reply.clone().unwrap().is_ok());
    };
    for said in ["one", "two", "three"] {
        play.send(said);
        play.answer_text(said);
    }
    go(&mut play, RollbackTarget::Undo);
    go(&mut play, RollbackTarget::Undo);
    go(&mut play, RollbackTarget::Redo);
    play.send("four");
    play.answer_calls(&["read", "bash"]);
    let written = play.written();
    let mut fork = play.fork_at(written);
    let reply = fork.reply_to();
    fork.signal(LeaveBranch { branch: branch().into() }.to(reply));
    fork.send("five");
    fork.answer_text("five");
    go(&mut fork, RollbackTarget::Undo);
    let said = fork.state.history.iter().filter(|item| matches!(item.as_ref(), Item::User(_))).count();
    assert!(said >= 3, "{:?}", fork.history());
    another_incarnation(&mut fork);
}

fn branch() -> BranchSummary {
    let (from, to) = (tamtam::Seq(1), tamtam::Seq(2));
    BranchSummary {
        from,
        to,
        summary: "It failed.".into(),
        usage: Default::default(),
        files: Default::default(),
        request: None,
    }
}

/// Found by the simulator: what a report before a recovery left to be done was recorded as caused by a message that was sent again.
#[test]
fn a_message_that_was_known_causes_nothing() {
    let (mut play, calls) = Play::with_calls(&["write", "write"]);
    let report = Report::Returned { result: ToolResult::ok("done") }.of(calls[0]);
    play.inputs(&[report, Input::Hold]);
    play.send("go");
    assert!(!play.entries.is_empty(), "the next call begins");
    assert!(play.entries.iter().all(|entry| entry.cause.is_none()), "{:?}", play.entries);
}
