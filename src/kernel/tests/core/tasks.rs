//! Child sessions, as the core of a parent and of a child see them: limits, links, DOWN, orphans, and every crash in between.

use std::sync::Arc;

use tamtam::{
    Message, Outcome, Seq, SessionId,
    kernel::{
        Adopt, BeAdopted, CarriedOut, Down, DownReason, Due, End, Limits, Link, Open, Origin, Orphan, Record, Refusal,
        Report, Settings, Spawn, State, Steering, Stop, StopLevel, StopTask, TaskOrder, Tie,
    },
    permission::{Action, Chain, Ruleset},
};

use super::play::{Play, rules, settings};

pub(super) fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

fn order() -> Box<TaskOrder> {
    Box::new(TaskOrder::new(settings(), Message::user("help").with_id("p".into())))
}

pub(super) fn spawn(play: &mut Play, child: &str, link: Link) -> Result<Seq, Refusal> {
    let reply = play.reply_to();
    play.signal(Spawn { child: id(child), order: order(), link }.to(reply));
    match play.reply.clone().unwrap() {
        Ok(CarriedOut::Done(ticket)) => Ok(ticket),
        Ok(other) => panic!("a spawn was answered with {other:?}"),
        Err(refusal) => Err(refusal),
    }
}

pub(super) fn down(play: &mut Play, ticket: Seq, reason: DownReason) {
    let mut down = Down::without_a_word(reason);
    down.text = "found it".into();
    play.signal(Report::TaskDown { down }.of(ticket));
}

pub(super) fn downs(play: &Play) -> Vec<(SessionId, Option<&'static str>)> {
    let word = |reason: &DownReason| match reason {
        DownReason::Done => "done",
        DownReason::Aborted { .. } => "aborted",
        DownReason::Ended { .. } => "ended",
        _ => "another",
    };
    let ended = play.state.tasks_ended.iter();
    ended.map(|end| (end.child.clone(), end.down.as_ref().map(|down| word(&down.reason)))).collect()
}

pub(super) fn told(play: &Play, ticket: Seq) -> Option<StopLevel> {
    match play.state.open.get(&ticket) {
        Some(Open::Task(task)) => Some(task.stop_level),
        _ => None,
    }
}

pub(super) fn end(play: &mut Play) {
    let reply = play.reply_to();
    play.signal(End { reason: "over".into() }.to(reply));
}

/// A session that is a child, and was given its task.
pub(super) fn child() -> Play {
    let mut play = Play::new();
    let origin = Origin {
        parent: id("parent"),
        ticket: Seq(7),
        link: Link::LINKED,
        depth: 1,
        prompt: "p".into(),
        terms: Default::default(),
        orphaned: None,
        end: None,
    };
    play.begin_as(|state| state.origin = Some(Arc::new(origin)));
    play
}

pub(super) fn own_end(play: &Play) -> Option<DownReason> {
    play.state.origin.as_ref()?.end.as_ref().map(|down| down.reason.clone())
}

// ── a parent ──

/// The parent's tape has the task before the child is started, and its DOWN once.
#[test]
fn a_task_is_a_ticket_from_its_start_to_its_down() {
    let mut play = Play::new();
    let ticket = spawn(&mut play, "c", Link::DETACHED).unwrap();
    assert!(matches!(&play.entries[..], [entry] if matches!(entry.record, Record::TaskStarted { depth: 1, .. })));
    assert_eq!(play.follows(), (vec![Due::Task(ticket)], vec![]));
    assert!(play.state.is_idle() && play.state.is_unfinished() && !play.state.may_sleep());
    down(&mut play, ticket, DownReason::Done);
    down(&mut play, ticket, DownReason::Parked);
    assert_eq!((play.entries.len(), downs(&play)), (0, vec![(id("c"), Some("done"))]));
    assert!(!play.state.is_unfinished() && play.state.may_sleep());
    // Detached: recorded, and nobody is woken.
    assert_eq!((play.history(), play.state.turns), (Vec::<String>::new(), 0));
}

/// The same child again is the same task, open or over: a parent that crashed between record and answer is asked twice.
#[test]
fn the_same_child_again_is_the_same_task() {
    let mut play = Play::new();
    let ticket = spawn(&mut play, "c", Link::DETACHED).unwrap();
    assert_eq!((spawn(&mut play, "c", Link::LINKED), play.entries.len()), (Ok(ticket), 0));
    down(&mut play, ticket, DownReason::Done);
    assert_eq!((spawn(&mut play, "c", Link::LINKED), play.entries.len()), (Ok(ticket), 0));
}

/// C-08, H-20: one deep and eight wide by default, counted for every way of coming by a child; typed, and nothing is recorded.
#[test]
fn depth_and_width_are_counted() {
    let mut play = Play::new();
    for n in 0..8 {
        spawn(&mut play, &format!("c{n}"), Link::DETACHED).unwrap();
    }
    assert_eq!(spawn(&mut play, "c8", Link::DETACHED), Err(Refusal::TooManyTasks { open: 8, max: 8 }));
    let reply = play.reply_to();
    play.signal(Adopt { child: id("o"), link: Link::LINKED }.to(reply));
    assert_eq!(play.reply, Some(Err(Refusal::TooManyTasks { open: 8, max: 8 })));
    assert!(play.entries.is_empty());
    let first = play.state.tasks().next().unwrap().0;
    down(&mut play, first, DownReason::Done);
    assert!(spawn(&mut play, "c8", Link::DETACHED).is_ok());

    let mut deep = child();
    assert_eq!(spawn(&mut deep, "grandchild", Link::LINKED), Err(Refusal::TooDeep { depth: 2, max: 1 }));
    let mut deeper = child();
    deeper.configure(|settings| settings.task_depth_max = 2);
    assert!(spawn(&mut deeper, "grandchild", Link::LINKED).is_ok());
    assert!(matches!(deeper.entries[0].record, Record::TaskStarted { depth: 2, .. }));
}

/// A DOWN wakes an idle parent with a turn of its own, joins a running one before its next step, and is said once.
#[test]
fn a_down_wakes_the_parent_where_the_link_says_so() {
    for link in [Link::LINKED, Link::MONITORED] {
        let mut play = Play::new();
        let ticket = spawn(&mut play, "c", link).unwrap();
        down(&mut play, ticket, DownReason::Done);
        assert_eq!(play.history(), ["user: Task c is over: done.\n\nfound it"]);
        assert_eq!(play.started(), [play.request()]);
        play.answer_text("thanks");
        assert_eq!(play.outcome(), Some(Outcome::Done));

        let mut play = Play::new();
        let ticket = spawn(&mut play, "c", link).unwrap();
        play.send("go");
        let calls = play.answer_calls(&["bash", "write"]);
        down(&mut play, ticket, DownReason::Failed { error: "no".into() });
        // It lets the calls run, as any message does that waits for the batch.
        play.returned(calls[0], "ok");
        play.returned(calls[1], "ok");
        assert_eq!(play.newest(3, 60), ["c0 ok", "c1 ok", "user: Task c is over: failed: no.\n\nfound it"]);
    }
}

/// Nobody sent it, so a DOWN lets nothing go on that is held, paused or waits.
#[test]
fn a_down_lets_nothing_go_on_that_is_held() {
    let mut play = Play::new();
    let ticket = spawn(&mut play, "c", Link::MONITORED).unwrap();
    play.send("go");
    play.send("later");
    play.abort("enough");
    play.cut_off("");
    assert!(play.state.on_hold);
    down(&mut play, ticket, DownReason::Done);
    assert!(play.state.on_hold && play.is_quiet() && play.state.queue.len() == 2);
    play.go_on();
    assert_eq!(play.newest(1, 9), ["user: lat"]);
}

/// A child's text is shown to its parent's model up to a bound.
#[test]
fn a_long_answer_is_cut_for_the_parent() {
    let mut play = Play::new();
    let ticket = spawn(&mut play, "c", Link::LINKED).unwrap();
    let mut down = Down::without_a_word(DownReason::Done);
    down.text = "é".repeat(50_000).into();
    play.signal(Report::TaskDown { down: down.clone() }.of(ticket));
    let said = play.history().remove(0);
    assert!(said.ends_with("... [truncated]") && said.len() < 51_400, "{}", said.len());
    assert_eq!(play.state.tasks_ended[0].down.as_deref(), Some(&down));
}

/// An abort stops linked children, in a turn and outside of one, and their DOWN wakes nobody; the others work on.
#[test]
fn an_abort_stops_linked_children_and_no_others() {
    for running in [true, false] {
        let mut play = Play::new();
        let links = [Link::LINKED, Link::MONITORED, Link::DETACHED];
        let tickets = [0, 1, 2].map(|n| spawn(&mut play, &format!("c{n}"), links[n]).unwrap());
        if running {
            play.send("go");
        }
        play.abort("enough");
        let stops: Vec<_> = play.stops.iter().filter(|one| matches!(one, Stop::Task(_))).collect();
        assert_eq!(stops, [&Stop::Task(tickets[0])]);
        assert_eq!(
            tickets.map(|ticket| told(&play, ticket)),
            [StopLevel::Stop, StopLevel::Run, StopLevel::Run].map(Some)
        );
        if running {
            play.cut_off("");
        }
        assert!(!play.state.is_idle(), "what was told to stop is not down yet");
        down(&mut play, tickets[0], DownReason::Aborted { why: "enough".into() });
        assert!(play.state.is_idle() && play.is_quiet());
        assert_eq!(downs(&play), [(id("c0"), Some("aborted"))]);
    }
}

/// ASK-11: steering a parent kills no child, also where it aborts what runs.
#[test]
fn steering_a_parent_leaves_its_children_alone() {
    for steering in [Steering::FinishBatch, Steering::SkipRemaining, Steering::AbortRunning] {
        let mut play = Play::new();
        let ticket = spawn(&mut play, "c", Link::LINKED).unwrap();
        play.send("go");
        play.answer_calls(&["bash", "write"]);
        play.steer("no", steering);
        assert_eq!(told(&play, ticket), Some(StopLevel::Run), "{steering:?}");
    }
}

/// A rejection ends a turn, and is no abort of what works beside it.
#[test]
fn a_turn_ends_and_its_children_work_on() {
    let mut play = Play::new();
    let ticket = spawn(&mut play, "c", Link::LINKED).unwrap();
    play.send("go");
    play.answer_text("done");
    assert_eq!((told(&play, ticket), play.state.is_idle()), (Some(StopLevel::Run), true));
}

/// The recovery rule of a task: seen to again, as far as it had been told. Also outside of a turn.
#[test]
fn an_open_task_is_seen_to_again_after_a_crash() {
    let mut play = Play::new();
    let ticket = spawn(&mut play, "c", Link::LINKED).unwrap();
    play.crash();
    assert_eq!((play.follows(), told(&play, ticket)), ((vec![Due::Task(ticket)], vec![]), Some(StopLevel::Run)));
    assert_eq!(play.entries, []);
    play.abort("enough");
    play.crash();
    assert_eq!(play.follows(), (vec![], vec![Stop::Task(ticket)]));
    end(&mut play);
    // Who watches over it tells it what the state says.
    assert_eq!((told(&play, ticket), play.is_quiet()), (Some(StopLevel::End), true));
    play.crash();
    assert_eq!((play.follows(), told(&play, ticket)), ((vec![Due::Task(ticket)], vec![]), Some(StopLevel::End)));
    down(&mut play, ticket, DownReason::Ended { why: "over".into() });
    play.crash();
    assert!(play.is_quiet() && play.state.open.is_empty());
}

/// A parent that waits to be told to go on still hears of its children, and starts nothing for it.
#[test]
fn a_turn_that_waits_still_has_its_children_watched() {
    let mut play = Play::with(|settings| settings.auto_resume = false);
    let ticket = spawn(&mut play, "c", Link::LINKED).unwrap();
    play.send("go");
    play.crash();
    assert_eq!((play.state.waits, play.follows()), (true, (vec![Due::Task(ticket)], vec![])));
    down(&mut play, ticket, DownReason::Done);
    assert!(play.is_quiet() && play.state.waits);
    play.go_on();
    play.answer_text("a");
    assert!(play.newest(1, 20)[0].starts_with("user: Task c"));
}

/// What was half written when the process died is said in recovery: no child is started to be stopped.
#[test]
fn a_torn_abort_stops_the_children_in_recovery() {
    let scene = || {
        let mut play = Play::new();
        let ticket = spawn(&mut play, "c", Link::LINKED).unwrap();
        play.send("go");
        play.abort("enough");
        (play, ticket)
    };
    for cut in 1..=scene().0.entries.len() {
        let (mut play, ticket) = scene();
        play.crash_after(cut);
        assert_eq!(play.follows(), (vec![], vec![Stop::Task(ticket)]), "after a cut at {cut}");
        down(&mut play, ticket, DownReason::Aborted { why: "enough".into() });
        assert!(play.state.is_idle() && play.outcome() == Some(Outcome::Aborted { reason: "enough".into() }));
    }
}

// ── the end ──

/// The end of a session: its turn is aborted, what waits is taken back, linked children end, the others are left as orphans.
#[test]
fn an_end_takes_linked_children_along_and_leaves_the_others() {
    let scene = || {
        let mut play = Play::new();
        let links = [Link::LINKED, Link::MONITORED, Link::DETACHED];
        let tickets = [0, 1, 2].map(|n| spawn(&mut play, &format!("c{n}"), links[n]).unwrap());
        play.send("go");
        play.send("later");
        end(&mut play);
        (play, tickets)
    };
    for cut in 1..=scene().0.entries.len() {
        let (mut play, tickets) = scene();
        if cut < scene().0.entries.len() {
            play.crash_after(cut);
        } else {
            play.cut_off("");
        }
        assert_eq!(
            tickets.map(|ticket| told(&play, ticket)),
            [StopLevel::End, StopLevel::Leave, StopLevel::Leave].map(Some),
            "{cut}"
        );
        assert_eq!((play.waiting(), play.outcome().is_some()), ((vec![], vec![]), true), "after a cut at {cut}");
        down(&mut play, tickets[0], DownReason::Ended { why: "over".into() });
        for ticket in &tickets[1..] {
            play.signal(Report::TaskLeft.of(*ticket));
        }
        assert_eq!(downs(&play), [(id("c0"), Some("ended")), (id("c1"), None), (id("c2"), None)]);
        assert!(play.state.is_idle() && !play.state.is_unfinished() && play.is_quiet());
        assert_eq!(play.send_as("hello?", Default::default()), Err(Refusal::Ended));
        assert_eq!(spawn(&mut play, "c9", Link::LINKED), Err(Refusal::Ended));
    }
}

// ── a child ──

/// What the end of a child's turn means for its parent; once, whatever happens in the child afterwards.
#[test]
fn the_end_of_a_childs_turn_is_its_down() {
    let mut play = child();
    assert_eq!(own_end(&play), None);
    play.send("p");
    play.answer_text("found it");
    let down = play.state.origin.as_ref().unwrap().end.clone().unwrap();
    assert_eq!((&down.reason, &*down.text, down.steps), (&DownReason::Done, "found it", 1));
    play.send("more");
    play.abort("enough");
    play.cut_off("");
    assert_eq!(own_end(&play), Some(DownReason::Done));

    let mut play = child();
    play.send("p");
    play.failed_with(tamtam::model::ModelError::new(tamtam::model::ErrorKind::Auth, "bad key"));
    assert_eq!(own_end(&play), Some(DownReason::Failed { error: "bad key".into() }));

    let mut play = child();
    play.send("p");
    end(&mut play);
    play.cut_off("");
    assert_eq!(own_end(&play), Some(DownReason::Ended { why: "over".into() }));
}

/// Promise 5: a child whose turn waits after a second crash would keep its parent waiting for ever: it is down as failed.
#[test]
fn a_child_that_waits_to_be_told_is_down() {
    let mut play = child();
    play.send("p");
    play.crash();
    assert_eq!(own_end(&play), None);
    play.crash();
    assert!(matches!(own_end(&play), Some(DownReason::Failed { error }) if error.contains("waits to be told")));
}

/// A parent stops its task in the child, and nothing else there: also one that was not begun, and only by its own ticket.
#[test]
fn a_parent_stops_its_own_task_and_no_other() {
    let stop = |play: &mut Play, ticket: u64| {
        let reply = play.reply_to();
        let (parent, ticket, why) = (id("parent"), Seq(ticket), "stopped".to_owned());
        play.signal(StopTask { parent, ticket, why }.to(reply));
    };
    let mut play = child();
    play.send("p");
    stop(&mut play, 8);
    assert_eq!(play.stopped(), []);
    stop(&mut play, 7);
    play.cut_off("half");
    assert_eq!(own_end(&play), Some(DownReason::Aborted { why: "stopped".into() }));

    let mut play = child();
    play.send("something else");
    play.send("p");
    stop(&mut play, 7);
    assert_eq!((play.stopped(), play.waiting().1.len()), (vec![], 0));
    assert!(matches!(own_end(&play), Some(DownReason::Aborted { .. })));

    let mut play = child();
    play.send("p");
    play.answer_text("done");
    play.send("by itself");
    stop(&mut play, 7);
    assert_eq!((play.stopped(), own_end(&play)), (vec![], Some(DownReason::Done)));
}

/// The rules of one who works in the same folder.
fn chain(rules: Ruleset) -> Chain {
    Chain::new("/w", vec![rules])
}

/// Invariant 32: an orphan knows where it came from; whoever adopts it gets its DOWN; a second death orphans it again.
#[test]
fn an_orphan_is_adopted_and_orphaned_again() {
    let mut play = child();
    play.send("p");
    let adopt = |play: &mut Play, parent: &str, ticket: u64| {
        let reply = play.reply_to();
        let tie =
            Tie { parent: id(parent), ticket: Seq(ticket), link: Link::MONITORED, depth: 1, grant: Limits::default() };
        play.signal(BeAdopted { tie, above: vec![chain(rules("new parent", &[]))], next: None }.to(reply));
        play.reply.clone().unwrap()
    };
    let orphan = |play: &mut Play, parent: &str, ticket: u64| {
        let reply = play.reply_to();
        play.signal(Orphan { parent: id(parent), ticket: Seq(ticket), why: "it ended".into() }.to(reply));
    };
    assert_eq!(adopt(&mut play, "second", 3), Err(Refusal::NotAnOrphan { session: id("play") }));
    orphan(&mut play, "parent", 8);
    assert!(play.entries.is_empty(), "another ticket says nothing");
    orphan(&mut play, "parent", 7);
    orphan(&mut play, "parent", 7);
    assert!(play.entries.is_empty(), "once");
    let origin = |play: &Play| (**play.state.origin.as_ref().unwrap()).clone();
    assert_eq!((origin(&play).parent, origin(&play).orphaned), (id("parent"), Some("it ended".into())));
    // The work goes on.
    assert!(play.state.request().is_some());
    assert!(adopt(&mut play, "second", 3).is_ok());
    assert!(adopt(&mut play, "second", 3).is_ok() && play.entries.is_empty(), "by the same ticket again");
    assert_eq!(adopt(&mut play, "third", 4), Err(Refusal::NotAnOrphan { session: id("play") }));
    play.crash();
    assert_eq!((origin(&play).parent, origin(&play).orphaned), (id("second"), None));
    assert_eq!(play.state.settings.above, [chain(rules("new parent", &[]))]);
    orphan(&mut play, "second", 3);
    assert!(adopt(&mut play, "third", 4).is_ok());
    assert_eq!((origin(&play).parent, origin(&play).end), (id("third"), None));
    play.answer_text("found it");
    assert_eq!(own_end(&play), Some(DownReason::Done));
}

// ── rights ──

/// Promise 8: the settings that a child is given carry the rules of all its ancestors, and no change of settings drops them.
#[test]
fn a_child_carries_the_rules_of_its_ancestors() {
    let mut play = child();
    play.configure(|settings| settings.task_depth_max = 5);
    let grandparent = chain(rules("grandparent", &[]));
    play.begin_as({
        let mut settings: Settings = (*play.state.settings).clone();
        settings.above = vec![grandparent.clone()];
        move |state: &mut State| state.settings = Arc::new(settings)
    });
    let ticket = spawn(&mut play, "c", Link::LINKED).unwrap();
    let Some(Open::Task(task)) = play.state.open.get(&ticket) else { panic!("it is open") };
    let made = task.order.as_ref().unwrap().settings.clone();
    assert_eq!(made.above, [grandparent.clone(), Chain::new("/w", play.state.settings.rules.clone())]);
    play.configure(|settings| settings.above.clear());
    assert_eq!(play.state.settings.above, [grandparent]);
}

/// Promise 8: what a parent may no longer do reaches its child, is said again after a crash, and is written once.
#[test]
fn a_child_is_narrowed_with_its_parent() {
    let mut play = child();
    play.send("p");
    let tell = |play: &mut Play, above: Vec<Chain>| {
        let reply = play.reply_to();
        let tie = Tie { parent: id("parent"), ticket: Seq(7), link: Link::LINKED, depth: 1, grant: Limits::default() };
        play.signal(BeAdopted { tie, above, next: None }.to(reply));
        assert!(matches!(play.reply, Some(Ok(_))));
    };
    tell(&mut play, Vec::new());
    assert!(play.entries.is_empty());
    let narrow = chain(rules("narrow", &[("bash", "*", Action::Deny)]));
    tell(&mut play, vec![narrow.clone()]);
    assert!(matches!(&play.entries[0].record, Record::Narrowed { above } if *above == [narrow.clone()]));
    tell(&mut play, vec![narrow.clone()]);
    assert!(play.entries.is_empty());
    // Rules that are taken back above were denied once, and stay so.
    tell(&mut play, Vec::new());
    play.crash();
    play.answer_calls(&["bash"]);
    assert_eq!(play.newest(1, 60), ["c0! Permission denied: bash * by narrow (deny bash *)."]);
}

/// Promise 8: an orphan has no tool that whoever adopts it lacks; no change of its settings brings one back.
#[test]
fn an_adopted_child_has_no_tool_that_its_new_parent_lacks() {
    let mut play = child();
    play.send("p");
    let reply = play.reply_to();
    play.signal(Orphan { parent: id("parent"), ticket: Seq(7), why: "it ended".into() }.to(reply));
    let parent = {
        let mut settings = (*play.state.settings).clone();
        settings.above.clear();
        settings.tools = Some(["read".to_owned(), "gr*".to_owned()].into());
        settings
    };
    let reply = play.reply_to();
    let tie = Tie { parent: id("second"), ticket: Seq(3), link: Link::MONITORED, depth: 1, grant: Limits::default() };
    play.signal(BeAdopted { tie, above: parent.above_children(), next: None }.to(reply));
    for change in [None, Some(["bash".to_owned(), "grep".to_owned()].into())] {
        play.configure(|settings| settings.tools = change);
        assert!(!play.state.settings.has_tool("bash") && play.state.settings.has_tool("grep"));
    }
    play.crash();
    play.answer_calls(&["bash"]);
    assert!(
        play.newest(1, 80)[0].contains("The tool bash is not among those of this agent"),
        "{:?}",
        play.newest(1, 80)
    );
    // Its own children are bound by both.
    let order = Chain::new("/w", vec![]).with_tools(Some(["read".to_owned()].into()));
    let back: Vec<Chain> = serde_json::from_str(&serde_json::to_string(&vec![order.clone()]).unwrap()).unwrap();
    assert_eq!(back, [order]);
}

/// A tape that nobody here wrote may say that a session is as deep as a number goes; it has no children then.
#[test]
fn a_session_at_the_bottom_of_all_numbers_has_no_children() {
    let mut play = child();
    play.begin_as(|state| {
        if let Some(origin) = &mut state.origin {
            Arc::make_mut(origin).depth = u32::MAX;
        }
    });
    let max = play.state.settings.task_depth_max;
    assert_eq!(spawn(&mut play, "grandchild", Link::default()), Err(Refusal::TooDeep { depth: u32::MAX, max }));
}
