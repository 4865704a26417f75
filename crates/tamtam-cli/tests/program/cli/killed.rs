//! `tamtam serve`, killed at named places between the acceptance of a message and the answer to its sender; and what its clients see.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::lab::{Lab, Live};
use crate::support::rng::Rng;

/// The crash points that a message passes on its way, and whether the tape has the message there. At the last two it is either: the
/// actor passes one while the file's thread still writes, the other after the events of the turn before are out.
const POINTS: [(&str, Option<bool>); 6] = [
    ("session.took", Some(false)),
    ("session.decided", Some(false)),
    ("tape.write", Some(false)),
    ("tape.written", Some(true)),
    ("session.appended", None),
    ("session.published", None),
];

/// Whether the file of the tape has this message.
fn is_on_the_tape(lab: &Lab, message: &str) -> bool {
    let file = lab.path("store/sessions/s/anchors/001_session-start/entries.jsonl");
    std::fs::read_to_string(file).unwrap().contains(&format!("\"Pass {message}.\""))
}

/// A client at one address. HTTP/1.0: an answer ends with its connection, and no event comes in pieces.
struct Client(String);

impl Client {
    /// Sends a request. What is left to read is the body; `None` where the server broke off.
    fn ask(&self, request: &str, headers: &str, body: &Value) -> Option<BufReader<TcpStream>> {
        let mut socket = TcpStream::connect(&self.0).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let head = format!("{request} HTTP/1.0\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n");
        socket.write_all(format!("{head}{body}").as_bytes()).ok()?;
        let mut answer = BufReader::new(socket);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if answer.read_line(&mut line).ok()? == 0 {
                return None;
            }
        }
        Some(answer)
    }

    fn post(&self, path: &str, body: &Value) -> Option<Value> {
        let mut answer = String::new();
        let json = "content-type: application/json\r\n";
        self.ask(&format!("POST {path}"), json, body)?.read_to_string(&mut answer).ok()?;
        serde_json::from_str(&answer).ok()
    }
}

/// A subscriber that remembers what it was told: the durable events in their order, each with its id.
#[derive(Default)]
struct Subscriber {
    told: Vec<(String, Value)>,
    connections: usize,
}

impl Subscriber {
    /// Connects behind the last event, and takes so many durable events at most. Says whether the last one is the end of this turn.
    fn follow(&mut self, client: &Client, most: usize, message: &str) -> bool {
        self.connections += 1;
        let last = self.told.last().map_or("0".to_owned(), |(id, _)| id.clone());
        let mut events = client.ask(
            "GET /v1/sessions/s/events?after=0&deltas=0",
            &format!("last-event-id: {last}\r\n"),
            &Value::Null,
        );
        let Some(events) = &mut events else { panic!("no events behind {last}") };
        let (mut line, mut data, mut id) = (String::new(), Value::Null, String::new());
        for _ in 0..most {
            while id.is_empty() || data.is_null() || line != "\n" {
                line.clear();
                assert!(events.read_line(&mut line).unwrap() > 0, "the stream ended behind {last}");
                match line.trim_end().split_once(": ") {
                    Some(("data", text)) => data = serde_json::from_str(text).unwrap(),
                    Some(("id", text)) => text.clone_into(&mut id),
                    _ => {}
                }
            }
            let is_end = data["event"] == "turn_finished" && data["messages"][0] == message;
            self.told.push((std::mem::take(&mut id), std::mem::take(&mut data)));
            if is_end {
                return true;
            }
        }
        false
    }
}

fn serve(lab: &Lab, model: &str, point: &str) -> (Live, Client) {
    let mut command = lab.command(&["serve", "--addr", "127.0.0.1:0", "--store", "../store", "--model", model]);
    command.env("TAMTAM_FAULT_KILL_AT", point).env("TAMTAM_FAULT_KILL_WHEN", lab.path("armed"));
    let mut live = Live::start(command);
    let line = live.line();
    let at = line.strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line}")).to_owned();
    (live, Client(at))
}

/// Must show 3 and 6 of the server: it is killed at each point between the acceptance of a message and the answer. The sender's retry has
/// one receipt, each time that it is sent; the message is in the conversation once; and a subscriber that comes again at random, over all
/// these kills, has each durable event once and in order.
#[test]
fn a_kill_between_acceptance_and_answer_doubles_and_loses_nothing() {
    let lab = Lab::new();
    let replies = POINTS.iter().flat_map(|(point, _)| [format!("Past {point}."), "Yes.".into(), "Yes.".into()]);
    let model = lab.script(replies.map(Value::from).collect());
    let (mut subscriber, mut chance) = (Subscriber::default(), Rng::new(47));
    let (mut server, mut client) = serve(&lab, &model, POINTS[0].0);
    let made = client.post("/v1/sessions", &json!({ "id": "s" }));
    assert_eq!(made.unwrap()["session"]["session"], "s");
    for (n, (point, is_kept)) in POINTS.into_iter().enumerate() {
        let id = format!("m{n}");
        let message = json!({ "id": id, "text": format!("Pass {point}.") });
        std::fs::write(lab.path("armed"), "").unwrap();
        assert_eq!(client.post("/v1/sessions/s/messages", &message), None, "{point}: the sender has no answer");
        assert_ne!(server.end().code, 0, "{point}");
        let was_kept = is_on_the_tape(&lab, point);
        assert!(is_kept.is_none_or(|is_kept| was_kept == is_kept), "{point}: {was_kept}");
        std::fs::remove_file(lab.path("armed")).unwrap();
        (server, client) = serve(&lab, &model, POINTS.get(n + 1).map_or("", |(point, _)| point));
        let first = client.post("/v1/sessions/s/messages", &message).unwrap();
        assert_eq!((&first["message"], &first["known_before"]), (&json!(id), &json!(was_kept)), "{point}: {first}");
        // The subscriber breaks off at random, until it has seen the end of the turn.
        while !subscriber.follow(&client, chance.below(3), &id) {}
        let again = client.post("/v1/sessions/s/messages", &message).unwrap();
        assert_eq!((&again["seq"], &again["known_before"]), (&first["seq"], &json!(true)), "{point}: {again}");
        for more in ["more", "and more"] {
            let id = format!("{id} {more}");
            client.post("/v1/sessions/s/messages", &json!({ "id": id, "text": more })).unwrap();
            while !subscriber.follow(&client, chance.below(3), &id) {}
        }
    }
    let mut whole = Subscriber::default();
    assert!(whole.follow(&client, usize::MAX, &format!("m{} and more", POINTS.len() - 1)));
    assert_eq!(subscriber.told, whole.told);
    assert!(subscriber.connections >= 100, "{}", subscriber.connections);
    let mut page = String::new();
    client.ask("GET /v1/sessions/s/messages?limit=200", "", &Value::Null).unwrap().read_to_string(&mut page).unwrap();
    let page: Value = serde_json::from_str(&page).unwrap();
    let said: Vec<_> = page["messages"].as_array().unwrap().iter().rev().map(|said| said["parts"].clone()).collect();
    assert_eq!(said.len(), 6 * POINTS.len());
    for (said, (point, _)) in said.chunks(6).zip(POINTS) {
        assert_eq!(said[0][0]["text"], format!("Pass {point}."));
        assert!(said[1].to_string().contains(&format!("Past {point}.")), "{said:?}");
    }
    server.signal("-TERM");
    assert_eq!(server.end().code, 0);
}
