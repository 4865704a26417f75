//! Questions of children on their parent's tape: taken once, answered once, and closed when they are over below.

use std::sync::Arc;

use tamtam::{
    Outcome, Seq,
    kernel::{
        AnswerAsk, AskClosedWhy, CarriedOut, DownReason, Grant, Link, Record, Refusal, Scope, TaskAsk, TaskAskOver,
        TaskAsked,
    },
};

use super::{
    play::Play,
    tasks::{down, spawn},
};

fn question(ask: u64) -> Arc<TaskAsk> {
    let question = serde_json::json!({
        "ask": ask, "from": [{"session": "c", "agent": "explore"}], "call": "c-1", "name": "bash", "input": "{}",
        "access": [{"permission": "bash", "pattern": "ls"}], "expires": 600_000,
    });
    Arc::new(serde_json::from_value(question).unwrap())
}

fn ask(play: &mut Play, task: Seq, below: u64) {
    let reply = play.reply_to();
    play.signal(TaskAsked { task, asked: question(below) }.to(reply));
}

fn over(play: &mut Play, ask: Seq) {
    let reply = play.reply_to();
    play.signal(TaskAskOver { ask }.to(reply));
}

fn answer(play: &mut Play, ask: Seq, grant: Grant) -> Result<Seq, Refusal> {
    let reply = play.reply_to();
    play.signal(AnswerAsk { ask, grant, who: Some("x".repeat(300)), rules: None, digest: None }.to(reply));
    match play.reply.clone().unwrap() {
        Ok(CarriedOut::Done(seq)) => Ok(seq),
        Ok(other) => panic!("an answer was answered with {other:?}"),
        Err(refusal) => Err(refusal),
    }
}

fn asks(play: &Play) -> Vec<(Seq, Seq, bool)> {
    play.state.task_asks().map(|(ask, open)| (ask, open.asked.ask, open.answer.is_some())).collect()
}

/// H-20: both commands of a child may come again after a crash, and change nothing then.
#[test]
fn a_childs_question_is_taken_answered_and_closed_once() {
    let mut play = Play::new();
    let task = spawn(&mut play, "c", Link::default()).unwrap();
    ask(&mut play, task, 7);
    for (task, below) in [(task, 7), (Seq(99), 8)] {
        ask(&mut play, task, below);
        assert!(play.entries.is_empty(), "the same again, and one of no task");
    }
    let [(open, below, answered)] = asks(&play)[..] else { panic!("{:?}", asks(&play)) };
    assert_eq!((below, answered), (Seq(7), false));
    assert!(matches!(answer(&mut play, open, Grant::Raise(Default::default())), Err(Refusal::NotABudget { .. })));
    answer(&mut play, open, Grant::Always(Scope::Session)).unwrap();
    assert_eq!(asks(&play), [(open, Seq(7), true)], "until the child has it");
    let who = play.entries.iter().rev().find_map(|entry| match &entry.record {
        Record::Granted { who, .. } => who.clone(),
        _ => None,
    });
    assert_eq!(who.map(|who| who.len()), Some(256));
    assert!(play.state.grants.is_empty(), "the grant is the child's");
    assert_eq!(answer(&mut play, open, Grant::Once), Err(Refusal::AskClosed { ask: open }));
    play.crash();
    assert_eq!(asks(&play), [(open, Seq(7), true)]);
    over(&mut play, open);
    assert_eq!(asks(&play), []);
    over(&mut play, open);
    assert!(play.entries.is_empty());
    assert_eq!(answer(&mut play, open, Grant::Once), Err(Refusal::AskClosed { ask: open }));
}

/// A question belongs to its task: the end of a turn leaves it, and the DOWN closes it, also one that was answered.
#[test]
fn a_question_outlives_the_turn_and_ends_with_its_task() {
    let mut play = Play::new();
    play.send("go");
    let task = spawn(&mut play, "c", Link { wakes_parent: false, ..Link::default() }).unwrap();
    ask(&mut play, task, 7);
    ask(&mut play, task, 9);
    let open: Vec<Seq> = asks(&play).iter().map(|(ask, ..)| *ask).collect();
    answer(&mut play, open[0], Grant::Reject(None)).unwrap();
    play.answer_text("done");
    assert_eq!((play.outcome(), asks(&play).len()), (Some(Outcome::Done), 2), "a rejection below ends no turn here");
    down(&mut play, task, DownReason::Done);
    assert_eq!(asks(&play), []);
    let closed = play.entries.iter().filter(|entry| {
        matches!(entry.record, Record::AskClosed { why: AskClosedWhy::OverBelow })
            && open.contains(&entry.ticket.unwrap())
    });
    assert_eq!(closed.count(), 2);
    assert_eq!(play.state.unanswered().count(), 0);
}

/// On its way up a question keeps its maker and gets one step longer; one that was answered goes no further.
#[test]
fn a_question_is_told_to_the_next_parent_under_this_sessions_ticket() {
    let mut play = Play::new();
    let task = spawn(&mut play, "c", Link::default()).unwrap();
    ask(&mut play, task, 7);
    let [(open, ..)] = asks(&play)[..] else { panic!() };
    let [told] = &play.state.questions()[..] else { panic!() };
    let from: Vec<_> = told.from.iter().map(|from| from.session.as_str()).collect();
    assert_eq!((told.ask, from, &*told.name), (open, vec![play.state.session.as_str(), "c"], "bash"));
    answer(&mut play, open, Grant::Once).unwrap();
    assert_eq!(play.state.questions(), []);
}
