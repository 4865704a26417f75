#![allow(clippy::unwrap_used)]
use super::*;

/// An event, from its JSON form: what other programs read.
fn event(seq: u64, piece: Option<u32>, kind: Value) -> Event {
    let id = piece.map_or_else(|| format!("{seq}.0.0"), |sub| format!("{seq}.1.{sub}"));
    let mut event = json!({ "v": 1, "id": id, "session": "s", "time": 0, "turn": 3, "step": 1 });
    event.as_object_mut().unwrap().append(&mut kind.as_object().unwrap().clone());
    serde_json::from_value(event).unwrap()
}

fn started(seq: u64) -> Event {
    let step = json!({ "event": "step_started", "model": "a/b", "attempt": 1, "used": 1, "usable": 2, "hash": "" });
    event(seq, None, step)
}

fn delta(seq: u64, sub: u32, text: &str) -> Event {
    event(seq, Some(sub), json!({ "event": "text_delta", "text": text }))
}

fn whole(seq: u64, text: &str) -> Event {
    event(seq, None, json!({ "event": "part_updated", "part": { "type": "text", "text": text } }))
}

fn call(seq: u64, input: &str) -> Event {
    let state = json!({ "status": "pending", "input": input });
    event(
        seq,
        None,
        json!({ "event": "part_updated", "part": { "type": "tool", "callID": "c", "tool": "look", "state": state } }),
    )
}

fn finished(seq: u64) -> Event {
    let kind = json!({ "event": "call_finished", "ticket": seq, "call": "c", "name": "look", "content": "seen" });
    event(seq, None, kind)
}

struct Screen(Updates);

impl Screen {
    fn new(in_mid: bool) -> Screen {
        Screen(Updates::new("/w".into(), Shows::default(), in_mid))
    }

    fn shows(&mut self, event: &Event) -> Vec<Value> {
        self.0.next(event, |_| false)
    }

    /// The text of an answer that is shown of these events.
    fn text(&mut self, events: &[Event]) -> String {
        let updates = events.iter().flat_map(|event| self.shows(event)).collect::<Vec<_>>();
        let is_text = |update: &&Value| update["sessionUpdate"] == TEXT;
        updates.iter().filter(is_text).map(|update| update["content"]["text"].as_str().unwrap()).collect()
    }
}

#[test]
fn what_was_streamed_is_not_said_again() {
    let events = [started(4), delta(4, 1, "Hel"), delta(4, 2, "lo."), whole(5, "Hello.")];
    assert_eq!(Screen::new(false).text(&events), "Hello.");
}

/// Two parts of one answer are confirmed one by one.
#[test]
fn each_part_takes_its_own_text() {
    let events = [started(4), delta(4, 1, "One."), delta(4, 2, "Two"), whole(5, "One."), whole(5, "Two!")];
    assert_eq!(Screen::new(false).text(&events), "One.Two!");
}

/// A reader that missed a piece, or came in mid-answer, has the text whole, and none of it with a hole.
#[test]
fn a_text_with_a_hole_is_never_shown() {
    let missed = [started(4), delta(4, 1, "a"), delta(4, 3, "c"), whole(5, "abc")];
    assert_eq!(Screen::new(false).text(&missed), "abc");
    let late = [delta(4, 7, "c"), whole(5, "abc"), started(9), delta(9, 1, "d"), whole(10, "d")];
    assert_eq!(Screen::new(true).text(&late), "abcd");
    // Pieces that come after the whole are old ones.
    let stale = [started(4), whole(5, "abc"), delta(4, 1, "a"), delta(4, 2, "b"), started(6)];
    assert_eq!(Screen::new(false).text(&stale), "abc");
    let mut lagged = Screen::new(false);
    assert_eq!(lagged.text(&[started(4), delta(4, 1, "a")]), "a");
    lagged.0.lagged();
    assert_eq!(lagged.text(&[delta(4, 2, "b"), whole(5, "abc")]), "bc");
}

/// What a hook changed is said as the tape has it; an answer that broke off is told apart from the one that follows.
#[test]
fn what_is_on_the_tape_is_what_is_said_in_the_end() {
    let changed = [started(4), delta(4, 1, "a key"), whole(5, "[redacted]")];
    assert_eq!(Screen::new(false).text(&changed), "a key\n\n[redacted]");
    let again = [started(4), delta(4, 1, "It is"), started(6), delta(6, 1, "It was."), whole(7, "It was.")];
    assert_eq!(Screen::new(false).text(&again), "It is\n\n[The answer broke off, and begins again.]\n\nIt was.");
}

/// A model may number its calls anew in each answer.
#[test]
fn an_id_that_comes_again_is_another_call() {
    let mut screen = Screen::new(false);
    let ids: Vec<_> = [call(5, "{}"), finished(6), call(8, "{}"), finished(9)]
        .iter()
        .flat_map(|event| screen.shows(event))
        .map(|update| update["toolCallId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["c", "c", "c#2", "c#2"]);
}

/// A call that was begun in an answer that broke off ends as failed, and one that is complete stays.
#[test]
fn a_call_that_never_was_is_taken_down() {
    let pending = event(4, Some(1), json!({ "event": "call_pending", "index": 0, "call": "c", "name": "look" }));
    let mut screen = Screen::new(false);
    screen.shows(&started(4));
    assert_eq!(screen.shows(&pending)[0]["status"], "pending");
    let taken_down = screen.shows(&started(6));
    assert_eq!((&taken_down[0]["toolCallId"], &taken_down[0]["status"]), (&json!("c"), &json!("failed")));
    screen.shows(&call(7, "{}"));
    let over =
        json!({ "event": "step_finished", "finish": "stop", "usage": { "input": 0, "output": 0 }, "cost": null });
    assert!(screen.shows(&event(8, None, over)).is_empty());
    assert_eq!(screen.shows(&finished(9))[0]["status"], "completed");
}

/// Words of others are shown when the model reads them; one's own are known.
#[test]
fn words_are_shown_when_they_are_read_and_only_to_others() {
    let message = json!({ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "hi" }] });
    let queued = event(2, None, json!({ "event": "queued", "message": message, "delivery": "queue" }));
    let read = event(3, None, json!({ "event": "turn_started", "messages": ["m"] }));
    for (is_own, shown) in [(true, 0), (false, 1)] {
        let mut updates = Updates::new("/w".into(), Shows::default(), false);
        let said = |update: &&Value| update["sessionUpdate"] == "user_message_chunk";
        let first = updates.next(&queued, |_| is_own);
        assert_eq!(first.iter().filter(said).count(), 0);
        assert_eq!(first[0]["_meta"]["tamtam"]["receipt"]["state"], "queued");
        let then = updates.next(&read, |_| is_own);
        assert_eq!(then.iter().filter(said).count(), shown);
        assert_eq!(then.last().unwrap()["_meta"]["tamtam"]["receipt"]["state"], "delivered");
    }
}
