//! Anchors that a host begins.

use std::sync::Arc;

use tamtam::{
    Seq,
    kernel::{AnchorMark, HandOff, Record, Refusal, Reply},
};

use super::play::Play;

fn handoff(play: &mut Play, name: &str, summary: Option<&str>) -> Reply {
    let reply = play.reply_to();
    play.signal(HandOff { name: name.to_owned(), summary: summary.map(Arc::from) }.to(reply));
    play.reply.clone().unwrap()
}

fn mark(play: &Play) -> AnchorMark {
    (**play.state.anchor.as_ref().unwrap()).clone()
}

/// C-28, J-20, S-06, the ruling (f): an anchor is one entry, the whole state, and names the one before it.
#[test]
fn a_handoff_is_one_entry_that_is_linked_to_its_predecessor() {
    let mut play = Play::new();
    play.send("first");
    play.answer_text("one");
    let before = (play.state.seq, play.history());
    handoff(&mut play, "phase 1", None).unwrap();
    assert!(matches!(&play.entries[..], [entry] if matches!(entry.record, Record::State(_))));
    let first = AnchorMark {
        number: 2,
        name: "phase-1".into(),
        before: 1,
        before_name: "session-start".into(),
        before_last: before.0,
    };
    assert_eq!((mark(&play), play.history()), (first, before.1), "the conversation stays as it is");
    play.send("second");
    play.answer_text("two");
    let last = play.state.seq;
    handoff(&mut play, "phase-2", None).unwrap();
    let second =
        AnchorMark { number: 3, name: "phase-2".into(), before: 2, before_name: "phase-1".into(), before_last: last };
    assert_eq!(mark(&play), second);
    play.crash();
    play.send("third");
    assert_eq!(play.newest(1, 80), ["user: third"]);
}

/// The host's summary takes the place of the conversation, and what the host said is carried on with it.
#[test]
fn a_handoff_with_a_summary_puts_it_in_the_place_of_the_conversation() {
    let mut play = Play::new();
    play.send("never touch main");
    play.answer_text("understood");
    handoff(&mut play, "phase-1", Some("The door is painted green.")).unwrap();
    let history = play.history();
    assert_eq!(history.len(), 1);
    assert!(history[0].contains("The door is painted green."), "{history:?}");
    assert!(history[0].contains("never touch main"), "{history:?}");
    play.send("go on");
    play.answer_text("done");
    assert_eq!(play.history()[1..], ["user: go on", "model: done"]);
    handoff(&mut play, "phase-2", Some("  ")).unwrap();
    assert_eq!(play.history().len(), 3, "an empty summary replaces nothing");
}

#[test]
fn a_handoff_waits_for_no_turn_and_breaks_into_none() {
    let mut play = Play::new();
    play.send("go");
    let turn = play.state.turn.as_ref().unwrap().id;
    assert_eq!(handoff(&mut play, "phase-1", None), Err(Refusal::Busy { turn }));
    assert_eq!((play.entries.len(), play.state.anchor.clone()), (0, None));
    play.answer_text("done");
    assert!(handoff(&mut play, "phase-1", None).is_ok());
}

/// The file that a fork begins with follows the one that it was forked in.
#[test]
fn the_first_anchor_of_a_fork_follows_the_forks_own_file() {
    let mut play = Play::new();
    play.send("go");
    play.answer_text("done");
    let written = play.written();
    let mut fork = play.fork_at(written);
    handoff(&mut fork, "phase-1", None).unwrap();
    let of_fork = mark(&fork);
    assert_eq!((of_fork.number, of_fork.before, of_fork.before_name.as_str()), (3, 2, "forked"));
    assert_eq!(of_fork.before_last, Seq(written as u64 + 1));
}
