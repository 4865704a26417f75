//! The queue behind a parent's width: which tasks wait, when they begin, and how they end without a child.

use tamtam::{
    EventKind, Seq,
    event::events_of,
    kernel::{
        Adopt, Down, DownReason, Due, Entry, Link, Open, Record, Refusal, Report, RestartPolicy, Settings, Spent, Stop,
        StopLevel,
    },
};

use super::{
    play::Play,
    tasks::{down, downs, end, id, spawn, told},
};

/// A parent of that width, whose further tasks may wait.
fn parent(width: usize, queue: usize) -> Play {
    Play::with(|settings| (settings.task_width_max, settings.task_queue_max) = (width, queue))
}

/// So many tasks, as tickets.
fn spawn_all(play: &mut Play, links: &[Link]) -> Vec<Seq> {
    links.iter().enumerate().map(|(n, link)| spawn(play, &format!("c{n}"), *link).unwrap()).collect()
}

fn queued(play: &Play) -> Vec<Seq> {
    play.state.tasks().filter(|(_, task)| task.queued).map(|(ticket, _)| ticket).collect()
}

fn reason(play: &Play, child: &str) -> Down {
    let end = play.state.tasks_ended.iter().find(|end| end.child == id(child)).expect("its task is over");
    (**end.down.as_ref().unwrap()).clone()
}

/// A task over the width is on the tape at once and nothing is begun for it; those that wait begin in the order of their arrival,
/// each as soon as a child is down. A parent whose tasks wait is not put to sleep.
#[test]
fn tasks_over_the_width_begin_in_the_order_of_their_arrival() {
    let mut play = parent(2, 3);
    let tickets = spawn_all(&mut play, &[Link::DETACHED; 5]);
    assert!(matches!(play.entries[0].record, Record::TaskStarted { .. }));
    assert_eq!((play.follows(), queued(&play)), ((vec![], vec![]), tickets[2..].to_vec()));
    assert!(play.state.is_idle() && play.state.is_unfinished() && !play.state.may_sleep());
    // The one that was begun last may be the first that is down.
    for (n, over) in [1, 0, 2, 3, 4].into_iter().enumerate() {
        down(&mut play, tickets[over], DownReason::Done);
        let next = tickets.get(n + 2).copied();
        assert_eq!(play.follows().0, next.map(Due::Task).into_iter().collect::<Vec<_>>(), "behind c{over}");
    }
    assert!(play.state.may_sleep());
    assert_eq!(play.state.tasks_ended.len(), 5);
}

/// Only so many wait, and without the setting none does; an orphan works already and cannot wait; behind a width of 0 nothing waits
/// for ever.
#[test]
fn only_so_many_tasks_wait() {
    let refused = |open, max| Err(Refusal::TooManyTasks { open, max });
    let mut play = parent(1, 2);
    let tickets = spawn_all(&mut play, &[Link::DETACHED; 3]);
    assert_eq!(spawn(&mut play, "c3", Link::DETACHED), refused(3, 3));
    // The same child again is the same task.
    assert_eq!((spawn(&mut play, "c2", Link::DETACHED), play.entries.len()), (Ok(tickets[2]), 0));
    let reply = play.reply_to();
    play.signal(Adopt { child: id("o"), link: Link::LINKED }.to(reply));
    assert_eq!(play.reply, Some(Err(Refusal::TooManyTasks { open: 3, max: 1 })));
    down(&mut play, tickets[0], DownReason::Done);
    assert!(spawn(&mut play, "c3", Link::DETACHED).is_ok());

    assert_eq!(spawn(&mut parent(0, 5), "c", Link::DETACHED), refused(0, 0));
    // At most 1,000, whatever the settings say.
    let mut bounded = parent(1, usize::MAX);
    let ticket = spawn_all(&mut bounded, &[Link::DETACHED; 2])[1];
    bounded.begin_as(|state| {
        let waits = state.open[&ticket].clone();
        (0..999).for_each(|n| drop(state.open.insert(Seq(10_000 + n), waits.clone())));
    });
    assert_eq!(spawn(&mut bounded, "c9", Link::DETACHED), refused(1_001, 1_001));
}

/// A width that is lowered stops nobody, and begins nobody until there is room again; one that is raised begins those that wait, and
/// no further ones. All of it is the same after a crash.
#[test]
fn the_width_may_change_while_tasks_wait() {
    for crashes in [false, true] {
        let mut play = parent(3, 9);
        let crash = |play: &mut Play| {
            if crashes {
                play.crash();
            }
        };
        let tickets = spawn_all(&mut play, &[Link::DETACHED; 6]);
        play.configure(|settings| settings.task_width_max = 1);
        crash(&mut play);
        assert_eq!(queued(&play), tickets[3..]);
        for ticket in &tickets[..2] {
            down(&mut play, *ticket, DownReason::Done);
            assert_eq!((play.follows().0, queued(&play)), (vec![], tickets[3..].to_vec()));
        }
        down(&mut play, tickets[2], DownReason::Done);
        assert_eq!(play.follows().0, [Due::Task(tickets[3])]);
        crash(&mut play);
        play.configure(|settings| settings.task_width_max = 2);
        assert_eq!((play.follows().0, queued(&play)), (vec![Due::Task(tickets[4])], tickets[5..].to_vec()));
        // Without a queue from now on: who waits already, waits.
        play.configure(|settings| settings.task_queue_max = 0);
        assert!(spawn(&mut play, "late", Link::DETACHED).is_err());
        down(&mut play, tickets[3], DownReason::Done);
        assert_eq!(play.follows().0, [Due::Task(tickets[5])]);
    }
}

/// After a crash those that had begun are seen to, and those that wait are not.
#[test]
fn a_crash_begins_no_task_that_waits() {
    let mut play = parent(2, 2);
    let tickets = spawn_all(&mut play, &[Link::LINKED; 4]);
    play.crash();
    assert_eq!(
        (play.follows().0, queued(&play)),
        (tickets[..2].iter().copied().map(Due::Task).collect(), tickets[2..].to_vec())
    );
    down(&mut play, tickets[0], DownReason::Done);
    assert!(play.follows().0.contains(&Due::Task(tickets[2])), "{:?}", play.follows());
}

/// An abort ends the linked tasks that wait at once: they never began, nobody is woken, and their grant comes back. The others wait
/// on, and begin when there is room.
#[test]
fn an_abort_ends_linked_tasks_that_wait() {
    for running in [true, false] {
        let mut play = parent(1, 9);
        play.configure(|settings| settings.budget.session.tokens = Some(90_000));
        let tickets = spawn_all(&mut play, &[Link::LINKED, Link::LINKED, Link::DETACHED, Link::ATTACHED]);
        if running {
            play.send("go");
        }
        play.abort("enough");
        let stops: Vec<_> = play.stops.iter().filter(|one| matches!(one, Stop::Task(_))).collect();
        assert_eq!(stops, [&Stop::Task(tickets[0])], "there is nobody to stop behind the others");
        assert_eq!(queued(&play), [tickets[2]]);
        assert_eq!(downs(&play), [(id("c1"), Some("aborted")), (id("c3"), Some("aborted"))]);
        let never = reason(&play, "c1");
        assert_eq!(
            (never.spent, never.reason.to_string().as_str()),
            (Some(Spent::default()), "aborted: stopped before it began")
        );
        if running {
            play.cut_off("");
        }
        down(&mut play, tickets[0], DownReason::Aborted { why: "enough".into() });
        assert_eq!((play.follows().0, play.history().len()), (vec![Due::Task(tickets[2])], usize::from(running)));
        down(&mut play, tickets[2], DownReason::Done);
        assert!(play.state.is_idle() && play.state.open.is_empty());
    }
}

/// The end of the parent is the end of all that wait, whatever their link: there is no child that could live on. Also where the
/// record of it was torn.
#[test]
fn the_end_of_the_parent_ends_all_that_wait() {
    let scene = || {
        let mut play = parent(1, 9);
        let tickets = spawn_all(&mut play, &[Link::DETACHED, Link::LINKED, Link::MONITORED, Link::DETACHED]);
        end(&mut play);
        (play, tickets)
    };
    let whole = scene().0.entries.len();
    for cut in 1..=whole {
        let (mut play, tickets) = scene();
        if cut < whole {
            play.crash_after(cut);
        }
        assert_eq!((told(&play, tickets[0]), queued(&play)), (Some(StopLevel::Leave), vec![]), "after a cut at {cut}");
        assert_eq!(downs(&play), [1, 2, 3].map(|n| (id(&format!("c{n}")), Some("ended"))), "after a cut at {cut}");
        play.signal(Report::TaskLeft.of(tickets[0]));
        assert!(play.state.open.is_empty() && play.is_quiet() && play.state.turns == 0);
    }
}

/// Nothing new begins in a paused session: what waits begins with the resume.
#[test]
fn no_task_begins_in_a_pause() {
    let mut play = parent(1, 2);
    let tickets = spawn_all(&mut play, &[Link::DETACHED; 3]);
    play.pause();
    down(&mut play, tickets[0], DownReason::Done);
    assert_eq!((play.follows().0, queued(&play)), (vec![], tickets[1..].to_vec()));
    play.resume();
    assert_eq!((play.follows().0, queued(&play)), (vec![Due::Task(tickets[1])], tickets[2..].to_vec()));
}

/// A grant is held back while its task waits; what is more than is left is refused, as it is without a queue; equal shares count the
/// places in the queue.
#[test]
fn a_task_that_waits_holds_its_grant() {
    let mut play = parent(1, 3);
    play.configure(|settings| settings.budget.session.tokens = Some(100_000));
    let tickets = spawn_all(&mut play, &[Link::DETACHED; 3]);
    let grant = |play: &Play, ticket| match play.state.open.get(&ticket) {
        Some(Open::Task(task)) => task.grant.tokens,
        _ => None,
    };
    assert_eq!([0, 1, 2].map(|n| grant(&play, tickets[n])), [Some(20_000); 3]);
    assert_eq!(play.state.left().tokens, Some(40_000));
    play.configure(|settings| settings.budget.session.tokens = Some(60_000));
    assert!(matches!(spawn(&mut play, "c3", Link::DETACHED), Err(Refusal::OverBudget { .. })));
    assert!(play.entries.is_empty());
}

/// The events say who waits and when they begin, from the tape alone.
#[test]
fn events_say_that_a_task_waits_and_when_it_begins() {
    let mut play = parent(1, 2);
    let tickets = spawn_all(&mut play, &[Link::DETACHED; 3]);
    down(&mut play, tickets[0], DownReason::Done);
    play.configure(|settings| settings.task_width_max = 5);
    let mut entries = play.entries_of_the_tape().into_iter();
    let mut state = tamtam::kernel::State::fold(entries.next().iter().cloned().collect::<Vec<Entry>>()).unwrap();
    let mut seen = Vec::new();
    for entry in entries {
        let events = events_of(&state, &entry);
        seen.extend(events.filter_map(|event| match event.kind {
            EventKind::TaskStarted { ticket, queued, .. } => {
                Some((if queued { "waits" } else { "begins at once" }, ticket))
            }
            EventKind::TaskBegun { ticket, .. } => Some(("begins", ticket)),
            EventKind::TaskFinished { ticket, .. } => Some(("is over", ticket)),
            _ => None,
        }));
        state.apply(&entry);
    }
    let expected = [
        ("begins at once", tickets[0]),
        ("waits", tickets[1]),
        ("waits", tickets[2]),
        ("is over", tickets[0]),
        ("begins", tickets[1]),
        ("begins", tickets[2]),
    ];
    assert_eq!(seen, expected);
}

/// `Link::ATTACHED`: stopped with the parent's turn, ended with the parent, and the model hears of neither, nor of a good end.
#[test]
fn an_attached_child_ends_with_its_parent_and_does_not_wake_it() {
    let mut play = Play::new();
    let tickets = spawn_all(&mut play, &[Link::ATTACHED; 3]);
    down(&mut play, tickets[0], DownReason::Done);
    assert_eq!((play.state.turns, play.waiting(), play.is_quiet()), (0, (vec![], vec![]), true));
    play.send("go");
    down(&mut play, tickets[1], DownReason::Failed { error: "no".into() });
    assert_eq!(play.waiting(), (vec![], vec![]));
    play.abort("enough");
    assert_eq!(told(&play, tickets[2]), Some(StopLevel::Stop));
    play.cut_off("");
    end(&mut play);
    assert_eq!(told(&play, tickets[2]), Some(StopLevel::End));
    down(&mut play, tickets[2], DownReason::Ended { why: "over".into() });
    assert_eq!((play.history(), play.state.tasks_ended.len()), (vec!["user: go".to_owned()], 3));
    let notices =
        play.tape().into_iter().filter(|entry| matches!(&entry.record, Record::TaskFinished { notice: Some(_), .. }));
    assert_eq!(notices.count(), 0);

    let mut play = Play::new();
    let ticket = spawn(&mut play, "c", Link::ATTACHED).unwrap();
    end(&mut play);
    assert_eq!(told(&play, ticket), Some(StopLevel::End));
}

/// What is not used is not written, and reads as its default.
#[test]
fn unused_settings_of_tasks_are_not_written() {
    let settings = serde_json::to_value(Settings::new("/w", "fake/model".parse().unwrap())).unwrap();
    assert!(settings.get("task_queue_max").is_none() && settings.get("restart").is_none());
    let read: Settings = serde_json::from_value(settings).unwrap();
    assert_eq!((read.task_queue_max, read.restart), (0, RestartPolicy::Session));
    let mut play = Play::new();
    let ticket = spawn(&mut play, "c", Link::LINKED).unwrap();
    let task = serde_json::to_value(play.state.open.get(&ticket)).unwrap();
    assert!(task.get("queued").is_none(), "{task}");
}
