#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

/// An abort cancels its workers outside of the lock, perhaps late. Workers that start meanwhile are not meant.
#[test]
fn a_stop_that_comes_late_stops_nobody_who_began_behind_it() {
    let mut workers = Workers::default();
    let before = workers.begun(Seq(1));
    let stop = workers.take_stop();
    let behind = workers.begun(Seq(2));
    stop.cancel();
    assert_eq!((before.is_cancelled(), behind.is_cancelled()), (true, false));
}

/// While the disk is slow, senders who stopped waiting keep nobody out. Their commands are not carried out, except stops.
#[test]
fn commands_that_nobody_waits_for_take_no_place() {
    let mut inbox = Inbox::default();
    let state = State::new("s".parse().unwrap(), crate::kernel::Settings::new("/w", "m/m".parse().unwrap()), Millis(0));
    let send = || crate::kernel::SendMessage {
        message: crate::words::message::Message::user("go"),
        delivery: crate::kernel::Delivery::default(),
        expect_turn: None,
        agent: None,
        added: 0,
    };
    drop(inbox.command(ReplyTo(1), crate::kernel::Abort { reason: "enough".into(), turn: None }.into()).unwrap());
    let full = (2..).map_while(|to| inbox.command(ReplyTo(to), send().into()).ok().map(drop)).take(2_000).count();
    assert_eq!(full, 2_000, "each found room");
    let Act::Decide(inputs) = inbox.mailbox.next(&state, Millis(0)) else { panic!("something waits") };
    assert!(inputs[0].is_stop(), "the abort stays");
    let waits: Vec<_> = (3_000..).map_while(|to| inbox.command(ReplyTo(to), send().into()).ok()).collect();
    assert!(waits.len() > 200 && waits.len() < 2_000, "those who wait have a bound: {}", waits.len());
}

/// A waiter keeps its session awake only while somebody waits for the answer: nothing wakes the actor to throw it away.
#[test]
fn a_waiter_that_nobody_waits_for_needs_no_actor() {
    let mut inbox = Inbox::default();
    let (waiter, caller, _answer) = Waiter::new(true, |_| None::<Result<(), SendError>>);
    inbox.published.waiters.push(waiter);
    assert!(!inbox.is_empty());
    drop(caller);
    assert!(inbox.is_empty());
    let (waiter, _caller, _answer) = Waiter::new(false, |_| None::<Result<(), SendError>>);
    inbox.published.waiters.push(waiter);
    assert!(inbox.is_empty(), "a parent that waits for asks");
}
