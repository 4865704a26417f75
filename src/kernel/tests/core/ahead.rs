//! Steering messages that the provider has before they are delivered: what is sent, and what follows from what became of it.

use tamtam::{
    EventKind, MessageId,
    event::events_of,
    kernel::{Ahead, Delivery, Mode, NoteSent, Pause, ReplyTo, Report, Steering, WithdrawMessage},
    model::{ErrorKind, ModelAnswer, Steered},
    session::Finish,
};

use super::play::{Play, text};

/// A turn whose model answers, with messages that steer it.
fn answering(texts: &[&str]) -> Play {
    let mut play = Play::new();
    play.send("go");
    texts.iter().for_each(|text| drop(play.steer(text, Steering::FinishBatch)));
    play
}

fn offered(play: &Play) -> Vec<String> {
    play.state.to_send_ahead().map(|waiting| waiting.message.id.to_string()).collect()
}

fn places(play: &Play) -> Vec<Option<Ahead>> {
    play.state.steering.iter().map(|waiting| waiting.ahead).collect()
}

fn sent(play: &mut Play, id: &str) {
    let request = play.request();
    play.signal(NoteSent { request, id: id.into(), said: None }.to(ReplyTo::NOBODY));
}

/// The model stops to read what was sent, and says what became of each.
fn stops(play: &mut Play, said: &str, steered: Vec<Steered>) {
    let mut answer = ModelAnswer::new(vec![text(said)], Finish::Steered);
    answer.steered = steered;
    let ticket = play.request();
    play.signal(Report::Answered { answer, calls: Vec::new() }.of(ticket));
}

fn committed(id: &str) -> Steered {
    Steered::committed(id.into())
}

fn back(id: &str) -> Steered {
    Steered::returned(id.into(), "late")
}

#[test]
fn what_waits_is_offered_and_what_was_sent_waits_all_the_same() {
    let mut play = answering(&["one", "two"]);
    assert_eq!(offered(&play), ["one", "two"]);
    sent(&mut play, "one");
    assert_eq!(places(&play), [Some(Ahead::Sent), None]);
    assert_eq!(news(&play), [moved("one", Ahead::Sent, None)]);
    sent(&mut play, "one");
    sent(&mut play, "gone");
    assert!(play.entries.is_empty(), "said twice, and of no message that waits");
}

/// What listeners hear of messages on their way.
fn news(play: &Play) -> Vec<EventKind> {
    let mut news = Vec::new();
    play.fold_with(|before, entry| {
        let kinds = events_of(before, entry).map(|event| event.kind);
        news.extend(kinds.filter(|kind| matches!(kind, EventKind::SteeringMoved { .. })));
    });
    news
}

fn moved(message: &str, to: Ahead, why: Option<&str>) -> EventKind {
    EventKind::SteeringMoved { message: MessageId::from(message), to, why: why.map(str::to_owned) }
}

#[test]
fn what_was_committed_is_delivered_alone_and_the_rest_behind_it() {
    let mut play = answering(&["one", "two", "three"]);
    ["one", "two"].iter().for_each(|id| sent(&mut play, id));
    stops(&mut play, "half", vec![committed("one"), committed("two")]);
    assert_eq!(play.history(), ["user: go", "model: half", "user: one", "user: two"]);
    assert_eq!((offered(&play), places(&play)), (vec!["three".to_owned()], vec![None]));
    play.answer_text("done");
    assert_eq!(play.history()[5..], ["user: three"], "it is read before the turn ends");
}

/// A message that stands before a committed one is read before it, or the two would change places.
#[test]
fn one_that_came_back_takes_those_behind_it_along() {
    let mut play = answering(&["one", "two"]);
    ["one", "two"].iter().for_each(|id| sent(&mut play, id));
    stops(&mut play, "half", vec![back("one"), committed("two")]);
    assert_eq!(play.history()[2..], ["user: one", "user: two"]);
    assert_eq!(news(&play)[2..], [moved("one", Ahead::Returned, Some("late")), moved("two", Ahead::Committed, None)]);
}

/// The history has what was said, and not how it came to be read: a session over HTTP has the same.
#[test]
fn the_history_is_the_one_that_a_session_without_it_has() {
    let mut play = answering(&["one"]);
    sent(&mut play, "one");
    stops(&mut play, "half", vec![committed("one")]);
    let mut plain = answering(&["one"]);
    stops(&mut plain, "half", vec![]);
    assert_eq!(play.state.history_hash, plain.state.history_hash);
    assert_eq!(play.state.request().unwrap().1.hash, plain.state.request().unwrap().1.hash);
}

#[test]
fn a_request_that_fails_or_dies_gives_everything_back() {
    let mut play = answering(&["one"]);
    sent(&mut play, "one");
    play.failed(ErrorKind::Network);
    assert_eq!(play.history(), ["user: go", "user: one"], "it joins the request that is made again");

    let mut play = answering(&["one"]);
    sent(&mut play, "one");
    play.crash();
    assert_eq!(places(&play), [Some(Ahead::Returned)]);
    assert_eq!(offered(&play), ["one"], "the request that is made again may take it");
    sent(&mut play, "one");
    assert_eq!(places(&play), [Some(Ahead::Sent)]);
    play.abort("enough");
    play.cut_off("half");
    assert!(play.state.queue.iter().all(|waiting| waiting.ahead == Some(Ahead::Returned)));
}

#[test]
fn what_would_change_the_request_is_not_offered() {
    let none = |change: &dyn Fn(&mut Play)| {
        let mut play = answering(&["one"]);
        change(&mut play);
        assert_eq!(offered(&play), Vec::<String>::new());
    };
    none(&|play| drop(play.steer("stop", Steering::AbortRunning)));
    none(&|play| _ = play.signal(Pause.to(ReplyTo::NOBODY)));
    none(&|play| _ = play.abort("enough"));
    none(&|play| _ = play.answer_text("done").answer_text("over"));
    let mut play = Play::with(|settings| settings.steps_max = Some(1));
    play.send("go");
    play.steer("one", Steering::FinishBatch);
    assert_eq!(offered(&play), Vec::<String>::new(), "the last step");
    let mut play = Play::with(|settings| settings.steps_max = Some(2));
    play.send("go");
    play.steer("one", Steering::FinishBatch);
    assert_eq!(offered(&play), Vec::<String>::new(), "the next is the last: it offers no tools");

    let mut play = Play::new();
    play.send("go");
    let mut message = tamtam::Message::user("two").with_id("two".into());
    message.model = Some("a/b".parse().unwrap());
    play.steer("one", Steering::FinishBatch);
    play.send_message(message, Delivery::Steer(Steering::FinishBatch), None).unwrap();
    play.steer("three", Steering::FinishBatch);
    assert_eq!(offered(&play), ["one"], "nothing overtakes");
    play.configure(|settings| settings.steering_mode = Mode::One);
    assert_eq!(offered(&play), ["one"]);
}

#[test]
fn a_message_that_was_sent_is_its_senders_still() {
    let mut play = answering(&["one"]);
    sent(&mut play, "one");
    play.edit("one", "other").unwrap();
    assert_eq!(places(&play), [None], "the provider has other words");
    sent(&mut play, "one");
    play.signal(WithdrawMessage { id: "one".into() }.to(ReplyTo::NOBODY));
    stops(&mut play, "half", vec![committed("one")]);
    assert_eq!(play.history(), ["user: go"], "no half answer stands at the end");
    assert!(play.state.request().is_some(), "it was stopped in mid-answer, and is asked again");

    // Edited after it was sent: what the provider goes on with has other words.
    let mut play = answering(&["one", "two"]);
    sent(&mut play, "one");
    play.edit("one", "other").unwrap();
    let request = play.request();
    let said = Some(std::sync::Arc::new(tamtam::Message::user("one").with_id("one".into())));
    play.signal(NoteSent { request, id: "one".into(), said }.to(ReplyTo::NOBODY));
    assert_eq!(places(&play), [None, None], "the word comes late");
    stops(&mut play, "half", vec![committed("one")]);
    assert_eq!(play.history()[2..], ["user: other", "user: two"], "both, in a request of their own");
}
