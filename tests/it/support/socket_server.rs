//! A server of the Responses API over WebSockets that takes steering messages: on loopback, at a given border as badly as it can.
//!
//! It says nothing twice: each answer has words of its own, so the tape's conversation can be held against what the server was asked.
//! A request that the real API would refuse (`strict`) is refused, and fails the test.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use super::strict;

/// What the server does with a message that steers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Stops at the next word, and goes on with it.
    Takes,
    /// Ends its answer in order, and goes on with it.
    TakesLate,
    /// Sends it back at once.
    Refuses,
    /// Takes it, stops, and sends it back.
    SendsBack,
    /// Knows no such event.
    KnowsNone,
    /// Fails over all of it at that moment, and says so in an event that names no message.
    Breaks,
    /// Takes it, and ends its answer in a call.
    Calls,
    /// Takes it, stops, and says nothing more.
    FallsSilent,
}

/// A point in the conversation of the server with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Border {
    /// A request has come.
    Asked,
    /// An answer has begun.
    Begun,
    /// A word of an answer was sent.
    Word,
    /// A message that steers has come.
    Steered,
    /// It was said to be accepted.
    Accepted,
    /// The answer that it came into has ended.
    Ended,
    /// The answer that goes on with it has begun.
    Successor,
    /// An answer is whole.
    Whole,
}

/// An answer of the server.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// What it answers: one line for each item.
    pub(crate) asked: Vec<String>,
    pub(crate) text: String,
    /// Whether it began without a request.
    pub(crate) is_successor: bool,
}

#[derive(Default)]
struct Log {
    made: Vec<Made>,
    unfit: Vec<String>,
    connections: usize,
    /// Of them, those that are over.
    ended: usize,
    requests: usize,
}

/// What the server goes by.
pub(crate) struct Plan {
    /// What it does with the messages, in their order; the last for all others.
    pub(crate) does: Vec<Does>,
    /// An answer waits behind its second word for one that steers, while the conversation has fewer of them than this.
    pub(crate) waits_for: usize,
    /// Whether a connection ends at this border, the n-th of its kind.
    pub(crate) cuts: Box<dyn Fn(Border, usize) -> bool + Send + Sync>,
    /// The borders at which it waits until the test lets it go on.
    pub(crate) holds: Vec<(Border, Arc<Notify>)>,
}

impl Plan {
    pub(crate) fn new(does: &[Does], waits_for: usize) -> Plan {
        Plan { does: does.to_vec(), waits_for, cuts: Box::new(|_, _| false), holds: Vec::new() }
    }
}

struct Shared {
    plan: Plan,
    log: Mutex<Log>,
    /// The borders that were passed, and how many messages have come.
    passed: Mutex<(Vec<Border>, usize)>,
}

/// The server. Dropping it ends it, with its connections.
pub(crate) struct SocketServer {
    at: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The connection ends here.
struct Cut;

impl SocketServer {
    pub(crate) async fn start(plan: Plan) -> SocketServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { plan, log: Mutex::default(), passed: Mutex::default() });
        let serving = shared.clone();
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = serving.clone();
                open.spawn(async move {
                    let Ok(socket) = tokio_tungstenite::accept_async(stream).await else { return };
                    shared.log.lock().unwrap().connections += 1;
                    let _ = Talk { socket, shared: shared.clone() }.serve().await;
                    shared.log.lock().unwrap().ended += 1;
                });
            }
        });
        SocketServer { at, shared, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.at)
    }

    /// The answers so far.
    pub(crate) fn made(&self) -> Vec<Made> {
        self.shared.log.lock().unwrap().made.clone()
    }

    /// How many connections and requests there were.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let log = self.shared.log.lock().unwrap();
        (log.connections, log.requests)
    }

    /// How many connections are over.
    pub(crate) fn ended(&self) -> usize {
        self.shared.log.lock().unwrap().ended
    }

    /// How often this border was passed.
    pub(crate) fn passed(&self, border: Border) -> usize {
        self.shared.passed.lock().unwrap().0.iter().filter(|known| **known == border).count()
    }

    /// Why requests were refused that the real API would refuse.
    pub(crate) fn unfit(&self) -> Vec<String> {
        self.shared.log.lock().unwrap().unfit.clone()
    }
}

/// One connection.
struct Talk {
    socket: WebSocketStream<TcpStream>,
    shared: Arc<Shared>,
}

impl Talk {
    async fn serve(&mut self) -> Result<(), Cut> {
        loop {
            let (name, event) = self.next().await?;
            if name == "response.steer" {
                let error = json!({"code": "response_not_active", "message": "no response is active"});
                self.send(json!({"type": "response.steer.failed", "steer": {}, "error": error})).await?;
                continue;
            }
            self.shared.log.lock().unwrap().requests += 1;
            self.pass(Border::Asked)?;
            let mut body = event.clone();
            let fields = body.as_object_mut().unwrap();
            fields.remove("type");
            let streams = fields.insert("stream".to_owned(), true.into());
            let checked = strict::check("POST /v1/responses HTTP/1.1", &body.to_string());
            let checked = if streams.is_some() { Err("stream is no field here".to_owned()) } else { checked };
            if let Err(why) = checked {
                self.shared.log.lock().unwrap().unfit.push(why.clone());
                let error = json!({"code": "invalid_request", "message": why});
                self.send(json!({"type": "error", "status": 400, "error": error})).await?;
                continue;
            }
            let asked = body["input"].as_array().unwrap().iter().map(line).collect();
            self.answer(asked).await?;
        }
    }

    /// Answers, and goes on with what steers.
    async fn answer(&mut self, mut asked: Vec<String>) -> Result<(), Cut> {
        let mut is_successor = false;
        loop {
            let number = {
                let mut log = self.shared.log.lock().unwrap();
                let text = String::new();
                log.made.push(Made { asked: asked.clone(), text, is_successor });
                log.made.len()
            };
            let id = format!("resp_{number}");
            self.send(json!({"type": "response.created", "response": {"id": id, "status": "in_progress"}})).await?;
            let border = if is_successor { Border::Successor } else { Border::Begun };
            self.pass(border)?;
            self.hold(border).await;
            let item = json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant", "content": []});
            self.send(json!({"type": "response.output_item.added", "output_index": 0, "item": item})).await?;
            let (mut text, mut taken, mut does) = (String::new(), Vec::<(String, String)>::new(), None);
            for word in 1..=5 {
                let waits = word == 3 && Talk::has_come(&asked) < self.shared.plan.waits_for;
                while let Some((name, event)) = self.steered(waits && does.is_none()).await? {
                    let (now, said) = self.take(&name, &event, number).await?;
                    taken.extend(said);
                    does = Some(now);
                }
                if matches!(does, Some(Does::Takes | Does::SendsBack | Does::FallsSilent)) {
                    break;
                }
                let more = format!("{number}-{word} ");
                text.push_str(&more);
                self.shared.log.lock().unwrap().made[number - 1].text.clone_from(&text);
                self.send(json!({"type": "response.output_text.delta", "output_index": 0, "delta": more})).await?;
                self.pass(Border::Word)?;
            }
            let calls = does == Some(Does::Calls);
            self.end(number, &text, calls, !taken.is_empty() && does != Some(Does::TakesLate)).await?;
            self.pass(if taken.is_empty() { Border::Whole } else { Border::Ended })?;
            match does {
                _ if taken.is_empty() => return Ok(()),
                Some(Does::SendsBack) => {
                    for (id, _) in &taken {
                        let error = json!({"code": "not_committed", "message": "the server has changed its mind"});
                        let steer = json!({ "id": id });
                        self.send(json!({"type": "response.steer.failed", "steer": steer, "error": error})).await?;
                    }
                    return Ok(());
                }
                Some(Does::Calls) => {
                    let required = json!([{"type": "function_call_output", "call_id": format!("call_{number}")}]);
                    let steer = json!({"id": taken[0].0});
                    let pending = json!({"type": "response.steer.pending", "steer": steer,
                        "reason": "waiting_for_required_input", "required_input": required});
                    self.send(pending).await?;
                    return Ok(());
                }
                Some(Does::FallsSilent) => std::future::pending::<()>().await,
                _ => {}
            }
            if !text.is_empty() {
                asked.push(format!("assistant: {text}"));
            }
            asked.extend(taken.into_iter().map(|(_, said)| said));
            is_successor = true;
        }
    }

    /// What is done with a message, and its words if they were accepted.
    async fn take(
        &mut self,
        name: &str,
        event: &Value,
        number: usize,
    ) -> Result<(Does, Option<(String, String)>), Cut> {
        assert_eq!(name, "response.steer", "a request beside an answer");
        self.pass(Border::Steered)?;
        let at = {
            let mut passed = self.shared.passed.lock().unwrap();
            passed.1 += 1;
            passed.1 - 1
        };
        let does = &self.shared.plan.does;
        let mut now = does[at.min(does.len() - 1)];
        if event["previous_response_id"] != format!("resp_{number}") {
            now = Does::Refuses;
        }
        let parent = &event["previous_response_id"];
        match now {
            Does::Refuses => {
                let error = json!({"code": "steering_not_supported", "message": "this answer takes none"});
                let steer = json!({"previous_response_id": parent, "input": event["input"]});
                self.send(json!({"type": "response.steer.failed", "steer": steer, "error": error})).await?;
                Ok((now, None))
            }
            Does::Breaks => {
                // A type that says little, and a status that says enough.
                let error = json!({"type": "invalid_request_error", "message": "slow down"});
                let headers = json!({"Retry-After": "0.01"});
                self.send(json!({"type": "error", "status": 429, "error": error, "headers": headers})).await?;
                std::future::pending().await
            }
            Does::KnowsNone => {
                let error = json!({"type": "invalid_request_error", "message": "unknown event: response.steer"});
                self.send(json!({"type": "error", "status": 400, "error": error})).await?;
                Ok((now, None))
            }
            _ => {
                let id = format!("steer_{at}");
                let steer = json!({"id": id, "previous_response_id": parent});
                self.send(json!({"type": "response.steer.accepted", "steer": steer})).await?;
                self.pass(Border::Accepted)?;
                self.hold(Border::Accepted).await;
                Ok((now, Some((id, line(&event["input"][0])))))
            }
        }
    }

    /// The end of an answer.
    async fn end(&mut self, number: usize, text: &str, calls: bool, steered: bool) -> Result<(), Cut> {
        let content = json!([{"type": "output_text", "text": text}]);
        let item = json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant",
            "status": "completed", "content": content});
        let mut output = vec![item.clone()];
        self.send(json!({"type": "response.output_item.done", "output_index": 0, "item": item})).await?;
        if calls {
            let call = json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
                "name": "look", "arguments": "{}", "status": "completed"});
            self.send(json!({"type": "response.output_item.done", "output_index": 1, "item": call})).await?;
            output.push(call);
        }
        let (kind, details) = match steered && !calls {
            true => ("incomplete", json!({"reason": "steered"})),
            false => ("completed", Value::Null),
        };
        let usage = json!({"input_tokens": 20, "output_tokens": 5, "total_tokens": 25});
        let response = json!({"id": format!("resp_{number}"), "status": kind, "incomplete_details": details,
            "model": "m", "output": output, "usage": usage});
        self.send(json!({"type": format!("response.{kind}"), "response": response})).await
    }

    /// How many messages that steer the conversation has.
    fn has_come(asked: &[String]) -> usize {
        asked.iter().filter(|line| line.starts_with("user: steer")).count()
    }

    /// The next message that steers. Waits for it, or looks for a moment whether there is one.
    async fn steered(&mut self, waits: bool) -> Result<Option<(String, Value)>, Cut> {
        let wait = if waits { Duration::from_secs(20) } else { Duration::from_millis(1) };
        match tokio::time::timeout(wait, self.next()).await {
            Ok(next) => next.map(Some),
            Err(_) => Ok(None),
        }
    }

    async fn next(&mut self) -> Result<(String, Value), Cut> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let event: Value = serde_json::from_str(&text).unwrap();
                    return Ok((event["type"].as_str().unwrap_or_default().to_owned(), event));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Cut),
                Some(Ok(_)) => {}
            }
        }
    }

    async fn send(&mut self, event: Value) -> Result<(), Cut> {
        self.socket.send(Message::text(event.to_string())).await.map_err(|_| Cut)
    }

    async fn hold(&self, at: Border) {
        for (_, go_on) in self.shared.plan.holds.iter().filter(|(border, _)| *border == at) {
            go_on.notified().await;
        }
    }

    fn pass(&self, border: Border) -> Result<(), Cut> {
        let count = {
            let mut passed = self.shared.passed.lock().unwrap();
            passed.0.push(border);
            passed.0.iter().filter(|known| **known == border).count()
        };
        if (self.shared.plan.cuts)(border, count) { Err(Cut) } else { Ok(()) }
    }
}

/// An item of a conversation in one line.
fn line(item: &Value) -> String {
    let kind = item["type"].as_str().unwrap_or_default();
    if kind != "message" {
        return kind.to_owned();
    }
    let texts = item["content"].as_array().into_iter().flatten();
    let text: String = texts.map(|part| part["text"].as_str().unwrap_or_default()).collect();
    format!("{}: {text}", item["role"].as_str().unwrap_or_default())
}
