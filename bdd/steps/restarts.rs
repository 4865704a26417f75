//! Deaths and starts: what a host and an operator do to a runtime, and what its sessions do about it.

use cucumber::{given, then, when};
use serde_json::json;
use tamtam::{Delivery, Message, Outcome, model::Reply, session::Record};

use crate::lab::{Lab, seen, within};

#[when("the process is killed and started again")]
async fn killed(lab: &mut Lab) {
    lab.kill().await;
}

#[when(regex = r#"^the model waits at "(.+)" for the (\d+)(?:nd|rd|th) time$"#)]
async fn waits_again(lab: &mut Lab, gate: String, times: u64) {
    within("the model", lab.model.barrier(&gate).reached_times(times)).await;
}

#[given(expr = "the model hangs before it reads the next line, {int} times over")]
fn hangs_and_reads(lab: &mut Lab, times: usize) {
    std::fs::write(lab.path("lines.txt"), "line\n".repeat(times)).unwrap();
    for line in 1..=times {
        let read = json!({"path": "lines.txt", "offset": line, "limit": 1}).to_string();
        lab.reply(Reply::empty().at_barrier(format!("line {line}")).with_raw_call("", "read", read));
    }
}

#[when(expr = "the process is killed each time the model hangs, and the next life gets further, {int} times over")]
async fn killed_again(lab: &mut Lab, times: usize) {
    for life in 1..=times {
        let gate = lab.model.barrier(&format!("line {life}"));
        within("the model", gate.reached()).await;
        lab.kill().await;
        gate.release();
    }
}

#[when("the session crashes until it is kept stopped")]
async fn crashes(lab: &mut Lab) {
    let session = lab.session().await;
    let runtime = lab.runtime().clone();
    for crash in 1..=3 {
        within("the session to be awake", session.state()).await.unwrap();
        runtime.operate().crash(session.id().as_str(), "drill").unwrap();
        seen("the crash", || runtime.crashes().len() == crash).await;
    }
    seen("the session to be kept stopped", || !runtime.parked().is_empty()).await;
}

#[when("the runtime is shut down and started again, and opens nothing")]
async fn started_again(lab: &mut Lab) {
    lab.restart_unopened().await;
}

#[when("the operator lets the session go")]
async fn lets_go(lab: &mut Lab) {
    let session = lab.session().await;
    within("the lever", lab.runtime().operate().unpark(session.id().as_str())).await.unwrap();
}

/// The same words under the same id, to whatever runtime is there now.
#[when(expr = "the host sends message {int} again")]
async fn sends_again(lab: &mut Lab, number: usize) {
    let session = lab.session().await;
    let known = lab.receipts[number - 1].message.clone();
    let entries = session.entries().await.unwrap();
    let sent = entries.into_iter().find_map(|entry| match entry.record {
        Record::Accepted { message, .. } if message.id == known => Some(message),
        _ => None,
    });
    let again = Message::user(sent.expect("it was sent").text()).with_id(known);
    let receipt = within("a receipt", session.send(again, Delivery::Queue)).await.unwrap();
    assert!(receipt.known_before, "{receipt:?}");
    lab.receipts.push(receipt);
}

#[then(expr = "the turn was given up after {int} crashes")]
fn given_up(lab: &mut Lab, recoveries: u32) {
    assert_eq!(lab.answer().outcome, Outcome::RecoveryLimit { recoveries });
}
