//! Pins, as the core holds them: what is pinned stays word for word, and there is a bound.

use std::sync::Arc;

use tamtam::{
    Message, Seq,
    kernel::{
        CarriedOut, Compact, Delivery, EditMessage, Outcome, PinMessage, Record, Refusal, Reply, Report, RollBack,
        RolledBack, Transcript, UnpinMessage, Way, context::Window,
    },
    model::Item,
};

use super::play::Play;

const RULE: &str = "Never touch main.rs, and say so in each answer.";

fn play() -> Play {
    let mut play = Play::with(|settings| {
        settings.compaction.keep = Some(0);
        settings.compaction.auto = false;
    });
    play.window = Window::new(40_000, 0);
    play
}

/// So much is said that a summary is worth it. Each word is an id of its own.
fn talk(play: &mut Play, word: &str) {
    play.send(&format!("{word} {}", "x".repeat(6_000)));
    play.answer_text(&"y".repeat(2_000));
}

fn pin(play: &mut Play, message: &str) -> Reply {
    let reply = play.reply_to();
    play.signal(PinMessage { message: message.into() }.to(reply));
    play.reply.clone().unwrap()
}

fn unpin(play: &mut Play, message: &str) -> Reply {
    let reply = play.reply_to();
    play.signal(UnpinMessage { message: message.into() }.to(reply));
    play.reply.clone().unwrap()
}

fn sum_up(play: &mut Play) {
    let reply = play.reply_to();
    play.signal(Compact.to(reply));
    let ticket = play.state.compaction().expect("a compaction is open").0;
    play.signal(Report::Summarised { result: Ok(("## Goal\nGo on.".into(), Default::default())), lost: 0 }.of(ticket));
    assert!(play.state.compaction().is_none() && play.state.context.front == 1, "{:?}", play.entries);
}

/// What stands in place of what was summed up.
fn front(play: &Play) -> String {
    match &**play.state.history.iter().next().unwrap() {
        Item::User(user) => Message { parts: user.parts.clone(), ..Message::user("") }.text(),
        other => panic!("{other:?}"),
    }
}

/// A rule that is said in the middle of a long talk is pushed out of what is carried on of the host's words; pinned it stays,
/// whole and once, over every summary, a crash among them. Unpinned it goes the way of all words.
#[test]
fn what_is_pinned_survives_every_summary_word_for_word() {
    let mut play = play();
    (0..4).for_each(|n| talk(&mut play, &format!("before {n}")));
    let long = format!("{RULE}{}", " It matters.".repeat(300));
    for rule in [RULE, &long] {
        play.send(rule);
        play.answer_text("noted");
        let before = play.state.history_hash.clone();
        assert!(matches!(pin(&mut play, rule), Ok(CarriedOut::Done(_))));
        assert_eq!(play.state.history_hash, before, "while it is there the context is as it was: no cache is lost");
    }
    for round in 0..5 {
        (0..6).for_each(|n| talk(&mut play, &format!("after {round} {n}")));
        sum_up(&mut play);
        play.crash();
        let front = front(&play);
        assert!(front.contains("## Pinned by the user"), "{front}");
        assert_eq!(front.matches(&format!("- {RULE}\n")).count(), 1, "{front}");
        assert!(front.contains(&format!("- {long}\n")), "longer words than are carried on otherwise, whole");
    }
    assert!(!front(&play).contains("- after 2 3 "), "of what was not pinned the middle is pushed out");
    unpin(&mut play, RULE).unwrap();
    assert!(front(&play).contains(RULE), "nothing changes before the next summary");
    (0..6).for_each(|n| talk(&mut play, &format!("at last {n}")));
    sum_up(&mut play);
    assert!(!front(&play).contains(&format!("- {RULE}\n")) && front(&play).contains(&long));
    assert_eq!(play.state.context.pins.len(), 1);
}

/// A message may be sent pinned, and changed while it waits; it is pinned when it is read. Shown messages say so.
#[test]
fn a_message_can_be_sent_pinned() {
    let mut play = play();
    play.send("go");
    let rule = || Message::user(RULE).with_id("rule".into());
    play.send_message(rule(), Delivery::Queue, None).unwrap();
    let reply = play.reply_to();
    play.signal(EditMessage { message: rule().pinned() }.to(reply));
    assert!(play.state.context.pins.is_empty(), "it waits");
    assert_eq!(pin(&mut play, "rule"), Err(Refusal::NotInContext { message: "rule".into() }));
    play.answer_text("gone");
    play.answer_text("noted");
    let pinned = |play: &Play| {
        let messages = Transcript::of(&play.tape());
        messages.iter().filter(|message| message.pinned).map(|message| message.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((play.state.context.pins.len(), pinned(&play)), (1, vec!["rule".to_owned()]));
    pin(&mut play, "go").unwrap();
    assert_eq!(pinned(&play), ["go", "rule"]);
    unpin(&mut play, "rule").unwrap();
    assert_eq!(pinned(&play), ["go"]);
}

/// There is a bound, told before anything is written: also of what waits to be pinned. What is not there cannot be pinned, the
/// same pin is one, and what the runtime wrote is nobody's rule.
#[test]
fn a_pin_that_does_not_fit_is_refused_with_the_figures() {
    let mut play = play();
    let words = |n: usize| format!("{n} {}", "word ".repeat(1_000));
    play.send(&words(0));
    play.answer_text("fine");
    pin(&mut play, &words(0)).unwrap();
    let written = play.written();
    assert!(matches!(pin(&mut play, &words(0)), Ok(CarriedOut::Done(_))));
    assert_eq!(play.written(), written, "the same again is the same pin");
    play.send("busy");
    let sent = |play: &mut Play, n| {
        play.send_message(Message::user(words(n)).with_id(words(n).into()).pinned(), Delivery::Queue, None)
    };
    let full = |refused: Result<_, Refusal>, used| {
        let refused: Refusal = refused.map(|_: tamtam::kernel::Receipt| ()).unwrap_err();
        assert_eq!(refused, Refusal::PinsFull { used, needs: 1_251, max: 2_000 });
        assert!(refused.to_string().contains("unpin another one"));
    };
    full(sent(&mut play, 1), 1_251);
    assert!(!play.state.queue.iter().any(|waiting| waiting.message.pinned), "nothing of it was taken");
    play.answer_text("fine");
    unpin(&mut play, &words(0)).unwrap();
    assert_eq!(unpin(&mut play, &words(0)), Err(Refusal::NotPinned { message: words(0).into() }));
    play.send("busy again");
    sent(&mut play, 2).unwrap();
    full(sent(&mut play, 3), 1_251);
    play.answer_text("fine");
    play.answer_text("read");
    assert_eq!(pin(&mut play, "never said"), Err(Refusal::NotInContext { message: "never said".into() }));
    sum_up(&mut play);
    let front = play.state.history.iter().next().unwrap().clone();
    let Item::User(front) = &*front else { panic!("{front:?}") };
    assert!(matches!(pin(&mut play, front.id.as_str()), Err(Refusal::NotInContext { .. })), "a summary is no message");
    assert_eq!(pin(&mut play, "busy"), Err(Refusal::NotInContext { message: "busy".into() }), "it was summed up");
}

/// What was pinned under a large window may be too much for a smaller model: then the turn says so before its request. No summary
/// is asked for in vain, again and again, and nothing of it is cut off in silence.
#[test]
fn pins_that_leave_no_room_for_a_smaller_model_end_the_turn_and_say_so() {
    let mut play = Play::new();
    let rule = format!("rule {}", "word ".repeat(1_400));
    let pinned = Message::user(rule.clone()).with_id("rule".into()).pinned();
    play.send_message(pinned, Delivery::Queue, None).unwrap();
    play.answer_text("noted");
    (0..3).for_each(|n| talk(&mut play, &format!("{n}")));
    play.window = Window::new(6_000, 500);
    let written = play.written();
    play.send("go");
    let Some(Outcome::Failed { error }) = play.outcome() else { panic!("{:?}", play.outcome()) };
    assert!(error.contains("pinned take about 1752 tokens") && error.contains("unpin some of them"), "{error}");
    assert!(play.state.request().is_none() && play.state.compaction().is_none());
    let summed_up =
        |entry: &tamtam::kernel::Entry| matches!(entry.record, Record::Compaction(_) | Record::Compacted(_));
    assert!(!play.tape()[written..].iter().any(summed_up), "no summary was asked for");
    assert_eq!(play.state.context.pins.len(), 1, "and the pin stands");

    // A larger model goes on with all of it.
    play.window = Window::new(200_000, 8_192);
    play.send("again");
    play.answer_text("fine");
    assert_eq!(play.outcome(), Some(Outcome::Done));
    assert!(play.history().iter().any(|line| line.contains("rule word")));

    // Unpinned, it is summed up with the rest, and the small one goes on.
    play.window = Window::new(6_000, 500);
    unpin(&mut play, "rule").unwrap();
    play.send("small");
    let ticket = play.state.compaction().expect("room is made").0;
    play.signal(Report::Summarised { result: Ok(("sum".into(), Default::default())), lost: 0 }.of(ticket));
    play.answer_text("fine");
    assert_eq!(play.outcome(), Some(Outcome::Done));
}

/// More than may be pinned there, and less than would leave no room: the smaller model goes on, and each summary makes room.
#[test]
fn pins_of_a_larger_window_do_not_make_a_smaller_one_sum_up_without_end() {
    let mut play = Play::new();
    let rule = format!("rule {}", "word ".repeat(1_400));
    let pinned = Message::user(rule).with_id("rule".into()).pinned();
    play.send_message(pinned, Delivery::Queue, None).unwrap();
    play.answer_text("noted");
    play.window = Window::new(8_000, 500);
    let mut summaries = 0;
    for turn in 0..12 {
        play.send(&format!("{turn} {}", "x".repeat(1_000)));
        let mut within = 0;
        while let Some((ticket, _)) = play.state.compaction() {
            (summaries, within) = (summaries + 1, within + 1);
            assert!(within <= 2, "turn {turn} asks for summary after summary");
            play.signal(Report::Summarised { result: Ok(("sum".into(), Default::default())), lost: 0 }.of(ticket));
        }
        play.answer_text(&"y".repeat(1_000));
        assert_eq!(play.outcome(), Some(Outcome::Done), "turn {turn}");
        assert!(play.history().iter().any(|line| line.contains("rule word")), "turn {turn} has lost the rule");
    }
    assert!((1..12).contains(&summaries), "{summaries} summaries in 12 turns");
}

/// A pin belongs to the conversation: whoever goes back to before it has it no more, and has it again by going forward.
#[test]
fn a_pin_goes_back_with_the_conversation() {
    let mut play = play();
    play.send(RULE);
    play.answer_text("noted");
    let (to, context, hash) = (play.state.seq, play.state.context.clone(), play.state.history_hash.clone());
    pin(&mut play, RULE).unwrap();
    let back = RolledBack {
        from: play.state.seq,
        to,
        way: Way::Rollback,
        gone: vec![],
        again: vec![],
        keep: play.state.history.len(),
        items: Default::default(),
        hash,
        context,
    };
    let reply = play.reply_to();
    play.signal(RollBack { back: Arc::new(back), files: None, summary: None }.to(reply));
    assert!(play.state.context.pins.is_empty());
    assert!(Transcript::of(&play.tape()).iter().all(|message| !message.pinned));
    assert!(play.tape().iter().any(|entry| matches!(entry.record, Record::Pinned { .. })), "the tape has it");
    assert!(play.state.seq > Seq::ZERO);
}
