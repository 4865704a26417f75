//! What holds for one task alone: its deadline, its stop, and a further task for a child that is done.

use std::{sync::Arc, time::Duration};

use tamtam::{
    Message, Millis, Seq,
    kernel::{
        BeAdopted, CarriedOut, Down, DownReason, Limits, Link, Origin, Record, Refusal, Report, Spawn, Stop, StopChild,
        StopLevel, TaskOrder, Terms, Tie,
    },
};

use super::{
    play::{Play, settings},
    tasks::{child, down, downs, end, id, own_end, spawn, told},
};

fn terms(deadline: Millis) -> Terms {
    Terms { deadline: Some(deadline), ..Terms::default() }
}

/// A child that has so long from now on.
fn child_for(ms: u64) -> (Play, Millis) {
    let mut play = child();
    let deadline = play.state.time.plus(Duration::from_millis(ms));
    play.begin_as(|state| Arc::make_mut(state.origin.as_mut().unwrap()).terms = terms(deadline));
    (play, deadline)
}

fn give(play: &mut Play, name: &str, link: Link, deadline: Millis) -> Seq {
    let reply = play.reply_to();
    let mut order = Box::new(TaskOrder::new(settings(), Message::user("help").with_id("p".into())));
    order.terms = terms(deadline);
    play.signal(Spawn { child: id(name), order, link }.to(reply));
    match play.reply.clone().unwrap() {
        Ok(CarriedOut::Done(ticket)) => ticket,
        other => panic!("the task is taken: {other:?}"),
    }
}

fn stop_child(play: &mut Play, ticket: Seq) {
    let reply = play.reply_to();
    play.signal(StopChild { ticket, why: "enough".into() }.to(reply));
}

/// O-22: the deadline ends the turn that is the task, and the parent is told so by its type, with what there was.
#[test]
fn a_deadline_ends_the_task_and_nothing_else() {
    let (mut play, deadline) = child_for(1_000);
    play.send("p");
    assert_eq!(play.state.due(), Some(deadline));
    play.later(999);
    assert_eq!(play.stopped(), []);
    play.later(1);
    assert_eq!(play.stopped().len(), 1);
    play.cut_off("half");
    assert_eq!(own_end(&play), Some(DownReason::TimedOut { deadline }));
    assert_eq!(&*play.state.origin.as_ref().unwrap().end.as_ref().unwrap().text, "half");
    assert_eq!(play.state.due(), None, "no deadline holds for what comes later");

    // A task that was not begun is taken back; what the host asked for beside it goes on.
    let (mut play, deadline) = child_for(1_000);
    play.send("something else");
    play.send("p");
    play.later(1_000);
    assert_eq!((play.stopped(), play.waiting().1.len()), (vec![], 0));
    assert_eq!(own_end(&play), Some(DownReason::TimedOut { deadline }));

    let (mut play, _) = child_for(1_000);
    play.send("p");
    play.answer_text("done");
    play.later(5_000);
    assert_eq!((own_end(&play), play.state.due()), (Some(DownReason::Done), None));
}

/// A deadline holds over a crash, also where it passed while nobody was there.
#[test]
fn a_deadline_that_passed_in_a_crash_ends_the_task() {
    let (mut play, deadline) = child_for(1_000);
    play.send("p");
    play.asleep(2_000);
    play.crash();
    play.later(1);
    if own_end(&play).is_none() {
        play.cut_off("");
    }
    assert_eq!(own_end(&play), Some(DownReason::TimedOut { deadline }));
}

/// O-22: a deadline shrinks down the tree, and is never later than that of the task above.
#[test]
fn a_deadline_is_at_most_that_of_the_task_above() {
    for (asked, expected) in [(500, 500), (5_000, 1_000)] {
        let (mut play, _) = child_for(1_000);
        play.configure(|settings| settings.task_depth_max = 5);
        let now = play.state.time;
        let ticket = give(&mut play, "c", Link::DETACHED, now.plus(Duration::from_millis(asked)));
        let task = play.state.tasks().find(|(open, _)| *open == ticket).unwrap().1;
        let deadline = task.order.as_ref().unwrap().terms.deadline.unwrap();
        let expected = if expected == 1_000 {
            play.state.task_deadline().unwrap()
        } else {
            now.plus(Duration::from_millis(expected))
        };
        assert_eq!(deadline, expected, "{asked}");
    }
}

/// A task that waits for room has no child that could see to its deadline: the parent ends it, and its model is told.
#[test]
fn a_task_that_waits_ends_at_its_deadline() {
    let mut play = Play::with(|settings| (settings.task_width_max, settings.task_queue_max) = (1, 5));
    let now = play.state.time;
    let at = |ms| now.plus(Duration::from_millis(ms));
    let works = give(&mut play, "works", Link::DETACHED, at(10));
    let waits = give(&mut play, "waits", Link::MONITORED, at(1_000));
    assert_eq!(play.state.due(), Some(at(1_000)), "the one that works sees to itself");
    play.later(1_000);
    let end = play.state.tasks_ended.back().unwrap().clone();
    assert_eq!(
        (end.ticket, end.down.as_ref().unwrap().reason.clone()),
        (waits, DownReason::TimedOut { deadline: at(1_000) })
    );
    assert!(end.down.unwrap().spent.is_some() && play.state.turn.is_some(), "nothing was used, and the model is told");
    assert_eq!(told(&play, works), Some(StopLevel::Run));
}

/// One task is stopped: no other, at once, and nobody is woken by its DOWN. One that waits is over without a child.
#[test]
fn one_task_is_stopped_by_itself() {
    let mut play = Play::with(|settings| (settings.task_width_max, settings.task_queue_max) = (2, 5));
    let [one, other, waits] = ["one", "other", "waits"].map(|name| spawn(&mut play, name, Link::LINKED).unwrap());
    stop_child(&mut play, one);
    assert_eq!(play.follows().1, [Stop::Task(one)]);
    assert_eq!((told(&play, one), told(&play, other)), (Some(StopLevel::Stop), Some(StopLevel::Run)));
    let why = play.state.tasks().find(|(ticket, _)| *ticket == one).unwrap().1.why.clone();
    assert_eq!(why.as_deref(), Some("enough"));
    stop_child(&mut play, one);
    assert!(play.entries.is_empty(), "once");
    stop_child(&mut play, waits);
    assert_eq!(downs(&play), [(id("waits"), Some("aborted"))]);
    down(&mut play, one, DownReason::Aborted { why: "enough".into() });
    assert!(play.state.turn.is_none() && play.state.queue.is_empty(), "whoever stops a task so knows");
    // The end of the parent is stronger, and says why by itself.
    end(&mut play);
    assert_eq!(told(&play, other), Some(StopLevel::End));
}

fn next(play: &mut Play, ticket: u64, prompt: &str, grant: Limits) -> Result<CarriedOut, Refusal> {
    let reply = play.reply_to();
    let tie = Tie { parent: id("parent"), ticket: Seq(ticket), link: Link::ATTACHED, depth: 1, grant };
    let next = Some(Box::new((Message::user(prompt).with_id(prompt.into()), Terms::default())));
    play.signal(BeAdopted { tie, above: Vec::new(), next }.to(reply));
    play.reply.clone().unwrap()
}

/// C-23: a child whose task is over takes a further one of its parent, with its own DOWN, account and grant; once.
#[test]
fn a_child_that_is_done_takes_a_further_task() {
    let mut play = child();
    play.begin_as(|state| state.take_grant(&Limits { tokens: Some(5_000_000), ..Limits::default() }));
    play.send("p");
    assert_eq!(
        next(&mut play, 9, "q", Limits::default()),
        Err(Refusal::NotAnOrphan { session: id("play") }),
        "it is at work"
    );
    play.answer_text("first");
    let used = play.state.origin.as_ref().unwrap().end.as_ref().unwrap().spent.unwrap();
    let grant = Limits { tokens: Some(7_000_000), ..Limits::default() };
    next(&mut play, 9, "q", grant).unwrap();
    assert!(matches!(&play.entries[..], [first, second, ..]
        if matches!(first.record, Record::Adopted { next: Some(_), .. }) && matches!(second.record, Record::Accepted { .. })));
    assert_eq!((own_end(&play), play.state.account.grant), (None, Some(grant)));
    next(&mut play, 9, "q", grant).unwrap();
    assert!(play.entries.is_empty(), "once");
    play.answer_text("second");
    let Origin { parent, ticket, end, .. } = (**play.state.origin.as_ref().unwrap()).clone();
    let end: Arc<Down> = end.unwrap();
    assert_eq!((&end.reason, &*end.text, end.spent.unwrap().requests), (&DownReason::Done, "second", used.requests));
    assert_eq!((parent, ticket), (id("parent"), Seq(9)));
    assert!(play.history().iter().any(|line| line.contains("first")), "it knows what it knew");
}

/// A further task stands on the parent's tape as any other; one that is open already is that task.
#[test]
fn a_further_task_is_a_ticket_of_its_own() {
    let mut play = Play::new();
    let first = spawn(&mut play, "c", Link::DETACHED).unwrap();
    down(&mut play, first, DownReason::Done);
    let again = |play: &mut Play| {
        let reply = play.reply_to();
        let mut order = Box::new(TaskOrder::new(settings(), Message::user("more").with_id("q".into())));
        order.again = true;
        play.signal(Spawn { child: id("c"), order, link: Link::DETACHED }.to(reply));
        match play.reply.clone().unwrap() {
            Ok(CarriedOut::Done(ticket)) => ticket,
            other => panic!("the task is taken: {other:?}"),
        }
    };
    let second = again(&mut play);
    assert!(second > first);
    assert_eq!((again(&mut play), play.entries.len()), (second, 0));
    play.signal(Report::TaskDown { down: Down::without_a_word(DownReason::Done) }.of(second));
    assert_eq!(downs(&play).len(), 2);
}
