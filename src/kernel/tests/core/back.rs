//! Going back: rollback, undo and redo, as the core decides them. Checklist Z-01, Z-02, Z-05.

use std::{collections::BTreeMap, sync::Arc};

use tamtam::{
    MessageId, Seq,
    kernel::{
        BeginAnchor, CarriedOut, Compact, Delivery, End, NoPoint, Outcome, Point, Record, Refusal, ReplyTo, Report,
        RestoredFiles, RollBack, RollbackTarget, RolledBack, Steering, Transcript, Way, context::Window, look_back,
    },
    model::ErrorKind,
};

use super::play::Play;
use crate::kernel::tests::sim::rng::Rng;

fn found(play: &Play, wanted: &RollbackTarget) -> Result<RolledBack, NoPoint> {
    Ok(look_back(&play.entries_of_the_tape(), &play.state, wanted, true)?
        .expect("there is nothing before the first entry"))
}

fn submit(play: &mut Play, back: RolledBack) -> Result<CarriedOut, Refusal> {
    let reply = play.reply_to();
    play.signal(RollBack { back: Arc::new(back), files: None, summary: None }.to(reply));
    play.reply.clone().unwrap()
}

/// Goes there; it must be taken.
fn go(play: &mut Play, wanted: RollbackTarget) -> RolledBack {
    let back = found(play, &wanted).unwrap();
    submit(play, back.clone()).unwrap();
    back
}

fn to(point: impl Into<Point>) -> RollbackTarget {
    RollbackTarget::Point(point.into())
}

/// A conversation of turns, each a message and its answer.
fn talked(said: &[&str]) -> Play {
    let mut play = Play::new();
    for said in said {
        play.send(said);
        play.answer_text(&format!("re {said}"));
    }
    play
}

fn transcript(play: &Play) -> Vec<String> {
    Transcript::of(&play.entries_of_the_tape()).iter().map(|message| message.text()).collect()
}

/// Z-02: the conversation is what it was; what was used, and who got which receipt, stays.
#[test]
fn a_rollback_brings_the_conversation_of_then_and_nothing_else() {
    let mut play = talked(&["a", "b", "c"]);
    let (seen, ended) = (play.state.seen.clone(), play.state.ended.clone());
    let (turns, usage) = (play.state.turns, play.state.usage);
    let back = go(&mut play, to(MessageId::from("b")));
    assert_eq!(play.history(), ["user: a", "model: re a"]);
    assert_eq!((back.way, back.keep, back.items.len()), (Way::Rollback, 2, 0), "nothing is said again on the tape");
    assert_eq!(back.gone, [MessageId::from("b"), "c".into()]);
    assert_eq!((&play.state.seen, &play.state.ended), (&seen, &ended));
    assert_eq!((play.state.turns, play.state.usage), (turns, usage));
    assert_eq!(transcript(&play), ["a", "re a"]);
    let again = play.send("b");
    assert_eq!(Some(again.seq), seen.get(&"b".into()).map(|seen| seen.seq), "the same id is the same message still");
    assert_eq!(play.history(), ["user: a", "model: re a"], "and is not read again");
}

/// The request after a rollback is the one that a session would make in which nothing else was ever said.
#[test]
fn a_request_after_a_rollback_is_that_of_a_session_that_never_said_more() {
    let mut play = talked(&["a", "b", "c"]);
    go(&mut play, to(MessageId::from("b")));
    play.send("d");
    let mut fresh = talked(&["a"]);
    fresh.send("d");
    let request = |play: &Play| {
        let opened = play.entries.iter().find_map(|entry| match &entry.record {
            Record::Request(request) => Some(request.clone()),
            _ => None,
        });
        opened.unwrap()
    };
    assert_eq!(request(&play), request(&fresh), "its hash, its size and its room");
    assert_eq!((&play.state.history, &play.state.history_hash), (&fresh.state.history, &fresh.state.history_hash));
}

/// Z-05: undo takes back one message after another, redo brings them again, and something new ends that.
#[test]
fn undo_and_redo_go_step_by_step_until_something_is_said() {
    let mut play = talked(&["a", "b"]);
    assert_eq!(go(&mut play, RollbackTarget::Undo).gone, [MessageId::from("b")]);
    assert_eq!(go(&mut play, RollbackTarget::Undo).gone, [MessageId::from("a")]);
    assert_eq!(play.history(), [""; 0]);
    assert_eq!(found(&play, &RollbackTarget::Undo), Err(NoPoint::NothingToUndo));
    let redone = go(&mut play, RollbackTarget::Redo);
    assert_eq!((redone.way, redone.again, redone.keep, redone.items.len()), (Way::Redo, vec!["a".into()], 0, 2));
    go(&mut play, RollbackTarget::Redo);
    assert_eq!(play.history(), ["user: a", "model: re a", "user: b", "model: re b"]);
    assert_eq!(transcript(&play), ["a", "re a", "b", "re b"]);
    assert_eq!(found(&play, &RollbackTarget::Redo), Err(NoPoint::NothingToRedo));
    go(&mut play, RollbackTarget::Undo);
    play.send("c");
    play.answer_text("re c");
    assert_eq!(found(&play, &RollbackTarget::Redo), Err(NoPoint::NothingToRedo));
    assert_eq!(transcript(&play), ["a", "re a", "c", "re c"]);
    // Nothing left the tape: what was taken back can be gone to all the same.
    let before_undo = play.entries_of_the_tape().iter().find_map(|entry| match &entry.record {
        Record::RolledBack(back) => Some(back.from),
        _ => None,
    });
    let back = go(&mut play, to(before_undo.unwrap()));
    assert_eq!((back.gone, back.again), (vec!["c".into()], vec!["b".into()]));
    assert_eq!(transcript(&play), ["a", "re a", "b", "re b"]);
}

/// A message that steered in mid-turn is taken back from there; those that were read together go together.
#[test]
fn a_message_that_steered_is_taken_back_out_of_its_turn() {
    let (mut play, calls) = Play::with_calls(&["read"]);
    play.steer("one", Steering::FinishBatch);
    play.steer("two", Steering::FinishBatch);
    play.returned(calls[0], "text");
    play.answer_text("done");
    let back = go(&mut play, to(MessageId::from("two")));
    assert_eq!(back.gone, [MessageId::from("one"), "two".into()]);
    assert_eq!(play.history(), ["user: go", "model calls read", "c0 text"]);
}

/// Pairs are never parted: no point at which a call had no result.
#[test]
fn a_point_where_a_call_has_no_result_is_refused() {
    let (mut play, calls) = Play::with_calls(&["note", "note"]);
    let open = play.state.seq;
    play.returned(calls[0], "one");
    let half = play.state.seq;
    play.returned(calls[1], "two");
    let whole = play.state.seq;
    play.answer_text("done");
    for seq in [open, half] {
        assert_eq!(found(&play, &to(seq)), Err(NoPoint::Unfinished { seq }));
    }
    let last_result = Seq(whole.0 - 1);
    assert!(matches!(play.entries_of_the_tape()[last_result.0 as usize - 1].record, Record::Result { .. }));
    go(&mut play, to(last_result));
    assert_eq!(play.history(), ["user: go", "model calls note note", "c0 one", "c1 two"]);
}

/// A plain rollback that was recorded just before is answered as done. One that brings files is not: they would be put back, and
/// nothing would say so.
#[test]
fn a_rollback_that_brings_files_is_not_answered_by_another_one() {
    let mut play = talked(&["a", "b"]);
    let back = found(&play, &RollbackTarget::Undo).unwrap();
    let Ok(CarriedOut::Done(done)) = submit(&mut play, back.clone()) else { panic!("{:?}", play.reply) };
    assert_eq!(submit(&mut play, back.clone()), Ok(CarriedOut::Done(done)));
    let (expected, actual) = (back.from, play.state.seq);
    let files = RestoredFiles { since: back.to, key: "k".into(), files: Vec::new(), refused: Vec::new() };
    let reply = play.reply_to();
    play.signal(RollBack { back: Arc::new(back), files: Some(Arc::new(files)), summary: None }.to(reply));
    assert_eq!(play.reply, Some(Err(Refusal::Moved { expected, actual })));
    assert!(play.entries.is_empty());
}

/// Only an idle session goes back, and only from where it was looked at.
#[test]
fn a_busy_session_and_one_that_went_on_refuse() {
    let mut play = talked(&["a", "b"]);
    let back = found(&play, &RollbackTarget::Undo).unwrap();
    play.send("c");
    let turn = play.state.turn.as_ref().unwrap().id;
    assert_eq!(submit(&mut play, back.clone()), Err(Refusal::Busy { turn }));
    play.answer_text("re c");
    let (expected, actual) = (back.from, play.state.seq);
    assert_eq!(submit(&mut play, back), Err(Refusal::Moved { expected, actual }));
    assert_eq!(play.history().len(), 6);
    let back = found(&play, &RollbackTarget::Undo).unwrap();
    let reply = play.reply_to();
    play.signal(End { reason: "over".into() }.to(reply));
    assert_eq!(submit(&mut play, back), Err(Refusal::Ended));
}

/// A crash between the entry and its answer: the host is told that it is done, and it is done once.
#[test]
fn the_same_rollback_twice_is_one() {
    let mut play = talked(&["a", "b"]);
    let back = found(&play, &RollbackTarget::Undo).unwrap();
    let first = submit(&mut play, back.clone());
    play.crash();
    assert_eq!((submit(&mut play, back), play.entries.len()), (first, 0));
    assert_eq!(play.history(), ["user: a", "model: re a"]);
}

#[test]
fn points_that_are_not_there_are_named() {
    let play = talked(&["a"]);
    let newest = play.state.seq;
    let cases = [
        (to(Seq(99)), NoPoint::NoEntry { seq: Seq(99), newest }),
        (to(Seq::ZERO), NoPoint::NoEntry { seq: Seq::ZERO, newest }),
        (to(MessageId::from("x")), NoPoint::NoMessage { id: "x".into() }),
        (to(Point::BeforeTurn(Seq(2))), NoPoint::NoTurn { seq: Seq(2) }),
        (to(newest), NoPoint::Nothing),
        (RollbackTarget::Redo, NoPoint::NothingToRedo),
    ];
    for (wanted, why) in cases {
        assert_eq!(found(&play, &wanted), Err(why), "{wanted:?}");
    }
    let turn = play.state.ended.back().unwrap().turn;
    assert_eq!(found(&play, &to(Point::BeforeTurn(turn))).unwrap().to, Seq(turn.0 - 1));
}

/// What waits stays, and is held; a send lets it go.
#[test]
fn the_queue_stays_and_is_held() {
    let mut play = talked(&["a", "b"]);
    play.send("c");
    play.send_as("later", Delivery::Queue).unwrap();
    play.failed(ErrorKind::Auth);
    assert!(play.state.on_hold);
    go(&mut play, to(MessageId::from("b")));
    assert_eq!((play.state.on_hold, play.waiting().1), (true, vec!["later".to_owned()]));
    play.go_on();
    assert_eq!(play.history(), ["user: a", "model: re a", "user: later"]);
}

/// A window of 2,000 tokens with five long turns in it, and a summary under way that leaves the newest three messages.
fn compacting() -> Play {
    let mut play = Play::with(|settings| {
        settings.compaction.reserve = Some(500);
        settings.compaction.keep = Some(3 * 129);
        settings.compaction.auto = false;
    });
    play.window = Window::new(2_000, 0).with_reserve(500);
    for turn in 0..5 {
        play.send(&format!("{turn:0500}"));
        play.answer_text(&"y".repeat(500));
    }
    let reply = play.reply_to();
    play.signal(Compact.to(reply));
    play
}

fn summarised(play: &mut Play) {
    let ticket = play.state.compaction().expect("a summary is being written").0;
    play.signal(Report::Summarised { result: Ok((Arc::from("sum"), Default::default())), lost: 0 }.of(ticket));
}

/// J: a background compaction whose cut is above the point is closed; one that sums up only what stays goes on.
#[test]
fn a_summary_of_what_is_gone_is_not_waited_for() {
    let mut play = compacting();
    let (ticket, cut) = play.state.compaction().map(|(ticket, open)| (ticket, open.first_kept)).unwrap();
    assert_eq!(cut, 7);
    go(&mut play, RollbackTarget::Undo);
    assert!(play.state.compaction().is_some() && play.is_quiet(), "eight items stay");
    summarised(&mut play);
    assert_eq!(play.history().len(), 2);

    let mut play = compacting();
    go(&mut play, to(MessageId::from(&*format!("{:0500}", 2))));
    // Nobody directs its end: it ends because its ticket is closed.
    assert!(!play.state.open.contains_key(&ticket) && play.is_quiet());
    let before = play.state.clone();
    play.signal(Report::Summarised { result: Ok((Arc::from("late"), Default::default())), lost: 0 }.of(ticket));
    assert_eq!(play.state, before, "a summary that comes late changes nothing");
}

/// The point is in an earlier anchor, before a compaction: the entry brings what the compaction left out, recovery reads it from
/// there, and the compaction stays counted.
#[test]
fn a_rollback_across_a_compaction_brings_what_was_summed_up() {
    let mut play = compacting();
    let before: Vec<_> = play.history();
    let hash = play.state.history_hash.clone();
    let point = play.state.seq;
    summarised(&mut play);
    play.signal(BeginAnchor.to(ReplyTo::NOBODY));
    play.send("after");
    play.answer_text("re after");
    assert_eq!(play.history().len(), 1 + 3 + 2);
    let entries = play.entries_of_the_tape();
    let anchor = entries.iter().rposition(|entry| matches!(entry.record, Record::State(_))).unwrap();
    let wanted = to(point);
    assert_eq!(look_back(&entries[anchor..], &play.state, &wanted, false), Ok(None), "it asks for more of the tape");
    let back = go(&mut play, wanted);
    assert_eq!((back.keep, back.items.len()), (0, 10));
    assert_eq!((play.history(), &play.state.history_hash), (before, &hash));
    assert_eq!((play.state.context.front, play.state.context.summary.clone()), (0, None));
    assert_eq!(play.state.context.compactions, 1, "what took place took place");
    // From its newest anchor the tape folds to the same.
    let mut opened = play.state.clone();
    play.entries_of_the_tape()[anchor..].iter().for_each(|entry| opened.apply(entry));
    assert_eq!(opened, play.state);
    go(&mut play, RollbackTarget::Redo);
    assert_eq!((play.history().len(), play.state.context.front), (1 + 3 + 2, 1));
    assert_eq!(play.state.context.summary.as_deref(), Some("sum"));
}

/// What a conversation must be, beside the core: who said what, and what undo came from.
#[derive(Clone, Default)]
struct Model {
    said: Vec<String>,
    undone: Vec<Vec<String>>,
    /// By the newest entry, after each step.
    stood: BTreeMap<Seq, Vec<String>>,
}

impl Model {
    fn jump(&mut self, said: Vec<String>) {
        let before = std::mem::replace(&mut self.said, said);
        self.undone.push(before);
    }
}

/// Random sends, rollbacks, undos, redos, compactions, anchors and crashes against a list of messages.
#[test]
fn a_list_of_messages_says_what_a_conversation_is() {
    for seed in 0..150 {
        let (mut rng, mut play, mut model) = (Rng::new(seed), Play::new(), Model::default());
        play.configure(|settings| settings.compaction.keep = Some(20));
        for step in 0..40 {
            let place = format!("seed {seed}, step {step}");
            match rng.below(12) {
                0..=4 => {
                    let text = format!("m{step}");
                    play.send(&text);
                    play.answer_text(&format!("re {text}"));
                    model.said.push(text);
                    model.undone.clear();
                }
                5 | 6 => match found(&play, &RollbackTarget::Undo) {
                    Ok(back) => {
                        submit(&mut play, back).unwrap();
                        let mut said = model.said.clone();
                        said.pop().expect(&place);
                        model.jump(said);
                    }
                    Err(why) => assert_eq!((why, model.said.len()), (NoPoint::NothingToUndo, 0), "{place}"),
                },
                7 | 8 => match found(&play, &RollbackTarget::Redo) {
                    Ok(back) => {
                        submit(&mut play, back).unwrap();
                        model.said = model.undone.pop().expect(&place);
                    }
                    Err(why) => assert_eq!((why, model.undone.len()), (NoPoint::NothingToRedo, 0), "{place}"),
                },
                9 if !model.stood.is_empty() => {
                    let points: Vec<_> = model.stood.keys().copied().collect();
                    let point = rng.pick(&points);
                    if point != play.state.seq {
                        go(&mut play, to(point));
                        model.jump(model.stood[&point].clone());
                    }
                }
                10 if !model.said.is_empty() => {
                    let at = rng.below(model.said.len());
                    go(&mut play, to(MessageId::from(&*model.said[at])));
                    model.jump(model.said[..at].to_vec());
                }
                _ => match rng.below(3) {
                    0 => {
                        let reply = play.reply_to();
                        play.signal(Compact.to(reply));
                        if play.state.compaction().is_some() {
                            summarised(&mut play);
                        }
                    }
                    1 => drop(play.signal(BeginAnchor.to(ReplyTo::NOBODY))),
                    _ => drop(play.crash()),
                },
            }
            model.stood.insert(play.state.seq, model.said.clone());
            let told = model.said.iter().flat_map(|said| [said.clone(), format!("re {said}")]);
            assert_eq!(transcript(&play), told.collect::<Vec<_>>(), "{place}");
            let history = model.said.iter().flat_map(|said| [format!("user: {said}"), format!("model: re {said}")]);
            let history: Vec<_> = history.collect();
            match play.state.context.front {
                0 => assert_eq!(play.history(), history, "{place}"),
                _ => assert!(history.ends_with(&play.history()[1..]), "{place}: {:?}", play.history()),
            }
            assert!(play.outcome().is_none_or(|outcome| outcome == Outcome::Done));
        }
    }
}
