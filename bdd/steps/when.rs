//! What hosts and operators do.

use cucumber::when;
use tamtam::{
    Delivery, EventKind, Message, Receipt, Seq, Steering,
    session::{Grant, Scope, Waiting},
};

use crate::{
    lab::{Lab, seen, within},
    steps::text,
};

async fn send(lab: &mut Lab, message: &str, delivery: Delivery) {
    let session = lab.session().await;
    match within("a receipt", session.send(text(message), delivery)).await {
        Ok(receipt) => lab.receipts.push(receipt),
        Err(refusal) => lab.refusal = Some(refusal),
    }
}

/// Sends a prompt and waits for its answer.
#[when(expr = "the host asks {string}")]
async fn asks(lab: &mut Lab, message: String) {
    sends(lab, message).await;
    answer_arrives(lab).await;
}

#[when(expr = "the host asks {string} {int} times over")]
async fn asks_at_length(lab: &mut Lab, message: String, times: usize) {
    asks(lab, message.repeat(times)).await;
}

#[when(expr = "the host sends {string}")]
async fn sends(lab: &mut Lab, message: String) {
    send(lab, &message, Delivery::Queue).await;
}

#[when(expr = "the host sends {string} only if the session is idle")]
async fn sends_if_idle(lab: &mut Lab, message: String) {
    send(lab, &message, Delivery::Reject).await;
}

#[when(expr = "the host follows up with {string}")]
async fn follows_up(lab: &mut Lab, message: String) {
    let session = lab.session().await;
    let receipt = within("a receipt", session.follow_up(text(&message))).await.unwrap();
    lab.receipts.push(receipt);
}

#[when(expr = "the host steers {string}")]
async fn steers(lab: &mut Lab, message: String) {
    let session = lab.session().await;
    let receipt = within("a receipt", session.steer(text(&message))).await.unwrap();
    lab.receipts.push(receipt);
}

#[when(expr = "the host steers {string} after the batch")]
async fn steers_after_the_batch(lab: &mut Lab, message: String) {
    send(lab, &message, Delivery::Steer(Steering::FinishBatch)).await;
}

#[when(expr = "the host steers {string} and stops what runs")]
async fn steers_and_stops(lab: &mut Lab, message: String) {
    send(lab, &message, Delivery::Steer(Steering::AbortRunning)).await;
}

#[when(expr = "the host aborts because of {string}")]
async fn aborts(lab: &mut Lab, reason: String) {
    let session = lab.session().await;
    within("the abort", session.abort(reason)).await.unwrap();
}

#[when(expr = "the host withdraws {string}")]
async fn withdraws(lab: &mut Lab, message: String) {
    let waiting = waiting(lab, &message).await;
    lab.session().await.withdraw(waiting.message.id.clone()).await.unwrap();
}

#[when(expr = "the host changes {string} into {string}")]
async fn changes(lab: &mut Lab, message: String, into: String) {
    let waiting = waiting(lab, &message).await;
    let changed = Message::user(text(&into)).with_id(waiting.message.id.clone());
    lab.session().await.edit(changed).await.unwrap();
}

async fn waiting(lab: &mut Lab, message: &str) -> Waiting {
    let queue = lab.session().await.queue().await.unwrap();
    let found = queue.into_iter().find(|waiting| waiting.message.text() == message);
    found.expect("the message does not wait")
}

/// Waits for the turn of the newest message.
#[when("the answer arrives")]
pub(super) async fn answer_arrives(lab: &mut Lab) {
    let receipt = lab.receipts.last().expect("nothing was sent").clone();
    wait_for(lab, &receipt).await;
}

async fn wait_for(lab: &mut Lab, receipt: &Receipt) {
    lab.answer = Some(within("the answer", receipt.wait()).await.unwrap());
    lab.catch_up().await;
}

/// Waits for the turn of the message that was sent as the so manieth.
#[when(expr = "the answer to message {int} arrives")]
async fn answer_to_arrives(lab: &mut Lab, number: usize) {
    let receipt = lab.receipts[number - 1].clone();
    wait_for(lab, &receipt).await;
}

#[when("the session is idle")]
async fn idle(lab: &mut Lab) {
    let session = lab.session().await;
    within("the session to be idle", session.wait()).await.unwrap();
    lab.catch_up().await;
}

#[when(expr = "a call of {word} is held")]
async fn call_is_held(lab: &mut Lab, tool: String) {
    within("a call to be held", lab.holds.arrived(&tool)).await;
}

#[when(expr = "the call of {word} goes on")]
fn call_goes_on(lab: &mut Lab, tool: String) {
    lab.holds.release(&tool);
}

#[when(expr = "the model waits at {string}")]
async fn model_waits(lab: &mut Lab, gate: String) {
    within("the model", lab.model.barrier(&gate).reached()).await;
}

#[when(expr = "the model goes on at {string}")]
fn model_goes_on(lab: &mut Lab, gate: String) {
    lab.model.barrier(&gate).release();
}

#[when(expr = "the text {string} has been shown")]
async fn text_shown(lab: &mut Lab, wanted: String) {
    let wanted = text(&wanted);
    lab.until("a text delta", |events| {
        let texts = events.iter().filter_map(|event| match &event.kind {
            EventKind::TextDelta { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<String>().contains(&wanted)
    })
    .await;
}

/// The command has written its process id there.
#[when(expr = "the command of {string} runs")]
async fn command_runs(lab: &mut Lab, file: String) {
    let path = lab.path(&file);
    seen("the command to run", || std::fs::read_to_string(&path).is_ok_and(|id| id.ends_with('\n'))).await;
}

#[when(expr = "the call {word} is over")]
async fn call_is_over(lab: &mut Lab, id: String) {
    lab.until("the end of a call", |events| {
        events.iter().any(|event| matches!(&event.kind, EventKind::CallFinished { call, .. } if call.as_str() == id))
    })
    .await;
}

#[when("the host lets the session go on")]
async fn lets_go_on(lab: &mut Lab) {
    let session = lab.session().await;
    within("the wish to go on", session.go_on()).await.unwrap();
}

#[when("the host stops listening")]
fn stops_listening(lab: &mut Lab) {
    lab.stop_listening();
}

/// Answers the open ask.
#[when(regex = r"^the (?:host|operator) answers the ask with (once|always|reject)$")]
async fn answers_the_ask(lab: &mut Lab, grant: String) {
    let ask = open_ask(lab).await;
    let grant = match grant.as_str() {
        "once" => Grant::Once,
        "always" => Grant::Always(Scope::Session),
        _ => Grant::Reject(None),
    };
    lab.session().await.answer(ask, grant).await.unwrap();
}

#[when(expr = "the operator rejects the ask with {string}")]
async fn rejects_the_ask(lab: &mut Lab, words: String) {
    let ask = open_ask(lab).await;
    lab.session().await.answer(ask, Grant::Reject(Some(words))).await.unwrap();
}

#[when(expr = "the operator rejects the next ask with {string}")]
async fn rejects_the_next_ask(lab: &mut Lab, words: String) {
    reject_next_ask(lab, Some(words)).await;
}

pub(super) async fn reject_next_ask(lab: &mut Lab, words: Option<String>) {
    let ask = next_ask(lab).await;
    lab.session().await.answer(ask, Grant::Reject(words)).await.unwrap();
}

#[when("the operator rejects the next ask without a word")]
async fn rejects_without_a_word(lab: &mut Lab) {
    reject_next_ask(lab, None).await;
}

#[when(regex = r"^the operator grants offer (\d) for the (turn|session)$")]
async fn grants_an_offer(lab: &mut Lab, offer: u32, scope: String) {
    let ask = open_ask(lab).await;
    let scope = if scope == "turn" { Scope::Turn } else { Scope::Session };
    lab.session().await.answer(ask, Grant::Offered { scope, offer }).await.unwrap();
}

#[when("the operator revokes the grant")]
async fn revokes(lab: &mut Lab) {
    let session = lab.session().await;
    let [grant] = &session.grants().await.unwrap()[..] else { panic!("there is not one grant") };
    session.revoke(grant.id).await.unwrap();
}

/// The newest ask, when as many were asked as the tape has answers to, and one more.
async fn next_ask(lab: &Lab) -> Seq {
    let count = |events: &[std::sync::Arc<tamtam::Event>], closed: bool| {
        let is_it = |kind: &EventKind| match kind {
            EventKind::Ask { .. } => !closed,
            EventKind::AskClosed { .. } => closed,
            _ => false,
        };
        events.iter().filter(|event| is_it(&event.kind)).count()
    };
    lab.until("an ask", |events| count(events, false) > count(events, true)).await;
    open_ask(lab).await
}

async fn open_ask(lab: &Lab) -> Seq {
    let newest = |events: &[std::sync::Arc<tamtam::Event>]| {
        events.iter().rev().find_map(|event| match &event.kind {
            EventKind::Ask { ask, .. } => Some(*ask),
            _ => None,
        })
    };
    lab.until("an ask", |events| newest(events).is_some()).await;
    newest(&lab.events()).unwrap()
}

#[when("the runtime is shut down and started again")]
async fn restarted(lab: &mut Lab) {
    lab.restart().await;
}

#[when("the operator restarts the session")]
async fn session_restarted(lab: &mut Lab) {
    let id = lab.session().await.id().clone();
    within("the restart", lab.runtime().operate().restart(id.as_str())).await.unwrap();
}

#[when(expr = "the operator is asked about {word}")]
async fn is_asked(lab: &mut Lab, tool: String) {
    let asked = |event: &tamtam::Event| matches!(&event.kind, EventKind::Ask { name, .. } if *name == tool);
    lab.until("the ask", |events| events.iter().any(|event| asked(event))).await;
}

#[when(expr = "the operator writes {string} into the file {string}")]
fn writes(lab: &mut Lab, content: String, name: String) {
    std::fs::write(lab.path(&name), text(&content)).unwrap();
}
