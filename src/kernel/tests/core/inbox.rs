//! Which messages are taken, refused, edited and withdrawn. Nothing is dropped silently.

use tamtam::{
    Message, Part, Seq,
    kernel::{
        Abort, CarriedOut, Configure, Delivery, Disposition, End, GoOn, INBOX_QUEUED_MAX, INBOX_STEERING_MAX, Receipt,
        Refusal, Report, Resume, SendMessage, Steering,
    },
    model::{ErrorKind, ModelError},
    session::Role,
};

use super::play::Play;

const STEER: Delivery = Delivery::Steer(Steering::FinishBatch);

/// Promise 1: the same id is the same message, and its sender gets the same receipt, whatever happened since.
#[test]
fn the_same_id_again_is_the_same_message_and_the_same_receipt() {
    let mut play = Play::new();
    play.send("go");
    let first = play.send("next");
    assert!(!first.known_before);
    let again = Receipt { known_before: true, ..first };
    assert_eq!(play.send("next"), again);
    assert_eq!((play.entries.len(), play.is_quiet()), (0, true));
    play.answer_text("a");
    play.answer_text("b");
    assert_eq!(play.send("next"), again);
    play.crash();
    assert_eq!(play.send("next"), again);
    assert_eq!(play.history().iter().filter(|line| *line == "user: next").count(), 1);
}

/// M5 of the host's trial: other words under a known id were swallowed with a perfect receipt. They are refused, by the entry of the
/// first message; the delivery is no part of what is said, and an edit changes nothing about the first send.
#[test]
fn other_words_under_a_known_id_are_refused_and_the_first_message_is_named() {
    let mut play = Play::new();
    play.send("go");
    let first = play.send("next");
    let other = |play: &mut Play, change: &dyn Fn(&mut Message)| {
        let mut message = Message::user("next").with_id("next".into());
        change(&mut message);
        play.send_message(message, Delivery::Queue, None)
    };
    let refused = Err(Refusal::OtherWords { id: "next".into(), first: first.seq });
    let changes: [&dyn Fn(&mut Message); 6] = [
        &|message| message.parts = vec![Part::text("another")],
        &|message| message.parts.push(Part::text("and more")),
        &|message| message.pinned = true,
        &|message| message.agent = Some("explore".into()),
        &|message| message.model = Some("a/b".parse().unwrap()),
        &|message| message.tools = [("bash".to_owned(), false)].into(),
    ];
    for change in changes {
        assert_eq!(other(&mut play, change), refused);
        assert_eq!((play.entries.len(), play.is_quiet()), (0, true));
    }
    let again = Receipt { known_before: true, ..first };
    assert_eq!(play.send_as("next", STEER), Ok(again.clone()), "the delivery may differ");
    play.edit("next", "changed").unwrap();
    assert_eq!(other(&mut play, &|_| {}), Ok(again.clone()), "an edit is not a send");
    assert_eq!(other(&mut play, &|message| message.parts = vec![Part::text("changed")]), refused);
    play.answer_text("a");
    play.crash();
    assert_eq!(other(&mut play, &|message| message.parts.clear()), refused, "after a crash too");
    assert_eq!(play.send("next"), again);
}

/// What an input hook adds at the end is no part of what the sender says: a reminder that comes only once must not make the second
/// send another message.
#[test]
fn what_a_hook_adds_does_not_make_a_message_another_one() {
    let mut play = Play::new();
    let send = |play: &mut Play, parts: &[&str], added| {
        let message = Message { parts: parts.iter().map(|part| Part::text(*part)).collect(), ..Message::user("") };
        let message = message.with_id("m".into());
        let reply = play.reply_to();
        let (delivery, expect_turn, agent) = (Delivery::Queue, None, None);
        play.signal(SendMessage { message, delivery, expect_turn, agent, added }.to(reply));
        play.reply.clone().unwrap().map(|done| matches!(done, CarriedOut::Receipt(receipt) if receipt.known_before))
    };
    assert_eq!(send(&mut play, &["go", "a hint"], 1), Ok(false));
    play.crash();
    assert_eq!(send(&mut play, &["go"], 0), Ok(true));
    assert_eq!(send(&mut play, &["go", "other", "hints"], 2), Ok(true));
    assert!(matches!(send(&mut play, &["go", "a hint"], 0), Err(Refusal::OtherWords { .. })));
}

/// Promise 1: a message that was taken back stays taken back when its sender tries again, and its sender is told so: with the
/// old receipt it would wait for a turn that never comes.
#[test]
fn a_withdrawn_message_does_not_come_back_and_its_sender_is_told() {
    let mut play = Play::new();
    play.send("go");
    play.send("next");
    play.steer("now", Steering::FinishBatch);
    for id in ["next", "now"] {
        play.withdraw(id).unwrap();
        assert_eq!(play.send_as(id, Delivery::Queue), Err(Refusal::Withdrawn { id: id.into() }));
        assert_eq!((play.entries.len(), play.is_quiet()), (0, true));
    }
    play.crash();
    assert_eq!(play.send_as("next", STEER), Err(Refusal::Withdrawn { id: "next".into() }));
    play.answer_text("a");
    assert_eq!(play.history(), ["user: go", "model: a"]);
    assert!(play.state.is_idle());
    let reply = play.reply_to();
    play.signal(End { reason: "done".to_owned() }.to(reply));
    assert_eq!(play.send_as("next", Delivery::Queue), Err(Refusal::Ended));
    assert!(play.send_as("go", Delivery::Queue).is_ok(), "what was read keeps its receipt");
}

/// A message that steers one turn only is refused where that turn would not read it any more: while it is being ended, and from
/// its last request on. Without a turn it is taken, and begins the next.
#[test]
fn steering_for_a_turn_that_reads_no_more_is_refused() {
    let steer = |play: &mut Play, id: &str, turn| {
        play.send_message(Message::user("x").with_id(id.into()), STEER, turn).map(|receipt| receipt.disposition)
    };
    let (mut play, calls) = Play::with_calls(&["bash"]);
    let turn = play.state.turn.as_ref().unwrap().id;
    assert_eq!(steer(&mut play, "in time", Some(turn)), Ok(Disposition::Steering));
    play.abort("enough");
    let over = Err(Refusal::TurnMismatch { expected: turn, actual: None });
    assert_eq!(steer(&mut play, "late", Some(turn)), over);
    assert!(play.entries.is_empty());
    assert_eq!(steer(&mut play, "late", None), Ok(Disposition::Steering));
    play.returned(calls[0], "stopped");

    let mut play = Play::with(|settings| settings.steps_max = Some(1));
    play.send("go");
    let turn = play.state.turn.as_ref().unwrap().id;
    assert_eq!(steer(&mut play, "late", Some(turn)), Err(Refusal::TurnMismatch { expected: turn, actual: None }));
    // The request that failed is made again, and carries what came while that waits.
    let ticket = play.request();
    play.signal(Report::Failed { error: ModelError::new(ErrorKind::Network, "gone") }.of(ticket));
    assert_eq!(steer(&mut play, "in time", Some(turn)), Ok(Disposition::Steering));
    assert_eq!(play.newest(1, 99), ["user: x"]);
}

/// A message for one turn is not read by another.
#[test]
fn a_message_for_another_turn_is_refused() {
    let mut play = Play::new();
    let expect =
        |play: &mut Play, turn| play.send_message(Message::user("x").with_id("x".into()), Delivery::Queue, Some(turn));
    let mismatch = expect(&mut play, Seq(4));
    assert_eq!(mismatch, Err(Refusal::TurnMismatch { expected: Seq(4), actual: None }));
    play.send("go");
    let turn = play.state.turn.as_ref().unwrap().id;
    assert_eq!(expect(&mut play, Seq(99)), Err(Refusal::TurnMismatch { expected: Seq(99), actual: Some(turn) }));
    assert!(play.entries.is_empty());
    assert!(expect(&mut play, turn).is_ok());
}

/// C-14: Reject is for an idle session only.
#[test]
fn reject_is_taken_by_an_idle_session_only() {
    let mut play = Play::new();
    assert_eq!(play.send_as("a", Delivery::Reject).unwrap().disposition, Disposition::Started);
    let turn = play.state.turn.as_ref().unwrap().id;
    assert_eq!(play.send_as("b", Delivery::Reject), Err(Refusal::Busy { turn }));
    assert!(play.entries.is_empty());
    // What was refused was never taken, so its id is free.
    assert!(play.send_as("b", Delivery::Queue).is_ok());
}

/// Nothing to read is nothing to send; a file alone is something.
#[test]
fn an_empty_message_is_refused() {
    let mut play = Play::new();
    for blank in ["", " \n\t "] {
        assert_eq!(play.send_as(blank, Delivery::Queue), Err(Refusal::Empty));
    }
    let mut none = Message::user("");
    none.parts.clear();
    assert_eq!(play.send_message(none.clone(), STEER, None), Err(Refusal::Empty));
    none.parts.push(Part::file("image/png", None, b"png"));
    assert!(play.send_message(none, STEER, None).is_ok());
}

/// Promise 11: the queue takes 256 messages; the next is told so, and nothing is lost.
#[test]
fn a_full_queue_refuses_and_keeps_what_it_has() {
    let mut play = Play::new();
    play.send("go");
    for n in 0..INBOX_QUEUED_MAX {
        play.send(&format!("q{n}"));
    }
    assert_eq!(play.send_as("one too many", Delivery::Queue), Err(Refusal::InboxFull { depth: 256 }));
    assert_eq!(play.state.queue.len(), 256);
    // Steering has room of its own.
    assert!(play.send_as("steer", STEER).is_ok());
    play.withdraw("q7").unwrap();
    assert!(play.send_as("one too many", Delivery::Queue).is_ok());
}

/// Promise 11, A04: 64 steering messages wait at most; each is delivered once, also over a crash.
#[test]
fn a_full_steering_inbox_refuses_and_delivers_each_once() {
    let (mut play, calls) = Play::with_calls(&["bash"]);
    for n in 0..INBOX_STEERING_MAX {
        play.steer(&format!("s{n}"), Steering::FinishBatch);
    }
    assert_eq!(play.send_as("one too many", STEER), Err(Refusal::InboxFull { depth: 64 }));
    play.crash();
    assert_eq!(play.call_state(calls[0]), None);
    let delivered: Vec<_> = (0..64).map(|n| format!("user: s{n}")).collect();
    assert_eq!(play.history()[3..], delivered);
}

/// Queued items can be listed and edited; an edit keeps the place and is what the model reads.
#[test]
fn an_edit_changes_the_words_and_keeps_the_place() {
    let mut play = Play::new();
    play.send("go");
    play.send("one");
    play.send("two");
    assert!(matches!(play.edit("one", "one, better"), Ok(CarriedOut::Done(_))));
    assert_eq!(play.waiting().1, ["one, better", "two"]);
    play.answer_text("a");
    assert_eq!(play.newest(2, 99), ["model: a", "user: one, better"]);
    // Read is read: what was delivered can be neither edited nor taken back.
    assert_eq!(play.edit("one", "too late"), Err(Refusal::NotWaiting { id: "one".into() }));
    assert_eq!(play.withdraw("one"), Err(Refusal::NotWaiting { id: "one".into() }));
    assert_eq!(play.withdraw("never sent"), Err(Refusal::NotWaiting { id: "never sent".into() }));
}

/// An edit to nothing is refused; the old words stay.
#[test]
fn an_edit_to_nothing_is_refused() {
    let mut play = Play::new();
    play.send("go");
    play.send("next");
    assert_eq!(play.edit("next", "  "), Err(Refusal::Empty));
    assert_eq!(play.waiting().1, ["next"]);
}

/// Waiting steering can be edited and taken back like any other message.
#[test]
fn steering_can_be_edited_and_withdrawn() {
    let (mut play, calls) = Play::with_calls(&["bash"]);
    play.steer("one", Steering::FinishBatch);
    play.steer("two", Steering::FinishBatch);
    play.edit("one", "first").unwrap();
    play.withdraw("two").unwrap();
    play.returned(calls[0], "ok");
    assert_eq!(play.newest(2, 99), ["c0 ok", "user: first"]);
}

/// All that waits is taken back at once and given to its sender, steering first. What was read stays, and so does what the runtime says.
#[test]
fn a_queue_is_cleared_and_given_back() {
    let (mut play, calls) = Play::with_calls(&["bash"]);
    play.send("later");
    play.steer("now", Steering::FinishBatch);
    play.send("last");
    assert_eq!(play.clear_queue(), ["now", "later", "last"]);
    assert_eq!((play.waiting(), play.clear_queue()), ((Vec::new(), Vec::new()), Vec::<String>::new()));
    assert_eq!(play.send_as("now", STEER), Err(Refusal::Withdrawn { id: "now".into() }), "it is known as taken back");
    play.returned(calls[0], "ok");
    play.answer_text("done");
    assert_eq!(play.newest(2, 99), ["c0 ok", "model: done"]);
}

/// The runtime says who speaks and when; the sender does not.
#[test]
fn a_sender_cannot_speak_for_the_model() {
    let mut play = Play::new();
    play.send("go");
    let mut message = Message::user("as if").with_id("m".into());
    message.role = Role::Assistant;
    play.send_message(message, Delivery::Queue, None).unwrap();
    let waiting = &play.state.queue[0].message;
    assert_eq!((waiting.role, waiting.time.created), (Role::User, play.state.time));
}

/// An abort that names its turn ends that one, and comes too late for it rather than end the next.
#[test]
fn an_abort_that_names_its_turn_ends_no_other() {
    let mut play = Play::new();
    play.send("one");
    let turn = play.state.turn.as_ref().unwrap().id;
    let meant = |play: &mut Play, turn| {
        let reply = play.reply_to();
        play.signal(Abort { reason: "enough".into(), turn: Some(turn) }.to(reply));
        play.reply.clone().unwrap().map(drop)
    };
    play.answer_text("done");
    assert_eq!(meant(&mut play, turn), Err(Refusal::TurnMismatch { expected: turn, actual: None }));
    play.send("two");
    let next = play.state.turn.as_ref().unwrap().id;
    assert_eq!(meant(&mut play, turn), Err(Refusal::TurnMismatch { expected: turn, actual: Some(next) }));
    assert!(play.entries.is_empty() && play.state.turn.as_ref().unwrap().ending.is_none());
    assert_eq!(meant(&mut play, next), Ok(()));
    assert!(matches!(play.entries[0].record, crate::kernel::Record::Ending { .. }), "{:?}", play.entries);
    let recorded = play.entries[0].input.clone().unwrap();
    assert_eq!((recorded.is.as_str(), &recorded.fields["turn"]), ("abort", &serde_json::json!(next)));
}

/// Every wish of a host is answered exactly once, also where there is nothing to do.
#[test]
fn every_wish_is_answered_once() {
    let mut play = Play::new();
    let settings = Box::new((*play.state.settings).clone());
    let wishes = [
        GoOn.to(play.reply_to()),
        Abort { reason: "nothing runs".into(), turn: None }.to(play.reply_to()),
        Resume.to(play.reply_to()),
        Configure { before: None, settings }.to(play.reply_to()),
    ];
    for wish in wishes {
        play.signal(wish);
        assert_eq!((play.reply.clone(), play.entries.len()), (Some(Ok(CarriedOut::Done(Seq(1)))), 0));
    }
}
