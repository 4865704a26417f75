#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::{
    kernel::{Abort, Limits, Outcome, Turn},
    tool::ToolResult,
};

fn state() -> State {
    let settings = crate::kernel::Settings::new("/w", "fake/model".parse().unwrap());
    State::new("s".parse().unwrap(), settings, Millis(0))
}

/// A mailbox whose incarnation has recovered.
fn awake() -> Mailbox {
    let mut mailbox = Mailbox::default();
    mailbox.begin(1, Input::recover(), |_| false);
    assert!(matches!(mailbox.next(&state(), Millis(0)), Act::Decide(inputs) if inputs[..] == [Input::recover()]));
    mailbox.recorded();
    mailbox
}

fn pause(to: u64) -> Input {
    crate::kernel::Pause.to(ReplyTo(to))
}

fn abort(to: u64) -> Input {
    Abort { reason: String::new(), turn: None }.to(ReplyTo(to))
}

fn done(ticket: u64) -> Input {
    Report::Returned { result: ToolResult::ok("done") }.of(Seq(ticket))
}

fn put(mailbox: &mut Mailbox, inputs: &[Input]) {
    for input in inputs.iter().cloned() {
        match input {
            Input::Command { reply, command, id } => mailbox.command(reply, command, id).unwrap(),
            Input::Report { ticket, report } => assert!(mailbox.report(1, ticket, report)),
            _ => panic!("it comes by itself"),
        }
    }
}

fn decides(mailbox: &mut Mailbox) -> Vec<Input> {
    match mailbox.next(&state(), Millis(0)) {
        Act::Decide(inputs) => inputs.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn disk() -> TapeError {
    TapeError::MemoryFull { of: "bytes", max: 0 }
}

/// Commands in the order of their arrival, then reports; those that came before a stop are taken before it.
#[test]
fn one_append_takes_what_waits_in_its_order() {
    let mut mailbox = awake();
    put(&mut mailbox, &[done(4), pause(1), done(5), pause(2)]);
    assert_eq!(decides(&mut mailbox), [pause(1), pause(2), done(4), done(5)]);
    mailbox.recorded();
    put(&mut mailbox, &[done(4), pause(1), abort(2), done(5), pause(3)]);
    assert_eq!(decides(&mut mailbox), [pause(1), done(4), abort(2), pause(3), done(5)]);
}

/// No append takes more than 64 inputs, or 1 MiB of them; what begins an anchor stands alone.
#[test]
fn one_append_takes_so_much_and_no_more() {
    let mut mailbox = awake();
    (1..=100).for_each(|to| put(&mut mailbox, &[pause(to)]));
    assert_eq!(decides(&mut mailbox).len(), BATCH_MAX);
    mailbox.recorded();
    assert_eq!(decides(&mut mailbox).len(), 100 - BATCH_MAX);
    mailbox.recorded();
    let large = Report::Returned { result: ToolResult::ok("x".repeat(BATCH_BYTES_MAX)) };
    put(&mut mailbox, &[pause(1), large.clone().of(Seq(4)), done(5)]);
    assert_eq!(decides(&mut mailbox), [pause(1)]);
    mailbox.recorded();
    assert_eq!(decides(&mut mailbox), [large.of(Seq(4))]);
    mailbox.recorded();
    let anchor = crate::kernel::BeginAnchor.to(ReplyTo::NOBODY);
    put(&mut mailbox, &[anchor.clone(), pause(2)]);
    for alone in [done(5), anchor, pause(2)] {
        assert_eq!(decides(&mut mailbox), [alone]);
        mailbox.recorded();
    }
}

/// Even aborts have a bound, far above that of what adds work.
#[test]
fn even_aborts_have_a_bound() {
    let mut mailbox = awake();
    let abort = || Abort { reason: String::new(), turn: None };
    let taken = (1..10_000).take_while(|to| mailbox.command(ReplyTo(*to), abort().into(), None).is_ok()).count();
    assert_eq!(taken, COMMANDS_OF_ALL_KINDS_MAX);
}

/// Where the disk refuses, commands are told and go; stops and reports stay, and are tried again when it is time.
#[test]
fn what_the_disk_refuses_is_told_or_stays() {
    let mut mailbox = awake();
    put(&mut mailbox, &[pause(1), abort(2), done(4)]);
    decides(&mut mailbox);
    put(&mut mailbox, &[pause(3)]);
    let told: Vec<_> = mailbox.refused(&disk(), Millis(0)).into_iter().map(|(to, _)| to).collect();
    assert_eq!(told, [ReplyTo(1), ReplyTo(3)]);
    assert!(matches!(mailbox.next(&state(), Millis(0)), Act::Stop(stop) if *stop == abort(2)) || !mailbox.may_begin());
    assert!(matches!(mailbox.next(&state(), Millis(1)), Act::Rest));
    assert_eq!(mailbox.due(&state()), Some(Millis(500)));
    let Act::Decide(again) = mailbox.next(&state(), Millis(500)) else { panic!("it is time") };
    assert_eq!(again[..], [abort(2), done(4)]);
}

/// On a full disk what adds work is not even tried while something stays: the reserve is for that.
#[test]
fn a_full_disk_takes_no_new_work_while_something_stays() {
    let mut mailbox = awake();
    put(&mut mailbox, &[done(4)]);
    decides(&mut mailbox);
    assert!(mailbox.refused(&disk(), Millis(0)).is_empty());
    let message = crate::words::message::Message::user("go");
    let send =
        crate::kernel::SendMessage { message, delivery: Default::default(), expect_turn: None, agent: None, added: 0 };
    assert!(matches!(mailbox.command(ReplyTo(1), send.into(), None), Err(NotTaken::Disk(_))));
    put(&mut mailbox, &[abort(2)]);
}

/// One report a ticket, of the incarnation that is.
#[test]
fn a_report_names_its_incarnation_and_comes_once() {
    let mut mailbox = awake();
    let report = || Report::TaskLeft;
    assert!(!mailbox.report(0, Seq(4), report()) && mailbox.report(1, Seq(4), report()));
    assert!(!mailbox.report(1, Seq(4), report()));
}

/// A report over which two incarnations died becomes a failure of its ticket. What was in hand beside it is not held to be the
/// cause: each is recorded by itself before the recovery, and nothing follows from it yet.
#[test]
fn a_poisonous_report_becomes_a_failure_of_its_ticket_and_of_no_other() {
    let mut mailbox = awake();
    put(&mut mailbox, &[done(4), done(5)]);
    decides(&mut mailbox);
    mailbox.begin(2, Input::recover(), |_| false);
    assert_eq!(decides(&mut mailbox), [done(4), Input::Hold]);
    mailbox.recorded();
    assert_eq!(decides(&mut mailbox), [done(5), Input::Hold]);
    mailbox.begin(3, Input::recover(), |_| false);
    let inputs = decides(&mut mailbox);
    assert!(format!("{:?}", inputs[0]).contains("crashed twice"), "{inputs:?}");
    assert_eq!(inputs[1..], [Input::recover()]);
}

/// A moment that a refusing disk let pass is told when the disk is asked again.
#[test]
fn a_moment_that_passed_while_the_disk_refused_is_told_later() {
    let (mut mailbox, mut state) = (awake(), state());
    let wait = crate::kernel::OpenWait { attempt: 1, until: Millis(300), server: false };
    state.open.insert(Seq(7), crate::kernel::Open::Wait(wait));
    for (now, at) in [(300, 800), (800, 1_300)] {
        assert!(matches!(mailbox.next(&state, Millis(now)), Act::Decide(inputs) if inputs[..] == [Input::Timer]));
        mailbox.refused(&disk(), Millis(now));
        assert!(matches!(mailbox.next(&state, Millis(now)), Act::Rest));
        assert_eq!(mailbox.due(&state), Some(Millis(at)));
    }
}

/// A stop behind what the disk refused is not tried before it is time, and so the actor does not go round.
#[test]
fn what_stays_beside_a_recovery_that_is_refused_waits_with_it() {
    let mut mailbox = Mailbox::default();
    mailbox.begin(1, Input::recover(), |_| false);
    decides(&mut mailbox);
    put(&mut mailbox, &[abort(1)]);
    mailbox.refused(&disk(), Millis(0));
    assert!(matches!(mailbox.next(&state(), Millis(0)), Act::Stop(_)));
    assert!(matches!(mailbox.next(&state(), Millis(0)), Act::Rest));
}

/// Of several in one append, those that were not too large are as they were.
#[test]
fn what_is_too_large_changes_nothing_beside_it() {
    let error = TapeError::TooLarge { bytes: 99, max: 9 };
    let mut mailbox = awake();
    put(&mut mailbox, &[pause(1), pause(2), done(4), abort(3)]);
    decides(&mut mailbox);
    assert!(mailbox.refused(&error, Millis(0)).is_empty());
    assert_eq!(decides(&mut mailbox), [done(4)]);
    mailbox.recorded();
    assert_eq!(decides(&mut mailbox), [pause(1)]);
    let told = mailbox.refused(&error, Millis(0));
    assert!(matches!(told[..], [(ReplyTo(1), CommandEnd::NotRecorded(_))]), "{told:?}");
    for left in [pause(2), abort(3)] {
        assert_eq!(decides(&mut mailbox), [left]);
        mailbox.recorded();
    }
}

/// However small the engine wants it, a report stays until it is recorded: its ticket is not begun again.
#[test]
fn a_report_that_fits_nowhere_stays() {
    let error = TapeError::TooLarge { bytes: 99, max: 9 };
    let mut mailbox = awake();
    put(&mut mailbox, &[done(4)]);
    for now in [0, 0, 500, 1_000] {
        let Act::Decide(inputs) = mailbox.next(&state(), Millis(now)) else { panic!("it is tried") };
        assert_eq!(inputs[0].reported(), Some(Seq(4)));
        mailbox.refused(&error, Millis(now));
        assert!(mailbox.has_report(Seq(4)));
    }
    assert!(matches!(mailbox.next(&state(), Millis(1_000)), Act::Rest));
}

/// Commands that go on coming do not keep reports and moments waiting.
#[test]
fn a_flood_of_commands_leaves_room() {
    let mut mailbox = awake();
    let flood: Vec<_> = (1..=200).map(pause).collect();
    put(&mut mailbox, &flood);
    put(&mut mailbox, &[done(4)]);
    let first = decides(&mut mailbox);
    assert_eq!((first.len(), &first[32]), (33, &done(4)));
}

/// Nor do large ones, those that begin anchors, or a report that is large itself: it waits for what came before it and no longer.
#[test]
fn a_flood_of_any_commands_leaves_room() {
    let says = |bytes: usize| {
        let message = crate::words::message::Message::user("x".repeat(bytes));
        let delivery = crate::kernel::Delivery::Queue;
        crate::kernel::SendMessage { message, delivery, expect_turn: None, agent: None, added: 0 }.to(ReplyTo(1))
    };
    let anchor = crate::kernel::BeginAnchor.to(ReplyTo::NOBODY);
    let large = Report::Returned { result: ToolResult::ok("x".repeat(BATCH_BYTES_MAX * 3 / 4)) }.of(Seq(4));
    for report in [done(4), large] {
        for flood in [pause(1), says(40_000), says(BATCH_BYTES_MAX / 2), says(2 * BATCH_BYTES_MAX), anchor.clone()] {
            let mut mailbox = awake();
            put(&mut mailbox, &vec![flood.clone(); 40]);
            put(&mut mailbox, std::slice::from_ref(&report));
            let is_taken = (0..=40).any(|_| {
                let inputs = decides(&mut mailbox);
                mailbox.recorded();
                // As many come as go.
                put(&mut mailbox, &vec![flood.clone(); inputs.len()]);
                inputs.contains(&report)
            });
            assert!(is_taken, "{} bytes behind commands of {} bytes", report.bytes(), flood.bytes());
        }
    }
}

fn written(seq: u64, time: u64) -> Entry {
    Entry::new(Seq(seq), Millis(time), crate::kernel::Record::Resumed {})
}

/// What was handed over and is on the tape is answered as it was decided; what is not there is decided again. An entry of the same
/// number is not enough: another owner may have written it, over an engine whose claims can be lost.
#[test]
fn the_tape_says_what_became_of_what_was_in_flight() {
    let in_flight = [written(6, 1), written(7, 1)];
    let tapes =
        [(vec![], false), (in_flight.to_vec(), true), (vec![written(6, 1), written(7, 2), written(8, 2)], false)];
    for (tape, is_there) in tapes {
        let mut mailbox = awake();
        put(&mut mailbox, &[pause(1)]);
        decides(&mut mailbox);
        let reply = vec![(ReplyTo(1), Ok(crate::kernel::CarriedOut::Done(Seq(7))))];
        mailbox.handed_over(Arc::new(in_flight.to_vec()), reply);
        assert_eq!(mailbox.in_flight().unwrap()[..], in_flight);
        let ends = mailbox.begin(2, Input::recover(), |entries| tape.starts_with(entries));
        assert_eq!(ends.len(), usize::from(is_there));
        assert_eq!(mailbox.depth(), usize::from(!is_there));
    }
}

/// A session whose tape cannot be read just now keeps its stops, what it had in hand and what workers reported.
#[test]
fn what_is_told_that_the_tape_cannot_be_read_leaves_stops_and_reports() {
    let mut mailbox = awake();
    put(&mut mailbox, &[abort(1), done(4)]);
    decides(&mut mailbox);
    put(&mut mailbox, &[pause(2), abort(3)]);
    let told: Vec<_> = mailbox.in_hand().into_iter().map(|left| left.reply).collect();
    assert_eq!((told, mailbox.take_waiting(false)), (vec![ReplyTo(1)], vec![ReplyTo(2), ReplyTo(3)]));
    mailbox.begin(2, Input::recover(), |_| false);
    assert_eq!(decides(&mut mailbox), [done(4), Input::Hold]);
    mailbox.recorded();
    assert_eq!(decides(&mut mailbox), [Input::recover()]);
    mailbox.recorded();
    assert_eq!(decides(&mut mailbox), [abort(1)], "an incarnation died over it");
    mailbox.recorded();
    assert_eq!(decides(&mut mailbox), [abort(3)]);
}

/// Found by the simulator: a turn with a limit of time was being ended, the disk refused a command, and that left. The end of the
/// limit was a due moment from then on, at which there was nothing to do: the actor would have looked again and again.
#[test]
fn what_the_disk_refused_and_has_left_makes_nothing_due() {
    let mut mailbox = awake();
    let (now, mut state) = (Millis(10_000), state());
    let limits = Limits { time_ms: Some(200), ..Limits::default() };
    let turn = Turn { ending: Some(Outcome::Done), limits, ..Turn::default() };
    (state.turn, state.account.since) = (Some(Arc::new(turn)), Some(now));
    put(&mut mailbox, &[pause(1)]);
    assert!(matches!(mailbox.next(&state, now), Act::Decide(_)));
    assert_eq!(mailbox.refused(&disk(), now).len(), 1, "it has left");
    let late = now.plus(REFUSED_WAIT);
    while let Act::Stop(_) = mailbox.next(&state, late) {}
    assert!(matches!(mailbox.next(&state, late), Act::Rest));
    assert_eq!(mailbox.due(&state), None);
}
