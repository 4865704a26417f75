//! Budgets, as the core holds them: promise 9, and what happens at each limit.

use tamtam::{
    ModelRef, Outcome, Seq,
    kernel::{
        Breach, CallState, CarriedOut, Down, DownReason, Due, Extent, Fallback, Limits, Link, OnBreach, Open, Record,
        Refusal, Report, Resource, Scope, Settings, Spawn, Steering, TaskOrder,
    },
    model::{ErrorKind, MicroUsd, PicoUsd, Price, Usage},
    session::{Finish, Grant},
};

use super::play::{Play, call, settings, text};

fn model(name: &str) -> ModelRef {
    name.parse().unwrap()
}

fn usd(text: &str) -> PicoUsd {
    text.parse().unwrap()
}

/// $10 for a million tokens, read or written: a thousand cost a cent.
const DEAR: Price = Price::new(MicroUsd(10_000_000), MicroUsd(10_000_000));
/// A tenth of that.
const CHEAP: Price = Price::new(MicroUsd(1_000_000), MicroUsd(1_000_000));

fn with(change: impl FnOnce(&mut Settings)) -> Play {
    let mut play = Play::with(change);
    play.prices.set(model("fake/model"), DEAR);
    play.prices.set(model("fake/cheap"), CHEAP);
    play
}

/// A session that may use so many tokens, and whose answers have 2,000 at most.
fn tokens(max: u64, on_breach: OnBreach) -> Play {
    with(|settings| {
        settings.budget.session.tokens = Some(max);
        settings.budget.on_breach = on_breach;
        settings.params.max_output = Some(2_000);
    })
}

fn limited(limits: Limits, on_breach: OnBreach) -> Play {
    with(|settings| {
        settings.budget.session = limits;
        settings.budget.on_breach = on_breach;
    })
}

fn used(play: &mut Play, input: u64, output: u64) {
    play.answer_using(vec![text("fine")], Finish::Stop, Usage { input, output, ..Usage::default() });
}

fn calls(play: &mut Play, names: &[&str]) -> Vec<Seq> {
    let calls = names.iter().enumerate().map(|(index, name)| call(&format!("c{index}"), name, "{}")).collect();
    play.answer_using(calls, Finish::ToolCalls, Usage { input: 10, output: 10, ..Usage::default() });
    let opened = play.entries.iter().filter(|entry| matches!(entry.record, Record::Call(_)));
    opened.map(|entry| entry.seq).collect()
}

/// The limit that ended the newest turn.
fn broke(play: &Play) -> Option<(Resource, Extent)> {
    match play.outcome() {
        Some(Outcome::Budget { breach, .. }) => Some((breach.resource, breach.extent)),
        _ => None,
    }
}

fn asked(play: &Play) -> (Seq, Breach) {
    let (ask, open) = play.state.budget_ask().expect("somebody is asked for more");
    (ask, open.breach)
}

/// What is left, and what is held, of the tokens.
fn left(play: &Play) -> u64 {
    play.state.left().tokens.unwrap()
}

// ── reserve, settle ──

/// Promise 9: what a request may use is held back before it is made, and what it did not use comes back.
#[test]
fn a_request_is_held_back_before_it_is_made_and_settled_after() {
    let mut play = tokens(10_000, OnBreach::Stop);
    play.send("a");
    let (_, request) = play.state.request().unwrap();
    assert_eq!((request.reserved.output, request.params.max_output), (2_000, Some(2_000)));
    assert_eq!(left(&play), 10_000 - request.reserved.tokens());
    used(&mut play, 100, 50);
    assert_eq!(left(&play), 9_850);
}

/// A budget that does not allow the whole answer makes it shorter, as long as it is worth the request.
#[test]
fn an_answer_gets_what_the_budget_leaves() {
    let mut play = tokens(1_500, OnBreach::Stop);
    play.send("a");
    let reserved = play.state.request().unwrap().1.reserved;
    assert_eq!((reserved.tokens(), reserved.output < 2_000, left(&play)), (1_500, true, 0));
    let mut play = limited(Limits { usd: Some(usd("0.02")), ..Limits::default() }, OnBreach::Stop);
    play.send("a");
    let request = play.state.request().unwrap().1;
    assert_eq!((request.reserved.tokens(), request.params.max_output), (2_000, Some(request.reserved.output)));
}

/// Promise 9: where it does not fit, it is not made: the breach is seen before, never in the middle.
#[test]
fn a_request_that_does_not_fit_is_not_made() {
    let mut play = tokens(3_000, OnBreach::Stop);
    play.send("a");
    used(&mut play, 1_500, 600);
    play.send("b");
    assert_eq!((broke(&play), play.started()), (Some((Resource::Tokens, Extent::Session)), vec![]));
    assert_eq!(play.state.spent.usage.total(), 2_100);
}

/// Without a limit of tokens or money nothing is held back of an answer, and its length is the provider's business.
#[test]
fn without_a_limit_no_request_changes() {
    let mut play = with(|_| {});
    play.send("a");
    let request = play.state.request().unwrap().1;
    assert_eq!((request.reserved.output, request.params.max_output, play.state.left()), (0, None, Limits::default()));
}

/// A turn has limits of its own, that begin anew with each.
#[test]
fn a_turns_limit_holds_for_each_turn() {
    let mut play = with(|settings| {
        settings.budget.turn = Limits { calls: Some(1), ..Limits::default() };
        settings.budget.on_breach = OnBreach::Stop;
    });
    for turn in ["a", "b"] {
        play.send(turn);
        let first = calls(&mut play, &["read"])[0];
        play.returned(first, "text");
        let second = calls(&mut play, &["read"])[0];
        assert_eq!((play.call_state(second), broke(&play)), (None, Some((Resource::Calls, Extent::Turn))));
    }
    assert_eq!(play.state.spent.calls, 2);
}

// ── at a limit ──

/// Ask: who is asked hears what is spent and what would be needed; once gives as much again.
#[test]
fn a_person_is_asked_and_the_answer_raises_the_limit() {
    let mut play = tokens(3_000, OnBreach::Ask);
    play.send("a");
    used(&mut play, 1_500, 600);
    play.send("b");
    let (ask, breach) = asked(&play);
    assert_eq!((breach.max, breach.used, breach.reserved), (3_000, 2_100, 0));
    assert!(breach.needs > 900 && play.state.request().is_none(), "{breach:?}");
    play.grant(ask, Grant::Once).unwrap();
    assert_eq!(play.state.settings.budget.session.tokens, Some(6_000));
    assert!(play.state.request().is_some());
    used(&mut play, 100, 10);
    assert_eq!(play.outcome(), Some(Outcome::Done));
}

/// Ask: always lifts the limit, raise says by how much, reject ends the turn, and so does silence.
#[test]
fn the_answer_may_lift_raise_reject_or_not_come() {
    let at_the_limit = || {
        let mut play = tokens(3_000, OnBreach::Ask);
        play.send("a");
        used(&mut play, 2_500, 100);
        play.send("b");
        let (ask, _) = asked(&play);
        (play, ask)
    };
    let (mut play, ask) = at_the_limit();
    play.grant(ask, Grant::Always(Scope::Session)).unwrap();
    assert_eq!((play.state.settings.budget.session.tokens, play.state.request().is_some()), (None, true));

    let (mut play, ask) = at_the_limit();
    play.grant(ask, Grant::Raise(Limits { tokens: Some(5_000), ..Limits::default() })).unwrap();
    assert_eq!((play.state.settings.budget.session.tokens, play.state.request().is_some()), (Some(8_000), true));

    let (mut play, ask) = at_the_limit();
    play.grant(ask, Grant::Reject(None)).unwrap();
    assert_eq!(broke(&play), Some((Resource::Tokens, Extent::Session)));

    let (mut play, ask) = at_the_limit();
    assert_eq!(play.state.due(), Some(play.state.time.plus(std::time::Duration::from_secs(600))));
    play.later(600_000);
    assert_eq!((broke(&play), play.state.budget_ask()), (Some((Resource::Tokens, Extent::Session)), None));
    assert_eq!(play.grant(ask, Grant::Once), Err(Refusal::AskClosed { ask }));
}

/// A raise that gives none of what is asked about would only be asked about again: it is refused, and the question stays. One
/// that is not enough is taken, and what is still missing is asked for.
#[test]
fn a_raise_must_raise_what_is_asked_about() {
    let mut play = tokens(3_000, OnBreach::Ask);
    play.send("a");
    used(&mut play, 2_500, 100);
    play.send("b");
    let (ask, first) = asked(&play);
    for more in [Limits::default(), Limits { calls: Some(9), ..Limits::default() }] {
        let refused = play.grant(ask, Grant::Raise(more));
        assert_eq!(refused, Err(Refusal::RaisesNothing { ask, resource: Resource::Tokens }));
        assert_eq!(asked(&play).0, ask);
    }
    play.grant(ask, Grant::Raise(Limits { tokens: Some(10), ..Limits::default() })).unwrap();
    let (again, second) = asked(&play);
    assert!(again != ask && second.max == first.max + 10, "{second:?}");
    play.grant(again, Grant::Raise(Limits { tokens: Some(second.missing()), ..Limits::default() })).unwrap();
    assert!(play.state.request().is_some(), "what is missing is enough");
}

/// Where nobody listens who could be asked, it stops.
#[test]
fn where_nobody_listens_it_stops() {
    let mut play = tokens(500, OnBreach::Ask);
    play.heard = false;
    play.send("a");
    assert_eq!((broke(&play), play.started()), (Some((Resource::Tokens, Extent::Session)), vec![]));
}

/// Where asks wait for a listener, a person who comes later is asked for more.
#[test]
fn where_asks_wait_nobody_has_to_listen_yet() {
    let mut play = with(|settings| {
        settings.budget.session.tokens = Some(500);
        settings.budget.on_breach = OnBreach::Ask;
        settings.asks_wait = true;
    });
    play.heard = false;
    play.send("a");
    assert_eq!((broke(&play), asked(&play).1.resource), (None, Resource::Tokens));
}

/// A question about a call is not answered by raising a budget.
#[test]
fn raising_answers_no_question_about_a_call() {
    let mut play = with(|settings| settings.rules.clear());
    play.send("a");
    calls(&mut play, &["read"]);
    let ask = play.asks()[0];
    assert_eq!(play.grant(ask, Grant::Raise(Limits::default())), Err(Refusal::NotABudget { ask }));
    assert_eq!(play.asks(), [ask]);
}

/// Down: the second model takes over as long as it fits, and then it stops.
#[test]
fn a_second_model_takes_over_and_then_it_stops() {
    let mut play =
        limited(Limits { usd: Some(usd("0.055")), ..Limits::default() }, OnBreach::Model(model("fake/cheap")));
    let models = |play: &Play| play.state.request().map(|(_, request)| request.model.clone());
    play.send("a");
    assert_eq!(models(&play), Some(model("fake/model")));
    used(&mut play, 3_000, 1_500);
    play.send("b");
    assert_eq!(models(&play), Some(model("fake/cheap")));
    let instead = play.entries.iter().find_map(|entry| match &entry.record {
        Record::Request(request) => request.instead,
        _ => None,
    });
    assert_eq!(instead.unwrap().resource, Resource::Usd);
    used(&mut play, 8_000, 1_500);
    play.send("c");
    assert_eq!((models(&play), broke(&play)), (None, Some((Resource::Usd, Extent::Session))));
    let Some(Outcome::Budget { no_switch, .. }) = play.outcome() else { panic!("{:?}", play.outcome()) };
    assert_eq!(no_switch.as_deref(), Some("fake/cheap does not fit either"));
    assert_eq!(play.state.spent.cost.exact(), Some(usd("0.0545")));
}

/// A model that a budget has asked instead is no part of a chain: it is asked in no model's place, and its failure is the turn's.
#[test]
fn a_second_model_of_a_budget_has_no_chain() {
    let play = || {
        let mut play =
            limited(Limits { usd: Some(usd("0.055")), ..Limits::default() }, OnBreach::Model(model("fake/cheap")));
        play.configure(|settings| settings.fallback = vec![Fallback::new(model("b/next")).on([ErrorKind::Auth])]);
        play
    };
    let asked = |play: &Play| {
        let (_, request) = play.state.request().unwrap();
        (request.model.to_string(), request.fallback.is_some())
    };
    let mut first = play();
    first.prices.set(model("b/next"), CHEAP);
    first.send("a");
    used(&mut first, 3_000, 1_500);
    first.send("b");
    assert_eq!(asked(&first), ("fake/cheap".into(), false));
    first.failed(ErrorKind::Auth);
    assert_eq!(first.outcome(), Some(Outcome::Failed { error: "it failed".into() }));
    let mut first = play();
    first.prices.set(model("b/next"), Price::new(MicroUsd(900_000_000), MicroUsd(900_000_000)));
    first.send("a");
    first.failed(ErrorKind::Auth);
    assert_eq!(asked(&first), ("fake/cheap".into(), false), "the next model of the chain is too dear");
}

/// A switch that is given up says why.
#[test]
fn a_switch_to_a_model_without_a_price_says_why_it_is_given_up() {
    let mut play =
        limited(Limits { usd: Some(usd("0.001")), ..Limits::default() }, OnBreach::Model(model("x/unknown")));
    play.send("a");
    let Some(Outcome::Budget { no_switch, .. }) = play.outcome() else { panic!("{:?}", play.outcome()) };
    assert_eq!(no_switch.as_deref(), Some("x/unknown was not asked instead, because its price is not known"));
}

/// a limit in dollars refuses a model without a price before its first request, and says what to do.
#[test]
fn a_model_without_a_price_is_refused_under_a_limit_in_dollars() {
    let mut play = limited(Limits { usd: Some(usd("5")), ..Limits::default() }, OnBreach::Ask);
    play.configure(|settings| settings.model = model("fake/unknown"));
    play.send("a");
    let Some(Outcome::Failed { error }) = play.outcome() else { panic!("{:?}", play.outcome()) };
    assert!(error.contains("fake/unknown") && error.contains("Builder::prices"), "{error}");
    assert_eq!(play.started(), []);
    play.configure(|settings| settings.model = model("fake/model"));
    play.send("b");
    assert!(play.state.request().is_some());
}

// ── calls, results ──

/// The last call that fits runs to its end; the next one of the batch is not begun.
#[test]
fn a_call_beyond_the_limit_is_not_begun_and_the_others_finish() {
    let mut play = limited(Limits { calls: Some(2), ..Limits::default() }, OnBreach::Stop);
    play.send("a");
    let opened = calls(&mut play, &["read", "read", "read"]);
    assert_eq!(play.started(), opened[..2]);
    play.returned(opened[0], "one");
    assert_eq!((play.stopped(), broke(&play)), (vec![], None), "what runs is let run");
    play.returned(opened[1], "two");
    assert_eq!((play.state.spent.calls, broke(&play)), (2, Some((Resource::Calls, Extent::Session))));
    assert!(play.history().last().unwrap().contains("Not run: the session's budget of 2 calls is used up"));
}

/// Ask: the call waits, and runs when there is more.
#[test]
fn a_call_waits_for_the_answer_and_then_runs() {
    let mut play = limited(Limits { calls: Some(1), ..Limits::default() }, OnBreach::Ask);
    play.send("a");
    let opened = calls(&mut play, &["write", "write"]);
    play.returned(opened[0], "one");
    let (ask, breach) = asked(&play);
    assert_eq!((breach.resource, breach.used, breach.needs), (Resource::Calls, 1, 1));
    assert_eq!(play.call_state(opened[1]), Some(CallState::Pending));
    play.grant(ask, Grant::Once).unwrap();
    assert_eq!((play.started(), play.state.settings.budget.session.calls), (vec![opened[1]], Some(2)));
}

/// A result never has more bytes than were held back for it.
#[test]
fn a_result_is_cut_to_what_was_held_back_for_it() {
    let mut play = limited(Limits { bytes: Some(1_000), ..Limits::default() }, OnBreach::Stop);
    play.send("a");
    let first = calls(&mut play, &["write"])[0];
    play.returned(first, &"é".repeat(300));
    let second = calls(&mut play, &["write"])[0];
    play.returned(second, &"x".repeat(5_000));
    assert_eq!(
        (play.state.spent.bytes <= 1_000, play.state.spent.bytes >= 999),
        (true, true),
        "{}",
        play.state.spent.bytes
    );
    assert!(play.history().last().unwrap().ends_with("[truncated: the budget for results is used up]"));
    let third = calls(&mut play, &["write"])[0];
    assert_eq!((play.call_state(third), broke(&play)), (None, Some((Resource::Bytes, Extent::Session))));
}

/// Steering and an abort go on working while somebody is asked for more.
#[test]
fn an_abort_takes_the_question_back() {
    let mut play = tokens(500, OnBreach::Ask);
    play.send("a");
    let (ask, _) = asked(&play);
    play.steer("wait", Steering::AbortRunning);
    assert_eq!(asked(&play).0, ask);
    play.abort("enough");
    assert_eq!(play.outcome(), Some(Outcome::Aborted { reason: "enough".into() }));
    assert_eq!(play.grant(ask, Grant::Once), Err(Refusal::AskClosed { ask }));
}

// ── time ──

fn seconds(max: u64, on_breach: OnBreach) -> Play {
    limited(Limits { time_ms: Some(max * 1_000), ..Limits::default() }, on_breach)
}

/// Time runs while a turn runs, and stands still between turns, in a pause, and while somebody is asked for more.
#[test]
fn time_runs_while_a_turn_runs_and_only_then() {
    let mut play = seconds(10, OnBreach::Ask);
    play.later(60_000);
    play.send("a");
    assert_eq!(play.state.due(), Some(play.state.time.plus(std::time::Duration::from_secs(10))));
    play.later(4_000);
    play.pause();
    play.later(60_000);
    play.resume();
    used(&mut play, 1, 1);
    assert_eq!(play.state.spent.time_ms, 4_000);
    play.send("b");
    play.later(6_000);
    let (ask, breach) = asked(&play);
    assert_eq!((breach.resource, breach.used), (Resource::TimeMs, 10_000));
    assert_eq!(play.stopped(), [], "what runs is let run while somebody is asked");
    play.later(60_000);
    play.grant(ask, Grant::Once).unwrap();
    assert_eq!(play.state.due(), Some(play.state.time.plus(std::time::Duration::from_secs(10))));
    used(&mut play, 1, 1);
    assert_eq!(play.state.spent.time_ms, 10_000);
}

/// Stop: what runs when the time is over is told to stop, as by an abort, and each call has its result.
#[test]
fn what_runs_when_the_time_is_over_is_stopped_with_a_result() {
    let mut play = seconds(10, OnBreach::Stop);
    play.send("a");
    let running = calls(&mut play, &["write"])[0];
    play.later(10_000);
    assert_eq!((play.stopped(), play.outcome()), (vec![running], None));
    play.returned(running, "half");
    assert_eq!(broke(&play), Some((Resource::TimeMs, Extent::Session)));
}

/// The time in which no process had the turn is nobody's.
#[test]
fn the_time_between_a_crash_and_the_next_start_does_not_count() {
    let mut play = seconds(100, OnBreach::Stop);
    play.send("a");
    play.later(4_000);
    calls(&mut play, &["read"]);
    play.asleep(3_600_000);
    play.crash();
    assert_eq!((broke(&play), play.state.spent.time_ms), (None, 4_000));
    play.later(2_000);
    let ticket = play.state.calls().next().unwrap().0;
    play.returned(ticket, "x");
    used(&mut play, 1, 1);
    assert_eq!(play.state.spent.time_ms, 6_000);
}

// ── crashes ──

/// Promise 9: what was held back at a crash counts as spent, and the request that is made again needs as much again.
#[test]
fn what_was_held_back_at_a_crash_is_spent() {
    let mut play = tokens(6_000, OnBreach::Stop);
    play.send("a");
    let reserved = play.state.request().unwrap().1.reserved.tokens();
    play.crash();
    assert_eq!((play.state.spent.usage.total(), play.started().len()), (reserved, 1));
    assert_eq!(left(&play), 6_000 - 2 * reserved, "spent once, and held back once more");
}

/// A request that the budget does not allow a second time is not made again after a crash.
#[test]
fn a_request_that_does_not_fit_twice_is_not_made_again_after_a_crash() {
    let mut play = tokens(3_000, OnBreach::Stop);
    play.send("a");
    play.crash();
    assert_eq!((play.started(), broke(&play)), (vec![], Some((Resource::Tokens, Extent::Session))));
    assert!(play.state.spent.usage.total() <= 3_000);
}

/// Counters come back from the tape, and so does the open question.
#[test]
fn counters_and_the_open_question_come_back_from_the_tape() {
    let mut play = limited(Limits { calls: Some(1), ..Limits::default() }, OnBreach::Ask);
    play.send("a");
    let opened = calls(&mut play, &["write", "write"]);
    play.returned(opened[0], "one");
    let (ask, _) = asked(&play);
    let before = play.state.spent;
    play.crash();
    assert_eq!((asked(&play).0, play.state.spent), (ask, before));
    play.grant(ask, Grant::Once).unwrap();
    assert_eq!(play.started(), [opened[1]]);
}

/// A call that may run again after a crash is another call, and runs only where one is left.
#[test]
fn a_call_runs_again_after_a_crash_only_where_one_is_left() {
    let mut play = limited(Limits { calls: Some(1), ..Limits::default() }, OnBreach::Stop);
    play.send("a");
    calls(&mut play, &["read"]);
    play.crash();
    assert_eq!(
        (play.state.spent.calls, play.started().len()),
        (1, 1),
        "the answer goes to the model, the call does not run"
    );
    assert!(play.history().last().unwrap().contains("outcome is unknown"));
}

// ── the tree ──

fn order(change: impl FnOnce(&mut Settings)) -> Box<TaskOrder> {
    let mut settings = settings();
    change(&mut settings);
    Box::new(TaskOrder::new(settings, tamtam::Message::user("help").with_id("p".into())))
}

pub(super) fn spawn(
    play: &mut Play,
    child: &str,
    change: impl FnOnce(&mut Settings),
) -> Result<(Seq, Limits), Refusal> {
    let reply = play.reply_to();
    play.signal(Spawn { child: child.parse().unwrap(), order: order(change), link: Link::DETACHED }.to(reply));
    match play.reply.clone().unwrap()? {
        CarriedOut::Done(ticket) => {
            let Some(Open::Task(task)) = play.state.open.get(&ticket) else { panic!("no task {ticket}") };
            Ok((ticket, task.grant))
        }
        other => panic!("a spawn was answered with {other:?}"),
    }
}

/// A host's "no limit" for its children is a number like any other: what a child can work with, and no overflow.
#[test]
fn a_width_without_a_limit_leaves_a_child_something() {
    let mut play = with(|settings| {
        settings.budget.session.tokens = Some(100_000);
        settings.task_width_max = usize::MAX;
    });
    let (_, grant) = spawn(&mut play, "child", |_| {}).unwrap();
    assert_eq!((grant.tokens, left(&play)), (Some(8_248), 91_752));
}

/// Promise 9: the grant is held back on the parent's tape before the child is started, and the rest comes back with its end.
#[test]
fn a_grant_is_held_back_before_the_child_starts_and_its_rest_comes_back() {
    let mut play = tokens(100_000, OnBreach::Stop);
    let (ticket, grant) = spawn(&mut play, "child", |settings| settings.budget.session.tokens = Some(40_000)).unwrap();
    assert_eq!((grant.tokens, left(&play)), (Some(40_000), 60_000));
    assert!(play.begun.contains(&Due::Task(ticket)) && matches!(play.entries[0].record, Record::TaskStarted { .. }));
    let mut down = Down::without_a_word(DownReason::Done);
    let mut spent = play.state.spent;
    spent.usage.input = 7_000;
    down.spent = Some(spent);
    play.signal(Report::TaskDown { down }.of(ticket));
    assert_eq!(left(&play), 93_000);
}

/// What is more than is left is refused; where nothing is asked for, each child gets an equal share, and one share stays.
#[test]
fn a_child_gets_what_is_asked_for_or_an_equal_share() {
    let mut play = tokens(90_000, OnBreach::Stop);
    let refused = spawn(&mut play, "dear", |settings| settings.budget.session.tokens = Some(90_001));
    let Err(Refusal::OverBudget { breach }) = refused else { panic!("{refused:?}") };
    assert_eq!((breach.max, breach.needs), (90_000, 90_001));
    for child in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        assert_eq!(spawn(&mut play, child, |_| {}).unwrap().1.tokens, Some(10_000), "{child}");
    }
    assert_eq!(left(&play), 10_000);
}

/// Where many tasks may wait for room, an equal share would be nothing to work with. A child gets what it can work with, all of them
/// together never more than there is, and a task for which there is too little is refused with the figures.
#[test]
fn a_childs_share_is_enough_to_work_with_or_the_task_is_refused() {
    for (limits, one, first) in [
        (Limits { tokens: Some(200_000), ..Limits::default() }, 4_656, 37_248),
        // At $1 for a million tokens read and $10 for a million written.
        (Limits { usd: Some(usd("2")), ..Limits::default() }, 0, 0),
    ] {
        let mut play = limited(limits, OnBreach::Stop);
        play.tools_tokens = 2_900;
        play.configure(|settings| settings.task_queue_max = 200);
        let resource = if limits.tokens.is_some() { Resource::Tokens } else { Resource::Usd };
        let left = |play: &Play| play.state.left().of(resource).unwrap();
        let (all, mut granted) = (left(&play), Vec::new());
        let breach = loop {
            match spawn(&mut play, &format!("child{}", granted.len()), |_| {}) {
                Ok((_, grant)) => granted.push(grant.of(resource).unwrap()),
                Err(Refusal::OverBudget { breach }) => break breach,
                other => panic!("{other:?}"),
            }
        };
        assert!(granted.len() > 2 && granted.iter().all(|grant| *grant >= breach.needs), "{granted:?} {breach:?}");
        assert_eq!(granted.iter().sum::<u64>() + left(&play), all, "nothing is granted twice");
        assert!(left(&play) < breach.needs, "it is refused only where it could make no request");
        assert_eq!((breach.max, breach.reserved), (all, granted.iter().sum()));
        if one > 0 {
            assert_eq!((breach.needs, granted[0]), (one, first));
        }
        let said = Refusal::OverBudget { breach }.to_string();
        for figure in [resource.amount(breach.needs), resource.amount(breach.reserved), "raise the budget".to_owned()] {
            assert!(said.contains(&figure), "{figure}: {said}");
        }
    }
}

/// What a child's options ask for is a grant, also where its parent has no limit: the child stops at it, and nobody is asked.
#[test]
fn what_a_child_asks_for_is_its_grant_and_a_question_to_nobody() {
    let mut parent = Play::new();
    let asked = Limits { tokens: Some(3_000), calls: Some(2), time_ms: Some(60_000), ..Limits::default() };
    let (_, grant) = spawn(&mut parent, "child", |settings| settings.budget.session = asked).unwrap();
    assert_eq!(grant, asked);
    let mut child = with(|settings| {
        settings.budget.session = asked;
        settings.budget.on_breach = OnBreach::Ask;
        settings.asks_wait = true;
    });
    child.begin_as(|state| state.begin_with_grant(&grant));
    child.send("p");
    for _ in 0..2 {
        let first = calls(&mut child, &["read"])[0];
        child.returned(first, "text");
    }
    calls(&mut child, &["read"]);
    assert_eq!((broke(&child), child.state.budget_ask()), (Some((Resource::Calls, Extent::Grant)), None));
}

/// Nobody gives account of a child that is lost: all of its grant counts as used.
#[test]
fn the_grant_of_a_child_that_gives_no_account_is_used() {
    let mut play = tokens(90_000, OnBreach::Stop);
    let (ticket, _) = spawn(&mut play, "child", |_| {}).unwrap();
    play.signal(Report::TaskDown { down: Down::without_a_word(DownReason::Parked) }.of(ticket));
    assert_eq!((left(&play), play.state.spent_in_all().cost.unpriced), (80_000, 1));
}

/// Tasks are counted, and beyond the limit none is begun.
#[test]
fn tasks_beyond_the_limit_are_refused() {
    let mut play = limited(Limits { tasks: Some(2), ..Limits::default() }, OnBreach::Stop);
    spawn(&mut play, "a", |_| {}).unwrap();
    spawn(&mut play, "b", |_| {}).unwrap();
    let refused = spawn(&mut play, "c", |_| {});
    assert!(
        matches!(refused, Err(Refusal::OverBudget { breach }) if breach.resource == Resource::Tasks),
        "{refused:?}"
    );
}

/// A child spends its grant and no more, asks nobody for more, and its parent hears why it ended.
#[test]
fn a_child_stops_at_its_grant_and_asks_nobody() {
    let mut play = with(|settings| settings.params.max_output = Some(2_000));
    play.begin_as(|state| {
        state.account.grant = Some(Limits { tokens: Some(3_000), ..Limits::default() });
        state.origin = Some(std::sync::Arc::new(tamtam::kernel::Origin {
            parent: "parent".parse().unwrap(),
            ticket: Seq(7),
            link: Link::LINKED,
            depth: 1,
            prompt: "p".into(),
            terms: Default::default(),
            orphaned: None,
            end: None,
        }));
    });
    play.send("p");
    let first = calls(&mut play, &["read"])[0];
    play.returned(first, &"x".repeat(12_000));
    assert_eq!((broke(&play), play.state.budget_ask()), (Some((Resource::Tokens, Extent::Grant)), None));
    let end = play.state.origin.as_ref().unwrap().end.clone().unwrap();
    assert!(end.reason.to_string().starts_with("failed: "), "{}", end.reason);
    assert_eq!(end.spent.unwrap().usage.total(), 20);
    assert_eq!(play.state.left().tokens, Some(0), "the rest went back to its parent");
}

// ── the law ──

mod trees;
