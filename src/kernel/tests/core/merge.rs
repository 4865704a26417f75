//! What a merge brings, as the core plans and takes it.

use std::sync::Arc;

use tamtam::{
    Seq,
    kernel::{
        CarriedOut, Grant, Limits, Merge, Merged, Point, Record, Refusal, Report, RollBack, RollbackTarget, State,
        context::Window, look_back, plan_merge,
    },
    model::{Item, MicroUsd, Price, Usage},
    session::Finish,
};

use super::{
    play::{Play, text},
    torn::assert_paired,
};

/// A parent of one turn, and a fork of it.
fn both() -> (Play, Play, usize) {
    let talked = || {
        let mut play = Play::new();
        play.send("a");
        play.answer_text("re a");
        play
    };
    let at = talked().written();
    (talked(), talked().fork_at(at), at)
}

fn plan(parent: &Play, fork: &Play, at: usize) -> Merged {
    let here: Vec<_> = parent.entries_of_the_tape().into_iter().skip(at).collect();
    let tape = fork.entries_of_the_tape();
    let Record::State(first) = &tape[0].record else { panic!("{:?}", tape[0]) };
    let mut then: State = (**first).clone();
    tape[..=at].iter().for_each(|entry| then.apply(entry));
    plan_merge(parent.state.seq, &here, &then, &tape[at + 1..])
}

fn submit(parent: &mut Play, merged: &Merged) -> Result<CarriedOut, Refusal> {
    let reply = parent.reply_to();
    parent.signal(Merge { merged: Arc::new(merged.clone()) }.to(reply));
    parent.reply.clone().unwrap()
}

fn back(play: &mut Play, wanted: &RollbackTarget) {
    let back = look_back(&play.entries_of_the_tape(), &play.state, wanted, true).unwrap().unwrap();
    let reply = play.reply_to();
    play.signal(RollBack { back: Arc::new(back), files: None, summary: None }.to(reply));
    assert!(play.reply.clone().unwrap().is_ok());
}

/// Calls come with their results, which name the entry that this tape has them in; a turn that runs here is not merged into, and
/// what was decided in between is looked at again.
#[test]
fn calls_and_results_come_together_and_only_to_a_session_at_rest() {
    let (mut parent, mut fork, at) = both();
    fork.send("x");
    fork.answer_calls(&["read", "read"]);
    for call in fork.started() {
        fork.returned(call, "read");
    }
    fork.answer_text("re x");
    let merged = plan(&parent, &fork, at);
    assert_eq!((merged.items.len(), merged.messages()), (5, vec!["x".into()]));
    parent.send("b");
    let turn = parent.state.turn.as_ref().unwrap().id;
    assert_eq!(submit(&mut parent, &merged), Err(Refusal::Busy { turn }));
    parent.answer_text("re b");
    let (expected, actual) = (merged.onto, parent.state.seq);
    assert_eq!(submit(&mut parent, &merged), Err(Refusal::Moved { expected, actual }));
    let merged = plan(&parent, &fork, at);
    let entry = merged.onto.next();
    assert_eq!(submit(&mut parent, &merged), Ok(CarriedOut::Done(entry)));
    assert_eq!(submit(&mut parent, &merged), Ok(CarriedOut::Done(entry)), "the answer was lost: it is there once");
    assert_paired(&parent, at);
    let results = parent.state.history.iter().filter_map(|item| match &**item {
        Item::Result(result) => Some(result.seq),
        _ => None,
    });
    assert_eq!(results.collect::<Vec<_>>(), [entry, entry]);
    assert!(plan(&parent, &fork, at).is_nothing());
    // An edit of what was merged is a turn like any other.
    parent.send("c");
    parent.answer_text("re c");
    assert_eq!(parent.history().len(), 11);
}

/// What the fork used counts once, in tokens and money, also where a merge is taken back and made again.
#[test]
fn what_the_fork_used_counts_once_whatever_is_taken_back() {
    let price = Price::new(MicroUsd(1_000_000), MicroUsd(4_000_000));
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    let (mut parent, mut fork, at) = both();
    for play in [&mut parent, &mut fork] {
        play.prices.set("fake/model".parse().unwrap(), price);
    }
    fork.send("x");
    fork.answer_using(vec![text("re x")], Finish::Stop, usage);
    let own = parent.state.spent_in_all();
    let first = plan(&parent, &fork, at);
    submit(&mut parent, &first).unwrap();
    back(&mut parent, &RollbackTarget::Undo);
    fork.send("y");
    fork.answer_using(vec![text("re y")], Finish::Stop, usage);
    let again = plan(&parent, &fork, at);
    assert_eq!((again.messages(), again.spent.requests), (vec!["x".into(), "y".into()], 1));
    submit(&mut parent, &again).unwrap();
    let mut expected = own;
    expected += fork.state.spent_in_all();
    assert_eq!(parent.state.spent_in_all(), expected);
    // What was said and taken back in the fork was used all the same.
    fork.send("z");
    fork.answer_using(vec![text("re z")], Finish::Stop, usage);
    back(&mut fork, &RollbackTarget::Undo);
    let rest = plan(&parent, &fork, at);
    assert_eq!((rest.items.len(), rest.spent.requests, rest.is_nothing()), (0, 1, false));
    let seen = parent.history();
    submit(&mut parent, &rest).unwrap();
    assert_eq!(parent.history(), seen);
    expected = own;
    expected += fork.state.spent_in_all();
    assert_eq!(parent.state.spent_in_all(), expected);
    // An undo takes back what was said, and not the account.
    back(&mut parent, &RollbackTarget::Undo);
    assert_eq!(parent.history(), ["user: a", "model: re a"]);
    assert_eq!(parent.state.spent_in_all(), expected);
}

/// A fork that was merged is deleted, and another one is made under its id from the same point, or an earlier one: what it says is
/// merged whole, and counts whole. Finding: it was taken for the one before it.
#[test]
fn a_fork_made_anew_under_the_id_of_a_merged_one_is_another_fork() {
    let talk = |play: &mut Play, word: &str| {
        play.send(word);
        play.answer_using(vec![text(word)], Finish::Stop, Usage { input: 100, output: 10, ..Usage::default() });
    };
    for earlier in [0, 1] {
        let (mut parent, mut fork, at) = both();
        talk(&mut fork, "x");
        talk(&mut fork, "y");
        let first = plan(&parent, &fork, at);
        submit(&mut parent, &first).unwrap();
        assert!(plan(&parent, &fork, at).is_nothing());

        let mut again = Play::new();
        again.send("a");
        again.answer_text("re a");
        again.asleep(1_000);
        let mut again = again.fork_at(at - earlier);
        assert_eq!(again.state.session, fork.state.session);
        talk(&mut again, "z");
        let merged = plan(&parent, &again, at - earlier);
        let messages: Vec<_> = merged.messages().into_iter().filter(|id| *id != "a".into()).collect();
        assert_eq!((messages, merged.spent.requests), (vec!["z".into()], 1), "{earlier} earlier");
        submit(&mut parent, &merged).unwrap();
        assert!(plan(&parent, &again, at - earlier).is_nothing(), "once");
        // Both are told apart from then on, whichever was merged last.
        talk(&mut fork, "w");
        assert_eq!(plan(&parent, &fork, at).messages(), vec!["w".into()]);
    }
}

/// A fork may use what was left of each limit at its point: less what was used, and what was held for what was open.
#[test]
fn a_fork_has_what_was_left_of_each_limit() {
    let limited = || {
        let mut play = Play::with(|settings| {
            settings.budget.session = Limits { tokens: Some(100_000), calls: Some(4), ..Limits::default() };
        });
        play.send("a");
        play.answer_using(vec![text("re a")], Finish::Stop, Usage { input: 1_000, output: 200, ..Usage::default() });
        play.send("b");
        play
    };
    let play = limited();
    let left = play.state.left();
    assert!(left.tokens.unwrap() < 98_800, "something is held for the open request: {left:?}");
    let written = play.written();
    let mut fork = play.fork_at(written);
    assert_eq!((fork.state.left(), fork.state.settings.budget.session), (left, left));
    fork.send("c");
    fork.answer_text("re c");
    assert!(fork.state.left().tokens < left.tokens);
    // What a fork of the fork gets is what that one left.
    let (left, written) = (fork.state.left(), fork.written());
    assert_eq!(fork.fork_at(written).state.left(), left);
}

/// Decision 0011: what a parent granted to a child is for that child alone. Its fork may use what its host gives it, and asks; what
/// it used counts in the child's sums, and is no part of what the parent is given account of.
#[test]
fn a_fork_of_a_child_has_nothing_of_its_grant_and_is_not_paid_from_it() {
    let child = || {
        let mut play = Play::new();
        play.begin_as(|state| {
            state.origin = Some(crate::kernel::tests::sim::tasks::origin().into());
            let grant = Limits { tokens: Some(20_000), time_ms: Some(60_000), ..Limits::default() };
            state.account.grant = Some(grant);
        });
        // Not the task itself: that is still to come.
        play.send("a");
        play.answer_using(vec![text("re")], Finish::Stop, Usage { input: 1_000, output: 200, ..Usage::default() });
        play
    };
    let at = child().written();
    let (mut parent, mut fork) = (child(), child().fork_at(at));
    let left = fork.state.left();
    assert_eq!((left.tokens, left.time_ms.is_some(), fork.state.account.grant), (Some(0), true, None));
    fork.send("x");
    let ask = fork.state.budget_ask().expect("its host is asked").0;
    fork.grant(ask, Grant::Raise(Limits { tokens: Some(50_000), ..Limits::default() })).unwrap();
    fork.answer_using(vec![text("re x")], Finish::Stop, Usage { input: 30_000, output: 500, ..Usage::default() });

    let (before, used) = (parent.state.left(), parent.state.spent_in_all());
    let merged = plan(&parent, &fork, at);
    submit(&mut parent, &merged).unwrap();
    assert_eq!(parent.state.left(), before, "the grant is what it was");
    let mut expected = used;
    expected += fork.state.spent_in_all();
    assert_eq!(parent.state.spent_in_all(), expected, "and the sums have it");
    parent.send("on");
    assert!(parent.state.request().is_some());
}

/// A point in the middle of what was merged is the merge: its messages were said here together.
#[test]
fn a_message_that_was_merged_is_gone_back_from_with_the_merge() {
    let (mut parent, mut fork, at) = both();
    fork.send("x");
    fork.answer_text("re x");
    fork.send("y");
    fork.answer_text("re y");
    let merged = plan(&parent, &fork, at);
    submit(&mut parent, &merged).unwrap();
    assert_eq!((merged.from, merged.to), (Seq(at as u64 + 1), fork.state.seq));
    back(&mut parent, &RollbackTarget::Point(Point::BeforeMessage("y".into())));
    assert_eq!(parent.history(), ["user: a", "model: re a"]);
    back(&mut parent, &RollbackTarget::Redo);
    assert_eq!(parent.history().len(), 6);
}

/// What was said in a fork may be too much for the window: it is summed up before the next step, as ever, and no pair is parted.
#[test]
fn a_merge_that_is_too_large_for_the_window_is_summed_up_before_the_next_step() {
    let (mut parent, mut fork, at) = both();
    for n in 0..8 {
        fork.send(&format!("{n:0500}"));
        fork.answer_calls(&["read"]);
        for call in fork.started() {
            fork.returned(call, "read");
        }
        fork.answer_text(&"y".repeat(500));
    }
    let merged = plan(&parent, &fork, at);
    submit(&mut parent, &merged).unwrap();
    parent.configure(|settings| {
        settings.compaction.reserve = Some(500);
        settings.compaction.keep = Some(300);
    });
    parent.window = Window::new(2_000, 0).with_reserve(500);
    parent.send("next");
    let (ticket, _) = parent.state.compaction().expect("it is summed up first");
    assert!(parent.state.request().is_none());
    parent.signal(Report::Summarised { result: Ok(("sum".into(), Default::default())), lost: 0 }.of(ticket));
    assert!(parent.state.request().is_some());
    assert_paired(&parent, at);
    let history = parent.history();
    assert!(history.len() < 10 && history.last().unwrap() == "user: next", "{history:#?}");
}
